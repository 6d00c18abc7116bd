//! A look at brokers and topics before anything is sent: all that is wrong, or weaker than the promises need, at once.
//!
//! It creates nothing and writes nothing. It cannot see whether writing is allowed: brokers tell that only to a client
//! that writes.

use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, OwnedResourceSpecifier, ResourceSpecifier};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::{FromClientConfig, FromClientConfigAndContext};
use rdkafka::metadata::MetadataTopic;
use rdkafka::producer::{Producer as _, ThreadedProducer};
use rdkafka::types::{RDKafkaErrorCode as Code, RDKafkaRespErr};
use walpost_core::finding::{Finding, Severity};

use crate::context::Context;
use crate::producer::{is_legal_topic, refusal_of_settings};
use crate::settings::Settings;

/// How long the brokers may take for all answers together.
const LIMIT: Duration = Duration::from_secs(15);

/// How long brokers that refuse every connection are asked again.
const LIMIT_WHEN_DOWN: Duration = Duration::from_secs(3);

/// A retention, or an age of records, that an outage of ordinary length may exceed: a day.
const SHORT_RETENTION_MS: u64 = 86_400_000;

/// By how much two clocks may well differ: a minute.
const SKEW_MS: u64 = 60_000;

/// Looks at the brokers and at each of the topics, in at most about 15 s. `topics` are those that are known beforehand;
/// there need not be any.
pub async fn check(settings: &Settings, topics: &[String]) -> Vec<Finding> {
    let mut findings: Vec<Finding> = settings
        .warnings()
        .iter()
        .map(|warning| {
            let (sentence, remedy) = warning.rsplit_once("; ").unwrap_or((warning, ""));
            Finding::new(Severity::Warning, "sink settings", sentence, remedy)
        })
        .collect();
    let deadline = Instant::now() + LIMIT;
    let asked = settings.clone();
    let names = topics.to_vec();
    let looked = tokio::task::spawn_blocking(move || look(&asked, &names, deadline)).await;
    let Ok((more, existing)) = looked else {
        findings.push(Finding::new(Severity::Error, "brokers", "looking at them failed unexpectedly", "try again"));
        return findings;
    };
    findings.extend(more);
    findings.extend(look_at_configs(settings, &existing, deadline).await);
    findings
}

/// Reachability and topics. Answers also the topics that are there.
fn look(settings: &Settings, topics: &[String], deadline: Instant) -> (Vec<Finding>, Vec<String>) {
    let client = match ThreadedProducer::from_config_and_context(&settings.client_config(), Context::default()) {
        Ok(client) => client,
        Err(error) => {
            let remedy = "correct the settings of the sink";
            let finding = Finding::new(Severity::Error, "sink settings", refusal_of_settings(&error), remedy);
            return (vec![finding], Vec::new());
        }
    };
    let Some(cluster) = cluster_of(&client, deadline) else {
        return (vec![unreachable(settings, client.client().context())], Vec::new());
    };
    let mut findings = vec![Finding::new(
        Severity::Note,
        "brokers",
        format!("{} answers, of the cluster {cluster}", settings.servers()),
        "nothing has to be done",
    )];
    let mut existing = Vec::new();
    for topic in topics {
        match look_at_topic(&client, topic, deadline) {
            Ok(more) => {
                existing.push(topic.clone());
                findings.extend(more);
            }
            Err(finding) => findings.push(finding),
        }
    }
    (findings, existing)
}

/// The cluster's id, or nothing as soon as it is plain that no broker will tell it.
fn cluster_of(client: &ThreadedProducer<Context>, deadline: Instant) -> Option<String> {
    let context = client.client().context();
    let down_until = Instant::now() + LIMIT_WHEN_DOWN;
    while Instant::now() < deadline {
        if let Some(cluster) = client.client().fetch_cluster_id(Duration::from_millis(250)) {
            return Some(cluster);
        }
        if context.verdict().is_some() || (context.is_all_down() && Instant::now() > down_until) {
            return None;
        }
    }
    None
}

fn unreachable(settings: &Settings, context: &Context) -> Finding {
    let servers = settings.servers();
    if let Some(verdict) = context.verdict() {
        return Finding::new(Severity::Error, "brokers", verdict.reason, format!("look at what {servers} asks for"));
    }
    let why = context.last_error().map_or_else(String::new, |error| format!(": {error}"));
    Finding::new(
        Severity::Error,
        "brokers",
        format!("none of {servers} answers{why}"),
        "start Kafka, or correct bootstrap.servers and security.protocol",
    )
}

/// What is to be said about a topic that is there, or why it is closed to us.
fn look_at_topic(client: &ThreadedProducer<Context>, topic: &str, deadline: Instant) -> Result<Vec<Finding>, Finding> {
    let subject = subject_of(topic);
    if !is_legal_topic(topic) {
        return Err(Finding::new(
            Severity::Error,
            &subject,
            "no topic can have this name",
            "use 1 to 249 of the characters a-z, A-Z, 0-9, dot, underscore and hyphen",
        ));
    }
    let metadata = client.client().fetch_metadata(Some(topic), left(deadline)).map_err(|error| {
        let remedy = "look at the brokers' health and try again";
        Finding::new(Severity::Error, &subject, format!("the brokers do not say whether it exists: {error}"), remedy)
    })?;
    match metadata.topics().iter().find(|found| found.name() == topic) {
        Some(found) => match found.error() {
            None => Ok(replication_of(&subject, found).into_iter().collect()),
            Some(error) => Err(closed(&subject, topic, error)),
        },
        None => Err(missing(&subject, topic)),
    }
}

fn closed(subject: &str, topic: &str, error: RDKafkaRespErr) -> Finding {
    match Code::from(error) {
        Code::UnknownTopicOrPartition | Code::UnknownTopic => missing(subject, topic),
        Code::TopicAuthorizationFailed => Finding::new(
            Severity::Error,
            subject,
            "the user may not see it",
            format!(
                "kafka-acls.sh --bootstrap-server <broker> --add --allow-principal <principal> --producer --topic {topic}"
            ),
        ),
        code => {
            let remedy = "look at the brokers' health and try again";
            Finding::new(Severity::Error, subject, format!("it cannot be written to: {code}"), remedy)
        }
    }
}

fn missing(subject: &str, topic: &str) -> Finding {
    Finding::new(
        Severity::Error,
        subject,
        "it does not exist, and walpost creates none",
        format!(
            "kafka-topics.sh --bootstrap-server <broker> --create --topic {topic} --partitions <n> --replication-factor 3"
        ),
    )
}

fn replication_of(subject: &str, topic: &MetadataTopic) -> Option<Finding> {
    let fewest = topic.partitions().iter().map(|partition| partition.replicas().len()).min()?;
    (fewest < 2).then(|| {
        Finding::new(
            Severity::Warning,
            subject,
            "it has a single replica, and what the broker loses with its disk is lost",
            "raise its replication factor with kafka-reassign-partitions.sh",
        )
    })
}

/// What the topics' own settings weaken. That they cannot be read is only a note.
async fn look_at_configs(settings: &Settings, topics: &[String], deadline: Instant) -> Vec<Finding> {
    if topics.is_empty() {
        return Vec::new();
    }
    let Ok(admin) = AdminClient::<DefaultClientContext>::from_config(&settings.client_config()) else {
        return Vec::new();
    };
    let resources: Vec<ResourceSpecifier<'_>> = topics.iter().map(|topic| ResourceSpecifier::Topic(topic)).collect();
    let options = AdminOptions::new().request_timeout(Some(left(deadline)));
    let described = admin.describe_configs(&resources, &options).await;
    // Its thread has to be joined, and it may be asleep for a tenth of a second.
    tokio::task::spawn_blocking(move || drop(admin));
    let Ok(described) = described else {
        return vec![unread("topics")];
    };
    described.iter().flatten().flat_map(|config| weaknesses_of(settings, config)).collect()
}

fn weaknesses_of(settings: &Settings, config: &ConfigResource) -> Vec<Finding> {
    let OwnedResourceSpecifier::Topic(topic) = &config.specifier else {
        return Vec::new();
    };
    // rdkafka drops the error of a single resource and leaves its list of entries empty.
    if config.entries.is_empty() {
        return vec![unread(&subject_of(topic))];
    }
    weaknesses(settings, topic, &|name| value_of(config, name))
}

fn unread(subject: &str) -> Finding {
    let remedy = "allow the user DescribeConfigs on it with kafka-acls.sh to have them looked at";
    Finding::new(Severity::Note, subject, "its settings cannot be read, so they were not looked at", remedy)
}

fn value_of(config: &ConfigResource, name: &str) -> Option<String> {
    config.get(name).and_then(|entry| entry.value.clone())
}

/// What a topic's settings, looked up by name, weaken.
fn weaknesses(settings: &Settings, topic: &str, value: &dyn Fn(&str) -> Option<String>) -> Vec<Finding> {
    let subject = subject_of(topic);
    let alter = |change: &str| {
        format!("kafka-configs.sh --alter --entity-type topics --entity-name {topic} --add-config {change}")
    };
    let number = |text: &str| text.parse::<u64>().ok();
    let mut findings = Vec::new();
    if value("min.insync.replicas").as_deref() == Some("1") {
        let sentence = "min.insync.replicas is 1: a record counts as durable on one broker, and is lost with it";
        findings.push(Finding::new(Severity::Warning, &subject, sentence, alter("min.insync.replicas=2")));
    }
    if value("unclean.leader.election.enable").as_deref() == Some("true") {
        let sentence =
            "unclean leader election is on: a broker that missed records may become the leader and drop them";
        findings.push(Finding::new(
            Severity::Warning,
            &subject,
            sentence,
            alter("unclean.leader.election.enable=false"),
        ));
    }
    let largest = value("max.message.bytes").as_deref().and_then(number);
    let ours = number(settings.message_max_bytes());
    if let (Some(largest), Some(ours)) = (largest, ours)
        && largest < ours
    {
        let sentence =
            format!("max.message.bytes is {largest}: larger records are refused, though the producer takes {ours}");
        findings.push(Finding::new(Severity::Warning, &subject, sentence, alter(&format!("max.message.bytes={ours}"))));
    }
    // The client makes no batch larger than either.
    let batch = number(settings.batch_size()).zip(ours).map(|(batch, ours)| batch.min(ours));
    if let (Some(largest), Some(batch)) = (largest, batch)
        && largest < batch
    {
        let sentence = format!(
            "max.message.bytes is {largest}, and the producer makes batches of up to {batch} bytes: one that is larger after its compression is refused as a \
             whole and sent again in parts, which is slow"
        );
        let remedy = format!(
            "{}, or set \"batch.size\" of [sink.kafka] to {largest} or less",
            alter(&format!("max.message.bytes={batch}"))
        );
        findings.push(Finding::new(Severity::Warning, &subject, sentence, remedy));
    }
    if value("cleanup.policy").is_some_and(|policy| policy.contains("compact")) {
        let sentence = "it is compacted: records without a key are refused, and older ones of a key disappear";
        findings.push(Finding::new(Severity::Note, &subject, sentence, "give every event a key"));
    }
    if value("message.timestamp.type").as_deref() == Some("LogAppendTime") {
        let sentence = "the broker replaces every record's timestamp by its own clock";
        findings.push(Finding::new(Severity::Note, &subject, sentence, alter("message.timestamp.type=CreateTime")));
    } else {
        findings.extend(clock_rules(&subject, value, &alter));
    }
    if let Some(retention) = value("retention.ms").as_deref().and_then(number)
        && retention < SHORT_RETENTION_MS
    {
        let sentence = format!(
            "retention.ms is {retention} and counts from a record's own timestamp: events that are older when they \
             arrive, as after an outage, may be deleted before anybody reads them"
        );
        findings.push(Finding::new(Severity::Note, &subject, sentence, alter("retention.ms=604800000")));
    }
    findings
}

/// What a topic refuses for its timestamp, which is that of the commit unless a column is configured.
fn clock_rules(subject: &str, value: &dyn Fn(&str) -> Option<String>, alter: &dyn Fn(&str) -> String) -> Vec<Finding> {
    let rules = [
        (
            "message.timestamp.before.max.ms",
            SHORT_RETENTION_MS,
            "9223372036854775807",
            "events that were committed longer ago, as after an outage, are refused, and the stream is held",
        ),
        (
            "message.timestamp.after.max.ms",
            SKEW_MS,
            "3600000",
            "where the clock of the database is ahead of the broker's by more, its events are refused, and the stream is held",
        ),
    ];
    rules
        .into_iter()
        .filter_map(|(name, least, usual, what)| {
            let limit = value(name)?.parse::<u64>().ok().filter(|limit| *limit < least)?;
            let remedy = alter(&format!("{name}={usual}"));
            Some(Finding::new(Severity::Warning, subject, format!("{name} is {limit}: {what}"), remedy))
        })
        .collect()
}

fn subject_of(topic: &str) -> String {
    format!("topic \"{topic}\"")
}

fn left(deadline: Instant) -> Duration {
    // Zero would mean something else to librdkafka.
    deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(100))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Limits;

    #[test]
    fn what_a_topics_settings_weaken_is_found_with_its_remedy() {
        let settings = Settings::from_properties(
            [("bootstrap.servers", "127.0.0.1:9092")],
            Limits { records: 1000, bytes: 1 << 20 },
        )
        .unwrap();
        let found = |name: &'static str, value: &'static str| {
            weaknesses(&settings, "orders", &|asked| (asked == name).then(|| value.to_owned()))
        };
        for (name, value, severity) in [
            ("min.insync.replicas", "1", Severity::Warning),
            ("unclean.leader.election.enable", "true", Severity::Warning),
            ("max.message.bytes", "1048575", Severity::Warning),
            ("cleanup.policy", "compact,delete", Severity::Note),
            ("message.timestamp.type", "LogAppendTime", Severity::Note),
            ("retention.ms", "3600000", Severity::Note),
            ("message.timestamp.before.max.ms", "3600000", Severity::Warning),
            ("message.timestamp.after.max.ms", "1000", Severity::Warning),
        ] {
            let findings = found(name, value);
            assert_eq!(findings.len(), 1, "{name}");
            assert_eq!(findings[0].severity, severity, "{name}");
            assert_eq!(findings[0].subject, "topic \"orders\"");
            assert!(!findings[0].remedy.is_empty(), "{name}");
        }
        let both = found("max.message.bytes", "999999");
        assert_eq!(both.len(), 2, "{both:?}");
        for (name, value) in [
            ("min.insync.replicas", "2"),
            ("unclean.leader.election.enable", "false"),
            ("max.message.bytes", "1048588"),
            ("max.message.bytes", "a lot"),
            ("cleanup.policy", "delete"),
            ("message.timestamp.type", "CreateTime"),
            ("retention.ms", "604800000"),
            ("retention.ms", "-1"),
            ("message.timestamp.before.max.ms", "9223372036854775807"),
            ("message.timestamp.after.max.ms", "3600000"),
        ] {
            assert!(found(name, value).is_empty(), "{name}={value}");
        }
        // Then no timestamp is refused.
        let by_its_clock = |asked: &str| match asked {
            "message.timestamp.type" => Some("LogAppendTime".to_owned()),
            "message.timestamp.before.max.ms" => Some("1".to_owned()),
            _ => None,
        };
        assert_eq!(weaknesses(&settings, "orders", &by_its_clock).len(), 1);
    }

    #[test]
    fn a_topic_that_takes_no_whole_batch_is_found_whatever_its_records_may_be() {
        for (batch, message, largest, is_found) in [
            ("1000000", "1048576", "1000000", false),
            ("1000000", "500000", "999999", false),
            ("600000", "500000", "499999", true),
            ("1000000", "500000", "500000", false),
            ("400000", "500000", "450000", false),
            ("400000", "500000", "399999", true),
        ] {
            let given =
                [("bootstrap.servers", "127.0.0.1:9092"), ("batch.size", batch), ("message.max.bytes", message)];
            let settings = Settings::from_properties(given, Limits { records: 1000, bytes: 1 << 20 }).unwrap();
            let findings =
                weaknesses(&settings, "orders", &|asked| (asked == "max.message.bytes").then(|| largest.to_owned()));
            let of_batch = findings.iter().find(|finding| finding.sentence.contains("sent again in parts"));
            assert_eq!(of_batch.is_some(), is_found, "{batch} {message} {largest}: {findings:?}");
            assert!(of_batch.is_none_or(|finding| finding.remedy.contains("\"batch.size\"")), "{findings:?}");
        }
    }
}
