//! The slot: it moves while the outbox is quiet, and a start compares it with server and checkpoint before a byte is read.

mod kinds;

use walpost_testkit::checker::{Repeats, Truth};
use walpost_testkit::relay::Relay;
use walpost_testkit::servers::{Postgres, Stop, shared_kafka};

use crate::observe::wait_until_ready;
use crate::rig::{LIMIT, Rig, eventually};

#[test]
fn confirmed_and_restart_position_both_pass_64_mb_of_other_tables_log_and_a_kill_leaves_no_refusal() {
    let mut rig = Rig::ready("quiet", &["public.outbox"]);
    rig.configure(|config| config.set("checkpoint", "idle_interval_ms", "200"));
    let relay = rig.start_streaming();
    rig.insert("key", 0, 1);
    rig.sql("CREATE TABLE other (filling text)");
    // Random, so that nothing compresses it.
    let two_megabytes = "INSERT INTO other SELECT string_agg(md5(random()::text), '') FROM generate_series(1, 65000) AS row GROUP BY row / 60";
    let begin = rig.value("SELECT pg_current_wal_insert_lsn()");
    let written = format!("SELECT pg_current_wal_insert_lsn() - '{begin}' > 64 * 1024 * 1024");
    while rig.value(&written) != "t" {
        rig.sql(two_megabytes);
    }
    let target = rig.value("SELECT pg_current_wal_insert_lsn()");
    // Others go on writing, and the server goes on noting which transactions run: it needs such a note to let go of log.
    eventually("the slot to let go of others' log", || {
        rig.sql(&format!("{two_megabytes}; CHECKPOINT"));
        rig.slot(&format!("confirmed_flush_lsn >= '{target}' AND restart_lsn >= '{target}'")) == "t"
    });
    relay.kill9().unwrap();
    let relay = rig.start_streaming();
    rig.insert("key", 1, 10);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_second_relay_waits_for_the_slot_names_who_holds_it_and_takes_over() {
    let rig = Rig::ready("busy", &["public.outbox"]);
    let first = rig.start_streaming();
    let holder = rig.walsender().unwrap();
    let second = rig.start();
    second.wait_for_log(&format!("process {holder}"), LIMIT).unwrap();
    let running = rig.workload().start();
    running.wait_for_more_rows(100, LIMIT).unwrap();
    assert!(second.is_running());
    first.kill9().unwrap();
    running.wait_for_more_rows(100, LIMIT).unwrap();
    let _ = running.stop();
    rig.assert_delivered(Repeats::Allowed);
    assert_ne!(rig.walsender(), Some(holder));
    second.stop(LIMIT).unwrap().assert_success();
}

/// A relay that has published and stopped.
fn rested(label: &str) -> Rig {
    let rig = Rig::ready(label, &["public.outbox"]);
    let relay = rig.start_streaming();
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
    rig
}

/// The start has to be refused with this code and these words.
#[track_caller]
fn assert_refused(rig: &Rig, code: i32, words: &[&str]) {
    rig.start().wait(LIMIT).unwrap().assert_said(code, words);
}

#[test]
fn without_slot_and_checkpoint_a_start_is_refused_until_init_has_run_and_init_may_run_twice() {
    let rig = Rig::with_tables("fresh", &["public.outbox"]);
    // Without even a table for the checkpoint.
    assert_refused(&rig, 20, &["neither a slot", "walpost init"]);
    rig.init();
    rig.sql(&format!("SELECT pg_drop_replication_slot('{}')", rig.database.name()));
    rig.call(&["checkpoint", "forget"]).assert_success();
    assert_refused(&rig, 20, &["neither a slot", "walpost init"]);
    rig.init();
    rig.init();
    let _relay = rig.start_streaming();
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
}

#[test]
fn a_missing_slot_is_refused_until_the_gap_is_accepted() {
    let rig = rested("gone");
    let name = rig.database.name();
    rig.sql(&format!("SELECT pg_drop_replication_slot('{name}')"));
    rig.insert("lost", 0, 10);
    assert_refused(&rig, 21, &[name, "does not exist", "walpost checkpoint forget", "walpost init"]);
    rig.call(&["checkpoint", "forget"]).assert_success();
    rig.init();
    rig.assert_goes_on_after_the_gap();
}

#[test]
fn a_slot_that_somebody_moved_ahead_is_refused_until_it_is_adopted() {
    let rig = rested("ahead");
    let name = rig.database.name();
    rig.insert("lost", 0, 10);
    rig.sql(&format!("SELECT pg_replication_slot_advance('{name}', pg_current_wal_flush_lsn())"));
    let confirmed = rig.slot("confirmed_flush_lsn");
    assert_refused(&rig, 24, &[name, &confirmed, "walpost checkpoint adopt-slot"]);
    rig.call(&["checkpoint", "adopt-slot"]).assert_success();
    rig.assert_goes_on_after_the_gap();
}

#[test]
fn a_slot_that_was_dropped_and_made_anew_is_refused() {
    let rig = rested("anew");
    let name = rig.database.name();
    rig.sql(&format!("SELECT pg_drop_replication_slot('{name}')"));
    rig.insert("lost", 0, 10);
    rig.sql(&format!("SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')"));
    assert_refused(&rig, 24, &[name, "made it anew", "walpost checkpoint adopt-slot"]);
}

/// A server that keeps next to no log for a slot.
fn short_of_log() -> Postgres {
    Postgres::builder()
        .setting("max_slot_wal_keep_size", "1MB")
        .setting("max_wal_size", "32MB")
        .setting("min_wal_size", "32MB")
        .start()
        .unwrap()
}

/// Writes until the server gives the slot up.
fn fill_the_log(rig: &Rig) {
    rig.sql("CREATE TABLE other (number int)");
    eventually("the server to give the slot up", || {
        rig.sql("INSERT INTO other SELECT generate_series(1, 1000); SELECT pg_switch_wal()");
        rig.sql("CHECKPOINT");
        rig.slot("wal_status") == "lost"
    });
}

#[test]
fn a_slot_that_the_server_gave_up_is_refused_with_the_reason() {
    let postgres = short_of_log();
    let rig = Rig::ready_on(postgres.endpoint(), shared_kafka(), "lost", &["public.outbox"]);
    let name = rig.database.name();
    fill_the_log(&rig);
    assert_refused(&rig, 23, &[name, "max_slot_wal_keep_size", "walpost checkpoint forget"]);
}

#[test]
fn a_slot_that_is_lost_under_a_relay_ends_it_with_the_reason() {
    let postgres = short_of_log();
    let rig = Rig::ready_on(postgres.endpoint(), shared_kafka(), "taken", &["public.outbox"]);
    let name = rig.database.name();
    let relay = rig.start_streaming();
    // No such topic: the row is held, and with it the slot.
    rig.sql(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) VALUES (gen_random_uuid(), 'nowhere', '1', 'Made', '{}', 0)",
    );
    relay.wait_for_log("nowhere", LIMIT).unwrap();
    fill_the_log(&rig);
    relay.wait(LIMIT).unwrap().assert_said(23, &[name, "max_slot_wal_keep_size"]);
}

#[test]
fn the_two_commands_in_the_sentence_of_a_bad_row_go_on_behind_its_transaction() {
    let mut rig = Rig::ready("skipped", &["public.outbox"]);
    rig.stop_at_bad_rows();
    let relay = rig.start();
    rig.insert("key", 0, 3);
    // One transaction each. The first names no legal topic, the others stand right behind it.
    rig.sql("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) VALUES (gen_random_uuid(), 'no topic', 'key', 'Made', '{}', 3)");
    rig.insert("key", 4, 1);
    rig.insert("key", 5, 2);
    let ended = relay.wait(LIMIT).unwrap();
    ended.assert_said(7, &["no topic", "insert 1 of its transaction"]);
    let advice = ended.log.lines().find_map(|line| line.split_once("run: SELECT ")).expect("a way to go on").1;
    let (statement, command) = advice.split_once(", then walpost ").expect("two commands");
    let command: Vec<&str> = command.split_whitespace().take(2).collect();
    rig.sql(&format!("SELECT {statement}"));
    rig.call(&command).assert_success();
    let relay = rig.start();
    rig.sql("DELETE FROM outbox WHERE aggregatetype = 'no topic'");
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_standby_is_refused_and_once_it_is_promoted_the_relay_goes_on_there() {
    let mut primary = Postgres::start().unwrap();
    let mut rig = Rig::ready_on(primary.endpoint(), shared_kafka(), "promoted", &["public.outbox"]);
    let relay = rig.start_streaming();
    publish_and_stop(&rig, relay, 0);
    // Committed and not published before the primary is gone.
    rig.insert("key", 10, 10);
    primary.stop(Stop::Fast, LIMIT).unwrap();
    let mut standby = Postgres::builder().copy_of(&primary).start().unwrap();
    standby.stop(Stop::Fast, LIMIT).unwrap();
    std::fs::write(standby.data().join("standby.signal"), "").unwrap();
    standby.start_again().unwrap();
    rig.reach_by_port(standby.endpoint().port());
    assert_refused(&rig, 35, &["standby", "pg_promote"]);
    let name = rig.database.name();
    let on_standby = |query: &str| standby.endpoint().value(name, query).unwrap();
    assert_eq!(on_standby("SELECT pg_promote()"), "t");
    let relay = rig.start();
    relay.wait_for_log("promoted from timeline 1 to 2", LIMIT).unwrap();
    let mut truth = Truth::new();
    truth.extend(&standby.url(name), &rig.outboxes[0].truth()).unwrap();
    assert_eq!(truth.len(), 20);
    rig.verdict(&rig.with_partitions(truth)).assert_clean(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
    // As it may be where another server was promoted, or this one before it had all that was published.
    for (found, code) in [("timeline = 3", 31), ("timeline = 1, position = pg_current_wal_flush_lsn()", 32)] {
        standby.endpoint().psql(name, &format!("UPDATE walpost.checkpoint SET {found}")).unwrap();
        assert_refused(&rig, code, &["timeline", "walpost repair"]);
        rig.call(&["status", "--json"]).assert_said(10, &["timeline"]);
    }
    rig.call(&["repair", "--adopt-slot", "--yes"]).assert_said(0, &["now stands at the slot's"]);
    let relay = rig.start();
    wait_until_ready(&relay);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_slot_without_a_checkpoint_starts_with_a_warning_and_loses_nothing() {
    let rig = rested("handed");
    rig.insert("key", 10, 10);
    rig.call(&["checkpoint", "forget"]).assert_success();
    let relay = rig.start_streaming();
    let confirmed = rig.slot("confirmed_flush_lsn");
    let line = relay.wait_for_log("no checkpoint", LIMIT).unwrap();
    assert!(line.contains("WARN"), "{line}");
    assert!(!confirmed.is_empty());
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

/// A relay with its checkpoint in a file beside its configuration, on a PostgreSQL of its own.
fn with_a_file(postgres: &Postgres, label: &str) -> Rig {
    let mut rig = Rig::with_tables_on(postgres.endpoint(), shared_kafka(), label, &["public.outbox"]);
    let path = rig.walpost.folder().join("checkpoint");
    rig.configure(|config| {
        config.set("checkpoint", "store", r#""file""#).set("checkpoint", "path", &format!("{path:?}"))
    });
    rig.init();
    rig
}

fn publish_and_stop(rig: &Rig, relay: Relay, from: i64) {
    rig.insert("key", from, 10);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_server_restored_from_older_data_is_refused() {
    let mut postgres = Postgres::start().unwrap();
    let mut rig = with_a_file(&postgres, "restored");
    publish_and_stop(&rig, rig.start_streaming(), 0);
    postgres.stop(Stop::Fast, LIMIT).unwrap();
    let backup = Postgres::builder().copy_of(&postgres).start().unwrap();
    postgres.start_again().unwrap();
    // Enough log that the copy cannot have written as much by itself.
    rig.sql("CREATE TABLE other AS SELECT md5(random()::text) FROM generate_series(1, 100000)");
    publish_and_stop(&rig, rig.start_streaming(), 10);
    rig.reach_by_port(backup.endpoint().port());
    assert_refused(&rig, 30, &["restored from older data", "walpost checkpoint forget"]);
    rig.reach_by_port(postgres.endpoint().port());
    publish_and_stop(&rig, rig.start_streaming(), 20);
}

#[test]
fn a_checkpoint_of_another_system_is_refused() {
    let postgres = Postgres::start().unwrap();
    let mut rig = with_a_file(&postgres, "moved");
    publish_and_stop(&rig, rig.start_streaming(), 0);
    let other = Postgres::start().unwrap();
    let name = rig.database.name().to_owned();
    other.psql("postgres", &format!("CREATE DATABASE {name}")).unwrap();
    other
        .psql(&name, &format!("{}; CREATE PUBLICATION {name} FOR TABLE outbox", rig.outboxes[0].definition()))
        .unwrap();
    other.psql(&name, &format!("SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")).unwrap();
    let system = |postgres: &Postgres| {
        postgres.endpoint().value("postgres", "SELECT system_identifier FROM pg_control_system()").unwrap()
    };
    rig.reach_by_port(other.endpoint().port());
    assert_refused(&rig, 33, &[&system(&postgres), &system(&other), "walpost checkpoint forget"]);
}
