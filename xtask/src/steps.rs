//! A row of checks, each a line with its time, that goes on after a failure and names all of them at the end.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, bail};

use crate::interrupt::{self, Interrupted};
use crate::slowest::{self, Slowest};

/// The checks that have run.
#[derive(Default)]
pub(crate) struct Steps {
    failed: Vec<String>,
}

impl Steps {
    /// Runs one check. Only an interruption is an error here; a failure is remembered.
    pub(crate) fn step(&mut self, name: &str, work: impl FnOnce() -> Result<()>) -> Result<()> {
        interrupt::check()?;
        say!("==> {name}");
        let since = Instant::now();
        let outcome = work();
        let seconds = since.elapsed().as_secs_f32();
        match outcome {
            Ok(()) => say!("    {name}: good, {seconds:.1} s"),
            Err(error) if error.is::<Interrupted>() => return Err(error),
            Err(error) => {
                say!("    {name}: FAILED, {seconds:.1} s: {error:#}");
                self.failed.push(name.to_owned());
            }
        }
        Ok(())
    }

    /// Refuses, with the names of the checks that failed.
    pub(crate) fn verdict(&self) -> Result<()> {
        if self.failed.is_empty() { Ok(()) } else { bail!("failed: {}", self.failed.join(", ")) }
    }
}

/// The cargo that runs us.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(workspace());
    cargo
}

/// Runs cargo and refuses unless it succeeds.
pub(crate) fn run_cargo(arguments: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    let status = interrupt::run(cargo().args(arguments).envs(environment.iter().copied()))?;
    if status.success() { Ok(()) } else { bail!("`cargo {}`: {status}", arguments.join(" ")) }
}

/// Runs `cargo test` with these arguments and filters, tells which tests were slow, and refuses unless it succeeds.
pub(crate) fn run_tests(arguments: &[&str], filters: &[&str], environment: &[(&str, &str)]) -> Result<()> {
    let mut slowest = Slowest::default();
    let mut command = cargo();
    command.args(arguments).args(slowest::CARGO).arg("--").args(slowest::HARNESS).args(filters);
    let status =
        interrupt::run_heard(command.envs(environment.iter().copied()), |line| say!("{}", slowest.read(line)))?;
    if status.success() { Ok(()) } else { bail!("`cargo {}`: {status}", [arguments, filters].concat().join(" ")) }
}

/// The root of the workspace.
pub(crate) fn workspace() -> PathBuf {
    let manifest = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    manifest.parent().map(PathBuf::from).unwrap_or(manifest)
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;

    use super::*;

    #[test]
    fn a_failed_step_is_named_at_the_end_and_the_next_one_still_runs() {
        let mut steps = Steps::default();
        let mut ran = false;
        steps.step("the first", || Err(anyhow!("no"))).unwrap();
        steps
            .step("the second", || {
                ran = true;
                Ok(())
            })
            .unwrap();
        assert!(ran);
        assert_eq!(steps.verdict().unwrap_err().to_string(), "failed: the first");
    }

    #[test]
    fn steps_that_all_succeed_are_a_success() {
        let mut steps = Steps::default();
        steps.step("the only one", || Ok(())).unwrap();
        steps.verdict().unwrap();
    }
}
