//! A relay whose name was changed knows nothing of the letters that it set aside under its former one, and must not send what comes behind them.

use super::busy::narrow_of_topic;
use super::{LARGE, insert_large, narrow, stop, wait_for_delivered};
use crate::rig::{LIMIT, Rig, eventually};

/// The code of a checkpoint or of letters that do not fit.
const REFUSED: i32 = 11;

fn call_it(rig: &mut Rig, name: &str) {
    rig.configure(|config| config.set("", "name", &format!("{name:?}")));
}

/// Leaves two open letters of `former`, and calls the relay `later`.
fn rename_over_letters(rig: &mut Rig) {
    call_it(rig, "former");
    rig.call(&["init"]).assert_success();
    let relay = rig.start_streaming();
    insert_large(rig, "a", 0);
    rig.insert("a", 1, 1);
    rig.insert("b", 0, 1);
    wait_for_delivered(rig, "b", &[0]);
    eventually("the letters", || rig.call(&["dlq", "list"]).output.contains("2 letters"));
    relay.stop(LIMIT).unwrap().assert_success();
    rig.insert("a", 2, 1);
    call_it(rig, "later");
    let words = [
        "by a relay of the name \"former\"",
        "2 dead letters of that name would be overtaken",
        "write name = \"former\"",
    ];
    rig.call(&["run"]).assert_said(REFUSED, &words);
    rig.call(&["check"]).assert_said(5, &words);
    assert_eq!(super::delivered(rig, "a"), Vec::<i64>::new());
}

#[test]
fn a_relay_that_was_renamed_refuses_to_overtake_its_letters_in_the_table_until_it_takes_them_over() {
    let mut rig = narrow("renamed");
    rename_over_letters(&mut rig);
    // As its sentence says it.
    let told = rig.call(&["run"]);
    let statement = told.log.split("take them over by ").nth(1).unwrap().lines().next().unwrap();
    let statement = statement.split_inclusive('\'').take(4).collect::<String>();
    assert_eq!(statement, "UPDATE walpost.dead_letter SET relay = 'later' WHERE relay = 'former'");
    rig.sql(&statement);
    let relay = rig.start_streaming();
    eventually("the row behind them to wait too", || rig.call(&["dlq", "list"]).output.contains("3 letters"));
    rig.limit_records(LARGE);
    super::wait_until_all_are_sent(&rig);
    wait_for_delivered(&rig, "a", &[0, 1, 2]);
    stop(relay);
}

#[test]
fn a_relay_that_was_renamed_refuses_to_overtake_its_letters_in_a_topic_until_they_are_sent_under_its_former_name() {
    let mut rig = narrow_of_topic("renamedtopic", |_, _| {});
    rename_over_letters(&mut rig);
    call_it(&mut rig, "former");
    let relay = rig.start_streaming();
    rig.limit_records(LARGE);
    eventually("all letters to be sent", || {
        rig.call(&["dlq", "replay", "--all", "--yes"]).assert_success();
        rig.call(&["dlq", "list", "--state", "waiting,replay"]).output.contains("no letter fits")
    });
    wait_for_delivered(&rig, "a", &[0, 1, 2]);
    stop(relay);
    call_it(&mut rig, "later");
    let relay = rig.start_streaming();
    rig.insert("a", 3, 1);
    eventually("the row behind all", || super::delivered(&rig, "a").last() == Some(&3));
    stop(relay);
}
