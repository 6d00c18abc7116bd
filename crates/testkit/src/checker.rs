//! Compares what was committed with what arrived.
//!
//! The truth is read from the database when everything is over, so a commit whose answer was lost counts exactly if it
//! happened. Rows are told apart by their `id`, which every record carries as a header, and the order of a key by a
//! sequence that its writers take under a row lock held to the commit: the order of that sequence is the order of the
//! commits.
//!
//! The checker judges and never waits, and it trusts nobody: its own tests drop, double, swap and alter records and expect
//! each to be reported.

mod census;
mod letters;
mod partition;
mod truth;
mod windows;

use std::collections::HashMap;
use std::fmt;

pub use census::{Audit, Census, Repeat};
pub use letters::{Letter, LetterCounts, LetterState, Letters};
pub use partition::partition_of;
pub use truth::{Expected, ReadError, Truth, for_each_row};
pub use windows::{SKEW_MS, Window, excuse};

use crate::consumer::{Received, text};

/// How many cases of a fault are described.
const EXAMPLES: usize = 5;

/// Whether a record may come more than once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Repeats {
    /// As after a crash: the same record again.
    Allowed,
    /// As after an orderly stop.
    Forbidden,
}

/// The cases of one kind: all counted, some described.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cases {
    count: usize,
    examples: Vec<String>,
}

impl Cases {
    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The first few, in words.
    #[must_use]
    pub fn examples(&self) -> &[String] {
        &self.examples
    }

    fn append(&mut self, others: &Self) {
        self.count += others.count;
        let room = EXAMPLES.saturating_sub(self.examples.len());
        self.examples.extend(others.examples.iter().take(room).cloned());
    }

    fn add(&mut self, example: impl FnOnce() -> String) {
        self.count += 1;
        if self.examples.len() < EXAMPLES {
            self.examples.push(example());
        }
    }
}

/// What the comparison found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// The rows that were committed.
    pub committed: usize,
    /// The records that were read.
    pub received: usize,
    /// What lies, or lay, with the dead letters.
    pub letters: LetterCounts,
    /// Rows of which no record came, and that do not lie with the dead letters.
    pub lost: Cases,
    /// Records that came again.
    pub repeated: Cases,
    /// First deliveries behind a later one of the same topic and key, or ahead of an older letter of it.
    pub out_of_order: Cases,
    /// Rows that are a record and a letter.
    pub double: Cases,
    /// Good rows that were set aside for a reason of their own.
    pub blamed: Cases,
    /// Records and letters of rows that are not in the table: rolled back, or never written.
    pub phantom: Cases,
    /// Records that differ from their row, from their first delivery, or from the partition of their key.
    pub altered: Cases,
}

impl Verdict {
    /// Whether everything that was committed arrived, once and in order, or as often as `repeats` allows.
    #[must_use]
    pub fn is_clean(&self, repeats: Repeats) -> bool {
        let faults = [&self.lost, &self.out_of_order, &self.double, &self.blamed, &self.phantom, &self.altered];
        faults.iter().all(|cases| cases.is_empty()) && (repeats == Repeats::Allowed || self.repeated.is_empty())
    }

    /// Fails the test unless it is clean.
    ///
    /// # Panics
    ///
    /// With the whole verdict when it is not.
    #[track_caller]
    pub fn assert_clean(&self, repeats: Repeats) {
        assert!(self.is_clean(repeats), "with repeats {repeats:?}:\n{self}");
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows committed, {} records received", self.committed, self.received)?;
        let kinds = [
            ("lost", &self.lost),
            ("repeated", &self.repeated),
            ("out of order", &self.out_of_order),
            ("record and letter", &self.double),
            ("good rows blamed", &self.blamed),
            ("phantom", &self.phantom),
            ("altered", &self.altered),
        ];
        for (name, cases) in kinds {
            write!(f, "\n{name}: {}", cases.count)?;
            for example in &cases.examples {
                write!(f, "\n  {example}")?;
            }
        }
        Ok(())
    }
}

/// Compares what was committed with what arrived. The records of a partition have to come in its order.
#[must_use]
pub fn check(truth: &Truth, received: &[Received]) -> Verdict {
    let mut check = Check { truth, first: HashMap::new(), keys: HashMap::new(), verdict: Verdict::default() };
    received.iter().for_each(|record| check.take(record));
    check.finish(received.len())
}

/// A comparison under way.
struct Check<'a> {
    truth: &'a Truth,
    /// The first delivery of each row, by its id.
    first: HashMap<&'a str, &'a Received>,
    /// How far each key of a topic has come.
    keys: HashMap<(&'a str, &'a [u8]), KeyState<'a>>,
    verdict: Verdict,
}

struct KeyState<'a> {
    partition: i32,
    /// The row with the highest sequence so far.
    latest: &'a Expected,
}

impl<'a> Check<'a> {
    fn take(&mut self, record: &'a Received) {
        let expected = record.id().and_then(|id| self.truth.row(id));
        let Some(expected) = expected else {
            return self.verdict.phantom.add(|| record.to_string());
        };
        match self.first.get(expected.id.as_str()) {
            Some(first) => self.on_repeat(record, first),
            None => self.on_first(record, expected),
        }
    }

    fn on_repeat(&mut self, record: &Received, first: &Received) {
        self.verdict.repeated.add(|| format!("{record}, first {first}"));
        let differences = differences_of_repeat(record, first);
        if !differences.is_empty() {
            self.verdict.altered.add(|| format!("{record} repeats {first}, but differs in {}", differences.join(", ")));
        }
    }

    fn on_first(&mut self, record: &'a Received, expected: &'a Expected) {
        self.first.insert(&expected.id, record);
        let mut differences = differences_of_row(record, expected);
        if let (Some(key), Some(count)) = (&record.key, self.truth.partitions(&record.topic))
            && record.partition != partition_of(key, count)
        {
            differences.push("partition");
        }
        if let Some(key) = &record.key
            && !self.follow(record, key, expected)
        {
            differences.push("the partition of its key");
        }
        if !differences.is_empty() {
            self.verdict.altered.add(|| format!("{record} differs from its row in {}", differences.join(", ")));
        }
    }

    /// Notes how far a key has come; `false` if it has changed its partition.
    fn follow(&mut self, record: &'a Received, key: &'a [u8], expected: &'a Expected) -> bool {
        let start = KeyState { partition: record.partition, latest: expected };
        let state = self.keys.entry((&record.topic, key)).or_insert(start);
        if expected.sequence < state.latest.sequence {
            let (late, latest) = (expected.sequence, state.latest.sequence);
            let sequence = |sequence: Option<i64>| sequence.map_or("none".to_owned(), |number| number.to_string());
            self.verdict
                .out_of_order
                .add(|| format!("{record}: sequence {} came after {}", sequence(late), sequence(latest)));
        } else {
            state.latest = expected;
        }
        state.partition == record.partition
    }

    fn finish(mut self, received: usize) -> Verdict {
        self.verdict.committed = self.truth.len();
        self.verdict.received = received;
        for expected in self.truth.rows().filter(|row| !self.first.contains_key(row.id.as_str())) {
            self.verdict.lost.add(|| expected.to_string());
        }
        self.verdict
    }
}

fn differences_of_row(record: &Received, expected: &Expected) -> Vec<&'static str> {
    let timestamp_differs = expected.timestamp_ms.is_some() && expected.timestamp_ms != record.timestamp_ms;
    names_of([
        (record.topic != expected.topic, "topic"),
        (record.key != expected.key, "key"),
        (record.value != expected.value, "value"),
        (record.headers != expected.headers, "headers"),
        (timestamp_differs, "timestamp"),
    ])
}

fn differences_of_repeat(record: &Received, first: &Received) -> Vec<&'static str> {
    names_of([
        (record.topic != first.topic, "topic"),
        // Without a key any partition will do.
        (record.partition != first.partition && record.key.is_some(), "partition"),
        (record.key != first.key, "key"),
        (record.value != first.value, "value"),
        (record.headers != first.headers, "headers"),
        (record.timestamp_ms != first.timestamp_ms, "timestamp"),
    ])
}

fn names_of<const N: usize>(differences: [(bool, &'static str); N]) -> Vec<&'static str> {
    differences.into_iter().filter(|(differs, _)| *differs).map(|(_, name)| name).collect()
}

impl fmt::Display for Expected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {} for {} with key {}", self.id, self.topic, text(self.key.as_deref()))?;
        self.sequence.map_or(Ok(()), |sequence| write!(f, ", sequence {sequence}"))
    }
}

#[cfg(test)]
mod tests;
