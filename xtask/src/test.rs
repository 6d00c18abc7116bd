//! `cargo xtask test`: every check and every test, the cheap ones first.
//!
//! The output ends with that of `cargo test`, whose last binary holds tests, so that whoever counts them finds them.

use std::time::Duration;

use anyhow::{Context as _, Result};
use walpost_testkit::servers::{KAFKA_VARIABLE, Kafka, Need, POSTGRES_VARIABLE, Postgres, Stop, install};

use crate::steps::{Steps, run_cargo};
use crate::{dependencies, mutants};

/// With filters only the tests that they name.
pub(crate) fn run(filters: &[&str]) -> Result<()> {
    let mut steps = Steps::default();
    steps.step("what the tests need", || Ok(install(&[Need::Build, Need::Postgres, Need::Kafka])?))?;
    steps.verdict()?;
    if filters.is_empty() {
        check(&mut steps)?;
        steps.verdict()?;
    }
    test(&mut steps, filters)
}

fn check(steps: &mut Steps) -> Result<()> {
    steps.step("formatting", || run_cargo(&["fmt", "--all", "--check"], &[]))?;
    steps.step("dependency rules", dependencies::run)?;
    let clippy = ["clippy", "--quiet", "--locked", "--all-targets"];
    let deny = ["--", "-D", "warnings"];
    steps.step("clippy", || run_cargo(&[&clippy[..], &["--workspace"], &deny].concat(), &[]))?;
    steps.step("clippy without Kafka", || {
        run_cargo(
            &["clippy", "--quiet", "--locked", "-p", "walpost", "--no-default-features", "--", "-D", "warnings"],
            &[],
        )
    })?;
    steps.step("documentation", || {
        run_cargo(&["doc", "--quiet", "--locked", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])
    })?;
    if mutants::are_listed() {
        steps.step("mutants", mutants::run)?;
    }
    steps.step("examples in the documentation", || {
        run_cargo(&["test", "--quiet", "--locked", "--workspace", "--doc"], &[])
    })
}

fn test(steps: &mut Steps, filters: &[&str]) -> Result<()> {
    let tests = ["test", "--locked", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests"];
    steps.step("compiling the tests", || run_cargo(&[&tests[..], &["--quiet", "--no-run"]].concat(), &[]))?;
    steps.verdict()?;
    let mut servers = None;
    steps.step("servers", || {
        servers = Some(start_servers()?);
        Ok(())
    })?;
    steps.verdict()?;
    let Some((mut postgres, mut kafka)) = servers else { return Ok(()) };
    let environment = [(POSTGRES_VARIABLE, &*postgres.url("postgres")), (KAFKA_VARIABLE, kafka.bootstrap())];
    say!("==> tests");
    let outcome = run_cargo(&[&tests[..], &["--"], filters].concat(), &environment);
    // Dropping them would do; stopped in order they also prove that nobody holds them up.
    let _ = kafka.kill9();
    let stopped = postgres.stop(Stop::Fast, Duration::from_secs(20));
    outcome.and(stopped.map(drop).context("the shared PostgreSQL could not be stopped after the tests"))
}

fn start_servers() -> Result<(Postgres, Kafka)> {
    Ok((Postgres::start()?, Kafka::start()?))
}
