//! What pgoutput does not tell of an outbox, and what waits for it.

use super::*;

const RELATION: u32 = TABLES[OUTBOX].0;

/// In the middle of a transaction, with one row delivered, the table gets another shape.
fn altered() -> Desk {
    let mut desk = Desk::new();
    desk.begin(0x2000).rows(1);
    assert_eq!(desk.asked(), publications([0]));
    desk.deliver(0).receive(&relation(OUTBOX, 2));
    desk
}

/// A row of the third shape, whose payload is in a domain over `bytea`.
fn row_of_bytes(desk: &mut Desk) {
    let payload = Bytes::from_static(br"\x6869");
    let new = row(2, "00000000-0000-4000-8000-000000000002", "order", "9", &payload);
    desk.receive(&Message::Insert(Insert { relation: RELATION, new }));
}

#[test]
fn an_outbox_is_asked_about_once_each_time_that_it_is_told_and_another_table_never() {
    let mut desk = Desk::new();
    for shape in [0, 1, 1, 2] {
        desk.receive(&relation(OUTBOX, shape));
        assert_eq!(desk.asked(), [Asked::Describe(RELATION)]);
        assert_eq!(desk.describe(shape).asked(), []);
        desk.receive(&relation(FOREIGN, shape));
        assert_eq!(desk.asked(), []);
    }
}

#[test]
fn no_frame_is_taken_before_the_answer_and_the_rows_after_it_are_read_by_it() {
    let mut desk = altered();
    assert!(!desk.session.wants_frames());
    assert_eq!(desk.asked(), [Asked::Describe(RELATION)]);
    assert!(!desk.session.wants_frames(), "nor once it was asked");
    desk.describe(2);
    assert!(desk.session.wants_frames());
    row_of_bytes(&mut desk);
    let published = desk.session.poll(desk.now);
    let is_read = matches!(&published, Some(Action::Publish(_, record)) if record.value.as_deref() == Some(b"hi"));
    assert!(is_read, "{published:?}");
}

#[test]
fn a_row_that_comes_all_the_same_ends_the_session_and_is_not_published() {
    let mut desk = altered();
    row_of_bytes(&mut desk);
    assert_eq!(desk.session.counters().events, 1);
    let end = desk.end();
    assert_eq!(
        (end.cause, end.first_owed.map(|first| first.ordinal)),
        (Cause::Broken(SessionError::NotReady), Some(1))
    );
}

#[test]
fn an_answer_that_nobody_awaits_changes_nothing() {
    let mut desk = Desk::new();
    desk.tell_shape(2).begin(0x2000);
    // As it was before, of another table, of one that does not exist.
    for relation in [RELATION, TABLES[FOREIGN].0, 1] {
        desk.session.described(relation, &description(OUTBOX, 0));
    }
    row_of_bytes(&mut desk);
    assert_eq!(desk.asked(), publications([0]));
    desk.receive(&relation(OUTBOX, 2));
    desk.session.described(TABLES[FOREIGN].0, &description(FOREIGN, 2));
    assert!(!desk.session.wants_frames(), "it was about another");
}

#[test]
fn an_outbox_that_was_dropped_meanwhile_is_read_by_what_the_stream_tells() {
    let mut desk = altered();
    desk.session.described(RELATION, &Description::default());
    row_of_bytes(&mut desk);
    let published = desk.session.poll(desk.now);
    let is_text = matches!(&published, Some(Action::Publish(_, record)) if record.value.as_deref() == Some(br"\x6869"));
    assert!(is_text, "{published:?}");
}

#[test]
fn while_an_answer_is_awaited_the_server_hears_of_us_and_is_not_taken_for_dead() {
    let mut desk = altered();
    assert_eq!(desk.asked(), [Asked::Describe(RELATION)]);
    let mut waited = Duration::ZERO;
    while waited < desk.session.settings.silence_timeout * 3 {
        let step = desk.wait_for_deadline();
        assert!(step <= desk.session.settings.feedback.status_interval, "{step:?}");
        assert_eq!(desk.asked(), [Asked::Confirm(START)]);
        waited += step;
    }
    desk.describe(2);
    assert!(desk.session.wants_frames());
    assert_eq!(desk.asked(), []);
}

#[test]
fn what_is_owed_is_delivered_and_checkpointed_while_an_answer_is_awaited() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 2).begin(0x3000).receive(&relation(OUTBOX, 0));
    assert_eq!(desk.asked(), [Asked::Describe(RELATION), Asked::Publish(0), Asked::Publish(1)]);
    desk.deliver(0).deliver(1).wait(Duration::from_secs(1));
    assert_eq!(desk.asked(), [Asked::Checkpoint(0x2030), Asked::Confirm(START)]);
    desk.checkpoint_succeeds();
    assert_eq!(desk.asked(), [Asked::Confirm(0x2030)]);
}

#[test]
fn a_stop_within_a_transaction_awaits_the_answer_and_the_rest_of_the_transaction() {
    for is_asked_before in [false, true] {
        let mut desk = altered();
        if is_asked_before {
            desk.asked();
        }
        desk.stop();
        let asked = desk.asked();
        assert_eq!(asked.contains(&Asked::Describe(RELATION)), !is_asked_before, "{asked:?}");
        desk.wait(Duration::from_secs(9)).asked();
        desk.describe(2);
        row_of_bytes(&mut desk);
        assert_eq!(desk.asked(), publications([1]));
        desk.commit(0x2000, 0x2030).deliver(1);
        assert_eq!(desk.asked(), [Asked::Checkpoint(0x2030)]);
        let end = desk.checkpoint_succeeds().end();
        assert_eq!((end.cause, end.unsettled, end.first_owed), (Cause::Stopped, 0, None));
    }
}

#[test]
fn a_stop_gives_up_at_its_deadline_where_no_answer_comes() {
    for is_asked_before in [false, true] {
        let mut desk = altered();
        if is_asked_before {
            desk.asked();
        }
        desk.stop().wait(Duration::from_secs(10));
        let asked = desk.asked();
        let Some(Asked::End(end)) = asked.last() else { panic!("{asked:?}") };
        assert!(!asked.contains(&Asked::Describe(RELATION)), "there is no time for an answer");
        assert_eq!((&end.cause, end.unsettled, end.is_within_transaction()), (&Cause::Stopped, 0, true));
    }
}

#[test]
fn a_stop_between_transactions_and_a_lost_source_await_no_answer() {
    type Ending = fn(&mut Desk) -> &mut Desk;
    for (ending, cause) in [(Desk::stop as Ending, Cause::Stopped), (Desk::lose_source, Cause::SourceLost)] {
        let mut desk = Desk::new();
        desk.receive(&relation(OUTBOX, 1));
        let asked = ending(&mut desk).asked();
        assert!(matches!(&asked[..], [Asked::End(end)] if end.cause == cause), "{asked:?}");
    }
}

#[test]
fn a_session_that_follows_asks_for_itself() {
    let mut desk = altered();
    desk.asked();
    let end = desk.lose_source().end();
    let mut next = desk.next(&end, 1);
    next.begin(0x2000).rows(1).receive(&relation(OUTBOX, 2));
    assert_eq!(next.asked(), [Asked::Describe(RELATION)]);
    assert!(!next.session.wants_frames());
    next.describe(2);
    row_of_bytes(&mut next);
    assert_eq!(next.asked(), publications([1]));
}
