//! The format of `java.util.Properties`, in which workers, standalone connectors and Debezium Server are configured.
//!
//! It goes by the manual of `Properties.load`: a logical line may go on over several when it ends with an odd number of backslashes; the
//! name ends at the first `=`, `:` or blank that is not escaped; `#` and `!` begin a comment. As there, no line is ever wrong, but for an
//! escape `\u` without four digits.

/// The pairs in the order of the file.
///
/// # Errors
/// What cannot be read, with its line.
pub(super) fn parse(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut pairs = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let line = line.trim_start_matches(BLANK);
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = line.to_owned();
        while goes_on(&logical) {
            logical.pop();
            match lines.next() {
                Some((_, next)) => logical.push_str(next.trim_start_matches(BLANK)),
                None => break,
            }
        }
        let (name, value) = split(&logical);
        let read = |part: &str| unescape(part).ok_or_else(|| format!("line {}: `\\u` needs four digits", index + 1));
        pairs.push((read(name)?, read(value)?));
    }
    Ok(pairs)
}

const BLANK: [char; 3] = [' ', '\t', '\u{c}'];

fn goes_on(line: &str) -> bool {
    let backslashes = line.bytes().rev().take_while(|byte| *byte == b'\\').count();
    backslashes % 2 == 1
}

/// Name and value, both still escaped.
fn split(line: &str) -> (&str, &str) {
    let mut is_escaped = false;
    let end = line.char_indices().find(|(_, ch)| {
        let ends = !is_escaped && (BLANK.contains(ch) || matches!(ch, '=' | ':'));
        is_escaped = !is_escaped && *ch == '\\';
        ends
    });
    let Some((end, _)) = end else { return (line, "") };
    let (name, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(BLANK);
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (name, rest.trim_start_matches(BLANK))
}

fn unescape(text: &str) -> Option<String> {
    let mut units: Vec<u16> = Vec::with_capacity(text.len());
    let mut chars = text.chars();
    let mut buffer = [0; 2];
    while let Some(ch) = chars.next() {
        let plain = match ch {
            '\\' => match chars.next() {
                Some('u') => {
                    let digits: String = chars.by_ref().take(4).collect();
                    let is_hex = digits.len() == 4 && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                    units.push(is_hex.then(|| u16::from_str_radix(&digits, 16).ok()).flatten()?);
                    continue;
                }
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                Some('f') => '\u{c}',
                Some(other) => other,
                None => break,
            },
            other => other,
        };
        units.extend_from_slice(plain.encode_utf16(&mut buffer));
    }
    Some(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn pairs_are_read_as_java_reads_them() {
        let cases = [
            ("a=b", vec![("a", "b")]),
            ("  a = b ", vec![("a", "b ")]),
            ("a:b\na b\n", vec![("a", "b"), ("a", "b")]),
            ("a\n", vec![("a", "")]),
            ("a=\r\nb=c\r\n", vec![("a", ""), ("b", "c")]),
            ("# no\n ! no\n\n\ta=b", vec![("a", "b")]),
            ("a=b\\\n   c\\\n# d", vec![("a", "bc# d")]),
            ("a=b\\\\\nc=d", vec![("a", "b\\"), ("c", "d")]),
            ("a=b\\", vec![("a", "b")]),
            (r"a\ b\=c=d", vec![("a b=c", "d")]),
            ("a==b", vec![("a", "=b")]),
            ("a : b:c", vec![("a", "b:c")]),
            (r"a=\t\n\r\f\q\\", vec![("a", "\t\n\r\u{c}q\\")]),
            (r"\u0061=\u00fc\uD83D\uDE00", vec![("a", "ü😀")]),
            ("=b", vec![("", "b")]),
        ];
        for (text, expected) in cases {
            let pairs = parse(text).unwrap();
            let pairs: Vec<_> = pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            assert_eq!(pairs, expected, "{text:?}");
        }
    }

    #[test]
    fn an_escape_without_its_digits_is_told_with_its_line() {
        for text in [r"a=\u12", r"a=\u12g4", r"a=\u", r"a=\u+123"] {
            let fault = parse(&format!("x=y\n{text}")).unwrap_err();
            assert!(fault.starts_with("line 2"), "{text}: {fault}");
        }
    }
}
