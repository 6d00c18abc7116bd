//! Who may depend on whom, under which licences, and from where: held by a tool, not by memory.
//!
//! `deny.toml` says the same as far as cargo-deny can, for whoever has it; this check stands in where it is not
//! installed, and adds the directions inside the workspace.

mod graph;
mod licence;
mod rules;

use std::process::Stdio;

use anyhow::{Context as _, Result, bail};

use crate::steps::cargo;
use graph::Graph;

/// Fails with every violation, a line each.
pub(crate) fn run() -> Result<()> {
    let mut metadata = cargo();
    metadata.args(["metadata", "--format-version", "1", "--locked"]).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = metadata.output().context("cannot run cargo metadata")?;
    if !output.status.success() {
        bail!("`cargo metadata --locked` failed: is Cargo.lock committed and up to date?");
    }
    let graph = Graph::parse(&output.stdout)?;
    let violations = rules::violations(&graph);
    if violations.is_empty() {
        return Ok(());
    }
    bail!("{} violations:\n  {}", violations.len(), violations.join("\n  "))
}
