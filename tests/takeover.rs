//! A second instance stands by and takes over: how it shows, how long it takes, and what a first one does that wakes up too late.
//!
//! On one machine the server notices at once that a killed process is gone. What governs the time elsewhere is in `docs/guarantees.md`.

use std::time::{Duration, Instant};

use walpost_testkit::checker::Repeats;
use walpost_testkit::consumer::Consumer;
use walpost_testkit::relay::{Relay, toml_string};
use walpost_testkit::servers::{shared_kafka, shared_postgres};

use crate::exactly_once;
use crate::observe::{value, wait_for_value, wait_until_ready, wait_until_unready};
use crate::rig::{LIMIT, Rig, breakable_kafka, eventually};

/// What is promised, on a machine that is in order.
const PROMISE: Duration = Duration::from_secs(5);
/// How often it has to be kept, and in how many tries: one may fall to a machine that does much else.
const KEPT: usize = 2;
const TRIES: i64 = 3;

/// A first instance that streams, and a second that waits for it and says so.
#[track_caller]
fn pair(rig: &Rig) -> (Relay, Relay) {
    let first = rig.start_streaming();
    wait_until_ready(&first);
    let holder = rig.walsender().unwrap();
    let second = rig.start();
    let line = second.wait_for_log("standing by", LIMIT).unwrap();
    assert!(line.contains(&format!("is read by process {holder} of the server")), "{line}");
    wait_until_unready(&second, "standing_by", &format!("process {holder}"));
    wait_for_value(&second, "walpost_state", &[("state", "standing_by")], 1.0);
    wait_for_value(&second, "walpost_ready", &[], 0.0);
    (first, second)
}

/// Lets the second take over from a killed first, and measures that, until the promise was kept as often as it has to be.
#[track_caller]
fn assert_takes_over(rig: &Rig, label: &str) -> Relay {
    let mut consumer = rig.consumer();
    let mut times = Vec::new();
    for try_number in 0..TRIES {
        let (second, took) = take_over(rig, &mut consumer, try_number);
        times.push(took);
        println!(
            "{label}: {took:?} from the kill to the first event that was committed after it; {PROMISE:?} are promised"
        );
        if times.iter().filter(|took| **took < PROMISE).count() == KEPT {
            return second;
        }
        second.stop(LIMIT).unwrap().assert_success();
    }
    panic!("{label}: fewer than {KEPT} of {times:?} are within the {PROMISE:?} that are promised");
}

/// From the kill of the first to the arrival of an event that was committed after it.
#[track_caller]
fn take_over(rig: &Rig, consumer: &mut Consumer, try_number: i64) -> (Relay, Duration) {
    let (first, second) = pair(rig);
    rig.insert("before", try_number * 10, 10);
    consumer.read_ids(&rig.committed(), LIMIT).unwrap();
    let killed = Instant::now();
    first.kill9().unwrap();
    rig.insert("after", try_number, 1);
    consumer.read_ids(&rig.committed(), LIMIT).unwrap();
    let took = killed.elapsed();
    wait_until_ready(&second);
    wait_for_value(&second, "walpost_state", &[("state", "streaming")], 1.0);
    (second, took)
}

#[test]
fn a_second_instance_takes_over_from_a_killed_one_with_the_checkpoint_in_the_database() {
    let rig = Rig::ready("over_postgres", &["public.outbox"]);
    let second = assert_takes_over(&rig, "postgres");
    rig.assert_delivered(Repeats::Allowed);
    second.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_second_instance_takes_over_from_a_killed_one_with_the_checkpoint_in_a_file_of_the_same_machine() {
    let mut rig = Rig::with_tables("over_file", &["public.outbox"]);
    let path = rig.walpost.folder().join("checkpoint").display().to_string();
    rig.configure(|config| {
        config.set("checkpoint", "store", r#""file""#).set("checkpoint", "path", &toml_string(&path))
    });
    rig.init();
    let second = assert_takes_over(&rig, "file");
    rig.assert_delivered(Repeats::Allowed);
    second.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_second_instance_takes_over_from_a_killed_one_with_the_checkpoint_in_kafka_and_nothing_is_seen_twice() {
    let rig = exactly_once::rig(shared_kafka(), "over_kafka");
    let second = assert_takes_over(&rig, "kafka");
    second.stop(LIMIT).unwrap().assert_success();
    exactly_once::assert_exactly_once(&rig, shared_kafka());
}

#[test]
fn an_instance_that_wakes_after_its_deadline_takes_back_what_it_had_queued() {
    /// Records of one request. Five of them may be on the wire.
    const BATCH: usize = 10;
    const ROWS: i64 = 2_000;
    let kafka = breakable_kafka();
    let network = kafka.network();
    let mut rig = Rig::ready_on(shared_postgres(), kafka.endpoint(), "woken", &["public.outbox"]);
    let direct = kafka.bootstrap().to_owned();
    rig.configure(|config| {
        config.set("source", "wal_sender_timeout_ms", "2000").set(
            "sink.kafka",
            "batch.num.messages",
            &toml_string(&BATCH.to_string()),
        )
    });
    rig.reach_kafka_by_network(&kafka);
    let first = rig.start_streaming();
    wait_until_ready(&first);
    let start = rig.value("SELECT pg_current_wal_lsn()");
    rig.insert("before", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    // What is not checkpointed comes again, whoever goes on.
    eventually("a checkpoint behind them", || rig.slot(&format!("confirmed_flush_lsn > '{start}'")) == "t");
    network.stall();
    rig.insert("stalled", 0, ROWS);
    rig.wait_until_sent();
    eventually("the first to have it all", || value(&first, "walpost_owed_records", &[]) >= 1_000.0);
    first.sigstop().unwrap();
    // The second goes to the broker past the network that keeps what the first had sent.
    rig.configure(|config| config.kafka(&direct));
    let second = rig.start();
    second.wait_for_log("streaming", LIMIT).unwrap();
    rig.assert_delivered(Repeats::Forbidden);
    let lines = first.log_lines();
    first.sigcont().unwrap();
    wait_until_unready(&first, "standing_by", &format!("process {}", rig.walsender().unwrap()));
    first.wait_for_log_since(lines, "standing by", LIMIT).unwrap();
    network.pass();
    second.kill9().unwrap();
    wait_until_ready(&first);
    rig.insert("after", 0, 10);
    let verdict = rig.assert_delivered(Repeats::Allowed);
    // What was on the wire when it was frozen, and what the second had not checkpointed, which was all long ago.
    assert!(verdict.repeated.count() <= 5 * BATCH, "it sent what it should have taken back: {verdict}");
    first.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn what_an_instance_had_open_in_a_transaction_when_another_took_over_is_never_seen_and_it_says_so() {
    const ROWS: i64 = 300;
    let kafka = breakable_kafka();
    let network = kafka.network();
    network.listen_to_kafka();
    let endpoint = kafka.endpoint().clone();
    let mut rig = exactly_once::rig(&endpoint, "woken_fenced");
    // Ten rows a request, and nothing that makes them smaller: the transaction takes its time on a slow network.
    rig.configure(|config| {
        config.set("sink.kafka", "batch.num.messages", r#""10""#).set("sink.kafka", "compression.type", r#""none""#)
    });
    rig.reach_kafka_by_network(&kafka);
    let first = rig.start_streaming();
    rig.insert("before", 0, 10);
    let mut consumer = rig.consumer();
    consumer.read_ids(&rig.committed(), LIMIT).unwrap();
    eventually("the group to be committed", || network.asked().to_string().contains("EndTxn"));
    let before = network.asked();
    network.slow(4_000);
    rig.sql(&format!(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) \
         SELECT gen_random_uuid(), 'order', 'open', 'Changed', jsonb_build_object('filling', repeat('x', 1000)), seq \
         FROM generate_series(1, {ROWS}) AS seq"
    ));
    // The broker has written some of it, and its answers do not come back any more: the transaction is open.
    eventually("rows to be published", || network.asked().since(&before).to_string().contains("Produce"));
    network.mute();
    eventually("rows to be with the broker", || network.kept_back().to_string().contains("Produce"));
    first.sigstop().unwrap();
    let asked = network.asked().since(&before).to_string();
    assert!(!asked.contains("EndTxn"), "the transaction was ended before it could be left open: {asked}");
    // The second goes to the broker past the network.
    rig.configure(|config| config.kafka(endpoint.bootstrap()));
    let second = rig.start();
    second.wait_for_log("streaming", LIMIT).unwrap();
    consumer.read_ids(&rig.committed(), LIMIT).unwrap();
    wait_until_ready(&second);
    let lines = first.log_lines();
    network.pass();
    first.sigcont().unwrap();
    first.wait_for_log_since(lines, "has taken over (transactional id", LIMIT).unwrap();
    let holder = rig.walsender().unwrap();
    wait_until_unready(&first, "standing_by", &format!("process {holder}"));
    rig.insert("after", 0, 10);
    consumer.read_ids(&rig.committed(), LIMIT).unwrap();
    // It knows of nobody who published what it had open.
    let ended = first.stop(LIMIT).unwrap();
    ended.assert_said(9, &[&format!("stopped with {ROWS} rows neither delivered nor set aside")]);
    second.stop(LIMIT).unwrap().assert_success();
    exactly_once::assert_exactly_once(&rig, &endpoint);
}
