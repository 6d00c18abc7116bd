//! From what was typed to what the program needs. Every check is made, whatever the others found, so that one look at the output
//! is enough to put a file right.
//!
//! The larger sections have a module each; what is the same for all, and the small ones, are here.

mod checkpoint;
mod dead_letter;
mod source;

use std::time::Duration;

use walpost_core::outbox::{Outbox, TableName};

use super::edges::{self, Judgement, Sentence};
use super::files;
use super::{Http, KafkaSettings, Limits, Log, Retry, Routed, Settings, Sink};
use crate::config::finding::Findings;
use crate::config::raw::{self, SinkKind};
use crate::config::reader::Field;
use crate::config::surroundings::Surroundings;
use crate::config::table_name::{self, MAX_NAME_BYTES};
use crate::config::value::{Millis, Property, Size, Text};
use crate::observe::log;
pub(in crate::config) use source::password_of;

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
