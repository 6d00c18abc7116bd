//! What becomes of a row that cannot be delivered, and which keys wait behind one.
//!
//! A row is judged bad only when it was sent alone, for a failed batch blames innocents. It is set aside as a dead letter, and
//! unless told otherwise its key is parked: later events of the same key go durably after it, so that their order holds when the letters
//! are sent again. Here is what is said about that; the session decides, and a store keeps the letters
//! ([`DeadLetters`](crate::port::DeadLetters)).

mod lettered;
mod logged;
pub mod operator;
mod reference;

use bytes::Bytes;

pub use lettered::LetteredRows;
pub(crate) use logged::KeyTexts;
pub use logged::{Letterhead, LoggedRow};
pub use reference::{Keep, Reference};

use crate::outbox::TableName;
use crate::position::{Identity, Place};
use crate::record::Record;
use crate::time::Timestamp;

/// A row that cannot become a record, or that the broker will never take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct RowFault {
    /// What is wrong with the row, and where: it names the column or the value's kind, never its content.
    pub reason: String,
}

impl RowFault {
    /// A fault for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

/// What is done about a bad row.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum OnBadRow {
    /// It is set aside, and so is every later event of its key until the letters of that key are sent or dropped.
    #[default]
    Park,
    /// It is set aside, and later events of its key overtake it.
    DeadLetter,
    /// The relay stops in front of it.
    Stop,
}

/// What is done about a route that is closed: a topic that is missing or forbidden, or takes no record of this age.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum OnClosedRoute {
    /// Everything waits until it is open.
    #[default]
    Hold,
    /// Its rows are set aside as bad ones are.
    DeadLetter,
}

/// What an operator may choose about rows that cannot be delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Policy {
    /// See [`OnBadRow`].
    pub on_bad_row: OnBadRow,
    /// See [`OnClosedRoute`].
    pub on_closed_route: OnClosedRoute,
    /// How many letters may lie there for a reason of their own, neither sent nor dropped, before the stream is held instead. Letters that
    /// only wait for another one of their key do not count.
    pub flood_limit: u64,
    /// How many bytes of letters that only wait for another one may lie there before the stream is held instead.
    pub parked_bytes: u64,
    /// What a letter keeps of its row.
    pub keep: Keep,
}

impl Policy {
    /// Whether rows may be set aside at all, so that there has to be a store for them.
    #[must_use]
    pub fn needs_store(&self) -> bool {
        self.on_bad_row != OnBadRow::Stop || self.on_closed_route == OnClosedRoute::DeadLetter
    }

    /// Whether later events of a key wait behind a letter of it.
    #[must_use]
    pub fn is_parking(&self) -> bool {
        match self.on_bad_row {
            OnBadRow::Park | OnBadRow::Stop => true,
            OnBadRow::DeadLetter => false,
        }
    }
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            on_bad_row: OnBadRow::default(),
            on_closed_route: OnClosedRoute::default(),
            flood_limit: 100,
            parked_bytes: 256 << 20,
            keep: Keep::default(),
        }
    }
}

/// Whose order is kept when an event is set aside: the raw texts of the row, so that it is known also of a row that cannot be converted.
///
/// A row whose key is NULL has none; it is never parked.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ParkingKey {
    /// The outbox.
    pub table: TableName,
    /// The text of the column that chooses the topic, where it has one.
    pub route: Option<Bytes>,
    /// The text of the column that the key is made of.
    pub key: Bytes,
}

/// Why a row was set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// The row is bad, for this reason: a root cause.
    Row(String),
    /// Its route is closed, for this reason: a root cause.
    Route(String),
    /// A letter of its key lies there, and it waits for that one. It goes by itself as soon as nothing of its key stands in front of it.
    Parked,
}

impl Cause {
    /// Whether it counts toward [`Policy::flood_limit`].
    #[must_use]
    pub fn is_root(&self) -> bool {
        match self {
            Self::Row(_) | Self::Route(_) => true,
            Self::Parked => false,
        }
    }
}

/// A row that is set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeadLetter {
    /// Which row; the same row again is the same letter.
    pub identity: Identity,
    /// When its transaction committed.
    pub commit_time: Timestamp,
    /// The outbox.
    pub table: TableName,
    /// Whose order is kept.
    pub parking_key: Option<ParkingKey>,
    /// The text of the column that the header `id` is made of, where there is one; cut where it is long.
    pub event_id: Option<String>,
    /// Why.
    pub cause: Cause,
    /// The record, where routing got as far as to make one. It is for people, and sent only where the row cannot be routed anew.
    pub record: Option<Record>,
    /// The row as pgoutput told it, or a reference to it, so that it can be routed anew.
    pub row: Row,
}

impl DeadLetter {
    /// What it counts toward [`Policy::parked_bytes`] where it only waits for another one: the bytes of its row.
    #[must_use]
    pub fn parked_bytes(&self) -> u64 {
        match self.cause {
            Cause::Parked => self.row.insert.len() as u64,
            Cause::Row(_) | Cause::Route(_) => 0,
        }
    }

    /// About how many bytes it is.
    #[must_use]
    pub fn weight(&self) -> usize {
        let row = self.row.relation.len() + self.row.insert.len();
        Record::OVERHEAD + row + self.record.as_ref().map_or(0, Record::weight)
    }
}

/// A row as pgoutput told it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Row {
    /// The `Relation` message that the row is to be read by.
    pub relation: Bytes,
    /// The `Insert` message.
    pub insert: Bytes,
    /// Where it is a reference: how the row was of which the `Insert` message has no more than the key.
    pub reference: Option<Reference>,
}

impl Row {
    /// The OID of its relation, which either message names first.
    #[must_use]
    pub(crate) fn relation_id(&self) -> u32 {
        let bytes = self.relation.get(1..).and_then(|rest| rest.first_chunk());
        bytes.copied().map_or(0, u32::from_be_bytes)
    }
}

/// The number of a letter in its store, in the order in which letters were set aside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LetterId(pub i64);

/// What an operator asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Request {
    /// Send it again.
    Replay,
    /// Send it again, as its row is by now where the letter keeps a reference to it.
    ReplayChanged,
    /// Give it up.
    Drop,
}

/// A letter that an operator marked, or that goes by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked {
    /// Which.
    pub id: LetterId,
    /// What for.
    pub request: Request,
    /// The letter.
    pub letter: DeadLetter,
    /// Where the letter keeps a reference and is to be sent: the `Insert` message of its row as it stands in its table. Of any letter: why it cannot be
    /// sent, where its store knows.
    pub fetched: Option<Result<Bytes, String>>,
}

impl Marked {
    /// With the whole of its row.
    ///
    /// # Errors
    /// Why it cannot be sent.
    pub(crate) fn whole(mut self) -> Result<Self, String> {
        let fetched = self.fetched.take().transpose()?;
        if self.letter.row.reference.is_some() {
            self.letter = self.letter.with_row(fetched.ok_or("nobody has looked for its row")?);
        }
        Ok(self)
    }
}

/// How a marked letter ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conclusion {
    /// The broker has it.
    Sent,
    /// It was given up.
    Dropped,
    /// It failed again, for this reason, and lies there unmarked; for a reason of its own from now on, if it waited for another one.
    Returned(String),
}

impl Conclusion {
    /// Whether it lies there no more.
    #[must_use]
    pub fn is_for_good(&self) -> bool {
        match self {
            Self::Sent | Self::Dropped => true,
            Self::Returned(_) => false,
        }
    }
}

/// A key of which letters lie there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parked {
    /// The key.
    pub key: ParkingKey,
    /// How many of its letters are neither sent nor dropped.
    pub letters: u64,
    /// The [earliest](Place::earlier) of their places: what comes again from before it waits for none of them.
    pub first: Place,
}

/// What lies in a store, as a session has to know it before its first frame.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Inventory {
    /// How many letters are neither sent nor dropped.
    pub letters: u64,
    /// Each key of which letters are neither sent nor dropped.
    pub parked: Vec<Parked>,
    /// How many letters lie there for a reason of their own.
    pub roots: u64,
    /// The bytes of those that only wait for another one, by [`DeadLetter::parked_bytes`].
    pub parked_bytes: u64,
}
