//! `numeric` and `money`, in each `decimal.handling.mode`.
//!
//! A numeric with a declared scale is a decimal of that scale; without one, each value brings its own. What is not a number has no
//! decimal: Debezium warns and publishes null, except where the mode has a word for it (`NAN`, `POSITIVE_INFINITY`,
//! `NEGATIVE_INFINITY`, the names of a Java enum). PostgreSQL 15's negative scales appear as Debezium reads them off the modifier,
//! eleven bits without sign: `numeric(5,-2)` is a decimal with 2046 digits after the point.
//!
//! The text of a `money` is that of `lc_monetary=C`, which the replication session sets: a minus, a dollar sign, commas, two
//! digits after the point. A database whose money has another number of digits is not read right, here as in Debezium, whose
//! session leaves the setting to the database and then takes the first letter off and the commas out.

use bytes::Bytes;
use num_bigint::BigInt;

use crate::connect::{Decimal, DecimalHandling, Field, Schema, SchemaType, Value, logical};
use crate::java_text::{plain_text, unscaled_bytes};
use crate::value::ValueError;

const EXPECTED: &str = "a numeric";
const NO_NUMBER: ValueError = ValueError::Unrepresentable { expected: "a numeric that is not a number" };

/// What pgjdbc tells of a numeric without modifier instead of a precision.
const UNBOUNDED: i32 = 131_089;

/// How a column's numerics are published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Numeric {
    pub(super) mode: DecimalHandling,
    precision: i32,
    scale: i32,
}

impl Numeric {
    /// Of a column with this modifier.
    pub(super) const fn new(mode: DecimalHandling, type_modifier: i32) -> Self {
        if type_modifier == -1 {
            return Self { mode, precision: UNBOUNDED, scale: 0 };
        }
        let modifier = type_modifier.wrapping_sub(4);
        Self { mode, precision: modifier >> 16, scale: modifier & 0xFFFF }
    }

    const fn is_variable(self) -> bool {
        (self.precision == 0 || self.precision == UNBOUNDED) && self.scale == 0
    }

    pub(super) fn schema(self) -> Schema {
        match self.mode {
            DecimalHandling::Double => Schema::of(SchemaType::Float64),
            DecimalHandling::String => Schema::of(SchemaType::String),
            DecimalHandling::Precise if self.is_variable() => variable_scale_schema(),
            DecimalHandling::Precise => {
                decimal_schema(self.scale).with_parameter("connect.decimal.precision", self.precision.to_string())
            }
        }
    }

    /// A value of a column.
    pub(super) fn read(self, text: &Bytes) -> Result<Value, ValueError> {
        let words = match text.as_ref() {
            b"NaN" => ("NAN", f64::NAN),
            b"Infinity" => ("POSITIVE_INFINITY", f64::INFINITY),
            b"-Infinity" => ("NEGATIVE_INFINITY", f64::NEG_INFINITY),
            _ => return self.read_number(text),
        };
        match self.mode {
            DecimalHandling::Precise => Err(NO_NUMBER),
            DecimalHandling::String => Ok(Value::String(Bytes::from_static(words.0.as_bytes()))),
            DecimalHandling::Double => Ok(Value::Float64(words.1)),
        }
    }

    /// A value of an array, where pgjdbc knows no word for what is not a number.
    pub(super) fn read_element(self, text: &Bytes) -> Result<Value, ValueError> {
        if matches!(text.as_ref(), b"NaN" | b"Infinity" | b"-Infinity") {
            Err(NO_NUMBER)
        } else {
            self.read_number(text)
        }
    }

    fn read_number(self, text: &Bytes) -> Result<Value, ValueError> {
        let digits = Digits::parse(text, EXPECTED)?;
        let is_as_declared = self.precision == UNBOUNDED || usize::try_from(self.scale) == Ok(digits.fraction.len());
        match self.mode {
            DecimalHandling::String if is_as_declared => Ok(Value::String(text.clone())),
            // Off the text, for a number of ten thousand zeros would be divided as often.
            DecimalHandling::Precise if self.is_variable() => {
                self.value(digits.without_trailing_zeros().decimal(EXPECTED)?)
            }
            _ => self.value(digits.decimal(EXPECTED)?),
        }
    }

    /// The value of a number, which is brought to the scale that was declared.
    pub(super) fn value(self, number: Decimal) -> Result<Value, ValueError> {
        let scale = if self.precision == UNBOUNDED { number.scale.max(self.scale) } else { self.scale };
        let number =
            rescale(number, scale).ok_or(ValueError::Unrepresentable { expected: "a numeric of another scale" })?;
        Ok(match self.mode {
            DecimalHandling::Precise if self.is_variable() => variable_scale(&without_trailing_zeros(number)),
            DecimalHandling::Precise => Value::Decimal(number),
            DecimalHandling::String => Value::String(Bytes::from(plain(&number))),
            DecimalHandling::Double => Value::Float64(double(&number)),
        })
    }
}

/// How a column's money is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Money {
    pub(super) mode: DecimalHandling,
    pub(super) fraction_digits: u8,
}

impl Money {
    pub(super) fn schema(self) -> Schema {
        match self.mode {
            DecimalHandling::Double => Schema::of(SchemaType::Float64),
            DecimalHandling::String => Schema::of(SchemaType::String),
            DecimalHandling::Precise => decimal_schema(i32::from(self.fraction_digits)),
        }
    }

    pub(super) fn read(self, text: &[u8]) -> Result<Value, ValueError> {
        let number = Digits::parse(&without_currency(text), "an amount of money")?.decimal("an amount of money")?;
        Ok(match self.mode {
            DecimalHandling::Precise => Value::Decimal(round(number, i32::from(self.fraction_digits))),
            DecimalHandling::String => Value::String(Bytes::from(plain(&number))),
            DecimalHandling::Double => Value::Float64(double(&number)),
        })
    }
}

/// Without the dollar sign before the digits and the commas among them.
fn without_currency(text: &[u8]) -> Vec<u8> {
    let (sign, amount) = text.strip_prefix(b"-").map_or((&b""[..], text), |amount| (&b"-"[..], amount));
    let amount = amount.strip_prefix(b"$").unwrap_or(amount);
    sign.iter().chain(amount).copied().filter(|byte| *byte != b',').collect()
}

fn decimal_schema(scale: i32) -> Schema {
    Schema::of(SchemaType::Bytes).named(logical::DECIMAL, 1).with_parameter("scale", scale.to_string())
}

fn variable_scale_schema() -> Schema {
    let field = |name: &str, kind| Field { name: name.into(), schema: Schema::of(kind).into() };
    let fields = vec![field("scale", SchemaType::Int32), field("value", SchemaType::Bytes)];
    Schema::of(SchemaType::Struct(fields))
        .named(logical::VARIABLE_SCALE_DECIMAL, 1)
        .documented("Variable scaled decimal")
}

fn variable_scale(number: &Decimal) -> Value {
    let value = Value::Bytes(Bytes::from(unscaled_bytes(number)));
    Value::Struct(vec![Value::Integer(i64::from(number.scale)), value])
}

/// A number in the parts that its text has.
pub(super) struct Digits<'a> {
    is_negative: bool,
    whole: &'a [u8],
    fraction: &'a [u8],
}

impl<'a> Digits<'a> {
    /// Digits with at most a minus before and a point among them.
    pub(super) fn parse(text: &'a [u8], expected: &'static str) -> Result<Self, ValueError> {
        let unsigned = text.strip_prefix(b"-").unwrap_or(text);
        let count = unsigned.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (whole, rest) = unsigned.split_at_checked(count).unwrap_or_default();
        let fraction = rest.strip_prefix(b".").unwrap_or(rest);
        let odd = fraction.iter().position(|byte| !byte.is_ascii_digit());
        let left = if whole.is_empty() { unsigned.len() } else { fraction.len() - odd.unwrap_or(0) };
        if whole.is_empty() || odd.is_some() || (fraction.is_empty() && !rest.is_empty()) {
            return Err(ValueError::Malformed { expected, offset: text.len() - left });
        }
        Ok(Self { is_negative: unsigned.len() != text.len(), whole, fraction })
    }

    /// The same number, without the zeros at its end that stand after the point.
    fn without_trailing_zeros(self) -> Self {
        let zeros = self.fraction.iter().rev().take_while(|digit| **digit == b'0').count();
        Self { fraction: self.fraction.get(..self.fraction.len() - zeros).unwrap_or_default(), ..self }
    }

    /// The number with as many digits after the point as the text has.
    pub(super) fn decimal(&self, expected: &'static str) -> Result<Decimal, ValueError> {
        let scale = i32::try_from(self.fraction.len()).map_err(|_| ValueError::OutOfRange { expected })?;
        let magnitude = if self.whole.len() + self.fraction.len() <= 18 {
            let digits = self.whole.iter().chain(self.fraction);
            BigInt::from(digits.fold(0_i64, |sum, digit| sum * 10 + i64::from(digit - b'0')))
        } else {
            let digits = [self.whole, self.fraction].concat();
            BigInt::parse_bytes(&digits, 10).ok_or(ValueError::OutOfRange { expected })?
        };
        Ok(Decimal { unscaled: if self.is_negative { -magnitude } else { magnitude }, scale })
    }
}

/// The same number with another scale, if it has one.
fn rescale(number: Decimal, scale: i32) -> Option<Decimal> {
    if scale >= number.scale {
        return Some(widen(number, scale));
    }
    let divisor = power_of_ten(number.scale - scale);
    let quotient = &number.unscaled / &divisor;
    (&quotient * divisor == number.unscaled).then_some(Decimal { unscaled: quotient, scale })
}

fn widen(number: Decimal, scale: i32) -> Decimal {
    if scale == number.scale {
        return number;
    }
    Decimal { unscaled: number.unscaled * power_of_ten(scale - number.scale), scale }
}

/// The nearest number with that scale, halves away from zero (`RoundingMode.HALF_UP`).
fn round(number: Decimal, scale: i32) -> Decimal {
    if scale >= number.scale {
        return widen(number, scale);
    }
    let divisor = power_of_ten(number.scale - scale);
    let half = &divisor / 2;
    let shifted = if number.unscaled < BigInt::ZERO { number.unscaled - half } else { number.unscaled + half };
    Decimal { unscaled: shifted / divisor, scale }
}

/// `BigDecimal.stripTrailingZeros`, of a scale that is not negative and becomes none. In one division, for there may be thousands.
fn without_trailing_zeros(number: Decimal) -> Decimal {
    if number.unscaled == BigInt::ZERO {
        return Decimal { scale: 0, ..number };
    }
    let digits = number.unscaled.magnitude().to_string();
    let zeros = digits.bytes().rev().take_while(|digit| *digit == b'0').count();
    let scale = number.scale.saturating_sub(i32::try_from(zeros).unwrap_or(i32::MAX)).max(0);
    rescale(number.clone(), scale).unwrap_or(number)
}

fn power_of_ten(exponent: i32) -> BigInt {
    BigInt::from(10).pow(exponent.unsigned_abs())
}

fn plain(number: &Decimal) -> Vec<u8> {
    let mut out = Vec::new();
    plain_text(&mut out, number);
    out
}

/// The nearest double.
fn double(number: &Decimal) -> f64 {
    std::str::from_utf8(&plain(number)).ok().and_then(|digits| digits.parse().ok()).unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_numeric_is_refused_where_it_stops_making_sense() {
        let cases =
            [("", 0), ("-", 1), (".5", 0), ("1.", 2), ("1e5", 1), ("1.5e3", 3), ("--1", 1), ("1,5", 1), ("$1", 0)];
        for (text, offset) in cases {
            let refused = Digits::parse(text.as_bytes(), EXPECTED).err();
            assert_eq!(refused, Some(ValueError::Malformed { expected: EXPECTED, offset }), "{text}");
        }
    }

    #[test]
    fn zeros_after_the_last_digit_are_left_out_however_many_they_are() {
        let many = 10_000;
        let cases = [
            ("0".to_owned(), 3, "0".to_owned(), 0),
            ("1230".to_owned(), 3, "123".to_owned(), 2),
            ("1200".to_owned(), 1, "120".to_owned(), 0),
            ("-105".to_owned(), 2, "-105".to_owned(), 2),
            (format!("7{}", "0".repeat(many)), i32::try_from(many).unwrap(), "7".to_owned(), 0),
        ];
        for (unscaled, scale, kept, kept_scale) in cases {
            let number = |unscaled: &str, scale| Decimal { unscaled: unscaled.parse().unwrap(), scale };
            assert_eq!(without_trailing_zeros(number(&unscaled, scale)), number(&kept, kept_scale));
        }
    }

    #[test]
    fn halves_of_money_are_rounded_away_from_zero() {
        for (cents, rounded) in [(49, 0), (50, 1), (149, 1), (150, 2), (-49, 0), (-50, -1), (-150, -2)] {
            let number = Decimal { unscaled: BigInt::from(cents), scale: 2 };
            assert_eq!(round(number, 0), Decimal { unscaled: BigInt::from(rounded), scale: 0 }, "{cents}");
        }
    }

    proptest! {
        #[test]
        fn every_number_is_read_as_it_is_written(unscaled in any::<i128>(), scale in 0..60_i32) {
            let number = Decimal { unscaled: BigInt::from(unscaled), scale };
            let text = plain(&number);
            prop_assert_eq!(Digits::parse(&text, EXPECTED).and_then(|digits| digits.decimal(EXPECTED)), Ok(number));
        }

        #[test]
        fn zeros_at_the_end_are_taken_off_the_text_as_off_the_number(unscaled in any::<i64>(), scale in 0..30_i32, zeros in 0..30_usize) {
            let mut text = plain(&Decimal { unscaled: BigInt::from(unscaled), scale });
            if scale > 0 {
                text.extend(std::iter::repeat_n(b'0', zeros));
            }
            let digits = Digits::parse(&text, EXPECTED).unwrap();
            let number = without_trailing_zeros(digits.decimal(EXPECTED).unwrap());
            prop_assert_eq!(digits.without_trailing_zeros().decimal(EXPECTED), Ok(number));
        }

        #[test]
        fn reading_never_panics(text in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'1'), Just(b'.')], 0..40)) {
            let text = Bytes::from(text);
            for modifier in [-1, 3, 655_366, 329_730, i32::MIN, i32::MAX] {
                for mode in [DecimalHandling::Precise, DecimalHandling::String, DecimalHandling::Double] {
                    let _ = Numeric::new(mode, modifier).read(&text);
                }
            }
            let _ = Money { mode: DecimalHandling::Precise, fraction_digits: 2 }.read(&text);
        }
    }
}
