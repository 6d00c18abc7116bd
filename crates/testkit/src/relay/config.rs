//! Configuration files for the relay, by their published form.

use std::collections::BTreeMap;
use std::fmt;

/// A configuration to be written. What is not said has the relay's own default.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// By section, then by key; values as TOML. The nameless section comes first.
    sections: BTreeMap<String, BTreeMap<String, String>>,
    outboxes: Vec<Outbox>,
}

#[derive(Clone, Debug, Default)]
struct Outbox {
    table: String,
    router: Vec<(String, String)>,
    connect: Vec<(String, String)>,
}

impl Config {
    /// One that reads the database behind `url` by this slot, from the publication of the same name. Over HTTP it answers at a port that the system
    /// chooses, for the relays of many tests run beside each other.
    #[must_use]
    pub fn new(url: &str, slot: &str) -> Self {
        let source = |config: Self, key, value| config.set("source", key, &toml_string(value));
        let config = source(Self::default(), "url", url);
        let config = source(source(config, "slot", slot), "publication", slot);
        config.set("http", "listen", &toml_string("127.0.0.1:0"))
    }

    /// Adds an outbox table, written as in SQL, with options of its router.
    #[must_use]
    pub fn outbox(mut self, table: &str, router: &[(&str, &str)]) -> Self {
        self.outboxes.retain(|outbox| outbox.table != table);
        self.outboxes.push(Outbox { table: table.to_owned(), router: owned(router), ..Outbox::default() });
        self
    }

    /// Gives the outbox that was added last options of Connect and of the connector.
    #[must_use]
    pub fn connect(mut self, options: &[(&str, &str)]) -> Self {
        if let Some(outbox) = self.outboxes.last_mut() {
            outbox.connect.extend(owned(options));
        }
        self
    }

    /// Sends to a broker.
    #[must_use]
    pub fn kafka(self, bootstrap: &str) -> Self {
        self.set("sink", "type", r#""kafka""#).set("sink.kafka", "bootstrap.servers", &toml_string(bootstrap))
    }

    /// Writes to the standard output.
    #[must_use]
    pub fn stdout(mut self) -> Self {
        self.sections.remove("sink.kafka");
        self.set("sink", "type", r#""stdout""#)
    }

    /// Sets any key; the value is TOML.
    #[must_use]
    pub fn set(mut self, section: &str, key: &str, value: &str) -> Self {
        self.sections.entry(section.to_owned()).or_default().insert(key.to_owned(), value.to_owned());
        self
    }

    /// Leaves a key to its default.
    #[must_use]
    pub fn unset(mut self, section: &str, key: &str) -> Self {
        self.sections.entry(section.to_owned()).or_default().remove(key);
        self
    }
}

impl fmt::Display for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, keys) in &self.sections {
            if !name.is_empty() {
                writeln!(f, "[{name}]")?;
            }
            for (key, value) in keys {
                writeln!(f, "{} = {value}", toml_string(key))?;
            }
        }
        self.outboxes.iter().try_for_each(|outbox| outbox.fmt(f))
    }
}

impl fmt::Display for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = |name: &str, options: &[(String, String)]| {
            writeln!(f, "{name}")?;
            options.iter().try_for_each(|(name, value)| writeln!(f, "{} = {}", toml_string(name), toml_string(value)))
        };
        table("[[outbox]]", &[("table".to_owned(), self.table.clone())])?;
        table("[outbox.router]", &self.router)?;
        if self.connect.is_empty() { Ok(()) } else { table("[outbox.connect]", &self.connect) }
    }
}

fn owned(options: &[(&str, &str)]) -> Vec<(String, String)> {
    options.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect()
}

/// A text as a basic string of TOML.
#[must_use]
pub fn toml_string(text: &str) -> String {
    let mut quoted = String::from('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => quoted.extend(['\\', character]),
            control if control.is_control() => quoted.push_str(&format!("\\u{:04X}", u32::from(control))),
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_configuration_reads_as_an_operator_would_write_it() {
        let config = Config::new("postgres://a@b/c", "relay")
            .set("", "name", r#""orders""#)
            .outbox(r#""Order"."Outbox""#, &[("route.topic.replacement", "t.${routedByValue}")])
            .connect(&[("value.converter", "JsonConverter")])
            .kafka("127.0.0.1:9092");
        let expected = r#""name" = "orders"
[http]
"listen" = "127.0.0.1:0"
[sink]
"type" = "kafka"
[sink.kafka]
"bootstrap.servers" = "127.0.0.1:9092"
[source]
"publication" = "relay"
"slot" = "relay"
"url" = "postgres://a@b/c"
[[outbox]]
"table" = "\"Order\".\"Outbox\""
[outbox.router]
"route.topic.replacement" = "t.${routedByValue}"
[outbox.connect]
"value.converter" = "JsonConverter"
"#;
        assert_eq!(config.to_string(), expected);
    }

    #[test]
    fn the_last_sink_that_was_named_counts_and_leaves_nothing_of_another() {
        let text = Config::new("postgres://a@b/c", "relay").kafka("127.0.0.1:9092").stdout().to_string();
        assert!(text.contains(r#""type" = "stdout""#) && !text.contains("kafka"), "{text}");
    }

    #[test]
    fn what_would_end_a_string_is_escaped() {
        assert_eq!(toml_string("a\"b\\c\n"), r#""a\"b\\c\u000A""#);
    }
}
