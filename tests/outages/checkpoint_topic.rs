//! The topic of checkpoints does not take, or is not, what it was, where records and position are one: nothing is published then, and all of it at once
//! when the topic is mended.

use walpost_testkit::checker::Repeats;
use walpost_testkit::relay::toml_string;
use walpost_testkit::servers::{KafkaEndpoint, KafkaUser, Operation, Resource, shared_kafka};

use super::{Figure, Sign, assert_over, assert_seen, start_ready};
use crate::exactly_once::{self, assert_exactly_once};
use crate::observe::wait_until_unready;
use crate::rig::{LIMIT, Rig, eventually};
use crate::security::{guarded_kafka, log_in};

const PASSWORD: &str = "checkpoint-pearl";

/// A relay that publishes by transactions, and gives one that does not get through up soon; and its topic of checkpoints.
fn transactional(kafka: &KafkaEndpoint, label: &str) -> (Rig, String) {
    let mut rig = exactly_once::rig(kafka, label);
    rig.configure(|config| config.set("sink.kafka", "transaction.timeout.ms", "5000"));
    let topic = format!("checkpoint-{}", rig.database.name());
    (rig, topic)
}

/// Who may do what with the topic of checkpoints.
struct Rights {
    user: KafkaUser<'static>,
    checkpoints: String,
}

impl Rights {
    /// A user of the relay's own, who may do all that it needs.
    fn of(rig: &mut Rig, checkpoints: String) -> Self {
        let name = rig.database.name().to_owned();
        let user = guarded_kafka().add_user(&name, PASSWORD).unwrap();
        let letters = format!("letters-{name}");
        rig.configure(|config| config.set("dead_letter", "topic", &toml_string(&letters)));
        // By the one who may everything.
        rig.init();
        log_in(rig, &name, "SCRAM-SHA-512", PASSWORD);
        let (id, events) = (format!("walpost-{name}"), rig.topic(""));
        user.allow(true, Resource::Topics(&events), Operation::PRODUCE).unwrap();
        for topic in [&letters, &checkpoints] {
            user.allow(true, Resource::Topic(topic), &[Operation::Read, Operation::Write]).unwrap();
        }
        user.allow(true, Resource::TransactionalId(&id), &[Operation::Write, Operation::Describe]).unwrap();
        Self { user, checkpoints }
    }

    #[track_caller]
    fn give(&self, operations: &[Operation]) {
        self.user.allow_on_topic(true, &self.checkpoints, operations).unwrap();
    }

    #[track_caller]
    fn take(&self, operations: &[Operation]) {
        self.user.allow_on_topic(false, &self.checkpoints, operations).unwrap();
    }
}

#[test]
fn rights_to_the_topic_of_checkpoints_that_are_taken_away_hold_everything_until_they_are_given_back() {
    let (mut rig, topic) = transactional(guarded_kafka().endpoint(), "checkpointrights");
    let rights = Rights::of(&mut rig, topic.clone());
    let relay = start_ready(&mut rig);
    rig.insert("before", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);

    rights.take(&[Operation::Write]);
    rig.insert("meanwhile", 0, 10);
    let reason = "the checkpoint cannot be written";
    let figure: Figure<'_> = ("walpost_reconnects_total", &[("cause", "transaction")]);
    assert_seen(&rig, &relay, &Sign { state: "reconnecting", reason, figure, at_least: 2.0 });
    let line = relay.wait_for_log(reason, LIMIT).unwrap();
    assert!(line.contains(&topic) && line.contains("Topic authorization failed"), "{line}");
    assert!(line.contains("kafka-acls.sh"), "{line}");

    // Without the right to read nobody can tell either how far it got.
    rights.take(&[Operation::Read]);
    let figure: Figure<'_> = ("walpost_reconnects_total", &[("cause", "checkpoint")]);
    let reason = format!("topic {topic} may not be read by this user");
    assert_seen(&rig, &relay, &Sign { state: "reconnecting", reason: &reason, figure, at_least: 2.0 });
    rights.give(&[Operation::Read, Operation::Write]);
    assert_over(&rig, &relay);
    rig.insert("after", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
    assert_exactly_once(&rig, guarded_kafka().endpoint());
}

#[test]
fn a_topic_of_checkpoints_that_is_deleted_is_waited_for_and_one_without_the_checkpoint_ends_the_relay() {
    let (mut rig, topic) = transactional(shared_kafka(), "checkpointless");
    let relay = start_ready(&mut rig);
    rig.insert("before", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    let end = rig.value("SELECT pg_current_wal_flush_lsn()");
    eventually("the slot to move", || rig.slot(&format!("confirmed_flush_lsn >= '{end}'")) == "t");
    shared_kafka().delete_topic(&topic).unwrap();
    rig.insert("after", 0, 10);
    wait_until_unready(&relay, "reconnecting", &format!("topic {topic} does not exist"));
    relay.wait_for_log("run: walpost init", LIMIT).unwrap();
    let told = rig.call(&["status"]).output;
    assert!(told.contains(&format!("the checkpoint cannot be read: topic {topic}")), "{told}");
    assert!(!told.contains("cannot be read: the checkpoint"), "{told}");
    assert!(relay.is_running(), "{}", relay.log());
    shared_kafka().create_topic(&topic, 1).unwrap();
    relay.wait(LIMIT).unwrap().assert_said(36, &["no checkpoint", "walpost checkpoint adopt-slot"]);
    rig.call(&["checkpoint", "adopt-slot"]).assert_said(0, &["now stands at the slot's"]);
    let relay = start_ready(&mut rig);
    // What was published before is confirmed, so that here nothing comes again.
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
    assert_exactly_once(&rig, shared_kafka());
}

#[test]
fn a_wrong_password_ends_a_start_whose_checkpoint_lies_in_a_topic_and_is_told_by_the_commands_that_look_there() {
    let (mut rig, topic) = transactional(guarded_kafka().endpoint(), "lockedout");
    let name = Rights::of(&mut rig, topic).user.name().to_owned();
    log_in(&mut rig, &name, "SCRAM-SHA-512", "no-pearl");
    let words = &["lets walpost in", "Authentication failed", "correct security.protocol, sasl.* or ssl.*"];
    rig.start().wait(LIMIT).unwrap().assert_said(6, words);
    rig.call(&["checkpoint", "show"]).assert_said(6, words);
    rig.call(&["check"]).assert_said(5, words);
}
