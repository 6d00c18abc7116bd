//! The headers of a record as JSON that a person can read in `psql`, and that keeps order, repeats, nulls and bytes.
//!
//! `[["id", "0b7e…"], ["trace", null], ["blob", {"bytea": "\\x00ff"}]]`: a list of pairs, for an object has neither order nor repeats. A value
//! that is no text stands in the form that SQL casts to `bytea`. The column is of type `json`, not `jsonb`, which refuses the escape of NUL and texts above 256 MB.

use std::fmt::Write;

use bytes::Bytes;
use serde_json::Value;
use walpost_core::record::{Header, Headers};

use super::text::Repertoire;

/// The key that marks a value as bytes.
const BYTES: &str = "bytea";

/// Writes headers as JSON.
pub(super) fn write(headers: &Headers, repertoire: Repertoire) -> String {
    let pair = |header: &Header| Value::Array(vec![header.name.as_ref().into(), value(header.value.as_deref())]);
    let json = Value::Array(headers.iter().map(pair).collect()).to_string();
    match repertoire {
        Repertoire::Unicode => json,
        Repertoire::Ascii => ascii(&json),
    }
}

fn value(bytes: Option<&[u8]>) -> Value {
    let Some(bytes) = bytes else { return Value::Null };
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => text.into(),
        _ => serde_json::json!({ BYTES: hex(bytes) }),
    }
}

/// The same JSON with every character outside of ASCII, which only strings have, as an escape.
fn ascii(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if character.is_ascii() {
            text.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            // Writing to a `String` cannot fail.
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
    text
}

/// Bytes in the text form of `bytea`.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::from("\\x"), |mut text, byte| {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digits = text.strip_prefix("\\x")?.as_bytes();
    let (pairs, rest) = digits.as_chunks::<2>();
    let byte = |pair: &[u8; 2]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    rest.is_empty().then(|| pairs.iter().map(byte).collect())?
}

/// Reads what [`write`] wrote; `None` of anything else.
pub(super) fn read(json: &str) -> Option<Headers> {
    let Value::Array(pairs) = serde_json::from_str(json).ok()? else { return None };
    pairs.iter().map(header).collect()
}

fn header(pair: &Value) -> Option<Header> {
    let [name, value] = pair.as_array()?.as_slice() else { return None };
    let value = match value {
        Value::Null => None,
        Value::String(text) => Some(Bytes::copy_from_slice(text.as_bytes())),
        Value::Object(_) => Some(Bytes::from(from_hex(value.get(BYTES)?.as_str()?)?)),
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => return None,
    };
    Some(Header { name: name.as_str()?.into(), value })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&str, Option<&[u8]>)]) -> Headers {
        pairs
            .iter()
            .map(|(name, value)| Header { name: (*name).into(), value: value.map(Bytes::copy_from_slice) })
            .collect()
    }

    #[test]
    fn headers_come_back_in_order_with_repeats_nulls_and_bytes() {
        let headers = headers(&[
            ("id", Some(b"7")),
            ("größe", Some("✓ \"𝄞\"".as_bytes())),
            ("id", Some(b"8")),
            ("none", None),
            ("empty", Some(b"")),
            ("nul", Some(b"a\0")),
            ("bytes", Some(b"\xff\x00")),
        ]);
        let unicode = r#"[["id","7"],["größe","✓ \"𝄞\""],["id","8"],["none",null],["empty",""],["nul",{"bytea":"\\x6100"}],["bytes",{"bytea":"\\xff00"}]]"#;
        assert_eq!(write(&headers, Repertoire::Unicode), unicode);
        assert!(write(&headers, Repertoire::Ascii).contains(r#"["gr\u00f6\u00dfe","\u2713 \"\ud834\udd1e\""]"#));
        for repertoire in [Repertoire::Unicode, Repertoire::Ascii] {
            assert_eq!(read(&write(&headers, repertoire)), Some(headers.clone()));
        }
        assert_eq!(write(&Headers::new(), Repertoire::Unicode), "[]");
    }

    #[test]
    fn what_was_never_written_is_not_read() {
        for json in ["", "{}", "[1]", r#"[["a"]]"#, r#"[["a",1]]"#, r#"[[1,"a"]]"#, r#"[["a",{"bytea":"\\x0"}]]"#] {
            assert_eq!(read(json), None, "{json}");
        }
    }
}
