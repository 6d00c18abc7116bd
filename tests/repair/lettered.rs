//! Rows of a gap of which dead letters tell are for an operator to decide on, who does so by `walpost dlq`: no fill publishes them.

use walpost_testkit::checker::Repeats;
use walpost_testkit::relay::toml_string;
use walpost_testkit::servers::shared_kafka;

use super::{drop_slot, tracking};
use crate::dead_letters::{insert_large, open, stop, wait_for_open};
use crate::rig::{LIMIT, Rig, eventually};

/// How often events of a key were published.
fn published(rig: &Rig, key: &str) -> usize {
    let mut consumer = rig.consumer();
    consumer.read_to_end(LIMIT).unwrap().iter().filter(|record| record.key_text() == key).count()
}

fn lettered_rows_are_passed_over(label: &str, store: &str, keep: &str) {
    let postgres = tracking().start().unwrap();
    let mut rig = Rig::with_tables_on(postgres.endpoint(), shared_kafka(), label, &["public.outbox"]);
    let topic = toml_string(&format!("letters-{}", rig.database.name()));
    rig.configure(|config| {
        let config = config.set("sink.kafka", "compression.type", r#""none""#).set("dead_letter", "topic", &topic);
        config.set("dead_letter", "store", &toml_string(store)).set("dead_letter", "keep", &toml_string(keep))
    });
    if store == "postgres" {
        rig.configure(|config| config.unset("dead_letter", "topic"));
    }
    rig.limit_records(5_000);
    rig.init();
    let relay = rig.start_streaming();
    insert_large(&rig, "open", 0, 9_000);
    rig.insert("open", 1, 1);
    insert_large(&rig, "dropped", 0, 9_000);
    insert_large(&rig, "sent", 0, 9_000);
    wait_for_open(&rig, 4);
    rig.call(&["dlq", "drop", "--key", "dropped", "--yes"]).assert_success();
    wait_for_open(&rig, 3);
    rig.limit_records(1_000_000);
    rig.call(&["dlq", "replay", "--key", "sent", "--yes"]).assert_success();
    wait_for_open(&rig, 2);
    stop(relay);

    drop_slot(&rig);
    rig.insert("lost", 0, 5);
    // A row is known by its key, whatever it is by now.
    rig.sql("UPDATE outbox SET type = 'Other' WHERE aggregateid = 'dropped'");
    let shown = rig.call(&["repair", "--fill"]);
    shown.assert_said(0, &["rows of 3 dead letters that are open or were dropped are passed over"]);
    for arguments in
        [&["repair", "--fill", "--yes"][..], &["repair", "--fill", "--since", "2020-01-01T00:00:00Z", "--yes"]]
    {
        let filled = rig.call(arguments);
        filled.assert_said(0, &["6 rows published, 3 passed over as dead letters"]);
        assert_eq!((published(&rig, "open"), published(&rig, "dropped")), (0, 0));
        assert_eq!(open(&rig, &[]).len(), 2);
    }
    assert_eq!((published(&rig, "sent"), published(&rig, "lost")), (3, 10));

    // What is open is sent by its operator, once.
    let relay = rig.start_streaming();
    rig.call(&["dlq", "replay", "--key", "open", "--yes"]).assert_success();
    eventually("the open letters to be sent", || published(&rig, "open") == 2);
    wait_for_open(&rig, 0);
    rig.sql("DELETE FROM outbox WHERE aggregateid = 'dropped'");
    rig.assert_delivered(Repeats::Allowed);
    assert_eq!((published(&rig, "open"), published(&rig, "dropped")), (2, 0));
    stop(relay);
}

#[test]
fn rows_of_letters_in_the_table_that_are_open_or_were_dropped_are_not_filled() {
    lettered_rows_are_passed_over("fill_table", "postgres", "row");
}

#[test]
fn rows_of_letters_in_a_topic_that_are_open_or_were_dropped_are_not_filled() {
    lettered_rows_are_passed_over("fill_topic", "kafka", "row");
}

#[test]
fn rows_to_which_open_or_dropped_letters_keep_references_are_not_filled() {
    lettered_rows_are_passed_over("fill_refs", "kafka", "reference");
}
