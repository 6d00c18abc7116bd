//! One connector, one file.

use super::converters::{self, Worker};
use super::database;
use super::draft::{Draft, Heading};
use super::given::{Connector, Everything, Given, Home};
use super::producer::{self, Properties};
use super::router::{self, Chain, Routing};
use super::section::Section;
use super::tables::{self, Listed};
use super::text::literal;
use super::version::Version;
use crate::debezium::options::{self, CONNECTOR, Entry, Fate, PRODUCER, SERVER, WORKER};

const CONNECTOR_CLASSES: [&str; 3] =
    ["io.debezium.connector.postgresql.PostgresConnector", "PostgresConnector", "Postgres"];

/// A connector made into a walpost.toml.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Imported {
    /// The connector's name.
    pub(super) name: String,
    /// `topic.prefix`, under which Connect stores its offsets.
    pub(super) prefix: String,
    /// The file.
    pub(super) toml: String,
    /// Its lines that walpost refuses until somebody decides.
    pub(super) undecided: Vec<String>,
}

impl Imported {
    /// The file without what is to be decided, which has no part in where the relay goes on.
    pub(super) fn without_undecided(&self) -> String {
        let lines = self.toml.lines().filter(|line| !self.undecided.iter().any(|undecided| undecided == line));
        lines.fold(String::new(), |file, line| file + line + "\n")
    }
}

/// Makes a walpost.toml of a connector.
///
/// # Errors
/// Why it is none that walpost could stand in for.
pub(super) fn import(
    connector: &Connector,
    everything: &Everything,
    version: Option<Version>,
) -> Result<Imported, String> {
    let mut options = connector.options.clone();
    let class = options.take("connector.class").unwrap_or_default();
    if !CONNECTOR_CLASSES.contains(&class.trim()) {
        return Err(format!(
            "its connector.class is {class}; only Debezium's connector for PostgreSQL can be imported"
        ));
    }
    options.take("name");
    let (version, how) = which_version(&options, version);
    let prefix = options.take("topic.prefix").or_else(|| options.take("database.server.name")).unwrap_or_default();
    let mut draft = Draft::default();
    let mut worker = if connector.home == Home::Connect { everything.worker.clone() } else { Given::default() };
    let Chain { routings, undecided } = router::chain(&mut options, &prefix, version, &mut draft);
    if routings.is_empty() {
        return Err("its transforms hold no outbox event router (io.debezium.transforms.outbox.EventRouter), and walpost publishes outboxes only".to_owned());
    }
    database::source(&mut options, &mut draft);
    let is_given = !everything.worker_files.is_empty() || connector.home == Home::Server;
    let mut connect =
        converters::connect(&mut options, &prefix, &Worker { options: &worker, is_given }, version, &mut draft);
    connect.append(undecided);
    leave_undecided(&mut options, version, &mut connect);
    outboxes(&mut options, &routings, &connect, &mut draft);
    sink(&mut options, &mut worker, connector.home, &mut draft);
    leave_rest(&options, connector.home, version, &mut draft);
    leave_worker(&worker, &mut draft);
    let opening = opening(connector, everything, version, how);
    let (toml, undecided) = draft.finish(&opening);
    Ok(Imported { name: connector.name.clone(), prefix, toml, undecided })
}

/// What the configuration itself tells of the version, where nobody says it.
fn which_version(options: &Given, asked: Option<Version>) -> (Version, &'static str) {
    match asked {
        Some(version) => (version, "as --debezium-version says"),
        None if options.has("database.server.name") && !options.has("topic.prefix") => {
            (Version::LAST_WITH_SERVER_NAME, "because it has database.server.name; --debezium-version says otherwise")
        }
        None => (Version::CURRENT, "the newest; --debezium-version says otherwise"),
    }
}

fn opening(connector: &Connector, everything: &Everything, version: Version, how: &str) -> Vec<String> {
    let of = match connector.home {
        Home::Connect => format!("connector {:?} in {}", connector.name, connector.file),
        Home::Server => format!("Debezium Server's {}", connector.file),
    };
    let worker = match (connector.home, everything.worker_files.as_slice()) {
        (Home::Connect, [_, ..]) => format!(", with the worker's {}", everything.worker_files.join(", ")),
        _ => String::new(),
    };
    vec![
        format!("Made by `walpost import debezium` of {of}{worker}, for Debezium {version} ({how})."),
        "Above each key stands the option that it comes from; what has no key is at the end. How to hand over: docs/handover.md.".to_owned(),
    ]
}

/// One section for each table and router.
fn outboxes(options: &mut Given, routings: &[Routing], connect: &Section, draft: &mut Draft) {
    let (name, list) = ["table.include.list", "table.whitelist"]
        .iter()
        .find_map(|name| options.take(name).map(|list| (*name, list)))
        .unwrap_or(("table.include.list", String::new()));
    let listed = tables::listed(&list);
    let mut is_first = true;
    let mut seen: Vec<String> = Vec::new();
    for routing in routings {
        let (mut found, remarks) = outbox_tables(name, &listed, routing, routings.len() > 1);
        found.retain(|table| !seen.contains(table));
        seen.extend(found.iter().cloned());
        if found.is_empty() {
            let why = "an earlier router of the chain takes all that it could.";
            draft.leave(Heading::Needless, "transforms", "a further EventRouter", why);
        }
        for (index, table) in found.iter().enumerate() {
            draft.section("[[outbox]]");
            if index == 0 {
                for (is_check, text) in &remarks {
                    if *is_check { draft.check(text) } else { draft.remark(text) }
                }
            }
            if table.chars().any(char::is_uppercase) {
                draft.check("Debezium's lists match in any case; write the name as the catalogue has it.");
            }
            draft.raw("table", &tables::as_sql(table));
            routing.section.write("[outbox.router]", index == 0, draft);
            connect.write("[outbox.connect]", is_first, draft);
            is_first = false;
        }
    }
}

/// The tables of a router, and what there is to say of them: whether it is to be looked at, and the sentence.
fn outbox_tables(
    name: &str,
    listed: &Listed,
    routing: &Routing,
    has_others: bool,
) -> (Vec<String>, Vec<(bool, String)>) {
    let mut remarks = Vec::new();
    if let Some(tables) = &routing.tables {
        let others: Vec<_> = listed.names.iter().filter(|table| !tables.contains(table)).map(String::as_str).collect();
        remarks.push((false, format!("{name}, and the router's predicate")));
        if !others.is_empty() && !has_others {
            let others = others.join(", ");
            remarks.push((true, format!("{others}: captured and no outbox; the changes of such tables are not published, and need a connector of their own, with a slot of its own.")));
        }
        return (tables.clone(), remarks);
    }
    for pattern in &listed.patterns {
        remarks.push((true, format!("{name} has the pattern {pattern}: list the tables that it matches, one [[outbox]] each; of a partitioned table its root alone.")));
    }
    if listed.names.is_empty() {
        let why = if listed.patterns.is_empty() {
            "there is no list of tables, so that all were captured"
        } else {
            "no list names a table"
        };
        remarks.push((true, format!("{name}: {why}; public.outbox stands here for yours.")));
        return (vec!["public.outbox".to_owned()], remarks);
    }
    remarks.push((false, name.to_owned()));
    (listed.names.clone(), remarks)
}

fn sink(options: &mut Given, worker: &mut Given, home: Home, draft: &mut Draft) {
    let prefix = match home {
        Home::Connect => "producer.override.",
        Home::Server => "debezium.sink.kafka.producer.",
    };
    let properties = Properties::new(&worker.take_prefixed("producer."), options.take_prefixed(prefix), prefix);
    let kind = options.take("debezium.sink.type");
    match kind.as_deref().map(str::trim) {
        Some(other) if home == Home::Server && other != "kafka" => {
            draft.section("[sink]");
            draft.check(&format!("debezium.sink.type = {other}: records go to Kafka or to standard output."));
            draft.key("type", "stdout");
        }
        _ => {
            let servers = worker.take("bootstrap.servers");
            producer::sink(properties, servers.as_deref(), draft);
        }
    }
}

/// Leaves what cannot be had and changes what consumers get, as lines that walpost refuses. What Debezium ignores changes nothing.
fn leave_undecided(options: &mut Given, version: Version, connect: &mut Section) {
    let is_undecided = |entry: &Entry| entry.fate == Fate::Decide && !is_gone(entry, version);
    let found: Vec<_> = options
        .iter()
        .filter_map(|(name, _)| {
            Some((name.to_owned(), options::find(CONNECTOR, name).filter(|entry| is_undecided(entry))?))
        })
        .collect();
    for (name, entry) in found {
        let Some(value) = options.take(&name) else { continue };
        connect.undecided((&name, &value), &name, &literal(&value), entry.note);
    }
}

/// Whether Debezium ignores the option by now.
fn is_gone(entry: &Entry, version: Version) -> bool {
    entry.until.parse().is_ok_and(|until: Version| version > until)
}

/// Tells every option that nobody took.
fn leave_rest(options: &Given, home: Home, version: Version, draft: &mut Draft) {
    for (name, value) in options.iter() {
        let server = if home == Home::Server { options::find(SERVER, name) } else { None };
        match options::find(CONNECTOR, name).or(server) {
            Some(entry) => draft.leave(entry.fate.into(), name, value, &sentence(entry, version)),
            None => {
                let guess = options::meant(CONNECTOR, name);
                let why = guess.map_or_else(|| "nobody reads it.".to_owned(), |known| format!("was {known} meant?"));
                draft.leave(Heading::Unknown, name, value, &why);
            }
        }
    }
}

fn sentence(entry: &Entry, version: Version) -> String {
    if is_gone(entry, version) {
        format!("{} (Debezium ignores it since the version after {}.)", entry.note, entry.until)
    } else {
        entry.note.to_owned()
    }
}

/// Tells what the worker's file holds besides.
fn leave_worker(worker: &Given, draft: &mut Draft) {
    for (name, value) in worker.iter() {
        let is_converter =
            ["key.converter", "value.converter", "header.converter"].iter().any(|key| name.starts_with(key));
        if is_converter {
            continue;
        }
        if let Some(entry) = options::find(WORKER, name) {
            draft.leave(entry.fate.into(), name, value, entry.note);
        } else if options::find(CONNECTOR, name).is_some_and(|entry| entry.fate == Fate::Needless) {
            draft.leave(Heading::Needless, name, value, "an option that workers have for all of their connectors.");
        } else if options::find(PRODUCER, name).is_some() {
            let why = "it concerns the worker's own connections; its producers have what begins with `producer.`.";
            draft.leave(Heading::Needless, name, value, why);
        } else {
            draft.leave(Heading::Unknown, name, value, "nobody reads it.");
        }
    }
}
