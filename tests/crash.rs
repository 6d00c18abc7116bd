//! The relay is killed, or stopped, at any moment, and the next one takes up where it left off.

use std::collections::HashSet;
use std::time::Duration;

use walpost_testkit::checker::{Repeats, check};
use walpost_testkit::consumer::{Consumer, Received};
use walpost_testkit::relay::Relay;
use walpost_testkit::servers::shared_postgres;

use crate::observe::wait_until_unready;
use crate::rig::{LIMIT, Rig, breakable_kafka};
use crate::security::{guarded_kafka, log_in};

/// Kills that have to count.
const KILLS: usize = 20;
/// More than this many are not tried.
const ATTEMPTS: usize = 60;

/// The rows that have arrived.
#[derive(Default)]
struct Arrived {
    ids: HashSet<String>,
    /// The records up to here are counted in.
    counted: usize,
}

impl Arrived {
    /// Counts what was read since, and says how many rows have arrived in all.
    fn count(&mut self, records: &[Received]) -> usize {
        let new = records.get(self.counted..).unwrap_or_default();
        self.ids.extend(new.iter().filter_map(Received::id).map(str::to_owned));
        self.counted = records.len();
        self.ids.len()
    }

    /// Waits until a relay has published rows that nobody had published before.
    fn wait_for_new(&mut self, consumer: &mut Consumer, relay: &Relay) {
        let before = self.count(consumer.read_to_end(LIMIT).unwrap());
        let waiting_for = format!("rows that are new, from the relay {}", relay.pid());
        consumer.read_until(&waiting_for, LIMIT, |records| self.count(records) >= before + 10).unwrap();
    }
}

#[test]
fn twenty_kills_with_events_unacknowledged_lose_nothing_and_repeat_identically() {
    let kafka = breakable_kafka();
    let mut rig =
        Rig::ready_on(shared_postgres(), kafka.endpoint(), "killed", &["public.outbox", "public.other_outbox"]);
    // Shorter than a relay's life here, so that some checkpoints are written between the kills.
    rig.configure(|config| config.set("checkpoint", "interval_ms", "100"));
    let running = rig.workload().pause(Duration::from_millis(20)).start();
    let (mut consumer, mut arrived) = (rig.consumer(), Arrived::default());
    let mut kills = 0;
    for attempt in 0..ATTEMPTS {
        if kills == KILLS {
            break;
        }
        let relay = rig.start();
        arrived.wait_for_new(&mut consumer, &relay);
        if attempt % 2 == 0 {
            // From here on nothing is acknowledged, and yet the relay receives.
            kafka.sigstop().unwrap();
            running.wait_for_more_rows(30, LIMIT).unwrap();
            rig.wait_until_sent();
        }
        let committed = rig.committed();
        relay.kill9().unwrap();
        kafka.sigcont().unwrap();
        // A kill counts only if some of those rows are not with the broker even when it has taken in all that it was sent.
        arrived.count(consumer.read_to_end(LIMIT).unwrap());
        kills += usize::from(committed.iter().any(|id| !arrived.ids.contains(id)));
    }
    assert_eq!(kills, KILLS, "too few kills came while events were unacknowledged");
    let report = running.stop();
    let relay = rig.start();
    let verdict = rig.assert_delivered(Repeats::Allowed);
    assert!(!verdict.repeated.is_empty(), "{KILLS} kills without a repeat prove that none was worth it: {verdict}");
    assert!(report.rolled_back_rows > 0);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn relays_that_are_stopped_in_order_repeat_nothing() {
    let rig = Rig::ready("stopped", &["public.outbox"]);
    let running = rig.workload().pause(Duration::from_millis(2)).start();
    let (mut consumer, mut arrived) = (rig.consumer(), Arrived::default());
    for _ in 0..4 {
        let relay = rig.start();
        arrived.wait_for_new(&mut consumer, &relay);
        relay.stop(LIMIT).unwrap().assert_success();
    }
    let _ = running.stop();
    let relay = rig.start();
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_stopped_relay_has_confirmed_all_that_it_published() {
    let rig = Rig::ready("confirmed", &["public.outbox"]);
    let relay = rig.start();
    rig.workload().transactions(50).run(LIMIT).unwrap();
    rig.assert_delivered(Repeats::Forbidden);
    let end = rig.value("SELECT max(pg_current_wal_flush_lsn()) FROM outbox");
    // A keepalive or the last commit; the server itself writes a little now and then.
    relay.stop(LIMIT).unwrap().assert_success();
    let owed = format!(
        "SELECT count(*) FROM pg_logical_slot_peek_binary_changes('{slot}', NULL, NULL, 'proto_version', '1', \
         'publication_names', '{slot}') WHERE get_byte(data, 0) = ascii('I')",
        slot = rig.database.name()
    );
    assert_eq!(rig.value(&owed), "0", "the slot stands before {end}");
}

/// A relay whose output nobody reads, with more to say than any pipe takes.
fn stuck_relay(label: &str, stop_timeout_ms: &str) -> (Rig, Relay) {
    let mut rig = Rig::ready(label, &["public.outbox"]);
    rig.configure(|config| config.stdout().set("stop", "timeout_ms", stop_timeout_ms));
    let relay = rig.start_streaming();
    relay.stall_output(true);
    rig.insert("key", 0, 5_000);
    rig.wait_until_sent();
    (rig, relay)
}

#[test]
fn a_second_sigterm_ends_the_relay_at_once() {
    let (_rig, relay) = stuck_relay("twice", "600000");
    relay.sigterm().unwrap();
    relay.wait_for_log("once more ends at once", LIMIT).unwrap();
    assert!(relay.is_running());
    relay.sigterm().unwrap();
    // Ten times as fast as it would end by itself.
    let ended = relay.wait(LIMIT).unwrap();
    ended.assert_said(9, &["ending at once"]);
}

#[test]
fn a_second_sigterm_ends_a_relay_whose_kafka_clients_are_at_work_by_tls_with_its_own_code() {
    let mut rig = Rig::ready_on(shared_postgres(), guarded_kafka().endpoint(), "twicetls", &["public.outbox"]);
    log_in(&mut rig, "walpost", "SCRAM-SHA-256", "pearl-of-kafka");
    rig.configure(|config| config.set("stop", "timeout_ms", "600000").set("retry", "max_ms", "100"));
    for topic in rig.outboxes[0].topics() {
        guarded_kafka().endpoint().delete_topic(&topic).unwrap();
    }
    rig.insert("key", 0, 10);
    // What is held is tried again all the time, each time by a client that is made anew.
    for _ in 0..3 {
        let relay = rig.start_streaming();
        wait_until_unready(&relay, "holding", "kafka-topics.sh");
        relay.sigterm().unwrap();
        relay.wait_for_log("once more ends at once", LIMIT).unwrap();
        relay.sigterm().unwrap();
        relay.wait(LIMIT).unwrap().assert_said(9, &["ending at once"]);
    }
}

#[test]
fn a_stop_waits_no_longer_for_a_frozen_broker_than_configured_and_the_next_relay_delivers_the_rest() {
    let kafka = breakable_kafka();
    let mut rig = Rig::ready_on(shared_postgres(), kafka.endpoint(), "frozen", &["public.outbox"]);
    rig.configure(|config| config.set("stop", "timeout_ms", "1000"));
    let relay = rig.start_streaming();
    rig.insert("key", 0, 100);
    rig.assert_delivered(Repeats::Forbidden);
    kafka.sigstop().unwrap();
    rig.insert("key", 100, 1_000);
    rig.wait_until_sent();
    relay.sigterm().unwrap();
    let ended = relay.wait(LIMIT).unwrap();
    assert_eq!(ended.code(), Some(9), "{}", ended.log);
    kafka.sigcont().unwrap();
    let relay = rig.start();
    rig.assert_delivered(Repeats::Allowed);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_stop_waits_no_longer_for_a_stuck_sink_than_configured_and_the_next_relay_repeats_the_rest() {
    let (rig, relay) = stuck_relay("stuck", "1000");
    relay.sigterm().unwrap();
    let ended = relay.wait(LIMIT).unwrap();
    assert_eq!(ended.code(), Some(9), "{}", ended.log);
    let mut all = ended.records().unwrap();
    let relay = rig.start();
    // None of the transaction was checkpointed, so all of it comes again.
    all.extend(relay.wait_for_output(5_000, LIMIT).unwrap());
    relay.stop(LIMIT).unwrap().assert_success();
    let verdict = check(&rig.truth_of_lines(), &all);
    verdict.assert_clean(Repeats::Allowed);
    assert!(!verdict.repeated.is_empty(), "{verdict}");
}
