//! The one match of each row: what is to be done with the text of a column.

use bytes::Bytes;

use crate::connect::{BinaryHandling, HstoreHandling, IntervalHandling, TimePrecision, Value};
use crate::value::{ValueError, parse_bool, parse_i64};

use super::array::{self, Element};
use super::numeric::{Money, Numeric};
use super::temporal::{self, Unit};
use super::{binary, bits, geometry, hstore, interval, vector};

/// How a text is read.
#[derive(Debug, Clone)]
pub(super) enum Reader {
    /// As the string that it is.
    Text,
    /// `smallint`, `integer`, `bigint` and `oid`.
    Integer,
    Boolean,
    Float4,
    Float8,
    Numeric(Numeric),
    Money(Money),
    /// `bit` and `varbit`, by the number of bits.
    Bits(i32),
    Bytea(BinaryHandling),
    /// The text of a type that Debezium does not know, as bytes.
    Opaque(BinaryHandling),
    /// The same of a shape whose numbers Java writes in its own way.
    OpaqueShape(BinaryHandling),
    Date(TimePrecision),
    Time(Unit),
    Timetz,
    Timestamp(Unit),
    /// By the number of digits after the second.
    Timestamptz(i32),
    Interval(IntervalHandling),
    Hstore(HstoreHandling),
    Point,
    /// `geometry` and `geography`.
    Ewkb,
    DoubleVector,
    FloatVector,
    SparseVector,
    Array(Box<ArrayReader>),
    /// Whatever it is, Debezium publishes null.
    Nothing,
    /// A text for which Debezium publishes null; where there is no null it is published after all.
    DroppedText,
    /// Whatever it is, Debezium publishes an array of nothing.
    NoElements,
}

/// How an array is read.
#[derive(Debug, Clone)]
pub(super) struct ArrayReader {
    pub(super) element: Reader,
    /// Whether an element may be null.
    pub(super) has_nulls: bool,
    /// Whether an array in the array is published as its literal; else it is null.
    pub(super) has_literals: bool,
    pub(super) delimiter: u8,
}

impl Reader {
    pub(super) fn read(&self, text: &Bytes) -> Result<Value, ValueError> {
        match self {
            Self::Text => Ok(Value::String(text.clone())),
            Self::Integer => parse_i64(text).map(Value::Integer),
            Self::Boolean => parse_bool(text).map(Value::Boolean),
            Self::Float4 => float(text).map(Value::Float32),
            Self::Float8 => float(text).map(Value::Float64),
            Self::Numeric(numeric) => numeric.read(text),
            Self::Money(money) => money.read(text),
            Self::Bits(length) => bits::read(*length, text),
            Self::Bytea(mode) => binary::read(*mode, text),
            Self::Opaque(mode) => Ok(binary::value(*mode, text.clone())),
            Self::OpaqueShape(mode) => Ok(binary::value(*mode, geometry::java_text(text))),
            Self::Date(mode) => temporal::date(*mode, text),
            Self::Time(unit) => temporal::time(*unit, text),
            Self::Timetz => temporal::timetz(text),
            Self::Timestamp(unit) => temporal::timestamp(*unit, text),
            Self::Timestamptz(digits) => temporal::timestamptz(*digits, text),
            Self::Interval(mode) => interval::read(*mode, text),
            Self::Hstore(mode) => hstore::read(*mode, text),
            Self::Point => geometry::point(text),
            Self::Ewkb => Ok(geometry::ewkb(text)),
            Self::DoubleVector => vector::doubles(text),
            Self::FloatVector => vector::floats(text),
            Self::SparseVector => vector::sparse(text),
            Self::Array(array) => array.read(text),
            Self::Nothing | Self::DroppedText => Ok(Value::Null),
            Self::NoElements => Ok(Value::Array(Vec::new())),
        }
    }

    /// Some types are read in another way in an array, where pgjdbc is between.
    fn read_element(&self, text: &Bytes) -> Result<Value, ValueError> {
        match self {
            Self::Numeric(numeric) => numeric.read_element(text),
            Self::Date(mode) => temporal::date_element(*mode, text),
            Self::Time(unit) => temporal::time_element(*unit, text),
            Self::Timetz => temporal::timetz_element(text),
            Self::Timestamp(unit) => temporal::timestamp_element(*unit, text),
            Self::Timestamptz(digits) => temporal::timestamptz_element(*digits, text),
            _ => self.read(text),
        }
    }
}

impl ArrayReader {
    fn read(&self, text: &Bytes) -> Result<Value, ValueError> {
        let elements = array::elements(text, self.delimiter)?;
        elements.into_iter().map(|element| self.element(element)).collect::<Result<_, _>>().map(Value::Array)
    }

    fn element(&self, element: Element) -> Result<Value, ValueError> {
        let value = match element {
            Element::Null => Value::Null,
            Element::Text(text) => self.element.read_element(&text)?,
            Element::Array(literal) if self.has_literals => Value::String(literal),
            Element::Array(_) => Value::Null,
        };
        match value {
            Value::Null if !self.has_nulls => Err(ValueError::Unrepresentable { expected: "an array with a null" }),
            value => Ok(value),
        }
    }
}

/// The server's own form (`float8out`): `NaN`, `Infinity` and numbers that Rust reads alike.
fn float<T: std::str::FromStr>(text: &[u8]) -> Result<T, ValueError> {
    let number = std::str::from_utf8(text).ok().and_then(|text| text.parse().ok());
    number.ok_or(ValueError::Malformed { expected: "a floating-point number", offset: 0 })
}
