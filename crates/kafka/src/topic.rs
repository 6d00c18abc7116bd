//! Reads a small compacted topic from its beginning to its end: that of a Connect cluster's offsets, or of checkpoints.
//!
//! It joins no group, commits nothing and waits for nothing that is written meanwhile. Of transactions it sees what was committed.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rdkafka::Message as _;
use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tracing::debug;

use crate::properties;
use crate::settings::Settings;

/// How long a broker may take to answer, and how long the whole may take.
const ANSWER: Duration = Duration::from_secs(30);
const WHOLE: Duration = Duration::from_secs(300);

/// The keys and their last values together; far more than any cluster has offsets. What was written before them, and not compacted
/// yet, does not count.
const MAX_BYTES: usize = 256 << 20;

/// The last value of each key; `None` where the last record is a tombstone.
pub type LastValues = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// Why a topic could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The broker did not answer or refused.
    #[error("topic {topic} cannot be read: {reason}")]
    Kafka {
        /// Which.
        topic: String,
        /// Why.
        reason: String,
    },
    /// It is not there.
    #[error("topic {topic} does not exist")]
    Missing {
        /// Which.
        topic: String,
    },
    /// The user may not read it.
    #[error("topic {topic} may not be read by this user")]
    Forbidden {
        /// Which.
        topic: String,
    },
    /// It is no topic of offsets.
    #[error("topic {topic} holds more than {MAX_BYTES} bytes, and no cluster has as many offsets")]
    TooLarge {
        /// Which.
        topic: String,
    },
    /// It took too long.
    #[error("topic {topic} could not be read to its end within {} s", WHOLE.as_secs())]
    Deadline {
        /// Which.
        topic: String,
    },
}

/// The last value of each key of a topic. `servers` are asked instead of those of the settings.
///
/// # Errors
/// The topic is missing or too large, or the brokers cannot be reached or refuse.
pub fn read_topic(settings: &Settings, servers: Option<&str>, topic: &str) -> Result<LastValues, ReadError> {
    read_partitions(settings, servers, topic, |_| true)
}

/// The same of one partition.
pub(crate) fn read_partition(settings: &Settings, topic: &str, partition: i32) -> Result<LastValues, ReadError> {
    read_partitions(settings, None, topic, |id| id == partition)
}

fn read_partitions(
    settings: &Settings,
    servers: Option<&str>,
    topic: &str,
    is_wanted: impl Fn(i32) -> bool,
) -> Result<LastValues, ReadError> {
    let failed = |error: KafkaError| ReadError::Kafka { topic: topic.to_owned(), reason: error.to_string() };
    let consumer: BaseConsumer<Quiet> = config(settings, servers).create_with_context(Quiet).map_err(failed)?;
    let metadata = consumer.fetch_metadata(Some(topic), ANSWER).map_err(failed)?;
    let found = metadata.topics().iter().find(|found| found.name() == topic);
    let partitions: Vec<i32> = match found.map(|found| (found.error().map(RDKafkaErrorCode::from), found)) {
        Some((None, found)) => found
            .partitions()
            .iter()
            .map(rdkafka::metadata::MetadataPartition::id)
            .filter(|id| is_wanted(*id))
            .collect(),
        Some((Some(RDKafkaErrorCode::TopicAuthorizationFailed), _)) => {
            return Err(ReadError::Forbidden { topic: topic.to_owned() });
        }
        Some((Some(RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownTopicOrPartition), _)) | None => {
            Vec::new()
        }
        Some((Some(code), _)) => return Err(ReadError::Kafka { topic: topic.to_owned(), reason: code.to_string() }),
    };
    if partitions.is_empty() {
        return Err(ReadError::Missing { topic: topic.to_owned() });
    }
    let mut assignment = TopicPartitionList::new();
    let mut ends = BTreeMap::new();
    for partition in &partitions {
        let (_, end) = consumer.fetch_watermarks(topic, *partition, ANSWER).map_err(failed)?;
        ends.insert(*partition, end);
        assignment.add_partition_offset(topic, *partition, Offset::Beginning).map_err(failed)?;
    }
    consumer.assign(&assignment).map_err(failed)?;
    read_assigned(&consumer, topic, ends)
}

/// Reads up to these ends. A partition is read once a record from behind its end has come, or the broker says that there is none: the last offset
/// may be that of a marker, which never comes, and on a topic that is written to all the time the broker may never say it.
fn read_assigned(
    consumer: &BaseConsumer<Quiet>,
    topic: &str,
    mut ends: BTreeMap<i32, i64>,
) -> Result<LastValues, ReadError> {
    let topic = || topic.to_owned();
    let since = Instant::now();
    let mut last: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
    let mut bytes = 0;
    while !ends.is_empty() {
        if since.elapsed() > WHOLE {
            return Err(ReadError::Deadline { topic: topic() });
        }
        match consumer.poll(Duration::from_millis(100)) {
            None => {}
            Some(Ok(message)) => {
                if ends.get(&message.partition()).is_some_and(|end| message.offset() + 1 >= *end) {
                    ends.remove(&message.partition());
                }
                let key = message.key().unwrap_or_default();
                bytes += key.len() + message.payload().map_or(0, <[u8]>::len);
                if let Some(replaced) = last.insert(key.to_vec(), message.payload().map(<[u8]>::to_vec)) {
                    bytes -= key.len() + replaced.map_or(0, |value| value.len());
                }
                if bytes > MAX_BYTES {
                    return Err(ReadError::TooLarge { topic: topic() });
                }
            }
            Some(Err(KafkaError::PartitionEOF(partition))) => {
                ends.remove(&partition);
            }
            // librdkafka goes on by itself; if it does not, the deadline does.
            Some(Err(KafkaError::MessageConsumption(
                RDKafkaErrorCode::AllBrokersDown | RDKafkaErrorCode::BrokerTransportFailure,
            ))) => {}
            Some(Err(KafkaError::MessageConsumption(RDKafkaErrorCode::TopicAuthorizationFailed))) => {
                return Err(ReadError::Forbidden { topic: topic() });
            }
            Some(Err(source)) => return Err(ReadError::Kafka { topic: topic(), reason: source.to_string() }),
        }
    }
    Ok(last.into_iter().collect())
}

/// What the client says by itself is for debugging: whatever is wrong, whoever reads gets it as an error, and the end of a partition is none.
struct Quiet;

impl ClientContext for Quiet {
    fn error(&self, error: KafkaError, reason: &str) {
        debug!(%error, "{reason}");
    }
}

impl ConsumerContext for Quiet {}

/// How brokers are reached, as the producer reaches them, and nothing else of the producer.
fn config(settings: &Settings, servers: Option<&str>) -> ClientConfig {
    let mut config = ClientConfig::new();
    config.extend(settings.connecting().map(|(name, value)| (name.to_owned(), value.to_owned())));
    if let Some(servers) = servers {
        config.set("bootstrap.servers", servers);
    }
    // A group is named and never joined: nothing is subscribed to and nothing is committed.
    config
        .set("group.id", "walpost-import")
        .set("enable.auto.commit", "false")
        .set("enable.auto.offset.store", "false")
        .set("enable.partition.eof", "true")
        .set("isolation.level", "read_committed")
        .set("auto.offset.reset", "earliest")
        .set("allow.auto.create.topics", "false");
    config
}

impl Settings {
    /// The properties that say how brokers are reached, and by whom.
    fn connecting(&self) -> impl Iterator<Item = (&str, &str)> {
        self.properties().filter(|(name, _)| properties::is_about_connecting(name))
    }
}
