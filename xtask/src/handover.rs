//! `cargo xtask handover`: from a real Debezium to walpost, in the middle of the traffic.
//!
//! As with `conformance`, the work is done by a program of the test kit.

use anyhow::{Context as _, Result, bail};
use walpost_testkit::servers::{Need, install};

use crate::steps::run_cargo;

pub(crate) fn run(options: &[&str]) -> Result<()> {
    if !matches!(options, [] | ["--by-hand"]) {
        bail!("`cargo xtask handover` takes --by-hand or nothing");
    }
    install(&[Need::Build, Need::Postgres, Need::Kafka, Need::Debezium])?;
    run_cargo(&["build", "--quiet", "--locked", "--package", "walpost"], &[])?;
    // cargo puts both programs of a profile into one folder.
    let ours = std::env::current_exe().context("cannot tell where xtask was built")?;
    let walpost = ours.with_file_name("walpost").display().to_string();
    let program = ["run", "--quiet", "--locked", "--package", "walpost-testkit", "--features", "clients"];
    run_cargo(&[&program[..], &["--bin", "handover", "--", &walpost], options].concat(), &[])
}
