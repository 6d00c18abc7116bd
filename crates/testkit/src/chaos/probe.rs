//! What the checkpoint says, read past the relay: what a crash may repeat is what comes after it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::{ClientConfig, Message as _, Offset, TopicPartitionList};
use tokio::runtime::Runtime;
use tokio_postgres::Client;

use super::Error;
use crate::workload::connection::connect;

/// A server that does not answer for so long is away.
pub(super) const LIMIT: Duration = Duration::from_secs(1);

/// The one row of the relay.
const QUERY: &str = "SELECT (extract(epoch FROM commit_time) * 1000)::bigint FROM walpost.checkpoint";

/// Milliseconds between 1970 and 2000, where PostgreSQL's time begins.
const POSTGRES_EPOCH_MS: i64 = 946_684_800_000;

/// Where the relay keeps its checkpoint.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// In the database behind this URL.
    Postgres(String),
    /// In this file.
    File(PathBuf),
    /// On these brokers, in the only partition of this topic.
    Kafka(String, String),
}

/// A reader of the checkpoint.
pub(super) struct Probe {
    place: Place,
    runtime: Runtime,
    client: Option<Client>,
    /// Of the store in Kafka, and what it has read.
    reader: Option<BaseConsumer>,
    newest: Option<i64>,
}

impl Probe {
    pub(super) fn new(place: Place) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self {
            place,
            runtime: runtime.map_err(Error::io("make a runtime"))?,
            client: None,
            reader: None,
            newest: None,
        })
    }

    /// When the last commit before the checkpoint was made, in milliseconds since 1970; none where that cannot be told now.
    pub(super) fn commit_ms(&mut self) -> Option<i64> {
        match &self.place {
            Place::File(path) => {
                let document: serde_json::Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
                commit_ms(document.get("checkpoint")?)
            }
            Place::Kafka(bootstrap, topic) => {
                let reader = match self.reader.take() {
                    Some(reader) => reader,
                    None => reader_of(bootstrap, topic)?,
                };
                let mut wait = LIMIT / 10;
                while let Some(Ok(message)) = reader.poll(wait) {
                    let document = message.payload().and_then(|value| serde_json::from_slice(value).ok());
                    self.newest = document.as_ref().and_then(commit_ms).or(self.newest);
                    wait = Duration::ZERO;
                }
                self.reader = Some(reader);
                self.newest
            }
            Place::Postgres(url) => {
                let client = &mut self.client;
                let asked = async {
                    let connected = match client.take() {
                        Some(connected) => connected,
                        None => connect(url).await?,
                    };
                    let row = connected.query_one(QUERY, &[]).await?;
                    *client = Some(connected);
                    row.try_get::<_, Option<i64>>(0)
                };
                self.runtime.block_on(async { tokio::time::timeout(LIMIT, asked).await }).ok()?.ok()?
            }
        }
    }
}

fn commit_ms(checkpoint: &serde_json::Value) -> Option<i64> {
    Some(checkpoint.get("commit_time_postgres_micros")?.as_i64()? / 1_000 + POSTGRES_EPOCH_MS)
}

pub(super) fn reader_of(bootstrap: &str, topic: &str) -> Option<BaseConsumer> {
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", bootstrap).set("group.id", "walpost-testkit").set("enable.auto.commit", "false");
    config.set("isolation.level", "read_committed").set("auto.offset.reset", "earliest");
    let reader: BaseConsumer = config.create().ok()?;
    let mut list = TopicPartitionList::new();
    list.add_partition_offset(topic, 0, Offset::Beginning).ok()?;
    reader.assign(&list).ok()?;
    Some(reader)
}
