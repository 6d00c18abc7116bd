//! How far behind the relay is, in seconds.
//!
//! The time since the last settled commit would be wrong twice: after a quiet night the first row would stand for eight hours of delay, and a stream that
//! brings nothing would look like a quiet one. So it is the longest of three waits:
//!
//! 1. of the oldest transaction that was received and is not wholly settled: the time since it committed;
//! 2. of log that the server has and the relay has not: the time since the server was first seen beyond what was received;
//! 3. while there is no stream: the time since there was none, for nobody knows what was committed meanwhile.
//!
//! It is 0 when nothing is owed and the server has nothing more. A relay that stands by for another's slot is not behind anything.
//! The first wait compares the server's clock with ours.

use std::collections::VecDeque;
use std::time::Duration;

use walpost_core::lsn::Lsn;
use walpost_core::time::{Moment, Timestamp};

use super::board::{Phase, Sight};

/// The server's position may stand behind the header of a page in which no record has been written: 40 bytes at most
/// (`SizeOfXLogLongPHD`).
const PAGE_HEADER: u64 = 40;

/// How many positions are remembered. When there are more, every other one is let go of, and they are taken half as often.
const MAX_SEEN: usize = 2 * HALF as usize;
const HALF: u32 = 128;
/// At which positions the server was seen, and when, from the first that was not received on.
#[derive(Debug, Clone, Default)]
pub struct Horizon {
    seen: VecDeque<(Moment, Lsn)>,
    /// The least time between two.
    step: Duration,
}

impl Horizon {
    /// The server was seen at a position.
    pub fn see(&mut self, now: Moment, flushed: Lsn, received: Option<Lsn>) {
        // A server that is behind itself is another one.
        if self.seen.back().is_some_and(|(_, last)| *last > flushed) {
            self.seen.clear();
        }
        if let Some(received) = received {
            while self.seen.front().is_some_and(|(_, seen)| !is_ahead(*seen, received)) {
                self.seen.pop_front();
            }
        }
        if self.seen.is_empty() {
            self.step = Duration::ZERO;
        }
        if self.seen.back().is_none_or(|(at, last)| *last < flushed && now.since(*at) >= self.step) {
            self.seen.push_back((now, flushed));
        }
        if self.seen.len() > MAX_SEEN {
            self.thin(now);
        }
    }

    fn thin(&mut self, now: Moment) {
        let mut number = 0;
        self.seen.retain(|_| {
            number += 1;
            number % 2 == 1
        });
        let span = self.seen.front().map_or(Duration::ZERO, |(first, _)| now.since(*first));
        self.step = span / HALF;
    }

    /// Since when the server is known to have had more than what was received.
    #[must_use]
    pub fn ahead_since(&self, received: Lsn) -> Option<Moment> {
        self.seen.iter().find(|(_, seen)| is_ahead(*seen, received)).map(|(since, _)| *since)
    }
}

fn is_ahead(seen: Lsn, received: Lsn) -> bool {
    seen.bytes_since(received) > PAGE_HEADER
}

/// See the module's documentation. `None` while another relay has the slot.
#[must_use]
pub fn behind(sight: &Sight, now: Moment, wall: Timestamp) -> Option<Duration> {
    if matches!(sight.phase, Phase::StandingBy(_)) {
        return None;
    }
    let Some(link) = &sight.link else { return Some(now.since(sight.down_since)) };
    let unsettled = link.view.oldest_unsettled.map(|committed| {
        let micros = wall.unix_micros().saturating_sub(committed.unix_micros());
        Duration::from_micros(u64::try_from(micros).unwrap_or(0))
    });
    let unreceived = sight.server.horizon.ahead_since(link.view.received).map(|since| now.since(since));
    Some(unsettled.max(unreceived).unwrap_or_default())
}
