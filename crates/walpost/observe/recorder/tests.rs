//! What is written down of a session that lives, and of the process over several.

use std::sync::Arc;

use walpost_core::ledger::Load;
use walpost_core::lsn::Lsn;
use walpost_core::outbox::Outboxes;
use walpost_core::poison::Inventory;
use walpost_core::position::Timeline;
use walpost_core::session::{Settings, Start};

use super::*;
use crate::driver::Clock;

fn at(seconds: u64) -> Moment {
    Moment::since_origin(Duration::from_secs(seconds))
}

fn session(position: u64) -> Session {
    let inventory = Inventory { letters: 2, ..Inventory::default() };
    let start = Start { inventory, ..Start::at(Lsn::new(position), Timeline(1), 0) };
    Session::new(Settings::default(), Outboxes::from([]), start, at(0))
}

fn owing(records: usize) -> View {
    View { owed: Load { records, bytes: 1 }, ..session(1000).view() }
}

/// The links of one view after another, one each second.
fn links(views: impl IntoIterator<Item = (View, bool)>) -> Vec<Link> {
    let next = |before: &mut Option<Link>, (second, (view, has_acknowledged)): (u64, (View, bool))| {
        *before = Some(next_link(before.as_ref(), view, has_acknowledged, None, at(second)));
        before.clone()
    };
    (1..).zip(views).scan(None, next).collect()
}

#[test]
fn a_sink_is_waited_for_since_it_acknowledged_something_or_got_something_to_do() {
    let views = [
        (owing(0), false),
        (owing(5), false),
        (owing(5), false),
        (owing(4), true),
        (owing(9), false),
        (owing(0), true),
    ];
    let since: Vec<_> = links(views).iter().map(|link| link.acknowledged_at).collect();
    assert_eq!(since, [1, 2, 2, 4, 4, 6].map(at));
}

#[test]
fn a_stream_stands_still_since_it_brought_something_or_was_not_listened_to() {
    let moved = View { received: Lsn::new(2000), ..owing(0) };
    let deaf = View { wants_frames: false, ..moved.clone() };
    let views = [owing(0), owing(0), moved.clone(), moved.clone(), deaf, moved].map(|view| (view, false));
    let since: Vec<_> = links(views).iter().map(|link| link.progressed_at).collect();
    assert_eq!(since, [1, 1, 3, 3, 5, 5].map(at));
}

#[test]
fn a_hold_and_a_description_are_waited_for_since_they_began_and_forgotten_when_they_end() {
    let failure = Failure::new(Class::Route, "closed");
    let stuck = View { trouble: Some(failure), awaits_description: true, ..owing(1) };
    let views = [owing(1), stuck.clone(), stuck.clone(), owing(1), stuck].map(|view| (view, false));
    let links = links(views);
    let since: Vec<_> = links.iter().map(|link| (link.held_since, link.undescribed_since)).collect();
    assert_eq!(since, [None, Some(2), Some(2), None, Some(5)].map(|second| (second.map(at), second.map(at))));
}

#[test]
fn the_store_of_the_letters_is_waited_for_since_it_answered_for_one() {
    let asked = |parked| {
        let counters = Counters { parked, ..Counters::default() };
        View { awaits_letters: true, counters, ..owing(1) }
    };
    let views = [owing(1), asked(0), asked(0), asked(3), asked(3), owing(1)].map(|view| (view, true));
    let since: Vec<_> = links(views).iter().map(|link| link.letters_due_since).collect();
    assert_eq!(since, [None, Some(2), Some(2), Some(4), Some(4), None].map(|second| second.map(at)));
}

#[test]
fn a_sink_is_away_since_that_was_known_first_whatever_the_reasons_are() {
    let board = Board::new(Clock::start());
    let mut recorder = Recorder::new(board);
    recorder.sink_away(Some("refused"));
    let (_, since) = recorder.sink_away.clone().unwrap();
    recorder.sink_away(Some("refused"));
    recorder.sink_away(Some("no answer"));
    assert_eq!(recorder.sink_away, Some(("no answer".to_owned(), since)));
    recorder.sink_away(None);
    assert_eq!(recorder.sink_away, None);
}

#[test]
fn what_was_counted_outlives_a_session_and_its_phase_is_told() {
    let board = Board::new(Clock::start());
    let mut recorder = Recorder::new(board.clone());
    assert_eq!(board.read().phase.word(), "starting");
    let first = session(1000);
    recorder.streaming(&first);
    recorder.delivered();
    recorder.undelivered(&Failure::new(Class::Sink, "away"));
    recorder.refused(&Refusal::Full);
    recorder.checkpoint_ordered();
    recorder.checkpoint_answered(false);
    recorder.ended(&first);
    assert_eq!((board.read().link.is_none(), board.read().phase.word()), (true, "reconnecting"));
    recorder.reconnecting("source_lost", "cut");
    let second = session(3000);
    recorder.streaming(&second);
    let sight = board.read();
    let link = sight.link.unwrap();
    assert_eq!((sight.phase.word(), link.view.received), ("streaming", Lsn::new(3000)));
    assert_eq!(link.checkpoint_due_since, None, "what was due died with the session");
    assert_eq!((sight.totals.delivered, sight.totals.full, sight.totals.failed_checkpoints), (1, 1, 1));
    assert_eq!((sight.totals.undelivered["sink"], sight.totals.reconnects["source_lost"]), (1, 1));
    recorder.stopping();
    let sight = board.read();
    assert_eq!((sight.letters, sight.phase), (Some(Letters { open: 2, parked_keys: 0 }), Phase::Stopping));
    assert_eq!(Arc::as_ref(&sight.traffic), []);
}
