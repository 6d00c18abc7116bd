//! Watermark, checkpoint and confirmation.

use super::*;

#[test]
fn the_first_status_update_goes_out_at_once_and_tells_the_start() {
    let now = Moment::default();
    let mut session = Session::new(Settings::default(), outboxes(), start(), now);
    let first = session.poll(now);
    assert!(matches!(first, Some(Action::Confirm(status)) if status.confirmed == Lsn::new(START)), "{first:?}");
}

#[test]
fn a_keepalive_moves_the_watermark_only_while_nothing_is_owed() {
    let mut desk = Desk::new();
    desk.keepalive(0x2000, false);
    assert_eq!(desk.watermark(), 0x2000);
    desk.transaction(0x2000, 1).keepalive(0x3000, false);
    assert_eq!(desk.watermark(), 0x2000);
    desk.asked();
    desk.deliver(0);
    assert_eq!(desk.watermark(), 0x2030, "the keepalive came while the row was owed");
    desk.keepalive(0x3000, false);
    assert_eq!(desk.watermark(), 0x3000);
}

#[test]
fn a_keepalive_within_a_transaction_moves_nothing() {
    let mut desk = Desk::new();
    desk.begin(0x2000).keepalive(0x2000, false);
    assert_eq!((desk.watermark(), desk.session.received().get()), (START, START));
    desk.rows(1).asked();
    desk.deliver(0).keepalive(0x2030, false);
    assert_eq!(desk.watermark(), START, "its first row is delivered, and more may come");
    desk.rows(1).commit(0x2000, 0x2030);
    assert_eq!(desk.watermark(), START);
}

#[test]
fn a_keepalive_from_before_the_start_moves_nothing_back() {
    let mut desk = Desk::new();
    desk.keepalive(0x10, true);
    assert_eq!(desk.asked(), [Asked::Confirm(START)]);
    assert_eq!((desk.watermark(), desk.session.received().get()), (START, START));
}

#[test]
fn the_end_of_a_commit_is_checkpointed_and_confirmed_as_it_is() {
    let mut desk = Desk::new();
    assert_eq!(desk.transaction(0x2000, 1).asked(), publications([0]));
    desk.deliver(0).wait(Duration::from_secs(1));
    assert_eq!(desk.asked(), [Asked::Checkpoint(0x2030), Asked::Confirm(START)]);
    desk.checkpoint_succeeds();
    assert_eq!(desk.asked(), [Asked::Confirm(0x2030)]);
}

#[test]
fn nothing_is_confirmed_that_the_store_does_not_hold() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 1).asked();
    desk.deliver(0).wait(Duration::from_secs(1)).asked();
    for _ in 0..30 {
        desk.wait(Duration::from_secs(1)).keepalive(0x3000, true);
        assert_eq!(desk.asked(), [Asked::Confirm(START)]);
    }
    desk.session.checkpoint_failed(desk.now);
    assert_eq!(desk.asked(), []);
    desk.wait_for_deadline();
    assert_eq!(desk.asked(), [Asked::Checkpoint(0x3000)], "it is tried again");
}

#[test]
fn the_waits_between_failing_checkpoints_grow_and_the_server_hears_of_us_all_the_while() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 1).asked();
    desk.deliver(0).wait(Duration::from_secs(1));
    let mut tries = 0;
    let mut told_at = desk.now;
    let stop_at = desk.now.after(Duration::from_secs(120));
    while desk.now < stop_at {
        for asked in desk.asked() {
            match asked {
                Asked::Checkpoint(_) => {
                    tries += 1;
                    desk.session.checkpoint_failed(desk.now);
                }
                _ => told_at = desk.now,
            }
        }
        assert!(desk.now.since(told_at) <= Duration::from_secs(1));
        // This server answers, or the session would think it dead.
        desk.keepalive(0x2030, false).wait_for_deadline();
    }
    assert!((8..16).contains(&tries), "{tries} tries in two minutes");
}

#[test]
fn a_transaction_is_settled_only_when_its_last_row_is() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 3).asked();
    desk.deliver(2).deliver(0);
    assert_eq!(desk.watermark(), START);
    desk.deliver(1);
    assert_eq!(desk.watermark(), 0x2030);
}

#[test]
fn the_watermark_never_steps_over_a_record_that_is_owed() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 1).transaction(0x3000, 1).transaction(0x4000, 0).asked();
    desk.deliver(1);
    assert_eq!(desk.watermark(), START);
    desk.deliver(0);
    assert_eq!(desk.watermark(), 0x4030);
}

#[test]
fn delivered_rows_of_an_open_transaction_settle_nothing() {
    let mut desk = Desk::new();
    desk.transaction(0x2000, 1).begin(0x3000).rows(2).asked();
    desk.deliver(0).deliver(1).deliver(2);
    assert_eq!(desk.watermark(), 0x2030);
    desk.wait(Duration::from_secs(1));
    assert_eq!(desk.asked_besides(START), [Asked::Checkpoint(0x2030)]);
}

#[test]
fn many_events_are_checkpointed_before_the_interval_is_over() {
    let feedback = feedback::Settings { checkpoint_events: 3, ..feedback::Settings::default() };
    let mut desk = Desk::with(Settings { feedback, ..Settings::default() });
    desk.transaction(0x2000, 2).asked();
    desk.deliver(0).deliver(1);
    assert_eq!(desk.asked(), []);
    desk.transaction(0x3000, 1).asked();
    desk.deliver(2);
    assert_eq!(desk.asked(), [Asked::Checkpoint(0x3030)]);
}

#[test]
fn others_work_moves_the_slot_but_rarely() {
    let mut desk = Desk::new();
    let mut checkpoints = 0;
    // A megabyte every three seconds, and a minute of it.
    for second in 1..=60 {
        desk.wait(Duration::from_secs(1)).keepalive(START + second * 350_000, false);
        for asked in desk.asked() {
            if matches!(asked, Asked::Checkpoint(_)) {
                checkpoints += 1;
                desk.checkpoint_succeeds();
            }
        }
    }
    assert!((4..=6).contains(&checkpoints), "{checkpoints} in a minute");
    desk.asked();
    assert!(desk.session.confirmed().get() > START + 40 * 350_000);
}

#[test]
fn a_trickle_of_others_work_is_checkpointed_every_few_minutes() {
    let mut desk = Desk::new();
    let mut checkpoints = 0;
    for second in 1..=900 {
        desk.wait(Duration::from_secs(1)).keepalive(START + second * 8, false);
        for asked in desk.asked() {
            if matches!(asked, Asked::Checkpoint(_)) {
                checkpoints += 1;
                desk.checkpoint_succeeds();
            }
        }
    }
    assert_eq!(checkpoints, 3);
}

#[test]
fn a_request_for_a_reply_is_answered_at_once() {
    let mut desk = Desk::new();
    assert_eq!(desk.asked(), []);
    assert_eq!(desk.keepalive(START, true).asked(), [Asked::Confirm(START)]);
    assert_eq!(desk.keepalive(START, false).asked(), []);
}

#[test]
fn the_server_is_told_on_a_timer_while_the_sink_is_stuck() {
    let mut desk = Desk::with(Settings { max_records: 2, ..Settings::default() });
    desk.begin(0x2000).rows(2).asked();
    assert!(!desk.session.wants_frames());
    for _ in 0..100 {
        desk.wait(Duration::from_secs(1));
        assert_eq!(desk.asked(), [Asked::Confirm(START)]);
    }
}

#[test]
fn silence_asks_at_half_of_its_time_and_ends_at_the_whole() {
    let mut desk = Desk::new();
    desk.wait(Duration::from_secs(30) - Duration::from_millis(1));
    assert_eq!(desk.asked(), [Asked::Confirm(START)]);
    desk.wait(Duration::from_millis(1));
    assert_eq!(desk.asked(), [Asked::AskForLife(START)]);
    desk.wait(Duration::from_millis(29_999));
    assert_eq!(desk.asked(), [Asked::Confirm(START)]);
    desk.wait(Duration::from_millis(1));
    assert_eq!(desk.end().cause, Cause::Silent);
}

#[test]
fn a_sign_of_life_starts_the_silence_anew() {
    let mut desk = Desk::new();
    for _ in 0..5 {
        desk.wait(Duration::from_secs(30));
        assert_eq!(desk.asked(), [Asked::AskForLife(START)]);
        desk.wait(Duration::from_secs(29)).keepalive(START, false);
        assert_eq!(desk.asked(), [Asked::Confirm(START)]);
    }
}

#[test]
fn silence_does_not_count_while_it_is_we_who_do_not_listen() {
    let mut desk = Desk::with(Settings { max_records: 1, ..Settings::default() });
    desk.begin(0x2000).rows(1).asked();
    for _ in 0..600 {
        desk.wait(Duration::from_secs(1));
        assert_eq!(desk.asked(), [Asked::Confirm(START)]);
    }
    desk.deliver(0).wait(Duration::from_secs(1));
    assert_eq!(desk.asked(), [Asked::Confirm(START)]);
}

#[test]
fn the_session_says_what_the_store_is_to_hold_at_once_where_the_last_one_could_not() {
    let unsaved = Start { position: Lsn::new(0x2030), ..start() };
    let mut session = Session::new(Settings::default(), outboxes(), unsaved, Moment::default());
    let first = session.poll(Moment::default());
    assert!(matches!(first, Some(Action::Checkpoint(progress)) if progress.position == Lsn::new(0x2030)), "{first:?}");
    let second = session.poll(Moment::default());
    assert!(matches!(second, Some(Action::Confirm(status)) if status.confirmed == Lsn::new(START)), "{second:?}");
}
