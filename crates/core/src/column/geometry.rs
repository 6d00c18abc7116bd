//! PostgreSQL's `point`, and PostGIS's `geometry` and `geography`, whose text is an EWKB in hexadecimal digits.

use bytes::{BufMut as _, Bytes, BytesMut};

use crate::connect::{Field, Schema, SchemaType, Value, logical};
use crate::java_text::double_text;
use crate::value::ValueError;

use super::binary::from_hex;

pub(super) fn point_schema() -> Schema {
    let fields = vec![
        field("x", Schema::of(SchemaType::Float64)),
        field("y", Schema::of(SchemaType::Float64)),
        field("wkb", Schema::of(SchemaType::Bytes).optional()),
        field("srid", Schema::of(SchemaType::Int32).optional()),
    ];
    Schema::of(SchemaType::Struct(fields)).named(logical::POINT, 1).documented("Geometry (POINT)")
}

/// A geometry may be null even where its column may not.
pub(super) fn geometry_schema() -> Schema {
    ewkb_schema().named(logical::GEOMETRY, 1).documented("Geometry").optional()
}

pub(super) fn geography_schema() -> Schema {
    ewkb_schema().named(logical::GEOGRAPHY, 1).documented("Geography")
}

fn ewkb_schema() -> Schema {
    let srid = Schema::of(SchemaType::Int32).optional();
    Schema::of(SchemaType::Struct(vec![field("wkb", Schema::of(SchemaType::Bytes)), field("srid", srid)]))
}

fn field(name: &str, schema: Schema) -> Field {
    Field { name: name.into(), schema: schema.into() }
}

/// A `point`: `(1.5,2)`.
pub(super) fn point(text: &[u8]) -> Result<Value, ValueError> {
    let (x, y) = coordinates(text).ok_or(ValueError::Malformed { expected: "a point", offset: 0 })?;
    Ok(Value::Struct(vec![Value::Float64(x), Value::Float64(y), Value::Bytes(wkb_point(x, y)), Value::Null]))
}

fn coordinates(text: &[u8]) -> Option<(f64, f64)> {
    let text = std::str::from_utf8(text).ok()?;
    let (x, y) = text.strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
    Some((x.parse().ok()?, y.parse().ok()?))
}

fn wkb_point(x: f64, y: f64) -> Bytes {
    const LITTLE_ENDIAN: u8 = 1;
    const POINT: u32 = 1;
    let mut wkb = BytesMut::with_capacity(21);
    wkb.put_u8(LITTLE_ENDIAN);
    wkb.put_u32_le(POINT);
    wkb.put_f64_le(x);
    wkb.put_f64_le(y);
    wkb.freeze()
}

/// A `geometry` or a `geography`; null where the text is neither, as Debezium publishes it with a warning.
pub(super) fn ewkb(text: &[u8]) -> Value {
    let Ok(ewkb) = from_hex(text) else { return Value::Null };
    match srid(&ewkb) {
        Some(srid) => Value::Struct(vec![Value::Bytes(Bytes::from(ewkb)), srid]),
        None => Value::Null,
    }
}

/// What stands after the type, where the type says that it stands there.
fn srid(ewkb: &[u8]) -> Option<Value> {
    const HAS_SRID: u32 = 0x2000_0000;
    let (order, rest) = ewkb.split_first()?;
    let (kind, rest) = rest.split_first_chunk::<4>()?;
    let number = |bytes: [u8; 4]| if *order == 0 { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) };
    let first = *rest.first_chunk::<4>()?;
    let srid = i32::from_ne_bytes(number(first).to_ne_bytes());
    Some(if number(*kind) & HAS_SRID == 0 { Value::Null } else { Value::Integer(i64::from(srid)) })
}

/// The text of a shape (`box`, `path`, …), with its numbers as Java writes them.
pub(super) fn java_text(text: &Bytes) -> Bytes {
    let Ok(text) = std::str::from_utf8(text) else { return text.clone() };
    let mut out = Vec::with_capacity(text.len() + 8);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let is_in_number = |letter: char| !matches!(letter, '(' | ')' | '[' | ']' | '{' | '}' | '<' | '>' | ',');
        let end = rest.find(|letter| !is_in_number(letter)).unwrap_or(rest.len());
        let (number, behind) = rest.split_at_checked(end.max(first.len_utf8())).unwrap_or((rest, ""));
        match number.parse::<f64>() {
            Ok(number) => double_text(&mut out, number),
            Err(_) => out.extend_from_slice(number.as_bytes()),
        }
        rest = behind;
    }
    Bytes::from(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_numbers_of_a_shape_are_javas() {
        let cases = [("((5e-324,1e+15),(-0,0.5))", "((4.9E-324,1.0E15),(-0.0,0.5))"), ("<(1,2),x>", "<(1.0,2.0),x>")];
        for (text, expected) in cases {
            assert_eq!(java_text(&Bytes::from_static(text.as_bytes())), expected);
        }
    }
}
