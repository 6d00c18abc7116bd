//! `bytea`, in each `binary.handling.mode`; and the text of what Debezium does not know, where it is asked to publish that.

use bytes::Bytes;

use crate::connect::{BinaryHandling, Schema, SchemaType, Value};
use crate::java_text::{base64, base64_url};
use crate::value::{ValueError, parse_bytea};

use super::temporal::string;

pub(super) fn schema(mode: BinaryHandling) -> Schema {
    match mode {
        BinaryHandling::Bytes => Schema::of(SchemaType::Bytes),
        BinaryHandling::Base64 | BinaryHandling::Base64UrlSafe | BinaryHandling::Hex => Schema::of(SchemaType::String),
    }
}

/// A `bytea` in the form of either `bytea_output`.
pub(super) fn read(mode: BinaryHandling, text: &[u8]) -> Result<Value, ValueError> {
    match (mode, text.strip_prefix(br"\x")) {
        (BinaryHandling::Hex, Some(digits)) if digits.len().is_multiple_of(2) && digits.iter().all(is_lower_hex) => {
            Ok(Value::String(Bytes::copy_from_slice(digits)))
        }
        _ => parse_bytea(text).map(|bytes| value(mode, Bytes::from(bytes))),
    }
}

/// Bytes that have been read.
pub(super) fn value(mode: BinaryHandling, bytes: Bytes) -> Value {
    match mode {
        BinaryHandling::Bytes => Value::Bytes(bytes),
        BinaryHandling::Base64 => written(base64, &bytes),
        BinaryHandling::Base64UrlSafe => written(base64_url, &bytes),
        BinaryHandling::Hex => string(hex(&bytes)),
    }
}

const fn is_lower_hex(digit: &u8) -> bool {
    matches!(digit, b'0'..=b'9' | b'a'..=b'f')
}

/// Reads pairs of hexadecimal digits.
pub(super) fn from_hex(digits: &[u8]) -> Result<Vec<u8>, ValueError> {
    parse_bytea(&[br"\x", digits].concat())
}

fn written(encode: fn(&mut Vec<u8>, &[u8]), bytes: &[u8]) -> Value {
    let mut out = Vec::new();
    encode(&mut out, bytes);
    Value::String(Bytes::from(out))
}

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}
