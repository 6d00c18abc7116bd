//! A broker that asks who comes: rights on the topic of letters that are taken away under a running relay and given back, for a relay that is
//! acknowledged record by record. What it says, what `walpost dlq` says, and that nothing is lost.

use walpost_testkit::checker::Repeats;
use walpost_testkit::relay::{Relay, toml_string};
use walpost_testkit::servers::{KafkaUser, Operation, Resource};

use super::topic::{insert_large, narrow, open, stop, wait_for_open};
use crate::observe::{assert_told, readiness, value, wait_until_ready, wait_until_unready};
use crate::rig::{LIMIT, Rig, eventually};
use crate::security::{guarded_kafka, log_in};

const PASSWORD: &str = "letter-pearl";

/// Who may do what with which topics.
struct Rights {
    user: KafkaUser<'static>,
    letters: String,
}

impl Rights {
    /// A user of the relay's own, who may write its topics, and read and write its letters.
    fn of(rig: &mut Rig) -> Self {
        let name = rig.database.name().to_owned();
        let user = guarded_kafka().add_user(&name, PASSWORD).unwrap();
        log_in(rig, &name, "SCRAM-SHA-512", PASSWORD);
        let rights = Self { user, letters: format!("letters-{name}") };
        rights.allow(Resource::Topics(&rig.topic("")), Operation::PRODUCE);
        rights.give(&[Operation::Read, Operation::Write, Operation::Describe]);
        rights
    }

    #[track_caller]
    fn allow(&self, resource: Resource<'_>, operations: &[Operation]) {
        self.user.allow(true, resource, operations).unwrap();
    }

    #[track_caller]
    fn give(&self, operations: &[Operation]) {
        self.user.allow_on_topic(true, &self.letters, operations).unwrap();
    }

    #[track_caller]
    fn take(&self, operations: &[Operation]) {
        self.user.allow_on_topic(false, &self.letters, operations).unwrap();
    }
}

fn restricted(label: &str) -> (Rig, Rights) {
    let mut rig = narrow(guarded_kafka().endpoint(), label);
    rig.configure(|config| config.set("http", "stalled_after_ms", "1000").unset("log", "level"));
    rig.init();
    let rights = Rights::of(&mut rig);
    (rig, rights)
}

/// What `walpost status` says of this relay, which is not well.
#[track_caller]
fn status(rig: &Rig, relay: &Relay) -> String {
    let ended = rig.status_of(relay, &[]);
    ended.assert_said(10, &[]);
    ended.output
}

#[test]
fn the_right_to_write_letters_that_is_taken_away_holds_a_bad_row_until_it_is_given_back() {
    let (rig, rights) = restricted("unwritable");
    let relay = rig.start_streaming();
    insert_large(&rig, "a", 0, 9_000);
    wait_for_open(&rig, 1);
    rights.take(&[Operation::Write]);
    insert_large(&rig, "b", 1, 9_000);
    rig.insert("b", 2, 1);
    rig.insert("c", 3, 5);
    let reason = "the dead letters cannot be written";
    wait_until_unready(&relay, "holding", reason);
    let said = status(&rig, &relay);
    assert!(said.contains(reason) && said.contains(&rights.letters), "{said}");
    relay.wait_for_log("the dead letters could not be reached", LIMIT).unwrap();
    // To look, reading is enough; to mark is to write.
    assert_eq!(open(&rig, &[]).len(), 1);
    rig.call(&["dlq", "replay", "--all", "--yes"]).assert_said(6, &["kafka-acls.sh", &rights.letters]);
    assert!(open(&rig, &["--state", "replay"]).is_empty());
    eventually("what is not set aside to be owed", || value(&relay, "walpost_owed_records", &[]) >= 2.0);
    rights.give(&[Operation::Write]);
    wait_for_open(&rig, 3);
    wait_until_ready(&relay);
    finish(&rig, relay);
}

#[test]
fn the_right_to_read_letters_that_is_taken_away_stops_what_was_marked_and_no_event() {
    let (rig, rights) = restricted("unreadable");
    let relay = rig.start_streaming();
    insert_large(&rig, "a", 0, 9_000);
    rig.insert("a", 1, 1);
    wait_for_open(&rig, 2);
    rights.take(&[Operation::Read]);
    rig.insert("c", 2, 5);
    eventually("events of other keys", || value(&relay, "walpost_delivered_records_total", &[]) >= 5.0);
    rig.call(&["dlq", "list"]).assert_said(6, &["the dead letters cannot be read", &rights.letters, "kafka-acls.sh"]);
    rig.call(&["dlq", "replay", "--all", "--yes"]).assert_said(6, &["the dead letters cannot be read"]);
    // What lies there has to be known before more is put there than one, which nobody can read then; and that one too, if it was looked for meanwhile.
    insert_large(&rig, "b", 7, 9_000);
    eventually("the relay to be unready", || {
        let (is_ready, _, reasons) = readiness(&relay);
        !is_ready && reasons.contains("dead letters cannot be read")
    });
    insert_large(&rig, "d", 8, 9_000);
    wait_until_unready(&relay, "holding", "the dead letters cannot be written: the dead letters cannot be read");
    let said = status(&rig, &relay);
    assert!(said.contains("cannot be read") && said.contains(&rights.letters), "{said}");
    rights.give(&[Operation::Read]);
    wait_for_open(&rig, 4);
    wait_until_ready(&relay);
    // One that starts without it says what it lacks, and ends.
    stop(relay);
    rights.take(&[Operation::Read]);
    rig.start().wait(LIMIT).unwrap().assert_said(6, &["the dead letters cannot be read", "kafka-acls.sh"]);
    rights.give(&[Operation::Read]);
    let relay = rig.start_streaming();
    finish(&rig, relay);
}

#[test]
fn a_topic_of_letters_that_nobody_lets_the_relay_see_is_told_and_waited_for() {
    let (rig, rights) = restricted("unseen");
    let relay = rig.start_streaming();
    insert_large(&rig, "a", 0, 9_000);
    wait_for_open(&rig, 1);
    // Whoever may read or write may also describe.
    rights.take(&[Operation::Read, Operation::Write, Operation::Describe]);
    insert_large(&rig, "b", 1, 9_000);
    rig.insert("c", 2, 5);
    wait_until_unready(&relay, "holding", "the dead letters cannot be");
    let said = status(&rig, &relay);
    assert!(said.contains(&rights.letters), "{said}");
    rig.call(&["dlq", "list"]).assert_said(6, &["the dead letters cannot be read", &rights.letters, "kafka-acls.sh"]);
    rights.give(&[Operation::Read, Operation::Write, Operation::Describe]);
    wait_for_open(&rig, 2);
    wait_until_ready(&relay);
    finish(&rig, relay);
}

#[test]
fn with_exactly_once_the_whole_group_waits_for_a_right_to_write_letters_and_the_relay_lives() {
    let mut rig = narrow(guarded_kafka().endpoint(), "groupunwritable");
    let checkpoints = format!("checkpoints-{}", rig.database.name());
    rig.configure(|config| {
        let config =
            config.set("checkpoint", "store", r#""kafka""#).set("checkpoint", "topic", &toml_string(&checkpoints));
        config.unset("log", "level")
    });
    rig.init();
    let rights = Rights::of(&mut rig);
    rights.allow(Resource::Topic(&checkpoints), &[Operation::Read, Operation::Write]);
    let id = format!("walpost-{}", rig.database.name());
    rights.allow(Resource::TransactionalId(&id), &[Operation::Write, Operation::Describe]);
    let relay = rig.start_streaming();
    insert_large(&rig, "a", 0, 9_000);
    wait_for_open(&rig, 1);
    rights.take(&[Operation::Write]);
    insert_large(&rig, "b", 1, 9_000);
    rig.insert("c", 3, 5);
    assert_told(&rig, &relay, "reconnecting", "a dead letter cannot be written");
    let said = relay.wait_for_log("a dead letter cannot be written", LIMIT).unwrap();
    for word in [&rights.letters as &str, "Topic authorization failed", "walpost check"] {
        assert!(said.contains(word), "{word} in {said}");
    }
    assert!(relay.is_running(), "{}", relay.log());
    rights.give(&[Operation::Write]);
    wait_for_open(&rig, 2);
    wait_until_ready(&relay);
    rig.limit_records(1_000_000);
    rig.call(&["dlq", "replay", "--all", "--yes"]).assert_success();
    wait_for_open(&rig, 0);
    rig.assert_delivered(Repeats::Forbidden);
    stop(relay);
}

/// The topics are mended, and everything is there in its order.
#[track_caller]
fn finish(rig: &Rig, relay: Relay) {
    rig.limit_records(1_000_000);
    rig.call(&["dlq", "replay", "--all", "--yes"]).assert_success();
    wait_for_open(rig, 0);
    rig.assert_delivered(Repeats::Allowed);
    stop(relay);
}

#[test]
fn a_wrong_password_ends_a_start_whose_letters_lie_in_a_topic_and_is_told_by_the_commands_that_look_there() {
    let (mut rig, rights) = restricted("lockedletters");
    log_in(&mut rig, rights.user.name(), "SCRAM-SHA-512", "no-pearl");
    let words = &["lets walpost in", "Authentication failed", "correct security.protocol, sasl.* or ssl.*"];
    rig.start().wait(LIMIT).unwrap().assert_said(6, words);
    for command in [&["dlq", "list"][..], &["dlq", "replay", "--all"]] {
        rig.call(command).assert_said(6, words);
    }
}
