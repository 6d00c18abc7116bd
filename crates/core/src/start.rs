//! Where to start: server, slot and checkpoint compared, before a byte is streamed.
//!
//! Each way in which the three can stand to each other has a name, a sentence, a way out by commands that exist, and an exit
//! code. A start is given only where no gap can hide: where everything that the server would skip is known to be settled.
//! What could hide one is refused until the operator has chosen to accept it.
//!
//! The caller reads the slot first, the checkpoint second and the server last. A relay that stops in between has then moved
//! only what is read later, so that the comparison errs towards a repeat and never towards a refusal.

mod words;

use crate::lsn::Lsn;
use crate::position::{Checkpoint, SystemIdentifier, Timeline};

/// What is known of the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerState {
    /// The cluster.
    pub system: SystemIdentifier,
    /// The timeline that it writes.
    pub timeline: Timeline,
    /// The timelines that it descends from, oldest first, as its history file lists them; `None` where that could not be read.
    pub history: Option<Vec<Switch>>,
    /// How far its log is on disk.
    pub flushed: Lsn,
    /// Whether it is a standby.
    pub in_recovery: bool,
    /// The database of the session.
    pub database: String,
}

/// The end of a timeline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switch {
    /// The timeline that ended.
    pub timeline: Timeline,
    /// Where the next one took over: what the old one wrote from here on is void.
    pub end: Lsn,
}

/// What kind of slot it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SlotKind {
    /// Decodes one database.
    Logical,
    /// Keeps log for a standby.
    Physical,
}

/// A row of `pg_replication_slots`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotState {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: SlotKind,
    /// Whether it vanishes with the session that made it.
    pub temporary: bool,
    /// Its output plugin.
    pub plugin: Option<String>,
    /// The database that it decodes.
    pub database: Option<String>,
    /// Who reads it, if anybody does: the process id, 0 where the server does not tell.
    pub active_pid: Option<u32>,
    /// The oldest log that it keeps.
    pub restart: Option<Lsn>,
    /// What the server was told to be settled; NULL in a slot that was never finished or was restored.
    pub confirmed: Option<Lsn>,
    /// Why it can no longer be read, if so.
    pub lost: Option<String>,
}

impl SlotState {
    /// Whether a session is just making it: one that was left unfinished is nobody's, and one that can be read has a confirmed position.
    #[must_use]
    pub fn is_in_creation(&self) -> bool {
        self.active_pid.is_some() && !self.confirmed.is_some_and(Lsn::is_valid)
    }
}

/// What the configuration asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wanted {
    /// The relay's name.
    pub relay: String,
    /// The database.
    pub database: String,
    /// The slot.
    pub slot: String,
    /// The output plugin.
    pub plugin: String,
    /// Whether records and position are committed as one, so that nothing may be published twice unless somebody says so.
    pub is_exactly_once: bool,
}

/// Which part of a checkpoint belongs to somebody else.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The relay's name.
    Relay,
    /// The database.
    Database,
    /// The slot.
    Slot,
}

/// How server, slot and checkpoint stand to each other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StartState {
    /// Neither slot nor checkpoint.
    Fresh {
        /// The slot that is asked for.
        slot: String,
    },
    /// All is as it should be.
    Resume {
        /// Where to start.
        start: Lsn,
    },
    /// The server was promoted, and nothing that was settled lies beyond the switch. Slot and checkpoint reached it on
    /// different ways, so each may be older than the other; the newer of them counts.
    ResumePromoted {
        /// Where to start.
        start: Lsn,
        /// The timeline of the checkpoint.
        from: Timeline,
        /// The server's timeline.
        to: Timeline,
        /// Where the checkpoint's timeline ended.
        switch: Lsn,
    },
    /// A slot and no checkpoint: made by hand, handed over, or the checkpoint was lost. Starts, with a warning.
    SlotOnly {
        /// Where to start: the slot's confirmed position.
        start: Lsn,
    },
    /// The same where nothing may be published twice. The slot is behind what was committed with its last checkpoint, so that to start there would
    /// repeat the rest.
    CheckpointMissing {
        /// The slot.
        slot: String,
        /// Its confirmed position.
        confirmed: Lsn,
    },
    /// A checkpoint and no slot: the log after the checkpoint is not kept any more.
    SlotMissing {
        /// The slot that is asked for.
        slot: String,
        /// The checkpoint's position.
        position: Lsn,
    },
    /// Somebody reads the slot.
    SlotBusy {
        /// The slot.
        slot: String,
        /// The process that holds it, where the server tells.
        pid: Option<u32>,
        /// It is being made: the server waits for the end of every transaction that is older, and it cannot be read before.
        in_creation: bool,
    },
    /// The server has invalidated the slot.
    SlotLost {
        /// The slot.
        slot: String,
        /// The server's reason.
        reason: String,
    },
    /// The slot was confirmed beyond the checkpoint by somebody else, or made anew.
    SlotAhead {
        /// The slot.
        slot: String,
        /// The slot's confirmed position.
        confirmed: Lsn,
        /// The checkpoint's position.
        position: Lsn,
    },
    /// The slot has no confirmed position.
    SlotUnfinished {
        /// The slot.
        slot: String,
    },
    /// A physical slot has the name.
    SlotPhysical {
        /// The slot.
        slot: String,
    },
    /// A temporary slot has the name.
    SlotTemporary {
        /// The slot.
        slot: String,
    },
    /// The slot decodes with another plugin.
    WrongPlugin {
        /// The slot.
        slot: String,
        /// Its plugin.
        plugin: String,
        /// The one that is asked for.
        wanted: String,
    },
    /// The slot, or the session, belongs to another database.
    WrongDatabase {
        /// The slot.
        slot: String,
        /// Its database.
        database: String,
        /// The one that is asked for.
        wanted: String,
    },
    /// A settled position lies beyond the server's log: it was restored from older data.
    Future {
        /// The settled position.
        position: Lsn,
        /// The server's.
        flushed: Lsn,
    },
    /// The server writes an older timeline than the checkpoint's: a former primary, or a restored copy.
    TimelineBehind {
        /// The checkpoint's timeline.
        checkpoint: Timeline,
        /// The server's.
        server: Timeline,
    },
    /// The server was promoted, and the checkpoint lies on log that the promotion made void.
    Promoted {
        /// The checkpoint's timeline.
        from: Timeline,
        /// The server's.
        to: Timeline,
        /// The checkpoint's position.
        position: Lsn,
        /// Where the checkpoint's timeline ended; `None` where the server's history does not say, or does not have it.
        switch: Option<Lsn>,
    },
    /// The checkpoint belongs to another cluster.
    OtherSystem {
        /// The checkpoint's cluster.
        checkpoint: SystemIdentifier,
        /// The server's.
        server: SystemIdentifier,
    },
    /// The checkpoint belongs to another relay, database or slot.
    OtherCheckpoint {
        /// Which part differs.
        part: Part,
        /// What the checkpoint says.
        found: String,
        /// What is asked for.
        wanted: String,
    },
    /// The server is a standby.
    InRecovery,
}

impl StartState {
    /// Where to start, if it may be started.
    #[must_use]
    pub fn start(&self) -> Option<Lsn> {
        match self {
            Self::Resume { start } | Self::ResumePromoted { start, .. } | Self::SlotOnly { start } => Some(*start),
            _ => None,
        }
    }
}

/// Compares server, slot and checkpoint.
///
/// PostgreSQL starts at the later of the slot's confirmed position and the one it is asked for (`CreateDecodingContext`), so
/// a slot behind the checkpoint is harmless (its state on disk may be older after a crash), and one ahead of it is a gap.
#[must_use]
pub fn compare(
    server: &ServerState,
    slot: Option<&SlotState>,
    checkpoint: Option<&Checkpoint>,
    wanted: &Wanted,
) -> StartState {
    if server.in_recovery {
        return StartState::InRecovery;
    }
    if server.database != wanted.database {
        return wrong_database(&server.database, wanted);
    }
    let ancestry = match checkpoint.map(|checkpoint| place(server, checkpoint, wanted)).transpose() {
        Ok(ancestry) => ancestry,
        Err(state) => return state,
    };
    match (slot, checkpoint) {
        (None, Some(checkpoint)) if checkpoint.has_begun() => {
            StartState::SlotMissing { slot: wanted.slot.clone(), position: checkpoint.position }
        }
        (None, _) => StartState::Fresh { slot: wanted.slot.clone() },
        (Some(slot), _) => match confirmed(slot, wanted) {
            Err(state) => state,
            Ok(confirmed) if confirmed > server.flushed => {
                StartState::Future { position: confirmed, flushed: server.flushed }
            }
            Ok(confirmed) => match checkpoint.zip(ancestry) {
                None if wanted.is_exactly_once => {
                    StartState::CheckpointMissing { slot: wanted.slot.clone(), confirmed }
                }
                None => StartState::SlotOnly { start: confirmed },
                // Of whatever the slot has passed, nothing was published.
                Some((checkpoint, _)) if !checkpoint.has_begun() => StartState::Resume { start: confirmed },
                Some((checkpoint, ancestry)) => weigh(confirmed, checkpoint, ancestry, server, wanted),
            },
        },
    }
}

/// How the checkpoint's timeline leads to the server's.
#[derive(Clone, Copy)]
enum Ancestry {
    Same,
    /// It ended here, not before the checkpoint's position.
    Ended(Lsn),
}

/// Whether the checkpoint belongs to this relay and lies on the server's log.
fn place(server: &ServerState, checkpoint: &Checkpoint, wanted: &Wanted) -> Result<Ancestry, StartState> {
    if checkpoint.system != server.system {
        return Err(StartState::OtherSystem { checkpoint: checkpoint.system, server: server.system });
    }
    for (part, found, wanted) in [
        (Part::Relay, &checkpoint.relay, &wanted.relay),
        (Part::Database, &checkpoint.database, &wanted.database),
        (Part::Slot, &checkpoint.slot, &wanted.slot),
    ] {
        if found != wanted {
            return Err(StartState::OtherCheckpoint { part, found: found.clone(), wanted: wanted.clone() });
        }
    }
    let position = checkpoint.position;
    if checkpoint.timeline > server.timeline {
        return Err(StartState::TimelineBehind { checkpoint: checkpoint.timeline, server: server.timeline });
    }
    if checkpoint.timeline < server.timeline {
        let switch = server.switch_of(checkpoint.timeline);
        return switch.filter(|end| position <= *end).map(Ancestry::Ended).ok_or(StartState::Promoted {
            from: checkpoint.timeline,
            to: server.timeline,
            position,
            switch,
        });
    }
    if position > server.flushed {
        return Err(StartState::Future { position, flushed: server.flushed });
    }
    Ok(Ancestry::Same)
}

/// The slot's confirmed position, if this is the slot that is asked for and it can be read.
fn confirmed(slot: &SlotState, wanted: &Wanted) -> Result<Lsn, StartState> {
    let name = || slot.name.clone();
    if slot.kind == SlotKind::Physical {
        return Err(StartState::SlotPhysical { slot: name() });
    }
    if slot.temporary {
        return Err(StartState::SlotTemporary { slot: name() });
    }
    if let Some(plugin) = slot.plugin.as_ref().filter(|plugin| **plugin != wanted.plugin) {
        let (plugin, wanted) = (plugin.clone(), wanted.plugin.clone());
        return Err(StartState::WrongPlugin { slot: name(), plugin, wanted });
    }
    if let Some(database) = slot.database.as_ref().filter(|database| **database != wanted.database) {
        return Err(wrong_database(database, wanted));
    }
    if let Some(reason) = &slot.lost {
        return Err(StartState::SlotLost { slot: name(), reason: reason.clone() });
    }
    if let Some(pid) = slot.active_pid {
        let (pid, in_creation) = (Some(pid).filter(|pid| *pid != 0), slot.is_in_creation());
        return Err(StartState::SlotBusy { slot: name(), pid, in_creation });
    }
    slot.confirmed.filter(|confirmed| confirmed.is_valid()).ok_or_else(|| StartState::SlotUnfinished { slot: name() })
}

/// Which of slot and checkpoint counts, and whether the slot is ahead of what is known to be settled.
fn weigh(
    confirmed: Lsn,
    checkpoint: &Checkpoint,
    ancestry: Ancestry,
    server: &ServerState,
    wanted: &Wanted,
) -> StartState {
    let position = checkpoint.position;
    match ancestry {
        // The checkpoint's row may have missed the promotion though the slot's position, confirmed after it, did not.
        Ancestry::Ended(switch) if confirmed <= switch => StartState::ResumePromoted {
            start: position.max(confirmed),
            from: checkpoint.timeline,
            to: server.timeline,
            switch,
        },
        Ancestry::Same if confirmed <= position => StartState::Resume { start: position },
        Ancestry::Same | Ancestry::Ended(_) => StartState::SlotAhead { slot: wanted.slot.clone(), confirmed, position },
    }
}

fn wrong_database(database: &str, wanted: &Wanted) -> StartState {
    StartState::WrongDatabase {
        slot: wanted.slot.clone(),
        database: database.to_owned(),
        wanted: wanted.database.clone(),
    }
}

impl ServerState {
    fn switch_of(&self, timeline: Timeline) -> Option<Lsn> {
        self.history.iter().flatten().find(|switch| switch.timeline == timeline).map(|switch| switch.end)
    }
}

/// Reads a timeline history file: a line for each ended timeline with its number, its end and a reason. Lines that are
/// empty or start with `#` are passed over, as by `readTimeLineHistory`; what cannot be read makes the whole unknown.
#[must_use]
pub fn parse_history(text: &str) -> Option<Vec<Switch>> {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let mut fields = line.split_ascii_whitespace();
            let timeline = Timeline(fields.next()?.parse().ok()?);
            let end = fields.next()?.parse().ok()?;
            Some(Switch { timeline, end })
        })
        .collect()
}

#[cfg(test)]
mod tests;
