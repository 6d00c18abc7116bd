//! Which fault comes when: drawn from a seed, and the same for the same seed, whatever happens.

use std::time::Duration;

use super::Fault;
use crate::workload::random::Random;

/// One fault of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Its number in the run, from 1.
    pub number: u32,
    /// Which.
    pub fault: Fault,
    /// How long after the step before.
    pub pause: Duration,
    /// How long it lasts, where it lasts.
    pub lasts: Duration,
    /// A number for whatever else is to be drawn.
    pub dice: u32,
}

/// An endless row of steps. Each fault comes once before any comes again.
#[derive(Clone, Debug)]
pub struct Schedule {
    random: Random,
    faults: Vec<Fault>,
    /// What is still to come of this round.
    round: Vec<Fault>,
    number: u32,
    longest: Duration,
}

impl Schedule {
    /// The schedule of a seed.
    #[must_use]
    pub fn of_seed(seed: u64, faults: &[Fault]) -> Self {
        let random = Random::of_writer(seed, u32::MAX);
        Self { random, faults: faults.to_vec(), round: Vec::new(), number: 0, longest: Duration::from_secs(6) }
    }

    /// No fault lasts longer.
    #[must_use]
    pub fn longest(mut self, longest: Duration) -> Self {
        self.longest = longest;
        self
    }

    fn milliseconds(&mut self, from: u32, to: u32) -> Duration {
        Duration::from_millis(u64::from(from + self.random.below(to.saturating_sub(from))))
    }
}

impl Iterator for Schedule {
    type Item = Step;

    fn next(&mut self) -> Option<Step> {
        if self.round.is_empty() {
            self.round.clone_from(&self.faults);
        }
        let left = u32::try_from(self.round.len()).unwrap_or(u32::MAX);
        let index = usize::try_from(self.random.below(left)).unwrap_or(0);
        let fault = if index < self.round.len() { self.round.swap_remove(index) } else { return None };
        self.number += 1;
        let longest = u32::try_from(self.longest.as_millis()).unwrap_or(u32::MAX);
        let (pause, lasts) = (self.milliseconds(100, 1_500), self.milliseconds(600, longest));
        Some(Step { number: self.number, fault, pause, lasts, dice: self.random.below(u32::MAX) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_has_one_schedule_and_another_seed_another() {
        let steps = |seed| Schedule::of_seed(seed, Fault::ALL).take(100).collect::<Vec<_>>();
        assert_eq!(steps(1), steps(1));
        assert_ne!(steps(1), steps(2));
    }

    #[test]
    fn each_fault_comes_once_before_any_comes_again() {
        let count = Fault::ALL.len();
        let first: Vec<_> = Schedule::of_seed(3, Fault::ALL).take(count).map(|step| step.fault).collect();
        assert!(Fault::ALL.iter().all(|fault| first.contains(fault)));
        assert_eq!(Schedule::of_seed(3, &[]).next(), None);
    }

    #[test]
    fn no_fault_lasts_longer_than_it_may() {
        let longest = Duration::from_millis(900);
        let mut steps = Schedule::of_seed(1, Fault::ALL).longest(longest).take(200);
        assert!(steps.all(|step| step.lasts < longest && step.lasts >= Duration::from_millis(600)));
    }
}
