//! Prints what was learnt: a table for people, an object for programs.

use serde_json::{Value, json};
use walpost_core::lsn::Lsn;
use walpost_core::position::Checkpoint;
use walpost_core::time::Timestamp;
use walpost_postgres::usage::Usage;

use super::relay::Answer;
use super::{Database, Status};
use crate::config::Settings;
use crate::observe::server::wall_clock;

pub(super) fn table(settings: &Settings, status: &Status) {
    say!("relay:      {}", settings.name());
    say!("endpoint:   {}", endpoint(&status.relay));
    if let Ok(database) = &status.database {
        print_database(settings, database);
    }
    status.notes.iter().for_each(|note| say!("note:       {note}"));
    match status.findings.as_slice() {
        [] => say!("all is well"),
        findings => findings.iter().for_each(|finding| say!("not well:   {finding}")),
    }
}

fn endpoint(relay: &Answer) -> String {
    match relay {
        Answer::NotAsked => "not asked: http.listen is off or leaves the port to the system".to_owned(),
        Answer::None { address, reason } => format!("{address} does not answer ({reason})"),
        Answer::Mute { address } => format!("{address} takes connections and does not answer"),
        Answer::Other { address } => format!("{address} is not this relay's; it has http.listen to itself"),
        Answer::Said { address, answer, .. } => {
            let ready = if answer["ready"] == true { "ready" } else { "not ready" };
            let state = answer["state"].as_str().unwrap_or("unknown");
            let behind = answer["behind_seconds"].as_f64();
            let behind = behind.map(|seconds| format!(", {seconds:.1} s behind")).unwrap_or_default();
            format!("{address}: {ready}, {state}{behind}")
        }
    }
}

fn print_database(settings: &Settings, database: &Database) {
    let name = settings.source().slot();
    let usage = &database.usage;
    match &usage.slot {
        None => say!("slot:       {name} does not exist"),
        Some(slot) => {
            let holder = slot.active_pid.map_or_else(|| "nobody".to_owned(), |pid| format!("process {pid}"));
            let status = slot.wal_status.as_deref().unwrap_or("unknown");
            say!("slot:       {name}, read by {holder}, wal_status {status}");
            say!("            confirmed {}, restart {}", written(slot.confirmed), written(slot.restart));
            let limit = slot.safe_bytes.map(|safe| u64::try_from(safe).unwrap_or_default());
            let limit = limit.map_or_else(|| "no limit".to_owned(), |safe| format!("{} until the limit", bytes(safe)));
            let size = |size: Option<u64>| size.map_or_else(|| "unknown".to_owned(), bytes);
            say!(
                "WAL:        {} retained, {} not confirmed, {limit}",
                size(usage.retained()),
                size(usage.unconfirmed())
            );
        }
    }
    say!("store:      {}", database.store);
    if let Ok(stored) = &database.stored {
        match stored {
            None => say!("checkpoint: none"),
            Some(stored) => say!("checkpoint: {}{}", stored.position, age(stored)),
        }
    }
    say!("letters:    {}", database.letters.text());
    let server = &database.server;
    say!("server:     system {}, timeline {}, flushed {}", server.system.0, server.timeline.0, usage.flushed);
}

fn age(stored: &Checkpoint) -> String {
    stored.commit_time.map(|time| age_of(time, wall_clock())).unwrap_or_default()
}

/// The two clocks are those of two machines, and either may be wrong.
fn age_of(time: Timestamp, now: Timestamp) -> String {
    let seconds = now.unix_micros().saturating_sub(time.unix_micros()) / 1_000_000;
    match seconds {
        0.. => format!(", the last settled transaction committed {seconds} s ago"),
        _ => format!(
            ", the last settled transaction committed at {}, {} s ahead of this machine's clock",
            time.to_rfc3339(),
            seconds.unsigned_abs()
        ),
    }
}

pub(super) fn json(settings: &Settings, status: &Status) {
    let relay = match &status.relay {
        Answer::Said { answer, .. } => answer.clone(),
        Answer::NotAsked | Answer::None { .. } | Answer::Mute { .. } | Answer::Other { .. } => Value::Null,
    };
    let database = status.database.as_ref().ok();
    let object = json!({
        "relay": settings.name(),
        "healthy": status.findings.is_empty(),
        "findings": status.findings,
        "notes": status.notes,
        "endpoint": relay,
        "slot": database.map(|database| slot(settings, &database.usage)),
        "checkpoint": database.and_then(|database| database.stored.as_ref().ok()).and_then(Option::as_ref).map(checkpoint),
        "dead_letters": database.map(|database| database.letters.json()),
        "flushed": database.map(|database| database.usage.flushed.to_string()),
    });
    say!("{object}");
}

fn slot(settings: &Settings, usage: &Usage) -> Value {
    let name = settings.source().slot().as_str();
    match &usage.slot {
        None => json!({ "name": name, "exists": false }),
        Some(slot) => json!({
            "name": name,
            "exists": true,
            "active_pid": slot.active_pid,
            "confirmed": slot.confirmed.map(|position| position.to_string()),
            "restart": slot.restart.map(|position| position.to_string()),
            "wal_status": slot.wal_status,
            "safe_bytes": slot.safe_bytes,
            "retained_bytes": usage.retained(),
            "unconfirmed_bytes": usage.unconfirmed(),
        }),
    }
}

fn checkpoint(stored: &Checkpoint) -> Value {
    json!({
        "position": stored.position.to_string(),
        "timeline": stored.timeline.0,
        "epoch": stored.epoch.0,
        "last_settled_commit_unix_ms": stored.commit_time.map(|time| time.unix_millis()),
    })
}

fn written(position: Option<Lsn>) -> String {
    position.map_or_else(|| "nothing".to_owned(), |position| position.to_string())
}

/// A size in the unit that leaves it at least 1, with one digit behind the point.
pub(super) fn bytes(size: u64) -> String {
    const UNITS: [&str; 4] = ["KiB", "MiB", "GiB", "TiB"];
    let mut tenths = size.saturating_mul(10) / 1024;
    if size < 1024 {
        return format!("{size} B");
    }
    for unit in UNITS {
        if tenths < 10_240 || unit == "TiB" {
            return format!("{}.{} {unit}", tenths / 10, tenths % 10);
        }
        tenths /= 1024;
    }
    format!("{size} B")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_told_in_the_unit_that_fits() {
        for (size, told) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (16 << 20, "16.0 MiB"),
            (5 << 40, "5.0 TiB"),
        ] {
            assert_eq!(bytes(size), told);
        }
    }

    #[test]
    fn the_age_of_a_commit_makes_sense_whichever_clock_is_wrong() {
        let at = Timestamp::from_postgres_micros;
        assert_eq!(age_of(at(0), at(5_900_000)), ", the last settled transaction committed 5 s ago");
        assert_eq!(age_of(at(300_000), at(0)), ", the last settled transaction committed 0 s ago");
        let ahead = age_of(at(61_000_000), at(0));
        assert!(ahead.ends_with("at 2000-01-01T00:01:01.000000Z, 61 s ahead of this machine's clock"), "{ahead}");
        let before = age_of(at(-946_684_800_000_000 - 1_000_000), at(0));
        assert!(before.ends_with("946684801 s ago"), "{before}");
        for (time, now) in [(i64::MIN, i64::MAX), (i64::MAX, i64::MIN)] {
            assert!(!age_of(at(time), at(now)).is_empty());
        }
    }
}
