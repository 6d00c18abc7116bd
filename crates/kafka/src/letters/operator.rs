//! An operator's side of the letters: look at them, and mark them for the relay.
//!
//! Nothing is published or ended here, but for letters that no relay can read: the relay alone does that, for it alone keeps the order of a key. What is written are marks, outside of any
//! transaction and by a client that fences nobody, so that a relay that runs is not disturbed. Where it is quicker, its word counts.

mod selection;

use std::time::Duration;

use walpost_core::poison::operator::{Affected, Filter, Listed, Mark, Selection, Unreadable};
use walpost_core::poison::{DeadLetter, LetterId};
use walpost_core::record::Record;

use super::form::Marking;
use super::key::RowId;
use super::reader::{Reader, SharedIndex};
use super::records::Records;
use super::writer::Writer;
use super::{LetterError, body, letter_failure, now};
use crate::settings::Settings;
use crate::settle::settle;
use crate::topic::ReadError;
use crate::transactional::PARTITION;

/// How long it is waited for the transactions of others, which may hide letters, before what can be seen is shown.
const SETTLE_LIMIT: Duration = Duration::from_secs(10);

/// The dead letters of one relay, as an operator sees them.
#[derive(Debug)]
pub struct Letters {
    reader: Reader,
    /// What may not be shown, and why.
    hidden: Option<String>,
    records: Records,
    settings: Settings,
}

impl Letters {
    /// Reads what lies there, as far as the transactions of others let it be read within a while.
    ///
    /// # Errors
    /// The topic cannot be read.
    pub async fn open(settings: &Settings, relay: &str, topic: &str) -> Result<Self, LetterError> {
        let hidden = match settle(settings, topic, PARTITION, SETTLE_LIMIT).await {
            Ok(_) => None,
            Err(error @ ReadError::Hidden { offset, .. }) => {
                Some(format!("letters behind offset {offset} are not shown, for {error}"))
            }
            Err(error) => return Err(LetterError::Read(error)),
        };
        let index = SharedIndex::new(relay, true);
        let mut letters = Self {
            hidden,
            reader: Reader::new(settings.clone(), topic, index),
            records: Records::new(relay, topic, settings.message_max_bytes()),
            settings: settings.clone(),
        };
        letters.look_again().await?;
        Ok(letters)
    }

    /// The letters that cannot be read, in order. A relay does not start while there are any.
    #[must_use]
    pub fn unreadable(&self) -> Vec<Unreadable> {
        self.reader.index().unreadable()
    }

    /// Deletes those of these numbers that cannot be read; answers how many. Their rows are never published.
    ///
    /// # Errors
    /// The topic cannot be read or written.
    pub async fn give_up(&mut self, ids: &[i64]) -> Result<usize, LetterError> {
        self.look_again().await?;
        let (keys, count) = self.reader.index().keys_of_unreadable(ids);
        let records: Vec<_> = keys.into_iter().map(|key| self.records.tombstone(key, now())).collect();
        self.write(&records).await.map(|()| count)
    }

    /// What is not among the letters: records that no relay wrote, the first of them by name, and what is hidden.
    #[must_use]
    pub fn left_out(&self) -> Vec<String> {
        let damaged = self.reader.index().damaged().to_vec();
        damaged.into_iter().chain(self.hidden.clone()).collect()
    }

    /// The letters that fit, in order, from behind this number on.
    #[must_use]
    pub fn list(&self, filter: &Filter, behind: i64) -> Vec<Listed> {
        selection::list(&self.reader.index(), filter, behind, now())
    }

    /// How many letters fit, with those beyond the limit.
    #[must_use]
    pub fn count(&self, filter: &Filter) -> i64 {
        selection::count(&self.reader.index(), filter, now())
    }

    /// All of one letter, if there is one of this number.
    ///
    /// # Errors
    /// The topic cannot be read, or it holds what no relay wrote.
    pub async fn show(&mut self, id: i64) -> Result<Option<(Listed, DeadLetter)>, LetterError> {
        let found = {
            let index = self.reader.index();
            index.get(LetterId(id)).and_then(|(row, entry)| {
                let offsets = entry.letter.as_ref()?.offsets.clone();
                Some((selection::listed(&index, id, row, entry, now())?, offsets))
            })
        };
        let Some((listed, offsets)) = found else { return Ok(None) };
        let values = self.reader.values(offsets.clone()).await.map_err(LetterError::Read)?;
        let letter = body(&self.reader, self.records.topic(), LetterId(id), &offsets, &values)?;
        Ok(Some((listed, letter)))
    }

    /// What marking would do, key by key.
    #[must_use]
    pub fn preview(&self, selection: &Selection) -> Vec<Affected> {
        selection::preview(&self.reader.index(), selection, now())
    }

    /// Marks letters; answers how many were not marked so before. `by` says who asks, beside what brokers know of the client.
    ///
    /// # Errors
    /// The topic cannot be read or written.
    pub async fn mark(&mut self, selection: &Selection, mark: Mark, by: &str) -> Result<i64, LetterError> {
        self.look_again().await?;
        let rows: Vec<RowId> = selection::to_mark(&self.reader.index(), selection, mark, now());
        let marking = Marking { mark, by: format!("{} ({by})", self.settings.client()), at: now() };
        let records: Vec<_> = rows.iter().map(|row| self.records.marking(row, &marking)).collect();
        self.write(&records).await?;
        Ok(i64::try_from(rows.len()).unwrap_or(i64::MAX))
    }

    async fn write(&self, records: &[Record]) -> Result<(), LetterError> {
        let failed = |failure| LetterError::Write(letter_failure(failure, self.records.topic()));
        let mut writer = Writer::new(self.settings.clone());
        for record in records {
            writer.write(record).await.map_err(failed)?;
        }
        writer.settle().await.map_err(failed)?;
        writer.close().await;
        Ok(())
    }

    async fn look_again(&mut self) -> Result<(), LetterError> {
        self.reader.catch_up().await.map_err(LetterError::Read)
    }
}

/// How long ago something was; nothing for a clock that was set back.
fn age(since: walpost_core::time::Timestamp, now: walpost_core::time::Timestamp) -> Duration {
    let micros = now.postgres_micros().saturating_sub(since.postgres_micros());
    Duration::from_micros(u64::try_from(micros).unwrap_or_default())
}
