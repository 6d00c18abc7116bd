//! The broker is gone, frozen, restarted, or was never there.

use walpost_testkit::checker::Repeats;
use walpost_testkit::servers::{shared_kafka, shared_postgres};

use super::{Sign, assert_over, assert_seen, start_ready};
use crate::observe::{readiness, value, wait_for_value};
use crate::rig::{LIMIT, Rig, breakable_kafka, eventually};

/// What is seen of a broker that is away while nothing is on its way to it.
const AWAY: Sign<'_> = Sign {
    state: "streaming",
    reason: "the sink has been away for",
    figure: ("walpost_sink_away_seconds", &[]),
    at_least: 1.0,
};

/// And while something is.
pub(super) const UNACKNOWLEDGED: Sign<'_> = Sign {
    state: "streaming",
    reason: "the sink has not acknowledged anything for",
    figure: ("walpost_unacknowledged_seconds", &[]),
    at_least: 1.0,
};

#[test]
fn a_broker_that_is_frozen_or_killed_is_noticed_while_nothing_is_owed_and_found_again_with_an_event_or_without() {
    let mut kafka = breakable_kafka();
    let mut rig = Rig::ready_on(shared_postgres(), kafka.endpoint(), "away", &["public.outbox"]);
    // This process has published nothing, and knows of no topic.
    let relay = start_ready(&mut rig);
    kafka.sigstop().unwrap();
    assert_seen(&rig, &relay, &AWAY);
    relay.wait_for_log("Kafka is away, records wait", LIMIT).unwrap();
    kafka.sigcont().unwrap();
    assert_over(&rig, &relay);
    relay.wait_for_log("Kafka answers again", LIMIT).unwrap();
    assert_eq!(value(&relay, "walpost_delivered_records_total", &[]), 0.0);
    rig.insert("between", 0, 10);
    eventually("ten records", || value(&relay, "walpost_delivered_records_total", &[]) >= 10.0);
    let lines = relay.log_lines();
    kafka.kill9().unwrap();
    assert_seen(&rig, &relay, &AWAY);
    relay.wait_for_log_since(lines, "Kafka is away, records wait", LIMIT).unwrap();
    rig.insert("killed", 0, 10);
    assert_seen(&rig, &relay, &UNACKNOWLEDGED);
    kafka.start_again().unwrap();
    assert_over(&rig, &relay);
    relay.wait_for_log_since(lines, "Kafka answers again", LIMIT).unwrap();
    rig.assert_delivered(Repeats::Forbidden);
    wait_for_value(&relay, "walpost_delivered_records_total", &[], 20.0);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_broker_that_is_restarted_on_its_log_gets_everything_once() {
    let mut kafka = breakable_kafka();
    let mut rig = Rig::ready_on(shared_postgres(), kafka.endpoint(), "again", &["public.outbox"]);
    let relay = start_ready(&mut rig);
    let running = rig.workload().pause(std::time::Duration::from_millis(5)).start();
    running.wait_for_more_rows(100, LIMIT).unwrap();
    kafka.stop(LIMIT).unwrap();
    assert_seen(&rig, &relay, &UNACKNOWLEDGED);
    relay.wait_for_log("Kafka is away, records wait", LIMIT).unwrap();
    kafka.start_again().unwrap();
    running.wait_for_more_rows(100, LIMIT).unwrap();
    let _ = running.stop();
    assert_over(&rig, &relay);
    relay.wait_for_log("Kafka answers again", LIMIT).unwrap();
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn the_name_of_a_broker_that_does_not_resolve_is_told_while_nothing_is_owed() {
    let mut rig = Rig::ready("nameless", &["public.outbox"]);
    // A name that nobody can have (RFC 2606).
    rig.configure(|config| config.kafka("kafka.invalid:9092"));
    let relay = rig.start();
    relay.wait_for_log("streaming", LIMIT).unwrap();
    relay.wait_for_log("Kafka is away, records wait: kafka.invalid:9092/bootstrap: Failed to resolve", LIMIT).unwrap();
    eventually("the relay to be unready", || {
        let (is_ready, _, reasons) = readiness(&relay);
        !is_ready && reasons.contains("the sink has been away for") && reasons.contains("Failed to resolve")
    });
    rig.insert("key", 0, 10);
    assert_seen(&rig, &relay, &AWAY);
    relay.kill9().unwrap();
    rig.configure(|config| config.kafka(shared_kafka().bootstrap()));
    let relay = start_ready(&mut rig);
    assert_over(&rig, &relay);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}
