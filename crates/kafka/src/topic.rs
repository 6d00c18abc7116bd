//! Reads a small compacted topic from its beginning to its end: that of a Connect cluster's offsets, or of checkpoints.
//!
//! It joins no group, commits nothing and waits for nothing that is written meanwhile. Of transactions it sees what was committed.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::Message as _;
use rdkafka::client::ClientContext;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _, ConsumerContext};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::BorrowedMessage;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tracing::debug;

use crate::context::is_rejection;
use crate::properties;
use crate::settings::Settings;

/// How long a broker may take to answer, how long nothing may come, and how long the whole of a small topic may take.
const ANSWER: Duration = Duration::from_secs(30);
/// How long the first answer may take: whoever waits for it may have mistyped the brokers.
const FIRST_ANSWER: Duration = Duration::from_secs(10);
const STALL: Duration = Duration::from_secs(60);
const WHOLE: Duration = Duration::from_secs(300);

/// How much of what a client says of brokers that are away is listened to.
const MAX_EVENTS: u32 = 100;
/// How long it is listened to: its log stands in front, and is taken on the way.
const LISTEN: Duration = Duration::from_millis(100);

/// The keys and their last values together; far more than any cluster has offsets. What was written before them, and not compacted
/// yet, does not count.
const MAX_BYTES: usize = 256 << 20;

/// The last value of each key; `None` where the last record is a tombstone.
pub type LastValues = Vec<(Vec<u8>, Option<Vec<u8>>)>;

/// Why a topic could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// No broker can be reached. The remedy is in the sentence, which is the same in every command and in the log.
    #[error(
        "Kafka at {servers} cannot be reached: {reason}; start Kafka, or correct \"bootstrap.servers\" and \"security.protocol\" of [sink.kafka]"
    )]
    Unreachable {
        /// The brokers that were asked.
        servers: String,
        /// Why.
        reason: String,
    },
    /// A broker was reached, and none would have us for as long as was asked.
    #[error("no broker at {servers} lets walpost in: {reason}")]
    Locked {
        /// The brokers that were asked.
        servers: String,
        /// What a broker, or TLS, said.
        reason: String,
    },
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
    /// It holds something else.
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
    /// A transaction of somebody else hides what was committed behind its first record.
    #[error(
        "topic {topic} cannot be read from offset {offset} on: a transaction of another producer has been open in front of it for {} s; it ends by itself after its transaction.timeout.ms at the latest",
        waited.as_secs()
    )]
    Hidden {
        /// Which.
        topic: String,
        /// The first that is hidden.
        offset: i64,
        /// For how long it was waited for.
        waited: Duration,
    },
}

impl ReadError {
    /// Whether trying again can help.
    #[must_use]
    pub fn is_retried(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Kafka { .. } | Self::Deadline { .. } | Self::Hidden { .. } => true,
            Self::Locked { .. } | Self::Missing { .. } | Self::Forbidden { .. } | Self::TooLarge { .. } => false,
        }
    }

    /// Whether it comes of what brokers allow, and can be put back there while a relay waits that was allowed it before.
    #[must_use]
    pub fn is_about_access(&self) -> bool {
        matches!(self, Self::Locked { .. } | Self::Missing { .. } | Self::Forbidden { .. })
    }
}

/// The last value of each key of a topic, as far as nobody [hides](crate::settle_topic) it. `servers` are asked instead of those of the settings.
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

/// Whether there is this partition, and whether this user may read it.
pub(crate) fn look_at_partition(settings: &Settings, topic: &str, partition: i32) -> Result<usize, ReadError> {
    let consumer = connect(settings, None, topic)?;
    let (_, replicas) = one_of(partitions_with_replicas(&consumer, topic, |id| id == partition)?, topic)?;
    end_of(&consumer, topic, partition).map(|_| replicas)
}

fn one_of<T>(partitions: Vec<T>, topic: &str) -> Result<T, ReadError> {
    partitions.into_iter().next().ok_or_else(|| ReadError::Missing { topic: topic.to_owned() })
}

fn read_partitions(
    settings: &Settings,
    servers: Option<&str>,
    topic: &str,
    is_wanted: impl Fn(i32) -> bool,
) -> Result<LastValues, ReadError> {
    let consumer = connect(settings, servers, topic)?;
    let partitions = partitions_of(&consumer, topic, is_wanted)?;
    let mut last: BTreeMap<Vec<u8>, Option<Vec<u8>>> = BTreeMap::new();
    let (mut bytes, since) = (0, Instant::now());
    let mut take = |message: &BorrowedMessage<'_>| {
        if since.elapsed() > WHOLE {
            return Err(ReadError::Deadline { topic: topic.to_owned() });
        }
        let key = message.key().unwrap_or_default();
        bytes += key.len() + message.payload().map_or(0, <[u8]>::len);
        if let Some(replaced) = last.insert(key.to_vec(), message.payload().map(<[u8]>::to_vec)) {
            bytes -= key.len() + replaced.map_or(0, |value| value.len());
        }
        if bytes > MAX_BYTES { Err(ReadError::TooLarge { topic: topic.to_owned() }) } else { Ok(()) }
    };
    for partition in partitions {
        let end = end_of(&consumer, topic, partition)?;
        read_until(&consumer, topic, (partition, Offset::Beginning), end, &mut take)?;
    }
    Ok(last.into_iter().collect())
}

/// A client for reading what was committed, which has asked nobody anything yet.
pub(crate) fn connect(settings: &Settings, servers: Option<&str>, topic: &str) -> Result<Client, ReadError> {
    create(&config(settings, servers), servers.unwrap_or_else(|| settings.servers()), topic)
}

/// A client that also sees what no transaction has decided about.
pub(crate) fn connect_to_undecided(
    settings: &Settings,
    servers: Option<&str>,
    topic: &str,
) -> Result<Client, ReadError> {
    let mut config = config(settings, servers);
    config.set("isolation.level", "read_uncommitted");
    create(&config, servers.unwrap_or_else(|| settings.servers()), topic)
}

fn create(config: &ClientConfig, servers: &str, topic: &str) -> Result<Client, ReadError> {
    let context = Quiet { servers: servers.to_owned(), last: Mutex::new(None) };
    config.create_with_context(context).map_err(|error| failed(topic, &error))
}

/// The partitions of a topic that are wanted; there is at least one.
pub(crate) fn partitions_of(
    consumer: &Client,
    topic: &str,
    is_wanted: impl Fn(i32) -> bool,
) -> Result<Vec<i32>, ReadError> {
    let partitions = partitions_with_replicas(consumer, topic, is_wanted)?;
    Ok(partitions.into_iter().map(|(id, _)| id).collect())
}

/// The same, with how many replicas each has.
fn partitions_with_replicas(
    consumer: &Client,
    topic: &str,
    is_wanted: impl Fn(i32) -> bool,
) -> Result<Vec<(i32, usize)>, ReadError> {
    let metadata = consumer
        .fetch_metadata(Some(topic), FIRST_ANSWER)
        .map_err(|error| unreachable(consumer, &error).unwrap_or_else(|| failed(topic, &error)))?;
    let missing = || ReadError::Missing { topic: topic.to_owned() };
    let found = metadata.topics().iter().find(|found| found.name() == topic).ok_or_else(missing)?;
    if let Some(error) = found.error() {
        return Err(refused(topic, error.into(), &RDKafkaErrorCode::from(error).to_string()));
    }
    let all = found.partitions().iter().map(|partition| (partition.id(), partition.replicas().len()));
    let partitions: Vec<(i32, usize)> = all.filter(|(id, _)| is_wanted(*id)).collect();
    if partitions.is_empty() { Err(missing()) } else { Ok(partitions) }
}

/// The error that names the brokers, where none of them answered.
fn unreachable(consumer: &Client, error: &KafkaError) -> Option<ReadError> {
    let away = [
        RDKafkaErrorCode::BrokerTransportFailure,
        RDKafkaErrorCode::AllBrokersDown,
        RDKafkaErrorCode::Resolve,
        RDKafkaErrorCode::OperationTimedOut,
        RDKafkaErrorCode::Authentication,
    ];
    error.rdkafka_error_code().filter(|code| away.contains(code))?;
    // What it has to say of its brokers, which the context notes.
    let mut events = 0;
    while events < MAX_EVENTS && consumer.poll(LISTEN).is_some() {
        events += 1;
    }
    let context = consumer.context();
    let last = context.last.lock().unwrap_or_else(PoisonError::into_inner).take();
    let servers = context.servers.clone();
    Some(match last {
        Some((code, reason)) if is_rejection(code) => ReadError::Locked { servers, reason },
        Some((_, reason)) => ReadError::Unreachable { servers, reason },
        None => ReadError::Unreachable { servers, reason: format!("no answer within {} s", FIRST_ANSWER.as_secs()) },
    })
}

/// What happened, of "HOST:PORT/bootstrap: WHAT (after 0ms in state CONNECT)".
fn happened(reason: &str) -> &str {
    let what = reason.split_once(": ").map_or(reason, |(_, what)| what);
    what.split(" (after ").next().unwrap_or(what)
}

/// Where a partition ends by now, for this reader (librdkafka asks with the client's own `isolation.level`): for one of committed records nothing in
/// front of it is undecided, and what is committed already may lie behind it, for which see [`settle`](crate::settle).
pub(crate) fn end_of(consumer: &Client, topic: &str, partition: i32) -> Result<i64, ReadError> {
    consumer.fetch_watermarks(topic, partition, ANSWER).map(|(_, end)| end).map_err(|error| failed(topic, &error))
}

/// Reads a partition from this offset to an end that it had. It is read once its last record has come, or that there is no more is [believed](Belief).
pub(crate) fn read_until(
    consumer: &Client,
    topic: &str,
    (partition, start): (i32, Offset),
    end: i64,
    mut take: impl FnMut(&BorrowedMessage<'_>) -> Result<(), ReadError>,
) -> Result<(), ReadError> {
    if end == 0 {
        return Ok(());
    }
    assign(consumer, topic, partition, start)?;
    let (mut start, mut belief, mut since) = (start, Belief::default(), Instant::now());
    loop {
        if since.elapsed() > STALL {
            let reason = format!("nothing came for {} s", STALL.as_secs());
            return Err(ReadError::Kafka { topic: topic.to_owned(), reason });
        }
        match next(consumer, topic)? {
            Next::Message(message) if message.partition() == partition => {
                take(&message)?;
                let behind = message.offset() + 1;
                if behind >= end {
                    return Ok(());
                }
                (start, belief, since) = (Offset::Offset(behind), Belief::default(), Instant::now());
            }
            Next::End(ended) if ended == partition => {
                if belief.grows(end, || end_of(consumer, topic, partition))? {
                    return Ok(());
                }
                assign(consumer, topic, partition, start)?;
            }
            Next::Nothing | Next::Message(_) | Next::End(_) => {}
        }
    }
}

/// Whether there is no more of a partition, although its last record has not come: it may be the marker of a transaction, which never comes, or have
/// been compacted away.
///
/// That a broker says so is not enough. It may be the answer to what was asked before; and a leader that is new may not know yet how far all replicas
/// are, and end earlier than the one before. So its end is asked for, which a new leader tells only once it knows, and where that is as far on as it
/// was, it is believed when it has been said twice more since.
#[derive(Debug, Default)]
struct Belief {
    said: u32,
}

impl Belief {
    /// It was said that there is no more. Answers whether that is believed.
    fn grows(&mut self, end: i64, ask: impl FnOnce() -> Result<i64, ReadError>) -> Result<bool, ReadError> {
        if self.said == 0 && ask()? < end {
            return Ok(false);
        }
        self.said += 1;
        Ok(self.said == 3)
    }
}

/// Has the client read a partition from this offset on, and nothing else. What it held of an earlier assignment is forgotten.
pub(crate) fn assign(consumer: &Client, topic: &str, partition: i32, start: Offset) -> Result<(), ReadError> {
    let mut assignment = TopicPartitionList::new();
    assignment.add_partition_offset(topic, partition, start).map_err(|error| failed(topic, &error))?;
    consumer.assign(&assignment).map_err(|error| failed(topic, &error))
}

/// What a client had to say.
pub(crate) enum Next<'a> {
    /// Nothing for a while.
    Nothing,
    /// A record.
    Message(BorrowedMessage<'a>),
    /// There is no more of this partition.
    End(i32),
}

/// Waits a moment for what comes next.
pub(crate) fn next<'a>(consumer: &'a Client, topic: &str) -> Result<Next<'a>, ReadError> {
    match consumer.poll(Duration::from_millis(100)) {
        None => Ok(Next::Nothing),
        Some(Ok(message)) => Ok(Next::Message(message)),
        Some(Err(KafkaError::PartitionEOF(partition))) => Ok(Next::End(partition)),
        // librdkafka goes on by itself; if it does not, the deadline does.
        Some(Err(KafkaError::MessageConsumption(
            RDKafkaErrorCode::AllBrokersDown | RDKafkaErrorCode::BrokerTransportFailure,
        ))) => Ok(Next::Nothing),
        // librdkafka looks for the coordinator of the group that it has to have a name of, and nobody waits for that one: what is read is assigned.
        Some(Err(KafkaError::MessageConsumption(RDKafkaErrorCode::GroupAuthorizationFailed))) => Ok(Next::Nothing),
        Some(Err(error)) => Err(failed(topic, &error)),
    }
}

pub(crate) fn failed(topic: &str, error: &KafkaError) -> ReadError {
    refused(topic, error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown), &error.to_string())
}

fn refused(topic: &str, code: RDKafkaErrorCode, reason: &str) -> ReadError {
    let topic = topic.to_owned();
    match code {
        RDKafkaErrorCode::TopicAuthorizationFailed => ReadError::Forbidden { topic },
        RDKafkaErrorCode::UnknownTopic | RDKafkaErrorCode::UnknownTopicOrPartition => ReadError::Missing { topic },
        _ => ReadError::Kafka { topic, reason: reason.to_owned() },
    }
}

/// A client that reads.
pub(crate) type Client = BaseConsumer<Quiet>;

/// What the client says by itself is for debugging: whatever is wrong, whoever reads gets it as an error, and the end of a partition is none.
pub(crate) struct Quiet {
    servers: String,
    /// What it last said of a broker that cannot be reached, or will not have us.
    last: Mutex<Option<(RDKafkaErrorCode, String)>>,
}

impl ClientContext for Quiet {
    fn error(&self, error: KafkaError, reason: &str) {
        debug!(%error, "{reason}");
        let code = error.rdkafka_error_code().unwrap_or(RDKafkaErrorCode::Unknown);
        // That all are down is said after why each of them is.
        if code != RDKafkaErrorCode::AllBrokersDown {
            *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some((code, happened(reason).to_owned()));
        }
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
        // A broker that has nothing more would otherwise let half a second pass before it says so, and before the client can ask for something else.
        .set("fetch.wait.max.ms", "10")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_client_says_of_a_broker_is_cut_to_what_happened() {
        for (said, happened_there) in [
            (
                "127.0.0.1:1/bootstrap: Connect to ipv4#127.0.0.1:1 failed: Connection refused (after 0ms in state CONNECT)",
                "Connect to ipv4#127.0.0.1:1 failed: Connection refused",
            ),
            (
                "k:1/bootstrap: Failed to resolve 'k:1': Name or service not known (after 2ms in state CONNECT)",
                "Failed to resolve 'k:1': Name or service not known",
            ),
            ("odd", "odd"),
            ("", ""),
        ] {
            assert_eq!(happened(said), happened_there);
        }
    }

    #[test]
    fn that_there_is_no_more_is_believed_only_of_a_broker_that_knows_the_end() {
        // Where the end lies each time that it is asked for, and how often it is said that there is no more until that is believed.
        for (ends, said) in [(&[7i64] as &[i64], 3), (&[9], 3), (&[6, 7], 4), (&[0, 3, 6, 8], 6)] {
            let (mut belief, mut asked) = (Belief::default(), ends.iter());
            let count = (1..100).find(|_| belief.grows(7, || Ok(*asked.next().unwrap())).unwrap());
            assert_eq!((count, asked.count()), (Some(said), 0), "{ends:?}");
        }
        let away = || Err(ReadError::Missing { topic: "t".to_owned() });
        assert!(Belief::default().grows(7, away).is_err());
    }

    #[test]
    fn brokers_that_cannot_be_reached_are_named_with_what_to_do() {
        let limits = crate::settings::Limits { records: 1, bytes: 1 };
        let settings = Settings::from_properties([("bootstrap.servers", "127.0.0.1:1")], limits).unwrap();
        let error = read_topic(&settings, None, "offsets").unwrap_err();
        assert_eq!(
            error.to_string(),
            "Kafka at 127.0.0.1:1 cannot be reached: Connect to ipv4#127.0.0.1:1 failed: Connection refused; start Kafka, or \
             correct \"bootstrap.servers\" and \"security.protocol\" of [sink.kafka]"
        );
        assert!(error.is_retried());
    }
}
