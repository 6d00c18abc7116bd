//! The slot on standbys: whether the server can carry it over, whether it does, and what is missing for nothing to be lost.
//!
//! From PostgreSQL 17 on a slot can be a failover slot: standbys that set `sync_replication_slots` keep a copy of it. The copy is worth
//! something only if the standby has all that was published, and that is what `synchronized_standby_slots` on the primary is for: logical
//! walsenders then send nothing that those standbys lack. ("Logical Replication Failover" in PostgreSQL's manual.)
//!
//! What it does not do: look at a standby.

use walpost_core::finding::Finding;

use crate::connection::{ConnectionSettings, Endpoint};
use crate::error::{Error, Phase};
use crate::identifier::SlotName;
use crate::replication;
use crate::sql::{Session, field};

/// The first version that carries slots over.
pub const FIRST_VERSION: i32 = 170_000;

/// What is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failover {
    /// `server_version_num`.
    pub version: i32,
    /// Whether the slot is carried over; `None` where there is no slot.
    pub is_carried: Option<bool>,
    /// Standbys that stream from this server, or that it keeps log for.
    pub standbys: i64,
    /// `synchronized_standby_slots`; empty where there is none.
    pub waits_for: String,
}

// A walsender without a logical slot feeds a standby, or a base backup, which is not streaming.
const LOOK: &str = "
SELECT current_setting('server_version_num')::int AS version,
       (SELECT coalesce((to_jsonb(s) ->> 'failover')::bool, false) FROM pg_replication_slots s WHERE slot_name = $1) AS is_carried,
       greatest((SELECT count(*) FROM pg_replication_slots WHERE slot_type = 'physical' AND NOT temporary),
                (SELECT count(*) FROM pg_stat_replication r WHERE state = 'streaming' AND NOT EXISTS (
                    SELECT FROM pg_replication_slots s WHERE s.active_pid = r.pid AND s.slot_type = 'logical'))) AS standbys,
       coalesce(current_setting('synchronized_standby_slots', true), '') AS waits_for";

/// Looks at server and slot.
///
/// # Errors
/// The session has ended.
pub async fn look(session: &Session, slot: &SlotName) -> Result<Failover, Error> {
    let row = session.query_one(LOOK, &[&slot.as_str()]).await?;
    Ok(Failover {
        version: field(&row, "version")?,
        is_carried: field(&row, "is_carried")?,
        standbys: field(&row, "standbys")?,
        waits_for: field(&row, "waits_for")?,
    })
}

/// What is wrong with it. `is_wanted` is what the configuration says.
#[must_use]
pub fn findings(found: &Failover, is_wanted: bool) -> Vec<Finding> {
    let Failover { version, is_carried, standbys, waits_for } = found;
    let mut findings = Vec::new();
    if !is_wanted {
        if *version >= FIRST_VERSION && *standbys > 0 && *is_carried == Some(false) {
            let sentence =
                "the server has standbys, and the slot is not carried over to them: after a failover it is missing";
            let remedy =
                "set source.failover = true and run: walpost init; without it, after a failover run: walpost repair";
            findings.push(Finding::note("source.failover", sentence, remedy));
        }
        return findings;
    }
    if *version < FIRST_VERSION {
        return vec![Finding::error("source.failover", too_old(*version), WITHOUT)];
    }
    if *is_carried == Some(false) {
        let sentence = "the slot is not a failover slot";
        findings.push(Finding::error(
            "source.failover",
            sentence,
            "stop the relay and run: walpost init, which changes it",
        ));
    }
    if *standbys > 0 && waits_for.trim().is_empty() {
        let sentence = "the server has standbys and does not wait for them: what is published may be lost with the primary, and its place in the WAL taken by other rows";
        let remedy = "run ALTER SYSTEM SET synchronized_standby_slots = '…' with the physical slots of the standbys that may take over, and SELECT pg_reload_conf()";
        findings.push(Finding::warning("synchronized_standby_slots", sentence, remedy));
    }
    findings
}

/// What to do where it cannot be had.
pub(crate) const WITHOUT: &str =
    "set source.failover = false; after a failover run: walpost repair, which fills the gap from the outbox tables";

/// Why a slot is not carried over.
pub(crate) fn too_old(version: i32) -> String {
    let (major, minor) = (version / 10_000, version % 10_000);
    format!("the server is PostgreSQL {major}.{minor}, and slots are carried over to standbys from 17 on")
}

/// The command that makes a slot one that is carried over.
pub(crate) fn command(slot: &SlotName) -> String {
    format!("ALTER_REPLICATION_SLOT {slot} (FAILOVER true)")
}

/// Makes a slot one that is carried over. SQL cannot; a replication session can.
///
/// # Errors
/// Somebody reads the slot, or no replication session can be had.
pub async fn carry_over(settings: &ConnectionSettings, endpoint: &Endpoint, slot: &SlotName) -> Result<(), Error> {
    let after = settings.connect_timeout();
    let mut client = replication::open_gated(settings, endpoint, "").await?;
    let answer = tokio::time::timeout(after, client.simple_query(&command(slot))).await;
    let answer = answer.map_err(|_| Error::Deadline { phase: Phase::Starting, after });
    client.abort();
    answer?.map(drop).map_err(|error| Error::from_replication(error, Phase::Starting))
}

#[cfg(test)]
mod tests {
    use walpost_core::finding::Severity;

    use super::*;

    #[test]
    fn what_is_missing_for_a_failover_is_said_with_what_to_do() {
        let found = |version, is_carried, standbys, waits_for: &str| Failover {
            version,
            is_carried,
            standbys,
            waits_for: waits_for.to_owned(),
        };
        let cases = [
            (found(160_011, Some(false), 1, ""), true, vec![(Severity::Error, "16.11")]),
            (found(170_007, Some(true), 1, "s"), true, vec![]),
            (found(170_007, None, 0, ""), true, vec![]),
            (found(170_007, Some(false), 0, ""), true, vec![(Severity::Error, "not a failover slot")]),
            (found(180_001, Some(true), 1, ""), true, vec![(Severity::Warning, "does not wait")]),
            (found(180_001, Some(false), 1, ""), false, vec![(Severity::Note, "not carried over")]),
            (found(160_011, Some(false), 1, ""), false, vec![]),
            (found(180_001, Some(false), 0, ""), false, vec![]),
        ];
        for (found, is_wanted, expected) in cases {
            let findings = findings(&found, is_wanted);
            assert_eq!(findings.len(), expected.len(), "{found:?}");
            for (finding, (severity, words)) in findings.iter().zip(expected) {
                assert_eq!(finding.severity, severity);
                assert!(finding.sentence.contains(words) && !finding.remedy.is_empty(), "{finding}");
            }
        }
    }
}
