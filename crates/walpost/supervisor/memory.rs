//! How far the last session of this process got, which the checkpoint store may not know yet.
//!
//! It counts for nothing once anybody else has touched the store, or another server answers.

use std::fmt;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use walpost_core::failure::chain;
use walpost_core::lsn::Lsn;
use walpost_core::port::Checkpoints;
use walpost_core::position::{Checkpoint, Epoch, Identity, SystemIdentifier, Timeline};
use walpost_core::session::End;
use walpost_core::start::ServerState;
use walpost_core::time::Timestamp;

use super::Supervisor;
use crate::relay;
use crate::store::{self, AnyStore};

/// How long to wait before the last checkpoint is tried again. Our own last writer may hold the file for a moment.
const SAVE_AGAIN: Duration = Duration::from_millis(50);

/// See the module's documentation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Memory {
    system: SystemIdentifier,
    timeline: Timeline,
    /// Under which our checkpoints were written. Another one in the store means that another relay went on from there.
    epoch: Epoch,
    /// What a claim was to write that nobody has answered yet. If it is what the store has, it is as we left it: a relay that claimed the very same begins
    /// where we ended, and what is remembered of that place is as true for it.
    claim: Option<(Epoch, Lsn)>,
    position: Lsn,
    commit_time: Option<Timestamp>,
    first_owed: Option<Identity>,
    rest: Rest,
}

/// What a session left undone, as far as a stop is concerned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rest {
    pub(super) unsettled: usize,
    pub(super) unsaved: u64,
    /// A transaction was published in part.
    pub(super) is_cut: bool,
}

impl Rest {
    pub(super) fn of(end: &End) -> Self {
        Self { unsettled: end.unsettled, unsaved: end.unsaved, is_cut: end.is_within_transaction() }
    }

    pub(super) fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

impl fmt::Display for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unsettled, unsaved, is_cut } = *self;
        let rows = |count: u64| if count == 1 { "1 row".to_owned() } else { format!("{count} rows") };
        let unsettled = u64::try_from(unsettled).unwrap_or(u64::MAX);
        let parts = [
            (unsettled > 0).then(|| format!("{} neither delivered nor set aside", rows(unsettled))),
            is_cut.then(|| "a transaction that is settled in part".to_owned()),
            (unsaved > 0).then(|| format!("{} delivered or set aside after the last checkpoint", rows(unsaved))),
        ];
        f.write_str(&parts.into_iter().flatten().collect::<Vec<_>>().join(", "))
    }
}

impl Memory {
    /// What is kept of a session that streamed from this server and wrote its checkpoints under this epoch.
    pub(super) fn of(end: &End, server: &ServerState, epoch: Epoch) -> Self {
        Self {
            system: server.system,
            timeline: server.timeline,
            epoch,
            claim: None,
            position: end.position,
            commit_time: end.commit_time,
            first_owed: end.first_owed,
            rest: Rest::of(end),
        }
    }

    /// Whether it is about this server, and the store is as we left it. An operator may have changed it, backwards too.
    pub(super) fn is_of(&self, stored: Option<&Checkpoint>, server: &ServerState, store: &AnyStore) -> bool {
        let is_as_left = stored.is_some_and(|stored| !store.keeps_a_checkpoint() || self.has_written(stored));
        self.system == server.system && is_as_left
    }

    fn has_written(&self, stored: &Checkpoint) -> bool {
        stored.epoch == self.epoch || self.claim == Some((stored.epoch, stored.position))
    }

    /// Whether what we wrote is not there any more, and nothing that came after it, for epochs only grow: a topic that was made anew holds none, or that
    /// which `walpost init` put there.
    pub(super) fn is_gone(&self, stored: Option<&Checkpoint>) -> bool {
        stored.is_none_or(|stored| stored.epoch < self.epoch)
    }

    /// We are about to claim the store, at this position, of which the checkpoint is that which it has now.
    pub(super) fn claims(&mut self, stored: Option<&Checkpoint>, position: Lsn) {
        let before = stored.map_or(0, |stored| stored.epoch.0);
        self.claim = Some((Epoch(before.saturating_add(1)), position));
    }

    /// The claim was answered.
    pub(super) fn claimed(&mut self, epoch: Epoch) {
        self.epoch = epoch;
        self.claim = None;
    }

    /// The stored checkpoint, moved on to where we are.
    pub(super) fn ahead_of(&self, stored: &Checkpoint) -> Checkpoint {
        if self.position < stored.position {
            return stored.clone();
        }
        Checkpoint {
            timeline: self.timeline,
            position: self.position,
            commit_time: self.commit_time.or(stored.commit_time),
            ..stored.clone()
        }
    }

    /// Whether a session that starts here goes on where the last one ended.
    pub(super) fn is_at(&self, start: Lsn) -> bool {
        self.position == start
    }

    /// What it has to send first, where that one told it.
    pub(super) fn first_owed(&self) -> Option<Identity> {
        self.first_owed
    }
}

impl Supervisor {
    /// Writes down what only this process knows, before it is stopped without a connection, if the store can be had in time
    /// and is as we left it. Answers what is left undone.
    pub(super) async fn save_memory(&self) -> Rest {
        let Some(memory) = self.memory else { return Rest::default() };
        // What a sink has not committed is in no memory.
        if memory.rest.unsaved == 0 || self.sink.is_transactional() {
            return memory.rest;
        }
        let saved = timeout(self.settings.stop_timeout(), async {
            loop {
                match self.try_to_save(memory).await {
                    Ok(is_saved) => return is_saved,
                    Err(error) => {
                        let reason = chain(&error);
                        tracing::debug!(reason, "the last checkpoint is not written yet");
                        sleep(SAVE_AGAIN).await;
                    }
                }
            }
        });
        match saved.await {
            Ok(true) => Rest { unsaved: 0, ..memory.rest },
            Ok(false) | Err(_) => memory.rest,
        }
    }

    /// Whether the store was as we left it, and now has our position.
    async fn try_to_save(&self, memory: Memory) -> Result<bool, store::Error> {
        let mut store = relay::store(&self.settings);
        let Some(stored) = store.load().await? else { return Ok(false) };
        if !store.keeps_a_checkpoint() || !memory.has_written(&stored) || stored.system != memory.system {
            return Ok(false);
        }
        store.claim(&memory.ahead_of(&stored)).await?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests;
