//! `cargo xtask conformance`: asks a real Debezium what it publishes.
//!
//! The work is done by a program of the test kit, which is compiled only when it is asked for: xtask itself must build on a
//! bare machine, without any client.

use std::path::Path;

use anyhow::{Context as _, Result};
use walpost_testkit::servers::{Need, install};

use crate::steps::run_cargo;

/// Records all cases of a file into another.
pub(crate) fn record(cases: &str, out: &str) -> Result<()> {
    install(&[Need::Build, Need::Postgres, Need::Kafka, Need::Debezium])?;
    let (cases, out) = (absolute(cases)?, absolute(out)?);
    let program = ["run", "--quiet", "--locked", "--package", "walpost-testkit", "--features", "clients"];
    run_cargo(&[&program[..], &["--bin", "conformance", "--", "record", &cases, &out]].concat(), &[])
}

/// cargo runs programs in the workspace, not where its caller is.
fn absolute(path: &str) -> Result<String> {
    let absolute = std::path::absolute(Path::new(path)).with_context(|| format!("cannot tell where {path} is"))?;
    Ok(absolute.display().to_string())
}
