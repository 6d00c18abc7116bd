//! The topic of checkpoints: how it is made, and what is to be said about one that is there.

use std::time::{Duration, Instant};

use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::config::FromClientConfig;
use rdkafka::error::KafkaError;
use rdkafka::types::RDKafkaErrorCode as Code;
use walpost_core::failure::{Class, Failure};
use walpost_core::finding::{Finding, Severity};

use super::CheckpointError;
use crate::producer::is_legal_topic;
use crate::settings::Settings;
use crate::topic::ReadError;

/// How long the brokers may take.
const LIMIT: Duration = Duration::from_secs(15);

/// Between two looks for a topic that was just made.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Only segments that are closed are compacted, and a start reads all that was not. At ten checkpoints a second the broker's default of
/// 1 GiB would be weeks of them.
const CONFIG: [(&str, &str); 3] =
    [("cleanup.policy", "compact"), ("segment.bytes", "16777216"), ("min.cleanable.dirty.ratio", "0.1")];

/// Makes the topic if it is not there; says whether it had to.
pub(super) async fn create(settings: &Settings, topic: &str) -> Result<bool, CheckpointError> {
    let admin = admin(settings).map_err(CheckpointError::Write)?;
    let outcome = create_by(&admin, topic).await;
    // Its thread has to be joined, and it may be asleep for a tenth of a second.
    tokio::task::spawn_blocking(move || drop(admin));
    outcome
}

async fn create_by(admin: &AdminClient<DefaultClientContext>, topic: &str) -> Result<bool, CheckpointError> {
    let new = CONFIG
        .iter()
        .fold(NewTopic::new(topic, 1, TopicReplication::Fixed(-1)), |new, (name, value)| new.set(name, value));
    let options = AdminOptions::new().request_timeout(Some(LIMIT)).operation_timeout(Some(LIMIT));
    let answered = admin.create_topics([&new], &options).await;
    let outcome = answered.map_err(|error| refused(topic, Code::Unknown, &error.to_string()))?;
    let is_new = match outcome.into_iter().next() {
        Some(Err((_, Code::TopicAlreadyExists))) => false,
        Some(Err((_, code))) => return Err(refused(topic, code, &code.to_string())),
        Some(Ok(_)) | None => true,
    };
    let deadline = Instant::now() + LIMIT;
    while is_new && described(admin, topic, deadline).await.is_none() && Instant::now() < deadline {
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    Ok(is_new)
}

fn admin(settings: &Settings) -> Result<AdminClient<DefaultClientContext>, Failure> {
    AdminClient::from_config(&settings.client_config())
        .map_err(|error: KafkaError| Failure::new(Class::Configuration, crate::producer::refusal_of_settings(&error)))
}

fn refused(topic: &str, code: Code, why: &str) -> CheckpointError {
    match code {
        Code::TopicAuthorizationFailed | Code::ClusterAuthorizationFailed => CheckpointError::Write(Failure::new(
            Class::Configuration,
            format!("the user may not create topic \"{topic}\"; have somebody run: {}", creation(topic)),
        )),
        Code::PolicyViolation | Code::InvalidReplicationFactor | Code::InvalidConfig | Code::InvalidTopic => {
            CheckpointError::Write(Failure::new(
                Class::Configuration,
                format!(
                    "the brokers refuse topic \"{topic}\": {why}; make it with settings that they take: {}",
                    creation(topic)
                ),
            ))
        }
        _ => CheckpointError::Read(ReadError::Kafka { topic: topic.to_owned(), reason: why.to_owned() }),
    }
}

/// How an operator makes the topic.
pub(super) fn creation(topic: &str) -> String {
    let config: Vec<String> = CONFIG.iter().map(|(name, value)| format!("--config {name}={value}")).collect();
    format!(
        "kafka-topics.sh --bootstrap-server <broker> --create --topic {topic} --partitions 1 --replication-factor 3 {}",
        config.join(" ")
    )
}

/// How an operator lets the user at it.
pub(super) fn permission(topic: &str) -> String {
    format!(
        "kafka-acls.sh --bootstrap-server <broker> --add --allow-principal <principal> --operation Read --operation Write \
         --operation Describe --topic {topic}"
    )
}

/// What is wrong with the topic, or weaker than the promises need. That the brokers are away is said by whoever looks at them.
pub(super) async fn check(settings: &Settings, topic: &str) -> Vec<Finding> {
    let subject = format!("topic \"{topic}\"");
    if !is_legal_topic(topic) {
        let remedy = "use 1 to 249 of the characters a-z, A-Z, 0-9, dot, underscore and hyphen";
        return vec![Finding::error(subject, "no topic can have this name", remedy)];
    }
    let (asked, name) = (settings.clone(), topic.to_owned());
    let read = tokio::task::spawn_blocking(move || super::read_partition(&asked, &name, super::PARTITION)).await;
    match read {
        Ok(Err(ReadError::Missing { .. })) => {
            let remedy = format!("run: walpost init, or: {}", creation(topic));
            vec![Finding::error(subject, "it does not exist, and checkpoints are kept there", remedy)]
        }
        Ok(Err(ReadError::Forbidden { .. })) => {
            vec![Finding::error(subject, "the user may not read it, and checkpoints are kept there", permission(topic))]
        }
        Ok(Err(ReadError::TooLarge { .. })) => {
            let remedy = "name a topic of its own in checkpoint.topic";
            vec![Finding::error(subject, "it holds more than checkpoints", remedy)]
        }
        Ok(Err(error @ (ReadError::Kafka { .. } | ReadError::Deadline { .. }))) => {
            vec![Finding::error(subject, error.to_string(), "look at the brokers' health and try again")]
        }
        Ok(Ok(_)) => weaknesses(settings, topic).await,
        Err(_) => vec![Finding::error(subject, "looking at it failed unexpectedly", "try again")],
    }
}

async fn weaknesses(settings: &Settings, topic: &str) -> Vec<Finding> {
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
    weaknesses_of(&subject, topic, &value)
}

fn weaknesses_of(subject: &str, topic: &str, value: &dyn Fn(&str) -> Option<String>) -> Vec<Finding> {
    let alter = |change: &str| {
        format!(
            "kafka-configs.sh --bootstrap-server <broker> --alter --entity-type topics --entity-name {topic} --add-config {change}"
        )
    };
    let mut findings = Vec::new();
    if value("cleanup.policy").is_some_and(|policy| policy != "compact") {
        let sentence = "it is not compacted alone: checkpoints are deleted when they grow old, and a relay that was idle starts without one";
        findings.push(Finding::error(subject, sentence, alter("cleanup.policy=compact")));
    }
    if value("min.insync.replicas").as_deref() == Some("1") {
        let sentence = "min.insync.replicas is 1: a checkpoint counts as durable on one broker, and is lost with it";
        findings.push(Finding::new(Severity::Warning, subject, sentence, alter("min.insync.replicas=2")));
    }
    if value("unclean.leader.election.enable").as_deref() == Some("true") {
        let sentence =
            "unclean leader election is on: a broker that missed checkpoints may become the leader and drop them";
        findings.push(Finding::new(
            Severity::Warning,
            subject,
            sentence,
            alter("unclean.leader.election.enable=false"),
        ));
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
        ] {
            let lookup = |asked: &str| (asked == name).then(|| value.to_owned());
            let found = weaknesses_of("topic \"c\"", "c", &lookup);
            assert_eq!(found.first().map(|finding| finding.severity), severity, "{name}={value}");
            assert!(found.iter().all(|finding| finding.remedy.contains("--entity-name c --add-config")), "{found:?}");
        }
    }

    #[test]
    fn the_command_that_makes_the_topic_makes_it_as_walpost_does() {
        let command = creation("walpost.checkpoint");
        for (name, value) in CONFIG {
            assert!(command.contains(&format!("--config {name}={value}")), "{command}");
        }
    }
}
