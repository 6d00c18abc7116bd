//! How a session ends, and where the next one takes up.

use super::*;
use crate::position::Identity;

const NOW: Moment = Moment::since_origin(Duration::from_secs(100));

#[test]
fn a_stop_finishes_the_open_transaction_its_checkpoint_and_its_confirmation() {
    let mut desk = Desk::new();
    desk.begin(0x2000).rows(1).stop();
    assert!(desk.session.wants_frames(), "the rest of the transaction");
    assert_eq!(desk.asked(), publications([0]));
    desk.rows(1).commit(0x2000, 0x2030);
    assert!(!desk.session.wants_frames());
    assert_eq!(desk.asked(), publications([1]));
    desk.deliver(0).deliver(1);
    assert_eq!(desk.asked(), [Asked::Checkpoint(0x2030)]);
    desk.checkpoint_succeeds();
    assert_eq!(desk.next_asked(), Some(Asked::Confirm(0x2030)));
    let end = desk.end();
    assert_eq!((end.cause, end.position, end.unsettled, end.first_owed), (Cause::Stopped, Lsn::new(0x2030), 0, None));
}

#[test]
fn a_stop_between_transactions_takes_nothing_more() {
    let mut desk = Desk::new();
    desk.stop();
    assert!(!desk.session.wants_frames());
    assert_eq!(desk.end().cause, Cause::Stopped);
}

#[test]
fn a_stop_gives_up_at_its_deadline() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 1).transaction(0x3000, 2).asked();
    desk.deliver(0).stop().wait(Duration::from_secs(9));
    assert_eq!(desk.asked_besides(START), [Asked::Checkpoint(0x2030)]);
    desk.checkpoint_succeeds().wait(Duration::from_secs(1));
    let end = desk.end();
    assert_eq!((end.cause, end.unsettled, end.out, end.needs_reset), (Cause::Stopped, 2, 2, true));
    assert_eq!(desk.session.confirmed().get(), 0x2030);
}

#[test]
fn past_its_deadline_a_session_hands_nothing_over() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 2);
    assert_eq!(desk.next_asked(), Some(Asked::Publish(0)));
    desk.refuse(0, Refusal::Full).lose_source().wait(Duration::from_secs(10));
    assert!(!desk.asked().iter().any(|asked| matches!(asked, Asked::Publish(_))));
}

#[test]
fn a_session_that_has_ended_asks_for_nothing_more() {
    let mut desk = Desk::new();
    desk.keepalive(0x2000, false).lose_source().end();
    desk.wait(Duration::from_secs(100));
    desk.session.checkpoint_failed(desk.now);
    assert_eq!(desk.wait(Duration::from_secs(100)).asked(), []);
    assert!(!desk.session.wants_frames());
}

#[test]
fn a_slow_last_checkpoint_neither_silences_the_status_updates_nor_spins() {
    let mut desk = Desk::new();
    desk.keepalive(0x2000, false).stop();
    assert_eq!(desk.asked(), [Asked::Checkpoint(0x2000)]);
    for _ in 0..5 {
        assert_eq!(desk.wait_for_deadline(), Duration::from_secs(1));
        assert_eq!(desk.asked(), [Asked::Confirm(START)]);
    }
    desk.checkpoint_succeeds();
    assert_eq!(desk.next_asked(), Some(Asked::Confirm(0x2000)));
    assert_eq!(desk.end().cause, Cause::Stopped);
}

#[test]
fn a_lost_source_settles_what_is_out_and_the_next_session_repeats_none_of_it() {
    let mut desk = Desk::new();
    desk.begin(0x2000).rows(3).asked();
    desk.lose_source();
    assert!(!desk.session.wants_frames());
    assert_eq!(desk.asked(), [], "it waits for the three");
    desk.deliver(1).deliver(0).deliver(2);
    let end = desk.end();
    assert_eq!((end.cause.clone(), end.position, end.next_ticket), (Cause::SourceLost, Lsn::new(START), Ticket(3)));
    let mut next = desk.next(&end, 1);
    assert_eq!(next.transaction(0x2000, 5).asked(), publications([3, 4]), "the last two, and under new tickets");
    assert_eq!(next.session.counters().skipped_rows, 3);
    next.deliver(3).deliver(4);
    assert_eq!(next.watermark(), 0x2030);
}

#[test]
fn ordinals_count_the_rows_of_every_table() {
    let mut desk = Desk::new();
    desk.begin(0x2000).foreign_row().rows(1).foreign_row().asked();
    let end = desk.deliver(0).lose_source().end();
    assert_eq!(end.first_owed.map(|first| first.ordinal), Some(3));
    let mut next = desk.next(&end, 1);
    next.begin(0x2000).foreign_row().rows(1).foreign_row().rows(1);
    assert_eq!(next.asked(), publications([1]));
}

#[test]
fn a_broken_off_transaction_is_remembered_over_connections_that_never_reach_it() {
    let mut desk = Desk::new();
    desk.begin(0x2000).rows(2).asked();
    let mut end = desk.deliver(0).deliver(1).lose_source().end();
    for rows in [0, 1] {
        let mut next = desk.next(&end, 1);
        next.keepalive(0x2000, false);
        if rows > 0 {
            next.begin(0x2000).rows(rows);
        }
        let again = next.lose_source().end();
        assert_eq!(again.first_owed, end.first_owed);
        (desk, end) = (next, again);
    }
    let mut last = desk.next(&end, 1);
    assert_eq!(last.transaction(0x2000, 3).asked(), publications([2]));
    let end = last.deliver(2).lose_source().end();
    assert_eq!(end.first_owed, None, "it is complete");
}

#[test]
fn what_arrived_ahead_of_a_row_that_is_owed_is_not_published_again_however_often_the_connection_is_lost() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 2).transaction(0x3000, 2).begin(0x4000).rows(2).asked();
    // The first stays with the sink to the end.
    let end = desk.deliver(1).deliver(2).deliver(5).lose_source().wait(Duration::from_secs(60)).end();
    assert_eq!((end.position, end.unsettled, end.settled_ahead.len()), (Lsn::new(START), 3, 3));
    // One that is lost before it got as far knows what the first one knew.
    let mut next = desk.next(&end, 1);
    assert_eq!(next.transaction(0x2000, 2).asked(), publications([6]));
    let end = next.deliver(6).lose_source().wait(Duration::from_secs(60)).end();
    assert_eq!((end.position, end.unsettled), (Lsn::new(0x2030), 0));
    let mut last = next.next(&end, 1);
    assert_eq!(last.transaction(0x3000, 2).transaction(0x4000, 2).asked(), publications([7, 8]));
    assert_eq!(last.session.counters().skipped_rows, 2);
    last.deliver(7).deliver(8);
    assert_eq!((last.watermark(), last.session.inbound.remembered()), (0x4030, 2));
    assert_eq!(last.transaction(0x5000, 1).asked(), publications([9]));
    assert_eq!(last.session.inbound.remembered(), 0, "of what the watermark has passed nothing is remembered");
    let end = last.deliver(9).lose_source().end();
    assert!(end.settled_ahead.is_empty(), "all of it is behind us: {end:?}");
}

#[test]
fn a_stop_waits_for_a_broken_off_transaction_too() {
    let mut desk = Desk::new();
    desk.begin(0x2000).rows(1).asked();
    let end = desk.deliver(0).lose_source().end();
    let mut next = desk.next(&end, 1);
    assert!(next.stop().session.wants_frames());
    assert_eq!(next.transaction(0x2000, 2).asked(), publications([1]));
    assert!(!next.session.wants_frames());
}

#[test]
fn a_broken_off_transaction_is_forgotten_on_another_timeline() {
    let mut desk = Desk::new();
    desk.begin(0x2000).rows(2).asked();
    let end = desk.deliver(0).deliver(1).lose_source().end();
    let mut next = desk.next(&end, 2);
    assert_eq!(next.transaction(0x2000, 2).asked(), publications([2, 3]), "another one may stand at its place");
}

#[test]
fn a_record_without_room_is_owed_by_the_next_session() {
    let mut desk = Desk::with(Settings { max_bytes: 1000, ..Settings::default() });
    desk.begin(0x2000).row_of(500).row_of(500).asked();
    let end = desk.lose_source().wait(Duration::from_secs(10)).end();
    assert_eq!((end.unsettled, end.out), (2, 1));
    assert_eq!(end.first_owed.map(|first| first.ordinal), Some(0));
}

#[test]
fn a_lost_source_does_not_wait_for_a_store_that_may_be_lost_with_it() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 1).asked();
    desk.deliver(0).lose_source();
    assert_eq!(desk.next_asked(), Some(Asked::Checkpoint(0x2030)));
    let end = desk.end();
    let mut next = desk.next(&end, 1);
    assert_eq!(next.transaction(0x2000, 1).asked(), [], "what is in memory is not published again");
    assert_eq!(next.session.counters().skipped_transactions, 1);
}

#[test]
fn what_needs_an_operator_takes_the_place_of_a_lost_source() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 1).asked();
    desk.lose_source().fail(0, Class::Configuration);
    assert!(matches!(desk.end().cause, Cause::Undeliverable(..)));
}

#[test]
fn a_stop_stays_a_stop_when_the_source_goes_away() {
    let mut desk = Desk::new();
    desk.begin(0x2000).rows(1).stop().lose_source().asked();
    desk.deliver(0);
    assert_eq!(desk.end().cause, Cause::Stopped);
    let mut desk = Desk::new();
    desk.transaction(0x2000, 1).lose_source().stop().asked();
    desk.deliver(0);
    assert_eq!(desk.asked(), [Asked::Checkpoint(0x2030)]);
    desk.checkpoint_succeeds();
    assert_eq!(desk.end().cause, Cause::Stopped);
}

#[test]
fn a_session_that_is_to_stop_at_a_position_stops_there() {
    let mut desk = Desk::with(Settings { stop_at: Some(Lsn::new(0x2010)), ..Settings::default() });
    desk.keepalive(0x2000, false).begin(0x2000).rows(1);
    assert!(desk.session.wants_frames());
    desk.commit(0x2000, 0x2030);
    assert!(!desk.session.wants_frames());
    desk.asked();
    desk.deliver(0).asked();
    assert_eq!(desk.checkpoint_succeeds().end().position, Lsn::new(0x2030));
}

#[test]
fn a_session_that_starts_where_it_is_to_stop_takes_nothing() {
    let mut desk = Desk { session: Session::new(stopping_at(START), outboxes(), start(), NOW), now: NOW };
    assert!(!desk.session.wants_frames());
    assert_eq!(desk.end().position, Lsn::new(START));
    let beyond = Session::new(stopping_at(START + 1), outboxes(), start(), NOW);
    assert!(beyond.wants_frames());
    // Part of a transaction from before the stop was published by the last connection.
    let first_owed = Some(Identity { timeline: Timeline(1), commit_lsn: Lsn::new(START), ordinal: 1 });
    let within = Session::new(stopping_at(START), outboxes(), Start { first_owed, ..start() }, NOW);
    assert!(within.wants_frames());
}

fn stopping_at(position: u64) -> Settings {
    Settings { stop_at: Some(Lsn::new(position)), ..Settings::default() }
}

#[test]
fn an_end_tells_what_a_new_process_would_publish_again() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 2).asked();
    desk.deliver(0).deliver(1).keepalive(0x2040, false).lose_source();
    assert_eq!(desk.next_asked(), Some(Asked::Checkpoint(0x2040)));
    let end = desk.end();
    assert_eq!((end.unsettled, end.unsaved, end.is_within_transaction()), (0, 2, false), "the store has not answered");

    let mut desk = Desk::new();
    desk.keepalive(0x2000, false).begin(0x2000).rows(2).asked();
    let end = desk.deliver(0).deliver(1).lose_source().end();
    assert_eq!((end.unsettled, end.unsaved, end.is_within_transaction()), (0, 0, true));

    let mut desk = Desk::new();
    let end = desk.keepalive(0x2000, false).lose_source().end();
    assert_eq!((end.unsettled, end.unsaved, end.is_within_transaction()), (0, 0, false), "others' log is no event");
}

#[test]
fn a_process_that_slept_past_the_silence_timeout_publishes_nothing_more_and_has_its_sink_reset() {
    let mut desk = Desk::new();
    desk.begin(0x2000).rows(2).asked();
    desk.rows(1);
    desk.now = desk.now.after(Settings::default().silence_timeout);
    let end = desk.end();
    assert_eq!((end.cause, end.out, end.needs_reset), (Cause::Silent, 2, true));
    assert_eq!(end.unsettled, 3);
}
