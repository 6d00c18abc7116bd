//! Strings in JSON, as Jackson writes them.

/// Appends a string as Jackson's generator of UTF-8 writes it: `"`, `\` and controls escaped, `/` and U+007F as they are, and a
/// character beyond the basic plane as an escaped pair of surrogates, in capitals.
///
/// A surrogate without its other half, which Java's strings can hold and the escapes of a JSON document can name, comes here in
/// the three bytes that UTF-8 would have for it, and leaves as an escape again.
pub(crate) fn json_string(out: &mut Vec<u8>, text: &[u8]) {
    quoted(out, text, is_plain);
}

/// Appends a string as Jackson's generator of characters writes it, whose result is a string again: a character beyond the basic
/// plane stays as it is.
pub(crate) fn json_chars(out: &mut Vec<u8>, text: &str) {
    quoted(out, text.as_bytes(), |byte| !byte.is_ascii() || is_plain(byte));
}

fn quoted(out: &mut Vec<u8>, text: &[u8], is_plain: impl Fn(u8) -> bool) {
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

    use super::{json_chars, json_string};

    fn written(text: &[u8]) -> String {
        let mut out = Vec::new();
        json_string(&mut out, text);
        String::from_utf8(out).unwrap()
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
            assert_eq!(written(text), expected, "{text:?}");
        }
    }

    #[test]
    fn a_string_of_characters_is_escaped_the_same_but_beyond_the_basic_plane() {
        let cases =
            [("a\"b\\c/d\u{B}\u{7F}é\u{2028}", "\"a\\\"b\\\\c/d\\u000B\u{7F}é\u{2028}\""), ("😀\n", "\"😀\\n\"")];
        for (text, expected) in cases {
            let mut out = Vec::new();
            json_chars(&mut out, text);
            assert_eq!(String::from_utf8(out).unwrap(), expected, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn bytes_that_are_no_text_are_no_trouble(bytes in proptest::collection::vec(any::<u8>(), 0..16)) {
            let mut out = Vec::new();
            json_string(&mut out, &bytes);
            prop_assert!(out.len() >= bytes.len() + 2);
        }
    }
}
