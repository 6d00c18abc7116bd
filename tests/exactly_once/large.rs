//! Transactions of many rows, which may not be given up for ever for the sake of a few of them.

use super::*;

/// How old a transaction of the sink may become. Sent one at a time, thousands of rows would take longer.
const TIMEOUT: &str = "10000";

/// Batches that are full, and that a topic takes unless a row of [`insert_too_large`] is among them.
fn in_large_batches(rig: &mut Rig) {
    rig.configure(|config| {
        config.set("sink.kafka", "transaction.timeout.ms", TIMEOUT).set("sink.kafka", "batch.num.messages", "2000").set(
            "sink.kafka",
            "compression.type",
            r#""none""#,
        )
    });
    rig.limit_records(LIMIT_OF_TOPIC);
}

const LIMIT_OF_TOPIC: u32 = 700_000;

/// So many rows of many keys, and behind them some that no topic takes, in one transaction.
fn insert(rig: &Rig, rows: u32, too_large: u32) {
    rig.sql(&format!(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) \
         SELECT gen_random_uuid(), 'order', 'key-' || n, 'Changed', jsonb_build_object('seq', 0, 'filling', \
         CASE WHEN n > {rows} THEN repeat('x', 800000) ELSE '' END), 0 FROM generate_series(1, {rows} + {too_large}) AS n"
    ));
}

#[test]
fn a_large_transaction_passes_whose_rows_have_timed_out_with_a_broker_that_was_away() {
    let kafka = breakable_kafka();
    let endpoint = kafka.endpoint().clone();
    let mut rig = rig(&endpoint, "largeoutage");
    rig.configure(|config| config.set("sink.kafka", "transaction.timeout.ms", TIMEOUT));
    let relay = rig.start_streaming();
    insert(&rig, 1, 0);
    rig.consumer().read_ids(&rig.committed(), LIMIT).unwrap();
    kafka.sigstop().unwrap();
    insert(&rig, 25_000, 0);
    // It is said before it happens.
    let group = "a group of events is not committed yet";
    let warning = relay.wait_for_log(group, LIMIT).unwrap();
    assert!(warning.contains("WARN") && warning.contains(&format!("timeout_ms={TIMEOUT}")), "{warning}");
    relay.wait_for_log("Local: Message timed out", LIMIT).unwrap();
    let (log, ended) = (relay.log(), "Local: Message timed out");
    assert!(log.find(group) < log.find(ended), "{log}");
    kafka.sigcont().unwrap();
    rig.consumer().read_ids(&rig.committed(), LIMIT).unwrap();
    relay.stop(LIMIT).unwrap().assert_success();
    assert_exactly_once(&rig, &endpoint);
}

#[test]
fn a_row_at_the_end_of_a_large_transaction_that_no_topic_takes_is_set_aside_and_the_rest_passes() {
    let mut rig = narrow("largebad");
    in_large_batches(&mut rig);
    let relay = rig.start_streaming();
    insert(&rig, 25_000, 1);
    assert_mended_and_sent(&rig, relay);
}

#[test]
fn many_rows_of_one_transaction_that_no_topic_takes_are_set_aside_without_waits_that_grow() {
    let mut rig = narrow("manybad");
    in_large_batches(&mut rig);
    // Each of them takes its group with it, and after ten waits that double nobody would be here any more.
    rig.configure(|config| config.set("retry", "max_ms", "60000"));
    let relay = rig.start_streaming();
    insert(&rig, 10, 10);
    eventually("the letters", || letters(&rig, "waiting") == 10);
    relay.stop(LIMIT).unwrap().assert_success();
}
