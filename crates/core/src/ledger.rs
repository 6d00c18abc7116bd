//! What is owed: every row that was taken from the log and is not settled, and which transactions are wholly settled.
//!
//! The ledger is the only one who moves the watermark. Rows settle in any order, delivered or set aside; the watermark moves over the
//! settled prefix alone, and rests only after whole transactions, so that confirming it can never lose one. The ledger keeps the
//! records too: after a failure they are sent again from here, in the order of the log.
//!
//! A letter that goes again has its place among them, behind all that was taken from the log before it. It is no part of the log: it is not
//! owed, and a session that ends may forget it.

use std::collections::VecDeque;

use crate::lsn::Lsn;
use crate::poison::{LetterId, LoggedRow, RowFault};
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
    /// How many rows have been settled before it. It rises only when an outbox moved, not while others write.
    pub events: u64,
}

/// What has a place in the books.
#[derive(Debug)]
pub struct Item {
    /// Which row it is.
    pub identity: Identity,
    /// Its record, or why it has none.
    pub made: Result<Record, RowFault>,
    /// Where it comes from.
    pub origin: Origin,
}

/// Where an item comes from.
#[derive(Debug)]
pub enum Origin {
    /// The log.
    Log(LoggedRow),
    /// A dead letter that goes again.
    Letter(LetterId),
}

impl Item {
    /// What it weighs against the budget in bytes, with the frame that it keeps alive.
    #[must_use]
    pub fn weight(&self) -> usize {
        let frame = match &self.origin {
            Origin::Log(row) => row.insert.as_ref(),
            Origin::Letter(_) => &[],
        };
        let beside = self.made.as_ref().map_or(0, |record| record.weight_beside(frame));
        Record::OVERHEAD + frame.len() + beside
    }

    /// The letter that it is, if it is one.
    #[must_use]
    pub fn letter(&self) -> Option<LetterId> {
        match self.origin {
            Origin::Letter(letter) => Some(letter),
            Origin::Log(_) => None,
        }
    }

    fn is_of_the_log(&self) -> bool {
        matches!(self.origin, Origin::Log(_))
    }
}

/// How much is owed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Load {
    /// Rows.
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
    /// The items from the first that is not settled on, in the order of the log. Settled ones wait here for those before them, but for
    /// letters that nothing is behind: however many come and go behind a row that is held, they keep nothing but their numbers.
    entries: VecDeque<Entry>,
    /// The number of the first entry.
    head: u64,
    /// The number of the next one.
    next: u64,
    /// The number of the first row of the log that is not settled. A letter before it keeps its place and nothing else.
    first_owed: u64,
    /// The number of the next entry to look at for publishing.
    cursor: u64,
    /// How many items of the log there have been.
    events: u64,
    /// The ends of transactions that are not wholly settled.
    boundaries: VecDeque<Boundary>,
    watermark: Watermark,
    owed: Load,
    out: usize,
    waiting: usize,
    letters: Letters,
}

/// How many letters are in the books.
#[derive(Debug, Clone, Copy, Default)]
struct Letters {
    unsettled: usize,
    waiting: usize,
}

/// A record is large, so what becomes of it is told beside it, and it is not moved from its issue to its end.
#[derive(Debug)]
struct Entry {
    number: u64,
    identity: Identity,
    weight: usize,
    /// How many items of the log come before it.
    events: u64,
    place: Place,
    /// `None` once it is settled.
    item: Option<Item>,
}

/// Where an item is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// It is to be published, or set aside.
    Waiting,
    /// The sink has it.
    Out,
    /// It is being set aside, and will not be published.
    Aside,
    /// It was a letter, and has ended.
    Gone,
}

/// The end of a transaction.
#[derive(Debug, Clone, Copy)]
struct Boundary {
    /// The number of the first ticket after it.
    behind: u64,
    /// How many items of the log come before it.
    events: u64,
    commit_end: Lsn,
    commit_time: Timestamp,
}

impl Ledger {
    /// An empty ledger at a settled position. Its first record gets the ticket `first`.
    #[must_use]
    pub fn new(first: Ticket, position: Lsn, commit_time: Option<Timestamp>) -> Self {
        Self {
            entries: VecDeque::new(),
            head: first.0,
            next: first.0,
            first_owed: first.0,
            cursor: first.0,
            events: 0,
            boundaries: VecDeque::new(),
            watermark: Watermark { position, commit_time, events: 0 },
            owed: Load::default(),
            out: 0,
            waiting: 0,
            letters: Letters::default(),
        }
    }

    /// Takes an item into the books. What is of the log is owed from now on.
    pub fn issue(&mut self, item: Item) -> Ticket {
        let ticket = self.next_ticket();
        let weight = item.weight();
        if item.is_of_the_log() {
            self.events += 1;
            self.owed.records += 1;
            self.owed.bytes += weight;
        } else {
            self.letters.unsettled += 1;
            self.letters.waiting += 1;
        }
        self.waiting += 1;
        let is_letter = !item.is_of_the_log();
        let events = self.events - u64::from(!is_letter);
        let (number, identity, place) = (self.next, item.identity, Place::Waiting);
        self.entries.push_back(Entry { number, identity, weight, events, place, item: Some(item) });
        self.next += 1;
        if is_letter {
            self.advance();
        }
        ticket
    }

    /// A transaction is complete: once everything issued so far is settled, the watermark may rest at its end.
    pub fn close_transaction(&mut self, commit_end: Lsn, commit_time: Timestamp) {
        let behind = self.next_ticket().0;
        let boundary = Boundary { behind, events: self.events, commit_end, commit_time };
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

    /// The next item that waits. It stays the next until it is handed over or put aside.
    pub fn next_waiting(&mut self) -> Option<Ticket> {
        while self.cursor < self.next {
            if self.entry(Ticket(self.cursor)).is_some_and(Entry::is_waiting) {
                return Some(Ticket(self.cursor));
            }
            self.cursor += 1;
        }
        None
    }

    /// The next letter that waits, past whatever of the log does.
    #[must_use]
    pub fn next_letter(&self) -> Option<Ticket> {
        if self.letters.waiting == 0 {
            return None;
        }
        let is_it = |ticket: &Ticket| {
            let item = self.entry(*ticket).filter(|entry| entry.is_waiting()).and_then(|entry| entry.item.as_ref());
            item.is_some_and(|item| !item.is_of_the_log())
        };
        (self.cursor..self.next_ticket().0).map(Ticket).find(is_it)
    }

    /// The ticket of this letter, where it waits.
    #[must_use]
    pub fn waiting_letter(&self, letter: LetterId) -> Option<Ticket> {
        let is_it = |entry: &&Entry| {
            let origin = entry.item.as_ref().map(|item| &item.origin);
            entry.is_waiting() && matches!(origin, Some(Origin::Letter(id)) if *id == letter)
        };
        self.entries.iter().find(is_it).map(|entry| Ticket(entry.number))
    }

    /// An item that waits goes to the sink, and is out from now on.
    pub fn hand_over(&mut self, ticket: Ticket) {
        if self.leave(ticket, Place::Out) {
            self.out += 1;
        }
    }

    /// An item that waits is to be set aside, and is not published any more.
    pub fn put_aside(&mut self, ticket: Ticket) {
        self.leave(ticket, Place::Aside);
    }

    /// The first row before `end` that is neither settled nor put aside, where everything before `from` is known to be.
    #[must_use]
    pub fn first_undecided(&self, from: Option<Ticket>, end: Ticket) -> Option<Ticket> {
        let is_it =
            |ticket: &Ticket| self.entry(*ticket).is_some_and(|entry| entry.is_owed() && entry.place != Place::Aside);
        let from = from.map_or(self.first_owed, |from| from.0.max(self.first_owed));
        (from..end.0).map(Ticket).find(is_it)
    }

    /// Whether any record waits to be handed to the sink.
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        self.waiting > 0
    }

    /// Whether a letter is among them.
    #[must_use]
    pub fn has_waiting_letters(&self) -> bool {
        self.letters.waiting > 0
    }

    /// What has this ticket, until it is settled.
    #[must_use]
    pub fn item(&self, ticket: Ticket) -> Option<&Item> {
        self.entry(ticket)?.item.as_ref()
    }

    /// The record of a ticket, until it is settled.
    #[must_use]
    pub fn record(&self, ticket: Ticket) -> Option<&Record> {
        self.item(ticket)?.made.as_ref().ok()
    }

    /// Whether a record is with the sink.
    #[must_use]
    pub fn is_out(&self, ticket: Ticket) -> bool {
        self.entry(ticket).is_some_and(|entry| entry.place == Place::Out)
    }

    /// Whether an item waits or is with the sink.
    #[must_use]
    pub fn is_pending(&self, ticket: Ticket) -> bool {
        self.entry(ticket).is_some_and(|entry| entry.is_waiting() || entry.place == Place::Out)
    }

    /// A record that was out is delivered.
    pub fn settle(&mut self, ticket: Ticket) -> Report {
        if !self.is_out(ticket) {
            return Report::Stale;
        }
        self.out -= 1;
        self.close(ticket);
        Report::Answered
    }

    /// An item that was put aside lies durably with the dead letters.
    pub fn set_aside(&mut self, ticket: Ticket) -> Report {
        if self.entry(ticket).is_none_or(|entry| entry.place != Place::Aside) {
            return Report::Stale;
        }
        self.close(ticket);
        Report::Answered
    }

    /// A letter that waits does not go again.
    pub fn give_up_letter(&mut self, ticket: Ticket) {
        let is_letter = self.item(ticket).is_some_and(|item| !item.is_of_the_log());
        if is_letter && self.leave(ticket, Place::Aside) {
            self.close(ticket);
        }
    }

    /// A record that was out came back undelivered. It waits again.
    pub fn take_back(&mut self, ticket: Ticket) -> Report {
        let Some(entry @ Entry { place: Place::Out, .. }) = self.entry_mut(ticket) else { return Report::Stale };
        entry.place = Place::Waiting;
        let is_letter = entry.is_letter();
        self.out -= 1;
        self.waiting += 1;
        self.letters.waiting += usize::from(is_letter);
        self.cursor = self.cursor.min(ticket.0);
        Report::Answered
    }

    /// How far everything is settled.
    #[must_use]
    pub fn watermark(&self) -> Watermark {
        self.watermark
    }

    /// What was taken from the log and is not settled.
    #[must_use]
    pub fn owed(&self) -> Load {
        self.owed
    }

    /// How many records are with the sink.
    #[must_use]
    pub fn out(&self) -> usize {
        self.out
    }

    /// How many letters go again.
    #[must_use]
    pub fn letters(&self) -> usize {
        self.letters.unsettled
    }

    /// How many items there are from the first that is not settled to the last in the books, settled ones among them: what these weigh.
    #[must_use]
    pub fn span(&self) -> usize {
        self.entries.len()
    }

    /// Whether everything that was handed to the sink is settled, in whole transactions. Letters are of none.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        let settled = self.events - self.owed.records as u64;
        self.out == 0 && settled == self.watermark.events
    }

    /// Whether the item that waits first, if one does, begins another transaction than the row taken up before it.
    #[must_use]
    pub fn is_between_transactions(&self) -> bool {
        let events = self.entry(Ticket(self.cursor)).map_or(self.events, |entry| entry.events);
        self.watermark.events == events
            || self.boundaries.binary_search_by_key(&events, |boundary| boundary.events).is_ok()
    }

    /// The first row in the order of the log that is not settled.
    #[must_use]
    pub fn first_owed(&self) -> Option<Identity> {
        self.item(Ticket(self.first_owed)).map(|item| item.identity)
    }

    /// The rows behind that one that are settled, in the order of the log.
    pub fn settled_ahead(&self) -> impl Iterator<Item = Identity> {
        let is_settled_row = |entry: &&Entry| entry.item.is_none() && entry.place != Place::Gone;
        self.entries.iter().filter(is_settled_row).map(|entry| entry.identity)
    }

    /// When the oldest transaction committed that is complete and not wholly settled.
    #[must_use]
    pub fn oldest_commit_time(&self) -> Option<Timestamp> {
        self.boundaries.front().map(|boundary| boundary.commit_time)
    }

    /// The ticket that the next item will get.
    #[must_use]
    pub fn next_ticket(&self) -> Ticket {
        Ticket(self.next)
    }

    #[cfg(test)]
    pub(crate) fn is_letter(&self, ticket: Ticket) -> bool {
        self.entry(ticket).is_some_and(Entry::is_letter)
    }

    #[cfg(test)]
    pub(crate) fn is_aside(&self, ticket: Ticket) -> bool {
        self.entry(ticket).is_some_and(|entry| entry.place == Place::Aside)
    }

    #[cfg(test)]
    pub(crate) fn waiting(&self) -> impl Iterator<Item = Ticket> {
        self.entries.iter().filter(|entry| entry.is_waiting()).map(|entry| Ticket(entry.number))
    }

    /// The first row of the log that waits.
    #[cfg(test)]
    pub(crate) fn first_waiting(&self) -> Option<Identity> {
        let waiting = self.entries.iter().filter(|entry| entry.is_waiting());
        let mut rows = waiting.filter_map(|entry| entry.item.as_ref()).filter(|item| item.is_of_the_log());
        rows.next().map(|item| item.identity)
    }

    #[cfg(test)]
    pub(crate) fn aside(&self) -> impl Iterator<Item = Identity> {
        let aside = self.entries.iter().filter(|entry| entry.place == Place::Aside);
        aside.filter_map(|entry| entry.item.as_ref()).map(|item| item.identity)
    }

    /// An item waits no longer. Whether it did.
    fn leave(&mut self, ticket: Ticket, place: Place) -> bool {
        let Some(entry) = self.entry_mut(ticket).filter(|entry| entry.is_waiting()) else { return false };
        entry.place = place;
        let is_letter = entry.is_letter();
        self.waiting -= 1;
        self.letters.waiting -= usize::from(is_letter);
        self.cursor += u64::from(self.cursor == ticket.0);
        true
    }

    fn close(&mut self, ticket: Ticket) {
        let Some(entry) = self.entry_mut(ticket) else { return };
        let Some(item) = entry.item.take() else { return };
        entry.place = if item.is_of_the_log() { Place::Waiting } else { Place::Gone };
        let weight = entry.weight;
        if item.is_of_the_log() {
            self.owed.records -= 1;
            self.owed.bytes -= weight;
        } else {
            self.letters.unsettled -= 1;
        }
        while let Some(Entry { place: Place::Gone, .. }) = self.entries.back() {
            self.entries.pop_back();
        }
        self.advance();
    }

    /// Lets go of the settled prefix and moves the watermark over the transactions that end within it.
    fn advance(&mut self) {
        while let Some(Entry { item: None, .. }) = self.entries.front() {
            self.entries.pop_front();
        }
        self.head = self.entries.front().map_or(self.next, |entry| entry.number);
        self.cursor = self.cursor.max(self.head);
        self.first_owed = self.first_owed.max(self.head);
        while self.first_owed < self.next && !self.entry(Ticket(self.first_owed)).is_some_and(Entry::is_owed) {
            self.first_owed += 1;
        }
        while let Some(boundary) = self.boundaries.front().copied().filter(|next| next.behind <= self.first_owed) {
            self.boundaries.pop_front();
            self.rest_behind(boundary);
        }
    }

    fn rest_behind(&mut self, boundary: Boundary) {
        self.watermark = Watermark {
            position: self.watermark.position.max(boundary.commit_end),
            commit_time: Some(boundary.commit_time),
            events: boundary.events,
        };
    }

    fn entry(&self, ticket: Ticket) -> Option<&Entry> {
        self.entries.get(self.place(ticket)?)
    }

    fn entry_mut(&mut self, ticket: Ticket) -> Option<&mut Entry> {
        let place = self.place(ticket)?;
        self.entries.get_mut(place)
    }

    /// Numbers without an entry are rare, so it mostly is where it would be without any.
    fn place(&self, Ticket(number): Ticket) -> Option<usize> {
        if number >= self.next {
            return None;
        }
        let place = usize::try_from(number.checked_sub(self.head)?).ok()?;
        match self.entries.get(place) {
            Some(entry) if entry.number == number => Some(place),
            _ => self.entries.binary_search_by_key(&number, |entry| entry.number).ok(),
        }
    }
}

impl Entry {
    fn is_waiting(&self) -> bool {
        self.place == Place::Waiting && self.item.is_some()
    }

    fn is_owed(&self) -> bool {
        self.item.as_ref().is_some_and(Item::is_of_the_log)
    }

    fn is_letter(&self) -> bool {
        self.item.as_ref().is_some_and(|item| !item.is_of_the_log())
    }
}

#[cfg(test)]
mod tests;
