//! The books, entry by entry and against a simple model.

use std::sync::Arc;

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::position::Timeline;
use crate::record::Headers;

fn record(ordinal: u64, length: usize) -> Item {
    let record = Record {
        identity: Identity { timeline: Timeline(1), commit_lsn: Lsn::new(1), ordinal },
        topic: Arc::from("topic"),
        key: None,
        value: Some(Bytes::from(vec![0; length])),
        headers: Headers::new(),
        timestamp_ms: 0,
        is_dated_by_row: false,
        partition: None,
    };
    Item { identity: record.identity, made: Ok(record), origin: Origin::Log(LoggedRow::default()) }
}

fn letter() -> Item {
    Item { origin: Origin::Letter(LetterId(7)), ..record(99, 10) }
}

/// Hands the next one over.
fn publish_next(ledger: &mut Ledger) -> Option<Ticket> {
    let ticket = ledger.next_waiting()?;
    ledger.hand_over(ticket);
    Some(ticket)
}

fn ledger() -> Ledger {
    Ledger::new(Ticket(7), Lsn::new(100), None)
}

/// Hands everything over that waits.
fn publish_all(ledger: &mut Ledger) -> Vec<u64> {
    std::iter::from_fn(|| publish_next(ledger)).map(|ticket| ticket.0).collect()
}

#[test]
fn tickets_rise_from_the_first_and_none_is_used_again() {
    let mut ledger = ledger();
    assert_eq!(ledger.issue(record(0, 0)), Ticket(7));
    publish_all(&mut ledger);
    ledger.settle(Ticket(7));
    assert_eq!((ledger.issue(record(1, 0)), ledger.next_ticket()), (Ticket(8), Ticket(9)));
}

#[test]
fn what_is_owed_is_weighed_until_it_is_settled() {
    let mut ledger = ledger();
    let weight = record(0, 1000).weight();
    ledger.issue(record(0, 1000));
    ledger.issue(record(1, 1000));
    assert_eq!(ledger.owed(), Load { records: 2, bytes: 2 * weight });
    publish_all(&mut ledger);
    assert_eq!((ledger.out(), ledger.has_waiting()), (2, false));
    ledger.settle(Ticket(8));
    assert_eq!((ledger.owed(), ledger.span()), (Load { records: 1, bytes: weight }, 2), "8 waits for 7");
    ledger.settle(Ticket(7));
    assert_eq!((ledger.owed(), ledger.span(), ledger.out()), (Load::default(), 0, 0));
}

#[test]
fn a_report_counts_once_and_only_for_a_record_that_is_out() {
    let mut ledger = ledger();
    ledger.issue(record(0, 0));
    for stale in [Ticket(0), Ticket(6), Ticket(7), Ticket(8), Ticket(u64::MAX)] {
        assert_eq!((ledger.settle(stale), ledger.take_back(stale)), (Report::Stale, Report::Stale), "{stale:?}");
    }
    publish_all(&mut ledger);
    assert_eq!(ledger.take_back(Ticket(7)), Report::Answered);
    assert_eq!(ledger.settle(Ticket(7)), Report::Stale, "it waits");
    publish_all(&mut ledger);
    assert_eq!(ledger.settle(Ticket(7)), Report::Answered);
    assert_eq!((ledger.settle(Ticket(7)), ledger.take_back(Ticket(7))), (Report::Stale, Report::Stale));
}

#[test]
fn what_comes_back_leaves_again_first_and_in_order() {
    let mut ledger = ledger();
    for ordinal in 0..5 {
        ledger.issue(record(ordinal, 0));
    }
    assert_eq!(publish_all(&mut ledger), [7, 8, 9, 10, 11]);
    ledger.settle(Ticket(9));
    for ticket in [10, 8, 11] {
        ledger.take_back(Ticket(ticket));
    }
    ledger.issue(record(5, 0));
    assert_eq!(publish_all(&mut ledger), [8, 10, 11, 12]);
    assert_eq!(ledger.record(Ticket(10)).map(|record| record.identity.ordinal), Some(3));
    assert!(ledger.record(Ticket(9)).is_none());
}

#[test]
fn a_record_that_is_out_stays_out_when_one_before_it_leaves_again() {
    let mut ledger = ledger();
    ledger.issue(record(0, 0));
    ledger.issue(record(1, 0));
    publish_all(&mut ledger);
    ledger.take_back(Ticket(7));
    assert_eq!(publish_all(&mut ledger), [7]);
    assert!(ledger.is_out(Ticket(8)));
    assert_eq!(ledger.take_back(Ticket(8)), Report::Answered);
    assert_eq!(publish_all(&mut ledger), [8]);
}

#[test]
fn it_is_between_transactions_where_one_ends_and_at_rest_once_all_of_it_is_settled() {
    let mut ledger = ledger();
    let stands = |ledger: &Ledger| (ledger.is_between_transactions(), ledger.is_at_rest());
    assert_eq!(stands(&ledger), (true, true));
    for end in [120, 130] {
        ledger.issue(record(0, 0));
        ledger.issue(record(1, 0));
        ledger.close_transaction(Lsn::new(end), Timestamp::default());
        ledger.issue(letter());
    }
    let expected = [(false, false), (true, false), (true, false), (false, false), (true, false), (true, false)];
    let seen = expected.map(|_| {
        publish_next(&mut ledger);
        stands(&ledger)
    });
    assert_eq!(seen, expected);
    let expected = [false, false, false, false, false, true];
    let seen = [7, 8, 9, 10, 12, 11].map(|ticket| {
        ledger.settle(Ticket(ticket));
        ledger.is_at_rest()
    });
    assert_eq!(seen, expected);
}

#[test]
fn a_letter_has_its_place_and_is_not_owed() {
    let mut ledger = ledger();
    ledger.issue(letter());
    ledger.issue(record(0, 0));
    ledger.close_transaction(Lsn::new(120), Timestamp::default());
    assert_eq!((ledger.owed().records, ledger.letters()), (1, 1));
    assert_eq!(publish_all(&mut ledger), [7, 8]);
    ledger.settle(Ticket(8));
    assert_eq!((ledger.watermark().position, ledger.watermark().events), (Lsn::new(120), 1), "7 holds nothing up");
    assert_eq!((ledger.first_owed(), ledger.span()), (None, 2));
    ledger.settle(Ticket(7));
    assert_eq!((ledger.letters(), ledger.span()), (0, 0));
}

#[test]
fn a_letter_passes_what_waits_and_may_be_given_up() {
    let mut ledger = ledger();
    ledger.issue(record(0, 0));
    assert_eq!(ledger.next_letter(), None);
    ledger.issue(letter());
    ledger.issue(letter());
    assert_eq!((ledger.next_waiting(), ledger.next_letter()), (Some(Ticket(7)), Some(Ticket(8))));
    ledger.hand_over(Ticket(8));
    assert_eq!(ledger.next_letter(), Some(Ticket(9)));
    ledger.give_up_letter(Ticket(9));
    ledger.give_up_letter(Ticket(7));
    assert_eq!((ledger.next_letter(), ledger.letters(), ledger.owed().records), (None, 1, 1), "7 is no letter");
}

#[test]
fn letters_that_have_ended_keep_no_place_behind_a_row_that_waits_and_their_numbers_are_not_used_again() {
    let mut ledger = ledger();
    ledger.issue(record(0, 0));
    ledger.issue(letter());
    ledger.issue(letter());
    ledger.hand_over(Ticket(8));
    ledger.give_up_letter(Ticket(9));
    assert_eq!((ledger.settle(Ticket(8)), ledger.span()), (Report::Answered, 1));
    assert_eq!((ledger.settle(Ticket(8)), ledger.take_back(Ticket(9))), (Report::Stale, Report::Stale));
    assert_eq!(ledger.issue(record(1, 0)), Ticket(10));
    ledger.close_transaction(Lsn::new(120), Timestamp::default());
    assert_eq!(publish_all(&mut ledger), [7, 10]);
    assert_eq!(ledger.settle(Ticket(10)), Report::Answered);
    assert_eq!(ledger.watermark().position, Lsn::new(100));
    ledger.settle(Ticket(7));
    assert_eq!((ledger.watermark().position, ledger.next_ticket(), ledger.span()), (Lsn::new(120), Ticket(11), 0));
}

#[test]
fn a_row_that_is_put_aside_is_not_published_and_settles_once() {
    let mut ledger = ledger();
    ledger.issue(record(0, 0));
    ledger.issue(record(1, 0));
    ledger.close_transaction(Lsn::new(120), Timestamp::default());
    assert_eq!(ledger.set_aside(Ticket(7)), Report::Stale, "it waits");
    ledger.put_aside(Ticket(7));
    assert_eq!(publish_all(&mut ledger), [8]);
    assert_eq!((ledger.settle(Ticket(7)), ledger.take_back(Ticket(7))), (Report::Stale, Report::Stale));
    assert_eq!(ledger.first_undecided(None, Ticket(9)), Some(Ticket(8)));
    ledger.settle(Ticket(8));
    assert_eq!((ledger.first_undecided(None, Ticket(9)), ledger.watermark().position), (None, Lsn::new(100)));
    assert_eq!((ledger.set_aside(Ticket(7)), ledger.set_aside(Ticket(7))), (Report::Answered, Report::Stale));
    assert_eq!(ledger.watermark().position, Lsn::new(120));
}

#[test]
fn an_empty_transaction_after_what_is_owed_waits_for_it() {
    let mut ledger = ledger();
    ledger.close_transaction(Lsn::new(110), Timestamp::default());
    assert_eq!(ledger.watermark().position, Lsn::new(110));
    ledger.issue(record(0, 0));
    ledger.close_transaction(Lsn::new(120), Timestamp::default());
    ledger.close_transaction(Lsn::new(130), Timestamp::default());
    assert_eq!(ledger.watermark().position, Lsn::new(110));
    publish_all(&mut ledger);
    ledger.settle(Ticket(7));
    assert_eq!(ledger.watermark().position, Lsn::new(130));
}

#[test]
fn idle_progress_counts_no_events() {
    let mut ledger = ledger();
    ledger.rest_at(Lsn::new(500));
    ledger.rest_at(Lsn::new(400));
    assert_eq!(ledger.watermark(), Watermark { position: Lsn::new(500), commit_time: None, events: 0 });
}

/// One thing that can happen to a ledger.
#[derive(Debug, Clone)]
enum Step {
    Issue,
    Close,
    Rest,
    Publish,
    Settle(u64),
    TakeBack(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        Just(Step::Issue),
        Just(Step::Close),
        Just(Step::Rest),
        Just(Step::Publish),
        (0_u64..20).prop_map(Step::Settle),
        (0_u64..20).prop_map(Step::TakeBack),
    ]
}

proptest! {
    /// The ledger against the slowest and plainest one there is: a list of every record ever, and of every boundary.
    #[test]
    fn the_watermark_is_the_last_rest_before_the_first_record_that_is_owed(
        steps in proptest::collection::vec(step(), 0..200),
    ) {
        let mut ledger = ledger();
        let (mut is_settled, mut is_out) = (Vec::new(), Vec::new());
        // Each boundary with the number of records before it.
        let mut boundaries = vec![(0, Lsn::new(100))];
        let mut end = 100;
        for step in steps {
            end += 10;
            match step {
                Step::Issue => {
                    ledger.issue(record(is_settled.len() as u64, 0));
                    is_settled.push(false);
                    is_out.push(false);
                }
                Step::Close => {
                    ledger.close_transaction(Lsn::new(end), Timestamp::default());
                    boundaries.push((is_settled.len(), Lsn::new(end)));
                }
                Step::Rest => {
                    ledger.rest_at(Lsn::new(end));
                    if is_settled.iter().all(|settled| *settled) {
                        boundaries.push((is_settled.len(), Lsn::new(end)));
                    }
                }
                Step::Publish => {
                    let next = (0..is_out.len()).find(|place| !is_out[*place] && !is_settled[*place]);
                    prop_assert_eq!(publish_next(&mut ledger), next.map(|place| Ticket(place as u64 + 7)));
                    next.into_iter().for_each(|place| is_out[place] = true);
                }
                Step::Settle(number) | Step::TakeBack(number) => {
                    let place = usize::try_from(number).unwrap();
                    let was_out = is_out.get(place).copied().unwrap_or(false);
                    let settles = matches!(step, Step::Settle(_));
                    let ticket = Ticket(number + 7);
                    let report = if settles { ledger.settle(ticket) } else { ledger.take_back(ticket) };
                    prop_assert_eq!(report == Report::Answered, was_out);
                    if was_out {
                        is_out[place] = false;
                        is_settled[place] = settles;
                    }
                }
            }
            let prefix = is_settled.iter().take_while(|settled| **settled).count();
            let rest = boundaries.iter().filter(|(before, _)| *before <= prefix).map(|(_, end)| *end).max();
            prop_assert_eq!(Some(ledger.watermark().position), rest);
            prop_assert_eq!(ledger.owed().records, is_settled.iter().filter(|settled| !**settled).count());
            prop_assert_eq!(ledger.out(), is_out.iter().filter(|out| **out).count());
            let first = ledger.first_owed().map(|identity| identity.ordinal);
            prop_assert_eq!(first, (prefix < is_settled.len()).then_some(prefix as u64));
        }
    }
}
