//! The relay itself is killed or frozen.

use std::time::Duration;

use walpost_testkit::checker::Repeats;

use super::{assert_over, start_ready, status};
use crate::observe::value;
use crate::rig::{LIMIT, Rig, eventually, let_pass};

/// Writers that leave some air.
const PAUSE: Duration = Duration::from_millis(5);

#[test]
fn a_relay_that_is_killed_is_missed_by_status_and_the_next_one_goes_on() {
    let mut rig = Rig::ready("killed_seen", &["public.outbox"]);
    let running = rig.workload().pause(PAUSE).start();
    let relay = start_ready(&mut rig);
    running.wait_for_more_rows(100, LIMIT).unwrap();
    relay.kill9().unwrap();
    eventually("the slot to be free", || rig.walsender().is_none());
    rig.call(&["status", "--json"]).assert_said(10, &["no relay reads the slot", r#""active_pid":null"#]);
    running.wait_for_more_rows(100, LIMIT).unwrap();
    let _ = running.stop();
    let relay = start_ready(&mut rig);
    assert_over(&rig, &relay);
    rig.assert_delivered(Repeats::Allowed);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_relay_that_is_frozen_is_named_by_status_and_goes_on_with_a_new_stream_when_it_wakes() {
    let mut rig = Rig::ready("frozen_seen", &["public.outbox"]);
    rig.configure(|config| config.set("source", "wal_sender_timeout_ms", "2000"));
    let running = rig.workload().pause(PAUSE).start();
    let relay = start_ready(&mut rig);
    running.wait_for_more_rows(100, LIMIT).unwrap();
    relay.sigstop().unwrap();
    let said = status(&rig, &relay);
    assert!(said["findings"].to_string().contains("does not answer within"), "{said}");
    // Until the server gives it up, or the relay itself would.
    eventually("the server to let go of it", || rig.walsender().is_none());
    let_pass(Duration::from_millis(500));
    let lines = relay.log_lines();
    relay.sigcont().unwrap();
    relay.wait_for_log_since(lines, "streaming", LIMIT).unwrap();
    running.wait_for_more_rows(100, LIMIT).unwrap();
    let _ = running.stop();
    assert_over(&rig, &relay);
    let reconnects = ["source_lost", "source_silent"].map(|cause| {
        let counted = value(&relay, "walpost_reconnects_total", &[("cause", cause)]);
        if counted.is_nan() { 0.0 } else { counted }
    });
    assert!(reconnects.iter().sum::<f64>() >= 1.0, "{reconnects:?}");
    rig.assert_delivered(Repeats::Allowed);
    relay.stop(LIMIT).unwrap().assert_success();
}
