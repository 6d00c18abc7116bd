//! The checkpoint: where it is remembered how far the relay got, and how often.

use std::path::PathBuf;

use super::super::edges;
use super::super::{Checkpoint, Group, Idle, Sink, Store};
use super::{Conversion, MAX_MILLIS};
use crate::config::raw::{self, StoreKind};
use crate::config::reader::Field;

impl Conversion<'_> {
    pub(super) fn checkpoint(
        &mut self,
        file: &raw::File,
        sink: Option<&Sink>,
        name: Option<&str>,
    ) -> Option<Checkpoint> {
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
}
