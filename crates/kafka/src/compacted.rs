//! The compacted topics of walpost's own: how one is made, and what is to be said about one that is there.
//!
//! What it holds is another's affair; here it has a name and a noun.

use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::FromClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as Code;
use walpost_core::failure::{Class, Failure};
use walpost_core::finding::{Finding, Severity};

use crate::producer::is_legal_topic;
use crate::settings::Settings;
use crate::topic::{ReadError, look_at_partition};
use crate::transactional::PARTITION;

/// What a topic is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Purpose {
    /// What lies there, several of them.
    pub(crate) things: &'static str,
    /// One of them, with its article.
    pub(crate) thing: &'static str,
    /// The key of the configuration that names it.
    pub(crate) key: &'static str,
    /// What follows where old ones are deleted.
    pub(crate) where_deleted: &'static str,
    /// How it is configured.
    pub(crate) config: &'static [(&'static str, &'static str)],
    /// The largest record that is written there; nothing where they are all small.
    pub(crate) largest_record: Option<u64>,
}

/// Why a topic could not be made.
#[derive(Debug)]
pub(crate) enum Refused {
    /// Only an operator can help.
    ForGood(Failure),
    /// The brokers did not answer, or nobody foresaw what they said.
    ForNow(ReadError),
}

/// How long the brokers may take.
const LIMIT: Duration = Duration::from_secs(15);

/// Between two looks for a topic that was just made.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Makes the topic if it is not there; says whether it had to.
///
/// It is looked for first: a user who may not create topics is told so even of one that is there.
pub(crate) async fn create(settings: &Settings, topic: &str, purpose: &Purpose) -> Result<bool, Refused> {
    let (asked, name) = (settings.clone(), topic.to_owned());
    let found = tokio::task::spawn_blocking(move || look_at_partition(&asked, &name, PARTITION)).await;
    match found {
        Ok(Ok(_) | Err(ReadError::Forbidden { .. })) => return Ok(false),
        Ok(Err(error @ (ReadError::Unreachable { .. } | ReadError::Locked { .. }))) => {
            return Err(Refused::ForNow(error));
        }
        _ => {}
    }
    let admin = admin(settings).map_err(Refused::ForGood)?;
    let outcome = create_by(&admin, topic, purpose).await;
    // Its thread has to be joined, and it may be asleep for a tenth of a second.
    tokio::task::spawn_blocking(move || drop(admin));
    outcome
}

async fn create_by(admin: &AdminClient<DefaultClientContext>, topic: &str, purpose: &Purpose) -> Result<bool, Refused> {
    let new = purpose
        .config
        .iter()
        .fold(NewTopic::new(topic, 1, TopicReplication::Fixed(-1)), |new, (name, value)| new.set(name, value));
    let options = AdminOptions::new().request_timeout(Some(LIMIT)).operation_timeout(Some(LIMIT));
    let answered = admin.create_topics([&new], &options).await;
    let outcome = answered.map_err(|error| refused(topic, purpose, Code::Unknown, &error.to_string()))?;
    let is_new = match outcome.into_iter().next() {
        Some(Err((_, Code::TopicAlreadyExists))) => false,
        Some(Err((_, code))) => return Err(refused(topic, purpose, code, &code.to_string())),
        Some(Ok(_)) | None => true,
    };
    let deadline = Instant::now() + LIMIT;
    while is_new && described(admin, topic, deadline).await.is_none() && Instant::now() < deadline {
        // No broker tells when the others have heard of it.
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(is_new)
}

fn admin(settings: &Settings) -> Result<AdminClient<DefaultClientContext>, Failure> {
    AdminClient::from_config(&settings.client_config())
        .map_err(|error: KafkaError| Failure::new(Class::Configuration, crate::producer::refusal_of_settings(&error)))
}

fn refused(topic: &str, purpose: &Purpose, code: Code, why: &str) -> Refused {
    match code {
        Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed => Refused::ForGood(Failure::new(
            Class::Configuration,
            format!("the user may not create topic \"{topic}\"; have somebody run: {}", creation(topic, purpose)),
        )),
        Code::PolicyViolation | Code::InvalidReplicationFactor | Code::InvalidConfig | Code::InvalidTopic => {
            Refused::ForGood(Failure::new(
                Class::Configuration,
                format!(
                    "the brokers refuse topic \"{topic}\": {why}; make it with settings that they take: {}",
                    creation(topic, purpose)
                ),
            ))
        }
        _ => Refused::ForNow(ReadError::Kafka { topic: topic.to_owned(), reason: why.to_owned() }),
    }
}

/// What an operator has to do where the topic cannot be read; nothing where trying again can help, or where it depends on what lies there.
pub(crate) fn remedy_of_reading(error: &ReadError, purpose: &Purpose) -> Option<String> {
    match error {
        ReadError::Missing { topic } => Some(making(topic, purpose)),
        ReadError::Forbidden { topic } => Some(permission(topic)),
        ReadError::Locked { .. } => Some(LET_IN.to_owned()),
        ReadError::TooLarge { .. }
        | ReadError::Unreachable { .. }
        | ReadError::Kafka { .. }
        | ReadError::Deadline { .. }
        | ReadError::Hidden { .. } => None,
    }
}

/// The same where it could not be written.
pub(crate) fn remedy_of_writing(failure: &Failure) -> Option<String> {
    (failure.class == Class::Configuration)
        .then(|| "start again once that is put right; nothing is lost meanwhile".to_owned())
}

/// What an operator has to do where brokers do not let walpost in.
const LET_IN: &str = "correct security.protocol, sasl.* or ssl.* of [sink.kafka]";

/// How an operator makes the topic, by walpost or without.
fn making(topic: &str, purpose: &Purpose) -> String {
    format!("run: walpost init, or: {}", creation(topic, purpose))
}

/// The command that makes the topic without walpost.
fn creation(topic: &str, purpose: &Purpose) -> String {
    let config: Vec<String> = purpose.config.iter().map(|(name, value)| format!("--config {name}={value}")).collect();
    format!("kafka-topics.sh --bootstrap-server <broker> --create --topic {topic} --partitions 1 {}", config.join(" "))
}

/// How an operator lets the user at it.
pub(crate) fn permission(topic: &str) -> String {
    format!(
        "kafka-acls.sh --bootstrap-server <broker> --add --allow-principal <principal> --operation Read --operation Write \
         --operation Describe --topic {topic}"
    )
}

/// What is wrong with the topic, or weaker than the promises need. That the brokers are away is said by whoever looks at them.
pub(crate) async fn check(settings: &Settings, topic: &str, purpose: &Purpose) -> Vec<Finding> {
    let subject = format!("topic \"{topic}\"");
    if !is_legal_topic(topic) {
        let remedy = "use 1 to 249 of the characters a-z, A-Z, 0-9, dot, underscore and hyphen";
        return vec![Finding::error(subject, "no topic can have this name", remedy)];
    }
    let Purpose { things, .. } = purpose;
    let (asked, name) = (settings.clone(), topic.to_owned());
    let looked = tokio::task::spawn_blocking(move || look_at_partition(&asked, &name, PARTITION)).await;
    match looked {
        Ok(Err(ReadError::Missing { .. })) => {
            let sentence = format!("it does not exist, and {things} are kept there");
            vec![Finding::error(subject, sentence, making(topic, purpose))]
        }
        Ok(Err(ReadError::Forbidden { .. })) => {
            let sentence = format!("the user may not read it, and {things} are kept there");
            vec![Finding::error(subject, sentence, permission(topic))]
        }
        Ok(Err(ReadError::TooLarge { .. })) => {
            let remedy = format!("name a topic of its own in {}", purpose.key);
            vec![Finding::error(subject, format!("it holds more than {things}"), remedy)]
        }
        Ok(Err(ReadError::Unreachable { reason, .. })) => {
            let sentence = format!("it cannot be looked at, for no broker answers: {reason}");
            vec![Finding::error(subject, sentence, "start Kafka, or correct bootstrap.servers and security.protocol")]
        }
        Ok(Err(error @ ReadError::Locked { .. })) => vec![Finding::error(subject, error.to_string(), LET_IN)],
        Ok(Err(error @ (ReadError::Kafka { .. } | ReadError::Deadline { .. } | ReadError::Hidden { .. }))) => {
            vec![Finding::error(subject, error.to_string(), "look at the brokers' health and try again")]
        }
        Ok(Ok(replicas)) => weaknesses(settings, topic, purpose, replicas).await,
        Err(_) => vec![Finding::error(subject, "looking at it failed unexpectedly", "try again")],
    }
}

async fn weaknesses(settings: &Settings, topic: &str, purpose: &Purpose, replicas: usize) -> Vec<Finding> {
    let Ok(admin) = admin(settings) else { return Vec::new() };
    let found = described(&admin, topic, Instant::now() + LIMIT).await;
    tokio::task::spawn_blocking(move || drop(admin));
    let subject = format!("topic \"{topic}\"");
    let Some(config) = found else {
        let remedy = "allow the user DescribeConfigs on it with kafka-acls.sh to have them looked at";
        return vec![Finding::new(
            Severity::Note,
            subject,
            "its settings cannot be read, so they were not looked at",
            remedy,
        )];
    };
    let value = |name: &str| config.get(name).and_then(|entry| entry.value.clone());
    weaknesses_of(&subject, topic, purpose, replicas, &value)
}

/// How an operator has a topic of one replica kept by more brokers. To ask for two in step before there are two would have it take nothing any more.
fn more_replicas(topic: &str, then: &str) -> String {
    format!(
        "write {{\"version\":1,\"partitions\":[{{\"topic\":\"{topic}\",\"partition\":{PARTITION},\"replicas\":[1,2,3]}}]}}, with the ids of your brokers, into \
         replicas.json and run kafka-reassign-partitions.sh --bootstrap-server <broker> --reassignment-json-file replicas.json --execute; then {then}"
    )
}

fn weaknesses_of(
    subject: &str,
    topic: &str,
    purpose: &Purpose,
    replicas: usize,
    value: &dyn Fn(&str) -> Option<String>,
) -> Vec<Finding> {
    let Purpose { things, thing, where_deleted, largest_record, .. } = purpose;
    let alter = |change: &str| {
        format!(
            "kafka-configs.sh --bootstrap-server <broker> --alter --entity-type topics --entity-name {topic} --add-config {change}"
        )
    };
    let mut findings = Vec::new();
    if value("cleanup.policy").is_some_and(|policy| policy != "compact") {
        let sentence = format!("it is not compacted alone: {things} are deleted when they grow old, {where_deleted}");
        findings.push(Finding::error(subject, sentence, alter("cleanup.policy=compact")));
    }
    if value("min.insync.replicas").as_deref() == Some("1") {
        let sentence =
            format!("min.insync.replicas is 1: {thing} counts as durable on one broker, and is lost with it");
        let in_step = alter("min.insync.replicas=2");
        let remedy = if replicas < 2 { more_replicas(topic, &in_step) } else { in_step };
        findings.push(Finding::new(Severity::Warning, subject, sentence, remedy));
    } else if replicas < 2 {
        let sentence = format!("it has one replica: {thing} counts as durable on one broker, and is lost with it");
        let remedy = more_replicas(topic, &alter("min.insync.replicas=2"));
        findings.push(Finding::new(Severity::Warning, subject, sentence, remedy));
    }
    if value("unclean.leader.election.enable").as_deref() == Some("true") {
        let sentence =
            format!("unclean leader election is on: a broker that missed {things} may become the leader and drop them");
        findings.push(Finding::new(
            Severity::Warning,
            subject,
            sentence,
            alter("unclean.leader.election.enable=false"),
        ));
    }
    let largest = value("max.message.bytes").and_then(|bytes| bytes.parse::<u64>().ok());
    if let (Some(largest), Some(ours)) = (largest, *largest_record)
        && largest < ours
    {
        let sentence = format!("max.message.bytes is {largest}: {thing} is written in records of up to {ours} bytes");
        findings.push(Finding::error(subject, sentence, alter(&format!("max.message.bytes={ours}"))));
    }
    findings
}

/// The settings of the topic; nothing where they cannot be read, as of a topic that is not there.
async fn described(
    admin: &AdminClient<DefaultClientContext>,
    topic: &str,
    deadline: Instant,
) -> Option<ConfigResource> {
    let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(100));
    let options = AdminOptions::new().request_timeout(Some(left));
    let described = admin.describe_configs([&ResourceSpecifier::Topic(topic)], &options).await.ok()?;
    // rdkafka drops the error of a single resource and leaves its list of entries empty.
    described.into_iter().flatten().find(|config| !config.entries.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PURPOSE: Purpose = Purpose {
        things: "things",
        thing: "a thing",
        key: "thing.topic",
        where_deleted: "and that is that",
        config: &[("cleanup.policy", "compact"), ("segment.bytes", "16777216")],
        largest_record: Some(1_048_588),
    };

    #[test]
    fn what_a_topics_settings_weaken_is_found_with_its_remedy() {
        for (name, value, severity) in [
            ("cleanup.policy", "delete", Some(Severity::Error)),
            ("cleanup.policy", "compact,delete", Some(Severity::Error)),
            ("cleanup.policy", "compact", None),
            ("min.insync.replicas", "1", Some(Severity::Warning)),
            ("min.insync.replicas", "2", None),
            ("unclean.leader.election.enable", "true", Some(Severity::Warning)),
            ("unclean.leader.election.enable", "false", None),
            ("max.message.bytes", "1048587", Some(Severity::Error)),
            ("max.message.bytes", "1048588", None),
            ("max.message.bytes", "many", None),
        ] {
            let lookup = |asked: &str| (asked == name).then(|| value.to_owned());
            let found = weaknesses_of("topic \"c\"", "c", &PURPOSE, 3, &lookup);
            assert_eq!(found.first().map(|finding| finding.severity), severity, "{name}={value}");
            assert!(found.iter().all(|finding| finding.remedy.contains("--entity-name c --add-config")), "{found:?}");
        }
    }

    #[test]
    fn of_a_topic_with_one_replica_two_are_asked_to_be_in_step_only_once_there_are_more() {
        for in_step in ["1", "2"] {
            let lookup = |asked: &str| (asked == "min.insync.replicas").then(|| in_step.to_owned());
            let found = weaknesses_of("topic \"c\"", "c", &PURPOSE, 1, &lookup);
            let [finding] = found.as_slice() else { panic!("{found:?}") };
            assert_eq!(finding.severity, Severity::Warning);
            let (reassign, alter) = finding.remedy.split_once("; then ").unwrap();
            assert!(
                reassign.contains("kafka-reassign-partitions.sh") && reassign.contains("\"topic\":\"c\""),
                "{reassign}"
            );
            assert!(alter.ends_with("min.insync.replicas=2"), "{alter}");
        }
    }

    #[test]
    fn the_command_that_makes_the_topic_makes_it_as_walpost_does() {
        let command = creation("things", &PURPOSE);
        for (name, value) in PURPOSE.config {
            assert!(command.contains(&format!("--config {name}={value}")), "{command}");
        }
    }
}
