//! pgvector's `vector`, `halfvec` and `sparsevec`.
//!
//! What Debezium cannot read (it expects a number where `[]` has none, and indexes of a sparse vector within 16 bits) it publishes as
//! null, with a warning.

use std::str::FromStr;

use crate::connect::{Field, Schema, SchemaType, Value, logical};
use crate::value::ValueError;

use super::hash_order::{Key, iteration_order};

const UNREADABLE: ValueError = ValueError::Unrepresentable { expected: "a vector that Debezium cannot read" };

pub(super) fn double_schema() -> Schema {
    Schema::of(SchemaType::Array(Schema::of(SchemaType::Float64).into())).named(logical::DOUBLE_VECTOR, 1)
}

pub(super) fn float_schema() -> Schema {
    Schema::of(SchemaType::Array(Schema::of(SchemaType::Float32).into())).named(logical::FLOAT_VECTOR, 1)
}

pub(super) fn sparse_schema() -> Schema {
    let map = SchemaType::Map(Schema::of(SchemaType::Int16).into(), Schema::of(SchemaType::Float64).into());
    let field = |name: &str, kind| Field { name: name.into(), schema: Schema::of(kind).into() };
    let fields = vec![field("dimensions", SchemaType::Int16), field("vector", map)];
    Schema::of(SchemaType::Struct(fields)).named(logical::SPARSE_DOUBLE_VECTOR, 1).documented("Sparse double vector")
}

/// A `vector`: `[1,2.5,-3]`.
pub(super) fn doubles(text: &[u8]) -> Result<Value, ValueError> {
    numbers(text, Value::Float64)
}

/// A `halfvec`: `[1,2.5,-3]`.
pub(super) fn floats(text: &[u8]) -> Result<Value, ValueError> {
    numbers(text, Value::Float32)
}

fn numbers<T: FromStr>(text: &[u8], value: impl Fn(T) -> Value) -> Result<Value, ValueError> {
    let inner = std::str::from_utf8(text).ok().and_then(|text| text.strip_prefix('[')?.strip_suffix(']'));
    let numbers = inner.ok_or(UNREADABLE)?.split(',').map(|number| number.parse().map(&value));
    numbers.collect::<Result<_, _>>().map(Value::Array).map_err(|_| UNREADABLE)
}

/// A `sparsevec`: `{1:1.5,3:2}/5`.
pub(super) fn sparse(text: &[u8]) -> Result<Value, ValueError> {
    std::str::from_utf8(text).ok().and_then(read_sparse).ok_or(UNREADABLE)
}

fn read_sparse(text: &str) -> Option<Value> {
    let (elements, dimensions) = text.strip_prefix('{')?.split_once("}/")?;
    let dimensions: i16 = dimensions.parse().ok()?;
    let elements = elements.split(',').filter(|element| !element.is_empty()).map(|element| {
        let (index, number) = element.split_once(':')?;
        Some((index.parse::<i16>().ok()?, number.parse::<f64>().ok()?))
    });
    let elements = elements.collect::<Option<Vec<_>>>()?;
    let keys: Vec<Key> = elements.iter().map(|(index, _)| Key::of_number(*index)).collect();
    let entry = |at: usize| {
        elements.get(at).map(|(index, number)| (Value::Integer(i64::from(*index)), Value::Float64(*number)))
    };
    let map = iteration_order(&keys, keys.len()).into_iter().filter_map(entry).collect();
    Some(Value::Struct(vec![Value::Integer(i64::from(dimensions)), Value::Map(map)]))
}
