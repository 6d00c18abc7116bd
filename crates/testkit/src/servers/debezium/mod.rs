//! Debezium itself: its PostgreSQL connector in a standalone Kafka Connect, that tests may stop and kill.
//!
//! It is the oracle of conformance and the predecessor in a handover. One process runs any number of connectors, which
//! are put and removed by its REST interface; a connector's configuration is what the caller says and nothing else. What it
//! published and how far it confirmed are seen on the broker, on the slot and in its file of offsets.

mod builder;
#[cfg(feature = "clients")]
mod connectors;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub use builder::DebeziumBuilder;
#[cfg(feature = "clients")]
pub use connectors::{Connectors, Task};

use super::daemon::Daemon;
use super::jars::Jars;
use super::process::{Lifetime, Process, Signal, command};
use super::scratch::Place;
use super::{Result, daemon};

/// Connect and the connector. The client's own choice of slf4j would log nothing, so it is named.
pub(super) const DEBEZIUM: Jars = Jars {
    name: "debezium",
    version: "3.6.1.Final",
    size: "41 MB",
    artifacts: &[
        "org.apache.kafka:connect-runtime:4.3.1",
        "org.apache.kafka:connect-json:4.3.1",
        "io.debezium:debezium-api:3.6.1.Final",
        "io.debezium:debezium-embedded:3.6.1.Final",
        "io.debezium:debezium-connector-postgres:3.6.1.Final",
        "org.slf4j:slf4j-api:2.0.17",
        "org.apache.logging.log4j:log4j-slf4j2-impl:2.25.3",
        "org.apache.logging.log4j:log4j-core:2.25.3",
    ],
};

const SERVER: &str = "Kafka Connect";
const START_LIMIT: Duration = Duration::from_secs(120);

/// What Connect logs when its REST interface answers.
const READY: &str = "Kafka Connect started";

/// A Connect with its own folder, port and log. Dropped, it is gone with its data.
#[derive(Debug)]
pub struct Debezium {
    #[cfg_attr(not(feature = "clients"), allow(dead_code, reason = "only its REST client asks for it"))]
    port: u16,
    layout: Layout,
    daemon: Daemon,
    // Last: removed only when the process is gone.
    _place: Place,
}

/// Where the parts of a Connect lie.
#[derive(Clone, Debug)]
struct Layout {
    properties: PathBuf,
    logging: PathBuf,
    log: PathBuf,
    offsets: PathBuf,
    /// Empty: everything is on the class path.
    plugins: PathBuf,
}

impl Layout {
    fn below(folder: &Path) -> Self {
        Self {
            properties: folder.join("worker.properties"),
            logging: folder.join("log4j2.properties"),
            log: folder.join("log"),
            offsets: folder.join("offsets"),
            plugins: folder.join("plugins"),
        }
    }

    fn log_text(&self) -> String {
        daemon::log_text(&self.log)
    }
}

impl Debezium {
    /// A Connect to be described, that writes to the broker at `bootstrap`.
    #[must_use]
    pub fn builder(bootstrap: &str) -> DebeziumBuilder {
        DebeziumBuilder::new(bootstrap)
    }

    /// The worker's configuration.
    #[must_use]
    pub fn properties(&self) -> &Path {
        &self.layout.properties
    }

    /// The file of the offsets, in Connect's own form: there once something was flushed.
    #[must_use]
    pub fn offsets(&self) -> &Path {
        &self.layout.offsets
    }

    /// All that it has logged.
    #[must_use]
    pub fn log(&self) -> String {
        self.layout.log_text()
    }

    /// Asks it to stop, as an operator would, and waits until it has flushed its offsets and ended; returns how long
    /// that took.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`](super::Error::TimedOut) when it still runs after `limit`.
    pub fn stop(&mut self, limit: Duration) -> Result<Duration> {
        self.daemon.stop(Signal::Terminate, limit)
    }

    /// Kills it, as a loss of power would, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`](super::Error::TimedOut) when the kernel does not let go of it.
    pub fn kill9(&mut self) -> Result<()> {
        self.daemon.kill9()
    }
}

impl Drop for Debezium {
    fn drop(&mut self) {
        // Its data goes too: nothing is lost by a kill. Whatever is left dies with us.
        let _ = self.kill9();
    }
}

fn spawn(layout: &Layout, lifetime: Lifetime) -> Result<Process> {
    let mut command = command("java", lifetime, None);
    command.args(["-Xms128m", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
    command.arg(format!("-Dlog4j2.configurationFile={}", layout.logging.display()));
    // Dates in texts are those of the machine otherwise.
    command.args(["-Duser.timezone=UTC", "-Dfile.encoding=UTF-8", "-cp"]).arg(DEBEZIUM.class_path()?);
    command.arg("org.apache.kafka.connect.cli.ConnectStandalone").arg(&layout.properties);
    daemon::log_into(&mut command, &layout.log, SERVER)?;
    Process::spawn(command, SERVER)
}

fn wait_until_ready(layout: &Layout, logged: usize, process: &mut Process) -> Result<()> {
    daemon::wait_until_logged(SERVER, process, START_LIMIT, READY, &layout.log, logged)
}
