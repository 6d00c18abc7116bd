//! Where rows are set aside that cannot be delivered, and those that wait behind one: the table `walpost.dead_letter` of the source database.
//!
//! Two hands write there. The relay, by [`LetterStore`], sets letters aside and ends them. An operator, by [`operator`], looks at
//! them and marks them for the relay, which alone publishes: nobody else could keep the order of a key. Neither judges whether a row is bad; core does.
//!
//! A letter is known by its row: cluster, timeline, commit and ordinal. A database that is restored to an older state has no letters of a later
//! one, for they lie in it; one that is moved to another cluster brings its letters along, and none of them is mistaken for a row of the new log.

mod fetch;
mod headers;
mod letter;
pub mod operator;
mod parked;
mod store;
mod text;

pub use fetch::{Fetched, RowReader};
pub use store::LetterStore;

use walpost_core::position::Identity;

use crate::error::{Class, Error as SqlError};

/// `undefined_table`; a schema that does not exist is told so as well.
const UNDEFINED_TABLE: &str = "42P01";

/// Why dead letters could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The source database did not answer or refused.
    #[error("the dead letters in the source database cannot be reached")]
    Postgres {
        /// Why.
        #[source]
        source: SqlError,
    },
    /// The rows that letters keep references to could not be read.
    #[error("the rows that dead letters keep references to cannot be read")]
    Rows {
        /// Why.
        #[source]
        source: SqlError,
    },
    /// Nobody has made the table.
    #[error("the table walpost.dead_letter does not exist")]
    NoTable,
    /// A row is larger than PostgreSQL can store.
    #[error(
        "the insert {} of the transaction that commits at {} makes a dead letter of {bytes} bytes, more than PostgreSQL stores",
        .identity.ordinal,
        .identity.commit_lsn
    )]
    TooLarge {
        /// Which row.
        identity: Identity,
        /// How large its letter is.
        bytes: usize,
    },
    /// A row has a number that no transaction can reach.
    #[error("the insert {ordinal} of a transaction is beyond what can be stored")]
    Ordinal {
        /// The number.
        ordinal: u64,
    },
    /// A letter of which somebody changed what says whose order it keeps.
    #[error("nobody knows which key waits behind the dead letter {id}: its column {field} holds what no relay wrote")]
    Keyless {
        /// Which letter.
        id: i64,
        /// Which column.
        field: &'static str,
    },
    /// A stored value is not what it should be. What it is, is not told: it may be a part of the payload.
    #[error("the column {field} of the dead letter {id} holds what no relay wrote")]
    Value {
        /// Which letter.
        id: i64,
        /// Which column.
        field: &'static str,
    },
}

impl From<SqlError> for Error {
    fn from(source: SqlError) -> Self {
        if source.sqlstate() == Some(UNDEFINED_TABLE) { Self::NoTable } else { Self::Postgres { source } }
    }
}

impl Error {
    /// What follows from it.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Postgres { source } | Self::Rows { source } => source.class(),
            Self::NoTable => Class::NeedsOperator("run: walpost init"),
            Self::TooLarge { .. } => Class::NeedsOperator(
                "let the broker take the record (max.message.bytes of its topic, message.max.bytes of sink.kafka), or go on without its \
                 transaction: move the slot behind it with pg_replication_slot_advance, then run: walpost checkpoint adopt-slot",
            ),
            Self::Ordinal { .. } => Class::Unforeseen,
            Self::Value { .. } | Self::Keyless { .. } => Class::NeedsOperator(
                "somebody changed it by hand: put it right in walpost.dead_letter, or give the letter up with walpost dlq drop --id",
            ),
        }
    }

    /// Whether it is about what lies in the table, and not about who keeps it.
    #[must_use]
    pub fn is_about_content(&self) -> bool {
        matches!(self, Self::Value { .. } | Self::Keyless { .. })
    }

    /// What an operator has to do, where somebody has to.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match (self, self.class()) {
            (Self::Value { id, .. } | Self::Keyless { id, .. }, _) => Some(format!(
                "somebody changed it by hand: put it right in walpost.dead_letter, or give the letter up, so that its row is never published, with: \
                 walpost dlq drop --id {id} --yes"
            )),
            (_, Class::NeedsOperator(remedy)) => Some(remedy.to_owned()),
            _ => None,
        }
    }
}
