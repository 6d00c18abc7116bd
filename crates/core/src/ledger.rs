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
