//! Topics that several relays share: a transaction that another one has open there hides what we have committed behind it.

use walpost_testkit::neighbour::OpenTransaction;
use walpost_testkit::servers::{shared_kafka, shared_postgres};

use crate::exactly_once::assert_exactly_once;
use crate::rig::{LIMIT, Rig, eventually};

/// A relay that commits events, letters and checkpoint together, in topics of this test, and whose events' topics take small records only.
fn narrow(label: &str) -> (Rig, [String; 2]) {
    let mut rig = Rig::with_tables_on(shared_postgres(), shared_kafka(), label, &["public.outbox"]);
    let [checkpoints, letters] = ["checkpoints", "letters"].map(|what| format!("{what}-{}", rig.database.name()));
    rig.configure(|config| {
        config
            .set("checkpoint", "store", r#""kafka""#)
            .set("checkpoint", "topic", &format!("{checkpoints:?}"))
            .set("dead_letter", "topic", &format!("{letters:?}"))
            .set("sink.kafka", "compression.type", r#""none""#)
    });
    rig.limit_records(5_000);
    rig.init();
    (rig, [checkpoints, letters])
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

/// The sequence of a key as its consumers got it.
fn delivered(rig: &Rig, key: &str) -> Vec<i64> {
    let mut consumer = rig.consumer();
    let records = consumer.read_to_end(LIMIT).unwrap().iter().filter(|record| record.key_text() == key);
    let values = records.map(|record| serde_json::from_str::<serde_json::Value>(&record.value_text()).unwrap());
    values.map(|value| value["seq"].as_i64().unwrap()).collect()
}

fn open_letters(rig: &Rig) -> usize {
    let listed = rig.call(&["dlq", "list", "--json"]);
    listed.assert_success();
    listed.output.lines().count()
}

#[test]
fn what_the_open_transaction_of_a_neighbour_hides_is_neither_overtaken_nor_mistaken_for_an_older_checkpoint() {
    let (rig, topics) = narrow("hidden");
    let relay = rig.start_streaming();
    rig.insert("b", 0, 1);
    eventually("the first event", || delivered(&rig, "b") == [0]);
    let shared: Vec<&str> = topics.iter().map(String::as_str).collect();
    let id = format!("neighbour-{}", rig.database.name());
    let neighbour = OpenTransaction::begin(shared_kafka().bootstrap(), &id, &shared).unwrap();

    insert_large(&rig, "a", 0);
    rig.insert("a", 1, 1);
    rig.insert("b", 1, 3);
    eventually("events that the neighbour does not hide", || delivered(&rig, "b") == [0, 1, 2, 3]);
    // The server has been told of a checkpoint that nobody can read now.
    let written = rig.value("SELECT pg_current_wal_flush_lsn()");
    rig.insert("b", 4, 1);
    eventually("the slot to be confirmed", || rig.slot(&format!("confirmed_flush_lsn > '{written}'")) == "t");
    relay.stop(LIMIT).unwrap().assert_success();

    let command = |arguments: &[&str]| rig.walpost.begin(arguments).unwrap();
    let [listing, repair, show] =
        [&["dlq", "list"] as &[&str], &["repair"], &["checkpoint", "show"]].map(|arguments| command(arguments));
    let relay = rig.start();
    rig.insert("a", 2, 1);
    let open = "a transaction of another producer has been open in front of it for";
    listing.wait(LIMIT).unwrap().assert_said(0, &["letters behind offset", "are not shown", open]);
    for command in [repair, show] {
        let ended = command.wait(LIMIT).unwrap();
        let said = format!("{}{}", ended.output, ended.log);
        assert!(said.contains("there may be a newer checkpoint") && said.contains(open), "{said}");
    }
    rig.call(&["repair", "--adopt-slot", "--yes"]).assert_said(12, &[open]);
    relay.wait_for_log(open, LIMIT).unwrap();
    assert!(relay.is_running(), "{}", relay.log());
    assert!(delivered(&rig, "a").is_empty(), "a letter of this key lies there");

    neighbour.commit().unwrap();
    rig.insert("b", 5, 1);
    eventually("the relay to go on", || delivered(&rig, "b") == [0, 1, 2, 3, 4, 5]);
    assert!(delivered(&rig, "a").is_empty(), "a letter of this key lies there");
    assert_eq!(open_letters(&rig), 3);
    rig.limit_records(1_000_000);
    rig.call(&["dlq", "replay", "--all", "--yes"]).assert_success();
    eventually("the letters to be sent", || open_letters(&rig) == 0);
    assert_eq!(delivered(&rig, "a"), [0, 1, 2]);
    relay.stop(LIMIT).unwrap().assert_success();
    assert_exactly_once(&rig, shared_kafka());
}
