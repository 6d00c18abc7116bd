//! The simulated sink of transactions: what it is given becomes visible at once with a commit, or never.
//!
//! Letters of rows that are set aside, and how letters ended, are part of it like records, except that nobody reports on them.

use std::collections::VecDeque;

use crate::failure::{Class, Failure};
use crate::poison::{Conclusion, DeadLetter, LetterId};
use crate::port::{Delivery, Refusal, Ticket};
use crate::record::Record;

use super::super::facts::Facts;
use super::super::random::Random;
use super::super::server::TOPICS;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Broker {
    /// Accepted and not yet acknowledged.
    pub(super) out: VecDeque<(Ticket, Record)>,
    /// Each with whether its record was the only one on its way.
    pub(super) reports: VecDeque<(Delivery, bool)>,
    /// Acknowledged, and seen by nobody yet.
    pub(super) group: Group,
    pub(super) is_broken: bool,
    /// Topics that are missing, or closed to the relay.
    pub(super) closed: [bool; TOPICS.len()],
    /// Once in so many times something goes wrong; never for 0.
    pub(super) trouble: u64,
}

/// What becomes visible together.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) records: Vec<Record>,
    pub(super) letters: Vec<DeadLetter>,
    /// Letters that lay there already, or have ended.
    pub(super) known: Vec<DeadLetter>,
    pub(super) ends: Vec<(LetterId, Conclusion)>,
}

impl Group {
    pub(super) fn len(&self) -> usize {
        self.records.len() + self.letters.len() + self.known.len() + self.ends.len()
    }
}

impl Broker {
    /// What was not committed is gone: whoever comes next fences it.
    pub(super) fn fence(&mut self) {
        *self = Self { closed: self.closed, trouble: self.trouble, ..Self::default() };
    }

    /// Whether a transaction is open.
    pub(super) fn is_open(&self) -> bool {
        !self.out.is_empty() || self.group.len() > 0
    }

    pub(super) fn publish(
        &mut self,
        ticket: Ticket,
        record: &Record,
        facts: &Facts,
        random: &mut Random,
    ) -> Result<(), Refusal> {
        let event = &facts.events[facts.event_of(record)];
        let refuse = |class| Err(Refusal::Failed(Failure::new(class, "refused at once")));
        if self.trouble > 0 && random.one_in(20) {
            return Err(Refusal::Full);
        }
        if self.is_broken {
            return refuse(Class::Withdrawn);
        }
        if event.is_bad && self.trouble > 0 && random.one_in(3) {
            return refuse(Class::Row);
        }
        if self.closed[event.topic] && random.one_in(2) {
            return refuse(Class::Route);
        }
        if self.trouble > 0 && random.one_in(self.trouble * 20) {
            self.is_broken = true;
            return refuse(Class::Sink);
        }
        self.out.push_back((ticket, record.clone()));
        Ok(())
    }

    pub(super) fn set_aside(&mut self, letter: DeadLetter, is_new: bool, random: &mut Random) -> Result<bool, Refusal> {
        self.take_letter(random)?;
        let group = &mut self.group;
        if is_new { &mut group.letters } else { &mut group.known }.push(letter);
        Ok(is_new)
    }

    pub(super) fn conclude(
        &mut self,
        letter: LetterId,
        conclusion: Conclusion,
        random: &mut Random,
    ) -> Result<(), Refusal> {
        self.take_letter(random)?;
        self.group.ends.push((letter, conclusion));
        Ok(())
    }

    fn take_letter(&mut self, random: &mut Random) -> Result<(), Refusal> {
        if self.is_broken {
            return Err(Refusal::Failed(Failure::new(Class::Withdrawn, "nothing is taken after a failure")));
        }
        if self.trouble > 0 && random.one_in(8) {
            return Err(Refusal::Full);
        }
        if self.trouble > 0 && random.one_in(self.trouble * 20) {
            self.is_broken = true;
            return Err(Refusal::Failed(Failure::new(Class::Sink, "the letter is not taken")));
        }
        Ok(())
    }

    /// It takes up what was sent: acknowledges the first, or fails all of it as one batch.
    pub(super) fn work(&mut self, facts: &Facts, random: &mut Random) {
        let Some((_, first)) = self.out.front() else { return };
        let fault = |record: &Record| {
            let event = &facts.events[facts.event_of(record)];
            let is_closed = self.closed[event.topic];
            if event.is_bad { Some(Class::Row) } else { is_closed.then_some(Class::Route) }
        };
        // A batch that fails for one of its records blames the others.
        let of_others = self.out.iter().find_map(|(_, record)| fault(record)).filter(|_| random.one_in(2));
        let of_none = (self.trouble > 0 && random.one_in(40)).then_some(Class::Sink);
        if let Some(class) = fault(first).or(of_others).or(of_none) {
            self.is_broken = true;
            let was_alone = self.out.len() == 1;
            for (ticket, _) in self.out.drain(..) {
                let outcome = Err(Failure::new(class, "it failed"));
                self.reports.push_back((Delivery { ticket, outcome }, was_alone));
            }
        } else if let Some((ticket, record)) = self.out.pop_front() {
            self.group.records.push(record);
            self.reports.push_back((Delivery { ticket, outcome: Ok(()) }, false));
        }
    }
}
