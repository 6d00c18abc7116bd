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

    /// What a claim writes that offers this one, where that is stored: under the next epoch, and not behind what a predecessor wrote between our reading
    /// and our claim, for the slot may be confirmed that far. Whichever is further tells its time and its settled rows as well, and where neither is, the
    /// stored one. Of rows that the position has passed nothing is kept.
    #[must_use]
    pub fn claimed(&self, stored: Option<&Self>) -> Self {
        let epoch = Epoch(stored.map_or(0, |stored| stored.epoch.0).saturating_add(1));
        let is_of_slot = |stored: &&Self| stored.system == self.system && stored.slot == self.slot;
        let is_of_log = |stored: &&Self| stored.timeline == self.timeline && stored.position >= self.position;
        let of_slot = stored.filter(is_of_slot);
        let furthest = of_slot.filter(is_of_log).unwrap_or(self);
        let position = of_slot.map_or(self.position, |stored| stored.position.max(self.position));
        Self {
            position,
            commit_time: furthest.commit_time.or(self.commit_time).or(stored.and_then(|stored| stored.commit_time)),
            settled_rows: furthest.settled_rows.filter(|rows| rows.commit_lsn >= position),
            epoch,
            ..self.clone()
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn checkpoint(position: u64, settled: Option<u64>) -> Checkpoint {
        let rows = |commit| SettledRows { commit_lsn: Lsn::new(commit), through: Lsn::new(commit - 1) };
        Checkpoint {
            relay: "relay".to_owned(),
            system: SystemIdentifier(7),
            timeline: Timeline(1),
            database: "app".to_owned(),
            slot: "walpost".to_owned(),
            position: Lsn::new(position),
            commit_time: None,
            settled_rows: settled.map(rows),
            epoch: Epoch(4),
        }
    }

    #[track_caller]
    fn assert_claimed(offered: &Checkpoint, stored: &Checkpoint, position: u64, settled: Option<u64>) {
        let claimed = offered.claimed(Some(stored));
        let rows = claimed.settled_rows.map(|rows| rows.commit_lsn.get());
        assert_eq!((claimed.position.get(), rows, claimed.epoch), (position, settled, Epoch(5)));
    }

    #[test]
    fn a_claim_keeps_the_rows_that_are_settled_behind_the_position_which_it_leaves() {
        assert_claimed(&checkpoint(10, None), &checkpoint(10, Some(20)), 10, Some(20));
        assert_claimed(&checkpoint(10, Some(20)), &checkpoint(10, Some(20)), 10, Some(20));
        assert_claimed(&checkpoint(10, Some(20)), &checkpoint(15, Some(30)), 15, Some(30));
        assert_claimed(&checkpoint(15, Some(20)), &checkpoint(10, Some(30)), 15, Some(20));
        assert_eq!(checkpoint(10, Some(20)).claimed(None), Checkpoint { epoch: Epoch(1), ..checkpoint(10, Some(20)) });
    }

    #[test]
    fn of_settled_rows_that_the_position_has_passed_a_claim_keeps_nothing() {
        assert_claimed(&checkpoint(10, Some(20)), &checkpoint(21, None), 21, None);
        assert_claimed(&checkpoint(21, Some(20)), &checkpoint(10, Some(20)), 21, None);
        assert_claimed(&checkpoint(20, Some(20)), &checkpoint(10, None), 20, Some(20));
    }

    #[test]
    fn a_claim_keeps_nothing_of_another_slot_system_or_timeline() {
        let stored = checkpoint(15, Some(20));
        let other = Checkpoint { slot: "other".to_owned(), ..stored.clone() };
        assert_claimed(&checkpoint(10, None), &other, 10, None);
        assert_claimed(&checkpoint(10, None), &Checkpoint { system: SystemIdentifier(8), ..stored.clone() }, 10, None);
        // The slot may be confirmed so far, whatever the timeline. But its rows are others.
        let timeline = Timeline(2);
        assert_claimed(&Checkpoint { timeline, ..checkpoint(10, None) }, &stored, 15, None);
    }

    #[test]
    fn a_claim_tells_the_time_of_what_it_leaves() {
        let at = |micros| Some(Timestamp::from_postgres_micros(micros));
        let (early, late) = (Checkpoint { commit_time: at(1), ..checkpoint(10, None) }, checkpoint(15, None));
        assert_eq!(early.claimed(Some(&late)).commit_time, at(1), "the last that is known");
        assert_eq!(late.claimed(Some(&early)).commit_time, at(1));
        let late = Checkpoint { commit_time: at(2), ..late };
        assert_eq!(early.claimed(Some(&late)).commit_time, at(2));
        assert_eq!(late.claimed(Some(&early)).commit_time, at(2));
    }
}
