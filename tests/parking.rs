//! Rows that cannot be delivered, from the log to the table and from there to the topic: what is set aside, what waits behind it, what
//! an operator does about it, and what consumers see of it.

mod busy;
mod firsts;
mod limits;
mod misfits;
mod outages;
mod renamed;
mod returned;

use walpost_testkit::checker::Repeats;
use walpost_testkit::relay::{Ended, Relay};

use crate::observe::{value, wait_for_value, wait_until_ready};
use crate::rig::{LIMIT, Rig, eventually};

/// What the topics of most tests take at first, and what they take once they are mended.
const SMALL: u32 = 5_000;
const LARGE: u32 = 1_000_000;

/// A relay with an outbox of the reference form, whose topics take small records only.
fn narrow(label: &str) -> Rig {
    let mut rig = Rig::ready(label, &["public.outbox"]);
    rig.limit_records(SMALL);
    // The broker weighs what is compressed.
    rig.configure(|config| config.set("sink.kafka", "compression.type", r#""none""#));
    rig
}

/// Has `walpost status` ask this relay, whose port the system chose.
fn status_of(rig: &mut Rig, relay: &Relay) -> Ended {
    let address = relay.http_address(LIMIT).unwrap();
    rig.configure(|config| config.set("http", "listen", &format!("\"{address}\"")));
    rig.call(&["status"])
}

/// Inserts one row that such a topic does not take.
#[track_caller]
fn insert_large(rig: &Rig, key: &str, seq: i64) {
    rig.sql(&format!(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) \
         SELECT gen_random_uuid(), 'order', '{key}', 'Changed', jsonb_build_object('seq', {seq}, 'filling', \
         string_agg(md5(random()::text), '')), {seq} FROM generate_series(1, 300)"
    ));
}

/// A figure of the letters, for a test that waits for it.
#[track_caller]
fn count(rig: &Rig, condition: &str) -> usize {
    rig.value(&format!("SELECT count(*) FROM walpost.dead_letter WHERE {condition}")).parse().unwrap()
}

/// Waits until so many letters lie there, neither sent nor dropped.
#[track_caller]
fn wait_for_open(rig: &Rig, expected: usize) {
    eventually(&format!("{expected} open letters"), || count(rig, "state NOT IN ('sent', 'dropped')") == expected);
}

/// A broker takes a moment to heed what a topic was told to take: what came back meanwhile is marked again.
fn wait_until_all_are_sent(rig: &Rig) {
    eventually("all letters to be sent", || {
        let is_over = count(rig, "state NOT IN ('sent', 'dropped')") == 0;
        if !is_over && count(rig, "state = 'waiting'") > 0 {
            rig.call(&["dlq", "replay", "--all", "--yes"]).assert_success();
        }
        is_over
    });
}

/// `key seq cause` of all letters, in order.
fn letters(rig: &Rig) -> String {
    rig.value(
        "SELECT coalesce(string_agg(concat_ws(' ', key, seq, cause), ', ' ORDER BY letter.id), '') \
         FROM walpost.dead_letter AS letter JOIN outbox ON outbox.id::text = event_id",
    )
}

/// The sequence of a key as its consumers got it.
fn delivered(rig: &Rig, key: &str) -> Vec<i64> {
    let mut consumer = rig.consumer();
    let records = consumer.read_to_end(LIMIT).unwrap().iter().filter(|record| record.key_text() == key);
    let values = records.map(|record| serde_json::from_str::<serde_json::Value>(&record.value_text()).unwrap());
    values.map(|value| value["seq"].as_i64().unwrap()).collect()
}

#[track_caller]
fn wait_for_delivered(rig: &Rig, key: &str, expected: &[i64]) {
    eventually(&format!("{expected:?} of {key}"), || delivered(rig, key) == expected);
}

#[track_caller]
fn stop(relay: Relay) {
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_row_too_large_is_set_aside_its_key_waits_and_all_of_it_is_sent_in_order_once_the_topic_is_mended() {
    let rig = narrow("mended");
    let relay = rig.start_streaming();
    rig.insert("a", 0, 1);
    insert_large(&rig, "a", 1);
    rig.insert("a", 2, 3);
    rig.insert("b", 0, 20);
    wait_for_delivered(&rig, "b", &(0..20).collect::<Vec<_>>());
    wait_for_open(&rig, 4);
    assert_eq!(letters(&rig), "a 1 row, a 2 parked, a 3 parked, a 4 parked");
    assert_eq!(delivered(&rig, "a"), [0]);
    // What is set aside is settled: nothing is owed, the slot moves, and the relay is well.
    eventually("nothing to be owed", || value(&relay, "walpost_owed_records", &[]) == 0.0);
    wait_until_ready(&relay);
    wait_for_value(&relay, "walpost_dead_letters_open", &[], 4.0);
    wait_for_value(&relay, "walpost_dead_letters_total", &[("cause", "own")], 1.0);
    wait_for_value(&relay, "walpost_dead_letters_total", &[("cause", "parked")], 3.0);
    wait_for_value(&relay, "walpost_parked_keys", &[], 1.0);
    let last = rig.value("SELECT max(commit_lsn) FROM walpost.dead_letter");
    eventually("the slot to pass the letters", || rig.slot(&format!("confirmed_flush_lsn > '{last}'")) == "t");
    rig.call(&["dlq", "list"]).assert_said(0, &["4 letters", "waits for a letter of its key"]);
    let root = rig.value("SELECT min(id) FROM walpost.dead_letter");
    rig.call(&["dlq", "show", &root]).assert_said(0, &["too large", "max.message.bytes", "waiting"]);

    // The next relay knows the key from the first frame on.
    stop(relay);
    let relay = rig.start();
    rig.insert("a", 5, 2);
    rig.insert("b", 20, 1);
    wait_for_open(&rig, 6);
    wait_for_delivered(&rig, "b", &(0..21).collect::<Vec<_>>());
    assert_eq!(delivered(&rig, "a"), [0]);

    rig.limit_records(LARGE);
    rig.call(&["dlq", "replay", "--key", "a", "--yes"]).assert_said(0, &["6 letters are marked"]);
    wait_until_all_are_sent(&rig);
    eventually("the key to be let go", || value(&relay, "walpost_parked_keys", &[]) == 0.0);
    rig.insert("a", 7, 3);
    wait_for_delivered(&rig, "a", &(0..10).collect::<Vec<_>>());
    wait_for_value(&relay, "walpost_dead_letters_ended_total", &[("outcome", "sent")], 6.0);
    // Byte for byte, and with the time of its commit.
    rig.assert_delivered(Repeats::Allowed);
    let times = rig.sql(
        "SELECT event_id, floor(extract(epoch FROM commit_time) * 1000)::bigint FROM walpost.dead_letter ORDER BY id",
    );
    assert_eq!(times.len(), 6);
    let mut consumer = rig.consumer();
    let records = consumer.read_to_end(LIMIT).unwrap();
    for [id, time] in times.iter().map(|row| [&row[0], &row[1]]) {
        let record = records.iter().find(|record| record.id() == Some(id)).unwrap();
        assert_eq!(record.timestamp_ms, Some(time.parse().unwrap()), "{id}");
    }
    stop(relay);
    assert_eq!(count(&rig, "state = 'sent' AND attempts >= 1"), 6);
}

#[test]
fn a_long_queue_of_one_key_is_sent_in_order_and_without_a_wait_for_each() {
    const LETTERS: i64 = 1500;
    let rig = narrow("longqueue");
    let relay = rig.start_streaming();
    insert_large(&rig, "a", 0);
    rig.insert("a", 1, LETTERS - 1);
    wait_for_open(&rig, usize::try_from(LETTERS).unwrap());
    rig.limit_records(LARGE);
    let since = std::time::Instant::now();
    rig.call(&["dlq", "replay", "--key", "a", "--yes"]).assert_success();
    wait_until_all_are_sent(&rig);
    let took = since.elapsed();
    eprintln!("{LETTERS} letters in {took:?}");
    assert!(took < LIMIT, "{took:?}: each waited for the one in front of it");
    assert_eq!(delivered(&rig, "a"), (0..LETTERS).collect::<Vec<_>>());
    stop(relay);
}

#[test]
fn where_keys_are_not_parked_later_rows_overtake_a_letter_and_it_is_sent_when_it_is_asked_for() {
    let mut rig = narrow("overtaken");
    rig.configure(|config| config.set("dead_letter", "on_bad_row", r#""dead_letter""#));
    let relay = rig.start_streaming();
    insert_large(&rig, "a", 0);
    rig.insert("a", 1, 3);
    insert_large(&rig, "a", 4);
    rig.insert("a", 5, 1);
    wait_for_delivered(&rig, "a", &[1, 2, 3, 5]);
    wait_for_open(&rig, 2);
    assert_eq!(letters(&rig), "a 0 row, a 4 row");
    wait_until_ready(&relay);
    rig.limit_records(LARGE);
    rig.call(&["dlq", "replay", "--key", "a", "--yes"]).assert_success();
    wait_until_all_are_sent(&rig);
    wait_for_delivered(&rig, "a", &[1, 2, 3, 5, 0, 4]);
    stop(relay);
}

#[test]
fn a_letter_that_is_dropped_is_never_sent_and_those_behind_it_go_by_themselves() {
    let rig = narrow("dropped");
    let relay = rig.start_streaming();
    insert_large(&rig, "a", 0);
    rig.insert("a", 1, 3);
    wait_for_open(&rig, 4);
    assert_eq!(delivered(&rig, "a"), Vec::<i64>::new());
    let root = rig.value("SELECT min(id) FROM walpost.dead_letter");
    let words = ["1 letter is marked", "behind them 3 letters go by themselves", "dlq drop --state waiting,replay"];
    rig.call(&["dlq", "drop", "--id", &root, "--yes"]).assert_said(0, &words);
    wait_for_delivered(&rig, "a", &[1, 2, 3]);
    wait_for_open(&rig, 0);
    wait_for_value(&relay, "walpost_dead_letters_ended_total", &[("outcome", "dropped")], 1.0);
    eventually("the key to be let go", || value(&relay, "walpost_parked_keys", &[]) == 0.0);
    rig.insert("a", 4, 1);
    wait_for_delivered(&rig, "a", &[1, 2, 3, 4]);
    stop(relay);
}

#[test]
fn a_letter_that_fails_again_is_returned_with_its_reason_and_those_behind_it_wait() {
    let rig = narrow("returned");
    let relay = rig.start_streaming();
    insert_large(&rig, "a", 0);
    rig.insert("a", 1, 1);
    insert_large(&rig, "a", 2);
    rig.insert("a", 3, 1);
    wait_for_open(&rig, 4);
    assert_eq!(letters(&rig), "a 0 row, a 1 parked, a 2 parked, a 3 parked");
    rig.call(&["dlq", "replay", "--key", "a", "--yes"]).assert_success();
    eventually("the letter to come back", || count(&rig, "state = 'waiting' AND attempts = 2") == 1);
    rig.insert("b", 0, 5);
    wait_for_delivered(&rig, "b", &[0, 1, 2, 3, 4]);
    wait_for_value(&relay, "walpost_dead_letters_ended_total", &[("outcome", "returned")], 1.0);
    assert_eq!((delivered(&rig, "a"), count(&rig, "state = 'replay'")), (vec![], 3));
    // The first is given up. The third had no reason of its own until it was tried.
    let root = rig.value("SELECT min(id) FROM walpost.dead_letter");
    rig.call(&["dlq", "drop", "--id", &root, "--yes"]).assert_success();
    wait_for_delivered(&rig, "a", &[1]);
    eventually("the third to come back", || count(&rig, "state = 'waiting' AND cause = 'row' AND attempts = 2") == 1);
    assert!(relay.log().contains("failed again"), "{}", relay.log());
    rig.limit_records(LARGE);
    rig.call(&["dlq", "replay", "--key", "a", "--yes"]).assert_success();
    wait_until_all_are_sent(&rig);
    wait_for_delivered(&rig, "a", &[1, 2, 3]);
    wait_until_ready(&relay);
    stop(relay);
}
