//! Dates, times and points in time, in the units of each `time.precision.mode`.
//!
//! Java counts in ways that show at the edges, and consumers may know the results, so they are the same here: seconds that are
//! too many for 64 bits of microseconds stick at the largest (`TimeUnit.toMicros`), what is then added runs over; days are cut
//! to 32 bits; both infinities are points of a calendar. Elements of arrays go through `java.sql`, which reads days before
//! 1582-10-15 in the Julian calendar, forgets the era and keeps milliseconds of a time.

use std::fmt;

use bytes::Bytes;

use crate::connect::{Schema, SchemaType, TimePrecision, Value, logical};
use crate::value::{
    Civil, LocalTime, ValueError, civil_date, civil_timestamp, civil_timestamptz, parse_time, parse_timetz,
};

const NANOS_PER_SECOND: i64 = 1_000_000_000;
const NANOS_PER_DAY: i64 = 86_400 * NANOS_PER_SECOND;
const SECONDS_PER_DAY: i64 = 86_400;

/// What counts a time or a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unit {
    Millis,
    Micros,
    Nanos,
    /// Milliseconds, in Connect's own types.
    Connect,
    /// Text.
    Iso,
}

impl Unit {
    /// Of a `time` with this many digits after the second.
    pub(super) const fn of_time(mode: TimePrecision, digits: i32) -> Self {
        match mode {
            TimePrecision::AdaptiveTimeMicroseconds => Self::Micros,
            _ => Self::of_timestamp(mode, digits),
        }
    }

    /// Of a `timestamp` with this many digits after the second.
    pub(super) const fn of_timestamp(mode: TimePrecision, digits: i32) -> Self {
        match mode {
            TimePrecision::Adaptive | TimePrecision::AdaptiveTimeMicroseconds if digits <= 3 => Self::Millis,
            TimePrecision::Adaptive | TimePrecision::AdaptiveTimeMicroseconds | TimePrecision::Microseconds => {
                Self::Micros
            }
            TimePrecision::Nanoseconds => Self::Nanos,
            TimePrecision::Connect => Self::Connect,
            TimePrecision::IsoString => Self::Iso,
        }
    }
}

pub(super) fn date_schema(mode: TimePrecision) -> Schema {
    match mode {
        TimePrecision::IsoString => Schema::of(SchemaType::String).named(logical::ISO_DATE, 1),
        TimePrecision::Connect => Schema::of(SchemaType::Int32).named(logical::CONNECT_DATE, 1),
        _ => Schema::of(SchemaType::Int32).named(logical::DATE, 1),
    }
}

pub(super) fn time_schema(unit: Unit) -> Schema {
    match unit {
        Unit::Millis => Schema::of(SchemaType::Int32).named(logical::TIME, 1),
        Unit::Micros => Schema::of(SchemaType::Int64).named(logical::MICRO_TIME, 1),
        Unit::Nanos => Schema::of(SchemaType::Int64).named(logical::NANO_TIME, 1),
        Unit::Connect => Schema::of(SchemaType::Int32).named(logical::CONNECT_TIME, 1),
        Unit::Iso => Schema::of(SchemaType::String).named(logical::ISO_TIME, 1),
    }
}

pub(super) fn timestamp_schema(unit: Unit) -> Schema {
    match unit {
        Unit::Millis => Schema::of(SchemaType::Int64).named(logical::TIMESTAMP, 1),
        Unit::Micros => Schema::of(SchemaType::Int64).named(logical::MICRO_TIMESTAMP, 1),
        Unit::Nanos => Schema::of(SchemaType::Int64).named(logical::NANO_TIMESTAMP, 1),
        Unit::Connect => Schema::of(SchemaType::Int64).named(logical::CONNECT_TIMESTAMP, 1),
        Unit::Iso => Schema::of(SchemaType::String).named(logical::ISO_TIMESTAMP, 1),
    }
}

/// A point in time by a clock that no zone moves, like `java.time.LocalDateTime`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Moment {
    /// Since 1970-01-01.
    pub(super) days: i64,
    /// Of the day.
    pub(super) nanos: i64,
}

impl Moment {
    /// What Debezium takes for `infinity`, and what for `-infinity`: `PGStatement`'s numbers, taken for microseconds.
    const INFINITY: Self = Self::of_unix_micros(9_223_372_036_825_200_000);
    const NEGATIVE_INFINITY: Self = Self::of_unix_micros(-9_223_372_036_832_400_000);
    /// `LocalDateTime.MAX` and `MIN`, which pgjdbc takes for the infinities of a DEFAULT.
    pub(super) const MAX: Self = Self { days: 365_241_780_471, nanos: NANOS_PER_DAY - 1 };
    pub(super) const MIN: Self = Self { days: -365_243_219_162, nanos: 0 };

    const fn of_unix_micros(micros: i64) -> Self {
        let micros_per_day = NANOS_PER_DAY / 1000;
        Self { days: micros.div_euclid(micros_per_day), nanos: micros.rem_euclid(micros_per_day) * 1000 }
    }

    /// In UTC.
    pub(super) const fn of_local(local: &LocalTime) -> Self {
        Self::of_seconds(local.unix_days(), local)
    }

    /// The time of the text on the day that the text is taken for.
    const fn of_seconds(days: i64, local: &LocalTime) -> Self {
        let second = local.second - local.offset_from_utc;
        Self {
            days: days + second.div_euclid(SECONDS_PER_DAY),
            nanos: second.rem_euclid(SECONDS_PER_DAY) * NANOS_PER_SECOND + local.microsecond * 1000,
        }
    }

    const fn unix_seconds(self) -> i64 {
        self.days * SECONDS_PER_DAY + self.nanos / NANOS_PER_SECOND
    }

    /// In the past too, the milliseconds that have passed.
    fn unix_millis(self) -> Option<i64> {
        self.unix_seconds().checked_mul(1000)?.checked_add(self.nanos % NANOS_PER_SECOND / 1_000_000)
    }

    const fn unix_micros(self) -> i64 {
        self.unix_seconds().saturating_mul(1_000_000).wrapping_add(self.nanos % NANOS_PER_SECOND / 1000)
    }

    fn unix_nanos(self) -> Option<i64> {
        self.days.checked_mul(NANOS_PER_DAY)?.checked_add(self.nanos)
    }

    /// Null where the unit cannot count so far.
    pub(super) fn value(self, unit: Unit) -> Value {
        match unit {
            Unit::Millis | Unit::Connect => self.unix_millis().map_or(Value::Null, Value::Integer),
            Unit::Micros => Value::Integer(self.unix_micros()),
            Unit::Nanos => self.unix_nanos().map_or(Value::Null, Value::Integer),
            Unit::Iso => string(format!("{}T{}Z", IsoDate(self.days), IsoTime { nanos: self.nanos, digits: None })),
        }
    }

    /// As `ZonedTimestamp` writes it, with so many digits after the second, where zero means as many as there are.
    pub(super) fn zoned(self, digits: i32) -> Value {
        let digits = usize::try_from(digits).ok().filter(|digits| (1..=9).contains(digits));
        string(format!("{}T{}Z", IsoDate(self.days), IsoTime { nanos: self.nanos, digits }))
    }
}

pub(super) fn string(text: String) -> Value {
    Value::String(Bytes::from(text))
}

/// Days since 1970, cut to 32 bits as Java cuts them.
pub(super) fn date_value(mode: TimePrecision, days: i64) -> Value {
    #[expect(clippy::cast_possible_truncation, reason = "the wrong number is the one that consumers know")]
    let cut = days as i32;
    match mode {
        TimePrecision::IsoString => string(format!("{}Z", IsoDate(days))),
        _ => Value::Integer(i64::from(cut)),
    }
}

/// Of nanoseconds since midnight, up to and with 24:00.
pub(super) fn time_value(unit: Unit, nanos: i64) -> Value {
    match unit {
        Unit::Millis | Unit::Connect => Value::Integer(nanos / 1_000_000),
        Unit::Micros => Value::Integer(nanos / 1000),
        Unit::Nanos => Value::Integer(nanos),
        Unit::Iso => string(format!("{}Z", IsoTime { nanos: nanos % NANOS_PER_DAY, digits: None })),
    }
}

/// A `date`.
pub(super) fn date(mode: TimePrecision, text: &[u8]) -> Result<Value, ValueError> {
    let days = match civil_date(text)? {
        Civil::Infinity => gregorian_days(-5_877_611, 6, 21),
        Civil::NegativeInfinity => gregorian_days(-5_877_611, 6, 22),
        Civil::At(local) => local.unix_days(),
    };
    Ok(date_value(mode, days))
}

/// A `time`.
pub(super) fn time(unit: Unit, text: &[u8]) -> Result<Value, ValueError> {
    parse_time(text).map(|micros| time_value(unit, micros * 1000))
}

/// A `timetz`, in UTC. Debezium dies of an offset with seconds, which leaves no more doubt than any other.
pub(super) fn timetz(text: &[u8]) -> Result<Value, ValueError> {
    utc_nanos(text).map(|nanos| string(format!("{}Z", IsoTime { nanos, digits: None })))
}

fn utc_nanos(text: &[u8]) -> Result<i64, ValueError> {
    let (micros, offset) = parse_timetz(text)?;
    Ok((micros * 1000 - offset * NANOS_PER_SECOND).rem_euclid(NANOS_PER_DAY))
}

/// A `timestamp`.
pub(super) fn timestamp(unit: Unit, text: &[u8]) -> Result<Value, ValueError> {
    Ok(match (civil_timestamp(text)?, unit) {
        (Civil::At(local), _) => Moment::of_local(&local).value(unit),
        (infinity, _) => infinite(&infinity, unit),
    })
}

fn infinite(infinity: &Civil, unit: Unit) -> Value {
    match (infinity, unit) {
        (Civil::NegativeInfinity, Unit::Nanos) => Value::Integer(i64::MIN),
        (Civil::NegativeInfinity, _) => Moment::NEGATIVE_INFINITY.value(unit),
        (_, Unit::Nanos) => Value::Integer(i64::MAX),
        _ => Moment::INFINITY.value(unit),
    }
}

/// A `timestamptz` with so many digits after the second.
pub(super) fn timestamptz(digits: i32, text: &Bytes) -> Result<Value, ValueError> {
    Ok(match civil_timestamptz(text)? {
        Civil::Infinity | Civil::NegativeInfinity => Value::String(text.clone()),
        Civil::At(local) => Moment::of_local(&local).zoned(digits),
    })
}

/// A `date` of an array.
pub(super) fn date_element(mode: TimePrecision, text: &[u8]) -> Result<Value, ValueError> {
    let days = match civil_date(text)? {
        Civil::Infinity => gregorian_days(292_278_994, 8, 16),
        Civil::NegativeInfinity => gregorian_days(292_269_055, 12, 2),
        Civil::At(local) => hybrid_fields(hybrid_days(&local))?,
    };
    Ok(date_value(mode, days))
}

/// A `time` of an array.
pub(super) fn time_element(unit: Unit, text: &[u8]) -> Result<Value, ValueError> {
    let millis = parse_time(text)? / 1000 % (SECONDS_PER_DAY * 1000);
    Ok(time_value(unit, millis * 1_000_000))
}

/// A `timetz` of an array.
pub(super) fn timetz_element(text: &[u8]) -> Result<Value, ValueError> {
    let nanos = utc_nanos(text)? / NANOS_PER_SECOND * NANOS_PER_SECOND;
    Ok(string(format!("{}Z", IsoTime { nanos, digits: None })))
}

/// A `timestamp` of an array.
pub(super) fn timestamp_element(unit: Unit, text: &[u8]) -> Result<Value, ValueError> {
    Ok(match civil_timestamp(text)? {
        Civil::At(local) => Moment::of_seconds(hybrid_days(&local), &local).value(unit),
        infinity => infinite(&infinity, unit),
    })
}

/// A `timestamptz` of an array.
pub(super) fn timestamptz_element(digits: i32, text: &Bytes) -> Result<Value, ValueError> {
    Ok(match civil_timestamptz(text)? {
        Civil::Infinity => Value::String(text.clone()),
        Civil::NegativeInfinity => {
            Moment { days: gregorian_days(292_269_055, 12, 2), nanos: 23 * 3600 * NANOS_PER_SECOND }.zoned(digits)
        }
        Civil::At(local) => {
            let moment = Moment::of_seconds(hybrid_days(&local), &local);
            Moment { days: hybrid_fields(moment.days)?, ..moment }.zoned(digits)
        }
    })
}

const fn gregorian_days(year: i64, month: i64, day: i64) -> i64 {
    midnight(year, month, day).unix_days()
}

const fn midnight(year: i64, month: i64, day: i64) -> LocalTime {
    LocalTime { year, month, day, second: 0, microsecond: 0, offset_from_utc: 0 }
}

/// 1582-10-15, the first day of `java.util.GregorianCalendar` that is not Julian.
const FIRST_GREGORIAN_DAY: i64 = gregorian_days(1582, 10, 15);

/// The day that `GregorianCalendar` takes a date for.
const fn hybrid_days(date: &LocalTime) -> i64 {
    const MARCH_OF_JULIAN_YEAR_0_TO_1970: i64 = 719_470;
    let days = date.unix_days();
    if days >= FIRST_GREGORIAN_DAY {
        return days;
    }
    let (year, month) = if date.month > 2 { (date.year, date.month - 3) } else { (date.year - 1, date.month + 9) };
    365 * year + year.div_euclid(4) + (153 * month + 2) / 5 + date.day - 1 - MARCH_OF_JULIAN_YEAR_0_TO_1970
}

/// The day that a new date has which takes year, month and day from `GregorianCalendar`, and no era: so a leap day BC may be none.
fn hybrid_fields(days: i64) -> Result<i64, ValueError> {
    const DAYS_IN_4_YEARS: i64 = 1461;
    if days >= FIRST_GREGORIAN_DAY {
        return Ok(days);
    }
    let from_march = days + 719_470;
    let day_of_cycle = from_march.rem_euclid(DAYS_IN_4_YEARS);
    let year_of_cycle = (day_of_cycle - day_of_cycle / 1460) / 365;
    let (month, day) = month_and_day(day_of_cycle - year_of_cycle * 365);
    let year = from_march.div_euclid(DAYS_IN_4_YEARS) * 4 + year_of_cycle + i64::from(month <= 2);
    let date = midnight(if year > 0 { year } else { 1 - year }, month, day);
    let is_there = date.is_in_calendar();
    is_there
        .then(|| date.unix_days())
        .ok_or(ValueError::Unrepresentable { expected: "a leap day before Christ in an array" })
}

/// Of a day that is counted from the first of March.
const fn month_and_day(day_of_year: i64) -> (i64, i64) {
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    (if from_march < 10 { from_march + 3 } else { from_march - 9 }, day)
}

/// Days since 1970, as `DateTimeFormatter.ISO_LOCAL_DATE` writes the date.
struct IsoDate(i64);

impl IsoDate {
    fn fields(&self) -> (i64, i64, i64) {
        const DAYS_IN_400_YEARS: i64 = 146_097;
        let from_march = self.0 + 719_468;
        let day_of_era = from_march.rem_euclid(DAYS_IN_400_YEARS);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let (month, day) = month_and_day(day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100));
        (from_march.div_euclid(DAYS_IN_400_YEARS) * 400 + year_of_era + i64::from(month <= 2), month, day)
    }
}

impl fmt::Display for IsoDate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = self.fields();
        let sign = match year {
            10_000.. => "+",
            0..10_000 => "",
            _ => "-",
        };
        write!(f, "{sign}{:04}-{month:02}-{day:02}", year.unsigned_abs())
    }
}

/// Nanoseconds of a day, as `DateTimeFormatter.ISO_LOCAL_TIME` writes the time, or with a set number of digits after the second.
struct IsoTime {
    nanos: i64,
    digits: Option<usize>,
}

impl fmt::Display for IsoTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let second = self.nanos / NANOS_PER_SECOND;
        write!(f, "{:02}:{:02}:{:02}", second / 3600, second / 60 % 60, second % 60)?;
        let fraction = format!("{:09}", self.nanos % NANOS_PER_SECOND);
        let fraction = match self.digits {
            Some(digits) => fraction.get(..digits).unwrap_or(&fraction),
            None => fraction.trim_end_matches('0'),
        };
        if fraction.is_empty() { Ok(()) } else { write!(f, ".{fraction}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_date_is_written_as_it_was_read_over_all_years_that_there_are() {
        for days in (-2_500_000..4_000_000).step_by(97).chain([-719_163, -719_162, 0, 2_145_042_905]) {
            let (year, month, day) = IsoDate(days).fields();
            assert_eq!(gregorian_days(year, month, day), days);
        }
    }

    #[test]
    fn the_calendar_of_arrays_is_julian_before_its_first_gregorian_day() {
        let cases = [
            (midnight(1582, 10, 15), -141_427, -141_427),
            (midnight(1582, 10, 4), -141_428, -141_438),
            (midnight(1582, 10, 10), -141_422, -141_422),
            (midnight(1500, 2, 28), -171_597, -171_606),
            (midnight(1, 1, 1), -719_164, -719_162),
            (midnight(-43, 3, 15), -735_162, -703_383),
        ];
        for (date, days, fields) in cases {
            let hybrid = hybrid_days(&date);
            assert_eq!((hybrid, hybrid_fields(hybrid)), (days, Ok(fields)), "{date:?}");
        }
        assert!(hybrid_fields(hybrid_days(&midnight(0, 2, 29))).is_err());
    }
}
