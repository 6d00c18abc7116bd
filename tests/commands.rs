//! What an operator does with the relay: prepare a database, look for faults, look after the checkpoint, start and stop.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use walpost_testkit::checker::Repeats;
use walpost_testkit::relay::{Ended, toml_string};
use walpost_testkit::servers::{
    Postgres, Signal, Stop, dependent, shared_kafka, shared_postgres, spawn_dependent, wait_until,
};

use crate::dead_letters::{insert_large, wait_for_open};
use crate::rig::{LIMIT, Rig, WALPOST, eventually};

/// Everything that `init` could have made, in one text.
fn traces(rig: &Rig) -> String {
    let name = rig.database.name();
    rig.value(&format!(
        "SELECT concat_ws(' ', \
           (SELECT string_agg(nspname, ',' ORDER BY nspname) FROM pg_namespace WHERE nspname !~ '^(pg_|information)'), \
           (SELECT string_agg(relname, ',' ORDER BY relname) FROM pg_class WHERE relkind = 'r' AND relnamespace::regnamespace::text !~ '^(pg_|information)'), \
           (SELECT string_agg(pubname, ',') FROM pg_publication), \
           (SELECT string_agg(slot_name, ',') FROM pg_replication_slots WHERE slot_name = '{name}'))"
    ))
}

/// The tables of our publication.
fn published(rig: &Rig) -> Vec<String> {
    let name = rig.database.name();
    rig.sql(&format!("SELECT tablename FROM pg_publication_tables WHERE pubname = '{name}' ORDER BY 1")).concat()
}

#[track_caller]
fn publish_and_stop(rig: &Rig, from: i64) {
    let relay = rig.start_streaming();
    rig.insert("key", from, 10);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_dry_run_shows_the_sql_and_changes_nothing() {
    let rig = Rig::empty("dry");
    let mut rig = rig;
    rig.add_table("public.outbox", "events", &[]);
    let before = traces(&rig);
    let ended = rig.call(&["init", "--with-outbox", "--dry-run"]);
    let statements = ["CREATE TABLE", "CREATE PUBLICATION", "walpost.checkpoint", "pg_create_logical_replication_slot"];
    ended.assert_said(0, &statements);
    ended.assert_said(0, &["-- nothing was run"]);
    assert_eq!(traces(&rig), before);
    // What is shown is what is run: by hand it does the same.
    rig.sql(&ended.output);
    let ended = rig.call(&["init"]);
    ended.assert_said(0, &["-- everything is there already", "first checkpoint at"]);
}

#[test]
fn init_shows_what_it_runs_and_does_nothing_the_second_time() {
    let rig = Rig::with_tables("twice", &["public.outbox"]);
    let first = rig.call(&["init"]);
    let name = rig.database.name();
    let publication = format!("CREATE PUBLICATION \"{name}\" FOR TABLE \"public\".\"outbox\"");
    first.assert_said(0, &[&publication, "publish = 'insert'", "first checkpoint at", "walpost run"]);
    let (made, checkpoint) = (traces(&rig), rig.value("SELECT position FROM walpost.checkpoint"));
    rig.insert("key", 0, 10);
    let second = rig.call(&["init"]);
    second.assert_said(0, &["-- everything is there already", "the checkpoint stays as it is"]);
    assert!(!second.output.contains("CREATE"), "{}", second.output);
    assert_eq!((traces(&rig), rig.value("SELECT position FROM walpost.checkpoint")), (made, checkpoint));
    publish_and_stop(&rig, 10);
}

#[test]
fn init_adds_an_outbox_to_a_publication_that_a_relay_reads_and_counts_nothing_twice() {
    let mut rig = Rig::ready("added", &["public.outbox"]);
    let relay = rig.start_streaming();
    rig.add_outbox("public.added", &[]);
    rig.workload().create().unwrap();
    // Also while the relay still runs, which is when an outbox is usually added.
    let ended = rig.call(&["init"]);
    let alter = format!("ALTER PUBLICATION \"{}\" ADD TABLE \"public\".\"added\"", rig.database.name());
    ended.assert_said(0, &[&alter, "the checkpoint stays as it is"]);
    assert_eq!(published(&rig), ["added", "outbox"]);
    relay.stop(LIMIT).unwrap().assert_success();
    let relay = rig.start_streaming();
    rig.workload().transactions(50).run(LIMIT).unwrap();
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_publication_for_all_tables_is_refused_and_nothing_is_made() {
    let rig = Rig::with_tables("all", &["public.outbox"]);
    let name = rig.database.name();
    rig.sql(&format!("CREATE PUBLICATION {name} FOR ALL TABLES"));
    let before = traces(&rig);
    rig.call(&["init"]).assert_said(4, &["FOR ALL TABLES", &format!("DROP PUBLICATION \"{name}\"")]);
    assert_eq!(traces(&rig), before);
    rig.call(&["check"]).assert_said(5, &["FOR ALL TABLES"]);
}

#[test]
fn rows_from_before_the_slot_are_counted_named_and_not_published() {
    let rig = Rig::with_tables("before", &["public.outbox"]);
    rig.insert("old", 0, 3);
    rig.call(&["init"]).assert_said(0, &["3 rows that stand in public.outbox from before the slot are not published"]);
    rig.sql("DELETE FROM outbox");
    publish_and_stop(&rig, 0);
}

#[test]
fn the_reference_table_is_made_under_a_quoted_name_of_mixed_case_and_published() {
    let mut rig = Rig::empty("mixed");
    rig.sql(r#"CREATE SCHEMA "Order Desk""#);
    let table = r#""Order Desk"."Out""Box""#;
    let topic = rig.add_table(table, "events", &[]);
    for arguments in [&["init"] as &[_], &["init", "--dry-run"]] {
        let refused = rig.call(arguments);
        refused.assert_said(4, &["error: the outbox table", "does not exist", "walpost init --with-outbox"]);
        assert_eq!(refused.output, "", "SQL that does not run is not shown");
    }
    rig.call(&["init", "--with-outbox"]).assert_said(0, &[table, "first checkpoint"]);
    let relay = rig.start_streaming();
    rig.sql(&format!(
        "INSERT INTO {table} (aggregatetype, aggregateid, type, payload) VALUES ('order', '7', 'Placed', '{{\"a\": 1}}')"
    ));
    let mut consumer = rig.consumer();
    let records = consumer.read_count(1, LIMIT).unwrap();
    assert_eq!((records[0].topic.as_str(), records[0].key_text().as_str()), (topic.as_str(), "7"));
    assert_eq!(records[0].value_text(), "{\"a\": 1}");
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_role_whose_transactions_are_read_only_by_default_prepares_the_database_and_publishes_and_sets_rows_aside() {
    let mut rig = Rig::with_tables("readonly", &["public.outbox"]);
    let role = format!("{}_role", rig.database.name());
    rig.sql(&format!(
        "CREATE ROLE {role} LOGIN REPLICATION; ALTER ROLE {role} SET default_transaction_read_only = on; \
         ALTER TABLE outbox OWNER TO {role}; GRANT CREATE ON DATABASE {} TO {role}",
        rig.database.name()
    ));
    let url = shared_postgres().url_for(&role, None, rig.database.name());
    rig.configure(|config| {
        config.set("source", "url", &toml_string(&url)).set("sink.kafka", "compression.type", r#""none""#)
    });
    rig.limit_records(5_000);
    rig.call(&["init"]).assert_said(0, &["first checkpoint at", "walpost run"]);
    let relay = rig.start_streaming();
    insert_large(&rig, "large", 0, 9_000);
    rig.insert("key", 0, 10);
    wait_for_open(&rig, 1);
    rig.limit_records(1_000_000);
    rig.call(&["dlq", "replay", "--all", "--yes"]).assert_said(0, &["1 letter is marked"]);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
    rig.call(&["repair", "--adopt-slot", "--yes"]).assert_success();
}

#[test]
fn init_on_a_server_without_room_for_a_slot_names_the_setting_and_the_slots_and_makes_nothing() {
    let postgres = Postgres::builder().setting("max_replication_slots", "2").start().unwrap();
    let rig = Rig::with_tables_on(postgres.endpoint(), shared_kafka(), "noroom", &["public.outbox"]);
    rig.sql(
        "SELECT pg_create_physical_replication_slot('standby'); \
         SELECT pg_create_logical_replication_slot('forgotten', 'pgoutput')",
    );
    let before = traces(&rig);
    let words = [
        "all 2 replication slots are taken",
        "forgotten (nobody reads it), standby (nobody reads it)",
        "max_replication_slots",
    ];
    rig.call(&["init"]).assert_said(4, &words);
    rig.call(&["check"]).assert_said(5, &words);
    assert_eq!(traces(&rig), before);
    rig.sql("SELECT pg_drop_replication_slot('forgotten')");
    rig.init();
    rig.call(&["init"]).assert_said(0, &["everything is there already"]);
}

#[test]
fn before_a_first_start_status_says_how_to_prepare_the_database_and_speaks_of_no_gap() {
    let mut rig = Rig::empty("unprepared");
    rig.add_table("public.outbox", "events", &[]);
    let asked = |words: &[&str]| {
        let ended = rig.call(&["status"]);
        ended.assert_said(10, words);
        assert!(!ended.output.contains("repair") && !ended.output.contains("passed over"), "{}", ended.output);
    };
    asked(&["outbox public.outbox: the table does not exist", "walpost init --with-outbox"]);
    rig.call(&["init", "--dry-run", "--with-outbox"]).assert_success();
    rig.sql(
        "CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload jsonb)",
    );
    asked(&["the publication", "does not exist; run: walpost init"]);
    rig.sql(&format!("CREATE PUBLICATION {}", rig.database.name()));
    asked(&["outbox public.outbox: no publication", "walpost init, which adds it"]);
}

#[test]
fn a_schema_that_is_missing_is_named_and_nothing_is_made() {
    let mut rig = Rig::empty("schema");
    rig.add_table(r#""Nowhere".outbox"#, "events", &[]);
    let before = traces(&rig);
    rig.call(&["init", "--with-outbox"]).assert_said(4, &["CREATE SCHEMA \"Nowhere\""]);
    assert_eq!(traces(&rig), before);
}

/// The role of an operator who trusts the relay with no more than it needs.
fn humble(rig: &mut Rig) -> String {
    let role = format!("{}_role", rig.database.name());
    rig.sql(&format!("CREATE ROLE {role} LOGIN REPLICATION"));
    let url = rig.database.endpoint().url_for(&role, None, rig.database.name());
    rig.configure(|config| config.set("source", "url", &toml_string(&url)));
    role
}

#[test]
fn a_role_that_may_only_log_in_replicate_and_write_our_own_tables_can_run() {
    let mut rig = Rig::ready("humble", &["public.outbox"]);
    let role = humble(&mut rig);
    rig.call(&["run"]).assert_said(4, &["permission denied", "walpost check"]);
    rig.call(&["check"]).assert_said(
        5,
        &["walpost.checkpoint", "walpost.dead_letter", &format!("GRANT USAGE ON SCHEMA walpost TO \"{role}\"")],
    );
    rig.sql(&format!("GRANT USAGE ON SCHEMA walpost TO {role}"));
    rig.sql(&format!("GRANT SELECT, INSERT, UPDATE, DELETE ON walpost.checkpoint, walpost.dead_letter TO {role}"));
    rig.call(&["check"]).assert_said(0, &["nothing keeps relay"]);
    publish_and_stop(&rig, 0);
    rig.call(&["checkpoint", "show"]).assert_success();
    rig.call(&["init"]).assert_said(0, &["-- everything is there already"]);
}

#[test]
fn a_role_that_lacks_the_rights_for_init_is_told_all_of_them_and_nothing_is_made() {
    let mut rig = Rig::with_tables("rights", &["public.outbox"]);
    let role = humble(&mut rig);
    rig.sql(&format!("ALTER ROLE {role} NOREPLICATION"));
    let before = traces(&rig);
    let replicate = format!("ALTER ROLE \"{role}\" REPLICATION");
    let words = ["error: the role", "GRANT CREATE", "does not own public.outbox", "init --dry-run", &replicate];
    let refused = rig.call(&["init"]);
    refused.assert_said(4, &words);
    assert_eq!(refused.output, "", "SQL that does not run is not shown");
    // Whose role has the rights can run it.
    let shown = rig.call(&["init", "--dry-run"]);
    shown.assert_said(4, &words);
    assert!(shown.output.contains("CREATE PUBLICATION"), "{}", shown.output);
    assert_eq!(traces(&rig), before);
    let name = rig.database.name();
    rig.sql(&format!("{replicate}; GRANT CREATE ON DATABASE {name} TO {role}; ALTER TABLE outbox OWNER TO {role}"));
    rig.init();
    publish_and_stop(&rig, 0);
}

#[test]
fn check_names_columns_whose_types_cannot_play_their_roles() {
    let rig = Rig::ready("types", &["public.outbox"]);
    rig.sql("CREATE DOMAIN label AS text; ALTER TABLE outbox ALTER type TYPE label, ALTER aggregateid TYPE label");
    rig.call(&["check"]).assert_said(0, &["nothing keeps relay"]);
    rig.sql("ALTER TABLE outbox ALTER aggregatetype TYPE numeric USING 1");
    rig.call(&["check"]).assert_said(5, &["aggregatetype", "1700", "change the column's type"]);
}

#[test]
fn a_table_that_no_row_could_be_published_of_is_refused_at_the_start_and_not_while_the_stream_goes_on() {
    let mut rig = Rig::ready("misfit", &["public.outbox"]);
    rig.stop_at_bad_rows();
    rig.add_table("public.second", "second", &[("table.fields.additional.placement", "kind:header,n:partition")]);
    rig.sql("CREATE TABLE second (id int, aggregatetype text, aggregateid text, payload text, n numeric)");
    rig.init();
    let words = [
        r#"column "kind", which option "table.fields.additional.placement" asks for"#,
        r#"column "n" of public.second cannot be"#,
        "public.second",
        "2 faults",
    ];
    rig.call(&["run"]).assert_said(4, &words);
    rig.sql("ALTER TABLE second ADD kind text, ALTER n TYPE int USING 1");
    let relay = rig.start_streaming();
    rig.sql("ALTER TABLE second DROP kind");
    rig.sql("INSERT INTO second VALUES (1, 'a', 'k', 'p', 1)");
    relay.wait(LIMIT).unwrap().assert_said(7, &[r#"column "kind""#, "id 1"]);
}

#[test]
fn check_names_the_slot_and_the_publication_that_are_near_those_that_do_not_exist() {
    let mut rig = Rig::ready("nearby", &["public.outbox"]);
    let name = rig.database.name().to_owned();
    let typed = format!("{name}s");
    rig.call(&["checkpoint", "forget"]).assert_success();
    rig.configure(|config| {
        config.set("source", "slot", &toml_string(&typed)).set("source", "publication", &toml_string(&typed))
    });
    let meant = |key: &str| format!("did you mean \"{name}\"? Then correct source.{key}; otherwise run: walpost init");
    rig.call(&["check"]).assert_said(5, &[&meant("slot"), &meant("publication")]);
}

#[test]
fn check_tells_all_findings_at_once_the_worst_first() {
    let mut rig = Rig::with_tables("faults", &["public.outbox"]);
    let name = rig.database.name().to_owned();
    rig.sql(&format!("CREATE PUBLICATION {name} FOR TABLE outbox WITH (publish = 'update, delete')"));
    rig.sql("ALTER TABLE outbox DROP COLUMN aggregateid; CREATE VIEW shown AS SELECT 1 AS id");
    let role = humble(&mut rig);
    rig.sql(&format!("ALTER ROLE {role} NOREPLICATION"));
    rig.add_table("public.absent", "absent", &[]);
    rig.add_table("public.shown", "shown", &[]);
    rig.configure(|config| config.set("sink.kafka", "bootstrap.servers", r#""127.0.0.1:1""#));
    let before = traces(&rig);
    let ended = rig.call(&["check"]);
    let repair = format!("ALTER PUBLICATION \"{name}\" SET (publish = 'insert, update, delete')");
    let right = format!("ALTER ROLE \"{role}\" REPLICATION");
    let words =
        ["public.absent", "public.shown", "aggregateid", &repair, &right, "127.0.0.1:1", "have to be put right"];
    ended.assert_said(5, &words);
    let severities: Vec<&str> =
        ended.output.lines().filter_map(|line| line.split_once(": ")).map(|(head, _)| head).collect();
    let rank = |severity: &&str| ["error", "warning", "note"].iter().position(|known| known == severity);
    assert!(severities.is_sorted_by_key(rank), "{}", ended.output);
    assert_eq!(traces(&rig), before);
}

#[test]
fn what_the_broker_says_is_told_also_where_postgresql_cannot_be_asked() {
    let mut rig = Rig::ready("unasked", &["public.outbox"]);
    rig.reach_by_port(1);
    rig.configure(|config| config.set("sink.kafka", "bootstrap.servers", r#""127.0.0.1:1""#));
    rig.call(&["check"]).assert_said(5, &["error: source.url", "refused", "error: brokers", "bootstrap.servers"]);
}

/// The relay keeps its checkpoint there from now on.
fn keep_in(rig: &mut Rig, store: &str) {
    let path = toml_string(&rig.walpost.folder().join("checkpoint").display().to_string());
    rig.configure(|config| match store {
        "file" => config.set("checkpoint", "store", r#""file""#).set("checkpoint", "path", &path),
        other => config.unset("checkpoint", "path").set("checkpoint", "store", &toml_string(other)),
    });
}

/// The position that `checkpoint show` tells.
#[track_caller]
fn shown(rig: &Rig) -> String {
    let ended = rig.call(&["checkpoint", "show"]);
    ended.assert_success();
    let line = ended.output.lines().find_map(|line| line.strip_prefix("checkpoint: ")).unwrap();
    line.split(' ').next().unwrap().to_owned()
}

#[test]
fn a_checkpoint_moves_to_a_file_and_back_and_each_relay_resumes_where_the_last_stopped() {
    let mut rig = Rig::ready("copied", &["public.outbox"]);
    publish_and_stop(&rig, 0);
    let position = shown(&rig);
    let year = rig.value("SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY')");
    rig.call(&["checkpoint", "show"])
        .assert_said(0, &[&format!("last settled commit at {year}-"), "Z (", "ms since 1970)"]);
    let file = format!("file:{}", rig.walpost.folder().join("checkpoint").display());
    rig.call(&["checkpoint", "copy", "--to", &file]).assert_said(0, &[&position, "was copied"]);
    keep_in(&mut rig, "file");
    assert_eq!(shown(&rig), position);
    rig.insert("key", 10, 10);
    publish_and_stop(&rig, 20);
    let position = shown(&rig);
    rig.call(&["checkpoint", "copy", "--to", "postgres"]).assert_said(0, &[&position]);
    keep_in(&mut rig, "postgres");
    assert_eq!(shown(&rig), position);
    publish_and_stop(&rig, 30);
}

#[test]
fn a_relay_with_nothing_but_the_slot_resumes_where_the_last_stopped() {
    let mut rig = Rig::with_tables("slotonly", &["public.outbox"]);
    keep_in(&mut rig, "slot");
    rig.init();
    assert_eq!(rig.value("SELECT to_regclass('walpost.checkpoint') IS NULL"), "t");
    publish_and_stop(&rig, 0);
    rig.insert("key", 10, 10);
    publish_and_stop(&rig, 20);
    rig.call(&["checkpoint", "show"]).assert_said(0, &[&rig.slot("confirmed_flush_lsn")]);
    for action in ["forget", "adopt-slot"] {
        rig.call(&["checkpoint", action]).assert_said(3, &["keeps nothing besides", "postgres or file"]);
    }
}

#[test]
fn a_relay_that_runs_is_fenced_when_its_checkpoint_is_replaced_and_goes_on_from_there() {
    let rig = Rig::ready("fenced", &["public.outbox"]);
    let relay = rig.start_streaming();
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    // Else the slot is confirmed beyond what was adopted, and the relay refuses to go on from there.
    let published = rig.value("SELECT pg_current_wal_flush_lsn()");
    let is_at_rest = format!(
        "position >= '{published}' AND (SELECT confirmed_flush_lsn FROM pg_replication_slots WHERE slot_name = slot) = position"
    );
    eventually("the slot to stand at the checkpoint", || {
        rig.value(&format!("SELECT {is_at_rest} FROM walpost.checkpoint")) == "t"
    });
    rig.call(&["checkpoint", "adopt-slot"])
        .assert_said(0, &["now stands at the slot's", "reads the slot and starts anew"]);
    rig.insert("key", 10, 10);
    relay.wait_for_log("no longer ours to write", LIMIT).unwrap();
    rig.assert_delivered(Repeats::Allowed);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn show_tells_what_is_there_what_is_missing_and_what_helps() {
    let rig = Rig::with_tables("shown", &["public.outbox"]);
    rig.call(&["checkpoint", "show"]).assert_said(0, &["checkpoint: none", "does not exist", "walpost init"]);
    rig.init();
    let name = rig.database.name();
    rig.call(&["checkpoint", "show"]).assert_said(0, &["checkpoint: ", name, &rig.slot("confirmed_flush_lsn")]);
    rig.call(&["checkpoint", "forget"]).assert_said(0, &["is forgotten"]);
    rig.call(&["checkpoint", "forget"]).assert_said(0, &["was not there"]);
    rig.call(&["checkpoint", "show"]).assert_said(0, &["checkpoint: none", "no checkpoint"]);
    rig.call(&["checkpoint", "copy", "--to", "postgres"]).assert_said(11, &["no checkpoint to copy"]);
    rig.sql(&format!("SELECT pg_drop_replication_slot('{name}')"));
    rig.call(&["checkpoint", "adopt-slot"]).assert_said(4, &[name, "does not exist", "walpost init"]);
    rig.call(&["checkpoint", "show"]).assert_said(0, &[&format!("{name} does not exist"), "walpost init"]);
}

#[test]
fn a_relay_that_may_create_needs_no_init_and_makes_no_outbox() {
    let mut rig = Rig::with_tables("create", &["public.outbox"]);
    rig.configure(|config| config.set("source", "create", "true"));
    rig.insert("old", 0, 2);
    let relay = rig.start_streaming();
    relay.wait_for_log("2 rows that stand in public.outbox from before the slot", LIMIT).unwrap();
    rig.sql("DELETE FROM outbox");
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
    publish_and_stop(&rig, 10);
    rig.add_table("public.absent", "absent", &[]);
    rig.call(&["run"]).assert_said(4, &["public.absent", "does not exist"]);
}

#[test]
fn a_relay_that_may_create_waits_for_a_server_that_is_away() {
    let mut postgres = Postgres::start().unwrap();
    let mut rig = Rig::with_tables_on(postgres.endpoint(), shared_kafka(), "away", &["public.outbox"]);
    rig.configure(|config| config.set("source", "create", "true"));
    postgres.stop(Stop::Fast, LIMIT).unwrap();
    let relay = rig.start();
    relay.wait_for_log("trying again", LIMIT).unwrap();
    postgres.start_again().unwrap();
    eventually("the relay to stream", || rig.walsender().is_some());
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_relay_runs_until_a_position_and_publishes_everything_before_it() {
    let rig = Rig::ready("until", &["public.outbox"]);
    rig.workload().transactions(50).run(LIMIT).unwrap();
    let here = rig.value("SELECT pg_current_wal_flush_lsn()");
    rig.call(&["run", "--until", &here]).assert_success();
    rig.assert_delivered(Repeats::Forbidden);
    // There is nothing to do, also not a second time.
    rig.call(&["run", "--until", &here]).assert_success();
    rig.call(&["run", "--until", "nowhere"]).assert_said(2, &["nowhere"]);
}

#[test]
fn a_relay_ends_in_order_on_ctrl_c_too() {
    let rig = Rig::ready("interrupted", &["public.outbox"]);
    let relay = rig.start_streaming();
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    relay.signal(Signal::Interrupt).unwrap();
    let ended: Ended = relay.wait(LIMIT).unwrap();
    ended.assert_said(0, &["SIGINT", "stopped"]);
}

#[test]
fn a_relay_whose_terminal_is_closed_ends_in_order_unless_it_was_started_to_outlive_that() {
    let mut rig = Rig::ready("hungup", &["public.outbox"]);
    let relay = rig.start_streaming();
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    // The shell and the kernel may both send one.
    relay.signal(Signal::Hangup).unwrap();
    let _ = relay.signal(Signal::Hangup);
    relay.wait(LIMIT).unwrap().assert_said(0, &["SIGHUP", "stopped"]);

    let outliving = rig.walpost.folder().join("nohup");
    fs::write(&outliving, format!("#!/bin/sh\ntrap '' HUP\nexec {} \"$@\"\n", *WALPOST)).unwrap();
    fs::set_permissions(&outliving, PermissionsExt::from_mode(0o755)).unwrap();
    rig.walpost.set_program(&outliving);
    let relay = rig.start_streaming();
    relay.signal(Signal::Hangup).unwrap();
    rig.insert("key", 10, 10);
    rig.assert_delivered(Repeats::Forbidden);
    let ended = relay.stop(LIMIT).unwrap();
    ended.assert_said(0, &["SIGTERM"]);
    assert!(!ended.log.contains("SIGHUP"), "{}", ended.log);
}

/// A command with an output of our own, which dies with us.
struct Spoken {
    child: Child,
    log: PathBuf,
}

impl Spoken {
    fn start(rig: &Rig, arguments: &[&str], output: impl Into<Stdio>) -> Self {
        let log = rig.walpost.folder().join("log");
        let mut command = dependent(&*WALPOST);
        command.args(arguments).arg("-c").arg(rig.walpost.folder().join("walpost.toml"));
        // A file, for nobody reads a pipe while its end is waited for.
        command.stdout(output).stderr(File::create(&log).unwrap());
        Self { child: spawn_dependent(command).unwrap(), log }
    }

    /// How it ended, and what it logged.
    #[track_caller]
    fn ending(mut self) -> (Option<i32>, String) {
        let mut status = None;
        let ended = wait_until("its end", LIMIT, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        let log = fs::read_to_string(&self.log).unwrap();
        assert!(ended.is_ok(), "it does not end:\n{log}");
        (status.and_then(|status| status.code()), log)
    }
}

impl Drop for Spoken {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_relay_whose_reader_goes_away_ends_with_8_and_the_next_publishes_what_nobody_read() {
    let mut rig = Rig::ready("unread", &["public.outbox"]);
    rig.configure(|config| config.stdout());
    let (reader, writer) = std::io::pipe().unwrap();
    let relay = Spoken::start(&rig, &["run"], writer);
    rig.insert("key", 0, 1);
    let mut reader = BufReader::new(reader);
    reader.read_line(&mut String::new()).unwrap();
    drop(reader);
    rig.insert("key", 1, 1);
    let (code, log) = relay.ending();
    assert_eq!(code, Some(8), "{log}");
    assert!(log.contains("standard output"), "{log}");
    let relay = rig.start_streaming();
    let records = relay.wait_for_output(1, LIMIT).unwrap();
    assert!(records.iter().any(|record| record.value_text().contains("\"seq\": 1")), "{records:?}");
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_reader_that_goes_away_keeps_no_command_from_its_work() {
    let rig = Rig::with_tables("closed", &["public.outbox"]);
    for arguments in
        [&["init", "--dry-run"] as &[_], &["init"], &["check"], &["checkpoint", "show"], &["checkpoint", "adopt-slot"]]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let (code, log) = Spoken::start(&rig, arguments, writer).ending();
        assert_eq!((code, log.contains("panicked")), (Some(0), false), "{arguments:?}: {log}");
    }
    publish_and_stop(&rig, 0);
}
