//! The page of figures.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use walpost_core::failure::{Class, Failure};
use walpost_core::ledger::Load;
use walpost_core::lsn::Lsn;
use walpost_core::outbox::TableName;
use walpost_core::session::{Counters, View};
use walpost_core::traffic::Flow;
use walpost_testkit::exposition::Page;

use super::*;
use crate::driver::Clock;
use crate::observe::board::{Board, Letters, Link, Phase};
use crate::observe::manual;

fn at(seconds: u64) -> Moment {
    Moment::since_origin(Duration::from_secs(seconds))
}

fn about() -> About {
    let second = Duration::from_secs(1);
    let limits = Limits { stuck_after: 10 * second, stalled_after: 10 * second, silence_timeout: 30 * second };
    About { relay: "orders".into(), slot: "walpost".into(), database: "app".into(), limits }
}

/// A relay of which everything is known that can be.
fn known() -> Sight {
    let mut sight = Board::new(Clock::start()).read();
    let view = View {
        received: Lsn::new(4000),
        watermark: Lsn::new(3000),
        checkpointed: Lsn::new(2000),
        confirmed: Lsn::new(1000),
        owed: Load { records: 5, bytes: 500 },
        out: 4,
        oldest_unsettled: Some(Timestamp::default()),
        last_settled: Some(Timestamp::default()),
        counters: Counters::default(),
        wants_frames: true,
        awaits_description: false,
        awaits_letters: false,
        heard_at: at(99),
        is_stopping: false,
        trouble: Some(Failure::new(Class::Route, "closed")),
    };
    sight.phase = Phase::Streaming;
    (sight.beat_at, sight.turned_at) = (at(100), at(100));
    sight.last = Some(view.clone());
    sight.link = Some(Link {
        view,
        acknowledged_at: at(93),
        progressed_at: at(100),
        held_since: Some(at(96)),
        checkpoint_due_since: Some(at(98)),
        undescribed_since: None,
        letters_due_since: None,
    });
    sight.sink_away = Some(("refused".to_owned(), at(94)));
    sight.marks_unread = Some((None, at(95)));
    sight.totals.delivered = 17;
    sight.totals.undelivered = BTreeMap::from([("route", 2)]);
    sight.totals.reconnects = BTreeMap::from([("source_lost", 3)]);
    let table = Arc::new(TableName { schema: "public".to_owned(), table: "Out \"box\"".to_owned() });
    sight.traffic = Arc::new([Flow { table, topic: "a\\b\nc".into(), events: 9, bytes: 90 }]);
    sight.checkpointed_at = Some(at(90));
    let slot = SlotUsage {
        active_pid: Some(77),
        restart: Some(Lsn::new(500)),
        confirmed: Some(Lsn::new(1000)),
        wal_status: Some("extended".to_owned()),
        safe_bytes: Some(-5),
        catalog_age: Some(12),
    };
    let usage = Usage { flushed: Lsn::new(4500), limit: Some(1 << 20), oldest_writer_s: Some(1.5), slot: Some(slot) };
    sight.server.usage = Some((usage, at(99)));
    sight.letters = Some(Letters { open: 3, parked_keys: 2 });
    sight
}

fn page(sight: &Sight, seconds: u64) -> Page {
    let about = about();
    let wall = Timestamp::from_postgres_micros(8_000_000);
    let text = render(&Facts::new(sight, &about, at(seconds), wall));
    Page::parse(&text).unwrap_or_else(|reason| panic!("{reason}\n{text}"))
}

#[test]
fn every_figure_is_on_the_page_once_everything_is_known() {
    let page = page(&known(), 100);
    let shown: BTreeSet<&str> = page.samples.iter().map(|sample| sample.name.as_str()).collect();
    let defined: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!((shown, METRICS.len()), (defined.clone(), defined.len()));
    for metric in METRICS {
        let kind = if metric.kind == Kind::Counter { "counter" } else { "gauge" };
        assert_eq!(page.kinds[metric.name], kind);
        assert!(metric.help.ends_with('.') && metric.help.len() > 20, "{}: {:?}", metric.name, metric.help);
    }
}

#[test]
fn each_figure_shows_what_it_says() {
    let page = page(&known(), 100);
    type Expected = (&'static str, &'static [(&'static str, &'static str)], f64);
    let expected: &[Expected] = &[
        ("walpost_info", &[("relay", "orders"), ("slot", "walpost"), ("database", "app")], 1.0),
        ("walpost_live", &[], 1.0),
        ("walpost_ready", &[], 0.0),
        ("walpost_state", &[("state", "holding")], 1.0),
        ("walpost_state", &[("state", "streaming")], 0.0),
        ("walpost_reconnects_total", &[("cause", "source_lost")], 3.0),
        ("walpost_behind_seconds", &[], 8.0),
        ("walpost_last_settled_commit_time_seconds", &[], 946_684_800.0),
        ("walpost_received_position_bytes", &[], 4000.0),
        ("walpost_watermark_position_bytes", &[], 3000.0),
        ("walpost_checkpointed_position_bytes", &[], 2000.0),
        ("walpost_confirmed_position_bytes", &[], 1000.0),
        ("walpost_events_total", &[("outbox", "public.\"Out \"\"box\"\"\""), ("topic", "a\\b\nc")], 9.0),
        ("walpost_event_bytes_total", &[("topic", "a\\b\nc")], 90.0),
        ("walpost_delivered_records_total", &[], 17.0),
        ("walpost_undelivered_records_total", &[("class", "route")], 2.0),
        ("walpost_owed_records", &[], 5.0),
        ("walpost_in_flight_records", &[], 4.0),
        ("walpost_unacknowledged_seconds", &[], 7.0),
        ("walpost_sink_away_seconds", &[], 6.0),
        ("walpost_held_seconds", &[("class", "route")], 4.0),
        ("walpost_dead_letters_open", &[], 3.0),
        ("walpost_parked_keys", &[], 2.0),
        ("walpost_marks_unread_seconds", &[], 5.0),
        ("walpost_checkpoint_age_seconds", &[], 10.0),
        ("walpost_checkpoint_due_seconds", &[], 2.0),
        ("walpost_slot_retained_bytes", &[], 4000.0),
        ("walpost_slot_unconfirmed_bytes", &[], 3500.0),
        ("walpost_slot_safe_bytes", &[], -5.0),
        ("walpost_slot_wal_status", &[("status", "extended")], 1.0),
        ("walpost_slot_wal_status", &[("status", "missing")], 0.0),
        ("walpost_slot_active_pid", &[], 77.0),
        ("walpost_slot_catalog_age_transactions", &[], 12.0),
        ("walpost_server_oldest_writer_seconds", &[], 1.5),
        ("walpost_slot_figures_age_seconds", &[], 1.0),
    ];
    for (name, labels, value) in expected {
        assert_eq!(page.value(name, labels), Some(*value), "{name} {labels:?}");
    }
}

#[test]
fn what_nobody_knows_is_left_out_and_old_figures_of_the_slot_are_not_shown_as_new() {
    let fresh = page(&Board::new(Clock::start()).read(), 0);
    assert_eq!(fresh.value("walpost_state", &[("state", "starting")]), Some(1.0));
    for name in ["walpost_received_position_bytes", "walpost_slot_retained_bytes", "walpost_dead_letters_open"] {
        assert_eq!(fresh.value(name, &[]), None, "{name}");
    }
    let stale = page(&known(), 129);
    assert_eq!(stale.value("walpost_slot_retained_bytes", &[]), None);
    assert_eq!(stale.value("walpost_slot_figures_age_seconds", &[]), Some(30.0));
    let mut gone = known();
    gone.server.usage = gone.server.usage.map(|(usage, at)| (Usage { slot: None, ..usage }, at));
    assert_eq!(page(&gone, 100).value("walpost_slot_wal_status", &[("status", "missing")]), Some(1.0));
}

#[test]
fn the_manual_names_every_figure() {
    let table = manual::render();
    assert_eq!(table.lines().count(), METRICS.len() + 2);
    assert!(METRICS.iter().all(|metric| table.contains(&format!("| `{}` |", metric.name))), "{table}");
}
