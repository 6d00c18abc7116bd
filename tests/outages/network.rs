//! The network between relay and broker: cut anywhere, stalled, slow, half-open, refused, or deaf in one direction.

use std::time::{Duration, Instant};

use walpost_testkit::checker::Repeats;
use walpost_testkit::proxy::{Cut, Direction, Proxy};
use walpost_testkit::servers::shared_postgres;

use super::{Sign, assert_over, assert_seen, start_ready};
use crate::exactly_once;
use crate::observe::{readiness, value};
use crate::rig::{BreakableKafka, LIMIT, Rig, breakable_kafka, eventually};

/// What is seen when records are on their way and nothing comes back.
const UNACKNOWLEDGED: Sign<'_> = Sign {
    state: "streaming",
    reason: "the sink has not acknowledged anything for",
    figure: ("walpost_unacknowledged_seconds", &[]),
    at_least: 1.0,
};

/// A relay that reaches this broker by the network that fails, and gives a request up soon.
fn by_network(kafka: &BreakableKafka, label: &str) -> Rig {
    let mut rig = Rig::ready_on(shared_postgres(), kafka.endpoint(), label, &["public.outbox"]);
    rig.reach_kafka_by_network(kafka);
    rig.configure(|config| config.set("sink.kafka", "socket.timeout.ms", "\"2000\""));
    rig
}

/// What the network does, and how it is told to.
type Fault = (&'static str, fn(&Proxy));

const FAULTS: [Fault; 4] = [
    ("stalled", Proxy::stall),
    ("half-open", Proxy::half_open),
    ("refused", |network| {
        network.refuse();
        network.cut(Cut::Reset);
    }),
    ("acknowledgements lost", Proxy::mute),
];

#[test]
fn a_network_that_fails_in_any_way_is_noticed_and_nothing_is_lost_or_repeated() {
    let kafka = breakable_kafka();
    let network = kafka.network();
    let mut rig = by_network(&kafka, "network");
    let relay = start_ready(&mut rig);
    for (key, fail) in FAULTS {
        let lines = relay.log_lines();
        fail(network);
        rig.insert(key, 0, 20);
        assert_seen(&rig, &relay, &UNACKNOWLEDGED);
        // A request that is not answered ends its connection.
        relay.wait_for_log_since(lines, "Kafka is away, records wait", LIMIT).unwrap();
        // What hangs there, acknowledgements too, is never heard of again.
        network.cut(Cut::Reset);
        network.pass();
        assert_over(&rig, &relay);
        relay.wait_for_log_since(lines, "Kafka answers again", LIMIT).unwrap();
    }
    // The broker knows what it has: what is sent again within the same process is no repeat.
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn with_exactly_once_a_network_or_a_broker_that_fails_is_told_as_well_and_each_event_is_seen_once() {
    let kafka = breakable_kafka();
    let network = kafka.network();
    let mut rig = exactly_once::rig(kafka.endpoint(), "groupnetwork");
    rig.reach_kafka_by_network(&kafka);
    rig.configure(|config| config.set("sink.kafka", "socket.timeout.ms", "\"2000\""));
    let relay = start_ready(&mut rig);
    network.mute();
    rig.insert("muted", 0, 20);
    assert_seen(&rig, &relay, &UNACKNOWLEDGED);
    network.cut(Cut::Reset);
    network.pass();
    assert_over(&rig, &relay);
    kafka.sigstop().unwrap();
    rig.insert("frozen", 0, 20);
    assert_seen(&rig, &relay, &UNACKNOWLEDGED);
    kafka.sigcont().unwrap();
    assert_over(&rig, &relay);
    relay.stop(LIMIT).unwrap().assert_success();
    exactly_once::assert_exactly_once(&rig, kafka.endpoint());
}

#[test]
fn a_connection_to_the_broker_that_is_cut_at_any_byte_costs_nothing() {
    let kafka = breakable_kafka();
    let network = kafka.network();
    let mut rig = by_network(&kafka, "cut_broker");
    let relay = start_ready(&mut rig);
    let running = rig.workload().payload_bytes(20_000).pause(Duration::from_millis(2)).start();
    let directions = [Direction::ToServer, Direction::ToClient].into_iter().cycle();
    let cuts = [Cut::Reset, Cut::Reset, Cut::Close, Cut::Close].into_iter().cycle();
    for (bytes, (direction, cut)) in [1, 7, 40, 301, 2_003, 20_011, 200_003, 65].into_iter().zip(directions.zip(cuts)) {
        network.cut_after(direction, bytes, cut);
        eventually("the cut", || !network.is_cut_pending());
        running.wait_for_more_rows(20, LIMIT).unwrap();
    }
    let _ = running.stop();
    assert_over(&rig, &relay);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_slow_network_to_the_broker_delays_and_is_no_fault_while_acknowledgements_come() {
    let kafka = breakable_kafka();
    let network = kafka.network();
    let mut rig = by_network(&kafka, "slow_broker");
    // What takes longer than that to pass would never pass.
    rig.configure(|config| {
        config.unset("sink.kafka", "socket.timeout.ms").set("sink.kafka", "compression.type", r#""none""#)
    });
    let relay = start_ready(&mut rig);
    network.slow(200_000);
    let since = Instant::now();
    rig.workload().keys(1, 0).payload_bytes(100_000).transactions(10).run(LIMIT).unwrap();
    eventually("more than nothing to be behind", || value(&relay, "walpost_behind_seconds", &[]) >= 1.0);
    rig.assert_delivered(Repeats::Forbidden);
    assert!(since.elapsed() > Duration::from_secs(2), "the network was not slow: {:?}", since.elapsed());
    network.pass();
    assert_over(&rig, &relay);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn connections_that_the_broker_hangs_up_because_they_are_idle_are_no_outage() {
    let kafka = breakable_kafka();
    let network = kafka.network();
    let mut rig = by_network(&kafka, "reaped");
    let relay = start_ready(&mut rig);
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    // As a broker does after connections.max.idle.ms. It is asked at most every two seconds, and each time at another connection.
    for _ in 0..3 {
        let accepted = network.accepted();
        network.cut(Cut::Close);
        eventually("another connection", || {
            assert_eq!(
                (readiness(&relay), value(&relay, "walpost_sink_away_seconds", &[])),
                ((true, "streaming".to_owned(), String::new()), 0.0)
            );
            network.accepted() > accepted
        });
    }
    assert_over(&rig, &relay);
    relay.stop(LIMIT).unwrap().assert_success();
}
