//! Too few replicas are in step with the leader for the topic's `min.insync.replicas`.

use walpost_testkit::checker::Repeats;
use walpost_testkit::servers::{Kafka, shared_postgres};

use super::{assert_over, assert_seen, broker::UNACKNOWLEDGED, start_ready};
use crate::observe::{value, wait_for_value};
use crate::rig::{LIMIT, PARTITIONS, Rig, breakable_kafka};

#[test]
fn what_too_few_replicas_would_keep_is_held_and_not_set_aside_until_they_are_enough() {
    let kafka = breakable_kafka();
    let mut second = Kafka::builder().beside(&kafka).start().unwrap();
    let mut rig = Rig::ready_on(shared_postgres(), kafka.endpoint(), "replicas", &["public.outbox"]);
    let topics = rig.outboxes[0].topics();
    for topic in &topics {
        kafka.endpoint().delete_topic(topic).unwrap();
        kafka.endpoint().create_replicated_topic(topic, PARTITIONS, 2).unwrap();
    }
    let want_in_step = |replicas: &str| {
        for topic in &topics {
            kafka.endpoint().configure_topic(topic, &[("min.insync.replicas", replicas)]).unwrap();
        }
    };
    let relay = start_ready(&mut rig);
    rig.insert("both", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    second.stop(LIMIT).unwrap();
    rig.insert("one", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    want_in_step("2");
    rig.insert("refused", 0, 10);
    assert_seen(&rig, &relay, &UNACKNOWLEDGED);
    let line = relay.wait_for_log("what is owed does not move", LIMIT).unwrap();
    assert!(line.contains(UNACKNOWLEDGED.reason), "{line}");
    wait_for_value(&relay, "walpost_owed_records", &[], 10.0);
    assert_eq!(rig.value("SELECT count(*) FROM walpost.dead_letter"), "0");
    want_in_step("1");
    assert_over(&rig, &relay);
    relay.wait_for_log("what is owed moves again", LIMIT).unwrap();
    rig.assert_delivered(Repeats::Forbidden);
    assert_eq!(value(&relay, "walpost_dead_letters_total", &[("cause", "own")]), 0.0);
    relay.stop(LIMIT).unwrap().assert_success();
}
