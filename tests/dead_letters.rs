//! The rows that were set aside: the store that keeps them in a real database, and the commands of an operator.
//!
//! The letters are made here, as a relay would make them; nothing is published.

mod commands;
mod damaged;
mod deadlocks;
mod group;
mod references;
mod rights;
mod store;
mod topic;

pub(crate) use topic::{insert_large, open, stop, wait_for_open};

use std::future::Future;

use bytes::{Bytes, BytesMut};
use walpost_core::lsn::Lsn;
use walpost_core::outbox::TableName;
use walpost_core::pgoutput::{Cell, Column, Insert, Message, Relation, Tuple};
use walpost_core::poison::{Cause, Conclusion, DeadLetter, LetterId, Marked, ParkingKey, Row};
use walpost_core::port::DeadLetters;
use walpost_core::position::{Identity, Timeline};
use walpost_core::record::{Header, Record};
use walpost_core::time::Timestamp;
use walpost_postgres::dead_letter::LetterStore;
use walpost_postgres::{ConnectionSettings, Endpoint};
use walpost_testkit::relay::{Config, Ended, Walpost};
use walpost_testkit::servers::{Database, shared_postgres};

use crate::rig::WALPOST;

const TABLE: &str = include_str!("../migrations/0004_dead_letter.sql");

const DAY: std::time::Duration = std::time::Duration::from_secs(24 * 3600);

/// A database with the table, and the store and the commands of one relay.
struct Desk {
    database: Database,
    walpost: Walpost,
    runtime: tokio::runtime::Runtime,
    store: LetterStore,
}

impl Desk {
    fn new(label: &str) -> Self {
        let database = shared_postgres().fresh_database(label).unwrap();
        database.psql(TABLE).unwrap();
        Self::on(database)
    }

    fn on(database: Database) -> Self {
        let config = Config::new(&database.url(), database.name()).stdout().outbox("public.outbox", &[]);
        let mut walpost = Walpost::new(WALPOST.as_str(), &config).unwrap();
        walpost.set_variable("USER", "alice");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let store = store_of(&database, database.name());
        Self { database, walpost, runtime, store }
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    #[track_caller]
    fn set_aside(&mut self, letters: &[DeadLetter]) -> Vec<bool> {
        self.runtime.block_on(self.store.set_aside(letters)).unwrap()
    }

    #[track_caller]
    fn marked(&mut self, is_overtaking: bool) -> Vec<Marked> {
        self.runtime.block_on(self.store.marked(100, is_overtaking)).unwrap()
    }

    /// The numbers of what the relay would do next.
    #[track_caller]
    fn next(&mut self) -> Vec<i64> {
        self.marked(false).iter().map(|marked| marked.id.0).collect()
    }

    #[track_caller]
    fn conclude(&mut self, id: i64, end: Conclusion) {
        self.runtime.block_on(self.store.conclude(&[(LetterId(id), end)])).unwrap();
    }

    #[track_caller]
    fn value(&self, query: &str) -> String {
        self.database.value(query).unwrap()
    }

    /// `walpost dlq`.
    #[track_caller]
    fn dlq(&self, arguments: &[&str]) -> Ended {
        self.walpost.call(&[&["dlq"], arguments].concat()).unwrap()
    }

    /// `id state` of all letters, in order.
    #[track_caller]
    fn states(&self) -> String {
        self.value("SELECT string_agg(concat_ws(' ', id, state), ', ' ORDER BY id) FROM walpost.dead_letter")
    }
}

fn store_of(database: &Database, relay: &str) -> LetterStore {
    let endpoint = Endpoint::new(database.endpoint().host(), database.endpoint().port());
    LetterStore::new(ConnectionSettings::new(endpoint, "postgres", database.name()), relay, 7 * DAY)
}

fn outbox() -> TableName {
    TableName { schema: "public".to_owned(), table: "outbox".to_owned() }
}

/// The row `(id, key, payload)` as pgoutput tells it.
fn row(id: &str, key: Option<&[u8]>, payload: Option<&[u8]>) -> Row {
    let column = |name| Column { flags: 0, name, type_id: 25, type_modifier: -1 };
    let relation = Relation {
        id: 16_384,
        namespace: "public",
        name: "outbox",
        replica_identity: b'd',
        columns: ["id", "aggregateid", "payload"].map(column).into_iter().collect(),
    };
    let cells = [Some(id.as_bytes()), key, payload].map(|value| value.map_or(Cell::Null, Cell::Text));
    let insert = Insert { relation: 16_384, new: Tuple { cells: cells.into_iter().collect() } };
    let encoded = |message: Message<'_>| {
        let mut bytes = BytesMut::new();
        message.encode(&mut bytes);
        bytes.freeze()
    };
    Row { relation: encoded(Message::Relation(relation)), insert: encoded(Message::Insert(insert)), reference: None }
}

/// The letter of the insert of this number, with a record whose payload is a column of the row.
fn letter(ordinal: u64, key: &str, cause: Cause) -> DeadLetter {
    let identity = Identity { timeline: Timeline(1), commit_lsn: Lsn::new(0x16_B374_8000), ordinal };
    let id = format!("event-{ordinal}");
    let payload = format!("{{\"n\": {ordinal}}}");
    let key = Bytes::copy_from_slice(key.as_bytes());
    let header =
        |name: &str, value: &str| Header { name: name.into(), value: Some(Bytes::copy_from_slice(value.as_bytes())) };
    DeadLetter {
        identity,
        commit_time: Timestamp::from_postgres_micros(800_000_000_123_456),
        table: outbox(),
        parking_key: Some(ParkingKey { table: outbox(), route: Some(Bytes::from_static(b"order")), key: key.clone() }),
        event_id: Some(id.clone()),
        cause,
        record: Some(Record {
            identity,
            topic: "orders".into(),
            key: Some(key.clone()),
            value: Some(Bytes::copy_from_slice(payload.as_bytes())),
            headers: [header("id", &id)].into_iter().collect(),
            timestamp_ms: 1_746_684_800_123,
            is_dated_by_row: false,
            partition: None,
        }),
        row: row(&id, Some(&key), Some(payload.as_bytes())),
    }
}

fn bad(reason: &str) -> Cause {
    Cause::Row(reason.to_owned())
}

/// Two queues: 1 to 3 of key `a`, 4 and 5 of key `b`; and 6, which has no key.
fn two_queues(desk: &mut Desk) {
    let keyless = DeadLetter { parking_key: None, ..letter(5, "", bad("without key")) };
    desk.set_aside(&[
        letter(0, "a", bad("the record is too large")),
        letter(1, "a", Cause::Parked),
        letter(2, "a", Cause::Parked),
        letter(3, "b", Cause::Route("the topic is missing".to_owned())),
        letter(4, "b", Cause::Parked),
        keyless,
    ]);
}
