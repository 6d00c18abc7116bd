//! What a session is given when it begins, what it asks for, and what it leaves when it ends.

use std::sync::Arc;
use std::time::Duration;

use crate::failure::Failure;
use crate::feedback;
use crate::frame::StatusUpdate;
use crate::lsn::Lsn;
use crate::outbox::TableName;
use crate::poison::{Conclusion, DeadLetter, Inventory, LetterId, Policy};
use crate::port::Ticket;
use crate::position::{Identity, Progress, SettledRows, Timeline};
use crate::record::Record;
use crate::time::Timestamp;

#[cfg(doc)]
use super::Session;
use super::{Grouping, Lessons, Notice, SessionError};

/// What an operator may choose about a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The most rows that may be owed at once.
    pub max_records: usize,
    /// The most bytes of rows that may be owed at once, by [`Item::weight`](crate::ledger::Item::weight).
    pub max_bytes: usize,
    /// Checkpoints and status updates.
    pub feedback: feedback::Settings,
    /// The first wait after a failed delivery.
    pub retry_initial: Duration,
    /// The longest wait between deliveries that fail.
    pub retry_ceiling: Duration,
    /// A source that says nothing for so long is taken for dead. At half of it the server is asked for a sign of life.
    pub silence_timeout: Duration,
    /// How long an ending session waits for what is owed and for its last checkpoint.
    pub drain_timeout: Duration,
    /// Stop by itself once everything before this position was received.
    pub stop_at: Option<Lsn>,
    /// The sink commits records and position as one: [`Action::Commit`] takes the place of [`Action::Checkpoint`].
    pub grouping: Option<Grouping>,
    /// What becomes of rows that cannot be delivered.
    pub poison: Policy,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_records: 10_000,
            max_bytes: 16 << 20,
            feedback: feedback::Settings::default(),
            retry_initial: Duration::from_millis(100),
            retry_ceiling: Duration::from_secs(30),
            silence_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(10),
            stop_at: None,
            grouping: None,
            poison: Policy::default(),
        }
    }
}

/// Where a session takes up the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Everything before it is settled.
    pub position: Lsn,
    /// What the checkpoint store holds: lower than the position after a connection that was lost before its last checkpoint.
    pub checkpointed: Lsn,
    /// The timeline that the server is on.
    pub timeline: Timeline,
    /// When the last settled transaction committed, if known.
    pub commit_time: Option<Timestamp>,
    /// The first event after the position that the last session of this process did not settle, where it knows one: those
    /// of its transaction that come before it are not published again.
    pub first_owed: Option<Identity>,
    /// The rows behind that one that sessions of this process settled, in the order of the log. They are not published again either.
    pub settled_ahead: Arc<[Identity]>,
    /// Rows after the position that another relay published before us.
    pub settled_rows: Option<SettledRows>,
    /// What earlier sessions of this process learned of records that fail, where each takes its group with it.
    pub lessons: Lessons,
    /// What lies with the dead letters.
    pub inventory: Inventory,
    /// The first ticket of this session: higher than any that was used in this process.
    pub first_ticket: Ticket,
    /// For the jitter of its waits.
    pub seed: u64,
}

impl Start {
    /// At a position that the checkpoint store holds, where nothing else is known.
    #[must_use]
    pub fn at(position: Lsn, timeline: Timeline, seed: u64) -> Self {
        Self {
            position,
            checkpointed: position,
            timeline,
            commit_time: None,
            first_owed: None,
            settled_ahead: Arc::default(),
            settled_rows: None,
            lessons: Lessons::default(),
            inventory: Inventory::default(),
            first_ticket: Ticket(0),
            seed,
        }
    }
}

/// What the driver has to do.
#[derive(Debug)]
pub enum Action<'a> {
    /// Log it.
    Notice(Notice),
    /// Hand the record to the sink; a refusal goes to [`Session::refused`].
    Publish(Ticket, &'a Record),
    /// Set the row aside, behind all that the store was asked for before; the answer goes to [`Session::set_aside`]. Where the store fails, here
    /// or at one of the next two, it is asked for nothing more of what came before the failure, and that goes to
    /// [`Session::letters_failed`]. Where records and position are committed as one, the store is the sink, and what it does not take goes to
    /// [`Session::letter_refused`].
    SetAside(Ticket, Box<DeadLetter>),
    /// Write down how a marked letter ended, in the same order; the answer goes to [`Session::concluded`].
    Conclude(LetterId, Conclusion),
    /// Take the inventory of the letters, in the same order; it goes to [`Session::inventoried`].
    TakeInventory,
    /// Ask the catalogue for what pgoutput does not tell of this relation, which is this outbox; the answer goes to
    /// [`Session::described`]. No frame is taken before, so whoever gets no answer asks again until there is one.
    Describe(u32, &'a TableName),
    /// Reset the sink; the outcome goes to [`Session::sink_reset`].
    ResetSink,
    /// Make it durable; the outcome goes to [`Session::checkpointed`] or [`Session::checkpoint_failed`].
    Checkpoint(Progress),
    /// Commit all that was published since the last commit together with this; the outcome goes to [`Session::committed`].
    Commit(Progress),
    /// Send it to the server. Nothing if the source is lost.
    Confirm(StatusUpdate),
    /// The session is over, and so is its connection.
    End(End),
}

/// How a session ended, and where the next one takes up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Why.
    pub cause: Cause,
    /// The watermark. The checkpoint store may not hold it yet where the next session of this process takes up.
    pub position: Lsn,
    /// When the last settled transaction committed, if known.
    pub commit_time: Option<Timestamp>,
    /// See [`Start::first_owed`].
    pub first_owed: Option<Identity>,
    /// See [`Start::settled_ahead`].
    pub settled_ahead: Arc<[Identity]>,
    /// See [`Start::lessons`].
    pub lessons: Box<Lessons>,
    /// See [`Start::first_ticket`].
    pub next_ticket: Ticket,
    /// How many rows were taken from the log and are not settled. The next session publishes them.
    pub unsettled: usize,
    /// How many settled records the checkpoint store is not known to hold. A process that starts anew publishes them again.
    pub unsaved: u64,
    /// How many records the sink still has.
    pub out: usize,
    /// The sink must be reset before the next session gets it: it still has records, or it failed one and was not made anew.
    pub needs_reset: bool,
}

impl End {
    /// Whether rows behind the position were settled: a process that starts anew knows whole transactions only, up to the first that is not
    /// wholly settled, and publishes those rows again.
    #[must_use]
    pub fn is_within_transaction(&self) -> bool {
        self.first_owed.is_some_and(|first| first.ordinal > 0) || !self.settled_ahead.is_empty()
    }
}

/// Why a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// It was told to stop.
    Stopped,
    /// Its source went away.
    SourceLost,
    /// Its source said nothing for the silence timeout.
    Silent,
    /// A frame could not be applied.
    Broken(SessionError),
    /// A record cannot be delivered, and waiting does not help.
    Undeliverable(Identity, Failure),
    /// What was to be committed as one was not, or nobody knows whether it was; with the row at fault, where it was one. The next session finds out
    /// from the checkpoint.
    Aborted(Option<Identity>, Failure),
}
