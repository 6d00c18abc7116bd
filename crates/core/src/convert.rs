//! From a column's text to the bytes of a key, a value or a header.
//!
//! Connect's converters are here by their class names: `StringConverter`, `SimpleHeaderConverter`, `JsonConverter` with and without
//! schemas, `ByteArrayConverter`, `BinaryDataConverter` and those for a single type. Each is made ready for a schema once and then
//! takes what the router has chosen and gives bytes; none of them knows a topic or a role. Those that need a schema registry are
//! refused by name.
//!
//! Text goes through none of them where a slice of the frame is what they would write ([`Prepared::passes`]).
//!
//! The plain functions below hold where no converter is configured: a key and a value are the column's own bytes, a header is what
//! `SimpleHeaderConverter` writes. A column's DEFAULT, which Connect puts in the place of NULL, is not known to them.

mod choice;
mod converter;
mod header_text;
mod java;
mod json;
#[cfg(test)]
mod tests;
mod text;
mod write;

pub use converter::{ConvertError, Converter, Prepared, Side};
pub(crate) use write::json_string;

use bytes::Bytes;

use crate::event::Event;
use crate::value::{Kind, ValueError, parse_bool, parse_bytea};

/// Whether a column of this kind has bytes of its own, or a form as a header.
pub(crate) fn is_convertible(kind: Kind) -> bool {
    kind.is_textual() || kind.is_integer() || matches!(kind, Kind::Boolean | Kind::Bytea)
}

/// The column's own bytes: the text form, or the decoded bytes of `bytea`.
pub(crate) fn own_bytes(kind: Kind, text: &[u8], event: &Event<'_>) -> Result<Bytes, ValueError> {
    match kind {
        Kind::Boolean => boolean(text).map(|word| Bytes::from_static(word.as_bytes())),
        Kind::Bytea => parse_bytea(text).map(Bytes::from),
        _ => Ok(event.bytes_of(text)),
    }
}

/// What `SimpleHeaderConverter` writes: text verbatim, bytes in Base64.
pub(crate) fn header_bytes(kind: Kind, text: &[u8], event: &Event<'_>) -> Result<Bytes, ValueError> {
    match kind {
        Kind::Bytea => parse_bytea(text).map(|bytes| Bytes::from(base64(&bytes))),
        _ => own_bytes(kind, text, event),
    }
}

/// Java's word for a truth value.
pub(crate) fn boolean(text: &[u8]) -> Result<&'static str, ValueError> {
    parse_bool(text).map(|is_true| if is_true { "true" } else { "false" })
}

/// Standard Base64 with padding (RFC 4648, section 4).
fn base64(bytes: &[u8]) -> Vec<u8> {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letter = |bits: u8| ALPHABET.get(usize::from(bits & 63)).copied().unwrap_or(b'=');
    let mut out = Vec::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let byte = |index: usize| chunk.get(index).copied();
        let (first, second, third) = (byte(0).unwrap_or(0), byte(1), byte(2));
        out.push(letter(first >> 2));
        out.push(letter(first << 4 | second.unwrap_or(0) >> 4));
        out.push(second.map_or(b'=', |second| letter(second << 2 | third.unwrap_or(0) >> 6)));
        out.push(third.map_or(b'=', letter));
    }
    out
}

#[cfg(test)]
mod own_bytes_tests {
    use super::base64;

    #[test]
    fn base64_is_that_of_the_standard() {
        let cases: [(&[u8], &[u8]); 9] = [
            (b"", b""),
            (b"f", b"Zg=="),
            (b"fo", b"Zm8="),
            (b"foo", b"Zm9v"),
            (b"foob", b"Zm9vYg=="),
            (b"foobar", b"Zm9vYmFy"),
            (&[0xDE, 0xAD, 0xBE, 0xEF], b"3q2+7w=="),
            (&[1, 2], b"AQI="),
            (&[0xFF, 0xFF, 0xFF], b"////"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(base64(bytes), expected, "{bytes:?}");
        }
    }
}
