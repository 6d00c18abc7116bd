//! How to read a column's value from the text that the server sent. What a column holds is told by its [`Kind`].
//!
//! Why it exists: a payload passes byte for byte and needs no reading, but a timestamp, a partition, a key or a header
//! may have to become a number, a truth or raw bytes. Each reader takes exactly the forms that the server writes under
//! the settings of the replication session (`DateStyle=ISO`, `TimeZone=UTC`, either `bytea_output`) and refuses
//! everything else: a value that is read loosely is a value that is altered.
//!
//! What it refuses to do: round, wrap, guess a format, or tell in an error what the value was.
//!
//! # Sources
//!
//! - `bool.c`, `int.c` and `int8.c` (`boolout`, `int4out`, `int8out`) write `t` or `f`, and digits with at most a minus
//!   before them.
//! - "Binary Data Types" in the manual, and `byteaout`, have the two forms of bytea. They cannot be
//!   mistaken for each other: the escape form doubles every backslash, so it never begins with `\x`.
//!
//! Those of the timestamps stand with their readers.

mod datetime;
mod kind;
pub mod oid;

pub(crate) use datetime::{
    Civil, LocalTime, civil_date, civil_of_any_form, civil_timestamp, civil_timestamptz, parse_time, parse_timetz,
};
pub use datetime::{PointInTime, parse_timestamp, parse_timestamptz};
pub use kind::Kind;

/// Text that is not a value of the type that it should be. It tells where it stops making sense, never what it says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// The text is not one that PostgreSQL writes for such a value.
    #[error("the value is not {expected}: its text makes no sense from byte {offset} on")]
    Malformed {
        /// What the value should be.
        expected: &'static str,
        /// How far the text made sense.
        offset: usize,
    },
    /// The value is what it should be, but none that its column's schema can hold, and its column has no null in its place.
    #[error("the value is {expected}, which the schema of its column cannot hold")]
    Unrepresentable {
        /// What the value is.
        expected: &'static str,
    },
    /// The value is what it should be, but too large or too small to be kept.
    #[error("the value is {expected}, but out of the range that can be kept")]
    OutOfRange {
        /// What the value is.
        expected: &'static str,
    },
}

/// Reads a `boolean`.
///
/// # Errors
/// [`ValueError::Malformed`] for anything but `t` and `f`.
pub const fn parse_bool(text: &[u8]) -> Result<bool, ValueError> {
    match text {
        b"t" => Ok(true),
        b"f" => Ok(false),
        _ => Err(ValueError::Malformed { expected: "a boolean (t or f)", offset: 0 }),
    }
}

/// Reads an `integer` or a `smallint`.
///
/// # Errors
/// [`ValueError`], when the text is not a decimal number of 32 bits.
pub fn parse_i32(text: &[u8]) -> Result<i32, ValueError> {
    const EXPECTED: &str = "an integer";
    let wide = integer(text, EXPECTED)?;
    i32::try_from(wide).map_err(|_| ValueError::OutOfRange { expected: EXPECTED })
}

/// Reads a `bigint`, an `integer` or a `smallint`.
///
/// # Errors
/// [`ValueError`], when the text is not a decimal number of 64 bits.
pub fn parse_i64(text: &[u8]) -> Result<i64, ValueError> {
    integer(text, "a bigint")
}

/// Accumulates below zero, where the one number more lies.
fn integer(text: &[u8], expected: &'static str) -> Result<i64, ValueError> {
    let (is_negative, digits) = text.strip_prefix(b"-").map_or((false, text), |digits| (true, digits));
    let sign_length = text.len() - digits.len();
    if digits.is_empty() {
        return Err(ValueError::Malformed { expected, offset: sign_length });
    }
    if let Some(odd) = digits.iter().position(|byte| !byte.is_ascii_digit()) {
        return Err(ValueError::Malformed { expected, offset: sign_length + odd });
    }
    digits
        .iter()
        .try_fold(0_i64, |sum, digit| sum.checked_mul(10)?.checked_sub(i64::from(digit - b'0')))
        .and_then(|negated| if is_negative { Some(negated) } else { negated.checked_neg() })
        .ok_or(ValueError::OutOfRange { expected })
}

/// Reads a `bytea`, in the form of either `bytea_output`.
///
/// # Errors
/// [`ValueError::Malformed`], when the text is neither.
pub fn parse_bytea(text: &[u8]) -> Result<Vec<u8>, ValueError> {
    match text.strip_prefix(br"\x") {
        Some(digits) => from_hex(digits).map_err(|odd| malformed_bytea(odd + 2)),
        None => from_escapes(text).map_err(malformed_bytea),
    }
}

const fn malformed_bytea(offset: usize) -> ValueError {
    ValueError::Malformed { expected: "a bytea", offset }
}

/// The error is the offset of the pair that is none.
fn from_hex(digits: &[u8]) -> Result<Vec<u8>, usize> {
    let (pairs, left) = digits.as_chunks::<2>();
    if !left.is_empty() {
        return Err(digits.len() - left.len());
    }
    let nibble = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    };
    let byte = |&[high, low]: &[u8; 2]| Some((nibble(high)? << 4) | nibble(low)?);
    pairs.iter().enumerate().map(|(index, pair)| byte(pair).ok_or(index * 2)).collect()
}

/// The error is the offset of the backslash that introduces nothing.
fn from_escapes(text: &[u8]) -> Result<Vec<u8>, usize> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, behind)) = rest.split_first() {
        let byte;
        (rest, byte) = match (first, behind) {
            (b'\\', [b'\\', behind @ ..]) => (behind, b'\\'),
            (b'\\', [a @ b'0'..=b'3', b @ b'0'..=b'7', c @ b'0'..=b'7', behind @ ..]) => {
                (behind, ((a - b'0') << 6) | ((b - b'0') << 3) | (c - b'0'))
            }
            (b'\\', _) => return Err(text.len() - rest.len()),
            _ => (behind, first),
        };
        bytes.push(byte);
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_boolean_is_t_or_f_and_nothing_else() {
        assert_eq!(parse_bool(b"t"), Ok(true));
        assert_eq!(parse_bool(b"f"), Ok(false));
        for text in ["", "true", "T", "1", "t ", " f", "\0"] {
            assert!(parse_bool(text.as_bytes()).is_err(), "{text:?}");
        }
    }

    type Read<T> = Result<T, ValueError>;

    #[test]
    fn an_integer_outside_of_its_range_is_told_apart_from_what_is_none() {
        let malformed = |expected, offset| ValueError::Malformed { expected, offset };
        let out_of_range = |expected| ValueError::OutOfRange { expected };
        let cases: [(&str, Read<i32>, Read<i64>); 14] = [
            ("0", Ok(0), Ok(0)),
            ("-0", Ok(0), Ok(0)),
            ("007", Ok(7), Ok(7)),
            ("-2147483648", Ok(i32::MIN), Ok(i64::from(i32::MIN))),
            ("2147483647", Ok(i32::MAX), Ok(i64::from(i32::MAX))),
            ("2147483648", Err(out_of_range("an integer")), Ok(2_147_483_648)),
            ("9223372036854775807", Err(out_of_range("an integer")), Ok(i64::MAX)),
            ("-9223372036854775808", Err(out_of_range("an integer")), Ok(i64::MIN)),
            ("9223372036854775808", Err(out_of_range("an integer")), Err(out_of_range("a bigint"))),
            ("-99999999999999999999", Err(out_of_range("an integer")), Err(out_of_range("a bigint"))),
            ("", Err(malformed("an integer", 0)), Err(malformed("a bigint", 0))),
            ("-", Err(malformed("an integer", 1)), Err(malformed("a bigint", 1))),
            ("+1", Err(malformed("an integer", 0)), Err(malformed("a bigint", 0))),
            ("-1.5", Err(malformed("an integer", 2)), Err(malformed("a bigint", 2))),
        ];
        for (text, narrow, wide) in cases {
            assert_eq!((parse_i32(text.as_bytes()), parse_i64(text.as_bytes())), (narrow, wide), "{text:?}");
        }
    }

    #[test]
    fn a_bytea_is_read_in_either_form_of_output() {
        let cases: [(&str, &[u8]); 9] = [
            (r"\x", b""),
            ("", b""),
            (r"\xdeadBEEF00", b"\xDE\xAD\xBE\xEF\0"),
            (r"\x7b7d", b"{}"),
            ("{}", b"{}"),
            (r"\\x41", br"\x41"),
            (r"a\000b\377\\", b"a\0b\xFF\\"),
            (r"\1011", b"A1"),
            ("x41", b"x41"),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_bytea(text.as_bytes()).as_deref(), Ok(bytes), "{text:?}");
        }
    }

    #[test]
    fn a_bytea_that_makes_no_sense_is_refused_where_it_stops_making_sense() {
        let cases = [
            (r"\x4", 2),
            (r"\x414", 4),
            (r"\x4g", 2),
            (r"\x41 423", 4),
            (r"ab\", 2),
            (r"ab\4", 2),
            (r"\400", 0),
            (r"\18a", 0),
        ];
        for (text, offset) in cases {
            let expected = Err(ValueError::Malformed { expected: "a bytea", offset });
            assert_eq!(parse_bytea(text.as_bytes()), expected, "{text:?}");
        }
    }

    #[test]
    fn a_refusal_does_not_tell_the_value() {
        let error = parse_i64(b"12secret").unwrap_err();
        assert_eq!(error.to_string(), "the value is not a bigint: its text makes no sense from byte 2 on");
        let error = parse_i32(b"4294967296").unwrap_err();
        assert_eq!(error.to_string(), "the value is an integer, but out of the range that can be kept");
    }

    /// As `byteaout` writes them.
    fn hex_and_escape_form(bytes: &[u8]) -> (String, String) {
        let hex = bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let escape = |byte: &u8| match byte {
            b'\\' => r"\\".to_owned(),
            b' '..=b'~' => char::from(*byte).to_string(),
            _ => format!("\\{byte:03o}"),
        };
        (format!(r"\x{hex}"), bytes.iter().map(escape).collect())
    }

    proptest! {
        #[test]
        fn every_integer_is_read_as_it_is_written(narrow in any::<i32>(), wide in any::<i64>()) {
            prop_assert_eq!(parse_i32(narrow.to_string().as_bytes()), Ok(narrow));
            prop_assert_eq!(parse_i64(wide.to_string().as_bytes()), Ok(wide));
        }

        #[test]
        fn every_bytea_is_read_as_it_is_written(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let (hex, escape) = hex_and_escape_form(&bytes);
            prop_assert_eq!(parse_bytea(hex.as_bytes()), Ok(bytes.clone()));
            prop_assert_eq!(parse_bytea(escape.as_bytes()), Ok(bytes));
        }

        #[test]
        fn reading_never_panics(text in proptest::collection::vec(prop_oneof![any::<u8>(), (b'0'..=b'9')], 0..40)) {
            let _ = (parse_bool(&text), parse_i32(&text), parse_i64(&text), parse_bytea(&text));
            let _ = (parse_timestamp(&text), parse_timestamptz(&text));
        }
    }
}
