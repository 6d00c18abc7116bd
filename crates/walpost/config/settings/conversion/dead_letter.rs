//! The dead letters: when rows are set aside, and where.

use std::time::Duration;

use walpost_core::poison::{Keep, OnBadRow, OnClosedRoute, Policy};

use super::super::{DeadLetter, LetterStore, Sink};
use super::Conversion;
use crate::config::raw::{self, LetterStoreKind, StoreKind};
use crate::config::reader::Field;
use crate::config::value::Size;

/// Longer than anything is kept that is to be deleted one day: ten years.
const MAX_DAYS: u64 = 3653;
const DAY: Duration = Duration::from_secs(24 * 3600);

impl Conversion<'_> {
    pub(super) fn dead_letter(&mut self, file: &raw::File, sink: Option<&Sink>) -> Option<DeadLetter> {
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
        let keep = match typed.keep.value {
            raw::Keep::Row => Keep::Row,
            raw::Keep::Reference => Keep::Reference,
        };
        let policy = Policy { on_bad_row, on_closed_route, flood_limit: flood_limit?, parked_bytes, keep };
        Some(DeadLetter { store: store?, topic: topic?, policy, keep_ended: keep_ended? }).filter(|_| parked_bytes > 0)
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

    /// A letter that is made durable in the database and a group of events in Kafka do not commit as one, so that a row of a group that is given up
    /// could be a letter and an event at once.
    pub(super) fn refuse_letters_of_groups(&mut self, file: &raw::File) {
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

    fn days(&mut self, field: &Field<u64>) -> Option<Duration> {
        let days = u32::try_from(field.value).ok().filter(|_| (1..=MAX_DAYS).contains(&field.value));
        if days.is_none() {
            self.fault(field, format!("{} is out of range; write 1 to {MAX_DAYS} days", field.value));
        }
        days.map(|days| DAY * days)
    }
}
