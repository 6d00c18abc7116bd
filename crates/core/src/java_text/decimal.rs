//! Decimals, as `BigDecimal.toString` writes them and as `BigInteger.toByteArray` gives their digits.

use num_bigint::Sign;

use crate::connect::Decimal;

/// Appends what `BigDecimal.toString` returns: plain digits while nothing but digits stands after the point and no more than
/// six places of zeros lead, scientific elsewhere (`1E-10`, `1.23E+5`).
pub(crate) fn decimal_text(out: &mut Vec<u8>, decimal: &Decimal) {
    if decimal.unscaled.sign() == Sign::Minus {
        out.push(b'-');
    }
    let digits = decimal.unscaled.magnitude().to_string();
    let count = i64::try_from(digits.len()).unwrap_or(i64::MAX);
    let exponent = count - 1 - i64::from(decimal.scale);
    if decimal.scale >= 0 && exponent >= -6 {
        return plain(out, &digits, decimal.scale);
    }
    let (first, rest) = digits.split_at(1);
    out.extend_from_slice(first.as_bytes());
    if !rest.is_empty() {
        out.push(b'.');
        out.extend_from_slice(rest.as_bytes());
    }
    if exponent != 0 {
        out.extend_from_slice(format!("E{exponent:+}").as_bytes());
    }
}

/// Appends what `BigDecimal.toPlainString` returns of a decimal whose scale is not negative.
pub(crate) fn plain_text(out: &mut Vec<u8>, decimal: &Decimal) {
    if decimal.unscaled.sign() == Sign::Minus {
        out.push(b'-');
    }
    plain(out, &decimal.unscaled.magnitude().to_string(), decimal.scale);
}

/// Digits of which the last `scale` stand after the point. (A format pads no further than 65535.)
fn plain(out: &mut Vec<u8>, digits: &str, scale: i32) {
    let scale = usize::try_from(scale).unwrap_or(0);
    let zeros = (scale + 1).saturating_sub(digits.len());
    let (before, behind) = digits.split_at(digits.len().saturating_sub(scale));
    out.extend_from_slice(before.as_bytes());
    if scale == 0 {
        return;
    }
    if before.is_empty() {
        out.push(b'0');
    }
    out.push(b'.');
    out.resize(out.len() + zeros.saturating_sub(1), b'0');
    out.extend_from_slice(behind.as_bytes());
}

/// The unscaled value in two's complement, big end first, in as few bytes as hold its sign.
pub(crate) fn unscaled_bytes(decimal: &Decimal) -> Vec<u8> {
    decimal.unscaled.to_signed_bytes_be()
}

#[cfg(test)]
mod tests {
    use num_bigint::BigInt;

    use super::{decimal_text, plain_text, unscaled_bytes};
    use crate::connect::Decimal;

    fn decimal(unscaled: &str, scale: i32) -> Decimal {
        Decimal { unscaled: unscaled.parse().unwrap(), scale }
    }

    #[test]
    fn plain_digits_have_all_their_zeros() {
        let cases = [
            ("0", 0, "0"),
            ("0", 2, "0.00"),
            ("-5", 0, "-5"),
            ("-5", 1, "-0.5"),
            ("5", 3, "0.005"),
            ("1234", 2, "12.34"),
        ];
        for (unscaled, scale, expected) in cases {
            let mut out = Vec::new();
            plain_text(&mut out, &decimal(unscaled, scale));
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
        let mut out = Vec::new();
        plain_text(&mut out, &decimal("1", 70_000));
        assert_eq!(String::from_utf8(out).unwrap(), format!("0.{}1", "0".repeat(69_999)));
    }

    #[test]
    fn a_decimal_is_written_as_java_writes_it() {
        let cases = [
            (("0", 0), "0"),
            (("0", 3), "0.000"),
            (("0", 6), "0.000000"),
            (("0", 7), "0E-7"),
            (("0", 20), "0E-20"),
            (("0", -2), "0E+2"),
            (("1230", 2), "12.30"),
            (("-5", 2), "-0.05"),
            (("99999999999999999999", 0), "99999999999999999999"),
            (("1", 6), "0.000001"),
            (("1", 7), "1E-7"),
            (("123", 9), "1.23E-7"),
            (("123", 8), "0.00000123"),
            (("10000000000", 20), "1.0000000000E-10"),
            (("-10000000000", 20), "-1.0000000000E-10"),
            (("123", -3), "1.23E+5"),
            (("1", -3), "1E+3"),
            (("1", i32::MAX), "1E-2147483647"),
            (("12", i32::MIN), "1.2E+2147483649"),
        ];
        for ((unscaled, scale), expected) in cases {
            let mut out = Vec::new();
            decimal_text(&mut out, &decimal(unscaled, scale));
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }

    #[test]
    fn an_unscaled_value_takes_as_few_bytes_as_hold_its_sign() {
        let cases: [(i64, &[u8]); 8] = [
            (0, &[0]),
            (127, &[0x7F]),
            (128, &[0, 0x80]),
            (-1, &[0xFF]),
            (-128, &[0x80]),
            (-129, &[0xFF, 0x7F]),
            (1230, &[0x04, 0xCE]),
            (123_400, &[0x01, 0xE2, 0x08]),
        ];
        for (unscaled, expected) in cases {
            let decimal = Decimal { unscaled: BigInt::from(unscaled), scale: 2 };
            assert_eq!(unscaled_bytes(&decimal), expected, "{unscaled}");
        }
    }
}
