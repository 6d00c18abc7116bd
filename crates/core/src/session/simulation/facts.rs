//! What is true in the simulated world, whoever knows it: which events were committed, and what a consumer has read.
//!
//! Every promise about delivery is checked here, at the moment that it would be broken.

use bytes::Bytes;

use crate::lsn::Lsn;
use crate::position::{Identity, Timeline};
use crate::record::Record;

use super::broker::LANES;

/// The events in the order of the log, and the lanes (a partition of a topic each) that consumers read.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) events: Vec<Event>,
    /// The last event of each lane that was not there before.
    newest: [Option<usize>; LANES],
    pub(super) repeats: u64,
}

/// A committed row of an outbox.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) identity: Identity,
    pub(super) topic: usize,
    pub(super) key: &'static str,
    pub(super) payload: Bytes,
    pub(super) table: usize,
    /// The broker takes it by no means.
    pub(super) is_bad: bool,
    /// A failover lost its transaction: it was never committed for those who look at the new primary.
    pub(super) is_lost: bool,
    first: Option<Record>,
    /// The relay was killed, an acknowledgement was lost, or a session gave up on its sink: it may come once more.
    may_repeat: bool,
}

impl Facts {
    pub(super) fn commit(&mut self, event: Event) -> usize {
        self.events.push(event);
        self.events.len() - 1
    }

    /// The event that a record carries.
    pub(super) fn event_of(&self, record: &Record) -> usize {
        let value = record.value.as_ref().expect("every event of the simulation has a payload");
        let digits: Vec<u8> =
            value.iter().copied().skip_while(|b| !b.is_ascii_digit()).take_while(u8::is_ascii_digit).collect();
        let event = std::str::from_utf8(&digits).unwrap().parse().expect("a payload names its event");
        assert!(self.events.get(event).is_some(), "event {event} was never committed to an outbox");
        event
    }

    /// A consumer can read the record from now on.
    pub(super) fn deliver(&mut self, lane: usize, record: &Record) {
        let number = self.event_of(record);
        let event = &mut self.events[number];
        assert!(!event.is_bad, "the broker took the bad event {number}");
        match &event.first {
            None => {
                event.check_first(number, record);
                let newest = self.newest[lane].replace(number);
                assert!(newest < Some(number), "event {number} was first delivered after {newest:?} on lane {lane}");
                event.first = Some(record.clone());
            }
            Some(first) => {
                assert!(
                    event.may_repeat,
                    "event {number} was repeated though it had been acknowledged and nobody crashed"
                );
                let same_timeline = Record {
                    identity: Identity { timeline: first.identity.timeline, ..record.identity },
                    ..record.clone()
                };
                assert_eq!(*first, same_timeline, "the repeat of event {number} differs");
                event.may_repeat = false;
                self.repeats += 1;
            }
        }
    }

    /// A record that its sender has given up is there all the same.
    pub(super) fn deliver_late(&mut self, lane: usize, record: &Record) {
        let event = self.event_of(record);
        let may_repeat = self.events[event].may_repeat;
        self.allow_repeat(event);
        let is_first = !self.is_delivered(event);
        self.deliver(lane, record);
        self.events[event].may_repeat = may_repeat || is_first;
    }

    pub(super) fn is_delivered(&self, event: usize) -> bool {
        self.events[event].first.is_some()
    }

    /// It was delivered, and nobody may ever know.
    pub(super) fn allow_repeat(&mut self, event: usize) {
        self.events[event].may_repeat = true;
    }

    /// All that was delivered of these transactions, and of what comes after them, may come again.
    pub(super) fn allow_repeats_from(&mut self, commit_lsn: Lsn, ordinal: u64) {
        for event in &mut self.events {
            let is_before = (event.identity.commit_lsn, event.identity.ordinal) < (commit_lsn, ordinal);
            if !is_before && !event.is_lost {
                event.may_repeat = true;
            }
        }
    }

    /// A failover lost every transaction that is not complete at this position.
    pub(super) fn lose_from(&mut self, switch: Lsn) {
        for event in &mut self.events {
            event.is_lost |= event.identity.commit_lsn >= switch;
        }
    }

    pub(super) fn check_nothing_is_missing(&self) {
        for (number, event) in self.events.iter().enumerate() {
            assert!(event.is_lost || event.first.is_some(), "event {number} ({}) was lost", event.identity.commit_lsn);
        }
    }
}

impl Event {
    pub(super) fn new(
        identity: Identity,
        topic: usize,
        key: &'static str,
        payload: Bytes,
        table: usize,
        is_bad: bool,
    ) -> Self {
        Self { identity, topic, key, payload, table, is_bad, is_lost: false, first: None, may_repeat: false }
    }

    /// The timeline is the one that the session's server is on, which may be a later one than that of the commit.
    fn check_first(&self, number: usize, record: &Record) {
        let Identity { timeline: Timeline(timeline), commit_lsn, ordinal } = record.identity;
        assert!(!self.is_lost, "event {number} is delivered from a history that is gone");
        assert!(timeline >= self.identity.timeline.0, "event {number} has an older timeline than its commit");
        assert_eq!(
            (commit_lsn, ordinal),
            (self.identity.commit_lsn, self.identity.ordinal),
            "identity of event {number}"
        );
        assert_eq!(record.value.as_ref(), Some(&self.payload), "payload of event {number}");
        assert_eq!(record.key.as_deref(), Some(self.key.as_bytes()), "key of event {number}");
    }
}
