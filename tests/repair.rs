//! What an operator does when the slot is in trouble: `walpost repair` shows the state and the ways out, and each way does what it said.

use std::path::PathBuf;

use walpost_testkit::checker::{Repeats, Truth};
use walpost_testkit::consumer::Received;
use walpost_testkit::relay::{Relay, toml_string};
use walpost_testkit::servers::{Postgres, PostgresBuilder, Signal, Stop, postgres_of, shared_kafka};

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
    let preview = rig.call(&["repair", "--fill", "--by", "made"]);
    preview.assert_said(0, &["15 rows", "by their column \"made\"", "nothing was done"]);
    rig.call(&["repair", "--fill", "--by", "made", "--yes"]).assert_said(0, &["15 rows published"]);
    assert_whole(&rig);
    assert_repeats_only(&rig, "key");
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
    let relay = rig.start_streaming();
    rig.insert("found", 0, 10);
    let accepted = format!("{} WHERE aggregateid <> 'lost'", rig.outboxes[0].truth());
    let truth = rig.with_partitions(Truth::read(&rig.database.url(), &accepted).unwrap());
    rig.verdict(&truth).assert_clean(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
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
    rig.configure(|config| config.set("sink", "type", r#""null""#));
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
fn a_bad_row_ends_the_fill_unless_it_is_passed_over() {
    let postgres = tracking().start().unwrap();
    let rig = rested_on(&postgres, "bad");
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
    refused.assert_said(4, &["is in use by another process"]);
    assert!(rig.sql(&format!("SELECT 1 FROM pg_replication_slots WHERE slot_name = '{name}'")).is_empty());
    relay.kill9().unwrap();
}

/// What a test compares of a record: everything but where it stands in its topic.
fn content(record: &Received) -> String {
    let Received { topic, key, value, headers, timestamp_ms, .. } = record;
    format!("{topic} {key:?} {value:?} {headers:?} {timestamp_ms:?}")
}

/// Columns of every kind of type, each with a value that is easily written otherwise.
const TYPES: &[(&str, &str)] = &[
    ("bool", "true"),
    ("int2", "-32768"),
    ("int8", "9223372036854775807"),
    ("numeric(30,10)", "1.5"),
    ("numeric", "'NaN'"),
    ("float4", "0.1"),
    ("float8", "1e-7"),
    ("float8", "'-Infinity'"),
    ("text", r#"E'a\tb\nc\rd\\e\b\f\x0b \\N \\. ''" ü 🐘'"#),
    ("text", "''"),
    ("text", r"'\N'"),
    ("text", "NULL"),
    ("varchar(9)", "' x '"),
    ("char(9)", "'x'"),
    (r#""char""#, "'c'"),
    ("name", "'n'"),
    ("bytea", r"'\x00ff5c0a'"),
    ("uuid", "'00000000-0000-0000-0000-00000000000f'"),
    ("json", r#"E'{"a":  "\\u00e9\\n",\n "b": 1.0}'"#),
    ("jsonb", r#"'{"b": 1.0, "a": [null, "\\"]}'"#),
    ("xml", "'<a>&amp;</a>'"),
    ("date", "'infinity'"),
    ("date", "'2024-02-29'"),
    ("time(3)", "'23:59:59.5'"),
    ("timetz", "'12:00:00+02'"),
    ("timestamp", "'2024-02-29 12:34:56.7'"),
    ("timestamptz(3)", "'2024-02-29 12:34:56.789+05:30'"),
    ("interval", "'1 year 2 mons -3 days 04:05:06.7'"),
    ("money", "1234.5"),
    ("bit(5)", "B'10101'"),
    ("varbit", "B'101'"),
    ("inet", "'10.0.0.1/8'"),
    ("cidr", "'10.0.0.0/8'"),
    ("macaddr", "'08:00:2b:01:02:03'"),
    ("point", "'(1.5,-2)'"),
    ("box", "'(1,1),(0,0)'"),
    ("path", "'[(0,0),(1,1)]'"),
    ("int4range", "'[1,5)'"),
    ("tstzrange", "'[2024-01-01 00:00+00,)'"),
    ("int4multirange", "'{[1,3),[5,9)}'"),
    ("int4[]", "'{{1,NULL},{3,4}}'"),
    ("text[]", r#"ARRAY['a,b', E'c\td"\\', 'NULL', '']"#),
    ("bool[]", "'{t,f,NULL}'"),
    ("mood", "'so so'"),
    ("mood[]", "'{\"so so\"}'"),
    ("padded", "'x'"),
    ("pair", "ROW(true, E'a\tb')"),
    ("pair", "ROW(NULL, NULL)"),
    ("tsvector", "'a:1 b:2'::tsvector"),
    ("oid", "4294967295"),
    ("pg_lsn", "'16/B374D848'"),
    ("regclass", "'pg_class'"),
];

#[test]
fn a_row_that_is_filled_is_the_record_that_the_stream_made_of_it_whatever_its_types() {
    let postgres = tracking().start().unwrap();
    let mut rig = Rig::empty_on(postgres.endpoint(), shared_kafka(), "bytes");
    let named = TYPES.iter().enumerate().map(|(place, _)| format!("c{place}:header"));
    let placement = named.collect::<Vec<_>>().join(",");
    let router = [("table.fields.additional.placement", placement.as_str())];
    let table = r#""Odd Schema"."Out""Box""#;
    rig.add_table(table, "events", &router);
    let columns: Vec<String> = TYPES.iter().enumerate().map(|(place, (kind, _))| format!("c{place} {kind}")).collect();
    rig.sql(&format!(
        r#"CREATE SCHEMA "Odd Schema"; CREATE TYPE mood AS ENUM ('so so'); CREATE DOMAIN padded AS char(4);
           CREATE TYPE pair AS (a bool, b text);
           CREATE TABLE {table} (id uuid PRIMARY KEY, dropped int, doubled int GENERATED ALWAYS AS (2) STORED, aggregatetype text, aggregateid text,
               type text, payload jsonb, {});
           ALTER TABLE {table} DROP dropped"#,
        columns.join(", ")
    ));
    rig.init();
    let relay = rig.start_streaming();
    let values: Vec<&str> = TYPES.iter().map(|(_, value)| *value).collect();
    // Settings that a session of somebody else's has change nothing.
    let insert = |id: u32, values: &str| {
        rig.sql(&format!(
            "SET TimeZone = 'Asia/Kolkata'; INSERT INTO {table} (id, aggregatetype, aggregateid, type, payload, {}) VALUES \
             ('00000000-0000-0000-0000-{id:012}', 'order', 'key', 'Made', '{{\"a\": {id}}}', {values})",
            (0..TYPES.len()).map(|place| format!("c{place}")).collect::<Vec<_>>().join(", ")
        ));
    };
    insert(1, &values.join(", "));
    insert(2, &vec!["NULL"; TYPES.len()].join(", "));
    let mut consumer = rig.consumer();
    consumer.read_count(2, LIMIT).unwrap();
    relay.stop(LIMIT).unwrap().assert_success();
    drop_slot(&rig);
    // As the database is by default for everybody.
    rig.sql(&format!(
        "ALTER DATABASE {0} SET DateStyle = 'German'; ALTER DATABASE {0} SET IntervalStyle = 'iso_8601'; \
         ALTER DATABASE {0} SET bytea_output = 'escape'; ALTER DATABASE {0} SET extra_float_digits = 0",
        rig.database.name()
    ));
    rig.call(&["repair", "--fill", "--yes"]).assert_said(0, &["2 rows published"]);
    let records = consumer.read_count(4, LIMIT).unwrap();
    for place in 0..2 {
        assert_eq!(content(&records[place]), content(&records[place + 2]));
    }
    assert_eq!(records[0].headers.len(), TYPES.len() + 1);
}

#[test]
fn several_outboxes_are_filled_in_one_order_and_partitions_under_their_root() {
    let postgres = tracking().start().unwrap();
    let mut rig = Rig::empty_on(postgres.endpoint(), shared_kafka(), "merged");
    let topic = rig.add_table("public.whole", "events", &[]);
    let replacement = [("route.topic.replacement", topic.as_str())];
    rig.configure(|config| config.outbox("public.parted", &replacement));
    let columns = "(id uuid DEFAULT gen_random_uuid(), aggregatetype text DEFAULT 'order', aggregateid text DEFAULT 'key', type text DEFAULT 'Made', payload text, n int)";
    // Publications have conditions from 15 on.
    let version: i32 = rig.value("SHOW server_version_num").parse().unwrap();
    let condition = if version >= 150_000 { "WHERE (n <> 13)" } else { "" };
    rig.sql(&format!(
        "CREATE TABLE whole {columns}; CREATE TABLE parted {columns} PARTITION BY RANGE (n);
         CREATE TABLE low PARTITION OF parted FOR VALUES FROM (0) TO (5); CREATE TABLE high PARTITION OF parted DEFAULT;
         CREATE PUBLICATION {} FOR TABLE whole {condition}, parted WITH (publish = 'insert', publish_via_partition_root = true)",
        rig.database.name()
    ));
    rig.init();
    drop_slot(&rig);
    // Statements of one transaction go to and fro between the tables, with a savepoint rolled back among them.
    let mut script = String::from("BEGIN;");
    for n in 0..20 {
        let table = ["whole", "parted"][n % 2];
        script += &format!("INSERT INTO {table} (payload, n) VALUES ('{n:02}', {n});");
        if n == 9 {
            script += "SAVEPOINT s; INSERT INTO whole (payload, n) VALUES ('never', 9); ROLLBACK TO s; SAVEPOINT t;";
        }
    }
    if !condition.is_empty() {
        script += "INSERT INTO whole (payload, n) VALUES ('filtered', 13);";
    }
    rig.sql(&(script + "COMMIT; INSERT INTO parted (payload, n) VALUES ('20', 1)"));
    rig.call(&["repair", "--fill"]).assert_said(4, &["none was settled yet", "--since TIME"]);
    let filled = rig.call(&["repair", "--fill", "--since", "2026-01-01T00:00:00+00:00", "--rows-are-kept", "--yes"]);
    filled.assert_said(0, &["21 rows published"]);
    let mut consumer = rig.consumer();
    let payloads: Vec<String> = consumer.read_count(21, LIMIT).unwrap().iter().map(Received::value_text).collect();
    assert_eq!(payloads, (0..21).map(|n| format!("{n:02}")).collect::<Vec<_>>());
    let relay = rig.start_streaming();
    rig.sql("INSERT INTO whole (payload, n) VALUES ('21', 1)");
    let records = consumer.read_count(22, LIMIT).unwrap();
    assert_eq!(records[21].value_text(), "21");
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn rows_that_the_role_may_not_see_keep_the_gap_from_being_filled() {
    let postgres = tracking().start().unwrap();
    let mut rig = rested_on(&postgres, "unseen");
    drop_slot(&rig);
    rig.sql(
        "CREATE ROLE humble LOGIN REPLICATION; GRANT USAGE ON SCHEMA walpost TO humble;
         GRANT SELECT, INSERT, UPDATE, DELETE ON walpost.checkpoint TO humble",
    );
    let url = rig.database.endpoint().url_for("humble", None, rig.database.name());
    rig.configure(|config| config.set("source", "url", &toml_string(&url)));
    rig.call(&["repair", "--fill", "--yes"]).assert_said(4, &["may not read public.outbox", "GRANT SELECT"]);
    rig.sql("GRANT SELECT ON outbox TO humble; ALTER TABLE outbox ENABLE ROW LEVEL SECURITY");
    rig.call(&["repair", "--fill", "--yes"]).assert_said(4, &["row-level security hides rows"]);
    rig.sql("ALTER TABLE outbox DISABLE ROW LEVEL SECURITY");
    rig.insert("lost", 0, 10);
    rig.call(&["repair", "--fill", "--yes"]).assert_said(0, &["20 rows published"]);
    assert_whole(&rig);
}

#[test]
fn times_of_commits_that_were_not_kept_for_the_whole_gap_are_not_relied_on() {
    let mut postgres = Postgres::start().unwrap();
    let rig = rested_on(&postgres, "late");
    drop_slot(&rig);
    rig.insert("lost", 0, 10);
    rig.sql("ALTER SYSTEM SET track_commit_timestamp = on");
    postgres.restart(Stop::Fast).unwrap();
    rig.insert("lost", 10, 10);
    rig.call(&["repair", "--fill", "--yes"])
        .assert_said(4, &["does not know when 20 rows of public.outbox", "--by COLUMN"]);
}

/// Rows that are committed and not published, and then the primary is gone for good.
#[track_caller]
fn lose_primary(rig: &Rig, relay: Relay, primary: &mut Postgres, standby: &Postgres) {
    relay.sigstop().unwrap();
    rig.insert("unpublished", 0, 10);
    let written = rig.value("SELECT pg_current_wal_flush_lsn()");
    eventually("the standby to have everything", || {
        let replayed = format!("SELECT pg_last_wal_replay_lsn() >= '{written}'");
        standby.endpoint().value("postgres", &replayed).unwrap() == "t"
    });
    primary.kill9().unwrap();
    relay.kill9().unwrap();
    assert_eq!(standby.endpoint().value("postgres", "SELECT pg_promote()").unwrap(), "t");
}

/// All that the promoted server has arrives.
#[track_caller]
fn assert_whole_on(rig: &mut Rig, standby: &Postgres) {
    let name = rig.database.name().to_owned();
    let relay = rig.start();
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
    let relay = rig.start_streaming();
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    (primary, standby, rig, relay)
}

#[track_caller]
fn assert_a_failover_slot_carries_over(version: u32) {
    let (mut primary, standby, mut rig, relay) = with_a_standby(Some(version), "carried");
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
    lose_primary(&rig, relay, &mut primary, &standby);
    rig.reach_by_port(standby.endpoint().port());
    rig.call(&["repair"]).assert_said(0, &["resume-promoted"]);
    assert_whole_on(&mut rig, &standby);
}

#[test]
fn on_17_a_failover_slot_is_carried_over_and_the_relay_goes_on_where_the_standby_was_promoted() {
    assert_a_failover_slot_carries_over(17);
}

#[test]
fn on_18_a_failover_slot_is_carried_over_and_the_relay_goes_on_where_the_standby_was_promoted() {
    assert_a_failover_slot_carries_over(18);
}

#[test]
fn on_a_standby_that_was_promoted_without_the_slot_the_gap_is_filled() {
    let (mut primary, standby, mut rig, relay) = with_a_standby(None, "without");
    eventually("the standby to have the row of the checkpoint", || {
        let settled = "SELECT count(*) FROM walpost.checkpoint WHERE commit_time IS NOT NULL";
        standby.endpoint().value(rig.database.name(), settled).unwrap() == "1"
    });
    lose_primary(&rig, relay, &mut primary, &standby);
    rig.reach_by_port(standby.endpoint().port());
    rig.start().wait(LIMIT).unwrap().assert_said(21, &["walpost repair"]);
    rig.call(&["repair"]).assert_said(21, &["slot-missing", "20 rows of public.outbox"]);
    // A promoted server has no statistics of its former life, and all rows lie within the margin.
    rig.call(&["repair", "--fill", "--yes"]).assert_said(4, &["no row from before the gap", "--rows-are-kept"]);
    rig.call(&["repair", "--fill", "--rows-are-kept", "--yes"]).assert_said(0, &["20 rows published"]);
    assert_whole_on(&mut rig, &standby);
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
