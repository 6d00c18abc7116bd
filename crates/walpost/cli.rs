//! The command line: what can be asked for, and which code each answer ends with.
//!
//! Nothing is configured here that could be configured in the file, so that what a relay does can be read in one place.

mod dlq;
#[cfg(test)]
mod named;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory as _, Parser, Subcommand};
use walpost_core::lsn::Lsn;
use walpost_core::time::Timestamp;
use walpost_core::value::{PointInTime, parse_timestamptz};

use crate::commands::{self, Outcome};
use crate::config::{self, Error, Loaded, Process, Settings};
use crate::debezium;
use crate::exit::{Ended, Exit};
use crate::observe::{log, manual};
use crate::output;

const EXAMPLES: &str = "\
Examples:
  walpost config check -c walpost.toml     say everything that is wrong with a configuration
  walpost init -c walpost.toml --dry-run   print the SQL that prepares the database
  walpost init -c walpost.toml             run it: publication, tables, slot, first checkpoint
  walpost run -c walpost.toml              publish until SIGTERM";

const REPAIR_EXAMPLES: &str = "\
Examples:
  walpost repair                                    what is wrong, and every way out
  walpost repair --fill                             what would be published from the tables
  walpost repair --fill --yes                       make the slot anew and publish it
  walpost repair --recreate --accept-gap --yes      make the slot anew and leave the gap";

/// Publishes a PostgreSQL transactional outbox to Kafka, from the write-ahead log.
#[derive(Debug, Parser)]
#[command(name = "walpost", version, propagate_version = true, after_help = EXAMPLES, after_long_help = long_help())]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn long_help() -> String {
    format!("{EXAMPLES}\n\n{}", Exit::table())
}

/// What to do.
#[derive(Debug, Subcommand)]
enum Command {
    /// Publish the outbox until told to stop
    #[command(
        long_about = "Publishes the outbox until SIGTERM, SIGINT or SIGHUP, and then delivers and checkpoints what is on its way. A second SIGTERM or SIGINT \
                      ends it at once. No signal has it read its configuration again. It creates nothing in the database unless source.create = true.",
        after_long_help = Exit::table()
    )]
    Run(Run),
    /// Prepare the database: publication, tables of our own, slot, first checkpoint
    #[command(
        long_about = "Creates what is missing in the database (publication, tables for checkpoint and dead letters, slot, first checkpoint), in this order, and prints the SQL. \
                      What is there already stays as it is, so it can be repeated, also after an outbox was added."
    )]
    Init(Init),
    /// Look for everything that would keep the relay from running, and change nothing
    Check(ConfigFile),
    /// Show, move, copy or delete the stored position
    #[command(subcommand)]
    Checkpoint(Checkpoint),
    /// List the ways to recover, and carry one out
    #[command(
        long_about = "Shows how server, slot and checkpoint stand to each other, what is known of a gap, and every way out of it with what it loses or repeats. \
                      Ends with 0 where the relay may start, else with the code that its start would end with.\n\n\
                      A way is chosen by an option. Without --yes it is only shown what it would come to.",
        after_help = REPAIR_EXAMPLES,
        after_long_help = format!("{REPAIR_EXAMPLES}\n\n{}", Exit::table())
    )]
    Repair(Repair),
    /// Print how things stand, and end with 10 where not all is well
    #[command(
        long_about = "Asks the database about slot, checkpoint and publication, and the relay itself where it answers at http.listen. Prints a short \
                      table, and a sentence for each thing that is not well. Works while no relay runs, and changes nothing."
    )]
    Status(Status),
    /// Inspect, replay or drop dead letters (rows that could not be delivered)
    #[command(subcommand)]
    Dlq(dlq::Dlq),
    /// Look after the configuration file; connects to nothing
    #[command(subcommand)]
    Config(Config),
    /// Convert a Debezium connector's configuration
    #[command(subcommand)]
    Import(Import),
    /// Print what a shell needs to complete our command lines
    #[command(after_help = "Example:\n  walpost completions bash > /etc/bash_completion.d/walpost")]
    Completions {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write manual pages, one a command
    #[command(after_help = "Example:\n  walpost man /usr/local/share/man/man1")]
    Man {
        /// The folder to write them into
        folder: PathBuf,
    },
}

/// Which configuration.
#[derive(Debug, Args)]
struct ConfigFile {
    /// The configuration file
    #[arg(short = 'c', long = "config", value_name = "FILE", env = "WALPOST_CONFIG", default_value = "walpost.toml")]
    path: PathBuf,
}

#[derive(Debug, Args)]
struct Run {
    #[command(flatten)]
    config: ConfigFile,
    /// Stop by itself once everything committed before this position is published and checkpointed
    #[arg(long, value_name = "LSN")]
    until: Option<Lsn>,
}

#[derive(Debug, Args)]
struct Status {
    #[command(flatten)]
    config: ConfigFile,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
struct Init {
    #[command(flatten)]
    config: ConfigFile,
    /// Create the outbox tables too, in the reference form
    #[arg(long)]
    with_outbox: bool,
    /// Connect, print the SQL that is still needed, and run nothing
    #[arg(long)]
    dry_run: bool,
}

#[derive(Debug, Args)]
#[allow(clippy::struct_excessive_bools, reason = "they are flags")]
struct Repair {
    #[command(flatten)]
    config: ConfigFile,
    /// Go on from where the slot stands, whatever the checkpoint says
    #[arg(long, group = "way")]
    adopt_slot: bool,
    /// Make the slot anew, and do not publish what lies between the checkpoint and it
    #[arg(long, group = "way", requires = "accept_gap")]
    recreate: bool,
    /// Make the slot anew, and publish what lies between from the tables
    #[arg(long, group = "way")]
    fill: bool,
    /// Confirm that rows in the gap are never published (required with --recreate)
    #[arg(long, requires = "recreate")]
    accept_gap: bool,
    /// How much earlier than the checkpoint's last commit the rows are to begin: longer than any commit takes; by a column, longer than any transaction takes
    #[arg(long, value_name = "DURATION", default_value = "5m", value_parser = duration)]
    margin: Duration,
    /// When the rows are to begin, without a margin: as RFC 3339 has it
    #[arg(long, value_name = "TIME", value_parser = time)]
    since: Option<Timestamp>,
    /// The column of the outboxes that tells when a row was made, instead of the commit's time
    #[arg(long, value_name = "COLUMN")]
    by: Option<String>,
    /// No row of the gap was deleted, whatever speaks against it
    #[arg(long)]
    rows_are_kept: bool,
    /// Pass over rows that cannot be published, with a line of the log each, instead of setting them aside or ending at the first
    #[arg(long, requires = "fill")]
    skip_bad: bool,
    /// Really do it; without it nothing is changed
    #[arg(long, requires = "way")]
    yes: bool,
    /// Show it as JSON
    #[arg(long, conflicts_with = "way")]
    json: bool,
}

impl Repair {
    fn read(self) -> (ConfigFile, commands::Repair) {
        let Self { config, adopt_slot, recreate, fill, margin, since, by, rows_are_kept, skip_bad, yes, json, .. } =
            self;
        let chosen =
            [(adopt_slot, commands::Way::AdoptSlot), (recreate, commands::Way::Recreate), (fill, commands::Way::Fill)];
        let way = chosen.into_iter().find_map(|(is_chosen, way)| is_chosen.then_some(way));
        let fill = commands::Fill { margin, since, by, rows_are_kept, skips_bad: skip_bad };
        (config, commands::Repair { way, fill, is_json: json, is_agreed: yes })
    }
}

/// A number with its unit.
fn duration(text: &str) -> Result<Duration, String> {
    let units = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000), ("d", 86_400_000)];
    let read = |(unit, millis): (&str, u64)| text.strip_suffix(unit)?.parse::<u64>().ok()?.checked_mul(millis);
    let millis = units.into_iter().find_map(read).ok_or("write a whole number and its unit: 90s, 5m, 2h or 1d")?;
    Ok(Duration::from_millis(millis))
}

/// A time with its offset.
fn time(text: &str) -> Result<Timestamp, String> {
    let form = "write a date and a time with its offset from UTC: 2026-11-30T07:53:26Z";
    let spaced = text.replacen(['T', 't'], " ", 1).replace(['Z', 'z'], "+00");
    match parse_timestamptz(spaced.as_bytes()) {
        Ok(PointInTime::UnixMicros(micros)) if micros > POSTGRES_EPOCH => {
            Ok(Timestamp::from_postgres_micros(micros - POSTGRES_EPOCH))
        }
        Ok(_) => Err("it lies before the year 2000, or is no time".to_owned()),
        Err(_) => Err(form.to_owned()),
    }
}

/// 2000-01-01 00:00 UTC in microseconds since 1970.
const POSTGRES_EPOCH: i64 = 946_684_800_000_000;

#[derive(Debug, Subcommand)]
enum Checkpoint {
    /// Print the checkpoint and where the slot stands
    Show(ConfigFile),
    /// Make the slot's position the checkpoint, at once; a slot that is ahead of it LOSES the rows in between
    #[command(long_about = "Makes the position of the slot the checkpoint, whatever is stored. It acts at once.\n\n\
                      Where the slot is behind the checkpoint, the rows in between are published again. Where the slot is ahead of it, the rows in \
                      between are LOST: they are never published. `walpost repair --adopt-slot` shows first which of the two it is, and changes nothing \
                      without --yes.")]
    AdoptSlot(ConfigFile),
    /// Delete the checkpoint; the next start goes on from where the slot stands, or is refused with the store kafka
    Forget(ConfigFile),
    /// Copy the checkpoint into another store, before the configuration is changed to it
    #[command(after_help = "Example:\n  walpost checkpoint copy -c walpost.toml --to file:/var/lib/walpost/checkpoint")]
    Copy(Copy),
}

#[derive(Debug, Args)]
struct Copy {
    #[command(flatten)]
    config: ConfigFile,
    /// The store to copy into: postgres, kafka, or file:PATH
    #[arg(long, value_name = "STORE")]
    to: Target,
}

/// What `--to` takes.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Target(commands::Target);

impl FromStr for Target {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text, text.strip_prefix("file:")) {
            ("postgres", _) => Ok(Self(commands::Target::Postgres)),
            ("kafka", _) => Ok(Self(commands::Target::Kafka)),
            (_, Some(path)) if !path.is_empty() => Ok(Self(commands::Target::File(PathBuf::from(path)))),
            _ => Err("write postgres, kafka, or file: and a path".to_owned()),
        }
    }
}

#[derive(Debug, Subcommand)]
enum Import {
    /// Make a walpost.toml of a Debezium connector's configuration
    #[command(
        long_about = "Makes a walpost.toml of the configuration of a Debezium connector for PostgreSQL with an outbox event router. Each option appears in what \
                      comes out: as a key, or in a comment that says why there is none. What cannot be had and changes what consumers get stays as a line that walpost \
                      refuses until somebody decides. Passwords are never printed.\n\n\
                      A FILE is a connector as JSON (as it is posted to Connect, or the map alone, or several of them), a connector or a worker in a properties \
                      file, or Debezium Server's application.properties. Add the worker's file: it says which brokers and which converters.\n\n\
                      With --checkpoint or --offsets it also takes over how far the stopped connector got, and makes what `walpost init` would: the checkpoint is \
                      written where the configuration that is made keeps it, or, with -c walpost.toml, where that file does. With -c no configuration is printed. \
                      docs/handover.md has the whole way, and the way back.",
        after_help = "Examples:\n  walpost import debezium orders.json connect-distributed.properties > walpost.toml\n  \
                      walpost import debezium connectors.json worker.properties -o /etc/walpost\n  \
                      curl -s connect:8083/connectors?expand=info | walpost import debezium /dev/stdin worker.properties -o /etc/walpost\n  \
                      walpost import debezium orders.json connect-distributed.properties -c walpost.toml --offsets kafka:connect-offsets"
    )]
    Debezium(ImportDebezium),
}

#[derive(Debug, Args)]
struct ImportDebezium {
    /// Configurations of connectors and workers
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Write one file a connector into this folder, instead of to standard output, which takes one connector alone; what is there is not overwritten
    #[arg(short = 'o', long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// The configuration that was made of the connector, as it is now: the checkpoint is written where it says, and none is made anew
    #[arg(short = 'c', long = "config", value_name = "CONFIG", requires = "position", conflicts_with = "output")]
    config: Option<PathBuf>,
    /// Which Debezium runs the connector, such as 2.7: what a configuration leaves out depends on it
    #[arg(long, value_name = "X.Y")]
    debezium_version: Option<commands::Version>,
    /// Make the slot's position the checkpoint; what the connector published after it is published again
    #[arg(long, group = "position")]
    checkpoint: bool,
    /// Make the offset that Connect stored the checkpoint, so that nothing that it covers is published again: the file of a standalone worker or of Debezium Server, or
    /// kafka:TOPIC (kafka:TOPIC@HOST:PORT for other brokers)
    #[arg(long, value_name = "OFFSETS", group = "position")]
    offsets: Option<commands::Offsets>,
}

#[derive(Debug, Subcommand)]
enum Config {
    /// Print every fault of the configuration, one a line
    Check(ConfigFile),
    /// Print the reference of the configuration file, as Markdown
    Reference,
    /// Print the reference of the metrics that /metrics shows, as Markdown
    Metrics,
    /// Print what becomes of every option of Debezium, as Markdown
    Debezium,
}

/// The whole program.
#[must_use]
pub fn main(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    match Cli::try_parse_from(arguments) {
        Ok(cli) => perform(cli.command),
        Err(refusal) => {
            let printed = refusal.print();
            if let Some(hint) = hint_of(&refusal) {
                complain(&hint);
            }
            if refusal.use_stderr() {
                return Exit::Usage;
            }
            output::keep(printed);
            output::settled(Exit::Success)
        }
    }
}

/// What to write where a configuration file was named without its option.
fn hint_of(refusal: &clap::Error) -> Option<String> {
    let is_unknown = refusal.kind() == ErrorKind::UnknownArgument;
    match refusal.get(ContextKind::InvalidArg) {
        Some(ContextValue::String(argument)) if is_unknown && argument.ends_with(".toml") => {
            Some(format!("name the file with -c: -c {argument}"))
        }
        _ => None,
    }
}

fn perform(command: Command) -> Exit {
    match command {
        Command::Run(Run { config, until }) => with_log(&config, |settings| commands::run(settings, until)),
        Command::Init(Init { config, with_outbox, dry_run }) => {
            let options = commands::Init { with_outbox, is_dry_run: dry_run };
            with_settings(&config, |settings| commands::init(settings, options))
        }
        Command::Check(config) => with_settings(&config, commands::check),
        Command::Checkpoint(action) => {
            let (config, action) = match action {
                Checkpoint::Show(config) => (config, commands::Checkpoint::Show),
                Checkpoint::AdoptSlot(config) => (config, commands::Checkpoint::AdoptSlot),
                Checkpoint::Forget(config) => (config, commands::Checkpoint::Forget),
                Checkpoint::Copy(Copy { config, to }) => (config, commands::Checkpoint::Copy(to.0)),
            };
            with_settings(&config, |settings| commands::checkpoint(settings, action))
        }
        Command::Repair(repair) => {
            let (config, asked) = repair.read();
            with_settings(&config, |settings| commands::repair(settings, asked))
        }
        Command::Status(Status { config, json }) => {
            let form = if json { commands::Form::Json } else { commands::Form::Table };
            with_settings(&config, |settings| commands::status(settings, form))
        }
        Command::Dlq(asked) => {
            let (config, action) = asked.into_action();
            with_settings(&config, |settings| commands::dlq(settings, action))
        }
        Command::Config(Config::Check(config)) => check_config(&config.path),
        Command::Config(Config::Reference) => print(&config::reference::render()),
        Command::Completions { shell } => write_out(&commands::completions(Cli::command(), shell)),
        Command::Man { folder } => finish(async move { commands::man(Cli::command(), &folder) }),
        Command::Config(Config::Metrics) => print(&manual::render()),
        Command::Config(Config::Debezium) => print(&debezium::page::render()),
        Command::Import(Import::Debezium(asked)) => {
            let ImportDebezium { files, output, config, debezium_version, checkpoint, offsets } = asked;
            let slot = checkpoint.then_some(commands::Position::Slot);
            let position = offsets.map(commands::Position::Offsets).or(slot);
            let into = match config {
                None => None,
                Some(path) => match load(&path) {
                    Some(loaded) => Some(loaded.settings),
                    None => return Exit::Configuration,
                },
            };
            let import = commands::Import { files, folder: output, into, version: debezium_version, position };
            finish(commands::import(import))
        }
    }
}

/// Runs a command to its end; what it has to say last is a line on standard error.
fn finish(command: impl Future<Output = Outcome>) -> Exit {
    output::settled(block_on(command).unwrap_or_else(|ended| {
        ended.sentences().iter().for_each(|sentence| complain(&format!("error: {sentence}")));
        ended.exit
    }))
}

/// Runs a command that reports to a person: what it has to say last is a line on standard error.
fn with_settings<F>(config: &ConfigFile, command: impl FnOnce(Settings) -> F) -> Exit
where
    F: Future<Output = Outcome>,
{
    let Some(Loaded { settings, warnings }) = load(&config.path) else { return Exit::Configuration };
    for warning in warnings {
        complain(&format!("warning: {}: {warning}", config.path.display()));
    }
    finish(command(settings))
}

/// Runs a command that reports to an operator: whatever it has to say is an entry of the log.
fn with_log<F>(config: &ConfigFile, command: impl FnOnce(Settings) -> F) -> Exit
where
    F: Future<Output = Outcome>,
{
    let Some(Loaded { settings, warnings }) = load(&config.path) else { return Exit::Configuration };
    log::start(settings.log());
    for warning in warnings {
        tracing::warn!(config = %config.path.display(), "{warning}");
    }
    block_on(command(settings)).unwrap_or_else(|ended| {
        ended.sentences().iter().for_each(|sentence| tracing::error!(exit = ended.exit.code(), "{sentence}"));
        ended.exit
    })
}

/// How long a process that ends waits for what blocks.
const LAST_WAIT: Duration = Duration::from_secs(2);

/// Runs a command on a runtime of its own. A Kafka client that is being closed is waited for. What is still blocked after that (a pipe that nobody reads, a client
/// that does not end) is left behind; [`Exit::end`] does not disturb it.
fn block_on(command: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|cause| Ended::because(Exit::Unexpected, cause))?;
    let outcome = runtime.block_on(command);
    runtime.shutdown_timeout(LAST_WAIT);
    outcome
}

/// Reads the configuration, or prints what is wrong with it.
fn load(path: &Path) -> Option<Loaded> {
    match config::load(path, &Process) {
        Ok(loaded) => Some(loaded),
        Err(error @ Error::Unreadable { .. }) => {
            complain(&format!("error: {:#}", anyhow::Error::from(error)));
            None
        }
        Err(faulty) => {
            complain(&faulty.to_string());
            None
        }
    }
}

fn check_config(path: &Path) -> Exit {
    let Some(Loaded { settings, warnings }) = load(path) else { return Exit::Configuration };
    for warning in warnings {
        complain(&format!("warning: {}: {warning}", path.display()));
    }
    let tables: Vec<_> = settings.outboxes().iter().map(|outbox| outbox.table.to_string()).collect();
    let (tables, sink) = (tables.join(", "), settings.sink().place());
    print(&format!("{}: good; relay {:?} publishes {tables} to {sink}\n", path.display(), settings.name()))
}

/// Writes text to standard output.
fn print(text: &str) -> Exit {
    write_out(text.as_bytes())
}

/// Writes to standard output, and nothing else.
fn write_out(bytes: &[u8]) -> Exit {
    output::bytes(bytes);
    output::settled(Exit::Success)
}

/// Writes a line to standard error; there is nobody to tell when that fails.
fn complain(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_of_the_command_line_holds_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_checkpoint_can_be_copied_to_postgres_to_kafka_or_to_a_file() {
        assert_eq!("postgres".parse(), Ok(Target(commands::Target::Postgres)));
        assert_eq!("kafka".parse(), Ok(Target(commands::Target::Kafka)));
        assert_eq!("file:/a:b".parse(), Ok(Target(commands::Target::File(PathBuf::from("/a:b")))));
        for bad in ["", "file", "file:", "slot", "/a", "kafka:x"] {
            assert!(bad.parse::<Target>().is_err(), "{bad}");
        }
    }
}
