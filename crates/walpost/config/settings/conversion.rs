//! From what was typed to what the program needs. Every check is made, whatever the others found, so that one look at the output
//! is enough to put a file right.

use std::path::PathBuf;
use std::time::Duration;

use walpost_core::outbox::{Outbox, TableName};
use walpost_core::poison::{OnBadRow, OnClosedRoute, Policy};
use walpost_postgres::{ConnectionSettings, SlotName};

use super::edges::{self, Judgement, Sentence};
use super::files;
use super::{
    Checkpoint, DeadLetter, Group, Http, Idle, KafkaSettings, LetterStore, Limits, Log, Retry, Routed, Settings, Sink,
    Source, Store,
};
use crate::config::finding::Findings;
use crate::config::raw::{self, LetterStoreKind, SinkKind, StoreKind};
use crate::config::reader::{Field, secret_file};
use crate::config::surroundings::Surroundings;
use crate::config::table_name::{self, MAX_NAME_BYTES};
use crate::config::value::{Millis, Names, Property, Size, Text};
use crate::observe::log;

/// PostgreSQL's integers, which its timeouts are.
const MAX_GUC_MILLIS: u64 = i32::MAX as u64;

/// Longer than anything is kept that is to be deleted one day: ten years.
const MAX_DAYS: u64 = 3653;
const DAY: Duration = Duration::from_secs(24 * 3600);

/// Longer than any wait that is meant: a year.
const MAX_MILLIS: u64 = 366 * 24 * 3600 * 1000;

/// Converts the file. `None` only if at least one fault was noted.
pub(in crate::config) fn from_file(
    file: &raw::File,
    around: &dyn Surroundings,
    findings: &mut Findings,
) -> Option<Settings> {
    let mut conversion = Conversion { around, findings };
    let slot = conversion.slot(&file.source.slot);
    let name = conversion.name(&file.relay.name, &file.source.slot.value.value);
    let source = conversion.source(&file.source, slot, name.as_deref());
    let outboxes = conversion.outboxes(&file.outboxes);
    let limits = conversion.limits(&file.limits);
    let sink = conversion.sink(&file.sink, &file.limits);
    let dead_letter = conversion.dead_letter(file, sink.as_ref());
    let checkpoint = conversion.checkpoint(file, sink.as_ref(), name.as_deref());
    conversion.refuse_letters_of_groups(file);
    let retry = conversion.retry(&file.retry);
    let stop_timeout = conversion.millis(&file.stop.timeout_ms, 0, MAX_MILLIS);
    let http = conversion.http(&file.http);
    let log = conversion.log(&file.log);
    Some(Settings {
        name: name?,
        source: source?,
        outboxes: outboxes?,
        checkpoint: checkpoint?,
        sink: sink?,
        dead_letter: dead_letter?,
        limits: limits?,
        retry: retry?,
        stop_timeout: stop_timeout?,
        http: http?,
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

    fn slot(&mut self, field: &Field<Text>) -> Option<SlotName> {
        match SlotName::new(field.value.value.as_str()) {
            Ok(slot) => Some(slot),
            Err(error) => {
                self.fault(field, format!("{error}; write 1 to {MAX_NAME_BYTES} of them"));
                None
            }
        }
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

    fn source(&mut self, source: &raw::Source, slot: Option<SlotName>, name: Option<&str>) -> Option<Source> {
        let connection = self.connection(source, name.unwrap_or_default());
        let publications = self.publications(&source.publication);
        let wal_sender_timeout = self.millis(&source.wal_sender_timeout_ms, 1000, MAX_GUC_MILLIS);
        Some(Source {
            connection: connection?,
            slot: slot?,
            publications: publications?,
            may_create: source.create.value,
            is_for_standbys: source.failover.value,
            wal_sender_timeout: wal_sender_timeout?,
        })
    }

    /// The connection: the URL, the keys beside it, and libpq's variables for what both leave out.
    fn connection(&mut self, source: &raw::Source, name: &str) -> Option<ConnectionSettings> {
        self.given_once(source);
        let password = self.password(source);
        let timeout = self.connect_timeout(&source.connect_timeout_ms);
        let has_pair = self.certificate_with_key(source);
        let url = self.url(source)?;
        let text = |field: &Field<Option<Text>>| field.value.as_ref().map(|text| text.value.clone());
        let lookup = |variable: &str| {
            let typed = match variable {
                "PGPASSWORD" => password.clone(),
                "PGSSLMODE" => source.sslmode.value.map(|mode| mode.word().to_owned()),
                "PGSSLROOTCERT" => text(&source.sslrootcert),
                // Half a pair has been noted at its own key; the rest of the connection is judged without it.
                "PGSSLCERT" if has_pair => text(&source.sslcert),
                "PGSSLKEY" if has_pair => text(&source.sslkey),
                _ => None,
            };
            let given = typed.or_else(|| self.around.variable(variable));
            given.or_else(|| (variable == "PGAPPNAME").then(|| name.to_owned()))
        };
        let judgement = edges::connection(&url, lookup);
        let place = source.url.place.or(source.place);
        let section = Field { value: (), key: source.url.key.clone(), place };
        let connection = self.judged(judgement, &section, &[])?;
        files::of_source(source, &section, &connection, self.around, self.findings);
        Some(match timeout {
            Some(timeout) => connection.with_connect_timeout(timeout),
            None => connection,
        })
    }

    /// The URL, or the shortest one where libpq's variables say the rest.
    fn url(&mut self, source: &raw::Source) -> Option<String> {
        match &source.url.value {
            Some(url) => Some(url.value.clone()),
            None if self.findings.is_at_fault(&source.url.key) || self.findings.is_at_fault("source") => None,
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

    /// Refuses what is said both by a key and by the URL.
    fn given_once(&mut self, source: &raw::Source) {
        let Some(url) = &source.url.value else { return };
        let timeout = &source.connect_timeout_ms;
        let mut keys = vec![
            ("sslmode", &source.sslmode.key, source.sslmode.place),
            ("connect_timeout", &timeout.key, timeout.place),
        ];
        for (parameter, field) in [
            ("password", &source.password_file),
            ("sslrootcert", &source.sslrootcert),
            ("sslcert", &source.sslcert),
            ("sslkey", &source.sslkey),
        ] {
            keys.push((parameter, &field.key, field.place));
        }
        for (parameter, key, place) in keys {
            if place.is_some() && has_parameter(&url.value, parameter) {
                let reason = format!("source.url says `{parameter}` too; delete one of the two");
                self.findings.fault(key, place, reason);
            }
        }
        if source.password_file.is_typed() && password_of(&url.value).is_some() {
            self.fault(&source.password_file, "source.url holds a password too; delete one of the two");
        }
    }

    /// The password of the password file, if there is one and it can be read.
    fn password(&mut self, source: &raw::Source) -> Option<String> {
        let field = &source.password_file;
        let path = field.value.as_ref()?.value.clone();
        secret_file(&Field { value: path, key: field.key.clone(), place: field.place }, self.around, self.findings)
    }

    fn connect_timeout(&mut self, field: &Field<Option<Millis>>) -> Option<Duration> {
        let value = field.value?;
        self.millis(&Field { value, key: field.key.clone(), place: field.place }, 1, MAX_GUC_MILLIS)
    }

    /// Whether certificate and key are given together or not at all.
    fn certificate_with_key(&mut self, source: &raw::Source) -> bool {
        let url = source.url.value.as_ref().map_or("", |url| url.value.as_str());
        let elsewhere = |variable, parameter| self.around.variable(variable).is_some() || has_parameter(url, parameter);
        let has_key = source.sslkey.is_typed() || elsewhere("PGSSLKEY", "sslkey");
        let has_certificate = source.sslcert.is_typed() || elsewhere("PGSSLCERT", "sslcert");
        if source.sslcert.is_typed() && !has_key {
            self.fault(&source.sslcert, "the certificate's key is missing; write sslkey = \"…\" beside it");
        }
        if source.sslkey.is_typed() && !has_certificate {
            self.fault(&source.sslkey, "the key's certificate is missing; write sslcert = \"…\" beside it");
        }
        has_key == has_certificate
    }

    fn publications(&mut self, field: &Field<Names>) -> Option<Vec<String>> {
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

    fn outboxes(&mut self, typed: &[raw::Outbox]) -> Option<Routed> {
        if typed.is_empty() && self.findings.is_at_fault("outbox") {
            return None;
        }
        if typed.is_empty() {
            let reason = "there is none; write [[outbox]] with table = \"public.outbox\" under it";
            self.findings.fault("outbox", None, reason);
            return None;
        }
        let mut seen: Vec<TableName> = Vec::new();
        let outboxes: Vec<_> = typed.iter().map(|outbox| self.outbox(outbox, &mut seen)).collect();
        outboxes.into_iter().collect::<Option<Vec<_>>>().map(|outboxes| Routed(outboxes.into()))
    }

    fn outbox(&mut self, outbox: &raw::Outbox, seen: &mut Vec<TableName>) -> Option<Outbox> {
        let table = self.table(outbox, seen);
        let properties = &outbox.connect.value.0;
        let judgement = edges::connector(pairs(properties), &self.around.run_id());
        let connector = self.judged(judgement, &outbox.connect, properties);
        let properties = &outbox.router.value.0;
        // A router is judged also where its connector is at fault, so that all faults are told at once.
        let judgement = edges::router(pairs(properties), connector.clone().unwrap_or_default());
        let router = self.judged(judgement, &outbox.router, properties).filter(|_| connector.is_some());
        Some(Outbox { table: table?, router: router? })
    }

    fn table(&mut self, outbox: &raw::Outbox, seen: &mut Vec<TableName>) -> Option<TableName> {
        let field = &outbox.table;
        let Some(text) = &field.value else {
            if !self.findings.is_at_fault(&field.key) {
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

    fn checkpoint(&mut self, file: &raw::File, sink: Option<&Sink>, name: Option<&str>) -> Option<Checkpoint> {
        let checkpoint = &file.checkpoint;
        let store = match checkpoint.store.value {
            StoreKind::Kafka => self.kafka_store(file, sink, name),
            _ => self.store(checkpoint),
        };
        let topic = self.topic(&checkpoint.topic);
        let group = self.group(checkpoint, store.as_ref());
        let interval = self.millis(&checkpoint.interval_ms, 1, MAX_MILLIS);
        let events = self.at_least_one(&checkpoint.events);
        let idle_interval = self.millis(&checkpoint.idle_interval_ms, 1, MAX_MILLIS);
        let max_age = self.millis(&checkpoint.idle_max_age_ms, 1, MAX_MILLIS);
        Some(Checkpoint {
            store: store?,
            topic: topic?,
            group: group?,
            interval: interval?,
            events: events?,
            idle: Idle { interval: idle_interval?, bytes: checkpoint.idle_bytes.value.0, max_age: max_age? },
        })
    }

    fn store(&mut self, checkpoint: &raw::Checkpoint) -> Option<Store> {
        let path = &checkpoint.path;
        if self.findings.is_at_fault(&checkpoint.store.key) {
            return None;
        }
        match (checkpoint.store.value, &path.value) {
            (StoreKind::File, Some(file)) if file.value.is_empty() => {
                self.fault(path, "the path is empty; write path = \"/var/lib/walpost/checkpoint\"");
                None
            }
            (StoreKind::File, Some(file)) => Some(Store::File(PathBuf::from(&file.value))),
            (StoreKind::File, None) => {
                if !self.findings.is_at_fault(&path.key) {
                    let reason = "the store \"file\" needs it; write path = \"/var/lib/walpost/checkpoint\"";
                    self.findings.fault(&path.key, checkpoint.store.place, reason);
                }
                None
            }
            (StoreKind::Postgres | StoreKind::Slot | StoreKind::Kafka, _) if path.is_typed() => {
                let word = checkpoint.store.value.word();
                self.fault(path, format!("the store {word:?} has no path; delete it, or write store = \"file\""));
                None
            }
            (StoreKind::Postgres, _) => Some(Store::Postgres),
            (StoreKind::Slot, _) => Some(Store::Slot),
            (StoreKind::Kafka, _) => None,
        }
    }

    /// The store that the sink writes. What the sink itself is at fault for was noted there.
    fn kafka_store(&mut self, file: &raw::File, sink: Option<&Sink>, name: Option<&str>) -> Option<Store> {
        let raw::File { checkpoint, sink: typed, .. } = file;
        if checkpoint.path.is_typed() {
            return self.store(checkpoint);
        }
        for (key, is_typed) in [
            (&checkpoint.interval_ms.key, checkpoint.interval_ms.is_typed().then_some(checkpoint.interval_ms.place)),
            (&checkpoint.events.key, checkpoint.events.is_typed().then_some(checkpoint.events.place)),
        ] {
            if let Some(place) = is_typed {
                let reason = "the store \"kafka\" writes a checkpoint with each group of events; see group_interval_ms and group_events, and delete it";
                self.findings.warn(key, place, reason);
            }
        }
        match sink {
            Some(Sink::Kafka(kafka)) => {
                let judgement = edges::transactions(kafka, name.unwrap_or_default());
                let place = typed.kafka.place.or(typed.r#type.place);
                let section = Field { value: (), key: typed.kafka.key.clone(), place };
                self.judged(judgement, &section, &typed.kafka.value.0).map(|()| Store::Kafka(kafka.clone()))
            }
            Some(sink @ (Sink::Stdout | Sink::Null)) => {
                let word = sink.word();
                let reason = format!(
                    "the store \"kafka\" is written by the sink \"kafka\", and the sink is {word:?}; write type = \"kafka\" under [sink], or choose another store"
                );
                self.fault(&checkpoint.store, reason);
                None
            }
            None => None,
        }
    }

    fn topic(&mut self, field: &Field<Text>) -> Option<String> {
        let name = &field.value.value;
        let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
        if (1..=249).contains(&name.len()) && name != "." && name != ".." && name.bytes().all(is_legal) {
            return Some(name.clone());
        }
        let reason =
            format!("{name:?} cannot be the name of a topic; write 1 to 249 letters, digits, `.`, `_` and `-`");
        self.fault(field, reason);
        None
    }

    fn group(&mut self, checkpoint: &raw::Checkpoint, store: Option<&Store>) -> Option<Group> {
        let raw::Checkpoint { group_interval_ms, group_events, group_bytes, .. } = checkpoint;
        if !matches!(store, None | Some(Store::Kafka(_))) {
            for (key, place, is_typed) in [
                (&group_interval_ms.key, group_interval_ms.place, group_interval_ms.is_typed()),
                (&group_events.key, group_events.place, group_events.is_typed()),
                (&group_bytes.key, group_bytes.place, group_bytes.is_typed()),
            ] {
                if is_typed {
                    self.findings.warn(key, place, "only the store \"kafka\" has groups; delete it");
                }
            }
        }
        let most = edges::longest_group(store).unwrap_or(MAX_MILLIS);
        let interval = self.millis(group_interval_ms, 0, most);
        let events = self.at_least_one(group_events);
        Some(Group { interval: interval?, events: events?, bytes: group_bytes.value.0 })
    }

    fn sink(&mut self, sink: &raw::Sink, limits: &raw::Limits) -> Option<Sink> {
        match sink.r#type.value {
            // What was typed for it has been judged.
            None if self.findings.is_at_fault(&sink.r#type.key) || self.findings.is_at_fault("sink") => None,
            None => {
                let reason = "it is missing; write type = \"kafka\" under [sink]; \"stdout\" and \"null\" are for trying and measuring";
                self.findings.fault(&sink.r#type.key, sink.place, reason);
                None
            }
            Some(SinkKind::Kafka) => self.kafka(sink, limits).map(Sink::Kafka),
            Some(kind) if sink.kafka.is_typed() => {
                let reason = format!("the sink is {:?}; delete this section, or write type = \"kafka\"", kind.word());
                self.fault(&sink.kafka, reason);
                None
            }
            Some(SinkKind::Stdout) => Some(Sink::Stdout),
            Some(SinkKind::Null) => Some(Sink::Null),
        }
    }

    fn kafka(&mut self, sink: &raw::Sink, limits: &raw::Limits) -> Option<KafkaSettings> {
        let properties = &sink.kafka.value.0;
        let count = |number: u64| usize::try_from(number).unwrap_or(usize::MAX);
        let (records, bytes) = (count(limits.in_flight_records.value), count(limits.in_flight_bytes.value.0));
        let judgement = edges::kafka(pairs(properties), records, bytes);
        let place = sink.kafka.place.or(sink.r#type.place);
        files::of_kafka(&sink.kafka, self.around, self.findings);
        self.judged(judgement, &Field { value: (), key: sink.kafka.key.clone(), place }, properties)
    }

    /// Where rows are set aside, unless somebody says: with the checkpoint.
    fn letter_store(&mut self, file: &raw::File, sink: Option<&Sink>) -> Option<LetterStore> {
        let raw::File { checkpoint, dead_letter, .. } = file;
        let follows = match checkpoint.store.value {
            StoreKind::Kafka => LetterStoreKind::Kafka,
            StoreKind::Postgres | StoreKind::File | StoreKind::Slot => LetterStoreKind::Postgres,
        };
        let is_typed = dead_letter.store.value.is_some();
        match (dead_letter.store.value.unwrap_or(follows), sink) {
            (LetterStoreKind::Postgres, _) => Some(LetterStore::Postgres),
            (LetterStoreKind::Kafka, Some(Sink::Kafka(kafka))) => Some(kafka).cloned().map(LetterStore::Kafka),
            (LetterStoreKind::Kafka, Some(sink @ (Sink::Stdout | Sink::Null))) if is_typed => {
                let word = sink.word();
                let reason = format!(
                    "the store \"kafka\" is a topic of the sink's cluster, and the sink is {word:?}; write type = \"kafka\" under [sink], or store = \"postgres\""
                );
                self.fault(&dead_letter.store, reason);
                None
            }
            // What is wrong with the sink, or with the checkpoint's store, is noted there.
            (LetterStoreKind::Kafka, _) => None,
        }
    }

    fn dead_letter(&mut self, file: &raw::File, sink: Option<&Sink>) -> Option<DeadLetter> {
        let typed = &file.dead_letter;
        let store = self.letter_store(file, sink);
        let topic = self.topic(&typed.topic);
        let is_shared = typed.topic.value.value == file.checkpoint.topic.value.value;
        if is_shared && file.checkpoint.store.value == StoreKind::Kafka && matches!(store, Some(LetterStore::Kafka(_)))
        {
            self.fault(
                &typed.topic,
                "checkpoints are kept in this topic, which is read as a whole at each start; name another",
            );
        }
        let flood_limit = self.at_least_one(&typed.flood_limit);
        let Size(parked_bytes) = typed.parked_bytes.value;
        if parked_bytes == 0 {
            let reason = "no row could ever wait behind another; write at least 1, and \"256MiB\" if in doubt, or on_bad_row = \"dead_letter\"";
            self.fault(&typed.parked_bytes, reason);
        }
        let keep_ended = self.days(&typed.keep_ended_days);
        let on_bad_row = match typed.on_bad_row.value {
            raw::OnBadRow::Park => OnBadRow::Park,
            raw::OnBadRow::DeadLetter => OnBadRow::DeadLetter,
            raw::OnBadRow::Stop => OnBadRow::Stop,
        };
        let on_closed_route = match typed.on_closed_route.value {
            raw::OnClosedRoute::Hold => OnClosedRoute::Hold,
            raw::OnClosedRoute::DeadLetter => OnClosedRoute::DeadLetter,
        };
        let policy = Policy { on_bad_row, on_closed_route, flood_limit: flood_limit?, parked_bytes };
        Some(DeadLetter { store: store?, topic: topic?, policy, keep_ended: keep_ended? }).filter(|_| parked_bytes > 0)
    }

    /// A letter that is made durable in the database and a group of events in Kafka do not commit as one, so that a row of a group that is given up
    /// could be a letter and an event at once.
    fn refuse_letters_of_groups(&mut self, file: &raw::File) {
        let raw::File { checkpoint, dead_letter, .. } = file;
        if checkpoint.store.value != StoreKind::Kafka {
            return;
        }
        let sets_aside = dead_letter.on_bad_row.value != raw::OnBadRow::Stop
            || dead_letter.on_closed_route.value == raw::OnClosedRoute::DeadLetter;
        if sets_aside && dead_letter.store.value == Some(LetterStoreKind::Postgres) {
            let reason = "with checkpoint.store = \"kafka\" a dead letter in the database and a transaction of Kafka cannot become durable as one; delete it, so that letters are kept in the topic dead_letter.topic, or write on_bad_row = \"stop\" and on_closed_route = \"hold\", or another checkpoint.store";
            self.fault(&dead_letter.store, reason);
        }
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
        if self.findings.is_at_fault(&retry.initial_ms.key) || self.findings.is_at_fault(&retry.max_ms.key) {
            return None;
        }
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

    fn http(&mut self, http: &raw::Http) -> Option<Http> {
        let stalled_after = self.millis(&http.stalled_after_ms, 1000, MAX_MILLIS);
        let listen = match http.listen.value.value.as_str() {
            "" | "off" => Some(None),
            typed => match typed.parse() {
                Ok(address) => Some(Some(address)),
                Err(_) => {
                    self.fault(
                        &http.listen,
                        format!("{typed:?} is no IP address with a port; write \"127.0.0.1:9464\", \"[::1]:9464\" or \"off\""),
                    );
                    None
                }
            },
        };
        Some(Http { listen: listen?, stalled_after: stalled_after? })
    }

    fn log(&mut self, log: &raw::Log) -> Option<Log> {
        let variable = self.around.variable(log::VARIABLE).filter(|filter| !filter.is_empty());
        if let Some(Err(reason)) = variable.as_deref().map(log::check) {
            self.findings.fault(log::VARIABLE, None, reason);
            return None;
        }
        if let Err(reason) = log::check(&log.level.value.value) {
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

    fn days(&mut self, field: &Field<u64>) -> Option<Duration> {
        let days = u32::try_from(field.value).ok().filter(|_| (1..=MAX_DAYS).contains(&field.value));
        if days.is_none() {
            self.fault(field, format!("{} is out of range; write 1 to {MAX_DAYS} days", field.value));
        }
        days.map(|days| DAY * days)
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
