//! What is owed: every record that was taken from the log and is not settled, and which transactions are wholly settled.
//!
//! The ledger is the only one who moves the watermark. Records settle in any order; the watermark moves over the settled
//! prefix alone, and rests only behind whole transactions, so that confirming it can never lose one. The ledger keeps the
//! records too: after a failure they are sent again from here, in the order of the log.

use std::collections::VecDeque;

use crate::lsn::Lsn;
use crate::port::Ticket;
use crate::position::Identity;
use crate::record::Record;
use crate::time::Timestamp;

/// How far everything is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermark {
    /// Everything before it is settled.
    pub position: Lsn,
    /// When the last transaction before it committed, if one was seen.
    pub commit_time: Option<Timestamp>,
    /// How many records have been settled before it. It rises only when an outbox moved, not while others write.
    pub events: u64,
}

/// How much is owed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Records.
    pub records: usize,
    /// Their weight in bytes.
    pub bytes: usize,
}

/// What a report of the sink meant to the ledger.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// It answered a record that was out.
    Answered,
    /// It is about a record that is not out: of an earlier connection, or reported before. Nothing changed.
    Stale,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Ledger {
    /// The records from the first that is owed on, in the order of the log. Settled ones wait here for those before them.
    entries: VecDeque<Entry>,
    /// The number of this ledger's first record ever.
    first: u64,
    /// The number of the first entry.
    head: u64,
    /// The number of the next entry to look at for publishing.
    cursor: u64,
    /// The ends of transactions that are not wholly settled.
    boundaries: VecDeque<Boundary>,
    watermark: Watermark,
    owed: Load,
    out: usize,
}

/// A record is large, so what becomes of it is told beside it, and it is not moved from its issue to its end.
#[derive(Debug)]
struct Entry {
    weight: usize,
    /// Whether the sink has it; else it is to be published.
    is_out: bool,
    /// `None` once it is settled.
    record: Option<Record>,
}

/// The end of a transaction.
#[derive(Debug, Clone, Copy)]
struct Boundary {
    /// The number of the first ticket behind it.
    behind: u64,
    commit_end: Lsn,
    commit_time: Timestamp,
}

impl Ledger {
    /// An empty ledger at a settled position. Its first record gets the ticket `first`.
    #[must_use]
    pub fn new(first: Ticket, position: Lsn, commit_time: Option<Timestamp>) -> Self {
        Self {
            entries: VecDeque::new(),
            first: first.0,
            head: first.0,
            cursor: first.0,
            boundaries: VecDeque::new(),
            watermark: Watermark { position, commit_time, events: 0 },
            owed: Load::default(),
            out: 0,
        }
    }

    /// Takes a record into the books. It is owed from now on.
    pub fn issue(&mut self, record: Record) -> Ticket {
        let ticket = self.next_ticket();
        let weight = record.weight();
        self.owed.records += 1;
        self.owed.bytes += weight;
        self.entries.push_back(Entry { weight, is_out: false, record: Some(record) });
        ticket
    }

    /// A transaction is complete: once everything issued so far is settled, the watermark may rest at its end.
    pub fn close_transaction(&mut self, commit_end: Lsn, commit_time: Timestamp) {
        let behind = self.next_ticket().0;
        let boundary = Boundary { behind, commit_end, commit_time };
        match self.boundaries.back_mut() {
            Some(last) if last.behind == behind => *last = boundary,
            _ => self.boundaries.push_back(boundary),
        }
        self.advance();
    }

    /// The server has read up to here and sent all that was committed. Counts only while nothing is owed.
    pub fn rest_at(&mut self, wal_end: Lsn) {
        if self.owed.records == 0 {
            self.watermark.position = self.watermark.position.max(wal_end);
        }
    }

    /// The next record to hand to the sink, which is out from now on.
    pub fn publish_next(&mut self) -> Option<Ticket> {
        while self.cursor < self.next_ticket().0 {
            let ticket = Ticket(self.cursor);
            self.cursor += 1;
            if let Some(entry @ Entry { is_out: false, record: Some(_), .. }) = self.entry_mut(ticket) {
                entry.is_out = true;
                self.out += 1;
                return Some(ticket);
            }
        }
        None
    }

    /// Whether any record waits to be handed to the sink.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        self.owed.records > self.out
    }

    /// The record of a ticket, while it is owed.
    #[must_use]
    pub fn record(&self, ticket: Ticket) -> Option<&Record> {
        self.entry(ticket)?.record.as_ref()
    }

    /// Whether a record is with the sink.
    #[must_use]
    pub fn is_out(&self, ticket: Ticket) -> bool {
        self.entry(ticket).is_some_and(|entry| entry.is_out)
    }

    /// A record that was out is delivered.
    pub fn settle(&mut self, ticket: Ticket) -> Report {
        let Some(entry @ Entry { is_out: true, .. }) = self.entry_mut(ticket) else { return Report::Stale };
        entry.is_out = false;
        entry.record = None;
        let weight = entry.weight;
        self.out -= 1;
        self.owed.records -= 1;
        self.owed.bytes -= weight;
        self.advance();
        Report::Answered
    }

    /// A record that was out came back undelivered. It waits again.
    pub fn take_back(&mut self, ticket: Ticket) -> Report {
        let Some(entry @ Entry { is_out: true, .. }) = self.entry_mut(ticket) else { return Report::Stale };
        entry.is_out = false;
        self.out -= 1;
        self.cursor = self.cursor.min(ticket.0);
        Report::Answered
    }

    /// How far everything is settled.
    #[must_use]
    pub fn watermark(&self) -> Watermark {
        self.watermark
    }

    /// What is issued and not settled.
    #[must_use]
    pub fn owed(&self) -> Load {
        self.owed
    }

    /// How many records are with the sink.
    #[must_use]
    pub fn out(&self) -> usize {
        self.out
    }

    /// How many records there are from the first that is owed to the last, settled ones among them: what the books weigh.
    #[must_use]
    pub fn span(&self) -> usize {
        self.entries.len()
    }

    /// Whether everything that was handed to the sink is settled, in whole transactions.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.out == 0 && self.watermark.events == self.cursor - self.first
    }

    /// Whether the record that waits first, if one does, begins another transaction than the one handed out before it.
    #[must_use]
    pub fn is_between_transactions(&self) -> bool {
        self.watermark.events == self.cursor - self.first
            || self.boundaries.binary_search_by_key(&self.cursor, |boundary| boundary.behind).is_ok()
    }

    /// The first record in the order of the log that is not settled.
    #[must_use]
    pub fn first_owed(&self) -> Option<Identity> {
        self.entries.front().and_then(|entry| entry.record.as_ref()).map(|record| record.identity)
    }

    /// The ticket that the next record will get.
    #[must_use]
    pub fn next_ticket(&self) -> Ticket {
        Ticket(self.head + self.entries.len() as u64)
    }

    /// Lets go of the settled prefix and moves the watermark over the transactions that end within it.
    fn advance(&mut self) {
        while let Some(Entry { record: None, .. }) = self.entries.front() {
            self.entries.pop_front();
            self.head += 1;
            self.cursor = self.cursor.max(self.head);
        }
        while let Some(boundary) = self.boundaries.front().copied().filter(|boundary| boundary.behind <= self.head) {
            self.boundaries.pop_front();
            self.rest_behind(boundary);
        }
    }

    fn rest_behind(&mut self, boundary: Boundary) {
        self.watermark = Watermark {
            position: self.watermark.position.max(boundary.commit_end),
            commit_time: Some(boundary.commit_time),
            events: boundary.behind - self.first,
        };
    }

    fn entry(&self, ticket: Ticket) -> Option<&Entry> {
        self.entries.get(usize::try_from(ticket.0.checked_sub(self.head)?).ok()?)
    }

    fn entry_mut(&mut self, ticket: Ticket) -> Option<&mut Entry> {
        self.entries.get_mut(usize::try_from(ticket.0.checked_sub(self.head)?).ok()?)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use bytes::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::position::Timeline;
    use crate::record::Headers;

    fn record(ordinal: u64, length: usize) -> Record {
        Record {
            identity: Identity { timeline: Timeline(1), commit_lsn: Lsn::new(1), ordinal },
            topic: Arc::from("topic"),
            key: None,
            value: Some(Bytes::from(vec![0; length])),
            headers: Headers::new(),
            timestamp_ms: 0,
            partition: None,
        }
    }

    fn ledger() -> Ledger {
        Ledger::new(Ticket(7), Lsn::new(100), None)
    }

    /// Hands everything over that waits.
    fn publish_all(ledger: &mut Ledger) -> Vec<u64> {
        std::iter::from_fn(|| ledger.publish_next()).map(|ticket| ticket.0).collect()
    }

    #[test]
    fn tickets_rise_from_the_first_and_none_is_used_again() {
        let mut ledger = ledger();
        assert_eq!(ledger.issue(record(0, 0)), Ticket(7));
        publish_all(&mut ledger);
        ledger.settle(Ticket(7));
        assert_eq!((ledger.issue(record(1, 0)), ledger.next_ticket()), (Ticket(8), Ticket(9)));
    }

    #[test]
    fn what_is_owed_is_weighed_until_it_is_settled() {
        let mut ledger = ledger();
        let weight = record(0, 1000).weight();
        ledger.issue(record(0, 1000));
        ledger.issue(record(1, 1000));
        assert_eq!(ledger.owed(), Load { records: 2, bytes: 2 * weight });
        publish_all(&mut ledger);
        assert_eq!((ledger.out(), ledger.has_waiting()), (2, false));
        ledger.settle(Ticket(8));
        assert_eq!((ledger.owed(), ledger.span()), (Load { records: 1, bytes: weight }, 2), "8 waits for 7");
        ledger.settle(Ticket(7));
        assert_eq!((ledger.owed(), ledger.span(), ledger.out()), (Load::default(), 0, 0));
    }

    #[test]
    fn a_report_counts_once_and_only_for_a_record_that_is_out() {
        let mut ledger = ledger();
        ledger.issue(record(0, 0));
        for stale in [Ticket(0), Ticket(6), Ticket(7), Ticket(8), Ticket(u64::MAX)] {
            assert_eq!((ledger.settle(stale), ledger.take_back(stale)), (Report::Stale, Report::Stale), "{stale:?}");
        }
        publish_all(&mut ledger);
        assert_eq!(ledger.take_back(Ticket(7)), Report::Answered);
        assert_eq!(ledger.settle(Ticket(7)), Report::Stale, "it waits");
        publish_all(&mut ledger);
        assert_eq!(ledger.settle(Ticket(7)), Report::Answered);
        assert_eq!((ledger.settle(Ticket(7)), ledger.take_back(Ticket(7))), (Report::Stale, Report::Stale));
    }

    #[test]
    fn what_comes_back_leaves_again_first_and_in_order() {
        let mut ledger = ledger();
        for ordinal in 0..5 {
            ledger.issue(record(ordinal, 0));
        }
        assert_eq!(publish_all(&mut ledger), [7, 8, 9, 10, 11]);
        ledger.settle(Ticket(9));
        for ticket in [10, 8, 11] {
            ledger.take_back(Ticket(ticket));
        }
        ledger.issue(record(5, 0));
        assert_eq!(publish_all(&mut ledger), [8, 10, 11, 12]);
        assert_eq!(ledger.record(Ticket(10)).map(|record| record.identity.ordinal), Some(3));
        assert!(ledger.record(Ticket(9)).is_none());
    }

    #[test]
    fn a_record_that_is_out_stays_out_when_one_before_it_leaves_again() {
        let mut ledger = ledger();
        ledger.issue(record(0, 0));
        ledger.issue(record(1, 0));
        publish_all(&mut ledger);
        ledger.take_back(Ticket(7));
        assert_eq!(publish_all(&mut ledger), [7]);
        assert!(ledger.is_out(Ticket(8)));
        assert_eq!(ledger.take_back(Ticket(8)), Report::Answered);
        assert_eq!(publish_all(&mut ledger), [8]);
    }

    #[test]
    fn an_empty_transaction_behind_what_is_owed_waits_for_it() {
        let mut ledger = ledger();
        ledger.close_transaction(Lsn::new(110), Timestamp::default());
        assert_eq!(ledger.watermark().position, Lsn::new(110));
        ledger.issue(record(0, 0));
        ledger.close_transaction(Lsn::new(120), Timestamp::default());
        ledger.close_transaction(Lsn::new(130), Timestamp::default());
        assert_eq!(ledger.watermark().position, Lsn::new(110));
        publish_all(&mut ledger);
        ledger.settle(Ticket(7));
        assert_eq!(ledger.watermark().position, Lsn::new(130));
    }

    #[test]
    fn idle_progress_counts_no_events() {
        let mut ledger = ledger();
        ledger.rest_at(Lsn::new(500));
        ledger.rest_at(Lsn::new(400));
        assert_eq!(ledger.watermark(), Watermark { position: Lsn::new(500), commit_time: None, events: 0 });
    }

    /// One thing that can happen to a ledger.
    #[derive(Debug, Clone)]
    enum Step {
        Issue,
        Close,
        Rest,
        Publish,
        Settle(u64),
        TakeBack(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            Just(Step::Issue),
            Just(Step::Close),
            Just(Step::Rest),
            Just(Step::Publish),
            (0_u64..20).prop_map(Step::Settle),
            (0_u64..20).prop_map(Step::TakeBack),
        ]
    }

    proptest! {
        /// The ledger against the slowest and plainest one there is: a list of every record ever, and of every boundary.
        #[test]
        fn the_watermark_is_the_last_rest_before_the_first_record_that_is_owed(
            steps in proptest::collection::vec(step(), 0..200),
        ) {
            let mut ledger = ledger();
            let (mut is_settled, mut is_out) = (Vec::new(), Vec::new());
            // Each boundary with the number of records before it.
            let mut boundaries = vec![(0, Lsn::new(100))];
            let mut end = 100;
            for step in steps {
                end += 10;
                match step {
                    Step::Issue => {
                        ledger.issue(record(is_settled.len() as u64, 0));
                        is_settled.push(false);
                        is_out.push(false);
                    }
                    Step::Close => {
                        ledger.close_transaction(Lsn::new(end), Timestamp::default());
                        boundaries.push((is_settled.len(), Lsn::new(end)));
                    }
                    Step::Rest => {
                        ledger.rest_at(Lsn::new(end));
                        if is_settled.iter().all(|settled| *settled) {
                            boundaries.push((is_settled.len(), Lsn::new(end)));
                        }
                    }
                    Step::Publish => {
                        let next = (0..is_out.len()).find(|place| !is_out[*place] && !is_settled[*place]);
                        prop_assert_eq!(ledger.publish_next(), next.map(|place| Ticket(place as u64 + 7)));
                        next.into_iter().for_each(|place| is_out[place] = true);
                    }
                    Step::Settle(number) | Step::TakeBack(number) => {
                        let place = usize::try_from(number).unwrap();
                        let was_out = is_out.get(place).copied().unwrap_or(false);
                        let settles = matches!(step, Step::Settle(_));
                        let ticket = Ticket(number + 7);
                        let report = if settles { ledger.settle(ticket) } else { ledger.take_back(ticket) };
                        prop_assert_eq!(report == Report::Answered, was_out);
                        if was_out {
                            is_out[place] = false;
                            is_settled[place] = settles;
                        }
                    }
                }
                let prefix = is_settled.iter().take_while(|settled| **settled).count();
                let rest = boundaries.iter().filter(|(before, _)| *before <= prefix).map(|(_, end)| *end).max();
                prop_assert_eq!(Some(ledger.watermark().position), rest);
                prop_assert_eq!(ledger.owed().records, is_settled.iter().filter(|settled| !**settled).count());
                prop_assert_eq!(ledger.out(), is_out.iter().filter(|out| **out).count());
                let first = ledger.first_owed().map(|identity| identity.ordinal);
                prop_assert_eq!(first, (prefix < is_settled.len()).then_some(prefix as u64));
            }
        }
    }
}
