//! What is known of records that fail, so that they fail among ever fewer others.
//!
//! A batch that failed blames innocents, thousands perhaps: sent one at a time, they would hold everybody up for a round trip each, and take longer than a
//! broker lets a transaction live. So they are sent in parts, each by itself, a part that fails in parts of its own, until one row is
//! left to be judged; what lies before and behind them flows. A sink that was away, and records that it took back because of another, teach nothing. A
//! letter that failed among others goes alone at once.
//!
//! A lesson is kept until what it is about is settled: within the session, and a session that begins learns it again. Where a failure takes the whole
//! group with it, and the session, it is handed on until it is committed: nothing else of that group is remembered, its rows come again from the
//! checkpoint, and its letters are still marked. Rows and letters that were judged are remembered only there; elsewhere they have been set aside by then.

use std::collections::{BTreeMap, BTreeSet};

use crate::lsn::Lsn;
use crate::poison::{Cause, LetterId};
use crate::position::{Identity, Timeline};

/// See the module's documentation. A session of groups is given them ([`Start::lessons`](super::Start::lessons)) and gives them back
/// ([`End::lessons`](super::End::lessons)).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lessons {
    /// Rows that failed among others, each with its part. Such a row is not judged, for a failed batch blames innocents.
    parts: BTreeMap<Identity, Part>,
    /// Rows that failed among others since parts were made last.
    failed: BTreeSet<Identity>,
    /// Rows that failed alone. They are set aside without being sent.
    judged: BTreeMap<Identity, Cause>,
    /// The same of letters.
    suspects: BTreeSet<LetterId>,
    /// Letters that failed alone, and why. They lie there still, and only that has to be written down.
    returned: BTreeMap<LetterId, String>,
}

/// What goes by itself: nothing else is with the sink meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    /// Rows that failed among others, the last of which is this one; and rows that lie among them.
    Rows { last: Identity },
    /// One record, so that it can be judged.
    Single,
}

/// In how many parts rows that failed go again: few enough that waiting for each of them takes a second or two, and so many that a batch of
/// 10,000 comes down to single rows in two steps. Where it is simulated all is smaller.
const PARTS: usize = if cfg!(test) { 3 } else { 100 };

impl Lessons {
    /// A row failed among others.
    pub(super) fn suspect_row(&mut self, row: Identity) {
        self.failed.insert(row);
    }

    /// A row is to go alone.
    pub(super) fn single_out(&mut self, row: Identity) {
        self.parts.insert(row, Part::Single);
    }

    /// Everything that was with the sink is reported: what failed among others makes parts.
    pub(super) fn make_parts(&mut self) {
        let failed: Vec<Identity> = std::mem::take(&mut self.failed).into_iter().collect();
        for rows in failed.chunks(failed.len().div_ceil(PARTS).max(1)) {
            let part = match rows {
                [.., last] if rows.len() > 1 => Part::Rows { last: *last },
                _ => Part::Single,
            };
            self.parts.extend(rows.iter().map(|row| (*row, part)));
        }
    }

    /// The part that a row goes with, if it has failed among others.
    pub(super) fn part_of(&self, row: Identity) -> Option<Part> {
        self.parts.get(&row).copied()
    }

    /// A row failed alone.
    pub(super) fn judge_row(&mut self, row: Identity, cause: Cause) {
        self.judged.insert(row, cause);
    }

    /// A letter failed among others.
    pub(super) fn suspect_letter(&mut self, letter: LetterId) {
        self.suspects.insert(letter);
    }

    /// A letter failed alone.
    pub(super) fn judge_letter(&mut self, letter: LetterId, reason: String) {
        self.suspects.insert(letter);
        self.returned.insert(letter, reason);
    }

    /// Why a row is to be set aside, where it was judged.
    pub(super) fn judgement(&self, row: Identity) -> Option<&Cause> {
        self.judged.get(&row)
    }

    /// Why a letter lies there still, where that is not written down.
    pub(super) fn return_of(&self, letter: LetterId) -> Option<&String> {
        self.returned.get(&letter)
    }

    /// A row is settled, or will be without being sent again.
    pub(super) fn forget_row(&mut self, row: Identity) {
        self.parts.remove(&row);
    }

    /// Whether a letter has to go alone.
    pub(super) fn is_suspect(&self, letter: LetterId) -> bool {
        self.suspects.contains(&letter)
    }

    /// How a letter ended is durable, for good or until an operator marks it again. One that has failed goes alone then, too.
    pub(super) fn forget_letter(&mut self, letter: LetterId, is_ended: bool) {
        self.returned.remove(&letter);
        if is_ended {
            self.suspects.remove(&letter);
        }
    }

    /// Everything before this position is committed.
    pub(super) fn forget_before(&mut self, position: Lsn) {
        self.keep_rows(|row| row.commit_lsn >= position);
    }

    /// On another timeline the same place in the log can hold another row.
    pub(super) fn forget_other_timelines(&mut self, timeline: Timeline) {
        self.keep_rows(|row| row.timeline == timeline);
    }

    #[cfg(test)]
    pub(super) fn rows(&self) -> impl Iterator<Item = &Identity> {
        self.failed.iter().chain(self.parts.keys()).chain(self.judged.keys())
    }

    fn keep_rows(&mut self, is_kept: impl Fn(&Identity) -> bool) {
        self.parts.retain(|row, _| is_kept(row));
        self.failed.retain(&is_kept);
        self.judged.retain(|row, _| is_kept(row));
    }
}
