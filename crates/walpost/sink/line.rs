//! A record as a line of JSON.
//!
//! Written straight into the buffer that goes out: a payload is copied once and escaped on the way. Text that is not UTF-8 would not survive
//! in JSON, so it becomes `{"base64":"…"}`.

use std::io::Write;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use walpost_core::record::Record;

/// Appends the record and a line break.
pub(super) fn write(into: &mut Vec<u8>, record: &Record) {
    into.extend_from_slice(b"{\"topic\":");
    text(into, &record.topic);
    into.extend_from_slice(b",\"partition\":");
    match record.partition {
        Some(partition) => number(into, partition),
        None => into.extend_from_slice(b"null"),
    }
    into.extend_from_slice(b",\"key\":");
    content(into, record.key.as_ref());
    into.extend_from_slice(b",\"value\":");
    content(into, record.value.as_ref());
    into.extend_from_slice(b",\"headers\":[");
    for (index, header) in record.headers.iter().enumerate() {
        into.extend_from_slice(if index == 0 { b"[" } else { b",[" });
        text(into, &header.name);
        into.push(b',');
        content(into, header.value.as_ref());
        into.push(b']');
    }
    into.extend_from_slice(b"],\"timestamp_ms\":");
    number(into, record.timestamp_ms);
    into.extend_from_slice(b",\"position\":{\"timeline\":");
    number(into, record.identity.timeline.0);
    into.extend_from_slice(b",\"commit_lsn\":\"");
    number(into, record.identity.commit_lsn);
    into.extend_from_slice(b"\",\"ordinal\":");
    number(into, record.identity.ordinal);
    into.extend_from_slice(b"}}\n");
}

fn content(into: &mut Vec<u8>, bytes: Option<&Bytes>) {
    match bytes.map(|bytes| (bytes, std::str::from_utf8(bytes))) {
        None => into.extend_from_slice(b"null"),
        Some((_, Ok(utf8))) => text(into, utf8),
        Some((bytes, Err(_))) => {
            into.extend_from_slice(b"{\"base64\":\"");
            into.extend_from_slice(STANDARD.encode(bytes).as_bytes());
            into.extend_from_slice(b"\"}");
        }
    }
}

fn text(into: &mut Vec<u8>, text: &str) {
    // Neither writing to a `Vec` nor serialising a `str` can fail.
    let _ = serde_json::to_writer(into, text);
}

fn number(into: &mut Vec<u8>, number: impl std::fmt::Display) {
    // Writing to a `Vec` cannot fail.
    let _ = write!(into, "{number}");
}

#[cfg(test)]
pub(in crate::sink) mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};
    use walpost_core::lsn::Lsn;
    use walpost_core::position::{Identity, Timeline};
    use walpost_core::record::{Header, Headers};

    use super::*;

    /// A record like any other.
    pub(in crate::sink) fn record() -> Record {
        Record {
            identity: Identity { timeline: Timeline(1), commit_lsn: Lsn::new(0x16B_3748), ordinal: 0 },
            topic: Arc::from("outbox.event.order"),
            key: Some(Bytes::from_static(b"42")),
            value: Some(Bytes::from_static(br#"{"a": 1}"#)),
            headers: Headers::from_iter([Header { name: Arc::from("id"), value: Some(Bytes::from_static(b"e-1")) }]),
            timestamp_ms: 1_700_000_000_000,
            is_dated_by_row: false,
            partition: None,
        }
    }

    fn written(record: &Record) -> String {
        let mut line = Vec::new();
        write(&mut line, record);
        String::from_utf8(line).unwrap()
    }

    #[test]
    fn a_line_holds_every_part_of_the_record_and_its_position() {
        let expected = concat!(
            r#"{"topic":"outbox.event.order","partition":null,"key":"42","value":"{\"a\": 1}","headers":[["id","e-1"]],"#,
            r#""timestamp_ms":1700000000000,"position":{"timeline":1,"commit_lsn":"0/16B3748","ordinal":0}}"#,
            "\n"
        );
        assert_eq!(written(&record()), expected);
    }

    #[test]
    fn null_empty_odd_and_binary_contents_are_told_apart() {
        let header = |name: &str, value: Option<&'static [u8]>| Header {
            name: Arc::from(name),
            value: value.map(Bytes::from_static),
        };
        let odd = Record {
            key: None,
            value: Some(Bytes::from_static(b"")),
            partition: Some(7),
            timestamp_ms: -1,
            is_dated_by_row: false,
            headers: Headers::from_iter([
                header("null", None),
                header("binary", Some(&[0xFF, 0x00])),
                header("a\"b", Some(b"line\nbreak \\ \x01 \xe2\x80\xa8")),
            ]),
            ..record()
        };
        let line = written(&odd);
        assert_eq!(line.matches('\n').count(), 1, "{line}");
        let parsed: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&parsed["key"], &parsed["value"]), (&Value::Null, &json!("")));
        assert_eq!((&parsed["partition"], &parsed["timestamp_ms"]), (&json!(7), &json!(-1)));
        let headers =
            json!([["null", null], ["binary", {"base64": "/wA="}], ["a\"b", "line\nbreak \\ \u{1} \u{2028}"]]);
        assert_eq!(parsed["headers"], headers);
        let tombstone = Record { value: None, headers: Headers::new(), ..record() };
        let parsed: Value = serde_json::from_str(&written(&tombstone)).unwrap();
        assert_eq!((&parsed["value"], &parsed["headers"]), (&Value::Null, &json!([])));
    }
}
