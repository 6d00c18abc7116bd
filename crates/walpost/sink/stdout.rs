//! Standard output as a sink: one JSON object a line.
//!
//! A pipe that nobody reads blocks whoever writes into it, so a thread of its own does the writing, fed by a queue that is bounded in records and
//! bytes; the relay's loop only ever meets a full queue. A record settles once its line was written and flushed: the reader then has it, or the
//! kernel keeps it for the reader. Whether the reader keeps it is the reader's affair, and a torn line is never repaired: the
//! first error ends the sink.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use walpost_core::failure::{Class, Failure};
use walpost_core::port::{Delivery, Refusal, Sink, Ticket};
use walpost_core::record::Record;

use super::line;
use crate::config::settings::Limits;

/// What is written at once; a reset waits for no more than this. The size of a Linux pipe.
const CHUNK_BYTES: usize = 64 * 1024;

/// How long to wait for a pipe that someone has made non-blocking.
const BLOCKED_PAUSE: Duration = Duration::from_millis(5);

/// Lines written by a thread of its own.
#[derive(Debug)]
pub struct Stdout {
    shared: Arc<Shared>,
    max_records: usize,
    max_bytes: usize,
}

impl Stdout {
    /// Standard output of this process.
    ///
    /// # Errors
    /// It is not open, or the thread cannot be started.
    pub fn of_this_process(limits: Limits) -> Result<Self, Failure> {
        // Not `io::stdout()` itself: that one buffers by line, and takes every write for a success when the descriptor is closed.
        let output = io::stdout().as_fd().try_clone_to_owned().map(File::from);
        output
            .and_then(|output| Self::into_writer(output, limits.in_flight_records(), limits.in_flight_bytes()))
            .map_err(|error| failure(&error))
    }

    /// Lines for any writer. At most `max_records` lines and `max_bytes` bytes of lines are kept; a line that is larger alone is taken when
    /// nothing else is there.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn into_writer(output: impl Write + Send + 'static, max_records: usize, max_bytes: usize) -> io::Result<Self> {
        let shared = Arc::<Shared>::default();
        let served = Arc::clone(&shared);
        std::thread::Builder::new().name("stdout".to_owned()).spawn(move || serve(output, &served))?;
        Ok(Self { shared, max_records, max_bytes })
    }

    /// Waits for at most `timeout` until everything accepted is written or given up, and ends. Answers what was not fetched
    /// before.
    pub async fn close(mut self, timeout: Duration) -> Vec<Delivery> {
        let deadline = tokio::time::Instant::now() + timeout;
        let mut deliveries = Vec::new();
        while self.has_unsettled() {
            if tokio::time::timeout_at(deadline, self.next_deliveries(&mut deliveries)).await.is_err() {
                break;
            }
        }
        deliveries.append(&mut self.shared.lock().reports);
        deliveries
    }

    fn has_unsettled(&self) -> bool {
        self.shared.lock().unsettled_records > 0
    }
}

impl Sink for Stdout {
    fn publish(&mut self, ticket: Ticket, record: &Record) -> Result<(), Refusal> {
        let mut state = self.shared.lock();
        if let Some(failure) = &state.closed {
            return Err(failure.clone().into());
        }
        let is_resetting = self.shared.is_resetting.load(Ordering::Relaxed);
        if is_resetting || state.unsettled_records >= self.max_records || state.unsettled_bytes >= self.max_bytes {
            return Err(Refusal::Full);
        }
        let start = state.accepted.bytes.len();
        line::write(&mut state.accepted.bytes, record);
        let end = state.accepted.bytes.len();
        if state.unsettled_records > 0 && state.unsettled_bytes.saturating_add(end - start) > self.max_bytes {
            state.accepted.bytes.truncate(start);
            return Err(Refusal::Full);
        }
        state.accepted.ends.push((ticket, end));
        state.unsettled_records += 1;
        state.unsettled_bytes += end - start;
        self.shared.work.notify_one();
        Ok(())
    }

    async fn next_deliveries(&mut self, into: &mut Vec<Delivery>) {
        loop {
            {
                let mut state = self.shared.lock();
                if !state.reports.is_empty() {
                    into.append(&mut state.reports);
                    return;
                }
            }
            self.shared.changed.notified().await;
        }
    }

    /// Waits for the lines that the thread is writing at this moment, at most [`CHUNK_BYTES`] or one line: nobody can call
    /// them back, and a torn line would spoil the next. While a pipe stalls, so does this. A call that was dropped has to be
    /// made again; until then the queue is full.
    async fn reset(&mut self) -> Result<(), Failure> {
        self.shared.is_resetting.store(true, Ordering::Relaxed);
        self.shared.lock().withdraw_accepted();
        loop {
            {
                let state = self.shared.lock();
                if !state.is_writing {
                    self.shared.is_resetting.store(false, Ordering::Relaxed);
                    return state.closed.clone().map_or(Ok(()), Err);
                }
            }
            self.shared.changed.notified().await;
        }
    }
}

impl Drop for Stdout {
    /// Nothing is begun any more, and the thread ends by itself. It is not waited for, because it may be blocked for ever.
    fn drop(&mut self) {
        self.shared.is_dropped.store(true, Ordering::Relaxed);
        drop(self.shared.lock());
        self.shared.work.notify_one();
    }
}

/// What the relay's loop and the thread have in common.
#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    /// For the thread: there is something to write, or the sink was dropped.
    work: Condvar,
    /// For the loop, which is one task: there are reports, or the thread has nothing in its hands.
    changed: Notify,
    /// Whether what the thread has in its hands and has not begun to write is to be given back.
    is_resetting: AtomicBool,
    is_dropped: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    /// Not in the thread's hands yet.
    accepted: Lines,
    /// Whether the thread has lines in its hands.
    is_writing: bool,
    /// Accepted and not reported, wherever it is.
    unsettled_records: usize,
    unsettled_bytes: usize,
    /// Waits to be fetched.
    reports: Vec<Delivery>,
    /// Why nothing can be written any more.
    closed: Option<Failure>,
}

/// Lines in one buffer, each with its ticket and the place where it ends.
#[derive(Debug, Default)]
struct Lines {
    bytes: Vec<u8>,
    ends: Vec<(Ticket, usize)>,
}

impl Lines {
    fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }
}

impl Shared {
    /// The state. It is whole between any two statements, so a panic elsewhere does not spoil it.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether no further line is wanted of what the thread has in its hands.
    fn is_over(&self) -> bool {
        self.is_resetting.load(Ordering::Relaxed) || self.is_dropped.load(Ordering::Relaxed)
    }

    /// Waits for lines and swaps them with the empty `lines`. False when there will be none any more.
    fn take(&self, lines: &mut Lines) -> bool {
        let mut state = self.lock();
        loop {
            if self.is_dropped.load(Ordering::Relaxed) {
                return false;
            }
            if !state.accepted.ends.is_empty() {
                std::mem::swap(&mut state.accepted, lines);
                state.is_writing = true;
                return true;
            }
            state = self.work.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Reports the lines that the thread has had in its hands, of which so many were written and flushed.
    fn settle(&self, lines: &mut Lines, written: io::Result<usize>) {
        let mut state = self.lock();
        match written {
            Ok(count) => {
                let (written, withheld) = lines.ends.split_at(count.min(lines.ends.len()));
                state.report(written, || Ok(()));
                state.report(withheld, || Err(withdrawn()));
            }
            Err(error) => {
                let failure = failure(&error);
                state.report(&lines.ends, || Err(failure.clone()));
                let accepted = std::mem::take(&mut state.accepted);
                state.report(&accepted.ends, || Err(failure.clone()));
                state.closed = Some(failure);
            }
        }
        state.unsettled_bytes = state.accepted.bytes.len();
        state.is_writing = false;
        lines.clear();
        self.changed.notify_one();
    }
}

impl State {
    /// Gives back what the thread has not taken.
    fn withdraw_accepted(&mut self) {
        let mut accepted = std::mem::take(&mut self.accepted);
        self.report(&accepted.ends, || Err(withdrawn()));
        self.unsettled_bytes -= accepted.bytes.len();
        accepted.clear();
        self.accepted = accepted;
    }

    fn report(&mut self, lines: &[(Ticket, usize)], outcome: impl Fn() -> Result<(), Failure>) {
        self.unsettled_records -= lines.len();
        self.reports.extend(lines.iter().map(|(ticket, _)| Delivery { ticket: *ticket, outcome: outcome() }));
    }
}

/// The thread: writes all that is there, flushes once, reports all of it.
fn serve(mut output: impl Write, shared: &Shared) {
    let mut lines = Lines::default();
    while shared.take(&mut lines) {
        let written = write(&mut output, &lines, shared);
        shared.settle(&mut lines, written);
        if lines.bytes.capacity() > 2 * CHUNK_BYTES {
            // One huge row must not cost its size for ever.
            lines = Lines::default();
        }
    }
}

/// Writes line after line until all are written or the sink is being reset or was dropped, and returns how many were.
fn write(output: &mut impl Write, lines: &Lines, shared: &Shared) -> io::Result<usize> {
    let mut count = 0;
    let mut start = 0;
    while count < lines.ends.len() && !shared.is_over() {
        let (taken, end) = chunk(lines, count, start);
        write_fully(output, lines.bytes.get(start..end).unwrap_or_default(), shared)?;
        (count, start) = (count + taken, end);
    }
    loop {
        match output.flush() {
            Err(error) if is_passing(&error, shared) => {}
            flushed => return flushed.map(|()| count),
        }
    }
}

/// How many of the lines after the first `count` fit a chunk, at least one, and where the last of them ends.
fn chunk(lines: &Lines, count: usize, start: usize) -> (usize, usize) {
    let mut fitting = (0, start);
    for (_, end) in lines.ends.iter().skip(count) {
        if fitting.0 > 0 && end - start > CHUNK_BYTES {
            break;
        }
        fitting = (fitting.0 + 1, *end);
    }
    fitting
}

/// `write_all`, also into a pipe that someone who shares it has made non-blocking.
fn write_fully(output: &mut impl Write, mut bytes: &[u8], shared: &Shared) -> io::Result<()> {
    while !bytes.is_empty() {
        match output.write(bytes) {
            Ok(0) => return Err(ErrorKind::WriteZero.into()),
            Ok(written) => bytes = bytes.get(written..).unwrap_or_default(),
            Err(error) if is_passing(&error, shared) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Whether the same may be tried again, after a pause where one is needed.
fn is_passing(error: &io::Error, shared: &Shared) -> bool {
    match error.kind() {
        ErrorKind::Interrupted => true,
        ErrorKind::WouldBlock if !shared.is_dropped.load(Ordering::Relaxed) => {
            std::thread::sleep(BLOCKED_PAUSE);
            true
        }
        _ => false,
    }
}

fn withdrawn() -> Failure {
    Failure::new(Class::Withdrawn, "the line was taken back before it was written")
}

fn failure(error: &io::Error) -> Failure {
    let reason = match error.kind() {
        ErrorKind::BrokenPipe => {
            "standard output was closed by whoever read it; start walpost again with a reader that stays, and it goes on from its checkpoint"
                .to_owned()
        }
        _ => format!("standard output cannot be written ({error}); put that right and start walpost again, and it goes on from its checkpoint"),
    };
    Failure::new(Class::Configuration, reason)
}

#[cfg(test)]
mod tests;
