//! How Java and the libraries beside it write numbers, dates, bytes and strings as text.
//!
//! Columns that Debezium reads into text and converters that write text lean on the same few forms; each is here once. None of them
//! knows a schema.

mod base64;
mod date;
mod decimal;
mod float;
mod json;

pub(crate) use base64::{base64, base64_url};
pub(crate) use date::{date_text, iso_text};
pub(crate) use decimal::{decimal_text, plain_text, unscaled_bytes};
pub(crate) use float::{double_text, float_text};
pub(crate) use json::{json_chars, json_string};

/// Appends an integer.
pub(crate) fn integer(out: &mut Vec<u8>, value: i64) {
    const LONGEST: usize = "-9223372036854775808".len();
    let mut digits = [0; LONGEST];
    let mut rest = value.unsigned_abs();
    let mut length = 0;
    for place in digits.iter_mut().rev() {
        *place = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        length += 1;
        if rest == 0 {
            break;
        }
    }
    if value < 0 {
        out.push(b'-');
    }
    out.extend_from_slice(digits.get(LONGEST - length..).unwrap_or_default());
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::integer;

    fn digits(value: i64) -> String {
        let mut out = Vec::new();
        integer(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    proptest! {
        #[test]
        fn every_integer_has_its_digits(value in any::<i64>()) {
            prop_assert_eq!(digits(value), value.to_string());
        }
    }

    #[test]
    fn the_ends_of_the_integers_have_their_digits() {
        for value in [0, 9, 10, -1, i64::MIN, i64::MAX] {
            assert_eq!(digits(value), value.to_string());
        }
    }
}
