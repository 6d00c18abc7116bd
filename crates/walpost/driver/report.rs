//! What the edges report, told to the session.

use walpost_core::failure::{Class, Failure};
use walpost_core::poison::Marked;
use walpost_core::port::{Delivery, Source};

use super::Driver;
use super::checkpointer::StoreFailure;
use super::describer::{self, NoAnswer};
use super::letters::{self, Failed, LetterWriter, Unread};
use crate::journal;

/// How many undelivered records get a line of their own before the sink is reset. All that is in flight to a topic that went
/// away fails at once.
pub(super) const TOLD_APART: u64 = 10;

/// What can be reported by anybody but the sink, whose deliveries come many at a time.
pub(super) enum Report<E> {
    /// The source has put frames into the batch, or has ended.
    Frames(Result<(), E>),
    Checkpoint(Result<(), StoreFailure>),
    Description(Result<describer::Answer, NoAnswer>),
    Letters(Result<letters::Answer, Failed>),
    Deadline,
    Stop,
    ServerGone,
}

impl<S: Source> Driver<'_, S> {
    pub(super) fn take(&mut self, report: Report<S::Error>) {
        match report {
            Report::Frames(received) => {
                self.frames.extend(self.batch.drain(..));
                if let Err(error) = received {
                    self.lose_source(Some(error));
                }
            }
            Report::Checkpoint(outcome) => self.on_checkpoint(outcome),
            Report::Description(Ok(describer::Answer { relation, description })) => {
                self.session.described(relation, &description);
            }
            Report::Description(Err(reason)) => self.give_up_undescribed(reason),
            Report::Letters(answer) => self.on_letters(answer),
            Report::Deadline => {}
            Report::Stop => {
                self.is_stopping = true;
                self.session.stop(self.clock.now());
            }
            Report::ServerGone => self.lose_source(None),
        }
    }

    pub(super) fn settle(&mut self, deliveries: &mut Vec<Delivery>) {
        let now = self.clock.now();
        for delivery in deliveries.drain(..) {
            match &delivery.outcome {
                Ok(()) => {
                    journal::delivered(now);
                    self.recorder.delivered();
                }
                Err(failure) => self.tell(failure),
            }
            self.session.settle(delivery, now);
        }
    }

    fn tell(&mut self, failure: &Failure) {
        self.recorder.undelivered(failure);
        // The failure in front of one that was withdrawn says why.
        if failure.class != Class::Withdrawn {
            self.failures += 1;
            if self.failures <= TOLD_APART {
                journal::undelivered(failure);
            }
        }
    }

    /// Ends the session in order when the sink will take nothing: no record need be lost to say so.
    pub(super) fn heed(&mut self, verdict: Option<Failure>) {
        if verdict.is_some() && self.sink_verdict.is_none() {
            self.sink_verdict = verdict;
            self.session.stop(self.clock.now());
        }
    }

    pub(super) fn on_checkpoint(&mut self, outcome: Result<(), StoreFailure>) {
        self.recorder.checkpoint_answered(outcome.is_ok());
        match outcome {
            Ok(()) => self.session.checkpointed(),
            Err(StoreFailure { reason, is_final: false }) => {
                tracing::warn!(reason, "the checkpoint could not be written; it is tried again");
                self.session.checkpoint_failed(self.clock.now());
            }
            Err(StoreFailure { reason, is_final: true }) => {
                tracing::error!(reason, "the checkpoint is no longer ours to write; the stream is given up");
                self.session.checkpoint_failed(self.clock.now());
                self.lose_source(None);
            }
        }
    }

    /// Without a description nothing more is taken from the stream.
    pub(super) fn give_up_undescribed(&mut self, reason: NoAnswer) {
        tracing::error!(%reason, "the stream is given up");
        self.lose_source(None);
    }

    fn on_letters(&mut self, answer: Result<letters::Answer, Failed>) {
        match answer {
            Ok(letters::Answer::SetAside(rows)) => {
                rows.into_iter().for_each(|(ticket, is_new)| self.session.set_aside(ticket, is_new));
            }
            Ok(letters::Answer::Concluded(letters)) => {
                letters.into_iter().for_each(|letter| self.session.concluded(letter));
            }
            Ok(letters::Answer::Inventory(inventory)) => self.session.inventoried(inventory),
            Ok(letters::Answer::Marked(marked)) => self.on_marked(marked),
            Err(failed) => self.on_letters_failed(failed),
        }
    }

    fn on_marked(&mut self, marked: Vec<Marked>) {
        if std::mem::take(&mut self.are_marks_unread) {
            journal::marks_read_again();
        }
        let has_found = !marked.is_empty();
        self.session.replay(marked);
        match self.letters.as_mut().filter(|_| has_found) {
            // Whatever was found, the session had it already.
            Some(letters) if self.session.wants_marked() => letters.is_behind(),
            Some(letters) => letters.is_up_to_date(),
            None => {}
        }
    }

    fn on_letters_failed(&mut self, failed: Failed) {
        match failed {
            Failed::Order(reason) => {
                journal::letters_failed(&reason);
                self.session.letters_failed(&reason, self.clock.now());
            }
            // Nothing is held for it: the session need not know.
            Failed::Look { reason, is_new } => {
                self.are_marks_unread = true;
                if is_new {
                    journal::marks_unread(&reason);
                }
            }
            // The connection is given up, and the next brings another.
            Failed::Gone => {
                journal::letters_gone();
                self.lose_source(None);
            }
        }
    }

    /// Writes down since when it is not known which letters are marked.
    pub(super) fn record_marks(&mut self) {
        let unread = self.letters.as_ref().and_then(LetterWriter::unread);
        let unread = unread.map(|Unread { since, reason }| (reason, self.clock.moment_of(since)));
        self.recorder.marks_unread(unread);
    }
}
