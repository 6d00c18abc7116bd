//! A frame in words: the same words as the decoder of `record.py` chooses, so that the two can be compared.

use std::fmt::Write;

use bytes::Bytes;
use walpost_core::frame::Frame;
use walpost_core::pgoutput::{Cell, Column, Message, OldTuple, Relation, Truncate, Tuple};

/// Panics on what does not parse.
pub(crate) fn of_frame(bytes: &Bytes) -> String {
    match Frame::parse(bytes.clone()).unwrap() {
        Frame::Keepalive(frame) => format!(
            "keepalive wal_end={} time={} reply_requested={}",
            frame.wal_end,
            frame.server_time.postgres_micros(),
            u8::from(frame.reply_requested)
        ),
        Frame::XLogData(frame) => format!(
            "xlogdata wal_start={} wal_end={} time={}: {}",
            frame.wal_start,
            frame.wal_end,
            frame.server_time.postgres_micros(),
            of_message(&Message::parse(&frame.data).unwrap())
        ),
    }
}

fn of_message(message: &Message<'_>) -> String {
    match message {
        Message::Begin(begin) => format!(
            "begin final_lsn={} commit_time={} xid={}",
            begin.final_lsn,
            begin.commit_time.postgres_micros(),
            begin.xid
        ),
        Message::Commit(commit) => format!(
            "commit flags={} commit_lsn={} end_lsn={} commit_time={}",
            commit.flags,
            commit.commit_lsn,
            commit.end_lsn,
            commit.commit_time.postgres_micros()
        ),
        Message::Origin(origin) => format!("origin commit_lsn={} name={}", origin.commit_lsn, quoted(origin.name)),
        Message::Relation(relation) => of_relation(relation),
        Message::Type(named) => {
            format!("type {} {}.{}", named.id, quoted(named.namespace.as_bytes()), quoted(named.name.as_bytes()))
        }
        Message::Insert(insert) => format!("insert {} new {}", insert.relation, of_tuple(&insert.new)),
        Message::Update(update) => {
            let old = update.old.as_ref().map(|old| of_old(old) + " ").unwrap_or_default();
            format!("update {} {old}new {}", update.relation, of_tuple(&update.new))
        }
        Message::Delete(delete) => format!("delete {} {}", delete.relation, of_old(&delete.old)),
        Message::Truncate(truncate) => of_truncate(truncate),
        Message::Logical(message) => format!(
            "message flags={} lsn={} prefix={} content={}",
            message.flags,
            message.lsn,
            quoted(message.prefix),
            quoted(message.content)
        ),
        Message::Unknown(tag) => format!("unknown {}", tag.escape_ascii()),
    }
}

fn of_relation(relation: &Relation<'_>) -> String {
    let of_column = |Column { flags, name, type_id, type_modifier }: &Column<'_>| {
        format!("{} flags={flags} type={type_id} modifier={type_modifier}", quoted(name.as_bytes()))
    };
    format!(
        "relation {} {}.{} identity={} ({})",
        relation.id,
        quoted(relation.namespace.as_bytes()),
        quoted(relation.name.as_bytes()),
        char::from(relation.replica_identity),
        listed(relation.columns.iter().map(of_column))
    )
}

fn of_truncate(truncate: &Truncate) -> String {
    format!("truncate options={} ({})", truncate.options, listed(truncate.relations.iter().map(u32::to_string)))
}

fn of_old(old: &OldTuple<'_>) -> String {
    match old {
        OldTuple::Key(key) => format!("key {}", of_tuple(key)),
        OldTuple::Row(row) => format!("old {}", of_tuple(row)),
    }
}

fn of_tuple(tuple: &Tuple<'_>) -> String {
    let of_cell = |cell: &Cell<'_>| match cell {
        Cell::Null => "null".to_owned(),
        Cell::Unchanged => "unchanged".to_owned(),
        Cell::Text(value) => quoted(value),
        Cell::Binary(value) => format!("binary {}", quoted(value)),
    };
    format!("({})", listed(tuple.cells.iter().map(of_cell)))
}

fn listed(items: impl Iterator<Item = String>) -> String {
    items.collect::<Vec<_>>().join(", ")
}

/// Printable ASCII as it is, the rest escaped; of what is long, the beginning, the end and the length.
fn quoted(value: &[u8]) -> String {
    let mut words = String::new();
    let written = match (value.first_chunk::<16>(), value.last_chunk::<16>()) {
        (Some(first), Some(last)) if value.len() > 64 => {
            write!(words, "\"{}\"..\"{}\" of {} bytes", first.escape_ascii(), last.escape_ascii(), value.len())
        }
        _ => write!(words, "\"{}\"", value.escape_ascii()),
    };
    written.unwrap();
    words
}
