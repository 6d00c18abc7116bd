//! What is written to the topic, as records for the client.

use std::sync::Arc;

use bytes::Bytes;
use walpost_core::lsn::Lsn;
use walpost_core::poison::DeadLetter;
use walpost_core::position::{Identity, Timeline};
use walpost_core::record::{Header, Headers, Record};
use walpost_core::time::Timestamp;

use super::form::{self, Marking, Standing};
use super::key::{self, Kind, RowId};
use super::parts::{self, PART, PartOf, WRITING};
use crate::transactional::PARTITION;

/// Makes the records of one relay.
#[derive(Debug, Clone)]
pub(crate) struct Records {
    relay: Arc<str>,
    topic: Arc<str>,
    part_bytes: usize,
}

impl Records {
    /// For a producer that takes records of so many bytes.
    pub(crate) fn new(relay: &str, topic: &str, message_max_bytes: &str) -> Self {
        let most = message_max_bytes.parse().unwrap_or(0);
        Self { relay: relay.into(), topic: topic.into(), part_bytes: parts::part_bytes(most) }
    }

    pub(crate) fn topic(&self) -> &str {
        &self.topic
    }

    /// A letter: one record, or as many as it needs.
    pub(super) fn letter(&self, letter: &DeadLetter, now: Timestamp) -> Vec<Record> {
        let text = form::write_letter(&self.relay, letter, now);
        let cut: Vec<usize> = parts::cut(&text, self.part_bytes).into_iter().map(str::len).collect();
        let count = u32::try_from(cut.len()).unwrap_or(u32::MAX);
        // The parts share the one text, which may be large.
        let mut rest = Bytes::from(text);
        let (row, writing) = (RowId::of(letter), parts::new_writing(now));
        let part = |(number, bytes): (u32, usize)| {
            let headers = [(PART, PartOf::header(number, count)), (WRITING, writing.clone())];
            let record = self.record(&row, Kind::Part(number), rest.split_to(bytes), now);
            Record { headers: headers.into_iter().map(header).collect(), ..record }
        };
        (1..).zip(cut).map(part).collect()
    }

    pub(super) fn standing(&self, row: &RowId, standing: &Standing, now: Timestamp) -> Record {
        self.record(row, Kind::Standing, form::write_standing(standing).into(), now)
    }

    pub(super) fn marking(&self, row: &RowId, marking: &Marking) -> Record {
        self.record(row, Kind::Mark, form::write_marking(marking).into(), marking.at)
    }

    /// The end of everything that was written under this key.
    pub(super) fn tombstone(&self, key: String, now: Timestamp) -> Record {
        self.bare(key, None, now)
    }

    fn record(&self, row: &RowId, kind: Kind, value: Bytes, now: Timestamp) -> Record {
        self.bare(key::write(&self.relay, row, kind), Some(value), now)
    }

    fn bare(&self, key: String, value: Option<Bytes>, now: Timestamp) -> Record {
        Record {
            // Of no row that is on its way, and nothing on the way to the broker asks for it.
            identity: Identity { timeline: Timeline(0), commit_lsn: Lsn::new(0), ordinal: 0 },
            topic: Arc::clone(&self.topic),
            key: Some(Bytes::from(key)),
            value,
            headers: Headers::new(),
            timestamp_ms: now.unix_millis(),
            is_dated_by_row: false,
            partition: Some(PARTITION),
        }
    }
}

fn header((name, value): (&str, String)) -> Header {
    Header { name: name.into(), value: Some(Bytes::from(value)) }
}
