//! What is known of records that fail, where a failure takes the whole group with it, and the session.
//!
//! Nothing else of a group that is given up is remembered: its rows come again from the checkpoint, and its letters are still marked. What
//! stands here spares the next group the same failure. A lesson is kept until what it is about is committed, and a process that starts anew
//! learns it again.

use std::collections::{BTreeMap, BTreeSet};

use crate::lsn::Lsn;
use crate::poison::{Cause, LetterId};
use crate::position::{Identity, Timeline};

/// See the module's documentation. A session is given them ([`Start::lessons`](super::Start::lessons)) and gives them back
/// ([`End::lessons`](super::End::lessons)).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lessons {
    /// Rows that failed. They go alone, for a failed batch blames innocents; and only they: what the sink had taken before flows again, or a bad row
    /// at the end of a large transaction would take longer than the sink leaves a group open, and never pass.
    suspected: BTreeSet<Identity>,
    /// Rows that failed alone. They are set aside without being sent.
    judged: BTreeMap<Identity, Cause>,
    /// The same of letters.
    suspects: BTreeSet<LetterId>,
    /// Letters that failed alone, and why. They lie there still, and only that has to be written down.
    returned: BTreeMap<LetterId, String>,
}

impl Lessons {
    /// A row failed among others.
    pub(super) fn suspect_row(&mut self, row: Identity) {
        self.suspected.insert(row);
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

    /// Whether a row has to go alone.
    pub(super) fn is_row_suspect(&self, row: Identity) -> bool {
        self.suspected.contains(&row)
    }

    /// Why a letter lies there still, where that is not written down.
    pub(super) fn return_of(&self, letter: LetterId) -> Option<&String> {
        self.returned.get(&letter)
    }

    /// Whether a letter has to go alone.
    pub(super) fn is_suspect(&self, letter: LetterId) -> bool {
        self.suspects.contains(&letter)
    }

    /// How a letter ended is committed, for good or until an operator marks it again. One that has failed goes alone then, too.
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
        self.suspected.iter().chain(self.judged.keys())
    }

    fn keep_rows(&mut self, is_kept: impl Fn(&Identity) -> bool) {
        self.suspected.retain(&is_kept);
        self.judged.retain(|row, _| is_kept(row));
    }
}
