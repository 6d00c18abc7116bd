//! A case, as its line says it.

use serde_json::{Map, Value};

use super::{Error, replaced};

/// What every case's connector is told besides its own options.
const ALWAYS: &[(&str, &str)] = &[
    ("connector.class", "io.debezium.connector.postgresql.PostgresConnector"),
    ("tasks.max", "1"),
    ("plugin.name", "pgoutput"),
    ("publication.autocreate.mode", "disabled"),
    ("topic.prefix", "{p}"),
    ("slot.name", "{p}"),
    ("publication.name", "{p}"),
    ("extended.headers.enabled", "false"),
    ("snapshot.mode", "no_data"),
    ("tombstones.on.delete", "false"),
    ("transforms", "outbox"),
    ("transforms.outbox.type", "io.debezium.transforms.outbox.EventRouter"),
];

/// The order in which the parts of a case are written.
const ORDER: &[&str] = &[
    "name",
    "router",
    "connector",
    "key_converter",
    "value_converter",
    "header_converter",
    "partitions",
    "table",
    "publication",
    "publication_for",
    "ddl",
    "dml",
    "debezium_records",
    "debezium_died",
    "ours",
    "ours_expected",
    "loose",
];

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    line: Map<String, Value>,
}

impl Case {
    /// Reads a line.
    ///
    /// # Errors
    ///
    /// [`Error::Incomplete`] when it is no object with a name, a table and statements.
    pub fn parse(line: &str) -> Result<Self, Error> {
        let Ok(Value::Object(line)) = serde_json::from_str(line) else { return Err(Error::Incomplete("JSON object")) };
        for part in ["name", "table", "publication", "key_converter", "value_converter", "ddl", "dml"] {
            if !line.contains_key(part) {
                return Err(Error::Incomplete(part));
            }
        }
        Ok(Self { line })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text("name")
    }

    /// What its line holds under this name.
    #[must_use]
    pub fn part(&self, name: &str) -> Option<&Value> {
        self.line.get(name)
    }

    /// Puts a part into its line, or takes it away.
    pub fn set_part(&mut self, name: &str, value: Option<Value>) {
        match value {
            Some(value) => self.line.insert(name.to_owned(), value),
            None => self.line.remove(name),
        };
    }

    /// The line, with its parts in the usual order.
    #[must_use]
    pub fn to_line(&self) -> String {
        let known = ORDER.iter().filter_map(|&name| Some((name, self.line.get(name)?)));
        let others = self.line.iter().map(|(name, value)| (name.as_str(), value));
        let others = others.filter(|(name, _)| !ORDER.contains(name));
        let members: Vec<String> =
            known.chain(others).map(|(name, value)| format!("{}: {value}", Value::from(name))).collect();
        format!("{{{}}}", members.join(", "))
    }

    /// The same with a prefix for `{p}`.
    pub(super) fn under(&self, prefix: &str) -> Self {
        let line = self.line.iter().map(|(name, value)| (name.clone(), replaced(value, "{p}", prefix)));
        Self { line: line.collect() }
    }

    pub(super) fn statements(&self, part: &str) -> Vec<String> {
        let statements = self.line.get(part).and_then(Value::as_array).into_iter().flatten();
        statements.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// The statement that makes the publication.
    pub(super) fn publication(&self, name: &str) -> String {
        let tables = match self.text("publication_for") {
            "" => format!("FOR TABLE {}", self.text("table")),
            clause if clause.to_ascii_lowercase().starts_with("for ") => clause.to_owned(),
            clause if clause.to_ascii_lowercase().starts_with("table") => format!("FOR {clause}"),
            clause => format!("FOR TABLE {clause}"),
        };
        format!("CREATE PUBLICATION {name} {tables} WITH ({})", self.text("publication"))
    }

    pub(super) fn partitions(&self) -> Option<i32> {
        self.line.get("partitions")?.as_i64()?.try_into().ok()
    }

    /// Whether the timestamp of its records is the row's doing, and not that of the clock.
    pub(super) fn has_timestamp(&self) -> bool {
        self.line.get("router").is_some_and(|router| router.get("table.field.event.timestamp").is_some())
    }

    /// Whether its converters take any record, not only those of the outbox.
    pub(super) fn takes_any_record(&self) -> bool {
        let is_easy = |part| {
            let class = self.text(part).split_whitespace().next().unwrap_or_default();
            class == "StringConverter" || class == "JsonConverter"
        };
        is_easy("key_converter") && is_easy("value_converter")
    }

    /// The connector's options but for the connection; a later one wins.
    pub(super) fn options(&self, prefix: &str) -> Vec<(String, String)> {
        let always = ALWAYS.iter().map(|&(key, value)| (key.to_owned(), value.replace("{p}", prefix)));
        let mut options: Vec<(String, String)> = always.collect();
        for (kind, part) in [("key", "key_converter"), ("value", "value_converter"), ("header", "header_converter")] {
            options.extend(converter_options(kind, self.text(part)));
        }
        options.extend(self.pairs("connector", ""));
        options.extend(self.pairs("router", "transforms.outbox."));
        options
    }

    fn pairs(&self, part: &str, prefix: &str) -> Vec<(String, String)> {
        let members = self.line.get(part).and_then(Value::as_object).into_iter().flatten();
        let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        members.map(|(key, value)| (format!("{prefix}{key}"), text(value))).collect()
    }

    fn text(&self, part: &str) -> &str {
        self.line.get(part).and_then(Value::as_str).unwrap_or_default()
    }
}

/// `JsonConverter schemas.enable=false` as options of a connector.
fn converter_options(kind: &str, words: &str) -> Vec<(String, String)> {
    let mut words = words.split_whitespace();
    let Some(class) = words.next() else { return Vec::new() };
    let package = match class {
        "StringConverter" | "SimpleHeaderConverter" => "org.apache.kafka.connect.storage.",
        "JsonConverter" => "org.apache.kafka.connect.json.",
        "BinaryDataConverter" => "io.debezium.converters.",
        full if full.contains('.') => "",
        _ => "org.apache.kafka.connect.converters.",
    };
    let mut options = vec![(format!("{kind}.converter"), format!("{package}{class}"))];
    let more = words.filter_map(|word| word.split_once('='));
    options.extend(more.map(|(key, value)| (format!("{kind}.converter.{key}"), value.to_owned())));
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = r#"{"name":"n","table":"{p}.outbox","publication":"publish='insert'","router":{"route.topic.replacement":"{p}.x"},
        "connector":{"snapshot.mode":"initial"},"key_converter":"StringConverter","value_converter":"JsonConverter schemas.enable=false",
        "ddl":["create table outbox()"],"dml":["insert into outbox default values"]}"#;

    #[test]
    fn a_case_becomes_the_options_of_a_connector() {
        let options = Case::parse(LINE).unwrap().under("c1").options("c1");
        let last = |key: &str| options.iter().rfind(|(found, _)| found == key).map(|(_, value)| value.as_str());
        assert_eq!(last("topic.prefix"), Some("c1"));
        assert_eq!(last("snapshot.mode"), Some("initial"));
        assert_eq!(last("value.converter"), Some("org.apache.kafka.connect.json.JsonConverter"));
        assert_eq!(last("value.converter.schemas.enable"), Some("false"));
        assert_eq!(last("transforms.outbox.route.topic.replacement"), Some("c1.x"));
        assert_eq!(last("header.converter"), None);
    }

    #[test]
    fn a_publication_is_of_the_table_unless_it_says_otherwise() {
        let mut case = Case::parse(LINE).unwrap().under("c1");
        assert_eq!(case.publication("p"), "CREATE PUBLICATION p FOR TABLE c1.outbox WITH (publish='insert')");
        case.set_part("publication_for", Some("all tables".into()));
        assert_eq!(case.publication("p"), "CREATE PUBLICATION p FOR TABLE all tables WITH (publish='insert')");
        case.set_part("publication_for", Some("for all tables".into()));
        assert_eq!(case.publication("p"), "CREATE PUBLICATION p for all tables WITH (publish='insert')");
    }

    #[test]
    fn a_line_keeps_its_order_and_what_it_holds_besides() {
        let mut case = Case::parse(LINE).unwrap();
        case.set_part("zzz", Some(1.into()));
        case.set_part("debezium_died", Some("so".into()));
        let line = case.to_line();
        assert!(line.starts_with(r#"{"name": "n", "router": "#), "{line}");
        assert!(line.ends_with(r#""debezium_died": "so", "zzz": 1}"#), "{line}");
        assert_eq!(Case::parse(&line).unwrap().line, case.line);
    }

    #[test]
    fn what_lacks_a_part_is_no_case() {
        assert!(matches!(Case::parse("[]"), Err(Error::Incomplete("JSON object"))));
        assert!(matches!(Case::parse(r#"{"name":"n"}"#), Err(Error::Incomplete("table"))));
    }
}
