//! Bytes as text that any database takes and that comes back exactly.
//!
//! What pgoutput sends is the database's own text in UTF-8; but a database in SQL_ASCII holds whatever bytes it was given, and a topic or a
//! reason may have characters that a database in another encoding has no place for. A letter that could not be written for such a reason would
//! hold the stream for good. So a backslash is doubled, and a byte that the text cannot hold is written as `\xHH`: nearly every text stands
//! there as it is, and none is mistaken for another.

use std::fmt::Write;

/// Which characters a database takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Repertoire {
    /// All of Unicode but NUL.
    Unicode,
    /// Of the others some, and which is the server's affair: those of ASCII alone are safe.
    Ascii,
}

impl Repertoire {
    /// By the database's `server_encoding`.
    pub(super) fn of(server_encoding: &str) -> Self {
        if server_encoding == "UTF8" { Self::Unicode } else { Self::Ascii }
    }
}

/// Writes bytes as text.
pub(super) fn write(bytes: &[u8], repertoire: Repertoire) -> String {
    let mut text = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\\' => text.push_str("\\\\"),
                '\0' => escape(&mut text, &[0]),
                other if other.is_ascii() || repertoire == Repertoire::Unicode => text.push(other),
                other => escape(&mut text, other.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        escape(&mut text, chunk.invalid());
    }
    text
}

fn escape(text: &mut String, bytes: &[u8]) {
    for byte in bytes {
        // Writing to a `String` cannot fail.
        let _ = write!(text, "\\x{byte:02x}");
    }
}

/// Reads what [`write`] wrote; `None` of anything else.
pub(super) fn read(text: &str) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((plain, escaped)) = rest.split_once('\\') {
        bytes.extend_from_slice(plain.as_bytes());
        rest = match escaped.strip_prefix('\\') {
            Some(behind) => {
                bytes.push(b'\\');
                behind
            }
            None => {
                let digits = escaped.strip_prefix('x')?;
                bytes.push(u8::from_str_radix(digits.get(..2)?, 16).ok()?);
                digits.get(2..)?
            }
        };
    }
    bytes.extend_from_slice(rest.as_bytes());
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_come_back_from_their_text_whatever_they_are() {
        let cases: &[(&[u8], &str, &str)] = &[
            (b"", "", ""),
            (b"order-7", "order-7", "order-7"),
            (b"it's \"quoted\"\n", "it's \"quoted\"\n", "it's \"quoted\"\n"),
            ("größe ✓".as_bytes(), "größe ✓", r"gr\xc3\xb6\xc3\x9fe \xe2\x9c\x93"),
            (br"a\b\x00", r"a\\b\\x00", r"a\\b\\x00"),
            (b"nul\0", r"nul\x00", r"nul\x00"),
            (b"latin \xe4\xff", r"latin \xe4\xff", r"latin \xe4\xff"),
            (b"\xc3", r"\xc3", r"\xc3"),
        ];
        for (bytes, unicode, ascii) in cases {
            for (repertoire, expected) in [(Repertoire::Unicode, unicode), (Repertoire::Ascii, ascii)] {
                let text = write(bytes, repertoire);
                assert_eq!(text, *expected);
                assert_eq!(read(&text).as_deref(), Some(*bytes), "{text}");
            }
        }
    }

    #[test]
    fn what_was_never_written_is_not_read() {
        for text in [r"\", r"a\n", r"\x", r"\x1", r"\xg0", r"\x0ä"] {
            assert_eq!(read(text), None, "{text}");
        }
    }

    #[test]
    fn only_a_database_in_utf8_takes_every_character() {
        for (encoding, repertoire) in
            [("UTF8", Repertoire::Unicode), ("LATIN1", Repertoire::Ascii), ("SQL_ASCII", Repertoire::Ascii)]
        {
            assert_eq!(Repertoire::of(encoding), repertoire);
        }
    }
}
