//! Which of the producer's properties are refused, which are taken with a warning, and with which sentence.
//!
//! Refused is what would break a promise of walpost (an answer before a record is durable, a record given up, an order lost), what
//! walpost sets itself, what means nothing to a producer, and what librdkafka itself refuses. All faults are reported at once,
//! each with what to do; the value of a secret appears in none of them. Nothing is corrected here: that is for the operator.

use std::collections::BTreeMap;

use rdkafka::config::ClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaConfRes;

use super::{KILOBYTES, TIMEOUT, TRANSACTION_TIMEOUT, number};
use crate::properties;

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

/// The shortest transaction, in milliseconds, that leaves a broker time to answer one request.
const LEAST_TRANSACTION_TIMEOUT: u64 = 2000;

/// What is taken of what was typed, each under the one name that is used here, and what is refused of it.
pub(super) fn sift<'a>(
    given: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> (BTreeMap<String, String>, Vec<SettingFault>) {
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
    faults.extend(no_servers(&properties, &faults));
    (properties, faults)
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
    broken_pledge(name, value).or_else(|| refusal_of_librdkafka(name, value)).or_else(|| half_a_number(name, value))
}

/// What stands behind a number, such as a unit, is passed over by librdkafka without a word: 30s would be 30 ms.
fn half_a_number(name: &str, value: &str) -> Option<String> {
    let typed = value.trim();
    let begins_as_one = typed.trim_start_matches(['-', '+']).starts_with(|ch: char| ch.is_ascii_digit());
    let is_one = typed.parse::<f64>().is_ok() || hexadecimal(typed);
    // A text would be taken whatever it is.
    (begins_as_one && !is_one && refusal_of_librdkafka(name, "x").is_some()).then(|| {
        format!("{value:?} is no number: librdkafka would pass over what stands behind its digits; write the number alone, in the unit that the property has")
    })
}

fn hexadecimal(typed: &str) -> bool {
    typed.strip_prefix("0x").is_some_and(|digits| i64::from_str_radix(digits, 16).is_ok())
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

fn no_servers(properties: &BTreeMap<String, String>, faults: &[SettingFault]) -> Option<SettingFault> {
    let is_about_servers = |fault: &SettingFault| properties::canonical(&fault.name) == "bootstrap.servers";
    let is_missing = !properties.contains_key("bootstrap.servers") && !faults.iter().any(is_about_servers);
    is_missing.then(|| SettingFault {
        name: "bootstrap.servers".to_owned(),
        reason: "it is missing; name at least one broker, as in \"kafka-1:9092,kafka-2:9092\"".to_owned(),
    })
}

/// A queue that cannot hold the largest record would answer "full" to it for ever.
pub(super) fn queue_fault(properties: &BTreeMap<String, String>) -> Option<SettingFault> {
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

/// A transaction that the broker would abort before one request is answered.
pub(super) fn transaction_timeout_fault(timeout: &str) -> Option<SettingFault> {
    let is_too_short = timeout.parse().unwrap_or(0) < LEAST_TRANSACTION_TIMEOUT;
    is_too_short.then(|| SettingFault {
        name: TIMEOUT.to_owned(),
        reason: format!(
            "\"{timeout}\" leaves a broker no time to answer; set it to at least {LEAST_TRANSACTION_TIMEOUT}, or leave it out \
             for {TRANSACTION_TIMEOUT}"
        ),
    })
}

/// What is allowed and still worth a warning, each in one sentence.
pub(super) fn warnings_about(properties: &BTreeMap<String, String>) -> Vec<String> {
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

fn is_true(value: &str) -> bool {
    // The spellings of librdkafka.
    value.eq_ignore_ascii_case("true") || value.eq_ignore_ascii_case("t") || value == "1"
}

#[cfg(test)]
mod tests {
    use super::super::Settings;
    use super::super::tests::{LIMITS, SERVERS, settings};
    use super::*;

    fn faults(given: &[(&str, &str)]) -> Vec<SettingFault> {
        Settings::from_properties(given.iter().copied().chain([SERVERS]), LIMITS).unwrap_err()
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
            ("socket.timeout.ms", "30s", "\"30s\" is no number"),
            ("linger.ms", "5ms", "write the number alone"),
            ("message.max.bytes", "2000kB", "is no number"),
            ("batch.size", "1_000_000", "is no number"),
            ("socket.timeout.ms", "1", "is refused by librdkafka"),
            ("reconnect.backoff.ms", "99999999999", "is refused by librdkafka"),
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
    fn a_text_that_begins_with_digits_is_none_of_a_number_and_a_number_may_be_of_any_form() {
        for (name, value) in [
            ("client.id", "30s"),
            ("client.rack", "1a"),
            ("linger.ms", "0.5"),
            ("socket.timeout.ms", " 30000 "),
            ("socket.timeout.ms", "0x7530"),
            ("compression.level", "-1"),
        ] {
            let found = Settings::from_properties([(name, value), SERVERS], LIMITS);
            assert!(found.is_ok(), "{name}={value}: {found:?}");
        }
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
