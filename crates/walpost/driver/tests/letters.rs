//! Rows that are set aside, in a store or within a group, and letters that were marked.

use walpost_core::poison::{self, Conclusion, DeadLetter, LetterId, Marked, Request};
use walpost_core::position::Identity;
use walpost_core::record::{Headers, Record};

use super::*;

/// One transaction of rows without a key column: none of them can become a record.
fn bad_rows(count: usize) -> Vec<Frame> {
    let [begin, _, commit] = transaction(0x2000);
    let new = Tuple { cells: [pgoutput::Cell::Text(b"7")].into_iter().collect() };
    let row = || frame(&Message::Insert(Insert { relation: RELATION, new: new.clone() }));
    [relation(), begin].into_iter().chain((0..count).map(|_| row())).chain([commit]).collect()
}

#[tokio::test]
async fn bad_rows_are_set_aside_in_one_batch_before_anything_behind_them_is_confirmed() {
    for failures in [0, 3] {
        let mut stage = Stage::new(bad_rows(20));
        let letters = Letters::default();
        letters.failures.set(failures);
        stage.letters = Some(letters.clone());
        let seen = Rc::clone(&stage.seen);
        let (confirmed, kept) = (Rc::clone(&seen), letters.clone());
        let is_confirmed = move || {
            let is_confirmed = confirmed.confirmed.borrow().contains(&0x2030);
            assert!(!is_confirmed || kept.kept.borrow().len() == 20);
            is_confirmed
        };
        let driven = stage.play(sound_store, until(is_confirmed), pending()).await;
        assert_eq!((driven.end.cause, driven.end.unsettled), (Cause::Stopped, 0));
        let ordinals: Vec<u64> = letters.kept.borrow().iter().map(|letter| letter.identity.ordinal).collect();
        assert_eq!(ordinals, (0..20).collect::<Vec<_>>());
        assert!(letters.batches.get() < 20, "{} batches", letters.batches.get());
        assert!(seen.published.borrow().is_empty());
    }
}

#[tokio::test]
async fn where_a_sink_commits_all_as_one_it_sets_rows_aside_itself_and_is_asked_again_when_it_has_no_room() {
    let mut stage = grouping();
    stage.stream.frames = bad_rows(20).into();
    stage.broker.full_for = 3;
    let letters = Letters::default();
    stage.letters = Some(letters.clone());
    let seen = Rc::clone(&stage.seen);
    let confirmed = Rc::clone(&stage.seen);
    let stop = until(move || confirmed.confirmed.borrow().contains(&0x2030));
    let driven = stage.play(|| Checkpointer::of_sink(pattern()), stop, pending()).await;
    assert_eq!((driven.end.cause, driven.end.unsettled), (Cause::Stopped, 0));
    assert_eq!(*seen.set_aside.borrow(), (0..20).collect::<Vec<_>>());
    assert_eq!(seen.committed.borrow().iter().map(|(position, _)| *position).collect::<Vec<_>>(), [0x2030]);
    assert!(letters.kept.borrow().is_empty(), "the store is for reading alone");
}

#[tokio::test]
async fn a_sink_that_cannot_set_a_row_aside_has_its_group_given_up() {
    let mut stage = grouping();
    stage.stream.frames = bad_rows(1).into();
    stage.broker.letter_failure = Some(Failure::new(Class::Sink, "no room on the disk"));
    let driven = stage.play(|| Checkpointer::of_sink(pattern()), pending(), pending()).await;
    assert!(matches!(&driven.end.cause, Cause::Aborted(None, failure) if failure.reason == "no room on the disk"));
    assert_eq!((driven.end.position, driven.end.needs_reset), (Lsn::new(START), true));
}

#[tokio::test]
async fn a_store_that_is_behind_is_not_asked_again_and_again() {
    let mut stage = grouping();
    stage.stream.frames = bad_rows(2).into();
    stage.settings.feedback.status_interval = Duration::from_millis(1);
    stage.look_interval = Duration::from_secs(3600);
    let letters = Letters { is_behind: true, ..Letters::default() };
    letters.marked.borrow_mut().push(Marked {
        id: LetterId(1),
        request: Request::Drop,
        letter: some_letter(),
        fetched: None,
    });
    stage.letters = Some(letters.clone());
    let seen = Rc::clone(&stage.seen);
    let told = Rc::clone(&stage.seen);
    let stop = until(move || {
        let confirmed = told.confirmed.borrow();
        !told.concluded.borrow().is_empty() && confirmed.iter().filter(|position| **position == 0x2030).count() > 20
    });
    let driven = stage.play(|| Checkpointer::of_sink(pattern()), stop, pending()).await;
    assert_eq!(driven.end.cause, Cause::Stopped);
    assert_eq!(*seen.concluded.borrow(), [(LetterId(1), Conclusion::Dropped)], "once");
    assert!(letters.looks.get() < 20, "{} looks, after waits that double", letters.looks.get());
}

#[tokio::test]
async fn marks_that_cannot_be_read_keep_nothing_from_being_set_aside_and_it_is_told_until_they_can() {
    for is_grouping in [false, true] {
        let mut stage = if is_grouping { grouping() } else { Stage::new([]) };
        stage.stream.frames = bad_rows(3).into();
        let letters = Letters::default();
        letters.failing_looks.set(u32::MAX);
        stage.letters = Some(letters.clone());
        let (seen, board) = (Rc::clone(&stage.seen), stage.board.clone());
        let confirmed = Rc::clone(&stage.seen);
        let operator = letters.clone();
        let stop = until(move || {
            let sight = board.read();
            let unread = sight.marks_unread.and_then(|(reason, _)| reason);
            if unread.as_deref() == Some("the letters are away; bring them back") {
                let link = sight.link.unwrap();
                assert_eq!(link.view.trouble, None, "nothing is held for it");
                operator.failing_looks.set(0);
            }
            let is_read_again = operator.failing_looks.get() == 0 && unread.is_none();
            is_read_again && confirmed.confirmed.borrow().contains(&0x2030)
        });
        let checkpointer = || if is_grouping { Checkpointer::of_sink(pattern()) } else { sound_store() };
        let driven = stage.play(checkpointer, stop, pending()).await;
        assert_eq!((driven.end.cause, driven.end.unsettled), (Cause::Stopped, 0));
        let kept: Vec<u64> = letters.kept.borrow().iter().map(|letter| letter.identity.ordinal).collect();
        let kept = if is_grouping { seen.set_aside.borrow().clone() } else { kept };
        assert_eq!(kept, [0, 1, 2]);
    }
}

#[tokio::test]
async fn what_a_store_needs_of_an_operator_is_told_with_what_holds_the_rows() {
    let mut stage = Stage::new(bad_rows(1));
    let letters = Letters::default();
    letters.failures.set(u32::MAX);
    stage.letters = Some(letters);
    let board = stage.board.clone();
    let is_told = move || {
        let trouble = board.read().link.and_then(|link| link.view.trouble);
        trouble.is_some_and(|failure| {
            failure.reason == "the dead letters cannot be written: the letters are away; bring them back"
        })
    };
    let driven = stage.play(sound_store, until(is_told), pending()).await;
    assert_eq!(driven.end.unsettled, 1);
}

#[tokio::test]
async fn a_letter_that_is_marked_is_dropped_or_sent_and_the_store_hears_of_it() {
    let mut stage = Stage::new(bad_rows(2));
    let letters = Letters::default();
    stage.letters = Some(letters.clone());
    let seen = Rc::clone(&stage.seen);
    let operator = letters.clone();
    let is_ended = move || {
        if operator.marked.borrow().is_empty()
            && operator.ended.borrow().is_empty()
            && operator.kept.borrow().len() == 2
        {
            let mark = |(id, request, letter): (i64, Request, &DeadLetter)| Marked {
                id: LetterId(id),
                request,
                letter: DeadLetter { record: Some(some_record(letter)), ..letter.clone() },
                fetched: None,
            };
            let kept = operator.kept.borrow();
            *operator.marked.borrow_mut() =
                [(1, Request::Drop, &kept[0]), (2, Request::Replay, &kept[1])].map(mark).into();
        }
        operator.ended.borrow().len() >= 2
    };
    let driven = stage.play(sound_store, until(is_ended), pending()).await;
    assert_eq!((driven.end.cause, driven.end.unsettled), (Cause::Stopped, 0));
    let ended = letters.ended.borrow();
    assert_eq!(ended[..2], [(LetterId(1), Conclusion::Dropped), (LetterId(2), Conclusion::Sent)]);
    assert_eq!(seen.published.borrow().len(), 1);
}

fn some_letter() -> DeadLetter {
    let identity = Identity { timeline: Timeline(1), commit_lsn: Lsn::new(1), ordinal: 0 };
    DeadLetter {
        identity,
        commit_time: Timestamp::default(),
        table: TableName { schema: "public".to_owned(), table: "outbox".to_owned() },
        parking_key: None,
        event_id: None,
        cause: poison::Cause::Row("it is bad".to_owned()),
        record: None,
        row: poison::Row::default(),
    }
}

fn some_record(letter: &DeadLetter) -> Record {
    Record {
        identity: letter.identity,
        topic: Arc::from("topic"),
        key: None,
        value: None,
        headers: Headers::new(),
        timestamp_ms: 0,
        is_dated_by_row: false,
        partition: None,
    }
}
