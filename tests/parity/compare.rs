//! Compares what arrived with what was recorded, field by field, and shows both where they differ.

use std::fmt::Write as _;

use walpost_testkit::consumer::{Header, Received};

use super::case::{Expected, literal};

/// The header that is new with every start.
const RUN_ID: &str = "__debezium.context.runId";

/// When the server took a statement, by its own clock, in milliseconds since 1970.
#[derive(Clone, Debug)]
pub(super) struct Window {
    pub(super) statement: String,
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
}

/// What a comparison goes by.
#[derive(Clone, Copy, Debug)]
pub(super) struct Comparison<'a> {
    /// When each statement ran.
    pub(super) windows: &'a [Window],
    /// Whether the members of JSON objects may come in any order.
    pub(super) is_loose: bool,
}

impl Comparison<'_> {
    /// Every difference, in words; none if all that was expected arrived, in its order, and nothing else.
    pub(super) fn differences(&self, expected: &[Expected], received: &[Received]) -> Vec<String> {
        let mut left: Vec<&Received> = received.iter().collect();
        left.sort_by(|a, b| (&a.topic, a.partition, a.offset).cmp(&(&b.topic, b.partition, b.offset)));
        let mut found = Vec::new();
        // Those that may lie anywhere first: each takes the one that is like it.
        let (anywhere, placed): (Vec<_>, Vec<_>) = expected.iter().partition(|record| record.partition.is_none());
        for expected in anywhere.into_iter().chain(placed) {
            match self.counterpart(expected, &left) {
                Some(index) => found.extend(self.difference(expected, left.remove(index))),
                None => found.push(format!("did not arrive:\n    {}", shown(&expected.as_received()))),
            }
        }
        found.extend(left.iter().map(|record| format!("arrived and was not expected:\n    {}", shown(record))));
        found
    }

    /// Which record to compare with: the next of its partition.
    fn counterpart(&self, expected: &Expected, left: &[&Received]) -> Option<usize> {
        let is_of_topic = |record: &&Received| record.topic == expected.topic;
        match expected.partition {
            Some(partition) => left.iter().position(|record| is_of_topic(record) && record.partition == partition),
            None => left
                .iter()
                .position(|record| is_of_topic(record) && self.fields(expected, record).is_empty())
                .or_else(|| left.iter().position(|record| is_of_topic(record) && record.key.is_none())),
        }
    }

    fn difference(&self, expected: &Expected, received: &Received) -> Option<String> {
        let fields = self.fields(expected, received);
        (!fields.is_empty()).then(|| {
            let both = format!("expected {}\n    received {}", shown(&expected.as_received()), shown(received));
            let times = self.writers(received).map(|window| format!("{} to {}", window.from_ms, window.to_ms));
            let written = fields.contains(&"timestamp").then(|| times.collect::<Vec<_>>().join(", "));
            let written = written.map(|times| format!("\n    its statement ran from {times}")).unwrap_or_default();
            format!("differs in {}:\n    {both}{written}", fields.join(", "))
        })
    }

    /// The names of the fields that differ.
    fn fields(&self, expected: &Expected, received: &Received) -> Vec<&'static str> {
        let (value, time) = (expected.value(), received.timestamp_ms);
        let is_same_value = value == received.value || self.is_loose && is_same_json(&value, &received.value);
        let is_on_time = match expected.timestamp_ms {
            Some(_) => expected.timestamp_ms == time,
            None => time.is_some_and(|time| self.may_be_the_commit_of(received, time)),
        };
        let fields = [
            ("key", expected.key() == received.key),
            ("value", is_same_value),
            ("headers", self.is_same_headers(&expected.headers(), &received.headers)),
            ("timestamp", is_on_time),
        ];
        fields.into_iter().filter(|(_, is_same)| !is_same).map(|(name, _)| name).collect()
    }

    /// Whether headers are the same, but for what is new with every start of the relay where the case says so.
    fn is_same_headers(&self, expected: &[Header], received: &[Header]) -> bool {
        let length = |header: &Header| header.1.as_ref().map(Vec::len);
        let is_same = |(one, other): (&Header, &Header)| {
            one == other || self.is_loose && one.0 == RUN_ID && other.0 == RUN_ID && length(one) == length(other)
        };
        expected.len() == received.len() && expected.iter().zip(received).all(is_same)
    }

    /// Whether a statement that may have written the row committed at that time.
    fn may_be_the_commit_of(&self, record: &Received, time: i64) -> bool {
        self.writers(record).any(|window| (window.from_ms..=window.to_ms).contains(&time))
    }

    /// The statements that name the row's id; where none does, any may have written it.
    fn writers(&self, record: &Received) -> impl Iterator<Item = &Window> {
        let id = record.id().map(literal);
        let names = move |window: &Window| id.as_ref().is_some_and(|id| window.statement.contains(id));
        let is_named = self.windows.iter().any(&names);
        self.windows.iter().filter(move |window| !is_named || names(window))
    }
}

/// Whether two documents differ in nothing but the order of members. As maps hide a member that stands there twice, the lengths
/// have to agree too.
fn is_same_json(one: &Option<Vec<u8>>, other: &Option<Vec<u8>>) -> bool {
    let (Some(one), Some(other)) = (one, other) else { return false };
    let parse = |text: &[u8]| serde_json::from_slice::<serde_json::Value>(text).ok();
    one.len() == other.len() && parse(one).is_some() && parse(one) == parse(other)
}

/// The whole record.
pub(super) fn shown(record: &Received) -> String {
    let Received { topic, partition, key, value, headers, timestamp_ms, .. } = record;
    let place = if *partition < 0 { "any partition".to_owned() } else { format!("partition {partition}") };
    let time = timestamp_ms.map_or("of the commit".to_owned(), |time| time.to_string());
    let mut text = format!("{topic}, {place}, time {time}, key {}", shown_bytes(key.as_deref()));
    for (name, value) in headers {
        // Writing to a String cannot fail.
        let _ = write!(text, "\n      header {name} {}", shown_bytes(value.as_deref()));
    }
    let _ = write!(text, "\n      value {}", shown_bytes(value.as_deref()));
    text
}

/// Text as it is, so that two lines can be compared by eye; what is no text, or no line, escaped.
fn shown_bytes(bytes: Option<&[u8]>) -> String {
    match bytes.map(std::str::from_utf8) {
        None => "null".to_owned(),
        Some(Ok(text)) if text.chars().any(char::is_control) => format!("{text:?}"),
        Some(Ok(text)) => format!("«{text}»"),
        Some(Err(_)) => format!("{:02x?}", bytes.unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "00000000-0000-4000-8000-000000000001";

    fn expected(record: &str) -> Expected {
        serde_json::from_str(record).unwrap()
    }

    fn record(partition: &str, value: &str) -> Expected {
        expected(&format!(
            r#"{{"topic": "t", "partition": {partition}, "key": null, "value": {value:?}, "headers": [["id", "{ID}"]]}}"#
        ))
    }

    /// Committed by the first statement.
    fn arrived(partition: i32, offset: i64, value: &str) -> Received {
        Received { partition, offset, timestamp_ms: Some(15), ..record("0", value).as_received() }
    }

    fn windows() -> Vec<Window> {
        let window = |statement: &str, from_ms, to_ms| Window { statement: statement.to_owned(), from_ms, to_ms };
        vec![window(&format!("INSERT '{ID}'"), 10, 20), window("INSERT 'another'", 20, 30)]
    }

    fn differences(expected: &[Expected], received: &[Received], is_loose: bool) -> Vec<String> {
        Comparison { windows: &windows(), is_loose }.differences(expected, received)
    }

    #[test]
    fn each_field_that_differs_is_named() {
        let wanted = [record("0", "v")];
        let good = arrived(0, 0, "v");
        assert_eq!(differences(&wanted, std::slice::from_ref(&good), false), [""; 0]);
        let with_key = Received { key: Some(Vec::new()), ..good.clone() };
        let with_header = Received { headers: Vec::new(), ..good.clone() };
        let late = Received { timestamp_ms: Some(25), ..good.clone() };
        for (other, field) in
            [(arrived(0, 0, "w"), "value"), (with_key, "key"), (with_header, "headers"), (late, "timestamp")]
        {
            let found = differences(&wanted, &[other], false);
            assert!(matches!(&found[..], [one] if one.starts_with(&format!("differs in {field}:"))), "{found:?}");
        }
        assert_eq!(differences(&wanted, &[arrived(1, 0, "v")], false).len(), 2, "one is missing and one too many");
        assert_eq!(differences(&[], &[good], false).len(), 1);
        assert_eq!(differences(&wanted, &[], false).len(), 1);
    }

    #[test]
    fn the_number_of_a_run_may_be_another_where_the_case_says_so() {
        let with = |name: &str, value: &str| {
            let id = ("id".to_owned(), Some(ID.as_bytes().to_vec()));
            vec![id, (name.to_owned(), Some(value.as_bytes().to_vec()))]
        };
        let wanted = expected(&format!(
            r#"{{"topic": "t", "partition": 0, "key": null, "value": "v", "headers": [["id", "{ID}"], ["{RUN_ID}", "one"]]}}"#
        ));
        let cases = [
            (RUN_ID, "two", true, 0),
            (RUN_ID, "two", false, 1),
            (RUN_ID, "seven", true, 1),
            ("other", "one", true, 1),
        ];
        for (name, value, is_loose, count) in cases {
            let received = Received { headers: with(name, value), ..arrived(0, 0, "v") };
            assert_eq!(
                differences(std::slice::from_ref(&wanted), &[received], is_loose).len(),
                count,
                "{name} {value}"
            );
        }
    }

    #[test]
    fn records_of_a_partition_come_in_their_order_and_those_without_a_partition_in_any() {
        let (first, second) = (arrived(0, 0, "v"), arrived(0, 1, "w"));
        let received = [second.clone(), first];
        assert_eq!(differences(&[record("0", "v"), record("0", "w")], &received, false), [""; 0]);
        assert_eq!(differences(&[record("0", "w"), record("0", "v")], &received, false).len(), 2);
        assert_eq!(differences(&[record("null", "w"), record("null", "v")], &received, false), [""; 0]);
        assert_eq!(differences(&[record("null", "x")], &[second], false).len(), 1);
    }

    #[test]
    fn members_may_change_places_where_the_case_says_so_and_none_may_be_missing() {
        let wanted = [record("0", r#"{"a":1,"b":2}"#)];
        let cases = [(r#"{"b":2,"a":1}"#, true, 0), (r#"{"b":2,"a":1}"#, false, 1), (r#"{"a":1,"a":1}"#, true, 1)];
        for (value, is_loose, count) in cases {
            assert_eq!(differences(&wanted, &[arrived(0, 0, value)], is_loose).len(), count, "{value}");
        }
    }
}
