//! What Debezium's router publishes for a row, and what becomes of the rows that it dies of.

use bytes::Bytes;
use proptest::prelude::*;
use smallvec::SmallVec;

use super::{InvalidOperation, Options, Routed, Router};
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

/// The row of the documentation.
const ORDER: [Field<'static>; 5] = [
    ("id", UUID, Some(U)),
    ("aggregatetype", VARCHAR, Some("Order")),
    ("aggregateid", VARCHAR, Some("1")),
    ("type", VARCHAR, Some("OrderCreated")),
    ("payload", JSONB, Some("{\"id\": 1}")),
];

/// The row of the documentation with some columns in another state, and further ones behind.
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

fn router(options: &[(&str, &str)]) -> Router {
    Router::new(Options::from_pairs(options.iter().copied()).unwrap().options).unwrap()
}

fn event<'a>(cells: &'a [Cell<'a>], frame: &'a Bytes) -> Event<'a> {
    let identity = Identity { timeline: Timeline(1), commit_lsn: Lsn::new(7), ordinal: 3 };
    let commit_time = Timestamp::from_postgres_micros((COMMIT_MS - 946_684_800_000) * 1000 + 456);
    Event { identity, commit_time, cells, frame }
}

fn route(options: &[(&str, &str)], row: &[Field<'_>]) -> Result<Record, RowFault> {
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
    let router = router(options);
    let mut binding = router.bind(&relation(row));
    let Routed::Record(record) = router.route(&mut binding, &event(&cells, &frame))?;
    Ok(record)
}

fn published(options: &[(&str, &str)], changes: &[Field<'_>]) -> Record {
    route(options, &order_with(changes)).unwrap()
}

fn fault(options: &[(&str, &str)], changes: &[Field<'_>]) -> String {
    route(options, &order_with(changes)).unwrap_err().reason
}

fn headers(record: &Record) -> Vec<(&str, Option<&str>)> {
    let text = |value: &'_ Bytes| std::str::from_utf8(value).unwrap().to_owned().leak() as &str;
    record.headers.iter().map(|header| (&*header.name, header.value.as_ref().map(text))).collect()
}

fn bytes(text: &str) -> Option<Bytes> {
    Some(Bytes::copy_from_slice(text.as_bytes()))
}

#[test]
fn a_plain_row_becomes_a_record() {
    let record = published(&[], &[]);
    assert_eq!(&*record.topic, "outbox.event.Order");
    assert_eq!(record.key, bytes("1"));
    assert_eq!(record.value, bytes("{\"id\": 1}"));
    assert_eq!(headers(&record), [("id", Some(U))]);
    assert_eq!(record.timestamp_ms, COMMIT_MS);
    assert_eq!(record.partition, None);
    assert_eq!(record.identity, Identity { timeline: Timeline(1), commit_lsn: Lsn::new(7), ordinal: 3 });
}

#[test]
fn the_payload_passes_byte_for_byte() {
    let cases = [
        (JSONB, "{\"a\": \"x\", \"b\": 2.50, \"id\": 1}"),
        (JSONB, "\"just a string\""),
        (JSON, "{ \"b\":1,  \"a\":1e400 }"),
        (TEXT, "é東京😀\u{a0}\n"),
        (TEXT, ""),
        (TEXT, " \n\t "),
        (BPCHAR, "ab   "),
        (UUID, U),
        (INT2, "-5"),
        (INT8, "9007199254740993"),
        (ENUM, "happy"),
    ];
    for (type_id, text) in cases {
        assert_eq!(published(&[], &[("payload", type_id, Some(text))]).value, bytes(text), "{text}");
    }
}

#[test]
fn a_bytea_payload_is_decoded() {
    let value = |text| published(&[], &[("payload", BYTEA, Some(text))]).value;
    assert_eq!(value("\\x00ff10"), Some(Bytes::from_static(&[0x00, 0xFF, 0x10])));
    assert_eq!(value("\\x7b7d"), bytes("{}"));
    assert_eq!(value("\\x"), Some(Bytes::new()));
    assert!(fault(&[], &[("payload", BYTEA, Some("abc\\000"))]).contains("\"payload\""));
}

#[test]
fn a_boolean_is_written_out() {
    let options = [("table.fields.additional.placement", "flag:header")];
    let record = published(&options, &[("payload", BOOL, Some("t")), ("flag", BOOL, Some("f"))]);
    assert_eq!(record.value, bytes("true"));
    assert_eq!(headers(&record), [("id", Some(U)), ("flag", Some("false"))]);
    assert!(fault(&[], &[("payload", BOOL, Some("yes"))]).contains("\"payload\""));
}

#[test]
fn the_key_is_the_key_column_in_its_text_form() {
    let cases = [
        (INT4, Some("1232"), bytes("1232")),
        (INT8, Some("9007199254740993"), bytes("9007199254740993")),
        (INT2, Some("-5"), bytes("-5")),
        (UUID, Some(U), bytes(U)),
        (BOOL, Some("t"), bytes("true")),
        (BPCHAR, Some("ab   "), bytes("ab   ")),
        (ENUM, Some("happy"), bytes("happy")),
        (JSONB, Some("{\"a\": 1}"), bytes("{\"a\": 1}")),
        (BYTEA, Some("\\xfffe"), Some(Bytes::from_static(&[0xFF, 0xFE]))),
        (TEXT, Some(""), Some(Bytes::new())),
        (TEXT, None, None),
    ];
    for (type_id, text, expected) in cases {
        assert_eq!(published(&[], &[("aggregateid", type_id, text)]).key, expected, "{type_id} {text:?}");
    }
    assert_eq!(published(&[("table.field.event.key", "type")], &[]).key, bytes("OrderCreated"));
}

#[test]
fn an_absent_or_empty_payload_is_a_tombstone_where_debezium_makes_one() {
    let cases = [
        (TEXT, None, false, None),
        (TEXT, None, true, None),
        (BYTEA, None, true, None),
        (TEXT, Some(""), false, Some("")),
        (TEXT, Some(""), true, None),
        (TEXT, Some(" \n\t "), true, None),
        (TEXT, Some("\0\u{1f} "), true, None),
        (TEXT, Some("\u{a0}"), true, Some("\u{a0}")),
        (TEXT, Some("\u{7f}"), true, Some("\u{7f}")),
        (TEXT, Some(" x "), true, Some(" x ")),
        (JSONB, Some("{}"), true, Some("{}")),
        (JSONB, Some("null"), true, Some("null")),
        (BYTEA, Some("\\x"), true, Some("")),
        (BYTEA, Some("\\x20"), true, Some(" ")),
    ];
    for (type_id, text, vanishes, expected) in cases {
        let option = ("route.tombstone.on.empty.payload", if vanishes { "true" } else { "false" });
        let record = published(&[option], &[("payload", type_id, text)]);
        assert_eq!(record.value, expected.and_then(bytes), "{type_id} {text:?} {vanishes}");
        assert_eq!(record.key, bytes("1"));
        assert_eq!(headers(&record), [("id", Some(U))]);
    }
}

#[test]
fn additional_headers_come_behind_the_id_in_configured_order_and_twice_if_so_configured() {
    let placement =
        "type:header:eventType, aggregatetype:header , id:header, version:header:ver,part8:header,type:header";
    let options = [("table.fields.additional.placement", placement)];
    let record =
        published(&options, &[("type", TEXT, Some("T1")), ("version", INT4, Some("1")), ("part8", INT8, Some("5"))]);
    let expected = [
        ("id", Some(U)),
        ("eventType", Some("T1")),
        ("aggregatetype", Some("Order")),
        ("id", Some(U)),
        ("ver", Some("1")),
        ("part8", Some("5")),
        ("type", Some("T1")),
    ];
    assert_eq!(headers(&record), expected);
}

#[test]
fn a_header_has_the_text_that_the_simple_header_converter_writes() {
    let cases = [
        (TEXT, None, None),
        (TEXT, Some(""), Some("")),
        (BYTEA, Some("\\xdeadbeef"), Some("3q2+7w==")),
        (BYTEA, Some("\\x"), Some("")),
        (JSONB, Some("{\"a\": 1, \"b\": 2}"), Some("{\"a\": 1, \"b\": 2}")),
        (JSON, Some("{\"a\":1,  \"b\":2}"), Some("{\"a\":1,  \"b\":2}")),
        (BPCHAR, Some("ab   "), Some("ab   ")),
        (BOOL, Some("t"), Some("true")),
        (INT2, Some("-5"), Some("-5")),
        (ENUM, Some("happy"), Some("happy")),
    ];
    for (type_id, text, expected) in cases {
        let options = [("table.fields.additional.placement", "h:header:name")];
        let record = published(&options, &[("h", type_id, text)]);
        assert_eq!(headers(&record), [("id", Some(U)), ("name", expected)], "{type_id} {text:?}");
    }
}

#[test]
fn the_id_can_be_of_any_publishable_type_and_null() {
    let cases = [(INT8, Some("77"), Some("77")), (BYTEA, Some("\\x0102"), Some("AQI=")), (UUID, None, None)];
    for (type_id, text, expected) in cases {
        let record = published(&[], &[("id", type_id, text)]);
        assert_eq!(headers(&record), [("id", expected)]);
    }
}

#[test]
fn a_missing_column_is_named_with_the_option_and_the_columns_that_exist() {
    let cases = [
        ("table.field.event.id", "zz", "zz"),
        ("table.field.event.key", "zz", "zz"),
        ("table.field.event.payload", "Payload", "Payload"),
        ("table.field.event.timestamp", "zz", "zz"),
        ("route.by.field", "zz", "zz"),
        ("table.fields.additional.placement", "zz:header", "zz"),
        ("table.fields.additional.placement", "zz:partition", "zz"),
    ];
    for (option, value, column) in cases {
        let reason = fault(&[(option, value)], &[]);
        for part in [option, &format!("\"{column}\""), "shop.\"Outbox\"", "\"aggregateid\", \"type\""] {
            assert!(reason.contains(part), "{part}: {reason}");
        }
        let row = order_with(&[]);
        let binding = router(&[(option, value)]).bind(&relation(&row));
        let faults: Vec<&str> = binding.faults().map(|fault| fault.reason.as_str()).collect();
        assert_eq!(faults, [reason]);
    }
}

#[test]
fn a_missing_additional_column_is_left_out_where_that_is_configured_under_either_name() {
    for option in [("table.field.additional.missing", "ignore"), ("table.fields.additional.error.on.missing", "false")]
    {
        let placement = ("table.fields.additional.placement", "nope:header,type:header,nope:partition");
        let record = published(&[placement, option], &[]);
        assert_eq!(headers(&record), [("id", Some(U)), ("type", Some("OrderCreated"))]);
        assert_eq!(record.partition, None);
    }
    // The option concerns additional columns alone.
    let reason = fault(&[("table.field.additional.missing", "ignore"), ("table.field.event.key", "zz")], &[]);
    assert!(reason.contains("table.field.event.key"));
}

#[test]
fn the_topic_is_made_as_java_makes_it() {
    let regex = "route.topic.regex";
    let replacement = "route.topic.replacement";
    let cases: &[(&[(&str, &str)], &str, &str)] = &[
        (&[], "Order", "outbox.event.Order"),
        (&[], "", "outbox.event."),
        (&[], "Order.v1-x_Y", "outbox.event.Order.v1-x_Y"),
        (&[(regex, "Foo(.*)"), (replacement, "p.$1")], "Order", "Order"),
        (&[(regex, "(Or)(.*)"), (replacement, "$2.$1.events")], "Order", "der.Or.events"),
        (&[(regex, "Or|Order"), (replacement, "X")], "Order", "Xder"),
        (&[(replacement, "all.events")], "Order", "all.events"),
        (&[(replacement, "all.events")], "Kunde", "all.events"),
        (&[(regex, "(?<agg>[A-Za-z]+)\\.(?<v>v\\d+).*"), (replacement, "${v}.${agg}")], "Order.v1-x", "v1.Order"),
        (&[(regex, "(.*)\\.(.*)"), (replacement, "p.$2.$1")], "a.b.c", "p.c.a.b"),
        (&[(regex, " (?i)order.* "), (replacement, " o ")], "ORDERS", "o"),
        (&[(regex, "x(.*)"), (replacement, "p.$1")], "Order", "Order"),
    ];
    for (options, value, expected) in cases {
        let record = published(options, &[("aggregatetype", TEXT, Some(value))]);
        assert_eq!(&*record.topic, *expected, "{options:?} {value}");
    }
}

#[test]
fn the_route_can_be_a_uuid_and_whatever_else_has_a_text_form_without_a_guess() {
    let by_id = published(&[("route.by.field", "id")], &[]);
    assert_eq!(*by_id.topic, format!("outbox.event.{U}"));
    let cases =
        [(INT4, "7", "outbox.event.7"), (BOOL, "t", "outbox.event.true"), (ENUM, "Order", "outbox.event.Order")];
    for (type_id, text, expected) in cases {
        assert_eq!(&*published(&[], &[("aggregatetype", type_id, Some(text))]).topic, expected);
    }
}

#[test]
fn a_row_that_routes_nowhere_is_at_fault_and_says_why() {
    let replacement = "route.topic.replacement";
    let cases: &[(&[(&str, &str)], Field<'_>, &[&str])] = &[
        (&[], ("aggregatetype", TEXT, None), &["\"aggregatetype\"", "NULL"]),
        (&[], ("aggregatetype", TEXT, Some("has space")), &["outbox.event.has space", "ASCII letters"]),
        (&[], ("aggregatetype", TEXT, Some("Or\nder")), &["Or\\nder"]),
        (&[], ("aggregatetype", TEXT, Some("Größe")), &["outbox.event.Größe"]),
        (&[(replacement, "p.x\\$y.${routedByValue}")], ("aggregatetype", TEXT, Some("Order")), &["p.x$y.Order"]),
        (&[(replacement, "$1")], ("aggregatetype", TEXT, Some("..")), &["\"..\""]),
        (&[(replacement, "$1")], ("aggregatetype", TEXT, Some("")), &["empty"]),
        (&[(replacement, "all.events")], ("aggregatetype", TEXT, Some("a\u{2028}b")), &["a\\u{2028}b"]),
        (&[], ("aggregatetype", BYTEA, Some("\\x00")), &["\"aggregatetype\"", "OID 17", "route.by.field"]),
        (&[], ("aggregatetype", NUMERIC, Some("1")), &["\"aggregatetype\"", "OID 1700"]),
    ];
    for (options, field, parts) in cases {
        let reason = fault(options, &[*field]);
        for part in *parts {
            assert!(reason.contains(part), "{part}: {reason}");
        }
    }
    let long = "x".repeat(237);
    assert!(fault(&[], &[("aggregatetype", TEXT, Some(&long))]).contains("249"));
    assert_eq!(published(&[], &[("aggregatetype", TEXT, Some(&long[..236]))]).topic.len(), 249);
}

#[test]
fn a_types_that_cannot_play_a_role_yet_is_named() {
    let placement = "table.fields.additional.placement";
    let cases: &[(&[(&str, &str)], Field<'_>, &str)] = &[
        (&[], ("id", NUMERIC, Some("1")), "table.field.event.id"),
        (&[], ("aggregateid", TIMESTAMP, Some("2019-03-24 20:52:59")), "table.field.event.key"),
        (&[], ("payload", NUMERIC, None), "table.field.event.payload"),
        (&[(placement, "n:header")], ("n", NUMERIC, Some("1")), placement),
        (&[(placement, "n:partition")], ("n", INT2, Some("1")), placement),
        (&[(placement, "n:partition")], ("n", INT8, Some("1")), placement),
        (&[(placement, "n:partition")], ("n", TEXT, Some("1")), placement),
        (&[("table.field.event.timestamp", "n")], ("n", 1082, Some("2019-03-24")), "table.field.event.timestamp"),
        (&[("table.field.event.timestamp", "n")], ("n", TEXT, Some("2019-03-24")), "table.field.event.timestamp"),
    ];
    for (options, field, option) in cases {
        let reason = fault(options, &[*field]);
        for part in [*option, &format!("\"{}\"", field.0), &format!("OID {}", field.1)] {
            assert!(reason.contains(part), "{part}: {reason}");
        }
    }
}

#[test]
fn the_timestamp_is_that_of_the_column_or_of_the_commit() {
    let cases = [
        (TIMESTAMP, Some("2019-03-24 20:52:59.123456"), 1_553_460_779_123),
        (TIMESTAMP, Some("2019-03-24 20:52:59.123"), 1_553_460_779_123),
        (TIMESTAMP, Some("2019-03-24 20:52:59"), 1_553_460_779_000),
        (TIMESTAMPTZ, Some("2024-02-03 04:05:06.789+00"), 1_706_933_106_789),
        (INT8, Some("1706933106789"), 1_706_933_106_789),
        (INT4, Some("0"), 0),
        (TIMESTAMP, None, COMMIT_MS),
        (INT8, None, COMMIT_MS),
        (TIMESTAMP, Some("1970-01-01 00:00:00"), 0),
        (TIMESTAMP, Some("1969-12-31 23:59:59.9995"), 0),
        (TIMESTAMP, Some("1969-12-31 23:59:59.999"), COMMIT_MS),
        (INT8, Some("-1"), COMMIT_MS),
        (TIMESTAMP, Some("9999-12-31 23:59:59.999999"), 253_402_300_799_999),
    ];
    for (type_id, text, expected) in cases {
        let record = published(&[("table.field.event.timestamp", "at")], &[("at", type_id, text)]);
        assert_eq!(record.timestamp_ms, expected, "{type_id} {text:?}");
    }
}

#[test]
fn a_time_that_no_record_can_carry_is_the_rows_fault() {
    let cases = [
        (TIMESTAMP, "1969-12-31 23:59:59.5", "1970"),
        (INT8, "-500", "1970"),
        (TIMESTAMPTZ, "infinity", "infinite"),
        (TIMESTAMPTZ, "-infinity", "infinite"),
        (TIMESTAMP, "24.03.2019 20:52", "form"),
        (INT8, "1.5", "form"),
    ];
    for (type_id, text, part) in cases {
        let reason = fault(&[("table.field.event.timestamp", "at")], &[("at", type_id, Some(text))]);
        assert!(reason.contains("\"at\"") && reason.contains(part), "{reason}");
    }
}

#[test]
fn the_last_partition_entry_chooses_and_null_leaves_the_choice() {
    let fields = [("p", INT4, Some("5")), ("q", INT4, None), ("r", INT4, Some("0"))];
    let cases = [
        ("p:partition", Some(5)),
        ("p:partition:foo", Some(5)),
        ("q:partition", None),
        ("p:partition,r:partition", Some(0)),
        ("p:partition,q:partition", None),
    ];
    for (placement, expected) in cases {
        let record = published(&[("table.fields.additional.placement", placement)], &fields);
        assert_eq!(record.partition, expected, "{placement}");
        assert_eq!(headers(&record), [("id", Some(U))]);
    }
    let negative = fault(&[("table.fields.additional.placement", "p:partition")], &[("p", INT4, Some("-1"))]);
    assert!(negative.contains("negative"));
}

#[test]
fn of_several_faults_the_first_in_debeziums_order_is_told() {
    let broken = [
        ("id", NUMERIC, None),
        ("aggregatetype", TEXT, None),
        ("aggregateid", NUMERIC, None),
        ("at", TEXT, None),
        ("payload", NUMERIC, None),
    ];
    let order = ["payload", "at", "id", "aggregateid", "aggregatetype"];
    let good = [("payload", TEXT, None), ("at", INT8, None), ("id", TEXT, None), ("aggregateid", TEXT, None)];
    for (repaired, name) in order.iter().enumerate() {
        let mut row = order_with(&broken);
        for field in &good[..repaired] {
            let broken = row.iter_mut().find(|other| other.0 == field.0).unwrap();
            *broken = *field;
        }
        let reason = route(&[("table.field.event.timestamp", "at")], &row).unwrap_err().reason;
        assert!(reason.contains(&format!("column \"{name}\"")), "{name}: {reason}");
    }
}

#[test]
fn cells_that_no_insert_has_are_faults_that_name_their_column() {
    let row = order_with(&[]);
    let router = router(&[]);
    let frame = Bytes::from_static(b"1");
    let good = Cell::Text(&frame);
    for (index, name) in ["id", "aggregatetype", "aggregateid", "type", "payload"].iter().enumerate() {
        for bad in [Cell::Unchanged, Cell::Binary(&frame)] {
            let mut cells = [good; 5];
            cells[index] = bad;
            let result = router.route(&mut router.bind(&relation(&row)), &event(&cells, &frame));
            match (*name, result) {
                ("type", result) => assert!(result.is_ok(), "a column without a role does not matter"),
                (name, result) => assert!(result.unwrap_err().reason.contains(&format!("\"{name}\""))),
            }
        }
    }
}

#[test]
fn a_row_of_another_width_than_its_table_is_at_fault() {
    let row = order_with(&[]);
    let router = router(&[]);
    let frame = Bytes::from_static(b"1");
    let mut binding = router.bind(&relation(&row));
    for width in [0, 4, 6] {
        let cells = vec![Cell::Text(&frame); width];
        let reason = router.route(&mut binding, &event(&cells, &frame)).unwrap_err().reason;
        assert!(reason.contains(&format!("{width} values")) && reason.contains("5 columns"), "{reason}");
    }
}

#[test]
fn text_that_is_not_utf_8_passes_except_as_a_route() {
    let row = order_with(&[]);
    let router = router(&[]);
    let frame = Bytes::from_static(&[b'1', 0xFF]);
    let mut binding = router.bind(&relation(&row));
    let (good, bad) = (Cell::Text(&frame[..1]), Cell::Text(&frame[1..]));
    let Routed::Record(record) = router.route(&mut binding, &event(&[bad, good, bad, bad, bad], &frame)).unwrap();
    assert_eq!(record.value.as_deref(), Some(&[0xFF][..]));
    assert_eq!(record.key.as_deref(), Some(&[0xFF][..]));
    let reason = router.route(&mut binding, &event(&[good, bad, good, good, good], &frame)).unwrap_err().reason;
    assert!(reason.contains("\"aggregatetype\"") && reason.contains("UTF-8"));
}

#[test]
fn what_updates_lead_to_is_for_the_session_to_read() {
    assert_eq!(router(&[]).on_update(), InvalidOperation::Warn);
    assert_eq!(router(&[("table.op.invalid.behavior", "fatal")]).on_update(), InvalidOperation::Fatal);
}

#[test]
fn the_table_of_the_catalogue_schema_is_named_although_the_server_leaves_the_schema_out() {
    let row = [("x", TEXT, None)];
    let unnamed = Relation { namespace: "", ..relation(&row) };
    let binding = router(&[]).bind(&unnamed);
    assert!(binding.faults().all(|fault| fault.reason.contains("pg_catalog.\"Outbox\"")));
    assert_eq!(binding.faults().count(), 4);
}

/// Any value that a column of this type could bring, and some that none could.
fn any_cell() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop_oneof![
        Just(None),
        "[ -~]{0,12}".prop_map(|text| Some(text.into_bytes())),
        "\\\\x([0-9a-f]{2}){0,5}".prop_map(|text| Some(text.into_bytes())),
        "-?[0-9]{1,20}".prop_map(|text| Some(text.into_bytes())),
        "[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,6})?([+-][0-9]{2})?( BC)?"
            .prop_map(|text| Some(text.into_bytes())),
        "[tf]".prop_map(|text| Some(text.into_bytes())),
        proptest::collection::vec(any::<u8>(), 0..20).prop_map(Some),
    ]
}

fn any_type() -> impl Strategy<Value = u32> {
    prop_oneof![
        proptest::sample::select(vec![
            BOOL,
            BYTEA,
            INT8,
            INT2,
            INT4,
            TEXT,
            JSON,
            BPCHAR,
            VARCHAR,
            TIMESTAMP,
            TIMESTAMPTZ,
            NUMERIC,
            UUID,
            JSONB,
            ENUM
        ]),
        any::<u32>(),
    ]
}

proptest! {
    #[test]
    fn no_row_panics_and_what_is_text_is_passed_as_a_slice_of_the_frame(
        cells in proptest::collection::vec((any_type(), any_cell()), 6),
    ) {
        let names = ["id", "aggregatetype", "aggregateid", "payload", "at", "part"];
        let fields: Vec<Field<'_>> = names.iter().zip(&cells).map(|(name, cell)| (*name, cell.0, None)).collect();
        let frame: Bytes = cells.iter().filter_map(|cell| cell.1.clone()).flatten().collect();
        let mut at = 0;
        let mut tuple = Vec::new();
        for (_, value) in &cells {
            tuple.push(value.as_ref().map_or(Cell::Null, |value| {
                at += value.len();
                Cell::Text(&frame[at - value.len()..at])
            }));
        }
        let router = router(&[
            ("table.field.event.timestamp", "at"),
            ("table.fields.additional.placement", "part:partition,aggregateid:header"),
        ]);
        let mut binding = router.bind(&relation(&fields));
        if let Ok(Routed::Record(record)) = router.route(&mut binding, &event(&tuple, &frame)) {
            for (index, part) in [(2, &record.key), (3, &record.value), (2, &record.headers[1].value)] {
                let (type_id, input) = &cells[index];
                prop_assert_eq!(part.is_none(), input.is_none());
                if let (Some(part), Some(input), false) = (part, input, [BOOL, BYTEA].contains(type_id)) {
                    prop_assert_eq!(&part[..], &input[..]);
                    prop_assert!(part.is_empty() || frame.as_ptr_range().contains(&part.as_ptr()));
                }
            }
            prop_assert!(record.timestamp_ms >= 0);
        }
    }
}
