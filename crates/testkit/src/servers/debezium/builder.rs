//! What a Connect is to be like, and the steps to its first start.

use super::{Debezium, Layout, SERVER, spawn, wait_until_ready};
use crate::servers::daemon::{self, Daemon};
use crate::servers::jars::LOGGING_TO_CONSOLE;
use crate::servers::process::Lifetime;
use crate::servers::scratch::{Place, make_folder, write_file};
use crate::servers::{Need, Result, install, ports};

/// Connectors bring converters of their own where it matters.
const PROPERTIES: &[(&str, &str)] = &[
    ("key.converter", "org.apache.kafka.connect.storage.StringConverter"),
    ("value.converter", "org.apache.kafka.connect.storage.StringConverter"),
    // By the lists in the jars: to look into every class takes ten seconds.
    ("plugin.discovery", "service_load"),
];

const LOGGING: &str = "\
rootLogger.level = warn
logger.ready.name = org.apache.kafka.connect.runtime.Connect
logger.ready.level = info
logger.debezium.name = io.debezium
logger.debezium.level = warn
";

/// A Connect to be started; by default with string converters, and with offsets flushed as seldom as Connect does.
#[derive(Clone, Debug)]
pub struct DebeziumBuilder {
    bootstrap: String,
    properties: Vec<(String, String)>,
}

impl DebeziumBuilder {
    pub(super) fn new(bootstrap: &str) -> Self {
        Self { bootstrap: bootstrap.to_owned(), properties: Vec::new() }
    }

    /// A line of `worker.properties`, such as `("offset.flush.interval.ms", "500")`; a later one wins.
    #[must_use]
    pub fn property(mut self, name: &str, value: &str) -> Self {
        self.properties.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Fetches Debezium if need be, starts Connect without a connector and waits until it answers.
    ///
    /// # Errors
    ///
    /// What [`install`] refuses; [`Error::Ended`](crate::servers::Error::Ended) with its log when it does not like its
    /// properties; [`Error::TimedOut`](crate::servers::Error::TimedOut) when it is not ready within two minutes.
    pub fn start(self) -> Result<Debezium> {
        install(&[Need::Debezium])?;
        let place = Place::choose(None, "debezium")?;
        let layout = Layout::below(place.path());
        make_folder(&layout.plugins)?;
        write_file(&layout.logging, &[LOGGING_TO_CONSOLE, LOGGING].concat())?;
        let (daemon, port) = self.first_start(&layout, place.lifetime())?;
        Ok(Debezium { port, layout, daemon, _place: place })
    }

    fn first_start(&self, layout: &Layout, lifetime: Lifetime) -> Result<(Daemon, u16)> {
        daemon::first_start(SERVER, "Failed to bind", &layout.log, |_| {
            let port = ports::free()?;
            write_file(&layout.properties, &self.worker_properties(layout, port))?;
            let logged = layout.log_text().len();
            let mut process = spawn(layout, lifetime)?;
            let ready = wait_until_ready(layout, logged, &mut process);
            Ok((process, port, ready))
        })
    }

    fn worker_properties(&self, layout: &Layout, port: u16) -> String {
        let mut lines: Vec<String> = PROPERTIES.iter().map(|(name, value)| format!("{name}={value}")).collect();
        lines.push(format!("bootstrap.servers={}", self.bootstrap));
        lines.push(format!("listeners=http://127.0.0.1:{port}"));
        lines.push(format!("plugin.path={}", layout.plugins.display()));
        lines.push(format!("offset.storage.file.filename={}", layout.offsets.display()));
        lines.extend(self.properties.iter().map(|(name, value)| format!("{name}={value}")));
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_property_of_the_caller_comes_last() {
        let built = Debezium::builder("127.0.0.1:1").property("offset.flush.interval.ms", "500");
        let text = built.worker_properties(&Layout::below(Path::new("/f")), 2);
        assert!(text.ends_with("offset.flush.interval.ms=500\n"), "{text}");
        assert!(text.contains("listeners=http://127.0.0.1:2\n"), "{text}");
    }
}
