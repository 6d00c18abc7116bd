//! How much may lie there: beyond it the relay holds, says so, and goes on as soon as there is room.

use walpost_testkit::checker::Repeats;

use super::{
    LARGE, count, delivered, insert_large, narrow, status_of, stop, wait_for_delivered, wait_for_open,
    wait_until_all_are_sent,
};
use crate::observe::{value, wait_until_ready, wait_until_unready};
use crate::rig::eventually;

#[test]
fn beyond_the_flood_limit_the_relay_holds_and_says_so_until_a_letter_is_dropped() {
    let mut rig = narrow("flood");
    rig.configure(|config| config.set("dead_letter", "flood_limit", "3"));
    let relay = rig.start_streaming();
    for number in 0..4 {
        insert_large(&rig, &format!("bad-{number}"), number);
    }
    // Behind the hold: what was with the broker before would pass.
    wait_until_unready(&relay, "holding", "dead_letter.flood_limit is 3");
    rig.insert("good", 4, 1);
    status_of(&mut rig, &relay).assert_said(
        10,
        &["dead_letter.flood_limit is 3", "walpost dlq list", "letters:    3, of these 3 for a reason of their own"],
    );
    assert!(value(&relay, "walpost_held_seconds", &[("class", "row")]) >= 0.0);
    assert_eq!((count(&rig, "true"), delivered(&rig, "good")), (3, vec![]));
    rig.call(&["dlq", "drop", "--key", "bad-0", "--yes"]).assert_success();
    wait_for_delivered(&rig, "good", &[4]);
    wait_for_open(&rig, 3);
    wait_until_ready(&relay);
    // What only waits behind another does not count.
    rig.insert("bad-1", 5, 20);
    wait_for_open(&rig, 23);
    rig.insert("good", 25, 1);
    wait_for_delivered(&rig, "good", &[4, 25]);
    // Beyond it once more, and this time the topic is mended: the row that is held goes by itself, and the letters when they are asked to.
    insert_large(&rig, "bad-4", 26);
    rig.insert("good", 27, 1);
    wait_until_unready(&relay, "holding", "dead_letter.flood_limit is 3");
    rig.limit_records(LARGE);
    wait_for_delivered(&rig, "good", &[4, 25, 27]);
    rig.call(&["dlq", "replay", "--all", "--yes"]).assert_success();
    wait_until_all_are_sent(&rig);
    wait_until_ready(&relay);
    rig.sql("DELETE FROM outbox WHERE aggregateid = 'bad-0'");
    let truth = rig.truth();
    rig.verdict(&truth).assert_clean(Repeats::Allowed);
    stop(relay);
}

#[test]
fn beyond_the_bytes_that_may_be_parked_the_relay_holds_and_says_so_until_there_is_room() {
    let mut rig = narrow("parked");
    rig.configure(|config| config.set("dead_letter", "parked_bytes", "1024"));
    let relay = rig.start_streaming();
    insert_large(&rig, "a", 0);
    rig.insert("a", 1, 30);
    rig.insert("b", 0, 1);
    wait_until_unready(&relay, "holding", "dead_letter.parked_bytes is 1024");
    status_of(&mut rig, &relay).assert_said(10, &["dead_letter.parked_bytes is 1024"]);
    let parked = count(&rig, "cause = 'parked'");
    assert!((2..30).contains(&parked), "{parked}");
    assert_eq!(delivered(&rig, "b"), Vec::<i64>::new());
    rig.limit_records(LARGE);
    // A broker takes a moment to heed that. What comes behind the first letter goes by itself.
    eventually("all of it to be sent", || {
        rig.call(&["dlq", "replay", "--key", "a", "--cause", "row", "--yes"]).assert_success();
        delivered(&rig, "b") == [0] && count(&rig, "state NOT IN ('sent', 'dropped')") == 0
    });
    wait_for_delivered(&rig, "a", &(0..31).collect::<Vec<_>>());
    wait_until_ready(&relay);
    rig.assert_delivered(Repeats::Allowed);
    stop(relay);
}
