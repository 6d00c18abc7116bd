//! What the session says, done at the edges.
//!
//! Nothing here waits. What takes time is ordered from whoever has a task for it, or is the sink's [turn](super::turn).

use walpost_core::frame::StatusUpdate;
use walpost_core::poison::{Conclusion, DeadLetter, LetterId};
use walpost_core::port::{Refusal, Source, Ticket, TransactionalSink};
use walpost_core::position::Progress;
use walpost_core::session::Action;
use walpost_core::time::Moment;

use super::Driver;
use super::letters::Order;
use super::turn::Turn;
use crate::journal;

impl<S: Source> Driver<'_, S> {
    /// Gives the session the frames that it wants and performs all that it says, up to what has to be waited for.
    pub(super) fn advance<K: TransactionalSink>(&mut self, mut sink: Option<&mut K>) -> Option<Turn> {
        loop {
            let now = self.clock.now();
            while self.session.wants_frames()
                && let Some(frame) = self.frames.pop_front()
            {
                self.session.receive(&frame, now);
            }
            if let Some(turn) = self.perform_all(sink.as_deref_mut(), now) {
                return Some(turn);
            }
            if self.end.is_some() || self.frames.is_empty() || !self.session.wants_frames() {
                return None;
            }
        }
    }

    /// Performs until there is nothing more to do, or the sink's turn comes. Without a sink nothing is published.
    fn perform_all<K: TransactionalSink>(&mut self, mut sink: Option<&mut K>, now: Moment) -> Option<Turn> {
        while let Some(action) = self.session.poll(now) {
            match action {
                Action::Publish(ticket, record) => {
                    let accepted = sink.as_deref_mut().map_or(Err(Refusal::Full), |sink| sink.publish(ticket, record));
                    if let Err(refusal) = accepted {
                        journal::refused(record, &refusal);
                        self.recorder.refused(&refusal);
                        self.session.refused(ticket, refusal, now);
                    }
                }
                Action::Describe(relation, table) => {
                    if let Err(reason) = self.describer.ask(relation, table) {
                        self.give_up_undescribed(reason);
                    }
                }
                Action::SetAside(ticket, letter) => self.set_aside(sink.as_deref_mut(), ticket, letter, now),
                Action::Conclude(letter, conclusion) => self.conclude(sink.as_deref_mut(), letter, conclusion, now),
                Action::TakeInventory => self.order(Order::TakeInventory),
                Action::ResetSink => return Some(Turn::Reset),
                Action::Commit(progress) => {
                    self.recorder.checkpoint_ordered();
                    return Some(Turn::Commit(progress));
                }
                Action::Checkpoint(progress) => self.order_checkpoint(progress),
                Action::Confirm(status) => self.confirm(status),
                Action::Notice(notice) => journal::notice(&notice),
                Action::End(end) => {
                    self.end = Some(end);
                    break;
                }
            }
        }
        None
    }

    /// A row is set aside in the group that is open, or else in a store.
    fn set_aside<K: TransactionalSink>(
        &mut self,
        sink: Option<&mut K>,
        ticket: Ticket,
        letter: Box<DeadLetter>,
        now: Moment,
    ) {
        if self.session.is_grouping() {
            let is_new = match sink.map_or(Err(Refusal::Full), |sink| sink.set_aside(&letter)) {
                Ok(is_new) => is_new,
                Err(refusal) => return self.letter_refused(refusal, now),
            };
            self.tell_set_aside(&letter);
            self.session.set_aside(ticket, is_new);
        } else {
            self.tell_set_aside(&letter);
            self.order(Order::SetAside(ticket, letter));
        }
    }

    fn tell_set_aside(&mut self, letter: &DeadLetter) {
        self.letters_told += 1;
        journal::set_aside(letter, self.letters_told);
    }

    /// The same for how a letter ended.
    fn conclude<K: TransactionalSink>(
        &mut self,
        sink: Option<&mut K>,
        letter: LetterId,
        conclusion: Conclusion,
        now: Moment,
    ) {
        if self.session.is_grouping() {
            if let Err(refusal) = sink.map_or(Err(Refusal::Full), |sink| sink.conclude(letter, &conclusion)) {
                return self.letter_refused(refusal, now);
            }
            journal::concluded(letter, &conclusion);
            self.session.concluded(letter);
        } else {
            journal::concluded(letter, &conclusion);
            self.order(Order::Conclude(letter, conclusion));
        }
    }

    fn letter_refused(&mut self, refusal: Refusal, now: Moment) {
        if let Refusal::Failed(failure) = &refusal {
            journal::undelivered(failure);
        }
        self.session.letter_refused(refusal, now);
    }

    fn order(&mut self, order: Order) {
        match &mut self.letters {
            Some(letters) => letters.order(order),
            // No policy that sets rows aside goes without.
            None => self.session.letters_failed("nothing is set aside here", self.clock.now()),
        }
    }

    fn order_checkpoint(&mut self, progress: Progress) {
        self.recorder.checkpoint_ordered();
        if let Err(failure) = self.checkpointer.order(progress) {
            self.on_checkpoint(Err(failure));
        }
    }

    fn confirm(&mut self, status: StatusUpdate) {
        if let Some(source) = &mut self.source
            && let Err(error) = source.confirm(status)
        {
            self.lose_source(Some(error));
        }
    }
}
