//! What the operator may say about the producer, and what nobody may.
//!
//! The names are librdkafka's own and pass through. Refused is what would break a promise of walpost (an answer before a
//! record is durable, a record given up, an order lost), what walpost sets itself, and what means nothing to a producer.
//! All faults are reported at once, each with what to do; the value of a secret appears in none of them.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaConfRes;

use crate::properties;

/// How much may be on its way to the broker at once. The producer's queue is made so large that it is never the narrower
/// of the two.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Records accepted and not yet reported.
    pub records: usize,
    /// Their bytes.
    pub bytes: usize,
}

/// The producer's settings, checked.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    properties: BTreeMap<String, String>,
    warnings: Vec<String>,
}

/// Why a property is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{name}: {reason}")]
pub struct SettingFault {
    /// The property, as it was typed.
    pub name: String,
    /// What is wrong with it and what to do. Never contains the value of a secret.
    pub reason: String,
}

/// What a promise of walpost rests on: the property, the values that keep the promise, and the promise.
struct Pledge {
    name: &'static str,
    kept_by: fn(&str) -> bool,
    value: &'static str,
    promise: &'static str,
}

const PLEDGES: &[Pledge] = &[
    Pledge {
        name: "enable.idempotence",
        kept_by: is_true,
        value: "true",
        promise: "without it a retry inside the client can repeat or reorder records",
    },
    Pledge {
        name: "enable.gapless.guarantee",
        kept_by: is_true,
        value: "true",
        promise: "without it later records of a key overtake one that failed",
    },
    Pledge {
        name: "acks",
        kept_by: |value| value == "all" || value == "-1",
        value: "all",
        promise: "with less a record counts as delivered before it is durable, and a broker's crash loses it",
    },
    Pledge {
        name: "delivery.timeout.ms",
        kept_by: |value| value == "0",
        value: "0",
        promise: "a record is never given up; 0 means no limit",
    },
    Pledge {
        name: "max.in.flight.requests.per.connection",
        kept_by: |value| value.parse().is_ok_and(|requests: u32| (1..=5).contains(&requests)),
        value: "5",
        promise: "brokers keep the order of at most five requests of an idempotent producer",
    },
    Pledge {
        name: "queuing.strategy",
        kept_by: |value| value == "fifo",
        value: "fifo",
        promise: "anything else reorders records",
    },
    Pledge {
        name: "delivery.report.only.error",
        kept_by: |value| !is_true(value),
        value: "false",
        promise: "a position is confirmed by the reports of successful deliveries",
    },
];

/// Values that stand where the operator says nothing: what the promises rest on, then what is only wise.
const DEFAULTS: &[(&str, &str)] = &[
    ("enable.idempotence", "true"),
    ("enable.gapless.guarantee", "true"),
    ("acks", "all"),
    ("delivery.timeout.ms", "0"),
    ("max.in.flight.requests.per.connection", "5"),
    ("client.id", "walpost"),
    // A topic that appears by accident is worse than a relay that waits and names it.
    ("allow.auto.create.topics", "false"),
    // What Kafka's Java client, and so Debezium, does with keys. librdkafka's own default hashes differently, and the
    // order per key would break across a migration.
    ("partitioner", "murmur2_random"),
    ("linger.ms", "5"),
    ("compression.type", "lz4"),
    ("batch.size", "1000000"),
    ("batch.num.messages", "10000"),
    // Kafka's Java client: max.request.size.
    ("message.max.bytes", "1048576"),
    ("socket.keepalive.enable", "true"),
    // librdkafka's 10 s would be added to every outage.
    ("reconnect.backoff.max.ms", "2000"),
    // Kafka's Java client does the same. A broker hangs up after ten idle minutes, and that would look like an outage.
    ("connections.max.idle.ms", "540000"),
    // How long a topic that the broker does not know is waited for before its records come back as failed. Only the
    // moments between a topic's creation and its arrival in the metadata of every broker have to be bridged.
    ("topic.metadata.propagation.max.ms", "5000"),
];

const TIMEOUT: &str = "transaction.timeout.ms";
const LEAST_TRANSACTION_TIMEOUT: u64 = 2000;

/// librdkafka's own default.
const METADATA_REFRESH: Duration = Duration::from_mins(5);

const MESSAGES: &str = "queue.buffering.max.messages";
const KILOBYTES: &str = "queue.buffering.max.kbytes";

impl Settings {
    /// Checks the properties and adds what walpost needs. `limits` are the relay's own limits on what is in flight.
    ///
    /// # Errors
    /// Every property that is unknown, invalid, or breaks a promise, all at once.
    pub fn from_properties<'a>(
        given: impl IntoIterator<Item = (&'a str, &'a str)>,
        limits: Limits,
    ) -> Result<Self, Vec<SettingFault>> {
        let mut properties = BTreeMap::new();
        let mut faults = Vec::new();
        let mut taken = Vec::new();
        for (typed, value) in given {
            let name = properties::canonical(typed);
            let verdict = match fault_of(name, value) {
                None if properties.insert(name.to_owned(), value.to_owned()).is_some() => {
                    Some(format!("it is given twice, perhaps under another name of {name}; leave one out"))
                }
                verdict => verdict,
            };
            match verdict {
                None => taken.push(typed),
                Some(reason) => faults.push(SettingFault { name: typed.to_owned(), reason }),
            }
        }
        faults.extend(void_of_protocol(&properties, &taken));
        if !properties.contains_key("bootstrap.servers") && !faults.iter().any(is_about_servers) {
            faults.push(SettingFault {
                name: "bootstrap.servers".to_owned(),
                reason: "it is missing; name at least one broker, as in \"kafka-1:9092,kafka-2:9092\"".to_owned(),
            });
        }
        let warnings = warnings_about(&properties);
        complete(&mut properties, limits);
        faults.extend(queue_fault(&properties));
        if faults.is_empty() { Ok(Self { properties, warnings }) } else { Err(faults) }
    }

    /// What is allowed and still worth a warning, each in one sentence.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// The brokers that are asked first.
    #[must_use]
    pub fn servers(&self) -> &str {
        self.get("bootstrap.servers")
    }

    /// The same for a producer whose records become visible together.
    ///
    /// A record is given up a little before its transaction would be: the broker aborts a transaction that grows too old, by a
    /// higher epoch, and librdkafka cannot tell that from a second producer under the same id. Nothing is lost by giving up, for the whole
    /// transaction is sent again. (Without a limit on records the wait for a broker that is away would always end in that confusion.)
    ///
    /// # Errors
    /// `transaction.timeout.ms` is below what one request may take.
    pub fn in_transactions(&self, id: &str) -> Result<Self, SettingFault> {
        let mut properties = self.properties.clone();
        let timeout = properties.entry(TIMEOUT.to_owned()).or_insert_with(|| TRANSACTION_TIMEOUT.to_owned());
        let millis: u64 = timeout.parse().unwrap_or(0);
        if millis < LEAST_TRANSACTION_TIMEOUT {
            return Err(SettingFault {
                name: TIMEOUT.to_owned(),
                reason: format!(
                    "\"{timeout}\" leaves a broker no time to answer; set it to at least {LEAST_TRANSACTION_TIMEOUT}, or leave it out \
                     for {TRANSACTION_TIMEOUT}"
                ),
            });
        }
        properties.insert("delivery.timeout.ms".to_owned(), (millis - millis / 10).to_string());
        properties.insert("transactional.id".to_owned(), id.to_owned());
        Ok(Self { properties, warnings: self.warnings.clone() })
    }

    /// How old the broker lets a transaction become.
    #[must_use]
    pub fn transaction_timeout(&self) -> Duration {
        let typed = self.properties.get(TIMEOUT).map_or(TRANSACTION_TIMEOUT, String::as_str);
        Duration::from_millis(typed.parse().unwrap_or(0))
    }

    /// Whether records become visible together.
    pub(crate) fn is_transactional(&self) -> bool {
        self.properties.contains_key("transactional.id")
    }

    /// How keys become partitions.
    pub(crate) fn partitioner(&self) -> &str {
        self.get("partitioner")
    }

    /// How often the client asks what has become of the topics that it knows; `None` where it never does.
    pub(crate) fn metadata_refresh(&self) -> Option<Duration> {
        match self.properties.get("topic.metadata.refresh.interval.ms").map(|typed| typed.trim().parse::<u64>()) {
            None => Some(METADATA_REFRESH),
            Some(typed) => typed.ok().filter(|millis| *millis > 0).map(Duration::from_millis),
        }
    }

    /// What brokers know of the client: its id, and the user where it names one.
    pub(crate) fn client(&self) -> String {
        match self.get("sasl.username") {
            "" => self.get("client.id").to_owned(),
            user => format!("{user} by {}", self.get("client.id")),
        }
    }

    /// The largest record, in bytes, that the producer takes.
    pub(crate) fn message_max_bytes(&self) -> &str {
        self.get("message.max.bytes")
    }

    /// The largest batch of records, in bytes, that the producer makes, where a record may be as large.
    pub(crate) fn batch_size(&self) -> &str {
        self.get("batch.size")
    }

    /// As librdkafka wants it.
    pub(crate) fn client_config(&self) -> ClientConfig {
        let mut config = ClientConfig::new();
        config.extend(self.properties.iter().map(|(name, value)| (name.clone(), value.clone())));
        // rdkafka would otherwise ask the `log` crate, which knows nothing of a `tracing` subscriber.
        let is_debugging = self.properties.contains_key("debug");
        config.set_log_level(if is_debugging { RDKafkaLogLevel::Debug } else { RDKafkaLogLevel::Info });
        config
    }

    /// Every property, those that walpost adds among them.
    pub(crate) fn properties(&self) -> impl Iterator<Item = (&str, &str)> {
        self.properties.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    fn get(&self, name: &str) -> &str {
        self.properties.get(name).map_or("", String::as_str)
    }
}

/// Shows every property but the secret ones, of which only the name is shown.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = |(name, value): (&'_ String, &'_ String)| {
            let value = if properties::is_secret(name) { "(secret)" } else { value };
            (name.clone(), value.to_owned())
        };
        f.debug_map().entries(self.properties.iter().map(shown)).finish()
    }
}

fn is_true(value: &str) -> bool {
    // The spellings of librdkafka.
    value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("t") || value == "1"
}

fn is_about_servers(fault: &SettingFault) -> bool {
    properties::canonical(&fault.name) == "bootstrap.servers"
}

/// What is wrong with this property, whose name is the canonical one.
fn fault_of(name: &str, value: &str) -> Option<String> {
    if name == "transactional.id" {
        return Some("walpost makes it of the relay's name where it uses transactions; leave it out".to_owned());
    }
    if properties::is_reserved(name) {
        return Some("it is not for the configuration; leave it out".to_owned());
    }
    if properties::CONSUMER.contains(&name) {
        return Some("it means something to a consumer only, and walpost produces; leave it out".to_owned());
    }
    if let Some(instead) = properties::instead_of_java(name) {
        return Some(format!("it is a property of Kafka's Java client; {instead}"));
    }
    if name == "bootstrap.servers" && value.trim().is_empty() {
        return Some("it is empty; name at least one broker, as in \"kafka-1:9092,kafka-2:9092\"".to_owned());
    }
    if name == "bootstrap.servers" && value.contains("://") {
        return Some("it is a URL; write host:port, as in \"kafka-1:9092,kafka-2:9092\"".to_owned());
    }
    broken_pledge(name, value).or_else(|| refusal_of_librdkafka(name, value))
}

fn broken_pledge(name: &str, value: &str) -> Option<String> {
    let pledge = PLEDGES.iter().find(|pledge| pledge.name == name)?;
    let Pledge { value: right, promise, .. } = pledge;
    (!(pledge.kept_by)(value))
        .then(|| format!("\"{value}\" breaks a promise: {promise}; set it to {right} or leave it out"))
}

/// Lets librdkafka judge the property by itself.
fn refusal_of_librdkafka(name: &str, value: &str) -> Option<String> {
    let mut config = ClientConfig::new();
    config.set(name, value);
    match config.create_native_config() {
        Ok(_) => None,
        Err(KafkaError::ClientConfig(RDKafkaConfRes::RD_KAFKA_CONF_UNKNOWN, ..)) => Some(unknown(name)),
        Err(KafkaError::ClientConfig(_, description, ..)) if !properties::is_secret(name) => Some(format!(
            "{value:?} is refused by librdkafka ({}); correct it or leave it out",
            renamed(&description, name)
        )),
        Err(_) => Some("librdkafka refuses its value; correct it or leave it out".to_owned()),
    }
}

/// What is set for a secured connection while the protocol has none.
fn void_of_protocol(properties: &BTreeMap<String, String>, typed: &[&str]) -> Vec<SettingFault> {
    let protocol = properties.get("security.protocol").map_or("plaintext", String::as_str);
    if !protocol.eq_ignore_ascii_case("plaintext") {
        return Vec::new();
    }
    let void = |name: &str| {
        let (what, instead) = match name.split_once('.')?.0 {
            "sasl" => ("logs in", "sasl_ssl (or sasl_plaintext)"),
            "ssl" => ("encrypts", "ssl (or sasl_ssl)"),
            _ => return None,
        };
        let reason = format!(
            "it means nothing while security.protocol is plaintext, which never {what}; set \"security.protocol\" to {instead}, or leave it out"
        );
        Some(SettingFault { name: name.to_owned(), reason })
    };
    typed.iter().filter_map(|name| void(name)).collect()
}

/// What librdkafka says of a property, which it may call by another of its names.
fn renamed(description: &str, name: &str) -> String {
    let parts = description.trim().split_once("property \"").and_then(|(before, rest)| {
        let (_, after) = rest.split_once('"')?;
        Some(format!("{before}property \"{name}\"{after}"))
    });
    parts.unwrap_or_else(|| description.trim().to_owned())
}

fn unknown(name: &str) -> String {
    match properties::nearest(name) {
        Some(nearest) => format!("librdkafka has no such property; did you mean {nearest}?"),
        None => "librdkafka has no such property; leave it out".to_owned(),
    }
}

fn warnings_about(properties: &BTreeMap<String, String>) -> Vec<String> {
    let is_set = |name: &str, harmful: fn(&str) -> bool| properties.get(name).is_some_and(|value| harmful(value));
    let mut warnings = Vec::new();
    if is_set("allow.auto.create.topics", is_true) {
        warnings.push(
            "allow.auto.create.topics is on: a wrong topic name makes a topic, with the broker's default number of \
             partitions and replicas; create topics by hand and leave it out"
                .to_owned(),
        );
    }
    if is_set("partitioner", |value| !value.starts_with("murmur2")) {
        warnings.push(
            "partitioner hashes keys differently from Kafka's Java client: records of a key that other producers wrote, \
             Debezium among them, lie in another partition; murmur2_random is the default here"
                .to_owned(),
        );
    }
    if is_set("enable.ssl.certificate.verification", |value| !is_true(value)) {
        warnings.push(
            "enable.ssl.certificate.verification is off: anybody on the way can pose as the broker and read what is \
             sent; name the authority in ssl.ca.location instead"
                .to_owned(),
        );
    }
    warnings
}

/// librdkafka's own default, which is the Java client's too.
const TRANSACTION_TIMEOUT: &str = "60000";

/// Adds the defaults, and a queue that holds what the relay lets be in flight.
fn complete(properties: &mut BTreeMap<String, String>, limits: Limits) {
    for (name, value) in DEFAULTS {
        properties.entry((*name).to_owned()).or_insert_with(|| (*value).to_owned());
    }
    // Both queue limits are 32-bit and signed in librdkafka.
    let largest = i32::MAX.unsigned_abs() as usize;
    // A record may be larger than the whole budget: it is then admitted when nothing else is in flight.
    let kilobytes = limits.bytes.max(number(properties, "message.max.bytes")).div_ceil(1024);
    for (name, needed) in [(MESSAGES, limits.records), (KILOBYTES, kilobytes)] {
        properties.entry(name.to_owned()).or_insert_with(|| needed.clamp(1, largest).to_string());
    }
}

/// A queue that cannot hold the largest record would answer "full" to it for ever.
fn queue_fault(properties: &BTreeMap<String, String>) -> Option<SettingFault> {
    let record = number(properties, "message.max.bytes");
    let is_too_small = number(properties, KILOBYTES).saturating_mul(1024) < record;
    is_too_small.then(|| SettingFault {
        name: KILOBYTES.to_owned(),
        reason: format!(
            "the queue cannot hold a single record of message.max.bytes = {record}; set it to at least {} or leave it out",
            record.div_ceil(1024)
        ),
    })
}

/// The value as a number; 0 where it is none, which librdkafka has then refused already.
fn number(properties: &BTreeMap<String, String>, name: &str) -> usize {
    properties.get(name).and_then(|value| value.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { records: 1000, bytes: 4 << 20 };
    const SERVERS: (&str, &str) = ("bootstrap.servers", "127.0.0.1:9092");

    fn settings(given: &[(&str, &str)]) -> Settings {
        Settings::from_properties(given.iter().copied().chain([SERVERS]), LIMITS).unwrap()
    }

    fn faults(given: &[(&str, &str)]) -> Vec<SettingFault> {
        Settings::from_properties(given.iter().copied().chain([SERVERS]), LIMITS).unwrap_err()
    }

    #[test]
    fn bootstrap_servers_suffice_and_the_promises_are_kept() {
        let settings = settings(&[]);
        for (name, value) in [
            ("bootstrap.servers", "127.0.0.1:9092"),
            ("enable.idempotence", "true"),
            ("enable.gapless.guarantee", "true"),
            ("acks", "all"),
            ("delivery.timeout.ms", "0"),
            ("partitioner", "murmur2_random"),
            ("allow.auto.create.topics", "false"),
            ("linger.ms", "5"),
            ("compression.type", "lz4"),
            ("message.max.bytes", "1048576"),
            ("client.id", "walpost"),
            ("queue.buffering.max.messages", "1000"),
            ("queue.buffering.max.kbytes", "4096"),
        ] {
            assert_eq!(settings.get(name), value, "{name}");
        }
        assert!(settings.warnings().is_empty());
        assert!(settings.client_config().create_native_config().is_ok());
    }

    #[test]
    fn what_the_operator_sets_replaces_the_default_under_any_of_its_names() {
        let settings = settings(&[
            ("queue.buffering.max.ms", "20"),
            ("compression.codec", "zstd"),
            ("request.required.acks", "-1"),
            ("message.timeout.ms", "0"),
            ("enable.idempotence", "True"),
            ("max.in.flight", "1"),
            ("client.id", "orders"),
        ]);
        for (name, value) in [
            ("linger.ms", "20"),
            ("compression.type", "zstd"),
            ("acks", "-1"),
            ("max.in.flight.requests.per.connection", "1"),
            ("client.id", "orders"),
        ] {
            assert_eq!(settings.get(name), value, "{name}");
        }
        assert!(!settings.properties.contains_key("compression.codec"));
    }

    #[test]
    fn what_breaks_a_promise_is_refused_with_the_promise() {
        for (name, value, word) in [
            ("enable.idempotence", "false", "reorder"),
            ("enable.gapless.guarantee", "0", "overtake"),
            ("acks", "1", "durable"),
            ("acks", "0", "durable"),
            ("request.required.acks", "1", "durable"),
            ("delivery.timeout.ms", "120000", "never given up"),
            ("message.timeout.ms", "1", "never given up"),
            ("max.in.flight", "6", "five requests"),
            ("max.in.flight.requests.per.connection", "many", "five requests"),
            ("queuing.strategy", "lifo", "reorders"),
            ("delivery.report.only.error", "true", "reports"),
            ("transactional.id", "walpost", "relay's name"),
            ("dr_msg_cb", "0x1", "leave it out"),
            ("opaque", "1", "leave it out"),
            ("log_level", "7", "leave it out"),
            ("test.mock.num.brokers", "1", "leave it out"),
            ("group.id", "g", "consumer"),
            ("auto.offset.reset", "earliest", "consumer"),
            ("isolation.level", "read_committed", "consumer"),
            ("max.request.size", "1", "message.max.bytes"),
            ("ssl.truststore.location", "/t.jks", "ssl.ca.location"),
            ("linger.ms", "soon", "is refused by librdkafka"),
            ("compression.type", "brotli", "is refused by librdkafka"),
            ("partitioner", "by luck", "is refused by librdkafka"),
            ("client.id", "a\0b", "refuses its value"),
            ("boostrap.server", "x", "bootstrap.servers"),
            ("frobnicate", "1", "no such property"),
            ("", "1", "no such property"),
        ] {
            let faults = faults(&[(name, value)]);
            assert_eq!(faults.len(), 1, "{name}: {faults:?}");
            assert_eq!(faults[0].name, name);
            assert!(faults[0].reason.contains(word), "{name}: {}", faults[0].reason);
        }
    }

    #[test]
    fn in_transactions_a_record_is_given_up_before_its_transaction_is() {
        for (given, timeout, delivery) in
            [(&[] as &[_], 60_000, "54000"), (&[("transaction.timeout.ms", "2000")], 2000, "1800")]
        {
            let settings = settings(given).in_transactions("walpost-orders").unwrap();
            assert_eq!(settings.transaction_timeout(), Duration::from_millis(timeout));
            assert_eq!(settings.get("delivery.timeout.ms"), delivery);
            assert_eq!(settings.get("transactional.id"), "walpost-orders");
            assert!(settings.client_config().create_native_config().is_ok());
        }
        let fault = settings(&[("transaction.timeout.ms", "1999")]).in_transactions("walpost-orders").unwrap_err();
        assert_eq!(fault.name, "transaction.timeout.ms");
        assert!(fault.reason.contains("at least 2000"), "{fault}");
    }

    #[test]
    fn what_the_protocol_makes_void_is_refused_with_the_protocol_that_means_it() {
        for (protocol, name, void) in [
            (None, "sasl.username", true),
            (None, "ssl.ca.location", true),
            (Some("plaintext"), "sasl.username", true),
            (Some("PLAINTEXT"), "ssl.ca.location", true),
            (Some("ssl"), "ssl.ca.location", false),
            (Some("sasl_plaintext"), "sasl.username", false),
            (Some("SASL_SSL"), "ssl.ca.location", false),
        ] {
            let protocol = protocol.map(|protocol| ("security.protocol", protocol));
            let given = [SERVERS, (name, "x")].into_iter().chain(protocol);
            let faults = Settings::from_properties(given, LIMITS).err().unwrap_or_default();
            assert_eq!(faults.len(), usize::from(void), "{protocol:?} {name}: {faults:?}");
            let names =
                faults.iter().all(|fault| fault.name == name && fault.reason.contains("set \"security.protocol\" to"));
            assert!(names, "{faults:?}");
        }
    }

    #[test]
    fn a_client_is_known_by_its_user_where_it_has_one() {
        let user = [("security.protocol", "sasl_ssl"), ("sasl.username", "app"), ("client.id", "desk")];
        for (given, client) in [(&user[..], "app by desk"), (&user[2..], "desk")] {
            assert_eq!(settings(given).client(), client);
        }
    }

    #[test]
    fn a_value_that_librdkafka_refuses_is_shown_under_the_name_that_was_meant() {
        for (name, value, reason) in [
            (
                "linger.ms",
                "soon",
                "\"soon\" is refused by librdkafka (Invalid value for configuration property \"linger.ms\"); correct it or leave it out",
            ),
            (
                "compression.type",
                "brotli",
                "(Invalid value \"brotli\" for configuration property \"compression.type\")",
            ),
        ] {
            let faults = faults(&[(name, value)]);
            assert!(faults[0].reason.contains(reason), "{faults:?}");
        }
    }

    #[test]
    fn brokers_are_named_by_host_and_port_and_not_by_a_url() {
        for servers in ["http://kafka:9092", "PLAINTEXT://kafka:9092", "kafka:9092,https://u:hunter2@k:1"] {
            let faults = Settings::from_properties([("bootstrap.servers", servers)], LIMITS).unwrap_err();
            assert_eq!(faults.len(), 1, "{faults:?}");
            assert!(faults[0].reason.starts_with("it is a URL; write host:port"), "{faults:?}");
            assert!(!faults[0].reason.contains("hunter2"), "{faults:?}");
        }
    }

    #[test]
    fn all_faults_are_reported_at_once() {
        let given = [("acks", "1"), ("frobnicate", "1"), ("linger.ms", "x")];
        let found = Settings::from_properties(given, LIMITS).unwrap_err();
        let names: Vec<&str> = found.iter().map(|fault| fault.name.as_str()).collect();
        assert_eq!(names, ["acks", "frobnicate", "linger.ms", "bootstrap.servers"]);
    }

    #[test]
    fn empty_bootstrap_servers_are_one_fault() {
        for name in ["bootstrap.servers", "metadata.broker.list"] {
            let found = Settings::from_properties([(name, " ")], LIMITS).unwrap_err();
            assert_eq!(found.len(), 1, "{found:?}");
            assert!(found[0].reason.contains("empty"));
        }
    }

    #[test]
    fn the_same_property_under_two_names_is_refused() {
        let found = faults(&[("linger.ms", "5"), ("queue.buffering.max.ms", "50")]);
        assert_eq!(found.len(), 1);
        assert!(found[0].to_string().starts_with("queue.buffering.max.ms: it is given twice"), "{}", found[0]);
    }

    #[test]
    fn a_secret_is_never_shown() {
        let shown = format!(
            "{:?}",
            settings(&[
                ("security.protocol", "sasl_ssl"),
                ("sasl.password", "hunter2"),
                ("ssl.key.password", "hunter2")
            ])
        );
        assert!(!shown.contains("hunter2"), "{shown}");
        assert!(shown.contains("sasl.password"), "{shown}");
        for name in ["sasl.password", "ssl.key.pem", "sasl.pasword", "sasl.jaas.config", "ssl.truststore.password"] {
            for value in ["hunter2", "hunter2\0"] {
                let outcome = Settings::from_properties([(name, value), SERVERS], LIMITS);
                assert!(!format!("{outcome:?}").contains("hunter2"), "{name}");
            }
        }
    }

    #[test]
    fn the_queue_holds_the_largest_record_and_never_limits_before_the_relay_does() {
        let large = settings(&[("message.max.bytes", "100000000")]);
        assert_eq!(large.get(KILOBYTES), "97657");
        let limits = Limits { records: usize::MAX, bytes: usize::MAX };
        let boundless = Settings::from_properties([SERVERS], limits).unwrap();
        assert_eq!(boundless.get(MESSAGES), "2147483647");
        assert!(boundless.client_config().create_native_config().is_ok());
        let none = Settings::from_properties([SERVERS], Limits { records: 0, bytes: 0 }).unwrap();
        assert_eq!((none.get(MESSAGES), none.get(KILOBYTES)), ("1", "1024"));

        let small = faults(&[(KILOBYTES, "10")]);
        assert!(small[0].reason.contains("at least 1024"), "{}", small[0]);
    }

    #[test]
    fn doubtful_settings_are_taken_with_a_warning() {
        for (name, value) in [
            ("allow.auto.create.topics", "true"),
            ("partitioner", "consistent_random"),
            ("enable.ssl.certificate.verification", "false"),
        ] {
            let warnings = settings(&[(name, value)]).warnings().to_vec();
            assert_eq!(warnings.len(), 1, "{name}");
            assert!(warnings[0].contains(name), "{}", warnings[0]);
        }
    }
}
