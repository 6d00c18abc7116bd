//! `hstore`, in either `hstore.handling.mode`.
//!
//! As JSON its document is what Jackson writes of a Java map, as a map it is that map: in both the entries come in the map's order
//! (see [`hash_order`](super::hash_order)). The text's form is that of `hstore_out`: `"key"=>"value", "key"=>NULL`.

use bytes::Bytes;

use crate::connect::{HstoreHandling, Schema, SchemaType, Value, logical};
use crate::java_text::json_chars;
use crate::value::ValueError;

use super::hash_order::{Key, iteration_order};

pub(super) fn schema(mode: HstoreHandling) -> Schema {
    match mode {
        HstoreHandling::Json => Schema::of(SchemaType::String).named(logical::JSON, 1),
        HstoreHandling::Map => {
            let value = Schema::of(SchemaType::String).optional();
            Schema::of(SchemaType::Map(Schema::of(SchemaType::String).into(), value.into()))
        }
    }
}

/// An `hstore`.
pub(super) fn read(mode: HstoreHandling, text: &[u8]) -> Result<Value, ValueError> {
    /// What `new HashMap()` is made for.
    const CAPACITY: usize = 16;
    let malformed = |offset| ValueError::Malformed { expected: "an hstore", offset };
    let whole = std::str::from_utf8(text).map_err(|error| malformed(error.valid_up_to()))?;
    let entries = entries(whole).map_err(|rest| malformed(whole.len() - rest))?;
    let keys: Vec<Key> = entries.iter().map(|(key, _)| Key::of_text(key)).collect();
    let in_order = iteration_order(&keys, CAPACITY).into_iter().filter_map(|at| entries.get(at));
    Ok(match mode {
        HstoreHandling::Json => Value::String(Bytes::from(json(in_order))),
        HstoreHandling::Map => Value::Map(
            in_order.map(|(key, value)| (string(key), value.as_deref().map_or(Value::Null, string))).collect(),
        ),
    })
}

fn string(text: &str) -> Value {
    Value::String(Bytes::copy_from_slice(text.as_bytes()))
}

type Entry = (String, Option<String>);

/// The error is how many bytes are left where the text stops making sense.
fn entries(text: &str) -> Result<Vec<Entry>, usize> {
    let mut entries = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let left = rest.len();
        if !entries.is_empty() {
            rest = rest.strip_prefix(", ").ok_or(left)?;
        }
        let (key, behind) = quoted(rest).ok_or(rest.len())?;
        let behind = behind.strip_prefix("=>").ok_or(behind.len())?;
        let (value, behind) = match behind.strip_prefix("NULL") {
            Some(behind) => (None, behind),
            None => quoted(behind).map(|(value, behind)| (Some(value), behind)).ok_or(behind.len())?,
        };
        entries.push((key, value));
        rest = behind;
    }
    Ok(entries)
}

/// Reads up to the closing quote; a backslash takes the next letter as it is.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut letters = text.strip_prefix('"')?.chars();
    let mut out = String::new();
    loop {
        match letters.next()? {
            '"' => return Some((out, letters.as_str())),
            '\\' => out.push(letters.next()?),
            letter => out.push(letter),
        }
    }
}

/// As Jackson writes an object of strings and nulls.
fn json<'a>(entries: impl Iterator<Item = &'a Entry>) -> Vec<u8> {
    let mut out = vec![b'{'];
    for (index, (key, value)) in entries.enumerate() {
        if index > 0 {
            out.push(b',');
        }
        json_chars(&mut out, key);
        out.push(b':');
        match value {
            Some(value) => json_chars(&mut out, value),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.push(b'}');
    out
}
