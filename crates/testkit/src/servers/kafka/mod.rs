//! One Kafka broker that is its own controller, that tests may stop, stall and kill.

#[cfg(feature = "clients")]
mod acls;
pub(super) mod archive;
mod builder;
#[cfg(feature = "clients")]
mod probe;
#[cfg(feature = "clients")]
mod topics;
#[cfg(feature = "clients")]
mod users;

use std::path::{Path, PathBuf};
use std::time::Duration;

#[cfg(feature = "clients")]
pub use acls::{Operation, Resource};
pub use builder::KafkaBuilder;
#[cfg(feature = "clients")]
pub use users::{KafkaUser, Right};

use super::daemon::Daemon;
use super::install::java_arguments;
use super::jars::Jars;
use super::process::{Identity, Lifetime, Process, Signal, command};
use super::scratch::Place;
use super::{Certificates, Result, SmallDisk, daemon};

/// Kafka and what its programs log through; the versions go together.
pub(super) const KAFKA: Jars = Jars {
    name: "kafka",
    version: "4.4.0",
    size: "54 MB",
    artifacts: &[
        "org.apache.kafka:kafka_2.13:4.4.0",
        "org.apache.kafka:kafka-tools:4.4.0",
        "org.apache.logging.log4j:log4j-slf4j-impl:2.25.3",
        "org.apache.logging.log4j:log4j-core:2.25.3",
    ],
};

const SERVER: &str = "Kafka";
const START_LIMIT: Duration = Duration::from_secs(120);

/// What the broker logs as its last step, after it has registered with the controller and may serve.
const READY: &str = "Kafka Server started";

/// How a broker is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KafkaEndpoint {
    bootstrap: String,
}

impl KafkaEndpoint {
    /// The broker at `host:port`.
    #[must_use]
    pub fn at(bootstrap: &str) -> Self {
        Self { bootstrap: bootstrap.to_owned() }
    }

    /// Its `bootstrap.servers`.
    #[must_use]
    pub fn bootstrap(&self) -> &str {
        &self.bootstrap
    }
}

/// A broker with its own data, ports and log. Dropped, it is gone with its data, unless it was started to be kept.
#[derive(Debug)]
pub struct Kafka {
    endpoint: KafkaEndpoint,
    sasl_bootstrap: Option<String>,
    proxied_port: Option<u16>,
    controller: u16,
    certificates: Option<Certificates>,
    layout: Layout,
    daemon: Daemon,
    // Last: removed only when the process is gone.
    place: Place,
}

/// Where the parts of a broker lie.
#[derive(Clone, Debug)]
struct Layout {
    properties: PathBuf,
    logging: PathBuf,
    log: PathBuf,
    data: PathBuf,
    /// What `java` is started with, and its own name.
    java: Vec<String>,
}

impl Layout {
    fn below(folder: &Path) -> Self {
        Self {
            properties: folder.join("server.properties"),
            logging: folder.join("log4j2.properties"),
            log: folder.join("log"),
            data: folder.join("data"),
            java: vec!["java".to_owned()],
        }
    }

    /// As that, but with the data on a disk of its own.
    fn with_data_on(mut self, disk: &SmallDisk) -> Self {
        self.data = disk.path().join("data");
        self.java = disk.entry().into_iter().chain(self.java).collect();
        self
    }

    fn log_text(&self) -> String {
        daemon::log_text(&self.log)
    }
}

impl Kafka {
    /// A broker with the defaults of [`Kafka::builder`].
    ///
    /// # Errors
    ///
    /// As [`KafkaBuilder::start`].
    pub fn start() -> Result<Self> {
        Self::builder().start()
    }

    /// A broker to be described: by default plain text without authentication, and topics are made by hand only.
    #[must_use]
    pub fn builder() -> KafkaBuilder {
        KafkaBuilder::default()
    }

    /// How it is reached, in plain text.
    #[must_use]
    pub fn endpoint(&self) -> &KafkaEndpoint {
        &self.endpoint
    }

    /// Its `bootstrap.servers`, in plain text.
    #[must_use]
    pub fn bootstrap(&self) -> &str {
        self.endpoint.bootstrap()
    }

    /// Its `bootstrap.servers` for SASL over TLS, if it was built with that.
    #[must_use]
    pub fn sasl_bootstrap(&self) -> Option<&str> {
        self.sasl_bootstrap.as_deref()
    }

    /// Where a proxy finds it, if it was built to be reached by one.
    #[must_use]
    pub fn proxied_port(&self) -> Option<u16> {
        self.proxied_port
    }

    /// The certificates, if it was built with SASL over TLS.
    #[must_use]
    pub fn certificates(&self) -> Option<&Certificates> {
        self.certificates.as_ref()
    }

    /// The process while it runs.
    #[must_use]
    pub fn identity(&self) -> Option<Identity> {
        self.daemon.identity()
    }

    /// All that it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.layout.log_text()
    }

    /// Asks it to stop, as an operator would, and waits until it has; returns how long that took.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`](super::Error::TimedOut) when it still runs after `limit`.
    pub fn stop(&mut self, limit: Duration) -> Result<Duration> {
        self.daemon.stop(Signal::Terminate, limit)
    }

    /// Starts it again on the same data and ports, after it was stopped, killed or has died; waits until it is ready.
    ///
    /// # Errors
    ///
    /// [`Error::Ended`](super::Error::Ended) or [`Error::TimedOut`](super::Error::TimedOut) when it does not come up.
    pub fn start_again(&mut self) -> Result<()> {
        if self.daemon.is_running() {
            return Ok(());
        }
        let logged = self.log().len();
        let process = self.daemon.begin(spawn(&self.layout, self.place.lifetime(), &[])?);
        wait_until_ready(&self.layout, logged, process)
    }

    /// Stops it and starts it again.
    ///
    /// # Errors
    ///
    /// As [`Kafka::stop`] and [`Kafka::start_again`].
    pub fn restart(&mut self) -> Result<()> {
        self.stop(START_LIMIT)?;
        self.start_again()
    }

    /// Kills it, as a loss of power would, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`](super::Error::TimedOut) when the kernel does not let go of it.
    pub fn kill9(&mut self) -> Result<()> {
        self.daemon.kill9()
    }

    /// Freezes it: connections stay open, and nothing answers.
    ///
    /// # Errors
    ///
    /// [`Error::Command`](super::Error::Command) when the signal is refused.
    pub fn sigstop(&self) -> Result<()> {
        self.daemon.signal(Signal::Stop)
    }

    /// Lets a frozen broker go on.
    ///
    /// # Errors
    ///
    /// [`Error::Command`](super::Error::Command) when the signal is refused.
    pub fn sigcont(&self) -> Result<()> {
        self.daemon.signal(Signal::Continue)
    }
}

impl Drop for Kafka {
    fn drop(&mut self) {
        if self.place.lifetime() == Lifetime::WithUs {
            // Its data goes too: nothing is lost by a kill. Whatever is left dies with us.
            let _ = self.kill9();
        }
    }
}

/// With `options` for the Java machine besides the usual ones.
fn spawn(layout: &Layout, lifetime: Lifetime, options: &[String]) -> Result<Process> {
    let mut command = command("env", lifetime, None);
    command.args(&layout.java).arg(format!("-Dlog4j2.configurationFile={}", layout.logging.display()));
    // Native libraries are unpacked there, and go with the rest.
    command.arg(format!("-Djava.io.tmpdir={}", layout.log.parent().unwrap_or(&layout.log).display()));
    command.args(options).args(java_arguments("kafka.Kafka")?).arg(&layout.properties);
    daemon::log_into(&mut command, &layout.log, SERVER)?;
    Process::spawn(command, SERVER)
}

fn wait_until_ready(layout: &Layout, logged: usize, process: &mut Process) -> Result<()> {
    daemon::wait_until_logged(SERVER, process, START_LIMIT, READY, &layout.log, logged)
}
