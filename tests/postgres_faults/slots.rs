//! The slot is taken away, moved or made anew, or the server is set back to older data, under a running relay. Each ends it with a code of its own, and what was committed
//! meanwhile comes from the table.

use walpost_testkit::checker::{Repeats, Truth};
use walpost_testkit::relay::Relay;
use walpost_testkit::servers::{Postgres, Stop, shared_kafka, shared_postgres};

use super::watched::{Sight, Watched, findings};
use crate::observe::{value, wait_until_unready};
use crate::rig::{LIMIT, Rig, eventually};

/// A relay on an outbox that tells when its rows were made.
pub(super) fn dated(label: &str) -> Rig {
    let rig = Rig::with_tables_on(shared_postgres(), shared_kafka(), label, &["public.outbox"]);
    rig.sql("ALTER TABLE outbox ADD made timestamptz NOT NULL DEFAULT clock_timestamp()");
    rig.init();
    rig
}

/// Does something while the relay is frozen and its walsender gone, and lets the relay go on.
pub(super) fn behind_its_back(rig: &Rig, relay: &Relay, deed: impl FnOnce()) {
    relay.sigstop().unwrap();
    let walsender = rig.walsender().unwrap();
    rig.sql(&format!("SELECT pg_terminate_backend({walsender})"));
    eventually("the slot to be free", || rig.walsender().is_none());
    deed();
    relay.sigcont().unwrap();
}

/// Publishes again from the table all that it ever got, and goes on: nothing is lost.
#[track_caller]
pub(super) fn fill_and_go_on(rig: &Rig) {
    let fill = ["repair", "--fill", "--by", "made", "--since", "2020-01-01T00:00:00Z", "--rows-are-kept", "--yes"];
    rig.call(&fill).assert_said(0, &["rows published", "walpost run"]);
    let relay = rig.start();
    rig.insert("after", 0, 10);
    rig.assert_delivered(Repeats::Allowed);
    eventually("status to find nothing", || rig.call(&["status"]).code() == Some(0));
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_slot_that_is_dropped_made_anew_or_moved_under_a_relay_ends_it_and_the_gap_is_filled() {
    let drop = "SELECT pg_drop_replication_slot('$')";
    let create = "SELECT pg_create_logical_replication_slot('$', 'pgoutput')";
    let cases = [
        ("dropped", drop.to_owned(), 21, ["does not exist", "walpost repair"]),
        ("made_anew", format!("{drop}; {create}"), 24, ["made it anew", "walpost repair"]),
        (
            "moved",
            "SELECT pg_replication_slot_advance('$', pg_current_wal_flush_lsn())".to_owned(),
            24,
            ["somebody moved the slot", "walpost repair"],
        ),
    ];
    std::thread::scope(|scope| {
        for (label, deed, code, words) in &cases {
            scope.spawn(move || {
                let Watched { rig, relay } = Watched::start(dated(label));
                rig.insert("key", 0, 10);
                rig.assert_delivered(Repeats::Forbidden);
                behind_its_back(&rig, &relay, || {
                    rig.insert("lost", 0, 10);
                    rig.sql(&deed.replace('$', rig.database.name()));
                });
                relay.wait(LIMIT).unwrap().assert_said(*code, words);
                let findings = findings(&rig);
                assert!(words.iter().all(|word| findings.contains(word)), "{findings}");
                fill_and_go_on(&rig);
            });
        }
    });
}

#[test]
fn a_slot_that_is_about_to_be_lost_is_seen_before_it_is_and_its_loss_ends_the_relay() {
    let postgres = Postgres::builder()
        .setting("max_slot_wal_keep_size", "48MB")
        .setting("max_wal_size", "32MB")
        .setting("min_wal_size", "32MB")
        .start()
        .unwrap();
    let watched = Watched::start(Rig::ready_on(postgres.endpoint(), shared_kafka(), "near", &["public.outbox"]));
    let Watched { rig, relay } = &watched;
    // No such topic: the row is held, and with it the slot.
    rig.sql("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) VALUES (gen_random_uuid(), 'nowhere', '1', 'Made', '{}', 0)");
    wait_until_unready(relay, "holding", "nowhere");
    rig.sql("CREATE TABLE other (number int)");
    let write = || {
        rig.sql("INSERT INTO other SELECT generate_series(1, 1000); SELECT pg_switch_wal()");
    };
    let room = || value(relay, "walpost_slot_safe_bytes", &[]);
    eventually("the figure of the room that is left", || room() > 0.0);
    for _ in 0..3 {
        write();
    }
    eventually("the room to shrink", || room() < 16e6);
    let findings = findings(rig);
    assert!(findings.contains("nowhere"), "{findings}");
    assert!(findings.contains("max_slot_wal_keep_size") || findings.contains("may remove log"), "{findings}");
    let Watched { rig, relay } = watched;
    eventually("the server to give the slot up", || {
        rig.sql("INSERT INTO other SELECT generate_series(1, 1000); SELECT pg_switch_wal()");
        rig.sql("CHECKPOINT");
        rig.slot("wal_status") == "lost"
    });
    relay.wait(LIMIT).unwrap().assert_said(23, &[rig.database.name(), "max_slot_wal_keep_size", "walpost repair"]);
    rig.call(&["status"]).assert_said(10, &["has invalidated the slot", "walpost repair"]);
}

#[test]
fn where_there_is_no_room_for_a_slot_commands_say_so_and_a_relay_that_may_create_waits_for_it() {
    let postgres = Postgres::builder().setting("max_replication_slots", "1").start().unwrap();
    postgres.psql("postgres", "SELECT pg_create_physical_replication_slot('other')").unwrap();
    let mut rig = Rig::with_tables_on(postgres.endpoint(), shared_kafka(), "room", &["public.outbox"]);
    rig.call(&["check"]).assert_said(5, &["all 1 replication slots are taken", "max_replication_slots"]);
    let refused = rig.call(&["init"]);
    refused.assert_said(
        refused.code().unwrap_or_default(),
        &["all replication slots are in use", "max_replication_slots"],
    );
    assert_ne!(refused.code(), Some(0));
    rig.configure(|config| config.set("source", "create", "true"));
    let relay = rig.start();
    wait_until_unready(&relay, "reconnecting", "all replication slots are in use");
    postgres.psql("postgres", "SELECT pg_drop_replication_slot('other')").unwrap();
    crate::observe::wait_until_ready(&relay);
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

/// Where the server's data are put away.
fn put_away(postgres: &mut Postgres) -> std::path::PathBuf {
    postgres.stop(Stop::Fast, LIMIT).unwrap();
    let copy = postgres.data().with_extension("older");
    let copied = std::process::Command::new("cp").arg("-a").arg(postgres.data()).arg(&copy).status().unwrap();
    assert!(copied.success());
    postgres.start_again().unwrap();
    copy
}

#[test]
fn a_server_that_is_set_back_to_older_data_under_a_relay_is_refused_or_gone_on_from_and_all_that_it_has_arrives() {
    // In a file the checkpoint is not set back with the server; in the database it is.
    for (label, code) in [("set_back_file", Some(30)), ("set_back_row", None)] {
        let mut postgres = Postgres::start().unwrap();
        let mut rig = Rig::with_tables_on(postgres.endpoint(), shared_kafka(), label, &["public.outbox"]);
        if code.is_some() {
            let path = rig.walpost.folder().join("checkpoint");
            rig.configure(|config| {
                config.set("checkpoint", "store", r#""file""#).set("checkpoint", "path", &format!("{path:?}"))
            });
        }
        rig.init();
        let watched = Watched::start(rig);
        watched.rig.insert("key", 0, 10);
        watched.rig.assert_delivered(Repeats::Forbidden);
        let older = put_away(&mut postgres);
        watched.wait_until_well();
        // Enough log that the copy cannot have written as much by itself.
        watched.rig.sql("CREATE TABLE other AS SELECT md5(random()::text) FROM generate_series(1, 100000)");
        watched.rig.insert("vanished", 0, 10);
        watched.rig.assert_delivered(Repeats::Forbidden);
        postgres.stop(Stop::Fast, LIMIT).unwrap();
        watched.assert_unready(&Sight { state: "reconnecting", reason: "Connection refused" });
        std::fs::remove_dir_all(postgres.data()).unwrap();
        std::fs::rename(older, postgres.data()).unwrap();
        postgres.start_again().unwrap();
        let Watched { rig, relay } = watched;
        let relay = match code {
            Some(code) => {
                relay.wait(LIMIT).unwrap().assert_said(code, &["restored from older data", "walpost repair"]);
                let findings = findings(&rig);
                assert!(findings.contains("restored from older data"), "{findings}");
                rig.call(&["repair", "--adopt-slot", "--yes"]).assert_said(0, &["now stands at the slot's"]);
                rig.start()
            }
            None => relay,
        };
        rig.insert("restored", 0, 10);
        let ids = rig.committed();
        assert_eq!(ids.len(), 20);
        let mut consumer = rig.consumer();
        consumer.read_ids(&ids, LIMIT).unwrap();
        crate::observe::wait_until_ready(&relay);
        relay.stop(LIMIT).unwrap().assert_success();
    }
}
