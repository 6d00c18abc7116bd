//! The slot on standbys: carried over where PostgreSQL can, made whole from the tables where it cannot.

use walpost_testkit::checker::{Repeats, Truth};
use walpost_testkit::relay::Relay;
use walpost_testkit::servers::{Postgres, Stop, postgres_of, shared_kafka};

use super::{publish_and_stop, tracking};
use crate::observe::{assert_told, value, wait_until_ready};
use crate::rig::{LIMIT, Rig, eventually};

/// Rows that are committed and not published, and then the primary is gone for good. The relay waits for a primary, or is killed.
#[track_caller]
fn lose_primary(rig: &Rig, relay: Relay, primary: &mut Postgres, standby: &Postgres, waits: bool) -> Option<Relay> {
    relay.sigstop().unwrap();
    rig.insert("unpublished", 0, 10);
    let written = rig.value("SELECT pg_current_wal_flush_lsn()");
    eventually("the standby to have everything", || {
        let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
        standby.endpoint().value("postgres", &replayed).unwrap() == "t"
    });
    primary.kill9().unwrap();
    let relay = if waits {
        relay.sigcont().unwrap();
        assert_told(rig, &relay, "reconnecting", "the server is a standby");
        Some(relay)
    } else {
        relay.kill9().unwrap();
        None
    };
    assert_eq!(standby.endpoint().value("postgres", "SELECT pg_promote()").unwrap(), "t");
    relay
}

/// All that the promoted server has arrives by this relay.
#[track_caller]
fn assert_whole_on(rig: &Rig, relay: Relay, standby: &Postgres) {
    let name = rig.database.name().to_owned();
    let insert = "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) SELECT gen_random_uuid(), 'order', 'after', 'Changed', jsonb_build_object('seq', seq), seq FROM generate_series(0, 9) AS seq";
    standby.psql(&name, insert).unwrap();
    let mut truth = Truth::new();
    truth.extend(&standby.url(&name), &rig.outboxes[0].truth()).unwrap();
    rig.verdict(&rig.with_partitions(truth)).assert_clean(Repeats::Allowed);
    relay.stop(LIMIT).unwrap().assert_success();
}

/// A primary and the standby that follows it; the relay streams from the primary.
fn with_a_standby(version: Option<u32>, label: &str) -> (Postgres, Postgres, Rig, Relay) {
    let server = || match version {
        Some(version) => tracking().programs(&postgres_of(version).unwrap()),
        None => tracking(),
    };
    let mut primary = server().start().unwrap();
    primary.psql("postgres", "SELECT pg_create_physical_replication_slot('standby', true)").unwrap();
    let mut rig = Rig::with_tables_on(primary.endpoint(), shared_kafka(), label, &["public.outbox"]);
    let carries = version.is_some_and(|version| version >= 17);
    if carries {
        rig.configure(|config| config.set("source", "failover", "true"));
    }
    rig.init();
    primary.stop(Stop::Fast, LIMIT).unwrap();
    let mut standby = server().standby_of(&primary, rig.database.name()).setting("hot_standby_feedback", "on");
    if carries {
        standby = standby.setting("sync_replication_slots", "on");
    }
    let standby = standby.start().unwrap();
    primary.start_again().unwrap();
    let [first, second] = [&primary, &standby].map(|server| server.endpoint().port());
    let url = format!("postgres://postgres@127.0.0.1:{first},127.0.0.1:{second}/{}", rig.database.name());
    rig.configure(|config| config.set("source", "url", &format!("{url:?}")));
    let relay = rig.start_streaming();
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    (primary, standby, rig, relay)
}

#[track_caller]
fn assert_a_failover_slot_carries_over(version: u32, waits: bool) {
    let (mut primary, standby, rig, relay) = with_a_standby(Some(version), "carried");
    let name = rig.database.name().to_owned();
    rig.call(&["check"]).assert_said(0, &["synchronized_standby_slots", "does not wait for them"]);
    rig.sql("ALTER SYSTEM SET synchronized_standby_slots = 'standby'");
    rig.sql("SELECT pg_reload_conf()");
    eventually("check to be content", || !rig.call(&["check"]).output.contains("synchronized_standby_slots"));
    let mut seq = 10;
    eventually("the slot to be on the standby", || {
        rig.insert("key", seq, 1);
        seq += 1;
        let synced = format!(
            "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{name}' AND synced AND NOT temporary AND invalidation_reason IS NULL"
        );
        standby.endpoint().value("postgres", &synced).unwrap() == "1"
    });
    rig.assert_delivered(Repeats::Forbidden);
    let waiting = lose_primary(&rig, relay, &mut primary, &standby, waits);
    let relay = waiting.unwrap_or_else(|| {
        rig.call(&["repair"]).assert_said(0, &["resume-promoted"]);
        rig.start()
    });
    relay.wait_for_log("promoted from timeline 1 to 2", LIMIT).unwrap();
    wait_until_ready(&relay);
    if waits {
        assert!(value(&relay, "walpost_reconnects_total", &[("cause", "no_primary")]) >= 1.0);
    }
    assert_whole_on(&rig, relay, &standby);
}

#[test]
fn on_17_a_failover_slot_is_carried_over_and_a_relay_that_waits_goes_on_where_the_standby_was_promoted() {
    assert_a_failover_slot_carries_over(17, true);
}

#[test]
fn on_18_a_failover_slot_is_carried_over_and_the_relay_goes_on_where_the_standby_was_promoted() {
    assert_a_failover_slot_carries_over(18, false);
}

#[test]
fn on_a_standby_that_was_promoted_without_the_slot_the_gap_is_filled() {
    let (mut primary, standby, rig, relay) = with_a_standby(None, "without");
    eventually("the standby to have the row of the checkpoint", || {
        let settled = "SELECT count(*) FROM walpost.checkpoint WHERE commit_time IS NOT NULL";
        standby.endpoint().value(rig.database.name(), settled).unwrap() == "1"
    });
    let relay = lose_primary(&rig, relay, &mut primary, &standby, true);
    relay.expect("it waits").wait(LIMIT).unwrap().assert_said(21, &["walpost repair"]);
    rig.call(&["repair"]).assert_said(21, &["slot-missing", "20 rows of public.outbox"]);
    // A promoted server has no statistics of its former life, and all rows lie within the margin.
    rig.call(&["repair", "--fill", "--yes"]).assert_said(4, &["no row from before the gap", "--rows-are-kept"]);
    rig.call(&["repair", "--fill", "--rows-are-kept", "--yes"]).assert_said(0, &["20 rows published"]);
    assert_whole_on(&rig, rig.start(), &standby);
}

#[test]
fn while_a_standby_that_is_waited_for_lags_the_relay_is_not_ready_and_says_why() {
    let postgres = Postgres::builder()
        .programs(&postgres_of(17).unwrap())
        .setting("synchronized_standby_slots", "standby")
        .start()
        .unwrap();
    postgres.psql("postgres", "SELECT pg_create_physical_replication_slot('standby', true)").unwrap();
    let mut rig = Rig::with_tables_on(postgres.endpoint(), shared_kafka(), "lagging", &["public.outbox"]);
    rig.configure(|config| config.set("source", "failover", "true").set("http", "stalled_after_ms", "2000"));
    rig.init();
    let relay = rig.start_streaming();
    rig.insert("key", 0, 10);
    assert_told(&rig, &relay, "streaming", "synchronized_standby_slots");
    assert!(value(&relay, "walpost_behind_seconds", &[]) >= 2.0);
    // The standby is given up.
    rig.sql("ALTER SYSTEM SET synchronized_standby_slots = ''");
    rig.sql("SELECT pg_reload_conf()");
    rig.assert_delivered(Repeats::Forbidden);
    wait_until_ready(&relay);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn where_slots_cannot_be_carried_over_init_and_check_say_so() {
    let mut rig = Rig::ready("no_failover", &["public.outbox"]);
    rig.configure(|config| config.set("source", "failover", "true"));
    let version: i32 = rig.value("SHOW server_version_num").parse().unwrap();
    if version < 170_000 {
        let words = ["carried over to standbys from 17 on", "source.failover = false", "walpost repair"];
        rig.call(&["init"]).assert_said(4, &words);
        rig.call(&["check"]).assert_said(5, &words);
    } else {
        rig.call(&["check"]).assert_said(5, &["not a failover slot", "walpost init"]);
    }
}

#[test]
fn init_makes_a_slot_that_is_there_one_that_is_carried_over() {
    let postgres = Postgres::builder().programs(&postgres_of(17).unwrap()).start().unwrap();
    let mut rig = Rig::ready_on(postgres.endpoint(), shared_kafka(), "altered", &["public.outbox"]);
    assert_eq!(rig.slot("failover"), "f");
    rig.configure(|config| config.set("source", "failover", "true"));
    rig.call(&["check"]).assert_said(5, &["not a failover slot", "walpost init"]);
    let relay = rig.start_streaming();
    rig.call(&["init"]).assert_said(4, &["stop the relay", &format!("process {}", rig.walsender().unwrap())]);
    relay.stop(LIMIT).unwrap().assert_success();
    rig.call(&["init", "--dry-run"]).assert_said(0, &["replication=database", "ALTER_REPLICATION_SLOT"]);
    assert_eq!(rig.slot("failover"), "f");
    rig.init();
    assert_eq!(rig.slot("failover"), "t");
    rig.call(&["init"]).assert_said(0, &["-- everything is there already"]);
    publish_and_stop(&rig, rig.start_streaming(), 0);
}
