//! `bytea`, in each `binary.handling.mode`; and the text of what Debezium does not know, where it is asked to publish that.

use bytes::Bytes;

use crate::connect::{BinaryHandling, Schema, SchemaType, Value};
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
        BinaryHandling::Base64 => string(base64(&bytes, *b"+/")),
        BinaryHandling::Base64UrlSafe => string(base64(&bytes, *b"-_")),
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

fn hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Base64 with padding (RFC 4648, sections 4 and 5), whose last two letters differ.
fn base64(bytes: &[u8], last: [u8; 2]) -> String {
    let letter = |bits: u8| match bits & 63 {
        bits @ 0..26 => b'A' + bits,
        bits @ 26..52 => b'a' + (bits - 26),
        bits @ 52..62 => b'0' + (bits - 52),
        62 => last[0],
        _ => last[1],
    };
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| chunk.get(index).copied();
        let (first, second, third) = (byte(0).unwrap_or(0), byte(1), byte(2));
        let letters = [
            Some(letter(first >> 2)),
            Some(letter(first << 4 | second.unwrap_or(0) >> 4)),
            second.map(|second| letter(second << 2 | third.unwrap_or(0) >> 6)),
            third.map(letter),
        ];
        out.extend(letters.map(|letter| letter.map_or('=', char::from)));
    }
    out
}
