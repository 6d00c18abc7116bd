//! What a failed delivery does to the records after it, and what becomes of the one that failed.
//!
//! After a failed report nothing is handed over until the sink has given everything back; then what is not acknowledged goes again in the order
//! of the log, as fast as the sink takes it. Only rows that failed themselves go in parts, each of which is waited for before and behind, and
//! which of them are to blame is found by parts of parts ([`Lessons`](crate::session::Lessons)): a row is judged bad only when it was sent alone, for a
//! failed batch blames innocents. Which record goes next, and whether it may, is the parent's to say.
//!
//! Where records and position are committed as one group, a failed report takes the group with it and so the session. Then a row is judged
//! over several sessions, which hand on what they learned.

use crate::failure::{Class, Failure};
use crate::ledger::{Item, Origin};
use crate::poison::{Cause, LetterId, OnBadRow, OnClosedRoute};
use crate::port::Ticket;
use crate::position::Identity;
use crate::time::Moment;

use super::{Held, Outbound, Part};

/// How records are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    /// As fast as the sink takes them, but for the parts.
    Flowing,
    /// The same after a failure, which is over once the first that goes again has passed.
    Again { first: Option<Ticket> },
    /// The sink has to give everything back.
    Resetting { is_asked: bool },
    /// The sink could not be made anew, and takes nothing until it is. It is tried again at this moment.
    Shut { resume_at: Moment },
    /// The sink has given everything back; the reports of it are awaited.
    Collecting { resume_at: Moment },
    /// Nothing is handed over before this moment.
    Waiting { resume_at: Moment },
}

/// What becomes of a record that failed alone.
enum Sentence {
    SetAside(Cause),
    /// It is a letter, and lies there still.
    Return(LetterId),
}

/// A failure that ends the session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::session) struct Verdict {
    pub(in crate::session) identity: Option<Identity>,
    pub(in crate::session) failure: Failure,
}

impl Outbound {
    /// Whether the sink has to be reset now. Says so once.
    pub(in crate::session) fn take_reset(&mut self, now: Moment) -> bool {
        self.turn(now);
        let Flow::Resetting { is_asked: is_asked @ false } = &mut self.flow else { return false };
        *is_asked = true;
        self.letters.sink_is_new();
        true
    }

    /// The sink was reset, or could not be.
    pub(in crate::session) fn sink_reset(&mut self, outcome: Result<(), Failure>, now: Moment) {
        let Flow::Resetting { .. } = self.flow else { return };
        let resume_at = now.after(self.backoff.next_wait());
        self.flow = match outcome {
            Ok(()) => Flow::Collecting { resume_at },
            Err(failure) if failure.class == Class::Configuration => {
                self.verdict = Some(Verdict { identity: self.blamed, failure });
                Flow::Collecting { resume_at: now }
            }
            Err(failure) => {
                self.trouble = Some(failure);
                Flow::Shut { resume_at }
            }
        };
    }

    /// Whether the sink has to give back what it has, or is at it.
    pub(in crate::session) fn is_giving_back(&self) -> bool {
        matches!(self.flow, Flow::Resetting { .. } | Flow::Shut { .. } | Flow::Collecting { .. })
    }

    /// Whether the sink may not be used by another before it is reset.
    pub(in crate::session) fn needs_reset(&self) -> bool {
        self.ledger.out() > 0 || self.verdict.is_some() || self.is_giving_back()
    }

    /// What is to be known of a failure when the record goes again; in the next session, where it takes the group with it.
    pub(super) fn learn(&mut self, ticket: Ticket, failure: &Failure, was_alone: bool) {
        let Some(Item { identity, origin, .. }) = self.ledger.item(ticket) else { return };
        let sentence = if was_alone { self.sentence(ticket, failure) } else { None };
        let is_blamed = matches!(failure.class, Class::Row | Class::Route);
        match (origin, sentence) {
            // It is executed at once.
            (_, Some(_)) if !self.is_grouping => {}
            (Origin::Log(_), Some(Sentence::SetAside(cause))) => self.lessons.judge_row(*identity, cause),
            (Origin::Letter(_), Some(Sentence::Return(letter))) => {
                self.lessons.judge_letter(letter, failure.reason.clone());
            }
            // Of a sink that is away, or that took back what came behind another, no row knows anything.
            _ if !is_blamed => {}
            (Origin::Log(_), _) => self.lessons.suspect_row(*identity),
            (Origin::Letter(letter), _) => self.lessons.suspect_letter(*letter),
        }
    }

    /// The sink refused it at once: those in front of it are awaited, then it is offered alone.
    fn single_out(&mut self, ticket: Ticket) {
        match self.ledger.item(ticket) {
            Some(Item { origin: Origin::Letter(letter), .. }) => self.lessons.suspect_letter(*letter),
            Some(Item { identity, origin: Origin::Log(_), .. }) => self.lessons.single_out(*identity),
            None => {}
        }
        let first = match self.flow {
            Flow::Again { first: Some(first) } => first.min(ticket),
            _ => ticket,
        };
        self.flow = Flow::Again { first: Some(first) };
    }

    /// A letter lies there still, and those of its key behind it with it: they were to go after it, and wait for it now.
    pub(in crate::session) fn give_back(&mut self, letter: LetterId, reason: String) {
        for behind in self.letters.give_back(letter, reason) {
            if let Some(ticket) = self.ledger.waiting_letter(behind) {
                self.ledger.give_up_letter(ticket);
            }
        }
    }

    /// Decides what a failure means for the records after it.
    pub(super) fn judge(&mut self, ticket: Ticket, failure: Failure, was_alone: bool, was_refused: bool, now: Moment) {
        self.blamed = self.ledger.item(ticket).map(|item| item.identity);
        if was_alone && let Some(sentence) = self.sentence(ticket, &failure) {
            if self.is_grouping && !was_refused {
                return;
            }
            self.execute(ticket, sentence, &failure, now);
            if !was_refused {
                self.flow = Flow::Resetting { is_asked: false };
            }
            return;
        }
        match (failure.class, was_alone) {
            (Class::Configuration, _) | (Class::Row, true) => {
                self.verdict = Some(Verdict { identity: self.blamed, failure });
            }
            // Taken back because another failed, which is reported too, or is to blame for it.
            (Class::Withdrawn, _) if self.is_giving_back() => {}
            (Class::Row | Class::Route, false) if was_refused && !self.is_giving_back() => {
                self.trouble = Some(failure);
                self.single_out(ticket);
            }
            (Class::Route, true) if was_refused => {
                self.trouble = Some(failure);
                self.flow = Flow::Waiting { resume_at: now.after(self.backoff.next_wait()) };
            }
            (Class::Row | Class::Route | Class::Sink | Class::Withdrawn, _) => {
                self.trouble = Some(failure);
                if !self.is_giving_back() {
                    self.flow = Flow::Resetting { is_asked: false };
                }
            }
        }
    }

    /// What becomes of a record that failed alone, where waiting for it is not all that can be done.
    ///
    /// A letter goes again because an operator said so, and holds nobody up: where its route is still closed it lies there still.
    fn sentence(&self, ticket: Ticket, failure: &Failure) -> Option<Sentence> {
        let policy = &self.letters.policy;
        match (failure.class, &self.ledger.item(ticket)?.origin) {
            (Class::Row | Class::Route, Origin::Letter(letter)) => Some(Sentence::Return(*letter)),
            (Class::Row, Origin::Log(_)) => {
                let is_stop = policy.on_bad_row == OnBadRow::Stop;
                (!is_stop).then(|| Sentence::SetAside(Cause::Row(failure.reason.clone())))
            }
            (Class::Route, Origin::Log(_)) => {
                let is_hold = policy.on_closed_route == OnClosedRoute::Hold;
                (!is_hold).then(|| Sentence::SetAside(Cause::Route(failure.reason.clone())))
            }
            (Class::Sink | Class::Withdrawn | Class::Configuration, _) => None,
        }
    }

    fn execute(&mut self, ticket: Ticket, sentence: Sentence, failure: &Failure, now: Moment) {
        match sentence {
            Sentence::Return(letter) => {
                self.ledger.give_up_letter(ticket);
                self.give_back(letter, failure.reason.clone());
                self.passed(ticket);
            }
            Sentence::SetAside(cause) => {
                let Some(Item { origin: Origin::Log(row), .. }) = self.ledger.item(ticket) else { return };
                match self.letters.limit(&cause, row) {
                    None => self.set_aside(ticket, cause),
                    Some(trouble) => {
                        let retry_at = now.after(self.backoff.next_wait());
                        self.trouble = None;
                        self.held = Some(Held { ticket, trouble, judged: Some((cause, retry_at)) });
                    }
                }
            }
        }
    }

    /// Moves on where only a report or time was awaited.
    pub(super) fn turn(&mut self, now: Moment) {
        if let Flow::Collecting { resume_at } = self.flow
            && self.ledger.out() == 0
        {
            self.lessons.make_parts();
            self.part = None;
            self.flow = Flow::Waiting { resume_at };
        }
        self.flow = match self.flow {
            Flow::Waiting { resume_at } if now >= resume_at => Flow::Again { first: None },
            Flow::Shut { resume_at } if now >= resume_at => Flow::Resetting { is_asked: false },
            flow => flow,
        };
    }

    /// Whether this record is the only one with the sink, sent alone on purpose.
    pub(super) fn is_alone(&self, ticket: Ticket) -> bool {
        self.part == Some(Part::Single) && self.ledger.out() == 1 && self.ledger.is_out(ticket)
    }
}
