//! `[sink]` and `[sink.kafka]`: the properties of Kafka's Java producer under the names that librdkafka has for them.

use super::draft::{Draft, Heading};
use super::given::Given;
use super::security;
use super::text::{Reference, has_reference, is_secret, literal};
use crate::debezium::Fate;
use crate::debezium::options::{self, PRODUCER};

/// Properties that librdkafka has under another name.
const RENAMED: &[(&str, &str)] = &[
    ("max.request.size", "message.max.bytes"),
    ("send.buffer.bytes", "socket.send.buffer.bytes"),
    ("receive.buffer.bytes", "socket.receive.buffer.bytes"),
    ("ssl.truststore.certificates", "ssl.ca.pem"),
    ("ssl.keystore.certificate.chain", "ssl.certificate.pem"),
    ("ssl.keystore.key", "ssl.key.pem"),
];

/// Properties as they were given: `worker` are those of the worker's producers.
pub(super) struct Properties {
    given: Given,
    own: Given,
    /// What stood in front of the connector's own ones.
    prefix: &'static str,
}

impl Properties {
    /// Those of the connector go before those of the worker.
    pub(super) fn new(worker: &Given, own: Given, prefix: &'static str) -> Self {
        let mut given = worker.clone();
        for (name, value) in own.iter() {
            given.put(name, value);
        }
        Self { given, own, prefix }
    }

    pub(super) fn take(&mut self, name: &str) -> Option<String> {
        self.given.take(name)
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.given.get(name)
    }

    /// As it stood in the configuration.
    pub(super) fn full(&self, name: &str) -> String {
        let prefix = if self.own.has(name) { self.prefix } else { "producer." };
        format!("{prefix}{name}")
    }
}

/// Writes both sections. `servers` are the worker's own brokers.
pub(super) fn sink(mut properties: Properties, servers: Option<&str>, draft: &mut Draft) {
    draft.section("[sink]");
    draft.key("type", "kafka");
    draft.section("[sink.kafka]");
    let name = properties.get("bootstrap.servers").map(|_| properties.full("bootstrap.servers"));
    match properties.take("bootstrap.servers").as_deref().or(servers) {
        Some(servers) => {
            draft.remark(name.as_deref().unwrap_or("bootstrap.servers"));
            property("bootstrap.servers", servers, draft);
        }
        None => {
            draft.check("bootstrap.servers: the worker's file says which brokers, and it was not given.");
            draft.option("bootstrap.servers", "localhost:9092");
        }
    }
    draft.remark("Connect lets the broker make topics that do not exist; once they all do, false keeps a wrong name from making one.");
    draft.option("allow.auto.create.topics", "true");
    security::carry(&mut properties, draft);
    level(&mut properties, draft);
    let rest: Vec<(String, String)> =
        properties.given.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    for (name, value) in rest {
        carry(&name, &value, &properties, draft);
    }
}

/// Of the levels of compression that of the codec in use counts.
fn level(properties: &mut Properties, draft: &mut Draft) {
    let name = format!("compression.{}.level", properties.get("compression.type").unwrap_or("none"));
    if let Some(level) = properties.take(&name) {
        draft.remark(&properties.full(&name));
        property("compression.level", &level, draft);
    }
}

fn carry(name: &str, value: &str, properties: &Properties, draft: &mut Draft) {
    let full = properties.full(name);
    let entry = options::find(PRODUCER, name);
    match entry {
        Some(entry) if entry.fate == Fate::Decide && value.trim() == entry.default => {
            draft.leave(Heading::Needless, &full, value, "it is so here.");
            return;
        }
        Some(entry) if entry.fate == Fate::Decide => {
            draft.decide(&full, value, entry.note);
            draft.undecided(name, &literal(value));
            return;
        }
        Some(entry) if entry.fate != Fate::Same && !entry.name.contains('*') => {
            draft.leave(entry.fate.into(), &full, value, entry.note);
            return;
        }
        _ => {}
    }
    let target = RENAMED.iter().find(|(java, _)| *java == name).map_or(name, |(_, target)| *target);
    let judged = if has_reference(value) { Ok(()) } else { accepted(target, value) };
    match (judged, entry) {
        (Ok(()), _) => {
            draft.remark(&full);
            property(target, value, draft);
        }
        (Err(_), Some(entry)) if entry.fate != Fate::Same => draft.leave(entry.fate.into(), &full, value, entry.note),
        (Err(reason), Some(_)) => draft.leave(Heading::Cannot, &full, value, &format!("{reason}.")),
        (Err(reason), None) => draft.leave(Heading::Unknown, &full, value, &format!("{reason}.")),
    }
}

/// Writes a property, a secret as a reference.
pub(super) fn property(name: &str, value: &str, draft: &mut Draft) {
    let written = match Reference::of(value) {
        Some(Reference::Variable(variable)) => {
            draft.needs(&variable);
            format!("${{{variable}}}")
        }
        Some(Reference::File(path)) => format!("${{file:{path}}}"),
        Some(Reference::Foreign(_)) => instead(name, draft),
        None if is_secret(name) || name == "ssl.key.pem" => instead(name, draft),
        None => draft.notation(value),
    };
    draft.option(name, &written);
}

/// A reference to a variable in the place of a value that is not printed.
fn instead(name: &str, draft: &mut Draft) -> String {
    let variable = format!("KAFKA_{}", name.to_uppercase().replace(['.', '-'], "_"));
    draft.needs(&variable);
    format!("${{{variable}}}")
}

/// Whether the producer takes the property.
#[cfg(feature = "kafka")]
pub(super) fn accepted(name: &str, value: &str) -> Result<(), String> {
    use walpost_kafka::{Limits, Settings};
    let servers = [("bootstrap.servers", "localhost:9092")];
    // The protocol gives its own and every other property a meaning.
    let beside = servers.into_iter().chain([("security.protocol", "sasl_ssl")]);
    let given = [(name, value)].into_iter().chain(beside.filter(|(beside, _)| *beside != name));
    let limits = Limits { records: 1000, bytes: 1 << 24 };
    match Settings::from_properties(given, limits) {
        Ok(_) => Ok(()),
        Err(faults) => Err(faults.into_iter().map(|fault| fault.reason).collect::<Vec<_>>().join("; ")),
    }
}

/// Without Kafka nobody can tell.
#[cfg(not(feature = "kafka"))]
pub(super) fn accepted(_: &str, _: &str) -> Result<(), String> {
    Ok(())
}
