//! Who an event is, and how far the relay got.

use crate::lsn::Lsn;
use crate::time::Timestamp;

/// The number that `initdb` gave a cluster. A standby shares it with its primary, a restored copy keeps it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SystemIdentifier(pub u64);

/// The history of a cluster's log; a promotion starts the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timeline(pub u32);

/// The identity of an event, the same in every repeat.
///
/// A row's own LSN is not unique (rows of one COPY share it), and the commit's end is known only at the end, so the commit
/// LSN of `Begin` stands for the transaction and the ordinal for the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Identity {
    /// The timeline that the server was on.
    pub timeline: Timeline,
    /// `Begin.final_lsn`.
    pub commit_lsn: Lsn,
    /// Counts every insert received in the transaction from 0, of whatever table.
    pub ordinal: u64,
}

/// Where a row stands in a log, and when its transaction committed.
///
/// Another cluster counts its log by itself, and what it writes is written later: a place there may be the lower one, but its time is not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// `Begin.final_lsn`.
    pub commit_lsn: Lsn,
    /// See [`Identity::ordinal`].
    pub ordinal: u64,
    /// When the transaction committed, by the server's clock.
    pub commit_time: Timestamp,
}

impl Place {
    /// The place of this row. A promotion does not change it.
    #[must_use]
    pub fn of(Identity { commit_lsn, ordinal, .. }: Identity, commit_time: Timestamp) -> Self {
        Self { commit_lsn, ordinal, commit_time }
    }

    /// Whether a row of this place comes before one of the other beyond doubt: in the log, and by the clock.
    #[must_use]
    pub fn is_before(&self, other: &Self) -> bool {
        self.in_log() < other.in_log() && self.commit_time <= other.commit_time
    }

    /// The earlier of the two, in the log and by the clock each by itself: what is before it is before both.
    #[must_use]
    pub fn earlier(self, other: Self) -> Self {
        let first = if self.in_log() <= other.in_log() { self } else { other };
        Self { commit_time: self.commit_time.min(other.commit_time), ..first }
    }

    fn in_log(&self) -> (Lsn, u64) {
        (self.commit_lsn, self.ordinal)
    }
}

/// A number that a writer of checkpoints takes when it starts; a lower one may no longer write.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Epoch(pub u64);

/// What a relay knows of its progress and keeps durably.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint {
    /// The relay's name: one row, file or record of the store belongs to it.
    pub relay: String,
    /// The cluster that the position belongs to.
    pub system: SystemIdentifier,
    /// The timeline that the position lies on.
    pub timeline: Timeline,
    /// The database that the slot decodes.
    pub database: String,
    /// The slot that the position was read from.
    pub slot: String,
    /// Everything before it is settled: a `Commit.end_lsn`, or an idle server's WAL end. Invalid in one that was written before its slot was made.
    pub position: Lsn,
    /// When the last settled transaction committed; `None` where none has been seen yet.
    pub commit_time: Option<Timestamp>,
    /// Rows after the position that are settled too, where another relay published a part of a transaction before us.
    pub settled_rows: Option<SettledRows>,
    /// Who wrote it.
    pub epoch: Epoch,
}

/// The first rows of one transaction, by their own LSNs, which rise within it.
///
/// It says the same whatever publication is read: unlike an ordinal, an LSN does not depend on which tables are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct SettledRows {
    /// The transaction: `Begin.final_lsn`.
    pub commit_lsn: Lsn,
    /// Its rows up to this LSN, and this one too, are settled.
    pub through: Lsn,
}

impl SettledRows {
    /// Whether a row belongs to them: `row` is where its frame says that it begins.
    #[must_use]
    pub fn contain(self, commit_lsn: Lsn, row: Lsn) -> bool {
        self.commit_lsn == commit_lsn && row <= self.through
    }
}

impl Checkpoint {
    /// The version of this form, written into every store. A reader refuses what is newer.
    pub const FORMAT_VERSION: u32 = 1;

    /// Whether a relay may have published since it was written. One that was written before its slot was made says that none has: whoever starts
    /// writes a position first.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.position.is_valid()
    }
}

/// What a session asks the driver to make durable: the parts of a [`Checkpoint`] that move.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// The new watermark.
    pub position: Lsn,
    /// When the last settled transaction committed, if any was settled in this session.
    pub commit_time: Option<Timestamp>,
}
