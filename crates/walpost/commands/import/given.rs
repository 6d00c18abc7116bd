//! What was given: connectors and workers, from JSON as Connect's REST interface takes and gives it, from properties files, and from Debezium
//! Server's `application.properties`.
//!
//! YAML is not read. Strimzi's `KafkaConnector` holds the same map under `spec.config`, which `kubectl … -o json | jq .spec.config` prints.

use std::collections::BTreeMap;

use serde_json::Value;

use super::properties;

/// Options by name, of which each is taken once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Given(BTreeMap<String, String>);

impl Given {
    pub(super) fn new(pairs: impl IntoIterator<Item = (String, String)>) -> Self {
        Self(pairs.into_iter().collect())
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Takes what begins so, without the beginning.
    pub(super) fn take_prefixed(&mut self, prefix: &str) -> Self {
        let names: Vec<String> = self.0.keys().filter(|name| name.starts_with(prefix)).cloned().collect();
        let taken = names.into_iter().filter_map(|name| {
            let value = self.0.remove(&name)?;
            Some((name.strip_prefix(prefix)?.to_owned(), value))
        });
        Self(taken.collect())
    }

    pub(super) fn put(&mut self, name: impl Into<String>, value: impl Into<String>) {
        self.0.insert(name.into(), value.into());
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }
}

/// Where a connector runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Home {
    /// In a worker of Kafka Connect.
    Connect,
    /// In Debezium Server.
    Server,
}

/// A connector's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Connector {
    /// Its name, or what stands for it.
    pub(super) name: String,
    /// The file that it comes from.
    pub(super) file: String,
    pub(super) home: Home,
    pub(super) options: Given,
}

/// The text of a file.
///
/// `java.util.Properties` reads ISO-8859-1, and older files are written in it. Newer ones are in UTF-8, which text in ISO-8859-1 that has
/// letters beyond ASCII all but never is by chance. JSON is UTF-8 alone.
///
/// # Errors
/// It is JSON and not UTF-8.
pub(super) fn decoded(bytes: Vec<u8>) -> Result<String, String> {
    String::from_utf8(bytes).or_else(|error| {
        let bytes = error.as_bytes();
        match bytes.trim_ascii_start().first() {
            Some(b'{' | b'[') => Err(format!("this is no JSON: {}", error.utf8_error())),
            _ => Ok(bytes.iter().map(|byte| char::from(*byte)).collect()),
        }
    })
}

/// Everything that was given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Everything {
    pub(super) connectors: Vec<Connector>,
    /// The workers' files, as one.
    pub(super) worker: Given,
    /// The names of the workers' files.
    pub(super) worker_files: Vec<String>,
}

impl Everything {
    /// Reads a file.
    ///
    /// # Errors
    /// Why nobody can make sense of it.
    pub(super) fn read(&mut self, file: &str, text: &str) -> Result<(), String> {
        let text = text.trim_start_matches('\u{feff}');
        if text.trim_start().starts_with(['{', '[']) {
            let document = serde_json::from_str(text).map_err(|error| format!("this is no JSON: {error}"))?;
            return self.read_json(file, None, &document);
        }
        if text.lines().any(|line| line.starts_with("apiVersion:") || line.starts_with("kind:")) {
            let advice =
                "YAML is not read; print the map as JSON: kubectl get kafkaconnector NAME -o json | jq .spec.config";
            return Err(advice.to_owned());
        }
        let pairs = Given::new(properties::parse(text)?);
        if pairs.iter().any(|(name, _)| name.starts_with("debezium.")) {
            self.connectors.push(of_server(file, pairs));
        } else if pairs.has("connector.class") {
            self.add(file, None, pairs);
        } else if is_worker(&pairs) {
            self.worker_files.push(file.to_owned());
            self.worker.0.extend(pairs.0);
        } else {
            return Err(
                "it is neither a connector (there is no connector.class) nor a worker (there is no bootstrap.servers)"
                    .to_owned(),
            );
        }
        Ok(())
    }

    fn read_json(&mut self, file: &str, name: Option<&str>, document: &Value) -> Result<(), String> {
        match document {
            Value::Array(items) => items.iter().try_for_each(|item| self.read_json(file, None, item)),
            Value::Object(members) => {
                let own_name = members.get("name").and_then(Value::as_str).or(name);
                if members.contains_key("connector.class") {
                    self.add(file, own_name, pairs(members)?);
                    return Ok(());
                }
                // As it is posted and as it is listed: {"name": …, "config": {…}} and {"NAME": {"info": {…}}}.
                if let Some(inner) = members.get("config").or_else(|| members.get("info")) {
                    return self.read_json(file, own_name, inner);
                }
                if members.values().all(Value::is_object) && !members.is_empty() {
                    return members.iter().try_for_each(|(name, inner)| self.read_json(file, Some(name), inner));
                }
                let pairs = pairs(members)?;
                if is_worker(&pairs) {
                    self.worker_files.push(file.to_owned());
                    self.worker.0.extend(pairs.0);
                    return Ok(());
                }
                Err("there is no connector.class in it".to_owned())
            }
            _ => Err("a connector's configuration is a JSON object".to_owned()),
        }
    }

    fn add(&mut self, file: &str, name: Option<&str>, options: Given) {
        let name = options.get("name").or(name).unwrap_or("connector").to_owned();
        self.connectors.push(Connector { name, file: file.to_owned(), home: Home::Connect, options });
    }
}

fn is_worker(pairs: &Given) -> bool {
    ["bootstrap.servers", "key.converter", "value.converter", "offset.storage.topic", "offset.storage.file.filename"]
        .iter()
        .any(|name| pairs.has(name))
}

/// Numbers and truth values count as their text, as Connect takes them.
fn pairs(members: &serde_json::Map<String, Value>) -> Result<Given, String> {
    let mut pairs = Vec::new();
    for (name, value) in members {
        let text = match value {
            Value::Null => continue,
            Value::String(text) => text.clone(),
            Value::Bool(_) | Value::Number(_) => value.to_string(),
            Value::Array(_) | Value::Object(_) => return Err(format!("the value of {name:?} is no text")),
        };
        pairs.push((name.clone(), text));
    }
    Ok(Given::new(pairs))
}

/// What Debezium Server makes of its properties, as `DebeziumServer.java` does: the connector's own options lose their prefix, and a
/// format is a converter.
fn of_server(file: &str, mut pairs: Given) -> Connector {
    let mut options = Given::default();
    for (name, value) in pairs.take_prefixed("debezium.source.").0 {
        let is_store = name.starts_with("offset.");
        options.put(if is_store { format!("debezium.source.{name}") } else { name }, value);
    }
    for prefix in ["transforms", "predicates"] {
        for (name, value) in pairs.take_prefixed(&format!("debezium.{prefix}")).0 {
            options.put(format!("{prefix}{name}"), value);
        }
    }
    let common = pairs.take_prefixed("debezium.format.");
    for side in ["key", "value", "header"] {
        if let Some(class) = converter_of(common.get(side).unwrap_or("json")) {
            options.put(format!("{side}.converter"), class);
        }
    }
    for (name, value) in common.0 {
        let own = ["key", "value", "header"].iter().find(|side| name.starts_with(&format!("{side}.")));
        match own {
            _ if ["key", "value", "header"].contains(&name.as_str()) => {
                if converter_of(&value).is_none() {
                    options.put(format!("{name}.converter"), value);
                }
            }
            Some(side) => {
                let rest = name.strip_prefix(side).unwrap_or_default();
                options.put(format!("{side}.converter{rest}"), value);
            }
            None => {
                for side in ["key", "value", "header"] {
                    let name = format!("{side}.converter.{name}");
                    if !options.has(&name) {
                        options.put(name, value.clone());
                    }
                }
            }
        }
    }
    options.0.extend(pairs.0);
    Connector { name: "kafka".to_owned(), file: file.to_owned(), home: Home::Server, options }
}

/// The converter of a format of Debezium Server.
fn converter_of(format: &str) -> Option<&'static str> {
    match format.to_lowercase().as_str() {
        "json" | "jsonbytearray" => Some("org.apache.kafka.connect.json.JsonConverter"),
        "simplestring" | "string" => Some("org.apache.kafka.connect.storage.StringConverter"),
        "binary" => Some("io.debezium.converters.BinaryDataConverter"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Everything, String> {
        let mut everything = Everything::default();
        everything.read("f", text).map(|()| everything)
    }

    #[test]
    fn connectors_are_found_in_whatever_shape_connect_gives_them() {
        let map = r#"{"connector.class":"P","tasks.max":1,"a":true,"b":null}"#;
        for (text, names) in [
            (map.to_owned(), vec!["connector"]),
            (format!(r#"{{"name":"x","config":{map}}}"#), vec!["x"]),
            (format!(r#"[{{"name":"x","config":{map}}},{map}]"#), vec!["x", "connector"]),
            (format!(r#"{{"x":{map},"y":{{"config":{map}}}}}"#), vec!["x", "y"]),
            (format!(r#"{{"x":{{"info":{{"name":"x","config":{map},"tasks":[]}}}}}}"#), vec!["x"]),
        ] {
            let everything = read(&text).unwrap();
            let found: Vec<_> = everything.connectors.iter().map(|connector| connector.name.as_str()).collect();
            assert_eq!(found, names, "{text}");
            for Connector { options, .. } in &everything.connectors {
                assert_eq!(
                    (options.get("tasks.max"), options.get("a"), options.get("b")),
                    (Some("1"), Some("true"), None)
                );
            }
        }
    }

    #[test]
    fn properties_are_a_connector_a_worker_or_debezium_server() {
        let everything = read("name=x\nconnector.class=P").unwrap();
        assert_eq!((everything.connectors[0].name.as_str(), everything.connectors[0].home), ("x", Home::Connect));
        let everything = read("bootstrap.servers=k:9092\nkey.converter=X").unwrap();
        assert_eq!(everything.worker.get("key.converter"), Some("X"));
        let everything = read("debezium.source.connector.class=P\ndebezium.format.value=simplestring").unwrap();
        assert_eq!(everything.connectors[0].home, Home::Server);
    }

    #[test]
    fn a_file_is_utf_8_or_else_iso_8859_1() {
        for (bytes, expected) in [
            ("a=\u{fc}".as_bytes(), Ok("a=\u{fc}")),
            (b"a=\xfc", Ok("a=\u{fc}")),
            (b"a=\xe9t\xe9 \xa7", Ok("a=\u{e9}t\u{e9} \u{a7}")),
            (b" {\"a\":\"\xfc\"}", Err("this is no JSON: invalid utf-8 sequence of 1 bytes from index 7")),
        ] {
            assert_eq!(decoded(bytes.to_vec()), expected.map(str::to_owned).map_err(str::to_owned), "{bytes:?}");
        }
    }

    #[test]
    fn the_formats_of_debezium_server_are_converters() {
        let text = "debezium.source.slot.name=s\ndebezium.source.offset.storage.file.filename=/o\ndebezium.transforms=outbox\n\
                    debezium.transforms.outbox.type=T\ndebezium.sink.type=kafka\ndebezium.sink.kafka.producer.acks=1\n\
                    debezium.format.value=binary\ndebezium.format.value.delegate.converter.type=D\n\
                    debezium.format.schemas.enable=false\nquarkus.log.level=INFO\n";
        let everything = read(text).unwrap();
        let options = &everything.connectors[0].options;
        for (name, expected) in [
            ("slot.name", "s"),
            ("debezium.source.offset.storage.file.filename", "/o"),
            ("transforms", "outbox"),
            ("transforms.outbox.type", "T"),
            ("debezium.sink.type", "kafka"),
            ("debezium.sink.kafka.producer.acks", "1"),
            ("key.converter", "org.apache.kafka.connect.json.JsonConverter"),
            ("key.converter.schemas.enable", "false"),
            ("value.converter", "io.debezium.converters.BinaryDataConverter"),
            ("value.converter.delegate.converter.type", "D"),
            ("quarkus.log.level", "INFO"),
        ] {
            assert_eq!(options.get(name), Some(expected), "{name}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_told() {
        for (text, word) in [
            ("{", "no JSON"),
            ("[1]", "JSON object"),
            (r#"{"a":"b"}"#, "connector.class"),
            (r#"{"connector.class":["P"]}"#, "no text"),
            ("a=b", "neither"),
            ("apiVersion: kafka.strimzi.io/v1\nkind: KafkaConnector", "YAML"),
            ("a=\\u1", "line 1"),
        ] {
            let fault = read(text).unwrap_err();
            assert!(fault.contains(word), "{text}: {fault}");
        }
    }
}
