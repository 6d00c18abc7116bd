//! Plays one case alone: its tables, the relay beside them, its statements, and a marker row behind them all.
//!
//! A case is played live, as it was recorded: the relay streams before the first statement. The marker is a row of another
//! outbox of the same relay. Once it has arrived and the relay has stopped in order, nothing can be on its way any more, so what
//! did not arrive is missing, also where nothing was to arrive.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use walpost_testkit::consumer::{Consumer, Received};
use walpost_testkit::relay::{Config, Ended, Relay, Walpost};
use walpost_testkit::servers::{Database, Row, shared_kafka, shared_postgres, wait_until};

use super::case::{Case, Expected, Options};
use super::compare::{Comparison, Window};
use super::{Outcome, Played, letters};
use crate::rig::{LIMIT, WALPOST};

/// For any one step of a case.
pub(super) const STEP: Duration = LIMIT;

/// How many differences of a case are shown, all of them in full.
const SHOWN: usize = 8;

/// What marks the cells of our own clock in the output of a script.
const CLOCK: &str = "the clock of the server";

/// The outbox that the marker is written into, and the marker.
pub(super) const MARKER_COLUMNS: &str = "(id int, aggregatetype text, aggregateid text, payload text)";
pub(super) const MARKER_ROW: &str = "VALUES (1, 'marker', 'key', 'text')";

/// The exit code for a row that stops the relay.
const BAD_ROW: i32 = 7;

/// A database in which cases are played one after the other.
pub(super) struct Stage {
    database: Database,
}

impl Stage {
    pub(super) fn open() -> Outcome<Self> {
        Ok(Self { database: shared_postgres().fresh_database("parity")? })
    }

    /// `server_version_num`.
    pub(super) fn version() -> Outcome<i32> {
        Ok(Self::open()?.database.value("SHOW server_version_num")?.parse()?)
    }

    /// Plays a case and compares.
    pub(super) fn play(&self, case: &Case) -> Played {
        let difference = self.try_to_play(case).err().map(|error| error.to_string());
        Played { name: case.name.clone(), difference }
    }

    fn try_to_play(&self, case: &Case) -> Outcome {
        // Topics outside of the prefix are shared with other cases, so those wait for each other.
        static FOREIGN_TOPICS: Mutex<()> = Mutex::new(());
        let topics = topics(case);
        let foreign: Vec<&str> =
            topics.iter().map(String::as_str).filter(|topic| !topic.starts_with(&case.prefix)).collect();
        let turn = || FOREIGN_TOPICS.lock().unwrap_or_else(PoisonError::into_inner);
        let _turn = (!foreign.is_empty()).then(turn);
        let outcome = Play::prepare(&self.database, case, &foreign).and_then(|mut play| play.run());
        // Slots are few, and each keeps the log.
        self.drop_slot(&case.prefix)?;
        outcome
    }

    fn drop_slot(&self, name: &str) -> Outcome {
        let from = format!("FROM pg_replication_slots WHERE slot_name = '{name}'");
        self.database.psql(&format!("{}\nSELECT pg_drop_replication_slot(slot_name) {from}", walsender_gone(name)))?;
        Ok(())
    }
}

/// A statement that waits until nobody reads the slot: the server takes a moment to notice the end of a relay.
pub(super) fn walsender_gone(slot: &str) -> String {
    format!(
        "DO $$ BEGIN\n\
           FOR attempt IN 1..1000 LOOP\n\
             EXIT WHEN NOT EXISTS (SELECT FROM pg_replication_slots WHERE slot_name = '{slot}' AND active);\n\
             PERFORM pg_sleep(0.01);\n\
           END LOOP;\n\
         END $$;"
    )
}

/// Reads all that is there. A partition that was just made may have no leader for a moment.
pub(super) fn read_to_end(consumer: &mut Consumer) -> Outcome<&[Received]> {
    wait_until("the partitions to be led", STEP, || consumer.read_to_end(STEP).is_ok())?;
    Ok(consumer.records())
}

/// The topics that a case may write into: that of most rows too, also where none is expected.
pub(super) fn topics(case: &Case) -> BTreeSet<String> {
    let expected = case.expected().iter().map(|record| record.topic.clone());
    expected.chain([format!("{}.order", case.prefix)]).collect()
}

/// A case under way.
struct Play<'a> {
    database: &'a Database,
    case: &'a Case,
    walpost: Walpost,
    consumer: Consumer,
    /// How many records lay in foreign topics before.
    older: usize,
    windows: Vec<Window>,
}

impl<'a> Play<'a> {
    fn prepare(database: &'a Database, case: &'a Case, foreign: &[&str]) -> Outcome<Self> {
        let kafka = shared_kafka();
        for topic in foreign {
            // It may be there from before.
            let _ = kafka.create_topic(topic, case.partitions(topic));
        }
        let mut own = topics(case);
        own.retain(|topic| !foreign.contains(&topic.as_str()));
        own.insert(marker(case));
        let own = own.iter().map(|topic| (topic.as_str(), case.partitions(topic)));
        kafka.create_topics(&own.collect::<Vec<_>>())?;
        let prefix = &case.prefix;
        let (ddl, published, options) = (case.ddl.join("\n;\n"), case.published(), &case.publication);
        database.psql(&format!(
            "CREATE SCHEMA {prefix};\nSET search_path = {prefix}, public;\n{ddl}\n;\n\
             CREATE TABLE parity_marker {MARKER_COLUMNS};\n\
             CREATE PUBLICATION {prefix} {published} WITH ({options});\n\
             CREATE PUBLICATION {prefix}_marker FOR TABLE parity_marker WITH (publish = 'insert')"
        ))?;
        let walpost = Walpost::new(&*WALPOST, &config(database, case))?;
        let mut consumer = Consumer::of_prefix(kafka.bootstrap(), prefix)?.and_topics(foreign);
        let older = if foreign.is_empty() { 0 } else { read_to_end(&mut consumer)?.len() };
        Ok(Self { database, case, walpost, consumer, older, windows: Vec::new() })
    }

    fn run(&mut self) -> Outcome {
        let ours = self.case.ours();
        let refusal = ours.and_then(|ours| ours.refuses_start.as_deref());
        let stop = ours.and_then(|ours| ours.stops.as_deref());
        match (refusal, stop) {
            (Some(words), _) => self.refuse(words),
            (None, Some(words)) => self.stop(words),
            (None, None) => self.go_on(),
        }
    }

    /// The relay must not start.
    fn refuse(&mut self, words: &[String]) -> Outcome {
        let relay = self.walpost.start()?;
        if relay.wait_for_log(STREAMING, STEP).is_ok() {
            return Err(format!("the relay starts, and was to refuse with {words:?}; its log:\n{}", relay.log()).into());
        }
        let ended = relay.wait(STEP)?;
        // 1 is for errors that nobody foresaw.
        if matches!(ended.code(), None | Some(0 | 1)) {
            return Err(format!("the relay ended with {}; its log:\n{}", ended.status, ended.log).into());
        }
        assert_words(&ended, words.iter().map(String::as_str))?;
        self.compare(self.case.expected())
    }

    /// The relay has to stop at a statement, and again when it is started again: the slot has not passed.
    fn stop(&mut self, words: &[String]) -> Outcome {
        for is_first in [true, false] {
            let relay = if is_first { self.start()? } else { self.walpost.start()? };
            if is_first {
                self.write()?;
            }
            self.assert_stopped(relay, words.iter().map(String::as_str))?;
            self.compare(self.case.expected())?;
        }
        Ok(())
    }

    /// All rows but the bad ones arrive, and those are set aside.
    fn go_on(&mut self) -> Outcome {
        let relay = self.start()?;
        self.write()?;
        self.wait_for_marker(&relay)?;
        let ended = relay.stop(STEP)?;
        if ended.code() != Some(0) {
            return Err(format!("the relay ended with {}; its log:\n{}", ended.status, ended.log).into());
        }
        let count = self.read()?.iter().filter(|record| record.topic == marker(self.case)).count();
        // What was in flight beside a row that the broker refused comes again.
        if count == 0 || count > 1 && !self.case.has_bad_rows() {
            return Err(format!("the marker arrived {count} times").into());
        }
        self.compare(self.case.expected())?;
        let differences = letters::differences(self.database, self.case)?;
        if differences.is_empty() { Ok(()) } else { Err(differences.join("\n  ").into()) }
    }

    fn start(&self) -> Outcome<Relay> {
        let relay = self.walpost.start()?;
        relay.wait_for_log(STREAMING, STEP)?;
        Ok(relay)
    }

    /// Runs the statements and writes the marker behind them.
    fn write(&mut self) -> Outcome {
        let rows = self.database.psql(&format!("{}INSERT INTO parity_marker {MARKER_ROW}", script(self.case)))?;
        self.windows = windows(self.case, &mut readings(&rows)?.into_iter())?;
        Ok(())
    }

    fn wait_for_marker(&mut self, relay: &Relay) -> Outcome {
        let topic = marker(self.case);
        let has_come = |records: &[Received]| records.iter().any(|record| record.topic == topic);
        self.consumer
            .read_until("the marker", STEP, |records| has_come(records) || !relay.is_running())
            .map_err(|error| format!("{error}\nthe relay's log:\n{}", relay.log()))?;
        if !has_come(self.consumer.records()) && !relay.is_running() {
            return Err(format!("the relay ended before the marker arrived; its log:\n{}", relay.log()).into());
        }
        Ok(())
    }

    /// Waits until the relay has ended by itself because of a row, and said so.
    fn assert_stopped<'b>(&self, relay: Relay, words: impl IntoIterator<Item = &'b str>) -> Outcome {
        let ended = relay.wait(STEP)?;
        if ended.code() != Some(BAD_ROW) {
            return Err(format!("the relay ended with {}; its log:\n{}", ended.status, ended.log).into());
        }
        assert_words(&ended, words)
    }

    fn read(&mut self) -> Outcome<Vec<Received>> {
        let records = read_to_end(&mut self.consumer)?;
        Ok(records.get(self.older..).unwrap_or_default().to_vec())
    }

    /// Compares all that is in the topics, but for the marker.
    fn compare(&mut self, expected: &[Expected]) -> Outcome {
        let mut received = self.read()?;
        received.retain(|record| record.topic != marker(self.case));
        compare(self.case, &self.windows, expected, &received)
    }
}

/// The statements of a case, each between two looks at the server's clock.
pub(super) fn script(case: &Case) -> String {
    let clock = format!("SELECT '{CLOCK}', (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;\n");
    let statements = case.dml.iter().map(|statement| format!("{clock}{statement}\n;\n")).collect::<String>();
    format!("SET search_path = {}, public;\n{statements}{clock}", case.prefix)
}

/// What the clock said in the output of scripts, in microseconds.
pub(super) fn readings(rows: &[Row]) -> Outcome<Vec<i64>> {
    let readings = rows.iter().filter(|row| row.first().is_some_and(|cell| cell == CLOCK));
    readings.map(|row| Ok(row.get(1).ok_or("no time")?.parse()?)).collect()
}

/// When the statements of a case ran; takes its readings from those of the scripts.
pub(super) fn windows(case: &Case, readings: &mut impl Iterator<Item = i64>) -> Outcome<Vec<Window>> {
    let times: Vec<i64> = readings.take(case.dml.len() + 1).collect();
    if times.len() != case.dml.len() + 1 {
        return Err(format!("{} statements and {} times", case.dml.len(), times.len()).into());
    }
    Ok(case.dml.iter().zip(times.windows(2)).map(|(text, times)| window(text, times)).collect())
}

/// Compares what arrived of a case with what has to.
pub(super) fn compare(case: &Case, windows: &[Window], expected: &[Expected], received: &[Received]) -> Outcome {
    let comparison = Comparison { windows, is_loose: case.is_loose() };
    let mut differences = comparison.differences(expected, received);
    // One record too many shifts all behind it.
    let more = differences.split_off(differences.len().min(SHOWN)).len();
    differences.extend((more > 0).then(|| format!("and {more} more differences")));
    if differences.is_empty() { Ok(()) } else { Err(differences.join("\n  ").into()) }
}

/// What the relay says once it reads the slot.
pub(super) const STREAMING: &str = " streaming ";

fn assert_words<'a>(ended: &Ended, words: impl IntoIterator<Item = &'a str>) -> Outcome {
    let log = ended.log.to_lowercase();
    match words.into_iter().find(|word| !log.contains(&word.to_lowercase())) {
        Some(word) => Err(format!("the relay did not say {word:?}; its log:\n{}", ended.log).into()),
        None => Ok(()),
    }
}

/// The topic of the marker.
fn marker(case: &Case) -> String {
    format!("{}.parity-marker", case.prefix)
}

fn config(database: &Database, case: &Case) -> Config {
    let prefix = &case.prefix;
    let topic = marker(case);
    let config = Config::new(&database.url(), prefix)
        .kafka(shared_kafka().bootstrap())
        .set("source", "publication", &format!(r#"["{prefix}", "{prefix}_marker"]"#))
        .set("source", "create", "true")
        .set("retry", "max_ms", "1000")
        .outbox(&format!("{prefix}.parity_marker"), &[("route.topic.replacement", &topic)]);
    with_outboxes(config, case)
}

/// With the outboxes of a case.
pub(super) fn with_outboxes(config: Config, case: &Case) -> Config {
    let (router, connect) = (case.router.clone(), case.connect());
    case.outboxes()
        .into_iter()
        .fold(config, |config, table| config.outbox(table, &pairs(&router)).connect(&pairs(&connect)))
}

fn pairs(options: &Options) -> Vec<(&str, &str)> {
    options.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

/// From two readings of the clock in microseconds. A commit's time is cut down to milliseconds as well.
fn window(statement: &str, readings: &[i64]) -> Window {
    let ms = |index: usize| readings.get(index).copied().unwrap_or_default().div_euclid(1_000);
    Window { statement: statement.to_owned(), from_ms: ms(0), to_ms: ms(1) }
}
