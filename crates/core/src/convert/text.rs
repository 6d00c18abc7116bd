//! `StringConverter`: what Java's `toString` returns.
//!
//! Where Java has no text but an object's name (`java.nio.HeapByteBuffer[pos=0 lim=4 cap=4]`, `[B@1b2c3d`), the bytes stand themselves:
//! as they are where they are the whole value, and in Base64 within a struct, a list or a map, as `SimpleHeaderConverter` writes
//! them there.

use bytes::Bytes;

use crate::connect::{Schema, SchemaType, Value, logical};
use crate::java_text;

/// The text of a value; `None` for null.
pub(super) fn text(schema: Option<&Schema>, value: &Value) -> Option<Bytes> {
    match value {
        Value::Null => None,
        Value::String(text) | Value::Bytes(text) | Value::Json(text) => Some(text.clone()),
        _ => {
            let mut out = Vec::new();
            append(&mut out, schema, value);
            Some(Bytes::from(out))
        }
    }
}

fn append(out: &mut Vec<u8>, schema: Option<&Schema>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Boolean(value) => out.extend_from_slice(if *value { b"true" } else { b"false" }),
        Value::Integer(value) => match schema.and_then(|schema| java_date(schema, *value)) {
            Some(millis) => java_text::date_text(out, millis),
            None => java_text::integer(out, *value),
        },
        Value::Float32(value) => java_text::float_text(out, *value),
        Value::Float64(value) => java_text::double_text(out, *value),
        Value::String(text) => string(out, text),
        Value::Json(text) => out.extend_from_slice(text),
        Value::Bytes(bytes) => java_text::base64(out, bytes),
        Value::Decimal(decimal) => java_text::decimal_text(out, decimal),
        Value::Array(items) => list(out, schema, items),
        Value::Map(entries) => map(out, schema, entries),
        Value::Struct(values) => structure(out, schema, values),
    }
}

/// Java's encoder writes a question mark for a surrogate without its other half.
fn string(out: &mut Vec<u8>, text: &[u8]) {
    let mut rest = text;
    while let Some(found) = rest.windows(2).position(|pair| matches!(pair, [0xED, 0xA0..=0xBF])) {
        let (before, surrogate) = rest.split_at(found);
        out.extend_from_slice(before);
        out.push(b'?');
        rest = surrogate.get(3..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
}

fn list(out: &mut Vec<u8>, schema: Option<&Schema>, items: &[Value]) {
    let item_schema = schema.and_then(item_of);
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        separate(out, index, b", ");
        append(out, item_schema, item);
    }
    out.push(b']');
}

fn map(out: &mut Vec<u8>, schema: Option<&Schema>, entries: &[(Value, Value)]) {
    let (key_schema, value_schema) = schema.and_then(entry_of).unzip();
    out.push(b'{');
    for (index, (key, value)) in entries.iter().enumerate() {
        separate(out, index, b", ");
        append(out, key_schema, key);
        out.push(b'=');
        append(out, value_schema, value);
    }
    out.push(b'}');
}

/// Fields that are null are left out.
fn structure(out: &mut Vec<u8>, schema: Option<&Schema>, values: &[Value]) {
    out.extend_from_slice(b"Struct{");
    let fields = schema.map(fields_of).unwrap_or_default();
    let present = fields.iter().zip(values).filter(|(_, value)| **value != Value::Null);
    for (index, (field, value)) in present.enumerate() {
        separate(out, index, b",");
        out.extend_from_slice(field.name.as_bytes());
        out.push(b'=');
        append(out, Some(&field.schema), value);
    }
    out.push(b'}');
}

pub(super) fn separate(out: &mut Vec<u8>, index: usize, separator: &[u8]) {
    if index > 0 {
        out.extend_from_slice(separator);
    }
}

pub(super) fn item_of(schema: &Schema) -> Option<&Schema> {
    if let SchemaType::Array(item) = &schema.kind { Some(item) } else { None }
}

pub(super) fn entry_of(schema: &Schema) -> Option<(&Schema, &Schema)> {
    if let SchemaType::Map(key, value) = &schema.kind { Some((key, value)) } else { None }
}

pub(super) fn fields_of(schema: &Schema) -> &[crate::connect::Field] {
    if let SchemaType::Struct(fields) = &schema.kind { fields } else { &[] }
}

/// The milliseconds since 1970 of a value that Java holds as a `java.util.Date`.
pub(super) fn java_date(schema: &Schema, value: i64) -> Option<i64> {
    match schema.name.as_deref()? {
        logical::CONNECT_DATE => Some(value.saturating_mul(86_400_000)),
        logical::CONNECT_TIME | logical::CONNECT_TIMESTAMP => Some(value),
        _ => None,
    }
}
