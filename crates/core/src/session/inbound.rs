//! The way in: what each message of the stream means to the session.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use crate::catalog::{Catalog, Lookup};
use crate::description::Description;
use crate::event::Event;
use crate::frame::{Keepalive, XLogData};
use crate::ledger::{Item, Ledger, Origin};
use crate::lsn::Lsn;
use crate::outbox::{Outboxes, TableName};
use crate::pgoutput::{Begin, Commit, Insert, Message, ParseError};
use crate::poison::{DeadLetter, LoggedRow, OnBadRow, RowFault};
use crate::position::{Identity, SettledRows, Timeline};
use crate::record::Record;
use crate::router::{InvalidOperation, Routed};
use crate::time::Timestamp;
use crate::traffic::Traffic;

use super::Start;

/// So many rows are remembered that were settled while one before them was not: 5 MB of them. Each connection that is lost meanwhile may add as many as are
/// taken from the log at once; what is beyond them is published again.
const MOST_AHEAD: usize = 200_000;

/// Why a frame could not be applied.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// A frame was given while none was wanted.
    #[error("a frame was given to a session that had not asked for one")]
    NotReady,
    /// The bytes are no pgoutput message.
    #[error("the server sent a message that cannot be read")]
    Unreadable(#[from] ParseError),
    /// The order of the messages is not that of the protocol.
    #[error("the server broke the replication protocol: {0}")]
    Protocol(#[from] ProtocolFault),
    /// A row of an outbox cannot become a record, and the configuration says to stop in front of it.
    #[error("a row of {table} cannot be published ({id}commit {commit}, insert {place} of its transaction): {fault}",
        id = .event_id.as_ref().map(|id| format!("id {id}, ")).unwrap_or_default(),
        commit = .identity.commit_lsn, place = .identity.ordinal + 1)]
    Row {
        /// The outbox.
        table: TableName,
        /// Which row.
        identity: Identity,
        /// The text of the column that the header `id` is made of, where there is one.
        event_id: Option<String>,
        /// What is wrong with it.
        fault: RowFault,
    },
    /// A row of an outbox was updated, and the configuration forbids it.
    #[error(
        "a row of {0} was updated, and table.op.invalid.behavior is fatal: outbox rows must not be updated; let the publication publish inserts only, or set the option to warn"
    )]
    Updated(TableName),
}

/// How a server broke the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolFault {
    /// BEGIN within a transaction.
    #[error("BEGIN of {next} within the transaction {open}")]
    NestedBegin {
        /// The open transaction.
        open: Lsn,
        /// The one that begins.
        next: Lsn,
    },
    /// COMMIT without BEGIN.
    #[error("COMMIT of {0} without a BEGIN")]
    CommitOutside(Lsn),
    /// COMMIT of another transaction.
    #[error("COMMIT of {committed} in the transaction {open}")]
    CommitOfAnother {
        /// The open transaction.
        open: Lsn,
        /// The one that the server says is complete.
        committed: Lsn,
    },
    /// A commit that ends before it begins, or before what was already complete.
    #[error("the transaction {commit_lsn} ends at {commit_end}, but {behind} is complete already")]
    Backwards {
        /// The commit.
        commit_lsn: Lsn,
        /// Its end.
        commit_end: Lsn,
        /// What was complete.
        behind: Lsn,
    },
    /// A row outside of any transaction.
    #[error("a row outside of any transaction")]
    RowOutside,
    /// A row of a relation whose shape was never told.
    #[error("a row of relation {0}, whose shape was never told")]
    UnknownRelation(u32),
}

/// What is worth a line in the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Notice {
    /// Rows of an outbox were updated; said once a transaction, at the level that the configuration names.
    Updated(TableName, InvalidOperation),
    /// Rows of an outbox were deleted or truncated while the publication says so; said once a connection.
    Removed(TableName),
    /// Rows come of the table that was this outbox, under another name: nobody configured that one.
    Renamed(TableName),
    /// The records that are to become visible together have waited for so long, and the broker gives them up after so long.
    GroupOld(Duration, Duration),
    /// The server sent messages of a kind that protocol 1 does not know; said once a connection.
    UnknownMessage(u8),
}

/// What was counted since the session began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Transactions that were received whole.
    pub transactions: u64,
    /// Rows that were taken in to be published: those that became records, and the bad ones that are set aside instead.
    pub events: u64,
    /// Of them, rows that cannot become a record.
    pub bad_rows: u64,
    /// Letters that were set aside for a reason of their own.
    pub set_aside: u64,
    /// Letters that were set aside because another one of their key lies there.
    pub parked: u64,
    /// Letters that were sent again.
    pub replayed: u64,
    /// Letters that were sent again and failed again.
    pub returned: u64,
    /// Letters that an operator gave up.
    pub given_up: u64,
    /// Rows that the router dropped by rule.
    pub dropped: u64,
    /// Inserts into tables that are no outbox.
    pub other_inserts: u64,
    /// Updates of outbox rows.
    pub updates: u64,
    /// Deletes of outbox rows.
    pub deletes: u64,
    /// Truncations of outboxes.
    pub truncates: u64,
    /// Updates, deletes and truncations of other tables.
    pub other_changes: u64,
    /// Messages of `pg_logical_emit_message`.
    pub logical_messages: u64,
    /// Messages of an unknown kind.
    pub unknown_messages: u64,
    /// Transactions from before the start position.
    pub skipped_transactions: u64,
    /// Rows that the last session of this process, or another relay before us, had settled already.
    pub skipped_rows: u64,
    /// Reports of the sink about records that were not out.
    pub stale_reports: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Inbound {
    catalog: Catalog,
    timeline: Timeline,
    start: Lsn,
    on_bad_row: OnBadRow,
    /// See [`Start::first_owed`]; forgotten once its transaction is complete.
    first_owed: Option<Identity>,
    /// See [`Start::settled_ahead`].
    settled_ahead: Arc<[Identity]>,
    /// See [`Start::settled_rows`].
    settled_rows: Option<SettledRows>,
    open: Option<Transaction>,
    /// The end of the last complete transaction, or where the session started.
    complete: Lsn,
    received: Lsn,
    counters: Counters,
    traffic: Traffic,
    notices: VecDeque<Notice>,
    has_said_removed: bool,
}

/// A transaction whose COMMIT has not come.
#[derive(Debug)]
struct Transaction {
    commit_lsn: Lsn,
    commit_time: Timestamp,
    /// The ordinal of the next insert.
    ordinal: u64,
    /// It lies before the start position: settled, and sent again only because the slot is older.
    is_skipped: bool,
    has_said_updated: bool,
}

impl Inbound {
    pub(super) fn new(outboxes: Outboxes, on_bad_row: OnBadRow, start: &Start) -> Self {
        Self {
            catalog: Catalog::new(outboxes),
            timeline: start.timeline,
            start: start.position,
            on_bad_row,
            // On another timeline the same place in the log can hold another transaction.
            first_owed: start.first_owed.filter(|first| first.timeline == start.timeline),
            settled_ahead: Arc::clone(&start.settled_ahead),
            settled_rows: start.settled_rows,
            open: None,
            complete: start.position,
            received: start.position,
            counters: Counters::default(),
            traffic: Traffic::default(),
            notices: VecDeque::new(),
            has_said_removed: false,
        }
    }

    /// Takes in one message. A row that is to be published comes back, with its record or with what is wrong with it.
    pub(super) fn apply(&mut self, frame: &XLogData, ledger: &mut Ledger) -> Result<Option<Item>, SessionError> {
        // By reference: a message is several hundred bytes, and moving it costs more than reading it.
        match &Message::parse(&frame.data) {
            Ok(Message::Insert(insert)) => return self.on_insert(insert, frame),
            Ok(Message::Begin(begin)) => self.on_begin(*begin)?,
            Ok(Message::Commit(commit)) => self.on_commit(*commit, ledger)?,
            Ok(Message::Relation(relation)) => self.notices.extend(self.catalog.learn(relation).map(Notice::Renamed)),
            Ok(Message::Update(update)) => self.on_update(update.relation)?,
            Ok(Message::Delete(delete)) => self.on_removal(delete.relation, |counters| &mut counters.deletes)?,
            Ok(Message::Truncate(truncate)) => {
                for relation in &truncate.relations {
                    self.on_removal(*relation, |counters| &mut counters.truncates)?;
                }
            }
            Ok(Message::Logical(_)) => self.counters.logical_messages += 1,
            Ok(Message::Type(told)) => self.catalog.learn_type(told),
            Ok(Message::Origin(_)) => {}
            Ok(Message::Unknown(tag)) => self.on_unknown(*tag),
            Err(error) => return Err(SessionError::Unreadable(*error)),
        }
        Ok(None)
    }

    /// While a transaction is open the server's WAL end says nothing about what was sent of it.
    pub(super) fn on_keepalive(&mut self, keepalive: &Keepalive, ledger: &mut Ledger) {
        if self.open.is_none() {
            self.received = self.received.max(keepalive.wal_end);
            ledger.rest_at(keepalive.wal_end);
        }
    }

    /// Whether a part of a transaction was taken in: of the open one, or of one that the last connection broke off and that
    /// has not come again yet.
    pub(super) fn is_in_transaction(&self) -> bool {
        let is_ahead = |last: &Identity| last.commit_lsn >= self.complete && last.timeline == self.timeline;
        self.open.is_some()
            || self.first_owed.is_some_and(|first| first.ordinal > 0)
            || self.settled_ahead.last().is_some_and(is_ahead)
    }

    /// How many rows are remembered that were settled ahead of the position of an earlier session.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.settled_ahead.len()
    }

    /// Whether the next frame has to wait for the description of an outbox.
    pub(super) fn is_awaiting_description(&self) -> bool {
        self.catalog.is_awaiting()
    }

    /// Whether a description has to be asked for. Says so once for each.
    pub(super) fn take_question(&mut self) -> bool {
        self.catalog.take_question()
    }

    /// The outbox whose description is awaited.
    pub(super) fn undescribed(&self) -> Option<(u32, &TableName)> {
        self.catalog.awaited()
    }

    pub(super) fn described(&mut self, relation: u32, description: &Description) {
        self.catalog.described(relation, description);
    }

    /// See [`Catalog::route_anew`].
    pub(super) fn route_anew(&self, letter: &DeadLetter, description: &Description) -> Result<Record, RowFault> {
        self.catalog.route_anew(letter, description)
    }

    pub(super) fn received(&self) -> Lsn {
        self.received
    }

    pub(super) fn counters(&self) -> Counters {
        self.counters
    }

    pub(super) fn traffic(&self) -> &Traffic {
        &self.traffic
    }

    /// When the open transaction committed, unless it was settled before.
    pub(super) fn open_commit_time(&self) -> Option<Timestamp> {
        self.open.as_ref().filter(|open| !open.is_skipped).map(|open| open.commit_time)
    }

    /// The commit of the open transaction.
    pub(super) fn open_commit(&self) -> Option<Lsn> {
        self.open.as_ref().map(|open| open.commit_lsn)
    }

    pub(super) fn take_notice(&mut self) -> Option<Notice> {
        self.notices.pop_front()
    }

    /// The identity of the row that would come next in the open transaction. Where that one has not begun again yet, what
    /// the last connection knew of it.
    pub(super) fn next_identity(&self) -> Option<Identity> {
        let Some(open) = self.open.as_ref().filter(|open| !open.is_skipped) else { return self.first_owed };
        let next = Identity { timeline: self.timeline, commit_lsn: open.commit_lsn, ordinal: open.ordinal };
        // Of a transaction that was settled in part before, what has not come again yet is still settled.
        let settled = self.first_owed.filter(|first| is_settled_before(next, *first));
        Some(settled.unwrap_or(next))
    }

    /// The rows behind the watermark that are settled, by this session or by those before it.
    pub(super) fn settled_ahead(&self, ledger: &Ledger) -> Arc<[Identity]> {
        let watermark = ledger.watermark().position;
        let is_ahead = |row: &Identity| row.commit_lsn >= watermark && row.timeline == self.timeline;
        let known = self.settled_ahead.iter().copied();
        let mut ahead: Vec<Identity> = known.chain(ledger.settled_ahead()).filter(is_ahead).collect();
        ahead.sort_unstable();
        ahead.truncate(MOST_AHEAD);
        ahead.into()
    }

    /// What was settled ahead of a position is of no use once the watermark has passed it. Until then the next session has to know of it, for its rows
    /// are not in the books of this one.
    fn forget_passed(&mut self, watermark: Lsn) {
        if self.settled_ahead.last().is_some_and(|last| last.commit_lsn < watermark) {
            self.settled_ahead = Arc::default();
        }
    }

    fn on_begin(&mut self, begin: Begin) -> Result<(), ProtocolFault> {
        if let Some(open) = &self.open {
            return Err(ProtocolFault::NestedBegin { open: open.commit_lsn, next: begin.final_lsn });
        }
        // The server's own rule: a transaction is settled if and only if its commit record starts before the position
        // (`SnapBuildXactNeedsSkip` in snapbuild.c).
        let is_skipped = begin.final_lsn < self.start;
        self.open = Some(Transaction {
            commit_lsn: begin.final_lsn,
            commit_time: begin.commit_time,
            ordinal: 0,
            is_skipped,
            has_said_updated: false,
        });
        Ok(())
    }

    fn on_commit(&mut self, commit: Commit, ledger: &mut Ledger) -> Result<(), ProtocolFault> {
        let Some(open) = &self.open else {
            return Err(ProtocolFault::CommitOutside(commit.commit_lsn));
        };
        if open.commit_lsn != commit.commit_lsn {
            return Err(ProtocolFault::CommitOfAnother { open: open.commit_lsn, committed: commit.commit_lsn });
        }
        if open.is_skipped {
            self.open = None;
            self.counters.skipped_transactions += 1;
            return Ok(());
        }
        if commit.end_lsn <= commit.commit_lsn || commit.end_lsn < self.complete {
            return Err(ProtocolFault::Backwards {
                commit_lsn: commit.commit_lsn,
                commit_end: commit.end_lsn,
                behind: self.complete,
            });
        }
        self.open = None;
        self.first_owed = None;
        self.counters.transactions += 1;
        self.complete = commit.end_lsn;
        self.received = self.received.max(commit.end_lsn);
        ledger.close_transaction(commit.end_lsn, commit.commit_time);
        self.forget_passed(ledger.watermark().position);
        Ok(())
    }

    /// A row counts only once it is taken in, so that one that ends the session is the first that the next one owes.
    fn on_insert(&mut self, insert: &Insert<'_>, frame: &XLogData) -> Result<Option<Item>, SessionError> {
        let item = self.item_of(insert, frame)?;
        if let Some(open) = &mut self.open {
            open.ordinal += 1;
        }
        Ok(item)
    }

    fn item_of(&mut self, insert: &Insert<'_>, frame: &XLogData) -> Result<Option<Item>, SessionError> {
        let Some(open) = &self.open else {
            return Err(ProtocolFault::RowOutside.into());
        };
        let identity = Identity { timeline: self.timeline, commit_lsn: open.commit_lsn, ordinal: open.ordinal };
        let lookup = self.catalog.outbox_of(insert.relation).ok_or(ProtocolFault::UnknownRelation(insert.relation))?;
        let Lookup::Outbox { outbox, binding, head } = lookup else {
            self.counters.other_inserts += 1;
            return Ok(None);
        };
        if open.is_skipped {
            return Ok(None);
        }
        let is_settled = self.settled_rows.is_some_and(|rows| rows.contain(open.commit_lsn, frame.wal_start));
        if is_settled
            || self.first_owed.is_some_and(|first| is_settled_before(identity, first))
            || self.settled_ahead.binary_search(&identity).is_ok()
        {
            self.counters.skipped_rows += 1;
            return Ok(None);
        }
        let event = Event { identity, commit_time: open.commit_time, cells: &insert.new.cells, frame: &frame.data };
        let made = match outbox.router.route(binding, &event) {
            Ok(Routed::Record(record)) => {
                self.traffic.count(&outbox.table, &record);
                Ok(record)
            }
            Err(fault) => Err(fault),
        };
        let row = LoggedRow { head: Arc::clone(head), commit_time: open.commit_time, insert: frame.data.clone() };
        if let Err(fault) = &made {
            if self.on_bad_row == OnBadRow::Stop {
                let (table, event_id, fault) = (outbox.table.clone(), row.event_id(), fault.clone());
                return Err(SessionError::Row { table, identity, event_id, fault });
            }
            self.counters.bad_rows += 1;
        }
        self.counters.events += 1;
        Ok(Some(Item { identity, made, origin: Origin::Log(row) }))
    }

    fn on_update(&mut self, relation: u32) -> Result<(), SessionError> {
        let Some(open) = &mut self.open else {
            return Err(ProtocolFault::RowOutside.into());
        };
        let lookup = self.catalog.outbox_of(relation).ok_or(ProtocolFault::UnknownRelation(relation))?;
        let Lookup::Outbox { outbox, .. } = lookup else {
            self.counters.other_changes += 1;
            return Ok(());
        };
        if open.is_skipped {
            return Ok(());
        }
        self.counters.updates += 1;
        match outbox.router.on_update() {
            InvalidOperation::Fatal => Err(SessionError::Updated(outbox.table.clone())),
            behavior @ (InvalidOperation::Warn | InvalidOperation::Error) => {
                if !std::mem::replace(&mut open.has_said_updated, true) {
                    self.notices.push_back(Notice::Updated(outbox.table.clone(), behavior));
                }
                Ok(())
            }
        }
    }

    /// Rows that are gone publish nothing, as with Debezium. (A TRUNCATE would end its task; here it is counted.)
    fn on_removal(&mut self, relation: u32, counter: fn(&mut Counters) -> &mut u64) -> Result<(), ProtocolFault> {
        if self.open.is_none() {
            return Err(ProtocolFault::RowOutside);
        }
        match self.catalog.outbox_of(relation).ok_or(ProtocolFault::UnknownRelation(relation))? {
            Lookup::Other => self.counters.other_changes += 1,
            Lookup::Outbox { outbox, .. } => {
                *counter(&mut self.counters) += 1;
                if !std::mem::replace(&mut self.has_said_removed, true) {
                    self.notices.push_back(Notice::Removed(outbox.table.clone()));
                }
            }
        }
        Ok(())
    }

    fn on_unknown(&mut self, tag: u8) {
        self.counters.unknown_messages += 1;
        if self.counters.unknown_messages == 1 {
            self.notices.push_back(Notice::UnknownMessage(tag));
        }
    }
}

/// Whether an event comes before the first one owed of the same timeline, within the transaction of that one.
fn is_settled_before(identity: Identity, first_owed: Identity) -> bool {
    identity.commit_lsn == first_owed.commit_lsn && identity.ordinal < first_owed.ordinal
}
