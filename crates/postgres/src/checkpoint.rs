//! Where a relay keeps how far it got: a row of the source database, a file, or nothing but the slot.
//!
//! A store moves forward only, and only for the writer whose epoch it carries. It does not judge whether its content fits the
//! server: `walpost_core::start` does.

mod file;
mod postgres;
mod slot;

use std::io::{self, ErrorKind};
use std::path::PathBuf;

use walpost_core::lsn::Lsn;
use walpost_core::port::Checkpoints;
use walpost_core::position::{Checkpoint, Epoch};
use walpost_core::start::{ServerState, SlotState, Wanted};

pub use file::FileStore;
pub use postgres::PostgresStore;
pub use slot::SlotStore;

use crate::error::Class;

/// Why a checkpoint could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source database did not answer or refused.
    #[error("the checkpoint in the source database cannot be reached")]
    Postgres {
        /// Why.
        #[source]
        source: crate::error::Error,
    },
    /// Another writer has claimed the checkpoint.
    #[error(
        "the checkpoint was claimed by another process (epoch {theirs}, ours is {ours}): this one may no longer write"
    )]
    Fenced {
        /// The epoch that this process claimed.
        ours: u64,
        /// The one that is stored.
        theirs: u64,
    },
    /// An older position was offered than is stored.
    #[error("the checkpoint stands at {stored} and never goes back to {offered}")]
    Backwards {
        /// What is stored.
        stored: Lsn,
        /// What was to be stored.
        offered: Lsn,
    },
    /// The checkpoint vanished while it was in use.
    #[error("the checkpoint of relay \"{relay}\" is gone: somebody has removed it while the relay ran")]
    Gone {
        /// Whose.
        relay: String,
    },
    /// It was to be saved by somebody who has not claimed it.
    #[error("the checkpoint has not been claimed by this process")]
    NotClaimed,
    /// A newer walpost wrote it.
    #[error("the checkpoint has format {found}; this walpost understands up to {}", Checkpoint::FORMAT_VERSION)]
    NewerFormat {
        /// Its format.
        found: u32,
    },
    /// A stored value is not what it should be.
    #[error("the stored checkpoint has \"{value}\" for its {field}")]
    Value {
        /// Which field.
        field: &'static str,
        /// What it holds.
        value: String,
    },
    /// A file could not be read or written.
    #[error("the checkpoint file {} cannot be {action}", .path.display())]
    File {
        /// Which.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// A file holds no whole checkpoint.
    #[error("the checkpoint file {} is damaged: {reason}", .path.display())]
    Damaged {
        /// Which.
        path: PathBuf,
        /// How it shows.
        reason: String,
    },
    /// Another process holds the file.
    #[error("the checkpoint file {} is in use by another process", .path.display())]
    Locked {
        /// Which.
        path: PathBuf,
    },
    /// There is nothing to copy.
    #[error("there is no checkpoint to copy")]
    Empty,
    /// The slot cannot be adopted.
    #[error("the slot \"{slot}\" has no position that could be adopted: {reason}")]
    NoPosition {
        /// Which.
        slot: String,
        /// Why.
        reason: String,
    },
    /// The store has no place of its own.
    #[error("the store \"slot\" keeps nothing besides the slot's own confirmed position")]
    SlotKeepsNothing,
    /// The process is shutting down under the write.
    #[error("the write of the checkpoint file was given up because the process is ending")]
    GivenUp,
}

impl Error {
    /// What follows from it.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Postgres { source } => source.class(),
            Self::File { source, .. } => of_file(source),
            Self::GivenUp => Class::Transient,
            Self::Locked { .. } => {
                Class::NeedsOperator("stop the other process, or give this relay a file of its own in checkpoint.path")
            }
            Self::Fenced { .. } => Class::NeedsOperator("run one relay for each slot; the one that claimed it goes on"),
            Self::Gone { .. } => Class::NeedsOperator("start the relay again: it compares slot and checkpoint anew"),
            Self::Backwards { .. } => {
                Class::NeedsOperator("start the relay again; to see what is stored, run: walpost checkpoint show")
            }
            Self::NewerFormat { .. } => Class::NeedsOperator("run the walpost that wrote it, or a newer one"),
            Self::Damaged { .. } | Self::Value { .. } => {
                Class::NeedsOperator("to go on from the slot's confirmed position, run: walpost checkpoint adopt-slot")
            }
            Self::Empty => Class::NeedsOperator("to see what a store holds, run: walpost checkpoint show"),
            Self::NoPosition { .. } => {
                Class::NeedsOperator("drop the slot with pg_drop_replication_slot, then run: walpost init")
            }
            Self::SlotKeepsNothing => Class::NeedsOperator("name a store that keeps a checkpoint: postgres or file"),
            Self::NotClaimed => Class::Unforeseen,
        }
    }

    /// What an operator has to do, where somebody has to.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self.class() {
            Class::NeedsOperator(remedy) => Some(remedy),
            _ => None,
        }
    }
}

/// What does not change by itself, as far as a start can tell. Anything else, such as a full disk, may pass.
fn of_file(error: &io::Error) -> Class {
    match error.kind() {
        ErrorKind::NotFound | ErrorKind::NotADirectory | ErrorKind::IsADirectory => Class::NeedsOperator(
            "make its folder, or correct checkpoint.path: the name of a file in a folder that is there",
        ),
        ErrorKind::PermissionDenied => Class::NeedsOperator(
            "let the user that walpost runs as read and write the file and its folder, or correct checkpoint.path",
        ),
        ErrorKind::ReadOnlyFilesystem => Class::NeedsOperator(
            "its file system is read-only: mount it so that it can be written, or name a file on another one in checkpoint.path",
        ),
        _ => Class::Transient,
    }
}

/// One of the stores, as the configuration chooses.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a process has one or two of them")]
pub enum Store {
    /// A row of the source database.
    Postgres(Box<PostgresStore>),
    /// A file.
    File(FileStore),
    /// The slot alone.
    Slot(Box<SlotStore>),
}

impl Store {
    /// The relay's row in the source database.
    #[must_use]
    pub fn postgres(store: PostgresStore) -> Self {
        Self::Postgres(Box::new(store))
    }

    /// A file.
    #[must_use]
    pub fn file(store: FileStore) -> Self {
        Self::File(store)
    }

    /// The slot alone.
    #[must_use]
    pub fn slot(store: SlotStore) -> Self {
        Self::Slot(Box::new(store))
    }

    /// Where it keeps the checkpoint, for people.
    #[must_use]
    pub fn place(&self) -> String {
        match self {
            Self::Postgres(store) => store.place(),
            Self::File(store) => store.place(),
            Self::Slot(store) => store.place(),
        }
    }

    /// Whether it keeps anything of its own.
    #[must_use]
    pub fn keeps_a_checkpoint(&self) -> bool {
        !matches!(self, Self::Slot(_))
    }

    /// Puts a checkpoint in the place of what is there, forwards or backwards, under the next epoch, so that a relay that
    /// still runs is fenced. For commands of an operator.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn replace(&mut self, checkpoint: &Checkpoint) -> Result<Epoch, Error> {
        match self {
            Self::Postgres(store) => store.replace(checkpoint).await,
            Self::File(store) => store.replace(checkpoint).await,
            Self::Slot(_) => Err(Error::SlotKeepsNothing),
        }
    }

    /// Removes the checkpoint; says whether there was one. A relay that still runs then fails.
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn forget(&mut self) -> Result<bool, Error> {
        match self {
            Self::Postgres(store) => store.forget().await,
            Self::File(store) => store.forget().await,
            Self::Slot(_) => Err(Error::SlotKeepsNothing),
        }
    }
}

impl Checkpoints for Store {
    type Error = Error;

    async fn load(&mut self) -> Result<Option<Checkpoint>, Error> {
        match self {
            Self::Postgres(store) => store.load().await,
            Self::File(store) => store.load().await,
            Self::Slot(store) => store.load().await,
        }
    }

    async fn claim(&mut self, checkpoint: &Checkpoint) -> Result<Epoch, Error> {
        match self {
            Self::Postgres(store) => store.claim(checkpoint).await,
            Self::File(store) => store.claim(checkpoint).await,
            Self::Slot(store) => store.claim(checkpoint).await,
        }
    }

    async fn save(&mut self, checkpoint: &Checkpoint) -> Result<(), Error> {
        match self {
            Self::Postgres(store) => store.save(checkpoint).await,
            Self::File(store) => store.save(checkpoint).await,
            Self::Slot(store) => store.save(checkpoint).await,
        }
    }
}

/// The checkpoint that stands where the slot is confirmed: the first of a relay, or what `adopt-slot` writes.
///
/// # Errors
/// The slot has been invalidated, or has no confirmed position.
pub fn at_slot(server: &ServerState, slot: &SlotState, wanted: &Wanted) -> Result<Checkpoint, Error> {
    let no_position = |reason: &str| Error::NoPosition { slot: slot.name.clone(), reason: reason.to_owned() };
    if let Some(reason) = &slot.lost {
        return Err(no_position(reason));
    }
    let position = slot.confirmed.filter(|lsn| lsn.is_valid()).ok_or_else(|| no_position("it was never confirmed"))?;
    Ok(Checkpoint {
        relay: wanted.relay.clone(),
        system: server.system,
        timeline: server.timeline,
        database: wanted.database.clone(),
        slot: wanted.slot.clone(),
        position,
        commit_time: None,
        settled_rows: None,
        epoch: Epoch(0),
    })
}
