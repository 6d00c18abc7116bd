//! Letters as JSON for programs: the names stay as they are.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use walpost_core::poison::DeadLetter;
use walpost_core::poison::operator::{Listed, Unreadable};
use walpost_core::record::Record;

use super::letter;

/// A letter without its content.
pub(super) fn listed(letter: &Listed) -> Value {
    json!({
        "id": letter.id,
        "state": letter.state,
        "cause": letter.cause,
        "reason": letter.reason,
        "attempts": letter.attempts,
        "outbox": letter.outbox.to_string(),
        "event_id": letter.event_id,
        "route": letter.route,
        "key": letter.key,
        "topic": letter.topic,
        "timeline": letter.timeline,
        "commit_lsn": letter.commit_lsn.to_string(),
        "ordinal": letter.ordinal,
        "commit_time": letter.commit_time,
        "first_at": letter.first_at,
        "last_at": letter.last_at,
        "marked_by": letter.marked_by,
        "marked_at": letter.marked_at,
        "ended_at": letter.ended_at,
        "bytes": letter.bytes,
    })
}

/// A letter that cannot be read.
pub(super) fn unreadable(letter: &Unreadable) -> Value {
    json!({ "id": letter.id, "state": "unreadable", "record_key": letter.key, "reason": letter.reason })
}

/// All of a letter: its record, where there is one, and its row.
pub(super) fn shown(listed: &Listed, letter: &DeadLetter) -> Value {
    let mut all = self::listed(listed);
    if let Value::Object(members) = &mut all {
        members.insert("record".to_owned(), letter.record.as_ref().map_or(Value::Null, record));
        members.insert("row".to_owned(), row(letter));
        let keeps = if letter.row.reference.is_some() { "reference" } else { "row" };
        members.insert("keeps".to_owned(), keeps.into());
    }
    all
}

fn record(record: &Record) -> Value {
    let headers = record.headers.iter().map(|header| json!([header.name.as_ref(), bytes(header.value.as_deref())]));
    json!({
        "topic": record.topic.as_ref(),
        "partition": record.partition,
        "key": bytes(record.key.as_deref()),
        "timestamp_ms": record.timestamp_ms,
        "headers": headers.collect::<Vec<_>>(),
        "payload": bytes(record.value.as_deref()),
    })
}

/// Pairs of column and value, for two columns of an odd catalogue may have one name.
fn row(letter: &DeadLetter) -> Value {
    let Some(cells) = letter::cells(letter) else { return Value::Null };
    cells.into_iter().map(|(column, value)| json!([column, bytes(value)])).collect()
}

/// Text where it is text.
fn bytes(bytes: Option<&[u8]>) -> Value {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => Value::Null,
        Some((_, Ok(text))) => text.into(),
        Some((bytes, Err(_))) => json!({ "base64": STANDARD.encode(bytes) }),
    }
}
