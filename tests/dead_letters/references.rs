//! Letters that keep references to their rows: no payload leaves the outbox but to the topic, and a row that is gone or was changed is not sent.

use serde_json::Value;
use walpost_testkit::checker::Repeats;
use walpost_testkit::consumer::Consumer;
use walpost_testkit::servers::shared_kafka;

use super::topic::{insert_large, narrow, open, stop, wait_for_open};
use crate::observe::wait_until_ready;
use crate::rig::{LIMIT, Rig, eventually};

/// What makes the payloads large.
const FILLING: &str = "0123456789";

/// Where letters are kept.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kept {
    InTheTable,
    InTheTopic,
    WithTheEvents,
}

fn referring(label: &str, kept: Kept) -> Rig {
    let mut rig = narrow(shared_kafka(), label);
    let checkpoints = format!("\"checkpoint-{}\"", rig.database.name());
    rig.configure(|config| {
        let config = config.set("dead_letter", "keep", r#""reference""#);
        match kept {
            Kept::InTheTable => config.set("dead_letter", "store", r#""postgres""#),
            Kept::InTheTopic => config,
            Kept::WithTheEvents => config
                .set("checkpoint", "store", r#""kafka""#)
                .set("checkpoint", "topic", &checkpoints)
                .set("source", "wal_sender_timeout_ms", "2000"),
        }
    });
    rig.init();
    rig.call(&["check"]).assert_said(0, &["nothing keeps relay"]);
    rig
}

/// The numbers of a key's events as its consumers got them.
fn delivered(rig: &Rig, key: &str) -> Vec<i64> {
    let mut consumer = rig.consumer();
    let records = consumer.read_to_end(LIMIT).unwrap().iter().filter(|record| record.key_text() == key);
    records
        .map(|record| serde_json::from_str::<Value>(&record.value_text()).unwrap()["seq"].as_i64().unwrap())
        .collect()
}

/// The number of the letter of this event.
fn letter_of(rig: &Rig, seq: i64) -> String {
    let id = rig.value(&format!("SELECT id FROM outbox WHERE seq = {seq}"));
    let letters = open(rig, &["--state", "waiting,replay,drop"]);
    letters.iter().find(|letter| letter["event_id"] == id.as_str()).unwrap()["id"].to_string()
}

/// Whether a letter waits for this reason.
fn waits_for(rig: &Rig, letter: &str, reason: &str) -> bool {
    let letters = open(rig, &["--id", letter, "--state", "waiting"]);
    letters.iter().any(|letter| letter["reason"].as_str().is_some_and(|told| told.contains(reason)))
}

fn references(label: &str, kept: Kept) {
    let rig = referring(label, kept);
    let relay = rig.start_streaming();
    rig.insert("a", 0, 1);
    insert_large(&rig, "a", 1, 9_000);
    insert_large(&rig, "a", 2, 9_000);
    rig.insert("a", 3, 1);
    insert_large(&rig, "c", 10, 9_000);
    rig.insert("b", 20, 5);
    wait_for_open(&rig, 4);
    match kept {
        Kept::InTheTable => {
            let kept =
                "SELECT count(*) FROM walpost.dead_letter WHERE octet_length(insert_message) < 200 AND payload IS NULL";
            assert_eq!(rig.value(kept), "4");
        }
        Kept::InTheTopic | Kept::WithTheEvents => {
            let topic = format!("letters-{}", rig.database.name());
            let mut consumer = Consumer::of_topics(shared_kafka().bootstrap(), &[&topic]).unwrap();
            let records = consumer.read_to_end(LIMIT).unwrap();
            assert!(records.len() >= 4 && records.iter().all(|record| !record.value_text().contains(FILLING)));
        }
    }

    let [first, second, changed] = [1, 2, 10].map(|seq| letter_of(&rig, seq));
    let shown = rig.call(&["dlq", "show", &first]);
    shown.assert_said(0, &["header:     id", "payload:    not kept", "kept:       a reference", "--fetch"]);
    assert!(!shown.output.contains(FILLING), "{}", shown.output);
    let json: Value = serde_json::from_str(&rig.call(&["dlq", "show", &first, "--json"]).output).unwrap();
    assert_eq!((&json["keeps"], json["row"].as_array().unwrap().len()), (&"reference".into(), 1), "{json}");
    rig.call(&["dlq", "show", &first, "--payload"]).assert_said(2, &["keeps a reference", "--payload --fetch"]);
    let payload = rig.call(&["dlq", "show", &first, "--payload", "--fetch"]).output;
    assert_eq!(payload, rig.value("SELECT payload FROM outbox WHERE seq = 1"));
    rig.call(&["dlq", "show", &first, "--fetch"]).assert_said(0, &["aggregateid: a", FILLING]);

    // One of the rows is there no more under its key, and another is changed. Updates are not published.
    let id = rig.value("SELECT id FROM outbox WHERE seq = 2");
    rig.sql("UPDATE outbox SET id = gen_random_uuid() WHERE seq = 2");
    rig.sql("UPDATE outbox SET payload = jsonb_build_object('seq', 10, 'changed', true) WHERE seq = 10");
    rig.limit_records(1_000_000);
    rig.call(&["dlq", "replay", "--all", "--yes"]).assert_said(0, &["4 letters are marked"]);
    eventually("the letter of the row that is gone to come back", || {
        waits_for(&rig, &second, "which is not in public.outbox any more")
    });
    eventually("that of the row that was changed to come back", || waits_for(&rig, &changed, "is not what it was"));
    rig.call(&["dlq", "show", &second, "--fetch"]).assert_said(2, &["cannot be sent", "not in public.outbox any more"]);
    rig.call(&["dlq", "show", &changed, "--fetch"]).assert_said(0, &["--changed", "changed\": true"]);
    wait_until_ready(&relay);
    assert!(relay.log().contains("failed again"), "{}", relay.log());
    wait_for_open(&rig, 3);
    assert_eq!((delivered(&rig, "a"), delivered(&rig, "c")), (vec![0, 1], vec![]));

    // The next relay does what the first would have done.
    stop(relay);
    let relay = rig.start_streaming();
    rig.call(&["dlq", "replay", "--id", &changed, "--changed", "--yes"]).assert_said(0, &["1 letter is marked"]);
    eventually("the changed row", || delivered(&rig, "c") == [10]);
    rig.sql(&format!("UPDATE outbox SET id = '{id}' WHERE seq = 2"));
    rig.call(&["dlq", "replay", "--key", "a", "--yes"]).assert_success();
    eventually("the whole key", || delivered(&rig, "a") == [0, 1, 2, 3]);
    wait_for_open(&rig, 0);
    rig.assert_delivered(Repeats::Allowed);
    stop(relay);
}

#[test]
fn letters_in_the_table_can_keep_references_to_their_rows() {
    references("reftable", Kept::InTheTable);
}

#[test]
fn letters_in_a_topic_can_keep_references_to_their_rows() {
    references("reftopic", Kept::InTheTopic);
}

#[test]
fn letters_in_the_transactions_of_their_events_can_keep_references_to_their_rows() {
    references("refgroup", Kept::WithTheEvents);
}

#[test]
fn an_outbox_whose_rows_nobody_could_find_again_is_refused_where_letters_keep_references() {
    let mut rig = referring("refusedkey", Kept::InTheTable);
    rig.sql("ALTER TABLE outbox REPLICA IDENTITY FULL");
    let words = ["keep no reference", "REPLICA IDENTITY DEFAULT", "keep = \"row\""];
    rig.call(&["check"]).assert_said(5, &words);
    rig.start().wait(LIMIT).unwrap().assert_said(4, &words);
    rig.configure(|config| config.unset("dead_letter", "keep"));
    stop(rig.start_streaming());
}

#[test]
fn values_of_every_kind_are_read_from_the_table_as_the_log_told_them() {
    let mut rig = Rig::empty("refkinds");
    rig.sql(
        "CREATE TYPE mood AS ENUM ('sad', 'it''s \\ fine'); CREATE DOMAIN short AS char(5);
         CREATE TABLE kinds (id int, part mood, aggregatetype text, aggregateid text, payload bytea, b boolean, c char(10), s short, f float8, r real,
             i interval, t timestamptz, d date, n numeric, a text[], m money, j json, x text, PRIMARY KEY (part, id))",
    );
    rig.configure(|config| {
        config.outbox("public.kinds", &[("route.topic.replacement", "no such topic ${routedByValue}")]).set(
            "dead_letter",
            "keep",
            r#""reference""#,
        )
    });
    rig.init();
    let relay = rig.start_streaming();
    rig.sql(
        r#"INSERT INTO kinds VALUES (1, 'it''s \ fine', 'order', 'k', '\xff00', true, 'ab', 'c', 0.1::float8 + 0.2, 1e-30, '1 mon -2 days 3:04:05.6',
              '2024-02-29 12:00:00.123456+02', '0044-03-15 BC', 1.50, ARRAY['a,b', NULL, E'tab\t\\'], 12.5, '{ "x" : 1 }', E'line\nbreak\r\t\\N'),
          (2, 'sad', NULL, 'k2', NULL, NULL, NULL, NULL, 'NaN', '-Infinity', NULL, 'infinity', NULL, 'NaN', '{}', NULL, NULL, '')"#,
    );
    eventually("both rows to be set aside", || rig.value("SELECT count(*) FROM walpost.dead_letter") == "2");
    assert_eq!(rig.value("SELECT bool_and(row_sha256 IS NOT NULL) FROM walpost.dead_letter"), "t");
    for id in ["1", "2"] {
        let shown = rig.call(&["dlq", "show", id, "--fetch"]);
        shown.assert_success();
        // Neither is said to have changed.
        assert!(!shown.output.contains("--changed") && shown.output.contains("  x: "), "{}", shown.output);
    }
    stop(relay);
}
