//! A handover from a real Debezium to walpost, in the middle of the traffic, and what it lost and repeated.
//!
//! Applications commit outbox rows without a pause. Debezium publishes them; it is stopped, or killed; walpost takes its slot and
//! its publication over, and goes on. Afterwards every committed row must have arrived, in order, and how many came twice is
//! held against what may: what Debezium had published without confirming it, read from the slot itself in between.
//!
//! Whose record came when is not judged: Debezium's timestamps are its clock's, so timestamps are left out of the comparison.

mod debezium;

use std::collections::BTreeSet;
use std::fmt;
use std::path::Path;
use std::time::Duration;

pub use crate::failure::Error;

use crate::checker::{Repeats, Truth, Verdict, check};
use crate::consumer::{Consumer, Received};
use crate::failure::succeed;
use crate::relay::{Config, Relay, Walpost};
use crate::servers::{Database, Kafka, Postgres, wait_until};
use crate::workload::{Outbox, Running, Workload};
use debezium::Predecessor;

/// Longer than anything may take on a busy machine that is in order.
const LIMIT: Duration = Duration::from_secs(120);
/// Rows that each of the two has to do with, at least.
const ROWS: usize = 1_500;
/// Partitions of each topic.
const PARTITIONS: i32 = 3;

/// How Debezium ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// By SIGTERM: it flushes its offsets.
    Stopped,
    /// By SIGKILL.
    Killed,
}

/// From where walpost goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// The slot's confirmed position, without any import: the configuration is written by hand.
    ByHand,
    /// The slot's confirmed position, by `walpost import debezium --checkpoint`.
    Checkpoint,
    /// Debezium's own offsets, by `walpost import debezium --offsets`.
    Offsets,
}

/// What an act showed.
#[derive(Debug)]
pub struct Act {
    /// How Debezium ended.
    pub end: End,
    /// From where walpost went on.
    pub way: Way,
    /// Records that Debezium had published.
    pub published: usize,
    /// Those of them that the slot would still send again.
    pub unconfirmed: usize,
    /// What the checker found.
    pub verdict: Verdict,
}

impl Act {
    /// How many records may have come twice. A Debezium that was stopped has flushed what it published; one that was killed had
    /// published more than its offsets say.
    #[must_use]
    pub fn allowed(&self) -> usize {
        match (self.way, self.end) {
            (Way::Offsets, End::Stopped) => 0,
            _ => self.unconfirmed,
        }
    }

    /// Whether nothing was lost or altered, and no more came twice than may.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.verdict.is_clean(Repeats::Allowed) && self.verdict.repeated.count() <= self.allowed()
    }
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { end, way, published, unconfirmed, verdict } = self;
        let word = if self.is_good() { "GOOD" } else { "BAD" };
        writeln!(f, "{word}: Debezium {end:?}, walpost from {way:?}")?;
        writeln!(f, "  {} rows were committed, {} of them lost", verdict.committed, verdict.lost.count())?;
        writeln!(f, "  {published} were published by Debezium, {unconfirmed} of them not confirmed")?;
        write!(f, "  {} came twice, where {} may", verdict.repeated.count(), self.allowed())?;
        // That records come twice is no fault in itself, and needs no examples.
        if verdict.is_clean(Repeats::Allowed) { Ok(()) } else { write!(f, "\n{verdict}") }
    }
}

/// The servers that all acts share.
pub struct Stage {
    postgres: Postgres,
    kafka: Kafka,
}

impl Stage {
    /// Starts them.
    ///
    /// # Errors
    ///
    /// When they cannot be had.
    pub fn set() -> Result<Self, Error> {
        Ok(Self { postgres: Postgres::start()?, kafka: Kafka::start()? })
    }

    /// Plays one act with the program at this path, telling what happens.
    ///
    /// # Errors
    ///
    /// When something did not come about at all; what came about wrongly is in the [`Act`].
    pub fn play(&self, walpost: &Path, end: End, way: Way, tell: impl Fn(&str)) -> Result<Act, Error> {
        let scene = Scene::new(self)?;
        let mut predecessor = Predecessor::start(self, &scene)?;
        tell("Debezium reads the slot; four writers begin");
        let writers = scene.workload.start();
        predecessor.publish(&mut scene.consumer()?, ROWS)?;
        let prepared = scene.prepare(walpost, way, &predecessor)?;
        predecessor.end(end)?;
        scene.wait_until_slot_is_free()?;
        let (published, unconfirmed) = scene.look_between()?;
        tell(&format!(
            "Debezium was {end:?}; it had published {}, of which the slot would send {} again",
            published.len(),
            published.intersection(&unconfirmed).count()
        ));
        let successor = scene.take_over(walpost, way, &predecessor, &prepared)?;
        tell("walpost has taken over");
        let verdict = scene.finish(writers, successor)?;
        let unconfirmed = published.intersection(&unconfirmed).count();
        Ok(Act { end, way, published: published.len(), unconfirmed, verdict })
    }
}

/// What one act is about.
struct Scene {
    database: Database,
    outbox: Outbox,
    workload: Workload,
    bootstrap: String,
}

impl Scene {
    fn new(stage: &Stage) -> Result<Self, Error> {
        let database = stage.postgres.endpoint().fresh_database("handover")?;
        let outbox = Outbox::new("public.outbox", database.name());
        for topic in outbox.topics() {
            stage.kafka.endpoint().create_topic(&topic, PARTITIONS)?;
        }
        // The writers also emit logical messages, which Debezium publishes past the router.
        stage.kafka.endpoint().create_topic(&format!("{}.message", database.name()), 1)?;
        let workload = Workload::new(&database.url(), std::slice::from_ref(&outbox)).pause(Duration::from_millis(20));
        workload.create()?;
        Ok(Self { database, outbox, workload, bootstrap: stage.kafka.bootstrap().to_owned() })
    }

    /// Slot, publication and the prefix of the topics are all named after the database.
    fn name(&self) -> &str {
        self.database.name()
    }

    fn consumer(&self) -> Result<Consumer, Error> {
        let [even, odd] = self.outbox.topics();
        Ok(Consumer::of_topics(&self.bootstrap, &[&even, &odd])?)
    }

    fn wait_until_slot_is(&self, active: &str) -> Result<(), Error> {
        let query = format!("SELECT active FROM pg_replication_slots WHERE slot_name = '{}'", self.name());
        let is_so = || self.database.value(&query).is_ok_and(|found| found == active);
        wait_until("the slot to change hands", LIMIT, is_so).map(drop).map_err(Error::from)
    }

    fn wait_until_slot_is_free(&self) -> Result<(), Error> {
        self.wait_until_slot_is("f")
    }

    /// The ids of what has been published, and of what the slot would send to whoever comes next. The id is the first column of
    /// an `Insert` message: 13 bytes stand before its text.
    fn look_between(&self) -> Result<(BTreeSet<String>, BTreeSet<String>), Error> {
        let mut consumer = self.consumer()?;
        let published = consumer.read_to_end(LIMIT)?.iter().filter_map(Received::id).map(str::to_owned).collect();
        let name = self.name();
        let waiting = self.database.psql(&format!(
            "SELECT convert_from(substr(data, 14, 36), 'UTF8') FROM pg_logical_slot_peek_binary_changes(
                 '{name}', NULL, NULL, 'proto_version', '1', 'publication_names', '{name}')
             WHERE get_byte(data, 0) = ascii('I')"
        ))?;
        Ok((published, waiting.into_iter().flatten().collect()))
    }

    /// What an operator does while Debezium still runs: a configuration, and the tables of walpost.
    fn prepare(&self, program: &Path, way: Way, before: &Predecessor) -> Result<Walpost, Error> {
        let by_hand = Config::new(&self.database.url(), self.name())
            .outbox(self.outbox.table(), &[("route.topic.replacement", &self.outbox.route())])
            .kafka(&self.bootstrap);
        let walpost = Walpost::new(program, &by_hand)?;
        if way != Way::ByHand {
            walpost.configure_as(&before.imported(program, &[])?)?;
            succeed(&walpost, "init")?;
        }
        Ok(walpost)
    }

    /// What he does when it has ended.
    fn take_over(&self, program: &Path, way: Way, before: &Predecessor, walpost: &Walpost) -> Result<Relay, Error> {
        match way {
            // Not before: the first checkpoint is the slot's position, and that was Debezium's to move.
            Way::ByHand => succeed(walpost, "init")?,
            Way::Checkpoint => drop(before.imported(program, &["--checkpoint"])?),
            Way::Offsets => drop(before.imported(program, &["--offsets", &before.offsets()])?),
        }
        let relay = walpost.start()?;
        if let Err(error) = self.wait_until_slot_is("t") {
            return Err(no_successor(error, &relay.log()));
        }
        Ok(relay)
    }

    /// Lets the writers go on for a while, then compares all that they committed with all that arrived.
    fn finish(&self, writers: Running, relay: Relay) -> Result<Verdict, Error> {
        writers.wait_for_more_rows(u64::try_from(ROWS).unwrap_or(u64::MAX), LIMIT)?;
        let _ = writers.stop();
        let mut truth = Truth::read(&self.database.url(), &self.outbox.truth())?;
        for topic in self.outbox.topics() {
            truth = truth.with_partitions(&topic, PARTITIONS);
        }
        let ids = truth.rows().map(|row| row.id.clone()).collect();
        let mut consumer = self.consumer()?;
        // What is lost does not come, and the verdict says so.
        let _ = consumer.read_ids(&ids, LIMIT);
        let ended = relay.stop(LIMIT)?;
        if ended.code() != Some(0) {
            return Err(no_successor(format_args!("it ended with {}", ended.status), &ended.log));
        }
        let mut received = consumer.read_to_end(LIMIT)?.to_vec();
        for record in &mut received {
            record.timestamp_ms = None;
        }
        Ok(check(&truth, &received))
    }
}

/// walpost did not take over, or did not end well.
fn no_successor(reason: impl fmt::Display, log: &str) -> Error {
    Error::Undone(format!("walpost did not do its part: {reason}; its log:\n{log}"))
}
