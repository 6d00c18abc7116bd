//! What more than one converter writes: digits, Base64, and strings in JSON.

/// Appends an integer.
pub(super) fn integer(out: &mut Vec<u8>, value: i64) {
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

/// Appends standard Base64 with padding (RFC 4648, section 4).
pub(super) fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let letter = |bits: u8| ALPHABET.get(usize::from(bits & 63)).copied().unwrap_or(b'=');
    out.reserve(bytes.len().div_ceil(3) * 4);
    let (triples, rest) = bytes.as_chunks::<3>();
    for &[a, b, c] in triples {
        out.extend_from_slice(&[letter(a >> 2), letter(a << 4 | b >> 4), letter(b << 2 | c >> 6), letter(c)]);
    }
    match *rest {
        [a] => out.extend_from_slice(&[letter(a >> 2), letter(a << 4), b'=', b'=']),
        [a, b] => out.extend_from_slice(&[letter(a >> 2), letter(a << 4 | b >> 4), letter(b << 2), b'=']),
        _ => {}
    }
}

/// Appends a string as Jackson's generator of UTF-8 writes it: `"`, `\` and controls escaped, `/` and U+007F as they are, and a
/// character beyond the basic plane as an escaped pair of surrogates, in capitals.
///
/// A surrogate without its other half, which Java's strings can hold and the escapes of a JSON document can name, comes here in
/// the three bytes that UTF-8 would have for it, and leaves as an escape again.
pub(crate) fn json_string(out: &mut Vec<u8>, text: &[u8]) {
    out.reserve(text.len() + 2);
    out.push(b'"');
    let mut rest = text;
    while let Some(plain) = rest.iter().position(|&byte| !is_plain(byte)) {
        let (before, odd) = rest.split_at(plain);
        out.extend_from_slice(before);
        rest = odd.get(escape(out, odd)..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}

/// Whether Jackson writes the byte as it is: all of ASCII but controls, `"` and `\`, and characters of two and three bytes, but for
/// surrogates, which begin with 0xED.
const fn is_plain(byte: u8) -> bool {
    !matches!(byte, 0..=0x1F | b'"' | b'\\' | 0xED | 0xF0..)
}

/// Escapes the first character, where that is needed, and returns how many bytes it has.
fn escape(out: &mut Vec<u8>, text: &[u8]) -> usize {
    let bits = |byte: u8| u32::from(byte & 0x3F);
    match *text {
        [0xED, b @ 0xA0..=0xBF, c, ..] => {
            unicode(out, 0xD000 | bits(b) << 6 | bits(c));
            3
        }
        [a @ 0xF0..=0xFF, b, c, d, ..] => {
            let beyond = (u32::from(a & 7) << 18 | bits(b) << 12 | bits(c) << 6 | bits(d)).saturating_sub(0x1_0000);
            unicode(out, 0xD800 | beyond >> 10 & 0x3FF);
            unicode(out, 0xDC00 | beyond & 0x3FF);
            4
        }
        [byte, ..] => {
            match byte {
                b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
                0x08 => out.extend_from_slice(br"\b"),
                b'\t' => out.extend_from_slice(br"\t"),
                b'\n' => out.extend_from_slice(br"\n"),
                0x0C => out.extend_from_slice(br"\f"),
                b'\r' => out.extend_from_slice(br"\r"),
                0..=0x1F => unicode(out, u32::from(byte)),
                _ => out.push(byte),
            }
            1
        }
        [] => 0,
    }
}

fn unicode(out: &mut Vec<u8>, unit: u32) {
    let digit = |shift: u32| {
        let nibble = u8::try_from(unit >> shift & 0xF).unwrap_or(0);
        if nibble < 10 { b'0' + nibble } else { b'A' + nibble - 10 }
    };
    out.extend_from_slice(&[b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{base64, integer, json_string};

    fn written(write: impl FnOnce(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        write(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn base64_is_that_of_the_standard() {
        let cases: [(&[u8], &str); 9] = [
            (b"", ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"foobar", "Zm9vYmFy"),
            (&[0xDE, 0xAD, 0xBE, 0xEF], "3q2+7w=="),
            (&[1, 2], "AQI="),
            (&[0xFF, 0xFF, 0xFF], "////"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(written(|out| base64(out, bytes)), expected, "{bytes:?}");
        }
    }

    #[test]
    fn a_string_is_escaped_as_jackson_escapes_it() {
        let cases: [(&[u8], &str); 9] = [
            (b"", r#""""#),
            (b"just text", r#""just text""#),
            (b"a\"b\\c/d", r#""a\"b\\c/d""#),
            (b"\x08\t\n\x0C\r\0\x01\x0B\x1F\x7F", "\"\\b\\t\\n\\f\\r\\u0000\\u0001\\u000B\\u001F\x7F\""),
            ("é\u{2028}€\u{D7FF}\u{E000}\u{FFFF}".as_bytes(), "\"é\u{2028}€\u{D7FF}\u{E000}\u{FFFF}\""),
            ("😀!".as_bytes(), r#""\uD83D\uDE00!""#),
            ("\u{10000}\u{10FFFF}".as_bytes(), r#""\uD800\uDC00\uDBFF\uDFFF""#),
            (b"\xED\xA0\x80x", r#""\uD800x""#),
            (b"\xED\xBF\xBF", r#""\uDFFF""#),
        ];
        for (text, expected) in cases {
            assert_eq!(written(|out| json_string(out, text)), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn every_integer_has_its_digits(value in any::<i64>()) {
            prop_assert_eq!(written(|out| integer(out, value)), value.to_string());
        }

        #[test]
        fn bytes_that_are_no_text_are_no_trouble(bytes in proptest::collection::vec(any::<u8>(), 0..16)) {
            let mut out = Vec::new();
            json_string(&mut out, &bytes);
            prop_assert!(out.len() >= bytes.len() + 2);
        }
    }

    #[test]
    fn the_ends_of_the_integers_have_their_digits() {
        for value in [0, 9, 10, -1, i64::MIN, i64::MAX] {
            assert_eq!(written(|out| integer(out, value)), value.to_string());
        }
    }
}
