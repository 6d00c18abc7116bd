//! What one row costs between the bytes of a frame and a record: decoded and routed, by the way its value is written. No server, no
//! broker, no clock: `cargo bench -p walpost-core`.

use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use walpost_core::connect::Options as ConnectorOptions;
use walpost_core::description::Description;
use walpost_core::event::Event;
use walpost_core::lsn::Lsn;
use walpost_core::pgoutput::{Cell, Column, Insert, Message, Relation, Tuple};
use walpost_core::position::{Identity, Timeline};
use walpost_core::router::{Connector, Options, Router};
use walpost_core::time::Timestamp;

const UUID: u32 = 2950;
const VARCHAR: u32 = 1043;
const JSONB: u32 = 3802;

/// The row of the documentation: name, type, text.
const ROW: [(&str, u32, &str); 5] = [
    ("id", UUID, "4d47e190-0402-4048-bc2c-89dd54343cdc"),
    ("aggregatetype", VARCHAR, "Order"),
    ("aggregateid", VARCHAR, "10711fa5"),
    ("type", VARCHAR, "OrderCreated"),
    (
        "payload",
        JSONB,
        r#"{"id": 1, "lines": [{"sku": "A-1", "price": 12.50, "count": 2}, {"sku": "B-7", "price": 3.99, "note": "gift"}], "customer": {"id": 42, "name": "Zoë", "vip": false}, "total": 28.99, "comment": null}"#,
    ),
];

/// The ways of writing, by their options: those of the connector and those of the router.
type Way = (&'static str, &'static [(&'static str, &'static str)], &'static [(&'static str, &'static str)]);

const JSON: (&str, &str) = ("value.converter", "JsonConverter");
const WITHOUT_SCHEMAS: (&str, &str) = ("value.converter.schemas.enable", "false");
const ENVELOPE: (&str, &str) = ("table.fields.additional.placement", "type:envelope:eventType");
const EXPANSION: (&str, &str) = ("table.expand.json.payload", "true");

const WAYS: [Way; 7] = [
    ("text", &[], &[]),
    ("json", &[JSON, WITHOUT_SCHEMAS], &[]),
    ("json with schemas", &[JSON], &[]),
    ("envelope as json", &[JSON, WITHOUT_SCHEMAS], &[ENVELOPE]),
    ("envelope as json with schemas", &[JSON], &[ENVELOPE]),
    ("expanded json", &[JSON, WITHOUT_SCHEMAS], &[EXPANSION]),
    ("expanded json with schemas", &[JSON], &[EXPANSION]),
];

fn relation() -> Relation<'static> {
    let column = |(name, type_id, _)| Column { flags: 0, name, type_id, type_modifier: -1 };
    let columns = ROW.into_iter().map(column).collect();
    Relation { id: 1, namespace: "shop", name: "outbox", replica_identity: b'd', columns }
}

/// The message that inserts the row, as the server sends it.
fn insert() -> Bytes {
    let cells = ROW.into_iter().map(|(_, _, text)| Cell::Text(text.as_bytes())).collect();
    let mut bytes = BytesMut::new();
    Message::Insert(Insert { relation: 1, new: Tuple { cells } }).encode(&mut bytes);
    bytes.freeze()
}

fn router(connector: &[(&str, &str)], router: &[(&str, &str)]) -> Router {
    let named = std::iter::once(("topic.prefix", "shop")).chain(connector.iter().copied());
    let connector = ConnectorOptions::from_pairs(named).expect("the options are valid").options;
    let connector = Connector::new(connector, "run").expect("the options are valid");
    let router = Options::from_pairs(router.iter().copied()).expect("the options are valid").options;
    Router::of_connector(router, connector).expect("the options are valid")
}

fn decode_and_route(criterion: &mut Criterion) {
    let frame = insert();
    let mut group = criterion.benchmark_group("decode and route");
    group.throughput(Throughput::Elements(1));
    for (name, connector, options) in WAYS {
        let router = router(connector, options);
        let mut binding = router.bind(&relation(), &Description::default());
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let Ok(Message::Insert(insert)) = Message::parse(black_box(&frame)) else {
                    unreachable!("an insert was encoded")
                };
                let event = Event {
                    identity: Identity { timeline: Timeline(1), commit_lsn: Lsn::new(7), ordinal: 0 },
                    commit_time: Timestamp::default(),
                    cells: &insert.new.cells,
                    frame: &frame,
                };
                router.route(&mut binding, &event).expect("the row is good")
            });
        });
    }
    group.finish();
}

criterion_group!(benches, decode_and_route);
criterion_main!(benches);
