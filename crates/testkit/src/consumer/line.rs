//! The relay's standard output: one JSON object a line.

use serde_json::Value;

use super::{Error, Header, Received};

/// Reads a line of the relay's `stdout` sink. Members that say nothing of the record, such as its position, are left alone.
///
/// # Errors
///
/// [`Error::Line`] when it is no record.
pub fn parse_line(number: i64, line: &str) -> Result<Received, Error> {
    parse(number, line).map_err(|reason| Error::Line { number, reason, line: line.to_owned() })
}

fn parse(number: i64, line: &str) -> Result<Received, String> {
    let record: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let member = |name: &str| record.get(name).ok_or_else(|| format!("it has no {name}"));
    let partition = record.get("partition").and_then(Value::as_i64);
    Ok(Received {
        topic: member("topic")?.as_str().ok_or("its topic is no text")?.to_owned(),
        partition: partition.map_or(Ok(-1), i32::try_from).map_err(|error| error.to_string())?,
        offset: number,
        key: bytes(member("key")?)?,
        value: bytes(member("value")?)?,
        headers: member("headers")?
            .as_array()
            .ok_or("its headers are no list")?
            .iter()
            .map(header)
            .collect::<Result<_, _>>()?,
        timestamp_ms: record.get("timestamp_ms").and_then(Value::as_i64),
    })
}

fn header(pair: &Value) -> Result<Header, String> {
    match pair.as_array().map(Vec::as_slice) {
        Some([Value::String(name), value]) => Ok((name.clone(), bytes(value)?)),
        _ => Err("a header is no pair".to_owned()),
    }
}

/// Text, `{"base64": …}` where it is not UTF-8, or null.
fn bytes(value: &Value) -> Result<Option<Vec<u8>>, String> {
    match value {
        Value::Null => Ok(None),
        Value::String(text) => Ok(Some(text.clone().into_bytes())),
        other => {
            let encoded = other.get("base64").and_then(Value::as_str).ok_or("bytes are neither text nor base64")?;
            decode_base64(encoded).map(Some).ok_or_else(|| "its base64 is none".to_owned())
        }
    }
}

/// Base64 with padding, as RFC 4648 has it.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let (groups, []) = text.as_bytes().as_chunks::<4>() else { return None };
    let mut bytes = Vec::with_capacity(groups.len() * 3);
    for (index, group) in groups.iter().enumerate() {
        let padding = group.iter().rev().take_while(|&&symbol| symbol == b'=').count();
        if padding > 2 || (padding > 0 && index + 1 < groups.len()) {
            return None;
        }
        let symbols = group.iter().take(4 - padding);
        let bits = symbols.clone().try_fold(0_u32, |bits, &symbol| Some(bits << 6 | sextet(symbol)?))? << (6 * padding);
        let [_, decoded @ ..] = bits.to_be_bytes();
        bytes.extend(decoded.iter().take(3 - padding));
    }
    Some(bytes)
}

fn sextet(symbol: u8) -> Option<u32> {
    let value = match symbol {
        b'A'..=b'Z' => symbol - b'A',
        b'a'..=b'z' => symbol - b'a' + 26,
        b'0'..=b'9' => symbol - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        _ => return None,
    };
    Some(u32::from(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_the_record_that_it_describes() {
        let line = r#"{"topic":"t","partition":2,"key":"k","value":{"base64":"3q2+7w=="},
            "headers":[["id","7"],["none",null]],"timestamp_ms":12,"position":"0/1"}"#;
        let expected = Received {
            topic: "t".to_owned(),
            partition: 2,
            offset: 5,
            key: Some(b"k".into()),
            value: Some(vec![0xde, 0xad, 0xbe, 0xef]),
            headers: vec![("id".to_owned(), Some(b"7".into())), ("none".to_owned(), None)],
            timestamp_ms: Some(12),
        };
        assert_eq!(parse_line(5, line).unwrap(), expected);
    }

    #[test]
    fn what_may_be_missing_may_be_missing() {
        let record = parse_line(0, r#"{"topic":"t","key":null,"value":null,"headers":[]}"#).unwrap();
        assert_eq!((record.partition, record.key, record.value, record.timestamp_ms), (-1, None, None, None));
    }

    #[test]
    fn what_is_no_record_is_refused() {
        let lines = [
            "",
            "[]",
            r#"{"topic":"t","key":null,"value":null}"#,
            r#"{"topic":1,"key":null,"value":null,"headers":[]}"#,
            r#"{"topic":"t","key":1,"value":null,"headers":[]}"#,
            r#"{"topic":"t","key":{"base64":"a"},"value":null,"headers":[]}"#,
            r#"{"topic":"t","key":null,"value":null,"headers":[["id"]]}"#,
            r#"{"topic":"t","key":null,"value":null,"headers":[],"partition":4294967296}"#,
        ];
        for line in lines {
            assert!(parse_line(0, line).is_err(), "{line}");
        }
    }

    #[test]
    fn base64_is_read_with_its_padding_and_refused_without() {
        let cases: [(&str, Option<&[u8]>); 9] = [
            ("", Some(b"")),
            ("Zg==", Some(b"f")),
            ("Zm8=", Some(b"fo")),
            ("Zm9v", Some(b"foo")),
            ("Zm9vYg==", Some(b"foob")),
            ("Zg", None),
            ("Z===", None),
            ("Zg==Zg==", None),
            ("Zm9*", None),
        ];
        for (text, bytes) in cases {
            assert_eq!(decode_base64(text).as_deref(), bytes, "{text}");
        }
    }
}
