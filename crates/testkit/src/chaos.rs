//! A run of writers, faults and a relay under supervision, and the verdict on what arrived.
//!
//! Six writers commit and roll back small and large transactions into three outbox tables, without a pause; the rows stay in the tables, so
//! that afterwards the truth lies in the database, whatever a writer was answered. A reader takes all partitions from their beginning. One
//! [`Fault`] after another is done to the relay, to its servers or to the network between, as a seed draws them. At the end all is
//! healed, the writers stop, the relay drains and is stopped in order, and every row is held against every record.
//!
//! **The verdict** counts rows that were lost, records that nobody committed (rolled back, or rolled back to a savepoint), records out of
//! their key's order, records that differ from their row in any byte, and good rows that were set aside for a reason of their own. None of these
//! may be.
//!
//! **Repeats** are held against the promise (`docs/guarantees.md`): what was published and not yet checkpointed when the relay
//! crashed may come again, identical in every byte, and nothing else. See [`Window`] for how that is
//! told, and [`Repeats::Forbidden`] for a relay that promises none at all.
//!
//! **A fault that did not hit** fails the run: a schedule that only passes by the traffic proves nothing.
//!
//! It does not say why something went wrong. It prints the seed, which replays the schedule and what the writers ask for; the moment at
//! which each fault meets each process is the machine's.

mod clock;
mod disk;
mod fault;
mod letters;
mod operator;
mod outcome;
mod probe;
mod reader;
mod schedule;
mod stage;
mod strike;
mod supervisor;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

pub use crate::failure::Error;
pub use fault::Fault;
pub use operator::Deeds;
pub use outcome::{Act, Outcome};
pub use schedule::{Schedule, Step};

use crate::checker::{Audit, Repeats, Verdict, Window, excuse, for_each_row};
use crate::servers::{Scratch, tail, wait_until};
use crate::workload::{Misfit, Outbox, Running};
use clock::{let_pass, now_ms};
use letters::{Watch, all_letters};
use operator::{Operator, Weather};
use reader::Reader;
use stage::{MOST_REPEATS, PARTITIONS, Stage};
use strike::{Blow, LIMIT, strike};
use supervisor::{Death, Supervisor};

/// So many rows must be under way before a fault is let loose.
const OWED: i64 = 3;

/// Longer than a relay may take to come to what was committed after a fault: behind a bad row it sends row after row, which a busy machine makes slow.
const RECOVERY: Duration = Duration::from_secs(240);
/// How far behind a relay is that keeps up, in milliseconds, and how long it is waited for.
const BEHIND: i64 = 2_000;
const KEPT_UP: Duration = Duration::from_secs(60);

/// Where the relay keeps its checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    /// In the source database.
    Postgres,
    /// In a file.
    File,
    /// In Kafka, in the transactions that carry the events.
    Kafka,
}

/// What a run is to be.
#[derive(Clone, Debug)]
pub struct Options {
    /// The relay's program.
    pub program: PathBuf,
    /// Whose schedule, and whose writers.
    pub seed: u64,
    /// Where the relay keeps its checkpoint.
    pub store: Store,
    /// Whether records may come again at all.
    pub repeats: Repeats,
    /// How long a writer waits between two transactions; [`PAUSE`] where a relay is to have all that it can take.
    pub pause: Duration,
}

/// How long a writer waits between two transactions where a relay is to have all that it can take.
pub const PAUSE: Duration = Duration::from_millis(4);

/// The faults that a run with this store can have on this machine.
#[must_use]
pub fn faults_of(store: Store) -> Vec<Fault> {
    let has_disk = store == Store::File && has_disk();
    let is_possible =
        |fault: &Fault| (store == Store::File || !fault.needs_file()) && (has_disk || !fault.needs_disk());
    Fault::ALL.iter().copied().filter(is_possible).collect()
}

fn has_disk() -> bool {
    Scratch::new("disk").is_ok_and(|scratch| disk::Disk::is_to_be_had(scratch.path()))
}

/// Runs these steps one after the other, as many as begin within `limit`, telling what happens.
///
/// # Errors
///
/// When the run itself could not go on; what it showed is in the [`Outcome`].
pub fn run(
    options: &Options,
    steps: impl Iterator<Item = Step>,
    limit: Duration,
    tell: impl Fn(&str),
) -> Result<Outcome, Error> {
    let mut run = Run::begin(options)?;
    tell(&format!("seed {}: six writers, three outboxes, the checkpoint in {:?}", options.seed, options.store));
    let since = Instant::now();
    let mut acts = Vec::new();
    for step in steps.take_while(|_| since.elapsed() < limit) {
        let act = run.play(step)?;
        tell(&format!("{:>5.0} s {act}", since.elapsed().as_secs_f32()));
        let has_recovered = act.caught_up.is_some();
        acts.push(act);
        if !has_recovered {
            break;
        }
    }
    tell("healed; the writers stop and the relay drains");
    run.finish(options, acts)
}

/// A run under way. The order of the fields is that of their ends.
struct Run {
    writers: Running,
    operator: Operator,
    supervisor: Supervisor,
    watch: Watch,
    reader: Reader,
    weather: Arc<Weather>,
    violations: Vec<String>,
    /// What the relay may repeat because it was frozen.
    sleeps: Vec<Window>,
    stage: Stage,
}

/// How far things have come.
#[derive(Clone, Copy, Debug)]
struct Facts {
    /// Rows that are known to be committed.
    committed: u64,
    /// Rows of which a record was read, without those that are letters sent again: these come whatever becomes of the log.
    delivered: usize,
    /// Rows of which a record was read, and rows that were set aside.
    accounted: usize,
    /// Transactions that a fault tore.
    torn: u64,
    /// Transactions under way.
    open: i64,
}

impl Facts {
    /// Rows that are committed, were not read yet, and were not set aside.
    fn owed(self) -> i64 {
        signed(self.committed) - i64::try_from(self.accounted).unwrap_or(i64::MAX)
    }
}

fn signed(count: u64) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

impl Run {
    fn begin(options: &Options) -> Result<Self, Error> {
        let has_disk = options.store == Store::File && has_disk();
        let stage = Stage::set(&options.program, options.store, has_disk)?;
        let reader = Reader::start(stage.kafka.bootstrap(), &stage.topics(), PARTITIONS)?;
        let supervisor = Supervisor::start(Arc::clone(&stage.walpost), stage.probe()?);
        supervisor.wait_until_running()?;
        let watch = Watch::start(stage.letters(), reader.shared_census())?;
        let weather = Arc::new(Weather::default());
        let (walpost, bootstrap) = (Arc::clone(&stage.walpost), stage.kafka.bootstrap());
        let operator = Operator::start(walpost, bootstrap, stage.topics(), Arc::clone(&weather), options.seed);
        let writers = stage.workload(options.seed, options.pause).start();
        let (violations, sleeps) = (Vec::new(), Vec::new());
        Ok(Self { writers, operator, supervisor, watch, reader, weather, violations, sleeps, stage })
    }

    fn facts(&self) -> Facts {
        let report = self.writers.report();
        let census = self.reader.census();
        let (delivered, accounted) = (census.streamed(), census.accounted());
        let (torn, open) = (report.failed + report.in_doubt, signed(report.open));
        Facts { committed: report.committed_rows, delivered, accounted, torn, open }
    }

    /// Of so many committed rows those that were neither read yet nor set aside.
    fn owed_of(&self, committed: u64) -> i64 {
        self.watch.catch_up();
        Facts { committed, ..self.facts() }.owed()
    }

    fn sql(&self, script: &str) -> Result<(), Error> {
        self.stage.postgres.endpoint().psql("chaos", script).map(drop).map_err(Error::from)
    }

    /// Waits until rows are committed and delivered and some are on their way, and says how many: the moment for a fault.
    fn aim(&self) -> Result<i64, Error> {
        let before = self.facts();
        let mut owed = 0;
        wait_until("rows on their way", LIMIT, || {
            let now = self.facts();
            owed = now.owed();
            now.delivered > before.delivered && owed >= OWED
        })?;
        Ok(owed)
    }

    /// Waits a while until the relay is not far behind: of one that sends row after row for the sake of a bad one, a fault shows little.
    fn keep_up(&self) {
        // A machine may be so slow that it never does.
        let _ = wait_until("the relay to keep up", KEPT_UP, || self.reader.census().latest_ms() > now_ms() - BEHIND);
    }

    /// One step: the fault, its heal, and the recovery from it.
    fn play(&mut self, step: Step) -> Result<Act, Error> {
        let_pass(step.pause);
        self.keep_up();
        self.weather.turn();
        let struck_ms = now_ms();
        let blow = strike(self, &step)?;
        let (healed_ms, delivered) = (now_ms(), self.facts().delivered);
        let since = Instant::now();
        let first = wait_until("a new row", LIMIT, || self.facts().delivered > delivered);
        // The time of a commit is that of its answer's beginning, so one of this very millisecond may be older.
        let caught_up =
            wait_until("the rows committed since", RECOVERY, || self.reader.census().latest_ms() > healed_ms);
        let caught_up = caught_up.ok().map(|_| since.elapsed());
        if caught_up.is_none() {
            self.violations.push(format!(
                "no recovery from {}; the relay's log:\n{}",
                step.fault,
                self.supervisor.log()
            ));
        } else if wait_until("a checkpoint", LIMIT, || self.supervisor.checkpoint_ms() > healed_ms).is_err() {
            self.violations.push(format!("no checkpoint after {}:\n{}", step.fault, self.supervisor.log()));
        }
        self.weather.turn();
        let is_hit = blow.is_done && blow.owed > 0;
        let Blow { facts, owed, .. } = blow;
        Ok(Act { step, struck_ms, healed_ms, is_hit, facts, owed, first_delivery: first.ok(), caught_up })
    }

    fn finish(mut self, options: &Options, acts: Vec<Act>) -> Result<Outcome, Error> {
        self.stage.heal()?;
        let Self { writers, mut operator, supervisor, watch, reader, mut violations, sleeps, stage, .. } = self;
        let writers = writers.stop();
        operator.retire();
        let total = count_rows(&stage)?;
        // What does not come is reported as lost.
        let _ = wait_until("all rows to be delivered or set aside", 2 * LIMIT, || reader.census().accounted() >= total);
        let tidy = operator.tidy_up();
        violations.extend(tidy.err().map(|error| format!("{error}; the relay's log:\n{}", supervisor.log())));
        drop(watch);
        supervisor.hold();
        let deaths = supervisor.deaths().len();
        let last = supervisor.stop("the end of the run")?;
        if last.code != Some(0) {
            violations.push(format!("the last stop ended with {:?}; the log:\n{}", last.code, tail(&last.log)));
        }
        reader.read_to_end(LIMIT)?;
        let (starts, peak_memory) = (supervisor.starts(), supervisor.peak());
        let mut died = supervisor.deaths();
        let logs = died.iter().map(|death| death.log.clone()).collect();
        died.truncate(deaths);
        violations.extend(supervisor.trouble());
        violations.extend(died.iter().filter_map(violation));
        let mut windows = windows_of(&died, sleeps);
        let (census, letters) = (reader.finish(), all_letters(&stage.walpost)?);
        let (repeats, mut unexcused) = (census.repeats().len(), excuse(census.repeats(), &mut windows));
        let others = unexcused.len();
        unexcused.retain(|repeat| !letters.excuse(repeat, &mut windows));
        let repeated_letters = others - unexcused.len();
        // Nothing excuses a row that is there twice over where none may come again.
        let excuses = if options.repeats == Repeats::Allowed { &*windows } else { &[] };
        let verdict = audited(census.audit(PARTITIONS).with_letters(letters, excuses), &stage)?;
        let misfits = count_misfits(&stage)?;
        let deeds = operator.deeds();
        violations.extend(deeds.violations.iter().cloned());
        Ok(Outcome {
            seed: options.seed,
            repeats_allowed: options.repeats,
            acts,
            writers,
            misfits,
            deeds,
            verdict,
            repeats,
            repeated_letters,
            unexcused,
            windows,
            violations,
            starts,
            peak_memory,
            logs,
        })
    }
}

/// What is wrong with an end of the relay, if anything is.
fn violation(death: &Death) -> Option<String> {
    let (Death { cause, code, .. }, log) = (death, tail(&death.log));
    match (cause, code) {
        (Some(_), None | Some(0)) => None,
        (Some(cause), Some(code)) => Some(format!("{cause}: the relay ended with {code}; its log:\n{log}")),
        (None, code) => Some(format!("the relay ended by itself, with {code:?}; its log:\n{log}")),
    }
}

/// What the relay may repeat, crash by crash and sleep by sleep.
fn windows_of(died: &[Death], sleeps: Vec<Window>) -> Vec<Window> {
    let crashes = died.iter().filter(|death| death.code != Some(0)).map(window);
    let mut windows: Vec<Window> = crashes.chain(sleeps).collect();
    windows.sort_by_key(|window| window.crash_ms);
    windows
}

fn window(death: &Death) -> Window {
    let cause = death.cause.clone().unwrap_or_else(|| "an end by itself".to_owned());
    let most = (!death.is_store_away).then_some(MOST_REPEATS);
    Window { cause, checkpoint_ms: death.checkpoint_ms, crash_ms: death.at_ms, most, count: 0 }
}

/// Holds every committed row against the records and letters.
fn audited(mut audit: Audit, stage: &Stage) -> Result<Verdict, Error> {
    for history in stage.outboxes.iter().map(Outbox::history) {
        for_each_row(&stage.url(), &history, |row| audit.take(row))?;
    }
    Ok(audit.finish())
}

fn count_rows(stage: &Stage) -> Result<usize, Error> {
    let tables: Vec<String> =
        stage.outboxes.iter().map(|outbox| format!("(SELECT count(*) FROM {})", outbox.table())).collect();
    let count = stage.postgres.endpoint().value("chaos", &format!("SELECT {}", tables.join(" + ")))?;
    Ok(count.parse().unwrap_or(0))
}

/// How many misfits were committed, by their kind.
fn count_misfits(stage: &Stage) -> Result<Vec<(Misfit, usize)>, Error> {
    let queries: Vec<String> = stage.outboxes.iter().map(Outbox::misfits).collect();
    let rows = stage.postgres.endpoint().psql("chaos", &queries.join(" UNION ALL "))?;
    let count_of = |row: &Vec<String>| row.get(1).and_then(|count| count.parse::<usize>().ok()).unwrap_or(0);
    let count = |kind: &Misfit| {
        let of_kind = rows.iter().filter(|row| row.first().is_some_and(|name| name == kind.name()));
        of_kind.map(count_of).sum()
    };
    Ok(Misfit::ALL.iter().map(|kind| (*kind, count(kind))).collect())
}
