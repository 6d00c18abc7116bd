//! What goes wrong beside PostgreSQL, as an operator sees it: each fault is told by the log, makes `/readyz` and `walpost status` say so while it
//! lasts, moves a figure, is over when it is over, and loses nothing that was committed. `docs/guarantees.md` has a line for each.
//!
//! Faults of PostgreSQL are another matter, and so are bad rows.

mod broker;
mod checkpoint;
mod checkpoint_topic;
mod disk;
mod network;
mod process;
mod replicas;
mod routes;

use walpost_testkit::relay::Relay;

use crate::observe::{assert_told, readiness, status, value, wait_until_ready, wait_until_unready};
use crate::rig::{Rig, eventually};

/// Standing still so long with something owed, or with a sink that is away, is told. In milliseconds.
const STALLED_AFTER: &str = "1000";

/// A figure with its labels.
type Figure<'a> = (&'a str, &'a [(&'a str, &'a str)]);

/// What is seen of a relay that is not ready.
struct Sign<'a> {
    state: &'a str,
    /// Part of a reason.
    reason: &'a str,
    /// The figure, and what it comes to at least.
    figure: Figure<'a>,
    at_least: f64,
}

/// A relay that streams and is ready, and logs what it does by default.
#[track_caller]
fn start_ready(rig: &mut Rig) -> Relay {
    rig.configure(|config| config.set("http", "stalled_after_ms", STALLED_AFTER).unset("log", "level"));
    let relay = rig.start_streaming();
    wait_until_ready(&relay);
    relay
}

/// Waits until all of an operator's windows show it.
#[track_caller]
fn assert_seen(rig: &Rig, relay: &Relay, sign: &Sign<'_>) {
    let Sign { state, reason, figure: (name, labels), at_least } = *sign;
    wait_until_unready(relay, state, reason);
    eventually(&format!("{name} {labels:?} to be {at_least}"), || value(relay, name, labels) >= at_least);
    assert_told(rig, relay, state, reason);
}

/// Waits until nothing of it is left.
#[track_caller]
fn assert_over(rig: &Rig, relay: &Relay) {
    wait_until_ready(relay);
    eventually("nothing to be owed", || value(relay, "walpost_owed_records", &[]) == 0.0);
    for figure in ["walpost_sink_away_seconds", "walpost_unacknowledged_seconds"] {
        eventually(&format!("{figure} to be 0"), || value(relay, figure, &[]) == 0.0);
    }
    let said = status(rig, relay);
    assert!(said["healthy"] == true && said["endpoint"]["ready"] == true, "{said} {:?}", readiness(relay));
}
