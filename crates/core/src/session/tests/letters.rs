//! What becomes of rows that cannot be delivered, and of their keys, where the letters have a store of their own.

use super::*;

fn with_policy(poison: Policy) -> Settings {
    Settings { poison, ..Settings::default() }
}

fn parked() -> poison::Cause {
    poison::Cause::Parked
}

/// Why a row of [`Desk::bad_row`] is set aside.
fn is_row_fault(asked: &Asked, ticket: u64) -> bool {
    matches!(asked, Asked::SetAside(number, poison::Cause::Row(_)) if *number == ticket)
}

impl Desk {
    fn set_aside(&mut self, ticket: u64) -> &mut Self {
        self.session.set_aside(Ticket(ticket), true);
        self
    }

    fn trouble(&self) -> String {
        self.session.trouble().map(ToString::to_string).unwrap_or_default()
    }
}

#[test]
fn a_row_of_a_parked_key_is_set_aside_and_the_rows_of_other_keys_go_on() {
    let mut desk = Desk::at(start_with_a_letter(), Settings::default());
    desk.begin(0x2000).row_of_key(Some("1")).row_of_key(Some("2")).row_of_key(None).commit(0x2000, 0x2030);
    let expected = [Asked::Publish(1), Asked::Publish(2), Asked::SetAside(0, parked())];
    assert_eq!(desk.asked_besides(START), expected);
    desk.deliver(1).deliver(2);
    assert_eq!(desk.watermark(), START, "the letter is not durable");
    assert_eq!(desk.set_aside(0).watermark(), 0x2030);
}

#[test]
fn a_row_that_fails_alone_is_set_aside_and_those_that_failed_with_it_are_published() {
    let mut desk = Desk::with(Settings::default());
    desk.begin(0x2000).row_of_key(Some("1")).row_of_key(Some("2")).row_of_key(Some("3")).commit(0x2000, 0x2030);
    assert_eq!(desk.asked_besides(START), publications([0, 1, 2]));
    desk.fail(0, Class::Row).fail(1, Class::Row).fail(2, Class::Row);
    assert_eq!(desk.asked_besides(START), [Asked::Reset]);
    desk.reset_succeeds().wait(Duration::from_secs(1));
    assert_eq!(desk.asked_besides(START), publications([0]));
    assert_eq!(desk.deliver(0).asked_besides(START), publications([1]));
    assert_eq!(
        desk.fail(1, Class::Row).asked_besides(START),
        [Asked::Reset, Asked::SetAside(1, row_cause("it failed"))]
    );
    desk.set_aside(1).reset_succeeds().wait(Duration::from_secs(1));
    assert_eq!(desk.asked_besides(START), publications([2]));
    assert_eq!(desk.deliver(2).watermark(), 0x2030);
}

#[test]
fn nothing_waits_behind_a_row_without_a_key_or_where_letters_may_be_overtaken() {
    let mut desk = Desk::with(Settings::default());
    desk.begin(0x2000).row_of_key(None);
    assert_eq!(desk.next_asked(), Some(Asked::Publish(0)));
    desk.refuse(0, refused(Class::Row));
    assert_eq!(desk.next_asked(), Some(Asked::Publish(0)), "alone");
    desk.refuse(0, refused(Class::Row)).row_of_key(None);
    assert_eq!(desk.asked_besides(START), [Asked::Publish(1), Asked::SetAside(0, row_cause("refused"))]);

    let overtaking = Policy { on_bad_row: OnBadRow::DeadLetter, ..Policy::default() };
    let mut desk = Desk::at(start_with_a_letter(), with_policy(overtaking));
    assert_eq!(desk.transaction(0x2000, 1).asked_besides(START), publications([0]));
}

#[test]
fn a_row_that_is_set_aside_waits_for_those_before_it_and_one_that_is_parked_for_none() {
    let mut desk = Desk::at(start_with_a_letter(), Settings::default());
    desk.begin(0x2000).row_of_key(Some("2")).rows(1).bad_row("3").rows(1);
    assert_eq!(desk.asked_besides(START), [Asked::Publish(0), Asked::SetAside(1, parked())]);
    let asked = desk.set_aside(1).deliver(0).asked_besides(START);
    assert!(is_row_fault(&asked[0], 2), "{asked:?}");
    assert_eq!(asked[1..], [Asked::SetAside(3, parked())], "in the order of the log");
}

#[test]
fn the_flood_limit_counts_what_lies_there_for_a_reason_of_its_own_and_holds_the_next_such_row() {
    let mut desk = Desk::at(start_with_a_letter(), with_policy(Policy { flood_limit: 1, ..Policy::default() }));
    desk.begin(0x2000).rows(2).bad_row("3").row_of_key(Some("4")).commit(0x2000, 0x2030);
    let expected = [Asked::SetAside(0, parked()), Asked::SetAside(1, parked())];
    assert_eq!(desk.asked_besides(START), expected, "those that wait for another one do not count");
    assert!(desk.trouble().contains("dead_letter.flood_limit is 1"), "{}", desk.trouble());
    desk.set_aside(0).set_aside(1);
    assert_eq!(desk.wait(Duration::from_secs(10)).asked_besides(START), [], "for as long as it takes");

    desk.session.replay(marked(Request::Drop));
    assert_eq!(desk.asked_besides(START), [Asked::Conclude(LETTER.0, Conclusion::Dropped)]);
    desk.session.concluded(LETTER);
    let asked = desk.asked_besides(START);
    assert_eq!(asked[0], Asked::Publish(3), "{asked:?}");
    assert!(is_row_fault(&asked[1], 2), "{asked:?}");
    assert_eq!(desk.trouble(), "");
}

#[test]
fn a_store_that_cannot_tell_what_lies_there_keeps_no_row_from_being_set_aside() {
    let mut desk = Desk::at(start_with_a_letter(), Settings::default());
    desk.session.replay(marked(Request::Drop));
    assert_eq!(desk.asked_besides(START), [Asked::Conclude(LETTER.0, Conclusion::Dropped)]);
    desk.session.concluded(LETTER);
    assert_eq!(desk.asked_besides(START), [Asked::TakeInventory]);
    for ticket in 0..2 {
        desk.session.letters_failed("somebody changed a letter by hand", desk.now);
        desk.begin(0x2000 + 0x1000 * ticket).rows(1).commit(0x2000 + 0x1000 * ticket, 0x2030 + 0x1000 * ticket);
        let asked = desk.wait(Duration::from_secs(5)).asked_besides(START);
        assert_eq!(asked[..2], [Asked::SetAside(ticket, parked()), Asked::TakeInventory], "{asked:?}");
        desk.set_aside(ticket);
    }
}

#[test]
fn beyond_the_bytes_that_may_wait_for_a_letter_the_stream_is_held() {
    let mut desk = Desk::at(start_with_a_letter(), with_policy(Policy { parked_bytes: 1, ..Policy::default() }));
    desk.begin(0x2000).rows(2).row_of_key(Some("2"));
    assert_eq!(desk.asked_besides(START), [Asked::SetAside(0, parked())], "one may, however large it is");
    assert!(desk.trouble().contains("dead_letter.parked_bytes is 1"), "{}", desk.trouble());
    assert_eq!(desk.set_aside(0).asked_besides(START), []);
}

#[test]
fn a_key_is_let_go_once_an_inventory_knows_no_letter_of_it_and_not_on_a_count_alone() {
    let mut desk = Desk::at(start_with_a_letter(), Settings::default());
    desk.session.replay(marked(Request::Replay));
    assert_eq!(desk.asked_besides(START), [Asked::Describe(0)]);
    desk.session.described(0, &Description::default());
    assert_eq!(desk.asked_besides(START), publications([0]));
    assert_eq!(desk.deliver(0).asked_besides(START), [Asked::Conclude(LETTER.0, Conclusion::Sent)]);
    desk.session.concluded(LETTER);
    assert_eq!(desk.asked_besides(START), [Asked::TakeInventory]);
    assert_eq!(desk.session.parked_keys(), 1, "it may have letters that nobody counted");
    desk.session.inventoried(Inventory::default());
    assert_eq!(desk.session.parked_keys(), 0);
    assert_eq!(desk.transaction(0x2000, 1).asked_besides(START), publications([1]));
}

/// All that lies there of the key is under way, as letters 8 and 9 and tickets 3 and 4: it was set aside behind one that was sent.
fn leaving() -> Desk {
    let mut desk = Desk::at(start_with_a_letter(), Settings::default());
    assert_eq!(desk.transaction(0x2000, 1).asked_besides(START), [Asked::SetAside(0, parked())]);
    desk.set_aside(0).checkpoint(0x2030);
    desk.session.replay(marked(Request::Replay));
    let routed = |desk: &mut Desk, tickets: &[u64]| {
        assert_eq!(desk.asked_besides(0x2030), [Asked::Describe(0)]);
        desk.session.described(0, &Description::default());
        assert_eq!(desk.asked_besides(0x2030), publications(tickets.iter().copied()));
    };
    routed(&mut desk, &[1]);
    desk.transaction(0x3000, 1);
    assert_eq!(desk.asked_besides(0x2030), [Asked::SetAside(2, parked())], "it has only failed so far");
    desk.set_aside(2).deliver(1);
    assert_eq!(desk.asked_besides(0x2030), [Asked::Conclude(LETTER.0, Conclusion::Sent)]);
    desk.session.concluded(LETTER);
    desk.session.replay(followers(&[8, 9]));
    routed(&mut desk, &[3, 4]);
    desk
}

impl Desk {
    /// What is settled is checkpointed.
    fn checkpoint(&mut self, position: u64) {
        self.wait(Duration::from_secs(1));
        assert_eq!(self.asked_besides(START), [Asked::Checkpoint(position)]);
        self.checkpoint_succeeds();
    }
}

#[test]
fn the_next_row_of_a_key_whose_letters_all_go_waits_until_it_is_let_go() {
    let mut desk = leaving();
    desk.transaction(0x4000, 1).begin(0x5000).row_of_key(Some("2"));
    let besides = |desk: &mut Desk| {
        let of_row = |asked: &Asked| !matches!(asked, Asked::Confirm(_) | Asked::Checkpoint(_));
        desk.asked().into_iter().filter(of_row).collect::<Vec<_>>()
    };
    assert_eq!(besides(&mut desk), [], "and the stream with it");
    let ended = [8, 9].map(|id| Asked::Conclude(id, Conclusion::Sent));
    assert_eq!(besides(desk.deliver(3).deliver(4)), ended);
    desk.session.concluded(LetterId(8));
    assert_eq!(besides(&mut desk), []);
    desk.session.concluded(LetterId(9));
    assert_eq!(besides(&mut desk), [Asked::TakeInventory]);
    desk.session.inventoried(Inventory::default());
    assert_eq!(besides(&mut desk), publications([5, 6]));
}

/// What happens while a row waits for a letter of its key.
type Event = (&'static str, fn(&mut Desk));

#[test]
fn a_row_waits_for_no_letter_that_comes_back_nor_for_long_nor_for_a_store_that_failed_nor_where_the_session_ends() {
    let cases: [Event; 4] = [
        ("it comes back", |desk| {
            desk.session.outbound.letters.give_back(LetterId(8), "still bad".to_owned());
            let asked = desk.asked();
            assert!(asked.contains(&Asked::Conclude(8, Conclusion::Returned("still bad".to_owned()))), "{asked:?}");
            desk.session.concluded(LetterId(8));
        }),
        ("time passes", |desk| {
            desk.wait(Duration::from_secs(2));
        }),
        ("the store fails", |desk| {
            desk.session.letters_failed("it is away", desk.now);
            desk.wait(Duration::from_secs(1));
        }),
        ("a stop", |desk| {
            desk.stop();
        }),
    ];
    for (what, happens) in cases {
        let mut desk = leaving();
        desk.transaction(0x4000, 1);
        assert!(!desk.asked().contains(&Asked::SetAside(5, parked())), "{what}");
        assert!(desk.session.deadline(desk.now) <= desk.now.after(Duration::from_secs(2)), "{what}");
        happens(&mut desk);
        let asked = desk.asked();
        assert!(asked.contains(&Asked::SetAside(5, parked())), "{what}: {asked:?}");
    }
}

#[test]
fn a_store_that_failed_is_asked_again_in_order_after_a_wait_and_what_it_answers_late_counts_for_nothing() {
    let mut desk = Desk::at(start_with_a_letter(), Settings::default());
    let expected = [Asked::SetAside(0, parked()), Asked::SetAside(1, parked())];
    assert_eq!(desk.transaction(0x2000, 2).asked_besides(START), expected);
    desk.session.letters_failed("it is away", desk.now);
    assert_eq!(desk.asked_besides(START), [], "not at once");
    assert!(desk.trouble().contains("it is away"), "{}", desk.trouble());
    assert_eq!(desk.set_aside(0).set_aside(1).watermark(), START);
    assert_eq!(desk.wait(Duration::from_secs(1)).asked_besides(START), expected);
    assert_eq!(desk.set_aside(0).set_aside(1).watermark(), 0x2030);
    assert_eq!(desk.trouble(), "");
}

#[test]
fn a_row_whose_letter_lay_there_already_is_counted_until_an_inventory_tells() {
    let mut desk = Desk::at(start_with_a_letter(), Settings::default());
    desk.transaction(0x2000, 1).asked();
    desk.session.set_aside(Ticket(0), false);
    assert_eq!(desk.session.open_letters(), 2, "too many park for too long, too few break an order");
    assert!(desk.asked_besides(START).contains(&Asked::TakeInventory));
    desk.session.inventoried(start_with_a_letter().inventory);
    assert_eq!(desk.session.open_letters(), 1);
}

/// The session begins where rows come again of which the second, and what is behind it, was set aside.
fn start_before_the_letter(of_a_log: impl FnOnce(&mut Place)) -> Start {
    let mut start = start_with_a_letter();
    let first = &mut start.inventory.parked[0].first;
    *first = Place { commit_lsn: Lsn::new(0x2000), ordinal: 1, ..*first };
    of_a_log(first);
    start
}

#[test]
fn what_comes_again_from_before_the_first_letter_of_its_key_is_published_and_not_set_aside_behind_it() {
    let mut desk = Desk::at(start_before_the_letter(|_| {}), Settings::default());
    desk.transaction(0x1800, 1).transaction(0x2000, 3);
    let expected = [Asked::Publish(0), Asked::Publish(1), Asked::SetAside(2, parked()), Asked::SetAside(3, parked())];
    assert_eq!(desk.asked_besides(START), expected);
}

#[test]
fn a_row_that_is_later_by_the_clock_waits_for_the_letters_of_another_log_whatever_its_place() {
    let of_another_log = |first: &mut Place| first.commit_time = Timestamp::from_postgres_micros(-1);
    let mut desk = Desk::at(start_before_the_letter(of_another_log), Settings::default());
    assert_eq!(desk.transaction(0x1800, 1).asked_besides(START), [Asked::SetAside(0, parked())]);
}

#[test]
fn a_row_that_comes_again_and_cannot_be_published_any_more_keeps_those_of_its_key_behind_it() {
    let mut desk = Desk::at(start_before_the_letter(|_| {}), Settings::default());
    desk.begin(0x1800).row_of_key(Some("1"));
    assert_eq!(desk.next_asked(), Some(Asked::Publish(0)));
    desk.refuse(0, refused(Class::Row));
    assert_eq!(desk.next_asked(), Some(Asked::Publish(0)), "alone");
    desk.refuse(0, refused(Class::Row)).row_of_key(Some("1"));
    assert_eq!(desk.asked_besides(START), [Asked::SetAside(0, row_cause("refused")), Asked::SetAside(1, parked())]);
}

#[test]
fn a_letter_of_which_its_store_knows_why_it_cannot_be_sent_comes_back_and_can_be_dropped() {
    for (request, expected) in [
        (Request::Replay, Conclusion::Returned("it is damaged".to_owned())),
        (Request::ReplayChanged, Conclusion::Returned("it is damaged".to_owned())),
        (Request::Drop, Conclusion::Dropped),
    ] {
        let mut desk = Desk::at(start_with_a_letter(), Settings::default());
        let damaged =
            marked(request).into_iter().map(|one| Marked { fetched: Some(Err("it is damaged".to_owned())), ..one });
        desk.session.replay(damaged.collect());
        let concluded = Asked::Conclude(LETTER.0, expected);
        // Under which key it was counted, one that is given up may not tell any more.
        let is_dropped = matches!(request, Request::Drop);
        let asked = if is_dropped { vec![concluded, Asked::TakeInventory] } else { vec![concluded] };
        assert_eq!(desk.asked_besides(START), asked);
    }
}

#[test]
fn a_key_is_let_go_when_its_last_letter_was_given_up_and_did_not_tell_its_key_any_more() {
    let mut desk = Desk::at(start_with_a_letter(), Settings::default());
    let keyless = |one: Marked| Marked {
        fetched: Some(Err("it is damaged".to_owned())),
        letter: DeadLetter { parking_key: None, ..one.letter },
        ..one
    };
    desk.session.replay(marked(Request::Drop).into_iter().map(keyless).collect());
    assert_eq!(desk.asked_besides(START), [Asked::Conclude(LETTER.0, Conclusion::Dropped), Asked::TakeInventory]);
    desk.session.concluded(LETTER);
    assert_eq!(desk.session.parked_keys(), 1, "an inventory has to tell");
    desk.session.inventoried(Inventory::default());
    assert_eq!(desk.session.parked_keys(), 0);
    assert_eq!(desk.transaction(0x2000, 1).asked_besides(START), publications([0]));
}

#[test]
fn behind_a_row_that_is_held_letters_may_fail_as_often_as_they_are_marked() {
    let held = with_policy(Policy { flood_limit: 1, ..Policy::default() });
    let settings = Settings { max_records: 4, ..held };
    let places = settings.max_records * SPAN + LETTER_SPAN;
    let mut desk = Desk::at(start_with_a_letter(), settings);
    desk.begin(0x2000).bad_row("3");
    assert_eq!(desk.asked_besides(START), []);
    for ticket in 1..places as u64 + 10 {
        desk.session.replay(marked(Request::Replay));
        assert_eq!(desk.next_asked(), Some(Asked::Describe(0)), "{ticket}");
        desk.session.described(0, &Description::default());
        let returned = Asked::Conclude(LETTER.0, Conclusion::Returned("refused".to_owned()));
        let mut asked = desk.next_asked();
        while asked == Some(Asked::Publish(ticket)) {
            asked = desk.refuse(ticket, refused(Class::Row)).next_asked();
        }
        assert_eq!(asked, Some(returned), "{ticket}");
        desk.session.concluded(LETTER);
    }
}
