//! A case as it was recorded: what is written into the database, how the router is configured, and what has to come of it.
//!
//! The fields are explained in `tests/conformance/README.md`. One that is not known is refused, for it may ask for something
//! that nobody compares.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Deserialize;
use walpost::debezium::options::{self, Fate};
use walpost_testkit::consumer::{Header, Received};

use super::Outcome;

/// A topic outside of any prefix, which all cases of the recording shared; the case for which it was read; and the case that also
/// wrote into it, whose record is found there.
const SHARED: (&str, &str, &str) = ("plain", "route-regex-nomatch", "route-regex");

/// Partitions of a topic where the case says nothing.
pub(super) const PARTITIONS: i32 = 3;

/// What stands for `{p}` in the case that has this seat in a batch, and in no other case of its stage at that time. Letters
/// and digits, which need no quotes in SQL or JSON and are changed by no adjustment of names, and none that begins another, also of another
/// run.
fn seat_prefix(stage: usize, seat: usize, partitions: i32) -> String {
    format!("{}p{partitions}c{seat:03}", stage_prefix(stage))
}

/// What the prefixes of all seats of a stage begin with.
pub(super) fn stage_prefix(stage: usize) -> String {
    format!("parity{}s{stage}", std::process::id())
}

/// What PostgreSQL has since version 15: a `numeric` whose scale is negative or above its precision; publications of a part of a table's rows or
/// columns, or of a schema; and a text for a `"char"` that is no ASCII.
const SINCE_15: [&str; 6] =
    ["numeric(10,-2)", "numeric(2,5)", "outbox where (", "outbox (id,", "tables in schema", "c \"char\""];

/// The connector's option that names the outboxes.
const INCLUDED: &str = "table.include.list";

/// Options by their names.
pub(super) type Options = BTreeMap<String, String>;

/// A line of a file.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) name: String,
    /// As it was recorded.
    #[serde(skip)]
    line: String,
    /// What stands for `{p}`.
    #[serde(skip)]
    pub(super) prefix: String,
    pub(super) router: Options,
    connector: Options,
    key_converter: String,
    value_converter: String,
    header_converter: Option<String>,
    pub(super) table: String,
    pub(super) publication: String,
    publication_for: Option<String>,
    pub(super) ddl: Vec<String>,
    pub(super) dml: Vec<String>,
    partitions: Option<i32>,
    debezium_records: Vec<Expected>,
    debezium_died: Option<String>,
    ours: Option<String>,
    ours_expected: Option<Ours>,
    loose: Option<String>,
}

/// What we do where Debezium does not go on, or writes nonsense.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ours {
    records: Vec<Expected>,
    #[serde(default)]
    pub(super) dead_letters: Vec<DeadLetter>,
    pub(super) refuses_start: Option<Vec<String>>,
    pub(super) stops: Option<Vec<String>>,
    /// Says in words what the absence of `timestamp_ms` says too.
    #[serde(rename = "timestamp")]
    _timestamp: Option<String>,
}

/// A row that cannot be published.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct DeadLetter {
    pub(super) id: String,
    pub(super) reason_names: String,
}

/// A record that has to arrive.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expected {
    pub(super) topic: String,
    /// `None`: any will do.
    pub(super) partition: Option<i32>,
    key: Option<Bytes>,
    value: Option<Bytes>,
    headers: Vec<(String, Option<Bytes>)>,
    /// `None`: the time of the commit.
    pub(super) timestamp_ms: Option<i64>,
}

/// Text, or what is none.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum Bytes {
    Text(String),
    Encoded { base64: String },
}

impl Bytes {
    fn decode(&self) -> Vec<u8> {
        match self {
            Self::Text(text) => text.clone().into_bytes(),
            Self::Encoded { base64 } => BASE64_STANDARD.decode(base64).expect("the recorder wrote base64"),
        }
    }
}

impl Expected {
    pub(super) fn key(&self) -> Option<Vec<u8>> {
        self.key.as_ref().map(Bytes::decode)
    }

    pub(super) fn value(&self) -> Option<Vec<u8>> {
        self.value.as_ref().map(Bytes::decode)
    }

    pub(super) fn headers(&self) -> Vec<Header> {
        self.headers.iter().map(|(name, value)| (name.clone(), value.as_ref().map(Bytes::decode))).collect()
    }

    /// As a record that arrived, to be shown beside one.
    pub(super) fn as_received(&self) -> Received {
        Received {
            topic: self.topic.clone(),
            partition: self.partition.unwrap_or(-1),
            offset: -1,
            key: self.key(),
            value: self.value(),
            headers: self.headers(),
            timestamp_ms: self.timestamp_ms,
        }
    }
}

impl Case {
    /// All cases of the folder, in the order of its files; each with a prefix of its own.
    pub(super) fn read_all() -> Outcome<Vec<Self>> {
        let lines = lines()?;
        let prefix = |index: usize| format!("parity{}c{index:05}", std::process::id());
        let cases = lines.iter().enumerate().map(|(index, line)| Self::parse(line, prefix(index)));
        let mut cases = cases.collect::<Outcome<Vec<_>>>()?;
        give_back(&mut cases);
        Ok(cases)
    }

    /// Whether one of its statements names the id of a record.
    fn writes(&self, record: &Expected) -> bool {
        let record = record.as_received();
        record.id().is_some_and(|id| self.dml.iter().any(|statement| statement.contains(&literal(id))))
    }

    fn parse(line: &str, prefix: String) -> Outcome<Self> {
        let mut case: Self = serde_json::from_str(&line.replace("{p}", &prefix))
            .map_err(|error| format!("{error} in the case {line}"))?;
        if case.ours_expected.is_none() && (case.debezium_died.is_some() || case.ours.is_some()) {
            return Err(format!("nothing says what is expected of {}", case.name).into());
        }
        (case.prefix, case.line) = (prefix, line.to_owned());
        Ok(case)
    }

    /// What has to arrive.
    pub(super) fn expected(&self) -> &[Expected] {
        self.ours_expected.as_ref().map_or(&self.debezium_records, |ours| &ours.records)
    }

    pub(super) fn ours(&self) -> Option<&Ours> {
        self.ours_expected.as_ref()
    }

    /// Whether the members of JSON objects may come in any order.
    pub(super) fn is_loose(&self) -> bool {
        self.loose.is_some()
    }

    /// What the publication publishes, as SQL; a case may leave out the words in front of its tables.
    pub(super) fn published(&self) -> String {
        let clause = self.publication_for.as_deref().unwrap_or(&self.table).trim();
        match clause.split_whitespace().next().unwrap_or_default().to_lowercase().as_str() {
            "for" => clause.to_owned(),
            "table" | "tables" | "all" => format!("FOR {clause}"),
            _ => format!("FOR TABLE {clause}"),
        }
    }

    /// Whether a server of this version (`server_version_num`) can have its tables and publications.
    pub(super) fn is_possible_on(&self, version: i32) -> bool {
        let published = self.publication_for.iter();
        let has = |text: &str| self.ddl.iter().chain(published.clone()).any(|sql| sql.contains(text));
        version >= 150_000 || !SINCE_15.iter().any(|text| has(text))
    }

    /// Whether it can share a relay with others. What it cannot share: a publication of more than its table, and topics that have no
    /// prefix. What others cannot share: a relay that stops for good or, as it is started again, misses a table.
    pub(super) fn is_sociable(&self) -> bool {
        let is_own = |record: &Expected| record.topic.starts_with(&self.prefix);
        self.publication_for.is_none()
            && !self.dml.iter().any(|statement| statement.starts_with("alter table"))
            && !(self.has_bad_rows() && self.asks_the_broker())
            && self.router.get("table.op.invalid.behavior").is_none_or(|to| !to.eq_ignore_ascii_case("fatal"))
            && self.expected().iter().chain(&self.debezium_records).all(is_own)
    }

    /// Whether one of its rows is to be set aside.
    pub(super) fn has_bad_rows(&self) -> bool {
        self.ours_expected.as_ref().is_some_and(|ours| !ours.dead_letters.is_empty())
    }

    /// Whether its rows say what the broker may refuse; what is in flight beside such a row comes again.
    fn asks_the_broker(&self) -> bool {
        let placement = self.router.get("table.fields.additional.placement");
        self.router.contains_key("table.field.event.timestamp")
            || placement.is_some_and(|list| list.contains(":partition"))
    }

    /// The same case in a seat.
    pub(super) fn seated(&self, stage: usize, seat: usize) -> Outcome<Self> {
        Self::parse(&self.line, seat_prefix(stage, seat, self.partitions.unwrap_or(PARTITIONS)))
    }

    /// The partitions of a topic.
    pub(super) fn partitions(&self, topic: &str) -> i32 {
        self.partitions.filter(|_| topic.ends_with(".order")).unwrap_or(PARTITIONS)
    }

    /// The tables that walpost is told of: those that the connector was to include, else all that are published by name.
    pub(super) fn outboxes(&self) -> Vec<&str> {
        let is_name =
            |text: &&str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'));
        let lists = [self.connector.get(INCLUDED), self.publication_for.as_ref()];
        let names = |list: &'_ String| list.split(',').map(str::trim).all(|name| is_name(&name));
        let list = lists.into_iter().flatten().find(|list| names(list)).unwrap_or(&self.table);
        list.split(',').map(str::trim).collect()
    }

    /// Options of Connect and of the connector, by their own names, but for those that stand for something else here or for
    /// nothing, and that `walpost import` leaves out.
    pub(super) fn connect(&self) -> Options {
        let own = [("topic.prefix", self.prefix.as_str()), ("extended.headers.enabled", "false")];
        let own = own.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let key = converter("key.converter", &self.key_converter);
        let value = converter("value.converter", &self.value_converter);
        let header = self.header_converter.iter().flat_map(|written| converter("header.converter", written));
        own.into_iter()
            .chain(key)
            .chain(value)
            .chain(header)
            .chain(self.connector.clone())
            .filter(|(name, _)| is_option(name))
            .collect()
    }
}

/// The lines of all files of the folder.
fn lines() -> Outcome<Vec<String>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/conformance");
    let entries = fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect::<Outcome<Vec<PathBuf>>>()?;
    let mut files: Vec<_> =
        entries.into_iter().filter(|path| path.extension().is_some_and(|end| end == "jsonl")).collect();
    files.sort();
    let texts = files.iter().map(fs::read_to_string).collect::<Result<Vec<_>, _>>()?;
    Ok(texts.iter().flat_map(|text| text.lines()).map(str::to_owned).collect())
}

/// Whether an option of the connector can be one of ours.
fn is_option(name: &str) -> bool {
    let entry = options::find(options::CONNECTOR, name);
    name != INCLUDED && !entry.is_some_and(|entry| matches!(entry.fate, Fate::Needless | Fate::Better))
}

/// An id as it stands in a statement.
pub(super) fn literal(id: &str) -> String {
    format!("'{id}'")
}

/// Expects each record of the [`SHARED`] topic of the case that wrote it.
fn give_back(cases: &mut [Case]) {
    let (topic, reader, writer) = SHARED;
    let mut strays = Vec::new();
    for case in cases.iter_mut().filter(|case| case.name == reader) {
        let records = std::mem::take(&mut case.debezium_records).into_iter();
        let (foreign, own) = records.partition(|record| record.topic == topic && !case.writes(record));
        (strays, case.debezium_records) = (foreign, own);
    }
    for case in cases.iter_mut().filter(|case| case.name == writer) {
        assert!(!strays.is_empty() && strays.iter().all(|stray| case.writes(stray)), "{strays:?} are not of {writer}");
        case.debezium_records.append(&mut strays);
    }
    assert!(strays.is_empty(), "nobody wrote {strays:?}");
}

/// `JsonConverter schemas.enable=false`, as the two options that it stands for.
fn converter(option: &str, written: &str) -> Vec<(String, String)> {
    let mut words = written.split_whitespace();
    let class = (option.to_owned(), words.next().unwrap_or_default().to_owned());
    let pairs = words.filter_map(|word| word.split_once('='));
    let options = pairs.map(|(name, value)| (format!("{option}.{name}"), value.to_owned()));
    std::iter::once(class).chain(options).collect()
}
