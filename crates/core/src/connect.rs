//! Kafka Connect's data model: what a column's value is between the text that PostgreSQL sent and the bytes of a key, a value or
//! a header.
//!
//! Why it exists: Debezium gives every column a schema and a value of this model, and Connect's converters make bytes of the two.
//! Whoever wants the same bytes has to know the same model: `int32` and `int64` are written alike but named differently where
//! schemas are published, a `Decimal` is bytes to one converter and digits to another, and a column's DEFAULT is part of its
//! schema and takes the place of NULL.
//!
//! What it refuses to do: read text (that is for [`column`](crate::column)) or write bytes (that is for
//! [`convert`](crate::convert)).
//!
//! Rows whose key, value and headers are text, as most are, never come here: the binding of their table knows that text passes
//! as it is.

mod options;
mod schema;
mod value;

pub use options::{
    BinaryHandling, ConverterChoice, DecimalHandling, HstoreHandling, IntervalHandling, Options, SchemaNameAdjustment,
    TimePrecision,
};
pub use schema::{Field, Schema, SchemaType, logical};
pub use value::{Decimal, Value};
