//! The lines that a process writes, as they come.

use std::io::{BufRead, BufReader, Read};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How a wait for a line ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Awaited {
    /// With this line.
    Line(String),
    /// With the end of all lines.
    Ended,
    /// With the end of patience.
    TimedOut,
}

/// Lines under collection; clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    shared: Arc<(Mutex<State>, Condvar)>,
}

#[derive(Debug, Default)]
struct State {
    lines: Vec<String>,
    is_ended: bool,
    /// The last line has no end.
    is_torn: bool,
    is_stalled: bool,
}

impl Lines {
    /// Collects the lines of a stream until it ends. What is not UTF-8 is replaced.
    pub(super) fn collect(stream: impl Read + Send + 'static) -> (Self, JoinHandle<()>) {
        let lines = Self::default();
        let ours = lines.clone();
        let thread = thread::spawn(move || ours.read_all(BufReader::new(stream)));
        (lines, thread)
    }

    fn read_all(&self, mut stream: impl BufRead) {
        let mut line = Vec::new();
        loop {
            self.wait_while_stalled();
            line.clear();
            let is_over = stream.read_until(b'\n', &mut line).map_or(true, |count| count == 0);
            let mut state = self.state();
            if is_over {
                state.is_ended = true;
            } else {
                state.is_torn = !line.ends_with(b"\n");
                state.lines.push(String::from_utf8_lossy(&line).trim_end_matches('\n').to_owned());
            }
            drop(state);
            self.shared.1.notify_all();
            if is_over {
                return;
            }
        }
    }

    fn wait_while_stalled(&self) {
        let stalled = self.shared.1.wait_while(self.state(), |state| state.is_stalled);
        drop(stalled.unwrap_or_else(PoisonError::into_inner));
    }

    /// Takes no more lines, or takes them again. One may slip through.
    pub(super) fn stall(&self, is_stalled: bool) {
        self.state().is_stalled = is_stalled;
        self.shared.1.notify_all();
    }

    /// How many there are so far.
    pub(super) fn count(&self) -> usize {
        self.state().lines.len()
    }

    /// All from the `from`th on.
    pub(super) fn since(&self, from: usize) -> Vec<String> {
        self.state().lines.get(from..).unwrap_or_default().to_vec()
    }

    /// Whether the last one has no end.
    pub(super) fn is_torn(&self) -> bool {
        self.state().is_torn
    }

    /// The last ones, for a message.
    pub(super) fn tail(&self) -> String {
        const LINES: usize = 60;
        let state = self.state();
        let from = state.lines.len().saturating_sub(LINES);
        state.lines.get(from..).unwrap_or_default().join("\n")
    }

    /// Waits for a line from the `from`th on that contains `text`.
    pub(super) fn wait_for(&self, text: &str, from: usize, limit: Duration) -> Awaited {
        let mut next = from;
        self.wait(limit, |lines| {
            let found = lines.get(next..).unwrap_or_default().iter().find(|line| line.contains(text)).cloned();
            next = next.max(lines.len());
            found
        })
    }

    /// Waits until there are so many lines, and returns the last of them.
    pub(super) fn wait_for_count(&self, count: usize, limit: Duration) -> Awaited {
        self.wait(limit, |lines| (lines.len() >= count).then(|| lines.last().cloned().unwrap_or_default()))
    }

    fn wait(&self, limit: Duration, mut find: impl FnMut(&[String]) -> Option<String>) -> Awaited {
        let since = Instant::now();
        let mut state = self.state();
        loop {
            if let Some(line) = find(&state.lines) {
                return Awaited::Line(line);
            }
            if state.is_ended {
                return Awaited::Ended;
            }
            let Some(left) = limit.checked_sub(since.elapsed()) else { return Awaited::TimedOut };
            (state, _) = self.shared.1.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.shared.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Write, pipe};

    use super::*;

    const LIMIT: Duration = Duration::from_secs(10);

    #[test]
    fn a_line_is_found_whether_it_has_come_or_is_to_come() {
        let (reader, mut writer) = pipe().unwrap();
        let (lines, _) = Lines::collect(reader);
        writer.write_all(b"first\nsecond\n").unwrap();
        let line = |text: &str| Awaited::Line(text.to_owned());
        assert_eq!(lines.wait_for("eco", 0, LIMIT), line("second"));
        assert_eq!(lines.wait_for("irs", 0, LIMIT), line("first"));
        let waiting = lines.clone();
        let waiter = thread::spawn(move || waiting.wait_for("th", 2, LIMIT));
        writer.write_all(b"third\n").unwrap();
        assert_eq!(waiter.join().unwrap(), line("third"));
        assert_eq!(lines.wait_for_count(3, LIMIT), line("third"));
        assert_eq!(lines.since(1), ["second", "third"]);
    }

    #[test]
    fn a_wait_ends_with_the_lines_or_with_its_limit() {
        let (reader, mut writer) = pipe().unwrap();
        let (lines, _) = Lines::collect(reader);
        writer.write_all(b"no end").unwrap();
        assert_eq!(lines.wait_for("none", 0, Duration::from_millis(1)), Awaited::TimedOut);
        drop(writer);
        assert_eq!(lines.wait_for("none", 0, LIMIT), Awaited::Ended);
        assert_eq!(lines.tail(), "no end");
        assert!(lines.is_torn());
    }

    #[test]
    fn stalled_lines_make_the_writer_wait_and_are_not_lost() {
        let (reader, mut writer) = pipe().unwrap();
        let (lines, _) = Lines::collect(reader);
        lines.stall(true);
        let filling = vec![b'x'; 1 << 20];
        let writer = thread::spawn(move || {
            writer.write_all(&filling).unwrap();
            writer.write_all(b"\nend\n").unwrap();
        });
        assert_eq!(lines.wait_for("end", 0, Duration::from_millis(100)), Awaited::TimedOut);
        lines.stall(false);
        assert_eq!(lines.wait_for("end", 0, LIMIT), Awaited::Line("end".to_owned()));
        writer.join().unwrap();
        assert_eq!(lines.since(0)[0].len(), 1 << 20);
    }
}
