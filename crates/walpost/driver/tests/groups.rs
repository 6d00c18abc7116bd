//! A sink that commits records and position as one.

use super::*;

#[tokio::test]
async fn a_sink_of_transactions_commits_records_and_position_as_one_and_the_position_is_confirmed_after_it() {
    let stage = grouping();
    let seen = Rc::clone(&stage.seen);
    let committed = Rc::clone(&stage.seen);
    let stop = until(move || committed.confirmed.borrow().last() == Some(&0x2030));
    let driven = stage.play(|| Checkpointer::of_sink(pattern()), stop, pending()).await;
    assert_eq!((driven.end.cause, driven.end.unsettled, driven.end.needs_reset), (Cause::Stopped, 0, false));
    assert_eq!(*seen.committed.borrow(), [(0x2030, 1)]);
}

#[tokio::test]
async fn a_commit_that_fails_ends_the_session_and_confirms_nothing() {
    let mut stage = grouping();
    stage.broker.commit_failure = Some(Failure::new(Class::Sink, "no answer"));
    let seen = Rc::clone(&stage.seen);
    let driven = stage.play(|| Checkpointer::of_sink(pattern()), pending(), pending()).await;
    assert!(matches!(driven.end.cause, Cause::Aborted(None, _)), "{:?}", driven.end.cause);
    assert_eq!((driven.end.position, driven.end.needs_reset), (Lsn::new(START), true));
    assert!(seen.confirmed.borrow().iter().all(|confirmed| *confirmed == START));
}

#[tokio::test]
async fn a_session_that_is_stopped_within_a_commit_waits_for_it_no_longer_than_it_may() {
    let mut stage = grouping();
    stage.broker.commit_ends = false;
    let committed = Rc::clone(&stage.seen);
    let stop = until(move || !committed.committed.borrow().is_empty());
    let driven = stage.play(|| Checkpointer::of_sink(pattern()), stop, pending()).await;
    assert_eq!(
        (driven.end.cause, driven.end.position, driven.end.needs_reset),
        (Cause::Stopped, Lsn::new(START), true)
    );
}
