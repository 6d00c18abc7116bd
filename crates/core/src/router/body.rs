//! The value of a record: the payload alone, or an envelope of the payload and further columns; as it is, or expanded from JSON.
//!
//! The schema of an envelope bears the row's route in its name. Debezium keeps one schema for all routes, or for all rows of a
//! version, so that the first row's name leaks into others'; here each route and each version has its own.
//!
//! # What is published where Debezium's task would have died
//!
//! A document of which no schema can be made (a top-level array, a number beyond 64 bits, unlike objects in an array) is published
//! whole by converters that write JSON, and as its text by those that do not.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::binding::Column;
use super::connector::Connector;
use super::options::Options;
use super::written::Written;
use crate::column::ColumnType;
use crate::connect::{Field, Schema, SchemaType, Value};
use crate::convert::{ConvertError, Converter, Prepared};
use crate::event::Event;
use crate::expand::{self, Expanded};
use crate::poison::RowFault;

/// The name of the payload within an envelope.
pub(super) const PAYLOAD_FIELD: &str = "payload";

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Body {
    payload: Written,
    converter: Converter,
    /// `route.tombstone.on.empty.payload`
    may_vanish: bool,
    /// How JSON is expanded, if it is, and the name of the payload's column.
    expansion: Option<(expand::Settings, String)>,
    envelope: Option<Envelope>,
}

/// What further values an enveloped value has, and what is known about it.
#[derive(Debug)]
struct Envelope {
    /// The schemas of payload and fields.
    fields: Vec<Field>,
    connector: Connector,
    schema: String,
    table: String,
    memory: Memory,
}

/// The schemas of the routes and versions seen so far, ready to be written. Bounded: when it is full it is forgotten, and what would
/// take too large a part of it is not kept at all.
#[derive(Debug, Default)]
struct Memory {
    schemas: BTreeMap<(Box<[u8]>, Option<i32>), Prepared>,
    /// What they take, about.
    bytes: usize,
}

impl Memory {
    const MAX_BYTES: usize = 16 << 20;
    const MAX_BYTES_OF_ONE: usize = 1 << 20;

    fn learn(&mut self, key: (Box<[u8]>, Option<i32>), fields: usize, made: &Prepared) {
        const A_SCHEMA: usize = 512;
        // The route stands in the key and in the name of the schema.
        let bytes = A_SCHEMA + 2 * key.0.len() + fields * size_of::<Field>() + made.length();
        if bytes > Self::MAX_BYTES_OF_ONE {
            return;
        }
        if self.bytes + bytes > Self::MAX_BYTES {
            *self = Self::default();
        }
        self.bytes += bytes;
        self.schemas.insert(key, made.clone());
    }
}

/// A column that is a field of an enveloped value.
#[derive(Debug)]
pub(super) struct EnvelopeField {
    column: Column,
    read: ColumnType,
    alias: Arc<str>,
}

impl EnvelopeField {
    pub(super) fn new(column: Column, read: ColumnType, alias: Arc<str>) -> Self {
        Self { column, read, alias }
    }

    pub(super) fn schema(&self) -> Field {
        Field { name: Arc::clone(&self.alias), schema: Arc::clone(self.read.schema()) }
    }

    pub(super) fn value(&self, event: &Event<'_>) -> Result<Value, RowFault> {
        self.column.value_or_default(&self.read, event)
    }
}

/// What the rest of the row says about the value.
#[derive(Debug)]
pub(super) struct Surroundings<'a> {
    /// The values of the envelope's fields, in order.
    pub(super) fields: Vec<Value>,
    /// The raw value that routes the row.
    pub(super) route: &'a [u8],
    /// The version of the envelope's schema.
    pub(super) version: Option<i32>,
}

impl Body {
    /// `names` are those of the table's schema and of the table, `fields` those of an envelope.
    pub(super) fn new(
        options: &Options,
        connector: &Connector,
        names: (&str, &str),
        (column, read): (Column, ColumnType),
        fields: Option<Vec<Field>>,
    ) -> Result<Self, String> {
        let own = Field { name: Arc::from(PAYLOAD_FIELD), schema: Arc::clone(read.schema()) };
        // An envelope is what has to be written then, and a payload of bytes may be part of one.
        let alone = if fields.is_some() { Converter::default() } else { connector.value.clone() };
        let envelope = fields.map(|further| Envelope {
            fields: std::iter::once(own).chain(further).collect(),
            connector: connector.clone(),
            schema: names.0.to_owned(),
            table: names.1.to_owned(),
            memory: Memory::default(),
        });
        if let Some(envelope) = &envelope {
            connector.value.prepare(Some(&envelope.schema_of(envelope.fields.clone(), b"", None)))?;
        }
        let payload = Written::new(column, read, &alone).map_err(|(_, reason)| reason)?;
        Ok(Self {
            payload,
            converter: connector.value.clone(),
            may_vanish: options.route_tombstone_on_empty_payload,
            expansion: options.expansion().map(|settings| (settings, options.table_field_event_payload.clone())),
            envelope,
        })
    }

    /// Whether a row's value is its payload and nothing is asked of it: then [`plain`](Self::plain) gives it.
    pub(super) fn is_plain(&self) -> bool {
        self.envelope.is_none() && self.expansion.is_none()
    }

    /// The payload through the converter.
    pub(super) fn plain(&self, event: &Event<'_>) -> Result<Option<Bytes>, RowFault> {
        if !self.may_vanish {
            return self.payload.bytes(event);
        }
        if self.payload.passes() && self.payload.column().text(event)?.is_some_and(|text| !is_blank(text)) {
            return self.payload.bytes(event);
        }
        let value = self.payload.value(event)?;
        if is_empty(&value) { Ok(None) } else { self.payload.convert(&value) }
    }

    /// The value of an outbox that envelopes or expands.
    pub(super) fn structured(
        &mut self,
        event: &Event<'_>,
        around: Surroundings<'_>,
    ) -> Result<Option<Bytes>, RowFault> {
        let value = self.payload.value(event)?;
        if self.may_vanish && is_empty(&value) {
            return Ok(None);
        }
        let expanded = self.expand(&value);
        let written = match (&mut self.envelope, expanded) {
            (Some(envelope), expanded) => envelope.convert(&self.converter, value, expanded, around),
            (None, Expanded::Unchanged) => return self.payload.convert(&value),
            (None, Expanded::Structure(schema, value)) => prepared(&self.converter, Some(&schema), &value),
            (None, Expanded::Document(document)) if self.converter.writes_json() => {
                prepared(&self.converter, None, &Value::Json(document))
            }
            (None, Expanded::Document(_)) => return self.payload.convert(&value),
        };
        written.map_err(|error| self.payload.column().unwritable(&error))
    }

    /// What is text is expanded; what is not UTF-8 is no JSON.
    fn expand(&self, value: &Value) -> Expanded {
        let text = match value {
            Value::String(text) => std::str::from_utf8(text).ok(),
            _ => None,
        };
        match (&self.expansion, text) {
            (Some((settings, name)), Some(text)) => expand::expand(text, name, *settings),
            _ => Expanded::Unchanged,
        }
    }
}

impl Envelope {
    fn convert(
        &mut self,
        converter: &Converter,
        payload: Value,
        expanded: Expanded,
        around: Surroundings<'_>,
    ) -> Result<Option<Bytes>, ConvertError> {
        let (schema, payload) = match expanded {
            Expanded::Structure(schema, value) => (Some(schema), value),
            Expanded::Document(document) if converter.writes_json() => (None, Value::Json(document)),
            Expanded::Document(_) | Expanded::Unchanged => (None, payload),
        };
        let value = Value::Struct(std::iter::once(payload).chain(around.fields).collect());
        match schema {
            // Each document has a schema of its own.
            Some(schema) => {
                let mut fields = self.fields.clone();
                if let Some(payload) = fields.first_mut() {
                    payload.schema = schema;
                }
                prepared(converter, Some(&self.schema_of(fields, around.route, around.version)), &value)
            }
            None => self.write(converter, around.route, around.version, &value),
        }
    }

    fn write(
        &mut self,
        converter: &Converter,
        route: &[u8],
        version: Option<i32>,
        value: &Value,
    ) -> Result<Option<Bytes>, ConvertError> {
        let key = (Box::from(route), version);
        if let Some(known) = self.memory.schemas.get(&key) {
            return known.convert(value);
        }
        let schema = self.schema_of(self.fields.clone(), route, version);
        let made = converter.prepare(Some(&schema)).map_err(ConvertError::new)?;
        self.memory.learn(key, self.fields.len(), &made);
        made.convert(value)
    }

    fn schema_of(&self, fields: Vec<Field>, route: &[u8], version: Option<i32>) -> Arc<Schema> {
        let name = self.connector.envelope_name(&self.schema, &self.table, &String::from_utf8_lossy(route));
        Arc::new(Schema { name: Some(name.into()), version, ..Schema::of(SchemaType::Struct(fields)) })
    }
}

fn prepared(converter: &Converter, schema: Option<&Arc<Schema>>, value: &Value) -> Result<Option<Bytes>, ConvertError> {
    converter.prepare(schema).map_err(ConvertError::new)?.convert(value)
}

/// Whether Java's `toString().trim()` leaves nothing of it. Only a string is ever empty so; an empty `bytea` is not.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => is_blank(text),
        _ => false,
    }
}

/// Java trims characters up to U+0020.
fn is_blank(text: &[u8]) -> bool {
    text.iter().all(|byte| *byte <= b' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::connect::ConverterChoice;
    use crate::convert::Side;

    #[test]
    fn the_memory_of_schemas_is_bounded_by_what_they_take() {
        let json = Converter::new(&ConverterChoice::plain("JsonConverter"), Side::Value).unwrap();
        let prepared = |fields: usize| {
            let field =
                |at| Field { name: format!("column{at}").into(), schema: Schema::of(SchemaType::String).into() };
            let schema = Schema::of(SchemaType::Struct((0..fields).map(field).collect()));
            json.prepare(Some(&schema.into())).unwrap()
        };
        let mut memory = Memory::default();
        let wide = prepared(1000);
        for number in 0..1000_u32 {
            memory.learn((Box::from(number.to_be_bytes()), None), 1000, &wide);
            assert!(memory.bytes <= Memory::MAX_BYTES && memory.schemas.len() < 500, "{number}");
            assert!(memory.schemas.contains_key(&(Box::from(number.to_be_bytes()), None)), "{number}");
        }
        let kept = memory.schemas.len();
        memory.learn((vec![b'x'; Memory::MAX_BYTES_OF_ONE].into(), None), 1, &prepared(1));
        assert_eq!(memory.schemas.len(), kept, "a route of a megabyte is not kept");
    }
}
