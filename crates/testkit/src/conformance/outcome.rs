//! What Debezium made of a case, in the case's own words.

use serde_json::{Map, Value, json};

use super::{Case, replaced};
use crate::consumer::{Header, Received};

/// The records that arrived, and how the task ended if it did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outcome {
    records: Vec<Value>,
    died: Option<String>,
}

impl Outcome {
    /// Of records in any order, and the trace of a task that died; `prefix` becomes `{p}` again.
    pub(super) fn new(case: &Case, mut records: Vec<Received>, trace: Option<&str>, prefix: &str) -> Self {
        records.sort_by(|a, b| place(a).cmp(&place(b)));
        let described = records.iter().map(|record| describe(record, case.has_timestamp()));
        let records = described.map(|record| replaced(&record, prefix, "{p}")).collect();
        Self { records, died: trace.map(|trace| last_cause(trace).replace(prefix, "{p}")) }
    }

    /// Whether the case's line says the same.
    #[must_use]
    pub fn is_in(&self, case: &Case) -> bool {
        let died = case.part("debezium_died").and_then(Value::as_str);
        let mut records = case.part("debezium_records").and_then(Value::as_array).cloned().unwrap_or_default();
        // Older lines have records without a key wherever they happened to go.
        records.sort_by_key(|record| record.get("partition") == Some(&Value::Null));
        let mut ours = self.records.clone();
        ours.sort_by_key(|record| record.get("partition") == Some(&Value::Null));
        records == ours && died == self.died.as_deref()
    }

    /// Writes it into the case.
    pub fn put_into(&self, case: &mut Case) {
        case.set_part("debezium_records", Some(json!(self.records)));
        case.set_part("debezium_died", self.died.as_deref().map(Value::from));
    }
}

/// By topic, partition and offset; what has no key comes last, in the order of its headers, for its partition is any.
type Place<'a> = (&'a str, bool, i32, Option<&'a [Header]>, i64);

fn place(record: &Received) -> Place<'_> {
    let Received { topic, partition, offset, key, headers, .. } = record;
    if key.is_some() { (topic, false, *partition, None, *offset) } else { (topic, true, 0, Some(headers), *offset) }
}

/// A record as a case names it.
fn describe(record: &Received, has_timestamp: bool) -> Value {
    let mut described = Map::new();
    described.insert("topic".to_owned(), json!(record.topic));
    // Without a key it is the client's choice of the moment.
    let partition = record.key.as_ref().map(|_| record.partition);
    described.insert("partition".to_owned(), json!(partition));
    described.insert("key".to_owned(), bytes(record.key.as_deref()));
    described.insert("value".to_owned(), bytes(record.value.as_deref()));
    let headers = record.headers.iter().map(|(name, value)| json!([name, bytes(value.as_deref())]));
    described.insert("headers".to_owned(), headers.collect());
    if has_timestamp {
        described.insert("timestamp_ms".to_owned(), json!(record.timestamp_ms));
    }
    Value::Object(described)
}

fn bytes(bytes: Option<&[u8]>) -> Value {
    let Some(bytes) = bytes else { return Value::Null };
    std::str::from_utf8(bytes).map_or_else(|_| json!({ "base64": base64(bytes) }), Value::from)
}

/// Base64 with padding, by the alphabet of RFC 4648.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let at = |index: usize| u32::from(chunk.get(index).copied().unwrap_or(0));
        let group = at(0) << 16 | at(1) << 8 | at(2);
        for (place, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let digit = ALPHABET.get(((group >> shift) & 63) as usize).map_or('=', |&digit| char::from(digit));
            text.push(if place > chunk.len() { '=' } else { digit });
        }
    }
    text
}

/// The innermost cause in a trace of Java's: its name and message.
fn last_cause(trace: &str) -> String {
    let (_, cause) = trace.rsplit_once("Caused by: ").unwrap_or(("", trace));
    let end = cause.find("\n\tat ").or_else(|| cause.find("\n\t...")).unwrap_or(cause.len());
    cause.get(..end).unwrap_or(cause).trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_trace_the_innermost_cause_counts() {
        let trace = "a.B: outer\n\tat x\nCaused by: c.D: inner\nsecond line\n\tat y\n\t... 5 more\n";
        assert_eq!(last_cause(trace), "c.D: inner\nsecond line");
        assert_eq!(last_cause("a.B: alone\n\tat x\n"), "a.B: alone");
        assert_eq!(last_cause("no trace"), "no trace");
    }

    #[test]
    fn what_is_no_text_is_base64() {
        for (given, text) in [(&b""[..], ""), (b"f", "Zg=="), (b"fo", "Zm8="), (b"foo", "Zm9v"), (b"foob", "Zm9vYg==")]
        {
            assert_eq!(base64(given), text);
        }
        assert_eq!(bytes(Some(b"\xff\xfe")), json!({"base64": "//4="}));
        assert_eq!(bytes(Some("é".as_bytes())), json!("é"));
        assert_eq!(bytes(None), Value::Null);
    }

    #[test]
    fn a_record_without_a_key_comes_last_and_by_its_headers() {
        let record = |key: Option<&[u8]>, partition, id: &str| Received {
            topic: "t".to_owned(),
            partition,
            offset: 0,
            key: key.map(<[u8]>::to_vec),
            value: None,
            headers: vec![("id".to_owned(), Some(id.into()))],
            timestamp_ms: None,
        };
        let case =
            r#"{"name":"n","table":"t","publication":"","key_converter":"","value_converter":"","ddl":[],"dml":[]}"#;
        let records = vec![record(None, 0, "2"), record(None, 1, "1"), record(Some(b"k"), 2, "3")];
        let outcome = Outcome::new(&Case::parse(case).unwrap(), records, None, "c1");
        let ids: Vec<&Value> = outcome.records.iter().map(|record| &record["headers"][0][1]).collect();
        assert_eq!(ids, ["3", "1", "2"]);
    }

    #[test]
    fn a_record_is_described_as_the_cases_do() {
        let record = Received {
            topic: "c1.order".to_owned(),
            partition: 2,
            offset: 0,
            key: None,
            value: Some(b"v".to_vec()),
            headers: vec![("id".to_owned(), None)],
            timestamp_ms: Some(5),
        };
        let expected =
            json!({"topic": "c1.order", "partition": null, "key": null, "value": "v", "headers": [["id", null]]});
        assert_eq!(describe(&record, false), expected);
        assert_eq!(describe(&record, true)["timestamp_ms"], json!(5));
    }
}
