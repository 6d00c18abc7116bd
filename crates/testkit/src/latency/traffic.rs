//! Writers that keep to a schedule, and the consumer that notes when each event comes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::KafkaError;
use rdkafka::message::Message as _;
use rdkafka::producer::{BaseRecord, Producer as _, ThreadedProducer};
use rdkafka::{Offset, TopicPartitionList};

use super::figures::Figures;
use super::{Error, LIMIT, PARTITIONS, Way};
use crate::consumer;
use crate::workload::connection::{block_on, connect};

/// What does not count: programs warm up.
const WARM_UP: Duration = Duration::from_secs(3);
/// What one connection is asked for at most: a commit waits for the disk.
const RATE_OF_WRITER: u32 = 250;
/// Between two looks at whether all has come.
const POLL: Duration = Duration::from_millis(100);

const INSERT: &str = "INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES ('order', $1, 'OrderPlaced', $2::text::jsonb)";

/// The events of one measurement.
#[derive(Debug)]
pub(super) struct Traffic {
    pub(super) url: String,
    pub(super) bootstrap: String,
    pub(super) topic: String,
    pub(super) way: Way,
}

/// When one event was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Written {
    pub(super) number: usize,
    /// Before the INSERT.
    pub(super) began: Instant,
    /// After it: the transaction has committed.
    pub(super) committed: Instant,
}

/// The part of the schedule that one writer keeps.
#[derive(Clone, Copy, Debug)]
struct Share {
    start: Instant,
    first: usize,
    step: usize,
    count: usize,
    interval: Duration,
}

impl Traffic {
    pub(super) fn run(&self, rate: u32, time: Duration) -> Result<Figures, Error> {
        let warm_up = events(rate, WARM_UP);
        let count = warm_up + events(rate, time);
        let consumer = self.consumer()?;
        let has_failed = AtomicBool::new(false);
        thread::scope(|scope| {
            let reader = scope.spawn(|| receive(&consumer, count, &has_failed));
            let writers = rate.div_ceil(RATE_OF_WRITER) as usize;
            // Time for all to connect.
            let start = Instant::now() + Duration::from_millis(500);
            let interval = Duration::from_secs(1) / rate;
            let writers: Vec<_> = (0..writers)
                .map(|first| Share { start, first, step: writers, count, interval })
                .map(|share| scope.spawn(move || self.write(share)))
                .collect();
            let written: Result<Vec<_>, Error> = writers.into_iter().map(|writer| joined(writer)).collect();
            has_failed.store(written.is_err(), Ordering::Relaxed);
            let received = joined(reader);
            let written: Vec<Written> = written?.into_iter().flatten().collect();
            Ok(Figures::of(self.way, rate, warm_up, &written, &received?))
        })
    }

    fn write(&self, share: Share) -> Result<Vec<Written>, Error> {
        let producer = if self.way == Way::Producer { Some(self.producer()?) } else { None };
        let written = block_on(async {
            let client = connect(&self.url).await?;
            let insert = client.prepare(INSERT).await?;
            let mut written = Vec::with_capacity(share.count / share.step + 1);
            for number in (share.first..share.count).step_by(share.step) {
                let due = share.start + share.interval * u32::try_from(number).unwrap_or(u32::MAX);
                tokio::time::sleep_until(due.into()).await;
                let key = format!("order-{}", number % 1_000);
                let payload = payload(number).to_string();
                let began = Instant::now();
                client.execute(&insert, &[&key, &payload]).await?;
                let committed = Instant::now();
                if let Some(producer) = &producer {
                    let sent = producer.send(BaseRecord::to(&self.topic).key(&key).payload(&payload));
                    sent.map_err(|(error, _)| failed("publish", error))?;
                }
                written.push(Written { number, began, committed });
            }
            Ok::<_, Error>(written)
        })?;
        if let Some(producer) = producer {
            producer.flush(LIMIT).map_err(|error| failed("flush the producer", error))?;
        }
        Ok(written)
    }

    fn producer(&self) -> Result<ThreadedProducer<rdkafka::producer::DefaultProducerContext>, Error> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", &self.bootstrap).set("linger.ms", "0").set("enable.idempotence", "true");
        config.create().map_err(|error| failed("make a producer", error))
    }

    fn consumer(&self) -> Result<BaseConsumer, Error> {
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", &self.bootstrap)
            .set("group.id", "walpost-latency")
            .set("enable.auto.commit", "false")
            .set("isolation.level", "read_committed");
        let consumer: BaseConsumer = config.create().map_err(|error| failed("make a consumer", error))?;
        let mut partitions = TopicPartitionList::new();
        for partition in 0..PARTITIONS {
            let added = partitions.add_partition_offset(&self.topic, partition, Offset::Beginning);
            added.map_err(|error| failed("name a partition", error))?;
        }
        consumer.assign(&partitions).map_err(|error| failed("assign the partitions", error))?;
        Ok(consumer)
    }
}

/// When each event came; it has to come once.
fn receive(consumer: &BaseConsumer, count: usize, has_failed: &AtomicBool) -> Result<Vec<Instant>, Error> {
    let mut received = vec![None; count];
    let mut missing = count;
    let mut heard_at = Instant::now();
    while missing > 0 {
        let now = Instant::now();
        if has_failed.load(Ordering::Relaxed) || now.duration_since(heard_at) > LIMIT {
            return Err(Error::Undone(format!("{missing} of {count} events did not come")));
        }
        let Some(Ok(message)) = consumer.poll(POLL) else { continue };
        heard_at = Instant::now();
        let number = message.payload().and_then(number_of);
        let place = number.and_then(|number| received.get_mut(number));
        let place = place.ok_or_else(|| Error::Undone("a record is none of ours".to_owned()))?;
        if place.replace(heard_at).is_some() {
            return Err(Error::Undone("an event came twice, and nobody had failed".to_owned()));
        }
        missing -= 1;
    }
    Ok(received.into_iter().flatten().collect())
}

fn joined<T>(thread: thread::ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn failed(doing: &str, source: KafkaError) -> Error {
    Error::Consumer(consumer::Error::Kafka { doing: doing.to_owned(), source })
}

/// How many are due within a time.
fn events(rate: u32, time: Duration) -> usize {
    usize::try_from(u128::from(rate) * time.as_millis() / 1_000).unwrap_or(usize::MAX)
}

/// Some 200 bytes.
fn payload(number: usize) -> serde_json::Value {
    serde_json::json!({ "order": number, "customer": "customer-7", "note": "pearl ".repeat(25) })
}

fn number_of(payload: &[u8]) -> Option<usize> {
    let payload: serde_json::Value = serde_json::from_slice(payload).ok()?;
    usize::try_from(payload.get("order")?.as_u64()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_known_by_the_number_in_its_payload() {
        assert_eq!(number_of(payload(17).to_string().as_bytes()), Some(17));
        assert_eq!(number_of(br#"{"order": "x"}"#), None);
        assert_eq!(number_of(b"17"), None);
    }

    #[test]
    fn so_many_are_due_as_the_rate_says() {
        assert_eq!(events(500, Duration::from_millis(1_500)), 750);
        assert_eq!(events(1, Duration::from_millis(999)), 0);
    }
}
