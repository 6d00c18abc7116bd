//! The servers that cases are run on, and the steps of one case.

use std::time::{Duration, Instant};

use super::{Case, Error, Outcome};
use crate::consumer::{Consumer, Received};
use crate::servers::{Database, Debezium, Kafka, Postgres, Task, wait_until};
use crate::workload::connection::{block_on, connect};

/// From a connector's start to its walsender, and from a row to its record, on a busy machine.
const LIMIT: Duration = Duration::from_secs(90);
/// After which a connector that says it runs, and publishes nothing, counts as stuck.
const STUCK: Duration = Duration::from_secs(40);
/// How long nothing must have come, where no marker can tell that all has.
const SILENCE: Duration = Duration::from_secs(4);
/// Between two questions about a task: each costs a process or a connection.
const LOOK: Duration = Duration::from_millis(400);
/// The prefix of the logical message behind all rows: the router lets it pass, into a topic of its own.
const MARKER: &str = "walpost-marker";

/// A PostgreSQL, a Kafka that makes topics of three partitions by itself, and a Connect.
pub(super) struct Stage {
    debezium: Debezium,
    kafka: Kafka,
    postgres: Postgres,
}

/// What is known of a case while it runs.
struct Run<'a> {
    stage: &'a Stage,
    case: Case,
    prefix: String,
    database: Database,
    consumer: Consumer,
}

impl Stage {
    pub(super) fn set() -> Result<Self, Error> {
        let postgres = Postgres::start()?;
        let kafka = Kafka::builder()
            .property("auto.create.topics.enable", "true")
            .property("num.partitions", "3")
            // The time of a record is that of its row where the case says so, and may be long past.
            .property("log.retention.ms", "-1")
            .start()?;
        let debezium = Debezium::builder(kafka.bootstrap()).property("offset.flush.interval.ms", "1000").start()?;
        Ok(Self { debezium, kafka, postgres })
    }

    /// Runs a case under a prefix that its number makes.
    pub(super) fn run(&self, number: usize, case: &Case) -> Result<Outcome, Error> {
        // Always of the same width, so that none is the beginning of another.
        let prefix = format!("rec{number:05}");
        let database = self.postgres.endpoint().fresh_database("conformance")?;
        let consumer = Consumer::of_prefix(self.kafka.bootstrap(), &prefix)?;
        let case = case.under(&prefix);
        Run { stage: self, case, prefix, database, consumer }.run()
    }
}

impl Run<'_> {
    fn run(mut self) -> Result<Outcome, Error> {
        self.prepare()?;
        if let Err(refused) = self.start() {
            return Ok(Outcome::new(&self.case, Vec::new(), Some(&refused), &self.prefix));
        }
        let watched = self.watch();
        self.stage.debezium.connectors().remove(&self.prefix)?;
        let trace = watched?;
        // What was sent before the task died has arrived by now: its producer was closed.
        let records = self.consumer.read_to_end(LIMIT)?.iter().filter(|record| !is_marker(record)).cloned().collect();
        Ok(Outcome::new(&self.case, records, trace.as_deref(), &self.prefix))
    }

    fn prepare(&self) -> Result<(), Error> {
        let prefix = &self.prefix;
        if let Some(partitions) = self.case.partitions() {
            self.stage.kafka.endpoint().create_topic(&format!("{prefix}.order"), partitions)?;
        }
        let mut statements = vec![format!("CREATE SCHEMA {prefix}")];
        statements.extend(self.case.statements("ddl"));
        statements.push(self.case.publication(prefix));
        statements.push(format!("SELECT pg_create_logical_replication_slot('{prefix}', 'pgoutput')"));
        self.execute(&statements)
    }

    /// Starts the connector and waits until it reads the slot; the error is Connect's, or the task's trace.
    fn start(&self) -> Result<(), String> {
        let endpoint = self.stage.postgres.endpoint();
        let mut options = self.case.options(&self.prefix);
        for (key, value) in [
            ("database.hostname", endpoint.host()),
            ("database.port", &endpoint.port().to_string()),
            ("database.user", "postgres"),
            ("database.password", "postgres"),
            ("database.dbname", self.database.name()),
        ] {
            options.push((key.to_owned(), value.to_owned()));
        }
        let connectors = self.stage.debezium.connectors();
        connectors.put(&self.prefix, &options).map_err(|refused| refused.to_string())
    }

    /// Runs the rows and waits until all of them have arrived, or the task has died: then this is its trace.
    fn watch(&mut self) -> Result<Option<String>, Error> {
        if let Some(trace) = self.wait_until_streaming()? {
            return Ok(Some(trace));
        }
        self.execute(&self.case.statements("dml"))?;
        if !self.case.takes_any_record() {
            let end = self.database.value("SELECT pg_current_wal_lsn()")?;
            return self.wait_for_silence(&end);
        }
        // What the broker has refused ends a task only when it comes with the next record: hence a second marker.
        for markers in 1..=2 {
            self.execute(&[format!("SELECT pg_logical_emit_message(true, '{MARKER}', '')")])?;
            let trace = self.wait_for_markers(markers)?;
            if trace.is_some() {
                return Ok(trace);
            }
        }
        Ok(None)
    }

    fn wait_until_streaming(&self) -> Result<Option<String>, Error> {
        let query = format!("SELECT active FROM pg_replication_slots WHERE slot_name = '{}'", self.prefix);
        let mut trace = None;
        let mut looked_at = Instant::now();
        wait_until("the connector to read its slot", LIMIT, || {
            if looked_at.elapsed() < LOOK {
                return false;
            }
            looked_at = Instant::now();
            trace = self.trace();
            trace.is_some() || self.database.value(&query).is_ok_and(|active| active == "t")
        })?;
        Ok(trace)
    }

    /// Waits until so many markers have come, the task has died, or nothing has come for too long.
    fn wait_for_markers(&mut self, count: usize) -> Result<Option<String>, Error> {
        let mut quiet = Quiet::from_now();
        let mut trace = None;
        let Self { consumer, stage, prefix, .. } = self;
        consumer.read_until("the marker behind the rows", LIMIT + STUCK, |records| {
            let is_quiet = quiet.is_for(STUCK, records.len());
            if records.iter().filter(|record| is_marker(record)).count() >= count {
                return true;
            }
            if quiet.may_look() {
                let stuck = || format!("stuck: the task runs, and nothing has come for {} s", STUCK.as_secs());
                trace = failure(stage, prefix).or_else(|| is_quiet.then(stuck));
            }
            trace.is_some()
        })?;
        Ok(trace)
    }

    /// Waits until nothing has come for a while although the server has sent all up to `end`, or the task has died.
    fn wait_for_silence(&mut self, end: &str) -> Result<Option<String>, Error> {
        let is_sent = format!(
            "SELECT coalesce(bool_and(sent_lsn >= '{end}'), true) FROM pg_stat_replication
             JOIN pg_replication_slots ON active_pid = pid WHERE slot_name = '{}'",
            self.prefix
        );
        let mut quiet = Quiet::from_now();
        let mut trace = None;
        let Self { consumer, stage, prefix, database, .. } = self;
        consumer.read_until("the records of the case", LIMIT, |records| {
            let is_quiet = quiet.is_for(SILENCE, records.len());
            if !quiet.may_look() {
                return false;
            }
            trace = failure(stage, prefix);
            trace.is_some() || is_quiet && database.value(&is_sent).is_ok_and(|sent| sent == "t")
        })?;
        Ok(trace)
    }

    fn trace(&self) -> Option<String> {
        failure(self.stage, &self.prefix)
    }

    /// Each statement in a transaction of its own.
    fn execute(&self, statements: &[String]) -> Result<(), Error> {
        let path = format!("SET search_path = {}, public", self.prefix);
        block_on(async {
            let failed = |statement: &str| {
                let statement = statement.to_owned();
                |source| Error::Statement { statement, source }
            };
            let client = connect(&self.database.url()).await.map_err(failed("the connection"))?;
            for statement in std::iter::once(&path).chain(statements) {
                client.batch_execute(statement).await.map_err(failed(statement))?;
            }
            Ok(())
        })
    }
}

/// How long nothing has come, and when the task was last looked at.
struct Quiet {
    count: usize,
    since: Instant,
    looked_at: Instant,
}

impl Quiet {
    fn from_now() -> Self {
        Self { count: 0, since: Instant::now(), looked_at: Instant::now() }
    }

    /// Whether there have been so many records for so long.
    fn is_for(&mut self, limit: Duration, count: usize) -> bool {
        if count != self.count {
            (self.count, self.since) = (count, Instant::now());
        }
        self.since.elapsed() > limit
    }

    /// Whether it is time for a look, which then counts as taken.
    fn may_look(&mut self) -> bool {
        let may = self.looked_at.elapsed() >= LOOK;
        if may {
            self.looked_at = Instant::now();
        }
        may
    }
}

/// The trace of a task that has died.
fn failure(stage: &Stage, connector: &str) -> Option<String> {
    match stage.debezium.connectors().task(connector) {
        Ok(Task::Failed(trace)) => Some(trace),
        _ => None,
    }
}

fn is_marker(record: &Received) -> bool {
    record.topic.ends_with(".message") && record.key_text().contains(MARKER)
}
