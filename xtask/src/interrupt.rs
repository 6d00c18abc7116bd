//! Ctrl-C and SIGTERM: end the program that is running for us, then let the caller unwind, so that servers are stopped
//! and their data is removed on the way out.

use std::fmt;
use std::io::{BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
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
/// The leaders of the process groups that work for us at the moment.
static WORKING: Mutex<Vec<u32>> = Mutex::new(Vec::new());

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
    for leader in working().iter() {
        // It may have ended by itself.
        let _ = signal_group(*leader, signal);
    }
}

fn working() -> MutexGuard<'static, Vec<u32>> {
    WORKING.lock().unwrap_or_else(PoisonError::into_inner)
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
    finish(&child)?;
    status.with_context(|| format!("cannot wait for {name}"))
}

/// As [`run`], with each line of its output told to `hear`.
pub(crate) fn run_heard(command: &mut Command, mut hear: impl FnMut(&str)) -> Result<ExitStatus> {
    let (name, mut child) = start(command.stdout(Stdio::piped()))?;
    let lines = child.stdout.take().into_iter().flat_map(|output| BufReader::new(output).split(b'\n'));
    lines.map_while(Result::ok).for_each(|line| hear(&String::from_utf8_lossy(&line)));
    let status = child.wait();
    finish(&child)?;
    status.with_context(|| format!("cannot wait for {name}"))
}

/// How a race of programs ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Race {
    AllSucceeded,
    OneFailed,
    OutOfTime,
}

/// Runs programs beside each other, as [`run`] does one, until one has failed, all have succeeded, or the limit has passed. Then
/// none of them runs any more.
pub(crate) fn race(commands: &mut [Command], limit: Duration) -> Result<Race> {
    let mut children = Vec::new();
    let started = commands.iter_mut().try_for_each(|command| {
        children.push(start(command)?.1);
        anyhow::Ok(())
    });
    let race = if started.is_ok() { await_race(&mut children, limit) } else { Race::OneFailed };
    for child in &mut children {
        if matches!(child.try_wait(), Ok(None)) {
            // It may just have ended by itself.
            let _ = signal_group(child.id(), Signal::Kill);
        }
        child.wait().context("cannot wait for a program that was killed")?;
    }
    children.iter().try_for_each(finish)?;
    started.map(|()| race)
}

fn await_race(children: &mut [Child], limit: Duration) -> Race {
    let mut race = Race::OutOfTime;
    let _ = wait_until("the end of the race", limit, || {
        let ended: Vec<_> = children.iter_mut().filter_map(|child| child.try_wait().transpose()).collect();
        if ended.iter().any(|status| !status.as_ref().is_ok_and(ExitStatus::success)) {
            race = Race::OneFailed;
        } else if ended.len() == children.len() {
            race = Race::AllSucceeded;
        }
        race != Race::OutOfTime
    });
    race
}

fn start(command: &mut Command) -> Result<(String, Child)> {
    check()?;
    let name = command.get_program().display().to_string();
    let child = command.process_group(0).stdin(Stdio::null()).spawn().with_context(|| format!("cannot run {name}"))?;
    working().push(child.id());
    if check().is_err() {
        // The signal came before there was anything to end.
        signal_working(Signal::Terminate);
    }
    Ok((name, child))
}

fn finish(child: &Child) -> Result<(), Interrupted> {
    working().retain(|leader| *leader != child.id());
    check()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut shell = Command::new("sh");
        shell.args(["-c", script]);
        shell
    }

    #[test]
    fn a_race_ends_with_the_first_failure_or_the_last_success_or_the_limit() {
        let ample = Duration::from_secs(60);
        let cases = [
            (&["true", "true"][..], ample, Race::AllSucceeded),
            (&["sleep 600", "false"], ample, Race::OneFailed),
            (&["true", "sleep 600"], Duration::from_millis(50), Race::OutOfTime),
        ];
        for (scripts, limit, expected) in cases {
            let mut commands: Vec<Command> = scripts.iter().map(|script| shell(script)).collect();
            assert_eq!(race(&mut commands, limit).unwrap(), expected, "{scripts:?}");
        }
    }

    #[test]
    fn each_line_is_heard_whatever_is_in_it_and_so_is_how_it_ended() {
        let mut heard = Vec::new();
        let status =
            run_heard(&mut shell("printf 'one\\ntwo \\377\\nthree'; exit 3"), |line| heard.push(line.to_owned()));
        assert_eq!((heard.join("|").as_str(), status.unwrap().code()), ("one|two \u{fffd}|three", Some(3)));
    }

    #[test]
    fn whoever_has_not_ended_when_the_race_has_is_killed_with_its_children() {
        let (mut said, says) = std::io::pipe().unwrap();
        let mut slow = shell("(sleep 20; echo 'I am here still') & wait");
        slow.stdout(says);
        let mut commands = [slow, shell("sleep 0.2; false")];
        assert_eq!(race(&mut commands, Duration::from_secs(60)).unwrap(), Race::OneFailed);
        drop(commands);
        // It ends only once nobody is left who could say anything.
        assert_eq!(std::io::read_to_string(&mut said).unwrap(), "");
    }
}
