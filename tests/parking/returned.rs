//! A letter that is sent again and fails again: what was to follow it waits behind it once more, wherever letters lie and whoever looks after them next.

use serde_json::Value;

use super::busy::{exactly_once, narrow_of_topic};
use super::{LARGE, insert_large, narrow, stop, wait_for_delivered};
use crate::rig::{Rig, eventually};

/// The letters that are open, as an operator sees them.
fn open(rig: &Rig) -> Vec<Value> {
    let listed = rig.call(&["dlq", "list", "--json", "--state", "waiting,replay,drop"]);
    listed.assert_success();
    listed.output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Waits until the first of so many letters has come back, and answers its number.
fn wait_for_return(rig: &Rig, letters: usize) -> String {
    let mut id = String::new();
    eventually("the first letter to have come back", || {
        let open = open(rig);
        let has_failed =
            |letter: &&Value| letter["state"] == "waiting" && letter["cause"] == "row" && letter["attempts"] == 2;
        let first = open.first().filter(has_failed).filter(|_| open.len() == letters);
        id = first.map(|letter| letter["id"].to_string()).unwrap_or_default();
        !id.is_empty()
    });
    id
}

/// A row of the key and one of another, which is published: by then the first lies there.
fn insert_beside(rig: &Rig, seq: i64, letters: usize) {
    rig.insert("a", seq, 1);
    rig.insert("b", seq, 1);
    eventually(&format!("row {seq} to wait"), || open(rig).len() == letters);
}

fn waits_behind_what_came_back(rig: &Rig) {
    let relay = rig.start_streaming();
    insert_large(rig, "a", 0);
    rig.insert("a", 1, 1);
    insert_large(rig, "a", 2);
    rig.insert("a", 3, 1);
    eventually("the letters", || open(rig).len() == 4);
    rig.call(&["dlq", "replay", "--key", "a", "--yes"]).assert_said(0, &["4 letters are marked"]);
    let first = wait_for_return(rig, 4);
    insert_beside(rig, 4, 5);
    wait_for_delivered(rig, "b", &[4]);
    wait_for_delivered(rig, "a", &[]);
    relay.kill9().unwrap();

    // The next relay knows by the store alone. What is given up lets the next go, which had no reason of its own until it was tried.
    let relay = rig.start_streaming();
    insert_beside(rig, 5, 6);
    wait_for_delivered(rig, "b", &[4, 5]);
    wait_for_delivered(rig, "a", &[]);
    rig.call(&["dlq", "drop", "--id", &first, "--yes"]).assert_success();
    wait_for_delivered(rig, "a", &[1]);
    wait_for_return(rig, 4);
    stop(relay);

    let relay = rig.start_streaming();
    insert_beside(rig, 6, 5);
    wait_for_delivered(rig, "b", &[4, 5, 6]);
    wait_for_delivered(rig, "a", &[1]);
    rig.limit_records(LARGE);
    eventually("all letters to be sent", || {
        let is_over = open(rig).is_empty();
        if !is_over {
            rig.call(&["dlq", "replay", "--cause", "row", "--yes"]).assert_success();
        }
        is_over
    });
    wait_for_delivered(rig, "a", &[1, 2, 3, 4, 5, 6]);
    stop(relay);
}

#[test]
fn behind_a_letter_of_the_table_that_failed_again_its_key_waits_over_a_kill_and_a_stop() {
    waits_behind_what_came_back(&narrow("cameback"));
}

#[test]
fn behind_a_letter_of_a_topic_that_failed_again_its_key_waits_over_a_kill_and_a_stop() {
    waits_behind_what_came_back(&narrow_of_topic("camebacktopic", |_, _| {}));
}

#[test]
fn behind_a_letter_that_failed_again_its_key_waits_over_a_kill_and_a_stop_exactly_once() {
    waits_behind_what_came_back(&narrow_of_topic("camebackonce", exactly_once));
}
