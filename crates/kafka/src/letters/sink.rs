//! The letters of a group that is open: what has to be written, and what is still to be handed to the client.
//!
//! It keeps records only while the client's queue is full, and no more of them than one letter has.

use std::collections::VecDeque;

use walpost_core::failure::{Class, Failure};
use walpost_core::poison::{Conclusion, DeadLetter, LetterId};
use walpost_core::record::Record;

use super::index::Before;
use super::key::RowId;
use super::records::Records;
use super::{LetterTopic, SharedIndex, now};
use crate::settings::Settings;

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct GroupLetters {
    index: SharedIndex,
    records: Records,
    /// What the client had no room for, in order.
    pending: VecDeque<Record>,
    /// Why a record of the group was not written.
    failure: Option<Failure>,
}

/// Why a group has failed for the sake of a letter. No row is at fault and no other letter helps, and the group cannot go without: it is given up and
/// sent again, for as long as it takes until somebody has mended the topic. Nothing is lost meanwhile, and nothing is published past it.
fn group_failure(Failure { class, reason }: Failure, topic: &str) -> Failure {
    let reason = format!("a dead letter cannot be written: {reason}");
    match class {
        Class::Row | Class::Route => Failure::new(
            Class::Sink,
            format!(
                "{reason}; to see what topic \"{topic}\" has to be like, run: walpost check; the whole group waits and is sent again"
            ),
        ),
        Class::Sink | Class::Withdrawn | Class::Configuration => Failure::new(class, reason),
    }
}

impl GroupLetters {
    pub(crate) fn new(settings: &Settings, relay: &str, topic: &str) -> Self {
        Self {
            index: SharedIndex::new(relay, false),
            records: Records::new(relay, topic, settings.message_max_bytes()),
            pending: VecDeque::new(),
            failure: None,
        }
    }

    pub(crate) fn topic(&self) -> &str {
        self.records.topic()
    }

    /// A store of the same letters, which reads what this one writes.
    pub(crate) fn store(&self, settings: Settings, relay: &str, keep_ended: std::time::Duration) -> LetterTopic {
        LetterTopic::of_index(settings, relay, self.topic(), keep_ended, self.index.clone())
    }

    /// Takes a row. One that lies there already, as far as was read, is counted; one that has ended stays so. Answers whether it is new.
    pub(crate) fn set_aside(&mut self, letter: &DeadLetter) -> bool {
        let (row, now) = (RowId::of(letter), now());
        let before = self.index.lock().before(&row, now);
        let is_new = before == Before::Unknown;
        match before {
            Before::Unknown => self.pending.extend(self.records.letter(letter, now)),
            Before::Open(standing) => self.pending.push_back(self.records.standing(&row, &standing, now)),
            Before::Ended => {}
        }
        is_new
    }

    /// Takes the end of a letter, which has to be one that was read.
    pub(crate) fn conclude(&mut self, id: LetterId, end: &Conclusion) -> Result<(), Failure> {
        let now = now();
        let index = self.index.lock();
        if index.get(id).is_none() {
            let reason = format!("the dead letter {} is not known any more; the group is sent again", id.0);
            return Err(Failure::new(Class::Sink, reason));
        }
        if let Some((row, standing)) = index.concluded(id, end, now) {
            self.pending.push_back(self.records.standing(&row, &standing, now));
        }
        Ok(())
    }

    /// What is to be handed to the client next.
    pub(crate) fn next(&self) -> Option<&Record> {
        self.pending.front()
    }

    /// The client has it.
    pub(crate) fn handed_on(&mut self) {
        self.pending.pop_front();
    }

    /// Notes why a record was not written: the first of several, unless that only followed from another.
    pub(crate) fn failed(&mut self, failure: Failure) {
        let is_better = |old: &Failure| old.class == Class::Withdrawn && failure.class != Class::Withdrawn;
        if self.failure.as_ref().is_none_or(is_better) {
            self.failure = Some(group_failure(failure, self.records.topic()));
        }
    }

    pub(crate) fn failure(&self) -> Option<&Failure> {
        self.failure.as_ref()
    }

    /// The failure of letters that went with their transaction.
    pub(crate) fn withdrawn(&self, why: &str) -> Failure {
        let topic = self.topic();
        Failure::new(
            Class::Withdrawn,
            format!(
                "a dead letter cannot be written, to topic \"{topic}\", because its transaction failed: {why}; to see what topics have to be like, run: \
                 walpost check; the whole group waits and is sent again"
            ),
        )
    }

    /// Of a group that is over nothing is left.
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
        self.failure = None;
    }
}
