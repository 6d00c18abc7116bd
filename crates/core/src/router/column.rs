//! What the router knows of column types: which of them can play which role, and how their text is read.
//!
//! `pgoutput` sends values as text, in the form that the session has set (`bytea_output=hex`, `DateStyle=ISO`, UTC). What is
//! not listed here is not published in that role yet: the row is at fault, with a sentence, and nothing is guessed. A type
//! with an OID beyond the built-in range (an enum, `citext`, a domain) is text, as Debezium takes enums and `citext`.

/// The first OID that can belong to a type which is not built in (`FirstNormalObjectId`).
const FIRST_NORMAL_OID: u32 = 16384;

/// The kind of a column's type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text in any sense: its text form is its value.
    Text,
    /// `smallint` and `bigint`.
    Integer,
    /// `integer`, the only one that chooses a partition.
    Integer32,
    /// `boolean`.
    Boolean,
    /// `bytea`.
    Bytea,
    /// `timestamp`, taken as UTC, and `timestamptz`.
    Timestamp,
    /// Anything else that is built in.
    Other,
}

impl Kind {
    /// The kind of the type with this OID (`pg_type.dat`).
    pub(crate) fn of(type_id: u32) -> Self {
        match type_id {
            16 => Self::Boolean,
            17 => Self::Bytea,
            20 | 21 => Self::Integer,
            23 => Self::Integer32,
            // "char", name, text, json, xml, bpchar, varchar, uuid, jsonb; and the addresses, which Debezium takes verbatim.
            18 | 19 | 25 | 114 | 142 | 1042 | 1043 | 2950 | 3802 | 650 | 869 | 829 => Self::Text,
            1114 | 1184 => Self::Timestamp,
            FIRST_NORMAL_OID.. => Self::Text,
            _ => Self::Other,
        }
    }

    /// Whether its text form is what a key, value or header carries.
    pub(crate) fn is_publishable(self) -> bool {
        matches!(self, Self::Text | Self::Integer | Self::Integer32 | Self::Boolean | Self::Bytea)
    }
}

/// `t` or `f`, as `true` or `false`.
pub(crate) fn boolean(text: &[u8]) -> Option<&'static str> {
    match text {
        b"t" => Some("true"),
        b"f" => Some("false"),
        _ => None,
    }
}

/// A number in decimal digits.
pub(crate) fn integer(text: &[u8]) -> Option<i64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// `\x` and two hexadecimal digits a byte.
pub(crate) fn bytea(text: &[u8]) -> Option<Vec<u8>> {
    let digits = text.strip_prefix(b"\\x")?;
    let (pairs, rest) = digits.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    pairs.iter().map(|[high, low]| Some(hex_digit(*high)? << 4 | hex_digit(*low)?)).collect()
}

fn hex_digit(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

/// A point in time as a column tells it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PointInTime {
    /// Milliseconds since 1970-01-01 00:00 UTC, towards zero.
    Millis(i64),
    /// `infinity` or `-infinity`.
    Infinite,
}

/// Reads `timestamp` and `timestamptz` in ISO style: `2019-03-24 20:52:59.123456`, with an offset or ` BC` behind it.
pub(crate) fn timestamp(text: &[u8]) -> Option<PointInTime> {
    let text = std::str::from_utf8(text).ok()?;
    if matches!(text, "infinity" | "-infinity") {
        return Some(PointInTime::Infinite);
    }
    let (text, is_before_christ) = text.strip_suffix(" BC").map_or((text, false), |text| (text, true));
    let (date, time) = text.split_once(' ')?;
    let (time, offset_seconds) = match time.find(['+', '-']) {
        Some(at) => (time.get(..at)?, offset(time.get(at..)?)?),
        None => (time, 0),
    };
    let seconds = days(date, is_before_christ)? * 86_400 - offset_seconds;
    // The last years that PostgreSQL knows are too far from 1970 for microseconds in 64 bits.
    let micros = i128::from(seconds) * 1_000_000 + i128::from(micros_of_day(time)?);
    i64::try_from(micros / 1000).ok().map(PointInTime::Millis)
}

/// `+02`, `-03:30` or `+00:19:32`, in seconds.
fn offset(text: &str) -> Option<i64> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let mut parts = text.get(1..)?.split(':');
    let mut next = || parts.next().map_or(Some(0), digits);
    Some(sign * (next()? * 3600 + next()? * 60 + next()?))
}

/// Days from 1970-01-01 to a date of the proleptic Gregorian calendar.
///
/// Counted in eras of 400 years that begin in March, so that the leap day is the last of its year.
fn days(date: &str, is_before_christ: bool) -> Option<i64> {
    let mut parts = date.split('-').map(digits);
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if parts.next().is_some() || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = if is_before_christ { 1 - year } else { year };
    let (year, month_from_march) = if month <= 2 { (year - 1, month + 9) } else { (year, month - 3) };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * month_from_march + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    Some(era * 146_097 + day_of_era - 719_468)
}

/// `20:52:59` with up to six digits of a fraction.
fn micros_of_day(time: &str) -> Option<i64> {
    let (clock, fraction) = time.split_once('.').unwrap_or((time, "0"));
    let mut parts = clock.split(':').map(digits);
    let seconds = parts.next()?? * 3600 + parts.next()?? * 60 + parts.next()??;
    let scale = u32::try_from(fraction.len()).ok().and_then(|length| 6_u32.checked_sub(length))?;
    let micros = digits(fraction)? * 10_i64.pow(scale);
    if parts.next().is_some() { None } else { Some(seconds * 1_000_000 + micros) }
}

/// A number of decimal digits alone, few enough that no sum here can overflow.
fn digits(text: &str) -> Option<i64> {
    let is_number = !text.is_empty() && text.len() <= 7 && text.bytes().all(|digit| digit.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::PointInTime::{Infinite, Millis};
    use super::*;

    #[test]
    fn timestamps_are_read_to_the_millisecond_towards_zero() {
        let cases = [
            ("2019-03-24 20:52:59.123456", Some(Millis(1_553_460_779_123))),
            ("2019-03-24 20:52:59.123", Some(Millis(1_553_460_779_123))),
            ("2019-03-24 20:52:59", Some(Millis(1_553_460_779_000))),
            ("2019-03-24 20:52:59+00", Some(Millis(1_553_460_779_000))),
            ("2019-03-24 22:52:59.5+02", Some(Millis(1_553_460_779_500))),
            ("2019-03-24 17:22:59-03:30", Some(Millis(1_553_460_779_000))),
            ("2019-03-24 21:12:31+00:19:32", Some(Millis(1_553_460_779_000))),
            ("1970-01-01 00:00:00", Some(Millis(0))),
            ("1969-12-31 23:59:59.9995", Some(Millis(0))),
            ("1969-12-31 23:59:59.999", Some(Millis(-1))),
            ("1969-12-31 23:59:59.5", Some(Millis(-500))),
            ("9999-12-31 23:59:59.999999", Some(Millis(253_402_300_799_999))),
            ("294276-12-31 23:59:59.999999", Some(Millis(9_224_318_015_999_999))),
            ("0001-01-01 00:00:00", Some(Millis(-62_135_596_800_000))),
            ("0001-12-31 00:00:00 BC", Some(Millis(-62_135_683_200_000))),
            ("4713-01-01 00:00:00+00 BC", Some(Millis(-210_863_520_000_000))),
            ("2000-02-29 12:00:00", Some(Millis(951_825_600_000))),
            ("infinity", Some(Infinite)),
            ("-infinity", Some(Infinite)),
        ];
        for (text, expected) in cases {
            assert_eq!(timestamp(text.as_bytes()), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_timestamp_is_none() {
        let cases = [
            "",
            "2019",
            "2019-03-24",
            "2019-03-24 20:52",
            "2019-13-24 00:00:00",
            "2019-03-24 20:52:59.1234567",
            "x y",
            "2019-03-24 20:52:59.",
            "2019-03-24 20:52:59+",
            "2019-03-24-1 20:52:59",
            "99999999-01-01 00:00:00",
            "- :",
        ];
        for text in cases {
            assert_eq!(timestamp(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn bytea_is_read_in_hex_and_in_nothing_else() {
        assert_eq!(bytea(b"\\x"), Some(vec![]));
        assert_eq!(bytea(b"\\x00fFde"), Some(vec![0x00, 0xFF, 0xDE]));
        for text in [&b""[..], b"00", b"\\x0", b"\\x0g", b"abc\\000"] {
            assert_eq!(bytea(text), None, "{text:?}");
        }
    }

    #[test]
    fn types_beyond_the_built_in_range_are_text() {
        assert_eq!(Kind::of(16383), Kind::Other);
        assert_eq!(Kind::of(16384), Kind::Text);
        assert_eq!(Kind::of(u32::MAX), Kind::Text);
        assert_eq!(Kind::of(1700), Kind::Other);
    }
}
