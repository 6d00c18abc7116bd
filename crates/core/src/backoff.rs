//! How long to wait before the next try: exponential, with jitter, for ever.
//!
//! The jitter comes from a seed, so that a simulated run can be replayed. It is no source of secrets.

use std::time::Duration;

/// The waits between tries. Each doubles the last up to a ceiling; the jitter takes away up to half, so that many relays
/// that lost the same server do not come back as one.
#[derive(Debug, Clone)]
pub struct Backoff {
    initial: Duration,
    ceiling: Duration,
    tries: u32,
    random: u64,
}

impl Backoff {
    /// Waits from `initial` to `ceiling`. A ceiling below the initial wait counts as equal to it.
    #[must_use]
    pub fn new(initial: Duration, ceiling: Duration, seed: u64) -> Self {
        Self { initial, ceiling: ceiling.max(initial), tries: 0, random: seed }
    }

    /// The wait before the next try.
    pub fn next_wait(&mut self) -> Duration {
        let doubled = self.initial.saturating_mul(1_u32.checked_shl(self.tries).unwrap_or(u32::MAX));
        self.tries = self.tries.saturating_add(1);
        let half = doubled.min(self.ceiling) / 2;
        half + half.mul_f64(self.next_fraction())
    }

    /// A try succeeded: the next wait is the initial one again.
    pub fn reset(&mut self) {
        self.tries = 0;
    }

    /// The longest of the waits.
    #[must_use]
    pub fn ceiling(&self) -> Duration {
        self.ceiling
    }

    /// How many waits there have been since the last success.
    #[must_use]
    pub fn tries(&self) -> u32 {
        self.tries
    }

    /// `SplitMix64`, as a fraction in `0..1`.
    #[allow(clippy::cast_precision_loss, reason = "53 bits fit an f64 exactly")]
    fn next_fraction(&mut self) -> f64 {
        self.random = self.random.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.random;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ (mixed >> 31)) >> 11) as f64 / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_wait_lies_between_half_and_whole_of_its_step_and_below_the_ceiling(
            initial_ms in 1_u64..5_000, ceiling_ms in 1_u64..100_000, seed: u64, tries in 1_usize..200,
        ) {
            let (initial, ceiling) = (Duration::from_millis(initial_ms), Duration::from_millis(ceiling_ms.max(initial_ms)));
            let mut backoff = Backoff::new(initial, ceiling, seed);
            let mut step = initial;
            for _ in 0..tries {
                let wait = backoff.next_wait();
                prop_assert!(wait >= step / 2 && wait <= step, "{wait:?} for a step of {step:?}");
                step = (step * 2).min(ceiling);
            }
            backoff.reset();
            prop_assert!(backoff.next_wait() <= initial);
        }
    }

    #[test]
    fn two_seeds_do_not_come_back_together() {
        let wait = |seed| Backoff::new(Duration::from_secs(1), Duration::from_secs(60), seed).next_wait();
        assert_ne!(wait(1), wait(2));
    }
}
