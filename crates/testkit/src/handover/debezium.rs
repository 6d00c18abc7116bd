//! The one who hands over: a Debezium as its operators run it, with a connector in a file.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::json;

use super::{End, Error, LIMIT, Scene, Stage};
use crate::consumer::Consumer;
use crate::servers::{Debezium, Scratch, Task, tail};

/// Often enough that something is confirmed, and seldom enough that something is not.
const FLUSH_MS: &str = "4000";

/// A Debezium that publishes, and the files that it was configured by.
pub(super) struct Predecessor {
    debezium: Debezium,
    folder: Scratch,
}

impl Predecessor {
    /// Starts it, with a slot and a publication of its own making, and waits until it reads them.
    pub(super) fn start(stage: &Stage, scene: &Scene) -> Result<Self, Error> {
        let debezium =
            Debezium::builder(stage.kafka.bootstrap()).property("offset.flush.interval.ms", FLUSH_MS).start()?;
        let predecessor = Self { debezium, folder: Scratch::new("connector")? };
        let options = options(stage, scene);
        predecessor.write(scene.name(), &options)?;
        let connectors = predecessor.debezium.connectors();
        connectors.put(scene.name(), &options)?;
        if let Task::Failed(trace) = connectors.wait_for_task(scene.name(), LIMIT)? {
            return Err(undone(trace));
        }
        scene.wait_until_slot_is("t")?;
        Ok(predecessor)
    }

    /// Waits until it has published so many records.
    pub(super) fn publish(&self, consumer: &mut Consumer, count: usize) -> Result<(), Error> {
        let Err(error) = consumer.read_count(count, LIMIT) else { return Ok(()) };
        Err(undone(format_args!("{error}; its log:\n{}", tail(&self.debezium.log()))))
    }

    pub(super) fn end(&mut self, end: End) -> Result<(), Error> {
        match end {
            End::Stopped => self.debezium.stop(LIMIT).map(drop)?,
            End::Killed => self.debezium.kill9()?,
        }
        Ok(())
    }

    /// Its file of offsets.
    pub(super) fn offsets(&self) -> String {
        self.debezium.offsets().display().to_string()
    }

    /// The configuration that `walpost import debezium` makes of its files, which it writes to its standard output.
    pub(super) fn imported(&self, program: &Path, more: &[&str]) -> Result<String, Error> {
        let mut import = Command::new(program);
        import.args(["import", "debezium"]).arg(self.connector()).arg(self.debezium.properties()).args(more);
        let output = import.current_dir(self.folder.path()).stdin(Stdio::null()).output();
        let output = output.map_err(Error::io("run walpost import debezium"))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let command = format!("import debezium … {}", more.join(" "));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        Err(Error::Undone(format!("`walpost {command}` ended with {}:\n{said}", output.status)))
    }

    fn connector(&self) -> PathBuf {
        self.folder.path().join("connector.json")
    }

    /// In the form that Connect's REST interface takes.
    fn write(&self, name: &str, options: &[(String, String)]) -> Result<(), Error> {
        let config: serde_json::Map<_, _> = options.iter().map(|(key, value)| (key.clone(), json!(value))).collect();
        let text = json!({ "name": name, "config": config }).to_string();
        fs::write(self.connector(), text).map_err(Error::io("write the connector's file"))
    }
}

/// Debezium did not publish, or its task died before its time.
fn undone(reason: impl Display) -> Error {
    Error::Undone(format!("Debezium did not do its part: {reason}"))
}

fn options(stage: &Stage, scene: &Scene) -> Vec<(String, String)> {
    let endpoint = stage.postgres.endpoint();
    let (port, route) = (endpoint.port().to_string(), scene.outbox.route());
    let options = [
        ("connector.class", "io.debezium.connector.postgresql.PostgresConnector"),
        ("tasks.max", "1"),
        ("database.hostname", endpoint.host()),
        ("database.port", &port),
        ("database.user", "postgres"),
        ("database.password", "postgres"),
        ("database.dbname", scene.name()),
        ("topic.prefix", scene.name()),
        ("plugin.name", "pgoutput"),
        ("slot.name", scene.name()),
        ("publication.name", scene.name()),
        ("publication.autocreate.mode", "filtered"),
        ("table.include.list", scene.outbox.table()),
        ("snapshot.mode", "no_data"),
        ("tombstones.on.delete", "false"),
        ("extended.headers.enabled", "false"),
        ("key.converter", "org.apache.kafka.connect.storage.StringConverter"),
        ("value.converter", "org.apache.kafka.connect.storage.StringConverter"),
        ("transforms", "outbox"),
        ("transforms.outbox.type", "io.debezium.transforms.outbox.EventRouter"),
        ("transforms.outbox.route.topic.replacement", &route),
    ];
    options.map(|(key, value)| (key.to_owned(), value.to_owned())).into()
}
