//! Rows that are published, and what they become.

use bytes::Bytes;

use super::*;
use crate::router::InvalidOperation;

#[test]
fn a_plain_row_becomes_a_record() {
    let record = published(&[], &[]);
    assert_eq!(&*record.topic, "outbox.event.Order");
    assert_eq!(record.key, bytes("1"));
    assert_eq!(record.value, bytes("{\"id\": 1}"));
    assert_eq!(headers(&record), [("id", Some(U))]);
    assert_eq!((record.timestamp_ms, record.is_dated_by_row), (COMMIT_MS, false));
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
    assert_eq!(value("abc\\000"), bytes("abc\0"), "the escape form of a server that does not follow the session");
    assert!(fault(&[], &[("payload", BYTEA, Some("\\x0g"))]).contains("\"payload\""));
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
fn additional_headers_come_after_the_id_in_configured_order_and_twice_if_so_configured() {
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
        assert_eq!(record.is_dated_by_row, expected != COMMIT_MS, "{type_id} {text:?}");
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
fn what_updates_lead_to_is_for_the_session_to_read() {
    assert_eq!(router(&[]).on_update(), InvalidOperation::Warn);
    assert_eq!(router(&[("table.op.invalid.behavior", "fatal")]).on_update(), InvalidOperation::Fatal);
}
