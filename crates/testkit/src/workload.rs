//! Writers of outbox rows as real applications are: several at once, some of them rolling back.
//!
//! Each writer has a connection of its own and commits single rows, rows of several keys and tables, rows behind a savepoint
//! that was rolled back, rows of tables that are nobody's business, or nothing at all. Every row of a key takes the key's next
//! number under a row lock that is held to the commit, so the numbers are in the order of the commits; the checker rests on
//! that. Keys are locked in ascending order, so no two writers ever wait for each other.
//!
//! Writers survive a server that goes away: they connect again until it is back. Whether the transaction that was being
//! committed happened is then in doubt; the writer looks for one of its rows and counts all of them if it is there. The truth for whoever judges is what the tables hold afterwards.

pub(crate) mod connection;
mod misfit;
pub(crate) mod random;
mod tables;
mod writer;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::servers;
use connection::{block_on, connect};
pub use misfit::Misfit;
pub use tables::{NARROW_TOPIC, Outbox};

/// How long the writers may take to come to the end of their transactions once they are told to stop.
const STOP_LIMIT: Duration = Duration::from_secs(10);

/// What is to be written, and by how many.
#[derive(Clone, Debug)]
pub struct Workload {
    url: String,
    outboxes: Vec<Outbox>,
    writers: u32,
    hot_keys: u32,
    cold_keys: u32,
    payload_bytes: u32,
    largest_payload: u32,
    large_rows: u32,
    misfits: u32,
    pause: Duration,
    transactions: Option<u64>,
    seed: u64,
}

impl Workload {
    /// Four writers on three hot and two hundred cold keys, payloads of up to 400 bytes, as fast as it goes, until told to
    /// stop.
    #[must_use]
    pub fn new(url: &str, outboxes: &[Outbox]) -> Self {
        Self {
            url: url.to_owned(),
            outboxes: outboxes.to_vec(),
            writers: 4,
            hot_keys: 3,
            cold_keys: 200,
            payload_bytes: 400,
            largest_payload: 0,
            large_rows: 0,
            misfits: 0,
            pause: Duration::ZERO,
            transactions: None,
            seed: 1,
        }
    }

    /// How many connections write at once.
    #[must_use]
    pub fn writers(mut self, count: u32) -> Self {
        self.writers = count;
        self
    }

    /// How many keys take half of the rows, and how many share the other half.
    #[must_use]
    pub fn keys(mut self, hot: u32, cold: u32) -> Self {
        (self.hot_keys, self.cold_keys) = (hot, cold);
        self
    }

    /// The largest filling of a payload, in bytes.
    #[must_use]
    pub fn payload_bytes(mut self, largest: u32) -> Self {
        self.payload_bytes = largest;
        self
    }

    /// Fills one row in two hundred with up to so many bytes.
    #[must_use]
    pub fn largest_payload(mut self, largest: u32) -> Self {
        self.largest_payload = largest;
        self
    }

    /// Makes one transaction in two hundred a large one, of up to so many rows; some of them are rolled back.
    #[must_use]
    pub fn large_rows(mut self, largest: u32) -> Self {
        self.large_rows = largest;
        self
    }

    /// Makes one row in so many a [`Misfit`]; of a hot key, one in eight times as many. One of each kind comes first. Other keys become
    /// hot after a while, then.
    /// All tables have to be [`with_misfits`](Outbox::with_misfits).
    #[must_use]
    pub fn misfits(mut self, one_in: u32) -> Self {
        self.misfits = one_in;
        self
    }

    /// How long each writer rests between two transactions.
    #[must_use]
    pub fn pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// Ends by itself after so many transactions, of all writers together.
    #[must_use]
    pub fn transactions(mut self, count: u64) -> Self {
        self.transactions = Some(count);
        self
    }

    /// Other keys and other orders of things; the same seed asks the same of a writer.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = seed;
        self
    }

    /// Creates the tables that are not there yet.
    ///
    /// # Errors
    ///
    /// [`Error::Postgres`] when the server cannot be reached or refuses.
    pub fn create(&self) -> Result<(), Error> {
        let script = tables::script(&self.outboxes, self.hot_keys + self.cold_keys);
        block_on(async { connect(&self.url).await?.batch_execute(&script).await })
            .map_err(|source| Error::Postgres { doing: "create the tables of the workload", source })
    }

    /// Starts the writers.
    #[must_use]
    pub fn start(&self) -> Running {
        let state = Arc::new(State::of(self));
        let shared = Arc::clone(&state);
        let thread = thread::spawn(move || block_on(write_all(&shared)));
        Running { state, thread: Some(thread) }
    }

    /// Runs it to its own end.
    ///
    /// # Errors
    ///
    /// As [`Running::finish`].
    pub fn run(&self, limit: Duration) -> Result<Report, Error> {
        self.start().finish(limit)
    }
}

/// What was done. The database knows better: a commit that is in doubt may have happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Outbox rows whose commit was answered, or was found to have happened.
    pub committed_rows: u64,
    /// Outbox rows that were written and rolled back.
    pub rolled_back_rows: u64,
    /// Transactions that came to an end, of whatever kind.
    pub transactions: u64,
    /// Transactions whose commit was asked for and not answered.
    pub in_doubt: u64,
    /// Transactions that failed before.
    pub failed: u64,
    /// Transactions that are under way.
    pub open: u64,
}

/// Why a workload could not do its work.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// PostgreSQL refused.
    #[error("cannot {doing}: {source}")]
    Postgres {
        /// What was being done.
        doing: &'static str,
        /// The refusal.
        source: tokio_postgres::Error,
    },
    /// It did not get there in time.
    #[error("waited {limit:?} in vain for {waiting_for}; the writers' last trouble: {trouble}; they report {report:?}")]
    TimedOut {
        /// What was waited for.
        waiting_for: String,
        /// How long.
        limit: Duration,
        /// The last error that a writer met.
        trouble: String,
        /// What was done until then.
        report: Report,
    },
}

/// As it reads: it ends in the message of a failed test.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Writers at work. Dropped, they stop.
#[derive(Debug)]
pub struct Running {
    state: Arc<State>,
    thread: Option<JoinHandle<()>>,
}

impl Running {
    /// What was done so far.
    #[must_use]
    pub fn report(&self) -> Report {
        self.state.report()
    }

    /// Waits until so many outbox rows are committed.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] when they are not after `limit`.
    pub fn wait_for_rows(&self, count: u64, limit: Duration) -> Result<(), Error> {
        self.wait(&format!("{count} committed rows"), limit, || self.report().committed_rows >= count)
    }

    /// Waits until so many more outbox rows are committed than now.
    ///
    /// # Errors
    ///
    /// As [`Running::wait_for_rows`].
    pub fn wait_for_more_rows(&self, count: u64, limit: Duration) -> Result<(), Error> {
        self.wait_for_rows(self.report().committed_rows + count, limit)
    }

    /// Lets the writers end the transactions that they are in, and no longer than a few seconds wait for a server that does
    /// not answer.
    #[must_use]
    pub fn stop(mut self) -> Report {
        self.end();
        self.report()
    }

    /// Waits until all the transactions that were ordered are done.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] when they are not after `limit`.
    pub fn finish(self, limit: Duration) -> Result<Report, Error> {
        let is_done = || self.thread.as_ref().is_none_or(JoinHandle::is_finished);
        self.wait("the end of the workload", limit, is_done)?;
        Ok(self.stop())
    }

    fn wait(&self, what: &str, limit: Duration, is_so: impl FnMut() -> bool) -> Result<(), Error> {
        servers::wait_until(what, limit, is_so).map(drop).map_err(|_| Error::TimedOut {
            waiting_for: what.to_owned(),
            limit,
            trouble: self.state.trouble(),
            report: self.report(),
        })
    }

    fn end(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.state.is_stopping.store(true, Ordering::Relaxed);
        let ended = servers::wait_until("the writers' end", STOP_LIMIT, || thread.is_finished());
        if ended.is_err() {
            self.state.abandon.notify_one();
        }
        // A writer that panicked is reported by its own message.
        let _ = thread.join();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}

/// What the writers share.
#[derive(Debug)]
struct State {
    workload: Workload,
    is_stopping: AtomicBool,
    abandon: Notify,
    begun: AtomicU64,
    committed_rows: AtomicU64,
    rolled_back_rows: AtomicU64,
    transactions: AtomicU64,
    in_doubt: AtomicU64,
    failed: AtomicU64,
    open: AtomicU64,
    trouble: std::sync::Mutex<Option<String>>,
}

impl State {
    fn of(workload: &Workload) -> Self {
        Self {
            workload: workload.clone(),
            is_stopping: AtomicBool::new(false),
            abandon: Notify::new(),
            begun: AtomicU64::new(0),
            committed_rows: AtomicU64::new(0),
            rolled_back_rows: AtomicU64::new(0),
            transactions: AtomicU64::new(0),
            in_doubt: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            open: AtomicU64::new(0),
            trouble: std::sync::Mutex::new(None),
        }
    }

    /// The number of the next transaction, if there is to be one.
    fn next_transaction(&self) -> Option<u64> {
        if self.is_stopping.load(Ordering::Relaxed) {
            return None;
        }
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        self.workload.transactions.is_none_or(|count| number < count).then_some(number)
    }

    fn trouble(&self) -> String {
        let trouble = self.trouble.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        trouble.clone().unwrap_or_else(|| "none".to_owned())
    }

    fn report(&self) -> Report {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Report {
            committed_rows: read(&self.committed_rows),
            rolled_back_rows: read(&self.rolled_back_rows),
            transactions: read(&self.transactions),
            in_doubt: read(&self.in_doubt),
            failed: read(&self.failed),
            open: read(&self.open),
        }
    }
}

async fn write_all(state: &Arc<State>) {
    if state.workload.misfits > 0 {
        writer::plant(state).await;
    }
    let mut writers = JoinSet::new();
    for writer in 0..state.workload.writers {
        writers.spawn(writer::write(Arc::clone(state), writer));
    }
    tokio::select! {
        _ = writers.join_all() => {}
        () = state.abandon.notified() => {}
    }
}

#[cfg(test)]
mod tests;
