//! A gap is filled where records and checkpoint are committed in transactions of Kafka. The fill itself goes without.

use super::*;
use crate::exactly_once::seen;

/// A relay that commits its checkpoints together with the events, on a server of its own; it has published ten rows and stopped.
fn rested(postgres: &Postgres, label: &str) -> Rig {
    let mut rig = Rig::with_tables_on(postgres.endpoint(), shared_kafka(), label, &["public.outbox"]);
    let topic = format!("checkpoint-{}", rig.database.name());
    rig.configure(|config| {
        config.set("checkpoint", "store", r#""kafka""#).set("checkpoint", "topic", &format!("{topic:?}")).set(
            "dead_letter",
            "on_bad_row",
            r#""stop""#,
        )
    });
    rig.init();
    publish_and_stop(&rig, rig.start_streaming(), 0);
    rig
}

#[test]
fn a_gap_is_filled_without_transactions_and_the_relay_goes_on_exactly_once() {
    let postgres = tracking().start().unwrap();
    let rig = rested(&postgres, "fill_once");
    drop_slot(&rig);
    rig.insert("lost", 0, 20);
    rig.call(&["repair"]).assert_said(21, &["slot-missing", "repair --fill"]);
    rig.call(&["repair", "--fill", "--yes"]).assert_said(0, &["rows published", "walpost run"]);
    let filled = rig.value("SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE database = current_database()");
    rig.call(&["checkpoint", "show"]).assert_said(0, &[&format!("checkpoint: {filled}"), "of topic checkpoint-"]);

    // It is killed in the middle: what it had not committed is seen by nobody.
    let relay = rig.start_streaming();
    rig.insert("after", 0, 200);
    rig.consumer().read_count(40, LIMIT).unwrap();
    relay.kill9().unwrap();
    let relay = rig.start();
    rig.insert("after", 200, 10);
    rig.consumer().read_ids(&rig.committed(), LIMIT).unwrap();
    relay.stop(LIMIT).unwrap().assert_success();
    let records = seen(&rig, shared_kafka());
    walpost_testkit::checker::check(&rig.truth(), &records).assert_clean(Repeats::Allowed);
    for (place, record) in records.iter().enumerate() {
        let is_repeat = records[..place].iter().any(|earlier| earlier.id() == record.id());
        assert!(
            !is_repeat || record.key_text() == "key",
            "{record} is there twice, and lies not within the margin of the fill"
        );
    }
}
