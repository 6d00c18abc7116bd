//! The relay, or the database that keeps the letters, fails while rows are set aside and sent again: nothing is lost, and the order of each key
//! holds.

use std::time::Duration;

use walpost_testkit::checker::Repeats;

use super::{LARGE, SMALL, count, delivered, insert_large, narrow, stop, wait_for_delivered, wait_for_open};
use crate::observe::{assert_told, value, wait_until_ready, wait_until_unready};
use crate::rig::{LIMIT, Rig, eventually, let_pass, while_locked};

/// How often the relay is killed in each part.
const KILLS: u64 = 8;

#[test]
fn a_relay_that_is_killed_while_it_sets_aside_parks_and_replays_loses_nothing_and_keeps_the_order_of_each_key() {
    let mut rig = Rig::ready("killed", &["public.outbox", "public.other_outbox"]);
    rig.limit_records(SMALL);
    rig.configure(|config| {
        config.set("sink.kafka", "compression.type", r#""none""#).set("checkpoint", "interval_ms", "100").set(
            "dead_letter",
            "flood_limit",
            "100000",
        )
    });
    let writers = || rig.workload().keys(40, 400).largest_payload(60_000).pause(Duration::from_millis(10));
    let running = writers().start();
    for kill in 0..KILLS {
        let relay = rig.start();
        let before = count(&rig, "true");
        eventually("more letters", || count(&rig, "true") > before);
        let_pass(Duration::from_millis(37 * kill));
        relay.kill9().unwrap();
    }
    assert!(count(&rig, "cause = 'row'") > 0 && count(&rig, "cause = 'parked'") > 0);
    rig.limit_records(LARGE);
    for kill in 0..KILLS {
        let relay = rig.start();
        let before = count(&rig, "state = 'sent'");
        rig.call(&["dlq", "replay", "--all", "--yes"]);
        let is_open = "state NOT IN ('sent', 'dropped')";
        eventually("more letters to be sent", || count(&rig, "state = 'sent'") > before || count(&rig, is_open) == 0);
        let_pass(Duration::from_millis(23 * kill));
        relay.kill9().unwrap();
    }
    let relay = rig.start();
    let _ = running.stop();
    eventually("all letters to be sent", || {
        rig.call(&["dlq", "replay", "--all", "--yes"]);
        count(&rig, "state NOT IN ('sent', 'dropped')") == 0
    });
    rig.assert_delivered(Repeats::Allowed);
    eventually("no key to be parked", || value(&relay, "walpost_parked_keys", &[]) == 0.0);
    wait_until_ready(&relay);
    stop(relay);
}

#[test]
fn while_the_table_is_locked_other_keys_go_on_and_the_row_stays_owed_and_the_relay_says_so() {
    let mut rig = narrow("locked");
    rig.configure(|config| config.set("http", "stalled_after_ms", "2000"));
    let relay = rig.start_streaming();
    while_locked(&rig.database, "LOCK TABLE walpost.dead_letter", || {
        insert_large(&rig, "a", 0);
        let end = rig.value("SELECT pg_current_wal_flush_lsn()");
        rig.insert("a", 1, 1);
        rig.insert("b", 0, 10);
        wait_for_delivered(&rig, "b", &(0..10).collect::<Vec<_>>());
        // Others flow all the while, and yet it does not pass for well.
        assert_told(&rig, &relay, "streaming", "dead letters");
        for seq in 10..20 {
            rig.insert("b", seq, 1);
            assert_eq!(rig.slot(&format!("confirmed_flush_lsn >= '{end}'")), "f", "the row is owed");
        }
        wait_for_delivered(&rig, "b", &(0..20).collect::<Vec<_>>());
        assert_eq!(delivered(&rig, "a"), Vec::<i64>::new());
    });
    wait_for_open(&rig, 2);
    wait_until_ready(&relay);
    eventually("nothing to be owed", || value(&relay, "walpost_owed_records", &[]) == 0.0);
    rig.limit_records(LARGE);
    rig.call(&["dlq", "replay", "--all", "--yes"]).assert_success();
    rig.assert_delivered(Repeats::Allowed);
    stop(relay);
}

#[test]
fn sessions_that_are_terminated_while_rows_are_set_aside_and_sent_again_cost_nothing() {
    let mut rig = narrow("severed");
    rig.configure(|config| config.set("dead_letter", "flood_limit", "100000"));
    let relay = rig.start_streaming();
    let running = rig.workload().keys(40, 400).largest_payload(60_000).pause(Duration::from_millis(10)).start();
    // The stream and the session beside it live on: only that of the letters is ended.
    let sever = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE datname = current_database() \
                 AND pid <> pg_backend_pid() AND (query LIKE '%walpost.dead_letter%' OR query LIKE '%outbox_schema%')";
    let end_a_session = || {
        eventually("a session of the letters to end", || rig.value(sever) != "0");
        running.wait_for_more_rows(200, LIMIT).unwrap();
    };
    // Once all letters are sent nobody needs such a session, so more rows are set aside each time.
    for _ in 0..3 {
        rig.limit_records(SMALL);
        end_a_session();
        rig.limit_records(LARGE);
        rig.call(&["dlq", "replay", "--all", "--yes"]).assert_success();
        end_a_session();
    }
    let _ = running.stop();
    eventually("all letters to be sent", || {
        rig.call(&["dlq", "replay", "--all", "--yes"]);
        count(&rig, "state NOT IN ('sent', 'dropped')") == 0
    });
    rig.assert_delivered(Repeats::Allowed);
    assert!(count(&rig, "state = 'sent'") > 0);
    stop(relay);
}

#[test]
fn while_marks_cannot_be_read_all_else_goes_on_and_a_letter_that_is_damaged_holds_its_key_alone() {
    let mut rig = narrow("unread");
    rig.configure(|config| config.set("http", "stalled_after_ms", "1000"));
    let relay = rig.start_streaming();
    insert_large(&rig, "a", 0);
    rig.insert("a", 1, 1);
    insert_large(&rig, "b", 0);
    wait_for_open(&rig, 3);
    rig.sql("ALTER TABLE walpost.dead_letter RENAME TO hidden");
    assert_told(&rig, &relay, "streaming", "marked dead letters cannot be read, for");
    wait_until_unready(&relay, "streaming", "s now: the table walpost.dead_letter does not exist; run: walpost init");
    assert!(value(&relay, "walpost_marks_unread_seconds", &[]) >= 1.0);
    rig.insert("c", 0, 5);
    wait_for_delivered(&rig, "c", &(0..5).collect::<Vec<_>>());
    // What has to be written is another matter.
    insert_large(&rig, "d", 0);
    let reason = "the dead letters cannot be written: the table walpost.dead_letter does not exist; run: walpost init";
    assert_told(&rig, &relay, "holding", reason);
    rig.sql("ALTER TABLE walpost.hidden RENAME TO dead_letter");
    wait_for_open(&rig, 4);
    wait_until_ready(&relay);
    assert_eq!(value(&relay, "walpost_marks_unread_seconds", &[]), 0.0);
    rig.sql("UPDATE walpost.dead_letter SET headers = '{}' WHERE key = 'a' AND cause = 'row'");
    rig.limit_records(LARGE);
    rig.call(&["dlq", "replay", "--all", "--yes"]).assert_said(0, &["4 letters are marked"]);
    wait_for_delivered(&rig, "b", &[0]);
    wait_for_delivered(&rig, "d", &[0]);
    eventually("the damaged one to come back", || {
        count(&rig, "state = 'waiting' AND reason LIKE '%column headers%'") == 1
    });
    rig.insert("a", 2, 1);
    wait_for_open(&rig, 3);
    assert_eq!(delivered(&rig, "a"), Vec::<i64>::new());
    rig.call(&["dlq", "drop", "--key", "a", "--cause", "row", "--yes"]).assert_said(0, &["1 letter is marked"]);
    rig.call(&["dlq", "replay", "--key", "a", "--yes"]).assert_success();
    wait_for_delivered(&rig, "a", &[1, 2]);
    wait_until_ready(&relay);
    stop(relay);
}

/// The number of the open letter of a key.
fn letter_of(rig: &Rig, key: &str) -> String {
    rig.value(&format!("SELECT min(id) FROM walpost.dead_letter WHERE key = '{key}' AND state = 'waiting'"))
}

#[test]
fn a_letter_whose_key_nobody_knows_any_more_keeps_a_relay_from_starting_until_it_is_given_up() {
    let rig = narrow("keyless");
    let relay = rig.start_streaming();
    for key in ["a", "b"] {
        insert_large(&rig, key, 0);
    }
    wait_for_open(&rig, 2);
    stop(relay);
    let (first, second) = (letter_of(&rig, "a"), letter_of(&rig, "b"));
    rig.sql(&format!(r"UPDATE walpost.dead_letter SET key = '\q' WHERE id = {first}"));
    let drop = ["dlq", "drop", "--yes", "--id"];
    let command = format!("walpost dlq drop --id {first} --yes");
    let said =
        [&format!("behind the dead letter {first}: its column key"), "put it right in walpost.dead_letter", &command];
    rig.start().wait(LIMIT).unwrap().assert_said(11, &said);
    rig.call(&[&drop as &[_], &[first.as_str()]].concat()).assert_said(0, &["1 letter is marked"]);
    let relay = rig.start_streaming();
    wait_for_open(&rig, 1);
    rig.insert("a", 1, 2);
    wait_for_delivered(&rig, "a", &[1, 2]);
    // Under a running relay, which knows the key still, until it is given up.
    rig.sql(&format!(r"UPDATE walpost.dead_letter SET route = '\q' WHERE id = {second}"));
    rig.insert("b", 1, 1);
    wait_for_open(&rig, 2);
    rig.call(&[&drop as &[_], &[second.as_str()]].concat()).assert_said(0, &["1 letter is marked"]);
    // The one behind it follows by itself.
    wait_for_open(&rig, 0);
    wait_for_delivered(&rig, "b", &[1]);
    eventually("no key to be parked", || value(&relay, "walpost_parked_keys", &[]) == 0.0);
    rig.insert("b", 2, 1);
    wait_for_delivered(&rig, "b", &[1, 2]);
    wait_until_ready(&relay);
    stop(relay);
}

#[test]
fn what_somebody_made_of_a_letters_row_or_time_comes_back_or_is_sent_and_never_ends_the_relay() {
    let rig = narrow("oddletters");
    let relay = rig.start_streaming();
    let changes = [
        "relation_message = ''",
        r"relation_message = '\x52'",
        "insert_message = '', payload_column = NULL",
        r"insert_message = '\x49ffffffff4e7fff'",
        "commit_time = 'infinity'",
        "commit_time = '-infinity'",
        "commit_lsn = 'FFFFFFFF/FFFFFFFF'",
        "timestamp_ms = -9223372036854775808",
        "partition = -5",
        "attempts = 2147483646",
    ];
    for key in 0..changes.len() {
        insert_large(&rig, &format!("k{key}"), 0);
    }
    insert_large(&rig, "well", 0);
    wait_for_open(&rig, changes.len() + 1);
    for (key, change) in changes.iter().enumerate() {
        rig.sql(&format!("UPDATE walpost.dead_letter SET {change} WHERE key = 'k{key}'"));
    }
    rig.limit_records(LARGE);
    rig.call(&["dlq", "replay", "--all", "--yes"]).assert_success();
    eventually("all letters to be sent or to come back", || count(&rig, "state = 'replay'") == 0);
    wait_for_delivered(&rig, "well", &[0]);
    assert!(relay.is_running(), "{}", relay.log());
    stop(relay);
    // Nor is a start kept.
    let relay = rig.start_streaming();
    rig.call(&["dlq", "drop", "--all", "--yes"]).assert_success();
    wait_for_open(&rig, 0);
    wait_until_ready(&relay);
    stop(relay);
}
