//! What a failure leads to, by its class and by the flow that it meets.

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::failure::Class;
use crate::poison::{Inventory, LoggedRow, Marked, OnBadRow, Policy, Request};
use crate::position::Timeline;
use crate::record::Headers;

const NOW: Moment = Moment::since_origin(Duration::from_secs(5));

/// So many records, the first of them with the sink.
fn outbound(count: u64) -> Outbound {
    outbound_with(count, Policy { on_bad_row: OnBadRow::Stop, ..Policy::default() })
}

fn outbound_with(count: u64, policy: Policy) -> Outbound {
    let mut ledger = Ledger::new(Ticket(0), Lsn::new(1), None);
    for ordinal in 0..count {
        let identity = Identity { timeline: Timeline(1), commit_lsn: Lsn::new(1), ordinal };
        let (topic, headers) = (Arc::from("topic"), Headers::new());
        let (key, value, timestamp_ms, is_dated_by_row, partition) = (None, None, 0, false, None);
        let made = Ok(Record { identity, topic, key, value, headers, timestamp_ms, is_dated_by_row, partition });
        ledger.issue(Item { identity, made, origin: Origin::Log(LoggedRow::default()) });
    }
    let backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(1), 0);
    let letters = Letters::new(policy, Inventory::default(), backoff.clone());
    let mut outbound = Outbound::new(ledger, letters, backoff);
    assert_eq!(outbound.next_publication(NOW), Some(Ticket(0)));
    outbound
}

fn failure(class: Class) -> Failure {
    Failure::new(class, "it failed")
}

/// What a failure led to, in a word.
fn consequence(outbound: &Outbound) -> &'static str {
    match outbound.flow {
        _ if outbound.verdict.is_some() => "end",
        Flow::Flowing => "flow",
        Flow::Again { .. } => "again",
        Flow::Resetting { .. } => "reset",
        Flow::Shut { .. } => "shut",
        Flow::Collecting { .. } => "collect",
        Flow::Waiting { .. } => "wait",
    }
}

#[test]
fn what_follows_from_a_failure_depends_on_its_class_and_on_whether_the_record_was_alone() {
    // For each class: reported among others, reported alone, refused among others, refused alone.
    let cases = [
        (Class::Row, ["reset", "end", "again", "end"]),
        (Class::Route, ["reset", "reset", "again", "wait"]),
        (Class::Sink, ["reset", "reset", "reset", "reset"]),
        (Class::Withdrawn, ["reset", "reset", "reset", "reset"]),
        (Class::Configuration, ["end", "end", "end", "end"]),
    ];
    for (class, expected) in cases {
        let seen = [(false, false), (false, true), (true, false), (true, true)].map(|(is_refused, is_alone)| {
            let mut outbound = outbound(2);
            if is_alone {
                outbound.part = Some(Part::Single);
            }
            if is_refused {
                outbound.refused(Ticket(0), Refusal::Failed(failure(class)), NOW);
            } else {
                outbound.settle(Delivery { ticket: Ticket(0), outcome: Err(failure(class)) }, NOW);
            }
            assert_eq!(outbound.ledger.out(), 0, "it waits again");
            consequence(&outbound)
        });
        assert_eq!(seen, expected, "{class:?}");
    }
}

#[test]
fn while_the_sink_gives_back_a_failure_changes_nothing_but_what_goes_alone_after_it() {
    let resume_at = NOW;
    for flow in [Flow::Resetting { is_asked: true }, Flow::Shut { resume_at }, Flow::Collecting { resume_at }] {
        for (class, part) in [
            (Class::Withdrawn, None),
            (Class::Sink, None),
            (Class::Row, Some(Part::Single)),
            (Class::Route, Some(Part::Single)),
        ] {
            let mut outbound = outbound(3);
            assert_eq!(outbound.next_publication(NOW), Some(Ticket(1)));
            outbound.flow = flow;
            outbound.settle(Delivery { ticket: Ticket(1), outcome: Err(failure(class)) }, NOW);
            assert_eq!(outbound.flow, flow, "{class:?}");
            assert!(outbound.needs_reset());
            outbound.lessons.make_parts();
            assert_eq!(outbound.part_of(Ticket(1)), part, "{class:?} in {flow:?}");
        }
    }
}

#[test]
fn a_reset_is_asked_for_once_and_awaited_with_its_reports() {
    let mut outbound = outbound(2);
    assert_eq!(outbound.next_publication(NOW), Some(Ticket(1)));
    outbound.settle(Delivery { ticket: Ticket(0), outcome: Err(failure(Class::Sink)) }, NOW);
    assert!(outbound.take_reset(NOW));
    assert!(!outbound.take_reset(NOW));
    outbound.sink_reset(Ok(()), NOW);
    let later = NOW.after(Duration::from_secs(60));
    assert_eq!(outbound.next_publication(later), None, "1 has not been reported");
    outbound.settle(Delivery { ticket: Ticket(1), outcome: Err(failure(Class::Withdrawn)) }, later);
    assert_eq!(outbound.next_publication(later), Some(Ticket(0)));
    assert_eq!(outbound.next_publication(later), Some(Ticket(1)), "and nothing is asked of it twice");
}

/// A letter that goes again, of the row that has this ticket.
fn replay(outbound: &mut Outbound, of: Ticket, id: LetterId) {
    let item = outbound.ledger.item(of).unwrap();
    let (identity, made) = (item.identity, item.made.clone());
    let letter = LoggedRow::default().letter(identity, Cause::Parked, made.clone().ok());
    outbound.on_marked(Marked { id, request: Request::Replay, letter, fetched: None });
    outbound.ledger.issue(Item { identity, made, origin: Origin::Letter(id) });
}

#[test]
fn a_letter_that_passes_a_row_that_is_held_ends_no_care_for_the_rows_that_failed() {
    let mut outbound = outbound_with(4, Policy { flood_limit: 0, ..Policy::default() });
    assert_eq!(outbound.next_publication(NOW), Some(Ticket(1)));
    replay(&mut outbound, Ticket(0), LetterId(1));
    for ticket in [Ticket(0), Ticket(1)] {
        outbound.settle(Delivery { ticket, outcome: Err(failure(Class::Row)) }, NOW);
    }
    outbound.sink_reset(Ok(()), NOW);
    let later = NOW.after(Duration::from_secs(60));
    assert_eq!(outbound.next_publication(later), Some(Ticket(0)));
    outbound.refused(Ticket(0), Refusal::Failed(failure(Class::Row)), later);
    assert_eq!(outbound.next_publication(later), Some(Ticket(4)), "row 0 is held, and the letter passes it");
    outbound.settle(Delivery { ticket: Ticket(4), outcome: Ok(()) }, later);

    let later = later.after(Duration::from_secs(60));
    assert_eq!(outbound.next_publication(later), Some(Ticket(0)));
    assert_eq!(outbound.next_publication(later), None, "0 goes alone, for it was judged");
    outbound.settle(Delivery { ticket: Ticket(0), outcome: Ok(()) }, later);
    assert_eq!(outbound.next_publication(later), Some(Ticket(1)));
    assert_eq!(outbound.next_publication(later), None, "1 failed too, and goes alone");
    outbound.settle(Delivery { ticket: Ticket(1), outcome: Ok(()) }, later);
    assert_eq!([Some(Ticket(2)), Some(Ticket(3))], [0, 1].map(|_| outbound.next_publication(later)));
    assert_eq!(outbound.lessons, Lessons::default(), "what is settled teaches nothing any more");
}
