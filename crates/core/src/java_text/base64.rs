//! Base64 with padding (RFC 4648, sections 4 and 5).

const STANDARD: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const URL_SAFE: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// Appends what `Base64.getEncoder()` writes.
pub(crate) fn base64(out: &mut Vec<u8>, bytes: &[u8]) {
    encode(out, bytes, STANDARD);
}

/// Appends what `Base64.getUrlEncoder()` writes.
pub(crate) fn base64_url(out: &mut Vec<u8>, bytes: &[u8]) {
    encode(out, bytes, URL_SAFE);
}

fn encode(out: &mut Vec<u8>, bytes: &[u8], alphabet: &[u8; 64]) {
    let letter = |bits: u8| alphabet.get(usize::from(bits & 63)).copied().unwrap_or(b'=');
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

#[cfg(test)]
mod tests {
    use super::{base64, base64_url};

    #[test]
    fn base64_is_that_of_the_standard() {
        let cases: [(&[u8], &str); 10] = [
            (b"", ""),
            (b"f", "Zg=="),
            (b"fo", "Zm8="),
            (b"foo", "Zm9v"),
            (b"foob", "Zm9vYg=="),
            (b"foobar", "Zm9vYmFy"),
            (&[0xDE, 0xAD, 0xBE, 0xEF], "3q2+7w=="),
            (&[1, 2], "AQI="),
            (&[0xFF, 0xFF, 0xFF], "////"),
            (&[0xFB, 0xFF], "+/8="),
        ];
        for (bytes, expected) in cases {
            let (mut standard, mut url_safe) = (Vec::new(), Vec::new());
            base64(&mut standard, bytes);
            base64_url(&mut url_safe, bytes);
            assert_eq!(String::from_utf8(standard).unwrap(), expected, "{bytes:?}");
            let expected = expected.replace('+', "-").replace('/', "_");
            assert_eq!(String::from_utf8(url_safe).unwrap(), expected, "{bytes:?}");
        }
    }
}
