//! The values of the records: JSON that any tool can read.
//!
//! Bytes that are text stand there as text, under their name; others in base64, under the name with `_base64` behind it. Fields that are unknown are a
//! newer walpost's and passed over; a newer format is refused. Nothing here panics, whatever a record holds: who reads names what is damaged and
//! goes on.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use serde_json::{Map, Value, json};
use walpost_core::outbox::TableName;
use walpost_core::pgoutput::{Cell, Message};
use walpost_core::poison::operator::{Mark, State, Why};
use walpost_core::poison::{Cause, DeadLetter, ParkingKey, Reference, Row};
use walpost_core::record::{Header, Record};
use walpost_core::time::Timestamp;

use super::key::RowId;

/// The version of this form, which is that of letters that keep a reference to their row. All else is written in the first: whoever knows no
/// references must not send one as if it were the row.
const FORMAT_VERSION: u64 = 2;
const FIRST_VERSION: u64 = 1;

/// Behind the name of a field whose value is no text.
const BASE64: &str = "base64";

/// Why a value is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Fault {
    /// A newer walpost wrote it.
    #[error("it has format {0}, and this walpost understands up to {FORMAT_VERSION}")]
    Newer(u64),
    /// It is no JSON object. What it is, is not told: it may be a part of a payload.
    #[error("it is no JSON object")]
    NoObject,
    /// A field is missing or wrong.
    #[error("its {0} is missing or wrong")]
    Field(&'static str),
}

/// A letter as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Document {
    pub(super) letter: DeadLetter,
    pub(super) first_at: Timestamp,
}

/// How a letter stands, where that is not as it was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Standing {
    /// `waiting`, `sent` or `dropped`; what it is marked for, an operator says.
    pub(super) state: State,
    /// Why it lies there by now.
    pub(super) cause: Why,
    /// The reason, where it is another than at first.
    pub(super) reason: Option<String>,
    pub(super) attempts: u32,
    pub(super) last_at: Timestamp,
    pub(super) ended_at: Option<Timestamp>,
    /// Marks that lie in front of this offset have been acted upon.
    pub(super) marks_done: i64,
}

/// What an operator asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Marking {
    pub(super) mark: Mark,
    pub(super) by: String,
    pub(super) at: Timestamp,
}

/// The word of a cause.
pub(super) fn why(cause: &Cause) -> Why {
    match cause {
        Cause::Row(_) => Why::Row,
        Cause::Route(_) => Why::Route,
        Cause::Parked => Why::Parked,
    }
}

/// The reason of a cause that has one.
pub(super) fn reason(cause: &Cause) -> Option<&str> {
    match cause {
        Cause::Row(reason) | Cause::Route(reason) => Some(reason),
        Cause::Parked => None,
    }
}

/// A cause of these parts.
pub(super) fn cause(why: Why, reason: Option<&str>) -> Cause {
    let reason = || reason.unwrap_or_default().to_owned();
    match why {
        Why::Row => Cause::Row(reason()),
        Why::Route => Cause::Route(reason()),
        Why::Parked => Cause::Parked,
    }
}

/// Writes a letter.
pub(super) fn write_letter(relay: &str, letter: &DeadLetter, now: Timestamp) -> String {
    let mut fields = Map::new();
    let mut put = |name: &str, value: Value| {
        fields.insert(name.to_owned(), value);
    };
    put("format_version", if letter.row.reference.is_some() { FORMAT_VERSION } else { FIRST_VERSION }.into());
    put("relay", relay.into());
    put("timeline", letter.identity.timeline.0.into());
    put("commit_lsn", letter.identity.commit_lsn.to_string().into());
    put("ordinal", letter.identity.ordinal.into());
    put("commit_time", letter.commit_time.to_rfc3339().into());
    put("schema", letter.table.schema.as_str().into());
    put("table", letter.table.table.as_str().into());
    put("event_id", letter.event_id.as_deref().into());
    put("cause", why(&letter.cause).word().into());
    put("reason", reason(&letter.cause).into());
    put("attempts", 1.into());
    put("first_at", now.to_rfc3339().into());
    put("last_at", now.to_rfc3339().into());
    put("record", letter.record.as_ref().map_or(Value::Null, |record| Value::Object(write_record(record))));
    put("columns", columns(&letter.row).unwrap_or(Value::Null));
    put("relation_message_base64", STANDARD.encode(&letter.row.relation).into());
    put("insert_message_base64", STANDARD.encode(&letter.row.insert).into());
    if let Some(Reference { sha256, payload_column }) = &letter.row.reference {
        put("row_sha256_base64", STANDARD.encode(sha256).into());
        put("payload_column", (*payload_column).into());
    }
    let parking = letter.parking_key.as_ref();
    put_bytes(&mut fields, "route", parking.and_then(|parking| parking.route.as_deref()));
    put_bytes(&mut fields, "key", parking.map(|parking| &*parking.key));
    Value::Object(fields).to_string()
}

fn write_record(record: &Record) -> Map<String, Value> {
    let mut fields = Map::new();
    fields.insert("topic".to_owned(), record.topic.as_ref().into());
    fields.insert("partition".to_owned(), record.partition.into());
    fields.insert("timestamp_ms".to_owned(), record.timestamp_ms.into());
    put_bytes(&mut fields, "key", record.key.as_deref());
    let pair = |header: &Header| json!([header.name.as_ref(), text_or_base64(header.value.as_deref())]);
    fields.insert("headers".to_owned(), record.headers.iter().map(pair).collect());
    put_bytes(&mut fields, "payload", record.value.as_deref());
    fields
}

/// The row for people, as pairs of column and value: two columns of an odd catalogue may have one name. The payload's column is there too; what is
/// read back are the messages. Of a row to which there is a reference it is the key.
fn columns(row: &Row) -> Option<Value> {
    let Ok(Message::Relation(relation)) = &Message::parse(&row.relation) else { return None };
    let Ok(Message::Insert(insert)) = &Message::parse(&row.insert) else { return None };
    let payload = |bytes: &[u8]| bytes.len() <= SHOWN_BYTES;
    let names = relation.columns.iter().map(|column| column.name);
    let cells = names.zip(&insert.new.cells).filter(|(_, cell)| **cell != Cell::Unchanged);
    let shown = |(name, cell): (&str, &Cell<'_>)| match cell.bytes() {
        Some(long) if !payload(long) => json!([name, { "bytes": long.len() }]),
        value => json!([name, text_or_base64(value)]),
    };
    Some(cells.map(shown).collect())
}

/// A longer value of a column is not shown for people beside the record and the messages, which have it.
const SHOWN_BYTES: usize = 1000;

/// Bytes under their name where they are text, else under another one.
fn put_bytes(fields: &mut Map<String, Value>, name: &str, bytes: Option<&[u8]>) {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => fields.insert(name.to_owned(), Value::Null),
        Some((_, Ok(text))) => fields.insert(name.to_owned(), text.into()),
        Some((bytes, Err(_))) => fields.insert(format!("{name}_{BASE64}"), STANDARD.encode(bytes).into()),
    };
}

fn text_or_base64(bytes: Option<&[u8]>) -> Value {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => Value::Null,
        Some((_, Ok(text))) => text.into(),
        Some((bytes, Err(_))) => json!({ BASE64: STANDARD.encode(bytes) }),
    }
}

/// Reads a letter of this row.
pub(super) fn read_letter(row: &RowId, bytes: &[u8]) -> Result<Document, Fault> {
    let fields = Fields(object(bytes)?);
    let table = TableName { schema: fields.text("schema")?.to_owned(), table: fields.text("table")?.to_owned() };
    let (route, key) = (fields.bytes("route")?, fields.bytes("key")?);
    let told = Row {
        relation: fields.base64("relation_message_base64")?,
        insert: fields.base64("insert_message_base64")?,
        reference: fields.reference()?,
    };
    let letter = DeadLetter {
        identity: row.identity,
        commit_time: row.commit_time,
        parking_key: key.map(|key| ParkingKey { table: table.clone(), route, key }),
        table,
        event_id: fields.optional_text("event_id")?.map(str::to_owned),
        cause: cause(word(Why::ALL, Why::word, fields.text("cause")?, "cause")?, fields.optional_text("reason")?),
        record: match fields.0.get("record") {
            None | Some(Value::Null) => None,
            Some(Value::Object(record)) => Some(read_record(row, record.clone())?),
            Some(_) => return Err(Fault::Field("record")),
        },
        row: told,
    };
    Ok(Document { letter, first_at: fields.time("first_at")? })
}

fn read_record(row: &RowId, fields: Map<String, Value>) -> Result<Record, Fault> {
    let fields = Fields(fields);
    let headers = fields.0.get("headers").and_then(Value::as_array).ok_or(Fault::Field("headers"))?;
    let partition = match fields.0.get("partition") {
        None | Some(Value::Null) => None,
        Some(number) => {
            let number = number.as_i64().and_then(|number| i32::try_from(number).ok());
            Some(number.ok_or(Fault::Field("partition"))?)
        }
    };
    let timestamp_ms = fields.integer("timestamp_ms")?;
    Ok(Record {
        identity: row.identity,
        topic: fields.text("topic")?.into(),
        key: fields.bytes("key")?,
        value: fields.bytes("payload")?,
        headers: headers.iter().map(read_header).collect::<Option<_>>().ok_or(Fault::Field("headers"))?,
        timestamp_ms,
        is_dated_by_row: timestamp_ms != row.commit_time.unix_millis(),
        partition,
    })
}

fn read_header(pair: &Value) -> Option<Header> {
    let [name, value] = pair.as_array()?.as_slice() else { return None };
    let value = match value {
        Value::Null => None,
        Value::String(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
        Value::Object(_) => Some(Bytes::from(STANDARD.decode(value.get(BASE64)?.as_str()?).ok()?)),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
    };
    Some(Header { name: name.as_str()?.into(), value })
}

/// Writes how a letter stands.
pub(super) fn write_standing(standing: &Standing) -> String {
    let Standing { state, cause, reason, attempts, last_at, ended_at, marks_done } = standing;
    json!({
        "format_version": FIRST_VERSION,
        "state": state.word(),
        "cause": cause.word(),
        "reason": reason,
        "attempts": attempts,
        "last_at": last_at.to_rfc3339(),
        "ended_at": ended_at.map(Timestamp::to_rfc3339),
        "marks_done": marks_done,
    })
    .to_string()
}

/// Reads how a letter stands.
pub(super) fn read_standing(bytes: &[u8]) -> Result<Standing, Fault> {
    let fields = Fields(object(bytes)?);
    let state = word(State::ALL, State::word, fields.text("state")?, "state")?;
    let ended_at = match fields.0.get("ended_at") {
        None | Some(Value::Null) => None,
        Some(_) => Some(fields.time("ended_at")?),
    };
    let is_ended = matches!(state, State::Sent | State::Dropped);
    if matches!(state, State::Replay | State::Drop) || is_ended != ended_at.is_some() {
        return Err(Fault::Field("state"));
    }
    Ok(Standing {
        state,
        cause: word(Why::ALL, Why::word, fields.text("cause")?, "cause")?,
        reason: fields.optional_text("reason")?.map(str::to_owned),
        attempts: u32::try_from(fields.integer("attempts")?).map_err(|_| Fault::Field("attempts"))?,
        last_at: fields.time("last_at")?,
        ended_at,
        marks_done: fields.integer("marks_done")?,
    })
}

/// Writes what an operator asked for.
pub(super) fn write_marking(marking: &Marking) -> String {
    let Marking { mark, by, at } = marking;
    json!({
        "format_version": FIRST_VERSION,
        "request": mark_word(*mark),
        "marked_by": by,
        "marked_at": at.to_rfc3339(),
    })
    .to_string()
}

/// Reads what an operator asked for.
pub(super) fn read_marking(bytes: &[u8]) -> Result<Marking, Fault> {
    let fields = Fields(object(bytes)?);
    Ok(Marking {
        mark: word(
            &[Mark::Replay, Mark::ReplayChanged, Mark::Drop, Mark::Nothing],
            mark_word,
            fields.text("request")?,
            "request",
        )?,
        by: fields.text("marked_by")?.to_owned(),
        at: fields.time("marked_at")?,
    })
}

fn mark_word(mark: Mark) -> &'static str {
    match mark {
        Mark::Replay => "replay",
        Mark::ReplayChanged => "replay_changed",
        Mark::Drop => "drop",
        Mark::Nothing => "nothing",
    }
}

fn word<T: Copy>(all: &[T], word: fn(T) -> &'static str, text: &str, field: &'static str) -> Result<T, Fault> {
    all.iter().copied().find(|one| word(*one) == text).ok_or(Fault::Field(field))
}

fn object(bytes: &[u8]) -> Result<Map<String, Value>, Fault> {
    let Ok(Value::Object(fields)) = serde_json::from_slice(bytes) else { return Err(Fault::NoObject) };
    match fields.get("format_version").and_then(Value::as_u64) {
        Some(format) if format > FORMAT_VERSION => Err(Fault::Newer(format)),
        Some(_) => Ok(fields),
        None => Err(Fault::Field("format_version")),
    }
}

/// The fields of an object, by what they have to be.
struct Fields(Map<String, Value>);

impl Fields {
    fn text(&self, name: &'static str) -> Result<&str, Fault> {
        self.optional_text(name)?.ok_or(Fault::Field(name))
    }

    fn optional_text(&self, name: &'static str) -> Result<Option<&str>, Fault> {
        match self.0.get(name) {
            None | Some(Value::Null) => Ok(None),
            Some(value) => value.as_str().map(Some).ok_or(Fault::Field(name)),
        }
    }

    fn integer(&self, name: &'static str) -> Result<i64, Fault> {
        self.0.get(name).and_then(Value::as_i64).ok_or(Fault::Field(name))
    }

    fn time(&self, name: &'static str) -> Result<Timestamp, Fault> {
        Timestamp::from_rfc3339(self.text(name)?).ok_or(Fault::Field(name))
    }

    fn base64(&self, name: &'static str) -> Result<Bytes, Fault> {
        STANDARD.decode(self.text(name)?).map(Bytes::from).map_err(|_| Fault::Field(name))
    }

    /// How the row was to which there is a reference.
    fn reference(&self) -> Result<Option<Reference>, Fault> {
        const HASH: &str = "row_sha256_base64";
        if matches!(self.0.get(HASH), None | Some(Value::Null)) {
            return Ok(None);
        }
        let sha256 = self.base64(HASH)?.as_ref().try_into().map_err(|_| Fault::Field(HASH))?;
        let column = |column: &Value| column.as_u64().and_then(|column| usize::try_from(column).ok());
        let payload_column = match self.0.get("payload_column") {
            None | Some(Value::Null) => None,
            Some(typed) => Some(column(typed).ok_or(Fault::Field("payload_column"))?),
        };
        Ok(Some(Reference { sha256, payload_column }))
    }

    /// What [`put_bytes`] put.
    fn bytes(&self, name: &'static str) -> Result<Option<Bytes>, Fault> {
        if let Some(coded) = self.0.get(&format!("{name}_{BASE64}")) {
            let decoded = coded.as_str().and_then(|coded| STANDARD.decode(coded).ok());
            return decoded.map(|bytes| Some(Bytes::from(bytes))).ok_or(Fault::Field(name));
        }
        Ok(self.optional_text(name)?.map(|text| Bytes::copy_from_slice(text.as_bytes())))
    }
}

#[cfg(test)]
pub(super) mod tests;
