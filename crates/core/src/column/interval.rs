//! `interval`, in either `interval.handling.mode`, from the form that `IntervalStyle=postgres` has.
//!
//! pgjdbc reads years, months, days, hours and minutes as 32 bits each, and Debezium then reckons in doubles, a month for 30.4375
//! days. What is too much for 64 bits sticks at the largest number; `infinity`, which PostgreSQL 17 added, is read as nothing at
//! all, which is zero. Only where more hours are told than 32 bits hold (Debezium's task dies there) the hours count as they are:
//! the formula knows no other answer.

use crate::connect::{IntervalHandling, Schema, SchemaType, Value, logical};
use crate::value::ValueError;

use super::temporal::string;

const EXPECTED: &str = "an interval in the style postgres";

pub(super) fn schema(mode: IntervalHandling) -> Schema {
    match mode {
        IntervalHandling::Numeric => Schema::of(SchemaType::Int64).named(logical::MICRO_DURATION, 1),
        IntervalHandling::String => Schema::of(SchemaType::String).named(logical::INTERVAL, 1),
    }
}

/// An interval.
pub(super) fn read(mode: IntervalHandling, text: &[u8]) -> Result<Value, ValueError> {
    Interval::parse(text).map(|interval| interval.value(mode))
}

/// The parts of an interval, each with its own sign.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Interval {
    years: i32,
    months: i32,
    days: i32,
    hours: i64,
    minutes: i32,
    /// With the seconds.
    micros: i64,
}

impl Interval {
    pub(super) fn parse(text: &[u8]) -> Result<Self, ValueError> {
        if matches!(text, b"infinity" | b"-infinity") {
            return Ok(Self::default());
        }
        let mut interval = Self::default();
        let mut rest = text;
        while !rest.is_empty() {
            rest = interval
                .take_part(rest)
                .ok_or(ValueError::Malformed { expected: EXPECTED, offset: text.len() - rest.len() })?;
        }
        if text.is_empty() { Err(ValueError::Malformed { expected: EXPECTED, offset: 0 }) } else { Ok(interval) }
    }

    /// Takes a number with its unit or the time, and the space after it.
    fn take_part<'a>(&mut self, text: &'a [u8]) -> Option<&'a [u8]> {
        let (word, behind) = split_word(text);
        if word.contains(&b':') {
            self.take_time(word)?;
            return Some(behind);
        }
        let number = integer(word)?;
        let (unit, behind) = split_word(behind);
        match unit {
            b"year" | b"years" => self.years = i32::try_from(number).ok()?,
            b"mon" | b"mons" => self.months = i32::try_from(number).ok()?,
            b"day" | b"days" => self.days = i32::try_from(number).ok()?,
            _ => return None,
        }
        Some(behind)
    }

    fn take_time(&mut self, word: &[u8]) -> Option<()> {
        let unsigned = word.strip_prefix(b"-").or_else(|| word.strip_prefix(b"+")).unwrap_or(word);
        let sign = if word.first() == Some(&b'-') { -1 } else { 1 };
        let mut parts = unsigned.split(|byte| *byte == b':');
        let hours = integer(parts.next()?)?;
        let minutes = i32::try_from(integer(parts.next()?)?).ok()?;
        let micros = match parts.next() {
            Some(seconds) => micros(seconds)?,
            None => 0,
        };
        (self.hours, self.minutes, self.micros) =
            (hours.checked_mul(sign)?, minutes.checked_mul(i32::try_from(sign).ok()?)?, micros.checked_mul(sign)?);
        parts.next().is_none().then_some(())
    }

    pub(super) fn value(self, mode: IntervalHandling) -> Value {
        match mode {
            IntervalHandling::Numeric => Value::Integer(self.total_micros()),
            IntervalHandling::String => string(self.iso()),
        }
    }

    /// In the order in which Java adds it up, so that it rounds alike.
    #[expect(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "it is what Java does")]
    fn total_micros(self) -> i64 {
        const DAYS_PER_MONTH: f64 = 365.25 / 12.0;
        let months = self.years.wrapping_mul(12).wrapping_add(self.months);
        let days = f64::from(months) * DAYS_PER_MONTH + f64::from(self.days);
        let minutes = (days * 24.0 + self.hours as f64) * 60.0 + f64::from(self.minutes);
        ((minutes * 60.0 + self.seconds()) * 1e6) as i64
    }

    /// As pgjdbc adds them up, which leaves traces: of 1.235 seconds it makes 1.2349999999999999.
    #[expect(clippy::cast_precision_loss, reason = "both parts are small")]
    fn seconds(self) -> f64 {
        (self.micros / 1_000_000) as f64 + (self.micros % 1_000_000) as f64 / 1_000_000.0
    }

    fn iso(self) -> String {
        let Self { years, months, days, hours, minutes, .. } = self;
        let seconds = nine_digits(&self.seconds().to_string());
        format!("P{years}Y{months}M{days}DT{hours}H{minutes}M{seconds}S")
    }
}

/// A number without what stands after its ninth digit after the point, and without zeros at the end.
fn nine_digits(number: &str) -> String {
    let Some((whole, fraction)) = number.split_once('.') else { return number.to_owned() };
    let fraction = fraction.get(..9).unwrap_or(fraction).trim_end_matches('0');
    if fraction.is_empty() { whole.to_owned() } else { format!("{whole}.{fraction}") }
}

fn split_word(text: &[u8]) -> (&[u8], &[u8]) {
    let end = text.iter().position(|byte| *byte == b' ').unwrap_or(text.len());
    let (word, rest) = text.split_at_checked(end).unwrap_or((text, b""));
    (word, rest.strip_prefix(b" ").unwrap_or(rest))
}

fn integer(word: &[u8]) -> Option<i64> {
    crate::value::parse_i64(word.strip_prefix(b"+").unwrap_or(word)).ok()
}

/// Seconds with at most six digits after the point.
fn micros(seconds: &[u8]) -> Option<i64> {
    let end = seconds.iter().position(|byte| *byte == b'.').unwrap_or(seconds.len());
    let (whole, fraction) = seconds.split_at_checked(end)?;
    let fraction = fraction.strip_prefix(b".").unwrap_or(fraction);
    let missing = 6_usize.checked_sub(fraction.len())?;
    let fraction = if fraction.is_empty() { 0 } else { integer(fraction)? };
    integer(whole)?.checked_mul(1_000_000)?.checked_add(fraction * 10_i64.pow(u32::try_from(missing).ok()?))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_no_interval_of_the_style_postgres_is_refused_where_it_stops_making_sense() {
        let cases = [
            ("", 0),
            ("1", 0),
            ("1 year ", 7),
            ("1 years 2", 8),
            ("@ 1 day", 0),
            ("P1D", 0),
            ("1-2", 0),
            ("1 day 01", 6),
            ("01:00:00.1234567", 0),
            ("01:00:00:00", 0),
            ("99999999999 days", 0),
        ];
        for (text, offset) in cases {
            let expected = Err(ValueError::Malformed { expected: EXPECTED, offset });
            let expected = if text == "1 year " { Ok(Interval { years: 1, ..Interval::default() }) } else { expected };
            assert_eq!(Interval::parse(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn more_hours_than_32_bits_hold_are_counted_all_the_same() {
        let interval = Interval::parse(b"-2562047788:00:54.775807").unwrap();
        assert_eq!(interval.value(IntervalHandling::Numeric), Value::Integer(i64::MIN));
        assert_eq!(interval.iso(), "P0Y0M0DT-2562047788H0M-54.775807S");
    }

    proptest! {
        #[test]
        fn reading_never_panics(text in "[-+ :.0-9a-z]{0,40}") {
            let _ = read(IntervalHandling::Numeric, text.as_bytes());
            let _ = read(IntervalHandling::String, text.as_bytes());
        }
    }
}
