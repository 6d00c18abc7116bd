//! `cargo xtask services`: servers that stay up until they are taken down.
//!
//! A file in `.services/run` remembers each: its process, how it is reached, and where its data lies. The data itself
//! is in the temporary folder, for PostgreSQL's own account must be able to enter it.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result};
use walpost_testkit::servers::{
    Identity, KAFKA_VARIABLE, Kafka, POSTGRES_VARIABLE, Postgres, Signal, services_folder, temporary_folder, wait_until,
};

use crate::interrupt;

/// What can be kept up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Service {
    Postgres,
    Kafka,
}

/// In the order in which they are started; they are stopped in the reverse one.
const ALL: [Service; 2] = [Service::Postgres, Service::Kafka];

impl Service {
    fn name(self) -> &'static str {
        match self {
            Self::Postgres => "PostgreSQL",
            Self::Kafka => "Kafka",
        }
    }

    fn file(self) -> PathBuf {
        let name = match self {
            Self::Postgres => "postgres",
            Self::Kafka => "kafka",
        };
        services_folder().join("run").join(name)
    }

    /// What asks it to stop soon, in good order.
    fn stop_signal(self) -> Signal {
        match self {
            Self::Postgres => Signal::Interrupt,
            Self::Kafka => Signal::Terminate,
        }
    }
}

/// A server that was started to stay. Its text form is three lines: process, address, folder.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Running {
    identity: Identity,
    address: String,
    folder: PathBuf,
}

impl Running {
    fn parse(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let identity = lines.next()?.parse().ok()?;
        let address = lines.next()?.to_owned();
        let folder = PathBuf::from(lines.next()?);
        // It will be removed with all that is in it.
        folder.is_absolute().then_some(Self { identity, address, folder })
    }

    fn to_text(&self) -> String {
        format!("{}\n{}\n{}\n", self.identity, self.address, self.folder.display())
    }
}

/// Starts what is not up yet, and prints how it is reached.
pub(crate) fn up(with_kafka: bool) -> Result<()> {
    for service in ALL {
        if service == Service::Kafka && !with_kafka || is_up(service)?.is_some() {
            continue;
        }
        // What died leaves its data.
        remove(service)?;
        let running = start(service)?;
        remember(service, &running)?;
        if let Err(interrupted) = interrupt::check() {
            remove(service)?;
            return Err(interrupted.into());
        }
    }
    status()?;
    explain()
}

/// Says which are up.
pub(crate) fn status() -> Result<()> {
    for service in ALL {
        let name = service.name();
        match is_up(service)? {
            Some(Running { identity, address, folder }) => {
                say!("{name:<11} up    {address}  (process {}, data and log in {})", identity.pid(), folder.display());
            }
            None => say!("{name:<11} down"),
        }
    }
    Ok(())
}

/// Stops all of them and removes their data.
pub(crate) fn down() -> Result<()> {
    for service in ALL.into_iter().rev() {
        let was_up = is_up(service)?.is_some();
        remove(service)?;
        say!("{:<11} {}", service.name(), if was_up { "stopped" } else { "was not up" });
    }
    Ok(())
}

fn start(service: Service) -> Result<Running> {
    let folder = temporary_folder().join(format!("walpost-services-{}", std::process::id())).join(service.name());
    let (identity, address) = match service {
        Service::Postgres => {
            let server = Postgres::builder().kept(&folder).start()?;
            (server.identity(), server.url("postgres"))
        }
        Service::Kafka => {
            let server = Kafka::builder().kept(&folder).start()?;
            (server.identity(), server.bootstrap().to_owned())
        }
    };
    let identity = identity.with_context(|| format!("{} ended right after its start", service.name()))?;
    Ok(Running { identity, address, folder })
}

fn remember(service: Service, running: &Running) -> Result<()> {
    let file = service.file();
    let folder = file.parent().unwrap_or(Path::new(""));
    fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    fs::write(&file, running.to_text()).with_context(|| format!("cannot write {}", file.display()))
}

/// What is remembered of it, running or not.
fn recall(service: Service) -> Result<Option<Running>> {
    let file = service.file();
    let Some(text) = fs::read_to_string(&file)
        .map(Some)
        .or_else(absent)
        .with_context(|| format!("cannot read {}", file.display()))?
    else {
        return Ok(None);
    };
    let running = Running::parse(&text);
    running
        .map(Some)
        .with_context(|| format!("{} is damaged: stop what it names by hand, then delete it", file.display()))
}

fn absent(error: std::io::Error) -> std::io::Result<Option<String>> {
    if error.kind() == std::io::ErrorKind::NotFound { Ok(None) } else { Err(error) }
}

fn is_up(service: Service) -> Result<Option<Running>> {
    Ok(recall(service)?.filter(|running| running.identity.is_alive()))
}

/// Stops it if it runs, and removes its data and the memory of it.
fn remove(service: Service) -> Result<()> {
    let Some(running) = recall(service)? else { return Ok(()) };
    let gone = |limit| wait_until(&format!("the end of {}", service.name()), limit, || !running.identity.is_alive());
    running.identity.signal(service.stop_signal())?;
    if gone(Duration::from_secs(20)).is_err() {
        running.identity.signal(Signal::Kill)?;
        gone(Duration::from_secs(10))?;
    }
    if running.folder.exists() {
        fs::remove_dir_all(&running.folder).with_context(|| format!("cannot remove {}", running.folder.display()))?;
    }
    if let Some(parent) = running.folder.parent() {
        // Refused, as it should be, while the other service is in it.
        let _ = fs::remove_dir(parent);
    }
    fs::remove_file(service.file()).with_context(|| format!("cannot remove {}", service.file().display()))
}

/// Kafka's programs, from the folder that the workspace keeps.
const JAVA: &str = "java -cp '.services/kafka-4.4.0/jars/*'";

/// What to paste into a shell and into a configuration.
fn explain() -> Result<()> {
    let postgres = is_up(Service::Postgres)?.map(|running| running.address);
    let kafka = is_up(Service::Kafka)?.map(|running| running.address);
    say!("\nFor a shell, and for the tests to use them:");
    for (variable, address) in [(POSTGRES_VARIABLE, &postgres), (KAFKA_VARIABLE, &kafka)] {
        if let Some(address) = address {
            say!("  export {variable}='{address}'");
        }
    }
    say!("\nFor walpost.toml:");
    if let Some(url) = &postgres {
        say!("  [source]\n  url = \"{url}\"");
    }
    if let Some(bootstrap) = &kafka {
        say!("  [sink]\n  type = \"kafka\"\n  [sink.kafka]\n  \"bootstrap.servers\" = \"{bootstrap}\"");
        say!("\nTo make a topic, and to see what arrives:");
        say!(
            "  {JAVA} org.apache.kafka.tools.TopicCommand --bootstrap-server {bootstrap} --create --topic outbox.event.Order --partitions 3"
        );
        say!(
            "  {JAVA} org.apache.kafka.tools.consumer.ConsoleConsumer --bootstrap-server {bootstrap} --topic outbox.event.Order --from-beginning --formatter-property print.key=true --formatter-property print.headers=true"
        );
    }
    say!("\n`cargo xtask services down` stops them and removes their data.");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_remembered_comes_back() {
        let identity = Identity::of(std::process::id()).unwrap();
        let running = Running { identity, address: "127.0.0.1:1".to_owned(), folder: PathBuf::from("/a folder/b") };
        assert_eq!(Running::parse(&running.to_text()), Some(running));
    }

    #[test]
    fn a_damaged_memory_is_not_acted_on() {
        for text in ["", "1-2", "1-2\nx", "x\ny\n/z", "1-2\ny\nrelative", "1-2\ny\n"] {
            assert_eq!(Running::parse(text), None, "{text:?}");
        }
    }
}
