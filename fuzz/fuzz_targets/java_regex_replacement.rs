//! A route: a regular expression, a replacement and a value, with line feeds between them. What is not refused beforehand routes the
//! value or sets the row aside, within the engine's limit of steps.
#![no_main]

use bytes::Bytes;
use libfuzzer_sys::fuzz_target;
use walpost_core::description::Description;
use walpost_core::event::Event;
use walpost_core::lsn::Lsn;
use walpost_core::pgoutput::{Cell, Column, Relation};
use walpost_core::position::{Identity, Timeline};
use walpost_core::router::{Options, Routed, Router};
use walpost_core::time::Timestamp;

const COLUMNS: [&str; 5] = ["id", "aggregatetype", "aggregateid", "type", "payload"];
const TEXT: u32 = 25;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut parts = text.splitn(3, '\n');
    let (Some(regex), Some(replacement), Some(value)) = (parts.next(), parts.next(), parts.next()) else { return };
    let options = Options {
        route_topic_regex: regex.to_owned(),
        route_topic_replacement: replacement.to_owned(),
        ..Options::default()
    };
    let Ok(router) = Router::new(options) else { return };
    let columns = COLUMNS.map(|name| Column { flags: 0, name, type_id: TEXT, type_modifier: -1 });
    let relation = Relation {
        id: 1,
        namespace: "public",
        name: "outbox",
        replica_identity: b'd',
        columns: columns.into_iter().collect(),
    };
    let frame = Bytes::copy_from_slice(value.as_bytes());
    let cells = [&b"1"[..], &frame, b"k", b"t", b"{}"].map(Cell::Text);
    let event = Event {
        identity: Identity { timeline: Timeline(1), commit_lsn: Lsn::new(1), ordinal: 0 },
        commit_time: Timestamp::default(),
        cells: &cells,
        frame: &frame,
    };
    let mut binding = router.bind(&relation, &Description::default());
    match router.route(&mut binding, &event) {
        Ok(Routed::Record(record)) => assert!(!record.topic.is_empty()),
        Err(fault) => assert!(!fault.reason.is_empty()),
    }
});
