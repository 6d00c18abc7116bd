//! Plays many cases at once: one database, one relay with an outbox for each case, one slot, one publication.
//!
//! Starting a relay and making topics is what takes the time, so most cases share it. Each still has a schema and topics of its own and its own
//! options, and is compared in full. A relay that refuses to start because of a case says so with the name of its table: that is the case's
//! difference, unless it is what the case expects, and the relay is started without the case's outbox.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use walpost_core::failure::chain;
use walpost_testkit::consumer::{Consumer, Received};
use walpost_testkit::relay::{Config, Ended, Relay, Walpost};
use walpost_testkit::servers::{Database, shared_kafka, shared_postgres};

use super::case::{Case, PARTITIONS, stage_prefix};
use super::compare::Window;
use super::replay::{
    MARKER_COLUMNS, MARKER_ROW, STEP, STREAMING, compare, read_to_end, readings, script, topics, windows, with_outboxes,
};
use super::{Outcome, Played, letters};
use crate::rig::WALPOST;

/// Between two looks at a relay's log.
const GLANCE: Duration = Duration::from_secs(2);

/// The exit code for a configuration that cannot be honoured.
const BAD_CONFIGURATION: i32 = 3;

/// A case, and what became of it so far.
struct Member<'a> {
    case: &'a Case,
    windows: Vec<Window>,
    /// The words with which the relay has yet to refuse its table.
    refusal: Option<&'a [String]>,
    /// Whether the relay still has its outbox.
    is_configured: bool,
    difference: Option<String>,
}

/// A place where batches are played one after the other, on the same topics: to make those is what takes longest.
pub(super) struct Hall {
    number: usize,
    topics: BTreeSet<String>,
    consumer: Consumer,
}

/// Cases under way.
struct Batch<'a> {
    name: String,
    database: Database,
    walpost: Walpost,
    members: Vec<Member<'a>>,
}

impl Hall {
    pub(super) fn open(number: usize) -> Outcome<Self> {
        let consumer = Consumer::of_prefix(shared_kafka().bootstrap(), &stage_prefix(number))?;
        Ok(Self { number, topics: BTreeSet::new(), consumer })
    }

    /// Plays cases of one kind of publication, each in its seat.
    pub(super) fn play(&mut self, cases: &[Case]) -> Vec<Played> {
        match self.try_to_play(cases) {
            Ok(played) => played,
            Err(error) => {
                // What it has left is none of the next one's.
                let _ = read_to_end(&mut self.consumer);
                Played::differing(cases, &format!("its batch cannot be played: {}", chain(&*error)))
            }
        }
    }

    fn try_to_play(&mut self, cases: &[Case]) -> Outcome<Vec<Played>> {
        let name = stage_prefix(self.number) + "all";
        let of = |case: &Case| {
            let counted = topics(case).into_iter().map(|topic| (case.partitions(&topic), topic));
            counted.map(|(partitions, topic)| (topic, partitions)).collect::<Vec<_>>()
        };
        self.make_topics(cases.iter().flat_map(of).chain([(marker(&name), 1)]))?;
        let older = self.consumer.records().len();
        let mut batch = Batch::prepare(name, cases)?;
        batch.run(self, older)?;
        let received = read_to_end(&mut self.consumer)?.get(older..).unwrap_or_default();
        Ok(batch.members.into_iter().map(|member| member.judge(received)).collect())
    }

    /// Reads until the condition holds. Meanwhile the topics are made that the relay asks for: what comes there is not expected, and
    /// the other cases are not to wait behind it.
    fn read_until(&mut self, relay: &Relay, holds: impl Fn(&[Received]) -> bool) -> Outcome {
        let since = Instant::now();
        while self.consumer.read_until("the relay", GLANCE, &holds).is_err() {
            let log = relay.log();
            if since.elapsed() >= STEP {
                return Err(format!("the relay was waited for in vain; its log:\n{log}").into());
            }
            let asked_for = log.split("--create --topic ").skip(1).filter_map(|rest| rest.split_whitespace().next());
            let prefix = stage_prefix(self.number);
            self.make_topics(
                asked_for.filter(|topic| topic.starts_with(&prefix)).map(|topic| (topic.to_owned(), PARTITIONS)),
            )?;
        }
        Ok(())
    }

    /// Makes those that are not there yet, each with so many partitions.
    fn make_topics(&mut self, wanted: impl Iterator<Item = (String, i32)>) -> Outcome {
        let wanted: BTreeMap<String, i32> = wanted.filter(|(topic, _)| !self.topics.contains(topic)).collect();
        let new: Vec<(&str, i32)> = wanted.iter().map(|(topic, partitions)| (topic.as_str(), *partitions)).collect();
        if !new.is_empty() {
            shared_kafka().create_topics(&new)?;
            self.consumer.wait_for(&new.iter().map(|&(topic, _)| topic).collect::<Vec<_>>(), STEP)?;
        }
        self.topics.extend(wanted.into_keys());
        Ok(())
    }
}

impl<'a> Member<'a> {
    fn new(case: &'a Case) -> Self {
        let ours = case.ours();
        Self {
            case,
            windows: Vec::new(),
            refusal: ours.and_then(|ours| ours.refuses_start.as_deref()),
            is_configured: true,
            difference: None,
        }
    }

    /// Remembers what is wrong first.
    fn differs(&mut self, difference: String) {
        self.difference.get_or_insert(difference);
    }

    /// The relay does not start because of its table, and said this of it.
    fn is_refused(&mut self, said: &str) {
        self.is_configured = false;
        match self.refusal.take() {
            None => self.differs(format!("the relay refuses to start:\n    {said}")),
            Some(words) => {
                let mut missing = words.iter().filter(|word| !said.to_lowercase().contains(&word.to_lowercase()));
                let missing = missing.next().map(|word| format!("the relay did not say {word:?}:\n    {said}"));
                missing.into_iter().for_each(|difference| self.differs(difference));
            }
        }
    }

    fn judge(mut self, received: &[Received]) -> Played {
        let own = received.iter().filter(|record| record.topic.starts_with(&self.case.prefix));
        self.compare(&own.cloned().collect::<Vec<_>>());
        Played { name: self.case.name.clone(), difference: self.difference }
    }

    fn compare(&mut self, received: &[Received]) {
        if let Some(words) = self.refusal {
            self.differs(format!("the relay starts, and was to refuse with {words:?}"));
        }
        let compared = compare(self.case, &self.windows, self.case.expected(), received);
        compared.err().into_iter().for_each(|error| self.differs(error.to_string()));
    }
}

impl<'a> Batch<'a> {
    fn prepare(name: String, cases: &'a [Case]) -> Outcome<Self> {
        let database = shared_postgres().fresh_database("parity")?;
        let options = cases.first().map_or("", |case| &case.publication);
        let tables = cases.iter().map(|case| {
            let (prefix, ddl) = (&case.prefix, case.ddl.join("\n;\n"));
            format!("DISCARD ALL;\nCREATE SCHEMA {prefix};\nSET search_path = {prefix}, public;\n{ddl}\n;\n")
        });
        database.psql(&format!(
            "{}DISCARD ALL;\nCREATE TABLE parity_marker {MARKER_COLUMNS};\n\
             CREATE PUBLICATION {name} FOR TABLE parity_marker, {} WITH ({options})",
            tables.collect::<String>(),
            cases.iter().map(|case| case.table.as_str()).collect::<Vec<_>>().join(", ")
        ))?;
        let members: Vec<Member<'a>> = cases.iter().map(Member::new).collect();
        let walpost = Walpost::new(&*WALPOST, &config(&name, &database, &members))?;
        Ok(Self { name, database, walpost, members })
    }

    /// Until the marker has arrived behind the older records and the relay has stopped in order.
    fn run(&mut self, hall: &mut Hall, older: usize) -> Outcome {
        let relay = self.start()?;
        self.write()?;
        let topic = marker(&self.name);
        let count = |records: &[Received]| records.iter().skip(older).filter(|record| record.topic == topic).count();
        hall.read_until(&relay, |records| count(records) > 0 || !relay.is_running())?;
        relay.sigterm()?;
        hall.read_until(&relay, |_| !relay.is_running())?;
        let ended = relay.wait(STEP)?;
        match (ended.code(), count(read_to_end(&mut hall.consumer)?)) {
            (Some(0), 1) => self.look_at_letters(),
            (Some(0), count) => Err(format!("the marker arrived {count} times").into()),
            _ => Err(format!("the relay ended with {}; its log:\n{}", ended.status, ended.log).into()),
        }
    }

    /// Starts the relay, without the outboxes that it refuses.
    fn start(&mut self) -> Outcome<Relay> {
        loop {
            let relay = self.walpost.start()?;
            if relay.wait_for_log(STREAMING, STEP).is_ok() {
                return Ok(relay);
            }
            let ended = relay.wait(STEP)?;
            let configured = self.members.iter_mut().filter(|member| member.is_configured);
            // The first outbox is the marker's.
            let refused = configured.zip(1..).filter_map(|(member, index)| {
                let said = said_of(&ended, &[&member.case.prefix, &format!(" outbox[{index}].")])?;
                Some((said, member))
            });
            let count = refused.map(|(said, member)| member.is_refused(&said)).count();
            // 1 is for errors that nobody foresaw.
            if count == 0 || matches!(ended.code(), None | Some(0 | 1)) {
                return Err(format!("the relay ended with {}; its log:\n{}", ended.status, ended.log).into());
            }
            self.configure()?;
        }
    }

    /// Writes the rows of all cases, and the marker behind them.
    fn write(&mut self) -> Outcome {
        let scripts = self.members.iter().map(|member| format!("DISCARD ALL;\n{}", script(member.case)));
        let scripts = scripts.collect::<String>();
        let rows = self.database.psql(&format!("{scripts}DISCARD ALL;\nINSERT INTO parity_marker {MARKER_ROW}"))?;
        let mut readings = readings(&rows)?.into_iter();
        for member in &mut self.members {
            member.windows = windows(member.case, &mut readings)?;
        }
        Ok(())
    }

    /// Compares what was set aside with what had to be.
    fn look_at_letters(&mut self) -> Outcome {
        let schemas = self.database.psql("SELECT DISTINCT outbox_schema FROM walpost.dead_letter")?;
        let schemas: BTreeSet<String> = schemas.into_iter().flatten().collect();
        for member in &mut self.members {
            if member.case.has_bad_rows() || schemas.contains(&member.case.prefix) {
                let differences = letters::differences(&self.database, member.case)?;
                differences.into_iter().for_each(|difference| member.differs(difference));
            }
        }
        Ok(())
    }

    fn configure(&self) -> Outcome {
        Ok(self.walpost.configure(&config(&self.name, &self.database, &self.members))?)
    }
}

/// What a relay that ended said of one that has these names. Faults of a configuration stand in lines of their own.
fn said_of(ended: &Ended, names: &[&str]) -> Option<String> {
    let is_error = |line: &&str| ended.code() == Some(BAD_CONFIGURATION) || line.contains("ERROR");
    let lines = ended.log.lines().filter(is_error).filter(|line| names.iter().any(|name| line.contains(name)));
    let said = lines.collect::<Vec<_>>().join("\n    ");
    (!said.is_empty()).then_some(said)
}

/// The topic of the marker.
fn marker(name: &str) -> String {
    format!("{name}.parity-marker")
}

fn config(name: &str, database: &Database, members: &[Member<'_>]) -> Config {
    let config = Config::new(&database.url(), name)
        .kafka(shared_kafka().bootstrap())
        .set("source", "create", "true")
        .set("retry", "max_ms", "1000")
        .set("dead_letter", "flood_limit", "1000")
        // The marker may arrive before what goes to other partitions.
        .set("stop", "timeout_ms", &STEP.as_millis().to_string())
        .outbox("public.parity_marker", &[("route.topic.replacement", &marker(name))]);
    members
        .iter()
        .filter(|member| member.is_configured)
        .fold(config, |config, member| with_outboxes(config, member.case))
}
