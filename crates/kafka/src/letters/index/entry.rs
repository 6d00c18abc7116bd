//! What is known of one row, folded from its records.

use std::sync::Arc;

use walpost_core::outbox::TableName;
use walpost_core::poison::ParkingKey;
use walpost_core::poison::operator::{Mark, State, Unreadable, Why};
use walpost_core::time::Timestamp;

use super::super::form::{self, Document, Marking, Standing};
use super::super::parts::Gathering;

/// What is known of one row.
#[derive(Debug, Default)]
pub(in super::super) struct Entry {
    pub(super) gathering: Gathering,
    /// The highest number of a part that was ever seen.
    pub(super) parts: u32,
    pub(in super::super) letter: Option<Known>,
    pub(super) standing: Option<Standing>,
    pub(super) marking: Option<(i64, Marking)>,
    /// There is a letter that cannot be read, and none that can.
    pub(super) unread_letter: Option<Box<Unreadable>>,
    /// How it stands by now cannot be read; what is known is older.
    pub(super) unread_standing: Option<Box<Unreadable>>,
}

/// A letter that is whole.
#[derive(Debug)]
pub(in super::super) struct Known {
    /// Where its parts lie. The first is its number.
    pub(in super::super) offsets: Vec<i64>,
    pub(in super::super) queue: Option<Arc<ParkingKey>>,
    cause: Why,
    /// How often it was written.
    pub(super) writings: u32,
    pub(super) parked_bytes: u64,
    pub(in super::super) first_at: Timestamp,
    pub(in super::super) details: Option<Box<Details>>,
}

/// What an operator wants to see of a letter.
#[derive(Debug)]
pub(in super::super) struct Details {
    pub(in super::super) table: TableName,
    pub(in super::super) event_id: Option<String>,
    pub(in super::super) reason: Option<String>,
    pub(in super::super) topic: Option<String>,
    pub(in super::super) bytes: usize,
}

impl Known {
    pub(super) fn new(
        document: &Document,
        offsets: Vec<i64>,
        queue: Option<Arc<ParkingKey>>,
        is_detailed: bool,
    ) -> Self {
        let Document { letter, first_at } = document;
        let value = letter.record.as_ref().and_then(|record| record.value.as_ref());
        let details = || Details {
            table: letter.table.clone(),
            event_id: letter.event_id.clone(),
            reason: form::reason(&letter.cause).map(str::to_owned),
            topic: letter.record.as_ref().map(|record| record.topic.to_string()),
            bytes: letter.row.relation.len() + letter.row.insert.len() + value.map_or(0, bytes::Bytes::len),
        };
        Self {
            offsets,
            queue,
            cause: form::why(&letter.cause),
            writings: 1,
            parked_bytes: letter.row.insert.len() as u64,
            first_at: *first_at,
            details: is_detailed.then(|| Box::new(details())),
        }
    }

    pub(super) fn id(&self) -> i64 {
        self.offsets.first().copied().unwrap_or_default()
    }
}

impl Entry {
    /// How it stands by what was written of it; whether it goes by itself depends on what stands in front of it.
    pub(super) fn state(&self) -> State {
        match &self.standing {
            Some(Standing { state: state @ (State::Sent | State::Dropped), .. }) => *state,
            _ => self.request().map_or(State::Waiting, Mark::state),
        }
    }

    /// What an operator asked for and the relay has not done yet.
    fn request(&self) -> Option<Mark> {
        let done = self.standing.as_ref().map_or(0, |standing| standing.marks_done);
        self.marking.as_ref().filter(|(offset, _)| *offset >= done).map(|(_, marking)| marking.mark)
    }

    /// Whether it goes by itself where nothing stands in front of it: it lies there only because of its key, and no operator has said anything else.
    pub(in super::super) fn may_follow(&self) -> bool {
        self.is_open() && self.cause() == Why::Parked && self.request().is_none()
    }

    /// Whether it went by itself.
    pub(in super::super) fn has_followed(&self) -> bool {
        !self.is_open() && self.marking.is_none()
    }

    /// Whether it is to be sent also where its row was changed.
    pub(in super::super) fn accepts_changed(&self) -> bool {
        self.request() == Some(Mark::ReplayChanged)
    }

    pub(in super::super) fn is_open(&self) -> bool {
        State::OPEN.contains(&self.state())
    }

    pub(in super::super) fn cause(&self) -> Why {
        let known = self.letter.as_ref().map_or(Why::Row, |letter| letter.cause);
        self.standing.as_ref().map_or(known, |standing| standing.cause)
    }

    /// The reason, where it is another than that of the body.
    pub(in super::super) fn new_reason(&self) -> Option<&str> {
        self.standing.as_ref().and_then(|standing| standing.reason.as_deref())
    }

    pub(in super::super) fn attempts(&self) -> u32 {
        let writings = self.letter.as_ref().map_or(0, |letter| letter.writings);
        self.standing.as_ref().map_or(writings, |standing| standing.attempts.max(writings))
    }

    pub(in super::super) fn last_at(&self) -> Option<Timestamp> {
        let first = self.letter.as_ref().map(|letter| letter.first_at);
        self.standing.as_ref().map(|standing| standing.last_at).or(first)
    }

    pub(in super::super) fn ended_at(&self) -> Option<Timestamp> {
        self.standing.as_ref().and_then(|standing| standing.ended_at)
    }

    pub(in super::super) fn marking(&self) -> Option<&Marking> {
        self.marking.as_ref().map(|(_, marking)| marking)
    }

    /// What of it cannot be read, where it may be an open letter.
    pub(super) fn unreadable(&self) -> Option<&Unreadable> {
        let has_ended = self.unread_standing.is_none() && !self.is_open();
        let letter = self.unread_letter.as_deref().filter(|_| !has_ended);
        letter.or(self.unread_standing.as_deref().filter(|_| self.letter.is_some()))
    }

    pub(super) fn is_nothing(&self) -> bool {
        let is_unread = self.unread_letter.is_some() || self.unread_standing.is_some();
        let is_known = self.letter.is_some() || self.standing.is_some() || self.marking.is_some();
        !is_unread && !is_known && self.gathering.is_empty()
    }

    /// How it stands now, to be written with something changed.
    pub(super) fn standing_now(&self, now: Timestamp) -> Standing {
        Standing {
            state: State::Waiting,
            cause: self.cause(),
            reason: self.new_reason().map(str::to_owned),
            attempts: self.attempts(),
            last_at: now,
            ended_at: None,
            marks_done: self.standing.as_ref().map_or(0, |standing| standing.marks_done),
        }
    }

    /// What an open letter counts: as a root, and as parked bytes.
    pub(super) fn weights(&self) -> (u64, u64) {
        let bytes = self.letter.as_ref().map_or(0, |letter| letter.parked_bytes);
        match self.cause() {
            Why::Parked => (0, bytes),
            Why::Row | Why::Route => (1, 0),
        }
    }
}
