//! What is true in the simulated world, whoever knows it: which events were committed, and what a consumer has read.
//!
//! Every promise about delivery is checked here, at the moment that it would be broken.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use crate::lsn::Lsn;
use crate::position::{Identity, Timeline};
use crate::record::Record;

use super::broker::LANES;
use super::server::TOPICS;

/// The events in the order of the log, and the lanes (a partition of a topic each) that consumers read.
#[derive(Debug, Default)]
pub(super) struct Facts {
    pub(super) events: Vec<Event>,
    /// The last event of each lane that was not there before.
    newest: [Option<usize>; LANES],
    /// Those of each key.
    of_key: BTreeMap<Key, Vec<usize>>,
    /// Letters overtake nobody.
    pub(super) is_parking: bool,
    /// Topics that were ever missing, or closed to the relay.
    pub(super) were_closed: [bool; TOPICS.len()],
    pub(super) repeats: u64,
    delivered: u64,
}

/// Whose order is kept: table, topic, key.
type Key = (usize, usize, &'static str);

/// A committed row of an outbox.
#[derive(Debug)]
pub(super) struct Event {
    pub(super) identity: Identity,
    pub(super) topic: usize,
    pub(super) key: Option<&'static str>,
    pub(super) payload: Bytes,
    pub(super) table: usize,
    /// No record can be made of it.
    pub(super) fault: Option<Fault>,
    /// The broker takes it by no means.
    pub(super) is_bad: bool,
    /// Or took it by none before somebody mended that.
    pub(super) was_bad: bool,
    /// It lies with the dead letters, or did so.
    pub(super) is_set_aside: bool,
    /// It was to be set aside, and may come after all, behind events of other keys.
    pub(super) is_delayed: bool,
    /// An operator dropped its letter.
    pub(super) is_given_up: bool,
    /// Or will have done so soon: its session goes on as if it were.
    pub(super) is_being_given_up: bool,
    /// A failover lost its transaction: it was never committed for those who look at the new primary.
    pub(super) is_lost: bool,
    /// An operator moved the checkpoint back to before it.
    pub(super) has_come_again: bool,
    first: Option<Record>,
    /// How many records a consumer had read when it read this one last.
    last: u64,
    /// The relay was killed, an acknowledgement was lost, or a session gave up on its sink: it may come once more.
    may_repeat: bool,
    /// An operator had its letter sent so many times; it may have been delivered before.
    replays: u32,
}

/// Why no record can be made of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fault {
    /// A column is missing, until the configuration is mended.
    Column,
    /// It routes to no topic.
    Route,
}

impl Facts {
    pub(super) fn commit(&mut self, event: Event) -> usize {
        let number = self.events.len();
        if let Some(key) = event.ordered_by() {
            self.of_key.entry(key).or_default().push(number);
        }
        self.events.push(event);
        number
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
        self.delivered += 1;
        let event = &mut self.events[number];
        event.last = self.delivered;
        assert!(!event.is_bad, "the broker took the bad event {number}");
        match &event.first {
            None => {
                event.check_first(number, record);
                event.first = Some(record.clone());
                if !event.is_set_aside && !event.is_delayed {
                    let newest = self.newest[lane].replace(number);
                    assert!(newest < Some(number), "event {number} first came behind {newest:?} on lane {lane}");
                }
                if self.is_parking && !event.is_given_up && !event.is_being_given_up {
                    self.check_all_before_it_of_its_key_came(number);
                }
            }
            Some(first) => {
                let may_repeat = event.may_repeat || event.replays > 0;
                assert!(may_repeat, "event {number} was repeated though it had been acknowledged and nobody crashed");
                let same_timeline = Record {
                    identity: Identity { timeline: first.identity.timeline, ..record.identity },
                    ..record.clone()
                };
                assert_eq!(*first, same_timeline, "the repeat of event {number} differs");
                match event.may_repeat {
                    true => event.may_repeat = false,
                    false => event.replays -= 1,
                }
                self.repeats += 1;
            }
        }
    }

    /// A key's events come in order, also where some of them were set aside: none overtakes a letter.
    fn check_all_before_it_of_its_key_came(&self, number: usize) {
        let of_key = self.events[number].ordered_by().and_then(|key| self.of_key.get(&key));
        let is_missing = |other: &&usize| {
            let event = &self.events[**other];
            event.first.is_none() && !event.is_given_up && !event.is_being_given_up && !event.is_lost
        };
        let overtaken = of_key.into_iter().flatten().take_while(|other| **other < number).find(is_missing);
        assert_eq!(overtaken, None, "event {number} overtook one of its key");
    }

    /// A record that its sender has given up is there all the same.
    pub(super) fn deliver_late(&mut self, lane: usize, record: &Record) {
        let event = self.event_of(record);
        let may_repeat = self.events[event].may_repeat;
        self.allow_repeat(event);
        let is_first = !self.is_delivered(event);
        let last = self.events[event].last;
        self.deliver(lane, record);
        // It says nothing about what the relay does now.
        if !is_first {
            self.events[event].last = last;
        }
        self.events[event].may_repeat = may_repeat || is_first;
    }

    /// A consumer has it, or it lies with the dead letters.
    pub(super) fn is_accounted_for(&self, event: usize) -> bool {
        self.is_delivered(event) || self.events[event].is_set_aside
    }

    pub(super) fn is_delivered(&self, event: usize) -> bool {
        self.events[event].first.is_some()
    }

    /// It was delivered, and nobody may ever know.
    pub(super) fn allow_repeat(&mut self, event: usize) {
        self.events[event].may_repeat = true;
    }

    /// Its session ended before it was set aside.
    pub(super) fn delay(&mut self, identity: Identity) {
        let place = (identity.commit_lsn, identity.ordinal);
        for event in self.events.iter_mut().filter(|event| event.place() == place) {
            event.is_delayed = true;
        }
    }

    /// Its letter goes again.
    pub(super) fn replay(&mut self, event: usize) {
        self.events[event].replays += 1;
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

    /// The same process goes on, and knows that these have arrived or lie there.
    pub(super) fn forbid_repeats_of(&mut self, settled: &[Identity]) {
        let settled: BTreeSet<_> = settled.iter().map(|identity| (identity.commit_lsn, identity.ordinal)).collect();
        for event in &mut self.events {
            event.may_repeat &= event.is_lost || !settled.contains(&event.place());
        }
    }

    /// The relay takes up the log from here on again, whatever came of it before: once more for each time that this is done, and once for each of its
    /// letters that lie there. On another timeline none of them is known for the same row's.
    pub(super) fn come_again_from(&mut self, position: Lsn, letters_of: impl Fn(usize) -> u32) {
        self.allow_repeats_from(position, 0);
        let come_again = self.events.iter_mut().enumerate().filter(|(_, event)| event.identity.commit_lsn >= position);
        for (number, event) in come_again {
            event.has_come_again = true;
            // One that is lost does not, and of its letters the first is no repeat.
            let letters = if event.is_lost { 0 } else { letters_of(number) };
            event.replays = letters.saturating_sub(u32::from(event.first.is_none()));
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
            let is_known = event.first.is_some() || event.is_given_up;
            assert!(event.is_lost || is_known, "event {number} ({}) was lost", event.identity.commit_lsn);
        }
        self.check_what_is_read_last();
    }

    /// Whoever keeps the last record of a key keeps the newest: what comes again comes before what follows it, or that comes again too. A letter may be
    /// sent by a session before the log has come to its place again, so that what is before it there is read behind it.
    fn check_what_is_read_last(&self) {
        let is_of_the_log = |number: &&usize| {
            let event = &self.events[**number];
            event.first.is_some() && !event.is_set_aside && !event.is_lost
        };
        for of_key in self.of_key.values().filter(|_| self.is_parking) {
            let read: Vec<usize> = of_key.iter().filter(is_of_the_log).copied().collect();
            let behind = read.windows(2).find(|pair| self.events[pair[0]].last > self.events[pair[1]].last);
            assert_eq!(behind, None, "the first was read again behind the second, which is of its key and later");
        }
    }
}

impl Event {
    pub(super) fn new(
        identity: Identity,
        topic: usize,
        key: Option<&'static str>,
        payload: Bytes,
        table: usize,
    ) -> Self {
        Self {
            identity,
            topic,
            key,
            payload,
            table,
            fault: None,
            is_bad: false,
            was_bad: false,
            is_set_aside: false,
            is_delayed: false,
            is_given_up: false,
            is_being_given_up: false,
            is_lost: false,
            has_come_again: false,
            first: None,
            last: 0,
            may_repeat: false,
            replays: 0,
        }
    }

    /// A row without a route has an order of its own.
    fn ordered_by(&self) -> Option<Key> {
        let key = self.key.filter(|_| self.fault != Some(Fault::Route))?;
        Some((self.table, self.topic, key))
    }

    pub(super) fn place(&self) -> (Lsn, u64) {
        (self.identity.commit_lsn, self.identity.ordinal)
    }

    /// The text that routes it.
    pub(super) fn route(&self) -> Option<&'static str> {
        (self.fault != Some(Fault::Route)).then_some(TOPICS[self.topic])
    }

    /// The timeline is the one that the session's server is on, which may be a later one than that of the commit.
    fn check_first(&self, number: usize, record: &Record) {
        let Identity { timeline: Timeline(timeline), commit_lsn, ordinal } = record.identity;
        assert!(!self.is_lost || self.is_set_aside, "event {number} is delivered from a history that is gone");
        assert!(timeline >= self.identity.timeline.0, "event {number} has an older timeline than its commit");
        assert_eq!(
            (commit_lsn, ordinal),
            (self.identity.commit_lsn, self.identity.ordinal),
            "identity of event {number}"
        );
        assert_eq!(record.value.as_ref(), Some(&self.payload), "payload of event {number}");
        assert_eq!(record.key.as_deref(), self.key.map(str::as_bytes), "key of event {number}");
    }
}
