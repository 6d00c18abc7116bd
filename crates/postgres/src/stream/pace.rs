//! Lets rows gather while they pour in, so that many are read at once.
//!
//! The server sends each message by itself. A reader that waits for the next one is woken for every few of them, and on one
//! machine that costs either side more than the rows do. So the thread, and not just the task, lies down for a moment: while
//! it waited in the runtime for anything at all, the kernel would still wake it for every message. What else runs on the
//! thread can wait so long. A row that comes alone is never waited for.
//!
//! The better means would be the socket's low-water mark, and the library does not let us have the socket.

use std::time::{Duration, Instant};

/// How long rows gather.
const GATHER: Duration = Duration::from_micros(200);
/// Rows pour in when the next are there so soon after the last.
const POURING: Duration = Duration::from_millis(1);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Pace {
    took_at: Option<Instant>,
    is_worth_it: bool,
}

impl Pace {
    /// Lies down if that is worth it, at most once a batch.
    pub(super) fn gather(&mut self) {
        if std::mem::take(&mut self.is_worth_it) {
            // A timer of the runtime is no finer than a millisecond.
            std::thread::sleep(GATHER);
        }
    }

    /// Rows were taken: all that were there, or else there is nothing to wait for.
    pub(super) fn took(&mut self, is_all: bool, now: Instant) {
        let is_pouring = self.took_at.is_some_and(|before| now.saturating_duration_since(before) < POURING);
        self.is_worth_it = is_pouring && is_all;
        self.took_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_gather_only_while_they_pour_in_and_are_not_there_already() {
        let mut pace = Pace::default();
        let start = Instant::now();
        let mut took = |is_all, millis| {
            pace.took(is_all, start + Duration::from_millis(millis));
            let is_worth_it = pace.is_worth_it;
            pace.gather();
            assert!(!pace.is_worth_it, "once a batch");
            is_worth_it
        };
        assert!(!took(true, 0), "the first came alone");
        assert!(took(true, 0));
        assert!(!took(false, 0), "more are there already");
        assert!(!took(true, 1), "these came alone");
        assert!(took(true, 1));
    }
}
