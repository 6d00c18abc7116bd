//! What the tests stand on: a cluster, and a sink in front of it.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rdkafka::mocking::MockCluster;
use rdkafka::producer::DefaultProducerContext;
use tokio::time::timeout;
use walpost_core::lsn::Lsn;
use walpost_core::port::{Delivery, Refusal, Sink, Ticket};
use walpost_core::position::{Checkpoint, Epoch, Identity, SystemIdentifier, Timeline};
use walpost_core::record::{Headers, Record};
use walpost_kafka::{Limits, Settings, Transactional};

pub(crate) type Cluster = MockCluster<'static, DefaultProducerContext>;

/// Longer than anything may take on a busy machine that is in order.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);
pub(crate) const LIMITS: Limits = Limits { records: 10_000, bytes: 16 << 20 };

/// Where relays keep their checkpoints.
pub(crate) const CHECKPOINTS: &str = "checkpoints";

/// One broker with these topics, each of one partition.
pub(crate) fn cluster(topics: &[&str]) -> Cluster {
    let cluster = MockCluster::new(1).unwrap();
    for topic in topics {
        cluster.create_topic(topic, 1, 1).unwrap();
    }
    cluster
}

pub(crate) fn settings(cluster: &Cluster, more: &[(&str, &str)]) -> Settings {
    let servers = cluster.bootstrap_servers();
    let given = more.iter().copied().chain([("bootstrap.servers", servers.as_str())]);
    Settings::from_properties(given, LIMITS).unwrap()
}

pub(crate) fn identity(ordinal: u64) -> Identity {
    Identity { timeline: Timeline(1), commit_lsn: Lsn::new(1), ordinal }
}

pub(crate) fn record(topic: &str, value: &str) -> Record {
    Record {
        identity: identity(0),
        topic: Arc::from(topic),
        key: Some(Bytes::from_static(b"key")),
        value: Some(Bytes::copy_from_slice(value.as_bytes())),
        headers: Headers::new(),
        timestamp_ms: 1_700_000_000_000,
        is_dated_by_row: false,
        partition: None,
    }
}

pub(crate) fn checkpoint(position: u64) -> Checkpoint {
    Checkpoint {
        relay: "relay".to_owned(),
        system: SystemIdentifier(7),
        timeline: Timeline(1),
        database: "app".to_owned(),
        slot: "walpost".to_owned(),
        position: Lsn::new(position),
        commit_time: None,
        settled_rows: None,
        epoch: Epoch(3),
    }
}

/// Makes a sink of transactions ready for records.
pub(crate) async fn open(mut sink: Transactional) -> Transactional {
    timeout(PATIENCE, sink.open()).await.unwrap().unwrap();
    sink
}

/// A sink, and what it has reported that no test has asked for yet.
pub(crate) struct Line<S> {
    pub(crate) sink: S,
    pub(crate) done: Vec<Delivery>,
}

impl<S: Sink> Line<S> {
    pub(crate) fn new(sink: S) -> Self {
        Self { sink, done: Vec::new() }
    }

    /// Offers a record until it is taken, as a relay does.
    pub(crate) async fn offer(&mut self, ticket: u64, record: &Record) {
        while let Err(refusal) = self.sink.publish(Ticket(ticket), record) {
            assert_eq!(refusal, Refusal::Full);
            self.wait().await;
        }
    }

    /// Publishes records whose values are their tickets.
    pub(crate) async fn publish(&mut self, topic: &str, tickets: Range<u64>) {
        for ticket in tickets {
            self.offer(ticket, &record(topic, &ticket.to_string())).await;
        }
    }

    /// Waits for reports.
    pub(crate) async fn wait(&mut self) {
        timeout(PATIENCE, self.sink.next_deliveries(&mut self.done)).await.unwrap();
    }

    /// Waits for this many deliveries.
    pub(crate) async fn deliveries(&mut self, count: usize) -> Vec<Delivery> {
        while self.done.len() < count {
            self.wait().await;
        }
        assert_eq!(self.done.len(), count, "a ticket was reported twice");
        std::mem::take(&mut self.done)
    }

    pub(crate) async fn reset(&mut self) {
        timeout(PATIENCE, self.sink.reset()).await.unwrap().unwrap();
    }
}
