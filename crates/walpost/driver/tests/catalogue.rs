//! A catalogue that is slow, silent or away.

use super::*;

#[tokio::test]
async fn a_catalogue_that_fails_is_asked_again_and_nothing_is_published_before_it_answers() {
    let mut stage = Stage::new(one_event_with_its_shape());
    stage.catalogue.failures = 3;
    let seen = Rc::clone(&stage.seen);
    let published = Rc::clone(&stage.seen);
    let has_published = move || {
        let is_published = !published.published.borrow().is_empty();
        assert!(!is_published || published.questions.get() == 4);
        is_published
    };
    let driven = stage.play(sound_store, until(has_published), pending()).await;
    assert_eq!((driven.end.cause, driven.end.unsettled, seen.questions.get()), (Cause::Stopped, 0, 4));
    assert_eq!(seen.confirmed.borrow().last(), Some(&0x2030));
}

#[tokio::test]
async fn while_the_catalogue_does_not_answer_the_server_hears_of_us_and_a_stop_is_heard() {
    let mut stage = Stage::new(one_event_with_its_shape()).with_a_catalogue_that_never_answers();
    stage.settings.feedback.status_interval = Duration::from_millis(1);
    let seen = Rc::clone(&stage.seen);
    let heard = Rc::clone(&stage.seen);
    let is_heard = move || heard.questions.get() == 1 && heard.confirmed.borrow().len() > 20;
    let driven = stage.play(sound_store, until(is_heard), pending()).await;
    assert_eq!((driven.end.cause, driven.end.unsettled), (Cause::Stopped, 0));
    assert!(seen.published.borrow().is_empty());
    assert!(seen.confirmed.borrow().iter().all(|confirmed| *confirmed == START));
}

#[tokio::test]
async fn a_catalogue_that_does_not_answer_is_let_go_with_the_connection() {
    // It hangs, or it fails and is waited for. That it is dropped is awaited by every play.
    for answers in [false, true] {
        let mut stage = Stage::new(one_event_with_its_shape());
        (stage.catalogue.answers, stage.catalogue.failures) = (answers, u32::MAX);
        let asked = Rc::clone(&stage.seen);
        let seldom = |catalogue| asking(catalogue, Duration::from_secs(3600), Duration::MAX);
        let gone = until(move || asked.questions.get() == 1);
        let driven = stage.play_with(sound_store, seldom, pending(), gone).await;
        assert_eq!(driven.end.cause, Cause::SourceLost, "{answers}");
    }
}

#[tokio::test]
async fn a_catalogue_without_a_word_is_given_up_with_the_connection_and_one_that_refuses_is_not() {
    // A hundred tries take longer.
    let silence = Duration::from_millis(20);
    for is_silent in [false, true] {
        let mut stage = Stage::new(one_event_with_its_shape());
        (stage.catalogue.is_silent, stage.catalogue.failures) = (is_silent, u32::MAX);
        let impatient = |catalogue| asking(catalogue, Duration::from_millis(1), silence);
        let asked = Rc::clone(&stage.seen);
        let stop = until(move || !is_silent && asked.questions.get() >= 100);
        let driven = stage.play_with(sound_store, impatient, stop, pending()).await;
        let expected = if is_silent { Cause::SourceLost } else { Cause::Stopped };
        assert_eq!((driven.end.cause, driven.end.unsettled), (expected, 0));
    }
}

#[tokio::test]
async fn a_describer_that_died_ends_the_connection() {
    // Either before it was asked, or over the question.
    for takes_the_question in [false, true] {
        let stage = Stage::new(one_event());
        let dead = |catalogue| Describer::dead(takes_the_question, catalogue);
        let driven = stage.play_with(sound_store, dead, pending(), pending()).await;
        assert_eq!(driven.end.cause, Cause::SourceLost, "{takes_the_question}");
    }
}
