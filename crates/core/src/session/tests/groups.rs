//! What becomes of rows that cannot be delivered, and of their letters, where records, letters and position are committed as one.

use super::*;

fn settings() -> Settings {
    let interval = Duration::from_secs(60);
    let grouping = Grouping { interval, max_records: 1000, max_bytes: 1 << 20, timeout: Duration::from_secs(60) };
    Settings { grouping: Some(grouping), ..Settings::default() }
}

fn with_flood_limit(flood_limit: u64) -> Settings {
    Settings { poison: Policy { flood_limit, ..Policy::default() }, ..settings() }
}

impl Desk {
    /// All that it asks for now, by a sink that takes letters.
    fn asked_and_taken(&mut self) -> Vec<Asked> {
        let mut all = Vec::new();
        while let Some(asked) = self.next_asked() {
            match &asked {
                Asked::Confirm(_) => continue,
                // Of a letter. Its row cannot be routed any more, and its record is sent.
                Asked::Describe(0) => {
                    self.session.described(0, &Description::default());
                    continue;
                }
                Asked::SetAside(ticket, _) => self.session.set_aside(Ticket(*ticket), true),
                Asked::Conclude(letter, _) => self.session.concluded(LetterId(*letter)),
                _ => {}
            }
            all.push(asked);
        }
        all
    }

    fn commit_succeeds(&mut self) -> &mut Self {
        self.session.committed(Ok(()), self.now);
        self
    }

    fn mark(&mut self, request: Request) -> &mut Self {
        self.session.replay(marked(request));
        self
    }

    /// The letter that was marked is sent, refused, sent alone, refused, and given back with the next commit.
    #[track_caller]
    fn first_letter_comes_back(&mut self) {
        assert_eq!(self.next_asked(), Some(Asked::Describe(0)));
        self.session.described(0, &Description::default());
        for _ in 0..2 {
            assert_eq!(self.next_asked(), Some(Asked::Publish(0)));
            self.refuse(0, refused(Class::Row));
        }
        let returned = Asked::Conclude(LETTER.0, Conclusion::Returned("refused".to_owned()));
        assert_eq!(self.asked_and_taken(), [returned, Asked::Commit(START)]);
    }

    fn letter_refused(&mut self, refusal: Refusal) -> &mut Self {
        self.session.letter_refused(refusal, self.now);
        self
    }
}

fn sent() -> Asked {
    Asked::Conclude(LETTER.0, Conclusion::Sent)
}

#[test]
fn a_row_that_fails_alone_takes_its_group_with_it_and_is_set_aside_by_the_next_session_without_being_sent() {
    let mut desk = Desk::with(settings());
    desk.transaction(0x2000, 2).transaction(0x3000, 1).asked();
    let end = desk.deliver(0).fail(1, Class::Row).end();
    assert!(matches!(end.cause, Cause::Aborted(Some(identity), _) if identity.ordinal == 1), "{end:?}");
    assert_eq!((end.position, end.needs_reset), (Lsn::new(START), true));

    let mut second = desk.next(&end, 1);
    assert_eq!(second.transaction(0x2000, 2).transaction(0x3000, 1).asked(), publications([3]), "a part by itself");
    assert_eq!(second.deliver(3).asked(), publications([4]));
    let end = second.fail(4, Class::Row).end();
    assert!(matches!(end.cause, Cause::Aborted(..)), "{end:?}");

    let mut third = second.next(&end, 1);
    let judged = Asked::SetAside(7, row_cause("it failed"));
    assert_eq!(third.transaction(0x2000, 2).asked_and_taken(), [Asked::Publish(6), judged]);
    third.deliver(6).transaction(0x3000, 1);
    let parked = Asked::SetAside(8, poison::Cause::Parked);
    assert_eq!(third.asked_and_taken(), [parked, Asked::Commit(0x3030)], "the row behind it is of its key");
    third.commit_succeeds().lose_source();
    assert_eq!(*third.end().lessons, Lessons::default(), "what is committed teaches nothing any more");
}

#[test]
fn of_a_large_transaction_only_the_rows_that_failed_go_alone_and_those_around_them_flow() {
    let mut desk = Desk::with(settings());
    assert_eq!(desk.transaction(0x2000, 100).asked(), publications(0..100));
    for ticket in 0..96 {
        desk.deliver(ticket);
    }
    let failures = [(96, Class::Row), (97, Class::Row), (98, Class::Withdrawn), (99, Class::Withdrawn)];
    let end = failures.iter().fold(&mut desk, |desk, (ticket, class)| desk.fail(*ticket, *class)).end();

    let mut second = desk.next(&end, 1);
    assert_eq!(second.transaction(0x2000, 100).asked(), publications(100..196), "the sink had those");
    for ticket in 100..196 {
        second.deliver(ticket);
    }
    assert_eq!(second.asked(), publications([196]), "alone");
    assert_eq!(second.deliver(196).asked(), publications([197]), "alone");
    assert_eq!(second.deliver(197).asked(), publications([198, 199]), "they were innocent");
}

#[test]
fn rows_of_a_batch_that_failed_go_in_parts_and_what_lies_before_and_behind_them_flows() {
    let mut desk = Desk::with(settings());
    assert_eq!(desk.transaction(0x2000, 12).asked(), publications(0..12));
    // The one in the midst of them is of another partition.
    for ticket in [0, 1, 2, 5] {
        desk.deliver(ticket);
    }
    for ticket in [3, 4, 6, 7, 8, 9] {
        desk.fail(ticket, Class::Row);
    }
    let end = desk.end();

    let mut second = desk.next(&end, 1);
    assert_eq!(second.transaction(0x2000, 12).asked(), publications(12..15), "all before it");
    second.deliver(12).deliver(13).deliver(14);
    assert_eq!(second.asked(), publications([15, 16]), "a third of it");
    second.deliver(15).deliver(16);
    assert_eq!(second.asked(), publications([17]), "of none of them");
    assert_eq!(second.deliver(17).asked(), publications([18, 19]));
    second.fail(18, Class::Row).fail(19, Class::Row);
    let end = second.end();

    let mut third = second.next(&end, 1);
    third.transaction(0x2000, 12).asked();
    for ticket in 24..30 {
        third.deliver(ticket).asked();
    }
    let end = third.fail(30, Class::Row).end();
    let row = |ordinal| Identity { timeline: Timeline(1), commit_lsn: Lsn::new(0x2000), ordinal };
    assert_eq!(end.lessons.judgement(row(6)), Some(&row_cause("it failed")), "{end:?}");
}

#[test]
fn a_sink_that_was_away_teaches_nothing_so_that_all_of_a_large_transaction_flows_again() {
    for class in [Class::Sink, Class::Withdrawn] {
        let mut desk = Desk::with(settings());
        desk.transaction(0x2000, 6).asked();
        for ticket in 0..6 {
            desk.fail(ticket, class);
        }
        let end = desk.end();
        assert_eq!(*end.lessons, Lessons::default());
        assert_eq!(desk.next(&end, 1).transaction(0x2000, 6).asked(), publications(6..12), "{class:?}");
    }
}

#[test]
fn a_row_that_is_refused_at_once_while_alone_is_set_aside_in_the_open_group() {
    let mut desk = Desk::with(settings());
    desk.transaction(0x2000, 1);
    for _ in 0..2 {
        assert_eq!(desk.next_asked(), Some(Asked::Publish(0)));
        desk.refuse(0, refused(Class::Row));
    }
    assert_eq!(desk.asked_and_taken(), [Asked::SetAside(0, row_cause("refused")), Asked::Commit(0x2030)]);
}

#[test]
fn letters_alone_are_committed_where_the_position_has_not_moved() {
    let mut desk = Desk::at(start_with_a_letter(), settings());
    assert!(desk.session.wants_marked());
    assert_eq!(desk.mark(Request::Replay).asked_and_taken(), publications([0]));
    assert_eq!(desk.deliver(0).asked_and_taken(), [sent(), Asked::Commit(START)]);
    desk.commit_succeeds();
    assert_eq!(desk.asked_and_taken(), []);
    assert_eq!((desk.session.open_letters(), desk.session.parked_keys()), (0, 0), "what lies there is known exactly");
    assert_eq!(desk.transaction(0x2000, 1).asked_and_taken(), publications([1]), "its key is let go");
}

#[test]
fn a_row_behind_the_last_letter_of_its_key_waits_for_it_and_goes_in_the_same_group() {
    let mut desk = Desk::at(start_with_a_letter(), settings());
    assert_eq!(desk.mark(Request::Replay).asked_and_taken(), publications([0]));
    desk.begin(0x2000).row_of_key(Some("2")).row_of_key(Some("1")).row_of_key(Some("2"));
    assert_eq!(desk.asked_and_taken(), publications([1]), "the letter is awaited");
    desk.commit(0x2000, 0x2030).deliver(1);
    assert_eq!(desk.asked_and_taken(), [], "which is with the sink");
    assert_eq!(desk.deliver(0).asked_and_taken(), [sent(), Asked::Publish(2), Asked::Publish(3)]);
    assert_eq!(desk.deliver(2).deliver(3).asked_and_taken(), [Asked::Commit(0x2030)]);
    assert_eq!(desk.commit_succeeds().session.parked_keys(), 0);
}

#[test]
fn letters_that_only_a_commit_brings_to_light_are_waited_for_between_transactions_alone() {
    let mut desk = Desk::at(start_with_a_letter(), settings());
    let parked = |ticket| Asked::SetAside(ticket, poison::Cause::Parked);
    desk.begin(0x2000).rows(1);
    assert_eq!(desk.asked_and_taken(), [parked(0)]);
    assert_eq!(desk.mark(Request::Replay).asked_and_taken(), publications([1]));
    desk.rows(1);
    assert_eq!(desk.asked_and_taken(), [parked(2)], "it is of the transaction that is in the group");
    desk.commit(0x2000, 0x2030).transaction(0x3000, 1);
    assert_eq!(desk.deliver(1).asked_and_taken(), [sent(), Asked::Commit(0x2030)], "what is held keeps nobody waiting");
    assert_eq!(desk.commit_succeeds().asked_and_taken(), []);
    desk.session.replay(followers(&[8, 9]));
    assert_eq!(desk.asked_and_taken(), publications([4, 5]));
    let ended = [8, 9].map(|id| Asked::Conclude(id, Conclusion::Sent));
    let [first, second] = ended;
    assert_eq!(desk.deliver(4).deliver(5).asked_and_taken(), [first, second, Asked::Publish(3)]);
    assert_eq!(desk.deliver(3).asked_and_taken(), [Asked::Commit(0x3030)]);
}

#[test]
fn a_row_whose_letter_is_there_already_is_not_counted_again_so_that_its_key_is_let_go_with_that_letter() {
    let mut desk = Desk::at(start_with_a_letter(), settings());
    desk.transaction(0x2000, 1);
    assert_eq!(desk.next_asked(), Some(Asked::SetAside(0, poison::Cause::Parked)));
    desk.session.set_aside(Ticket(0), false);
    assert_eq!(desk.asked_and_taken(), [Asked::Commit(0x2030)]);
    assert_eq!((desk.commit_succeeds().session.open_letters(), desk.session.parked_keys()), (1, 1));
    assert_eq!(desk.mark(Request::Drop).asked_and_taken().len(), 2);
    assert_eq!((desk.commit_succeeds().session.open_letters(), desk.session.parked_keys()), (0, 0));
    assert_eq!(desk.transaction(0x3000, 1).asked_and_taken(), publications([1]), "nothing lies there any more");
}

#[test]
fn a_letter_that_has_ended_is_not_taken_up_again_from_a_store_that_is_behind() {
    for request in [Request::Replay, Request::Drop] {
        let mut desk = Desk::at(start_with_a_letter(), settings());
        desk.mark(request).asked_and_taken();
        desk.deliver(0).asked_and_taken();
        assert_eq!(desk.mark(Request::Replay).asked_and_taken(), [], "before the commit");
        desk.commit_succeeds();
        assert_eq!(desk.mark(Request::Replay).asked_and_taken(), [], "and after it");
    }
}

#[test]
fn of_letters_that_have_ended_those_are_kept_in_mind_that_a_store_may_tell_of_still() {
    let inventory = Inventory { letters: 9, roots: 9, parked: Vec::new(), ..start_with_a_letter().inventory };
    let mut desk = Desk::at(Start { inventory, ..start() }, settings());
    let from = |first: i64, count: i64| {
        let ids = (first..first + count).map(LetterId);
        ids.flat_map(|id| marked(Request::Drop).into_iter().map(move |one| Marked { id, ..one })).collect()
    };
    for (told, asked, remembered) in [
        (from(1, 4), 5, 4),
        // It is where it was, and later two steps further.
        (from(1, 2), 0, 4),
        (from(3, 3), 2, 3),
        (from(9, 1), 2, 1),
        (Vec::new(), 0, 0),
    ] {
        desk.session.replay(told);
        assert_eq!(desk.asked_and_taken().len(), asked, "how they ended, and a commit");
        assert_eq!(desk.commit_succeeds().session.outbound.letters.remembered(), remembered);
    }
}

#[test]
fn a_letter_that_came_back_may_be_marked_again_once_that_is_committed() {
    let mut desk = Desk::at(start_with_a_letter(), settings());
    desk.mark(Request::Replay).first_letter_comes_back();
    assert_eq!(desk.mark(Request::Replay).asked_and_taken(), [], "the mark is the old one");
    desk.commit_succeeds();
    assert_eq!(desk.mark(Request::Replay).asked_and_taken(), publications([1]));
}

/// The letter as a store tells of it that is behind: it waits for another one.
fn marked_as_parked(request: Request) -> Vec<Marked> {
    let parked = |one: Marked| Marked { letter: DeadLetter { cause: poison::Cause::Parked, ..one.letter }, ..one };
    marked(request).into_iter().map(parked).collect()
}

#[test]
fn a_letter_that_came_back_lies_there_for_a_reason_of_its_own_though_a_store_that_is_behind_does_not_know() {
    let inventory = Inventory { roots: 0, ..start_with_a_letter().inventory };
    let mut desk = Desk::at(Start { inventory, ..start() }, settings());
    desk.session.replay(marked_as_parked(Request::Replay));
    assert_eq!(desk.next_asked(), Some(Asked::Describe(0)));
    desk.session.described(0, &Description::default());
    for _ in 0..2 {
        assert_eq!(desk.next_asked(), Some(Asked::Publish(0)));
        desk.refuse(0, refused(Class::Row));
    }
    assert_eq!(desk.asked_and_taken().len(), 2, "it came back, and that is committed");
    assert_eq!(desk.commit_succeeds().session.outbound.letters.counted(), [1, 1, 0]);
    desk.session.replay(marked_as_parked(Request::Drop));
    let dropped = Asked::Conclude(LETTER.0, Conclusion::Dropped);
    assert_eq!(desk.asked_and_taken(), [dropped, Asked::Commit(START)]);
    assert_eq!(desk.commit_succeeds().session.outbound.letters.counted(), [0, 0, 0]);
}

#[test]
fn a_letter_of_a_transaction_that_is_held_and_comes_again_is_no_part_of_it_and_is_committed() {
    let mut desk = Desk::at(start_with_a_letter(), with_flood_limit(1));
    // As where a checkpoint was moved back by hand: the letter is of this very transaction.
    desk.begin(0x2000).bad_row("2").commit(0x2000, 0x2030);
    assert_eq!(desk.asked_and_taken(), []);
    let identity = Identity { timeline: Timeline(1), commit_lsn: Lsn::new(0x2000), ordinal: 1 };
    let of_it = |one: Marked| {
        let record = one.letter.record.map(|record| Record { identity, ..record });
        Marked { letter: DeadLetter { identity, record, ..one.letter }, ..one }
    };
    desk.session.replay(marked(Request::Replay).into_iter().map(of_it).collect());
    assert_eq!(desk.asked_and_taken(), publications([1]));
    desk.wait(Duration::from_secs(10));
    assert_eq!(desk.asked_and_taken(), [], "its answer is awaited, and the group is not given up");
    let asked = desk.deliver(1).asked_and_taken();
    assert!(matches!(&asked[..], [first, ..] if *first == sent()), "{asked:?}");
    assert!(asked.iter().any(|asked| matches!(asked, Asked::Commit(_))), "{asked:?}");
}

#[test]
fn a_letter_that_fails_goes_alone_next_time_and_is_returned_after_it_failed_alone() {
    let of_another_key = Inventory { parked: Vec::new(), ..start_with_a_letter().inventory };
    let again = |desk: &Desk, end: &End| {
        let mut next = desk.next_with(end, of_another_key.clone());
        next.transaction(0x2000, 1).mark(Request::Replay);
        next
    };
    let mut desk = Desk::at(Start { inventory: of_another_key.clone(), ..start() }, settings());
    desk.transaction(0x2000, 1).mark(Request::Replay);
    assert_eq!(desk.asked_and_taken(), publications([0, 1]));
    let end = desk.fail(1, Class::Row).end();

    let mut second = again(&desk, &end);
    assert_eq!(second.asked_and_taken(), publications([2]), "what comes before it is awaited");
    assert_eq!(second.deliver(2).asked_and_taken(), publications([3]));
    let end = second.fail(3, Class::Row).end();

    let mut third = again(&second, &end);
    assert_eq!(third.next_asked(), Some(Asked::Publish(4)));
    let returned = Asked::Conclude(LETTER.0, Conclusion::Returned("it failed".to_owned()));
    assert_eq!(third.asked_and_taken(), [returned], "it is not sent a third time");
    assert_eq!(third.deliver(4).asked_and_taken(), [Asked::Commit(0x2030)]);
}

#[test]
fn letters_of_a_key_go_in_a_row_and_where_one_comes_back_none_behind_it_goes() {
    let mut inventory = Inventory { letters: 2, roots: 2, ..start_with_a_letter().inventory };
    inventory.parked[0].letters = 2;
    let both = || {
        let mut both = marked(Request::Replay);
        both.extend(marked(Request::Replay).into_iter().map(|other| Marked { id: LetterId(LETTER.0 + 1), ..other }));
        both
    };
    let mut desk = Desk::at(Start { inventory: inventory.clone(), ..start() }, settings());
    desk.session.replay(both());
    assert_eq!(desk.asked_and_taken(), publications([0, 1]), "the second does not wait for the end of the first");

    let mut desk = Desk::at(Start { inventory, ..start() }, settings());
    desk.session.replay(both());
    desk.first_letter_comes_back();
    desk.commit_succeeds();
    assert!(desk.session.wants_marked(), "the second is nobody's any more, and waits");
}

#[test]
fn a_row_whose_letter_has_ended_parks_nothing_when_it_comes_again() {
    let mut desk = Desk::with(settings());
    desk.begin(0x2000).bad_row("1");
    assert!(matches!(desk.next_asked(), Some(Asked::SetAside(0, _))));
    assert_eq!((desk.session.open_letters(), desk.session.parked_keys()), (1, 1));
    // As where a checkpoint was moved back by hand.
    desk.session.set_aside(Ticket(0), false);
    assert_eq!((desk.session.open_letters(), desk.session.parked_keys()), (0, 0));
    desk.commit(0x2000, 0x2030);
    assert_eq!(desk.asked_and_taken(), [Asked::Commit(0x2030)]);
}

#[test]
fn a_commit_waits_until_the_group_says_that_a_letter_in_it_was_sent() {
    let mut desk = Desk::at(start_with_a_letter(), settings());
    desk.mark(Request::Replay).asked_and_taken();
    assert_eq!(desk.deliver(0).next_asked(), Some(sent()));
    desk.letter_refused(Refusal::Full);
    assert_eq!(desk.asked_and_taken(), [], "else it would be sent twice");
    assert_eq!(desk.wait_for_deadline(), Duration::from_millis(20));
    assert_eq!(desk.asked_and_taken(), [sent(), Asked::Commit(START)]);
}

#[test]
fn a_full_sink_is_offered_a_row_to_set_aside_again_after_a_moment() {
    let mut desk = Desk::with(settings());
    desk.begin(0x2000).bad_row("1").commit(0x2000, 0x2030);
    assert!(matches!(desk.next_asked(), Some(Asked::SetAside(0, _))));
    desk.letter_refused(Refusal::Full);
    assert_eq!(desk.asked_and_taken(), []);
    assert!(desk.session.trouble().is_none(), "a full queue is no trouble");
    assert_eq!(desk.wait_for_deadline(), Duration::from_millis(20));
    let asked = desk.asked_and_taken();
    assert!(matches!(&asked[..], [Asked::SetAside(0, _), Asked::Commit(0x2030)]), "{asked:?}");
}

#[test]
fn nothing_is_set_aside_and_no_letter_ends_while_a_commit_is_under_way() {
    let mut desk = Desk::at(start_with_a_letter(), Settings { poison: Policy::default(), ..settings() });
    desk.keepalive(0x2000, false).begin(0x2000).rows(1).commit(0x2000, 0x2030);
    assert_eq!(desk.asked_and_taken(), [Asked::SetAside(0, poison::Cause::Parked), Asked::Commit(0x2030)]);
    desk.begin(0x3000).bad_row("1").commit(0x3000, 0x3030).mark(Request::Drop);
    assert_eq!(desk.asked_and_taken(), []);
    let asked = desk.commit_succeeds().asked_and_taken();
    let dropped = Asked::Conclude(LETTER.0, Conclusion::Dropped);
    assert!(
        matches!(&asked[..], [first, Asked::SetAside(1, _), Asked::Commit(0x3030)] if *first == dropped),
        "{asked:?}"
    );
}

#[test]
fn a_sink_that_fails_at_once_has_lost_the_group() {
    let mut desk = Desk::with(settings());
    desk.transaction(0x2000, 2);
    assert_eq!(desk.next_asked(), Some(Asked::Publish(0)));
    desk.deliver(0);
    assert_eq!(desk.next_asked(), Some(Asked::Publish(1)));
    let end = desk.refuse(1, refused(Class::Sink)).end();
    assert!(matches!(end.cause, Cause::Aborted(None, _)), "{end:?}");

    let mut desk = Desk::with(settings());
    desk.begin(0x2000).bad_row("1");
    assert!(matches!(desk.next_asked(), Some(Asked::SetAside(0, _))));
    let end = desk.letter_refused(refused(Class::Sink)).end();
    assert!(matches!(end.cause, Cause::Aborted(None, _)), "{end:?}");
    assert_eq!((end.position, end.needs_reset), (Lsn::new(START), true));
}

#[test]
fn a_sink_that_takes_nothing_after_a_record_that_failed_is_awaited_until_it_says_which() {
    for is_letter in [false, true] {
        let mut desk = Desk::with(settings());
        desk.begin(0x2000).rows(2);
        assert_eq!(desk.next_asked(), Some(Asked::Publish(0)));
        if is_letter {
            assert_eq!(desk.next_asked(), Some(Asked::Publish(1)));
            desk.bad_row("2");
            assert!(matches!(desk.next_asked(), Some(Asked::SetAside(2, _))));
            desk.letter_refused(refused(Class::Withdrawn));
        } else {
            assert_eq!(desk.next_asked(), Some(Asked::Publish(1)));
            desk.refuse(1, refused(Class::Withdrawn));
        }
        assert_eq!(desk.asked_and_taken(), [], "no reset, and no end yet");
        let end = desk.fail(0, Class::Row).end();
        assert!(matches!(end.cause, Cause::Aborted(Some(identity), _) if identity.ordinal == 0), "{end:?}");
        assert_eq!(end.lessons.rows().map(|row| row.ordinal).collect::<Vec<_>>(), [0]);
    }
    let mut desk = Desk::with(settings());
    desk.begin(0x2000).rows(1);
    assert_eq!(desk.next_asked(), Some(Asked::Publish(0)));
    let end = desk.refuse(0, refused(Class::Withdrawn)).end();
    assert!(matches!(end.cause, Cause::Aborted(None, _)), "nothing is awaited: {end:?}");
}

#[test]
fn what_is_held_between_transactions_keeps_no_transaction_open() {
    let mut desk = Desk::with(with_flood_limit(0));
    desk.transaction(0x2000, 1).begin(0x3000).bad_row("1");
    assert_eq!(desk.asked_and_taken(), publications([0]));
    assert_eq!(desk.deliver(0).asked_and_taken(), [Asked::Commit(0x2030)], "though the group could wait");
    assert!(desk.session.trouble().is_some_and(|trouble| trouble.reason.contains("walpost dlq list")));
    desk.commit_succeeds();
    for _ in 0..100 {
        assert_eq!(desk.keepalive(0x3000, false).asked_and_taken(), [], "it holds for as long as it takes");
        desk.wait_for_deadline();
    }
}

#[test]
fn what_is_held_in_the_midst_of_a_transaction_is_given_up_after_a_grace() {
    let mut desk = Desk::with(with_flood_limit(0));
    desk.begin(0x2000).rows(1).bad_row("1");
    assert_eq!(desk.asked_and_taken(), publications([0]));
    desk.deliver(0).asked_and_taken();
    let mut waited = Duration::ZERO;
    let end = loop {
        waited += desk.wait_for_deadline();
        if let [Asked::End(end)] = &desk.asked_and_taken()[..] {
            break end.clone();
        }
    };
    assert_eq!(waited, Duration::from_secs(5), "{end:?}");
    let Cause::Aborted(None, failure) = end.cause else { panic!("{:?}", end.cause) };
    assert!(failure.reason.contains("dead_letter.flood_limit is 0"), "{failure}");
}

#[test]
fn a_hold_names_the_letters_that_nobody_can_see_yet() {
    let mut desk = Desk::with(with_flood_limit(1));
    desk.begin(0x2000).bad_row("1").bad_row("2");
    desk.asked_and_taken();
    let trouble = desk.session.trouble().map(ToString::to_string).unwrap_or_default();
    assert!(trouble.contains("the 1 that are of the same transaction"), "{trouble}");
}

#[test]
fn a_letter_that_is_marked_may_go_within_the_group_that_is_held_and_be_the_way_out() {
    let of_another_key = Inventory { parked: Vec::new(), ..start_with_a_letter().inventory };
    let mut desk = Desk::at(Start { inventory: of_another_key, ..start() }, with_flood_limit(1));
    desk.begin(0x2000).rows(1).bad_row("1").commit(0x2000, 0x2030);
    assert_eq!(desk.asked_and_taken(), publications([0]));
    desk.deliver(0).wait(Duration::from_secs(4)).mark(Request::Replay);
    assert_eq!(desk.asked_and_taken(), publications([2]));
    let asked = desk.deliver(2).asked_and_taken();
    assert!(
        matches!(&asked[..], [first, Asked::SetAside(1, _), Asked::Commit(0x2030)] if *first == sent()),
        "{asked:?}"
    );
}

#[test]
fn a_closed_route_that_is_refused_at_once_is_waited_for_in_no_open_transaction() {
    let mut desk = Desk::with(settings());
    desk.transaction(0x2000, 1).transaction(0x3000, 2);
    assert_eq!(desk.next_asked(), Some(Asked::Publish(0)));
    desk.deliver(0);
    for _ in 0..2 {
        assert_eq!(desk.next_asked(), Some(Asked::Publish(1)));
        desk.refuse(1, refused(Class::Route));
    }
    assert_eq!(desk.asked_and_taken(), [Asked::Commit(0x2030)], "between transactions");
    assert_eq!(desk.commit_succeeds().wait(Duration::from_millis(100)).asked_and_taken(), publications([1]));
    desk.deliver(1);
    let refused_at = desk.now;
    let end = loop {
        match desk.next_asked() {
            Some(Asked::Publish(2)) => drop(desk.refuse(2, refused(Class::Route))),
            Some(Asked::End(end)) => break end,
            Some(_) => {}
            None => drop(desk.wait_for_deadline()),
        }
    };
    assert!(matches!(&end.cause, Cause::Aborted(None, failure) if failure.class == Class::Route), "{end:?}");
    assert_eq!(desk.now.since(refused_at), Duration::from_secs(5), "within one it is given up");
}

#[test]
fn a_stop_waits_for_the_commit_of_letters() {
    let mut desk = Desk::at(start_with_a_letter(), settings());
    desk.mark(Request::Replay).asked_and_taken();
    assert_eq!(desk.stop().asked_and_taken(), []);
    assert_eq!(desk.deliver(0).asked_and_taken(), [sent(), Asked::Commit(START)]);
    let end = desk.commit_succeeds().end();
    assert_eq!((end.cause, end.needs_reset), (Cause::Stopped, false));
}

#[test]
fn a_group_that_has_used_up_half_of_its_time_is_told_once_and_before_the_broker_gives_it_up() {
    let timeout = Duration::from_secs(10);
    let grouping = settings().grouping.map(|grouping| Grouping { timeout, ..grouping });
    let mut desk = Desk::with(Settings { grouping, ..settings() });
    let old = |age| vec![Asked::Notice(Notice::GroupOld(age, timeout))];
    let told = |desk: &mut Desk, wait: Duration| -> Vec<Asked> {
        let asked = desk.wait(wait).asked().into_iter();
        asked.filter(|asked| matches!(asked, Asked::Notice(_))).collect()
    };
    let moment = Duration::from_millis(1);
    for (ticket, commit_lsn) in [(0, 0x2000), (1, 0x3000)] {
        assert_eq!(desk.transaction(commit_lsn, 1).asked_and_taken(), publications([ticket]));
        assert!(desk.session.deadline(desk.now) <= desk.now.after(timeout / 2), "nobody would ask in time");
        assert_eq!(told(&mut desk, timeout / 2 - moment), []);
        assert_eq!(told(&mut desk, moment), old(timeout / 2));
        assert_eq!(told(&mut desk, timeout / 4), []);
        assert_eq!(desk.deliver(ticket).asked_and_taken(), [Asked::Commit(commit_lsn + 0x30)]);
        desk.commit_succeeds();
    }
}
