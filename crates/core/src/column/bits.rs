//! `bit` and `varbit`: one bit is a boolean, more are bytes, the lowest first, and no more of them than the highest bit that is set
//! needs. An empty `varbit(1)` is no boolean: Debezium warns and publishes null.

use bytes::Bytes;

use crate::connect::{Schema, SchemaType, Value, logical};
use crate::value::ValueError;

const EXPECTED: &str = "a string of bits";

/// Of a column with so many bits.
pub(super) fn schema(length: i32) -> Schema {
    if length <= 1 {
        return Schema::of(SchemaType::Boolean);
    }
    Schema::of(SchemaType::Bytes).named(logical::BITS, 1).with_parameter("length", length.to_string())
}

/// Of the number of bits that a column may have.
pub(super) fn read(length: i32, text: &[u8]) -> Result<Value, ValueError> {
    if let Some(odd) = text.iter().position(|byte| !matches!(byte, b'0' | b'1')) {
        return Err(ValueError::Malformed { expected: EXPECTED, offset: odd });
    }
    if length > 1 {
        return Ok(Value::Bytes(little_endian(text)));
    }
    if text.is_empty() {
        return Err(ValueError::Unrepresentable { expected: "no bit at all" });
    }
    Ok(Value::Boolean(text.contains(&b'1')))
}

fn little_endian(text: &[u8]) -> Bytes {
    let highest = text.iter().position(|bit| *bit == b'1').unwrap_or(text.len());
    let significant = text.get(highest..).unwrap_or_default();
    let byte = |bits: &[u8]| bits.iter().fold(0, |byte, bit| byte << 1 | (bit - b'0'));
    significant.rchunks(8).map(byte).collect()
}
