//! The loop's hand: it counts in plain numbers and copies them to the board now and then.

use std::sync::Arc;
use std::time::Duration;

use walpost_core::failure::{Class, Failure};
use walpost_core::port::Refusal;
use walpost_core::session::{Counters, Session, View};
use walpost_core::time::Moment;
use walpost_core::traffic::Traffic;

use super::board::{Board, Letters, Link, Phase, Totals};

/// How old what is on the board may be while the loop turns.
const COPY_INTERVAL: Duration = Duration::from_millis(100);

/// As above, of what may be a thousand figures.
const TRAFFIC_INTERVAL: Duration = Duration::from_secs(1);

/// See the module's documentation.
#[derive(Debug)]
pub struct Recorder {
    board: Board,
    totals: Totals,
    /// What the sessions before this one counted.
    past: Counters,
    past_traffic: Traffic,
    link: Option<Link>,
    /// What had been delivered when it was last looked whether anything was.
    delivered_before: u64,
    copied_at: Option<Moment>,
    traffic_copied_at: Option<Moment>,
    checkpoint_due_since: Option<Moment>,
    checkpointed_at: Option<Moment>,
    sink_away: Option<(String, Moment)>,
    marks_unread: Option<(Option<Arc<str>>, Moment)>,
}

impl Recorder {
    /// One that writes to this board.
    #[must_use]
    pub fn new(board: Board) -> Self {
        Self {
            board,
            totals: Totals::default(),
            past: Counters::default(),
            past_traffic: Traffic::default(),
            link: None,
            delivered_before: 0,
            copied_at: None,
            traffic_copied_at: None,
            checkpoint_due_since: None,
            checkpointed_at: None,
            sink_away: None,
            marks_unread: None,
        }
    }

    /// Where it writes.
    #[must_use]
    pub fn board(&self) -> &Board {
        &self.board
    }

    /// The loop has turned.
    pub fn turn(&mut self, session: &Session, now: Moment) {
        self.board.turn(now);
        if self.copied_at.is_none_or(|copied_at| now.since(copied_at) >= COPY_INTERVAL) {
            self.copy(session, now);
        }
    }

    /// The sink acknowledged a record.
    pub fn delivered(&mut self) {
        self.totals.delivered += 1;
    }

    /// The sink gave a record back.
    pub fn undelivered(&mut self, failure: &Failure) {
        *self.totals.undelivered.entry(class_word(failure.class)).or_default() += 1;
    }

    /// The sink did not accept a record.
    pub fn refused(&mut self, refusal: &Refusal) {
        match refusal {
            Refusal::Full => self.totals.full += 1,
            Refusal::Failed(failure) => self.undelivered(failure),
        }
    }

    /// The sink was made anew, or could not be.
    pub fn reset(&mut self, is_done: bool) {
        let count = if is_done { &mut self.totals.resets } else { &mut self.totals.failed_resets };
        *count += 1;
    }

    /// The sink is known to be away, for this reason, or is not.
    pub fn sink_away(&mut self, reason: Option<&str>) {
        match (&mut self.sink_away, reason) {
            (Some((known, _)), Some(reason)) if known == reason => {}
            (Some((known, _)), Some(reason)) => reason.clone_into(known),
            (known, reason) => *known = reason.map(|reason| (reason.to_owned(), self.board.clock().now())),
        }
    }

    /// It is not known which dead letters are marked, for this reason where there is one, since then; or it is.
    pub fn marks_unread(&mut self, unread: Option<(Option<Arc<str>>, Moment)>) {
        self.marks_unread = unread;
    }

    /// A checkpoint is to be written.
    pub fn checkpoint_ordered(&mut self) {
        self.checkpoint_due_since.get_or_insert(self.board.clock().now());
    }

    /// A checkpoint was written, or could not be.
    pub fn checkpoint_answered(&mut self, is_written: bool) {
        if is_written {
            self.totals.checkpoints += 1;
            self.checkpoint_due_since = None;
            self.checkpointed_at = Some(self.board.clock().now());
        } else {
            self.totals.failed_checkpoints += 1;
        }
    }

    /// A session begins on a stream that has just started.
    pub fn streaming(&mut self, session: &Session) {
        self.link = None;
        self.checkpoint_due_since = None;
        self.marks_unread = None;
        self.copy(session, self.board.clock().now());
        self.enter(Phase::Streaming);
    }

    /// The session is over. Whether there will be another is not known yet.
    pub fn ended(&mut self, session: &Session) {
        let now = self.board.clock().now();
        self.copy(session, now);
        self.past = sum(self.past, session.counters());
        self.past_traffic.absorb(session.traffic());
        self.board.sight().traffic = Arc::from(self.past_traffic.flows());
        self.link = None;
        self.board.sight().link = None;
        self.board.sight().down_since = now;
        self.enter(Phase::Reconnecting("the connection has just ended".to_owned()));
    }

    /// The next attempt comes after a wait, because of this. `cause` is its word for the figures.
    pub fn reconnecting(&mut self, cause: &'static str, reason: &str) {
        *self.totals.reconnects.entry(cause).or_default() += 1;
        self.board.sight().totals.clone_from(&self.totals);
        self.enter(Phase::Reconnecting(reason.to_owned()));
    }

    /// Our own last connection still has the slot, as this says: there is no other attempt until it has not.
    pub fn lingering(&mut self, reason: &str) {
        self.enter(Phase::Reconnecting(reason.to_owned()));
    }

    /// Another has the slot.
    pub fn standing_by(&mut self, reason: &str) {
        self.enter(Phase::StandingBy(reason.to_owned()));
    }

    /// The relay ends.
    pub fn stopping(&mut self) {
        self.enter(Phase::Stopping);
    }

    fn enter(&self, phase: Phase) {
        let mut sight = self.board.sight();
        if sight.phase.word() != phase.word() {
            sight.phase_since = self.board.clock().now();
        }
        sight.phase = phase;
    }

    fn copy(&mut self, session: &Session, now: Moment) {
        self.copied_at = Some(now);
        let view = session.view();
        let has_acknowledged =
            std::mem::replace(&mut self.delivered_before, self.totals.delivered) != self.totals.delivered;
        let link = next_link(self.link.as_ref(), view, has_acknowledged, self.checkpoint_due_since, now);
        self.totals.counters = sum(self.past, link.view.counters);
        if self.traffic_copied_at.is_none_or(|copied_at| now.since(copied_at) >= TRAFFIC_INTERVAL) {
            self.traffic_copied_at = Some(now);
            let mut all = self.past_traffic.clone();
            all.absorb(session.traffic());
            self.board.sight().traffic = Arc::from(all.flows());
        }
        let letters = Letters { open: session.open_letters(), parked_keys: session.parked_keys() as u64 };
        let mut sight = self.board.sight();
        sight.letters = Some(letters);
        sight.totals.clone_from(&self.totals);
        sight.checkpointed_at = self.checkpointed_at;
        sight.sink_away.clone_from(&self.sink_away);
        sight.marks_unread.clone_from(&self.marks_unread);
        sight.last = Some(link.view.clone());
        sight.link = Some(link.clone());
        drop(sight);
        self.link = Some(link);
    }
}

/// What is known of a session now, from what was known before.
fn next_link(
    before: Option<&Link>,
    view: View,
    has_acknowledged: bool,
    checkpoint_due_since: Option<Moment>,
    now: Moment,
) -> Link {
    let is_owed = |view: &View| view.owed.records > 0;
    let has_long_owed = is_owed(&view) && before.is_some_and(|before| is_owed(&before.view));
    let progress = |view: &View| (view.received, view.counters);
    let has_progressed = before.is_none_or(|before| progress(&before.view) != progress(&view));
    let ended = |view: &View| {
        let Counters { set_aside, parked, replayed, returned, given_up, .. } = view.counters;
        (set_aside, parked, replayed, returned, given_up)
    };
    let is_same_letter = |before: &&Link| ended(&before.view) == ended(&view);
    let letters_due_since = before.filter(is_same_letter).and_then(|link| link.letters_due_since);
    let since = |is_so: bool, since: Option<Moment>| is_so.then(|| since.unwrap_or(now));
    let kept = |moment: Option<Moment>, is_news: bool| moment.filter(|_| !is_news).unwrap_or(now);
    Link {
        acknowledged_at: kept(before.map(|link| link.acknowledged_at), has_acknowledged || !has_long_owed),
        progressed_at: kept(before.map(|link| link.progressed_at), has_progressed || !view.wants_frames),
        held_since: since(view.trouble.is_some(), before.and_then(|link| link.held_since)),
        undescribed_since: since(view.awaits_description, before.and_then(|link| link.undescribed_since)),
        letters_due_since: since(view.awaits_letters, letters_due_since),
        checkpoint_due_since,
        view,
    }
}

/// The word for a class of failures.
#[must_use]
pub(super) fn class_word(class: Class) -> &'static str {
    match class {
        Class::Row => "row",
        Class::Route => "route",
        Class::Sink => "sink",
        Class::Withdrawn => "withdrawn",
        Class::Configuration => "configuration",
    }
}

fn sum(one: Counters, other: Counters) -> Counters {
    Counters {
        transactions: one.transactions + other.transactions,
        events: one.events + other.events,
        bad_rows: one.bad_rows + other.bad_rows,
        set_aside: one.set_aside + other.set_aside,
        parked: one.parked + other.parked,
        replayed: one.replayed + other.replayed,
        returned: one.returned + other.returned,
        given_up: one.given_up + other.given_up,
        dropped: one.dropped + other.dropped,
        other_inserts: one.other_inserts + other.other_inserts,
        updates: one.updates + other.updates,
        deletes: one.deletes + other.deletes,
        truncates: one.truncates + other.truncates,
        other_changes: one.other_changes + other.other_changes,
        logical_messages: one.logical_messages + other.logical_messages,
        unknown_messages: one.unknown_messages + other.unknown_messages,
        skipped_transactions: one.skipped_transactions + other.skipped_transactions,
        skipped_rows: one.skipped_rows + other.skipped_rows,
        stale_reports: one.stale_reports + other.stale_reports,
    }
}

#[cfg(test)]
mod tests;
