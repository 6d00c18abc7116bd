//! A row of the log for as long as it is owed: kept as it came, so that a letter can be made of it.
//!
//! Nothing is read before it is needed: a row costs two counted references, and only where something is parked is its key looked for.

use std::sync::Arc;

use bytes::Bytes;

use super::{Cause, DeadLetter, Keep, ParkingKey, Row};
use crate::outbox::TableName;
use crate::pgoutput::{Cell, Message};
use crate::position::Identity;
use crate::record::Record;
use crate::time::Timestamp;

/// How many characters of an event's id are told.
const MAX_TOLD_ID: usize = 100;

/// What the letters of a relation's rows have in common.
#[derive(Debug, PartialEq, Eq)]
pub struct Letterhead {
    /// The outbox.
    pub table: TableName,
    /// The bytes of the `Relation` message.
    pub relation: Bytes,
    /// The place of the column that the header `id` is made of.
    pub id: Option<usize>,
    /// The place of the column that chooses the topic.
    pub route: Option<usize>,
    /// The place of the column that the key is made of.
    pub key: Option<usize>,
}

/// See the module's documentation.
#[derive(Debug, Clone)]
pub struct LoggedRow {
    /// What it shares with the others of its relation.
    pub head: Arc<Letterhead>,
    /// When its transaction committed.
    pub commit_time: Timestamp,
    /// The bytes of the `Insert` message.
    pub insert: Bytes,
}

/// The raw texts of a row whose order is kept: route and key.
pub(crate) type KeyTexts = (Option<Bytes>, Bytes);

impl LoggedRow {
    /// The texts that its order goes by; none for a row whose key is NULL.
    pub(crate) fn key_texts(&self) -> Option<KeyTexts> {
        let [key, route] = self.texts([self.head.key, self.head.route]);
        Some((route, key?))
    }

    /// The text of the column that the header `id` is made of, for telling people which row is meant. Cut where it is long.
    #[must_use]
    pub fn event_id(&self) -> Option<String> {
        let [id] = self.texts([self.head.id]);
        Some(String::from_utf8_lossy(&id?).chars().take(MAX_TOLD_ID).collect())
    }

    /// The letter of this row.
    #[must_use]
    pub fn letter(&self, identity: Identity, cause: Cause, record: Option<Record>) -> DeadLetter {
        let table = self.head.table.clone();
        let parking_key = self.key_texts().map(|(route, key)| ParkingKey { table: table.clone(), route, key });
        DeadLetter {
            identity,
            commit_time: self.commit_time,
            table,
            parking_key,
            event_id: self.event_id(),
            cause,
            record,
            row: self.row(),
        }
    }

    /// How many bytes a letter keeps of its `Insert` message.
    pub(crate) fn kept_bytes(&self, keep: Keep) -> u64 {
        match keep {
            Keep::Row => self.insert.len() as u64,
            Keep::Reference => self.row().kept(None, keep).insert.len() as u64,
        }
    }

    fn row(&self) -> Row {
        Row { relation: self.head.relation.clone(), insert: self.insert.clone(), reference: None }
    }

    /// The texts of these columns, slices of the row.
    fn texts<const N: usize>(&self, columns: [Option<usize>; N]) -> [Option<Bytes>; N] {
        let parsed = Message::parse(&self.insert);
        let Ok(Message::Insert(insert)) = &parsed else { return [const { None }; N] };
        columns
            .map(|column| insert.new.cells.get(column?).copied().and_then(|cell: Cell<'_>| cell.slice_of(&self.insert)))
    }
}

#[cfg(test)]
impl Default for LoggedRow {
    /// A row of a relation without columns.
    fn default() -> Self {
        let table = TableName { schema: "public".to_owned(), table: "outbox".to_owned() };
        let head = Letterhead { table, relation: Bytes::new(), id: None, route: None, key: None };
        Self { head: Arc::new(head), commit_time: Timestamp::default(), insert: Bytes::new() }
    }
}
