//! A transaction that the server cannot decode or convert: each attempt fails in the same way, and nothing behind it is ever sent. The relay ends, and
//! what its last line says leads on.

use walpost_testkit::checker::Repeats;
use walpost_testkit::relay::Ended;
use walpost_testkit::servers::{shared_kafka, shared_postgres};

use super::publications::has_filters_and_schemas;
use super::slots::{fill, fill_and_go_on};
use crate::observe::wait_until_ready;
use crate::rig::{LIMIT, Rig};

/// A relay on an outbox in a database of this encoding.
fn encoded(label: &str, encoding: &str) -> Rig {
    let rig = unprepared(label, encoding);
    rig.init();
    rig
}

/// The same, without what `walpost init` makes.
fn unprepared(label: &str, encoding: &str) -> Rig {
    let options = format!("ENCODING '{encoding}' TEMPLATE template0 LOCALE 'C'");
    let database = shared_postgres().fresh_database_with(label, &options).unwrap();
    let mut rig = Rig::empty_in(database, shared_kafka());
    rig.add_outbox("public.outbox", &[]);
    rig.workload().create().unwrap();
    rig.sql("ALTER TABLE outbox ADD made timestamptz NOT NULL DEFAULT clock_timestamp()");
    rig
}

/// Inserts a row of the key `lost` with this SQL expression at the end of a text.
fn insert_lost(rig: &Rig, bytes: &str) {
    rig.sql(&format!(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) VALUES (gen_random_uuid(), 'order', 'lost', 'Changed' || {bytes}, '{{}}', 0)"
    ));
}

/// Has a relay meet what `strike` commits, between rows before it and rows behind it: it has to end with 4 and these words, with what came before published and
/// nothing confirmed that was not, now and at the next start.
#[track_caller]
fn assert_ends(rig: &Rig, strike: impl FnOnce(), words: &[&str]) -> Ended {
    let relay = rig.start();
    wait_until_ready(&relay);
    rig.insert("key", 1, 10);
    rig.assert_delivered(Repeats::Forbidden);
    strike();
    let behind = rig.value("SELECT pg_current_wal_insert_lsn()");
    rig.insert("key", 11, 10);
    let words = [&["cannot decode or convert", "nothing is lost", "walpost repair --fill"], words].concat();
    relay.wait(LIMIT).unwrap().assert_said(4, &words);
    let again = rig.start().wait(LIMIT).unwrap();
    again.assert_said(4, &words);
    assert_eq!(rig.slot(&format!("confirmed_flush_lsn < '{behind}'")), "t", "confirmed beyond {behind}");
    let arrived = rig.consumer().read_to_end(LIMIT).unwrap().len();
    assert_eq!(arrived, 10, "what came before arrives once, and nothing of what is behind");
    again
}

/// What stands between these two.
#[track_caller]
fn between<'a>(text: &'a str, start: &str, end: &str) -> &'a str {
    text.split_once(start).and_then(|(_, rest)| rest.split_once(end)).unwrap_or_else(|| panic!("{text}")).0
}

/// Moves the slot on as the sentence says, and lets the relay go on behind the row, which goes.
#[track_caller]
fn pass_and_go_on(rig: &Rig, advance: &str) {
    rig.sql(advance);
    rig.call(&["checkpoint", "adopt-slot"]).assert_success();
    rig.sql("DELETE FROM outbox WHERE aggregateid = 'lost'");
    let relay = rig.start();
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_row_filter_that_fails_ends_the_relay_and_the_commands_of_its_sentence_find_the_transaction_and_go_on_behind_it() {
    let rig = Rig::ready("divided", &["public.outbox"]);
    if !has_filters_and_schemas(&rig) {
        return;
    }
    let name = rig.database.name();
    rig.sql(&format!("ALTER PUBLICATION {name} SET TABLE outbox WHERE (1 / seq IS NOT NULL)"));
    let words = ["division by zero [SQLSTATE 22012]", "a transaction that committed behind", "row filter"];
    let strike = || {
        insert_lost(&rig, "''");
        // The filter is that of the row's time.
        rig.sql(&format!("ALTER PUBLICATION {name} SET TABLE outbox"));
    };
    let ended = assert_ends(&rig, strike, &words);
    let (copy, peek) = between(&ended.log, "run in one session: ", "; ").split_once(", then ").unwrap();
    let seen = rig.sql(&format!("{copy}; {peek}"));
    // In front of the lines stands what the copying says.
    let mut lines = seen.iter().skip(1).skip_while(|line| !line[1].contains("lost"));
    let commit = lines.find(|line| line[1].starts_with("COMMIT")).unwrap_or_else(|| panic!("{seen:?}"));
    let advance = between(&ended.log, "not yet published of it, run: ", ", then walpost checkpoint adopt-slot");
    pass_and_go_on(&rig, &advance.replace("LSN", &commit[0]));
}

#[test]
fn text_that_is_no_utf_8_in_a_database_that_checks_none_is_warned_of_ends_the_relay_and_is_passed_by_two_commands() {
    let rig = encoded("unchecked", "SQL_ASCII");
    rig.call(&["check"]).assert_said(0, &["encoding is SQL_ASCII", "write UTF-8"]);
    let relay = rig.start();
    relay.wait_for_log("encoding is SQL_ASCII", LIMIT).unwrap();
    relay.stop(LIMIT).unwrap().assert_success();
    let words = ["invalid byte sequence for encoding \"UTF8\": 0xff", "22021", "the transaction that committed at"];
    let ended = assert_ends(&rig, || insert_lost(&rig, "chr(255)"), &words);
    let advance = between(&ended.log, "not yet published of it, run: ", ", then walpost checkpoint adopt-slot");
    rig.insert("é", 1, 1);
    pass_and_go_on(&rig, advance);
}

#[test]
fn a_character_that_utf_8_lacks_ends_the_relay_and_once_its_row_is_mended_all_comes_from_the_table() {
    let rig = encoded("untranslatable", "WIN1252");
    rig.call(&["check"]).assert_said(0, &["encoding is WIN1252"]);
    let words = ["has no equivalent in encoding \"UTF8\"", "22P05", "the transaction that committed at"];
    assert_ends(&rig, || insert_lost(&rig, "chr(129)"), &words);
    // The rows of the key are those that were published.
    rig.sql("UPDATE outbox SET aggregateid = 'later' WHERE seq > 10");
    fill(&rig).assert_said(4, &["has no equivalent in encoding \"UTF8\""]);
    rig.sql("UPDATE outbox SET type = 'Changed' WHERE aggregateid = 'lost'");
    fill_and_go_on(&rig);
}

#[test]
fn with_exactly_once_nothing_is_seen_of_a_transaction_of_which_the_server_sent_a_part_only() {
    let mut rig = unprepared("in_part", "SQL_ASCII");
    rig.keep_all_in_kafka();
    rig.init();
    let strike = || {
        rig.sql(
            "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) SELECT gen_random_uuid(), 'order', 'lost', \
             'Changed' || CASE seq WHEN 100 THEN chr(255) ELSE '' END, '{}', seq FROM generate_series(1, 100) AS seq",
        );
    };
    let ended = assert_ends(&rig, strike, &["22021", "the transaction that committed at"]);
    let advance = between(&ended.log, "not yet published of it, run: ", ", then walpost checkpoint adopt-slot");
    pass_and_go_on(&rig, advance);
}
