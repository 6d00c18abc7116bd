//! What is the same for every server, whatever it serves: it is started on ports that were free, writes a log, is waited for until it
//! is ready, and is stopped, frozen and killed.
//!
//! It knows neither programs nor settings, and starts nothing again by itself.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::process::{Identity, Process, Signal, tail};
use super::wait::Patience;
use super::{Error, Result};

/// A port may be taken between its choice and the start.
const ATTEMPTS: usize = 5;

/// The process of a server, while there is one.
#[derive(Debug)]
pub(super) struct Daemon {
    server: &'static str,
    process: Option<Process>,
}

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

/// Waits until it says in its log, beyond the first `logged` bytes, that it is ready.
pub(super) fn wait_until_logged(
    server: &'static str,
    process: &mut Process,
    limit: Duration,
    ready: &str,
    log: &Path,
    logged: usize,
) -> Result<()> {
    let new = || log_text(log).get(logged..).unwrap_or_default().to_owned();
    wait_until_ready(server, process, limit, || new().contains(ready), new)
}

/// What came of one attempt to start a server: its process, where it listens, and whether it came to be ready.
pub(super) type Attempt<Ports> = (Process, Ports, Result<()>);

/// Starts a server for the first time, and again on other ports while its log says that those were taken. `attempt` is told whether it
/// is the first.
pub(super) fn first_start<Ports>(
    server: &'static str,
    were_taken: &str,
    log: &Path,
    attempt: impl Fn(bool) -> Result<Attempt<Ports>>,
) -> Result<(Daemon, Ports)> {
    let mut number = 1;
    loop {
        let (mut process, ports, ready) = attempt(number == 1)?;
        match ready {
            Ok(()) => return Ok((Daemon { server, process: Some(process) }, ports)),
            Err(Error::Ended { .. }) if number < ATTEMPTS && log_text(log).contains(were_taken) => number += 1,
            Err(error) => {
                // It is not ours to hand out: nobody could stop it.
                let _ = process.kill(server);
                return Err(error);
            }
        }
    }
}

impl Daemon {
    /// The process while it runs.
    pub(super) fn identity(&self) -> Option<Identity> {
        self.process.as_ref().map(Process::identity)
    }

    /// Whether it runs: it was neither stopped nor killed, and has not died.
    pub(super) fn is_running(&mut self) -> bool {
        self.process.as_mut().is_some_and(|process| process.ended().is_none())
    }

    pub(super) fn process(&mut self) -> Option<&mut Process> {
        self.process.as_mut()
    }

    /// Has a new process, kept whatever comes of it, so that it is stopped with us.
    pub(super) fn begin(&mut self, process: Process) -> &mut Process {
        self.process.insert(process)
    }

    /// Gives the process away.
    pub(super) fn take(&mut self) -> Option<Process> {
        self.process.take()
    }

    /// Asks it to stop by this signal, and waits until it has; returns how long that took. If it has not after `limit`, it runs on.
    pub(super) fn stop(&mut self, signal: Signal, limit: Duration) -> Result<Duration> {
        let Some(running) = &mut self.process else { return Ok(Duration::ZERO) };
        running.identity().signal(signal)?;
        let took = running.wait(self.server, limit)?;
        self.process = None;
        Ok(took)
    }

    /// Kills it with all that it started, as a loss of power would, and waits until they are gone.
    pub(super) fn kill9(&mut self) -> Result<()> {
        self.take().map_or(Ok(()), |mut process| process.kill(self.server))
    }

    /// Freezes it with all that it started, or lets them go on.
    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        self.process.as_ref().map_or(Ok(()), |process| process.signal_family(signal))
    }
}
