//! Edges that do as they are told, and write down what they saw.

use std::cell::{Cell, RefCell};
use std::future::pending;
use std::rc::Rc;

use walpost_core::description::Description;
use walpost_core::frame::StatusUpdate;
use walpost_core::poison::{Conclusion, DeadLetter, Inventory, LetterId, Marked};
use walpost_core::port::{Checkpoints, DeadLetters, Delivery, Describe, Refusal, Sink, Ticket};
use walpost_core::position::{Checkpoint, Epoch};
use walpost_core::record::Record;

use super::*;

/// What the edges saw.
#[derive(Debug, Default)]
pub(super) struct Seen {
    pub(super) confirmed: RefCell<Vec<u64>>,
    pub(super) published: RefCell<Vec<u64>>,
    /// The position of each commit, and how many records were published before it.
    pub(super) committed: RefCell<Vec<(u64, usize)>>,
    /// What a sink of transactions set aside, and what it was told of ends, in the order of both.
    pub(super) set_aside: RefCell<Vec<u64>>,
    pub(super) concluded: RefCell<Vec<(LetterId, Conclusion)>>,
    pub(super) resets: Cell<u32>,
    pub(super) taken: Cell<usize>,
    pub(super) is_closed: Cell<bool>,
    pub(super) is_finished: Cell<bool>,
    pub(super) questions: Cell<u32>,
    pub(super) is_catalogue_dropped: Cell<bool>,
}

/// A stream that has so many frames, and then nothing more or its end.
pub(super) struct Stream {
    pub(super) seen: Rc<Seen>,
    pub(super) frames: VecDeque<Frame>,
    pub(super) ends: bool,
    /// More frames, once a reset is under way.
    pub(super) during_reset: VecDeque<Frame>,
}

#[derive(Debug, thiserror::Error)]
#[error("the stream has run dry")]
pub(super) struct Dry;

impl Source for Stream {
    type Error = Dry;

    async fn next_frames(&mut self, into: &mut Vec<Frame>) -> Result<(), Dry> {
        loop {
            let is_resetting = self.seen.resets.get() > 0;
            let next =
                self.frames.pop_front().or_else(|| is_resetting.then(|| self.during_reset.pop_front()).flatten());
            match next {
                Some(frame) => {
                    self.seen.taken.set(self.seen.taken.get() + 1);
                    into.push(frame);
                    return Ok(());
                }
                None if self.ends => return Err(Dry),
                None => pending().await,
            }
        }
    }

    fn confirm(&mut self, status: StatusUpdate) -> Result<(), Dry> {
        self.seen.confirmed.borrow_mut().push(status.confirmed.get());
        Ok(())
    }

    async fn finish(self) {
        self.seen.is_finished.set(true);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.seen.is_closed.set(true);
    }
}

/// A broker that gives one outcome to all, and whose reset ends or does not.
pub(super) struct Broker {
    pub(super) seen: Rc<Seen>,
    pub(super) outcome: Result<(), Failure>,
    pub(super) reports: Vec<Delivery>,
    pub(super) reset_ends: bool,
    pub(super) commit_ends: bool,
    pub(super) commit_failure: Option<Failure>,
    /// So often it has no room for a letter, or for the end of one.
    pub(super) full_for: u32,
    pub(super) letter_failure: Option<Failure>,
    pub(super) verdict: Option<Failure>,
}

impl Sink for Broker {
    fn publish(&mut self, ticket: Ticket, _: &Record) -> Result<(), Refusal> {
        self.seen.published.borrow_mut().push(ticket.0);
        self.reports.push(Delivery { ticket, outcome: self.outcome.clone() });
        Ok(())
    }

    async fn next_deliveries(&mut self, into: &mut Vec<Delivery>) {
        if self.reports.is_empty() && self.verdict.is_none() {
            pending::<()>().await;
        }
        into.append(&mut self.reports);
    }

    fn verdict(&self) -> Option<Failure> {
        self.verdict.clone()
    }

    async fn reset(&mut self) -> Result<(), Failure> {
        self.seen.resets.set(self.seen.resets.get() + 1);
        if !self.reset_ends {
            pending::<()>().await;
        }
        self.outcome = Ok(());
        Ok(())
    }
}

impl TransactionalSink for Broker {
    async fn commit(&mut self, checkpoint: &Checkpoint) -> Result<(), Failure> {
        self.seen.committed.borrow_mut().push((checkpoint.position.get(), self.seen.published.borrow().len()));
        if !self.commit_ends {
            pending::<()>().await;
        }
        self.commit_failure.clone().map_or(Ok(()), Err)
    }

    fn set_aside(&mut self, letter: &DeadLetter) -> Result<bool, Refusal> {
        self.take_letter()?;
        self.seen.set_aside.borrow_mut().push(letter.identity.ordinal);
        Ok(true)
    }

    fn conclude(&mut self, letter: LetterId, conclusion: &Conclusion) -> Result<(), Refusal> {
        self.take_letter()?;
        self.seen.concluded.borrow_mut().push((letter, conclusion.clone()));
        Ok(())
    }
}

impl Broker {
    fn take_letter(&mut self) -> Result<(), Refusal> {
        if self.full_for > 0 {
            self.full_for -= 1;
            return Err(Refusal::Full);
        }
        self.letter_failure.clone().map_or(Ok(()), |failure| Err(failure.into()))
    }
}

/// A store that takes everything, or says why not.
pub(super) struct Store(pub(super) Result<(), StoreError>);

#[derive(Debug, Clone, Copy, thiserror::Error)]
pub(super) enum StoreError {
    #[error("another has it")]
    Fenced,
}

impl Checkpoints for Store {
    type Error = StoreError;

    async fn load(&mut self) -> Result<Option<Checkpoint>, StoreError> {
        Ok(None)
    }

    async fn claim(&mut self, _: &Checkpoint) -> Result<Epoch, StoreError> {
        Ok(Epoch(1))
    }

    async fn save(&mut self, _: &Checkpoint) -> Result<(), StoreError> {
        self.0
    }
}

/// A catalogue that fails so often before it describes, or never answers at all.
pub(super) struct Catalogue {
    pub(super) seen: Rc<Seen>,
    pub(super) failures: u32,
    pub(super) answers: bool,
    /// It fails without a word.
    pub(super) is_silent: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("the catalogue is away")]
pub(super) struct Away {
    pub(super) is_silent: bool,
}

impl Describe for Catalogue {
    type Error = Away;

    async fn describe(&mut self, relation: u32) -> Result<Description, Away> {
        assert_eq!(relation, RELATION);
        self.seen.questions.set(self.seen.questions.get() + 1);
        if !self.answers {
            pending::<()>().await;
        }
        let is_away = self.seen.questions.get() <= self.failures;
        if is_away { Err(Away { is_silent: self.is_silent }) } else { Ok(Description::default()) }
    }
}

impl Drop for Catalogue {
    fn drop(&mut self) {
        self.seen.is_catalogue_dropped.set(true);
    }
}

/// Dead letters in memory, which fail so often before they are kept.
#[derive(Clone, Default)]
pub(super) struct Letters {
    pub(super) kept: Rc<RefCell<Vec<DeadLetter>>>,
    pub(super) batches: Rc<Cell<u32>>,
    pub(super) marked: Rc<RefCell<Vec<Marked>>>,
    /// It offers what was marked again and again.
    pub(super) is_behind: bool,
    pub(super) looks: Rc<Cell<u32>>,
    pub(super) ended: Rc<RefCell<Vec<(LetterId, Conclusion)>>>,
    pub(super) failures: Rc<Cell<u32>>,
    /// So many looks for marks fail.
    pub(super) failing_looks: Rc<Cell<u32>>,
}

#[derive(Debug, thiserror::Error)]
#[error("the letters are away")]
pub(super) struct LettersAway;

impl Letters {
    fn attempt(failures: &Cell<u32>) -> Result<(), LettersAway> {
        match failures.get() {
            0 => Ok(()),
            count => {
                failures.set(count - 1);
                Err(LettersAway)
            }
        }
    }
}

impl DeadLetters for Letters {
    type Error = LettersAway;

    async fn inventory(&mut self) -> Result<Inventory, LettersAway> {
        Self::attempt(&self.failures).map(|()| Inventory::default())
    }

    async fn set_aside(&mut self, letters: &[DeadLetter]) -> Result<Vec<bool>, LettersAway> {
        Self::attempt(&self.failures)?;
        self.batches.set(self.batches.get() + 1);
        self.kept.borrow_mut().extend_from_slice(letters);
        Ok(vec![true; letters.len()])
    }

    async fn marked(&mut self, _: usize, _: bool) -> Result<Vec<Marked>, LettersAway> {
        self.looks.set(self.looks.get() + 1);
        let marked = || if self.is_behind { self.marked.borrow().clone() } else { self.marked.take() };
        Self::attempt(&self.failing_looks).map(|()| marked())
    }

    async fn conclude(&mut self, ends: &[(LetterId, Conclusion)]) -> Result<(), LettersAway> {
        Self::attempt(&self.failures).map(|()| self.ended.borrow_mut().extend_from_slice(ends))
    }
}
