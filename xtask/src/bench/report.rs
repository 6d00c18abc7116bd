//! What the readings say: rates, costs, and how they stand to `pg_recvlogical` of the same run.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result};
use serde_json::{Value, json};

use super::contest::Contestant;
use super::machine::Machine;
use super::meter::Reading;
use super::options::Workload;

/// One contestant's reading of one run.
#[derive(Clone, Debug)]
pub(super) struct Turn {
    pub(super) workload: Workload,
    pub(super) contestant: Contestant,
    /// Of its run.
    pub(super) number: usize,
    pub(super) reading: Reading,
}

impl Turn {
    /// Events a second, from the start of the process to its end.
    fn rate(&self) -> f64 {
        self.events() / self.reading.wall.as_secs_f64()
    }

    /// Events a second from the first event on.
    fn steady_rate(&self) -> f64 {
        let first = self.reading.first_event.unwrap_or_default();
        self.events() / self.reading.wall.saturating_sub(first).as_secs_f64()
    }

    fn first_event_ms(&self) -> f64 {
        self.reading.first_event.map_or(f64::NAN, |first| first.as_secs_f64() * 1e3)
    }

    fn peak_mib(&self) -> f64 {
        precise(self.reading.peak_rss_bytes) / precise(1 << 20)
    }

    /// Microseconds an event.
    fn cost(&self, cpu: Duration) -> f64 {
        cpu.as_secs_f64() * 1e6 / self.events()
    }

    fn events(&self) -> f64 {
        precise(self.workload.events)
    }

    fn to_json(&self, ratio: Option<f64>) -> Value {
        let Reading { wall, cpu, sender_cpu, broker_cpu, peak_rss_bytes, busy_elsewhere, .. } = self.reading;
        json!({
            "events": self.workload.events,
            "events_per_transaction": self.workload.per_transaction,
            "run": self.number,
            "contestant": self.contestant.name(),
            "seconds": wall.as_secs_f64(),
            "events_per_second": self.rate(),
            "events_per_second_after_first": self.steady_rate(),
            "ratio_to_pg_recvlogical": ratio,
            "cpu_us_per_event": self.cost(cpu),
            "walsender_cpu_us_per_event": self.cost(sender_cpu),
            "broker_cpu_us_per_event": broker_cpu.map(|cpu| self.cost(cpu)),
            "first_event_ms": self.reading.first_event.map(|first| first.as_secs_f64() * 1e3),
            "peak_rss_bytes": peak_rss_bytes,
            "processors_busy_elsewhere": busy_elsewhere,
        })
    }
}

impl fmt::Display for Turn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<15} {:>9.0} events/s, {:.2} µs CPU, {:.1} MiB, first event after {:.0} ms, {:.1} processors busy elsewhere",
            self.contestant.name(),
            self.rate(),
            self.cost(self.reading.cpu),
            self.peak_mib(),
            self.first_event_ms(),
            self.reading.busy_elsewhere,
        )
    }
}

/// All readings, and where they were taken.
#[derive(Clone, Debug)]
pub(super) struct Report {
    command: String,
    machine: Machine,
    pub(super) postgres_version: String,
    pub(super) turns: Vec<Turn>,
}

impl Report {
    pub(super) fn new(arguments: &[&str]) -> Self {
        Self {
            command: ["cargo", "xtask", "bench", "drain"]
                .into_iter()
                .chain(arguments.iter().copied())
                .collect::<Vec<_>>()
                .join(" "),
            machine: Machine::look(),
            postgres_version: String::new(),
            turns: Vec::new(),
        }
    }

    pub(super) fn to_json(&self) -> Result<String> {
        let turns: Vec<Value> = self.turns.iter().map(|turn| turn.to_json(self.ratio(turn))).collect();
        let report = json!({
            "command": self.command,
            "machine": self.machine.to_json(),
            "postgres": self.postgres_version,
            "turns": turns,
        });
        Ok(serde_json::to_string_pretty(&report).context("the figures cannot be written")? + "\n")
    }

    /// How the rate stands to that of `pg_recvlogical` in the same run.
    fn ratio(&self, turn: &Turn) -> Option<f64> {
        let is_its_yardstick = |other: &&Turn| {
            other.contestant == Contestant::PgRecvlogical
                && (other.workload, other.number) == (turn.workload, turn.number)
        };
        self.turns.iter().find(is_its_yardstick).map(|yardstick| turn.rate() / yardstick.rate())
    }

    fn workloads(&self) -> Vec<Workload> {
        let mut workloads: Vec<Workload> = self.turns.iter().map(|turn| turn.workload).collect();
        workloads.dedup();
        workloads
    }

    fn write_line(&self, f: &mut fmt::Formatter<'_>, turns: &[&Turn]) -> fmt::Result {
        let of = |figure: &dyn Fn(&Turn) -> f64| Spread::of(turns.iter().map(|turn| figure(turn)));
        let name = turns.first().map_or("", |turn| turn.contestant.name());
        let ratio = of(&|turn| self.ratio(turn).unwrap_or(f64::NAN));
        writeln!(
            f,
            "  {name:<15} {:>26} {:>18} {:>9.0} {:>17} {:>17} {:>17} {:>16} {:>8.1}",
            of(&Turn::rate).show(0),
            ratio.show(2),
            of(&Turn::steady_rate).median,
            of(&|turn| turn.cost(turn.reading.cpu)).show(2),
            of(&|turn| turn.cost(turn.reading.sender_cpu)).show(2),
            of(&Turn::first_event_ms).show(0),
            of(&Turn::peak_mib).show(1),
            of(&|turn| turn.reading.busy_elsewhere).median,
        )
    }
}

/// A table for each workload: of every figure the median, and the range where there is one.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}\nPostgreSQL {}; {}", self.machine, self.postgres_version, self.command)?;
        for workload in self.workloads() {
            writeln!(f, "\n{workload}:")?;
            writeln!(
                f,
                "  {:<15} {:>26} {:>18} {:>9} {:>17} {:>17} {:>17} {:>16} {:>8}",
                "",
                "events/s",
                "ratio",
                "steady/s",
                "CPU µs/event",
                "walsender µs",
                "first event ms",
                "peak MiB",
                "others"
            )?;
            for contestant in Contestant::ALL {
                let is_his = |turn: &&Turn| turn.workload == workload && turn.contestant == contestant;
                let turns: Vec<&Turn> = self.turns.iter().filter(is_his).collect();
                if !turns.is_empty() {
                    self.write_line(f, &turns)?;
                }
            }
        }
        write!(
            f,
            "\nMedians of the runs, with their range. ratio: to pg_recvlogical's rate of the same run. steady/s: events/s from the\n\
             first event on. others: processors that were busy with something else."
        )
    }
}

/// The middle of some figures, and their ends.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spread {
    median: f64,
    lowest: f64,
    highest: f64,
}

impl Spread {
    /// Of none, and of what is not known, it is not a number.
    fn of(figures: impl Iterator<Item = f64>) -> Self {
        let mut figures: Vec<f64> = figures.collect();
        figures.sort_by(f64::total_cmp);
        let at = |place: usize| figures.get(place).copied().unwrap_or(f64::NAN);
        let last = figures.len().saturating_sub(1);
        Self { median: f64::midpoint(at(last / 2), at(figures.len() / 2)), lowest: at(0), highest: at(last) }
    }

    fn show(&self, decimals: usize) -> String {
        let Self { median, lowest, highest } = self;
        if median.is_nan() {
            return "-".to_owned();
        }
        if lowest.total_cmp(highest).is_eq() {
            return format!("{median:.decimals$}");
        }
        format!("{median:.decimals$} ({lowest:.decimals$}–{highest:.decimals$})")
    }
}

/// Exact up to 2⁵³, which no count here comes near.
#[expect(clippy::cast_precision_loss, reason = "see above")]
fn precise(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(contestant: Contestant, number: usize, seconds: u64) -> Turn {
        let workload = Workload { events: 1000, per_transaction: 1 };
        Turn { workload, contestant, number, reading: Reading::of(Duration::from_secs(seconds)) }
    }

    fn report(turns: Vec<Turn>) -> Report {
        Report { turns, ..Report::new(&["--runs", "2"]) }
    }

    #[test]
    fn a_ratio_is_to_the_same_run_and_not_to_the_best_one() {
        let report = report(vec![
            turn(Contestant::PgRecvlogical, 1, 2),
            turn(Contestant::Null, 1, 4),
            turn(Contestant::PgRecvlogical, 2, 10),
            turn(Contestant::Null, 2, 5),
        ]);
        let ratios: Vec<_> = report.turns.iter().map(|turn| report.ratio(turn)).collect();
        assert_eq!(ratios, [Some(1.0), Some(0.5), Some(1.0), Some(2.0)]);
    }

    #[test]
    fn without_a_yardstick_there_is_no_ratio_and_still_a_table() {
        let report = report(vec![turn(Contestant::Null, 1, 4)]);
        assert_eq!(report.ratio(&report.turns[0]), None);
        let text = report.to_string();
        assert!(text.contains("walpost, null") && text.contains("250") && !text.contains("pg_recvlogical  "), "{text}");
    }

    #[test]
    fn the_figures_can_be_read_by_a_program() {
        let report = report(vec![turn(Contestant::PgRecvlogical, 1, 2), turn(Contestant::Kafka, 1, 4)]);
        let json: Value = serde_json::from_str(&report.to_json().unwrap()).unwrap();
        assert_eq!(json["turns"][1]["ratio_to_pg_recvlogical"], 0.5);
        assert_eq!(json["turns"][1]["events_per_second"], 250.0);
        assert_eq!(json["command"], "cargo xtask bench drain --runs 2");
    }

    #[test]
    fn a_median_stands_between_the_two_in_the_middle() {
        let spread = Spread::of([4.0, 1.0, 2.0, 9.0].into_iter());
        assert_eq!(spread, Spread { median: 3.0, lowest: 1.0, highest: 9.0 });
        assert_eq!(spread.show(1), "3.0 (1.0–9.0)");
        assert_eq!(Spread::of([7.0].into_iter()).show(0), "7");
        assert_eq!(Spread::of(std::iter::empty()).show(0), "-");
    }
}
