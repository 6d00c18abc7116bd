//! Letters that keep a reference to their row instead of the row: the cells of its key, and how the whole of it was.
//!
//! A reference has the form of the row: a `Relation` and an `Insert` message, in which the cells that are not kept stand as [`Cell::Unchanged`],
//! which no insert of the log has. The key is the replica identity, which the log tells: the primary key unless somebody chose otherwise, and
//! unique in any case. Where the log tells none, or all columns (`REPLICA IDENTITY FULL`), the whole row is kept: a letter that nobody could
//! find a row by would lose it.
//!
//! Whoever reads the row again says so by [`DeadLetter::with_row`]. Whether it is the same row is seen by its hash.

use bytes::{Bytes, BytesMut};
use sha2::{Digest as _, Sha256};

use super::{DeadLetter, Row};
use crate::pgoutput::{Cell, Insert, Message, Relation, Tuple};

/// What a letter keeps of its row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Keep {
    /// All of it.
    #[default]
    Row,
    /// What identifies it in its table.
    Reference,
}

/// How a row was of which a letter keeps a reference.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The SHA-256 of its `Insert` message.
    pub sha256: [u8; 32],
    /// The place of the column that was the payload, byte for byte, where one was.
    pub payload_column: Option<usize>,
}

impl Reference {
    /// Whether this is the `Insert` message of the row as it was.
    #[must_use]
    pub fn is_of(&self, insert: &[u8]) -> bool {
        sha256(insert) == self.sha256
    }
}

impl DeadLetter {
    /// The letter as it is to be kept: without the payload where a reference to its row is enough.
    #[must_use]
    pub(crate) fn keeping(mut self, keep: Keep) -> Self {
        let payload = self.record.as_ref().and_then(|record| record.value.as_deref());
        self.row = self.row.kept(payload, keep);
        if let Some(record) = self.record.as_mut().filter(|_| self.row.reference.is_some()) {
            record.value = None;
        }
        self
    }

    /// The letter with the whole of its row, as it was read from its table. It has the record that it had only where that is known to the last byte.
    #[must_use]
    pub fn with_row(mut self, insert: Bytes) -> Self {
        let Some(reference) = self.row.reference.take() else { return self };
        let payload = reference.payload_column.filter(|_| reference.is_of(&insert)).and_then(|column| {
            let Ok(Message::Insert(parsed)) = &Message::parse(&insert) else { return None };
            parsed.new.cells.get(column)?.slice_of(&insert)
        });
        self.record = self.record.filter(|_| payload.is_some());
        if let Some(record) = &mut self.record {
            record.value = payload;
        }
        self.row.insert = insert;
        self
    }
}

impl Row {
    /// The row as a letter keeps it that has this payload.
    pub(crate) fn kept(self, payload: Option<&[u8]>, keep: Keep) -> Self {
        match keep {
            Keep::Row => self,
            Keep::Reference => self.reduced(payload).unwrap_or(self),
        }
    }

    fn reduced(&self, payload: Option<&[u8]>) -> Option<Self> {
        let (relation, insert) = (Message::parse(&self.relation), Message::parse(&self.insert));
        let (Ok(Message::Relation(relation)), Ok(Message::Insert(insert))) = (relation, insert) else { return None };
        let new = key_of(&relation, &insert.new)?;
        let payload_column =
            payload.and_then(|payload| insert.new.cells.iter().position(|cell| cell.bytes() == Some(payload)));
        let mut reduced = BytesMut::new();
        Message::Insert(Insert { relation: insert.relation, new }).encode(&mut reduced);
        let reference = Reference { sha256: sha256(&self.insert), payload_column };
        Some(Self { relation: self.relation.clone(), insert: reduced.freeze(), reference: Some(reference) })
    }
}

/// `REPLICA IDENTITY FULL`.
pub(super) const FULL: u8 = b'f';

/// The row with the cells of its key alone; nothing where it has no key that a row can be found by.
fn key_of<'a>(relation: &Relation<'_>, row: &Tuple<'a>) -> Option<Tuple<'a>> {
    if relation.replica_identity == FULL || relation.columns.len() != row.cells.len() {
        return None;
    }
    let kept = |(column, cell): (_, &Cell<'a>)| if is_key(column) { *cell } else { Cell::Unchanged };
    let cells = relation.columns.iter().zip(&row.cells).map(kept).collect::<smallvec::SmallVec<_>>();
    let has_key = cells.iter().any(|cell| *cell != Cell::Unchanged);
    let is_found = |cell: &Cell<'_>| matches!(cell, Cell::Text(_) | Cell::Unchanged);
    (has_key && cells.iter().all(is_found)).then_some(Tuple { cells })
}

/// Whether a column is of the key that the log tells.
pub(super) fn is_key(column: &crate::pgoutput::Column<'_>) -> bool {
    column.flags & 1 == 1
}

fn sha256(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lsn::Lsn;
    use crate::outbox::TableName;
    use crate::pgoutput::Column;
    use crate::poison::Cause;
    use crate::position::{Identity, Timeline};
    use crate::record::{Headers, Record};
    use crate::time::Timestamp;

    fn encoded(message: &Message<'_>) -> Bytes {
        let mut bytes = BytesMut::new();
        message.encode(&mut bytes);
        bytes.freeze()
    }

    fn relation(replica_identity: u8, flags: [u8; 3]) -> Bytes {
        let columns = flags.into_iter().zip(["id", "key", "payload"]);
        let columns = columns.map(|(flags, name)| Column { flags, name, type_id: 25, type_modifier: -1 }).collect();
        encoded(&Message::Relation(Relation { id: 7, namespace: "public", name: "outbox", replica_identity, columns }))
    }

    fn insert(cells: [Cell<'_>; 3]) -> Bytes {
        encoded(&Message::Insert(Insert { relation: 7, new: Tuple { cells: cells.into_iter().collect() } }))
    }

    fn letter(row: Row, value: Option<&'static [u8]>) -> DeadLetter {
        let identity = Identity { timeline: Timeline(1), commit_lsn: Lsn::new(1), ordinal: 0 };
        let record = Record {
            identity,
            topic: "t".into(),
            key: Some(Bytes::from_static(b"k")),
            value: value.map(Bytes::from_static),
            headers: Headers::new(),
            timestamp_ms: 1,
            is_dated_by_row: false,
            partition: None,
        };
        DeadLetter {
            identity,
            commit_time: Timestamp::default(),
            table: TableName { schema: "public".to_owned(), table: "outbox".to_owned() },
            parking_key: None,
            event_id: None,
            cause: Cause::Parked,
            record: Some(record),
            row,
        }
    }

    const ROW: [Cell<'static>; 3] = [Cell::Text(b"1"), Cell::Text(b"k"), Cell::Text(b"hello")];

    fn whole(replica_identity: u8, flags: [u8; 3], cells: [Cell<'_>; 3]) -> Row {
        Row { relation: relation(replica_identity, flags), insert: insert(cells), reference: None }
    }

    #[test]
    fn a_reference_keeps_the_key_alone_and_is_the_letter_again_with_its_row() {
        let full = letter(whole(b'd', [1, 0, 0], ROW), Some(b"hello"));
        assert_eq!(full.clone().keeping(Keep::Row), full);
        let kept = full.clone().keeping(Keep::Reference);
        assert_eq!(kept.row.insert, insert([ROW[0], Cell::Unchanged, Cell::Unchanged]));
        assert_eq!(kept.record.as_ref().unwrap().value, None);
        let reference = kept.row.reference.clone().unwrap();
        assert_eq!(reference.payload_column, Some(2));
        assert!(reference.is_of(&full.row.insert) && !reference.is_of(&kept.row.insert));
        assert_eq!(kept.clone().with_row(full.row.insert.clone()), full);
        assert!(kept.parked_bytes() < full.parked_bytes());
        // A row that was changed, and one whose payload was made of it, have no record that could go out as it was.
        let changed = insert([ROW[0], ROW[1], Cell::Text(b"other")]);
        assert_eq!(kept.with_row(changed).record, None);
        let made = letter(whole(b'd', [1, 0, 0], ROW), Some(b"made")).keeping(Keep::Reference);
        assert_eq!(made.with_row(full.row.insert.clone()).record, None);
    }

    #[test]
    fn a_row_that_could_not_be_found_again_is_kept_whole() {
        for row in [
            whole(b'd', [0, 0, 0], ROW),
            whole(b'f', [1, 1, 1], ROW),
            whole(b'n', [0, 0, 0], ROW),
            whole(b'i', [1, 0, 0], [Cell::Null, ROW[1], ROW[2]]),
            Row { insert: Bytes::from_static(b"?"), ..whole(b'd', [1, 0, 0], ROW) },
            Row { relation: Bytes::new(), ..whole(b'd', [1, 0, 0], ROW) },
        ] {
            let full = letter(row, Some(b"hello"));
            assert_eq!(full.clone().keeping(Keep::Reference), full);
        }
    }
}
