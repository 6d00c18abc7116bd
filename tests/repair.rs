//! What an operator does when the slot is in trouble: `walpost repair` shows the state and the ways out, and each way does what it said.

mod bytes;
mod lettered;
mod standby;
mod transactional;

use std::path::PathBuf;

use walpost_testkit::checker::Repeats;
use walpost_testkit::relay::Relay;
use walpost_testkit::servers::{Postgres, PostgresBuilder, Signal, Stop, shared_kafka};

use crate::rig::{LIMIT, Rig, eventually};

/// A server that keeps the times of commits.
fn tracking() -> PostgresBuilder {
    Postgres::builder().setting("track_commit_timestamp", "on")
}

/// A relay on a server of its own that has published ten rows and stopped.
fn rested_on(postgres: &Postgres, label: &str) -> Rig {
    let rig = Rig::ready_on(postgres.endpoint(), shared_kafka(), label, &["public.outbox"]);
    publish_and_stop(&rig, rig.start_streaming(), 0);
    rig
}

fn publish_and_stop(rig: &Rig, relay: Relay, from: i64) {
    rig.insert("key", from, 10);
    rig.assert_delivered(Repeats::Allowed);
    relay.stop(LIMIT).unwrap().assert_success();
}

fn drop_slot(rig: &Rig) {
    rig.sql(&format!("SELECT pg_drop_replication_slot('{}')", rig.database.name()));
}

/// Everything arrives, and the stream goes on.
#[track_caller]
fn assert_whole(rig: &Rig) {
    let relay = rig.start_streaming();
    rig.insert("after", 0, 10);
    rig.assert_delivered(Repeats::Allowed);
    relay.stop(LIMIT).unwrap().assert_success();
}

/// Every row that was committed since the first stop came once; what came before may be repeated.
#[track_caller]
fn assert_repeats_only(rig: &Rig, key: &str) {
    let mut consumer = rig.consumer();
    let records = consumer.read_to_end(LIMIT).unwrap();
    for (place, record) in records.iter().enumerate() {
        let is_repeat = records[..place].iter().any(|earlier| earlier.id() == record.id());
        assert!(!is_repeat || record.key_text() == key, "{record} was repeated");
    }
}

#[test]
fn where_nothing_is_wrong_repair_says_so_and_ends_with_0() {
    let rig = Rig::ready("well", &["public.outbox"]);
    let ended = rig.call(&["repair"]);
    ended.assert_said(0, &["state:      resume (exit code 0)"]);
    assert!(!ended.output.contains("ways out"), "{}", ended.output);
    let shown = rig.call(&["repair", "--json"]);
    let shown: serde_json::Value = serde_json::from_str(&shown.output).unwrap();
    assert_eq!((shown["state"].as_str(), shown["exit"].as_u64()), (Some("resume"), Some(0)));
    assert!(shown["ways"].as_array().unwrap().is_empty());
    // What would be filled has to be said, for nothing is missing.
    rig.call(&["repair", "--fill"]).assert_said(4, &["nothing is missing", "--since TIME"]);
}

#[test]
fn a_dropped_slot_is_filled_from_the_table_and_only_rows_of_the_margin_are_repeated() {
    let postgres = tracking().start().unwrap();
    let rig = rested_on(&postgres, "fill_dropped");
    drop_slot(&rig);
    for seq in 0..20 {
        rig.insert("lost", seq, 1);
    }
    let shown = rig.call(&["repair"]);
    shown.assert_said(
        21,
        &["slot-missing", "bytes of log", "30 rows of public.outbox", "repair --fill", "LOSES", "there is no slot"],
    );
    let preview = rig.call(&["repair", "--fill"]);
    preview.assert_said(0, &["30 rows", "first id", "nothing was done"]);
    assert_eq!(rig.value("SELECT count(*) FROM pg_replication_slots"), "0", "a preview changes nothing");
    // Without a margin what was published is not repeated.
    let after = rig.value("SELECT to_char((commit_time + interval '1 microsecond') AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') FROM walpost.checkpoint");
    rig.call(&["repair", "--fill", "--since", &after]).assert_said(0, &["publishes 20 rows"]);
    rig.call(&["repair", "--fill", "--yes"]).assert_said(0, &["30 rows published", "walpost run"]);
    assert_whole(&rig);
    assert_repeats_only(&rig, "key");
    rig.call(&["repair"]).assert_said(0, &["resume"]);
}

#[test]
fn a_way_that_is_not_possible_says_why_and_changes_nothing() {
    let rig = Rig::ready("reasons", &["public.outbox"]);
    publish_and_stop(&rig, rig.start_streaming(), 0);
    drop_slot(&rig);
    // The shared server does not keep the times of commits.
    let words = ["track_commit_timestamp is off", "--by COLUMN"];
    rig.call(&["repair"]).assert_said(21, &words);
    rig.call(&["repair", "--fill", "--yes"]).assert_said(4, &words);
    rig.call(&["repair", "--fill", "--by", "nothing"]).assert_said(4, &["no column \"nothing\""]);
    rig.call(&["repair", "--adopt-slot", "--yes"]).assert_said(4, &["there is no slot"]);
    rig.call(&["repair", "--recreate", "--yes"]).assert_said(2, &["--accept-gap"]);
    assert_eq!(rig.walsender(), None);
    assert!(rig.sql("SELECT 1 FROM pg_replication_slots WHERE database = current_database()").is_empty());
}

#[test]
fn by_a_column_the_gap_is_filled_where_the_server_does_not_keep_the_times_of_commits() {
    let rig = Rig::with_tables("by_column", &["public.outbox"]);
    rig.sql("ALTER TABLE outbox ADD made timestamptz NOT NULL DEFAULT clock_timestamp()");
    rig.init();
    publish_and_stop(&rig, rig.start_streaming(), 0);
    drop_slot(&rig);
    for seq in 0..5 {
        rig.insert("lost", seq, 1);
    }
    // A repeat would bear the column's time, where the stream gave it the commit's.
    let after = "max(made) + interval '1 microsecond'";
    let after = rig.value(&format!("SELECT to_char(({after}) AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"') FROM outbox WHERE aggregateid = 'key'"));
    let preview = rig.call(&["repair", "--fill", "--by", "made", "--since", &after]);
    preview.assert_said(0, &["5 rows", "by their column \"made\"", "its time is the records'", "nothing was done"]);
    let filled = rig.call(&["repair", "--fill", "--by", "made", "--since", &after, "--yes"]);
    filled.assert_said(0, &["5 rows published"]);
    let relay = rig.start_streaming();
    rig.insert("after", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn where_rows_are_deleted_the_gap_is_filled_only_by_somebody_who_knows_better() {
    let postgres = tracking().start().unwrap();
    let rig = rested_on(&postgres, "kept");
    drop_slot(&rig);
    rig.insert("lost", 0, 10);
    rig.sql("INSERT INTO outbox SELECT gen_random_uuid(), 'order', 'gone', 'Changed', '{}', 0; DELETE FROM outbox WHERE aggregateid = 'gone'");
    eventually("the deletion to be counted", || {
        rig.value("SELECT n_tup_del FROM pg_stat_user_tables WHERE relname = 'outbox'") == "1"
    });
    rig.call(&["repair", "--fill", "--yes"]).assert_said(4, &["rows of public.outbox are deleted", "--rows-are-kept"]);
    rig.call(&["repair", "--fill", "--rows-are-kept", "--yes"]).assert_said(0, &["20 rows published"]);
    assert_whole(&rig);
}

#[test]
fn a_slot_that_was_lost_for_its_log_is_filled() {
    let server = tracking()
        .setting("max_slot_wal_keep_size", "1MB")
        .setting("max_wal_size", "32MB")
        .setting("min_wal_size", "32MB");
    let postgres = server.start().unwrap();
    let rig = rested_on(&postgres, "fill_lost");
    rig.insert("lost", 0, 10);
    rig.sql("CREATE TABLE other (number int)");
    eventually("the server to give the slot up", || {
        rig.sql("INSERT INTO other SELECT generate_series(1, 1000); SELECT pg_switch_wal()");
        rig.sql("CHECKPOINT");
        rig.slot("wal_status") == "lost"
    });
    rig.call(&["repair"]).assert_said(23, &["slot-lost", "repair --fill", "invalidated the slot"]);
    rig.call(&["repair", "--fill", "--yes"]).assert_said(0, &["20 rows published"]);
    assert_whole(&rig);
}

#[test]
fn a_slot_that_was_moved_by_hand_is_filled_or_adopted() {
    let postgres = tracking().start().unwrap();
    let rig = rested_on(&postgres, "fill_moved");
    let name = rig.database.name();
    rig.insert("lost", 0, 10);
    rig.sql(&format!("SELECT pg_replication_slot_advance('{name}', pg_current_wal_flush_lsn())"));
    rig.call(&["repair"])
        .assert_said(24, &["slot-ahead", "repair --adopt-slot --yes", "LOSES what was committed between"]);
    rig.call(&["repair", "--adopt-slot"]).assert_said(0, &["LOSES", "nothing was done"]);
    rig.call(&["repair"]).assert_said(24, &["slot-ahead"]);
    rig.call(&["repair", "--fill", "--yes"]).assert_said(0, &["20 rows published"]);
    assert_whole(&rig);
}

#[test]
fn a_slot_made_anew_with_the_gap_accepted_begins_behind_it() {
    let rig = Rig::ready("accepted", &["public.outbox"]);
    publish_and_stop(&rig, rig.start_streaming(), 0);
    drop_slot(&rig);
    rig.insert("lost", 0, 10);
    rig.call(&["repair", "--recreate", "--accept-gap"]).assert_said(0, &["LOSES", "nothing was done"]);
    rig.call(&["repair", "--recreate", "--accept-gap", "--yes"]).assert_said(0, &["now stand at", "walpost run"]);
    rig.assert_goes_on_after_the_gap();
}

#[test]
fn a_slot_that_a_relay_reads_is_left_alone_and_the_process_is_named() {
    let rig = Rig::ready("held", &["public.outbox"]);
    let relay = rig.start_streaming();
    let holder = format!("process {}", rig.walsender().unwrap());
    rig.call(&["repair"]).assert_said(22, &["slot-busy", &holder]);
    for way in [
        &["repair", "--fill", "--since", "2026-01-01T00:00:00Z", "--yes"] as &[_],
        &["repair", "--adopt-slot", "--yes"],
        &["repair", "--recreate", "--accept-gap", "--yes"],
    ] {
        rig.call(way).assert_said(22, &[&holder, "stop it first"]);
    }
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_fill_that_is_killed_is_refused_by_the_relay_and_filled_again_since_the_same_time() {
    let postgres = tracking().start().unwrap();
    let rig = rested_on(&postgres, "killed");
    drop_slot(&rig);
    rig.insert("lost", 0, 2000);
    // A topic that does not exist: what is routed to it is waited for.
    rig.sql("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) VALUES (gen_random_uuid(), 'nowhere', 'key', 'Made', '{}', 0)");
    let filling = rig.walpost.begin(&["repair", "--fill", "--yes"]).unwrap();
    filling.wait_for_log("nowhere", LIMIT).unwrap();
    let second = rig.call(&["repair", "--fill", "--since", "2026-01-01T00:00:00Z", "--yes"]);
    second.assert_said(22, &["is being repaired by another session (process"]);
    filling.kill9().unwrap();
    eventually("the server to notice", || {
        rig.value("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == "0"
    });
    rig.start().wait(LIMIT).unwrap().assert_said(24, &["made it anew", "walpost repair"]);
    rig.sql("DELETE FROM outbox WHERE aggregatetype = 'nowhere'");
    rig.call(&["repair"]).assert_said(24, &["slot-ahead", "2010 rows of public.outbox"]);
    let filled = rig.call(&["repair", "--fill", "--rows-are-kept", "--yes"]);
    filled.assert_said(0, &["2010 rows published"]);
    assert_whole(&rig);
}

#[test]
fn a_fill_that_is_told_to_stop_says_how_far_it_came_and_leaves_the_checkpoint_where_it_was() {
    let postgres = tracking().start().unwrap();
    let mut rig = rested_on(&postgres, "told");
    rig.configure(|config| config.set("stop", "timeout_ms", "500"));
    drop_slot(&rig);
    rig.insert("lost", 0, 10);
    rig.sql("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) VALUES (gen_random_uuid(), 'nowhere', 'key', 'Made', '{}', 0)");
    let before = rig.value("SELECT position FROM walpost.checkpoint");
    let filling = rig.walpost.begin(&["repair", "--fill", "--yes"]).unwrap();
    filling.wait_for_log("nowhere", LIMIT).unwrap();
    filling.stop(LIMIT).unwrap().assert_said(9, &["stopped after", "the checkpoint has not moved", "run this again"]);
    assert_eq!(rig.value("SELECT position FROM walpost.checkpoint"), before);
    rig.call(&["repair"]).assert_said(24, &["slot-ahead", "21 rows"]);
}

#[test]
fn a_gap_of_many_rows_is_filled_within_bounded_memory() {
    let postgres = tracking().start().unwrap();
    let mut rig = rested_on(&postgres, "many");
    drop_slot(&rig);
    rig.sql("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) SELECT gen_random_uuid(), 'order', 'many-' || n % 100, 'Changed', jsonb_build_object('filling', repeat('x', 1000), 'n', n), n FROM generate_series(1, 200000) AS n");
    rig.configure(|config| config.stdout().set("sink", "type", r#""null""#));
    // What no relay needs to hold at once: 200 MB.
    let filling = rig.walpost.begin(&["repair", "--fill", "--yes"]).unwrap();
    let mut peak = 0;
    eventually("the fill to end", || {
        peak = filling.peak_memory().map_or(peak, |memory| memory.max(peak));
        !filling.is_running()
    });
    filling.wait(LIMIT).unwrap().assert_said(0, &["200010 rows published"]);
    assert!((1 << 20..100 << 20).contains(&peak), "{peak} bytes");
}

#[test]
fn a_bad_row_of_the_gap_is_set_aside_where_bad_rows_are_and_once_for_all_fills() {
    let postgres = tracking().start().unwrap();
    let rig = rested_on(&postgres, "aside");
    drop_slot(&rig);
    rig.insert("lost", 0, 5);
    rig.sql("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) VALUES (gen_random_uuid(), 'no topic', 'bad', 'Made', '{}', 3)");
    for _ in 0..2 {
        let filled = rig.call(&["repair", "--fill", "--since", "2026-01-01T00:00:00Z", "--yes"]);
        filled.assert_said(0, &["published"]);
        assert_eq!(rig.value("SELECT count(*) FROM walpost.dead_letter"), "1");
    }
    rig.sql("DELETE FROM outbox WHERE aggregatetype = 'no topic'");
    assert_whole(&rig);
}

#[test]
fn a_bad_row_ends_the_fill_unless_it_is_passed_over() {
    let postgres = tracking().start().unwrap();
    let mut rig = rested_on(&postgres, "bad");
    rig.configure(|config| config.set("dead_letter", "on_bad_row", r#""stop""#));
    drop_slot(&rig);
    rig.insert("lost", 0, 5);
    rig.sql("INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) VALUES (gen_random_uuid(), 'no topic', 'key', 'Made', '{}', 3)");
    rig.insert("lost", 5, 5);
    rig.call(&["repair", "--fill", "--yes"]).assert_said(7, &["no topic", "--skip-bad"]);
    let filled = rig.call(&["repair", "--fill", "--skip-bad", "--yes"]);
    filled.assert_said(0, &["20 rows published, 1 passed over", "no topic"]);
    rig.sql("DELETE FROM outbox WHERE aggregatetype = 'no topic'");
    assert_whole(&rig);
}

/// A checkpoint in a file outlives the server's data.
fn with_a_file(postgres: &Postgres, label: &str) -> Rig {
    let mut rig = Rig::with_tables_on(postgres.endpoint(), shared_kafka(), label, &["public.outbox"]);
    let path: PathBuf = rig.walpost.folder().join("checkpoint");
    rig.configure(|config| {
        config.set("checkpoint", "store", r#""file""#).set("checkpoint", "path", &format!("{path:?}"))
    });
    rig.init();
    rig
}

#[test]
fn on_a_server_restored_from_an_older_copy_the_slot_is_adopted_and_nothing_of_it_is_lost() {
    let mut postgres = tracking().start().unwrap();
    let mut rig = with_a_file(&postgres, "older");
    publish_and_stop(&rig, rig.start_streaming(), 0);
    postgres.stop(Stop::Fast, LIMIT).unwrap();
    let backup = tracking().copy_of(&postgres).start().unwrap();
    postgres.start_again().unwrap();
    // Enough log that the copy cannot have written as much by itself.
    rig.sql("CREATE TABLE other AS SELECT md5(random()::text) FROM generate_series(1, 100000)");
    publish_and_stop(&rig, rig.start_streaming(), 10);
    rig.reach_by_port(backup.endpoint().port());
    rig.call(&["repair"]).assert_said(30, &["future", "loses nothing that this server has", "--since TIME"]);
    rig.call(&["repair", "--adopt-slot", "--yes"]).assert_said(0, &["now stands at the slot's"]);
    let relay = rig.start();
    let name = rig.database.name();
    backup.psql(name, "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) SELECT gen_random_uuid(), 'order', 'restored', 'Changed', '{}', seq FROM generate_series(0, 9) AS seq").unwrap();
    let mut consumer = rig.consumer();
    let ids = backup.psql(name, "SELECT id FROM outbox").unwrap().concat().into_iter().collect();
    consumer.read_ids(&ids, LIMIT).unwrap();
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn on_a_server_restored_from_an_older_copy_without_the_slot_the_gap_is_filled_since_the_restore() {
    let mut postgres = tracking().start().unwrap();
    let mut rig = with_a_file(&postgres, "copied");
    publish_and_stop(&rig, rig.start_streaming(), 0);
    postgres.stop(Stop::Fast, LIMIT).unwrap();
    let backup = tracking().copy_of(&postgres).start().unwrap();
    postgres.start_again().unwrap();
    rig.sql("CREATE TABLE other AS SELECT md5(random()::text) FROM generate_series(1, 100000)");
    publish_and_stop(&rig, rig.start_streaming(), 10);
    let name = rig.database.name().to_owned();
    let restored = backup
        .endpoint()
        .value(&name, "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')")
        .unwrap();
    let insert = |from: i64| {
        let rows = format!(
            "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) SELECT gen_random_uuid(), 'order', 'restored', 'Changed', '{{}}', seq FROM generate_series({from}, {}) AS seq",
            from + 9
        );
        backup.psql(&name, &rows).unwrap();
    };
    insert(0);
    backup.psql(&name, &format!("SELECT pg_drop_replication_slot('{name}')")).unwrap();
    rig.reach_by_port(backup.endpoint().port());
    rig.call(&["repair", "--fill"]).assert_said(4, &["another history", "--since TIME"]);
    rig.call(&["repair", "--fill", "--since", &restored, "--yes"]).assert_said(0, &["10 rows published"]);
    let relay = rig.start();
    insert(10);
    let mut consumer = rig.consumer();
    let ids = backup.psql(&name, "SELECT id FROM outbox").unwrap().concat().into_iter().collect();
    consumer.read_ids(&ids, LIMIT).unwrap();
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_checkpoint_file_that_a_relay_holds_keeps_repair_away() {
    let postgres = tracking().start().unwrap();
    let rig = with_a_file(&postgres, "locked");
    let relay = rig.start_streaming();
    relay.signal(Signal::Stop).unwrap();
    let name = rig.database.name();
    let holder = rig.walsender().unwrap();
    rig.sql(&format!("SELECT pg_terminate_backend({holder})"));
    eventually("the slot to be free", || rig.walsender().is_none());
    drop_slot(&rig);
    let refused = rig.call(&["repair", "--fill", "--since", "2026-01-01T00:00:00Z", "--yes"]);
    refused.assert_said(11, &["is in use by another process"]);
    assert!(rig.sql(&format!("SELECT 1 FROM pg_replication_slots WHERE slot_name = '{name}'")).is_empty());
    relay.kill9().unwrap();
}
