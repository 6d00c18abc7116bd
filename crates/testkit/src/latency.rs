//! How long an event takes: from the moment before its INSERT to its receipt by a consumer, at a steady rate of single-event transactions.
//!
//! A figure of its own says little on a machine that servers share. So the plainest way that there is runs beside: the same INSERT, and a
//! producer that publishes the same bytes itself once it has committed. What a relay adds is the difference.
//!
//! The server flushes each commit (`fsync` and `synchronous_commit` on): without, the log reaches readers up to 200 ms late and hides all else.
//! The consumer polls one by one and reads committed records. A writer that falls behind its schedule does not make up for it, so the rate
//! that was reached is told; and each run is checked for the number of events that came.

mod figures;
mod traffic;

use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use crate::failure::Error;
pub use figures::{Figures, Percentiles};

use crate::failure::succeed;
use crate::relay::{Config, Relay, Walpost};
use crate::servers::{Database, Kafka, Postgres};
use traffic::Traffic;

/// Longer than anything may take that is in order.
const LIMIT: Duration = Duration::from_secs(60);
/// Of the topic.
const PARTITIONS: i32 = 3;

/// By whom an event is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By the writer itself, once it has committed: what a broker and a client need.
    Producer,
    /// By a relay with its usual settings.
    AtLeastOnce,
    /// By a relay that keeps its checkpoint in the transactions that carry the events.
    ExactlyOnce,
}

impl Way {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Producer, Self::AtLeastOnce, Self::ExactlyOnce];

    fn slug(self) -> &'static str {
        match self {
            Self::Producer => "producer",
            Self::AtLeastOnce => "at_least_once",
            Self::ExactlyOnce => "exactly_once",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Producer => "producer alone",
            Self::AtLeastOnce => "walpost, kafka",
            Self::ExactlyOnce => "… exactly once",
        })
    }
}

/// What is measured.
#[derive(Clone, Debug)]
pub struct Options {
    /// The program under test.
    pub program: PathBuf,
    /// Transactions a second.
    pub rate: u32,
    /// For how long, after a few seconds that do not count.
    pub time: Duration,
}

/// The servers that all ways share.
#[derive(Debug)]
pub struct Stand {
    postgres: Postgres,
    kafka: Kafka,
}

impl Stand {
    /// Starts them.
    ///
    /// # Errors
    ///
    /// When one does not start.
    pub fn start() -> Result<Self, Error> {
        let postgres = Postgres::builder().fsync(true).setting("synchronous_commit", "on").start()?;
        Ok(Self { postgres, kafka: Kafka::start()? })
    }

    /// Sends events this way, and measures how long they take.
    ///
    /// # Errors
    ///
    /// When somebody fails, or an event does not come.
    pub fn measure(&self, options: &Options, way: Way, run: usize) -> Result<Figures, Error> {
        let name = format!("{}_{}_{run}", way.slug(), options.rate);
        let database = self.postgres.endpoint().fresh_database("latency")?;
        let topic = format!("{name}.order");
        self.kafka.endpoint().create_topic(&topic, PARTITIONS)?;
        let walpost = Walpost::new(&options.program, &self.config(way, &database, &name))?;
        succeed(&walpost, "init --with-outbox")?;
        let relay = self.relay(way, &walpost)?;
        let traffic = Traffic { url: database.url(), bootstrap: self.kafka.bootstrap().to_owned(), topic, way };
        let figures = traffic.run(options.rate, options.time)?;
        if let Some(relay) = relay {
            let ended = relay.stop(LIMIT)?;
            if ended.code() != Some(0) {
                return Err(Error::Undone(format!("{way} did not end well:\n{}", ended.log)));
            }
        }
        Ok(figures)
    }

    /// Nobody relays what the writers publish themselves.
    fn relay(&self, way: Way, walpost: &Walpost) -> Result<Option<Relay>, Error> {
        if way == Way::Producer {
            return Ok(None);
        }
        let relay = walpost.start()?;
        relay.wait_for_log("streaming", LIMIT)?;
        Ok(Some(relay))
    }

    fn config(&self, way: Way, database: &Database, name: &str) -> Config {
        let topics = format!("{name}.${{routedByValue}}");
        let config =
            Config::new(&database.url(), name).outbox("public.outbox", &[("route.topic.replacement", &topics)]);
        let config = config.kafka(self.kafka.bootstrap());
        match way {
            Way::Producer | Way::AtLeastOnce => config,
            Way::ExactlyOnce => config.set("checkpoint", "store", r#""kafka""#),
        }
    }
}

/// Whether a path leads to a program, said before servers are started for it.
///
/// # Errors
///
/// When it does not.
pub fn must_be_there(program: &Path) -> Result<(), Error> {
    let is_there = program.is_file();
    is_there.then_some(()).ok_or_else(|| Error::Undone(format!("there is no program {}", program.display())))
}
