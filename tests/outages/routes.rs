//! The broker is there and does not take what it took before: the topic is gone, a right or a password was taken away.

use walpost_testkit::checker::Repeats;
use walpost_testkit::relay::Relay;
use walpost_testkit::servers::{KafkaUser, Operation, Resource, Right, shared_kafka, shared_postgres};

use super::{Figure, STALLED_AFTER, Sign, assert_over, assert_seen, start_ready, status};
use crate::exactly_once;
use crate::observe::{value, wait_until_unready};
use crate::rig::{LIMIT, PARTITIONS, Rig, eventually};
use crate::security::{guarded_kafka, log_in};

const PASSWORD: &str = "first-pearl";
const NEXT_PASSWORD: &str = "second-pearl";

/// What is seen of a route that is closed. The reason is the topic's name, or more.
fn closed(reason: &str) -> Sign<'_> {
    Sign { state: "holding", reason, figure: ("walpost_held_seconds", &[("class", "route")]), at_least: 1.0 }
}

#[test]
fn a_topic_that_is_deleted_under_a_running_relay_holds_the_stream_until_it_is_made_again() {
    let mut rig = Rig::ready("deleted", &["public.outbox"]);
    let relay = start_ready(&mut rig);
    rig.insert("before", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    let topics = rig.outboxes[0].topics();
    for topic in &topics {
        shared_kafka().delete_topic(topic).unwrap();
    }
    // What the topic had went with it, by the will of whoever deleted it.
    rig.sql("DELETE FROM outbox");
    rig.insert("after", 0, 10);
    let end = rig.value("SELECT pg_current_wal_flush_lsn()");
    let topic = rig.truth().rows().next().unwrap().topic.clone();
    assert_seen(&rig, &relay, &closed(&topic));
    relay
        .wait_for_log(&format!("kafka-topics.sh --bootstrap-server <broker> --create --topic {topic}"), LIMIT)
        .unwrap();
    assert_eq!(rig.slot(&format!("confirmed_flush_lsn >= '{end}'")), "f", "what is not delivered is owed");
    for topic in &topics {
        shared_kafka().create_topic(topic, PARTITIONS).unwrap();
    }
    assert_over(&rig, &relay);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

/// Rows that were committed longer ago than their topics take, so many milliseconds. Answers the log's end behind them.
#[track_caller]
fn insert_too_old(rig: &Rig, limit: &str) -> String {
    for topic in rig.outboxes[0].topics() {
        // Once the broker goes by the other limit, it goes by this one too.
        let limits = [("message.timestamp.before.max.ms", limit), ("max.message.bytes", "1000000")];
        shared_kafka().configure_topic(&topic, &limits).unwrap();
    }
    rig.insert("a", 0, 10);
    rig.insert("b", 0, 10);
    let end = rig.value("SELECT pg_current_wal_flush_lsn() || ' ' || clock_timestamp()");
    let (end, committed) = end.split_once(' ').unwrap();
    let is_too_old = format!("SELECT clock_timestamp() > '{committed}'::timestamptz + '{limit} ms'");
    eventually("the rows to be too old", || rig.value(&is_too_old) == "t");
    end.to_owned()
}

/// The rows are as good as ever, and none may lie among the dead letters.
#[track_caller]
fn assert_held_for_their_time(rig: &mut Rig, relay: &Relay, state: &str) {
    let topic = rig.truth().rows().next().unwrap().topic.clone();
    let limit = format!("--entity-name {topic} --add-config message.timestamp.before.max.ms=");
    let figure: Figure<'_> = ("walpost_undelivered_records_total", &[("class", "route")]);
    wait_until_unready(relay, state, &limit);
    // Over several attempts, of which most are those of a record that was sent alone.
    eventually("more refusals", || value(relay, figure.0, figure.1) >= 5.0);
    // A relay that has just ended its stream says so for a moment.
    eventually("status to say so", || status(rig, relay)["findings"].to_string().contains(&limit));
    relay
        .wait_for_log("the time of its commit, is older than the topic's message.timestamp.before.max.ms", LIMIT)
        .unwrap();
    rig.call(&["dlq", "list"]).assert_said(0, &["no letter fits"]);
}

/// What the topics take by default.
#[track_caller]
fn let_any_age_pass(rig: &Rig) {
    for topic in rig.outboxes[0].topics() {
        let any = [("message.timestamp.before.max.ms", "9223372036854775807"), ("max.message.bytes", "1048588")];
        shared_kafka().configure_topic(&topic, &any).unwrap();
    }
}

#[test]
fn rows_that_are_too_old_for_their_topic_are_no_bad_rows_and_hold_the_stream_until_it_takes_them() {
    let mut rig = Rig::ready("aged", &["public.outbox"]);
    insert_too_old(&rig, "1");
    rig.configure(|config| config.set("http", "stalled_after_ms", STALLED_AFTER).unset("log", "level"));
    let relay = rig.start_streaming();
    assert_held_for_their_time(&mut rig, &relay, "holding");
    let_any_age_pass(&rig);
    assert_over(&rig, &relay);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn with_transactions_too_rows_that_are_too_old_for_their_topic_are_no_bad_rows() {
    let mut rig = exactly_once::rig(shared_kafka(), "agedonce");
    // A broker holds the markers that end a transaction to the limit too, and one that it refuses leaves the transaction open for ever.
    let end = insert_too_old(&rig, "10000");
    rig.configure(|config| config.set("http", "stalled_after_ms", STALLED_AFTER).unset("log", "level"));
    let relay = rig.start_streaming();
    assert_held_for_their_time(&mut rig, &relay, "reconnecting");
    let_any_age_pass(&rig);
    // Between two tries nothing is owed either.
    eventually("the rows to be committed", || rig.slot(&format!("confirmed_flush_lsn >= '{end}'")) == "t");
    assert_over(&rig, &relay);
    relay.stop(LIMIT).unwrap().assert_success();
    exactly_once::assert_exactly_once(&rig, shared_kafka());
}

/// Gives or takes the right to produce to the topics, and waits until the broker goes by it.
#[track_caller]
fn allow_to_produce(rig: &Rig, user: &KafkaUser<'_>, is_allowed: bool) {
    let prefix = rig.topic("");
    user.allow(is_allowed, Resource::Topics(&prefix), Operation::PRODUCE).unwrap();
    for topic in rig.outboxes[0].topics() {
        user.wait_until_allowed(is_allowed, Right::Write, &topic).unwrap();
    }
}

/// A relay of a user of its own on the guarded broker, who may produce to its topics.
fn restricted(label: &str) -> (Rig, KafkaUser<'static>) {
    let mut rig = Rig::ready_on(shared_postgres(), guarded_kafka().endpoint(), label, &["public.outbox"]);
    let name = rig.database.name().to_owned();
    let user = guarded_kafka().add_user(&name, PASSWORD).unwrap();
    allow_to_produce(&rig, &user, true);
    log_in(&mut rig, &name, "SCRAM-SHA-512", PASSWORD);
    (rig, user)
}

#[test]
fn a_right_that_is_taken_away_holds_the_stream_until_it_is_given_back() {
    let (mut rig, user) = restricted("forbidden");
    let relay = start_ready(&mut rig);
    rig.insert("before", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    allow_to_produce(&rig, &user, false);
    rig.insert("after", 0, 10);
    let topic = rig.truth().rows().next().unwrap().topic.clone();
    // The topic is closed, and once the last topic is, the brokers refuse the producer as a whole: it is held either way.
    let reason = format!("--producer --topic {topic}");
    let figure: Figure<'_> = ("walpost_undelivered_records_total", &[("class", "route")]);
    assert_seen(&rig, &relay, &Sign { state: "holding", reason: &reason, figure, at_least: 1.0 });
    relay.wait_for_log("kafka-acls.sh --bootstrap-server <broker> --add --allow-principal", LIMIT).unwrap();
    // Over several attempts.
    let before = value(&relay, figure.0, figure.1);
    eventually("more refusals", || value(&relay, figure.0, figure.1) >= before + 5.0);
    assert_seen(&rig, &relay, &Sign { state: "holding", reason: &reason, figure, at_least: 5.0 });
    allow_to_produce(&rig, &user, true);
    assert_over(&rig, &relay);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_password_that_is_changed_under_a_running_relay_is_told_and_waited_for_until_it_is_put_back() {
    let (mut rig, mut user) = restricted("rotated");
    let relay = start_ready(&mut rig);
    rig.insert("before", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    // The broker asks for it again every few seconds.
    user.set_password(NEXT_PASSWORD).unwrap();
    relay.wait_for_log("a broker does not let walpost in", LIMIT).unwrap();
    let (state, away) = ("streaming", "the sink has been away for");
    let figure: Figure<'_> = ("walpost_sink_away_seconds", &[]);
    assert_seen(&rig, &relay, &Sign { state, reason: away, figure, at_least: 1.0 });
    rig.insert("after", 0, 10);
    let unacknowledged = "the sink has not acknowledged anything for";
    let figure: Figure<'_> = ("walpost_unacknowledged_seconds", &[]);
    assert_seen(&rig, &relay, &Sign { state, reason: unacknowledged, figure, at_least: 1.0 });
    user.set_password(PASSWORD).unwrap();
    assert_over(&rig, &relay);
    relay.wait_for_log("Kafka answers again", LIMIT).unwrap();
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}
