//! How a session stands, for those who look on from outside. It decides nothing.

use crate::failure::Failure;
use crate::ledger::Load;
use crate::lsn::Lsn;
use crate::time::{Moment, Timestamp};
use crate::traffic::Traffic;

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
            heard_at: self.heard_at,
            is_stopping: matches!(self.phase, Phase::Ending { cause: Cause::Stopped, .. }),
            trouble: self.trouble().cloned(),
        }
    }

    /// What it took from the log, by outbox and topic.
    #[must_use]
    pub fn traffic(&self) -> &Traffic {
        self.inbound.traffic()
    }
}
