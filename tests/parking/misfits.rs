//! Rows of which no record can be made, or whose route is closed.

use walpost_testkit::servers::shared_kafka;

use super::{stop, wait_for_open};
use crate::observe::{value, wait_for_value, wait_until_ready, wait_until_unready};
use crate::rig::{LIMIT, Rig, eventually};

/// Four outboxes of one relay: no topic, no text for the key, no such partition, and one without a fault.
fn faulty(label: &str) -> Rig {
    let mut rig = Rig::empty(label);
    let route = rig.topic("${routedByValue}");
    shared_kafka().create_topic(&rig.topic("order"), 3).unwrap();
    let route = [("route.topic.replacement", route.as_str())];
    for (table, options) in [
        ("routed", &[][..]),
        ("keyed", &[("table.field.event.key", "amount")]),
        ("placed", &[("table.fields.additional.placement", "part:partition")]),
        ("plain", &[]),
    ] {
        rig.sql(&format!(
            "CREATE TABLE {table} (id int PRIMARY KEY, aggregatetype text, aggregateid text, payload text, \
             amount numeric(10, 2) NOT NULL DEFAULT 1, part int NOT NULL DEFAULT 0)"
        ));
        rig.configure(|config| config.outbox(&format!("public.{table}"), &[&route, options].concat()));
        if table == "keyed" {
            // It has no form for what is no number, and without a default nothing stands in for it.
            rig.sql("ALTER TABLE keyed ALTER amount DROP DEFAULT");
            let converter = [("key.converter", "JsonConverter"), ("key.converter.schemas.enable", "false")];
            rig.configure(|config| config.connect(&converter));
        }
    }
    rig.init();
    rig
}

fn delivered(rig: &Rig) -> Vec<i32> {
    let mut consumer = rig.consumer();
    let records = consumer.read_to_end(LIMIT).unwrap().iter();
    let mut ids: Vec<i32> = records.filter_map(|record| record.id()?.parse().ok()).collect();
    ids.sort_unstable();
    ids
}

#[test]
fn a_row_of_which_no_record_can_be_made_is_set_aside_with_its_reason_and_only_its_own_key_waits() {
    let rig = faulty("misfits");
    let relay = rig.start_streaming();
    // For each outbox the bad row, one behind it of its key and route, and one of another key. The first is so before the client knows its topic.
    rig.sql(
        "INSERT INTO placed VALUES (21, 'order', 'k', 'p', 1, 99), (22, 'order', 'k', 'p', 1, 0), (23, 'order', 'l', 'p', 1, 1);
         INSERT INTO routed VALUES (1, 'no topic', 'k', 'p'), (2, 'no topic', 'k', 'p'), (4, NULL, 'k', 'p');
         INSERT INTO keyed VALUES (11, 'order', 'k', 'p', 'NaN'), (12, 'order', 'k', 'p', 'NaN'), (13, 'order', 'k', 'p', 2);
         INSERT INTO plain VALUES (31, 'order', 'k', 'p'), (32, 'order', 'NaN', 'p')",
    );
    eventually("the rows without fault", || delivered(&rig) == [13, 23, 31, 32]);
    wait_for_open(&rig, 7);
    let found = rig.sql(
        "SELECT event_id, outbox_table, cause, coalesce(route, '-'), key, coalesce(topic, '-'), coalesce(reason, '-') \
         FROM walpost.dead_letter ORDER BY event_id::int",
    );
    let expected = [
        ["1", "routed", "row", "no topic", "k", "-", "no topic can be called"],
        ["2", "routed", "parked", "no topic", "k", "-", "-"],
        ["4", "routed", "row", "-", "k", "-", "aggregatetype"],
        ["11", "keyed", "row", "order", "NaN", "-", "not a number"],
        ["12", "keyed", "parked", "order", "NaN", "-", "-"],
        ["21", "placed", "row", "order", "k", &rig.topic("order"), "has no partition 99"],
        ["22", "placed", "parked", "order", "k", &rig.topic("order"), "-"],
    ];
    assert_eq!(found.len(), expected.len(), "{found:?}");
    for (found, expected) in found.iter().zip(expected) {
        assert_eq!(found[..6], expected[..6], "{found:?}");
        assert!(found[6].contains(expected[6]), "{found:?}");
    }
    wait_until_ready(&relay);
    wait_for_value(&relay, "walpost_parked_keys", &[], 4.0);
    // What can never be sent comes back, and can be dropped; what it held up goes.
    rig.call(&["dlq", "replay", "--all", "--yes"]).assert_success();
    eventually("the bad ones to come back", || {
        rig.value("SELECT count(*) FROM walpost.dead_letter WHERE state = 'waiting' AND attempts = 2") == "4"
    });
    rig.call(&["dlq", "drop", "--outbox", "public.placed", "--cause", "row", "--yes"]).assert_success();
    eventually("the row behind it", || delivered(&rig) == [13, 22, 23, 31, 32]);
    // Those behind are marked still.
    rig.call(&["dlq", "drop", "--state", "waiting,replay", "--yes"]).assert_said(0, &["5 letters are marked"]);
    wait_for_open(&rig, 0);
    eventually("no key to be parked", || value(&relay, "walpost_parked_keys", &[]) == 0.0);
    stop(relay);
}

#[test]
fn a_row_whose_own_timestamp_is_refused_is_set_aside_and_one_that_brings_none_is_not() {
    let mut rig = Rig::empty("dated");
    let route = rig.topic("${routedByValue}");
    rig.sql(
        "CREATE TABLE dated (id int PRIMARY KEY, aggregatetype text, aggregateid text, payload text, at timestamptz)",
    );
    rig.configure(|config| {
        let options = [
            ("route.topic.replacement", &*route),
            ("table.field.event.timestamp", "at"),
            ("table.field.event.key", "id"),
        ];
        config.outbox("public.dated", &options)
    });
    let topic = rig.topic("order");
    shared_kafka().create_topic_with(&topic, 1, &[("message.timestamp.before.max.ms", "3600000")]).unwrap();
    rig.init();
    let relay = rig.start_streaming();
    rig.sql(
        "INSERT INTO dated VALUES (1, 'order', 'k', 'p', now()), (2, 'order', 'k', 'p', '2001-01-01'), (3, 'order', 'k', 'p', NULL), \
         (4, 'order', 'k', 'p', now())",
    );
    eventually("the rows without fault", || delivered(&rig) == [1, 3, 4]);
    wait_for_open(&rig, 1);
    let found = rig.sql("SELECT event_id, cause, reason FROM walpost.dead_letter");
    assert_eq!((&*found[0][0], &*found[0][1]), ("2", "row"), "{found:?}");
    for words in ["2001-01-01T", "a column of the row", "message.timestamp.before.max.ms", "correct the row"] {
        assert!(found[0][2].contains(words), "{words} in {found:?}");
    }
    wait_until_ready(&relay);
    let any = [("message.timestamp.before.max.ms", "9223372036854775807")];
    shared_kafka().configure_topic(&topic, &any).unwrap();
    eventually("the letter to be sent", || {
        rig.call(&["dlq", "replay", "--all", "--yes"]).assert_success();
        delivered(&rig) == [1, 2, 3, 4]
    });
    stop(relay);
}

#[test]
fn a_bad_row_whose_key_is_null_holds_nothing_up() {
    let rig = faulty("keyless");
    let relay = rig.start_streaming();
    rig.sql(
        "INSERT INTO placed VALUES (1, 'order', NULL, 'p', 1, 99), (2, 'order', NULL, 'p', 1, 0), (3, 'order', NULL, 'p', 1, 99), \
         (4, 'order', NULL, 'p', 1, 1)",
    );
    eventually("the rows without fault", || delivered(&rig) == [2, 4]);
    wait_for_open(&rig, 2);
    let found = rig.sql("SELECT event_id, cause, queue IS NULL FROM walpost.dead_letter ORDER BY id");
    assert_eq!(found, [["1", "row", "t"], ["3", "row", "t"]]);
    wait_for_value(&relay, "walpost_parked_keys", &[], 0.0);
    wait_until_ready(&relay);
    stop(relay);
}

#[test]
fn a_closed_route_holds_unless_its_rows_are_to_be_set_aside() {
    for is_hold in [true, false] {
        let mut rig = faulty("closed");
        rig.configure(|config| config.set("stop", "timeout_ms", "1000"));
        if !is_hold {
            rig.configure(|config| config.set("dead_letter", "on_closed_route", r#""dead_letter""#));
        }
        let missing = rig.topic("missing");
        let relay = rig.start_streaming();
        rig.sql("INSERT INTO plain VALUES (1, 'missing', 'k', 'p'), (2, 'missing', 'k', 'p'), (3, 'order', 'k', 'p')");
        if is_hold {
            wait_until_unready(&relay, "holding", &missing);
            // What was on its way beside them may be there.
            assert!(delivered(&rig).iter().all(|id| *id == 3));
            assert_eq!(rig.value("SELECT count(*) FROM walpost.dead_letter"), "0");
            // It ends in time, and says what is so: nothing of the two was sent.
            let words = ["rows neither delivered nor set aside", "the next start goes on from the checkpoint"];
            relay.stop(LIMIT).unwrap().assert_said(9, &words);
            continue;
        }
        eventually("the row of the other topic", || delivered(&rig) == [3]);
        wait_for_open(&rig, 2);
        let found = rig.sql("SELECT event_id, cause, topic, coalesce(reason, '') FROM walpost.dead_letter ORDER BY id");
        assert_eq!((&*found[0][1], &*found[0][2], &*found[1][1]), ("route", &*missing, "parked"), "{found:?}");
        assert!(found[0][3].contains("kafka-topics.sh") && found[0][3].contains(&missing), "{found:?}");
        wait_until_ready(&relay);
        shared_kafka().create_topic(&missing, 1).unwrap();
        eventually("the letters to be sent", || {
            rig.call(&["dlq", "replay", "--topic", &missing, "--yes"]).assert_success();
            delivered(&rig) == [1, 2, 3]
        });
        wait_for_open(&rig, 0);
        stop(relay);
    }
}

#[test]
fn letters_go_again_as_the_corrected_router_sends_them() {
    let mut rig = faulty("corrected");
    rig.configure(|config| config.set("dead_letter", "on_closed_route", r#""dead_letter""#));
    let relay = rig.start_streaming();
    rig.sql("INSERT INTO plain VALUES (1, 'missing', 'k', 'p'), (2, 'missing', 'k', 'p'), (3, 'order', 'k', 'p')");
    eventually("the row of the other topic", || delivered(&rig) == [3]);
    wait_for_open(&rig, 2);
    stop(relay);
    let topic = rig.topic("order");
    rig.configure(|config| config.outbox("public.plain", &[("route.topic.replacement", &topic)]));
    let relay = rig.start_streaming();
    rig.call(&["dlq", "replay", "--all", "--yes"]).assert_said(0, &["2 letters are marked"]);
    eventually("the letters to be sent", || delivered(&rig) == [1, 2, 3]);
    wait_for_open(&rig, 0);
    stop(relay);
}
