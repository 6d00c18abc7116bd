//! The default of a schema, from the expression of a column's DEFAULT.
//!
//! Debezium evaluates nothing: it takes the first quoted literal out of the expression, or the whole expression where nothing is
//! quoted, and a placeholder (zero, the empty text, the epoch) where the expression begins like the call of a function. That goes
//! wrong in ways that consumers may know, and here alike: `'it''s'` becomes `it`, `(now() AT TIME ZONE 'utc')::text` becomes `utc`.
//! What cannot be read has no default, and neither have types that are not named below, structs, and domains.
//!
//! Source: `PostgresDefaultValueConverter`, and pgjdbc's `TimestampUtils` for the dates in it.

use bytes::Bytes;

use crate::connect::{Decimal, Value};
use crate::description::{TypeDescription, TypeKind};
use crate::value::{Civil, civil_of_any_form, oid, parse_time};

use super::bits;
use super::interval::Interval;
use super::numeric::Digits;
use super::reader::Reader;
use super::temporal::{self, Moment};

/// What stands in an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found<'a> {
    /// The call of a function, whose value is not known.
    Call,
    Literal(&'a str),
}

/// The default, if Debezium finds one. `described` is the column's type.
pub(super) fn value(
    expression: &str,
    reader: &Reader,
    type_id: u32,
    described: Option<&TypeDescription>,
) -> Option<Value> {
    if let Some(TypeDescription { name, kind: TypeKind::Enum { .. }, .. }) = described {
        return label(name, expression).map(text);
    }
    let found = found(if is_trimmed(type_id) { trimmed(expression) } else { expression })?;
    let default = match (type_id, reader) {
        (oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::XML, _) => text(found.or("")),
        (oid::JSON | oid::JSONB, _) => text(found.or("{}")),
        (oid::UUID, _) => text(&uuid(found.or("0-0-0-0-0"))?),
        (oid::BOOL, _) => Value::Boolean(found.or("false").eq_ignore_ascii_case("true")),
        (oid::INT2, _) => Value::Integer(found.or("0").parse::<i16>().ok()?.into()),
        (oid::INT4, _) => Value::Integer(found.or("0").parse::<i32>().ok()?.into()),
        (oid::INT8, _) => Value::Integer(found.or("0").parse().ok()?),
        (oid::FLOAT4, _) => Value::Float32(number(found.or("0.0"))?.parse().ok()?),
        (oid::FLOAT8, _) => Value::Float64(number(found.or("0.0"))?.parse().ok()?),
        (oid::NUMERIC, Reader::Numeric(numeric)) => numeric.value(decimal(found.or("0.0"))?).ok()?,
        (oid::BIT, Reader::Bits(length)) => bit_string(*length, found.or("00"))?,
        (oid::VARBIT, Reader::Bits(length)) => bits_of(*length, found.or("0"))?,
        (oid::DATE, Reader::Date(mode)) => temporal::date_value(*mode, moment(found)?.days),
        (oid::TIME, Reader::Time(unit)) => temporal::time_value(*unit, time(found)?),
        (oid::TIMESTAMP, Reader::Timestamp(unit)) => moment(found)?.value(*unit),
        (oid::TIMESTAMPTZ, Reader::Timestamptz(digits)) => zoned(moment(found)?, *digits)?,
        (oid::INTERVAL, Reader::Interval(mode)) => interval(found)?.value(*mode),
        _ => return None,
    };
    match default {
        // Connect cannot compare structs (KAFKA-12694), so Debezium leaves them out.
        Value::Struct(_) | Value::Null => None,
        default => Some(default),
    }
}

impl<'a> Found<'a> {
    fn or(self, placeholder: &'a str) -> &'a str {
        match self {
            Self::Call => placeholder,
            Self::Literal(literal) => literal,
        }
    }
}

fn text(literal: &str) -> Value {
    Value::String(Bytes::copy_from_slice(literal.as_bytes()))
}

/// `TRIM_DATA_TYPES`
const fn is_trimmed(type_id: u32) -> bool {
    !matches!(type_id, oid::TEXT | oid::VARCHAR | oid::BPCHAR | oid::XML | oid::JSON | oid::JSONB)
}

/// As `String.trim` does.
fn trimmed(text: &str) -> &str {
    text.trim_matches(|letter| letter <= ' ')
}

fn found(expression: &str) -> Option<Found<'_>> {
    if is_call(expression) || is_current_time(expression) {
        return Some(Found::Call);
    }
    if expression.contains('\'') {
        return first_literal(expression).map(Found::Literal);
    }
    (!expression.starts_with("NULL::")).then_some(Found::Literal(expression))
}

/// `^[(]?[A-Za-z0-9_.]+\((?:.+(?:, ?.+)*)?\)`
fn is_call(expression: &str) -> bool {
    let name_and_rest = expression.strip_prefix('(').unwrap_or(expression);
    let name = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '.');
    let rest = name_and_rest.trim_start_matches(name);
    rest.len() < name_and_rest.len() && rest.strip_prefix('(').is_some_and(|rest| first_line(rest).contains(')'))
}

fn is_current_time(expression: &str) -> bool {
    ["current_timestamp", "current_time", "current_date", "localtime", "localtimestamp"]
        .iter()
        .any(|word| expression.eq_ignore_ascii_case(word))
}

/// `'(.*?)'`
fn first_literal(expression: &str) -> Option<&str> {
    let behind_quotes = expression.match_indices('\'').filter_map(|(at, quote)| expression.get(at + quote.len()..));
    behind_quotes.filter_map(|rest| first_line(rest).split_once('\'')).map(|(literal, _)| literal).next()
}

/// What a dot of Java's patterns does not pass.
fn first_line(text: &str) -> &str {
    text.split(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}']).next().unwrap_or(text)
}

/// The label of an enum: what stands in quotes before a cast to the enum's type, and the quotes inside of it as they are.
fn label<'a>(type_name: &str, expression: &'a str) -> Option<&'a str> {
    let (quoted, cast) = expression.rsplit_once("::")?;
    let (own_schema, own_name) = type_parts(type_name)?;
    let (schema, name) = type_parts(cast)?;
    let is_own_type = own_name == name && (own_schema == schema || own_schema.is_none() || schema.is_none());
    if is_own_type { quoted.strip_prefix('\'')?.strip_suffix('\'') } else { None }
}

/// The schema and the name of a type, without the quotes.
fn type_parts(text: &str) -> Option<(Option<String>, String)> {
    let mut parts = vec![String::new()];
    let mut is_quoted = false;
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match (letter, parts.last_mut()) {
            ('"', Some(part)) if is_quoted && letters.next_if_eq(&'"').is_some() => part.push('"'),
            ('"', _) => is_quoted = !is_quoted,
            ('.', _) if !is_quoted => parts.push(String::new()),
            (letter, Some(part)) => part.push(letter),
            (_, None) => {}
        }
    }
    let mut parts = parts.into_iter().filter(|part| !part.is_empty());
    let first = parts.next()?;
    Some(parts.next().map_or((None, first.clone()), |second| (Some(first), second)))
}

/// As `UUID.fromString` reads it and `toString` writes it: five hexadecimal numbers, each cut to its width.
fn uuid(text: &str) -> Option<String> {
    let numbers = text.split('-').map(|part| u64::from_str_radix(part, 16).ok()).collect::<Option<Vec<_>>>()?;
    let [a, b, c, d, e] = numbers.as_slice() else { return None };
    let cut = |number: &u64, digits: u32| number & ((1 << (4 * digits)) - 1);
    Some(format!("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", cut(a, 8), cut(b, 4), cut(c, 4), cut(d, 4), cut(e, 12)))
}

/// A floating-point number as Java writes it and the server does.
fn number(literal: &str) -> Option<&str> {
    let is_word = matches!(literal.trim_start_matches(['+', '-']), "NaN" | "Infinity");
    let is_number = literal.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte));
    (is_word || is_number).then_some(literal)
}

/// With the exponent that a literal of a floating-point type may have.
fn decimal(literal: &str) -> Option<Decimal> {
    const LARGEST_EXPONENT: i32 = 1000;
    let (digits, exponent) = literal.split_once(['e', 'E']).unwrap_or((literal, "0"));
    let exponent: i32 = exponent.parse().ok().filter(|exponent: &i32| exponent.abs() <= LARGEST_EXPONENT)?;
    let number = Digits::parse(digits.as_bytes(), "a numeric").and_then(|digits| digits.decimal("a numeric")).ok()?;
    Some(Decimal { scale: number.scale - exponent, ..number })
}

/// One bit counts as a boolean, also where the column has more of them.
fn bit_string(length: i32, literal: &str) -> Option<Value> {
    match literal.as_bytes() {
        [bit] if length > 1 => Some(Value::Bytes(Bytes::copy_from_slice(&[u8::from(*bit == b'1')]))),
        [bit] => Some(Value::Boolean(*bit == b'1')),
        _ => bits_of(length, literal),
    }
}

/// Where a column has several bits, whatever is not a one counts as a zero: `(5)::bit(3)` too.
fn bits_of(length: i32, literal: &str) -> Option<Value> {
    let is_one = |letter| if letter == '1' { b'1' } else { b'0' };
    let bits: Vec<u8> = if length > 1 { literal.chars().map(is_one).collect() } else { literal.bytes().collect() };
    bits::read(length, &bits).ok()
}

fn moment(found: Found<'_>) -> Option<Moment> {
    let Found::Literal(literal) = found else { return Some(Moment { days: 0, nanos: 0 }) };
    Some(match civil_of_any_form(literal.as_bytes()).ok()? {
        Civil::NegativeInfinity => Moment::MIN,
        Civil::Infinity => Moment::MAX,
        Civil::At(local) => Moment::of_local(&local),
    })
}

/// The infinities are no points in time of a zone.
fn zoned(moment: Moment, digits: i32) -> Option<Value> {
    (moment != Moment::MIN && moment != Moment::MAX).then(|| moment.zoned(digits))
}

/// Nanoseconds of the day, of which 24:00 is the last (`LocalTime.MAX`).
fn time(found: Found<'_>) -> Option<i64> {
    const LAST: i64 = 86_399_999_999_999;
    let Found::Literal(literal) = found else { return Some(0) };
    parse_time(literal.as_bytes()).ok().map(|micros| (micros * 1000).min(LAST))
}

fn interval(found: Found<'_>) -> Option<Interval> {
    let Found::Literal(literal) = found else { return Some(Interval::default()) };
    Interval::parse(literal.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_literal_is_the_first_that_ends_on_its_line() {
        let cases = [
            ("5", Some(Found::Literal("5"))),
            ("'a'::text", Some(Found::Literal("a"))),
            ("'it''s'::text", Some(Found::Literal("it"))),
            ("('a'::text || 'b'::text)", Some(Found::Literal("a"))),
            ("'a\nb'::text", None),
            ("'a\nb'::text || 'c'::text", Some(Found::Literal("::text || "))),
            ("NULL::numeric", None),
            ("nextval('s'::regclass)", Some(Found::Call)),
            ("(now() AT TIME ZONE 'utc'::text)", Some(Found::Call)),
            ("((now() AT TIME ZONE 'utc'::text))::text", Some(Found::Literal("utc"))),
            ("CURRENT_TIMESTAMP", Some(Found::Call)),
            ("CURRENT_TIMESTAMP(3)", Some(Found::Call)),
            ("CURRENT_USER", Some(Found::Literal("CURRENT_USER"))),
            ("s.f(\n1)", Some(Found::Literal("s.f(\n1)"))),
            ("\"S\".f(1)", Some(Found::Literal("\"S\".f(1)"))),
        ];
        for (expression, expected) in cases {
            assert_eq!(found(expression), expected, "{expression}");
        }
    }

    #[test]
    fn a_label_needs_a_cast_to_its_own_type() {
        let cases = [
            ("mood", "'ok'::mood", Some("ok")),
            ("mood", "'ok'::c.mood", Some("ok")),
            ("Mood X", "'p'::\"Sch 2\".\"Mood X\"", Some("p")),
            ("Q\"x", "'p'::\"Q\"\"x\"", None),
            ("mood", "'it''s'::mood", Some("it''s")),
            ("mood", "('ok'::text)::mood", None),
            ("mood", "'ok'::text", None),
            ("mood", "'ok'", None),
            ("mood", "f()", None),
        ];
        for (name, expression, expected) in cases {
            assert_eq!(label(name, expression), expected, "{expression}");
        }
    }
}
