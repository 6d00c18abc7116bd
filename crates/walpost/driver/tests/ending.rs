//! What ends a session, and what goes on until it has ended: the stream, a stop, the sink, the store of checkpoints.

use tokio::sync::oneshot;

use super::edges::StoreError;
use super::*;

#[tokio::test]
async fn a_stop_delivers_checkpoints_confirms_and_closes_the_stream_in_good_order() {
    let stage = Stage::new(one_event());
    let seen = Rc::clone(&stage.seen);
    let published = Rc::clone(&stage.seen);
    let driven = stage.play(sound_store, until(move || !published.published.borrow().is_empty()), pending()).await;
    assert_eq!((driven.end.cause, driven.end.unsettled), (Cause::Stopped, 0));
    assert_eq!((seen.confirmed.borrow().last(), seen.is_finished.get()), (Some(&0x2030), true));
}

#[tokio::test]
async fn a_stream_that_ends_gives_its_cause_and_is_not_finished() {
    let mut stage = Stage::new(one_event());
    stage.stream.ends = true;
    let seen = Rc::clone(&stage.seen);
    let driven = stage.play(sound_store, pending(), pending()).await;
    assert!(matches!((driven.end.cause, driven.source_error), (Cause::SourceLost, Some(Dry))));
    assert!(seen.is_closed.get() && !seen.is_finished.get());
}

#[tokio::test]
async fn a_server_that_shuts_down_is_let_go_while_the_sink_is_being_reset() {
    let stage = Stage::new(one_event()).failing(Class::Sink).with_a_reset_that_never_ends();
    let seen = Rc::clone(&stage.seen);
    let (resetting, closed) = (Rc::clone(&seen), Rc::clone(&seen));
    let (tell, told) = oneshot::channel();
    // The stop comes only once the stream is closed, so the stream was closed while the reset went on.
    let stop = async {
        until(move || closed.is_closed.get()).await;
        tell.send(()).unwrap();
    };
    let driven = stage.play(sound_store, stop, until(move || resetting.resets.get() > 0)).await;
    told.await.unwrap();
    assert_eq!((driven.end.unsettled, driven.end.needs_reset), (1, true));
}

#[tokio::test]
async fn a_stop_waits_for_a_reset_no_longer_than_for_anything_else() {
    let stage = Stage::new(one_event()).failing(Class::Sink).with_a_reset_that_never_ends();
    let resetting = Rc::clone(&stage.seen);
    let driven = stage.play(sound_store, until(move || resetting.resets.get() > 0), pending()).await;
    assert_eq!((driven.end.cause, driven.end.unsettled, driven.end.needs_reset), (Cause::Stopped, 1, true));
}

#[tokio::test]
async fn the_stream_is_read_while_the_sink_is_being_reset() {
    let mut stage = Stage::new(one_event()).failing(Class::Sink).with_a_reset_that_never_ends();
    stage.stream.during_reset = transaction(0x3000).into();
    let taken = Rc::clone(&stage.seen);
    let driven = stage.play(sound_store, until(move || taken.taken.get() == 7), pending()).await;
    assert_eq!((driven.end.unsettled, driven.end.position), (2, Lsn::new(START)));
}

#[tokio::test]
async fn what_failed_goes_again_after_the_reset() {
    let stage = Stage::new(one_event()).failing(Class::Sink);
    let seen = Rc::clone(&stage.seen);
    let confirmed = Rc::clone(&stage.seen);
    let has_arrived = move || confirmed.confirmed.borrow().contains(&0x2030);
    let driven = stage.play(sound_store, until(has_arrived), pending()).await;
    assert_eq!((driven.end.unsettled, seen.resets.get()), (0, 1));
    assert_eq!(*seen.published.borrow(), [0, 0]);
}

#[tokio::test]
async fn a_checkpoint_that_another_relay_has_claimed_ends_the_connection() {
    let stage = Stage::new(one_event());
    let seen = Rc::clone(&stage.seen);
    let store = || Checkpointer::start(Store(Err(StoreError::Fenced)), pattern(), |_| true);
    let driven = stage.play(store, pending(), pending()).await;
    assert_eq!((driven.end.cause, driven.end.unsettled), (Cause::SourceLost, 0));
    assert!(seen.confirmed.borrow().iter().all(|confirmed| *confirmed == START));
}

#[tokio::test]
async fn a_writer_of_checkpoints_that_died_ends_the_connection() {
    // Either before it took the order, or with it in its hands.
    for takes_the_order in [false, true] {
        let stage = Stage::new(one_event());
        let dead = || Checkpointer::dead(takes_the_order, pattern());
        let driven = stage.play(dead, pending(), pending()).await;
        assert_eq!(driven.end.cause, Cause::SourceLost, "{takes_the_order}");
    }
}

#[tokio::test]
async fn a_sink_that_will_take_nothing_ends_the_session_before_a_record_was_tried() {
    let mut stage = Stage::new([relation()]);
    stage.broker.verdict = Some(Failure::new(Class::Configuration, "a wrong password"));
    let driven = stage.play(sound_store, pending(), pending()).await;
    assert_eq!(driven.end.cause, Cause::Stopped);
    assert_eq!(driven.sink_verdict.map(|verdict| verdict.reason).as_deref(), Some("a wrong password"));
}
