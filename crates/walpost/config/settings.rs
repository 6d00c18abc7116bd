//! What the program needs: values that have been checked, alone and against each other, and that nobody can make otherwise.
//!
//! Every field is private and there is one way in, [`from_file`], so that whoever holds a [`Settings`] need not check
//! anything again.

mod conversion;
mod edges;
mod files;
mod session;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use walpost_core::outbox::{Outbox, Outboxes};
use walpost_core::poison::{Keep, Policy};
use walpost_postgres::{ConnectionSettings, SlotName};

pub(super) use conversion::{from_file, password_of};
pub use edges::KafkaSettings;

pub use super::raw::LogFormat;

/// The whole configuration of one relay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    name: String,
    source: Source,
    outboxes: Routed,
    checkpoint: Checkpoint,
    sink: Sink,
    dead_letter: DeadLetter,
    limits: Limits,
    retry: Retry,
    stop_timeout: Duration,
    http: Http,
    log: Log,
}

impl Settings {
    /// The relay's name: its checkpoint is kept under it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The database.
    #[must_use]
    pub fn source(&self) -> &Source {
        &self.source
    }

    /// The outboxes in the order of the file: at least one, no table twice.
    #[must_use]
    pub fn outboxes(&self) -> &Outboxes {
        &self.outboxes.0
    }

    /// Where the checkpoint is kept and how often it is written.
    #[must_use]
    pub fn checkpoint(&self) -> &Checkpoint {
        &self.checkpoint
    }

    /// What takes the records.
    #[must_use]
    pub fn sink(&self) -> &Sink {
        &self.sink
    }

    /// What becomes of rows that cannot be delivered.
    #[must_use]
    pub fn dead_letter(&self) -> &DeadLetter {
        &self.dead_letter
    }

    /// How much may be on its way.
    #[must_use]
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// How long to wait between tries.
    #[must_use]
    pub fn retry(&self) -> Retry {
        self.retry
    }

    /// How long what is on its way may take once the relay is told to stop; zero does not wait.
    #[must_use]
    pub fn stop_timeout(&self) -> Duration {
        self.stop_timeout
    }

    /// What can be asked over HTTP.
    #[must_use]
    pub fn http(&self) -> Http {
        self.http
    }

    /// The log.
    #[must_use]
    pub fn log(&self) -> &Log {
        &self.log
    }
}

/// The database and what it keeps for us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Source {
    connection: ConnectionSettings,
    slot: SlotName,
    publications: Vec<String>,
    may_create: bool,
    is_for_standbys: bool,
    wal_sender_timeout: Duration,
}

impl Source {
    /// How PostgreSQL is reached.
    #[must_use]
    pub fn connection(&self) -> &ConnectionSettings {
        &self.connection
    }

    /// The slot.
    #[must_use]
    pub fn slot(&self) -> &SlotName {
        &self.slot
    }

    /// The publications, as the catalogue names them: at least one, none twice.
    #[must_use]
    pub fn publications(&self) -> &[String] {
        &self.publications
    }

    /// Whether `run` may create what is missing.
    #[must_use]
    pub fn may_create(&self) -> bool {
        self.may_create
    }

    /// Whether the slot is to be carried over to standbys.
    #[must_use]
    pub fn is_for_standbys(&self) -> bool {
        self.is_for_standbys
    }

    /// `wal_sender_timeout` of our connection: at least a second, in whole milliseconds that fit PostgreSQL's integer.
    #[must_use]
    pub fn wal_sender_timeout(&self) -> Duration {
        self.wal_sender_timeout
    }
}

/// The outboxes, comparable: a router is its options.
#[derive(Debug, Clone)]
struct Routed(Outboxes);

impl PartialEq for Routed {
    fn eq(&self, other: &Self) -> bool {
        let parts = |outbox: &Outbox| {
            let router = &outbox.router;
            (outbox.table.clone(), router.options().clone(), router.connector().options().clone())
        };
        self.0.iter().map(parts).eq(other.0.iter().map(parts))
    }
}

impl Eq for Routed {}

/// Where the checkpoint is kept and how often it is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    store: Store,
    topic: String,
    group: Group,
    interval: Duration,
    events: u64,
    idle: Idle,
}

/// How large a group of events may grow that is committed with its checkpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Group {
    interval: Duration,
    events: u64,
    bytes: u64,
}

impl Checkpoint {
    /// Where.
    #[must_use]
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Whether a position is kept beside the one that the slot itself has.
    #[must_use]
    pub fn is_beside_the_slot(&self) -> bool {
        !matches!(self.store, Store::Slot)
    }

    /// The topic of the store `kafka`, whether that is the store or not: a checkpoint can be copied there first.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// The longest time between two while records are delivered.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// The most events between two; at least one.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.events
    }

    /// When one is written though no record is delivered.
    #[must_use]
    pub fn idle(&self) -> Idle {
        self.idle
    }
}

/// Where the checkpoint is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Store {
    /// A row in the source database.
    Postgres,
    /// This file.
    File(PathBuf),
    /// Nowhere but in the slot.
    Slot,
    /// A topic of the sink's brokers, written by the sink.
    Kafka(KafkaSettings),
}

/// When a checkpoint is written though no record is delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Idle {
    interval: Duration,
    bytes: u64,
    max_age: Duration,
}

impl Idle {
    /// The least time between two.
    #[must_use]
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// How many bytes of log must have passed.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Or how old the last must be.
    #[must_use]
    pub fn max_age(&self) -> Duration {
        self.max_age
    }
}

/// What takes the records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Sink {
    /// A Kafka cluster.
    Kafka(KafkaSettings),
    /// Standard output.
    Stdout,
    /// Nothing.
    Null,
}

impl Sink {
    /// The word of `sink.type`.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Kafka(_) => "kafka",
            Self::Stdout => "stdout",
            Self::Null => "null",
        }
    }

    /// Where the records go, for people: `kafka 127.0.0.1:9092`.
    #[must_use]
    pub fn place(&self) -> String {
        match self {
            #[cfg(feature = "kafka")]
            Self::Kafka(kafka) => format!("kafka {}", kafka.servers()),
            #[cfg(not(feature = "kafka"))]
            Self::Kafka(never) => match *never {},
            Self::Stdout | Self::Null => self.word().to_owned(),
        }
    }
}

/// What becomes of rows that cannot be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    store: LetterStore,
    topic: String,
    policy: Policy,
    keep_ended: Duration,
}

/// Where rows are set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LetterStore {
    /// The table `walpost.dead_letter` of the source database.
    Postgres,
    /// A topic of the sink's cluster.
    Kafka(KafkaSettings),
}

impl DeadLetter {
    /// Where.
    #[must_use]
    pub fn store(&self) -> &LetterStore {
        &self.store
    }

    /// The topic of the store `kafka`, whether that is the store or not.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.topic
    }

    /// What the session is told.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// How long a letter is kept that was sent or dropped; at least a day.
    #[must_use]
    pub fn keep_ended(&self) -> Duration {
        self.keep_ended
    }

    /// Whether any row may be set aside, so that there has to be a place for it.
    #[must_use]
    pub fn is_used(&self) -> bool {
        self.policy.needs_store()
    }

    /// Whether letters keep references to their rows.
    #[must_use]
    pub fn keeps_references(&self) -> bool {
        self.is_used() && self.policy.keep == Keep::Reference
    }

    /// Whether that place is the table.
    #[must_use]
    pub fn is_used_table(&self) -> bool {
        self.is_used() && self.store == LetterStore::Postgres
    }
}

/// How much may be on its way to the sink.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    in_flight_records: usize,
    in_flight_bytes: usize,
}

impl Limits {
    /// Records; at least one.
    #[must_use]
    pub fn in_flight_records(&self) -> usize {
        self.in_flight_records
    }

    /// Their weight in bytes ([`Record::weight`](walpost_core::record::Record::weight)); at least one.
    #[must_use]
    pub fn in_flight_bytes(&self) -> usize {
        self.in_flight_bytes
    }
}

/// How long to wait between tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retry {
    initial: Duration,
    max: Duration,
}

impl Retry {
    /// The first wait; at least a millisecond.
    #[must_use]
    pub fn initial(&self) -> Duration {
        self.initial
    }

    /// The longest wait; not below the first.
    #[must_use]
    pub fn max(&self) -> Duration {
        self.max
    }
}

/// What can be asked over HTTP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Http {
    listen: Option<SocketAddr>,
    stalled_after: Duration,
}

impl Http {
    /// Where; nowhere if it is off.
    #[must_use]
    pub fn listen(&self) -> Option<SocketAddr> {
        self.listen
    }

    /// How long something may be owed without moving before the relay is not ready; at least a second.
    #[must_use]
    pub fn stalled_after(&self) -> Duration {
        self.stalled_after
    }
}

/// The log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Log {
    format: LogFormat,
    filter: String,
}

impl Log {
    /// The form of its lines.
    #[must_use]
    pub fn format(&self) -> LogFormat {
        self.format
    }

    /// A level or directives, known to be valid.
    #[must_use]
    pub fn filter(&self) -> &str {
        &self.filter
    }
}

impl Store {
    /// The file, where it is one.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::File(path) => Some(path),
            Self::Postgres | Self::Slot | Self::Kafka(_) => None,
        }
    }
}
