//! From how a relay stands to what is said of it.

use std::sync::Arc;

use walpost_core::failure::{Class, Failure};
use walpost_core::ledger::Load;
use walpost_core::lsn::Lsn;
use walpost_core::session::{Counters, View};
use walpost_core::time::Timestamp;

use super::*;
use crate::driver::Clock;
use crate::observe::behind::behind;
use crate::observe::board::Board;

const LIMITS: Limits = Limits {
    stuck_after: STUCK_AFTER,
    stalled_after: Duration::from_secs(10),
    silence_timeout: Duration::from_secs(30),
};

const WALL: Timestamp = Timestamp::from_postgres_micros(1_000_000_000_000);

fn at(seconds: u64) -> Moment {
    Moment::since_origin(Duration::from_secs(seconds))
}

fn view() -> View {
    let position = Lsn::new(1000);
    View {
        received: position,
        watermark: position,
        checkpointed: position,
        confirmed: position,
        owed: Load::default(),
        out: 0,
        oldest_unsettled: None,
        last_settled: None,
        counters: Counters::default(),
        wants_frames: true,
        awaits_description: false,
        awaits_letters: false,
        heard_at: at(100),
        is_stopping: false,
        trouble: None,
    }
}

/// A relay that streams and has nothing to do, at 100 s.
fn well() -> Sight {
    let mut sight = Board::new(Clock::start()).read();
    sight.phase = Phase::Streaming;
    sight.beat_at = at(100);
    sight.turned_at = at(100);
    sight.traffic = Arc::new([]);
    sight.link = Some(Link {
        view: view(),
        acknowledged_at: at(100),
        progressed_at: at(100),
        held_since: None,
        checkpoint_due_since: None,
        undescribed_since: None,
        letters_due_since: None,
    });
    sight
}

fn link(sight: &mut Sight) -> &mut Link {
    sight.link.as_mut().unwrap()
}

fn owe(sight: &mut Sight) {
    link(sight).view.owed = Load { records: 3, bytes: 10 };
}

/// What is done to a relay that is well, whether it lives, and its state and the words of its reasons at 100 s.
type Case = (&'static str, fn(&mut Sight), bool, &'static str, &'static [&'static str]);

const CASES: &[Case] = &[
    ("idle", |_| {}, true, "streaming", &[]),
    ("busy", owe, true, "streaming", &[]),
    ("starting", |s| (s.phase, s.link) = (Phase::Starting, None), true, "starting", &["starting"]),
    (
        "standing by",
        |s| (s.phase, s.link) = (Phase::StandingBy("process 7 reads the slot".into()), None),
        true,
        "standing_by",
        &["process 7"],
    ),
    (
        "reconnecting",
        |s| (s.phase, s.link, s.down_since) = (Phase::Reconnecting("connection refused".into()), None, at(93)),
        true,
        "reconnecting",
        &["down for 7 s and is made anew: connection refused"],
    ),
    ("stopping", |s| link(s).view.is_stopping = true, true, "stopping", &["ends"]),
    ("stopped", |s| (s.phase, s.link) = (Phase::Stopping, None), true, "stopping", &["ends"]),
    ("the thread is stuck", |s| s.beat_at = at(89), false, "streaming", &["not turned for 11 s"]),
    ("the thread was busy", |s| s.beat_at = at(91), true, "streaming", &[]),
    ("the driver is stuck", |s| s.turned_at = at(80), false, "streaming", &["driver has not turned for 20 s"]),
    (
        "no driver turns between sessions",
        |s| (s.turned_at, s.phase, s.link) = (at(0), Phase::Reconnecting("away".into()), None),
        true,
        "reconnecting",
        &["away"],
    ),
    (
        "a closed route",
        |s| {
            link(s).view.trouble = Some(Failure::new(Class::Route, "topic \"a\" is missing"));
            link(s).held_since = Some(at(98));
        },
        true,
        "holding",
        &["for 2 s (route): topic \"a\" is missing"],
    ),
    (
        "held by dead letters",
        |s| {
            link(s).view.trouble = Some(Failure::new(Class::Row, "100 dead letters lie there"));
            link(s).held_since = Some(at(98));
        },
        true,
        "holding",
        &["for 2 s (row): 100 dead letters lie there"],
    ),
    (
        "the sink is silent",
        |s| {
            owe(s);
            link(s).acknowledged_at = at(88);
        },
        true,
        "streaming",
        &["not acknowledged anything for 12 s, and 3 records"],
    ),
    ("a sink that went away a moment ago", |s| s.sink_away = Some(("refused".into(), at(91))), true, "streaming", &[]),
    (
        "a sink that is away though nothing is owed",
        |s| s.sink_away = Some(("refused".into(), at(90))),
        true,
        "streaming",
        &["the sink has been away for 10 s: refused"],
    ),
    ("nothing is owed by a silent sink", |s| link(s).acknowledged_at = at(0), true, "streaming", &[]),
    ("a checkpoint is due", |s| link(s).checkpoint_due_since = Some(at(95)), true, "streaming", &[]),
    ("no checkpoint is written", |s| link(s).checkpoint_due_since = Some(at(90)), true, "streaming", &["due 10 s ago"]),
    ("a letter is due", |s| link(s).letters_due_since = Some(at(95)), true, "streaming", &[]),
    (
        "no letter is taken",
        |s| link(s).letters_due_since = Some(at(88)),
        true,
        "streaming",
        &["dead letters has not answered for 12 s"],
    ),
    ("marks are looked for", |s| s.marks_unread = Some((None, at(95))), true, "streaming", &[]),
    (
        "marks cannot be read",
        |s| s.marks_unread = Some((Some("there is no table".into()), at(89))),
        true,
        "streaming",
        &["marked dead letters cannot be read, for 11 s now: there is no table"],
    ),
    (
        "a look for marks is not answered",
        |s| s.marks_unread = Some((None, at(89))),
        true,
        "streaming",
        &["marked dead letters cannot be read, for 11 s now: whoever keeps them has not answered"],
    ),
    ("no description comes", |s| link(s).undescribed_since = Some(at(85)), true, "streaming", &["describes an outbox"]),
    ("the server is quiet", |s| link(s).view.heard_at = at(81), true, "streaming", &[]),
    ("the server is silent", |s| link(s).view.heard_at = at(79), true, "streaming", &["said nothing for 21 s"]),
    (
        "we do not listen",
        |s| (link(s).view.heard_at, link(s).view.wants_frames) = (at(0), false),
        true,
        "streaming",
        &[],
    ),
    (
        "the server sends nothing",
        |s| {
            s.server.horizon.see(at(80), Lsn::new(5000), None);
            link(s).progressed_at = at(70);
        },
        true,
        "streaming",
        &["WAL behind 0/3E8 since 20 s, and nothing of it has come for 30 s"],
    ),
    ("the server sends", |s| s.server.horizon.see(at(80), Lsn::new(5000), None), true, "streaming", &[]),
    (
        "only the header of a page is ahead",
        |s| {
            s.server.horizon.see(at(80), Lsn::new(1040), None);
            link(s).progressed_at = at(70);
        },
        true,
        "streaming",
        &[],
    ),
];

#[test]
fn each_way_to_stand_is_judged_with_a_reason() {
    for (name, change, is_live, state, words) in CASES {
        let mut sight = well();
        change(&mut sight);
        let health = judge(&sight, at(100), LIMITS);
        assert_eq!((health.is_live(), health.state), (*is_live, *state), "{name}: {health:?}");
        assert_eq!(health.unready.len(), words.len(), "{name}: {health:?}");
        for (reason, word) in health.unready.iter().zip(*words) {
            assert!(reason.contains(word), "{name}: {reason}");
        }
    }
}

#[test]
fn how_far_behind_is_neither_high_when_idle_nor_low_when_stuck() {
    let ago = |seconds: i64| Timestamp::from_postgres_micros(WALL.postgres_micros() - seconds * 1_000_000);
    let behind_at = |sight: &Sight| behind(sight, at(100), WALL).map(|wait| wait.as_secs());
    let mut sight = well();
    link(&mut sight).view.last_settled = Some(ago(3600));
    assert_eq!(behind_at(&sight), Some(0), "idle for an hour");
    link(&mut sight).view.oldest_unsettled = Some(ago(2));
    assert_eq!(behind_at(&sight), Some(2), "a row came after an hour");
    sight.server.horizon.see(at(60), Lsn::new(2000), Some(Lsn::new(1000)));
    sight.server.horizon.see(at(70), Lsn::new(3000), Some(Lsn::new(1000)));
    assert_eq!(behind_at(&sight), Some(40), "the server has had more for longer");
    link(&mut sight).view.received = Lsn::new(2000);
    assert_eq!(behind_at(&sight), Some(30));
    link(&mut sight).view.oldest_unsettled = Some(ago(-5));
    assert_eq!(behind_at(&sight), Some(30), "the server's clock is ahead of ours");
    link(&mut sight).view.oldest_unsettled = Some(Timestamp::from_postgres_micros(i64::MAX));
    assert_eq!(behind_at(&sight), Some(30), "by whatever time");
    link(&mut sight).view.oldest_unsettled = Some(Timestamp::from_postgres_micros(-946_684_800_000_000 - 1_000_000));
    assert_eq!(behind_at(&sight), Some(946_684_800 + 1_000_000 + 1), "it says that a row was committed before 1970");
    link(&mut sight).view.oldest_unsettled = Some(Timestamp::from_postgres_micros(i64::MIN));
    assert!(behind_at(&sight) > Some(9_000_000_000_000), "and is no number below zero");
    sight.link = None;
    sight.down_since = at(20);
    assert_eq!(behind_at(&sight), Some(80), "no stream for so long");
    sight.phase = Phase::StandingBy(String::new());
    assert_eq!(behind_at(&sight), None);
}

#[test]
fn a_horizon_forgets_what_was_received_and_grows_no_further() {
    let mut horizon = crate::observe::behind::Horizon::default();
    for second in 0..10_000 {
        horizon.see(at(second), Lsn::new(1000 * second), Some(Lsn::new(5000)));
    }
    assert_eq!(horizon.ahead_since(Lsn::new(5000)), Some(at(6)), "the first is kept");
    let since = horizon.ahead_since(Lsn::new(7_000_000)).unwrap();
    assert!((at(7001)..at(7100)).contains(&since), "{since:?}");
    horizon.see(at(10_000), Lsn::new(10), Some(Lsn::new(5)));
    assert_eq!(horizon.ahead_since(Lsn::new(5)), None, "another server, and less than a header");
}
