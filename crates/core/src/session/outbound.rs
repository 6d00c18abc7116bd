//! The way out: which record is handed to the sink next, and which row is set aside instead.
//!
//! Order comes first. Records leave in the order of the log; what a failed delivery does to those after it is said in [`judgement`].
//!
//! Whether a row is set aside is decided in its turn, when it would be handed over, and never taken back: from then on its key is
//! parked, and so is every row of it that comes after. Where too much lies with the dead letters already, the row is held, and all
//! that was taken from the log behind it; only letters that go again pass, for they are the way out.

mod judgement;

use crate::backoff::Backoff;
use crate::failure::Failure;
use crate::ledger::{Item, Ledger, Origin, Report};
use crate::lsn::Lsn;
use crate::poison::{Cause, Conclusion, DeadLetter, LetterId, Marked, Request};
use crate::port::{Delivery, Refusal, Ticket};
use crate::position::Identity;
use crate::record::Record;
use crate::time::Moment;

use super::lessons::{Lessons, Part};
use super::letters::{Letters, Order, Stance};

use judgement::{Flow, Verdict};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Outbound {
    pub(super) ledger: Ledger,
    pub(super) letters: Letters,
    flow: Flow,
    backoff: Backoff,
    /// The sink's queue is full; offered again after a report, or at this moment.
    full_until: Option<Moment>,
    /// Why records are held, until one is delivered again.
    trouble: Option<Failure>,
    /// The row that is to be set aside and may not be.
    held: Option<Held>,
    /// The row whose turn it is waits until then for the letters of its key.
    waits_until: Option<Moment>,
    /// The row of the last failure.
    blamed: Option<Identity>,
    /// A failure that no retry mends.
    verdict: Option<Verdict>,
    /// See [`commit_in_groups`](Self::commit_in_groups).
    is_grouping: bool,
    pub(super) lessons: Lessons,
    /// What is with the sink goes in this part, or went last.
    part: Option<Part>,
    pub(super) stale_reports: u64,
}

/// A row that is to be set aside while too much lies there already.
#[derive(Debug)]
struct Held {
    ticket: Ticket,
    trouble: Failure,
    /// What the sink said of its record, which is offered again at this moment: it may take it by now.
    judged: Option<(Cause, Moment)>,
}

/// What becomes of a row whose turn it is.
enum Fate {
    Publish,
    SetAside(Cause),
    Hold(Failure),
    /// It waits until then for the letters of its key, which are about to have gone.
    Wait(Moment),
    /// It was held and is tried again, or has failed before.
    PublishAlone,
}

/// How long to wait before a full sink is offered a record again, if no report comes.
const FULL_RETRY: std::time::Duration = std::time::Duration::from_millis(20);

impl Outbound {
    pub(super) fn new(ledger: Ledger, letters: Letters, backoff: Backoff) -> Self {
        Self {
            ledger,
            letters,
            flow: Flow::Flowing,
            backoff,
            full_until: None,
            trouble: None,
            held: None,
            waits_until: None,
            blamed: None,
            verdict: None,
            is_grouping: false,
            lessons: Lessons::default(),
            part: None,
            stale_reports: 0,
        }
    }

    /// What is handed over becomes visible as one group.
    pub(super) fn commit_in_groups(&mut self, lessons: Lessons) {
        self.is_grouping = true;
        self.letters.commit_in_groups();
        self.lessons = lessons;
    }

    /// The group is committed, and all before this position with it.
    pub(super) fn committed(&mut self, position: Lsn) {
        self.lessons.forget_before(position);
        for (letter, is_ended) in self.letters.committed() {
            self.lessons.forget_letter(letter, is_ended);
        }
    }

    /// The next record to hand over, if one may go now. Rows before it that are to be set aside are put there.
    pub(super) fn next_publication(&mut self, now: Moment) -> Option<Ticket> {
        self.pass(now);
        self.waits_until = None;
        if self.verdict.is_some() || self.full_until.is_some() {
            return None;
        }
        while self.may_publish() {
            let ticket = self.ledger.next_waiting()?;
            match self.fate(ticket, now) {
                Fate::Publish => return self.hand_over_in(self.part_of(ticket), ticket),
                Fate::PublishAlone => return self.hand_over_in(Some(Part::Single), ticket),
                Fate::SetAside(cause) => self.set_aside(ticket, cause),
                Fate::Hold(trouble) => {
                    self.hold(ticket, trouble, now);
                    return self.hand_over_a_letter(now);
                }
                Fate::Wait(until) => {
                    self.waits_until = Some(until);
                    return self.hand_over_a_letter(now);
                }
            }
        }
        None
    }

    /// The next letter, past the row whose turn it is.
    fn hand_over_a_letter(&mut self, now: Moment) -> Option<Ticket> {
        let letter = self.ledger.next_letter()?;
        let part = matches!(self.fate(letter, now), Fate::PublishAlone).then_some(Part::Single);
        self.hand_over_in(part, letter)
    }

    /// What to ask of the store of the letters now; of rows only where it takes any.
    pub(super) fn next_order(&mut self, takes_rows: bool, now: Moment) -> Option<Order> {
        self.letters.next_order(&self.ledger, takes_rows, now)
    }

    /// A letter was marked.
    pub(super) fn on_marked(&mut self, marked: Marked) {
        if !self.is_grouping && marked.request == Request::Drop {
            self.lessons.forget_letter(marked.id, true);
        }
        let failed = self.lessons.return_of(marked.id);
        self.letters.on_marked(marked, failed);
    }

    /// The sink has no room for what was asked of it beside the records. It is asked again in a moment.
    pub(super) fn letter_waits(&mut self, now: Moment) {
        self.letters.ask_again_at(now.after(FULL_RETRY));
    }

    /// The letter of a row that was put aside.
    pub(super) fn letter(&self, ticket: Ticket, cause: Cause) -> Option<DeadLetter> {
        let Item { identity, made, origin: Origin::Log(row) } = self.ledger.item(ticket)? else { return None };
        Some(row.letter(*identity, cause, made.as_ref().ok().cloned()).keeping(self.letters.policy.keep))
    }

    /// A row that was put aside is durable: it is settled.
    pub(super) fn row_set_aside(&mut self, ticket: Ticket, is_new: bool) {
        if !self.letters.set_aside(ticket, is_new) {
            self.stale_reports += 1;
            return;
        }
        let report = self.ledger.set_aside(ticket);
        debug_assert_eq!(report, Report::Answered, "a dead letter is durable before its ticket settles");
    }

    /// Moves on with the time where nothing may be handed over.
    pub(super) fn pass(&mut self, now: Moment) {
        self.turn(now);
        self.full_until = self.full_until.filter(|until| now < *until);
    }

    /// The record of a ticket that was just handed out.
    pub(super) fn record(&self, ticket: Ticket) -> Option<&Record> {
        self.ledger.record(ticket)
    }

    /// The sink did not accept a record that was offered.
    pub(super) fn refused(&mut self, ticket: Ticket, refusal: Refusal, now: Moment) {
        let was_alone = self.is_alone(ticket);
        if self.ledger.take_back(ticket) == Report::Stale {
            self.stale_reports += 1;
            return;
        }
        match refusal {
            Refusal::Full => self.full_until = Some(now.after(FULL_RETRY)),
            Refusal::Failed(failure) => self.judge(ticket, failure, was_alone, true, now),
        }
    }

    /// The sink reported on a record.
    pub(super) fn settle(&mut self, delivery: Delivery, now: Moment) {
        let Delivery { ticket, outcome } = delivery;
        let was_alone = self.is_alone(ticket);
        let sent = self.ledger.item(ticket).map(|item| (item.identity, item.letter()));
        let report = match &outcome {
            Ok(()) => self.ledger.settle(ticket),
            Err(_) => self.ledger.take_back(ticket),
        };
        if report == Report::Stale {
            self.stale_reports += 1;
            return;
        }
        self.full_until = None;
        match outcome {
            Ok(()) => {
                match sent {
                    Some((_, Some(letter))) => self.letter_sent(letter),
                    Some((row, None)) => self.row_settles(row),
                    None => {}
                }
                self.passed(ticket);
            }
            Err(failure) => {
                self.learn(ticket, &failure, was_alone);
                self.judge(ticket, failure, was_alone, false, now);
            }
        }
    }

    /// When something may go that may not go now.
    pub(super) fn deadline(&self, now: Moment) -> Option<Moment> {
        let resume_at = match self.flow {
            Flow::Shut { resume_at } | Flow::Waiting { resume_at } => Some(resume_at),
            Flow::Flowing | Flow::Again { .. } | Flow::Resetting { .. } | Flow::Collecting { .. } => None,
        };
        let full_until = self.full_until.filter(|_| self.ledger.has_waiting());
        let judged = self.held.as_ref().and_then(|held| held.judged.as_ref());
        let retry_at = judged.map(|(_, retry_at)| *retry_at).filter(|retry_at| *retry_at > now);
        let waits_until = self.waits_until.filter(|until| *until > now);
        resume_at
            .into_iter()
            .chain(full_until)
            .chain(retry_at)
            .chain(waits_until)
            .chain(self.letters.deadline(now))
            .min()
    }

    /// Why records are held, if they are.
    pub(super) fn trouble(&self) -> Option<&Failure> {
        let held = self.held.as_ref().map(|held| &held.trouble);
        self.trouble.as_ref().or(held).or(self.letters.trouble())
    }

    /// Why nothing of the log can be handed over for as long as nobody else does something, if that is so.
    pub(super) fn hold_up(&self) -> Option<&Failure> {
        match self.flow {
            Flow::Waiting { .. } => self.trouble.as_ref(),
            _ => self.held.as_ref().map(|held| &held.trouble),
        }
    }

    /// Whether anything can be handed over, now or once the sink has taken what comes before.
    pub(super) fn has_more(&self) -> bool {
        match self.flow {
            Flow::Waiting { .. } => false,
            _ if self.held.is_some() || self.waits_until.is_some() => self.ledger.has_waiting_letters(),
            _ => self.ledger.has_waiting(),
        }
    }

    /// The failure that ends the session, if there is one.
    pub(super) fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// What the next session has to know of records that fail, where this one cannot have settled them.
    pub(super) fn lessons_for_the_next(&self) -> Lessons {
        let mut lessons = if self.is_grouping { self.lessons.clone() } else { Lessons::default() };
        lessons.make_parts();
        lessons
    }

    /// Whether a record may be handed over now.
    fn may_publish(&self) -> bool {
        matches!(self.flow, Flow::Flowing | Flow::Again { .. })
    }

    /// What becomes of an item whose turn it is.
    fn fate(&self, ticket: Ticket, now: Moment) -> Fate {
        let (identity, made, row) = match self.ledger.item(ticket) {
            Some(Item { identity, made, origin: Origin::Log(row) }) => (identity, made, row),
            Some(Item { origin: Origin::Letter(letter), .. }) if self.lessons.is_suspect(*letter) => {
                return Fate::PublishAlone;
            }
            Some(Item { origin: Origin::Letter(_), .. }) | None => return Fate::Publish,
        };
        let stance = match self.letters.stance(ticket, *identity, row, now) {
            // What is open of a group is committed only where a transaction ends.
            Stance::Waits { for_commit: true, .. } if !self.ledger.is_between_transactions() => Stance::Parked,
            Stance::Waits { until, .. } => return Fate::Wait(until),
            stance => stance,
        };
        let held = self.held.as_ref().filter(|held| held.ticket == ticket);
        let judged = held.and_then(|held| held.judged.as_ref());
        let judgement = judged.map(|(cause, _)| cause).or_else(|| self.lessons.judgement(*identity));
        let cause = match (made, judgement) {
            _ if stance == Stance::Parked => Cause::Parked,
            (Err(fault), _) => Cause::Row(fault.reason.clone()),
            (Ok(_), Some(cause)) => cause.clone(),
            (Ok(_), None) => return Fate::Publish,
        };
        match self.letters.limit(&cause, row) {
            None => Fate::SetAside(cause),
            Some(_) if cause.is_root() && judged.is_some_and(|(_, retry_at)| now >= *retry_at) => Fate::PublishAlone,
            Some(trouble) => Fate::Hold(trouble),
        }
    }

    /// Once nothing of another part is with the sink.
    fn hand_over_in(&mut self, part: Option<Part>, ticket: Ticket) -> Option<Ticket> {
        if part != self.part || part == Some(Part::Single) {
            if self.ledger.out() > 0 {
                return None;
            }
            self.part = part;
        }
        if let Some(held) = self.held.take_if(|held| held.ticket == ticket) {
            self.trouble = Some(held.trouble);
        }
        if let Flow::Again { first } = &mut self.flow {
            first.get_or_insert(ticket);
        }
        self.ledger.hand_over(ticket);
        Some(ticket)
    }

    /// A row that lies within the part that is being sent goes with it.
    fn part_of(&self, ticket: Ticket) -> Option<Part> {
        let Some(Item { identity, origin: Origin::Log(_), .. }) = self.ledger.item(ticket) else { return None };
        let is_among = |part: &Part| matches!(part, Part::Rows { last } if identity < last);
        self.lessons.part_of(*identity).or_else(|| self.part.filter(is_among))
    }

    fn hold(&mut self, ticket: Ticket, trouble: Failure, now: Moment) {
        let judged = self.held.take_if(|held| held.ticket == ticket).and_then(|held| held.judged);
        let judged = judged.or_else(|| {
            let cause = self.lessons.judgement(self.ledger.item(ticket)?.identity)?;
            // Another try that fails takes its group with it.
            Some((cause.clone(), now.after(self.backoff.ceiling())))
        });
        self.held = Some(Held { ticket, trouble, judged });
    }

    fn set_aside(&mut self, ticket: Ticket, cause: Cause) {
        let Some(Item { identity, origin: Origin::Log(row), .. }) = self.ledger.item(ticket) else { return };
        let identity = *identity;
        self.letters.put_aside(ticket, identity, cause, row);
        self.ledger.put_aside(ticket);
        self.held.take_if(|held| held.ticket == ticket);
        self.row_settles(identity);
        self.passed(ticket);
    }

    /// A row is delivered, or will be set aside. In a group that counts once it is committed.
    fn row_settles(&mut self, row: Identity) {
        if !self.is_grouping {
            self.lessons.forget_row(row);
        }
    }

    fn letter_sent(&mut self, letter: LetterId) {
        self.letters.end(letter, Conclusion::Sent);
        if !self.is_grouping {
            self.lessons.forget_letter(letter, true);
        }
    }

    /// A record is delivered, or a row is set aside, and what comes behind it may go.
    fn passed(&mut self, ticket: Ticket) {
        match self.flow {
            Flow::Flowing => {}
            // What passes behind the first that goes again says nothing about that one.
            Flow::Again { first: Some(first) } if first != ticket && self.ledger.is_pending(first) => return,
            Flow::Again { .. } => self.flow = Flow::Flowing,
            // It was under way before the failure, and says nothing about what comes after.
            Flow::Resetting { .. } | Flow::Shut { .. } | Flow::Collecting { .. } | Flow::Waiting { .. } => return,
        }
        self.trouble = None;
        self.backoff.reset();
    }
}

#[cfg(test)]
mod tests;
