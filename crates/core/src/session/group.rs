//! The group of records that become visible together, where the sink commits records and position as one. Letters of rows that are set
//! aside, and how letters ended, are records of it like others.
//!
//! A group ends where a transaction of the source ends, for a position rests nowhere else. What the broker has acknowledged of an open group
//! is not settled: only the commit says so, and until then it costs a counter. Whatever fails, the whole group is given up, and the
//! next session reads it again from the checkpoint.

use std::time::Duration;

use crate::failure::Failure;
use crate::time::Moment;

/// How large a group may grow. Each of them is looked at where a transaction ends, so a large one is a group of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grouping {
    /// No more records are added once the first was handed over so long ago.
    pub interval: Duration,
    /// Nor once there are so many.
    pub max_records: u64,
    /// Nor once they weigh so much.
    pub max_bytes: u64,
    /// How old the broker lets a group become before it gives it up.
    pub timeout: Duration,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Group {
    settings: Grouping,
    records: u64,
    bytes: u64,
    /// What was added last weighs so much.
    last: usize,
    /// When the first record was handed over; `None` while the group is empty.
    since: Option<Moment>,
    /// A record of it failed, or its commit did: it can only be given up.
    is_broken: bool,
    /// Why the sink takes nothing more of it.
    lost: Option<Failure>,
    has_said_old: bool,
    /// Since when nothing more can be added in the midst of a transaction.
    held_since: Option<Moment>,
}

/// How long a group may be held up in the midst of a transaction: every reader of committed records waits behind what is open.
const HOLD_GRACE: Duration = Duration::from_secs(5);

impl Group {
    pub(super) fn new(settings: Grouping) -> Self {
        Self {
            settings,
            records: 0,
            bytes: 0,
            last: 0,
            since: None,
            is_broken: false,
            lost: None,
            has_said_old: false,
            held_since: None,
        }
    }

    /// Something goes to the sink: a record, a letter, or how one ended.
    pub(super) fn add(&mut self, weight: usize, now: Moment) {
        self.records += 1;
        self.last = weight;
        self.bytes = self.bytes.saturating_add(weight as u64);
        self.since.get_or_insert(now);
    }

    /// The sink did not take what was added last. A group of nothing would be committed for nothing.
    pub(super) fn take_back(&mut self) {
        self.records = self.records.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(self.last as u64);
        self.since = self.since.filter(|_| self.records > 0);
    }

    /// It is committed, and the next one is empty.
    pub(super) fn committed(&mut self) {
        *self = Self::new(self.settings.clone());
    }

    pub(super) fn break_off(&mut self) {
        self.is_broken = true;
    }

    /// The sink takes nothing more of it.
    pub(super) fn lose(&mut self, why: Failure) {
        self.is_broken = true;
        self.lost = Some(why);
    }

    pub(super) fn lost(&self) -> Option<&Failure> {
        self.lost.as_ref()
    }

    pub(super) fn is_broken(&self) -> bool {
        self.is_broken
    }

    pub(super) fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    /// Whether nothing more is to be added where a transaction ends.
    pub(super) fn is_full(&self, now: Moment) -> bool {
        let Grouping { interval, max_records, max_bytes, .. } = self.settings;
        let is_old = self.since.is_some_and(|since| now.since(since) >= interval);
        is_old || self.records >= max_records || self.bytes >= max_bytes
    }

    /// How old it is and may become, said once: when it has used up half of that.
    pub(super) fn take_age(&mut self, now: Moment) -> Option<(Duration, Duration)> {
        if now < self.old_at()? {
            return None;
        }
        self.has_said_old = true;
        Some((now.since(self.since?), self.settings.timeout))
    }

    /// It is held up in the midst of a transaction.
    pub(super) fn hold(&mut self, now: Moment) {
        self.held_since.get_or_insert(now);
    }

    /// It is not, or not any more.
    pub(super) fn go_on(&mut self) {
        self.held_since = None;
    }

    /// When a hold has lasted for too long.
    pub(super) fn hold_ends_at(&self) -> Option<Moment> {
        let grace = HOLD_GRACE.min(self.settings.timeout / 4);
        self.held_since.map(|since| since.after(grace))
    }

    /// When its age is worth a word.
    pub(super) fn old_at(&self) -> Option<Moment> {
        self.since.filter(|_| !self.has_said_old).map(|since| since.after(self.settings.timeout / 2))
    }
}
