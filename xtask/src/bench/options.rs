//! What may be asked for.

use std::fmt;
use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};

use super::contest::Contestant;

/// What is loaded before it is drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Workload {
    pub(super) events: u64,
    pub(super) per_transaction: u64,
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.per_transaction {
            1 => write!(f, "{} events in transactions of their own", self.events),
            many => write!(f, "{} events in transactions of {many}", self.events),
        }
    }
}

/// The contest that is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Options {
    pub(super) workloads: Vec<Workload>,
    pub(super) contestants: Vec<Contestant>,
    pub(super) runs: usize,
    pub(super) json: Option<PathBuf>,
}

impl Options {
    pub(super) fn parse(arguments: &[&str]) -> Result<Self> {
        let (mut events, mut per_transaction, mut runs, mut json) = (None, None, 3, None);
        let mut contestants = Vec::new();
        let mut arguments = arguments.iter();
        while let Some(option) = arguments.next() {
            let mut value = || arguments.next().copied().with_context(|| format!("{option} needs a value"));
            match *option {
                "--events" => events = Some(number(option, value()?)?),
                "--transactions-of" => per_transaction = Some(number(option, value()?)?),
                "--runs" => runs = usize::try_from(number(option, value()?)?).context("--runs is too large")?,
                "--json" => json = Some(PathBuf::from(value()?)),
                "--null" => contestants.push(Contestant::Null),
                "--kafka" => contestants.push(Contestant::Kafka),
                "--exactly-once" => contestants.push(Contestant::ExactlyOnce),
                "--pg-recvlogical" => contestants.push(Contestant::PgRecvlogical),
                unknown => bail!("`bench drain` has no option `{unknown}`: `cargo xtask help` lists them"),
            }
        }
        if contestants.is_empty() {
            contestants = Contestant::ALL.to_vec();
        }
        Ok(Self { workloads: workloads(events, per_transaction), contestants, runs, json })
    }

    /// Who is next in this run: in each another one begins.
    pub(super) fn line_up(&self, run: usize) -> Vec<Contestant> {
        let mut line = self.contestants.clone();
        let places = (run - 1) % line.len();
        line.rotate_left(places);
        line
    }
}

/// Both usual ones, unless one is described.
fn workloads(events: Option<u64>, per_transaction: Option<u64>) -> Vec<Workload> {
    let usual = |per_transaction| if per_transaction == 1 { 500_000 } else { 1_000_000 };
    let sizes = per_transaction.map_or(vec![1, 50], |size| vec![size]);
    let workload = |per_transaction| Workload { events: events.unwrap_or(usual(per_transaction)), per_transaction };
    sizes.into_iter().map(workload).collect()
}

fn number(option: &str, text: &str) -> Result<u64> {
    let number = text.parse().with_context(|| format!("{option}: {text:?} is no number"))?;
    ensure!(number > 0, "{option} must be at least 1");
    Ok(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_options_everybody_drains_both_workloads_three_times() {
        let options = Options::parse(&[]).unwrap();
        let singles = Workload { events: 500_000, per_transaction: 1 };
        let fifties = Workload { events: 1_000_000, per_transaction: 50 };
        assert_eq!(options.workloads, [singles, fifties]);
        assert_eq!((options.contestants.len(), options.runs, options.json), (4, 3, None));
    }

    #[test]
    fn what_is_described_takes_the_place_of_what_is_usual() {
        let options = Options::parse(&["--events", "7", "--transactions-of", "3", "--null", "--runs", "2"]).unwrap();
        assert_eq!(options.workloads, [Workload { events: 7, per_transaction: 3 }]);
        assert_eq!((options.contestants, options.runs), (vec![Contestant::Null], 2));
    }

    #[test]
    fn the_first_of_one_run_is_the_last_of_the_next() {
        let options = Options::parse(&[]).unwrap();
        assert_eq!(options.line_up(1), Contestant::ALL);
        assert_eq!(options.line_up(2).last(), Contestant::ALL.first());
        assert_eq!(options.line_up(5), Contestant::ALL);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for arguments in
            [&["--events"][..], &["--events", "0"], &["--runs", "x"], &["--runs", "-1"], &["--evnts", "1"], &["--json"]]
        {
            assert!(Options::parse(arguments).is_err(), "{arguments:?}");
        }
    }
}
