//! What one session promises, checked after every step from the outside.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::frame::Frame;
use crate::lsn::Lsn;
use crate::pgoutput::Message;
use crate::port::{Delivery, Refusal, Ticket};
use crate::session::{LETTER_SPAN, SPAN, Session, Settings, Start};
use crate::time::Moment;

use super::server::{OUTBOXES, TABLES};
use super::suspicion::Suspicion;

/// A model of one session: what was handed to it and what it answered.
#[derive(Debug)]
pub(super) struct Watch {
    /// Where the watermark may rest.
    rests: BTreeSet<Lsn>,
    /// Confirmed, checkpointed, watermark, received, as they were last seen.
    positions: [Lsn; 4],
    /// Records that the sink has.
    pub(super) out: BTreeSet<Ticket>,
    /// Records that came back.
    returned: BTreeSet<Ticket>,
    /// Records of letters that go again.
    letters: BTreeSet<Ticket>,
    /// What the next record will be that has not been handed over before.
    next_new: Ticket,
    newest_event: Option<usize>,
    pub(super) settled: u64,
    suspicion: Suspicion,
    /// The sink had no room, and has reported nothing since.
    is_full: bool,
    is_in_transaction: bool,
    /// The outbox whose shape was told and that nobody described since.
    pub(super) undescribed: Option<u32>,
    told_at: Moment,
    /// When it was told to end.
    pub(super) ending_since: Option<Moment>,
    pub(super) was_stopped: bool,
    pub(super) has_jumped: bool,
    /// Time has jumped past the silence timeout: the slot may be another's.
    has_overslept: bool,
}

impl Watch {
    pub(super) fn new(start: &Start, session: &Session, now: Moment) -> Self {
        Self {
            rests: BTreeSet::from([session.watermark()]),
            positions: positions(session),
            out: BTreeSet::new(),
            returned: BTreeSet::new(),
            letters: BTreeSet::new(),
            next_new: start.first_ticket,
            newest_event: None,
            settled: 0,
            suspicion: Suspicion::default(),
            is_full: false,
            is_in_transaction: false,
            undescribed: None,
            told_at: now,
            ending_since: None,
            was_stopped: false,
            has_jumped: false,
            has_overslept: false,
        }
    }

    /// A frame is about to be received.
    pub(super) fn receiving(&mut self, frame: &Frame) {
        match frame {
            Frame::Keepalive(keepalive) if !self.is_in_transaction => {
                self.rests.insert(keepalive.wal_end);
            }
            Frame::Keepalive(_) => {}
            Frame::XLogData(data) => match data.data.first() {
                Some(b'B') => self.is_in_transaction = true,
                Some(b'C') => {
                    self.is_in_transaction = false;
                    self.rests.insert(data.wal_start);
                }
                Some(b'R') => self.undescribed = outbox_told(&data.data),
                _ => {}
            },
        }
    }

    /// The session gets a description. Whether it awaits that one.
    pub(super) fn describing(&mut self, relation: u32) -> bool {
        self.undescribed.take_if(|awaited| *awaited == relation).is_some()
    }

    /// A frame was received; `before` is the watermark from before it.
    pub(super) fn received(&mut self, frame: &Frame, before: Lsn, session: &Session) {
        if matches!(frame, Frame::Keepalive(_)) && session.watermark() != before {
            assert_eq!(session.owed().records, 0, "a keepalive moved the watermark while something was owed");
        }
    }

    /// A record is handed over: the first that came back, or else the next in the order of the log. Rows that are set aside are passed
    /// over; a letter may pass a row that is held.
    pub(super) fn publishing(&mut self, ticket: Ticket, event: usize, session: &Session) {
        assert!(!self.has_overslept, "{ticket:?} left after a sleep in which the slot may have become another's");
        let ledger = &session.outbound.ledger;
        let is_letter = ledger.is_letter(ticket);
        let is_gone = |ticket: &Ticket| ledger.item(*ticket).is_none() || ledger.is_aside(*ticket);
        self.returned.retain(|ticket| !is_gone(ticket));
        if is_letter {
            self.letters.insert(ticket);
            self.returned.remove(&ticket);
        } else if self.returned.remove(&ticket) {
            let before = self.returned.range(..ticket).find(|ticket| !self.letters.contains(ticket));
            assert_eq!(before, None, "another record than the first that came back leaves again: {ticket:?}");
        } else {
            let before = self.returned.iter().find(|ticket| !self.letters.contains(ticket));
            assert_eq!(before, None, "{ticket:?} left while others had come back");
            let is_passed = |number| is_gone(&Ticket(number)) || ledger.is_letter(Ticket(number));
            assert!(ticket >= self.next_new, "{ticket:?} left again though it had not come back");
            assert!((self.next_new.0..ticket.0).all(is_passed), "{ticket:?} left out of turn");
            assert!(self.newest_event < Some(event), "event {event} left behind {:?}", self.newest_event);
            self.newest_event = Some(event);
            self.next_new = Ticket(ticket.0 + 1);
        }
        self.suspicion.publishing(ticket, is_letter, self.out.len());
        self.out.insert(ticket);
    }

    /// A row is durable with the dead letters.
    pub(super) fn set_aside(&mut self) {
        self.settled += 1;
    }

    /// Whether nothing more may be handed over: the session is past its time.
    pub(super) fn is_out_of_time(&self, settings: &Settings, now: Moment) -> bool {
        self.ending_since.is_some_and(|since| now.since(since) >= settings.drain_timeout)
    }

    pub(super) fn refused(&mut self, ticket: Ticket, refusal: &Refusal) {
        self.out.remove(&ticket);
        self.returned.insert(ticket);
        match refusal {
            Refusal::Full => self.is_full = true,
            Refusal::Failed(failure) => self.suspicion.refused(ticket, failure.class),
        }
    }

    /// A report is handed to the session. Whether it is about a record that the sink has.
    pub(super) fn reporting(&mut self, delivery: &Delivery) -> bool {
        let ticket = delivery.ticket;
        let out = self.out.len();
        if !self.out.remove(&ticket) {
            return false;
        }
        self.is_full = false;
        match &delivery.outcome {
            Ok(()) => self.settled += u64::from(!self.letters.contains(&ticket)),
            Err(failure) => {
                self.returned.insert(ticket);
                self.suspicion.failed(ticket, self.letters.contains(&ticket), failure.class, out);
            }
        }
        true
    }

    /// Time has jumped so far, in which nobody polled.
    pub(super) fn jumped(&mut self, span: Duration, settings: &Settings) {
        self.has_jumped = true;
        self.has_overslept |= span >= settings.silence_timeout;
    }

    pub(super) fn told(&mut self, now: Moment) {
        self.told_at = now;
    }

    /// Everything that may be said about a session at any moment.
    pub(super) fn check(&mut self, session: &Session, settings: &Settings) {
        let now = positions(session);
        assert!(now.is_sorted(), "confirmed, checkpointed, watermark and received are out of order: {now:?}");
        for (before, after) in self.positions.iter().zip(&now) {
            assert!(before <= after, "a position fell: {:?}, then {now:?}", self.positions);
        }
        assert!(self.rests.contains(&session.watermark()), "the watermark {} is no place to rest", session.watermark());
        self.positions = now;
        let owed = session.owed();
        assert!(owed.records <= settings.max_records, "{} records are owed", owed.records);
        assert!(owed.records <= 1 || owed.bytes <= settings.max_bytes, "{} bytes are owed", owed.bytes);
        let unsettled_since = session.outbound.ledger.oldest_commit_time();
        assert!(owed.records > 0 || unsettled_since.is_none(), "nothing is owed, and the watermark stays behind");
        let span = session.outbound.ledger.span();
        assert!(span <= settings.max_records * SPAN + LETTER_SPAN, "the books hold {span} places");
        assert!(self.undescribed.is_none() || !session.wants_frames(), "frames are wanted before a description");
        let held = self.unsettled(session) - owed.records as u64;
        assert!(held == 0 || (held == 1 && !session.wants_frames()), "{held} records are neither owed nor settled");
    }

    /// Records that were taken in and are not settled.
    pub(super) fn unsettled(&self, session: &Session) -> u64 {
        session.counters().events - self.settled
    }

    /// There is nothing to do at this moment, says the session.
    pub(super) fn check_idle(&self, session: &Session, settings: &Settings, now: Moment) {
        assert!(session.deadline(now) > now, "the deadline is now, and there is nothing to do");
        let silent_for = now.since(self.told_at);
        assert!(silent_for <= settings.feedback.status_interval, "the server was told nothing for {silent_for:?}");
        let ending_for = self.ending_since.map(|since| now.since(since)).unwrap_or_default();
        assert!(ending_for < settings.drain_timeout, "the session has been ending for {ending_for:?}");
        self.check_that_nothing_lingers(session);
    }

    /// Whatever may go beside all that is with the sink has gone.
    fn check_that_nothing_lingers(&self, session: &Session) {
        let is_held = session.trouble().is_some() || !session.outbound.has_more() || !session.goes_on();
        if is_held || self.is_full || self.suspicion.awaits_reset() {
            return;
        }
        let ledger = &session.outbound.ledger;
        // A letter that failed before goes alone whenever it is marked again.
        if ledger.letters() > 0 {
            return;
        }
        let is_free = |ticket: Ticket| self.suspicion.may_go(ticket, false, self.out.len());
        assert!(!ledger.waiting().all(is_free), "nothing keeps what waits from leaving, and it does not");
    }
}

/// The relation that a message tells, if it is an outbox.
fn outbox_told(message: &[u8]) -> Option<u32> {
    let Ok(Message::Relation(relation)) = Message::parse(message) else { return None };
    TABLES[..OUTBOXES].iter().any(|table| table.0 == relation.id).then_some(relation.id)
}

fn positions(session: &Session) -> [Lsn; 4] {
    [session.confirmed(), session.checkpointed_position(), session.watermark(), session.received()]
}
