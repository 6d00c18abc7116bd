//! What a row costs in allocations: none where its parts are published as they came, once the first row of its route was seen.
//!
//! The frame is a slice of a buffer that others share, as the edge cuts it.

#![cfg(test)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell as Counter;
use std::hint::black_box;

use bytes::{Bytes, BytesMut};
use walpost_core::connect::Options as ConnectorOptions;
use walpost_core::description::Description;
use walpost_core::event::Event;
use walpost_core::lsn::Lsn;
use walpost_core::pgoutput::{Cell, Column, Insert, Message, Relation, Tuple};
use walpost_core::position::{Identity, Timeline};
use walpost_core::router::{Binding, Connector, Options, Routed, Router};
use walpost_core::time::Timestamp;

thread_local! {
    static ALLOCATIONS: Counter<usize> = const { Counter::new(0) };
}

/// Counts what its thread asks for, and passes it on.
struct Counting;

// SAFETY: all is passed to the system's allocator as it came, and counting allocates nothing.
#[allow(unsafe_code, reason = "an allocator cannot be written without")]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.with(|count| count.set(count.get() + 1));
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const ROW: [(&str, u32, &str); 6] = [
    ("id", 2950, "4d47e190-0402-4048-bc2c-89dd54343cdc"),
    ("aggregatetype", 1043, "Order"),
    ("aggregateid", 20, "10711"),
    ("type", 1043, "OrderCreated"),
    ("created", 1114, "2024-02-03 04:05:06.789"),
    ("payload", 3802, r#"{"id": 1, "total": 28.99}"#),
];

const JSON: [(&str, &str); 2] = [("value.converter", "JsonConverter"), ("value.converter.schemas.enable", "false")];

/// The message that inserts the row.
fn frame() -> Bytes {
    let cells = ROW.into_iter().map(|(_, _, text)| Cell::Text(text.as_bytes())).collect();
    let mut buffer = BytesMut::from(&b"what came before"[..]);
    let before = buffer.len();
    Message::Insert(Insert { relation: 1, new: Tuple { cells } }).encode(&mut buffer);
    let _ = buffer.split_to(before);
    buffer.freeze()
}

fn bound(connector: &[(&str, &str)], options: &[(&str, &str)]) -> (Router, Binding) {
    let connector = ConnectorOptions::from_pairs(connector.iter().copied()).unwrap().options;
    let options = Options::from_pairs(options.iter().copied()).unwrap().options;
    let router = Router::of_connector(options, Connector::new(connector, "run").unwrap()).unwrap();
    let column = |(name, type_id, _)| Column { flags: 0, name, type_id, type_modifier: -1 };
    let columns = ROW.into_iter().map(column).collect();
    let relation = Relation { id: 1, namespace: "shop", name: "outbox", replica_identity: b'd', columns };
    let binding = router.bind(&relation, &Description::default());
    (router, binding)
}

fn decode_and_route(router: &Router, binding: &mut Binding, frame: &Bytes) -> Routed {
    let Ok(Message::Insert(insert)) = Message::parse(frame) else { unreachable!("an insert was encoded") };
    let identity = Identity { timeline: Timeline(1), commit_lsn: Lsn::new(7), ordinal: 0 };
    let event = Event { identity, commit_time: Timestamp::default(), cells: &insert.new.cells, frame };
    router.route(binding, &event).unwrap()
}

/// How often a row allocates, once another has been seen.
fn allocations(connector: &[(&str, &str)], options: &[(&str, &str)]) -> usize {
    let frame = frame();
    let (router, mut binding) = bound(connector, options);
    drop(decode_and_route(&router, &mut binding, &frame));
    let before = ALLOCATIONS.get();
    drop(black_box(decode_and_route(&router, &mut binding, black_box(&frame))));
    ALLOCATIONS.get() - before
}

#[test]
fn a_row_whose_parts_pass_allocates_nothing() {
    const PLACED: (&str, &str) =
        ("table.fields.additional.placement", "type:header:eventType,aggregateid:header:version");
    const TIMESTAMP: (&str, &str) = ("table.field.event.timestamp", "created");
    const TOMBSTONES: (&str, &str) = ("route.tombstone.on.empty.payload", "true");
    const ONE_TOPIC: (&str, &str) = ("route.topic.replacement", "all.events");
    const PATTERN: (&str, &str) = ("route.topic.regex", "(?<routedByValue>[A-Z].*)");
    let ways: [&[(&str, &str)]; 5] =
        [&[], &[PLACED, TIMESTAMP], &[TOMBSTONES], &[ONE_TOPIC], &[PATTERN, PLACED, TIMESTAMP, TOMBSTONES]];
    for options in ways {
        assert_eq!(allocations(&[], options), 0, "{options:?}");
    }
}

#[test]
fn an_allocation_is_noticed_where_a_value_has_to_be_written() {
    assert!(allocations(&JSON, &[]) > 0);
}
