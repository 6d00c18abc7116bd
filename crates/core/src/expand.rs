//! A JSON payload made a structure, as `table.expand.json.payload` asks for.
//!
//! Debezium's router parses the text with a stock Jackson, infers a schema from the document (`JsonSchemaData`) and then makes the
//! document a value of that schema. Here is the same in three steps: [`parse`], [`shape`], [`fill`]. What is inferred and what
//! is lost of a document, such as nulls, empty arrays and digits beyond a double's, is Debezium's own and stays so.
//!
//! Where it differs:
//!
//! - Its inference may succeed where the value then does not fit: an integer beyond 64 bits, an array at the top, an array with
//!   members of two types. Its task dies of that wherever the converter minds schemas. Here the document is published as it is.
//! - Of an array of unlike objects it makes one schema whose order of fields, and whose choice between members that differ in
//!   themselves, change from one run of the JVM to the next; a nested object may lose fields by it. Here the order is that of first
//!   appearance in the document, and nested objects are united too, so that nothing is lost.
//! - Of an array of many unlike objects it makes a value that is thousands of times as large as the document, since each object has a
//!   null for every field of the others, and Kafka or its memory then refuse it. Here such a document is published as it is.
//! - With `field.name.adjustment.mode` it renames a member in the schema, does not find the new name in the document, and publishes
//!   null. Here the value stands under the new name. Where two names become one, the document is published as it is.
//!
//! What it refuses to do: fail. Text that Jackson does not take, or that no schema comes of, stays the text that it is.

mod document;
mod fill;
mod names;
mod parse;
mod shape;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use bytes::Bytes;

use self::document::Document;
use crate::connect::{Schema, Value};
use crate::java_text::json_string;
use crate::router::{EmptyArrayBehavior, FieldNameAdjustment, NullBehavior};

/// The router's options about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Settings {
    /// `table.json.payload.null.behavior`
    pub nulls: NullBehavior,
    /// `table.json.payload.empty.array.behavior`
    pub empty_arrays: EmptyArrayBehavior,
    /// `field.name.adjustment.mode`
    pub names: FieldNameAdjustment,
}

/// What a payload becomes.
#[derive(Debug, Clone, PartialEq)]
pub enum Expanded {
    /// It stays the text that it is.
    Unchanged,
    /// A structure. A surrogate without its other half, which an escape in the document can name, stands in its strings in the three
    /// bytes that UTF-8 would have for it.
    Structure(Arc<Schema>, Value),
    /// A document of which no schema can be made: compact, with its numbers as they were written. Debezium's task dies of it where the
    /// converter minds schemas. For an empty array it is the string of the whole text, for there Debezium keeps the text and
    /// loses the schema alone.
    Document(Bytes),
}

/// Expands a payload. `name` is that of its column, which the names of structs begin with.
#[must_use]
pub fn expand(text: &str, name: &str, settings: Settings) -> Expanded {
    if !text.starts_with(['{', '[']) {
        return Expanded::Unchanged;
    }
    let Ok(document) = Document::parse(text, settings.names) else { return Expanded::Unchanged };
    let shape = match shape::infer(&document, name, settings) {
        Ok(Some(shape)) => shape,
        Ok(None) => return Expanded::Document(string_of(text)),
        Err(shape::NoShape::Inconsistent) => return Expanded::Unchanged,
        Err(shape::NoShape::TooLarge) => return Expanded::Document(document.compact()),
    };
    if document.is_to_stay {
        return Expanded::Document(document.compact());
    }
    let schema = shape.into_schema();
    match fill::fill(&document, &schema) {
        Some(value) => Expanded::Structure(schema, value),
        None => Expanded::Document(document.compact()),
    }
}

/// The text as a string in JSON.
fn string_of(text: &str) -> Bytes {
    let mut out = Vec::new();
    json_string(&mut out, text.as_bytes());
    Bytes::from(out)
}
