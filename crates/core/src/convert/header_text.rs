//! `SimpleHeaderConverter`: the text form of Connect's `Values.convertToString`, without a schema.
//!
//! A string is itself and bytes are Base64; lists, maps and structs look like JSON, with strings and bytes in quotes, of which
//! nothing but `"` and `\` is escaped; dates stand without quotes. A struct's field that is null is its default.

use bytes::Bytes;

use super::text::{entry_of, fields_of, item_of, java_date, separate};
use crate::connect::{Schema, Value};
use crate::java_text;

/// The text of a value; `None` for null.
pub(super) fn header_text(schema: Option<&Schema>, value: &Value) -> Option<Bytes> {
    match value {
        Value::Null => None,
        Value::String(text) | Value::Json(text) => Some(text.clone()),
        Value::Bytes(bytes) => {
            let mut out = Vec::new();
            java_text::base64(&mut out, bytes);
            Some(Bytes::from(out))
        }
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
            Some(millis) => java_text::iso_text(out, millis),
            None => java_text::integer(out, *value),
        },
        Value::Float32(value) => java_text::float_text(out, *value),
        Value::Float64(value) => java_text::double_text(out, *value),
        Value::String(text) => quoted(out, text),
        Value::Json(text) => out.extend_from_slice(text),
        Value::Bytes(bytes) => {
            out.push(b'"');
            java_text::base64(out, bytes);
            out.push(b'"');
        }
        Value::Decimal(decimal) => java_text::decimal_text(out, decimal),
        Value::Array(items) => list(out, schema, items),
        Value::Map(entries) => map(out, schema, entries),
        Value::Struct(values) => structure(out, schema, values),
    }
}

fn list(out: &mut Vec<u8>, schema: Option<&Schema>, items: &[Value]) {
    let item_schema = schema.and_then(item_of);
    out.push(b'[');
    for (index, item) in items.iter().enumerate() {
        separate(out, index, b",");
        append(out, item_schema, item);
    }
    out.push(b']');
}

fn map(out: &mut Vec<u8>, schema: Option<&Schema>, entries: &[(Value, Value)]) {
    let (key_schema, value_schema) = schema.and_then(entry_of).unzip();
    out.push(b'{');
    for (index, (key, value)) in entries.iter().enumerate() {
        separate(out, index, b",");
        append(out, key_schema, key);
        out.push(b':');
        append(out, value_schema, value);
    }
    out.push(b'}');
}

fn structure(out: &mut Vec<u8>, schema: Option<&Schema>, values: &[Value]) {
    out.push(b'{');
    let fields = schema.map(fields_of).unwrap_or_default();
    for (index, (field, value)) in fields.iter().zip(values).enumerate() {
        separate(out, index, b",");
        quoted(out, field.name.as_bytes());
        out.push(b':');
        match (value, &field.schema.default) {
            (Value::Null, Some(default)) => append(out, Some(&field.schema), default),
            _ => append(out, Some(&field.schema), value),
        }
    }
    out.push(b'}');
}

fn quoted(out: &mut Vec<u8>, text: &[u8]) {
    out.push(b'"');
    for &byte in text {
        if matches!(byte, b'"' | b'\\') {
            out.push(b'\\');
        }
        out.push(byte);
    }
    out.push(b'"');
}
