//! How much of each outbox went to each topic, for those who look on from outside.
//!
//! It is counted once a row, so it has to cost next to nothing: records of one topic share its name, and where a name was seen
//! before, the place of its count is found by the address of the name. A route can make a topic of any value, and whoever collects the figures
//! pays for each name for months: from [`MAX_ROWS`] pairs on, what is new is counted under [`OTHER`].

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::outbox::TableName;
use crate::record::Record;

/// How many pairs of outbox and topic are told apart.
pub const MAX_ROWS: usize = 1000;

/// The topic under which the rest is counted.
pub const OTHER: &str = "other";

/// How many names of topics are found by their address.
const RECENT: usize = 64;

/// What went from an outbox to a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Flow {
    /// The outbox.
    pub table: Arc<TableName>,
    /// The topic.
    pub topic: Arc<str>,
    /// Rows that became records.
    pub events: u64,
    /// The bytes of their keys and values.
    pub bytes: u64,
}

/// See the module's documentation.
#[derive(Debug, Clone)]
pub struct Traffic {
    flows: Vec<Flow>,
    /// The places of a topic's flows: one for each outbox.
    places: BTreeMap<Arc<str>, Vec<usize>>,
    /// As long as a name is kept here, no other can have its address.
    recent: Vec<Option<(Arc<str>, usize)>>,
}

impl Default for Traffic {
    fn default() -> Self {
        Self { flows: Vec::new(), places: BTreeMap::new(), recent: vec![None; RECENT] }
    }
}

impl Traffic {
    /// Counts a record of this outbox.
    pub fn count(&mut self, table: &TableName, record: &Record) {
        let length = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, bytes::Bytes::len);
        let bytes = length(&record.key) + length(&record.value);
        self.add(table, &record.topic, 1, bytes as u64);
    }

    /// Adds what another has counted.
    pub fn absorb(&mut self, other: &Self) {
        for Flow { table, topic, events, bytes } in &other.flows {
            self.add(table, topic, *events, *bytes);
        }
    }

    /// All that was counted.
    #[must_use]
    pub fn flows(&self) -> &[Flow] {
        &self.flows
    }

    fn add(&mut self, table: &TableName, topic: &Arc<str>, events: u64, bytes: u64) {
        let place = self.recent_place(table, topic).unwrap_or_else(|| self.learn(table, topic));
        if let Some(flow) = self.flows.get_mut(place) {
            flow.events += events;
            flow.bytes += bytes;
        }
    }

    fn recent_place(&self, table: &TableName, topic: &Arc<str>) -> Option<usize> {
        let (name, place) = self.recent.get(slot_of(topic))?.as_ref()?;
        let is_it = Arc::ptr_eq(name, topic) && self.flows.get(*place).is_some_and(|flow| *flow.table == *table);
        is_it.then_some(*place)
    }

    fn learn(&mut self, table: &TableName, topic: &Arc<str>) -> usize {
        let place = self.place_of(table, topic);
        if let Some(recent) = self.recent.get_mut(slot_of(topic)) {
            *recent = Some((Arc::clone(topic), place));
        }
        place
    }

    fn place_of(&mut self, table: &TableName, topic: &Arc<str>) -> usize {
        if let Some(place) = self.known_place(table, topic) {
            return place;
        }
        if self.flows.len() < MAX_ROWS {
            return self.open(table, Arc::clone(topic));
        }
        self.known_place(table, OTHER).unwrap_or_else(|| self.open(table, Arc::from(OTHER)))
    }

    fn known_place(&self, table: &TableName, topic: &str) -> Option<usize> {
        let mut places = self.places.get(topic)?.iter().copied();
        places.find(|place| self.flows.get(*place).is_some_and(|flow| *flow.table == *table))
    }

    fn open(&mut self, table: &TableName, topic: Arc<str>) -> usize {
        let place = self.flows.len();
        let known = self.flows.iter().find(|flow| *flow.table == *table).map(|flow| Arc::clone(&flow.table));
        let table = known.unwrap_or_else(|| Arc::new(table.clone()));
        self.places.entry(Arc::clone(&topic)).or_default().push(place);
        self.flows.push(Flow { table, topic, events: 0, bytes: 0 });
        place
    }
}

/// Where a name is kept among the recent ones. Names are allocated, so the lowest bits of their addresses are alike.
fn slot_of(topic: &Arc<str>) -> usize {
    (Arc::as_ptr(topic).addr() >> 5) % RECENT
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::lsn::Lsn;
    use crate::position::{Identity, Timeline};
    use crate::record::Headers;

    fn table(name: &str) -> TableName {
        TableName { schema: "public".to_owned(), table: name.to_owned() }
    }

    fn record(topic: &Arc<str>, length: usize) -> Record {
        Record {
            identity: Identity { timeline: Timeline(1), commit_lsn: Lsn::new(1), ordinal: 0 },
            topic: Arc::clone(topic),
            key: Some(Bytes::from_static(b"key")),
            value: Some(Bytes::from(vec![0; length])),
            headers: Headers::new(),
            timestamp_ms: 0,
            is_dated_by_row: false,
            partition: None,
        }
    }

    fn counted(traffic: &Traffic) -> Vec<(&str, &str, u64, u64)> {
        traffic.flows().iter().map(|flow| (flow.table.table.as_str(), &*flow.topic, flow.events, flow.bytes)).collect()
    }

    #[test]
    fn a_topic_that_two_outboxes_share_and_one_whose_name_was_made_anew_are_counted_by_what_they_are_called() {
        let (mut traffic, topic) = (Traffic::default(), Arc::from("orders"));
        traffic.count(&table("a"), &record(&topic, 10));
        traffic.count(&table("a"), &record(&topic, 20));
        traffic.count(&table("b"), &record(&topic, 1));
        traffic.count(&table("a"), &record(&Arc::from("orders"), 0));
        assert_eq!(counted(&traffic), [("a", "orders", 3, 39), ("b", "orders", 1, 4)]);
    }

    #[test]
    fn what_is_new_once_there_are_many_topics_is_counted_as_other_for_each_outbox() {
        let mut traffic = Traffic::default();
        for number in 0..2 * MAX_ROWS {
            traffic.count(&table("a"), &record(&Arc::from(format!("topic {number}")), 0));
        }
        traffic.count(&table("b"), &record(&Arc::from("topic 0"), 0));
        traffic.count(&table("a"), &record(&Arc::from(OTHER), 0));
        let rest: Vec<_> = counted(&traffic).split_off(MAX_ROWS);
        assert_eq!(rest, [("a", OTHER, MAX_ROWS as u64 + 1, 3 * (MAX_ROWS as u64 + 1)), ("b", OTHER, 1, 3)]);
    }

    #[test]
    fn what_two_connections_carried_adds_up() {
        let (mut first, mut second) = (Traffic::default(), Traffic::default());
        first.count(&table("a"), &record(&Arc::from("x"), 0));
        second.count(&table("a"), &record(&Arc::from("y"), 0));
        second.count(&table("a"), &record(&Arc::from("x"), 7));
        first.absorb(&second);
        assert_eq!(counted(&first), [("a", "x", 2, 13), ("a", "y", 1, 3)]);
    }
}
