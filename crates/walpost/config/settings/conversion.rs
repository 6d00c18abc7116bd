//! From what was typed to what the program needs. Every check is made, whatever the others found, so that one look at the output
//! is enough to put a file right.

use std::path::PathBuf;
use std::time::Duration;

use walpost_core::outbox::TableName;

use super::edges::{self, Judgement, Sentence};
use super::{Checkpoint, Connection, Idle, KafkaSettings, Limits, Log, Outbox, Retry, Settings, Sink, Source, Store};
use crate::config::finding::{Findings, Place};
use crate::config::raw::{self, SinkKind, StoreKind};
use crate::config::reader::{Field, secret_file};
use crate::config::surroundings::Surroundings;
use crate::config::table_name::{self, MAX_NAME_BYTES};
use crate::config::value::{Millis, Property, Size, Text};
use crate::observe;

/// PostgreSQL's integers, which its timeouts are.
const MAX_GUC_MILLIS: u64 = i32::MAX as u64;

/// Longer than any wait that is meant: a year.
const MAX_MILLIS: u64 = 366 * 24 * 3600 * 1000;

/// Converts the file. `None` only if at least one fault was noted.
pub(in crate::config) fn from_file(
    file: raw::File,
    around: &dyn Surroundings,
    findings: &mut Findings,
) -> Option<Settings> {
    let mut conversion = Conversion { around, findings };
    let slot = conversion.slot(&file.source.slot);
    let name = conversion.name(&file.relay.name, &file.source.slot.value.value);
    let source = conversion.source(&file.source, slot, name.as_deref());
    let outboxes = conversion.outboxes(&file.outboxes);
    let checkpoint = conversion.checkpoint(&file.checkpoint);
    let limits = conversion.limits(&file.limits);
    let sink = conversion.sink(&file.sink);
    let retry = conversion.retry(&file.retry);
    let stop_timeout = conversion.millis(&file.stop.timeout_ms, 0, MAX_MILLIS);
    let log = conversion.log(&file.log);
    Some(Settings {
        name: name?,
        source: source?,
        outboxes: outboxes?,
        checkpoint: checkpoint?,
        sink: sink?,
        limits: limits?,
        retry: retry?,
        stop_timeout: stop_timeout?,
        log: log?,
    })
}

/// The checks, and where they note what they find. Each returns nothing where it noted a fault.
struct Conversion<'a> {
    around: &'a dyn Surroundings,
    findings: &'a mut Findings,
}

impl Conversion<'_> {
    fn fault<T>(&mut self, field: &Field<T>, reason: impl Into<String>) {
        self.findings.fault(&field.key, field.place, reason);
    }

    fn warn<T>(&mut self, field: &Field<T>, reason: impl Into<String>) {
        self.findings.warn(&field.key, field.place, reason);
    }

    fn slot(&mut self, field: &Field<Text>) -> Option<String> {
        let slot = &field.value.value;
        let is_legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        if (1..=MAX_NAME_BYTES).contains(&slot.len()) && slot.bytes().all(is_legal) {
            return Some(slot.clone());
        }
        let reason = format!(
            "{slot:?} cannot be the name of a slot; write 1 to {MAX_NAME_BYTES} lower-case letters, digits and underscores"
        );
        self.fault(field, reason);
        None
    }

    fn name(&mut self, field: &Field<Option<Text>>, slot: &str) -> Option<String> {
        let Some(name) = &field.value else { return Some(slot.to_owned()) };
        let name = &name.value;
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if (1..=MAX_NAME_BYTES).contains(&name.len()) && name.bytes().all(is_legal) {
            return Some(name.clone());
        }
        let reason =
            format!("{name:?} cannot be a relay's name; write 1 to {MAX_NAME_BYTES} letters, digits, `.`, `_` and `-`");
        self.fault(field, reason);
        None
    }

    fn source(&mut self, source: &raw::Source, slot: Option<String>, name: Option<&str>) -> Option<Source> {
        let connection = self.connection(source, name.unwrap_or_default());
        let publications = self.publications(&source.publication);
        let wal_sender_timeout = self.millis(&source.wal_sender_timeout_ms, 1000, MAX_GUC_MILLIS);
        Some(Source {
            connection: connection?,
            slot: slot?,
            publications: publications?,
            may_create: source.create.value,
            wal_sender_timeout: wal_sender_timeout?,
        })
    }

    /// The connection: the URL, the keys beside it, and libpq's variables behind both.
    fn connection(&mut self, source: &raw::Source, name: &str) -> Option<Connection> {
        let given = self.given_once(source);
        let password = self.password(source);
        let timeout = self.connect_timeout(&source.connect_timeout_ms);
        self.certificate_with_key(source);
        let url = self.url(source)?;
        let text = |field: &Field<Option<Text>>| field.value.as_ref().map(|text| text.value.clone());
        let lookup = |variable: &str| {
            let typed = match variable {
                "PGPASSWORD" => password.clone()?,
                "PGSSLMODE" => source.sslmode.value.map(|mode| mode.word().to_owned()),
                "PGSSLROOTCERT" => text(&source.sslrootcert),
                "PGSSLCERT" => text(&source.sslcert),
                "PGSSLKEY" => text(&source.sslkey),
                _ => None,
            };
            let given = typed.or_else(|| self.around.variable(variable));
            given.or_else(|| (variable == "PGAPPNAME").then(|| name.to_owned()))
        };
        let judgement = edges::connection(&url, timeout?, lookup);
        let connection = self.judged(judgement, &source.url, &[]);
        given.then_some(())?;
        password?;
        connection
    }

    /// The URL, or the shortest one where libpq's variables say the rest.
    fn url(&mut self, source: &raw::Source) -> Option<String> {
        match &source.url.value {
            Some(url) => Some(url.value.clone()),
            None if source.url.is_typed() => None,
            None if ["PGHOST", "PGDATABASE"].iter().any(|name| self.around.variable(name).is_some()) => {
                Some("postgres://".to_owned())
            }
            None => {
                let reason = "the database is missing; write url = \"postgres://user@host:5432/database\", or set PGHOST and PGDATABASE";
                self.findings.fault(&source.url.key, source.place, reason);
                None
            }
        }
    }

    /// Whether nothing is said both by a key and by the URL.
    fn given_once(&mut self, source: &raw::Source) -> bool {
        let Some(url) = &source.url.value else { return true };
        let mut is_once = true;
        let mut check = |is_typed: bool, key: &str, place: Option<Place>, parameter: &str| {
            if is_typed && has_parameter(&url.value, parameter) {
                let reason = format!("source.url says `{parameter}` too; delete one of the two");
                self.findings.fault(key, place, reason);
                is_once = false;
            }
        };
        check(source.sslmode.is_typed(), &source.sslmode.key, source.sslmode.place, "sslmode");
        let timeout = &source.connect_timeout_ms;
        check(timeout.is_typed(), &timeout.key, timeout.place, "connect_timeout");
        for (field, parameter) in [
            (&source.password_file, "password"),
            (&source.sslrootcert, "sslrootcert"),
            (&source.sslcert, "sslcert"),
            (&source.sslkey, "sslkey"),
        ] {
            check(field.is_typed(), &field.key, field.place, parameter);
        }
        if source.password_file.is_typed() && password_of(&url.value).is_some() {
            self.fault(&source.password_file, "source.url holds a password too; delete one of the two");
            is_once = false;
        }
        is_once
    }

    /// The password of the password file. The outer `None` stands for a fault.
    #[allow(clippy::option_option, reason = "a fault and an absent file are told apart")]
    fn password(&mut self, source: &raw::Source) -> Option<Option<String>> {
        let field = &source.password_file;
        let Some(path) = &field.value else { return Some(None) };
        let path = Field { value: Some(path.value.clone()), key: field.key.clone(), place: field.place };
        secret_file(&path, self.around, self.findings).map(Some)
    }

    #[allow(clippy::option_option, reason = "a fault and an absent key are told apart")]
    fn connect_timeout(&mut self, field: &Field<Option<Millis>>) -> Option<Option<Duration>> {
        let Some(value) = field.value else { return Some(None) };
        let field = Field { value, key: field.key.clone(), place: field.place };
        self.millis(&field, 1, MAX_GUC_MILLIS).map(Some)
    }

    fn certificate_with_key(&mut self, source: &raw::Source) {
        let variable = |name| self.around.variable(name).is_some();
        let has_key = source.sslkey.is_typed() || variable("PGSSLKEY");
        let has_certificate = source.sslcert.is_typed() || variable("PGSSLCERT");
        if source.sslcert.is_typed() && !has_key {
            self.fault(&source.sslcert, "the certificate's key is missing; write sslkey = \"…\" beside it");
        }
        if source.sslkey.is_typed() && !has_certificate {
            self.fault(&source.sslkey, "the key's certificate is missing; write sslcert = \"…\" beside it");
        }
    }

    fn publications(&mut self, field: &Field<super::super::value::Names>) -> Option<Vec<String>> {
        let names = &field.value.0;
        let mut is_good = true;
        if names.is_empty() {
            self.fault(field, "the list is empty; name the publication that the outbox tables are in");
            is_good = false;
        }
        for (index, name) in names.iter().enumerate() {
            let reason = if name.is_empty() || name.len() > MAX_NAME_BYTES || name.contains('\0') {
                format!("{name:?} cannot be the name of a publication; write 1 to {MAX_NAME_BYTES} bytes")
            } else if names.iter().take(index).any(|earlier| earlier == name) {
                format!("{name:?} is listed twice; delete one")
            } else {
                continue;
            };
            self.fault(field, reason);
            is_good = false;
        }
        is_good.then(|| names.clone())
    }

    fn outboxes(&mut self, typed: &[raw::Outbox]) -> Option<Vec<Outbox>> {
        if typed.is_empty() {
            let reason = "there is none; write [[outbox]] with table = \"public.outbox\" under it";
            self.findings.fault("outbox", None, reason);
            return None;
        }
        let mut seen: Vec<TableName> = Vec::new();
        let outboxes: Vec<_> = typed.iter().map(|outbox| self.outbox(outbox, &mut seen)).collect();
        outboxes.into_iter().collect()
    }

    fn outbox(&mut self, outbox: &raw::Outbox, seen: &mut Vec<TableName>) -> Option<Outbox> {
        let table = self.table(outbox, seen);
        let properties = &outbox.router.value.0;
        let judgement = edges::router(pairs(properties));
        let router = self.judged(judgement, &outbox.router, properties);
        Some(Outbox { table: table?, router: router? })
    }

    fn table(&mut self, outbox: &raw::Outbox, seen: &mut Vec<TableName>) -> Option<TableName> {
        let field = &outbox.table;
        let Some(text) = &field.value else {
            if !field.is_typed() {
                self.findings.fault(&field.key, outbox.place, "it is missing; write table = \"public.outbox\"");
            }
            return None;
        };
        let parsed = match table_name::parse(&text.value) {
            Ok(parsed) => parsed,
            Err(reason) => {
                self.fault(field, reason);
                return None;
            }
        };
        if !parsed.has_schema {
            self.warn(field, format!("no schema is given, so {} is meant; write it out", parsed.name));
        }
        if seen.contains(&parsed.name) {
            self.fault(field, format!("{} is configured twice; a table has one router: delete one", parsed.name));
            return None;
        }
        seen.push(parsed.name.clone());
        Some(parsed.name)
    }

    fn checkpoint(&mut self, checkpoint: &raw::Checkpoint) -> Option<Checkpoint> {
        let store = self.store(checkpoint);
        let interval = self.millis(&checkpoint.interval_ms, 1, MAX_MILLIS);
        let events = self.at_least_one(&checkpoint.events);
        let idle_interval = self.millis(&checkpoint.idle_interval_ms, 1, MAX_MILLIS);
        let max_age = self.millis(&checkpoint.idle_max_age_ms, 1, MAX_MILLIS);
        Some(Checkpoint {
            store: store?,
            interval: interval?,
            events: events?,
            idle: Idle { interval: idle_interval?, bytes: checkpoint.idle_bytes.value.0, max_age: max_age? },
        })
    }

    fn store(&mut self, checkpoint: &raw::Checkpoint) -> Option<Store> {
        let path = &checkpoint.path;
        match (checkpoint.store.value, &path.value) {
            (StoreKind::File, Some(file)) if file.value.is_empty() => {
                self.fault(path, "the path is empty; write path = \"/var/lib/walpost/checkpoint\"");
                None
            }
            (StoreKind::File, Some(file)) => Some(Store::File(PathBuf::from(&file.value))),
            (StoreKind::File, None) => {
                if !path.is_typed() {
                    let reason = "the store \"file\" needs it; write path = \"/var/lib/walpost/checkpoint\"";
                    self.findings.fault(&path.key, checkpoint.store.place, reason);
                }
                None
            }
            (StoreKind::Postgres | StoreKind::Slot, _) if path.is_typed() => {
                let word = checkpoint.store.value.word();
                self.fault(path, format!("the store {word:?} has no path; delete it, or write store = \"file\""));
                None
            }
            (StoreKind::Postgres, _) => Some(Store::Postgres),
            (StoreKind::Slot, _) => Some(Store::Slot),
        }
    }

    fn sink(&mut self, sink: &raw::Sink) -> Option<Sink> {
        match sink.r#type.value {
            SinkKind::Kafka => self.kafka(sink).map(Sink::Kafka),
            kind if sink.kafka.is_typed() => {
                let reason = if sink.r#type.is_typed() {
                    format!("the sink is {:?}; delete this section, or write type = \"kafka\"", kind.word())
                } else {
                    "sink.type is missing, and without it the sink is standard output; write type = \"kafka\" under [sink]"
                        .to_owned()
                };
                self.fault(&sink.kafka, reason);
                None
            }
            SinkKind::Stdout => Some(Sink::Stdout),
            SinkKind::Null => Some(Sink::Null),
        }
    }

    fn kafka(&mut self, sink: &raw::Sink) -> Option<KafkaSettings> {
        if cfg!(not(feature = "kafka")) {
            let reason = "this walpost was built without Kafka; take one that was built with the feature `kafka`";
            self.fault(&sink.r#type, reason);
        }
        let properties = &sink.kafka.value.0;
        let judgement = edges::kafka(pairs(properties));
        let place = sink.kafka.place.or(sink.r#type.place);
        self.judged(judgement, &Field { value: (), key: sink.kafka.key.clone(), place }, properties)
    }

    fn limits(&mut self, limits: &raw::Limits) -> Option<Limits> {
        let records = self.at_least_one(&limits.in_flight_records).and_then(|count| usize::try_from(count).ok());
        let Size(bytes) = limits.in_flight_bytes.value;
        if bytes == 0 {
            self.fault(
                &limits.in_flight_bytes,
                "nothing could ever be sent; write at least 1, and \"16MiB\" if in doubt",
            );
            return None;
        }
        Some(Limits { in_flight_records: records?, in_flight_bytes: usize::try_from(bytes).ok()? })
    }

    fn retry(&mut self, retry: &raw::Retry) -> Option<Retry> {
        let initial = self.millis(&retry.initial_ms, 1, MAX_MILLIS);
        let max = self.millis(&retry.max_ms, 1, MAX_MILLIS);
        let (initial, max) = (initial?, max?);
        if initial > max {
            let (initial, max) = (retry.initial_ms.value.0, retry.max_ms.value.0);
            let field = if retry.max_ms.is_typed() { &retry.max_ms } else { &retry.initial_ms };
            self.fault(
                field,
                format!("the first wait ({initial} ms) is longer than the longest ({max} ms); swap them"),
            );
            return None;
        }
        Some(Retry { initial, max })
    }

    fn log(&mut self, log: &raw::Log) -> Option<Log> {
        let variable = self.around.variable(observe::VARIABLE).filter(|filter| !filter.is_empty());
        if let Some(Err(reason)) = variable.as_deref().map(observe::check) {
            self.findings.fault(observe::VARIABLE, None, reason);
            return None;
        }
        if let Err(reason) = observe::check(&log.level.value.value) {
            self.fault(&log.level, reason);
            return None;
        }
        let filter = variable.unwrap_or_else(|| log.level.value.value.clone());
        Some(Log { format: log.format.value, filter })
    }

    fn millis(&mut self, field: &Field<Millis>, least: u64, most: u64) -> Option<Duration> {
        let Millis(millis) = field.value;
        if (least..=most).contains(&millis) {
            return Some(field.value.into());
        }
        self.fault(field, format!("{millis} is out of range; write {least} to {most} milliseconds"));
        None
    }

    fn at_least_one(&mut self, field: &Field<u64>) -> Option<u64> {
        if field.value == 0 {
            self.fault(field, "it has to be at least 1");
            return None;
        }
        Some(field.value)
    }

    /// Notes what an edge said, each sentence at its key's place, where the key was typed.
    fn judged<T, F>(&mut self, judgement: Judgement<T>, section: &Field<F>, properties: &[Property]) -> Option<T> {
        let locate = |sentence: &Sentence| {
            let Some(name) = &sentence.key else { return (section.key.clone(), section.place) };
            let property = properties.iter().find(|property| property.name == *name);
            (format!("{}.\"{name}\"", section.key), property.map_or(section.place, |property| property.place))
        };
        match judgement {
            Ok((settings, warnings)) => {
                for sentence in warnings {
                    let (key, place) = locate(&sentence);
                    self.findings.warn(key, place, sentence.reason);
                }
                Some(settings)
            }
            Err(faults) => {
                for sentence in faults {
                    let (key, place) = locate(&sentence);
                    self.findings.fault(key, place, sentence.reason);
                }
                None
            }
        }
    }
}

fn pairs(properties: &[Property]) -> impl Iterator<Item = (&str, &str)> {
    properties.iter().map(|property| (property.name.as_str(), property.value.as_str()))
}

/// Whether the URL's query names this parameter.
fn has_parameter(url: &str, parameter: &str) -> bool {
    let query = url.split_once('?').map_or("", |(_, query)| query);
    query.split('&').any(|pair| pair.split_once('=').map_or(pair, |(name, _)| name) == parameter)
}

/// The password that a URL holds, still encoded.
pub(in crate::config) fn password_of(url: &str) -> Option<&str> {
    let (_, rest) = url.split_once("://")?;
    let authority = rest.split(['/', '?']).next()?;
    let (user, _) = authority.rsplit_once('@')?;
    user.split_once(':').map(|(_, password)| password).filter(|password| !password.is_empty())
}
