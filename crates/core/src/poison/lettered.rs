//! The rows of which letters tell, for whoever reads rows from their tables: of these somebody has the decision, or made it.
//!
//! A row of a table has no place in the log by which its letter could be found. What both have is what identifies the row in its table: the cells of
//! its key, as the log told them, or all of them where it told no key.

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest as _, Sha256};

use super::DeadLetter;
use super::reference::{FULL, is_key};
use crate::outbox::TableName;
use crate::pgoutput::{Cell, Message, Relation, Tuple};

/// See the module's documentation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LetteredRows {
    /// By the columns that identify rows: those may have been others when another letter was set aside.
    tables: BTreeMap<TableName, BTreeMap<Vec<String>, BTreeSet<[u8; 32]>>>,
}

impl LetteredRows {
    /// Adds the row of a letter. One whose messages cannot be read is none that a table could have.
    pub fn add(&mut self, letter: &DeadLetter) {
        let (relation, insert) = (Message::parse(&letter.row.relation), Message::parse(&letter.row.insert));
        let (Ok(Message::Relation(relation)), Ok(Message::Insert(insert))) = (relation, insert) else { return };
        let has_key = relation.replica_identity != FULL && relation.columns.iter().any(is_key);
        let identify = |column| !has_key || is_key(column);
        let pairs = relation.columns.iter().zip(&insert.new.cells);
        let identity = pairs.filter(|(column, cell)| identify(column) && **cell != Cell::Unchanged);
        let (columns, cells): (Vec<_>, Vec<_>) = identity.map(|(column, cell)| (column.name.to_owned(), *cell)).unzip();
        if !columns.is_empty() {
            let rows = self.tables.entry(letter.table.clone()).or_default().entry(columns).or_default();
            rows.insert(digest(cells.into_iter()));
        }
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.tables.is_empty()
    }

    /// Whether a letter tells of this row of the relation, which goes by its table's name.
    #[must_use]
    pub fn has(&self, relation: &Relation<'_>, row: &Tuple<'_>) -> bool {
        let is_table = |table: &&TableName| table.schema == relation.namespace && table.table == relation.name;
        let Some(table) = self.tables.keys().find(is_table).and_then(|table| self.tables.get(table)) else {
            return false;
        };
        let cell = |name: &String| {
            let place = relation.columns.iter().position(|column| column.name == name)?;
            row.cells.get(place).copied()
        };
        table.iter().any(|(columns, rows)| {
            let cells: Option<Vec<Cell<'_>>> = columns.iter().map(cell).collect();
            cells.is_some_and(|cells| rows.contains(&digest(cells.into_iter())))
        })
    }
}

/// Of large cells no more than that is kept.
fn digest<'a>(cells: impl Iterator<Item = Cell<'a>>) -> [u8; 32] {
    let mut hash = Sha256::new();
    for cell in cells {
        // No cell is as long as the length of the one that is NULL.
        hash.update(cell.bytes().map_or(u64::MAX, |bytes| bytes.len() as u64).to_be_bytes());
        hash.update(cell.bytes().unwrap_or_default());
    }
    hash.finalize().into()
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};

    use super::*;
    use crate::lsn::Lsn;
    use crate::pgoutput::{Column, Insert};
    use crate::poison::{Cause, Keep, Row};
    use crate::position::{Identity, Timeline};
    use crate::time::Timestamp;

    fn relation(replica_identity: u8, key: &[&str], columns: &[&'static str]) -> Relation<'static> {
        let flags = |name: &&str| u8::from(key.contains(name));
        let column = |name: &&'static str| Column { flags: flags(name), name, type_id: 25, type_modifier: -1 };
        let columns = columns.iter().map(column).collect();
        Relation { id: 7, namespace: "public", name: "outbox", replica_identity, columns }
    }

    fn tuple<'a>(cells: &[Option<&'a str>]) -> Tuple<'a> {
        let cell = |cell: &Option<&'a str>| cell.map_or(Cell::Null, |text| Cell::Text(text.as_bytes()));
        Tuple { cells: cells.iter().map(cell).collect() }
    }

    fn encoded(message: &Message<'_>) -> Bytes {
        let mut bytes = BytesMut::new();
        message.encode(&mut bytes);
        bytes.freeze()
    }

    fn letter(relation: &Relation<'_>, cells: &[Option<&str>], keep: Keep) -> DeadLetter {
        let insert = encoded(&Message::Insert(Insert { relation: 7, new: tuple(cells) }));
        let letter = DeadLetter {
            identity: Identity { timeline: Timeline(1), commit_lsn: Lsn::new(1), ordinal: 0 },
            commit_time: Timestamp::from_postgres_micros(0),
            table: TableName { schema: "public".to_owned(), table: "outbox".to_owned() },
            parking_key: None,
            event_id: None,
            cause: Cause::Parked,
            record: None,
            row: Row { relation: encoded(&Message::Relation(relation.clone())), insert, reference: None },
        };
        letter.keeping(keep)
    }

    fn of(letters: &[DeadLetter]) -> LetteredRows {
        let mut rows = LetteredRows::default();
        letters.iter().for_each(|letter| rows.add(letter));
        rows
    }

    #[test]
    fn a_row_is_known_by_its_key_whatever_became_of_its_other_columns_and_of_the_table() {
        let logged = relation(b'd', &["id"], &["payload", "id"]);
        // As it is read later: without flags, with other columns in another order.
        let read = relation(b'd', &[], &["id", "note", "payload"]);
        for keep in [Keep::Row, Keep::Reference] {
            let rows = of(&[letter(&logged, &[Some("a"), Some("1")], keep)]);
            assert!(rows.has(&read, &tuple(&[Some("1"), None, Some("changed")])), "{keep:?}");
            assert!(!rows.has(&read, &tuple(&[Some("2"), None, Some("a")])), "{keep:?}");
            let elsewhere = Relation { name: "other", ..read.clone() };
            assert!(!rows.has(&elsewhere, &tuple(&[Some("1"), None, Some("a")])), "{keep:?}");
            let without = relation(b'd', &[], &["note", "payload"]);
            assert!(!rows.has(&without, &tuple(&[Some("1"), Some("1")])), "{keep:?}");
        }
    }

    #[test]
    fn a_row_without_a_key_is_known_by_all_of_it() {
        for relation in [relation(b'n', &[], &["id", "payload"]), relation(b'f', &["id"], &["id", "payload"])] {
            let rows = of(&[letter(&relation, &[Some("1"), None], Keep::Reference)]);
            assert!(rows.has(&relation, &tuple(&[Some("1"), None])));
            for other in [[Some("1"), Some("")], [Some("1"), Some("a")], [None, Some("1")]] {
                assert!(!rows.has(&relation, &tuple(&other)), "{other:?}");
            }
        }
    }

    #[test]
    fn the_cells_of_a_key_of_several_columns_do_not_run_into_each_other() {
        let relation = relation(b'd', &["a", "b"], &["a", "b"]);
        let rows = of(&[letter(&relation, &[Some("x"), Some("yz")], Keep::Row)]);
        assert!(rows.has(&relation, &tuple(&[Some("x"), Some("yz")])));
        assert!(!rows.has(&relation, &tuple(&[Some("xy"), Some("z")])));
        assert!(!rows.is_empty() && LetteredRows::default().is_empty());
    }

    #[test]
    fn a_letter_that_cannot_be_read_adds_nothing() {
        let mut letter = letter(&relation(b'd', &["id"], &["id"]), &[Some("1")], Keep::Row);
        letter.row.insert = Bytes::from_static(b"I");
        assert!(of(&[letter]).is_empty());
    }
}
