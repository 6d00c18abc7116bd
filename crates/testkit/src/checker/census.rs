//! The checker for runs that no memory holds: millions of rows, each counted in a few words.
//!
//! Records are counted as they are read: of each row the census keeps a digest of its first record (topic, key, value, headers,
//! timestamp) and where that stood, about a hundred bytes with the map's room, and of each repeat when its row was committed. The truth is
//! read afterwards, as a stream in the order of its keys and commits, and held against that. A digest has 64 bits and is no proof against
//! a forger: two records that differ pass for equal once in 2^64.
//!
//! **Order**: of the rows of one topic and key, in the order of their commits, the first records must stand on one partition at
//! rising offsets. What was set aside is held against both ([`Letters`]).
//!
//! **Repeats** are told apart by [`Windows`]: the promise is not that there are none.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use super::letters::{Letter, LetterState, Letters, contradiction};
use super::{Cases, Expected, Verdict, Window, partition_of};
use crate::consumer::{Header, Received};

/// What has arrived.
#[derive(Debug, Default)]
pub struct Census {
    seen: HashMap<[u64; 2], Seen>,
    /// Rows that were set aside and did not arrive.
    aside: HashSet<[u64; 2]>,
    /// Rows that arrived after they were set aside.
    replayed: usize,
    places: Vec<(String, i32)>,
    /// The offset behind the last record of each place.
    ends: Vec<i64>,
    repeats: Vec<Repeat>,
    received: usize,
    latest_ms: i64,
    /// A time of a commit, and how many rows have arrived that were committed after it.
    since: (i64, usize),
    nameless: Cases,
    altered: Cases,
}

/// The first record of a row.
#[derive(Clone, Copy, Debug)]
struct Seen {
    digest: u64,
    offset: i64,
    /// Topic and partition, by their number in the census.
    place: u16,
    is_expected: bool,
}

/// A record that came again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// The row.
    pub id: [u64; 2],
    /// The record's time: that of the commit of its row, in milliseconds since 1970.
    pub committed_ms: i64,
    /// When it was read, by the same clock.
    pub read_ms: i64,
}

impl Census {
    /// Counts a record that was read now. The records of a partition have to come in its order.
    pub fn count(&mut self, record: &Received, now_ms: i64) {
        self.received += 1;
        let place = self.place(record);
        let Some(id) = record.id().and_then(parse_uuid) else {
            return self.nameless.add(|| record.to_string());
        };
        let committed_ms = record.timestamp_ms.unwrap_or(0);
        self.latest_ms = self.latest_ms.max(committed_ms);
        let digest = digest_of(record);
        let Some(first) = self.seen.get(&id) else {
            let seen = Seen { digest, offset: record.offset, place, is_expected: false };
            self.seen.insert(id, seen);
            self.since.1 += usize::from(committed_ms > self.since.0);
            self.replayed += usize::from(self.aside.remove(&id));
            return;
        };
        if (first.digest, first.place) != (digest, place) {
            let offset = first.offset;
            self.altered.add(|| format!("{record} differs from its first record at offset {offset}"));
        }
        self.repeats.push(Repeat { id, committed_ms, read_ms: now_ms });
    }

    /// How many records were read.
    #[must_use]
    pub fn received(&self) -> usize {
        self.received
    }

    /// How many rows have arrived.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.seen.len()
    }

    /// Notes that the row of this id was set aside.
    pub fn set_aside(&mut self, event_id: &str) {
        if let Some(id) = parse_uuid(event_id).filter(|id| !self.seen.contains_key(id)) {
            self.aside.insert(id);
        }
    }

    /// How many rows have arrived straight from the log, as far as it is known which were set aside before.
    #[must_use]
    pub fn streamed(&self) -> usize {
        self.seen.len() - self.replayed
    }

    /// How many rows have arrived or were set aside.
    #[must_use]
    pub fn accounted(&self) -> usize {
        self.seen.len() + self.aside.len()
    }

    /// When the newest row that has arrived was committed, in milliseconds since 1970.
    #[must_use]
    pub fn latest_ms(&self) -> i64 {
        self.latest_ms
    }

    /// From now on counts the rows that arrive and were committed after this time, in milliseconds since 1970.
    pub fn count_since(&mut self, ms: i64) {
        self.since = (ms, 0);
    }

    /// How many of those have arrived.
    #[must_use]
    pub fn since(&self) -> usize {
        self.since.1
    }

    /// All repeats, in the order in which they were read.
    #[must_use]
    pub fn repeats(&self) -> &[Repeat] {
        &self.repeats
    }

    /// The offset behind the last record that was counted of a partition.
    #[must_use]
    pub fn position(&self, topic: &str, partition: i32) -> i64 {
        let found = self.places.iter().position(|(name, number)| name == topic && *number == partition);
        found.and_then(|index| self.ends.get(index)).copied().unwrap_or(0)
    }

    /// Begins the comparison with what was committed.
    #[must_use]
    pub fn audit(self, partitions: i32) -> Audit {
        let (letters, windows) = (Letters::default(), Vec::new());
        Audit { census: self, partitions, verdict: Verdict::default(), previous: None, letters, windows }
    }

    fn place(&mut self, record: &Received) -> u16 {
        let index =
            self.places.iter().position(|(topic, number)| *number == record.partition && *topic == record.topic);
        let index = index.unwrap_or_else(|| {
            self.places.push((record.topic.clone(), record.partition));
            self.ends.push(0);
            self.places.len() - 1
        });
        if let Some(end) = self.ends.get_mut(index) {
            *end = record.offset + 1;
        }
        u16::try_from(index).unwrap_or(u16::MAX)
    }

    fn describe(&self, seen: &Seen) -> String {
        let (topic, partition) = self.places.get(usize::from(seen.place)).cloned().unwrap_or_default();
        format!("{topic}/{partition}@{}", seen.offset)
    }
}

/// A comparison under way: first all rows, by topic, key and sequence; then [`Audit::finish`].
#[derive(Debug)]
pub struct Audit {
    census: Census,
    partitions: i32,
    verdict: Verdict,
    previous: Option<Previous>,
    letters: Letters,
    windows: Vec<Window>,
}

/// The row before, of whatever key.
#[derive(Debug)]
struct Previous {
    topic: String,
    key: Option<Vec<u8>>,
    sequence: Option<i64>,
    /// The latest first record of the key so far.
    offset: i64,
    /// The first row of the key that lies with the dead letters.
    letter: Option<i64>,
}

impl Audit {
    /// What was set aside too, and the crashes that excuse a row that is there twice over.
    #[must_use]
    pub fn with_letters(mut self, letters: Letters, windows: &[Window]) -> Self {
        self.verdict.letters = letters.counts();
        (self.letters, self.windows) = (letters, windows.to_vec());
        self
    }

    /// Compares a row that was committed.
    pub fn take(&mut self, row: &Expected) {
        self.verdict.committed += 1;
        let id = parse_uuid(&row.id).unwrap_or_default();
        let letter = self.letters.of_row(id);
        if let Some(blame) = self.letters.blame(id, row) {
            self.verdict.blamed.add(|| blame);
        }
        let Some(seen) = self.census.seen.get_mut(&id) else { return self.on_missing(row, letter) };
        seen.is_expected = true;
        let seen = *seen;
        if seen.digest != digest(&row.topic, row.key.as_deref(), row.value.as_deref(), &row.headers, row.timestamp_ms) {
            self.verdict.altered.add(|| format!("{} is not what {row} has to become", self.census.describe(&seen)));
        }
        self.place(row, seen);
        if let Some(contradiction) = contradiction(row, letter, &self.windows) {
            self.verdict.double.add(|| format!("{}: {contradiction}", self.census.describe(&seen)));
        }
        // One that was dropped and came again stands where nobody promised anything.
        if letter.is_none_or(|letter| letter.state != LetterState::Dropped) {
            self.follow(row, seen);
        }
    }

    /// No record came of it.
    fn on_missing(&mut self, row: &Expected, letter: Option<Letter>) {
        match letter.map(|letter| letter.state) {
            None => self.verdict.lost.add(|| row.to_string()),
            Some(LetterState::Sent) => self.verdict.lost.add(|| format!("{row}, whose letter is said to be sent")),
            Some(LetterState::Dropped) => {}
            Some(LetterState::Open) => {
                let previous = self.previous_of(row, -1);
                previous.letter = previous.letter.or(row.sequence);
            }
        }
    }

    /// A key belongs on the partition that Kafka's own clients would choose.
    fn place(&mut self, row: &Expected, seen: Seen) {
        let Some(key) = &row.key else { return };
        let (wanted, place) = (partition_of(key, self.partitions), self.census.places.get(usize::from(seen.place)));
        if place.is_none_or(|(_, partition)| *partition != wanted) {
            let place = self.census.describe(&seen);
            self.verdict.altered.add(|| format!("{place} should stand on partition {wanted}"));
        }
    }

    fn follow(&mut self, row: &Expected, seen: Seen) {
        if row.key.is_none() {
            return;
        }
        let previous = self.previous_of(row, seen.offset);
        let (earlier, is_behind) = (previous.sequence.unwrap_or(0), seen.offset < previous.offset);
        let letter = previous.letter;
        if !is_behind {
            (previous.offset, previous.sequence) = (seen.offset, row.sequence);
        }
        if is_behind {
            let place = self.census.describe(&seen);
            self.verdict.out_of_order.add(|| format!("{place}, {row}, came before the row of sequence {earlier}"));
        }
        if let Some(letter) = letter {
            let place = self.census.describe(&seen);
            self.verdict.out_of_order.add(|| format!("{place}, {row}, came ahead of the letter of sequence {letter}"));
        }
    }

    /// What is known of the row's key; of a new one, that it has come so far.
    fn previous_of(&mut self, row: &Expected, offset: i64) -> &mut Previous {
        let is_same = |previous: &Previous| previous.topic == row.topic && previous.key == row.key;
        if !self.previous.as_ref().is_some_and(is_same) {
            self.previous = None;
        }
        self.previous.get_or_insert_with(|| Previous {
            topic: row.topic.clone(),
            key: row.key.clone(),
            sequence: row.sequence,
            offset,
            letter: None,
        })
    }

    /// What was found, and the repeats that nothing excuses among those that came.
    #[must_use]
    pub fn finish(mut self) -> Verdict {
        let Census { nameless, altered, .. } = &self.census;
        self.verdict.phantom.append(nameless);
        self.verdict.phantom.append(&std::mem::take(&mut self.letters).absurd());
        self.verdict.altered.append(altered);
        self.verdict.received = self.census.received;
        for (id, seen) in self.census.seen.iter().filter(|(_, seen)| !seen.is_expected) {
            let [high, low] = id;
            let place = self.census.describe(seen);
            self.verdict.phantom.add(|| format!("{place}, id {high:016x}{low:016x}: rolled back, or never written"));
        }
        self.verdict
    }
}

fn digest_of(record: &Received) -> u64 {
    let Received { topic, key, value, headers, timestamp_ms, .. } = record;
    digest(topic, key.as_deref(), value.as_deref(), headers, *timestamp_ms)
}

fn digest(topic: &str, key: Option<&[u8]>, value: Option<&[u8]>, headers: &[Header], timestamp_ms: Option<i64>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (topic, key, value, headers, timestamp_ms).hash(&mut hasher);
    hasher.finish()
}

/// The 128 bits of a UUID's text.
pub(super) fn parse_uuid(text: &str) -> Option<[u64; 2]> {
    let digits: String = text.chars().filter(|character| *character != '-').collect();
    let number = (digits.len() == 32).then(|| u128::from_str_radix(&digits, 16).ok())??;
    let half = |shift: u32| u64::try_from((number >> shift) & u128::from(u64::MAX)).ok();
    Some([half(64)?, half(0)?])
}

#[cfg(test)]
mod tests;
