//! Values, as Java objects hold them in Connect.

use bytes::Bytes;
use num_bigint::BigInt;

/// A value. What the integer types, the logical types and the names of fields are is told by its schema.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// Nothing.
    Null,
    /// `boolean`
    Boolean(bool),
    /// `int8`, `int16`, `int32` or `int64`, and Connect's own date, time and timestamp, which Java holds as a `Date`.
    Integer(i64),
    /// `float`
    Float32(f32),
    /// `double`
    Float64(f64),
    /// `string`: UTF-8, most often a slice of the frame that brought it.
    String(Bytes),
    /// `bytes`
    Bytes(Bytes),
    /// `bytes` of the logical type `Decimal`.
    Decimal(Decimal),
    /// `array`
    Array(Vec<Value>),
    /// `map`, in the order in which Java's map gives its entries.
    Map(Vec<(Value, Value)>),
    /// `struct`: a value for each field of the schema, in its order.
    Struct(Vec<Value>),
    /// A JSON document that has no schema, compact and with its numbers as they were written. Debezium never makes one: it stands
    /// where its task would have died of an inconsistent document.
    Json(Bytes),
}

/// A decimal number, as `java.math.BigDecimal` has it: `unscaled × 10^-scale`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decimal {
    /// The digits.
    pub unscaled: BigInt,
    /// How many of them stand after the point; negative where zeros follow.
    pub scale: i32,
}
