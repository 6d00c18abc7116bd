//! [`Message`] to bytes: what the server's side of the protocol does, for rows that are read from a table instead of the log, and for tests,
//! the simulation and fuzzing.
//!
//! The inverse of [`Message::parse`] for everything that the protocol can carry. What it cannot carry is cut to what it
//! can, so that the bytes are always well-formed: a name ends before its first NUL, a row or a relation at its 32,767th
//! column, a value at 2 GiB.

use bytes::{BufMut, BytesMut};

use super::{Cell, Column, Kind, Message, OldTuple, Relation, Truncate, Tuple};

impl Message<'_> {
    /// Appends the message.
    pub fn encode(&self, into: &mut BytesMut) {
        into.put_u8(self.tag());
        match self {
            Self::Begin(begin) => {
                into.put_u64(begin.final_lsn.get());
                into.put_i64(begin.commit_time.postgres_micros());
                into.put_u32(begin.xid);
            }
            Self::Commit(commit) => {
                into.put_u8(commit.flags);
                into.put_u64(commit.commit_lsn.get());
                into.put_u64(commit.end_lsn.get());
                into.put_i64(commit.commit_time.postgres_micros());
            }
            Self::Origin(origin) => {
                into.put_u64(origin.commit_lsn.get());
                put_name(into, origin.name);
            }
            Self::Relation(relation) => put_relation(into, relation),
            Self::Type(named) => {
                into.put_u32(named.id);
                put_name(into, named.namespace.as_bytes());
                put_name(into, named.name.as_bytes());
            }
            Self::Insert(insert) => {
                into.put_u32(insert.relation);
                put_tuple(into, b'N', &insert.new);
            }
            Self::Update(update) => {
                into.put_u32(update.relation);
                if let Some(old) = &update.old {
                    put_old(into, old);
                }
                put_tuple(into, b'N', &update.new);
            }
            Self::Delete(delete) => {
                into.put_u32(delete.relation);
                put_old(into, &delete.old);
            }
            Self::Truncate(truncate) => put_truncate(into, truncate),
            Self::Logical(message) => {
                into.put_u8(message.flags);
                into.put_u64(message.lsn.get());
                put_name(into, message.prefix);
                put_counted(into, message.content);
            }
            Self::Unknown(_) => {}
        }
    }

    /// The byte that the message begins with.
    const fn tag(&self) -> u8 {
        let kind = match self {
            Self::Begin(_) => Kind::Begin,
            Self::Commit(_) => Kind::Commit,
            Self::Origin(_) => Kind::Origin,
            Self::Relation(_) => Kind::Relation,
            Self::Type(_) => Kind::Type,
            Self::Insert(_) => Kind::Insert,
            Self::Update(_) => Kind::Update,
            Self::Delete(_) => Kind::Delete,
            Self::Truncate(_) => Kind::Truncate,
            Self::Logical(_) => Kind::Logical,
            Self::Unknown(tag) => return *tag,
        };
        kind.tag()
    }
}

fn put_relation(into: &mut BytesMut, relation: &Relation<'_>) {
    into.put_u32(relation.id);
    put_name(into, relation.namespace.as_bytes());
    put_name(into, relation.name.as_bytes());
    into.put_u8(relation.replica_identity);
    for Column { flags, name, type_id, type_modifier } in put_count16(into, &relation.columns) {
        into.put_u8(*flags);
        put_name(into, name.as_bytes());
        into.put_u32(*type_id);
        into.put_i32(*type_modifier);
    }
}

fn put_truncate(into: &mut BytesMut, truncate: &Truncate) {
    let count = i32::try_from(truncate.relations.len()).unwrap_or(i32::MAX);
    into.put_i32(count);
    into.put_u8(truncate.options);
    for (_, relation) in (0..count).zip(&truncate.relations) {
        into.put_u32(*relation);
    }
}

fn put_old(into: &mut BytesMut, old: &OldTuple<'_>) {
    match old {
        OldTuple::Key(key) => put_tuple(into, b'K', key),
        OldTuple::Row(row) => put_tuple(into, b'O', row),
    }
}

fn put_tuple(into: &mut BytesMut, tag: u8, tuple: &Tuple<'_>) {
    into.put_u8(tag);
    for cell in put_count16(into, &tuple.cells) {
        match cell {
            Cell::Null => into.put_u8(b'n'),
            Cell::Unchanged => into.put_u8(b'u'),
            Cell::Text(value) => {
                into.put_u8(b't');
                put_counted(into, value);
            }
            Cell::Binary(value) => {
                into.put_u8(b'b');
                put_counted(into, value);
            }
        }
    }
}

/// Appends how many of the items fit the count, and gives back those.
fn put_count16<'i, T>(into: &mut BytesMut, items: &'i [T]) -> impl Iterator<Item = &'i T> + use<'i, T> {
    let count = i16::try_from(items.len()).unwrap_or(i16::MAX);
    into.put_i16(count);
    (0..count).zip(items).map(|(_, item)| item)
}

fn put_counted(into: &mut BytesMut, value: &[u8]) {
    let count = i32::try_from(value.len()).unwrap_or(i32::MAX);
    into.put_i32(count);
    into.put_slice(usize::try_from(count).ok().and_then(|count| value.get(..count)).unwrap_or_default());
}

fn put_name(into: &mut BytesMut, name: &[u8]) {
    into.put_slice(name.split(|byte| *byte == 0).next().unwrap_or_default());
    into.put_u8(0);
}
