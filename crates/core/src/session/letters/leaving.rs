//! How a key that has events all the time leaves parking.
//!
//! What is set aside behind letters that go follows by itself, but it takes a while: it is stored, found, sent, and noted as sent. Of a busy key the next
//! row is there before that is over, and would be set aside in turn, for ever. So once all that lies there of a key is known to be on its way out, and is
//! little, the next row of it waits instead, and the stream with it, until the key is let go: some hundredths of a second, once. It is not waited for long, nor
//! for an operator, nor for a store that has failed.

use std::time::Duration;

use crate::poison::{LoggedRow, ParkingKey};
use crate::port::Ticket;
use crate::position::{Identity, Place};
use crate::time::Moment;

use super::Letters;
use super::lying::Parking;

/// How many letters of a key are waited for.
const FEW: u64 = 500;

/// For how long the stream waits at most. Where that was not enough, it is not waited for the same key again before ten times as long.
const PATIENCE: Duration = Duration::from_secs(2);

/// What the letters of its key mean to a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::session) enum Stance {
    /// Nothing: none lies there, or it comes before them.
    Free,
    /// It is to be set aside behind them.
    Parked,
    /// It waits until they have gone, or until this moment.
    Waits {
        until: Moment,
        /// Some of them can be seen only once the group is committed.
        for_commit: bool,
    },
}

impl Letters {
    /// What the letters of its key mean to a row. Where none lies there it costs nothing.
    pub(in crate::session) fn stance(
        &self,
        ticket: Ticket,
        identity: Identity,
        row: &LoggedRow,
        now: Moment,
    ) -> Stance {
        let place = Place::of(identity, row.commit_time);
        let Some(parking) = self.parking(row).filter(|parking| parking.holds(ticket, &place)) else {
            return Stance::Free;
        };
        match parking.leaves_until.filter(|until| now < *until) {
            Some(until) => Stance::Waits { until, for_commit: self.is_grouping && parking.letters > parking.under_way },
            None => Stance::Parked,
        }
    }

    /// Letters were looked for, and taken up. A key leaves if all that lies there of it is under way or follows that, and the first of them is not one that has
    /// only failed so far.
    pub(in crate::session) fn see_what_leaves(&mut self, now: Moment) {
        let is_proven = |key: &ParkingKey| self.is_grouping || self.opened.contains(key);
        let mut keys: Vec<ParkingKey> = self.replays.values().filter_map(|share| share.key.clone()).collect();
        keys.sort_unstable();
        keys.dedup();
        keys.retain(is_proven);
        for key in keys {
            if let Some(parking) = self.lying.parking_mut(&key) {
                parking.leave(now);
            }
        }
    }

    /// No row waits for letters any more.
    pub(in crate::session) fn wait_no_longer(&mut self) {
        self.lying.keys.values_mut().flat_map(|keys| keys.values_mut()).for_each(|parking| parking.leaves_until = None);
    }
}

impl Parking {
    fn leave(&mut self, now: Moment) {
        let are_all_known = self.letters <= self.under_way.saturating_add(self.followers);
        let is_tired = self.leaves_until.is_some_and(|until| now < until.after(10 * PATIENCE));
        if self.letters <= FEW && are_all_known && !is_tired {
            self.leaves_until = Some(now.after(PATIENCE));
        }
    }
}
