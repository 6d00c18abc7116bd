//! `cargo xtask bench latency`: how long an event takes from before its INSERT to a consumer, beside a producer without a relay.
//!
//! As with `chaos`, the work is done by a program of the test kit, which has the clients.

use std::process::Command;

use anyhow::{Context as _, Result, bail};
use walpost_testkit::servers::{Need, install};

use super::machine::Machine;
use super::step;
use crate::interrupt;
use crate::steps::run_cargo;

pub(super) fn run(options: &[&str]) -> Result<()> {
    step("Building walpost and the program that measures for release");
    install(&[Need::Build, Need::Postgres, Need::Kafka])?;
    let build = ["build", "--quiet", "--locked", "--release", "--package"];
    run_cargo(&[&build[..], &["walpost"]].concat(), &[])?;
    let program = ["walpost-testkit", "--features", "clients", "--bin", "latency"];
    run_cargo(&[&build[..], &program].concat(), &[])?;
    let ours = std::env::current_exe().context("cannot tell where xtask was built")?;
    let folder = ours.parent().and_then(|folder| folder.parent()).context("xtask lies in no folder of cargo's")?;
    let built = |name: &str| folder.join("release").join(name);
    step(&Machine::look().to_string());
    let status = interrupt::run(Command::new(built("latency")).arg(built("walpost")).args(options))?;
    if status.success() { Ok(()) } else { bail!("nothing was measured: {status}") }
}
