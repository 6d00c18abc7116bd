//! Dead letters on a compacted topic: the rows that relays set aside, how they stand, and what operators asked for.
//!
//! # What lies there
//!
//! Partition 0 has everything, and each relay its own keys. A *letter* is a JSON document, in as many records as its size needs; its number is the
//! offset of the first of them. How it *stands* is a record of its own, written when that changes. A *mark* is an operator's, and the only thing
//! that anybody but the relay writes. What has ended is kept for a while, and then its keys get tombstones.
//!
//! # Who writes
//!
//! Where events and checkpoint are one transaction, letters are part of it: the [`Transactional`](crate::Transactional) sink writes them, and
//! [`LetterTopic`] only reads. Else [`LetterTopic`] writes them, by a producer of its own, and answers once all replicas in sync have them. A relay that was given up may
//! still have a letter on the wire when the next one writes the same: the first that is whole counts, and the other is an attempt.
//!
//! Bodies are read when they are needed. All else is in an [`Index`](index::Index), read from the beginning to the end that is there.

mod form;
mod index;
mod key;
mod operator;
mod parts;
mod reader;
mod records;
mod sink;
mod writer;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tracing::debug;
use walpost_core::failure::Failure;
use walpost_core::finding::Finding;
use walpost_core::poison::operator::Unreadable;
use walpost_core::poison::{Conclusion, DeadLetter, Inventory, LetterId, Marked};
use walpost_core::port::DeadLetters;
use walpost_core::time::Timestamp;

pub use operator::Letters;
pub use reader::LetterMemory;
pub(crate) use reader::{SharedIndex, beside_the_loop};
pub(crate) use sink::GroupLetters;

use crate::compacted::{self, Purpose, Refused};
use crate::settings::Settings;
use crate::settle::settle;
use crate::topic::ReadError;
use crate::transactional::PARTITION;

use index::Before;
use key::RowId;
use reader::Reader;
use records::Records;
use writer::{Writer, letter_failure};

/// What [`DeadLetters::marked`] answers at once is made of rows of no more bytes, unless it is one letter.
const ANSWER_BYTES: u64 = 8 << 20;

/// How long an inventory waits for the transactions of others, which may hide letters. The stream from the server stands still meanwhile when a relay
/// starts, so it is less than the server's patience; whoever asked asks again.
const SETTLE_LIMIT: Duration = Duration::from_secs(20);

/// How often ended letters are looked through, unless there are more than are tidied away at once.
const TIDY_INTERVAL: Duration = Duration::from_secs(60);
const TIDY_BATCH: usize = 300;

/// What brokers take by default; parts are made to fit.
const LARGEST_RECORD: u64 = 1_048_588;

/// Segments are no smaller than a few letters that are as large as a record may be.
const PURPOSE: Purpose = Purpose {
    things: "dead letters",
    thing: "a dead letter",
    key: "dead_letter.topic",
    where_deleted: "and their events are lost",
    config: &[
        ("cleanup.policy", "compact"),
        ("segment.bytes", "67108864"),
        ("min.cleanable.dirty.ratio", "0.1"),
        ("max.message.bytes", "1048588"),
        ("message.timestamp.type", "CreateTime"),
    ],
    largest_record: Some(LARGEST_RECORD),
};

/// Why dead letters could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LetterError {
    /// The topic cannot be read.
    #[error("the dead letters cannot be read")]
    Read(#[source] ReadError),
    /// The topic does not take them.
    #[error("{0}")]
    Write(Failure),
    /// Letters of this relay cannot be read, so that nobody knows what waits behind them.
    #[error(
        "the dead letter at offset {} of topic \"{topic}\", with key {}, cannot be read: {}{}",
        first.id,
        first.key,
        first.reason,
        others(*more)
    )]
    Unreadable {
        /// Where.
        topic: String,
        /// The first of them.
        first: Unreadable,
        /// How many more there are.
        more: usize,
    },
    /// A letter's document is none that walpost wrote. What it is, is not told: it may be a part of the payload.
    #[error("the dead letter {id} in topic \"{topic}\" is damaged: {reason}")]
    Damaged {
        /// Which.
        id: i64,
        /// Where.
        topic: String,
        /// How it shows.
        reason: String,
    },
    /// A part of a letter is not where it was: the topic was compacted meanwhile. The next look finds it.
    #[error("the dead letters in topic \"{topic}\" were moved meanwhile; they are read anew")]
    Moved {
        /// Where.
        topic: String,
    },
}

impl LetterError {
    /// What an operator has to do; nothing where trying again can help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Read(error) => compacted::remedy_of_reading(error, &PURPOSE),
            Self::Write(failure) => compacted::remedy_of_writing(failure),
            Self::Moved { .. } => None,
            Self::Damaged { id, .. } | Self::Unreadable { first: Unreadable { id, .. }, .. } => Some(format!(
                "run the walpost that wrote it, or a newer one; or give it up, so that its row is never published, with: walpost dlq drop --id {id} --yes"
            )),
        }
    }
}

fn others(more: usize) -> String {
    if more == 0 { String::new() } else { format!(" (and {more} more: walpost dlq list)") }
}

/// The dead letters of one relay.
#[derive(Debug)]
pub struct LetterTopic {
    relay: String,
    settings: Settings,
    keep_ended: Duration,
    reader: Reader,
    writer: Writer,
    records: Records,
    tidied: Option<Instant>,
    /// What was to be ended since the index was read.
    ending: BTreeSet<LetterId>,
    settle_limit: Duration,
}

impl LetterTopic {
    /// The letters of this relay. Connects when it is first used. Letters that were sent or dropped are deleted after `keep_ended`.
    #[must_use]
    pub fn new(settings: Settings, relay: &str, topic: &str, keep_ended: Duration) -> Self {
        Self::of_index(settings, relay, topic, keep_ended, SharedIndex::new(relay, false))
    }

    /// The same, by what an earlier one of them has read already.
    #[must_use]
    pub fn remembering(
        settings: Settings,
        relay: &str,
        topic: &str,
        keep_ended: Duration,
        memory: &LetterMemory,
    ) -> Self {
        Self::of_index(settings, relay, topic, keep_ended, memory.0.clone())
    }

    pub(crate) fn of_index(
        settings: Settings,
        relay: &str,
        topic: &str,
        keep_ended: Duration,
        index: SharedIndex,
    ) -> Self {
        Self {
            relay: relay.to_owned(),
            keep_ended,
            reader: Reader::new(settings.clone(), topic, index),
            writer: Writer::new(settings.clone()),
            records: Records::new(relay, topic, settings.message_max_bytes()),
            settings,
            tidied: None,
            ending: BTreeSet::new(),
            settle_limit: SETTLE_LIMIT,
        }
    }

    /// For somebody who waits no longer than this for the transactions of others.
    #[must_use]
    pub fn with_patience(self, settle_limit: Duration) -> Self {
        Self { settle_limit, ..self }
    }

    /// Where it keeps the letters, for people.
    #[must_use]
    pub fn place(&self) -> String {
        format!("relay \"{}\" of topic {} on {}", self.relay, self.records.topic(), self.settings.servers())
    }

    /// Makes the topic if it is not there; says whether it had to.
    ///
    /// # Errors
    /// The brokers cannot be reached, or refuse.
    pub async fn create(&self) -> Result<bool, LetterError> {
        let made = compacted::create(&self.settings, self.records.topic(), &PURPOSE).await;
        made.map_err(|refused| match refused {
            Refused::ForGood(failure) => LetterError::Write(failure),
            Refused::ForNow(error) => LetterError::Read(error),
        })
    }

    /// What is wrong with the topic, or weaker than the promises need.
    pub async fn check(&self) -> Vec<Finding> {
        compacted::check(&self.settings, self.records.topic(), &PURPOSE).await
    }

    async fn catch_up(&mut self) -> Result<(), LetterError> {
        self.reader.catch_up().await.map_err(LetterError::Read)?;
        self.ending.clear();
        Ok(())
    }

    fn write_error(&self) -> impl Fn(Failure) -> LetterError + use<> {
        let topic = self.records.topic().to_owned();
        move |failure| LetterError::Write(letter_failure(failure, &topic))
    }

    /// Gives up the keys of some of the letters that ended long ago. Where it fails it is tried again by the next look.
    ///
    /// A row whose letter is gone, and that comes again after all, is a new one: a relay would have to be away for as long as letters are kept, from the
    /// second on in which it ended one. That is a repeat, and no loss.
    async fn tidy(&mut self) {
        if self.tidied.is_some_and(|at| at.elapsed() < TIDY_INTERVAL) {
            return;
        }
        let now = now();
        let keep = i64::try_from(self.keep_ended.as_micros()).unwrap_or(i64::MAX);
        let time = Timestamp::from_postgres_micros(now.postgres_micros().saturating_sub(keep));
        let keys = self.reader.index().ended_before(time, TIDY_BATCH);
        self.tidied = Some(Instant::now());
        let tombstones: Vec<_> = keys.into_iter().map(|key| self.records.tombstone(key, now)).collect();
        self.writer.begin();
        for tombstone in &tombstones {
            if let Err(failure) = self.writer.write(tombstone).await {
                return debug!(%failure, "ended letters are kept for longer");
            }
        }
        match self.writer.settle().await {
            Ok(()) if tombstones.len() >= TIDY_BATCH => self.tidied = None,
            Ok(()) => {}
            Err(failure) => debug!(%failure, "ended letters are kept for longer"),
        }
    }
}

impl DeadLetters for LetterTopic {
    type Error = LetterError;

    /// Exact, for a key is let go on its word: nothing may be hidden.
    async fn inventory(&mut self) -> Result<Inventory, LetterError> {
        let settled = settle(&self.settings, self.records.topic(), PARTITION, self.settle_limit).await;
        settled.map_err(LetterError::Read)?;
        self.catch_up().await?;
        self.tidy().await;
        let index = self.reader.index();
        let mut unreadable = index.unreadable().into_iter();
        match unreadable.next() {
            None => Ok(index.inventory()),
            Some(first) => {
                let topic = self.records.topic().to_owned();
                Err(LetterError::Unreadable { topic, first, more: unreadable.len() })
            }
        }
    }

    /// What is there already, which has to be known first, is counted and not written again: its place would change.
    async fn set_aside(&mut self, letters: &[DeadLetter]) -> Result<Vec<bool>, LetterError> {
        self.catch_up().await?;
        let (now, failed) = (now(), self.write_error());
        self.writer.begin();
        let (mut seen, mut is_new) = (BTreeSet::new(), Vec::with_capacity(letters.len()));
        for letter in letters {
            let row = RowId::of(letter);
            let before = if seen.insert(row) { self.reader.index().before(&row, now) } else { Before::Ended };
            is_new.push(before == Before::Unknown);
            let records = match before {
                Before::Unknown => self.records.letter(letter, now),
                Before::Open(standing) => vec![self.records.standing(&row, &standing, now)],
                Before::Ended => Vec::new(),
            };
            for record in &records {
                self.writer.write(record).await.map_err(&failed)?;
            }
        }
        self.writer.settle().await.map_err(failed)?;
        Ok(is_new)
    }

    async fn marked(&mut self, limit: usize, is_overtaking: bool) -> Result<Vec<Marked>, LetterError> {
        self.catch_up().await?;
        self.tidy().await;
        let chosen = {
            let mut index = self.reader.index();
            let chosen = index.marked(limit, ANSWER_BYTES, is_overtaking);
            index.acts_upon(chosen.iter().map(|(id, ..)| *id));
            chosen
        };
        if chosen.is_empty() {
            return Ok(Vec::new());
        }
        let offsets = chosen.iter().flat_map(|(_, _, offsets)| offsets.iter().copied()).collect();
        let values = self.reader.values(offsets).await.map_err(LetterError::Read)?;
        let mut marked = Vec::with_capacity(chosen.len());
        for (id, request, offsets) in chosen {
            marked.push(Marked { id, request, letter: self.letter(id, &offsets, &values)?, fetched: None });
        }
        Ok(marked)
    }

    /// What was read when the letters were found is enough: nobody else ends them. Only what was asked for before, whether or not anybody knows what
    /// came of it, is looked up first.
    async fn conclude(&mut self, ends: &[(LetterId, Conclusion)]) -> Result<(), LetterError> {
        let is_new = |id: &LetterId| !self.ending.contains(id) && self.reader.index().get(*id).is_some();
        if !ends.iter().all(|(id, _)| is_new(id)) {
            self.catch_up().await?;
        }
        self.ending.extend(ends.iter().map(|(id, _)| *id));
        let (now, failed) = (now(), self.write_error());
        self.writer.begin();
        for (id, end) in ends {
            let concluded = self.reader.index().concluded(*id, end, now);
            if let Some((row, standing)) = concluded {
                self.writer.write(&self.records.standing(&row, &standing, now)).await.map_err(&failed)?;
            }
        }
        self.writer.settle().await.map_err(failed)?;
        for (id, _) in ends {
            self.reader.index().has_acted(*id);
        }
        Ok(())
    }
}

impl LetterTopic {
    /// A letter of its parts, as it stands.
    fn letter(
        &mut self,
        id: LetterId,
        offsets: &[i64],
        values: &BTreeMap<i64, Vec<u8>>,
    ) -> Result<DeadLetter, LetterError> {
        body(&self.reader, self.records.topic(), id, offsets, values)
    }
}

/// A letter of its parts, with the cause that it has by now.
fn body(
    reader: &Reader,
    topic: &str,
    id: LetterId,
    offsets: &[i64],
    values: &BTreeMap<i64, Vec<u8>>,
) -> Result<DeadLetter, LetterError> {
    let mut index = reader.index();
    let parts: Option<Vec<&[u8]>> = offsets.iter().map(|offset| values.get(offset).map(Vec::as_slice)).collect();
    let (Some(parts), Some((row, entry))) = (parts, index.get(id)) else {
        index.clear();
        return Err(LetterError::Moved { topic: topic.to_owned() });
    };
    let damaged =
        |fault: form::Fault| LetterError::Damaged { id: id.0, topic: topic.to_owned(), reason: fault.to_string() };
    let mut letter = form::read_letter(row, &parts.concat()).map_err(damaged)?.letter;
    let reason = entry.new_reason().or(form::reason(&letter.cause)).map(str::to_owned);
    letter.cause = form::cause(entry.cause(), reason.as_deref());
    Ok(letter)
}

/// By this machine's clock.
fn now() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let micros = i64::try_from(since.as_micros()).unwrap_or(i64::MAX);
    Timestamp::from_unix_micros(micros).unwrap_or_default()
}
