//! The broker, PostgreSQL or the network between goes away and comes back, and nothing is lost, repeated or out of order: the relay
//! itself lives on, and remembers.

use std::time::{Duration, Instant};

use walpost_testkit::checker::{Repeats, Truth};
use walpost_testkit::proxy::{Cut, Direction, Proxy};
use walpost_testkit::servers::{Postgres, Stop, shared_kafka, shared_postgres};

use crate::rig::{LIMIT, Rig, breakable_kafka, eventually, let_pass};

/// Writers that leave some air.
const PAUSE: Duration = Duration::from_millis(5);

/// Far less than a walsender waits for a relay that answers nothing.
const PROMPT: Duration = Duration::from_secs(20);

#[test]
fn a_broker_that_freezes_or_is_killed_and_comes_back_gets_everything_once() {
    let mut kafka = breakable_kafka();
    let rig = Rig::ready_on(shared_postgres(), kafka.endpoint(), "broker", &["public.outbox"]);
    let relay = rig.start_streaming();
    let walsender = rig.walsender();
    let running = rig.workload().pause(PAUSE).start();
    running.wait_for_more_rows(100, LIMIT).unwrap();
    kafka.sigstop().unwrap();
    running.wait_for_more_rows(300, LIMIT).unwrap();
    kafka.sigcont().unwrap();
    running.wait_for_more_rows(100, LIMIT).unwrap();
    kafka.kill9().unwrap();
    running.wait_for_more_rows(300, LIMIT).unwrap();
    kafka.start_again().unwrap();
    running.wait_for_more_rows(100, LIMIT).unwrap();
    let _ = running.stop();
    rig.assert_delivered(Repeats::Forbidden);
    assert_eq!(rig.walsender(), walsender, "the source must not suffer from the broker");
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_relay_that_starts_before_its_broker_publishes_once_it_is_there() {
    let mut kafka = breakable_kafka();
    let rig = Rig::ready_on(shared_postgres(), kafka.endpoint(), "early", &["public.outbox"]);
    kafka.kill9().unwrap();
    let relay = rig.start_streaming();
    rig.workload().transactions(50).run(LIMIT).unwrap();
    rig.wait_until_sent();
    assert!(relay.is_running());
    kafka.start_again().unwrap();
    rig.assert_delivered(Repeats::Forbidden);
}

#[test]
fn a_sink_that_stalls_for_ten_seconds_does_not_cost_the_connection_to_postgres() {
    let kafka = breakable_kafka();
    let mut rig = Rig::ready_on(shared_postgres(), kafka.endpoint(), "stalled", &["public.outbox"]);
    rig.configure(|config| {
        config.set("source", "wal_sender_timeout_ms", "4000").set("limits", "in_flight_records", "200")
    });
    let relay = rig.start_streaming();
    let walsender = rig.walsender();
    kafka.sigstop().unwrap();
    // Many times what may be in flight, so that the relay stops listening for want of room; and a trickle for the whole time.
    rig.insert("key", 0, 20_000);
    let running = rig.workload().writers(1).pause(Duration::from_millis(100)).start();
    let_pass(Duration::from_secs(10));
    assert_eq!(rig.walsender(), walsender, "{}", relay.log());
    kafka.sigcont().unwrap();
    let _ = running.stop();
    rig.assert_delivered(Repeats::Forbidden);
    assert_eq!(rig.walsender(), walsender, "{}", relay.log());
}

#[test]
fn a_fast_shutdown_of_postgres_is_not_held_up_even_while_the_broker_is_away() {
    let kafka = breakable_kafka();
    let mut postgres = Postgres::start().unwrap();
    let rig = Rig::ready_on(postgres.endpoint(), kafka.endpoint(), "shutdown", &["public.outbox"]);
    let relay = rig.start_streaming();
    rig.workload().transactions(50).run(LIMIT).unwrap();
    rig.assert_delivered(Repeats::Forbidden);
    kafka.sigstop().unwrap();
    rig.workload().seed(2).transactions(200).run(LIMIT).unwrap();
    rig.wait_until_sent();
    let took = postgres.stop(Stop::Fast, LIMIT).unwrap();
    assert!(took < PROMPT, "{took:?}");
    kafka.sigcont().unwrap();
    postgres.start_again().unwrap();
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_postgres_that_is_restarted_in_any_way_is_found_again_and_nothing_is_repeated() {
    let mut postgres = Postgres::builder().setting("track_commit_timestamp", "on").start().unwrap();
    let rig = Rig::ready_on(postgres.endpoint(), shared_kafka(), "restarted", &["public.outbox"]);
    let relay = rig.start_streaming();
    let running = rig.workload().pause(PAUSE).start();
    for mode in [Some(Stop::Fast), Some(Stop::Immediate), None] {
        running.wait_for_more_rows(100, LIMIT).unwrap();
        match mode {
            Some(mode) => {
                let took = postgres.stop(mode, LIMIT).unwrap();
                assert!(took < PROMPT, "{mode:?} took {took:?}");
            }
            None => postgres.kill9().unwrap(),
        }
        postgres.start_again().unwrap();
        running.wait_for_more_rows(100, LIMIT).unwrap();
    }
    let _ = running.stop();
    // Here the server also tells when each row was committed, which is the time of its record.
    let commit_time =
        ", seq, floor(extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000)::bigint AS timestamp_ms FROM";
    let query = rig.outboxes[0].truth().replace(", seq FROM", commit_time);
    let truth = Truth::read(&rig.database.url(), &query).unwrap();
    assert!(truth.rows().all(|row| row.timestamp_ms.is_some()));
    rig.verdict(&rig.with_partitions(truth)).assert_clean(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_walsender_that_is_terminated_is_replaced_and_nothing_is_repeated() {
    let rig = Rig::ready("terminated", &["public.outbox"]);
    let relay = rig.start_streaming();
    let running = rig.workload().pause(PAUSE).start();
    for _ in 0..4 {
        running.wait_for_more_rows(100, LIMIT).unwrap();
        eventually("the relay to stream", || rig.walsender().is_some());
        let walsender = rig.walsender().unwrap_or_default();
        assert_eq!(rig.value(&format!("SELECT pg_terminate_backend({walsender})")), "t");
        eventually("another walsender", || rig.walsender().is_some_and(|pid| pid != walsender));
    }
    let _ = running.stop();
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn sessions_of_the_relay_that_are_all_terminated_are_replaced() {
    let rig = Rig::ready("sessions", &["public.outbox"]);
    let relay = rig.start_streaming();
    let running = rig.workload().pause(PAUSE).start();
    for _ in 0..3 {
        running.wait_for_more_rows(100, LIMIT).unwrap();
        // The writers' too.
        rig.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()",
        );
        running.wait_for_more_rows(50, LIMIT).unwrap();
    }
    let _ = running.stop();
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

/// A relay that reaches PostgreSQL through a proxy.
fn behind_a_proxy(label: &str) -> (Proxy, Rig) {
    let proxy = Proxy::to_port(shared_postgres().port()).unwrap();
    let mut rig = Rig::ready(label, &["public.outbox"]);
    rig.reach_by_port(proxy.port());
    rig.configure(|config| {
        config.set("source", "wal_sender_timeout_ms", "2000").set("source", "connect_timeout_ms", "2000")
    });
    (proxy, rig)
}

#[test]
fn a_connection_cut_within_a_row_is_replaced_and_the_row_arrives_whole_and_once() {
    let (proxy, rig) = behind_a_proxy("cut");
    let relay = rig.start_streaming();
    let mut running = None;
    for (cut, bytes) in [(Cut::Reset, 1_000), (Cut::Close, 70_000), (Cut::Reset, 200_001), (Cut::Close, 300_003)] {
        proxy.cut_after(Direction::ToClient, bytes, cut);
        let workload = rig.workload().payload_bytes(60_000).seed(bytes);
        let running = running.insert(workload.start());
        eventually("the cut", || !proxy.is_cut_pending());
        running.wait_for_more_rows(20, LIMIT).unwrap();
        eventually("the relay to stream again", || rig.walsender().is_some());
    }
    drop(running);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_peer_that_falls_silent_is_given_up_and_found_again() {
    for is_half_open in [false, true] {
        let (proxy, rig) = behind_a_proxy("silent");
        let relay = rig.start_streaming();
        rig.workload().seed(1).transactions(30).run(LIMIT).unwrap();
        rig.assert_delivered(Repeats::Forbidden);
        let connections = proxy.accepted();
        if is_half_open {
            proxy.half_open();
        } else {
            proxy.stall();
        }
        rig.workload().seed(2).transactions(30).run(LIMIT).unwrap();
        eventually("the relay to give the silent connection up", || proxy.accepted() > connections);
        assert!(relay.is_running());
        // What hangs there is never heard of again.
        proxy.cut(Cut::Reset);
        proxy.pass();
        rig.assert_delivered(Repeats::Forbidden);
        relay.stop(LIMIT).unwrap().assert_success();
    }
}

#[test]
fn a_slow_network_delays_and_loses_nothing() {
    let (proxy, mut rig) = behind_a_proxy("slow");
    // A row has to come within it: of a part of a row the relay does not hear.
    rig.configure(|config| config.set("source", "wal_sender_timeout_ms", "4000"));
    let relay = rig.start_streaming();
    proxy.slow(200_000);
    let since = Instant::now();
    rig.workload().keys(1, 0).payload_bytes(150_000).transactions(10).run(LIMIT).unwrap();
    rig.assert_delivered(Repeats::Forbidden);
    assert!(since.elapsed() > Duration::from_secs(3), "the network was not slow: {:?}", since.elapsed());
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_relay_that_is_stopped_while_its_database_is_away_still_writes_its_last_checkpoint() {
    let (proxy, mut rig) = behind_a_proxy("parted");
    let path = rig.walpost.folder().join("checkpoint");
    rig.call(&["checkpoint", "copy", "--to", &format!("file:{}", path.display())]).assert_success();
    rig.configure(|config| {
        config.set("checkpoint", "store", r#""file""#).set("checkpoint", "path", &format!("{path:?}")).set(
            "checkpoint",
            "interval_ms",
            "600000",
        )
    });
    let relay = rig.start_streaming();
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    proxy.refuse();
    proxy.cut(Cut::Reset);
    relay.wait_for_log("trying again", LIMIT).unwrap();
    relay.stop(LIMIT).unwrap().assert_success();
    proxy.pass();
    let relay = rig.start_streaming();
    rig.insert("key", 10, 5);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_missing_topic_holds_the_stream_is_named_and_lets_go_when_it_is_made() {
    let mut rig = Rig::empty("missing");
    rig.sql("CREATE TABLE outbox (id bigint, aggregatetype text, aggregateid text, payload text)");
    let route = rig.topic("${routedByValue}");
    rig.configure(|config| config.outbox("outbox", &[("route.topic.replacement", &route)]));
    let [known, missing] = ["known", "missing"].map(|name| rig.topic(name));
    shared_kafka().create_topic(&known, 1).unwrap();
    rig.init();
    let relay = rig.start_streaming();
    let rows = |kind: &str, from: i64| {
        rig.sql(&format!(
            "INSERT INTO outbox SELECT number, '{kind}', 'key', 'text ' || number FROM generate_series({from}, {}) AS number",
            from + 9
        ))
    };
    rows("known", 0);
    let mut consumer = rig.consumer();
    consumer.read_count(10, LIMIT).unwrap();
    rows("missing", 10);
    let end = rig.value("SELECT pg_current_wal_flush_lsn()");
    relay.wait_for_log(&missing, LIMIT).unwrap();
    rows("known", 20);
    assert!(relay.is_running());
    let passed = format!("confirmed_flush_lsn >= '{end}'");
    assert_eq!(rig.slot(&passed), "f", "what is not delivered must not be confirmed");
    shared_kafka().create_topic(&missing, 1).unwrap();
    let query = format!(
        "SELECT id::text AS id, '{}' || aggregatetype AS topic, aggregateid AS key, convert_to(payload, 'UTF8') AS value, id AS seq FROM outbox",
        rig.topic("")
    );
    let truth = Truth::read(&rig.database.url(), &query).unwrap();
    assert_eq!(truth.len(), 30);
    rig.verdict(&truth).assert_clean(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn where_bad_rows_stop_the_relay_it_stops_behind_all_rows_before_one() {
    let bad_rows = [
        ("large", "'known', repeat('x', 2000000)", "too large"),
        ("named", "'no topic', 'text'", "no topic"),
        ("unnamed", "NULL, 'text'", "aggregatetype"),
    ];
    for (label, bad_row, reason) in bad_rows {
        let mut rig = Rig::empty(label);
        rig.sql("CREATE TABLE outbox (id bigint, aggregatetype text, aggregateid text, payload text)");
        let route = rig.topic("${routedByValue}");
        rig.configure(|config| config.outbox("outbox", &[("route.topic.replacement", &route)]));
        rig.stop_at_bad_rows();
        shared_kafka().create_topic(&rig.topic("known"), 1).unwrap();
        rig.init();
        let relay = rig.start_streaming();
        rig.sql(&format!(
            "BEGIN; INSERT INTO outbox SELECT number, 'known', 'key', 'text' FROM generate_series(1, 50) AS number; \
             INSERT INTO outbox (id, aggregateid, aggregatetype, payload) VALUES (51, 'key', {bad_row}); \
             INSERT INTO outbox VALUES (52, 'known', 'key', 'text'); COMMIT"
        ));
        let ended = relay.wait(LIMIT).unwrap();
        ended.assert_said(7, &[]);
        let last = ended.log.lines().rfind(|line| line.contains("ERROR")).unwrap_or_default().to_lowercase();
        assert!(
            last.contains(reason) && last.contains("insert 51"),
            "neither the reason nor the 51st row is named: {last}"
        );
        let mut consumer = rig.consumer();
        let delivered: Vec<_> = consumer.read_to_end(LIMIT).unwrap().iter().filter_map(|record| record.id()).collect();
        let expected: Vec<_> = (1..=50).map(|id| id.to_string()).collect();
        assert_eq!(delivered, expected, "{label}");
        assert_eq!(rig.value("SELECT to_regclass('walpost.dead_letter') IS NULL"), "t", "the table is not needed");
    }
}

#[test]
fn what_is_in_flight_with_a_record_that_is_refused_fills_no_log() {
    let mut rig = Rig::ready("flood", &["public.outbox"]);
    // Of two records a batch is too large for the topic, and of one it is not.
    rig.limit_records(600);
    rig.configure(|config| config.set("sink.kafka", "compression.type", r#""none""#));
    let relay = rig.start_streaming();
    rig.insert("a", 0, 1);
    rig.consumer().read_ids(&rig.committed(), LIMIT).unwrap();
    rig.insert("a", 1, 1000);
    relay.wait_for_log("more records were not delivered", LIMIT).unwrap();
    let before_the_rest = relay.log().split("more records").next().unwrap_or_default().to_owned();
    assert_eq!(before_the_rest.matches("a record was not delivered").count(), 10, "{before_the_rest}");
    relay.kill9().unwrap();
}
