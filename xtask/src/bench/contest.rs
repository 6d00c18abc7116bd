//! Who drains, how each is started, and how it is seen that each did all of its work.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use walpost_testkit::servers::{Kafka, Postgres, Scratch, dependent, kafka_tool};

use super::backlog::{Backlog, ORIGINAL_SLOT};
use super::meter::{self, Reading, Servers};
use crate::interrupt;

/// Somebody who drains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Contestant {
    /// PostgreSQL's own program, to nowhere: what the server can give.
    PgRecvlogical,
    /// walpost with the sink that takes everything and keeps nothing.
    Null,
    /// walpost into Kafka.
    Kafka,
    /// walpost into Kafka, with the checkpoint in the transactions that carry the events.
    ExactlyOnce,
}

impl Contestant {
    pub(super) const ALL: [Self; 4] = [Self::PgRecvlogical, Self::Null, Self::Kafka, Self::ExactlyOnce];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::PgRecvlogical => "pg_recvlogical",
            Self::Null => "walpost, null",
            Self::Kafka => "walpost, kafka",
            Self::ExactlyOnce => "… exactly once",
        }
    }

    /// As it may stand in the name of a slot.
    fn slug(self) -> &'static str {
        match self {
            Self::PgRecvlogical => "pg_recvlogical",
            Self::Null => "null",
            Self::Kafka => "kafka",
            Self::ExactlyOnce => "exactly_once",
        }
    }

    /// Whether a broker takes what it publishes.
    pub(super) fn needs_broker(self) -> bool {
        match self {
            Self::PgRecvlogical | Self::Null => false,
            Self::Kafka | Self::ExactlyOnce => true,
        }
    }
}

/// The servers, and a folder for configurations and logs.
pub(super) struct Arena {
    pub(super) postgres: Postgres,
    pub(super) kafka: Option<Kafka>,
    pub(super) scratch: Scratch,
}

impl Arena {
    /// Prepares a database, with the reference outbox, for a relay that is never started.
    pub(super) fn walpost_init(&self, database: &str, slot: &str) -> Result<()> {
        let configuration = self.configure(database, slot, "type = \"null\"")?;
        let mut init = walpost("init", &configuration)?;
        let output = init.arg("--with-outbox").output().context("cannot run walpost init")?;
        ensure!(output.status.success(), "walpost init failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        Ok(())
    }

    /// Writes a configuration that says nothing but what has to be said. What a broker keeps for a relay it keeps by its name, so that each load has
    /// names of its own.
    fn configure(&self, database: &str, slot: &str, sink: &str) -> Result<PathBuf> {
        let url = self.postgres.url(database);
        let text = format!(
            r#"name = "{slot}.{database}"

[source]
url = "{url}"
slot = "{slot}"
publication = "walpost"

[[outbox]]
table = "public.outbox"
[outbox.router]
"route.topic.replacement" = "{slot}.{database}.${{routedByValue}}"

[log]
format = "json"

[http]
listen = "127.0.0.1:0"

[sink]
{sink}
"#
        );
        let path = self.scratch.path().join(format!("{database}-{slot}.toml"));
        fs::write(&path, text).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    }

    fn broker(&self) -> Result<&Kafka> {
        self.kafka.as_ref().context("there is no Kafka")
    }
}

/// Lets a contestant drain the backlog from its beginning, and checks that it did.
pub(super) fn run(arena: &Arena, backlog: &Backlog, contestant: Contestant, number: usize) -> Result<Reading> {
    interrupt::check()?;
    let turn = Turn { arena, backlog, contestant, slot: format!("bench_{}_{number}", contestant.slug()) };
    turn.run()
}

struct Turn<'a> {
    arena: &'a Arena,
    backlog: &'a Backlog,
    contestant: Contestant,
    slot: String,
}

impl Turn<'_> {
    fn run(&self) -> Result<Reading> {
        self.sql(&format!("SELECT pg_copy_logical_replication_slot('{ORIGINAL_SLOT}', '{}')", self.slot))?;
        let (mut command, log) = (self.command()?, self.log());
        command.stderr(File::create(&log).with_context(|| format!("cannot write {}", log.display()))?);
        // A thousand events a second is slower than anything worth waiting for.
        let limit = Duration::from_secs(60) + Duration::from_millis(self.backlog.workload.events);
        let reading = meter::watch(command, self.servers()?, limit)?;
        let mut reading = reading.with_context(|| format!("{} does not come to an end", self.contestant.name()))?;
        let said = fs::read_to_string(&log).unwrap_or_default();
        if !reading.status.success() {
            bail!("{} failed ({}):\n{}", self.contestant.name(), reading.status, said.trim());
        }
        self.check(&said).with_context(|| format!("{} did not do its work", self.contestant.name()))?;
        if self.contestant != Contestant::PgRecvlogical {
            let first = line(&said, "the first record is delivered")?;
            reading.first_event = first["since_start_ms"].as_u64().map(Duration::from_millis);
        }
        self.sql(&format!("SELECT pg_drop_replication_slot('{}')", self.slot))?;
        Ok(reading)
    }

    fn command(&self) -> Result<Command> {
        let sink = match self.contestant {
            Contestant::PgRecvlogical => return Ok(self.pg_recvlogical()),
            Contestant::Null => "type = \"null\"".to_owned(),
            Contestant::Kafka => self.kafka_sink()?,
            // A relay of its own: transactions go by its name.
            Contestant::ExactlyOnce => format!("{}\n\n[checkpoint]\nstore = \"kafka\"", self.kafka_sink()?),
        };
        let configuration = self.arena.configure(&self.backlog.database, &self.slot, &sink)?;
        let mut init = walpost("init", &configuration)?;
        let output = init.output().context("cannot run walpost init")?;
        ensure!(output.status.success(), "walpost init failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        let mut run = walpost("run", &configuration)?;
        run.args(["--until", &self.backlog.end]);
        Ok(run)
    }

    fn pg_recvlogical(&self) -> Command {
        let mut command = dependent(self.arena.postgres.programs().join("pg_recvlogical"));
        command.args(["--start", "--file=/dev/null", "--no-loop", "--no-password"]);
        command.args(["--option=proto_version=1", "--option=publication_names=walpost"]);
        command.args(["--slot", &self.slot, "--endpos", &self.backlog.end]);
        command.args(["--dbname", &self.arena.postgres.url(&self.backlog.database)]);
        command
    }

    /// Makes the topic, so that its making is not measured.
    fn kafka_sink(&self) -> Result<String> {
        let bootstrap = self.arena.broker()?.bootstrap();
        let mut create = kafka_tool("org.apache.kafka.tools.TopicCommand")?;
        create.args(["--bootstrap-server", bootstrap, "--create", "--partitions", "3", "--topic", &self.topic()]);
        let output = create.output().context("cannot run Kafka's program for topics")?;
        ensure!(output.status.success(), "no topic: {}", String::from_utf8_lossy(&output.stdout).trim());
        Ok(format!("type = \"kafka\"\n\n[sink.kafka]\n\"bootstrap.servers\" = \"{bootstrap}\""))
    }

    fn topic(&self) -> String {
        format!("{}.{}.order", self.slot, self.backlog.database)
    }

    fn servers(&self) -> Result<Servers> {
        let postgres = self.arena.postgres.identity().context("PostgreSQL has ended")?;
        let broker = match self.contestant {
            Contestant::Kafka | Contestant::ExactlyOnce => self.arena.broker()?.identity(),
            Contestant::PgRecvlogical | Contestant::Null => None,
        };
        Ok(Servers { postgres, broker })
    }

    fn check(&self, said: &str) -> Result<()> {
        let events = self.backlog.workload.events;
        if self.contestant == Contestant::PgRecvlogical {
            return self.check_slot();
        }
        let counted = line(said, "the session ended")?["events"].as_u64();
        ensure!(counted == Some(events), "{events} events were committed, and it counted {counted:?}");
        let arrived = match self.contestant {
            Contestant::Kafka => self.arrived()?,
            // The ends of transactions have offsets too.
            Contestant::ExactlyOnce => self.committed()?,
            Contestant::PgRecvlogical | Contestant::Null => events,
        };
        ensure!(arrived == events, "{events} events were committed, and {arrived} arrived");
        Ok(())
    }

    /// For whom counts nothing: it has told the server that it has everything.
    fn check_slot(&self) -> Result<()> {
        let (slot, end) = (&self.slot, &self.backlog.end);
        let reached = self.sql(&format!(
            "SELECT confirmed_flush_lsn >= '{end}' FROM pg_replication_slots WHERE slot_name = '{slot}'"
        ))?;
        ensure!(reached == [["t"]], "the slot has not come to {end}");
        Ok(())
    }

    /// How many records the topic holds.
    fn arrived(&self) -> Result<u64> {
        let mut offsets = kafka_tool("org.apache.kafka.tools.GetOffsetShell")?;
        offsets.args(["--bootstrap-server", self.arena.broker()?.bootstrap(), "--topic", &self.topic()]);
        let output = offsets.output().context("cannot run Kafka's program for offsets")?;
        let text = String::from_utf8_lossy(&output.stdout);
        ensure!(output.status.success(), "no offsets: {}", text.trim());
        sum_of_offsets(&text).with_context(|| format!("these are no offsets: {text:?}"))
    }

    /// How many records a reader of committed ones finds there.
    fn committed(&self) -> Result<u64> {
        let mut consumer = kafka_tool("org.apache.kafka.tools.consumer.ConsoleConsumer")?;
        consumer.args(["--bootstrap-server", self.arena.broker()?.bootstrap(), "--topic", &self.topic()]);
        // It ends once nothing more comes.
        consumer.args(["--from-beginning", "--isolation-level", "read_committed", "--timeout-ms", "5000"]);
        let output = consumer.stdout(Stdio::null()).output().context("cannot run Kafka's program that reads")?;
        let said = String::from_utf8_lossy(&output.stderr);
        total_of(&said).with_context(|| format!("it does not say how many records it read: {said:?}"))
    }

    fn sql(&self, sql: &str) -> Result<Vec<Vec<String>>> {
        Ok(self.arena.postgres.psql(&self.backlog.database, sql)?)
    }

    fn log(&self) -> PathBuf {
        self.arena.scratch.path().join(format!("{}-{}.log", self.backlog.database, self.slot))
    }
}

/// `walpost`, as it was built for release, with a command and a configuration; it dies with us.
fn walpost(command: &str, configuration: &Path) -> Result<Command> {
    let ours = std::env::current_exe().context("cannot tell where xtask was built")?;
    // cargo puts a folder for each profile into one.
    let target = ours.parent().and_then(Path::parent).context("xtask lies in no folder of cargo's")?;
    let mut walpost = dependent(target.join("release/walpost"));
    walpost.arg(command).arg("-c").arg(configuration);
    Ok(walpost)
}

/// The one line of a log that says this.
fn line(log: &str, message: &str) -> Result<Value> {
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut saying: Vec<Value> = lines.filter(|line| line["message"] == message).collect();
    match (saying.pop(), saying.is_empty()) {
        (Some(line), true) => Ok(line),
        (Some(_), false) => bail!("it says more than once that {message}:\n{log}"),
        (None, _) => bail!("it does not say that {message}:\n{log}"),
    }
}

/// The sum over lines of `topic:partition:offset`.
fn sum_of_offsets(text: &str) -> Option<u64> {
    text.lines().map(|line| line.rsplit_once(':')?.1.parse::<u64>().ok()).sum()
}

/// The number in the last words of Kafka's console consumer.
fn total_of(text: &str) -> Option<u64> {
    let words = "Processed a total of ";
    let line = text.lines().rev().find_map(|line| line.strip_prefix(words))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_console_consumer_says_at_its_end_how_many_there_were() {
        assert_eq!(total_of("a warning\nProcessed a total of 1200 messages\n"), Some(1200));
        assert_eq!(total_of("Processed a total of many messages\n"), None);
        assert_eq!(total_of("no such topic\n"), None);
    }

    #[test]
    fn the_offsets_of_all_partitions_are_added() {
        assert_eq!(sum_of_offsets("a.b:0:3\na.b:1:4\n"), Some(7));
        assert_eq!(sum_of_offsets("a.b:0:3\nno such topic\n"), None);
        assert_eq!(sum_of_offsets("a.b:0:\n"), None);
    }

    #[test]
    fn a_line_that_comes_twice_or_never_is_no_count() {
        let log = "not JSON\n{\"message\":\"done\",\"events\":5}\n{\"message\":\"other\"}\n";
        assert_eq!(line(log, "done").unwrap()["events"], 5);
        assert!(line(log, "gone").is_err());
        assert!(line(&log.repeat(2), "done").is_err());
    }
}
