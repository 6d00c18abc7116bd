//! `cargo xtask chaos`: writers, faults, and the verdict on what arrived.
//!
//! As with `conformance`, the work is done by a program of the test kit. A superuser's run has a mount namespace of its own, so that the
//! disk that is filled and made read-only in it is gone with it, however it ends.

use std::os::unix::fs::MetadataExt as _;
use std::process::Command;

use anyhow::{Context as _, Result, bail};
use walpost_testkit::servers::{Need, install};

use crate::interrupt;
use crate::steps::run_cargo;

pub(crate) fn run(options: &[&str]) -> Result<()> {
    install(&[Need::Build, Need::Postgres, Need::Kafka])?;
    let (release, options): (Vec<&str>, Vec<&str>) = options.iter().partition(|option| **option == "--release");
    let profile = if release.is_empty() { "debug" } else { "release" };
    let build = [&["build", "--quiet", "--locked"], &*release].concat();
    run_cargo(&[&build[..], &["--package", "walpost"]].concat(), &[])?;
    let program = ["--package", "walpost-testkit", "--features", "clients", "--bin", "chaos"];
    run_cargo(&[&build[..], &program].concat(), &[])?;
    let ours = std::env::current_exe().context("cannot tell where xtask was built")?;
    let folder = ours.parent().and_then(|folder| folder.parent()).context("xtask lies in no folder of cargo's")?;
    let built = |name: &str| folder.join(profile).join(name);
    let mut command = Command::new(if is_superuser()? { "unshare" } else { "env" });
    if is_superuser()? {
        command.args(["--mount", "--"]);
    }
    let status = interrupt::run(command.arg(built("chaos")).arg(built("walpost")).args(options))?;
    if status.success() { Ok(()) } else { bail!("the run is not good: {status}") }
}

/// By the owner of our own entry in `/proc`.
fn is_superuser() -> Result<bool> {
    Ok(std::fs::metadata("/proc/self").context("cannot look at /proc/self")?.uid() == 0)
}
