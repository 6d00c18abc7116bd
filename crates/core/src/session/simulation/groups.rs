//! The same for a sink that commits records and position as one: a reader of committed records sees each event exactly once and in the
//! order of the log, whatever happens to the relay, its source, its broker, and to the answers of commits.
//!
//! The broker here keeps a group to itself until it is committed, may apply a commit and say that it failed, and fails innocents together
//! with a bad row. What a session leaves uncommitted is gone: whoever comes next fences it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::failure::{Class, Failure};
use crate::lsn::Lsn;
use crate::poison::{Inventory, OnBadRow, OnClosedRoute, Policy};
use crate::port::{Delivery, Refusal, Ticket};
use crate::position::{Identity, Progress, Timeline};
use crate::record::Record;
use crate::session::{Action, Cause, End, Grouping, Notice, Session, Settings, Start};
use crate::time::Moment;

use super::facts::Facts;
use super::number_from_environment;
use super::random::Random;
use super::server::{Bad, Server, Stream};
use super::weather::random_settings;
use super::world::outboxes;

const STEPS: u64 = 250;
const SEEDS: u64 = 2000;
/// One lane for all: the order of the log is kept among all events.
const LANE: usize = 0;

#[derive(Debug, Default)]
struct Broker {
    /// Accepted and not yet acknowledged.
    out: VecDeque<(Ticket, Record)>,
    reports: VecDeque<Delivery>,
    /// Acknowledged, and seen by nobody yet.
    group: Vec<Record>,
    is_broken: bool,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Tally {
    commits: u64,
    idle_commits: u64,
    large_groups: u64,
    unknown: u64,
    aborted: u64,
    bad_rows: u64,
    kills: u64,
    old: u64,
}

#[derive(Debug)]
struct World {
    random: Random,
    now: Moment,
    facts: Facts,
    server: Server,
    broker: Broker,
    settings: Settings,
    session: Session,
    stream: Option<Stream>,
    asked: Option<u32>,
    /// Where the last committed checkpoint stands.
    stored: Lsn,
    committing: Option<Progress>,
    alone_until: Option<Identity>,
    next_ticket: Ticket,
    /// Once in so many times something goes wrong; never for 0.
    trouble: u64,
    sessions: u64,
    tally: Tally,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let server = Server::new(&mut random);
        let grouping = Grouping {
            interval: Duration::from_millis(random.pick(&[0, 20, 500])),
            max_records: random.between(1, 12),
            max_bytes: random.pick(&[500, 100_000]),
            timeout: Duration::from_secs(random.pick(&[1, 60])),
        };
        let poison = Policy { on_bad_row: OnBadRow::Stop, on_closed_route: OnClosedRoute::Hold, ..Policy::default() };
        let settings = Settings { grouping: Some(grouping), poison, ..random_settings(&mut random) };
        let now = Moment::since_origin(Duration::from_secs(1));
        let stored = Lsn::new(server.insert);
        let session = Session::new(settings.clone(), outboxes(), start(&server, stored, None, Ticket(0), seed), now);
        let stream = Some(server.stream(stored, &mut random));
        Self {
            trouble: random.pick(&[0, 10, 40, 200]),
            random,
            now,
            facts: Facts::default(),
            server,
            broker: Broker::default(),
            settings,
            session,
            stream,
            asked: None,
            stored,
            committing: None,
            alone_until: None,
            next_ticket: Ticket(0),
            sessions: 1,
            tally: Tally::default(),
        }
    }

    fn run(&mut self) {
        self.perform();
        for _ in 0..STEPS {
            self.step();
        }
        self.trouble = 0;
        self.until("everything is committed and confirmed", |world| {
            let end = world.server.log.last().map_or(0, |transaction| transaction.commit_end);
            world.server.confirmed >= end
        });
        self.facts.check_nothing_is_missing();
        self.server.write_others(2 << 20);
        self.until("the slot moves while only others write", |world| world.server.confirmed == world.server.insert);
        self.session.stop(self.now);
        let sessions = self.sessions;
        self.until("the session ends", |world| world.sessions > sessions);
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..6 => {
                let count = self.random.between(1, 12);
                self.receive(count);
            }
            6..11 => self.work(),
            11..14 => self.report(),
            14..17 => self.write(),
            17 => self.finish_commit(),
            _ => self.pass_time(),
        }
        self.describe();
        if self.random.one_in(self.trouble) {
            self.suffer();
        }
        if !self.random.one_in(4) {
            self.perform();
        }
    }

    fn write(&mut self) {
        if self.random.one_in(4) {
            let bytes = self.random.pick(&[8, 8192, 2 << 20]);
            self.server.write_others(bytes);
        } else {
            let record_in = if self.trouble > 0 { 30 } else { 0 };
            let bad = Bad { record_in, row_in: 0, is_hopeless_too: false };
            self.server.commit(&mut self.random, &mut self.facts, bad);
        }
    }

    fn suffer(&mut self) {
        match self.random.below(6) {
            0 | 1 => {
                self.tally.kills += 1;
                self.next_ticket = Ticket(0);
                self.begin();
            }
            2 | 3 => self.lose_source(),
            4 => {
                self.server.crash();
                self.lose_source();
            }
            _ => self.session.stop(self.now),
        }
    }

    fn lose_source(&mut self) {
        if self.stream.take().is_some() {
            self.session.source_lost(self.now);
        }
    }

    /// The next session: what the last one left is fenced, and the checkpoint says what came of its commit.
    fn begin(&mut self) {
        if let Some(progress) = self.committing.take()
            && self.random.one_in(2)
        {
            self.apply(progress);
        }
        self.broker = Broker::default();
        self.asked = None;
        self.sessions += 1;
        self.alone_until = self.alone_until.filter(|until| until.commit_lsn >= self.stored);
        let start = start(&self.server, self.stored, self.alone_until, self.next_ticket, self.random.next());
        self.session = Session::new(self.settings.clone(), outboxes(), start, self.now);
        self.stream = Some(self.server.stream(self.stored, &mut self.random));
    }

    fn perform(&mut self) {
        for _ in 0..10_000 {
            match self.session.poll(self.now) {
                None => return assert!(self.session.deadline(self.now) > self.now, "it would be polled for ever"),
                Some(Action::Notice(Notice::GroupOld(age, timeout))) => {
                    assert!(age >= timeout / 2);
                    self.tally.old += 1;
                }
                Some(Action::Notice(_)) => {}
                Some(Action::Publish(ticket, record)) => {
                    assert!(self.committing.is_none(), "a record was handed over while a commit was under way");
                    if self.trouble > 0 && self.random.one_in(20) {
                        self.session.refused(ticket, Refusal::Full, self.now);
                    } else {
                        self.broker.out.push_back((ticket, record.clone()));
                    }
                }
                Some(Action::Describe(relation, _)) => self.asked = Some(relation),
                Some(Action::SetAside(..) | Action::Conclude(..) | Action::TakeInventory) => {
                    panic!("there are no letters here")
                }
                Some(Action::ResetSink) => panic!("a reset gives the group up, and is for the next session"),
                Some(Action::Checkpoint(_)) => panic!("a checkpoint outside of a commit"),
                Some(Action::Commit(progress)) => self.commit(progress),
                Some(Action::Confirm(status)) => {
                    assert!(status.confirmed <= self.stored, "the server was told more than is committed");
                    self.server.confirm(status, self.stream.as_mut(), &self.facts, &mut self.random);
                }
                Some(Action::End(end)) => return self.on_end(&end),
            }
        }
        panic!("the session asks for more and more at one moment");
    }

    fn commit(&mut self, progress: Progress) {
        let Broker { out, reports, group, is_broken } = &self.broker;
        assert!(out.is_empty() && reports.is_empty(), "a commit of what is not acknowledged");
        assert!(!is_broken, "a commit of what failed");
        assert!(self.committing.is_none(), "a commit within another");
        assert!(progress.position > self.stored, "a commit of no progress");
        self.tally.commits += 1;
        self.tally.idle_commits += u64::from(group.is_empty());
        self.tally.large_groups += u64::from(group.len() > 5);
        self.committing = Some(progress);
    }

    fn apply(&mut self, progress: Progress) {
        for record in self.broker.group.drain(..) {
            // It breaks off where an event is there already, or comes before one that is.
            self.facts.deliver(LANE, &record);
        }
        self.stored = progress.position;
        self.server.check_durable(progress.position, &self.facts);
    }

    fn finish_commit(&mut self) {
        let Some(progress) = self.committing.take() else { return };
        let has_failed = self.trouble > 0 && self.random.one_in(4);
        if !has_failed || self.random.one_in(2) {
            self.apply(progress);
            self.tally.unknown += u64::from(has_failed);
        }
        let failure = Failure::new(Class::Sink, "no answer");
        self.session.committed(if has_failed { Err(failure) } else { Ok(()) }, self.now);
    }

    /// The broker takes up what was sent: acknowledges the first, or fails all of it as one batch.
    fn work(&mut self) {
        let Some((_, first)) = self.broker.out.front() else { return };
        let is_bad = |record: &Record| self.facts.events[self.facts.event_of(record)].is_bad;
        let has_bad = self.broker.out.iter().any(|(_, record)| is_bad(record));
        let is_first_bad = is_bad(first);
        let fails = is_first_bad || (has_bad && self.random.one_in(2));
        if fails || (self.trouble > 0 && self.random.one_in(40)) {
            let class = if fails { Class::Row } else { Class::Sink };
            self.broker.is_broken = true;
            for (ticket, _) in self.broker.out.drain(..) {
                self.broker.reports.push_back(Delivery { ticket, outcome: Err(Failure::new(class, "it failed")) });
            }
        } else if let Some((ticket, record)) = self.broker.out.pop_front() {
            self.broker.group.push(record);
            self.broker.reports.push_back(Delivery { ticket, outcome: Ok(()) });
        }
    }

    fn report(&mut self) {
        while let Some(report) = self.broker.reports.pop_front() {
            self.session.settle(report, self.now);
        }
    }

    fn receive(&mut self, count: u64) {
        for _ in 0..count {
            let Some(stream) = self.stream.as_mut().filter(|_| self.session.wants_frames()) else { return };
            let Some(frame) = self.server.next_frame(stream, &self.facts, &mut self.random, 6) else { return };
            self.session.receive(&frame, self.now);
        }
    }

    fn describe(&mut self) {
        if let (Some(stream), Some(relation)) = (&self.stream, self.asked.take()) {
            self.session.described(relation, &stream.description(relation));
        }
    }

    fn pass_time(&mut self) {
        self.perform();
        self.receive(1);
        self.perform();
        let wait = self.session.deadline(self.now).since(self.now);
        self.now = self.now.after(if self.random.one_in(2) { wait } else { wait / 3 });
        self.perform();
    }

    fn on_end(&mut self, end: &End) {
        self.next_ticket = end.next_ticket;
        assert_eq!(end.position, self.session.checkpointed_position(), "nothing behind the checkpoint is in memory");
        assert_eq!(end.first_owed, None, "a transaction is committed whole");
        let Broker { out, group, is_broken, .. } = &self.broker;
        let is_clean = out.is_empty() && group.is_empty() && !is_broken;
        assert!(is_clean || end.needs_reset, "what was not committed would come with the next group");
        match &end.cause {
            Cause::Stopped | Cause::SourceLost | Cause::Silent => {}
            Cause::Broken(error) => panic!("a frame could not be applied: {error}"),
            Cause::Aborted(failed, _) => {
                self.tally.aborted += 1;
                self.alone_until = self.alone_until.max(*failed);
            }
            Cause::Undeliverable(identity, _) => {
                // The operator makes the broker take the row.
                let event = self.facts.events.iter_mut().find(|event| event.identity == *identity).unwrap();
                assert!(event.is_bad, "an innocent row was judged: {identity:?}");
                event.is_bad = false;
                self.tally.bad_rows += 1;
            }
        }
        self.begin();
    }

    fn until(&mut self, what: &str, condition: impl Fn(&Self) -> bool) {
        for _ in 0..3000 {
            self.receive(30);
            for _ in 0..8 {
                self.work();
            }
            self.report();
            self.finish_commit();
            self.describe();
            self.perform();
            if condition(self) {
                return;
            }
            if self.stream.as_ref().is_none_or(|stream| stream.has_read_all(&self.server))
                || !self.session.wants_frames()
            {
                self.pass_time();
            }
            if condition(self) {
                return;
            }
        }
        panic!("it never comes true that {what}");
    }
}

fn start(server: &Server, position: Lsn, alone_until: Option<Identity>, first_ticket: Ticket, seed: u64) -> Start {
    Start {
        position,
        checkpointed: position,
        timeline: Timeline(server.timeline),
        commit_time: None,
        first_owed: None,
        settled_rows: None,
        alone_until,
        inventory: Inventory::default(),
        first_ticket,
        seed,
    }
}

#[test]
fn a_reader_of_committed_records_sees_each_event_exactly_once_in_every_run() {
    let seeds = match number_from_environment("WALPOST_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number_from_environment("WALPOST_SEEDS").unwrap_or(SEEDS),
    };
    let runs = seeds.end - seeds.start;
    let mut seen = Tally::default();
    for seed in seeds {
        let mut world = World::new(seed);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| world.run())) {
            let text = panic.downcast_ref::<String>().cloned();
            let promise = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
            panic!("seed {seed}: {}\nreplay it with WALPOST_SEED={seed}", promise.unwrap_or_default());
        }
        let Tally { commits, idle_commits, large_groups, unknown, aborted, bad_rows, kills, old } = world.tally;
        seen.commits += commits;
        seen.idle_commits += idle_commits;
        seen.large_groups += large_groups;
        seen.unknown += unknown;
        seen.aborted += aborted;
        seen.bad_rows += bad_rows;
        seen.kills += kills;
        seen.old += old;
    }
    println!("{seen:?}");
    let Tally { commits, idle_commits, large_groups, unknown, aborted, bad_rows, kills, old } = seen;
    let counts = [commits, idle_commits, large_groups, unknown, aborted, bad_rows, kills, old];
    assert!(
        runs < 500 || counts.iter().all(|count| *count > 0),
        "the simulation no longer shows what it is for: {seen:?}"
    );
}
