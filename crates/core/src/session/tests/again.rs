//! What goes again after a failure, and beside what: rows that failed in parts, down to one that is judged, and everything else as ever.

use super::*;

/// What came of rows at a sink that takes all that it has as one batch, and fails it for one bad row.
#[derive(Debug, Default)]
struct Course {
    resets: usize,
    batches: Vec<Vec<u64>>,
    delivered: Vec<u64>,
    aside: Vec<u64>,
}

impl Course {
    fn singles(&self) -> usize {
        self.batches.iter().filter(|batch| batch.len() == 1).count()
    }
}

impl Desk {
    /// So many rows without a key, which stand in nobody's way.
    fn keyless(count: u64) -> Self {
        let mut desk = Self::with(Settings::default());
        desk.begin(0x2000).keyless_rows(count).commit(0x2000, 0x2030);
        desk
    }

    fn keyless_rows(&mut self, count: u64) -> &mut Self {
        for _ in 0..count {
            self.row_of_key(None);
        }
        self
    }

    fn deliver_all(&mut self, tickets: impl IntoIterator<Item = u64>) -> &mut Self {
        for ticket in tickets {
            self.deliver(ticket);
        }
        self
    }

    fn fail_all(&mut self, tickets: impl IntoIterator<Item = u64>, class: Class) -> &mut Self {
        for ticket in tickets {
            self.fail(ticket, class);
        }
        self
    }

    fn describe_letters(&mut self) {
        assert_eq!(self.next_asked(), Some(Asked::Describe(0)));
        self.session.described(0, &Description::default());
    }

    /// Until nothing is owed.
    fn work_off(&mut self, is_bad: impl Fn(u64) -> bool) -> Course {
        let mut course = Course::default();
        while self.session.owed().records > 0 {
            let mut batch = Vec::new();
            for asked in self.asked() {
                match asked {
                    Asked::Publish(ticket) => batch.push(ticket),
                    Asked::Reset => {
                        course.resets += 1;
                        self.reset_succeeds();
                    }
                    Asked::SetAside(ticket, cause) => {
                        assert_eq!(cause, row_cause("it failed"));
                        course.aside.push(ticket);
                        self.session.set_aside(Ticket(ticket), true);
                    }
                    Asked::Confirm(_) => {}
                    other => panic!("{other:?}"),
                }
            }
            if batch.is_empty() {
                self.keepalive(START, false).wait(Duration::from_secs(1));
            } else if batch.iter().any(|ticket| is_bad(*ticket)) {
                self.fail_all(batch.iter().copied(), Class::Row);
            } else {
                self.deliver_all(batch.iter().copied());
                course.delivered.extend(&batch);
            }
            course.batches.extend((!batch.is_empty()).then_some(batch));
        }
        course
    }

    fn reset(&mut self) -> &mut Self {
        assert_eq!(self.asked_besides(START), [Asked::Reset]);
        self.reset_succeeds().wait(Duration::from_secs(1))
    }
}

#[test]
fn one_bad_row_among_a_thousand_is_found_in_a_few_steps_and_holds_up_few_others() {
    for bad in [0, 617, 999] {
        let course = Desk::keyless(1000).work_off(|ticket| ticket == bad);
        assert_eq!(course.aside, [bad]);
        let others: Vec<u64> = (0..1000).filter(|ticket| *ticket != bad).collect();
        assert_eq!(course.delivered, others, "each once, and in order");
        // A thousand is seven times a third.
        assert!(course.resets <= 8, "{} resets", course.resets);
        assert!(course.singles() <= 8, "{} went alone", course.singles());
        assert!(course.batches.len() <= 8 * 3, "{} batches", course.batches.len());
    }
}

#[test]
fn of_two_bad_rows_both_are_found_and_nothing_between_them_goes_again_that_was_delivered() {
    for bad in [[3, 4], [100, 900], [0, 999]] {
        let course = Desk::keyless(1000).work_off(|ticket| bad.contains(&ticket));
        assert_eq!(course.aside, bad);
        let others: Vec<u64> = (0..1000).filter(|ticket| !bad.contains(ticket)).collect();
        assert_eq!(course.delivered, others, "each once, and in order");
        assert!(course.resets <= 16 && course.singles() <= 16, "{} resets, {} alone", course.resets, course.singles());
    }
}

#[test]
fn only_what_was_blamed_goes_in_parts_and_what_lies_before_among_and_behind_them_flows() {
    let mut desk = Desk::keyless(12);
    assert_eq!(desk.asked_besides(START), publications(0..12));
    // 0, 1 and 5 are of another partition.
    desk.fail_all([2, 3, 4, 6, 7, 8], Class::Row).fail_all([0, 1, 5, 9, 10, 11], Class::Withdrawn).reset();
    assert_eq!(desk.asked_besides(START), publications([0, 1]), "all before them");
    assert_eq!(desk.deliver(1).asked_besides(START), [], "which is awaited");
    assert_eq!(desk.deliver(0).asked_besides(START), publications([2, 3]), "a third of them");
    assert_eq!(desk.deliver(3).asked_besides(START), [], "which is awaited too");
    assert_eq!(desk.deliver(2).asked_besides(START), publications([4, 5, 6]), "with what lies among");
    desk.deliver(4).deliver(5).deliver(6);
    assert_eq!(desk.asked_besides(START), publications([7, 8]));
    desk.begin(0x3000).row_of_key(None);
    assert_eq!(desk.asked_besides(START), [], "nothing behind them yet");
    assert_eq!(desk.deliver(7).deliver(8).asked_besides(START), publications(9..13), "and then all");
    assert_eq!(desk.session.outbound.lessons, Lessons::default(), "what is delivered teaches nothing any more");
}

#[test]
fn a_part_that_fails_goes_in_parts_of_its_own_down_to_one_row_and_the_other_parts_stay() {
    let mut desk = Desk::keyless(12);
    desk.asked();
    desk.fail_all(0..12, Class::Row).reset();
    assert_eq!(desk.asked_besides(START), publications(0..4));
    desk.fail_all(0..4, Class::Row).reset();
    assert_eq!(desk.asked_besides(START), publications([0, 1]));
    desk.fail_all([0, 1], Class::Row).reset();
    assert_eq!(desk.asked_besides(START), publications([0]));
    assert_eq!(desk.deliver(0).asked_besides(START), publications([1]));
    let judged = Asked::SetAside(1, row_cause("it failed"));
    assert_eq!(desk.fail(1, Class::Row).asked_besides(START), [Asked::Reset, judged]);
    desk.reset_succeeds().wait(Duration::from_secs(1));
    for part in [2..4, 4..8, 8..12] {
        assert_eq!(desk.asked_besides(START), publications(part.clone()));
        desk.deliver_all(part);
    }
}

#[test]
fn a_sink_that_fails_blames_no_row_and_all_goes_again_at_once_letters_too() {
    let mut desk = Desk::at(start_with_a_letter(), Settings::default());
    desk.begin(0x2000).keyless_rows(3);
    desk.session.replay(marked(Request::Replay));
    desk.describe_letters();
    assert_eq!(desk.asked_besides(START), publications(0..4));
    desk.fail(1, Class::Sink).fail_all([0, 2, 3], Class::Withdrawn).reset();
    assert_eq!(desk.asked_besides(START), publications(0..4));
    desk.fail_all(0..4, Class::Sink).reset();
    assert_eq!(desk.asked_besides(START), publications(0..4));
}

#[test]
fn a_letter_that_failed_among_others_goes_alone_and_comes_back_only_after_it_failed_alone() {
    let mut desk = Desk::at(start_with_a_letter(), Settings::default());
    desk.begin(0x2000).keyless_rows(2);
    desk.session.replay(marked(Request::Replay));
    desk.describe_letters();
    assert_eq!(desk.asked_besides(START), publications(0..3));
    desk.row_of_key(None);
    assert_eq!(desk.asked_besides(START), publications([3]));
    desk.fail(2, Class::Row).fail_all([0, 1, 3], Class::Withdrawn).reset();
    assert_eq!(desk.asked_besides(START), publications([0, 1]));
    assert_eq!(desk.deliver(0).asked_besides(START), [], "what comes before it is awaited");
    assert_eq!(desk.deliver(1).asked_besides(START), publications([2]), "alone");
    let returned = Asked::Conclude(LETTER.0, Conclusion::Returned("it failed".to_owned()));
    assert_eq!(desk.fail(2, Class::Row).asked_besides(START), [Asked::Reset, returned]);
    desk.session.concluded(LETTER);
    desk.reset_succeeds().wait(Duration::from_secs(1));
    assert_eq!(desk.asked_besides(START), publications([3]));

    desk.session.replay(marked(Request::Replay));
    desk.describe_letters();
    assert_eq!(desk.asked_besides(START), [], "marked again, it goes alone at once");
    assert_eq!(desk.deliver(3).asked_besides(START), publications([4]));
    assert_eq!(desk.deliver(4).asked_besides(START), [Asked::Conclude(LETTER.0, Conclusion::Sent)]);
    assert_eq!(desk.session.outbound.lessons, Lessons::default());
}

#[test]
fn behind_a_closed_route_nothing_goes_waits_grow_and_once_it_is_open_only_a_part_of_the_rows_goes_alone() {
    let mut desk = Desk::keyless(9);
    desk.asked();
    desk.fail_all(0..9, Class::Route).reset();
    assert_eq!(desk.asked_besides(START), publications(0..3));
    desk.fail_all(0..3, Class::Route);
    let mut longest = Duration::ZERO;
    for _ in 0..12 {
        assert_eq!(desk.asked_besides(START), [Asked::Reset]);
        let failed_at = desk.reset_succeeds().now;
        let mut asked = desk.asked_besides(START);
        while asked.is_empty() {
            assert!(desk.session.trouble().is_some_and(|trouble| trouble.class == Class::Route));
            desk.keepalive(START, false).wait_for_deadline();
            asked = desk.asked_besides(START);
        }
        longest = longest.max(desk.now.since(failed_at));
        assert_eq!(asked, publications([0]), "alone, and nothing behind it");
        desk.fail(0, Class::Route);
    }
    assert!(longest > Duration::from_secs(15) && longest <= Duration::from_secs(30), "{longest:?}");
    assert_eq!(desk.asked_besides(START), [Asked::Reset]);
    desk.reset_succeeds().wait(Duration::from_secs(30)).keepalive(START, false);
    for part in [0..1, 1..2, 2..3, 3..6, 6..9] {
        assert_eq!(desk.asked_besides(START), publications(part.clone()));
        desk.deliver_all(part);
    }
    assert!(desk.session.trouble().is_none());
}

#[test]
fn a_record_that_fails_again_and_again_is_waited_for_ever_longer_though_others_pass_behind_it() {
    let mut desk = Desk::keyless(1);
    desk.asked();
    let mut longest = Duration::ZERO;
    for ticket in 1..13 {
        assert_eq!(desk.fail(0, Class::Sink).asked_besides(START), [Asked::Reset]);
        let failed_at = desk.reset_succeeds().now;
        desk.begin(0x2000 + 0x1000 * ticket).row_of_key(None);
        desk.commit(0x2000 + 0x1000 * ticket, 0x2030 + 0x1000 * ticket);
        let mut asked = desk.asked_besides(START);
        while asked.is_empty() {
            desk.keepalive(START, false).wait_for_deadline();
            asked = desk.asked_besides(START);
        }
        longest = longest.max(desk.now.since(failed_at));
        assert_eq!(asked, publications([0, ticket]));
        desk.deliver(ticket);
        assert!(desk.session.trouble().is_some(), "0 is still held");
    }
    assert!(longest > Duration::from_secs(15) && longest <= Duration::from_secs(30), "{longest:?}");
}
