//! `cargo xtask bench drain`: how fast a backlog is drained, beside the plainest reader that there is.
//!
//! Figures of one machine say little, and on a busy machine nothing at all. So `pg_recvlogical`, PostgreSQL's own
//! program, which decodes nothing and writes to nowhere, drains the same backlog in the same run, and what counts is the
//! ratio to it. Contestants take turns; each has a copy of one slot, so that all begin at the same place of the log.
//!
//! A figure of work that was not done is refused: every run is checked for the number of events that came out.

mod backlog;
mod contest;
mod latency;
mod machine;
mod meter;
mod options;
mod report;

use std::fs;

use anyhow::{Context as _, Result};
use walpost_testkit::servers::{Kafka, Need, Postgres, Scratch, install};

use crate::interrupt;
use crate::steps::run_cargo;
use backlog::Backlog;
use contest::Arena;
use options::Options;
use report::{Report, Turn};

/// Settings that are not the test kit's own: no part of the log may go, nothing may begin to clean up in between, and
/// the load need not wait for the disk.
const POSTGRES_SETTINGS: &[(&str, &str)] = &[
    ("shared_buffers", "256MB"),
    ("max_wal_size", "32GB"),
    ("checkpoint_timeout", "1h"),
    ("synchronous_commit", "off"),
    ("autovacuum", "off"),
];

/// Runs the measurement of latency that the options describe.
pub(crate) fn run_latency(options: &[&str]) -> Result<()> {
    latency::run(options)
}

/// Runs the contest that the arguments describe.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let options = Options::parse(arguments)?;
    step("Building walpost for release");
    install(&[Need::Build])?;
    run_cargo(&["build", "--quiet", "--locked", "--release", "--package", "walpost"], &[])?;
    let mut report = Report::new(arguments);
    hold(&options, &mut report)?;
    say!("\n{report}");
    if let Some(path) = &options.json {
        fs::write(path, report.to_json()?).with_context(|| format!("cannot write {}", path.display()))?;
        step(&format!("The figures are in {}", path.display()));
    }
    Ok(())
}

/// The contest itself; when it is over, its servers are gone.
fn hold(options: &Options, report: &mut Report) -> Result<()> {
    step("Starting a throw-away PostgreSQL");
    let mut postgres = Postgres::builder();
    for (name, value) in POSTGRES_SETTINGS {
        postgres = postgres.setting(name, value);
    }
    let postgres = postgres.start()?;
    report.postgres_version = postgres.endpoint().value("postgres", "SHOW server_version")?;
    interrupt::check()?;
    let kafka = if options.contestants.iter().any(|contestant| contestant.needs_broker()) {
        step("Starting a throw-away Kafka");
        Some(Kafka::start()?)
    } else {
        None
    };
    interrupt::check()?;
    let arena = Arena { postgres, kafka, scratch: Scratch::new("bench")? };
    for workload in &options.workloads {
        step(&format!("Loading {workload}"));
        let backlog = Backlog::load(&arena, *workload)?;
        for number in 1..=options.runs {
            for contestant in options.line_up(number) {
                let reading = contest::run(&arena, &backlog, contestant, number)?;
                let turn = Turn { workload: *workload, contestant, number, reading };
                say!("    run {number}  {turn}");
                report.turns.push(turn);
            }
        }
        backlog.remove(&arena)?;
    }
    Ok(())
}

fn step(text: &str) {
    say!("==> {text}");
}
