//! Two hands on the same letters: who is told of a deadlock, and what comes of that.

use std::thread;

use super::*;
use crate::rig::eventually;

/// Changes letter 4, and once another session waits for that, letter 1, which that one has. The other is told of the deadlock: it looks for one sooner.
const OTHER_HAND: &str = "
BEGIN;
SET LOCAL deadlock_timeout = '1min';
UPDATE walpost.dead_letter SET marked_by = 'other' WHERE id = 4;
DO $$ BEGIN
    WHILE NOT EXISTS (SELECT FROM pg_stat_get_activity(NULL) WHERE pg_backend_pid() = ANY (pg_blocking_pids(pid))) LOOP
        PERFORM pg_sleep(0.02), pg_stat_clear_snapshot();
    END LOOP;
END $$;
UPDATE walpost.dead_letter SET marked_by = 'other' WHERE id = 1;
COMMIT";

/// Does something to letters 1 and 4 while another session has the second and is about to want the first.
fn against_another<T>(database: &Database, act: impl FnOnce() -> T) -> T {
    thread::scope(|scope| {
        let other = scope.spawn(|| database.psql(OTHER_HAND).unwrap());
        let has_it = "SELECT count(*) FROM pg_locks WHERE mode = 'RowExclusiveLock' AND relation = 'walpost.dead_letter'::regclass";
        eventually("the other hand to have letter 4", || database.value(has_it).unwrap() == "1");
        let done = act();
        other.join().unwrap();
        done
    })
}

fn deadlocks(desk: &Desk) -> i64 {
    desk.value("SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()").parse().unwrap()
}

#[test]
fn letters_are_marked_in_spite_of_a_deadlock() {
    let mut desk = Desk::new("mark_deadlock");
    two_queues(&mut desk);
    let marked = against_another(&desk.database, || desk.dlq(&["replay", "--all", "--yes"]));
    marked.assert_said(0, &["6 letters are marked"]);
    eventually("the deadlock to be counted", || deadlocks(&desk) == 1);
    assert_eq!(desk.states(), "1 replay, 2 replay, 3 replay, 4 replay, 5 replay, 6 replay");
}

#[test]
fn a_relay_that_is_told_of_a_deadlock_ends_its_letters_at_the_next_try() {
    let mut desk = Desk::new("end_deadlock");
    two_queues(&mut desk);
    desk.dlq(&["replay", "--all", "--yes"]).assert_success();
    let ends = [1, 4].map(|id| (LetterId(id), Conclusion::Sent));
    let (runtime, store) = (&desk.runtime, &mut desk.store);
    let error = against_another(&desk.database, || runtime.block_on(store.conclude(&ends))).unwrap_err();
    assert!(error.class().is_retried() && walpost_core::failure::chain(&error).contains("SQLSTATE 40P01"), "{error:?}");
    desk.runtime.block_on(desk.store.conclude(&ends)).unwrap();
    assert_eq!(desk.states(), "1 sent, 2 replay, 3 replay, 4 sent, 5 replay, 6 replay");
}
