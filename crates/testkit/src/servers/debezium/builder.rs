//! What a Connect is to be like, and the steps to its first start.

use std::fs;
use std::path::Path;

use super::{Debezium, Layout, SERVER, spawn, wait_until_ready};
use crate::servers::process::{Lifetime, Process};
use crate::servers::scratch::{Place, make_folder};
use crate::servers::{Error, Need, Result, install, ports};

/// A port may be taken between its choice and the start.
const ATTEMPTS: usize = 4;

/// Connectors bring converters of their own where it matters.
const PROPERTIES: &[(&str, &str)] = &[
    ("key.converter", "org.apache.kafka.connect.storage.StringConverter"),
    ("value.converter", "org.apache.kafka.connect.storage.StringConverter"),
    // By the lists in the jars: to look into every class takes ten seconds.
    ("plugin.discovery", "service_load"),
];

const LOGGING: &str = "\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
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
    /// What [`install`] refuses; [`Error::Ended`] with its log when it does not like its properties;
    /// [`Error::TimedOut`] when it is not ready within two minutes.
    pub fn start(self) -> Result<Debezium> {
        install(&[Need::Debezium])?;
        let place = Place::choose(None, "debezium")?;
        let layout = Layout::below(place.path());
        make_folder(&layout.plugins)?;
        write(&layout.logging, LOGGING)?;
        let (process, port) = self.first_start(&layout, place.lifetime())?;
        Ok(Debezium { port, layout, process: Some(process), _place: place })
    }

    fn first_start(&self, layout: &Layout, lifetime: Lifetime) -> Result<(Process, u16)> {
        let mut attempt = 1;
        loop {
            let port = ports::free()?;
            write(&layout.properties, &self.worker_properties(layout, port))?;
            let logged = layout.log_text().len();
            let mut process = spawn(layout, lifetime)?;
            match wait_until_ready(layout, logged, &mut process) {
                Ok(()) => return Ok((process, port)),
                Err(Error::Ended { .. }) if attempt < ATTEMPTS && layout.log_text().contains("Failed to bind") => {
                    attempt += 1;
                }
                Err(error) => {
                    // It is not ours to hand out: nobody could stop it.
                    let _ = process.kill(SERVER);
                    return Err(error);
                }
            }
        }
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

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(Error::io(format_args!("write {}", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_property_of_the_caller_comes_last() {
        let built = Debezium::builder("127.0.0.1:1").property("offset.flush.interval.ms", "500");
        let text = built.worker_properties(&Layout::below(Path::new("/f")), 2);
        assert!(text.ends_with("offset.flush.interval.ms=500\n"), "{text}");
        assert!(text.contains("listeners=http://127.0.0.1:2\n"), "{text}");
    }
}
