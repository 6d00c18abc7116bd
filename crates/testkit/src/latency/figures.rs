//! What was measured.

use std::fmt;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::Way;
use super::traffic::Written;

/// The figures of one measurement.
#[derive(Clone, Debug)]
pub struct Figures {
    way: Way,
    /// As it was ordered.
    rate: u32,
    /// As it was reached.
    reached: f64,
    events: usize,
    /// From before the INSERT to the receipt.
    whole: Percentiles,
    /// From the commit, as the writer heard of it, to the receipt. Readers may be quicker than the server's answer.
    after_commit: Percentiles,
    /// The INSERT itself.
    insert: Percentiles,
}

/// So long took half of them, 99 of a hundred, 999 of a thousand, and the slowest. In milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Percentiles {
    /// The middle.
    pub p50: f64,
    /// 99 of a hundred were as quick.
    pub p99: f64,
    /// 999 of a thousand were.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
}

impl Percentiles {
    /// Of none they are no numbers.
    fn of(mut milliseconds: Vec<f64>) -> Self {
        milliseconds.sort_by(f64::total_cmp);
        let rank = |per_mille: usize| (milliseconds.len() * per_mille).div_ceil(1_000).saturating_sub(1);
        let at = |per_mille| milliseconds.get(rank(per_mille)).copied().unwrap_or(f64::NAN);
        Self { p50: at(500), p99: at(990), p999: at(999), max: at(1_000) }
    }

    fn to_json(self) -> Value {
        json!({ "p50": self.p50, "p99": self.p99, "p99.9": self.p999, "max": self.max })
    }
}

impl fmt::Display for Percentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { p50, p99, p999, max } = self;
        write!(f, "{p50:>7.2} {p99:>7.2} {p999:>7.2} {max:>8.1}")
    }
}

impl Figures {
    /// The first events do not count.
    pub(super) fn of(way: Way, rate: u32, warm_up: usize, written: &[Written], received: &[Instant]) -> Self {
        let counted: Vec<&Written> = written.iter().filter(|written| written.number >= warm_up).collect();
        let received = |written: &Written| received.get(written.number).copied();
        let whole = counted.iter().filter_map(|written| Some(between(written.began, received(written)?)));
        let after_commit = counted.iter().filter_map(|written| Some(between(written.committed, received(written)?)));
        let insert = counted.iter().map(|written| between(written.began, written.committed));
        let first = counted.iter().map(|written| written.began).min();
        let last = counted.iter().map(|written| written.began).max();
        let time = first.zip(last).map_or(Duration::ZERO, |(first, last)| last - first);
        Self {
            way,
            rate,
            reached: f64::from(u32::try_from(counted.len()).unwrap_or(u32::MAX)) / time.as_secs_f64(),
            events: counted.len(),
            whole: Percentiles::of(whole.collect()),
            after_commit: Percentiles::of(after_commit.collect()),
            insert: Percentiles::of(insert.collect()),
        }
    }

    /// For programs, in milliseconds.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "way": self.way.to_string(),
            "transactions_per_second": self.rate,
            "transactions_per_second_reached": self.reached,
            "events": self.events,
            "before_insert_to_receipt_ms": self.whole.to_json(),
            "commit_to_receipt_ms": self.after_commit.to_json(),
            "insert_ms": self.insert.to_json(),
        })
    }

    /// What stands above the lines of a table.
    #[must_use]
    pub fn heading() -> String {
        format!(
            "{:<15} {:>8} {:>9} {:>32} {:>32} {:>32}\n{:<15} {:>8} {:>9} {columns:>32} {columns:>32} {columns:>32}",
            "",
            "rate",
            "reached",
            "before INSERT to receipt, ms",
            "commit to receipt, ms",
            "INSERT, ms",
            "",
            "1/s",
            "1/s",
            columns = "p50     p99   p99.9      max",
        )
    }
}

/// A line of the table.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { way, rate, reached, whole, after_commit, insert, .. } = self;
        write!(f, "{way:<15} {rate:>8} {reached:>9.0} {whole} {after_commit} {insert}")
    }
}

/// Milliseconds from one to the other, below zero where the other came first.
fn between(from: Instant, to: Instant) -> f64 {
    match to.checked_duration_since(from) {
        Some(time) => time.as_secs_f64() * 1e3,
        None => -from.duration_since(to).as_secs_f64() * 1e3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_the_slowest_of_so_many() {
        let of = |count: u32| Percentiles::of((1..=count).rev().map(f64::from).collect());
        assert_eq!(of(1_000), Percentiles { p50: 500.0, p99: 990.0, p999: 999.0, max: 1_000.0 });
        assert_eq!(of(1), Percentiles { p50: 1.0, p99: 1.0, p999: 1.0, max: 1.0 });
        assert!(of(0).p50.is_nan());
    }

    #[test]
    fn what_was_written_while_programs_warmed_up_does_not_count() {
        let start = Instant::now();
        let at = |milliseconds| start + Duration::from_millis(milliseconds);
        let written = |number, began| Written { number, began: at(began), committed: at(began + 2) };
        let received = [at(1_000), at(103), at(205)];
        let figures = Figures::of(Way::Producer, 10, 1, &[written(0, 0), written(2, 200), written(1, 100)], &received);
        assert_eq!((figures.events, figures.whole.p50, figures.whole.max), (2, 3.0, 5.0));
        assert_eq!((figures.after_commit.p50, figures.after_commit.max, figures.insert.max), (1.0, 3.0, 2.0));
        assert_eq!(figures.to_json()["before_insert_to_receipt_ms"]["p99"], 5.0);
        assert!(figures.to_string().starts_with("producer alone"), "{figures}");
    }

    #[test]
    fn a_receipt_before_the_answer_counts_less_than_nothing() {
        let start = Instant::now();
        assert_eq!(between(start + Duration::from_millis(4), start), -4.0);
    }
}
