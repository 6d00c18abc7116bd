//! How a session stands, for those who look on from outside. It decides nothing.

use crate::failure::Failure;
use crate::ledger::Load;
use crate::lsn::Lsn;
use crate::time::{Moment, Timestamp};
use crate::traffic::Traffic;

use super::letters::Counts;
use super::{Cause, Counters, Phase, Session};

/// See the module's documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct View {
    /// The end of what was taken in.
    pub received: Lsn,
    /// Everything before it is settled.
    pub watermark: Lsn,
    /// The watermark that the checkpoint store holds.
    pub checkpointed: Lsn,
    /// What the server was told.
    pub confirmed: Lsn,
    /// What was taken from the log and is not settled.
    pub owed: Load,
    /// How many records are with the sink.
    pub out: usize,
    /// When the oldest transaction committed that is not wholly settled, as far as it was received.
    pub oldest_unsettled: Option<Timestamp>,
    /// When the last settled transaction committed, if known.
    pub last_settled: Option<Timestamp>,
    /// What was counted since the session began.
    pub counters: Counters,
    /// Whether frames are taken: there is room for more, and nothing else is awaited first.
    pub wants_frames: bool,
    /// Whether the catalogue's word about an outbox is awaited, and nothing taken before.
    pub awaits_description: bool,
    /// Whether an answer of the store of the dead letters is awaited.
    pub awaits_letters: bool,
    /// When the server was last heard of.
    pub heard_at: Moment,
    /// Whether it was told to stop, and finishes what it has.
    pub is_stopping: bool,
    /// Why records are held, if they are.
    pub trouble: Option<Failure>,
}

impl Session {
    /// How it stands.
    #[must_use]
    pub fn view(&self) -> View {
        let ledger = &self.outbound.ledger;
        View {
            received: self.received(),
            watermark: self.watermark(),
            checkpointed: self.checkpointed_position(),
            confirmed: self.confirmed(),
            owed: self.owed(),
            out: ledger.out(),
            oldest_unsettled: ledger.oldest_commit_time().or_else(|| self.inbound.open_commit_time()),
            last_settled: ledger.watermark().commit_time,
            counters: self.counters(),
            wants_frames: self.wants_frames(),
            awaits_description: self.inbound.is_awaiting_description(),
            awaits_letters: self.outbound.letters.is_awaiting_store(),
            heard_at: self.heard_at,
            is_stopping: matches!(self.phase, Phase::Ending { cause: Cause::Stopped, .. }),
            trouble: self.trouble().cloned(),
        }
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

    /// The commit of the transaction of which a part was taken in, if there is one.
    #[must_use]
    pub fn open_commit(&self) -> Option<Lsn> {
        self.inbound.open_commit()
    }

    /// What was taken from the log and is not settled.
    #[must_use]
    pub fn owed(&self) -> Load {
        self.outbound.ledger.owed()
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let Counts { set_aside, parked, replayed, returned, given_up } = self.outbound.letters.counts;
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

    /// What it took from the log, by outbox and topic.
    #[must_use]
    pub fn traffic(&self) -> &Traffic {
        self.inbound.traffic()
    }
}
