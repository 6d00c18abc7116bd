//! The servers of a run, the proxies before them, and the relay's configuration.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use super::disk::Disk;
use super::probe::{Place, Probe};
use super::{Error, PAUSE, Store, letters};
use crate::failure::succeed;
use crate::proxy::Proxy;
use crate::relay::{Config, Walpost, toml_string};
use crate::servers::{Kafka, Postgres, wait_until};
use crate::workload::{NARROW_TOPIC, Outbox, Workload};

/// Partitions of each topic.
pub(super) const PARTITIONS: i32 = 3;
/// Records that may be in flight.
pub(super) const IN_FLIGHT: usize = 2_000;
/// A stream that is silent for so long is given up, and a relay that slept so long knows of nothing.
pub(super) const SILENCE: Duration = Duration::from_secs(3);
/// Events between two checkpoints.
const EVENTS: usize = 2_000;
/// Rows of the largest transaction.
const LARGEST_TRANSACTION: u32 = 3_000;
/// Bytes of the largest payload, below what a broker takes by default.
const LARGEST_PAYLOAD: u32 = 300_000;
/// One row in so many cannot be delivered.
const MISFITS: u32 = 1_500;
/// Letters that may lie there for a reason of their own: more than an operator lets lie there, and than come while there is no operator.
const FLOOD_LIMIT: u32 = 400;
/// Frames of the log that the relay's library and one lot of its own hold ahead of the session.
const READ_AHEAD: u64 = 64 + 4;
/// The most memory that a process of the relay may hold: what a debug build, its libraries and their allocators take while nothing is in
/// flight, with room; what may be in flight by default (`limits.in_flight_bytes`), once as rows, once as records and once as what librdkafka sends; and what
/// is read ahead, were every row of it one of the largest.
pub(super) const MOST_MEMORY: u64 = (64 << 20) + 3 * (16 << 20) + READ_AHEAD * LARGEST_PAYLOAD as u64;
/// Name of database, slot, publication and relay alike.
const NAME: &str = "chaos";
/// The topic of the checkpoint, where the store is Kafka, and that of the dead letters.
const CHECKPOINTS: &str = "chaos-checkpoints";
const LETTERS: &str = "chaos-dead-letters";

/// How many records may come again after a crash: those since the last checkpoint, those that gathered while it was being written,
/// those in flight, and those of a transaction that had not ended, in the midst of which no checkpoint lies.
pub(super) const MOST_REPEATS: usize = 2 * EVENTS + IN_FLIGHT + LARGEST_TRANSACTION as usize;

/// See the module's documentation. The order of the fields is that of their ends.
pub(super) struct Stage {
    pub(super) walpost: Arc<Walpost>,
    pub(super) source: Proxy,
    pub(super) broker: Proxy,
    pub(super) disk: Option<Disk>,
    pub(super) outboxes: Vec<Outbox>,
    pub(super) kafka: Kafka,
    pub(super) postgres: Postgres,
    pub(super) store: Store,
}

impl Stage {
    /// Starts everything but the relay and the writers.
    pub(super) fn set(program: &Path, store: Store, has_disk: bool) -> Result<Self, Error> {
        let broker = Proxy::to_port(0).map_err(Error::io("listen for the relay's connections to the broker"))?;
        broker.listen_to_kafka();
        let kafka = Kafka::builder().proxied_by(broker.port()).start()?;
        broker.set_upstream(loopback(kafka.proxied_port().unwrap_or(0)));
        let postgres = Postgres::builder().setting("track_commit_timestamp", "on").start()?;
        let source = Proxy::to_port(postgres.endpoint().port());
        let source = source.map_err(Error::io("listen for the relay's connections to PostgreSQL"))?;
        let outboxes = ["public.outbox", "public.other_outbox", "public.third_outbox"];
        let outboxes = outboxes.map(|table| Outbox::new(table, table).with_misfits()).to_vec();
        postgres.psql("postgres", &format!("CREATE DATABASE {NAME}"))?;
        let topics: Vec<String> = outboxes.iter().flat_map(Outbox::topics).collect();
        let topics: Vec<(&str, i32)> = topics.iter().map(|topic| (topic.as_str(), PARTITIONS)).collect();
        kafka.endpoint().create_topics(&topics)?;
        for (topic, _) in &topics {
            kafka.endpoint().configure_topic(topic, &[("max.message.bytes", &NARROW_TOPIC.to_string())])?;
        }
        let walpost = Walpost::new(program, &Config::default())?;
        let folder = walpost.folder().join("checkpoint");
        fs::create_dir(&folder).map_err(Error::io("make a folder for the checkpoint"))?;
        let disk = has_disk.then(|| Disk::mount(&folder)).transpose()?;
        let stage = Self { walpost: Arc::new(walpost), source, broker, disk, outboxes, kafka, postgres, store };
        stage.workload(0, PAUSE).create()?;
        stage.walpost.configure(&stage.config(&stage.url_by(stage.source.port()), &stage.checkpoint()))?;
        succeed(&stage.walpost, "init")?;
        Ok(stage)
    }

    /// Writers: small and large transactions, hot and cold keys, small and large rows, savepoints and rollbacks.
    pub(super) fn workload(&self, seed: u64, pause: Duration) -> Workload {
        Workload::new(&self.url(), &self.outboxes)
            .writers(6)
            .pause(pause)
            .largest_payload(LARGEST_PAYLOAD)
            .large_rows(LARGEST_TRANSACTION)
            .misfits(MISFITS)
            .seed(seed)
    }

    /// The database, past the proxy.
    pub(super) fn url(&self) -> String {
        self.postgres.url(NAME)
    }

    /// The checkpoint's file, where the store is one.
    pub(super) fn checkpoint(&self) -> PathBuf {
        self.walpost.folder().join("checkpoint").join("position")
    }

    pub(super) fn probe(&self) -> Result<Probe, Error> {
        Probe::new(match self.store {
            Store::Postgres => Place::Postgres(self.url()),
            Store::File => Place::File(self.checkpoint()),
            Store::Kafka => Place::Kafka(self.kafka.bootstrap().to_owned(), CHECKPOINTS.to_owned()),
        })
    }

    /// Where the dead letters are kept.
    pub(super) fn letters(&self) -> letters::Place {
        match self.store {
            Store::Postgres | Store::File => letters::Place::Table(self.url()),
            Store::Kafka => letters::Place::Topic(self.kafka.bootstrap().to_owned(), LETTERS.to_owned()),
        }
    }

    pub(super) fn topics(&self) -> Vec<String> {
        self.outboxes.iter().flat_map(Outbox::topics).collect()
    }

    /// The process that reads the slot.
    pub(super) fn walsender(&self) -> Option<u32> {
        let query = "SELECT active_pid FROM pg_replication_slots WHERE active";
        self.postgres.endpoint().value(NAME, query).ok().and_then(|pid| pid.parse().ok())
    }

    /// Waits until another process reads the slot.
    pub(super) fn wait_for_walsender(&self, other_than: Option<u32>, limit: Duration) -> Result<u32, Error> {
        let mut found = None;
        wait_until("a new walsender", limit, || {
            found = self.walsender().filter(|pid| Some(*pid) != other_than);
            found.is_some()
        })?;
        found.ok_or_else(|| Error::Undone("there is no walsender".to_owned()))
    }

    /// A checkpoint that is ours in everything but the system that it belongs to.
    pub(super) fn foreign_checkpoint(&self) -> Result<Vec<u8>, Error> {
        let other = Postgres::start()?;
        other.psql("postgres", &format!("CREATE DATABASE {NAME}"))?;
        Workload::new(&other.url(NAME), &self.outboxes).create()?;
        let file = self.walpost.folder().join("foreign");
        let walpost = Walpost::new(self.walpost.program(), &self.config(&other.url(NAME), &file))?;
        succeed(&walpost, "init")?;
        let checkpoint = fs::read(&file).map_err(Error::io("read a foreign checkpoint"))?;
        // The next time it is another system, and this one is gone.
        fs::remove_file(&file).map_err(Error::io("remove a foreign checkpoint"))?;
        Ok(checkpoint)
    }

    /// Lets everything pass, run and be written again.
    pub(super) fn heal(&mut self) -> Result<(), Error> {
        self.source.pass();
        self.broker.pass();
        self.postgres.sigcont()?;
        self.kafka.sigcont()?;
        self.postgres.start_again()?;
        self.kafka.start_again()?;
        Ok(())
    }

    fn url_by(&self, port: u16) -> String {
        format!("postgres://postgres@127.0.0.1:{port}/{NAME}")
    }

    /// Timeouts that are shorter than the longest faults, so that both ways of going on are taken.
    fn config(&self, url: &str, checkpoint: &Path) -> Config {
        let mut config = Config::new(url, NAME)
            .kafka(&format!("127.0.0.1:{}", self.broker.port()))
            .set("", "name", &toml_string(NAME))
            .set("sink.kafka", "socket.timeout.ms", r#""4000""#)
            .set("source", "wal_sender_timeout_ms", &SILENCE.as_millis().to_string())
            .set("source", "connect_timeout_ms", "2000")
            .set("retry", "max_ms", "1000")
            .set("dead_letter", "flood_limit", &FLOOD_LIMIT.to_string())
            .set("limits", "in_flight_records", &IN_FLIGHT.to_string())
            .set("checkpoint", "events", &EVENTS.to_string());
        if self.store == Store::File {
            let path = toml_string(&checkpoint.display().to_string());
            config = config.set("checkpoint", "store", r#""file""#).set("checkpoint", "path", &path);
        }
        if self.store == Store::Kafka {
            config = config
                .set("checkpoint", "store", r#""kafka""#)
                .set("checkpoint", "topic", &toml_string(CHECKPOINTS))
                .set("dead_letter", "topic", &toml_string(LETTERS));
        }
        let add = |config: Config, outbox: &Outbox| {
            let options = outbox.router();
            let options: Vec<(&str, &str)> = options.iter().map(|(name, value)| (*name, value.as_str())).collect();
            config.outbox(outbox.table(), &options)
        };
        self.outboxes.iter().fold(config, add)
    }
}

fn loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}
