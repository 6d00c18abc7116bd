//! Checkpoints on a compacted topic of their own: one record for each relay, its name the key, in the transaction that carries the events.
//!
//! What is read is what was committed. While a transaction of an earlier relay hangs, nothing behind it can be read; so a relay opens its
//! [`Transactional`] sink first, which ends that transaction, and reads then. For it the sink also writes; the writer here is for whoever has no
//! sink open, such as a command of an operator. It fences a relay that still runs.
//!
//! Nor can anything be read behind the open transaction of another relay, where they share the topic: until that [is over](CheckpointTopic::settle),
//! what is read may be an older checkpoint than the last, or none.

pub(crate) mod form;

use std::time::Duration;

use walpost_core::failure::Failure;
use walpost_core::finding::Finding;
use walpost_core::lsn::Lsn;
use walpost_core::port;
use walpost_core::position::{Checkpoint, Epoch};

use crate::compacted::{self, Purpose, Refused};
use crate::settings::Settings;
use crate::settle::settle;
use crate::topic::{ReadError, read_partition};
use crate::transactional::{PARTITION, Transactional};

use form::Fault;

/// How long a writer waits for the transactions of others before it reads what it goes on from.
const SETTLE_LIMIT: Duration = Duration::from_secs(70);

/// How long a writer may take to go.
const CLOSE: Duration = Duration::from_secs(2);

/// Only segments that are closed are compacted, and a start reads all that was not. At ten checkpoints a second the broker's default of
/// 1 GiB would be weeks of them.
const PURPOSE: Purpose = Purpose {
    things: "checkpoints",
    thing: "a checkpoint",
    key: "checkpoint.topic",
    where_deleted: "and a relay that was idle starts without one",
    config: &[("cleanup.policy", "compact"), ("segment.bytes", "16777216"), ("min.cleanable.dirty.ratio", "0.1")],
    largest_record: None,
};

/// Why a checkpoint could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CheckpointError {
    /// The topic cannot be read.
    #[error("the checkpoint cannot be read")]
    Read(#[source] ReadError),
    /// The transaction that carries it failed.
    #[error("the checkpoint could not be written: {0}")]
    Write(Failure),
    /// A newer walpost wrote it.
    #[error("the checkpoint has format {found}; this walpost understands up to {}", Checkpoint::FORMAT_VERSION)]
    NewerFormat {
        /// Its format.
        found: u64,
    },
    /// Its record is none that walpost wrote.
    #[error("the checkpoint of relay \"{relay}\" in topic \"{topic}\" is damaged: {reason}")]
    Damaged {
        /// Whose.
        relay: String,
        /// Where.
        topic: String,
        /// How it shows.
        reason: String,
    },
    /// An older position was offered than is stored.
    #[error("the checkpoint stands at {stored} and never goes back to {offered}")]
    Backwards {
        /// What is stored.
        stored: Lsn,
        /// What was to be stored.
        offered: Lsn,
    },
    /// It was to be saved by somebody who has not claimed it.
    #[error("the checkpoint has not been claimed by this process")]
    NotClaimed,
}

impl CheckpointError {
    /// What an operator has to do; nothing where trying again can help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Read(ReadError::TooLarge { .. }) => {
                Some("name a topic in checkpoint.topic that holds nothing but checkpoints".to_owned())
            }
            Self::Read(error) => compacted::remedy_of_reading(error, &PURPOSE),
            Self::Write(failure) => compacted::remedy_of_writing(failure),
            Self::NotClaimed => None,
            Self::NewerFormat { .. } => Some("run the walpost that wrote it, or a newer one".to_owned()),
            Self::Damaged { .. } => {
                Some("to go on from the slot's confirmed position, run: walpost checkpoint adopt-slot".to_owned())
            }
            Self::Backwards { .. } => {
                Some("start the relay again; to see what is stored, run: walpost checkpoint show".to_owned())
            }
        }
    }
}

/// The record of one relay on the topic of checkpoints.
#[derive(Debug)]
pub struct CheckpointTopic {
    settings: Settings,
    relay: String,
    topic: String,
    writer: Option<Transactional>,
    /// As it was written last, by us.
    claimed: Option<Checkpoint>,
}

impl CheckpointTopic {
    /// The store of this relay. Connects when it is first used.
    #[must_use]
    pub fn new(settings: Settings, relay: impl Into<String>, topic: impl Into<String>) -> Self {
        Self { settings, relay: relay.into(), topic: topic.into(), writer: None, claimed: None }
    }

    /// Where it keeps the checkpoint, for people.
    #[must_use]
    pub fn place(&self) -> String {
        format!("relay \"{}\" of topic {} on {}", self.relay, self.topic, self.settings.servers())
    }

    /// Makes the topic if it is not there; says whether it had to. How many replicas it gets, and how many of them have to be in sync, is for the
    /// brokers' defaults to say.
    ///
    /// # Errors
    /// The brokers cannot be reached, or refuse.
    pub async fn create(&self) -> Result<bool, CheckpointError> {
        compacted::create(&self.settings, &self.topic, &PURPOSE).await.map_err(|refused| match refused {
            Refused::ForGood(failure) => CheckpointError::Write(failure),
            Refused::ForNow(error) => CheckpointError::Read(error),
        })
    }

    /// What is wrong with the topic, or weaker than the promises need.
    pub async fn check(&self) -> Vec<Finding> {
        compacted::check(&self.settings, &self.topic, &PURPOSE).await
    }

    /// Waits until everything that was written by now can be read, if it was committed; answers whether it could not at once.
    ///
    /// # Errors
    /// The topic cannot be read, or a transaction is open for longer than `limit`.
    pub async fn settle(&self, limit: Duration) -> Result<bool, CheckpointError> {
        settle(&self.settings, &self.topic, PARTITION, limit).await.map_err(CheckpointError::Read)
    }

    /// Puts a checkpoint in the place of what is there, forwards or backwards, under the next epoch. A relay that still runs is fenced.
    ///
    /// # Errors
    /// The topic cannot be read or written.
    pub async fn replace(&mut self, checkpoint: &Checkpoint) -> Result<Epoch, CheckpointError> {
        self.open().await?;
        let stored = match port::Checkpoints::load(self).await {
            // What is damaged may be replaced: that is how an operator repairs it.
            Err(CheckpointError::Damaged { .. }) => None,
            stored => stored?,
        };
        let epoch = next_epoch(stored.as_ref());
        self.write(Some(&Checkpoint { epoch, ..checkpoint.clone() })).await?;
        self.close().await;
        Ok(epoch)
    }

    /// Removes the checkpoint; says whether there was one. A relay that still runs is fenced.
    ///
    /// # Errors
    /// The topic cannot be read or written.
    pub async fn forget(&mut self) -> Result<bool, CheckpointError> {
        self.open().await?;
        let had_one = !matches!(port::Checkpoints::load(self).await, Ok(None));
        if had_one {
            self.write(None).await?;
        }
        self.close().await;
        Ok(had_one)
    }

    /// Nothing of ours is undecided from here on, nor hidden.
    async fn open(&mut self) -> Result<(), CheckpointError> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => none
                .insert(Transactional::new(&self.settings, &self.relay, &self.topic).map_err(CheckpointError::Write)?),
        };
        writer.open().await.map_err(CheckpointError::Write)?;
        self.settle(SETTLE_LIMIT).await.map(drop)
    }

    async fn write(&mut self, checkpoint: Option<&Checkpoint>) -> Result<(), CheckpointError> {
        let writer = self.writer.as_mut().ok_or(CheckpointError::NotClaimed)?;
        writer.commit_with(checkpoint).await.map_err(CheckpointError::Write)?;
        self.claimed = checkpoint.cloned();
        Ok(())
    }

    async fn close(&mut self) {
        self.claimed = None;
        if let Some(writer) = self.writer.take() {
            writer.close(CLOSE).await;
        }
    }
}

impl port::Checkpoints for CheckpointTopic {
    type Error = CheckpointError;

    /// The last that was committed. Nothing that is written meanwhile is waited for.
    async fn load(&mut self) -> Result<Option<Checkpoint>, CheckpointError> {
        let (settings, topic) = (self.settings.clone(), self.topic.clone());
        let read = tokio::task::spawn_blocking(move || read_partition(&settings, &topic, PARTITION)).await;
        let lost = |_| ReadError::Kafka { topic: self.topic.clone(), reason: "the reader has died".to_owned() };
        let values = read.map_err(lost).flatten().map_err(CheckpointError::Read)?;
        let ours = values.into_iter().find(|(key, _)| key == self.relay.as_bytes());
        let Some((_, Some(value))) = ours else { return Ok(None) };
        let checkpoint = form::decode(&value).map_err(|fault| match fault {
            Fault::Newer(found) => CheckpointError::NewerFormat { found },
            Fault::Damaged(reason) => {
                CheckpointError::Damaged { relay: self.relay.clone(), topic: self.topic.clone(), reason }
            }
        })?;
        Ok(Some(checkpoint))
    }

    /// Fences earlier writers, and then writes under the next epoch.
    async fn claim(&mut self, checkpoint: &Checkpoint) -> Result<Epoch, CheckpointError> {
        self.open().await?;
        let claimed = checkpoint.claimed(self.load().await?.as_ref());
        self.write(Some(&claimed)).await?;
        Ok(claimed.epoch)
    }

    /// A transaction with the checkpoint alone.
    async fn save(&mut self, checkpoint: &Checkpoint) -> Result<(), CheckpointError> {
        let last = self.claimed.as_ref().ok_or(CheckpointError::NotClaimed)?;
        if last.position > checkpoint.position {
            return Err(CheckpointError::Backwards { stored: last.position, offered: checkpoint.position });
        }
        let (epoch, commit_time) = (last.epoch, checkpoint.commit_time.or(last.commit_time));
        self.write(Some(&Checkpoint { epoch, commit_time, ..checkpoint.clone() })).await
    }
}

fn next_epoch(stored: Option<&Checkpoint>) -> Epoch {
    Epoch(stored.map_or(0, |stored| stored.epoch.0).saturating_add(1))
}
