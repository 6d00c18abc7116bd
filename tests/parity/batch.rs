//! Plays many cases at once: one database, one relay with an outbox for each case, one slot, one publication of all tables.
//!
//! Starting a relay and making topics is what takes the time, so most cases share it. Each still has a schema and topics of its own and its own
//! options, and is compared in full. A relay that stops or refuses to start because of a case says so with the name of its table: that is the
//! case's difference, unless it is what the case expects, and the relay goes on: behind the row, or without the case's outbox.

use std::collections::BTreeMap;

use walpost_testkit::consumer::{Consumer, Received};
use walpost_testkit::relay::{Config, Ended, Relay, Walpost};
use walpost_testkit::servers::{Database, shared_kafka, shared_postgres};

use super::case::{Case, DeadLetter, batch_prefix};
use super::compare::Window;
use super::replay::{
    BAD_ROW, MARKER_COLUMNS, MARKER_ROW, STEP, STREAMING, compare, pairs, pass_over, read_to_end, readings, script,
    topics, windows,
};
use super::{Outcome, Played};
use crate::rig::WALPOST;

/// A case, and what became of it so far.
struct Member<'a> {
    case: &'a Case,
    windows: Vec<Window>,
    /// The rows that the relay has yet to stop at.
    bad_rows: Vec<&'a DeadLetter>,
    /// The words with which the relay has yet to refuse its table.
    refusal: Option<&'a [String]>,
    /// Whether the relay still has its outbox.
    is_configured: bool,
    difference: Option<String>,
}

/// Cases under way.
struct Batch<'a> {
    name: String,
    database: Database,
    walpost: Walpost,
    members: Vec<Member<'a>>,
}

/// Plays cases that have one number of a batch.
pub(super) fn play(cases: &[Case]) -> Vec<Played> {
    let failed = |error: &str| Played::differing(cases, &format!("its batch cannot be played: {error}"));
    let mut batch = match Batch::prepare(cases) {
        Ok(batch) => batch,
        Err(error) => return failed(&error.to_string()),
    };
    match batch.run().and_then(|()| batch.compare()) {
        Ok(()) => batch.members.into_iter().map(Member::played).collect(),
        Err(error) => failed(&error.to_string()),
    }
}

impl<'a> Member<'a> {
    fn new(case: &'a Case) -> Self {
        let ours = case.ours();
        Self {
            case,
            windows: Vec::new(),
            bad_rows: ours.map(|ours| ours.dead_letters.iter().collect()).unwrap_or_default(),
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

    /// The relay stopped at one of its rows, and said this of it.
    fn has_stopped(&mut self, said: &str) {
        let is_next = |row: &&DeadLetter| said.to_lowercase().contains(&row.reason_names.to_lowercase());
        if self.bad_rows.first().is_some_and(is_next) {
            self.bad_rows.remove(0);
        } else {
            self.is_configured = false;
            self.differs(format!("the relay stops:\n    {said}"));
        }
    }

    fn compare(&mut self, received: &[Received]) {
        if let Some(words) = self.refusal {
            self.differs(format!("the relay starts, and was to refuse with {words:?}"));
        }
        if let Some(row) = self.bad_rows.first() {
            self.differs(format!("the relay was to stop at the row {} with {:?}", row.id, row.reason_names));
        }
        let compared = compare(self.case, &self.windows, self.case.expected(), received);
        compared.err().into_iter().for_each(|error| self.differs(error.to_string()));
    }

    fn played(self) -> Played {
        Played { name: self.case.name.clone(), difference: self.difference }
    }
}

impl<'a> Batch<'a> {
    fn prepare(cases: &'a [Case]) -> Outcome<Self> {
        let name = batch_prefix(cases.first().ok_or("a batch of nothing")?.batch) + "all";
        let marker = marker(&name);
        let of = |case: &'a Case| topics(case).into_iter().map(|topic| (topic, case.partitions(topic)));
        let all: BTreeMap<&str, i32> = cases.iter().flat_map(of).chain([(marker.as_str(), 1)]).collect();
        shared_kafka().create_topics(&all.into_iter().collect::<Vec<_>>())?;
        let database = shared_postgres().fresh_database("parity")?;
        let tables = cases.iter().map(|case| {
            let (prefix, ddl) = (&case.prefix, case.ddl.join("\n;\n"));
            format!("DISCARD ALL;\nCREATE SCHEMA {prefix};\nSET search_path = {prefix}, public;\n{ddl}\n;\n")
        });
        database.psql(&format!(
            "{}DISCARD ALL;\nCREATE TABLE parity_marker {MARKER_COLUMNS};\n\
             CREATE PUBLICATION {name} FOR ALL TABLES WITH (publish = 'insert')",
            tables.collect::<String>()
        ))?;
        let members: Vec<Member<'a>> = cases.iter().map(Member::new).collect();
        let walpost = Walpost::new(WALPOST, &config(&name, &database, &members))?;
        Ok(Self { name, database, walpost, members })
    }

    /// Until the marker has arrived and the relay has stopped in order.
    fn run(&mut self) -> Outcome {
        let mut relay = self.start()?;
        self.write()?;
        let topic = marker(&self.name);
        let mut consumer = Consumer::of_topics(shared_kafka().bootstrap(), &[&topic])?;
        loop {
            consumer
                .read_until("the marker", STEP, |records| !records.is_empty() || !relay.is_running())
                .map_err(|error| format!("{error}\nthe relay's log:\n{}", relay.log()))?;
            if relay.is_running() {
                break;
            }
            let ended = relay.wait(STEP)?;
            self.go_on(&ended)?;
            relay = self.start()?;
        }
        let ended = relay.stop(STEP)?;
        match (ended.code(), read_to_end(&mut consumer)?.len()) {
            (Some(0), 1) => Ok(()),
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
            let refused = self.members.iter_mut().filter(|member| member.is_configured);
            let refused = refused.filter_map(|member| Some((said_of(member.case, &ended)?, member)));
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

    /// Has the relay go on behind the row that it stopped at.
    fn go_on(&mut self, ended: &Ended) -> Outcome {
        let member = self.members.iter_mut().find_map(|member| Some((said_of(member.case, ended)?, member)));
        let Some((said, member)) = member.filter(|_| ended.code() == Some(BAD_ROW)) else {
            return Err(format!("the relay ended with {}; its log:\n{}", ended.status, ended.log).into());
        };
        member.has_stopped(&said);
        pass_over(&self.database, &self.name, &self.walpost, ended)?;
        self.configure()
    }

    fn configure(&self) -> Outcome {
        Ok(self.walpost.configure(&config(&self.name, &self.database, &self.members))?)
    }

    /// Reads all that arrived, once.
    fn compare(&mut self) -> Outcome {
        let prefix = batch_prefix(self.members.first().ok_or("a batch of nothing")?.case.batch);
        let mut consumer = Consumer::of_prefix(shared_kafka().bootstrap(), &prefix)?;
        let received = read_to_end(&mut consumer)?;
        for member in &mut self.members {
            let own = received.iter().filter(|record| record.topic.starts_with(&member.case.prefix));
            member.compare(&own.cloned().collect::<Vec<_>>());
        }
        Ok(())
    }
}

/// The error of a relay that ended, as far as it names the table of a case.
fn said_of(case: &Case, ended: &Ended) -> Option<String> {
    let lines = ended.log.lines().filter(|line| line.contains("ERROR") && line.contains(&case.prefix));
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
        .outbox("public.parity_marker", &[("route.topic.replacement", &marker(name))]);
    members.iter().filter(|member| member.is_configured).fold(config, |config, member| {
        config.outbox(&member.case.table, &pairs(&member.case.router)).connect(&pairs(&member.case.connect()))
    })
}
