use bytes::BytesMut;
use walpost_core::lsn::Lsn;
use walpost_core::pgoutput::{Cell, Column, Insert, Relation, Tuple};
use walpost_core::position::{Identity, Timeline};
use walpost_core::record::Headers;

use super::*;

/// A row of the columns `id` and `payload` as pgoutput tells it.
pub(in super::super) fn told(id: &str, payload: &[u8]) -> Row {
    let column = |name| Column { flags: 0, name, type_id: 25, type_modifier: -1 };
    let relation = Relation {
        id: 16_384,
        namespace: "public",
        name: "outbox",
        replica_identity: b'd',
        columns: ["id", "payload"].map(column).into_iter().collect(),
    };
    let cells = [id.as_bytes(), payload].map(Cell::Text);
    let insert = Insert { relation: 16_384, new: Tuple { cells: cells.into_iter().collect() } };
    let encoded = |message: Message<'_>| {
        let mut bytes = BytesMut::new();
        message.encode(&mut bytes);
        bytes.freeze()
    };
    Row { relation: encoded(Message::Relation(relation)), insert: encoded(Message::Insert(insert)), reference: None }
}

/// The letter of the insert of this number.
pub(in super::super) fn letter(ordinal: u64, key: Option<&str>, cause: Cause) -> DeadLetter {
    let identity = Identity { timeline: Timeline(1), commit_lsn: Lsn::new(0x16_B374_8000), ordinal };
    let table = TableName { schema: "public".to_owned(), table: "outbox".to_owned() };
    let payload = format!("{{\"n\": {ordinal}}}");
    let bytes = |text: &str| Bytes::copy_from_slice(text.as_bytes());
    DeadLetter {
        identity,
        commit_time: Timestamp::from_postgres_micros(800_000_000_123_456),
        parking_key: key.map(|key| ParkingKey {
            table: table.clone(),
            route: Some(Bytes::from_static(b"order")),
            key: bytes(key),
        }),
        table,
        event_id: Some(format!("event-{ordinal}")),
        cause,
        record: Some(Record {
            identity,
            topic: "orders".into(),
            key: key.map(bytes),
            value: Some(bytes(&payload)),
            headers: [Header { name: "id".into(), value: Some(bytes("7")) }].into_iter().collect(),
            timestamp_ms: 1_746_684_800_123,
            is_dated_by_row: false,
            partition: None,
        }),
        row: told(&format!("event-{ordinal}"), payload.as_bytes()),
    }
}

fn now() -> Timestamp {
    Timestamp::from_postgres_micros(800_000_001_000_000)
}

/// Letters that are hard to keep.
fn odd_letters() -> Vec<DeadLetter> {
    let bad = || Cause::Row("größe \"x\"\n\u{1}".to_owned());
    let recorded = |change: fn(&mut Record)| {
        let mut letter = letter(3, Some("k"), bad());
        letter.record.iter_mut().for_each(change);
        letter
    };
    let header =
        |name: &str, value: Option<&[u8]>| Header { name: name.into(), value: value.map(Bytes::copy_from_slice) };
    let headers: Headers = vec![
        header("größe", Some("✓ 𝄞".as_bytes())),
        header("same", Some(b"1")),
        header("same", Some(b"2")),
        header("null", None),
        header("empty", Some(b"")),
        header("bytes", Some(b"\xff\x00\\")),
    ]
    .into();
    let keyed = |route: Option<&'static [u8]>, key: &'static [u8]| {
        let mut letter = letter(4, Some("k"), Cause::Parked);
        letter.parking_key.iter_mut().for_each(|parking| {
            parking.route = route.map(Bytes::from_static);
            parking.key = Bytes::from_static(key);
        });
        letter
    };
    let mut with_headers = recorded(|_| {});
    with_headers.record.iter_mut().for_each(|record| record.headers = headers.clone());
    vec![
        with_headers,
        recorded(|record| record.value = None),
        recorded(|record| record.value = Some(Bytes::new())),
        recorded(|record| record.value = Some(Bytes::from_static(b"\xff\x00 made by a converter"))),
        recorded(|record| record.key = Some(Bytes::from_static(b"\xfe"))),
        recorded(|record| (record.key, record.partition) = (None, Some(i32::MAX))),
        recorded(|record| (record.timestamp_ms, record.is_dated_by_row) = (i64::MIN, true)),
        recorded(|record| record.topic = "größe\0 \\ ".into()),
        keyed(None, b""),
        keyed(Some(b""), b"\xff\xfe"),
        keyed(Some(b"\xc3"), b"nul\0"),
        DeadLetter { record: None, event_id: None, parking_key: None, ..letter(5, None, Cause::Route(String::new())) },
        DeadLetter { row: Row::default(), ..letter(6, None, bad()) },
    ]
}

#[test]
fn letters_come_back_byte_for_byte_whatever_they_hold() {
    for letter in odd_letters() {
        let text = write_letter("orders", &letter, now());
        let read = read_letter(&RowId::of(&letter), text.as_bytes()).unwrap();
        assert_eq!(read, Document { letter, first_at: now() }, "{text}");
    }
}

#[test]
fn the_form_of_a_letter_is_that_of_version_1() {
    let letter = letter(4, Some("order-7"), Cause::Row("too large".to_owned()));
    let written: Value = serde_json::from_str(&write_letter("orders", &letter, now())).unwrap();
    let expected = json!({
        "format_version": 1,
        "relay": "orders",
        "timeline": 1,
        "commit_lsn": "16/B3748000",
        "ordinal": 4,
        "commit_time": "2025-05-08T06:13:20.123456Z",
        "schema": "public",
        "table": "outbox",
        "event_id": "event-4",
        "route": "order",
        "key": "order-7",
        "cause": "row",
        "reason": "too large",
        "attempts": 1,
        "first_at": "2025-05-08T06:13:21.000000Z",
        "last_at": "2025-05-08T06:13:21.000000Z",
        "record": {
            "topic": "orders",
            "partition": null,
            "timestamp_ms": 1_746_684_800_123_i64,
            "key": "order-7",
            "headers": [["id", "7"]],
            "payload": "{\"n\": 4}",
        },
        "columns": [["id", "event-4"], ["payload", "{\"n\": 4}"]],
        "relation_message_base64": STANDARD.encode(&letter.row.relation),
        "insert_message_base64": STANDARD.encode(&letter.row.insert),
    });
    assert_eq!(written, expected);
}

#[test]
fn a_long_value_is_not_shown_a_third_time() {
    let mut letter = letter(1, None, Cause::Parked);
    letter.row = told("event-1", &vec![b'x'; SHOWN_BYTES + 1]);
    let written: Value = serde_json::from_str(&write_letter("orders", &letter, now())).unwrap();
    assert_eq!(written["columns"], json!([["id", "event-1"], ["payload", { "bytes": 1001 }]]));
}

fn standing() -> Standing {
    Standing {
        state: State::Waiting,
        cause: Why::Row,
        reason: Some("too large".to_owned()),
        attempts: 3,
        last_at: now(),
        ended_at: None,
        marks_done: 17,
    }
}

#[test]
fn standings_and_marks_come_back() {
    let ended = |state| Standing { state, ended_at: Some(now()), reason: None, ..standing() };
    for standing in [standing(), ended(State::Sent), ended(State::Dropped)] {
        assert_eq!(read_standing(write_standing(&standing).as_bytes()), Ok(standing));
    }
    for mark in [Mark::Replay, Mark::Drop, Mark::Nothing] {
        let marking = Marking { mark, by: "walpost (alice@größe)".to_owned(), at: now() };
        assert_eq!(read_marking(write_marking(&marking).as_bytes()), Ok(marking));
    }
}

#[test]
fn what_is_wrong_is_told_by_its_field_and_a_newer_form_by_its_number() {
    let good = write_standing(&standing());
    for (from, to, expected) in [
        ("{", "[", Fault::NoObject),
        ("\"format_version\":1", "\"format_version\":3", Fault::Newer(3)),
        ("\"format_version\":1,", "", Fault::Field("format_version")),
        ("\"waiting\"", "\"replay\"", Fault::Field("state")),
        ("\"waiting\"", "\"sent\"", Fault::Field("state")),
        ("\"waiting\"", "\"gone\"", Fault::Field("state")),
        ("\"attempts\":3", "\"attempts\":-3", Fault::Field("attempts")),
        ("\"row\"", "null", Fault::Field("cause")),
        ("\"too large\"", "7", Fault::Field("reason")),
        ("2025-05-08T", "2025-13-08T", Fault::Field("last_at")),
    ] {
        let bad = good.replace(from, to);
        assert_ne!(bad, good);
        assert_eq!(read_standing(bad.as_bytes()), Err(expected), "{bad}");
    }
}

#[test]
fn no_damage_makes_a_reader_panic() {
    let letter = &odd_letters()[0];
    let row = RowId::of(letter);
    let marking = Marking { mark: Mark::Drop, by: "x".to_owned(), at: now() };
    for text in [write_letter("orders", letter, now()), write_standing(&standing()), write_marking(&marking)] {
        for place in 0..text.len() {
            let mut bytes = text.clone().into_bytes();
            let read = |bytes: &[u8]| {
                let faults = [read_letter(&row, bytes).err(), read_standing(bytes).err(), read_marking(bytes).err()];
                // No text is two of the three.
                assert!(faults.iter().flatten().count() >= 2);
            };
            read(&bytes[..place]);
            for byte in [0, b'"', b'{', b'9', 0xff] {
                bytes[place] = byte;
                read(&bytes);
            }
        }
    }
}
