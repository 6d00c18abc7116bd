//! Which repeats are promised to be possible, and which are not.
//!
//! What the relay published and had not yet checkpointed when it crashed comes again, and nothing else does: not after an orderly
//! stop, not after a lost connection, not after a broker that was away. So each crash opens a *window* over the times of commits: from
//! the commit that the checkpoint stood at when the relay died, to that death. A repeat is excused if a crash before it has a window
//! that holds the commit of its row.
//!
//! A relay that was frozen for longer than `source.wal_sender_timeout_ms` may not know what happened meanwhile, another instance at its slot
//! included. It drops what is in flight before it does anything else, and sends that again unless somebody else has: a window
//! of as many records as may be in flight, up to the moment at which it froze.
//!
//! Times of commits are not quite in the order of the log (a backend takes the time before it takes its place), so a window
//! begins [`SKEW_MS`] early.
//!
//! A window is also bounded in number, where the store of the checkpoints could be written: by what may pass between two
//! checkpoints, and what may be in flight.

use super::census::Repeat;

/// How far two times of commits may be out of the order of their commits.
pub const SKEW_MS: i64 = 1_000;

/// What a crash, or a sleep, excuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// What happened to the relay.
    pub cause: String,
    /// When the commit that the checkpoint stood at was made, in milliseconds since 1970.
    pub checkpoint_ms: i64,
    /// When it died, or fell asleep.
    pub crash_ms: i64,
    /// How many records may come again; `None` where nobody can tell, as the store of the checkpoints was away.
    pub most: Option<usize>,
    /// How many came again.
    pub count: usize,
}

impl Window {
    /// How many more came again than may.
    #[must_use]
    pub fn excess(&self) -> usize {
        self.most.map_or(0, |most| self.count.saturating_sub(most))
    }

    /// Whether what was committed then comes again after the crash.
    pub(super) fn holds(&self, committed_ms: i64) -> bool {
        (self.checkpoint_ms - SKEW_MS..=self.crash_ms).contains(&committed_ms)
    }

    fn excuses(&self, repeat: &Repeat) -> bool {
        self.crash_ms <= repeat.read_ms && self.holds(repeat.committed_ms)
    }
}

/// Gives each repeat to the last crash that excuses it, and returns those that none does.
#[must_use]
pub fn excuse(repeats: &[Repeat], windows: &mut [Window]) -> Vec<Repeat> {
    let mut without = Vec::new();
    for repeat in repeats {
        match windows.iter_mut().rev().find(|window| window.excuses(repeat)) {
            Some(window) => window.count += 1,
            None => without.push(*repeat),
        }
    }
    without
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(checkpoint_ms: i64, crash_ms: i64) -> Window {
        Window { cause: "a kill".to_owned(), checkpoint_ms, crash_ms, most: Some(1), count: 0 }
    }

    #[test]
    fn a_repeat_is_excused_by_a_crash_before_it_whose_checkpoint_did_not_cover_it() {
        let cases = [
            ("within the window", 50_000, 61_000, true),
            ("covered by the checkpoint", 38_000, 61_000, false),
            ("committed after the crash", 60_001, 61_000, false),
            ("repeated before the crash", 50_000, 59_000, false),
        ];
        for (name, committed_ms, read_ms, is_excused) in cases {
            let mut windows = [window(40_000, 60_000)];
            let without = excuse(&[Repeat { id: [0; 2], committed_ms, read_ms }], &mut windows);
            assert_eq!(without.is_empty(), is_excused, "{name}");
            assert_eq!(windows[0].count, usize::from(is_excused), "{name}");
        }
    }

    #[test]
    fn without_a_crash_no_repeat_is_excused() {
        assert_eq!(excuse(&[Repeat { id: [0; 2], committed_ms: 1, read_ms: 2 }], &mut []).len(), 1);
    }

    #[test]
    fn the_last_crash_that_excuses_a_repeat_counts_it_and_too_many_are_an_excess() {
        let mut windows = [window(40_000, 60_000), window(40_000, 70_000), window(69_000, 80_000)];
        let repeat = Repeat { id: [0; 2], committed_ms: 50_000, read_ms: 90_000 };
        assert!(excuse(&[repeat; 3], &mut windows).is_empty());
        assert_eq!(windows.each_ref().map(|window| window.count), [0, 3, 0]);
        assert_eq!(windows.each_ref().map(Window::excess), [0, 2, 0]);
    }
}
