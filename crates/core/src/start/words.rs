//! What each state is called when somebody has to be told: a sentence, a way out, an exit code.

use super::{Part, StartState};

/// The way back when the gap is accepted: everything between is not published.
const START_ANEW: &str =
    "to accept that the rows in between are not published, run: walpost checkpoint forget, then walpost init";

/// All of them, of which only some can be told in a sentence.
const WAYS_OUT: &str = "to see the ways out, of which one fills the gap from the table, run: walpost repair";

impl StartState {
    /// Its name, for scripts.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Fresh { .. } => "fresh",
            Self::Resume { .. } => "resume",
            Self::ResumePromoted { .. } => "resume-promoted",
            Self::SlotOnly { .. } => "slot-only",
            Self::CheckpointMissing { .. } => "checkpoint-missing",
            Self::SlotMissing { .. } => "slot-missing",
            Self::SlotBusy { .. } => "slot-busy",
            Self::SlotLost { .. } => "slot-lost",
            Self::SlotAhead { .. } => "slot-ahead",
            Self::SlotUnfinished { .. } => "slot-unfinished",
            Self::SlotPhysical { .. } => "slot-physical",
            Self::SlotTemporary { .. } => "slot-temporary",
            Self::WrongPlugin { .. } => "wrong-plugin",
            Self::WrongDatabase { .. } => "wrong-database",
            Self::Future { .. } => "future",
            Self::TimelineBehind { .. } => "timeline-behind",
            Self::Promoted { .. } => "promoted",
            Self::OtherSystem { .. } => "other-system",
            Self::OtherCheckpoint { .. } => "other-checkpoint",
            Self::InRecovery => "in-recovery",
        }
    }

    /// What is wrong, or noteworthy, with the values that show it.
    #[must_use]
    pub fn sentence(&self) -> String {
        match self {
            Self::Fresh { slot } => format!("there is neither a slot \"{slot}\" nor a checkpoint"),
            Self::Resume { start } => format!("resuming at {start}"),
            Self::ResumePromoted { start, from, to, switch } => format!(
                "the server was promoted from timeline {} to {} at {switch}; resuming at {start}, before which everything is settled on both",
                from.0, to.0
            ),
            Self::SlotOnly { start } => format!(
                "there is a slot and no checkpoint; starting at the slot's confirmed position {start}, trusting that nothing before it is owed"
            ),
            Self::CheckpointMissing { slot, confirmed } => format!(
                "there is a slot \"{slot}\" and no checkpoint: it was lost, it lies in another store, or nothing was ever published from this slot; what was published after the slot's confirmed position {confirmed} would come twice, for readers of committed records too"
            ),
            Self::SlotMissing { slot, position } => format!(
                "the checkpoint stands at {position} and the slot \"{slot}\" does not exist: the WAL since then is no longer kept, so rows may be missing"
            ),
            Self::SlotBusy { slot, pid, in_creation: false } => {
                format!("the slot \"{slot}\" is read by {}", session(*pid))
            }
            Self::SlotBusy { slot, pid, in_creation: true } => format!(
                "the slot \"{slot}\" is being created by {}, which waits for transactions to end that are older",
                session(*pid)
            ),
            Self::SlotLost { slot, reason } => format!(
                "the server has invalidated the slot \"{slot}\" ({reason}): the WAL that it needs is gone, so rows may be missing"
            ),
            Self::SlotAhead { slot, confirmed, position } => format!(
                "the slot \"{slot}\" is confirmed up to {confirmed} and the checkpoint stands at {position}: somebody moved the slot or made it anew, and the rows in between may be missing"
            ),
            Self::SlotUnfinished { slot } => format!(
                "the slot \"{slot}\" has no confirmed position: its creation was never finished, or it was restored without one"
            ),
            Self::SlotPhysical { slot } => format!("\"{slot}\" is a physical slot, which cannot be decoded"),
            Self::SlotTemporary { slot } => format!("\"{slot}\" is a temporary slot, which vanishes with its session"),
            Self::WrongPlugin { slot, plugin, wanted } => {
                format!("the slot \"{slot}\" decodes with the plugin {plugin} instead of {wanted}")
            }
            Self::WrongDatabase { slot, database, wanted } => {
                format!("the slot \"{slot}\" is to decode database \"{wanted}\" and belongs to database \"{database}\"")
            }
            Self::Future { position, flushed } => format!(
                "everything up to {position} is settled and the server's log ends at {flushed}: it was restored from older data"
            ),
            Self::TimelineBehind { checkpoint, server } => format!(
                "the checkpoint lies on timeline {} and the server writes timeline {}: it is a former primary or was restored from older data",
                checkpoint.0, server.0
            ),
            Self::Promoted { from, to, position, switch: Some(switch) } => format!(
                "the server was promoted from timeline {} to {} at {switch} and the checkpoint stands at {position}: what was published between the two was lost by the server, and new rows stand in its place",
                from.0, to.0
            ),
            Self::Promoted { from, to, position, switch: None } => format!(
                "the checkpoint stands at {position} on timeline {} and the server's timeline {} does not say that it descends from it",
                from.0, to.0
            ),
            Self::OtherSystem { checkpoint, server } => format!(
                "the checkpoint belongs to the cluster with system identifier {} and the server is {}",
                checkpoint.0, server.0
            ),
            Self::OtherCheckpoint { part, found, wanted } => {
                format!("the checkpoint belongs to {} \"{found}\" instead of \"{wanted}\"", part.name())
            }
            Self::InRecovery => "the server is a standby (pg_is_in_recovery() is true)".to_owned(),
        }
    }

    /// What to do, where something is to be done: commands that exist.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        let drop_slot = |slot: &str| format!("SELECT pg_drop_replication_slot('{slot}')");
        Some(match self {
            Self::Resume { .. } | Self::ResumePromoted { .. } => return None,
            Self::Fresh { .. } => "run: walpost init".to_owned(),
            Self::SlotOnly { .. } => "to see what is kept, run: walpost checkpoint show".to_owned(),
            Self::CheckpointMissing { .. } => {
                "where nothing was published yet, or a repeat is accepted, run: walpost checkpoint adopt-slot; where the checkpoint lies in another store, run with the configuration of that one: walpost checkpoint copy --to kafka; to see the ways out, run: walpost repair".to_owned()
            }
            Self::SlotMissing { .. } => format!("{WAYS_OUT}; {START_ANEW}"),
            Self::SlotBusy { in_creation: true, .. } => "it is waited for; to see for which transactions: SELECT pid, xact_start, query FROM pg_stat_activity WHERE backend_xid IS NOT NULL ORDER BY xact_start, and SELECT * FROM pg_prepared_xacts".to_owned(),
            Self::SlotBusy { slot, .. } => format!(
                "it is waited for; to see who it is: SELECT * FROM pg_stat_replication WHERE pid = (SELECT active_pid FROM pg_replication_slots WHERE slot_name = '{slot}')"
            ),
            Self::SlotLost { slot, reason } => {
                format!("{}; {WAYS_OUT}; or drop the slot ({}), and {START_ANEW}", prevention(reason), drop_slot(slot))
            }
            Self::SlotAhead { .. } => {
                format!("{WAYS_OUT}; to accept that the rows in between are not published, run: walpost checkpoint adopt-slot")
            }
            Self::SlotUnfinished { slot } | Self::SlotPhysical { slot } | Self::WrongPlugin { slot, .. } => {
                format!("name another slot in source.slot, or drop this one ({}) and run: walpost init", drop_slot(slot))
            }
            Self::SlotTemporary { .. } => {
                "name another slot in source.slot, or end the session that made it, then run: walpost init".to_owned()
            }
            Self::WrongDatabase { .. } => "correct the database of source.url, or name another slot in source.slot".to_owned(),
            Self::Future { .. } | Self::TimelineBehind { .. } => format!(
                "connect source.url to the current primary; if this server is to stay, {WAYS_OUT}; {START_ANEW}"
            ),
            Self::Promoted { .. } => {
                format!("{WAYS_OUT}; to go on from the slot of this server, run: walpost checkpoint adopt-slot")
            }
            Self::OtherSystem { .. } => format!("connect source.url to the right server; if this one is meant, {START_ANEW}"),
            Self::OtherCheckpoint { .. } => {
                "correct source.url, source.slot or the checkpoint's place; if the configuration is right, run: walpost checkpoint adopt-slot".to_owned()
            }
            Self::InRecovery => "connect source.url to the primary, or promote this server: SELECT pg_promote()".to_owned(),
        })
    }

    /// The exit code of a process that ends because of it; 0 where it may start.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        match self {
            Self::Resume { .. } | Self::ResumePromoted { .. } | Self::SlotOnly { .. } => 0,
            Self::Fresh { .. } => 20,
            Self::SlotMissing { .. } => 21,
            Self::SlotBusy { .. } => 22,
            Self::SlotLost { .. } => 23,
            Self::SlotAhead { .. } => 24,
            Self::SlotUnfinished { .. } => 25,
            Self::SlotPhysical { .. } => 26,
            Self::SlotTemporary { .. } => 27,
            Self::WrongPlugin { .. } => 28,
            Self::WrongDatabase { .. } => 29,
            Self::Future { .. } => 30,
            Self::TimelineBehind { .. } => 31,
            Self::Promoted { .. } => 32,
            Self::OtherSystem { .. } => 33,
            Self::OtherCheckpoint { .. } => 34,
            Self::InRecovery => 35,
            Self::CheckpointMissing { .. } => 36,
        }
    }
}

/// Who has the slot.
fn session(pid: Option<u32>) -> String {
    pid.map_or("another session".to_owned(), |pid| format!("process {pid} of the server"))
}

impl Part {
    fn name(self) -> &'static str {
        match self {
            Self::Relay => "relay",
            Self::Database => "database",
            Self::Slot => "slot",
        }
    }
}

/// What keeps a server from invalidating the next slot for the same reason. Since PostgreSQL 17 it is the
/// `invalidation_reason` of `pg_replication_slots`; before, nearly always that the log had grown too long.
fn prevention(reason: &str) -> &'static str {
    match reason {
        "idle_timeout" => "raise idle_replication_slot_timeout if a relay may be away for longer",
        "wal_level_insufficient" => "keep wal_level = logical",
        "rows_removed" => "set hot_standby_feedback = on if the slot is on a standby",
        _ => "raise max_slot_wal_keep_size if a relay may be away while so much is written",
    }
}
