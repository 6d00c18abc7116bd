//! When progress is made durable, and when the server is told of it.
//!
//! Two rules that others learned the hard way. The server is told on a timer, never only when asked or when the sink moved,
//! or `wal_sender_timeout` ends the connection of a slow consumer. And a position is confirmed only once it is in the
//! checkpoint store, or a crash between the two would leave the slot ahead of what the relay knows.
//!
//! While the outbox is quiet and others write, progress is still made durable, but rarely: a checkpoint in the source
//! database writes log itself and must not chase its own tail.

use std::time::Duration;

use crate::backoff::Backoff;
use crate::frame::StatusUpdate;
use crate::ledger::Watermark;
use crate::lsn::Lsn;
use crate::position::Progress;
use crate::session::Start;
use crate::time::Moment;

/// How often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The longest time that settled events wait for a checkpoint.
    pub checkpoint_interval: Duration,
    /// A checkpoint comes earlier once so many events are settled.
    pub checkpoint_events: u64,
    /// The shortest time between two checkpoints while only others write.
    pub idle_interval: Duration,
    /// While only others write, their log is worth a checkpoint from so many bytes on.
    pub idle_bytes: u64,
    /// While only others write, the longest time without a checkpoint, if there is any progress.
    pub idle_age: Duration,
    /// The longest time without a status update. Has to be well below the server's `wal_sender_timeout`.
    pub status_interval: Duration,
    /// The first wait after a checkpoint that failed.
    pub retry_initial: Duration,
    /// The longest wait after a checkpoint that failed.
    pub retry_ceiling: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            checkpoint_interval: Duration::from_secs(1),
            checkpoint_events: 50_000,
            idle_interval: Duration::from_secs(10),
            idle_bytes: 1 << 20,
            idle_age: Duration::from_secs(300),
            status_interval: Duration::from_secs(1),
            retry_initial: Duration::from_millis(100),
            retry_ceiling: Duration::from_secs(30),
        }
    }
}

/// How soon progress is wanted durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// As the settings say.
    InTime,
    /// Now, whatever there is of it.
    Now,
    /// Now, also where the watermark has not moved: something else becomes durable with it.
    InAnyCase,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Feedback {
    settings: Settings,
    /// The watermark that the store holds.
    checkpointed: Lsn,
    /// The settled events that the store's watermark covers.
    checkpointed_events: u64,
    /// The connection started beyond what the store holds.
    is_start_unsaved: bool,
    confirmed: Lsn,
    /// The watermark that is being saved.
    saving: Option<Watermark>,
    /// When the last checkpoint was asked for.
    asked_at: Moment,
    /// Set after a failed checkpoint.
    not_before: Option<Moment>,
    backoff: Backoff,
    told_at: Moment,
    /// The server waits for an answer.
    is_reply_owed: bool,
    /// The server is to be asked for an answer.
    is_reply_wanted: bool,
}

impl Feedback {
    /// Feedback of a connection that starts here. The first status update is due at once, and so is the checkpoint that the
    /// last connection of this process did not live to see.
    #[must_use]
    pub fn new(settings: Settings, start: &Start, now: Moment) -> Self {
        let backoff = Backoff::new(settings.retry_initial, settings.retry_ceiling, start.seed.wrapping_add(1));
        Self {
            settings,
            checkpointed: start.checkpointed,
            checkpointed_events: 0,
            is_start_unsaved: start.position > start.checkpointed,
            confirmed: start.checkpointed,
            saving: None,
            asked_at: now,
            not_before: None,
            backoff,
            told_at: now,
            is_reply_owed: true,
            is_reply_wanted: false,
        }
    }

    /// The server asked for a status update.
    pub fn reply_requested(&mut self) {
        self.is_reply_owed = true;
    }

    /// The next status update asks the server for a sign of life, and is due at once.
    pub fn ask_for_reply(&mut self) {
        self.is_reply_wanted = true;
    }

    /// The checkpoint to write now, if one is due.
    pub fn poll_checkpoint(&mut self, watermark: Watermark, wanted: Wanted, now: Moment) -> Option<Progress> {
        let due = self.checkpoint_due(watermark, wanted, now)?;
        if now < due {
            return None;
        }
        self.saving = Some(watermark);
        self.asked_at = now;
        Some(Progress { position: watermark.position, commit_time: watermark.commit_time })
    }

    /// The checkpoint that was asked for is durable.
    pub fn checkpointed(&mut self) {
        if let Some(saved) = self.saving.take() {
            debug_assert!(saved.position >= self.checkpointed, "checkpoints never go backwards");
            self.checkpointed = self.checkpointed.max(saved.position);
            self.checkpointed_events = saved.events;
            self.is_start_unsaved = false;
            self.not_before = None;
            self.backoff.reset();
        }
    }

    /// The checkpoint that was asked for could not be written; it is tried again after a while.
    pub fn checkpoint_failed(&mut self, now: Moment) {
        self.saving = None;
        self.not_before = Some(now.after(self.backoff.next_wait()));
    }

    /// The status update to send now, if one is due. The timer runs to the end: a last checkpoint may be slow.
    pub fn poll_status(&mut self, now: Moment) -> Option<StatusUpdate> {
        let has_news = self.checkpointed > self.confirmed;
        let is_due = self.is_reply_owed || self.is_reply_wanted || has_news || now >= self.status_due();
        if !is_due {
            return None;
        }
        self.is_reply_owed = false;
        self.confirmed = self.checkpointed;
        self.told_at = now;
        Some(StatusUpdate { confirmed: self.confirmed, reply_requested: std::mem::take(&mut self.is_reply_wanted) })
    }

    /// When one of the two polls will have something, if nothing happens before.
    #[must_use]
    pub fn deadline(&self, watermark: Watermark, wanted: Wanted, now: Moment) -> Moment {
        let status = self.deadline_of_status(now);
        self.checkpoint_due(watermark, wanted, now).map_or(status, |checkpoint| checkpoint.min(status))
    }

    /// How many settled events the store is not known to hold.
    #[must_use]
    pub fn unsaved(&self, watermark: Watermark) -> u64 {
        watermark.events.saturating_sub(self.checkpointed_events)
    }

    /// Whether the store holds the watermark, and nothing is being saved.
    #[must_use]
    pub fn is_checkpointed(&self, watermark: Watermark) -> bool {
        self.saving.is_none() && self.checkpointed >= watermark.position
    }

    /// Whether a checkpoint is under way.
    #[must_use]
    pub fn is_saving(&self) -> bool {
        self.saving.is_some()
    }

    /// As [`deadline`](Self::deadline), while no checkpoint may be written.
    #[must_use]
    pub fn deadline_of_status(&self, now: Moment) -> Moment {
        let is_due = self.is_reply_owed || self.is_reply_wanted || self.checkpointed > self.confirmed;
        if is_due { now } else { self.status_due() }
    }

    /// The watermark that the store holds.
    #[must_use]
    pub fn checkpointed_position(&self) -> Lsn {
        self.checkpointed
    }

    /// What the server was told.
    #[must_use]
    pub fn confirmed(&self) -> Lsn {
        self.confirmed
    }

    /// When a checkpoint of this watermark is due; `None` while there is nothing new, or one is under way.
    fn checkpoint_due(&self, watermark: Watermark, wanted: Wanted, now: Moment) -> Option<Moment> {
        let has_news = watermark.position > self.checkpointed || wanted == Wanted::InAnyCase;
        if self.saving.is_some() || !has_news {
            return None;
        }
        let wanted_at = match wanted {
            Wanted::InTime => self.wanted_at(watermark, now),
            Wanted::Now | Wanted::InAnyCase => now,
        };
        Some(self.not_before.map_or(wanted_at, |not_before| wanted_at.max(not_before)))
    }

    fn wanted_at(&self, watermark: Watermark, now: Moment) -> Moment {
        let events = watermark.events.saturating_sub(self.checkpointed_events);
        if self.is_start_unsaved || events >= self.settings.checkpoint_events {
            now
        } else if events > 0 {
            self.asked_at.after(self.settings.checkpoint_interval)
        } else if watermark.position.bytes_since(self.checkpointed) >= self.settings.idle_bytes {
            self.asked_at.after(self.settings.idle_interval)
        } else {
            self.asked_at.after(self.settings.idle_age)
        }
    }

    fn status_due(&self) -> Moment {
        self.told_at.after(self.settings.status_interval)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::port::Ticket;
    use crate::position::Timeline;

    const START: u64 = 1000;

    fn feedback(position: u64) -> Feedback {
        let start = Start {
            position: Lsn::new(position),
            checkpointed: Lsn::new(START),
            timeline: Timeline(1),
            commit_time: None,
            first_owed: None,
            settled_ahead: std::sync::Arc::default(),
            settled_rows: None,
            lessons: crate::session::Lessons::default(),
            inventory: crate::poison::Inventory::default(),
            first_ticket: Ticket(0),
            seed: 0,
        };
        let mut feedback = Feedback::new(Settings::default(), &start, at(0));
        assert!(feedback.poll_status(at(0)).is_some(), "the first is due at once");
        feedback
    }

    fn at(millis: u64) -> Moment {
        Moment::since_origin(Duration::from_millis(millis))
    }

    fn watermark(position: u64, events: u64) -> Watermark {
        Watermark { position: Lsn::new(position), commit_time: None, events }
    }

    #[test]
    fn a_checkpoint_is_due_by_what_has_settled_and_since_when() {
        let megabyte = START + (1 << 20);
        let cases = [
            ("nothing new", START, 0, None),
            ("events", START + 8, 1, Some(1000)),
            ("many events", START + 8, 50_000, Some(0)),
            ("a little of others", START + 8, 0, Some(300_000)),
            ("much of others", megabyte, 0, Some(10_000)),
            ("events and much of others", megabyte, 1, Some(1000)),
        ];
        for (what, position, events, due_ms) in cases {
            let mut feedback = feedback(START);
            let watermark = watermark(position, events);
            let Some(due_ms) = due_ms else {
                assert_eq!(feedback.poll_checkpoint(watermark, Wanted::Now, at(1_000_000_000)), None, "{what}");
                continue;
            };
            if due_ms > 0 {
                assert_eq!(feedback.poll_checkpoint(watermark, Wanted::InTime, at(due_ms - 1)), None, "{what}");
            }
            let progress = feedback.poll_checkpoint(watermark, Wanted::InTime, at(due_ms));
            assert_eq!(progress, Some(Progress { position: Lsn::new(position), commit_time: None }), "{what}");
        }
    }

    #[test]
    fn the_last_checkpoint_waits_for_no_interval() {
        let mut feedback = feedback(START);
        assert!(feedback.poll_checkpoint(watermark(START + 8, 0), Wanted::Now, at(1)).is_some());
    }

    #[test]
    fn a_start_that_the_store_does_not_hold_is_checkpointed_at_once_and_once() {
        let mut feedback = feedback(START + 500);
        assert!(feedback.poll_checkpoint(watermark(START + 500, 0), Wanted::InTime, at(0)).is_some());
        feedback.checkpointed();
        assert_eq!(feedback.checkpointed_position(), Lsn::new(START + 500));
        assert!(feedback.poll_checkpoint(watermark(START + 508, 0), Wanted::InTime, at(1)).is_none());
    }

    #[test]
    fn there_is_one_checkpoint_at_a_time() {
        let mut feedback = feedback(START);
        assert!(feedback.poll_checkpoint(watermark(START + 8, 1), Wanted::Now, at(0)).is_some());
        assert!(feedback.poll_checkpoint(watermark(START + 16, 2), Wanted::Now, at(60_000)).is_none());
        assert!(!feedback.is_checkpointed(watermark(START, 0)), "one is under way");
        feedback.checkpointed();
        assert!(feedback.is_checkpointed(watermark(START + 8, 1)));
        assert!(feedback.poll_checkpoint(watermark(START + 16, 2), Wanted::Now, at(60_000)).is_some());
    }

    #[test]
    fn what_becomes_durable_with_the_position_waits_for_no_news_of_it() {
        let mut feedback = feedback(START);
        let nothing_new = watermark(START, 0);
        assert!(feedback.poll_checkpoint(nothing_new, Wanted::Now, at(0)).is_none());
        assert_eq!(feedback.deadline(nothing_new, Wanted::InAnyCase, at(0)), at(0));
        assert!(feedback.poll_checkpoint(nothing_new, Wanted::InAnyCase, at(0)).is_some());
        assert!(feedback.poll_checkpoint(nothing_new, Wanted::InAnyCase, at(0)).is_none(), "one is under way");
        feedback.checkpointed();
        assert_eq!(feedback.checkpointed_position(), Lsn::new(START));
    }

    #[test]
    fn an_answer_that_nobody_awaits_changes_nothing() {
        let mut feedback = feedback(START);
        feedback.checkpointed();
        assert_eq!((feedback.checkpointed_position(), feedback.confirmed()), (Lsn::new(START), Lsn::new(START)));
    }

    #[test]
    fn a_failed_checkpoint_moves_nothing_and_is_tried_again_after_a_wait() {
        let mut feedback = feedback(START);
        let news = watermark(START + 8, 1);
        assert!(feedback.poll_checkpoint(news, Wanted::Now, at(0)).is_some());
        feedback.checkpoint_failed(at(0));
        assert_eq!((feedback.checkpointed_position(), feedback.poll_status(at(0))), (Lsn::new(START), None));
        assert!(feedback.poll_checkpoint(news, Wanted::Now, at(0)).is_none(), "not at once, also not the last");
        assert!(feedback.deadline(news, Wanted::Now, at(0)) <= at(100));
        assert!(feedback.poll_checkpoint(news, Wanted::Now, at(100)).is_some());
    }

    #[test]
    fn news_are_told_at_once_and_otherwise_the_timer_tells() {
        let mut feedback = feedback(START);
        assert!(feedback.poll_status(at(999)).is_none());
        assert!(feedback.poll_status(at(1000)).is_some());
        feedback.poll_checkpoint(watermark(START + 8, 1), Wanted::Now, at(1001));
        assert!(feedback.poll_status(at(1001)).is_none(), "it is not durable yet");
        feedback.checkpointed();
        let told = feedback.poll_status(at(1002)).map(|status| status.confirmed);
        assert_eq!(told, Some(Lsn::new(START + 8)));
        assert_eq!(feedback.deadline(watermark(START + 8, 1), Wanted::InTime, at(1002)), at(2002));
    }

    #[test]
    fn a_question_goes_out_once() {
        let mut feedback = feedback(START);
        feedback.ask_for_reply();
        assert_eq!(feedback.deadline(watermark(START, 0), Wanted::InTime, at(5)), at(5));
        assert_eq!(feedback.poll_status(at(5)).map(|status| status.reply_requested), Some(true));
        assert_eq!(feedback.poll_status(at(1005)).map(|status| status.reply_requested), Some(false));
    }
}
