//! How a session ends, and when: told to, for lack of a source, or because of what cannot be delivered.
//!
//! What is owed is awaited for the drain timeout and no longer. Where nothing is worth awaiting, because the sink or the slot may be another's by
//! now, it ends at once.

use std::sync::Arc;
use std::time::Duration;

use crate::failure::{Class, Failure};
use crate::position::Identity;
use crate::time::Moment;

use super::group::Group;
use super::{Cause, End, Phase, Session};

impl Session {
    pub(super) fn end(&mut self, cause: Cause, now: Moment) {
        let deadline = match (&self.phase, &cause) {
            (Phase::Running, _) => now.after(self.settings.drain_timeout),
            // What needs an operator takes the place of a stop and of a lost source; the deadline stays.
            (
                Phase::Ending { cause: Cause::Stopped | Cause::SourceLost | Cause::Silent, deadline },
                Cause::Broken(_) | Cause::Undeliverable(..) | Cause::Aborted(..),
            ) => *deadline,
            // A stop has its last checkpoint, also when the source goes away meanwhile.
            (Phase::Ending { cause: Cause::SourceLost | Cause::Silent, deadline }, Cause::Stopped) => *deadline,
            (Phase::Ending { .. } | Phase::Ended, _) => return,
        };
        self.phase = Phase::Ending { cause, deadline };
        // No more letters are looked for.
        self.outbound.letters.wait_no_longer();
    }

    /// Gives the group up. Nothing is awaited: whatever the sink still does belongs to what is given up.
    pub(super) fn abort(&mut self, identity: Option<Identity>, failure: Failure, now: Moment) {
        self.group.iter_mut().for_each(Group::break_off);
        self.end(Cause::Aborted(identity, failure), now);
        if let Phase::Ending { deadline, .. } = &mut self.phase {
            *deadline = now;
        }
    }

    /// The sink takes nothing more into the group. Where that is only because a record of it failed, the report of that one is awaited: it teaches
    /// the next session.
    pub(super) fn lose_group(&mut self, failure: Failure, now: Moment) {
        self.group.iter_mut().for_each(|group| group.lose(failure.clone()));
        if failure.class != Class::Withdrawn {
            return self.abort(None, failure, now);
        }
        self.give_up_lost_group(now);
    }

    /// Gives up a group that is lost once no report is awaited any more.
    pub(super) fn give_up_lost_group(&mut self, now: Moment) {
        let lost = self.group.as_ref().and_then(Group::lost).filter(|_| self.outbound.ledger.out() == 0);
        if let Some(failure) = lost.cloned() {
            self.abort(None, failure, now);
        }
    }

    pub(super) fn end_on_verdict(&mut self, now: Moment) {
        let Some(verdict) = self.outbound.verdict() else { return };
        debug_assert!(verdict.identity.is_some(), "whatever fails is a row's");
        if let Some(identity) = verdict.identity {
            self.end(Cause::Undeliverable(identity, verdict.failure.clone()), now);
        }
    }

    /// A process that slept past the silence timeout, by the clock that the driver reads, may have lost its slot to another,
    /// which went on. It publishes nothing more: the session ends at once, and what is with the sink is taken back.
    pub(super) fn watch_sleep(&mut self, now: Moment) {
        let slept = now.since(std::mem::replace(&mut self.polled_at, now));
        if slept >= self.settings.silence_timeout && !matches!(self.phase, Phase::Ended) {
            self.end(Cause::Silent, now);
            if let Phase::Ending { deadline, .. } = &mut self.phase {
                *deadline = now;
            }
        }
    }

    pub(super) fn watch_silence(&mut self, now: Moment) {
        if !matches!(self.phase, Phase::Running) {
            return;
        }
        if !self.wants_frames() {
            // It is we who do not listen.
            self.heard_at = now;
        } else if now.since(self.heard_at) >= self.settings.silence_timeout {
            self.end(Cause::Silent, now);
        } else if now.since(self.heard_at) >= self.settings.silence_timeout / 2 && !self.is_asked_for_life {
            self.is_asked_for_life = true;
            self.feedback.ask_for_reply();
        }
    }

    /// When silence is worth a look again.
    pub(super) fn silence_step(&self) -> Duration {
        if self.is_asked_for_life { self.settings.silence_timeout } else { self.settings.silence_timeout / 2 }
    }

    /// Whether the session is ending and nothing is awaited any more. What the sink got now would come again for certain.
    pub(super) fn is_out_of_time(&self, now: Moment) -> bool {
        matches!(&self.phase, Phase::Ending { deadline, .. } if now >= *deadline)
    }

    /// Whether the session is ending and nothing more will be settled.
    pub(super) fn is_settled_for_good(&self, now: Moment) -> bool {
        match &self.phase {
            Phase::Running => false,
            Phase::Ending { .. } if self.is_out_of_time(now) => true,
            Phase::Ending { cause: Cause::Undeliverable(..), .. } => {
                self.outbound.ledger.out() == 0 && self.outbound.letters.is_quiet()
            }
            Phase::Ending { cause, .. } if self.group.is_some() && *cause != Cause::Stopped => {
                self.outbound.ledger.out() == 0
            }
            Phase::Ending { .. } => {
                self.owed().records == 0 && self.held.is_none() && !self.goes_on() && self.are_letters_done()
            }
            Phase::Ended => true,
        }
    }

    /// Whether what went again has arrived, and the store knows.
    fn are_letters_done(&self) -> bool {
        self.outbound.ledger.letters() == 0 && self.outbound.letters.is_quiet()
    }

    pub(super) fn poll_end(&mut self, now: Moment) -> Option<End> {
        let Phase::Ending { cause, deadline } = &self.phase else { return None };
        let watermark = self.outbound.ledger.watermark();
        // The next session of this process takes up from memory, and need not wait for a store that may be gone as well.
        let goes_on = match &self.group {
            None => matches!(cause, Cause::SourceLost | Cause::Silent),
            // Except that of a group nothing is left in memory to take up from.
            Some(group) => !self.can_commit(group) && !self.feedback.is_saving(),
        };
        let is_committed = self.group.as_ref().is_none_or(Group::is_empty);
        let is_saved = self.feedback.is_checkpointed(watermark) && is_committed;
        let is_done = self.is_settled_for_good(now) && (goes_on || is_saved);
        if !is_done && now < *deadline {
            return None;
        }
        let Phase::Ending { cause, .. } = std::mem::replace(&mut self.phase, Phase::Ended) else { return None };
        Some(End {
            cause,
            position: if self.group.is_some() { self.checkpointed_position() } else { watermark.position },
            commit_time: watermark.commit_time,
            first_owed: if self.group.is_some() { None } else { self.first_owed() },
            settled_ahead: match &self.group {
                Some(_) => Arc::default(),
                None => self.inbound.settled_ahead(&self.outbound.ledger),
            },
            lessons: Box::new(self.outbound.lessons_for_the_next()),
            next_ticket: self.outbound.ledger.next_ticket(),
            unsettled: self.owed().records + usize::from(self.held.is_some()),
            unsaved: self.feedback.unsaved(watermark),
            out: self.outbound.ledger.out(),
            needs_reset: self.outbound.needs_reset()
                || self.group.as_ref().is_some_and(|group| !group.is_empty() || group.is_broken())
                || (self.group.is_some() && self.feedback.is_saving()),
        })
    }

    /// The first event in the order of the log that is not settled, as far as it is known.
    fn first_owed(&self) -> Option<Identity> {
        let held = self.held.as_ref().map(|item| item.identity);
        self.outbound.ledger.first_owed().or(held).or_else(|| self.inbound.next_identity())
    }
}
