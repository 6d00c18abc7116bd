//! Ctrl-C and SIGTERM: end the program that is running for us, then let the caller unwind, so that servers are stopped
//! and their data is removed on the way out.

use std::fmt;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use walpost_testkit::servers::{Signal, signal_group, wait_until};

/// What stops by itself within this is not killed.
const GRACE: Duration = Duration::from_secs(10);

/// The signal that came, or 0.
static RECEIVED: AtomicI32 = AtomicI32::new(0);
/// The leader of the process group that works for us at the moment.
static WORKING: Mutex<Option<u32>> = Mutex::new(None);

/// We were told to end.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Interrupted {
    signal: i32,
}

impl Interrupted {
    /// What a shell gives for a program that a signal ended.
    pub(crate) fn exit_code(self) -> u8 {
        u8::try_from(128 + self.signal).unwrap_or(u8::MAX)
    }
}

impl fmt::Display for Interrupted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ended by signal {}; what was started is stopped", self.signal)
    }
}

impl std::error::Error for Interrupted {}

/// From now on a signal ends us in good order. A second one, or a grace that has passed, ends us at once: then the
/// kernel takes the servers, and the test kit's janitor their data.
pub(crate) fn listen() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot listen to signals")?;
    thread::spawn(move || {
        for signal in signals.forever() {
            if RECEIVED.swap(signal, Ordering::SeqCst) != 0 {
                std::process::exit(i32::from(Interrupted { signal }.exit_code()));
            }
            thread::spawn(move || end_what_works(signal));
        }
    });
    Ok(())
}

fn end_what_works(signal: i32) {
    signal_working(Signal::Terminate);
    thread::sleep(GRACE);
    signal_working(Signal::Kill);
    thread::sleep(GRACE);
    std::process::exit(i32::from(Interrupted { signal }.exit_code()));
}

fn signal_working(signal: Signal) {
    if let Some(leader) = *WORKING.lock().unwrap_or_else(PoisonError::into_inner) {
        // It may have ended by itself.
        let _ = signal_group(leader, signal);
    }
}

/// Refuses to go on after a signal.
pub(crate) fn check() -> Result<(), Interrupted> {
    match RECEIVED.load(Ordering::SeqCst) {
        0 => Ok(()),
        signal => Err(Interrupted { signal }),
    }
}

/// Runs a program to its end in a process group of its own, which a signal to us ends.
pub(crate) fn run(command: &mut Command) -> Result<ExitStatus> {
    let (name, mut child) = start(command)?;
    let status = child.wait();
    finish()?;
    status.with_context(|| format!("cannot wait for {name}"))
}

/// As [`run`]; none when it had to be killed because it had not ended within `limit`.
pub(crate) fn run_within(command: &mut Command, limit: Duration) -> Result<Option<ExitStatus>> {
    let (name, mut child) = start(command)?;
    let waited = wait_until(&name, limit, || !matches!(child.try_wait(), Ok(None)));
    if waited.is_err() {
        signal_working(Signal::Kill);
    }
    let status = child.wait();
    finish()?;
    let status = status.with_context(|| format!("cannot wait for {name}"))?;
    Ok(waited.is_ok().then_some(status))
}

fn start(command: &mut Command) -> Result<(String, Child)> {
    check()?;
    let name = command.get_program().display().to_string();
    let child = command.process_group(0).stdin(Stdio::null()).spawn().with_context(|| format!("cannot run {name}"))?;
    *WORKING.lock().unwrap_or_else(PoisonError::into_inner) = Some(child.id());
    if check().is_err() {
        // The signal came before there was anything to end.
        signal_working(Signal::Terminate);
    }
    Ok((name, child))
}

fn finish() -> Result<(), Interrupted> {
    *WORKING.lock().unwrap_or_else(PoisonError::into_inner) = None;
    check()
}
