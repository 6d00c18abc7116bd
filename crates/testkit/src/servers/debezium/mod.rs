//! Debezium itself: its PostgreSQL connector in a standalone Kafka Connect, that tests may stop and kill.
//!
//! It is the oracle of conformance and the predecessor in a handover. One process runs any number of connectors, which
//! are put and removed by its REST interface; a connector's configuration is what the caller says and nothing else. What it
//! published and how far it confirmed are seen on the broker, on the slot and in its file of offsets.

mod builder;
#[cfg(feature = "clients")]
mod connectors;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use builder::DebeziumBuilder;
#[cfg(feature = "clients")]
pub use connectors::{Connectors, Task};

use super::jars::Jars;
use super::process::{Lifetime, Process, Signal, command, tail};
use super::scratch::Place;
use super::wait::Patience;
use super::{Error, Result};

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
    process: Option<Process>,
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
        fs::read(&self.log).map(|log| String::from_utf8_lossy(&log).into_owned()).unwrap_or_default()
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
    /// [`Error::TimedOut`] when it still runs after `limit`.
    pub fn stop(&mut self, limit: Duration) -> Result<Duration> {
        let Some(process) = &mut self.process else { return Ok(Duration::ZERO) };
        process.identity().signal(Signal::Terminate)?;
        let took = process.wait(SERVER, limit)?;
        self.process = None;
        Ok(took)
    }

    /// Kills it, as a loss of power would, and waits until it is gone.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] when the kernel does not let go of it.
    pub fn kill9(&mut self) -> Result<()> {
        self.process.take().map_or(Ok(()), |mut process| process.kill(SERVER))
    }
}

impl Drop for Debezium {
    fn drop(&mut self) {
        // Its data goes too: nothing is lost by a kill. Whatever is left dies with us.
        let _ = self.kill9();
    }
}

fn spawn(layout: &Layout, lifetime: Lifetime) -> Result<Process> {
    let log = fs::OpenOptions::new().create(true).append(true).open(&layout.log);
    let log = log.map_err(Error::io(format_args!("write {}", layout.log.display())))?;
    let errors = log.try_clone().map_err(Error::io("share the log of Kafka Connect"))?;
    let mut command = command("java", lifetime, None);
    command.args(["-Xms128m", "-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
    command.arg(format!("-Dlog4j2.configurationFile={}", layout.logging.display()));
    // Dates in texts are those of the machine otherwise.
    command.args(["-Duser.timezone=UTC", "-Dfile.encoding=UTF-8", "-cp"]).arg(DEBEZIUM.class_path()?);
    command.arg("org.apache.kafka.connect.cli.ConnectStandalone").arg(&layout.properties);
    command.stdout(log).stderr(errors);
    Process::spawn(command, SERVER)
}

/// Waits for the line that says so, in what was logged beyond the first `logged` bytes.
fn wait_until_ready(layout: &Layout, logged: usize, process: &mut Process) -> Result<()> {
    let patience = Patience::of(START_LIMIT);
    loop {
        let log = layout.log_text();
        let new = log.get(logged..).unwrap_or_default();
        if new.contains(READY) {
            return Ok(());
        }
        if let Some(status) = process.ended() {
            return Err(Error::Ended { server: SERVER, status, log: tail(new) });
        }
        if patience.pause("Kafka Connect to be ready").is_err() {
            let waiting_for = "Kafka Connect to be ready".to_owned();
            return Err(Error::TimedOut { waiting_for, limit: START_LIMIT, log: tail(new) });
        }
    }
}
