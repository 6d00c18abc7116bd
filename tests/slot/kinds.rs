//! A slot of the name that is not the relay's: of another kind, plugin or database, or not finished yet. Each has a code and a way out of its own.

use walpost_testkit::checker::Repeats;
use walpost_testkit::servers::{Postgres, shared_kafka};

use super::assert_refused;
use crate::observe::{wait_until_ready, wait_until_unready};
use crate::rig::{LIMIT, Rig, eventually, while_locked};

/// What ends a start with this code has to be said by `walpost status` too.
#[track_caller]
fn assert_told(rig: &Rig, code: i32, words: &[&str]) {
    assert_refused(rig, code, words);
    rig.call(&["status"]).assert_said(10, words);
}

#[test]
fn a_slot_of_another_kind_or_database_is_refused_with_what_to_do() {
    let rig = Rig::ready("kind", &["public.outbox"]);
    let name = rig.database.name();
    let drop = format!("SELECT pg_drop_replication_slot('{name}')");
    let another = "name another slot in source.slot";
    rig.sql(&format!("{drop}; SELECT pg_create_logical_replication_slot('{name}', 'test_decoding')"));
    assert_told(&rig, 28, &[name, "the plugin test_decoding instead of pgoutput", another, &drop, "walpost init"]);
    rig.sql(&format!("{drop}; SELECT pg_create_physical_replication_slot('{name}')"));
    assert_told(&rig, 26, &[name, "is a physical slot", another, &drop, "walpost init"]);
    rig.sql(&drop);
    let passing = format!("SELECT pg_create_logical_replication_slot('{name}', 'pgoutput', true)");
    while_locked(&rig.database, &passing, || {
        assert_told(&rig, 27, &[name, "is a temporary slot", another, "end the session that made it", "walpost init"]);
    });
    let create = format!("SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')");
    let elsewhere = rig.database.endpoint().fresh_database("elsewhere").unwrap();
    elsewhere.psql(&create).unwrap();
    let correct = ["correct the database of source.url", another];
    assert_told(&rig, 29, &[&[name, "belongs to database", elsewhere.name()], &correct[..]].concat());
}

#[test]
fn a_slot_that_another_session_is_just_creating_is_waited_for_and_said_to_be() {
    // Of its own: the making of any slot waits for whatever is open.
    let postgres = Postgres::start().unwrap();
    let rig = Rig::ready_on(postgres.endpoint(), shared_kafka(), "unborn", &["public.outbox"]);
    let name = rig.database.name();
    rig.sql(&format!("SELECT pg_drop_replication_slot('{name}')"));
    // That of another slot would be refused.
    rig.call(&["checkpoint", "forget"]).assert_success();
    let create = format!("SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')");
    let relay = std::thread::scope(|scope| {
        while_locked(&rig.database, "CREATE TABLE older ()", || {
            scope.spawn(|| rig.sql(&create));
            let unborn = format!(
                "SELECT count(*) FROM pg_replication_slots WHERE slot_name = '{name}' AND active AND confirmed_flush_lsn IS NULL"
            );
            eventually("the slot to be in creation", || rig.value(&unborn) == "1");
            let relay = rig.start();
            let words = ["is being created by process", "waits for transactions to end"];
            relay.wait_for_log(words[0], LIMIT).unwrap();
            wait_until_unready(&relay, "standing_by", words[1]);
            rig.call(&["status"]).assert_said(10, &words);
            rig.call(&["repair"]).assert_said(22, &words);
            rig.call(&["repair", "--recreate", "--accept-gap", "--yes"]).assert_said(22, &words);
            assert!(relay.is_running());
            relay
        })
    });
    wait_until_ready(&relay);
    rig.insert("key", 0, 10);
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}
