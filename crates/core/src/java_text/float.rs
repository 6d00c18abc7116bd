//! Floating point, as `Double.toString` and `Float.toString` write it since JDK 19: the fewest digits that give the same number
//! again, of these the nearest to it, and never fewer than two. (JDK 18 and earlier write a digit too many for some numbers,
//! `2.0E-3` for `0.002` among them; the difference is Java's.)
//!
//! Digits stand as `123.45` from 10^-3 up to 10^7, and as `1.2345E10` elsewhere.

/// Appends what `Double.toString` returns.
pub(crate) fn double_text(out: &mut Vec<u8>, value: f64) {
    match word(value) {
        Some(word) => out.extend_from_slice(word),
        None => lay_out(out, &shortest(value, |text| text.parse() == Ok(value))),
    }
}

/// Appends what `Float.toString` returns.
pub(crate) fn float_text(out: &mut Vec<u8>, value: f32) {
    match word(f64::from(value)) {
        Some(word) => out.extend_from_slice(word),
        None => lay_out(out, &shortest(value, |text| text.parse() == Ok(value))),
    }
}

const fn word(value: f64) -> Option<&'static [u8]> {
    match value {
        f64::INFINITY => Some(b"Infinity"),
        f64::NEG_INFINITY => Some(b"-Infinity"),
        _ if value.is_nan() => Some(b"NaN"),
        _ => None,
    }
}

/// The digits in Rust's scientific form, `-1.25e-7`. How many it takes Rust knows too; but of two numbers equally near Java
/// takes the even one, and one of two digits rather than one (`4.9E-324`, where `5E-324` would do).
fn shortest(value: impl std::fmt::LowerExp, is_same: impl Fn(&str) -> bool) -> String {
    let text = format!("{value:e}");
    let behind_point =
        text.split_once('e').and_then(|(mantissa, _)| mantissa.split_once('.')).map_or(1, |(_, digits)| digits.len());
    let nearest = format!("{value:.behind_point$e}");
    if is_same(&nearest) { nearest } else { text }
}

/// Lays scientific digits out as Java does.
fn lay_out(out: &mut Vec<u8>, scientific: &str) {
    let (mantissa, exponent) = scientific.split_once('e').unwrap_or((scientific, "0"));
    let mantissa = mantissa.strip_prefix('-').inspect(|_| out.push(b'-')).unwrap_or(mantissa);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let or_zero = |digits: &str| if digits.is_empty() { "0".to_owned() } else { digits.to_owned() };
    match exponent {
        0..=6 => {
            let digits = format!("{fraction:0<width$}", width = usize::try_from(exponent).unwrap_or(0));
            let (before, behind) = digits.split_at(usize::try_from(exponent).unwrap_or(0));
            let behind = or_zero(behind);
            extend(out, &[whole, before, ".", &behind]);
        }
        -3..0 => {
            let zeros = "0".repeat(usize::try_from(-exponent - 1).unwrap_or(0));
            extend(out, &["0.", &zeros, whole, if fraction == "0" { "" } else { fraction }]);
        }
        _ => extend(out, &[whole, ".", fraction, "E", &exponent.to_string()]),
    }
}

fn extend(out: &mut Vec<u8>, parts: &[&str]) {
    for part in parts {
        out.extend_from_slice(part.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::{double_text, float_text};

    fn double(value: f64) -> String {
        let mut out = Vec::new();
        double_text(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    fn float(value: f32) -> String {
        let mut out = Vec::new();
        float_text(&mut out, value);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn a_double_is_written_as_java_writes_it() {
        let cases = [
            (0.0, "0.0"),
            (-0.0, "-0.0"),
            (1.0, "1.0"),
            (-1.5, "-1.5"),
            (0.1, "0.1"),
            (100.0, "100.0"),
            (120.0, "120.0"),
            (123.456, "123.456"),
            (1234567.0, "1234567.0"),
            (1234567.5, "1234567.5"),
            (9_999_999.0, "9999999.0"),
            (1e6, "1000000.0"),
            (1e7, "1.0E7"),
            (12_345_678.0, "1.2345678E7"),
            (123_456_789.125, "1.23456789125E8"),
            (0.001, "0.001"),
            (0.002, "0.002"),
            (0.012, "0.012"),
            (0.0012, "0.0012"),
            (0.001_234_5, "0.0012345"),
            (0.000_999_9, "9.999E-4"),
            (0.0001, "1.0E-4"),
            (1e15, "1.0E15"),
            (1e23, "1.0E23"),
            (2e23, "2.0E23"),
            (f64::INFINITY, "Infinity"),
            (f64::NEG_INFINITY, "-Infinity"),
            (f64::NAN, "NaN"),
            (4.9e-324, "4.9E-324"),
            (1e-323, "9.9E-324"),
            ((-25.0_f64).exp2(), "2.9802322387695312E-8"),
            (f64::MAX, "1.7976931348623157E308"),
            (f64::MIN_POSITIVE, "2.2250738585072014E-308"),
            (1_234_567_890.123_456_7, "1.2345678901234567E9"),
            (9_007_199_254_740_993.0, "9.007199254740992E15"),
        ];
        for (value, expected) in cases {
            assert_eq!(double(value), expected);
        }
    }

    #[test]
    fn a_float_is_written_as_java_writes_it() {
        let cases = [
            (0.1, "0.1"),
            (1.5, "1.5"),
            (-0.0, "-0.0"),
            (3.4028235e38, "3.4028235E38"),
            (1.4e-45, "1.4E-45"),
            (1e10, "1.0E10"),
            (16_777_216.0, "1.6777216E7"),
            (170_546.0 + 0.125, "170546.12"),
            (357_359.0 + 0.625, "357359.62"),
            (f32::NAN, "NaN"),
            (f32::NEG_INFINITY, "-Infinity"),
        ];
        for (value, expected) in cases {
            assert_eq!(float(value), expected);
        }
    }
}
