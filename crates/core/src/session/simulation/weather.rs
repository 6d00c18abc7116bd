//! What kind of world a run is in: how often each edge fails, what the operator chose, and what came of it.

use std::time::Duration;

use crate::feedback;
use crate::poison::{OnBadRow, OnClosedRoute, Policy};
use crate::session::Settings;

use super::random::Random;

/// How often what goes wrong: once in so many steps; never for 0.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Weather {
    pub(super) kill: u64,
    pub(super) source_lost: u64,
    pub(super) mute: u64,
    pub(super) server_crash: u64,
    pub(super) promotion: u64,
    pub(super) stop: u64,
    pub(super) sink_away: u64,
    pub(super) lane_hangs: u64,
    pub(super) route_closed: u64,
    pub(super) store_fails: u64,
    pub(super) store_away: u64,
    pub(super) catalogue_away: u64,
    /// How often the catalogue answers, rather.
    pub(super) describe: u64,
    pub(super) jump: u64,
    /// How often somebody sets the server's clock.
    pub(super) clock: u64,
    pub(super) bad_record: u64,
    pub(super) bad_row: u64,
    pub(super) letters_fail: u64,
    pub(super) letters_away: u64,
    /// How often an operator looks at the letters, rather.
    pub(super) operator: u64,
    pub(super) chatty: u64,
}

/// What happened in a run, to see that the simulation shows what it is for.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) events: u64,
    pub(super) repeats: u64,
    pub(super) sessions: u64,
    pub(super) kills: u64,
    pub(super) resets: u64,
    pub(super) stale_reports: u64,
    pub(super) skipped_transactions: u64,
    pub(super) skipped_rows: u64,
    pub(super) stopped: u64,
    pub(super) source_lost: u64,
    pub(super) silent: u64,
    pub(super) bad_rows: u64,
    pub(super) given_up: u64,
    pub(super) promotions: u64,
    pub(super) failed_checkpoints: u64,
    pub(super) descriptions: u64,
    pub(super) idle_answers: u64,
    pub(super) open_questions: u64,
    pub(super) set_aside: u64,
    pub(super) parked: u64,
    pub(super) replayed: u64,
    pub(super) returned: u64,
    pub(super) letters_given_up: u64,
    pub(super) inventories: u64,
    pub(super) held: u64,
    pub(super) failed_letters: u64,
    /// Jumps of the relay's clock, and those of a day and more.
    pub(super) jumps: u64,
    pub(super) jumps_of_days: u64,
    /// Times that the server's clock was set forwards and back.
    pub(super) clock_forth: u64,
    pub(super) clock_back: u64,
}

impl Weather {
    /// Every run has weather of its own, so that each fault is also seen without the others.
    pub(super) fn new(random: &mut Random) -> Self {
        let mut often = |from: u64| if random.one_in(2) { from * random.between(1, 4) } else { 0 };
        Self {
            kill: often(150),
            source_lost: often(40),
            mute: often(200),
            server_crash: often(150),
            promotion: often(2),
            stop: often(150),
            sink_away: often(80),
            lane_hangs: often(50),
            route_closed: often(40),
            store_fails: often(3),
            store_away: often(100),
            catalogue_away: often(60),
            jump: often(200),
            clock: often(100),
            bad_record: often(4),
            bad_row: often(4),
            letters_fail: often(2),
            letters_away: often(100),
            operator: 2 + often(3),
            chatty: 2 + often(4),
            describe: random.pick(&[1, 2, 8]),
        }
    }
}

pub(super) fn random_settings(random: &mut Random) -> Settings {
    let mut millis = |from: &[u64]| Duration::from_millis(random.pick(from));
    Settings {
        feedback: feedback::Settings {
            checkpoint_interval: millis(&[10, 200, 1000]),
            checkpoint_events: 5,
            idle_interval: millis(&[50, 2000]),
            idle_bytes: 1 << 20,
            idle_age: millis(&[1000, 3000]),
            status_interval: millis(&[200, 1000, 10_000]),
            retry_initial: millis(&[10, 100]),
            retry_ceiling: millis(&[100, 30_000]),
        },
        retry_initial: millis(&[10, 100]),
        retry_ceiling: millis(&[100, 30_000]),
        silence_timeout: millis(&[5000, 60_000]),
        drain_timeout: millis(&[500, 10_000]),
        stop_at: None,
        grouping: None,
        max_records: random.index(12) + 1,
        max_bytes: random.pick(&[600, 1500, 5000]),
        poison: Policy {
            keep: crate::poison::Keep::Row,
            on_bad_row: random.pick(&[OnBadRow::Park, OnBadRow::Park, OnBadRow::DeadLetter, OnBadRow::Stop]),
            on_closed_route: random.pick(&[OnClosedRoute::Hold, OnClosedRoute::DeadLetter]),
            flood_limit: random.pick(&[1, 1, 2, 5, 100]),
            parked_bytes: random.pick(&[150, 1000, 1 << 20]),
        },
    }
}

impl Tally {
    pub(super) fn has_seen_all(&self) -> bool {
        let Self { events, repeats, sessions, kills, resets, stale_reports, .. } = *self;
        let Self { skipped_transactions, skipped_rows, stopped, source_lost, silent, .. } = *self;
        let Self { bad_rows, given_up, promotions, failed_checkpoints, .. } = *self;
        let Self { descriptions, idle_answers, open_questions, .. } = *self;
        let Self { set_aside, parked, replayed, returned, letters_given_up, inventories, held, failed_letters, .. } =
            *self;
        let Self { jumps, jumps_of_days, clock_forth, clock_back, .. } = *self;
        let seen = [
            [events, repeats, sessions, kills, resets],
            [stale_reports, skipped_transactions, skipped_rows, stopped, source_lost],
            [silent, bad_rows, given_up, promotions, failed_checkpoints],
        ];
        let described = [descriptions, idle_answers, open_questions];
        let letters = [set_aside, parked, replayed, returned, letters_given_up, inventories, held, failed_letters];
        let clocks = [jumps, jumps_of_days, clock_forth, clock_back];
        seen.as_flattened().iter().chain(&described).chain(&letters).chain(&clocks).all(|count| *count > 0)
    }

    pub(super) fn add(&mut self, other: Self) {
        let Self {
            events,
            repeats,
            sessions,
            kills,
            resets,
            stale_reports,
            skipped_transactions,
            skipped_rows,
            stopped,
            source_lost,
            silent,
            bad_rows,
            given_up,
            promotions,
            failed_checkpoints,
            descriptions,
            idle_answers,
            open_questions,
            set_aside,
            parked,
            replayed,
            returned,
            letters_given_up,
            inventories,
            held,
            failed_letters,
            jumps,
            jumps_of_days,
            clock_forth,
            clock_back,
        } = other;
        self.events += events;
        self.repeats += repeats;
        self.sessions += sessions;
        self.kills += kills;
        self.resets += resets;
        self.stale_reports += stale_reports;
        self.skipped_transactions += skipped_transactions;
        self.skipped_rows += skipped_rows;
        self.stopped += stopped;
        self.source_lost += source_lost;
        self.silent += silent;
        self.bad_rows += bad_rows;
        self.given_up += given_up;
        self.promotions += promotions;
        self.failed_checkpoints += failed_checkpoints;
        self.descriptions += descriptions;
        self.idle_answers += idle_answers;
        self.open_questions += open_questions;
        self.set_aside += set_aside;
        self.parked += parked;
        self.replayed += replayed;
        self.returned += returned;
        self.letters_given_up += letters_given_up;
        self.inventories += inventories;
        self.held += held;
        self.failed_letters += failed_letters;
        self.jumps += jumps;
        self.jumps_of_days += jumps_of_days;
        self.clock_forth += clock_forth;
        self.clock_back += clock_back;
    }
}
