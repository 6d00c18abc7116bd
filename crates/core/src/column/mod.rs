//! From the text of a column to a value of Connect's data model, as Debezium's PostgreSQL connector reads it.
//!
//! Why it exists: what a converter writes depends on the schema of a value, and the schema on the column's type, its modifier, what
//! the catalogue tells, and the connector's options. All of that is settled once, when the shape of a table is known; what is
//! left for each row is one match and one reader.
//!
//! What Debezium publishes is published, byte for byte, also where it is odd: overflows, dates of arrays in the Julian calendar,
//! null for what its converters cannot convert (`NaN` as a decimal, a multidimensional array of integers, every `name`), for it only
//! warns of those; no elements of `int2vector`.
//! Where it cannot publish, the rule is to publish what leaves no doubt and to refuse the rest:
//!
//! | type or value | Debezium | here |
//! |---|---|---|
//! | composite types, ranges of one's own, multiranges, `tsquery`, `pg_lsn`, `box`, domains in arrays, … | leaves the column out | the text that PostgreSQL writes, a string without a name; with `include.unknown.datatypes` the bytes that Debezium makes of it |
//! | arrays of `money`, `name`, `interval`, `varbit`, `xml`, `point` | leaves the column out, in either case | the text that PostgreSQL writes |
//! | `name` that is NOT NULL | dies (it publishes null for every `name`, and so do we where there is a null) | the text |
//! | a domain over an enum | does not start | as the enum |
//! | a multidimensional array of texts | the names of Java objects | the literals of the inner arrays |
//! | `timetz` with seconds in its offset, an `interval` of more hours than 32 bits hold | dies | by the rule of the others |
//! | null for what cannot be converted, where the column is NOT NULL without a default | dies | refused: [`ValueError::Unrepresentable`] |
//!
//! What it refuses to do: guess. A text that PostgreSQL does not write under the settings of the replication session is
//! [`ValueError::Malformed`]. Those settings are `DateStyle=ISO`, `IntervalStyle=postgres`, `TimeZone=UTC` (any offset is reckoned in;
//! only `tstzrange` shows it), `extra_float_digits=1` (the shortest digits that tell the number), `lc_monetary=C`; `bytea_output` may
//! be either.
//!
//! # Sources
//!
//! Debezium 3.6.1: `PostgresValueConverter`, `JdbcValueConverters`, `TypeRegistry`, `ReplicationMessageColumnValueResolver`,
//! `TableSchemaBuilder`, `PostgresDefaultValueConverter`; pgjdbc 42.7.11: `ArrayDecoding`, `TypeInfoCache`, `TimestampUtils`,
//! `PGInterval`, `HStoreConverter`. What their classes make of the values of some two hundred columns stands in `recorded.txt`, and
//! the tests compare with it.

mod array;
mod binary;
mod bits;
mod default;
mod geometry;
mod hash_order;
mod hstore;
mod interval;
mod numeric;
mod reader;
mod resolve;
mod temporal;
mod vector;

use std::sync::Arc;

use bytes::Bytes;

use crate::connect::{Options, Schema, SchemaType, Value};
use crate::description::{Description, TypeKind};
use crate::pgoutput::Column;
use crate::value::ValueError;

use reader::Reader;

/// The schema of a column, and how its text becomes a value.
#[derive(Debug, Clone)]
pub struct ColumnType {
    schema: Arc<Schema>,
    reader: Reader,
}

/// What the text of a column is to those who would write it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextForm {
    /// The value is a string, and the text is that string.
    Verbatim,
    /// The value is an integer, and the text is its digits.
    Digits,
    /// The value has to be read.
    Other,
}

impl ColumnType {
    /// The type of a column of a relation.
    #[must_use]
    pub fn new(column: &Column<'_>, description: &Description, options: &Options) -> Self {
        let described = description.column(column.name);
        let domain = description.type_of(column.type_id).map(|described| &described.kind);
        let is_required = described.is_some_and(|described| described.not_null)
            || matches!(domain, Some(TypeKind::Domain { not_null: true, .. }));
        let Some((schema, reader)) = resolve::column_type(column, description, options) else {
            let schema = Schema { is_optional: !is_required, ..Schema::of(SchemaType::String) };
            return Self { schema: Arc::new(schema), reader: Reader::Text };
        };
        let default = described.and_then(|described| described.default.as_deref()).and_then(|expression| {
            default::value(expression, &reader, column.type_id, description.type_of(column.type_id))
        });
        let is_optional = schema.is_optional || !is_required;
        let reader = match reader {
            Reader::DroppedText if !is_optional => Reader::Text,
            reader => reader,
        };
        Self { schema: Arc::new(Schema { is_optional, default, ..schema }), reader }
    }

    /// Its schema, with the column's DEFAULT and whether it is optional.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// What the text is to those who would write it again.
    #[must_use]
    pub fn text_form(&self) -> TextForm {
        match self.reader {
            Reader::Text => TextForm::Verbatim,
            Reader::Integer => TextForm::Digits,
            _ => TextForm::Other,
        }
    }

    /// Reads the text of a value that is not NULL. It may be null all the same, where Debezium publishes null with a warning:
    /// then it is to be treated as a NULL would be, with the schema's default in its place.
    ///
    /// # Errors
    /// The text is not one that PostgreSQL writes for such a value, or the value is one that the schema cannot hold, and the
    /// schema has no null in its place.
    pub fn read(&self, text: &Bytes) -> Result<Value, ValueError> {
        let value = match self.reader.read(text) {
            Err(unrepresentable @ ValueError::Unrepresentable { .. }) => Err(unrepresentable),
            Ok(Value::Null) => Err(ValueError::Unrepresentable { expected: "one that Debezium publishes as null" }),
            read => return read,
        };
        if self.schema.is_optional || self.schema.default.is_some() { Ok(Value::Null) } else { value }
    }
}

#[cfg(test)]
mod tests;
