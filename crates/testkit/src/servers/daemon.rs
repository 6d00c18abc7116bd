//! What is the same for every server, whatever it serves: it writes a log, is waited for until it is ready, and is stopped.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::process::{Process, Signal, tail};
use super::wait::Patience;
use super::{Error, Result};

/// Has a command append all that it says to this file.
pub(super) fn log_into(command: &mut Command, log: &Path, server: &str) -> Result<()> {
    let file = fs::OpenOptions::new().create(true).append(true).open(log);
    let file = file.map_err(Error::io(format_args!("write {}", log.display())))?;
    let errors = file.try_clone().map_err(Error::io(format_args!("share the log of {server}")))?;
    command.stdout(file).stderr(errors);
    Ok(())
}

/// All that stands in a log, if there is one.
pub(super) fn log_text(log: &Path) -> String {
    fs::read(log).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
}

/// Waits until it is ready; `log` is what is told where it does not come to that.
pub(super) fn wait_until_ready(
    server: &'static str,
    process: &mut Process,
    limit: Duration,
    is_ready: impl Fn() -> bool,
    log: impl Fn() -> String,
) -> Result<()> {
    let patience = Patience::of(limit);
    let waiting_for = format!("{server} to be ready");
    loop {
        if is_ready() {
            return Ok(());
        }
        if let Some(status) = process.ended() {
            return Err(Error::Ended { server, status, log: tail(&log()) });
        }
        if patience.pause(&waiting_for).is_err() {
            return Err(Error::TimedOut { waiting_for, limit, log: tail(&log()) });
        }
    }
}

/// Asks it to stop by this signal, and waits until it has; returns how long that took. If it has not after `limit`, it runs on.
pub(super) fn stop(
    process: &mut Option<Process>,
    server: &'static str,
    signal: Signal,
    limit: Duration,
) -> Result<Duration> {
    let Some(running) = process else { return Ok(Duration::ZERO) };
    running.identity().signal(signal)?;
    let took = running.wait(server, limit)?;
    *process = None;
    Ok(took)
}
