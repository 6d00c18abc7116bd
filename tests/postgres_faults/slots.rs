//! The slot is taken away, moved or made anew, or the server is set back to older data, under a running relay. Each ends it with a code of its own, and what was committed
//! meanwhile comes from the table.

use std::path::PathBuf;
use std::process::Command;

use walpost_testkit::checker::Repeats;
use walpost_testkit::relay::{Ended, Relay};
use walpost_testkit::servers::{Postgres, Stop, shared_kafka, shared_postgres};

use super::watched::{Sight, Watched, findings};
use crate::observe::{value, wait_until_ready, wait_until_unready};
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

/// Publishes from the table what was committed after the rows of the key `key`.
#[track_caller]
pub(super) fn fill(rig: &Rig) -> Ended {
    let after = "max(made) FILTER (WHERE aggregateid = 'key') + interval '1 microsecond'";
    let since = rig.value(&format!(
        "SELECT to_char(({after}) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') FROM outbox"
    ));
    rig.call(&["repair", "--fill", "--by", "made", "--since", &since, "--rows-are-kept", "--yes"])
}

/// The same, and goes on: nothing is lost, and nothing comes twice.
#[track_caller]
pub(super) fn fill_and_go_on(rig: &Rig) {
    fill(rig).assert_said(0, &["rows published", "walpost run"]);
    let relay = rig.start();
    rig.insert("after", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
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
    // Only the checkpoint that the test asks for takes log away.
    let postgres = Postgres::builder().setting("max_slot_wal_keep_size", "32MB").start().unwrap();
    let Watched { rig, relay } =
        Watched::start(Rig::ready_on(postgres.endpoint(), shared_kafka(), "near", &["public.outbox"]));
    // No such topic: the row is held, and with it the slot.
    rig.sql("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) VALUES (gen_random_uuid(), 'nowhere', '1', 'Made', '{}', 0)");
    wait_until_unready(&relay, "holding", "nowhere");
    eventually("room", || value(&relay, "walpost_slot_safe_bytes", &[]) > 0.0);
    rig.sql("CREATE TABLE other (number int)");
    for number in 0..5 {
        rig.sql(&format!("INSERT INTO other VALUES ({number}); SELECT pg_switch_wal()"));
    }
    eventually("a slot without room", || {
        value(&relay, "walpost_slot_wal_status", &[("status", "unreserved")]) == 1.0
            && value(&relay, "walpost_slot_safe_bytes", &[]) <= 0.0
    });
    let findings = findings(&rig);
    assert!(findings.contains("nowhere") && findings.contains("may remove WAL"), "{findings}");
    rig.sql("CHECKPOINT");
    relay.wait(LIMIT).unwrap().assert_said(23, &[rig.database.name(), "max_slot_wal_keep_size", "walpost repair"]);
    rig.call(&["status"]).assert_said(10, &["has invalidated the slot", "walpost repair"]);
}

#[test]
fn where_there_is_no_room_for_a_slot_commands_say_so_and_a_relay_that_may_create_waits_for_it() {
    let postgres = Postgres::builder().setting("max_replication_slots", "1").start().unwrap();
    postgres.psql("postgres", "SELECT pg_create_physical_replication_slot('other')").unwrap();
    let mut rig = Rig::with_tables_on(postgres.endpoint(), shared_kafka(), "room", &["public.outbox"]);
    rig.call(&["check"]).assert_said(5, &["all 1 replication slots are taken", "max_replication_slots"]);
    rig.call(&["init"]).assert_said(4, &["all 1 replication slots are taken: other", "max_replication_slots"]);
    rig.configure(|config| config.set("source", "create", "true"));
    let relay = rig.start();
    wait_until_unready(&relay, "reconnecting", "all replication slots are in use");
    assert!(value(&relay, "walpost_reconnects_total", &[("cause", "postgres")]) >= 1.0);
    postgres.psql("postgres", "SELECT pg_drop_replication_slot('other')").unwrap();
    wait_until_ready(&relay);
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

/// Copies the server's data as they are now.
fn copy_of_data(postgres: &mut Postgres) -> PathBuf {
    postgres.stop(Stop::Fast, LIMIT).unwrap();
    let copy = postgres.data().with_extension("older");
    assert!(Command::new("cp").arg("-a").arg(postgres.data()).arg(&copy).status().unwrap().success());
    postgres.start_again().unwrap();
    copy
}

/// A relay on the server that has published.
fn published(postgres: &Postgres, label: &str, has_file: bool) -> Watched {
    let mut rig = Rig::with_tables_on(postgres.endpoint(), shared_kafka(), label, &["public.outbox"]);
    if has_file {
        let path = rig.walpost.folder().join("checkpoint");
        rig.configure(|config| {
            config.set("checkpoint", "store", r#""file""#).set("checkpoint", "path", &format!("{path:?}"))
        });
    }
    rig.init();
    let watched = Watched::start(rig);
    watched.rig.insert("key", 0, 10);
    watched.rig.assert_delivered(Repeats::Forbidden);
    watched
}

#[test]
fn a_server_that_is_set_back_to_older_data_is_refused_by_a_file_and_gone_on_from_by_a_row_and_all_that_it_has_arrives()
{
    let mut postgres = Postgres::start().unwrap();
    // The one checkpoint is set back with the server, the other is not.
    let relays = [published(&postgres, "by_row", false), published(&postgres, "by_file", true)];
    let older = copy_of_data(&mut postgres);
    for watched in &relays {
        watched.wait_until_well();
        // Enough log that the copy cannot have written as much by itself.
        watched.rig.sql("CREATE TABLE other AS SELECT md5(random()::text) FROM generate_series(1, 50000)");
        watched.rig.insert("vanished", 0, 10);
        watched.rig.assert_delivered(Repeats::Forbidden);
    }
    postgres.stop(Stop::Fast, LIMIT).unwrap();
    relays[0].assert_unready(&Sight { state: "reconnecting", reason: "Connection refused" });
    std::fs::remove_dir_all(postgres.data()).unwrap();
    std::fs::rename(older, postgres.data()).unwrap();
    postgres.start_again().unwrap();
    let [by_row, Watched { rig, relay }] = relays;
    relay.wait(LIMIT).unwrap().assert_said(30, &["restored from older data", "walpost repair"]);
    let findings = findings(&rig);
    assert!(findings.contains("restored from older data"), "{findings}");
    rig.call(&["repair", "--adopt-slot", "--yes"]).assert_said(0, &["now stands at the slot's"]);
    for Watched { rig, relay } in [by_row, Watched::start(rig)] {
        rig.insert("restored", 0, 10);
        let ids = rig.committed();
        assert_eq!(ids.len(), 20);
        rig.consumer().read_ids(&ids, LIMIT).unwrap();
        wait_until_ready(&relay);
        relay.stop(LIMIT).unwrap().assert_success();
    }
}
