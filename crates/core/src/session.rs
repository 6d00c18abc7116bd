//! The state machine of one replication connection: input → state → actions.
//!
//! A session is born with a start position for one connection and dies with it, so a stale relation, an open transaction or
//! a late delivery cannot outlive the connection that it came from. It decides and never does: the driver feeds it frames,
//! deliveries and the time, and performs what [`Session::poll`] says until there is nothing more to do.
//!
//! # Invariants
//!
//! Each is a `debug_assert` here or in a part, and a property of the simulation.
//!
//! 1. `confirmed ≤ checkpointed ≤ watermark ≤ received`, and each of them only rises.
//! 2. The watermark rests on a commit's end LSN, or on a keepalive's WAL end while nothing is owed.
//! 3. A ticket settles once.
//! 4. Records leave in the order of the log; only what was not acknowledged leaves again.
//! 5. What is owed never exceeds the limits, in records and in bytes, but for one record larger than them all. With what
//!    is settled after it, it spans at most four times as many records.
//! 6. A frame applies wholly or ends the session.
//! 7. A COMMIT matches its BEGIN.
//! 8. No frame is taken while the description of an outbox is awaited, so every row is read by its newest shape, described.
//! 9. A dead letter is durable before its ticket settles, or becomes so with the position behind it and not without. While a letter of a key
//!    lies there, no later row of that key is published, unless the policy lets it overtake.
//! 10. Where records and position are committed as one ([`Settings::grouping`]), nothing is checkpointed but by a commit, at the end of a
//!     transaction, of all that was handed over: records, letters, and how letters ended; and nothing is handed over while it is under way.
//! 11. Of a letter that goes again the same commit makes durable that it went. One that has ended is not taken up again.
//! 12. A group is not held open in the midst of a transaction for more than a grace: it is given up.

mod commit;
mod ending;
mod group;
mod inbound;
mod lessons;
mod letters;
mod outbound;
#[cfg(test)]
mod simulation;
mod terms;
#[cfg(test)]
mod tests;
mod view;

use crate::backoff::Backoff;
use crate::description::Description;
use crate::failure::Failure;
use crate::feedback::Feedback;
use crate::frame::Frame;
use crate::ledger::{Item, Ledger, Origin};
use crate::outbox::Outboxes;
use crate::poison::{Inventory, LetterId, Marked, Request};
use crate::port::{Delivery, Refusal, Ticket};
use crate::time::Moment;

use group::Group;
pub use group::Grouping;
use inbound::Inbound;
pub use inbound::{Counters, Notice, SessionError};
pub use lessons::Lessons;
use letters::Letters;
use outbound::Outbound;
pub use terms::{Action, Cause, End, Settings, Start};
pub use view::View;

/// While one partition hangs, others may get ahead by so many times [`Settings::max_records`]. A settled record keeps a
/// place in the books until those before it are settled, and places are memory too.
const SPAN: usize = 4;

/// So many places more are there for letters that go again, while a row is held that they are to make way for.
const LETTER_SPAN: usize = 1000;

/// See the module's documentation.
#[derive(Debug)]
pub struct Session {
    settings: Settings,
    inbound: Inbound,
    outbound: Outbound,
    feedback: Feedback,
    /// See [`Settings::grouping`].
    group: Option<Group>,
    /// A row that does not fit beside what is owed. No frame is taken before it.
    held: Option<Item>,
    phase: Phase,
    is_source_lost: bool,
    heard_at: Moment,
    polled_at: Moment,
    /// The server was asked for a sign of life and has given none.
    is_asked_for_life: bool,
}

/// The phases of a session's life.
#[derive(Debug)]
enum Phase {
    Running,
    /// Nothing new is taken; what is owed is awaited until the deadline.
    Ending {
        cause: Cause,
        deadline: Moment,
    },
    Ended,
}

impl Session {
    /// A session on a connection that has just started to stream.
    #[must_use]
    pub fn new(settings: Settings, outboxes: Outboxes, mut start: Start, now: Moment) -> Self {
        let inventory = std::mem::take(&mut start.inventory);
        let ledger = Ledger::new(start.first_ticket, start.position, start.commit_time);
        let backoff =
            |part| Backoff::new(settings.retry_initial, settings.retry_ceiling, start.seed.wrapping_add(part));
        let letters = Letters::new(settings.poison.clone(), inventory, backoff(2));
        let mut outbound = Outbound::new(ledger, letters, backoff(0));
        if settings.grouping.is_some() {
            let mut lessons = std::mem::take(&mut start.lessons);
            lessons.forget_before(start.position);
            lessons.forget_other_timelines(start.timeline);
            outbound.commit_in_groups(lessons);
        }
        let mut session = Self {
            inbound: Inbound::new(outboxes, settings.poison.on_bad_row, &start),
            outbound,
            feedback: Feedback::new(settings.feedback.clone(), &start, now),
            group: settings.grouping.clone().map(Group::new),
            held: None,
            phase: Phase::Running,
            is_source_lost: false,
            heard_at: now,
            polled_at: now,
            is_asked_for_life: false,
            settings,
        };
        // Where it starts may be where it was to stop, and on a quiet server no frame would come to tell.
        if session.has_reached_its_stop() {
            session.stop(now);
        }
        session
    }

    /// Whether the next frame may be given to [`receive`](Self::receive). While not, leave it where it is.
    #[must_use]
    pub fn wants_frames(&self) -> bool {
        self.goes_on() && self.has_room() && !self.inbound.is_awaiting_description()
    }

    /// Takes in the next frame of the stream. One that cannot be applied ends the session; see [`Cause::Broken`].
    pub fn receive(&mut self, frame: &Frame, now: Moment) {
        if !self.wants_frames() {
            return self.end(Cause::Broken(SessionError::NotReady), now);
        }
        self.heard_at = now;
        self.is_asked_for_life = false;
        let applied = match frame {
            Frame::XLogData(data) => self.inbound.apply(data, &mut self.outbound.ledger).map(|item| {
                if let Some(item) = item {
                    self.admit_or_hold(item);
                }
            }),
            Frame::Keepalive(keepalive) => {
                self.inbound.on_keepalive(keepalive, &mut self.outbound.ledger);
                if keepalive.reply_requested {
                    self.feedback.reply_requested();
                }
                Ok(())
            }
        };
        match applied {
            Err(error) => self.end(Cause::Broken(error), now),
            Ok(()) if self.has_reached_its_stop() => self.stop(now),
            Ok(()) => {}
        }
        self.check();
    }

    /// The sink did not accept a record that [`Action::Publish`] offered.
    pub fn refused(&mut self, ticket: Ticket, refusal: Refusal, now: Moment) {
        let was_offered = self.outbound.ledger.is_out(ticket);
        let failure = match &refusal {
            Refusal::Full => None,
            Refusal::Failed(failure) => Some(failure.clone()),
        };
        self.outbound.refused(ticket, refusal, now);
        self.end_on_verdict(now);
        let Some(group) = self.group.as_mut().filter(|_| was_offered) else { return };
        group.take_back();
        // A sink that has to be made anew has lost what it had of the group.
        if let Some(failure) = failure.filter(|_| self.outbound.is_giving_back()) {
            self.lose_group(failure, now);
        }
    }

    /// The sink did not take what [`Action::SetAside`] or [`Action::Conclude`] offered, where it is the store of the letters.
    pub fn letter_refused(&mut self, refusal: Refusal, now: Moment) {
        let Some(group) = &mut self.group else { return };
        group.take_back();
        self.outbound.letter_waits(now);
        if let Refusal::Failed(failure) = refusal {
            self.lose_group(failure, now);
        }
    }

    /// The sink reported on a record.
    pub fn settle(&mut self, delivery: Delivery, now: Moment) {
        let failed = self.failed_in_group(&delivery);
        self.outbound.settle(delivery, now);
        self.end_on_verdict(now);
        if let Some((identity, failure)) = failed {
            self.abort(identity, failure, now);
        }
        self.give_up_lost_group(now);
        self.admit_held();
        self.check();
    }

    /// The answer to [`Action::Describe`], of this session: a relation is described as it was after the question. One that is not
    /// awaited changes nothing.
    pub fn described(&mut self, relation: u32, description: &Description) {
        // A shape that was told after the question is asked about by itself.
        if self.outbound.letters.is_awaiting(relation) {
            return self.route_letters(relation, description);
        }
        self.inbound.described(relation, description);
    }

    /// A row that [`Action::SetAside`] told of is durable; `is_new` unless a letter of it lay there already.
    pub fn set_aside(&mut self, ticket: Ticket, is_new: bool) {
        self.outbound.row_set_aside(ticket, is_new);
        self.admit_held();
        self.check();
    }

    /// The end that [`Action::Conclude`] told of is durable.
    pub fn concluded(&mut self, letter: LetterId) {
        self.outbound.letters.concluded(letter);
    }

    /// The answer to [`Action::TakeInventory`].
    pub fn inventoried(&mut self, inventory: Inventory) {
        let next_ticket = self.outbound.ledger.next_ticket();
        self.outbound.letters.inventoried(inventory, next_ticket);
    }

    /// The store of the letters has failed. What it was asked for and has not answered is asked for again, after a while.
    pub fn letters_failed(&mut self, reason: &str, now: Moment) {
        self.outbound.letters.store_failed(reason, now);
    }

    /// Whether records, letters and position are committed as one: [`Action::SetAside`] and [`Action::Conclude`] go to the sink then.
    #[must_use]
    pub fn is_grouping(&self) -> bool {
        self.group.is_some()
    }

    /// Whether letters may lie there that an operator has marked, and none of them is under way.
    #[must_use]
    pub fn wants_marked(&self) -> bool {
        matches!(self.phase, Phase::Running) && self.outbound.letters.wants_marked()
    }

    /// Letters that an operator marked, in order, of each key those that come next. They come on top of what may be owed, and a session
    /// that ends forgets them: they are still marked.
    pub fn replay(&mut self, marked: Vec<Marked>) {
        if !matches!(self.phase, Phase::Running) {
            return;
        }
        self.outbound.letters.look_anew(marked.iter().map(|marked| marked.id).min());
        let has_places = self.outbound.ledger.span() < self.max_span().saturating_add(LETTER_SPAN);
        for marked in marked.into_iter().filter(|marked| has_places || marked.request == Request::Drop) {
            self.outbound.on_marked(marked);
        }
        self.outbound.letters.see_what_leaves(self.polled_at);
    }

    /// The outcome of [`Action::ResetSink`].
    pub fn sink_reset(&mut self, outcome: Result<(), Failure>, now: Moment) {
        self.outbound.sink_reset(outcome, now);
        self.end_on_verdict(now);
    }

    /// The checkpoint that [`Action::Checkpoint`] asked for is durable.
    pub fn checkpointed(&mut self) {
        self.feedback.checkpointed();
        self.check();
    }

    /// The checkpoint that [`Action::Checkpoint`] asked for could not be written. It is tried again.
    pub fn checkpoint_failed(&mut self, now: Moment) {
        self.feedback.checkpoint_failed(now);
    }

    /// The outcome of [`Action::Commit`]. A failure ends the session, for what was to be committed is not in memory any more.
    pub fn committed(&mut self, outcome: Result<(), Failure>, now: Moment) {
        match outcome {
            Ok(()) => {
                self.feedback.checkpointed();
                self.group.iter_mut().for_each(Group::committed);
                self.outbound.committed(self.feedback.checkpointed_position());
            }
            Err(failure) => {
                self.feedback.checkpoint_failed(now);
                self.abort(None, failure, now);
            }
        }
        self.check();
    }

    /// The stream has ended without being told to.
    pub fn source_lost(&mut self, now: Moment) {
        self.is_source_lost = true;
        self.end(Cause::SourceLost, now);
    }

    /// Finish: the open transaction, what is owed, the last checkpoint, the last confirmation.
    pub fn stop(&mut self, now: Moment) {
        self.end(Cause::Stopped, now);
    }

    /// What to do next; `None` until the next input or [`deadline`](Self::deadline), and for ever after [`Action::End`].
    pub fn poll(&mut self, now: Moment) -> Option<Action<'_>> {
        self.watch_sleep(now);
        if matches!(self.phase, Phase::Ended) {
            return None;
        }
        self.watch_silence(now);
        let age = self.group.as_mut().and_then(|group| group.take_age(now));
        let age = age.map(|(age, timeout)| Notice::GroupOld(age, timeout));
        if let Some(notice) = age.or_else(|| self.inbound.take_notice()) {
            return Some(Action::Notice(notice));
        }
        if !self.is_out_of_time(now) {
            if self.takes_question() {
                return self.inbound.undescribed().map(|(relation, table)| Action::Describe(relation, table));
            }
            if self.takes_question_of_letters() {
                return self.outbound.letters.undescribed().map(|(relation, table)| Action::Describe(relation, table));
            }
            // The reset of a sink that has lost a group is for the next session.
            if self.group.is_none() && self.outbound.take_reset(now) {
                return Some(Action::ResetSink);
            }
            if let Some(ticket) = self.next_publication(now) {
                return self.outbound.record(ticket).map(|record| Action::Publish(ticket, record));
            }
            if let Some(order) = self.next_order(now) {
                return self.order(order, now);
            }
            self.watch_hold(now);
        }
        if let Some(progress) = self.poll_progress(now) {
            return Some(if self.group.is_some() { Action::Commit(progress) } else { Action::Checkpoint(progress) });
        }
        if let Some(status) = self.feedback.poll_status(now) {
            self.check();
            return Some(Action::Confirm(status));
        }
        self.poll_end(now).map(Action::End)
    }

    /// When to poll again if no input comes before.
    #[must_use]
    pub fn deadline(&self, now: Moment) -> Moment {
        let watermark = self.outbound.ledger.watermark();
        let feedback = match self.wanted_progress(now) {
            Some(wanted) => self.feedback.deadline(watermark, wanted, now),
            None => self.feedback.deadline_of_status(now),
        };
        let of_group = self.group.iter().flat_map(|group| [group.old_at(), group.hold_ends_at()]).flatten();
        let phase = match &self.phase {
            Phase::Running => self.heard_at.after(self.silence_step()),
            Phase::Ending { deadline, .. } => *deadline,
            Phase::Ended => now,
        };
        // However long the waits that are configured: a driver that is later than this was not waiting but asleep.
        let awake = self.polled_at.after(self.settings.silence_timeout / 2);
        self.outbound.deadline(now).into_iter().chain(of_group).chain([feedback, phase]).fold(awake, Moment::min)
    }

    fn has_reached_its_stop(&self) -> bool {
        self.settings.stop_at.is_some_and(|position| self.received() >= position) && !self.inbound.is_in_transaction()
    }

    /// Whether frames are still to be taken, now or after what they wait for.
    fn goes_on(&self) -> bool {
        match &self.phase {
            Phase::Running => true,
            // A stop waits for the end of the transaction that is open, so that a restart repeats none of it.
            Phase::Ending { cause: Cause::Stopped, .. } => !self.is_source_lost && self.inbound.is_in_transaction(),
            Phase::Ending { .. } | Phase::Ended => false,
        }
    }

    fn has_room(&self) -> bool {
        let has_places = self.outbound.ledger.span() < self.max_span();
        self.held.is_none() && self.owed().records < self.settings.max_records && has_places
    }

    fn max_span(&self) -> usize {
        self.settings.max_records.saturating_mul(SPAN)
    }

    fn admit_or_hold(&mut self, item: Item) {
        debug_assert!(self.held.is_none(), "no frame is taken while a row is held");
        if self.fits(&item) {
            self.outbound.ledger.issue(item);
        } else {
            self.held = Some(item);
        }
    }

    fn admit_held(&mut self) {
        if let Some(item) = self.held.take() {
            self.admit_or_hold(item);
        }
    }

    /// A row larger than the whole budget is admitted when nothing else is owed.
    fn fits(&self, item: &Item) -> bool {
        let owed = self.owed();
        owed.records == 0
            || (owed.records < self.settings.max_records
                && owed.bytes.saturating_add(item.weight()) <= self.settings.max_bytes)
    }

    /// Whether a description has to be asked for. One question at a time: no answer may be taken for another's.
    fn takes_question(&mut self) -> bool {
        self.goes_on() && !self.outbound.letters.is_asking() && self.inbound.take_question()
    }

    fn takes_question_of_letters(&mut self) -> bool {
        let is_free = matches!(self.phase, Phase::Running) && !self.inbound.is_awaiting_description();
        is_free && self.outbound.letters.take_question()
    }

    /// Letters get a record as the configuration is today, or lie there still.
    fn route_letters(&mut self, relation: u32, description: &Description) {
        for Marked { id, letter, .. } in self.outbound.letters.take_described(relation) {
            // One of its key in front of it may just have come back.
            if !self.outbound.letters.is_going(id) {
                continue;
            }
            match self.inbound.route_anew(&letter, description) {
                Ok(record) => {
                    let origin = Origin::Letter(id);
                    self.outbound.ledger.issue(Item { identity: letter.identity, made: Ok(record), origin });
                }
                Err(fault) => self.outbound.give_back(id, fault.reason),
            }
        }
    }

    fn check(&self) {
        debug_assert!(self.confirmed() <= self.checkpointed_position(), "confirmed before it was durable");
        debug_assert!(self.checkpointed_position() <= self.watermark(), "checkpointed before it was settled");
        debug_assert!(self.watermark() <= self.received(), "settled before it was received");
    }
}
