//! `cargo xtask demo`: what walpost promises, seen with one's own eyes in a minute.
//!
//! A shop commits orders, each with its outbox row in the same transaction, and rolls one back. The relay is killed,
//! the shop goes on, the relay is started again. At the end everything that was committed has arrived, and what was
//! rolled back has not; if that is not so, the demo fails with a sentence.

mod relay;
mod shop;
mod witness;

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use walpost_testkit::servers::{Kafka, Need, Postgres, Scratch, dependent, install, kafka_tool, wait_until};

use crate::interrupt;
use crate::steps::run_cargo;
use relay::{Relay, walpost};
use shop::Shop;
use witness::Witness;

const TOPIC: &str = "outbox.event.order";
/// How long a record may take to arrive: far more than it does.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the records go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Broker {
    /// To the relay's standard output.
    None,
    /// Into a real Kafka.
    Kafka,
}

pub(crate) fn run(broker: Broker) -> Result<()> {
    let since = Instant::now();
    let stage = Stage::set(broker)?;
    let outcome = stage.play();
    if outcome.is_err() && interrupt::check().is_ok() {
        stage.show_logs();
    }
    outcome?;
    drop(stage);
    step(&format!(
        "Done in {:.0} s; the servers are stopped and their data is removed.",
        since.elapsed().as_secs_f32()
    ));
    Ok(())
}

/// The servers and the files of one run; dropped, all of it is gone.
struct Stage {
    postgres: Postgres,
    kafka: Option<Kafka>,
    scratch: Scratch,
}

impl Stage {
    fn set(broker: Broker) -> Result<Self> {
        step("Building walpost");
        build(broker)?;
        step("Starting a throw-away PostgreSQL with wal_level=logical");
        let postgres = Postgres::start()?;
        interrupt::check()?;
        let kafka = match broker {
            Broker::None => None,
            Broker::Kafka => {
                step("Starting a throw-away Kafka");
                Some(Kafka::start()?)
            }
        };
        interrupt::check()?;
        Ok(Self { postgres, kafka, scratch: Scratch::new("demo")? })
    }

    fn play(&self) -> Result<()> {
        let mut shop = Shop::open(&self.postgres)?;
        self.configure(&shop)?;
        let consumer = self.consumer()?;

        step("Starting the relay: walpost run");
        let mut relay = Relay::start(&self.scratch, None)?;
        step("Committing three orders, each with its outbox row in one transaction");
        shop.commit(3)?;
        step("Ordering once more, but rolling back");
        shop.roll_back()?;
        Self::wait_for_all(&shop, &mut relay, consumer.as_ref())?;

        step("Killing the relay with SIGKILL");
        let before = relay.kill()?;
        step("Committing three more orders while no relay runs");
        shop.commit(3)?;
        step("Starting the relay again");
        let mut relay = Relay::start(&self.scratch, Some(&before))?;
        Self::wait_for_all(&shop, &mut relay, consumer.as_ref())?;

        step("Stopping the relay with SIGTERM");
        let heard = relay.stop(PATIENCE)?;
        judge(&shop, consumer.as_ref().unwrap_or(&heard))
    }

    fn configure(&self, shop: &Shop<'_>) -> Result<()> {
        let sink = match &self.kafka {
            None => "type = \"stdout\"\n".to_owned(),
            Some(kafka) => {
                format!("type = \"kafka\"\n\n[sink.kafka]\n\"bootstrap.servers\" = \"{}\"\n", kafka.bootstrap())
            }
        };
        relay::write_configuration(&self.scratch, shop.url(), &sink)?;
        step("Preparing the database: walpost init --with-outbox");
        let mut init = walpost(&self.scratch, "init")?;
        let output = init.arg("--with-outbox").output().context("cannot run walpost init")?;
        if !output.status.success() {
            bail!("walpost init failed ({}):\n{}", output.status, String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(())
    }

    /// With a broker, whoever reads from it.
    fn consumer(&self) -> Result<Option<Witness>> {
        let Some(kafka) = &self.kafka else { return Ok(None) };
        step(&format!("Making the topic {TOPIC} with three partitions, and a consumer of it"));
        let mut create = kafka_tool("org.apache.kafka.tools.TopicCommand")?;
        create.args(["--bootstrap-server", kafka.bootstrap(), "--create", "--topic", TOPIC, "--partitions", "3"]);
        let output = create.output().context("cannot run Kafka's program for topics")?;
        ensure!(
            output.status.success(),
            "the topic cannot be made: {}",
            String::from_utf8_lossy(&output.stdout).trim()
        );
        let mut consume = under_our_life(&kafka_tool("org.apache.kafka.tools.consumer.ConsoleConsumer")?);
        consume.args(["--bootstrap-server", kafka.bootstrap(), "--topic", TOPIC, "--from-beginning"]);
        for print in ["partition", "key", "headers", "value"] {
            consume.args(["--formatter-property", &format!("print.{print}=true")]);
        }
        consume.stderr(File::create(self.consumer_log()).context("cannot write the consumer's log")?);
        Witness::of(consume, None).map(Some)
    }

    fn wait_for_all(shop: &Shop<'_>, relay: &mut Relay, consumer: Option<&Witness>) -> Result<()> {
        let mut died = false;
        let waited = wait_until("what was committed to arrive", PATIENCE, || {
            died = relay.has_ended();
            let arrived = consumer.unwrap_or(relay.witness()).lacks(shop.committed()).is_empty();
            arrived || died || interrupt::check().is_err()
        });
        interrupt::check()?;
        ensure!(!died, "the relay ended by itself");
        let lacking = || consumer.unwrap_or(relay.witness()).lacks(shop.committed()).join(", ");
        waited.with_context(|| format!("{} committed, but did not arrive", lacking())).map(drop)
    }

    fn show_logs(&self) {
        for (whose, path) in [("relay", relay::log(&self.scratch)), ("consumer", self.consumer_log())] {
            let Ok(log) = fs::read_to_string(path) else { continue };
            let lines: Vec<&str> = log.lines().collect();
            let last = lines.get(lines.len().saturating_sub(20)..).unwrap_or_default();
            say!("\nThe end of the {whose}'s log:\n{}\n", last.join("\n"));
        }
    }

    fn consumer_log(&self) -> PathBuf {
        self.scratch.path().join("consumer.log")
    }
}

fn build(broker: Broker) -> Result<()> {
    let build = ["build", "--quiet", "--locked", "--package", "walpost"];
    match broker {
        // Without Kafka's client neither OpenSSL nor a C library has to be built.
        Broker::None => run_cargo(&[&build[..], &["--no-default-features"]].concat(), &[]),
        Broker::Kafka => {
            install(&[Need::Build])?;
            run_cargo(&build, &[])
        }
    }
}

/// Compares what was committed with what arrived.
fn judge(shop: &Shop<'_>, arrived: &Witness) -> Result<()> {
    let lacking = arrived.lacks(shop.committed());
    ensure!(lacking.is_empty(), "{} committed and never arrived", lacking.join(", "));
    for order in shop.rolled_back() {
        ensure!(arrived.count(order) == 0, "{order} was rolled back, and arrived all the same");
    }
    let repeats: usize = shop.committed().iter().map(|order| arrived.count(order).saturating_sub(1)).sum();
    let repeated = match repeats {
        0 => "none twice".to_owned(),
        1 => "one of them twice, as a crash may".to_owned(),
        _ => format!("{repeats} repeats, as a crash may"),
    };
    step(&format!(
        "{} orders were committed and arrived, {repeated}; the one rolled back did not.",
        shop.committed().len()
    ));
    Ok(())
}

/// The same command, but its process dies with us.
fn under_our_life(command: &Command) -> Command {
    let mut ours = dependent(command.get_program());
    ours.args(command.get_args());
    ours
}

fn step(text: &str) {
    say!("==> {text}");
}
