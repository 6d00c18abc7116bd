//! A key that has events all the time leaves parking by one command, and by that alone: what is set aside behind a letter that goes follows by itself.

use std::thread;

use walpost_testkit::checker::Repeats;
use walpost_testkit::relay::toml_string;
use walpost_testkit::servers::{shared_kafka, shared_postgres};

use super::{LARGE, SMALL, insert_large, narrow, stop};
use crate::observe::value;
use crate::rig::{Rig, eventually};

/// Some hundred rows a second of one key, a transaction each, until somebody lays the pen down.
const WRITE: &str = "
DO $$ BEGIN
    FOR seq IN 2..30000 LOOP
        INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq)
        VALUES (gen_random_uuid(), 'order', 'a', 'Changed', jsonb_build_object('seq', seq), seq);
        COMMIT;
        PERFORM pg_sleep(0.002);
        EXIT WHEN to_regclass('public.pen_down') IS NOT NULL;
    END LOOP;
END $$";

fn leaves_parking(rig: &Rig, repeats: Repeats) {
    let relay = rig.start_streaming();
    let parked = || value(&relay, "walpost_dead_letters_total", &[("cause", "parked")]);
    let delivered = || value(&relay, "walpost_delivered_records_total", &[]);
    rig.insert("a", 0, 1);
    insert_large(rig, "a", 1);
    thread::scope(|scope| {
        let database = &rig.database;
        let writer = scope.spawn(|| database.psql(WRITE).unwrap());
        eventually("rows to wait behind the letter", || parked() >= 100.0);
        rig.limit_records(LARGE);
        // A broker takes a moment to heed that. Only what came back is marked again.
        eventually("the key to leave parking while it is written", || {
            let is_free = value(&relay, "walpost_parked_keys", &[]) == 0.0;
            if !is_free {
                rig.call(&["dlq", "replay", "--cause", "row", "--yes"]).assert_success();
            }
            is_free
        });
        assert!(!writer.is_finished(), "it was let go for want of rows");
        let (parked_before, delivered_before) = (parked(), delivered());
        eventually("rows to go straight to the broker", || delivered() >= delivered_before + 200.0);
        assert_eq!((parked(), value(&relay, "walpost_dead_letters_open", &[])), (parked_before, 0.0));
        assert!(!writer.is_finished(), "nobody wrote any more");
        rig.sql("CREATE TABLE pen_down ()");
    });
    rig.call(&["dlq", "list"]).assert_said(0, &["no letter fits"]);
    rig.assert_delivered(repeats);
    stop(relay);
}

/// With letters in a topic.
pub(super) fn narrow_of_topic(label: &str, change: impl FnOnce(&mut Rig, &str)) -> Rig {
    let mut rig = Rig::with_tables_on(shared_postgres(), shared_kafka(), label, &["public.outbox"]);
    let name = rig.database.name().to_owned();
    rig.configure(|config| {
        config.set("sink.kafka", "compression.type", r#""none""#).set("dead_letter", "store", r#""kafka""#).set(
            "dead_letter",
            "topic",
            &toml_string(&format!("letters-{name}")),
        )
    });
    change(&mut rig, &name);
    rig.limit_records(SMALL);
    rig.init();
    rig
}

/// With the checkpoint in a topic as well.
pub(super) fn exactly_once(rig: &mut Rig, name: &str) {
    let topic = toml_string(&format!("checkpoint-{name}"));
    rig.configure(|config| config.set("checkpoint", "store", r#""kafka""#).set("checkpoint", "topic", &topic));
}

#[test]
fn a_key_with_events_all_the_time_leaves_parking_by_one_replay_of_its_letter_in_the_table() {
    leaves_parking(&narrow("busy"), Repeats::Forbidden);
}

#[test]
fn a_key_with_events_all_the_time_leaves_parking_by_one_replay_of_its_letter_in_a_topic() {
    leaves_parking(&narrow_of_topic("busytopic", |_, _| {}), Repeats::Forbidden);
}

#[test]
fn a_key_with_events_all_the_time_leaves_parking_by_one_replay_of_its_letter_exactly_once() {
    leaves_parking(&narrow_of_topic("busyonce", exactly_once), Repeats::Forbidden);
}
