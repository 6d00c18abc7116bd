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

mod group;
mod inbound;
mod lessons;
mod letters;
mod outbound;
#[cfg(test)]
mod simulation;
#[cfg(test)]
mod tests;
mod view;

use std::time::Duration;

use crate::backoff::Backoff;
use crate::description::Description;
use crate::failure::Failure;
use crate::feedback::{self, Feedback, Wanted};
use crate::frame::{Frame, StatusUpdate};
use crate::ledger::{Item, Ledger, Load, Origin};
use crate::lsn::Lsn;
use crate::outbox::{Outboxes, TableName};
use crate::poison::{Conclusion, DeadLetter, Inventory, LetterId, Marked, Policy, Request};
use crate::port::{Delivery, Refusal, Ticket};
use crate::position::{Identity, Progress, SettledRows, Timeline};
use crate::record::Record;
use crate::time::{Moment, Timestamp};

use group::Group;
pub use group::Grouping;
use inbound::Inbound;
pub use inbound::{Counters, Notice, SessionError};
pub use lessons::Lessons;
use letters::{Letters, Order};
use outbound::Outbound;
pub use view::View;

/// What an operator may choose about a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// The most rows that may be owed at once.
    pub max_records: usize,
    /// The most bytes of rows that may be owed at once, by [`Item::weight`].
    pub max_bytes: usize,
    /// Checkpoints and status updates.
    pub feedback: feedback::Settings,
    /// The first wait after a failed delivery.
    pub retry_initial: Duration,
    /// The longest wait between deliveries that fail.
    pub retry_ceiling: Duration,
    /// A source that says nothing for so long is taken for dead. At half of it the server is asked for a sign of life.
    pub silence_timeout: Duration,
    /// How long an ending session waits for what is owed and for its last checkpoint.
    pub drain_timeout: Duration,
    /// Stop by itself once everything before this position was received.
    pub stop_at: Option<Lsn>,
    /// The sink commits records and position as one: [`Action::Commit`] takes the place of [`Action::Checkpoint`].
    pub grouping: Option<Grouping>,
    /// What becomes of rows that cannot be delivered.
    pub poison: Policy,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            max_records: 10_000,
            max_bytes: 16 << 20,
            feedback: feedback::Settings::default(),
            retry_initial: Duration::from_millis(100),
            retry_ceiling: Duration::from_secs(30),
            silence_timeout: Duration::from_secs(60),
            drain_timeout: Duration::from_secs(10),
            stop_at: None,
            grouping: None,
            poison: Policy::default(),
        }
    }
}

/// Where a session takes up the log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Everything before it is settled.
    pub position: Lsn,
    /// What the checkpoint store holds: lower than the position after a connection that was lost before its last checkpoint.
    pub checkpointed: Lsn,
    /// The timeline that the server is on.
    pub timeline: Timeline,
    /// When the last settled transaction committed, if known.
    pub commit_time: Option<Timestamp>,
    /// The first event after the position that the last session of this process did not settle, where it knows one: those
    /// of its transaction that come before it are not published again.
    pub first_owed: Option<Identity>,
    /// Rows after the position that another relay published before us.
    pub settled_rows: Option<SettledRows>,
    /// What earlier sessions of this process learned of records that fail, where each takes its group with it.
    pub lessons: Lessons,
    /// What lies with the dead letters.
    pub inventory: Inventory,
    /// The first ticket of this session: higher than any that was used in this process.
    pub first_ticket: Ticket,
    /// For the jitter of its waits.
    pub seed: u64,
}

/// What the driver has to do.
#[derive(Debug)]
pub enum Action<'a> {
    /// Log it.
    Notice(Notice),
    /// Hand the record to the sink; a refusal goes to [`Session::refused`].
    Publish(Ticket, &'a Record),
    /// Set the row aside, behind all that the store was asked for before; the answer goes to [`Session::set_aside`]. Where the store fails, here
    /// or at one of the next two, it is asked for nothing more of what came before the failure, and that goes to
    /// [`Session::letters_failed`]. Where records and position are committed as one, the store is the sink, and what it does not take goes to
    /// [`Session::letter_refused`].
    SetAside(Ticket, Box<DeadLetter>),
    /// Write down how a marked letter ended, in the same order; the answer goes to [`Session::concluded`].
    Conclude(LetterId, Conclusion),
    /// Take the inventory of the letters, in the same order; it goes to [`Session::inventoried`].
    TakeInventory,
    /// Ask the catalogue for what pgoutput does not tell of this relation, which is this outbox; the answer goes to
    /// [`Session::described`]. No frame is taken before, so whoever gets no answer asks again until there is one.
    Describe(u32, &'a TableName),
    /// Reset the sink; the outcome goes to [`Session::sink_reset`].
    ResetSink,
    /// Make it durable; the outcome goes to [`Session::checkpointed`] or [`Session::checkpoint_failed`].
    Checkpoint(Progress),
    /// Commit all that was published since the last commit together with this; the outcome goes to [`Session::committed`].
    Commit(Progress),
    /// Send it to the server. Nothing if the source is lost.
    Confirm(StatusUpdate),
    /// The session is over, and so is its connection.
    End(End),
}

/// How a session ended, and where the next one takes up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct End {
    /// Why.
    pub cause: Cause,
    /// The watermark. The checkpoint store may not hold it yet where the next session of this process takes up.
    pub position: Lsn,
    /// When the last settled transaction committed, if known.
    pub commit_time: Option<Timestamp>,
    /// See [`Start::first_owed`].
    pub first_owed: Option<Identity>,
    /// See [`Start::lessons`].
    pub lessons: Lessons,
    /// See [`Start::first_ticket`].
    pub next_ticket: Ticket,
    /// How many rows were taken from the log and are not settled. The next session publishes them again.
    pub unsettled: usize,
    /// How many settled records the checkpoint store is not known to hold. A process that starts anew publishes them again.
    pub unsaved: u64,
    /// How many records the sink still has.
    pub out: usize,
    /// The sink must be reset before the next session gets it: it still has records, or it failed one and was not made anew.
    pub needs_reset: bool,
}

impl End {
    /// Whether the rows before the first one owed were settled and those after it of the same transaction were not: a process
    /// that starts anew knows whole transactions only, and publishes the former again.
    #[must_use]
    pub fn is_within_transaction(&self) -> bool {
        self.first_owed.is_some_and(|first| first.ordinal > 0)
    }
}

/// Why a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// It was told to stop.
    Stopped,
    /// Its source went away.
    SourceLost,
    /// Its source said nothing for the silence timeout.
    Silent,
    /// A frame could not be applied.
    Broken(SessionError),
    /// A record cannot be delivered, and waiting does not help.
    Undeliverable(Identity, Failure),
    /// What was to be committed as one was not, or nobody knows whether it was; with the row at fault, where it was one. The next session finds out
    /// from the checkpoint.
    Aborted(Option<Identity>, Failure),
}

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
            let identity = self.outbound.record(ticket).map(|record| record.identity);
            self.abort(identity, failure, now);
        }
    }

    /// The sink did not take what [`Action::SetAside`] or [`Action::Conclude`] offered, where it is the store of the letters.
    pub fn letter_refused(&mut self, refusal: Refusal, now: Moment) {
        let Some(group) = &mut self.group else { return };
        group.take_back();
        self.outbound.letter_waits(now);
        if let Refusal::Failed(failure) = refusal {
            self.abort(None, failure, now);
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

    /// Letters that an operator marked, of each key at most the one that comes next. They come on top of what may be owed, and a session
    /// that ends forgets them: they are still marked.
    pub fn replay(&mut self, marked: Vec<Marked>) {
        if !matches!(self.phase, Phase::Running) {
            return;
        }
        let has_places = self.outbound.ledger.span() < self.max_span().saturating_add(LETTER_SPAN);
        for marked in marked.into_iter().filter(|marked| has_places || marked.request == Request::Drop) {
            let Some(Marked { id, letter, .. }) = self.outbound.on_marked(marked) else { continue };
            if let Some(record) = letter.record {
                self.issue_letter(id, letter.identity, record);
            }
        }
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
            if self.outbound.take_reset(now) {
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

    /// Everything before it is settled.
    #[must_use]
    pub fn watermark(&self) -> Lsn {
        self.outbound.ledger.watermark().position
    }

    /// The watermark that the checkpoint store holds.
    #[must_use]
    pub fn checkpointed_position(&self) -> Lsn {
        self.feedback.checkpointed_position()
    }

    /// What the server was told.
    #[must_use]
    pub fn confirmed(&self) -> Lsn {
        self.feedback.confirmed()
    }

    /// The end of what was taken in.
    #[must_use]
    pub fn received(&self) -> Lsn {
        self.inbound.received()
    }

    /// What was taken from the log and is not settled.
    #[must_use]
    pub fn owed(&self) -> Load {
        self.outbound.ledger.owed()
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let letters::Counts { set_aside, parked, replayed, returned, given_up } = self.outbound.letters.counts;
        let stale_reports = self.outbound.stale_reports;
        Counters { stale_reports, set_aside, parked, replayed, returned, given_up, ..self.inbound.counters() }
    }

    /// How many keys have letters that are neither sent nor dropped, as far as it is known.
    #[must_use]
    pub fn parked_keys(&self) -> usize {
        self.outbound.letters.parked_keys()
    }

    /// How many letters are neither sent nor dropped, as far as it is known.
    #[must_use]
    pub fn open_letters(&self) -> u64 {
        self.outbound.letters.open()
    }

    /// Why records are held, if they are.
    #[must_use]
    pub fn trouble(&self) -> Option<&Failure> {
        self.outbound.trouble()
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

    /// What to ask of the store of the letters now. Where that is the sink, letters are added to the group on the terms of records; only how one
    /// ended that is in it already is said also when nothing more is to come.
    fn next_order(&mut self, now: Moment) -> Option<Order> {
        let takes_rows = match &self.group {
            None => true,
            Some(group) if group.is_broken() || self.feedback.is_saving() => return None,
            Some(_) => self.takes_more(),
        };
        self.outbound.next_order(takes_rows, now)
    }

    fn order(&mut self, order: Order, now: Moment) -> Option<Action<'_>> {
        let (action, weight) = match order {
            Order::SetAside(ticket, cause) => {
                let letter = Box::new(self.outbound.letter(ticket, cause)?);
                let weight = letter.weight();
                (Action::SetAside(ticket, letter), weight)
            }
            Order::Conclude(letter, conclusion) => (Action::Conclude(letter, conclusion), Record::OVERHEAD),
            Order::TakeInventory => return Some(Action::TakeInventory),
        };
        self.group.iter_mut().for_each(|group| group.add(weight, now));
        Some(action)
    }

    /// Letters without a record get one as the configuration is today, or lie there still.
    fn route_letters(&mut self, relation: u32, description: &Description) {
        for Marked { id, letter, .. } in self.outbound.letters.take_described(relation) {
            match self.inbound.route_anew(&letter, description) {
                Ok(record) => self.issue_letter(id, letter.identity, record),
                Err(fault) => self.outbound.letters.end(id, Conclusion::Returned(fault.reason)),
            }
        }
    }

    fn issue_letter(&mut self, letter: LetterId, identity: Identity, record: Record) {
        self.outbound.ledger.issue(Item { identity, made: Ok(record), origin: Origin::Letter(letter) });
    }

    fn end(&mut self, cause: Cause, now: Moment) {
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
    }

    /// The next record to hand over, if one may go now.
    fn next_publication(&mut self, now: Moment) -> Option<Ticket> {
        if !self.may_hand_over(now) {
            self.outbound.pass(now);
            return None;
        }
        let ticket = self.outbound.next_publication(now)?;
        if let (Some(group), Some(record)) = (&mut self.group, self.outbound.record(ticket)) {
            group.add(record.weight(), now);
        }
        Some(ticket)
    }

    /// Whether records may be added to the group, where there are groups.
    fn may_hand_over(&self, now: Moment) -> bool {
        let Some(group) = &self.group else { return true };
        let is_closed = group.is_full(now) && self.outbound.ledger.is_between_transactions();
        self.takes_more() && !is_closed && !group.is_broken() && !self.feedback.is_saving()
    }

    /// Whether what was taken from the log goes into the group still. A session that ends for lack of its source may lack the end of a transaction
    /// too, and adds nothing.
    fn takes_more(&self) -> bool {
        matches!(self.phase, Phase::Running | Phase::Ending { cause: Cause::Stopped, .. })
    }

    /// What is to be made durable now, if anything is.
    fn poll_progress(&mut self, now: Moment) -> Option<Progress> {
        let wanted = self.wanted_progress(now)?;
        self.feedback.poll_checkpoint(self.outbound.ledger.watermark(), wanted, now)
    }

    /// How soon progress is wanted durable; `None` while it cannot be: a group is committed as a whole, once the sink has all of it and no more is
    /// to come. Where it is held up between transactions no more is to come, and what is open keeps readers waiting.
    fn wanted_progress(&self, now: Moment) -> Option<Wanted> {
        let in_time = if self.is_settled_for_good(now) { Wanted::Now } else { Wanted::InTime };
        let Some(group) = &self.group else { return Some(in_time) };
        if !self.can_commit(group) || self.is_out_of_time(now) {
            return None;
        }
        let grows = self.outbound.has_more() && self.may_hand_over(now);
        match group.is_empty() {
            true => Some(in_time),
            false => (!grows).then_some(Wanted::InAnyCase),
        }
    }

    fn can_commit(&self, group: &Group) -> bool {
        !group.is_broken() && self.outbound.ledger.is_at_rest() && !self.outbound.letters.has_ends()
    }

    /// Gives a group up that is held up in the midst of a transaction for too long. The next session begins that one anew, and what of it was
    /// there already keeps nobody waiting until then.
    fn watch_hold(&mut self, now: Moment) {
        let is_within = !self.outbound.ledger.is_between_transactions() && !self.feedback.is_saving();
        let Some(group) = &mut self.group else { return };
        match self.outbound.hold_up().filter(|_| is_within && !group.is_empty()) {
            None => group.go_on(),
            Some(trouble) => {
                group.hold(now);
                if group.hold_ends_at().is_some_and(|end| now >= end) {
                    self.abort(None, trouble.clone(), now);
                }
            }
        }
    }

    /// The row and the failure of a delivery that takes its group with it.
    fn failed_in_group(&self, delivery: &Delivery) -> Option<(Option<Identity>, Failure)> {
        self.group.as_ref().filter(|_| self.outbound.ledger.is_out(delivery.ticket))?;
        let failure = delivery.outcome.as_ref().err()?.clone();
        Some((self.outbound.record(delivery.ticket).map(|record| record.identity), failure))
    }

    /// Gives the group up. Nothing is awaited: whatever the sink still does belongs to what is given up.
    fn abort(&mut self, identity: Option<Identity>, failure: Failure, now: Moment) {
        self.group.iter_mut().for_each(Group::break_off);
        self.end(Cause::Aborted(identity, failure), now);
        if let Phase::Ending { deadline, .. } = &mut self.phase {
            *deadline = now;
        }
    }

    fn end_on_verdict(&mut self, now: Moment) {
        let Some(verdict) = self.outbound.verdict() else { return };
        debug_assert!(verdict.identity.is_some(), "whatever fails is a row's");
        if let Some(identity) = verdict.identity {
            self.end(Cause::Undeliverable(identity, verdict.failure.clone()), now);
        }
    }

    /// A process that slept past the silence timeout, by the clock that the driver reads, may have lost its slot to another,
    /// which went on. It publishes nothing more: the session ends at once, and what is with the sink is taken back.
    fn watch_sleep(&mut self, now: Moment) {
        let slept = now.since(std::mem::replace(&mut self.polled_at, now));
        if slept >= self.settings.silence_timeout && !matches!(self.phase, Phase::Ended) {
            self.end(Cause::Silent, now);
            if let Phase::Ending { deadline, .. } = &mut self.phase {
                *deadline = now;
            }
        }
    }

    fn watch_silence(&mut self, now: Moment) {
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
    fn silence_step(&self) -> Duration {
        if self.is_asked_for_life { self.settings.silence_timeout } else { self.settings.silence_timeout / 2 }
    }

    /// Whether the session is ending and nothing is awaited any more. What the sink got now would come again for certain.
    fn is_out_of_time(&self, now: Moment) -> bool {
        matches!(&self.phase, Phase::Ending { deadline, .. } if now >= *deadline)
    }

    /// Whether the session is ending and nothing more will be settled.
    fn is_settled_for_good(&self, now: Moment) -> bool {
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

    fn poll_end(&mut self, now: Moment) -> Option<End> {
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
            lessons: self.outbound.lessons.clone(),
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

    fn check(&self) {
        debug_assert!(self.confirmed() <= self.checkpointed_position(), "confirmed before it was durable");
        debug_assert!(self.checkpointed_position() <= self.watermark(), "checkpointed before it was settled");
        debug_assert!(self.watermark() <= self.received(), "settled before it was received");
    }
}
