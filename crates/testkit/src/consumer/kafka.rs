//! Reads topics by assignment, through outages of the broker.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::message::{BorrowedMessage, Headers as _};
use rdkafka::{ClientConfig, Message, Offset, TopicPartitionList};

use super::{Error, Received};
use crate::servers::wait_until;

/// How long one question to the broker may take.
const QUESTION_LIMIT: Duration = Duration::from_secs(5);
/// Between two looks at the deadline, and at topics that may be new.
const POLL: Duration = Duration::from_millis(100);

/// Reads all partitions of some topics from their beginning.
pub struct Consumer {
    bootstrap: String,
    client: BaseConsumer,
    /// Asks and never reads: on the reader's connection a question would wait for the fetch in front of it.
    questions: BaseConsumer,
    topics: Topics,
    assigned: BTreeSet<(String, i32)>,
    records: Vec<Received>,
    trouble: Option<KafkaError>,
    looked_at: Option<Instant>,
}

/// Which topics: these, and those whose names begin so.
#[derive(Default)]
struct Topics {
    named: Vec<String>,
    prefix: Option<String>,
}

impl Consumer {
    /// A reader of these topics. One that does not exist yet is read once it does.
    ///
    /// # Errors
    ///
    /// [`Error::Kafka`] when the client cannot be made.
    pub fn of_topics(bootstrap: &str, topics: &[&str]) -> Result<Self, Error> {
        Ok(Self::new(bootstrap, Topics::default())?.and_topics(topics))
    }

    /// A reader of all topics whose names begin so, also of those that come later.
    ///
    /// # Errors
    ///
    /// [`Error::Kafka`] when the client cannot be made.
    pub fn of_prefix(bootstrap: &str, prefix: &str) -> Result<Self, Error> {
        Self::new(bootstrap, Topics { prefix: Some(prefix.to_owned()), ..Topics::default() })
    }

    /// Reads these topics too.
    #[must_use]
    pub fn and_topics(mut self, topics: &[&str]) -> Self {
        self.topics.named.extend(topics.iter().map(|&topic| topic.to_owned()));
        self
    }

    fn new(bootstrap: &str, topics: Topics) -> Result<Self, Error> {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", bootstrap)
            // Demanded by the client, and used for nothing: partitions are assigned by hand and nothing is committed.
            .set("group.id", "walpost-testkit")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "false")
            .set("auto.offset.reset", "earliest")
            .set("isolation.level", "read_committed")
            .set("allow.auto.create.topics", "false")
            .set("reconnect.backoff.max.ms", "500")
            // More than the largest batch that a topic of any test takes.
            .set("fetch.message.max.bytes", "4000000")
            .set("fetch.wait.max.ms", "50");
        let client = config.create().map_err(error("make a consumer"))?;
        let questions = config.create().map_err(error("make a consumer"))?;
        let (assigned, records) = (BTreeSet::new(), Vec::new());
        let bootstrap = bootstrap.to_owned();
        Ok(Self { bootstrap, client, questions, topics, assigned, records, trouble: None, looked_at: None })
    }

    /// What was read so far; each partition in its order.
    #[must_use]
    pub fn records(&self) -> &[Received] {
        &self.records
    }

    /// Reads what comes within a moment, and hands it over with all that was read before; for readers that cannot hold everything.
    pub fn take(&mut self) -> Vec<Received> {
        const MOST: usize = 1_000;
        self.step();
        while self.records.len() < MOST
            && let Some(Ok(message)) = self.client.poll(Duration::ZERO)
        {
            self.records.push(received(&message));
        }
        std::mem::take(&mut self.records)
    }

    /// Reads on from this offset. A client that does not go on where there is something to read is made to ask anew.
    ///
    /// # Errors
    ///
    /// [`Error::Kafka`] when the client refuses, as it does for a partition that it does not read yet.
    pub fn read_on_from(&self, topic: &str, partition: i32, offset: i64) -> Result<(), Error> {
        let doing = format!("read {topic}/{partition} from {offset} on");
        self.client.seek(topic, partition, Offset::Offset(offset), QUESTION_LIMIT).map_err(error(&doing))
    }

    /// Reads until the condition holds for all that was read so far.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`], naming `waiting_for`, when it does not after `limit`.
    pub fn read_until(
        &mut self,
        waiting_for: &str,
        limit: Duration,
        mut holds: impl FnMut(&[Received]) -> bool,
    ) -> Result<&[Received], Error> {
        let since = Instant::now();
        while !holds(&self.records) {
            if since.elapsed() >= limit {
                return Err(self.timed_out(waiting_for, limit));
            }
            self.step();
        }
        Ok(&self.records)
    }

    /// Reads until there are so many records.
    ///
    /// # Errors
    ///
    /// As [`Consumer::read_until`].
    pub fn read_count(&mut self, count: usize, limit: Duration) -> Result<&[Received], Error> {
        self.read_until(&format!("{count} records"), limit, |records| records.len() >= count)
    }

    /// Reads until every row of these ids has arrived.
    ///
    /// # Errors
    ///
    /// As [`Consumer::read_until`].
    pub fn read_ids(&mut self, ids: &BTreeSet<String>, limit: Duration) -> Result<&[Received], Error> {
        let mut missing: BTreeSet<&str> = ids.iter().map(String::as_str).collect();
        let mut seen = 0;
        let waiting_for = format!("the records of {} rows", ids.len());
        self.read_until(&waiting_for, limit, |records| {
            for record in records.get(seen..).unwrap_or_default() {
                record.id().map(|id| missing.remove(id));
            }
            seen = records.len();
            missing.is_empty()
        })
    }

    /// Reads all that is in the topics now.
    ///
    /// # Errors
    ///
    /// [`Error::Kafka`] when the broker does not say how much that is, [`Error::TimedOut`] when it cannot be read within `limit`.
    pub fn read_to_end(&mut self, limit: Duration) -> Result<&[Received], Error> {
        let since = Instant::now();
        let mut peek = None;
        self.assign_new().map_err(error("list the topics"))?;
        for (topic, partition) in self.assigned.clone() {
            let (_, end) = self
                .questions
                .fetch_watermarks(&topic, partition, QUESTION_LIMIT)
                .map_err(error("ask for the end of a partition"))?;
            while self.position(&topic, partition) < end {
                if since.elapsed() >= limit {
                    return Err(self.timed_out(&format!("offset {end} of {topic}/{partition}"), limit));
                }
                let before = self.records.len();
                self.step();
                if self.records.len() > before {
                    continue;
                }
                let peek = match &mut peek {
                    Some(peek) => peek,
                    none => none.insert(Peek::new(&self.bootstrap)?),
                };
                if !peek.has_record_from(&topic, partition, self.position(&topic, partition)) {
                    break;
                }
            }
        }
        Ok(&self.records)
    }

    /// Waits until these topics are there to be read. A broker knows of a new one a moment after it was made.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] when one is not after `limit`.
    pub fn wait_for(&mut self, topics: &[&str], limit: Duration) -> Result<(), Error> {
        let mut missing: BTreeSet<&str> = topics.iter().copied().collect();
        let _ = wait_until("topics", limit, || {
            self.trouble = self.assign_new().err().or(self.trouble.take());
            missing.retain(|topic| !self.assigned.iter().any(|(assigned, _)| assigned == topic));
            missing.is_empty()
        });
        let first = missing.first().map(|topic| self.timed_out(&format!("topic {topic}"), limit));
        first.map_or(Ok(()), Err)
    }

    /// The offset behind the last record that was read of a partition.
    fn position(&self, topic: &str, partition: i32) -> i64 {
        let positions = self.client.position().unwrap_or_default();
        let position = positions.find_partition(topic, partition).map(|found| found.offset());
        if let Some(Offset::Offset(offset)) = position { offset } else { 0 }
    }

    /// Takes one record, if there is one soon. Trouble with the broker is remembered, for it may pass.
    fn step(&mut self) {
        if self.looked_at.is_none_or(|looked_at| looked_at.elapsed() >= POLL) && self.may_find_topics() {
            self.trouble = self.assign_new().err().or(self.trouble.take());
            self.looked_at = Some(Instant::now());
        }
        match self.client.poll(POLL) {
            Some(Ok(message)) => self.records.push(received(&message)),
            Some(Err(trouble)) => self.trouble = Some(trouble),
            None => {}
        }
    }

    fn may_find_topics(&self) -> bool {
        let Topics { named, prefix } = &self.topics;
        let is_known = |name: &String| self.assigned.iter().any(|(topic, _)| topic == name);
        // Seldom, once some are known: the answer lists all topics of the broker.
        let is_due = || self.looked_at.is_none_or(|looked_at| looked_at.elapsed() >= Duration::from_secs(1));
        !named.iter().all(is_known) || (prefix.is_some() && (self.assigned.is_empty() || is_due()))
    }

    /// Assigns the partitions that are there and not assigned yet.
    fn assign_new(&mut self) -> KafkaResult<()> {
        let metadata = self.questions.fetch_metadata(None, QUESTION_LIMIT)?;
        let mut list = TopicPartitionList::new();
        for topic in metadata.topics().iter().filter(|topic| topic.error().is_none()) {
            let Topics { named, prefix } = &self.topics;
            let is_wanted = named.iter().any(|name| name == topic.name())
                || prefix.as_ref().is_some_and(|prefix| topic.name().starts_with(prefix.as_str()));
            for partition in topic.partitions().iter().filter(|_| is_wanted) {
                if self.assigned.insert((topic.name().to_owned(), partition.id())) {
                    list.add_partition_offset(topic.name(), partition.id(), Offset::Beginning)?;
                }
            }
        }
        if list.count() == 0 { Ok(()) } else { self.client.incremental_assign(&list) }
    }

    fn timed_out(&self, waiting_for: &str, limit: Duration) -> Error {
        Error::TimedOut {
            waiting_for: waiting_for.to_owned(),
            limit,
            count: self.records.len(),
            last: self.records.last().map_or("none".to_owned(), ToString::to_string),
            trouble: self.trouble.as_ref().map_or("nothing".to_owned(), ToString::to_string),
        }
    }
}

/// Tells whether there is a record from an offset on. The end of a partition does not: what stands before it may be the marker of a transaction, or
/// events of one that was aborted, and no reader of committed records ever gets these.
pub(crate) struct Peek {
    client: BaseConsumer,
}

impl Peek {
    pub(crate) fn new(bootstrap: &str) -> Result<Self, Error> {
        let client = ClientConfig::new()
            .set("bootstrap.servers", bootstrap)
            .set("group.id", "walpost-testkit")
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("auto.offset.reset", "earliest")
            .set("isolation.level", "read_committed")
            .set("fetch.wait.max.ms", "50")
            .create();
        Ok(Self { client: client.map_err(error("make a consumer"))? })
    }

    /// Whether one is there, or nobody can tell.
    pub(crate) fn has_record_from(&self, topic: &str, partition: i32, offset: i64) -> bool {
        let mut list = TopicPartitionList::new();
        if list.add_partition_offset(topic, partition, Offset::Offset(offset)).is_err()
            || self.client.assign(&list).is_err()
        {
            return true;
        }
        let since = Instant::now();
        while since.elapsed() < QUESTION_LIMIT {
            match self.client.poll(POLL) {
                Some(Ok(_)) => return true,
                Some(Err(KafkaError::PartitionEOF(_))) => return false,
                Some(Err(_)) | None => {}
            }
        }
        true
    }
}

fn received(message: &BorrowedMessage<'_>) -> Received {
    let headers = message.headers().into_iter().flat_map(|headers| headers.iter());
    Received {
        topic: message.topic().to_owned(),
        partition: message.partition(),
        offset: message.offset(),
        key: message.key().map(<[u8]>::to_vec),
        value: message.payload().map(<[u8]>::to_vec),
        headers: headers.map(|header| (header.key.to_owned(), header.value.map(<[u8]>::to_vec))).collect(),
        timestamp_ms: message.timestamp().to_millis(),
    }
}

fn error(doing: &str) -> impl FnOnce(KafkaError) -> Error + use<> {
    let doing = doing.to_owned();
    move |source| Error::Kafka { doing, source }
}

#[cfg(test)]
mod tests {
    use rdkafka::message::{Header, OwnedHeaders};
    use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

    use super::*;
    use crate::servers::shared_kafka;

    const LIMIT: Duration = Duration::from_secs(30);

    fn name(label: &str) -> String {
        format!("{label}-{}", std::process::id())
    }

    fn producer() -> BaseProducer {
        ClientConfig::new().set("bootstrap.servers", shared_kafka().bootstrap()).create().unwrap()
    }

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let topic = name("read-back");
        shared_kafka().create_topic(&topic, 2).unwrap();
        let producer = producer();
        let header = |key, value| Header { key, value };
        let headers = OwnedHeaders::new()
            .insert(header("id", Some("7")))
            .insert(header("null", None::<&str>))
            .insert(header("id", Some("")));
        let record = BaseRecord::to(&topic).partition(1).key("k").payload("v").timestamp(1_234).headers(headers);
        producer.send(record).unwrap();
        producer.send(BaseRecord::<(), str>::to(&topic).partition(0).payload("")).unwrap();
        producer.send(BaseRecord::<str, ()>::to(&topic).partition(0).key("")).unwrap();
        producer.flush(LIMIT).unwrap();
        let mut consumer = Consumer::of_topics(shared_kafka().bootstrap(), &[&topic]).unwrap();
        let read = consumer.read_to_end(LIMIT).unwrap();
        let of = |partition| read.iter().filter(move |record| record.partition == partition).collect::<Vec<_>>();
        let [full] = of(1)[..] else { panic!("{read:?}") };
        assert_eq!((full.key_text(), full.value_text(), full.timestamp_ms), ("k".into(), "v".into(), Some(1_234)));
        let value = |text: &str| Some(text.as_bytes().to_vec());
        assert_eq!(
            full.headers,
            [("id".to_owned(), value("7")), ("null".to_owned(), None), ("id".to_owned(), value(""))]
        );
        let [empty, tombstone] = of(0)[..] else { panic!("{read:?}") };
        assert_eq!((&empty.key, &empty.value), (&None, &Some(Vec::new())));
        assert_eq!((&tombstone.key, &tombstone.value), (&Some(Vec::new()), &None));
    }

    #[test]
    fn a_topic_that_comes_later_is_read_too() {
        let prefix = name("later");
        let topic = format!("{prefix}.a");
        let bootstrap = shared_kafka().bootstrap();
        let mut by_name = Consumer::of_topics(bootstrap, &[&topic]).unwrap();
        let mut by_prefix = Consumer::of_prefix(bootstrap, &prefix).unwrap();
        let mut by_either = Consumer::of_prefix(bootstrap, &name("none")).unwrap().and_topics(&[&topic]);
        assert!(by_name.read_to_end(LIMIT).unwrap().is_empty());
        assert!(by_prefix.read_to_end(LIMIT).unwrap().is_empty());
        assert!(by_prefix.wait_for(&[&topic], Duration::ZERO).unwrap_err().to_string().contains(&topic));
        shared_kafka().create_topic(&topic, 1).unwrap();
        by_prefix.wait_for(&[&topic], LIMIT).unwrap();
        let producer = producer();
        producer.send(BaseRecord::to(&topic).key("k").payload("v")).unwrap();
        producer.flush(LIMIT).unwrap();
        by_name.read_count(1, LIMIT).unwrap();
        by_prefix.read_count(1, LIMIT).unwrap();
        by_either.read_count(1, LIMIT).unwrap();
    }

    #[test]
    fn what_was_awaited_in_vain_is_named() {
        let topic = name("silent");
        shared_kafka().create_topic(&topic, 1).unwrap();
        let mut consumer = Consumer::of_topics(shared_kafka().bootstrap(), &[&topic]).unwrap();
        let error = consumer.read_until("the moon", Duration::from_millis(1), |_| false).unwrap_err();
        assert!(error.to_string().contains("the moon"), "{error}");
    }
}
