//! Waiting for a condition, with a limit: the only place in the test kit that sleeps.

use std::thread;
use std::time::{Duration, Instant};

use super::{Error, Result};

/// Between two looks at a condition. Short beside what is waited for, long beside what a look costs.
const PAUSE: Duration = Duration::from_millis(15);

/// A limit that has begun to run.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    since: Instant,
    limit: Duration,
}

impl Patience {
    /// Begins now and ends after `limit`.
    #[must_use]
    pub fn of(limit: Duration) -> Self {
        Self { since: Instant::now(), limit }
    }

    /// How long it has run.
    #[must_use]
    pub fn spent(&self) -> Duration {
        self.since.elapsed()
    }

    /// Pauses a moment, or refuses when the limit has passed.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`], naming `waiting_for`, once the limit has passed.
    pub fn pause(&self, waiting_for: &str) -> Result<()> {
        if self.spent() >= self.limit {
            return Err(Error::TimedOut { waiting_for: waiting_for.to_owned(), limit: self.limit, log: String::new() });
        }
        thread::sleep(PAUSE);
        Ok(())
    }
}

/// Looks at `condition` until it is true and returns how long that took.
///
/// # Errors
///
/// [`Error::TimedOut`], naming `waiting_for`, when it is still false after `limit`.
pub fn wait_until(waiting_for: &str, limit: Duration, mut condition: impl FnMut() -> bool) -> Result<Duration> {
    let patience = Patience::of(limit);
    while !condition() {
        patience.pause(waiting_for)?;
    }
    Ok(patience.spent())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_that_comes_true_ends_the_wait() {
        let mut looks = 0;
        wait_until("the third look", Duration::from_secs(10), || {
            looks += 1;
            looks == 3
        })
        .unwrap();
        assert_eq!(looks, 3);
    }

    #[test]
    fn a_condition_that_stays_false_is_named_when_the_limit_has_passed() {
        let refused = wait_until("the moon", Duration::from_millis(1), || false).unwrap_err();
        assert!(matches!(&refused, Error::TimedOut { waiting_for, .. } if waiting_for == "the moon"), "{refused}");
    }
}
