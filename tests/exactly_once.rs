//! Exactly once into Kafka: what a reader of committed records sees, whatever happens to those who write.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::runtime::Runtime;
use walpost_core::lsn::Lsn;
use walpost_core::port::{Checkpoints, Sink, Ticket, TransactionalSink};
use walpost_core::position::{Checkpoint, Epoch, Identity, SystemIdentifier, Timeline};
use walpost_core::record::{Headers, Record};
use walpost_kafka::{CheckpointError, CheckpointTopic, Limits, Settings, Transactional, claimed};
use walpost_testkit::consumer::Consumer;
use walpost_testkit::servers::shared_kafka;

use crate::rig::LIMIT;

/// Names of one test.
struct Stage {
    topic: String,
    checkpoints: String,
    relay: String,
    runtime: Runtime,
    /// How many marks were written.
    marks: Cell<u32>,
}

impl Stage {
    fn new(label: &str) -> Self {
        let name = |part: &str| format!("{label}-{}-{part}", std::process::id());
        let topic = name("events");
        shared_kafka().create_topic(&topic, 1).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { topic, checkpoints: name("checkpoints"), relay: name("relay"), runtime, marks: Cell::new(0) }
    }

    fn settings(more: &[(&str, &str)]) -> Settings {
        let given = more.iter().copied().chain([("bootstrap.servers", shared_kafka().bootstrap())]);
        Settings::from_properties(given, Limits { records: 10_000, bytes: 16 << 20 }).unwrap()
    }

    fn store(&self) -> CheckpointTopic {
        CheckpointTopic::new(Self::settings(&[]), &self.relay, &self.checkpoints)
    }

    fn sink(&self, more: &[(&str, &str)]) -> Transactional {
        Transactional::new(&Self::settings(more), &self.relay, &self.checkpoints).unwrap()
    }

    fn load(&self) -> Option<Checkpoint> {
        self.runtime.block_on(self.store().load()).unwrap()
    }

    /// Publishes records whose values are their numbers, and waits until the broker has each of them.
    fn publish(&self, sink: &mut Transactional, numbers: std::ops::Range<u64>) {
        self.runtime.block_on(async {
            let mut deliveries = Vec::new();
            for number in numbers.clone() {
                sink.publish(Ticket(number), &self.record(number)).unwrap();
            }
            while deliveries.len() < numbers.clone().count() {
                tokio::time::timeout(LIMIT, sink.next_deliveries(&mut deliveries)).await.unwrap();
            }
            assert!(deliveries.iter().all(|delivery| delivery.outcome.is_ok()), "{deliveries:?}");
        });
    }

    fn record(&self, number: u64) -> Record {
        Record {
            identity: Identity { timeline: Timeline(1), commit_lsn: Lsn::new(1), ordinal: 0 },
            topic: Arc::from(self.topic.as_str()),
            key: Some(Bytes::from_static(b"key")),
            value: Some(Bytes::from(number.to_string())),
            headers: Headers::new(),
            timestamp_ms: 1_700_000_000_000,
            partition: None,
        }
    }

    fn checkpoint(&self, position: u64) -> Checkpoint {
        Checkpoint {
            relay: self.relay.clone(),
            system: SystemIdentifier(7),
            timeline: Timeline(1),
            database: "app".to_owned(),
            slot: "walpost".to_owned(),
            position: Lsn::new(position),
            commit_time: None,
            settled_rows: None,
            epoch: Epoch(1),
        }
    }

    /// What a reader of committed records sees, up to a record that is written now by somebody else. Behind a transaction that hangs it would
    /// not be seen.
    fn committed(&self) -> Vec<String> {
        let producer: walpost_kafka::Producer = walpost_kafka::Producer::new(Self::settings(&[])).unwrap();
        let marks = self.marks.get() + 1;
        self.marks.set(marks);
        let mark = format!("mark {marks}");
        let record = Record { value: Some(Bytes::from(mark.clone())), ..self.record(0) };
        self.runtime.block_on(async {
            let mut producer = producer;
            producer.publish(Ticket(0), &record).unwrap();
            let done = producer.close(LIMIT).await;
            assert!(done.iter().all(|delivery| delivery.outcome.is_ok()), "{done:?}");
        });
        let mut consumer = Consumer::of_topics(shared_kafka().bootstrap(), &[&self.topic]).unwrap();
        let read = consumer
            .read_until(&mark, LIMIT, |records| records.last().is_some_and(|record| record.value_text() == mark));
        let values = read.unwrap().iter().map(|record| record.value_text());
        values.filter(|value| !value.starts_with("mark")).collect()
    }
}

fn numbers(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

#[test]
fn a_topic_of_checkpoints_is_made_once_compacted_and_found_in_order() {
    let stage = Stage::new("made");
    let Stage { runtime, .. } = &stage;
    let mut store = stage.store();
    let missing = runtime.block_on(store.load()).unwrap_err();
    assert!(matches!(missing, CheckpointError::Read(walpost_kafka::ReadError::Missing { .. })), "{missing:?}");
    assert!(runtime.block_on(store.create()).unwrap());
    assert!(!runtime.block_on(store.create()).unwrap());
    let findings = runtime.block_on(store.check());
    assert!(findings.iter().all(|finding| finding.sentence.contains("min.insync.replicas is 1")), "{findings:?}");
    let plain = CheckpointTopic::new(Stage::settings(&[]), "relay", &stage.topic);
    let findings = runtime.block_on(plain.check());
    assert!(findings[0].remedy.contains("--add-config cleanup.policy=compact"), "{findings:?}");
}

#[test]
fn what_a_zombie_left_uncommitted_is_never_seen_and_it_can_commit_no_more() {
    let stage = Stage::new("zombie");
    let Stage { runtime, .. } = &stage;
    runtime.block_on(stage.store().create()).unwrap();
    let mut first = stage.sink(&[]);
    runtime.block_on(first.open()).unwrap();
    runtime.block_on(first.commit(&claimed(None, &stage.checkpoint(5)))).unwrap();
    stage.publish(&mut first, 0..5);
    runtime.block_on(first.commit(&stage.checkpoint(10))).unwrap();
    // The broker has these and nobody may see them; the transaction hangs.
    stage.publish(&mut first, 5..8);
    assert_eq!(stage.load().unwrap().position, Lsn::new(10));

    let mut second = stage.sink(&[]);
    runtime.block_on(second.open()).unwrap();
    let stored = stage.load();
    assert_eq!(stored.as_ref().unwrap().position, Lsn::new(10));
    assert_eq!(stage.committed(), numbers(0..5));
    runtime.block_on(second.commit(&claimed(stored.as_ref(), &stage.checkpoint(10)))).unwrap();

    let failure = runtime.block_on(first.commit(&stage.checkpoint(20))).unwrap_err();
    assert!(first.is_fenced(), "{failure}");
    assert!(failure.reason.contains("another instance with this relay name has taken over"), "{failure}");
    stage.publish(&mut second, 5..8);
    runtime.block_on(second.commit(&stage.checkpoint(20))).unwrap();
    assert_eq!(stage.committed(), numbers(0..8));
    assert_eq!(stage.load().unwrap().position, Lsn::new(20));
    runtime.block_on(second.close(Duration::from_secs(2)));
}

#[test]
fn what_is_reset_is_aborted_at_once_so_that_readers_are_not_kept_waiting() {
    let stage = Stage::new("reset");
    let Stage { runtime, .. } = &stage;
    runtime.block_on(stage.store().create()).unwrap();
    let mut sink = stage.sink(&[]);
    runtime.block_on(sink.open()).unwrap();
    stage.publish(&mut sink, 0..3);
    runtime.block_on(sink.reset()).unwrap();
    assert_eq!(stage.committed(), numbers(0..0));
    runtime.block_on(sink.open()).unwrap();
    stage.publish(&mut sink, 0..3);
    runtime.block_on(sink.commit(&stage.checkpoint(1))).unwrap();
    stage.publish(&mut sink, 3..4);
    runtime.block_on(sink.close(Duration::from_secs(5)));
    assert_eq!(stage.committed(), numbers(0..3));
}

#[test]
fn a_transaction_that_outlives_its_timeout_is_given_up_by_the_broker_and_looks_like_a_fence() {
    let stage = Stage::new("overdue");
    let Stage { runtime, .. } = &stage;
    runtime.block_on(stage.store().create()).unwrap();
    let mut sink = stage.sink(&[("transaction.timeout.ms", "2000")]);
    runtime.block_on(sink.open()).unwrap();
    stage.publish(&mut sink, 0..3);
    // Nothing of it is ever seen, and the reader gets past it, so the broker has given it up.
    assert_eq!(stage.committed(), numbers(0..0));
    let failure = runtime.block_on(sink.commit(&stage.checkpoint(1))).unwrap_err();
    assert!(sink.is_fenced(), "{failure}");
    assert!(failure.reason.contains("transaction.timeout.ms = 2000"), "{failure}");
    runtime.block_on(sink.open()).unwrap();
    stage.publish(&mut sink, 0..3);
    runtime.block_on(sink.commit(&stage.checkpoint(1))).unwrap();
    assert_eq!(stage.committed(), numbers(0..3));
}
