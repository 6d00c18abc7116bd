//! What a sink may do to records, and what becomes of their order.

use super::*;

#[test]
fn records_leave_in_the_order_of_the_log() {
    let mut desk = Desk::new();
    assert_eq!(desk.begin(0x2000).rows(2).foreign_row().rows(1).asked(), publications(0..3));
    assert_eq!(desk.commit(0x2000, 0x2030).transaction(0x3000, 2).asked(), publications(3..5));
}

#[test]
fn rows_that_another_relay_published_are_passed_over_in_their_transaction_alone() {
    let settled_rows = Some(SettledRows { commit_lsn: Lsn::new(0x2000), through: Lsn::new(0x1800) });
    let mut desk = Desk::at(Start { settled_rows, ..start() }, Settings::default());
    desk.begin(0x2000).row_at(0x1700).row_at(0x1800).row_at(0x1800).row_at(0x1801);
    assert_eq!(desk.asked(), publications(0..1), "only what begins after the mark");
    assert_eq!(desk.commit(0x2000, 0x2030).begin(0x3000).row_at(0x1700).asked(), publications(1..2), "of another one");
    assert_eq!(desk.deliver(0).deliver(1).lose_source().end().position, Lsn::new(0x2030));
}

#[test]
fn a_failed_batch_goes_again_in_order_once_all_has_come_back_and_without_what_was_delivered() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 5).asked();
    desk.deliver(0).fail(2, Class::Sink).fail(1, Class::Withdrawn);
    assert_eq!(desk.asked(), [Asked::Reset], "nothing more is handed over");
    desk.transaction(0x3000, 1);
    assert_eq!(desk.asked(), []);
    desk.reset_succeeds().fail(3, Class::Withdrawn);
    assert_eq!(desk.wait(Duration::from_millis(200)).asked(), [], "4 has not come back");
    desk.deliver(4).wait(Duration::from_millis(200));
    assert_eq!(desk.asked(), publications([1, 2, 3, 5]));
}

#[test]
fn a_row_is_judged_only_when_it_was_sent_alone() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 2).asked();
    desk.fail(0, Class::Row).fail(1, Class::Row);
    assert_eq!(desk.asked(), [Asked::Reset], "a failed batch blames innocents");
    desk.reset_succeeds().wait(Duration::from_millis(200));
    assert_eq!(desk.asked(), publications([0]));
    assert_eq!(desk.deliver(0).asked(), publications([1]));
    desk.fail(1, Class::Row);
    let end = desk.end();
    assert!(matches!(end.cause, Cause::Undeliverable(identity, _) if identity.ordinal == 1), "{end:?}");
    assert_eq!((end.unsettled, end.position), (1, Lsn::new(START)));
}

#[test]
fn the_only_record_of_a_sink_is_not_judged_by_the_first_failure_either() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 1).asked();
    assert_eq!(desk.fail(0, Class::Row).asked(), [Asked::Reset], "others had been in the batch, perhaps");
}

#[test]
fn a_row_that_is_refused_at_once_is_offered_again_alone_before_it_is_judged() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 2);
    assert_eq!(desk.next_asked(), Some(Asked::Publish(0)));
    assert_eq!(desk.next_asked(), Some(Asked::Publish(1)));
    desk.refuse(1, refused(Class::Row));
    assert_eq!(desk.asked(), [], "0 is awaited first");
    assert_eq!(desk.deliver(0).next_asked(), Some(Asked::Publish(1)));
    desk.refuse(1, refused(Class::Row));
    assert!(matches!(desk.end().cause, Cause::Undeliverable(identity, _) if identity.ordinal == 1));
}

#[test]
fn a_full_sink_is_offered_the_same_record_again_after_a_report_or_a_moment() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 3);
    for ticket in [0, 1] {
        assert_eq!(desk.next_asked(), Some(Asked::Publish(ticket)));
    }
    desk.refuse(1, Refusal::Full);
    assert_eq!(desk.asked(), []);
    assert_eq!(desk.deliver(0).next_asked(), Some(Asked::Publish(1)), "after a report");
    desk.refuse(1, Refusal::Full);
    assert_eq!(desk.asked(), []);
    assert!(desk.wait_for_deadline() <= Duration::from_millis(20));
    assert_eq!(desk.asked(), publications([1, 2]), "after a moment");
    assert!(desk.session.trouble().is_none(), "a full queue is no trouble");
}

#[test]
fn a_closed_route_holds_everything_with_growing_waits_and_says_why() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 2);
    let mut waits = Vec::new();
    while waits.len() < 8 {
        match desk.next_asked() {
            Some(Asked::Publish(0)) => {
                desk.refuse(0, refused(Class::Route));
                assert!(desk.session.trouble().is_some_and(|trouble| trouble.class == Class::Route));
            }
            Some(Asked::Confirm(START)) => {}
            Some(other) => panic!("{other:?}"),
            None => waits.push(desk.wait_for_deadline()),
        }
        desk.keepalive(START, false);
    }
    assert!(waits.iter().any(|wait| *wait < Duration::from_millis(150)), "{waits:?}");
    assert_eq!(desk.watermark(), START);
    desk.wait(Duration::from_secs(30)).keepalive(START, false);
    assert_eq!(desk.asked_besides(START), publications([0]));
    assert_eq!(desk.deliver(0).asked(), publications([1]));
    assert!(desk.session.trouble().is_none());
}

#[test]
fn what_was_under_way_before_a_failure_does_not_end_the_trouble() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 3).asked();
    desk.fail(1, Class::Route).deliver(0).asked();
    desk.reset_succeeds().deliver(2);
    assert!(desk.session.trouble().is_some(), "1 is still held");
}

#[test]
fn waits_grow_while_only_what_stands_before_the_failure_is_under_way() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 1).asked();
    let mut longest = Duration::ZERO;
    for _ in 0..12 {
        assert_eq!(desk.fail(0, Class::Sink).asked_besides(START), [Asked::Reset]);
        desk.reset_succeeds();
        let failed_at = desk.now;
        while desk.asked_besides(START).is_empty() {
            desk.keepalive(START, false).wait_for_deadline();
        }
        longest = longest.max(desk.now.since(failed_at));
    }
    assert!(longest > Duration::from_secs(15) && longest <= Duration::from_secs(30), "{longest:?}");
}

#[test]
fn a_sink_that_cannot_be_made_anew_gets_nothing_until_it_is() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 1).asked();
    assert_eq!(desk.fail(0, Class::Sink).asked(), [Asked::Reset]);
    for _ in 0..3 {
        desk.session.sink_reset(Err(Failure::new(Class::Sink, "no")), desk.now);
        assert_eq!(desk.asked_besides(START), []);
        desk.wait(Duration::from_secs(1));
        assert_eq!(desk.asked_besides(START), [Asked::Reset], "and at once when it is due");
    }
    desk.reset_succeeds().wait(Duration::from_secs(2));
    assert_eq!(desk.asked_besides(START), publications([0]));
}

#[test]
fn a_sink_that_is_gone_for_good_ends_the_session() {
    for is_reset in [false, true] {
        let mut desk = Desk::new();
        desk.transaction(0x2000, 1).asked();
        if is_reset {
            desk.fail(0, Class::Sink).asked();
            desk.session.sink_reset(Err(Failure::new(Class::Configuration, "closed pipe")), desk.now);
        } else {
            desk.fail(0, Class::Configuration);
        }
        let end = desk.end();
        assert!(matches!(&end.cause, Cause::Undeliverable(_, failure) if failure.class == Class::Configuration));
        assert!(end.needs_reset);
    }
}

#[test]
fn a_report_that_nobody_awaits_changes_nothing() {
    let mut desk = Desk::at(Start { first_ticket: Ticket(10), ..start() }, Settings::default());
    desk.transaction(0x2000, 2).asked();
    desk.deliver(9).fail(3, Class::Sink).deliver(12).deliver(u64::MAX);
    assert_eq!((desk.session.owed().records, desk.session.counters().stale_reports), (2, 4));
    assert_eq!(desk.asked(), [], "no reset for a failure of another session's record");
    desk.deliver(10).deliver(10).fail(10, Class::Sink);
    assert_eq!((desk.session.owed().records, desk.session.counters().stale_reports), (1, 6));
    assert_eq!(desk.watermark(), START);
}

#[test]
fn no_frame_is_wanted_while_the_budget_is_used_up() {
    let mut desk = Desk::with(Settings { max_records: 2, ..Settings::default() });
    assert!(desk.begin(0x2000).rows(1).session.wants_frames());
    assert!(!desk.rows(1).session.wants_frames());
    desk.asked();
    assert!(desk.deliver(1).session.wants_frames());
}

#[test]
fn a_row_beyond_the_budget_waits_until_there_is_room() {
    let mut desk = Desk::with(Settings { max_bytes: 1000, ..Settings::default() });
    desk.begin(0x2000).row_of(100).row_of(500);
    assert!(!desk.session.wants_frames());
    assert_eq!(desk.asked(), publications([0]));
    assert_eq!(desk.deliver(0).asked(), publications([1]));
    assert!(desk.session.wants_frames());
}

#[test]
fn a_row_larger_than_the_whole_budget_is_taken_when_nothing_else_is_owed() {
    let mut desk = Desk::with(Settings { max_bytes: 1000, ..Settings::default() });
    desk.begin(0x2000).row_of(10).row_of(50_000);
    assert_eq!(desk.asked(), publications([0]));
    assert_eq!(desk.session.owed().records, 1);
    assert_eq!(desk.deliver(0).asked(), publications([1]));
    assert!(desk.session.owed().bytes > 50_000);
    desk.row_of(10);
    assert_eq!(desk.asked(), [], "nothing beside it");
    assert_eq!(desk.deliver(1).asked(), publications([2]));
    desk.deliver(2).commit(0x2000, 0x2030);
    assert_eq!(desk.watermark(), 0x2030);
}

#[test]
fn one_partition_that_hangs_does_not_fill_the_books() {
    let mut desk = Desk::with(Settings { max_records: 10, ..Settings::default() });
    desk.begin(0x2000);
    let mut taken = 0;
    while desk.session.wants_frames() && taken < 1000 {
        desk.rows(1);
        desk.asked();
        // The first record is never reported.
        if taken > 0 {
            desk.deliver(taken);
        }
        taken += 1;
    }
    assert_eq!((taken, desk.session.owed().records), (40, 1));
    assert!(desk.deliver(0).session.wants_frames());
}
