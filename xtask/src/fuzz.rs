//! `cargo xtask fuzz`: libFuzzer on what reads bytes that others wrote. The targets are in `fuzz/fuzz_targets`, a program each, and
//! their kept inputs in `fuzz/corpus`.
//!
//! They are built with the coverage that LLVM puts in for libFuzzer and that stable Rust can ask for, so that no tool and no other
//! toolchain need be installed. AddressSanitizer, for which cargo-fuzz takes a nightly one, would find little: our code has no
//! `unsafe`. What is found stays in `target/fuzz`: inputs that reach new code in `corpus`, those that fail in `artifacts`. One that
//! fails becomes a unit test.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};

use crate::interrupt;
use crate::steps::{cargo, workspace};

/// What rustc has to be told: count the edges of every block of code, and show libFuzzer what is compared with what.
const COVERAGE: &str = "--cfg fuzzing -Ccodegen-units=1 -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
                        -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
                        -Cllvm-args=-sanitizer-coverage-trace-compares";
/// How long a target runs unless told otherwise.
const SECONDS: u32 = 60;
/// No input may take longer, in seconds, or more memory, in MiB.
const LIMITS: [&str; 2] = ["-timeout=10", "-rss_limit_mb=2048"];

/// What is asked for.
#[derive(Debug, PartialEq, Eq)]
struct Options {
    seconds: u32,
    /// Empty for all.
    targets: Vec<String>,
}

/// Runs the targets one after the other, and fails at the first input that fails.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let options = Options::parse(arguments)?;
    let known = targets()?;
    if let Some(unknown) = options.targets.iter().find(|target| !known.contains(target)) {
        bail!("there is no target `{unknown}`; there are {}", known.join(", "));
    }
    let programs = build()?;
    for target in if options.targets.is_empty() { &known } else { &options.targets } {
        say!("==> {target}, {} s", options.seconds);
        let artifacts = workspace().join("target/fuzz/artifacts").join(target);
        let found = workspace().join("target/fuzz/corpus").join(target);
        for folder in [&artifacts, &found] {
            std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        }
        let mut command = Command::new(programs.join(target));
        command.arg(found).arg(workspace().join("fuzz/corpus").join(target)).args(LIMITS);
        command.arg(format!("-max_total_time={}", options.seconds));
        command.arg(format!("-artifact_prefix={}/", artifacts.display()));
        let status = interrupt::run(&mut command)?;
        ensure!(status.success(), "{target}: {status}; the input is in {}", artifacts.display());
    }
    Ok(())
}

impl Options {
    fn parse(arguments: &[&str]) -> Result<Self> {
        let mut options = Self { seconds: SECONDS, targets: Vec::new() };
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match *argument {
                "--seconds" => {
                    let seconds = arguments.next().context("--seconds needs a number")?;
                    options.seconds =
                        seconds.parse().with_context(|| format!("--seconds: `{seconds}` is no number"))?;
                }
                unknown if unknown.starts_with('-') => {
                    bail!("`fuzz` has no option `{unknown}`: `cargo xtask help` lists them")
                }
                target => options.targets.push(target.to_owned()),
            }
        }
        Ok(options)
    }
}

/// The names of the targets.
fn targets() -> Result<Vec<String>> {
    let folder = workspace().join("fuzz/fuzz_targets");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut names = Vec::new();
    for entry in entries {
        names.extend(entry?.path().file_stem().map(|name| name.to_string_lossy().into_owned()));
    }
    names.sort();
    Ok(names)
}

/// Builds them and returns the folder where they are. The target is named although it is this machine's, for then build scripts,
/// which have no libFuzzer to report to, are built without coverage.
fn build() -> Result<PathBuf> {
    let host = host()?;
    let folder = workspace().join("target/fuzz");
    let mut cargo = cargo();
    cargo.args(["build", "--release", "--manifest-path", "fuzz/Cargo.toml", "--target", &host, "--target-dir"]);
    let status = interrupt::run(cargo.arg(&folder).env("RUSTFLAGS", COVERAGE).env_remove("CARGO_ENCODED_RUSTFLAGS"))?;
    ensure!(status.success(), "the targets cannot be built: {status}");
    Ok(folder.join(host).join("release"))
}

/// This machine, as rustc names it.
fn host() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(&rustc).arg("-vV").output().context("cannot run rustc")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("`rustc -vV` does not name its host")
}

#[cfg(test)]
mod tests {
    use super::{Options, SECONDS, targets};
    use crate::steps::workspace;

    #[test]
    fn without_arguments_all_targets_run_for_a_minute() {
        let all = Options { seconds: SECONDS, targets: Vec::new() };
        assert_eq!(Options::parse(&[]).unwrap(), all);
        let one = Options { seconds: 300, targets: vec!["frame".to_owned()] };
        assert_eq!(Options::parse(&["frame", "--seconds", "300"]).unwrap(), one);
        for wrong in [&["--seconds"][..], &["--seconds", "x"], &["--second", "1"]] {
            assert!(Options::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn each_target_is_a_program_and_has_inputs() {
        let manifest = std::fs::read_to_string(workspace().join("fuzz/Cargo.toml")).unwrap();
        let targets = targets().unwrap();
        assert!(!targets.is_empty());
        for target in targets {
            assert!(manifest.contains(&format!("path = \"fuzz_targets/{target}.rs\"")), "{target}");
            let corpus = workspace().join("fuzz/corpus").join(&target);
            assert!(std::fs::read_dir(corpus).unwrap().count() > 0, "{target}");
        }
    }
}
