//! One PostgreSQL server, that tests may stop, stall and kill.

mod builder;
mod endpoint;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

pub use builder::{Authentication, PostgresBuilder};
pub use endpoint::{Database, PostgresEndpoint, Row};

use super::account::Account;
use super::daemon::Daemon;
use super::process::{Identity, Lifetime, Process, Signal, command};
use super::scratch::Place;
use super::{Certificates, Result, daemon};

const SERVER: &str = "PostgreSQL";
const START_LIMIT: Duration = Duration::from_secs(60);

/// How PostgreSQL is asked to stop; the names are those of `pg_ctl stop -m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Waits for all clients to leave.
    Smart,
    /// Ends its clients, waits until the walsenders have sent everything, and writes a checkpoint.
    Fast,
    /// Ends at once; the next start recovers.
    Immediate,
}

/// A server with its own data, port and log. Dropped, it is gone with its data, unless it was started to be kept.
#[derive(Debug)]
pub struct Postgres {
    endpoint: PostgresEndpoint,
    certificates: Option<Certificates>,
    layout: Layout,
    account: Option<Account>,
    daemon: Daemon,
    // Last: removed only when the process is gone.
    place: Place,
}

/// Where the parts of a server lie.
#[derive(Clone, Debug)]
struct Layout {
    programs: PathBuf,
    data: PathBuf,
    log: PathBuf,
}

impl Postgres {
    /// A server with the defaults of [`Postgres::builder`].
    ///
    /// # Errors
    ///
    /// As [`PostgresBuilder::start`].
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// A server to be described: by default the newest one installed, `wal_level = logical`, slots and connections to
    /// spare, no fsync, `trust` for everybody, no TLS.
    #[must_use]
    pub fn builder() -> PostgresBuilder {
        PostgresBuilder::default()
    }

    /// How it is reached.
    #[must_use]
    pub fn endpoint(&self) -> &PostgresEndpoint {
        &self.endpoint
    }

    /// The URL of one of its databases, for its superuser.
    #[must_use]
    pub fn url(&self, database: &str) -> String {
        self.endpoint.url(database)
    }

    /// As [`PostgresEndpoint::psql`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn psql(&self, database: &str, sql: &str) -> Result<Vec<Row>> {
        self.endpoint.psql(database, sql)
    }

    /// The certificates, if it was built with TLS.
    #[must_use]
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// The process while it runs.
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        self.daemon.identity()
    }

    /// The folder of its programs, and of those that came with them.
    #[must_use]
    pub fn programs(&self) -> &Path {
        &self.layout.programs
    }

    /// Its data folder.
    #[must_use]
    pub fn data(&self) -> &Path {
        &self.layout.data
    }

    /// All that it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        daemon::log_text(&self.layout.log)
    }

    /// Asks it to stop and waits until it has; returns how long that took. If it has not after `limit`, it runs on.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`](super::Error::TimedOut) when it still runs after `limit`.
    pub fn stop(&mut self, mode: Stop, limit: Duration) -> Result<Duration> {
        self.daemon.stop(mode.signal(), limit)
    }

    /// Starts it again on the same data and port, after it was stopped, killed or has died; waits until it is ready.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`](super::Error::Ended) or [`Error::TimedOut`](super::Error::TimedOut) when it does not come up.
    pub fn start_again(&mut self) -> Result<()> {
        if self.daemon.is_running() {
            return Ok(());
        }
        self.begin_to_start()?;
        self.wait_until_ready()
    }

    /// As [`Postgres::start_again`], for one that runs no more, and without a wait: something may be in its way.
    ///
    /// # Errors
    ///
    /// [`Error::Io`](super::Error::Io) when its program cannot be started.
    pub fn begin_to_start(&mut self) -> Result<()> {
        self.daemon.begin(spawn(&self.layout, self.account.as_ref(), self.place.lifetime())?);
        Ok(())
    }

    /// Waits until it lets clients in.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`](super::Error::Ended) or [`Error::TimedOut`](super::Error::TimedOut) when it does not come to that.
    pub fn wait_until_ready(&mut self) -> Result<()> {
        self.daemon.process().map_or(Ok(()), |process| wait_until_ready(&self.layout, process))
    }

    /// Stops it and starts it again.
    ///
    /// # Errors
    ///
    /// As [`Postgres::stop`] and [`Postgres::start_again`].
    pub fn restart(&mut self, mode: Stop) -> Result<()> {
        self.stop(mode, START_LIMIT)?;
        self.start_again()
    }

    /// Kills all of its processes, as a loss of power would, and waits until they are gone.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`](super::Error::TimedOut) when the kernel does not let go of them.
    pub fn kill9(&mut self) -> Result<()> {
        self.daemon.kill9()
    }

    /// Kills its main process alone, and waits until the others have noticed and are gone, without which it could not start again.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`](super::Error::TimedOut) when one of them stays.
    pub fn kill9_postmaster(&mut self) -> Result<()> {
        let Some(mut process) = self.daemon.take() else { return Ok(()) };
        let family = process.identity().children();
        process.identity().signal(Signal::Kill)?;
        process.wait(SERVER, START_LIMIT)?;
        let are_gone = || family.iter().all(|child| !child.is_alive());
        super::wait_until("the end of the postmaster's orphans", START_LIMIT, are_gone).map(drop)
    }

    /// Freezes all of its processes: connections stay open, and nothing answers.
    ///
    /// # Errors
    ///
    /// [`Error::Command`](super::Error::Command) when the signal is refused.
    pub fn sigstop(&self) -> Result<()> {
        self.daemon.signal(Signal::Stop)
    }

    /// Lets a frozen server go on.
    ///
    /// # Errors
    ///
    /// [`Error::Command`](super::Error::Command) when the signal is refused.
    pub fn sigcont(&self) -> Result<()> {
        self.daemon.signal(Signal::Continue)
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        if self.place.lifetime() == Lifetime::OnItsOwn {
            return;
        }
        if let Some(process) = self.daemon.process() {
            end(process);
        }
        forget_shared_memory(&self.layout.data);
    }
}

/// Ends a server whose data goes too.
fn end(process: &mut Process) {
    // An immediate stop also ends the server's own children; frozen, it could not hear it.
    let stopped = process
        .signal_family(Signal::Continue)
        .and_then(|()| process.identity().signal(Stop::Immediate.signal()))
        .and_then(|()| process.wait(SERVER, Duration::from_secs(6)));
    if stopped.is_err() {
        // Whatever is left dies with us.
        let _ = process.kill(SERVER);
    }
}

/// Lets go of what a killed server left: its `postmaster.pid` names the segment in the seventh line, after its key.
fn forget_shared_memory(data: &Path) {
    let file = fs::read_to_string(data.join("postmaster.pid")).unwrap_or_default();
    let Some(segment) = file.lines().nth(6).and_then(|line| line.split_whitespace().nth(1)) else { return };
    // Gone already is as good.
    let _ = Command::new("ipcrm").args(["--shmem-id", segment]).stderr(Stdio::null()).status();
}

impl Stop {
    /// The signal that stands for it: "Shutting Down the Server" in PostgreSQL's manual.
    fn signal(self) -> Signal {
        match self {
            Self::Smart => Signal::Terminate,
            Self::Fast => Signal::Interrupt,
            Self::Immediate => Signal::Quit,
        }
    }
}

fn spawn(layout: &Layout, account: Option<&Account>, lifetime: Lifetime) -> Result<Process> {
    let mut command = command(layout.programs.join("postgres"), lifetime, account);
    command.arg("-D").arg(&layout.data).current_dir("/");
    daemon::log_into(&mut command, &layout.log, SERVER)?;
    Process::spawn(command, SERVER)
}

/// By the status line of `postmaster.pid`, as `pg_ctl start` does.
fn wait_until_ready(layout: &Layout, process: &mut Process) -> Result<()> {
    let pid = process.identity().pid().to_string();
    let file = || fs::read_to_string(layout.data.join("postmaster.pid")).unwrap_or_default();
    let log = || daemon::log_text(&layout.log);
    daemon::wait_until_ready(SERVER, process, START_LIMIT, || is_ready(&file(), &pid), log)
}

/// The first line of `postmaster.pid` is the process, the eighth its status.
fn is_ready(file: &str, pid: &str) -> bool {
    let mut lines = file.lines().map(str::trim);
    lines.next() == Some(pid) && matches!(lines.nth(6), Some("ready" | "standby"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_status_of_this_very_process_counts() {
        let file = "12\n/data\n1700000000\n15000\n/sockets\n127.0.0.1\n  1 2\nready   \n";
        assert!(is_ready(file, "12"));
        assert!(!is_ready(file, "13"));
        assert!(!is_ready(&file.replace("ready   ", "starting"), "12"));
        assert!(!is_ready("12\n", "12"));
        assert!(!is_ready("", "12"));
    }

    #[test]
    fn a_server_keeps_what_was_committed_through_every_kind_of_end() {
        let mut postgres = Postgres::builder().fsync(true).start().unwrap();
        postgres.psql("postgres", "CREATE TABLE kept (id int)").unwrap();
        let mut count = 0;
        let mut insert = |postgres: &Postgres| {
            count += 1;
            postgres.psql("postgres", &format!("INSERT INTO kept VALUES ({count})")).unwrap();
            assert_eq!(postgres.endpoint().value("postgres", "SELECT count(*) FROM kept").unwrap(), count.to_string());
        };
        insert(&postgres);
        postgres.restart(Stop::Fast).unwrap();
        insert(&postgres);
        postgres.restart(Stop::Immediate).unwrap();
        insert(&postgres);
        postgres.kill9().unwrap();
        assert!(postgres.identity().is_none());
        assert!(postgres.psql("postgres", "SELECT 1").is_err());
        postgres.start_again().unwrap();
        insert(&postgres);
    }

    #[test]
    fn a_dropped_server_is_gone_with_its_data() {
        let postgres = Postgres::start().unwrap();
        let (identity, data) = (postgres.identity().unwrap(), postgres.data().to_owned());
        assert!(identity.is_alive() && data.is_dir());
        drop(postgres);
        assert!(!identity.is_alive());
        assert!(!data.exists());
    }

    #[test]
    fn a_frozen_server_can_still_be_dropped() {
        let postgres = Postgres::start().unwrap();
        let identity = postgres.identity().unwrap();
        postgres.sigstop().unwrap();
        drop(postgres);
        assert!(!identity.is_alive());
    }

    #[test]
    fn a_setting_that_the_server_refuses_is_named() {
        let refused = Postgres::builder().setting("no_such_setting", "1").start().unwrap_err();
        assert!(refused.to_string().contains("no_such_setting"), "{refused}");
    }

    #[test]
    fn with_scram_and_tls_only_the_right_password_over_tls_comes_in() {
        let built = Postgres::builder().authentication(Authentication::Scram { password: "p w'd".to_owned() }).tls();
        let postgres = built.hba("hostnossl all all all reject").start().unwrap();
        let authority = postgres.certificates().unwrap().authority.display().to_string();
        let url = format!("{}?sslmode=verify-full&sslrootcert={authority}", postgres.url("postgres"));
        let used = "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()";
        assert_eq!(PostgresEndpoint::at(&url).unwrap().psql("postgres", used).unwrap(), [["t"]]);
        for (change, into) in [("p%20w%27d", "wrong"), ("sslmode=verify-full", "sslmode=disable")] {
            let refused = PostgresEndpoint::at(&url.replace(change, into)).unwrap().psql("postgres", used);
            assert!(refused.is_err(), "{into}");
        }
    }

    #[test]
    fn a_copy_of_a_stopped_server_is_the_same_system() {
        let mut original = Postgres::start().unwrap();
        let system = "SELECT system_identifier FROM pg_control_system()";
        let identifier = original.psql("postgres", system).unwrap();
        original.stop(Stop::Fast, Duration::from_secs(20)).unwrap();
        let copy = Postgres::builder().copy_of(&original).start().unwrap();
        assert_eq!(copy.psql("postgres", system).unwrap(), identifier);
        assert_ne!(copy.endpoint().port(), original.endpoint().port());
    }
}
