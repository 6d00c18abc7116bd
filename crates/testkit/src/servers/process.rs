//! The processes of servers: born so that they die with us, named so that a reused number is never signalled.

use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::str::FromStr;
use std::sync::OnceLock;
use std::sync::mpsc::{self, Sender};
use std::thread;
use std::time::Duration;

use super::account::Account;
use super::wait::Patience;
use super::{Error, Result};

/// What can be sent to a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Signal {
    /// SIGHUP
    Hangup,
    /// SIGINT
    Interrupt,
    /// SIGTERM
    Terminate,
    /// SIGQUIT
    Quit,
    /// SIGKILL
    Kill,
    /// SIGSTOP
    Stop,
    /// SIGCONT
    Continue,
}

impl Signal {
    fn name(self) -> &'static str {
        match self {
            Self::Hangup => "HUP",
            Self::Interrupt => "INT",
            Self::Terminate => "TERM",
            Self::Quit => "QUIT",
            Self::Kill => "KILL",
            Self::Stop => "STOP",
            Self::Continue => "CONT",
        }
    }
}

/// Sends a signal to a whole process group, named by its leader's number.
///
/// # Errors
///
/// [`Error::Command`] when there is no such group.
pub fn signal_group(leader: u32, signal: Signal) -> Result<()> {
    send(signal, &[format!("-{leader}")])
}

/// The shell's own `kill`: the standard library has no call for it.
fn send(signal: Signal, targets: &[String]) -> Result<()> {
    let mut shell = Command::new("sh");
    shell.args(["-c", r#"kill -s "$0" -- "$@""#, signal.name()]).args(targets);
    run(shell, &format!("kill -s {} {}", signal.name(), targets.join(" "))).map(drop)
}

/// A process as the kernel knows it: its number, which is used again, and when it began, which is not.
///
/// Its text form is `pid-start`, with the start in clock ticks since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    pid: u32,
    started: u64,
}

impl Identity {
    /// The process that has this number now.
    #[must_use]
    pub fn of(pid: u32) -> Option<Self> {
        Some(Self { pid, started: Stat::of(pid)?.started })
    }

    /// Its number.
    #[must_use]
    pub fn pid(self) -> u32 {
        self.pid
    }

    /// Whether it still runs; one that waits to be reaped does not.
    #[must_use]
    pub fn is_alive(self) -> bool {
        Stat::of(self.pid).is_some_and(|stat| stat.started == self.started && stat.state != 'Z' && stat.state != 'X')
    }

    /// Sends it a signal, unless it has ended.
    ///
    /// # Errors
    ///
    /// [`Error::Command`] when the signal was refused and the process is still there.
    pub fn signal(self, signal: Signal) -> Result<()> {
        if !self.is_alive() {
            return Ok(());
        }
        send(signal, &[self.pid.to_string()]).or_else(|refused| if self.is_alive() { Err(refused) } else { Ok(()) })
    }

    /// The processes that it started and that still run.
    #[must_use]
    pub fn children(self) -> Vec<Self> {
        let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
        let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
        pids.filter_map(|pid| {
            let stat = Stat::of(pid)?;
            (stat.parent == self.pid).then_some(Self { pid, started: stat.started })
        })
        .collect()
    }
}

impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.pid, self.started)
    }
}

impl FromStr for Identity {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let malformed = || Error::Malformed { what: "the name of a process", text: text.to_owned() };
        let (pid, started) = text.split_once('-').ok_or_else(malformed)?;
        let pid = pid.parse().map_err(|_| malformed())?;
        let started = started.parse().map_err(|_| malformed())?;
        Ok(Self { pid, started })
    }
}

/// What we need of `/proc/<pid>/stat`; proc(5) numbers the fields from the number of the process on.
struct Stat {
    state: char,
    parent: u32,
    started: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The second field is the program's name in parentheses, and may itself hold spaces and parentheses.
        let (_, fields) = text.rsplit_once(')')?;
        let mut fields = fields.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let parent = fields.next()?.parse().ok()?;
        let started = fields.nth(17)?.parse().ok()?;
        Some(Self { state, parent, started })
    }
}

/// How long a server lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lifetime {
    /// At most as long as this process: the kernel kills it otherwise.
    WithUs,
    /// Until somebody stops it.
    OnItsOwn,
}

/// A command that runs `program` with that lifetime, as `account` if one is given, away from the terminal's signals.
pub(super) fn command(program: impl AsRef<OsStr>, lifetime: Lifetime, account: Option<&Account>) -> Command {
    let mut words = match lifetime {
        Lifetime::WithUs => vec!["setpriv".to_owned(), "--pdeathsig=KILL".to_owned()],
        Lifetime::OnItsOwn => vec!["setsid".to_owned()],
    };
    if let Some(account) = account {
        if lifetime == Lifetime::OnItsOwn {
            words.push("setpriv".to_owned());
        }
        words.extend(account.setpriv_arguments());
    }
    let mut words = words.into_iter();
    let mut command = Command::new(words.next().unwrap_or_default());
    command.args(words).arg("--").arg(program).stdin(Stdio::null());
    if lifetime == Lifetime::WithUs {
        command.process_group(0);
    }
    command
}

/// A command for a program that dies with us and does not hear the terminal's signals; to be started by
/// [`spawn_dependent`].
#[must_use]
pub fn dependent(program: impl AsRef<OsStr>) -> Command {
    command(program, Lifetime::WithUs, None)
}

/// Starts a command made by [`dependent`], from a thread that lasts as long as we do.
///
/// # Errors
///
/// [`Error::Io`] when it cannot be started.
pub fn spawn_dependent(command: Command) -> Result<Child> {
    let what = format!("{command:?}");
    spawn_from_lasting_thread(command).map_err(Error::io(format_args!("start {what}")))
}

/// A server's main process, ours to wait for.
#[derive(Debug)]
pub(super) struct Process {
    child: Child,
    identity: Identity,
}

impl Process {
    /// Starts it, for as long as its command's [`Lifetime`] says.
    pub(super) fn spawn(command: Command, what: &str) -> Result<Self> {
        let child = spawn_from_lasting_thread(command).map_err(Error::io(format_args!("start {what}")))?;
        // Not reaped yet, so its entry is there even if it has ended.
        let identity = Identity::of(child.id()).ok_or_else(|| Error::Malformed {
            what: "the entry of a new process in /proc",
            text: child.id().to_string(),
        })?;
        Ok(Self { child, identity })
    }

    pub(super) fn identity(&self) -> Identity {
        self.identity
    }

    /// How it ended, if it has.
    pub(super) fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().ok().flatten()
    }

    /// Waits until it has ended.
    pub(super) fn wait(&mut self, what: &str, limit: Duration) -> Result<Duration> {
        let patience = Patience::of(limit);
        while self.ended().is_none() {
            patience.pause(&format!("the end of {what}"))?;
        }
        Ok(patience.spent())
    }

    /// Takes it and all that it started away, as a loss of power would.
    pub(super) fn kill(&mut self, what: &str) -> Result<()> {
        self.signal_family(Signal::Stop)?;
        let family = self.identity.children();
        self.identity.signal(Signal::Kill)?;
        for child in &family {
            child.signal(Signal::Kill)?;
        }
        let limit = Duration::from_secs(10);
        self.wait(what, limit)?;
        super::wait_until(&format!("the end of all processes of {what}"), limit, || {
            family.iter().all(|child| !child.is_alive())
        })?;
        Ok(())
    }

    /// Signals it first, so that it starts no more processes, and then all that it started.
    pub(super) fn signal_family(&self, signal: Signal) -> Result<()> {
        self.identity.signal(signal)?;
        self.identity.children().into_iter().try_for_each(|child| child.signal(signal))
    }
}

/// Starts a process from a thread that lasts as long as we do: the kernel ties the death signal to the thread that
/// started the process, and a test's thread ends long before a shared server may.
fn spawn_from_lasting_thread(command: Command) -> io::Result<Child> {
    type Order = (Command, Sender<io::Result<Child>>);
    static SPAWNER: OnceLock<Sender<Order>> = OnceLock::new();
    let spawner = SPAWNER.get_or_init(|| {
        let (sender, orders) = mpsc::channel::<Order>();
        thread::spawn(move || {
            for (mut command, answer) in orders {
                // Whoever asked waits for it below.
                let _ = answer.send(command.spawn());
            }
        });
        sender
    });
    let (sender, answer) = mpsc::channel();
    let gone = || io::Error::other("the thread that starts servers has ended");
    spawner.send((command, sender)).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

/// Runs a program to its end and returns what it wrote to its output.
pub(super) fn run(mut command: Command, what: &str) -> Result<String> {
    let output = command.stdin(Stdio::null()).output().map_err(Error::io(format_args!("run {what}")))?;
    check(&output, what)
}

/// The output of a program that succeeded, or what it said when it failed.
pub(super) fn check(output: &std::process::Output, what: &str) -> Result<String> {
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if output.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let said = if stderr.trim().is_empty() { tail(&stdout) } else { tail(&stderr) };
    Err(Error::Command { command: what.to_owned(), status: output.status, output: said })
}

/// The last lines of a text, enough to see why.
pub(crate) fn tail(text: &str) -> String {
    const LINES: usize = 25;
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(LINES)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sleeper(lifetime: Lifetime) -> Process {
        let mut command = command("sleep", lifetime, None);
        command.arg("600");
        Process::spawn(command, "a sleeper").unwrap()
    }

    #[test]
    fn a_program_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let text = "12 (a) S (b)) Z 7 1 1 0 -1 4 0 0 0 0 0 0 0 0 20 0 1 0 4711 0 0";
        let stat = Stat::parse(text).unwrap();
        assert_eq!((stat.state, stat.parent, stat.started), ('Z', 7, 4711));
    }

    #[test]
    fn what_is_not_a_stat_line_is_refused() {
        for text in ["", "12 (a", "12 (a)", "12 (a) S", "12 (a) S x 1", "12 (a) S 7 1 1 0 -1 4 0 0 0"] {
            assert!(Stat::parse(text).is_none(), "{text:?}");
        }
    }

    #[test]
    fn an_identity_survives_being_written_and_read() {
        let ours = Identity::of(std::process::id()).unwrap();
        assert_eq!(ours.to_string().parse::<Identity>().unwrap(), ours);
        for text in ["", "1", "-", "1-", "-1", "a-1", "1-a", "1-1-1"] {
            assert!(text.parse::<Identity>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_number_that_was_used_again_is_another_process() {
        let ours = Identity::of(std::process::id()).unwrap();
        assert!(ours.is_alive());
        assert!(!Identity { started: ours.started + 1, ..ours }.is_alive());
    }

    #[test]
    fn a_killed_process_has_ended_with_all_that_it_started() {
        let mut command = command("sh", Lifetime::WithUs, None);
        command.args(["-c", "sleep 600 & sleep 600 & wait"]);
        let mut process = Process::spawn(command, "a family").unwrap();
        super::super::wait_until("two children", Duration::from_secs(10), || process.identity().children().len() == 2)
            .unwrap();
        let children = process.identity().children();
        process.kill("the family").unwrap();
        assert!(!process.identity().is_alive());
        assert!(children.iter().all(|child| !child.is_alive()));
    }

    #[test]
    fn a_stopped_process_goes_on_when_told_to() {
        let mut process = sleeper(Lifetime::WithUs);
        let state = |process: &Process| Stat::of(process.identity().pid()).unwrap().state;
        process.signal_family(Signal::Stop).unwrap();
        super::super::wait_until("its stop", Duration::from_secs(10), || state(&process) == 'T').unwrap();
        process.signal_family(Signal::Continue).unwrap();
        super::super::wait_until("its going on", Duration::from_secs(10), || state(&process) == 'S').unwrap();
        process.kill("the sleeper").unwrap();
    }

    #[test]
    fn a_server_outlives_the_thread_that_asked_for_it_but_not_longer_than_it_is_wanted() {
        let mut process = thread::spawn(|| sleeper(Lifetime::WithUs)).join().unwrap();
        assert!(process.ended().is_none());
        process.kill("the sleeper").unwrap();
        let mut kept = sleeper(Lifetime::OnItsOwn);
        assert!(kept.identity().is_alive());
        kept.kill("the kept sleeper").unwrap();
    }

    #[test]
    fn what_a_failed_program_said_is_in_the_refusal() {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo the reason >&2; exit 3"]);
        let refused = run(shell, "a failing program").unwrap_err();
        assert!(refused.to_string().contains("the reason"), "{refused}");
    }
}
