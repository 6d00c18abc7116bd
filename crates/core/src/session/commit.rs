//! What is handed over and when it becomes durable; above all where records, letters and position are committed as one group.
//!
//! A group grows for as long as there is something to add and it is not large enough, and is committed where a transaction of the source ends.
//! It is never waited with: an open transaction of the sink keeps everybody who reads committed records from what lies behind it.

use crate::failure::Failure;
use crate::feedback::Wanted;
use crate::port::{Delivery, Ticket};
use crate::position::{Identity, Progress};
use crate::record::Record;
use crate::time::Moment;

use super::group::Group;
use super::letters::Order;
use super::{Action, Cause, Phase, Session};

impl Session {
    /// The next record to hand over, if one may go now.
    pub(super) fn next_publication(&mut self, now: Moment) -> Option<Ticket> {
        if !self.may_hand_over(now) {
            self.outbound.pass(now);
            return None;
        }
        let ticket = self.outbound.next_publication(now)?;
        if let (Some(group), Some(record)) = (&mut self.group, self.outbound.record(ticket)) {
            group.add(record.weight(), now);
        }
        Some(ticket)
    }

    /// What to ask of the store of the letters now. Where that is the sink, letters are added to the group on the terms of records; only how one
    /// ended that is in it already is said also when nothing more is to come.
    pub(super) fn next_order(&mut self, now: Moment) -> Option<Order> {
        let takes_rows = match &self.group {
            None => true,
            Some(group) if group.is_broken() || self.feedback.is_saving() => return None,
            Some(_) => self.takes_more(),
        };
        self.outbound.next_order(takes_rows, now)
    }

    pub(super) fn order(&mut self, order: Order, now: Moment) -> Option<Action<'_>> {
        let (action, weight) = match order {
            Order::SetAside(ticket, cause) => {
                let letter = Box::new(self.outbound.letter(ticket, cause)?);
                let weight = letter.weight();
                (Action::SetAside(ticket, letter), weight)
            }
            Order::Conclude(letter, conclusion) => (Action::Conclude(letter, conclusion), Record::OVERHEAD),
            Order::TakeInventory => return Some(Action::TakeInventory),
        };
        self.group.iter_mut().for_each(|group| group.add(weight, now));
        Some(action)
    }

    /// Whether records may be added to the group, where there are groups.
    fn may_hand_over(&self, now: Moment) -> bool {
        let Some(group) = &self.group else { return true };
        let is_closed = group.is_full(now) && self.outbound.ledger.is_between_transactions();
        self.takes_more() && !is_closed && !group.is_broken() && !self.feedback.is_saving()
    }

    /// Whether what was taken from the log goes into the group still. A session that ends for lack of its source may lack the end of a transaction
    /// too, and adds nothing.
    fn takes_more(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Ending { cause: Cause::Stopped, .. })
    }

    /// What is to be made durable now, if anything is.
    pub(super) fn poll_progress(&mut self, now: Moment) -> Option<Progress> {
        let wanted = self.wanted_progress(now)?;
        self.feedback.poll_checkpoint(self.outbound.ledger.watermark(), wanted, now)
    }

    /// How soon progress is wanted durable; `None` while it cannot be: a group is committed as a whole, once the sink has all of it and no more is
    /// to come. Where it is held up between transactions no more is to come, and what is open keeps readers waiting.
    pub(super) fn wanted_progress(&self, now: Moment) -> Option<Wanted> {
        let in_time = if self.is_settled_for_good(now) { Wanted::Now } else { Wanted::InTime };
        let Some(group) = &self.group else { return Some(in_time) };
        if !self.can_commit(group) || self.is_out_of_time(now) {
            return None;
        }
        let grows = self.outbound.has_more() && self.may_hand_over(now);
        match group.is_empty() {
            true => Some(in_time),
            false => (!grows).then_some(Wanted::InAnyCase),
        }
    }

    pub(super) fn can_commit(&self, group: &Group) -> bool {
        !group.is_broken() && self.outbound.ledger.is_at_rest() && !self.outbound.letters.has_ends()
    }

    /// Gives a group up that is held up in the midst of a transaction for too long. The next session begins that one anew, and what of it was
    /// there already keeps nobody waiting until then.
    pub(super) fn watch_hold(&mut self, now: Moment) {
        let Self { group: Some(group), outbound, feedback, .. } = self else { return };
        let is_open = !group.is_empty() && !feedback.is_saving();
        let Some(trouble) = outbound.hold_up().filter(|_| is_open && !outbound.ledger.is_between_transactions()) else {
            return group.go_on();
        };
        group.hold(now);
        if group.hold_ends_at().is_some_and(|end| now >= end) {
            let trouble = trouble.clone();
            self.abort(None, trouble, now);
        }
    }

    /// The row and the failure of a delivery that takes its group with it.
    pub(super) fn failed_in_group(&self, delivery: &Delivery) -> Option<(Option<Identity>, Failure)> {
        self.group.as_ref().filter(|_| self.outbound.ledger.is_out(delivery.ticket))?;
        let failure = delivery.outcome.as_ref().err()?.clone();
        Some((self.outbound.record(delivery.ticket).map(|record| record.identity), failure))
    }
}
