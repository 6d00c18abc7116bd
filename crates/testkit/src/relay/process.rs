//! A process of the relay.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitStatus};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use super::Error;
use super::http::{Answer, ask};
use super::lines::{Awaited, Lines};
use crate::consumer::{self, Received, parse_line};
use crate::servers::{Identity, Scratch, Signal, wait_until};

/// How long a killed process may take to be gone.
const KILL_LIMIT: Duration = Duration::from_secs(10);

/// How a process ended, and all that it wrote.
#[derive(Clone, Debug)]
pub struct Ended {
    /// How it ended.
    pub status: ExitStatus,
    /// Its standard output.
    pub output: String,
    /// Its log.
    pub log: String,
    /// Whether its output ends within a line.
    is_torn: bool,
}

impl Ended {
    /// Its exit code; `None` when a signal ended it.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.status.code()
    }

    /// The number of the signal that ended it.
    #[must_use]
    pub fn signal(&self) -> Option<i32> {
        self.status.signal()
    }

    /// The records on its standard output. A line that was torn by its end is none.
    ///
    /// # Errors
    ///
    /// [`consumer::Error::Line`] for a line that is none.
    pub fn records(&self) -> Result<Vec<Received>, consumer::Error> {
        let lines = self.output.lines().count();
        records(self.output.lines().take(lines - usize::from(self.is_torn && lines > 0)))
    }

    /// Fails the test unless it ended with this code and said all of this, in its output or its log.
    ///
    /// # Panics
    ///
    /// With all that it wrote when it did not.
    #[track_caller]
    pub fn assert_said(&self, code: i32, words: &[&str]) {
        let Self { status, output, log, .. } = self;
        assert!(self.code() == Some(code), "ended with {status} instead of {code}; output:\n{output}\nlog:\n{log}");
        for word in words {
            let is_said = output.contains(word) || log.contains(word);
            assert!(is_said, "did not say {word:?}; output:\n{output}\nlog:\n{log}");
        }
    }

    /// Fails the test unless it ended well.
    ///
    /// # Panics
    ///
    /// With all that it wrote when it did not.
    #[track_caller]
    pub fn assert_success(&self) {
        self.assert_said(0, &[]);
    }
}

/// A running relay. Dropped, it is killed; if a test is failing, its log is shown.
#[derive(Debug)]
pub struct Relay {
    child: Child,
    identity: Identity,
    log: Lines,
    output: Lines,
    readers: Vec<JoinHandle<()>>,
    // Last: removed only when the process is gone.
    _folder: Arc<Scratch>,
}

impl Relay {
    pub(super) fn spawn(mut command: Command, folder: Arc<Scratch>) -> Result<Self, Error> {
        let mut child = command.spawn().map_err(Error::io("start the relay"))?;
        // Not reaped yet, so its entry is there even if it has ended.
        let gone = || Error::io("find the relay in /proc")(std::io::ErrorKind::NotFound.into());
        let identity = Identity::of(child.id()).ok_or_else(gone)?;
        let (Some(errors), Some(output)) = (child.stderr.take(), child.stdout.take()) else { return Err(gone()) };
        let (log, log_reader) = Lines::collect(errors);
        let (output, output_reader) = Lines::collect(output);
        Ok(Self { child, identity, log, output, readers: vec![log_reader, output_reader], _folder: folder })
    }

    /// Its process number.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.identity.pid()
    }

    /// Whether it still runs.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.identity.is_alive()
    }

    /// All that it has logged so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.log.since(0).join("\n")
    }

    /// How many lines it has logged so far; see [`Relay::wait_for_log_since`].
    #[must_use]
    pub fn log_lines(&self) -> usize {
        self.log.count()
    }

    /// Waits for a line of its log that contains `text`, and returns it.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`], [`Error::EndedEarly`], both with its log.
    pub fn wait_for_log(&self, text: &str, limit: Duration) -> Result<String, Error> {
        self.wait_for_log_since(0, text, limit)
    }

    /// As [`Relay::wait_for_log`], leaving out the first `lines` lines.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn wait_for_log_since(&self, lines: usize, text: &str, limit: Duration) -> Result<String, Error> {
        self.awaited(self.log.wait_for(text, lines, limit), &format!("the log line {text:?}"), limit)
    }

    /// Waits until it has written so many records to its standard output, and reads them all.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`], [`Error::EndedEarly`], both with its log.
    pub fn wait_for_output(&self, records: usize, limit: Duration) -> Result<Vec<Received>, Error> {
        let waiting_for = format!("{records} lines of output (there are {})", self.output.count());
        self.awaited(self.output.wait_for_count(records, limit), &waiting_for, limit)?;
        self.output().map_err(|error| Error::io("read the relay's output")(std::io::Error::other(error.to_string())))
    }

    /// The records that it has written to its standard output so far.
    ///
    /// # Errors
    ///
    /// [`consumer::Error::Line`] for a line that is none.
    pub fn output(&self) -> Result<Vec<Received>, consumer::Error> {
        let lines = self.output.since(0);
        records(lines.iter().map(String::as_str))
    }

    /// Takes no more of its standard output, so that it has to wait when the pipe is full; or takes it again.
    pub fn stall_output(&self, is_stalled: bool) {
        self.output.stall(is_stalled);
    }

    /// Where it answers over HTTP.
    ///
    /// # Errors
    ///
    /// As [`Relay::wait_for_log`]; it answers nowhere, or has not said where.
    pub fn http_address(&self, limit: Duration) -> Result<SocketAddr, Error> {
        let line = self.wait_for_log("serving /metrics", limit)?;
        let address = line.split("address=").nth(1).and_then(|rest| rest.split_whitespace().next()?.parse().ok());
        address.ok_or_else(|| Error::io("find the relay's address in its log")(std::io::ErrorKind::InvalidData.into()))
    }

    /// Asks it over HTTP.
    ///
    /// # Errors
    ///
    /// As there, or it does not answer in time.
    pub fn get(&self, path: &str, limit: Duration) -> Result<Answer, Error> {
        ask(self.http_address(limit)?, "GET", path).map_err(Error::io("ask the relay over HTTP"))
    }

    fn awaited(&self, awaited: Awaited, waiting_for: &str, limit: Duration) -> Result<String, Error> {
        let (waiting_for, log) = (waiting_for.to_owned(), self.log.tail());
        match awaited {
            Awaited::Line(line) => Ok(line),
            Awaited::Ended => Err(Error::EndedEarly { waiting_for, log }),
            Awaited::TimedOut => Err(Error::TimedOut { waiting_for, limit, log }),
        }
    }

    /// Asks it to stop, as an operator would.
    ///
    /// # Errors
    ///
    /// When the signal is refused.
    pub fn sigterm(&self) -> Result<(), Error> {
        Ok(self.identity.signal(Signal::Terminate)?)
    }

    /// Freezes it.
    ///
    /// # Errors
    ///
    /// When the signal is refused.
    pub fn sigstop(&self) -> Result<(), Error> {
        Ok(self.identity.signal(Signal::Stop)?)
    }

    /// Lets it go on.
    ///
    /// # Errors
    ///
    /// When the signal is refused.
    pub fn sigcont(&self) -> Result<(), Error> {
        Ok(self.identity.signal(Signal::Continue)?)
    }

    /// Sends it any signal.
    ///
    /// # Errors
    ///
    /// When the signal is refused.
    pub fn signal(&self, signal: Signal) -> Result<(), Error> {
        Ok(self.identity.signal(signal)?)
    }

    /// Kills it and waits until it is gone.
    ///
    /// # Errors
    ///
    /// When the kernel does not let go of it.
    pub fn kill9(mut self) -> Result<Ended, Error> {
        self.child.kill().map_err(Error::io("kill the relay"))?;
        self.wait_by_ref(KILL_LIMIT)
    }

    /// Asks it to stop and waits until it has.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] when it has not after `limit`; it is killed then.
    pub fn stop(self, limit: Duration) -> Result<Ended, Error> {
        self.sigterm()?;
        self.wait(limit)
    }

    /// Waits until it has ended by itself.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] when it has not after `limit`; it is killed then.
    pub fn wait(mut self, limit: Duration) -> Result<Ended, Error> {
        self.wait_by_ref(limit)
    }

    fn wait_by_ref(&mut self, limit: Duration) -> Result<Ended, Error> {
        let mut status = None;
        let waited = wait_until("the end of the relay", limit, || {
            status = self.child.try_wait().ok().flatten();
            status.is_some()
        });
        let timed_out =
            || Error::TimedOut { waiting_for: "the end of the relay".to_owned(), limit, log: self.log.tail() };
        let (Ok(_), Some(status)) = (waited, status) else { return Err(timed_out()) };
        self.output.stall(false);
        for reader in self.readers.drain(..) {
            // One that panicked is reported by its own message.
            let _ = reader.join();
        }
        let output = self.output.since(0).join("\n");
        Ok(Ended { status, output, log: self.log(), is_torn: self.output.is_torn() })
    }

    /// The most memory that it has held so far, in bytes.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn peak_memory(&self) -> Result<u64, Error> {
        self.memory("VmHWM:")
    }

    /// The memory that it holds, in bytes.
    ///
    /// # Errors
    ///
    /// When it has ended.
    pub fn memory_now(&self) -> Result<u64, Error> {
        self.memory("VmRSS:")
    }

    fn memory(&self, field: &str) -> Result<u64, Error> {
        let path = format!("/proc/{}/status", self.pid());
        let status = fs::read_to_string(&path).map_err(Error::io(format_args!("read {path}")))?;
        let kibibytes =
            status.lines().find_map(|line| line.strip_prefix(field)?.trim().strip_suffix(" kB")?.parse().ok());
        let missing = || Error::io(format_args!("find {field} in {path}"))(std::io::ErrorKind::InvalidData.into());
        kibibytes.map(|kibibytes: u64| kibibytes * 1024).ok_or_else(missing)
    }
}

fn records<'a>(lines: impl Iterator<Item = &'a str>) -> Result<Vec<Received>, consumer::Error> {
    (0..).zip(lines).map(|(number, line)| parse_line(number, line)).collect()
}

impl Drop for Relay {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            eprintln!("the log of the relay {}:\n{}", self.pid(), self.log.tail());
        }
    }
}
