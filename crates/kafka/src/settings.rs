//! The producer's properties: what stands where the operator says nothing, and what the rest of this edge asks of them.
//!
//! The names are librdkafka's own and pass through. What is refused, and with which sentence, is the subject of [`refusal`];
//! nothing here judges a value.

mod refusal;

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use rdkafka::config::{ClientConfig, RDKafkaLogLevel};

use crate::properties;

pub use refusal::SettingFault;

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

/// librdkafka's own default, which is the Java client's too.
const TRANSACTION_TIMEOUT: &str = "60000";

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
        let (mut properties, mut faults) = refusal::sift(given);
        let warnings = refusal::warnings_about(&properties);
        complete(&mut properties, limits);
        faults.extend(refusal::queue_fault(&properties));
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
        if let Some(fault) = refusal::transaction_timeout_fault(timeout) {
            return Err(fault);
        }
        let millis: u64 = timeout.parse().unwrap_or(0);
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

/// The value as a number; 0 where it is none, which librdkafka has then refused already.
fn number(properties: &BTreeMap<String, String>, name: &str) -> usize {
    properties.get(name).and_then(|value| value.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) const LIMITS: Limits = Limits { records: 1000, bytes: 4 << 20 };
    pub(super) const SERVERS: (&str, &str) = ("bootstrap.servers", "127.0.0.1:9092");

    pub(super) fn settings(given: &[(&str, &str)]) -> Settings {
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
    fn a_client_is_known_by_its_user_where_it_has_one() {
        let user = [("security.protocol", "sasl_ssl"), ("sasl.username", "app"), ("client.id", "desk")];
        for (given, client) in [(&user[..], "app by desk"), (&user[2..], "desk")] {
            assert_eq!(settings(given).client(), client);
        }
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
}
