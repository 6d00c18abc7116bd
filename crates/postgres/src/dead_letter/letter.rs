//! A letter as the columns of its row, and back.
//!
//! The row that pgoutput told is kept whole, for the letter is routed anew when it is sent. The payload nearly always is one of its
//! columns, byte for byte; then the column's number is kept and not the bytes, so that a row of 200 MB is stored once. Where a converter
//! made it, it is stored.

use bytes::Bytes;
use sha2::{Digest as _, Sha256};
use tokio_postgres::Row as SqlRow;
use tokio_postgres::types::{FromSql, PgLsn, ToSql};
use walpost_core::lsn::Lsn;
use walpost_core::outbox::TableName;
use walpost_core::pgoutput::Message;
use walpost_core::poison::{Cause, DeadLetter, LetterId, ParkingKey, Reference, Row};
use walpost_core::position::{Identity, Place, Timeline};
use walpost_core::record::Record;

use super::text::Repertoire;
use super::{Error, headers, text};
use crate::server_time::ServerTime;
use crate::sql;

/// The words of the column `cause`.
pub(super) const ROW: &str = "row";
pub(super) const ROUTE: &str = "route";
pub(super) const PARKED: &str = "parked";

/// What does not belong together: one of them was changed, and nobody can tell which.
const QUEUE: &str = "key, route, outbox_schema, outbox_table or queue";

/// What one statement may carry. PostgreSQL takes messages and values of up to 1 GiB; what is not counted here fits between the two.
const MAX_BYTES: usize = 1_000_000_000;

/// What one statement carries where no letter alone is larger.
const BATCH_BYTES: usize = 8 << 20;
const BATCH_LETTERS: usize = 500;

/// The columns that [`read`] needs, of the table by the name `letter`.
pub(super) const COLUMNS: &str = "letter.id, letter.timeline, letter.commit_lsn, letter.ordinal, letter.commit_time, letter.outbox_schema, \
     letter.outbox_table, letter.event_id, letter.route, letter.key, letter.queue, letter.cause, letter.reason, letter.topic, letter.partition, \
     letter.record_key, letter.headers::text AS headers, letter.timestamp_ms, letter.payload, letter.payload_column, \
     letter.relation_message, letter.insert_message, letter.row_sha256";

/// Letters as arrays, one a column: what one INSERT takes.
#[derive(Default)]
pub(super) struct Batch<'a> {
    identities: Vec<Identity>,
    bytes: usize,
    timelines: Vec<i64>,
    commit_lsns: Vec<PgLsn>,
    ordinals: Vec<i64>,
    commit_times: Vec<ServerTime>,
    schemas: Vec<&'a str>,
    tables: Vec<&'a str>,
    event_ids: Vec<Option<String>>,
    routes: Vec<Option<String>>,
    keys: Vec<Option<String>>,
    queues: Vec<Option<Vec<u8>>>,
    causes: Vec<&'static str>,
    reasons: Vec<Option<String>>,
    topics: Vec<Option<String>>,
    partitions: Vec<Option<i32>>,
    record_keys: Vec<Option<&'a [u8]>>,
    headers: Vec<Option<String>>,
    timestamps: Vec<Option<i64>>,
    payloads: Vec<Option<&'a [u8]>>,
    payload_columns: Vec<Option<i32>>,
    relations: Vec<&'a [u8]>,
    inserts: Vec<&'a [u8]>,
    hashes: Vec<Option<&'a [u8]>>,
}

impl<'a> Batch<'a> {
    /// Cuts letters into batches, in order.
    ///
    /// # Errors
    /// A letter is larger than PostgreSQL can store.
    pub(super) fn cut(letters: &'a [DeadLetter], repertoire: Repertoire) -> Result<Vec<Self>, Error> {
        let mut batches = vec![Self::default()];
        for letter in letters {
            let written = Written::new(letter, repertoire)?;
            match batches.last_mut() {
                Some(batch) if batch.has_room_for(&written) => batch.push(written),
                _ => {
                    let mut batch = Self::default();
                    batch.push(written);
                    batches.push(batch);
                }
            }
        }
        Ok(batches)
    }

    /// One statement cannot change a row twice, so a letter that repeats one of the batch begins the next.
    fn has_room_for(&self, written: &Written<'_>) -> bool {
        let fits = self.bytes.saturating_add(written.bytes) <= BATCH_BYTES && self.identities.len() < BATCH_LETTERS;
        self.identities.is_empty() || (fits && !self.identities.contains(&written.letter.identity))
    }

    fn push(&mut self, written: Written<'a>) {
        let Written { letter, bytes, ordinal, event_id, route, key, queue, cause, reason, record } = written;
        let Recorded { topic, partition, record_key, headers, timestamp, payload, payload_column } = record;
        self.identities.push(letter.identity);
        self.bytes = self.bytes.saturating_add(bytes);
        self.timelines.push(i64::from(letter.identity.timeline.0));
        self.commit_lsns.push(letter.identity.commit_lsn.get().into());
        self.ordinals.push(ordinal);
        self.commit_times.push(ServerTime(letter.commit_time));
        self.schemas.push(&letter.table.schema);
        self.tables.push(&letter.table.table);
        self.event_ids.push(event_id);
        self.routes.push(route);
        self.keys.push(key);
        self.queues.push(queue);
        self.causes.push(cause);
        self.reasons.push(reason);
        self.topics.push(topic);
        self.partitions.push(partition);
        self.record_keys.push(record_key);
        self.headers.push(headers);
        self.timestamps.push(timestamp);
        self.payloads.push(payload);
        self.payload_columns.push(payload_column);
        self.relations.push(&letter.row.relation);
        self.inserts.push(&letter.row.insert);
        self.hashes.push(letter.row.reference.as_ref().map(|reference| &reference.sha256[..]));
    }

    /// In the order of the parameters of `SET_ASIDE`, behind the relay's name.
    pub(super) fn parameters(&self) -> [&(dyn ToSql + Sync); 22] {
        [
            &self.timelines,
            &self.commit_lsns,
            &self.ordinals,
            &self.commit_times,
            &self.schemas,
            &self.tables,
            &self.event_ids,
            &self.routes,
            &self.keys,
            &self.queues,
            &self.causes,
            &self.reasons,
            &self.topics,
            &self.partitions,
            &self.record_keys,
            &self.headers,
            &self.timestamps,
            &self.payloads,
            &self.payload_columns,
            &self.relations,
            &self.inserts,
            &self.hashes,
        ]
    }
}

/// A letter in the types of its columns.
struct Written<'a> {
    letter: &'a DeadLetter,
    bytes: usize,
    ordinal: i64,
    event_id: Option<String>,
    route: Option<String>,
    key: Option<String>,
    queue: Option<Vec<u8>>,
    cause: &'static str,
    reason: Option<String>,
    record: Recorded<'a>,
}

/// A letter's record in the types of its columns; all of them NULL where there is none.
#[derive(Default)]
struct Recorded<'a> {
    topic: Option<String>,
    partition: Option<i32>,
    record_key: Option<&'a [u8]>,
    headers: Option<String>,
    timestamp: Option<i64>,
    payload: Option<&'a [u8]>,
    payload_column: Option<i32>,
}

impl<'a> Written<'a> {
    fn new(letter: &'a DeadLetter, repertoire: Repertoire) -> Result<Self, Error> {
        let text = |bytes: &[u8]| text::write(bytes, repertoire);
        let parking = letter.parking_key.as_ref();
        let (cause, reason) = match &letter.cause {
            Cause::Row(reason) => (ROW, Some(reason)),
            Cause::Route(reason) => (ROUTE, Some(reason)),
            Cause::Parked => (PARKED, None),
        };
        let ordinal = letter.identity.ordinal;
        let mut written = Self {
            letter,
            bytes: 0,
            ordinal: i64::try_from(ordinal).map_err(|_| Error::Ordinal { ordinal })?,
            event_id: letter.event_id.as_ref().map(|id| text(id.as_bytes())),
            route: parking.and_then(|parking| parking.route.as_deref().map(text)),
            key: parking.map(|parking| text(&parking.key)),
            queue: parking.map(queue),
            cause,
            reason: reason.map(|reason| text(reason.as_bytes())),
            record: letter.record.as_ref().map(|record| recorded(record, letter, repertoire)).unwrap_or_default(),
        };
        written.bytes = written.length();
        if written.bytes > MAX_BYTES {
            return Err(Error::TooLarge { identity: letter.identity, bytes: written.bytes });
        }
        Ok(written)
    }

    fn length(&self) -> usize {
        let texts = [&self.event_id, &self.route, &self.key, &self.reason, &self.record.topic, &self.record.headers];
        let texts = texts.into_iter().flatten().map(String::len);
        let slices = [self.record.record_key, self.record.payload].into_iter().flatten().map(<[u8]>::len);
        let row = [self.letter.row.relation.len(), self.letter.row.insert.len()];
        texts.chain(slices).chain(row).fold(self.queue.as_ref().map_or(0, Vec::len), usize::saturating_add)
    }
}

fn recorded<'a>(record: &'a Record, letter: &DeadLetter, repertoire: Repertoire) -> Recorded<'a> {
    let payload = record.value.as_deref();
    let payload_column = match &letter.row.reference {
        Some(reference) => reference.payload_column.and_then(|column| i32::try_from(column).ok()),
        None => payload.and_then(|payload| column_of(payload, &letter.row)),
    };
    Recorded {
        topic: Some(text::write(record.topic.as_bytes(), repertoire)),
        partition: record.partition,
        record_key: record.key.as_deref(),
        headers: Some(headers::write(&record.headers, repertoire)),
        timestamp: Some(record.timestamp_ms),
        payload: payload.filter(|_| payload_column.is_none()),
        payload_column,
    }
}

/// The column of the row that has exactly these bytes.
fn column_of(payload: &[u8], row: &Row) -> Option<i32> {
    let Ok(Message::Insert(insert)) = &Message::parse(&row.insert) else { return None };
    let column = insert.new.cells.iter().position(|cell| cell.bytes() == Some(payload))?;
    i32::try_from(column).ok()
}

/// What the column `queue` is the hash of: the parts of the key, each with its length, so that no two keys have the same.
pub(super) fn queue(parking: &ParkingKey) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut put = |part: Option<&[u8]>| {
        bytes.push(u8::from(part.is_some()));
        let part = part.unwrap_or_default();
        bytes.extend_from_slice(&part.len().to_be_bytes());
        bytes.extend_from_slice(part);
    };
    put(Some(parking.table.schema.as_bytes()));
    put(Some(parking.table.table.as_bytes()));
    put(parking.route.as_deref());
    put(Some(&parking.key));
    bytes
}

/// Which row a letter is of.
pub(super) fn identity(row: &SqlRow) -> Result<Identity, Error> {
    let columns = Columns { row, id: field(row, "id")? };
    Ok(Identity {
        timeline: Timeline(columns.number("timeline")?),
        commit_lsn: Lsn::new(field::<PgLsn>(row, "commit_lsn")?.into()),
        ordinal: columns.number("ordinal")?,
    })
}

/// Where a row stands in the log.
pub(super) fn place(row: &SqlRow) -> Result<Place, Error> {
    let columns = Columns { row, id: field(row, "id")? };
    Ok(Place {
        commit_lsn: Lsn::new(field::<PgLsn>(row, "commit_lsn")?.into()),
        ordinal: columns.number("ordinal")?,
        commit_time: field::<ServerTime>(row, "commit_time")?.0,
    })
}

/// Reads the [`COLUMNS`].
///
/// # Errors
/// They hold what no relay wrote.
pub(super) fn read(row: &SqlRow) -> Result<(LetterId, DeadLetter), Error> {
    let id: i64 = field(row, "id")?;
    let columns = Columns { row, id };
    let identity = identity(row)?;
    let told = Row {
        relation: columns.bytes("relation_message")?,
        insert: columns.bytes("insert_message")?,
        reference: columns.reference()?,
    };
    let letter = DeadLetter {
        identity,
        commit_time: field::<ServerTime>(row, "commit_time")?.0,
        table: TableName { schema: field(row, "outbox_schema")?, table: field(row, "outbox_table")? },
        parking_key: parking_key(row, id)?,
        event_id: columns.string("event_id")?,
        cause: columns.cause()?,
        record: columns.record(identity, &told)?,
        row: told,
    };
    Ok((LetterId(id), letter))
}

/// What is needed to end a letter of which a column holds what no relay wrote: no record, and of the row no more than its bytes.
pub(super) fn remains(row: &SqlRow) -> Result<DeadLetter, Error> {
    let id: i64 = field(row, "id")?;
    let columns = Columns { row, id };
    let unknown = || Identity { timeline: Timeline(0), commit_lsn: Lsn::new(0), ordinal: 0 };
    Ok(DeadLetter {
        identity: identity(row).unwrap_or_else(|_| unknown()),
        commit_time: field::<ServerTime>(row, "commit_time")?.0,
        table: TableName { schema: field(row, "outbox_schema")?, table: field(row, "outbox_table")? },
        parking_key: parking_key(row, id).ok().flatten(),
        event_id: None,
        cause: columns.cause().unwrap_or_else(|_| Cause::Row(String::new())),
        record: None,
        row: Row {
            relation: columns.bytes("relation_message")?,
            insert: columns.bytes("insert_message")?,
            reference: None,
        },
    })
}

/// Whose order a letter keeps.
pub(super) fn parking_key(row: &SqlRow, id: i64) -> Result<Option<ParkingKey>, Error> {
    let columns = Columns { row, id };
    let table = TableName { schema: field(row, "outbox_schema")?, table: field(row, "outbox_table")? };
    let route = columns.text("route")?;
    let parking = columns.text("key")?.map(|key| ParkingKey { table, route, key });
    let hash = parking.as_ref().map(|parking| Sha256::digest(queue(parking)));
    let stored: Option<&[u8]> = field(row, "queue")?;
    if hash.as_deref() != stored {
        return Err(columns.odd(QUEUE));
    }
    Ok(parking)
}

/// The columns of one letter.
struct Columns<'a> {
    row: &'a SqlRow,
    id: i64,
}

impl Columns<'_> {
    fn odd(&self, field: &'static str) -> Error {
        Error::Value { id: self.id, field }
    }

    /// A number of a signed column that is never negative.
    fn number<T: TryFrom<i64>>(&self, column: &'static str) -> Result<T, Error> {
        let number: i64 = field(self.row, column)?;
        T::try_from(number).map_err(|_| self.odd(column))
    }

    fn bytes(&self, column: &'static str) -> Result<Bytes, Error> {
        Ok(Bytes::copy_from_slice(field(self.row, column)?))
    }

    /// What [`text::write`] wrote.
    fn text(&self, column: &'static str) -> Result<Option<Bytes>, Error> {
        let Some(text) = field::<Option<&str>>(self.row, column)? else { return Ok(None) };
        text::read(text).map(|bytes| Some(Bytes::from(bytes))).ok_or_else(|| self.odd(column))
    }

    /// The same, of what was text before too.
    fn string(&self, column: &'static str) -> Result<Option<String>, Error> {
        Ok(self.text(column)?.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
    }

    fn cause(&self) -> Result<Cause, Error> {
        let reason = self.string("reason")?.unwrap_or_default();
        match field(self.row, "cause")? {
            ROW => Ok(Cause::Row(reason)),
            ROUTE => Ok(Cause::Route(reason)),
            PARKED => Ok(Cause::Parked),
            _ => Err(self.odd("cause")),
        }
    }

    fn record(&self, identity: Identity, told: &Row) -> Result<Option<Record>, Error> {
        let Some(topic) = self.string("topic")? else { return Ok(None) };
        let key: Option<&[u8]> = field(self.row, "record_key")?;
        let json: Option<&str> = field(self.row, "headers")?;
        let json = json.unwrap_or_default();
        let timestamp: Option<i64> = field(self.row, "timestamp_ms")?;
        let timestamp_ms = timestamp.ok_or_else(|| self.odd("timestamp_ms"))?;
        let committed = field::<ServerTime>(self.row, "commit_time")?.0;
        Ok(Some(Record {
            identity,
            topic: topic.into(),
            key: key.map(Bytes::copy_from_slice),
            value: self.payload(told)?,
            headers: headers::read(json).ok_or_else(|| self.odd("headers"))?,
            timestamp_ms,
            is_dated_by_row: timestamp_ms != committed.unix_millis(),
            partition: field(self.row, "partition")?,
        }))
    }

    fn reference(&self) -> Result<Option<Reference>, Error> {
        let Some(hash) = field::<Option<&[u8]>>(self.row, "row_sha256")? else { return Ok(None) };
        let sha256 = hash.try_into().map_err(|_| self.odd("row_sha256"))?;
        let column: Option<i32> = field(self.row, "payload_column")?;
        let payload_column = column.map(usize::try_from).transpose().map_err(|_| self.odd("payload_column"))?;
        Ok(Some(Reference { sha256, payload_column }))
    }

    fn payload(&self, told: &Row) -> Result<Option<Bytes>, Error> {
        if told.reference.is_some() {
            return Ok(None);
        }
        let Some(column) = field::<Option<i32>>(self.row, "payload_column")? else {
            return Ok(field::<Option<&[u8]>>(self.row, "payload")?.map(Bytes::copy_from_slice));
        };
        let value = usize::try_from(column).ok().and_then(|column| {
            let Ok(Message::Insert(insert)) = &Message::parse(&told.insert) else { return None };
            insert.new.cells.get(column)?.slice_of(&told.insert)
        });
        value.map(Some).ok_or_else(|| self.odd("payload_column"))
    }
}

/// A column of a row.
pub(super) fn field<'a, T: FromSql<'a>>(row: &'a SqlRow, column: &str) -> Result<T, Error> {
    Ok(sql::field(row, column)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(ordinal: u64, insert: Bytes) -> DeadLetter {
        DeadLetter {
            identity: Identity { timeline: Timeline(1), commit_lsn: Lsn::new(1), ordinal },
            commit_time: walpost_core::time::Timestamp::default(),
            table: TableName { schema: "public".to_owned(), table: "outbox".to_owned() },
            parking_key: None,
            event_id: None,
            cause: Cause::Parked,
            record: None,
            row: Row { insert, ..Row::default() },
        }
    }

    /// How many letters each batch has.
    fn cut(letters: &[DeadLetter]) -> Vec<usize> {
        let batches = Batch::cut(letters, Repertoire::Unicode).unwrap();
        batches.iter().map(|batch| batch.identities.len()).collect()
    }

    #[test]
    fn letters_are_cut_into_batches_by_count_by_bytes_and_where_one_repeats() {
        let small =
            |ordinals: &[u64]| ordinals.iter().map(|ordinal| letter(*ordinal, Bytes::new())).collect::<Vec<_>>();
        let half = Bytes::from(vec![0; BATCH_BYTES / 2]);
        let larger = Bytes::from(vec![0; BATCH_BYTES + 1]);
        assert_eq!(cut(&small(&(0..1100).collect::<Vec<_>>())), [500, 500, 100]);
        assert_eq!(cut(&small(&[0, 1, 0, 0, 2])), [2, 1, 2]);
        assert_eq!(cut(&[letter(0, half.clone()), letter(1, half.clone()), letter(2, half.clone())]), [2, 1]);
        assert_eq!(cut(&[letter(0, larger.clone()), letter(1, half), letter(2, larger)]), [1, 1, 1]);
    }

    #[test]
    fn a_letter_that_no_statement_could_carry_is_refused_with_its_size() {
        let Err(error) = Batch::cut(&[letter(3, Bytes::from(vec![0; MAX_BYTES + 1]))], Repertoire::Unicode) else {
            panic!("it was taken")
        };
        assert!(error.to_string().contains("1000000001 bytes") && error.remedy().is_some(), "{error}");
    }

    #[test]
    fn no_two_keys_share_a_queue() {
        let key = |schema: &str, table: &str, route: Option<&'static str>, key: &'static str| {
            let table = TableName { schema: schema.to_owned(), table: table.to_owned() };
            queue(&ParkingKey { table, route: route.map(Bytes::from), key: Bytes::from(key) })
        };
        let mut queues = vec![
            key("a", "b", Some("c"), "d"),
            key("ab", "", Some("c"), "d"),
            key("a", "b", Some("cd"), ""),
            key("a", "b", Some(""), "cd"),
            key("a", "b", Some(""), "d"),
            key("a", "b", None, "d"),
            key("a", "bc", None, "d"),
        ];
        queues.sort();
        queues.dedup();
        assert_eq!(queues.len(), 7);
    }
}
