//! Timestamps, from the ISO form in which the server writes them.
//!
//! "Date/Time Types" in the manual and `datetime.c` (`EncodeDateTime`, `EncodeTimezone`) have that form: a year of at
//! least four digits, a fraction of at most six, the offset from UTC for the type with time zone (hours, and minutes
//! and seconds where they are not zero; east is positive), and ` BC` last. There is no year 0, so 1 BC is the year 0 of
//! the calendar. `timestamp.c` (`EncodeSpecialTimestamp`) writes the two infinities as words. PostgreSQL's years end at
//! 294276, a few decades after the last microsecond since 1970 that 64 bits can count: what lies between is out of
//! range here.

use super::ValueError;

/// A `timestamp` or `timestamptz`. The order is that of PostgreSQL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PointInTime {
    /// `-infinity`
    NegativeInfinity,
    /// Microseconds since 1970-01-01 00:00: in UTC for a `timestamptz`, by the wall's clock for a `timestamp`.
    UnixMicros(i64),
    /// `infinity`
    Infinity,
}

/// Reads a `timestamp without time zone`, such as `2019-03-24 20:52:59.123456`.
///
/// # Errors
/// [`ValueError`], when the text is not of the ISO form, or beyond what 64 bits of microseconds hold.
pub fn parse_timestamp(text: &[u8]) -> Result<PointInTime, ValueError> {
    parse(text, "a timestamp without time zone in the ISO style", |_| Some(0))
}

/// Reads a `timestamp with time zone`, such as `2019-03-24 20:52:59.1+00`. An offset other than UTC's is reckoned in.
///
/// # Errors
/// [`ValueError`], when the text is not of the ISO form, or beyond what 64 bits of microseconds hold.
pub fn parse_timestamptz(text: &[u8]) -> Result<PointInTime, ValueError> {
    parse(text, "a timestamp with time zone in the ISO style", |scanner| scanner.offset_from_utc())
}

fn parse(
    text: &[u8],
    expected: &'static str,
    offset_from_utc: impl FnOnce(&mut Scanner<'_>) -> Option<i64>,
) -> Result<PointInTime, ValueError> {
    match parse_civil(text, expected, |scanner| scanner.local_time(offset_from_utc))? {
        Civil::NegativeInfinity => Ok(PointInTime::NegativeInfinity),
        Civil::Infinity => Ok(PointInTime::Infinity),
        Civil::At(local) => local.unix_micros().map(PointInTime::UnixMicros).ok_or(ValueError::OutOfRange { expected }),
    }
}

/// A date or a time of a date, in the parts that the text names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Civil {
    /// `-infinity`
    NegativeInfinity,
    /// Any other.
    At(LocalTime),
    /// `infinity`
    Infinity,
}

/// Reads a `timestamp without time zone` of any year.
///
/// # Errors
/// [`ValueError::Malformed`], when the text is not of the ISO form.
pub(crate) fn civil_timestamp(text: &[u8]) -> Result<Civil, ValueError> {
    parse_civil(text, "a timestamp without time zone in the ISO style", |scanner| scanner.local_time(|_| Some(0)))
}

/// Reads a `timestamp with time zone` of any year.
///
/// # Errors
/// [`ValueError::Malformed`], when the text is not of the ISO form.
pub(crate) fn civil_timestamptz(text: &[u8]) -> Result<Civil, ValueError> {
    parse_civil(text, "a timestamp with time zone in the ISO style", |scanner| {
        scanner.local_time(|scanner| scanner.offset_from_utc())
    })
}

/// Reads a `date`.
///
/// # Errors
/// [`ValueError::Malformed`], when the text is not of the ISO form.
pub(crate) fn civil_date(text: &[u8]) -> Result<Civil, ValueError> {
    parse_civil(text, "a date in the ISO style", |scanner| {
        let date = scanner.date()?;
        scanner.era(LocalTime { second: 0, microsecond: 0, offset_from_utc: 0, ..date })
    })
}

/// Reads a date with a time, an offset and an era, each of which may be missing: what stands in a DEFAULT.
pub(crate) fn civil_of_any_form(text: &[u8]) -> Result<Civil, ValueError> {
    parse_civil(text, "a date in the ISO style", |scanner| {
        let date = scanner.date()?;
        let (second, microsecond) = match scanner.rest.strip_prefix(b" ") {
            Some(time) if time.first().is_some_and(u8::is_ascii_digit) => {
                scanner.rest = time;
                scanner.time_of_day(23)?
            }
            _ => (0, 0),
        };
        let offset_from_utc = if matches!(scanner.rest, [b'+' | b'-', ..]) { scanner.offset_from_utc()? } else { 0 };
        scanner.era(LocalTime { second, microsecond, offset_from_utc, ..date })
    })
}

/// Reads a `time without time zone`: microseconds since midnight, up to and with 24:00.
///
/// # Errors
/// [`ValueError::Malformed`], when the text is not of the ISO form.
pub(crate) fn parse_time(text: &[u8]) -> Result<i64, ValueError> {
    time_of_day(text, "a time without time zone", |_| Some(0)).map(|(micros, _)| micros)
}

/// Reads a `time with time zone`: microseconds since midnight and seconds east of UTC.
///
/// # Errors
/// [`ValueError::Malformed`], when the text is not of the ISO form.
pub(crate) fn parse_timetz(text: &[u8]) -> Result<(i64, i64), ValueError> {
    time_of_day(text, "a time with time zone", |scanner| scanner.offset_from_utc())
}

fn time_of_day(
    text: &[u8],
    expected: &'static str,
    offset_from_utc: impl FnOnce(&mut Scanner<'_>) -> Option<i64>,
) -> Result<(i64, i64), ValueError> {
    const DAY: i64 = 86_400_000_000;
    let mut scanner = Scanner { rest: text };
    let time = scanner
        .time_of_day(24)
        .map(|(second, microsecond)| second * 1_000_000 + microsecond)
        .filter(|micros| *micros <= DAY)
        .and_then(|micros| Some((micros, offset_from_utc(&mut scanner)?)));
    let offset = text.len() - scanner.rest.len();
    time.filter(|_| scanner.rest.is_empty()).ok_or(ValueError::Malformed { expected, offset })
}

fn parse_civil(
    text: &[u8],
    expected: &'static str,
    scan: impl FnOnce(&mut Scanner<'_>) -> Option<LocalTime>,
) -> Result<Civil, ValueError> {
    match text {
        b"infinity" => return Ok(Civil::Infinity),
        b"-infinity" => return Ok(Civil::NegativeInfinity),
        _ => {}
    }
    let mut scanner = Scanner { rest: text };
    let local = scan(&mut scanner);
    let offset = text.len() - scanner.rest.len();
    let Some(local) = local.filter(|_| scanner.rest.is_empty()) else {
        return Err(ValueError::Malformed { expected, offset });
    };
    if !local.is_in_calendar() {
        return Err(ValueError::Malformed { expected, offset: 0 });
    }
    Ok(Civil::At(local))
}

/// What the text says, each part within its own bounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LocalTime {
    /// Counted through: 0 is 1 BC.
    pub(crate) year: i64,
    pub(crate) month: i64,
    pub(crate) day: i64,
    /// Of the day.
    pub(crate) second: i64,
    pub(crate) microsecond: i64,
    /// Seconds east of UTC.
    pub(crate) offset_from_utc: i64,
}

impl LocalTime {
    /// Whether the month has that day.
    pub(crate) const fn is_in_calendar(&self) -> bool {
        let is_leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        let last = match self.month {
            2 if is_leap => 29,
            2 => 28,
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        };
        self.day <= last
    }

    /// Days since 1970-01-01 in the Gregorian calendar, which PostgreSQL extends to all times. Years are taken to begin
    /// in March, so that the leap day is the last one and the lengths of the months before it repeat every five (153
    /// days).
    pub(crate) const fn unix_days(&self) -> i64 {
        const DAYS_IN_400_YEARS: i64 = 146_097;
        const MARCH_OF_YEAR_0_TO_1970: i64 = 719_468;
        let (year, month) = if self.month > 2 { (self.year, self.month - 3) } else { (self.year - 1, self.month + 9) };
        let year_of_era = year.rem_euclid(400);
        let day_of_year = (153 * month + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        year.div_euclid(400) * DAYS_IN_400_YEARS + day_of_era - MARCH_OF_YEAR_0_TO_1970
    }

    /// The products stay far below 64 bits up to the last: a year has at most six digits.
    fn unix_micros(&self) -> Option<i64> {
        let seconds = self.unix_days() * 86_400 + self.second - self.offset_from_utc;
        i64::try_from(i128::from(seconds) * 1_000_000 + i128::from(self.microsecond)).ok()
    }
}

/// What is left of the text.
struct Scanner<'a> {
    rest: &'a [u8],
}

impl Scanner<'_> {
    fn local_time(&mut self, offset_from_utc: impl FnOnce(&mut Self) -> Option<i64>) -> Option<LocalTime> {
        let date = self.dated(4..=6)?;
        let (second, microsecond) = self.after(b" ")?.time_of_day(23)?;
        let offset_from_utc = offset_from_utc(self)?;
        self.era(LocalTime { second, microsecond, offset_from_utc, ..date })
    }

    /// A date alone may lie further ahead than a timestamp.
    fn date(&mut self) -> Option<LocalTime> {
        self.dated(4..=7)
    }

    fn dated(&mut self, digits_of_year: std::ops::RangeInclusive<usize>) -> Option<LocalTime> {
        let year = self.digits(digits_of_year)?;
        let month = self.after(b"-")?.two_digits(1..=12)?;
        let day = self.after(b"-")?.two_digits(1..=31)?;
        Some(LocalTime { year, month, day, second: 0, microsecond: 0, offset_from_utc: 0 })
    }

    /// The second of the day and the microsecond of the second.
    fn time_of_day(&mut self, last_hour: i64) -> Option<(i64, i64)> {
        let hour = self.two_digits(0..=last_hour)?;
        let minute = self.after(b":")?.two_digits(0..=59)?;
        let second = self.after(b":")?.two_digits(0..=59)?;
        Some((hour * 3600 + minute * 60 + second, self.fraction()?))
    }

    /// Counts the year through, now that all has been read that stands before the era.
    fn era(&mut self, local: LocalTime) -> Option<LocalTime> {
        let is_before_christ = self.after(b" BC").is_some();
        let year = match (local.year, is_before_christ) {
            (0, _) => return None,
            (year, true) => 1 - year,
            (year, false) => year,
        };
        Some(LocalTime { year, ..local })
    }

    /// Microseconds; none are there without a point.
    fn fraction(&mut self) -> Option<i64> {
        if self.after(b".").is_none() {
            return Some(0);
        }
        let before = self.rest.len();
        let digits = self.digits(1..=6)?;
        let count = u32::try_from(before - self.rest.len()).ok()?;
        Some(digits * 10_i64.pow(6_u32.saturating_sub(count)))
    }

    /// Seconds east of UTC.
    fn offset_from_utc(&mut self) -> Option<i64> {
        let sign = if self.after(b"+").is_some() { 1 } else { self.after(b"-").map(|_| -1)? };
        let mut offset = self.two_digits(0..=15)? * 3600;
        for seconds in [60, 1] {
            let Some(part) = self.after(b":") else { break };
            offset += part.two_digits(0..=59)? * seconds;
        }
        Some(sign * offset)
    }

    /// Takes what has to come next.
    fn after(&mut self, literal: &[u8]) -> Option<&mut Self> {
        self.rest = self.rest.strip_prefix(literal)?;
        Some(self)
    }

    fn two_digits(&mut self, bounds: std::ops::RangeInclusive<i64>) -> Option<i64> {
        let before = self.rest;
        let number = self.digits(2..=2).filter(|number| bounds.contains(number));
        if number.is_none() {
            self.rest = before;
        }
        number
    }

    /// Takes as many digits as there are, if there are as many as there may be.
    fn digits(&mut self, count: std::ops::RangeInclusive<usize>) -> Option<i64> {
        let there = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (digits, rest) = self.rest.split_at_checked(there).filter(|_| count.contains(&there))?;
        self.rest = rest;
        Some(digits.iter().fold(0, |sum, digit| sum * 10 + i64::from(digit - b'0')))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timestamp_is_microseconds_since_the_unix_epoch() {
        let cases = [
            ("1970-01-01 00:00:00", 0),
            ("1970-01-01 00:00:00.000001", 1),
            ("1969-12-31 23:59:59.9995", -500),
            ("2000-01-01 00:00:00", 946_684_800_000_000),
            ("2000-02-29 12:00:00", 951_825_600_000_000),
            ("2019-03-24 20:52:59.123456", 1_553_460_779_123_456),
            ("2019-03-24 20:52:59.1", 1_553_460_779_100_000),
            ("9999-12-31 23:59:59.999999", 253_402_300_799_999_999),
            ("10000-01-01 00:00:00", 253_402_300_800_000_000),
            ("0001-01-01 00:00:00", -62_135_596_800_000_000),
            ("0001-12-31 23:59:59 BC", -62_135_596_801_000_000),
            ("0001-02-29 00:00:00 BC", -62_162_121_600_000_000),
            ("0044-03-15 12:00:00.5 BC", -63_517_780_799_500_000),
            ("4714-11-24 00:00:00 BC", -210_866_803_200_000_000),
            ("294247-01-10 04:00:54.775807", i64::MAX),
        ];
        for (text, micros) in cases {
            assert_eq!(parse_timestamp(text.as_bytes()), Ok(PointInTime::UnixMicros(micros)), "{text}");
        }
    }

    #[test]
    fn a_timestamp_with_time_zone_is_in_utc_whatever_its_offset() {
        let cases = [
            ("2019-03-24 20:52:59+00", 1_553_460_779_000_000),
            ("2019-03-24 20:52:59.1+00", 1_553_460_779_100_000),
            ("2019-03-24 22:22:59+01:30", 1_553_460_779_000_000),
            ("2019-03-24 17:22:59-03:30", 1_553_460_779_000_000),
            ("1883-11-18 12:03:58-04:56:02", -2_717_650_800_000_000),
            ("0044-03-15 12:00:00.5+00 BC", -63_517_780_799_500_000),
            ("10000-01-01 00:00:00+00", 253_402_300_800_000_000),
        ];
        for (text, micros) in cases {
            assert_eq!(parse_timestamptz(text.as_bytes()), Ok(PointInTime::UnixMicros(micros)), "{text}");
        }
    }

    #[test]
    fn infinity_lies_beyond_every_point_in_time() {
        for parse in [parse_timestamp, parse_timestamptz] {
            assert_eq!(parse(b"infinity"), Ok(PointInTime::Infinity));
            assert_eq!(parse(b"-infinity"), Ok(PointInTime::NegativeInfinity));
        }
        assert!(PointInTime::NegativeInfinity < PointInTime::UnixMicros(i64::MIN));
        assert!(PointInTime::UnixMicros(i64::MAX) < PointInTime::Infinity);
    }

    #[test]
    fn a_timestamp_beyond_what_64_bits_hold_is_out_of_range() {
        for text in ["294247-01-10 04:00:54.775808", "294276-12-31 23:59:59.999999", "999999-12-31 23:59:59"] {
            let refused = parse_timestamp(text.as_bytes());
            assert!(matches!(refused, Err(ValueError::OutOfRange { .. })), "{text}: {refused:?}");
        }
    }

    #[test]
    fn what_is_not_a_timestamp_of_the_iso_style_is_refused_where_it_stops_making_sense() {
        let cases = [
            ("", 0),
            ("now", 0),
            ("Infinity", 0),
            ("24/03/2019 20:52:59", 0),
            ("Sun Mar 24 20:52:59 2019", 0),
            ("219-03-24 20:52:59", 0),
            ("1234567-03-24 20:52:59", 0),
            ("2019-13-24 20:52:59", 5),
            ("2019-3-24 20:52:59", 5),
            ("2019-03-32 20:52:59", 8),
            ("2019-03-24T20:52:59", 10),
            ("2019-03-24", 10),
            ("2019-03-24 24:00:00", 11),
            ("2019-03-24 20:60:59", 14),
            ("2019-03-24 20:52", 16),
            ("2019-03-24 20:52:60", 17),
            ("2019-03-24 20:52:59.", 20),
            ("2019-03-24 20:52:59.1234567", 20),
            ("2019-03-24 20:52:59+00", 19),
            ("2019-03-24 20:52:59 AD", 19),
            ("2019-03-24 20:52:59 BC ", 22),
            ("1900-02-29 00:00:00", 0),
            ("2019-04-31 00:00:00", 0),
        ];
        for (text, offset) in cases {
            let expected = "a timestamp without time zone in the ISO style";
            assert_eq!(parse_timestamp(text.as_bytes()), Err(ValueError::Malformed { expected, offset }), "{text}");
        }
        for text in ["0000-01-01 00:00:00", "0000-01-01 00:00:00 BC"] {
            assert!(parse_timestamp(text.as_bytes()).is_err(), "{text}");
        }
    }

    #[test]
    fn a_timestamp_with_time_zone_needs_its_offset() {
        let cases = [
            ("2019-03-24 20:52:59", 19),
            ("2019-03-24 20:52:59Z", 19),
            ("2019-03-24 20:52:59 UTC", 19),
            ("2019-03-24 20:52:59+0", 20),
            ("2019-03-24 20:52:59+16", 20),
            ("2019-03-24 20:52:59+01:60", 23),
            ("2019-03-24 20:52:59+01:00:00:00", 28),
        ];
        for (text, offset) in cases {
            let expected = "a timestamp with time zone in the ISO style";
            assert_eq!(parse_timestamptz(text.as_bytes()), Err(ValueError::Malformed { expected, offset }), "{text}");
        }
    }

    #[test]
    fn days_are_counted_as_a_calendar_on_the_wall_counts_them() {
        let mut expected = -62_135_596_800_000_000;
        for year in 1..=2400 {
            let is_leap = year % 400 == 0 || (year % 4 == 0 && year % 100 != 0);
            let february = if is_leap { 29 } else { 28 };
            let months = [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
            for (month, days) in (1..).zip(months) {
                for day in [1, days] {
                    let text = format!("{year:04}-{month:02}-{day:02} 00:00:00");
                    let micros = expected + (day - 1) * 86_400_000_000;
                    assert_eq!(parse_timestamp(text.as_bytes()), Ok(PointInTime::UnixMicros(micros)), "{text}");
                }
                expected += days * 86_400_000_000;
                let beyond = format!("{year:04}-{month:02}-{:02} 00:00:00", days + 1);
                assert!(parse_timestamp(beyond.as_bytes()).is_err(), "{beyond}");
            }
        }
    }

    fn days(text: &str) -> Option<i64> {
        match civil_date(text.as_bytes()) {
            Ok(Civil::At(date)) => Some(date.unix_days()),
            _ => None,
        }
    }

    #[test]
    fn a_date_is_days_since_the_unix_epoch_in_years_of_up_to_seven_digits() {
        let cases = [
            ("1970-01-01", Some(0)),
            ("0044-03-15 BC", Some(-735_160)),
            ("5874897-12-31", Some(2_145_042_905)),
            ("infinity", None),
            ("2019-02-29", None),
            ("2019-03-24 00:00:00", None),
            ("2019-03-24+00", None),
            ("12345678-01-01", None),
        ];
        for (text, expected) in cases {
            assert_eq!(days(text), expected, "{text}");
        }
        assert_eq!(civil_date(b"-infinity"), Ok(Civil::NegativeInfinity));
    }

    #[test]
    fn a_time_goes_up_to_24_hours_and_may_have_an_offset() {
        let malformed = |expected, offset| ValueError::Malformed { expected, offset };
        let cases = [
            ("00:00:00", Ok(0)),
            ("04:05:06.789", Ok(14_706_789_000)),
            ("24:00:00", Ok(86_400_000_000)),
            ("24:00:00.000001", Err(malformed("a time without time zone", 15))),
            ("04:05", Err(malformed("a time without time zone", 5))),
            ("04:05:06+00", Err(malformed("a time without time zone", 8))),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_time(text.as_bytes()), expected, "{text}");
        }
        let cases = [
            ("04:05:06.5+09", Ok((14_706_500_000, 32_400))),
            ("12:00:00-05:45:30", Ok((43_200_000_000, -20_730))),
            ("12:00:00", Err(malformed("a time with time zone", 8))),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_timetz(text.as_bytes()), expected, "{text}");
        }
    }
}
