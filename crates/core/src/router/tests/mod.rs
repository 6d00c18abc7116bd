//! What Debezium's router publishes for a row, and what becomes of the rows that it dies of.

mod envelopes;
mod faults;
mod records;
mod topics;

use bytes::Bytes;
use smallvec::SmallVec;

use super::{Connector, Options, Routed, Router};
use crate::connect;
use crate::description::Description;
use crate::event::Event;
use crate::lsn::Lsn;
use crate::pgoutput::{Cell, Column, Relation};
use crate::poison::RowFault;
use crate::position::{Identity, Timeline};
use crate::record::Record;
use crate::time::Timestamp;

const U: &str = "4d47e190-0402-4048-bc2c-89dd54343cdc";
const COMMIT_MS: i64 = 1_700_000_000_123;

const BOOL: u32 = 16;
const BYTEA: u32 = 17;
const INT8: u32 = 20;
const INT2: u32 = 21;
const INT4: u32 = 23;
const TEXT: u32 = 25;
const JSON: u32 = 114;
const BPCHAR: u32 = 1042;
const VARCHAR: u32 = 1043;
const TIMESTAMP: u32 = 1114;
const TIMESTAMPTZ: u32 = 1184;
const NUMERIC: u32 = 1700;
const UUID: u32 = 2950;
const JSONB: u32 = 3802;
const ENUM: u32 = 16_500;

/// A column with its value in a row: name, type, text or NULL.
type Field<'a> = (&'a str, u32, Option<&'a str>);

/// Options of the router, as they are typed.
type Pairs<'a> = &'a [(&'a str, &'a str)];

/// The row of the documentation.
const ORDER: [Field<'static>; 5] = [
    ("id", UUID, Some(U)),
    ("aggregatetype", VARCHAR, Some("Order")),
    ("aggregateid", VARCHAR, Some("1")),
    ("type", VARCHAR, Some("OrderCreated")),
    ("payload", JSONB, Some("{\"id\": 1}")),
];

/// The row of the documentation with some columns in another state, and further ones after them.
fn order_with<'a>(changes: &[Field<'a>]) -> Vec<Field<'a>> {
    let mut row: Vec<Field<'a>> = ORDER.to_vec();
    for change in changes {
        match row.iter_mut().find(|field| field.0 == change.0) {
            Some(field) => *field = *change,
            None => row.push(*change),
        }
    }
    row
}

fn relation<'a>(row: &[Field<'a>]) -> Relation<'a> {
    let column = |field: &Field<'a>| Column { flags: 0, name: field.0, type_id: field.1, type_modifier: -1 };
    let columns = row.iter().map(column).collect();
    Relation { id: 16_400, namespace: "shop", name: "Outbox", replica_identity: b'd', columns }
}

fn router(options: Pairs<'_>) -> Router {
    Router::new(Options::from_pairs(options.iter().copied()).unwrap().options).unwrap()
}

/// A router in the name of a connector with these options.
fn connected(options: Pairs<'_>, connect: Pairs<'_>) -> Router {
    let options = Options::from_pairs(options.iter().copied()).unwrap().options;
    let connect = connect::Options::from_pairs(connect.iter().copied()).unwrap().options;
    Router::of_connector(options, Connector::new(connect, "run").unwrap()).unwrap()
}

fn event<'a>(cells: &'a [Cell<'a>], frame: &'a Bytes) -> Event<'a> {
    let identity = Identity { timeline: Timeline(1), commit_lsn: Lsn::new(7), ordinal: 3 };
    let commit_time = Timestamp::from_postgres_micros((COMMIT_MS - 946_684_800_000) * 1000 + 456);
    Event { identity, commit_time, cells, frame }
}

fn route(options: Pairs<'_>, row: &[Field<'_>]) -> Result<Record, RowFault> {
    route_with(&router(options), &Description::default(), row)
}

fn route_with(router: &Router, description: &Description, row: &[Field<'_>]) -> Result<Record, RowFault> {
    let frame: Bytes = row.iter().filter_map(|field| field.2).collect::<String>().into();
    let mut rest: &[u8] = &frame;
    let mut cell = |value: Option<&str>| match value.map(|text| rest.split_at(text.len())) {
        None => Cell::Null,
        Some((text, behind)) => {
            rest = behind;
            Cell::Text(text)
        }
    };
    let cells: SmallVec<[Cell<'_>; 16]> = row.iter().map(|field| cell(field.2)).collect();
    let mut binding = router.bind(&relation(row), description);
    let Routed::Record(record) = router.route(&mut binding, &event(&cells, &frame))?;
    Ok(record)
}

fn published(options: Pairs<'_>, changes: &[Field<'_>]) -> Record {
    route(options, &order_with(changes)).unwrap()
}

fn fault(options: Pairs<'_>, changes: &[Field<'_>]) -> String {
    route(options, &order_with(changes)).unwrap_err().reason
}

fn headers(record: &Record) -> Vec<(&str, Option<&str>)> {
    let text = |value: &'_ Bytes| std::str::from_utf8(value).unwrap().to_owned().leak() as &str;
    record.headers.iter().map(|header| (&*header.name, header.value.as_ref().map(text))).collect()
}

fn bytes(text: &str) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(text.as_bytes()))
}
