//! The same for a sink that commits records, letters and position as one: a reader of committed records sees each event exactly once and in the
//! order of the log, or exactly once as a letter that lies there, whatever happens to the relay, its source, its broker, and to the answers
//! of commits. A letter that is sent is an event exactly once, behind all of its key that came before.
//!
//! The [`broker`] here keeps a group to itself until it is committed, may apply a commit and say that it failed, and fails innocents together
//! with a bad row. What a session leaves uncommitted is gone: whoever comes next fences it. The store of the letters may tell of marks as they
//! were a while ago.

mod blame;
mod broker;
mod idle;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use crate::failure::{Class, Failure};
use crate::ledger::Origin;
use crate::lsn::Lsn;
use crate::poison::{Conclusion, LetterId, OnBadRow, OnClosedRoute, Policy};
use crate::port::{Delivery, Refusal, Ticket};
use crate::position::{Progress, Timeline};
use crate::session::{Action, Cause, End, Grouping, Lessons, Notice, Session, SessionError, Settings, Start};
use crate::time::Moment;

use super::facts::Facts;
use super::letters::{LetterStore, event_of};
use super::random::Random;
use super::server::{Bad, Server, Stream};
use super::weather::random_settings;
use super::world::{configured, describe, note};
use super::{BUSY_COMMITS, Broken, DAY, MARKED_AT_ONCE, SHOWN, number_from_environment};
use blame::{Blame, Sent};
use broker::{Broker, Group};

const STEPS: u64 = 250;
const SEEDS: u64 = 2000;
/// One lane for all: the order of the log is kept among all events.
const LANE: usize = 0;

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
    set_aside: u64,
    parked: u64,
    replayed: u64,
    returned: u64,
    dropped: u64,
    /// Commits of letters alone.
    letter_commits: u64,
    /// Groups that were given up because they were held up.
    held_groups: u64,
    /// Rows that were held while no group was open.
    held_between: u64,
    /// Letters that were offered again after they had ended.
    stale_marks: u64,
    promotions: u64,
    /// How often the checkpoint was moved back by hand.
    moved_back: u64,
    /// Rows that were set aside and whose letter was there already.
    known_letters: u64,
    /// Jumps of the relay's clock, and those of a day and more.
    jumps: u64,
    jumps_of_days: u64,
    /// Times that the server's clock was set forwards and back.
    clock_forth: u64,
    clock_back: u64,
}

impl Tally {
    fn counts(&mut self) -> [&mut u64; 24] {
        let Self { commits, idle_commits, large_groups, unknown, aborted, bad_rows, kills, old, .. } = self;
        let Self { set_aside, parked, replayed, returned, dropped, letter_commits, .. } = self;
        let Self { held_groups, held_between, stale_marks, promotions, moved_back, known_letters, .. } = self;
        let Self { jumps, jumps_of_days, clock_forth, clock_back, .. } = self;
        [
            commits,
            idle_commits,
            large_groups,
            unknown,
            aborted,
            bad_rows,
            kills,
            old,
            set_aside,
            parked,
            replayed,
            returned,
            dropped,
            letter_commits,
            held_groups,
            held_between,
            stale_marks,
            promotions,
            moved_back,
            known_letters,
            jumps,
            jumps_of_days,
            clock_forth,
            clock_back,
        ]
    }

    fn add(&mut self, mut other: Self) {
        for (sum, count) in self.counts().into_iter().zip(other.counts()) {
            *sum += *count;
        }
    }
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
    /// Where the furthest one stood.
    reached: Lsn,
    committing: Option<Progress>,
    /// The transactions of the source of which a row is in the open group. A letter that goes again is of none, though one may come again with it.
    begun: BTreeSet<Lsn>,
    letters: LetterStore,
    /// The same as it was a while ago.
    behind: LetterStore,
    /// The configuration fits the rows of every table, from the next session on.
    is_mended: bool,
    lessons: Lessons,
    /// What failed since the process began.
    blame: Blame,
    next_ticket: Ticket,
    /// When the session was told to stop.
    stopped_at: Option<Moment>,
    /// Time has jumped in this session.
    has_jumped: bool,
    /// It did so past the silence timeout: the slot may be another's.
    has_overslept: bool,
    /// Once in how many frames the server says by itself that it lives; never for 0.
    chatty: u64,
    /// The session was told that the broker takes nothing more into this group.
    is_lost: bool,
    /// Since when a group has been held up in the midst of a transaction.
    held_since: Option<Moment>,
    sessions: u64,
    tally: Tally,
    /// What happened, kept only for a run that is known to fail.
    journal: Option<Vec<String>>,
}

impl World {
    fn new(seed: u64, journal: Option<Vec<String>>) -> Self {
        let mut random = Random::new(seed);
        let grouping = Grouping {
            interval: Duration::from_millis(random.pick(&[0, 20, 500])),
            max_records: random.between(1, 12),
            max_bytes: random.pick(&[500, 100_000]),
            timeout: Duration::from_secs(random.pick(&[1, 60])),
        };
        let settings = Settings { grouping: Some(grouping), ..random_settings(&mut random) };
        let trouble = random.pick(&[0, 10, 40, 200]);
        Self::of(random, settings, trouble, journal)
    }

    /// One in which something goes wrong once in so many steps; never for 0.
    fn of(mut random: Random, settings: Settings, trouble: u64, journal: Option<Vec<String>>) -> Self {
        let server = Server::new(&mut random);
        let now = Moment::since_origin(Duration::from_secs(1));
        let stored = Lsn::new(server.insert);
        let seed = random.next();
        let mut facts = Facts::default();
        facts.is_parking = settings.poison.is_parking();
        let session = Session::new(settings.clone(), configured(false), start(&server, stored, seed), now);
        let stream = Some(server.stream(stored, &mut random));
        Self {
            broker: Broker { trouble, ..Broker::default() },
            random,
            now,
            facts,
            server,
            settings,
            session,
            stream,
            asked: None,
            stored,
            reached: stored,
            committing: None,
            begun: BTreeSet::new(),
            letters: LetterStore::default(),
            behind: LetterStore::default(),
            is_mended: false,
            lessons: Lessons::default(),
            blame: Blame::default(),
            next_ticket: Ticket(0),
            stopped_at: None,
            has_jumped: false,
            has_overslept: false,
            chatty: 6,
            is_lost: false,
            held_since: None,
            sessions: 1,
            tally: Tally::default(),
            journal,
        }
    }

    fn run(&mut self) {
        self.perform();
        for _ in 0..STEPS {
            self.step();
        }
        self.clear_up();
        self.until_while("a key that has events all the time leaves parking", Self::write_busily, |world| {
            world.letters.is_empty() && world.session.parked_keys() == 0
        });
        self.until("everything is committed and confirmed", |world| {
            let end = world.server.log.last().map_or(0, |transaction| transaction.commit_end);
            world.server.confirmed >= end && world.letters.is_empty()
        });
        self.facts.check_nothing_is_missing();
        self.server.write_others(2 << 20);
        self.until("the slot moves while only others write", |world| world.server.confirmed == world.server.insert);
        self.stop();
        let sessions = self.sessions;
        self.until("the session ends", |world| world.sessions > sessions);
    }

    fn step(&mut self) {
        match self.random.below(20) {
            0..6 => {
                let count = self.random.between(1, 12);
                self.receive(count);
            }
            6..11 => self.broker.work(&self.facts, &mut self.random),
            11..14 => self.report(),
            14..17 => self.write(),
            17 => self.finish_commit(),
            _ => self.pass_time(),
        }
        self.describe();
        if self.random.one_in(4) {
            let limit = self.random.index(4) + 1;
            self.look_for_marked(limit);
        }
        if self.random.one_in(6) {
            self.letters.look_after(&mut self.facts, &mut self.random);
        }
        if self.random.one_in(self.broker.trouble) {
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
            let often = if self.broker.trouble > 0 { 25 } else { 0 };
            let is_hopeless_too = self.settings.poison.on_bad_row != OnBadRow::Stop;
            let bad = Bad { record_in: often, row_in: often, is_hopeless_too };
            self.server.commit(&mut self.random, &mut self.facts, bad);
        }
    }

    /// So that there is always more for the relay to read; and nothing bad.
    fn write_busily(&mut self) {
        let has_read_all = self.stream.as_ref().is_some_and(|stream| stream.has_read_all(&self.server));
        for _ in 0..if has_read_all { BUSY_COMMITS } else { 0 } {
            self.server.commit(&mut self.random, &mut self.facts, Bad::NONE);
        }
    }

    fn suffer(&mut self) {
        match self.random.below(12) {
            8 => self.promote(),
            9 => self.jump(),
            10 => self.set_clock(),
            0 => {
                self.tally.kills += 1;
                self.next_ticket = Ticket(0);
                self.lessons = Lessons::default();
                self.blame = Blame::default();
                if self.random.one_in(3) {
                    self.move_back();
                }
                self.begin();
            }
            1 => self.is_mended |= self.random.one_in(4),
            5..8 => {
                let topic = self.random.index(self.broker.closed.len());
                self.broker.closed[topic] = !self.broker.closed[topic];
                self.facts.were_closed[topic] = true;
            }
            2 | 3 => self.lose_source(),
            4 => {
                self.server.crash();
                self.lose_source();
            }
            _ => self.stop(),
        }
    }

    /// The relay is not run for a while, as where its machine sleeps.
    fn jump(&mut self) {
        let span = self.random.jump();
        self.now = self.now.after(span);
        self.has_jumped = true;
        self.has_overslept |= span >= self.settings.silence_timeout;
        self.tally.jumps += 1;
        self.tally.jumps_of_days += u64::from(span >= DAY);
        note!(self, "time has jumped by {span:?}");
    }

    fn set_clock(&mut self) {
        let is_back = self.server.set_clock(&mut self.random);
        self.tally.clock_back += u64::from(is_back);
        self.tally.clock_forth += u64::from(!is_back);
        note!(self, "the server's clock was set back: {is_back}");
    }

    /// An operator takes the slot's position for the checkpoint, and so has events come again.
    fn move_back(&mut self) {
        if let Some(progress) = self.committing.take() {
            note!(self, "commit {} has never arrived", progress.position);
        }
        self.server.fall_behind(&mut self.random);
        let position = Lsn::new(self.server.confirmed);
        note!(self, "moved back from {} to {position}", self.stored);
        self.tally.moved_back += u64::from(position < self.stored);
        self.stored = position;
        self.facts.come_again_from(position, |event| self.letters.open_of(event));
    }

    fn stop(&mut self) {
        self.stopped_at.get_or_insert(self.now);
        self.session.stop(self.now);
    }

    fn lose_source(&mut self) {
        if self.stream.take().is_some() {
            self.session.source_lost(self.now);
        }
    }

    /// A standby takes over that has all that is committed here, and maybe nothing else. At the same place there may be another row.
    fn promote(&mut self) {
        if self.committing.is_none() {
            self.tally.promotions += 1;
            // Nobody hears what this session learned.
            self.blame = Blame::default();
            self.server.promote(self.reached, &mut self.facts, &mut self.random);
            note!(self, "promoted: timeline {}", self.server.timeline);
            self.begin();
        }
    }

    /// The next session: what the last one left is fenced, and the checkpoint says what came of its commit.
    fn begin(&mut self) {
        if let Some(progress) = self.committing.take()
            && self.random.one_in(2)
        {
            self.apply(progress);
        }
        let counters = self.session.counters();
        self.tally.set_aside += counters.set_aside;
        self.tally.parked += counters.parked;
        self.tally.replayed += counters.replayed;
        self.tally.returned += counters.returned;
        self.tally.dropped += counters.given_up;
        self.broker.fence();
        self.begun.clear();
        self.asked = None;
        self.held_since = None;
        self.stopped_at = None;
        (self.has_jumped, self.has_overslept) = (false, false);
        self.is_lost = false;
        self.sessions += 1;
        self.behind = self.letters.clone();
        let start = Start {
            lessons: self.lessons.clone(),
            inventory: self.letters.inventory(),
            first_ticket: self.next_ticket,
            ..start(&self.server, self.stored, self.random.next())
        };
        note!(self, "connected: {start:?}");
        self.session = Session::new(self.settings.clone(), configured(self.is_mended), start, self.now);
        self.stream = Some(self.server.stream(self.stored, &mut self.random));
    }

    fn perform(&mut self) {
        for _ in 0..10_000 {
            match self.session.poll(self.now) {
                None => {
                    assert!(self.session.deadline(self.now) > self.now, "it would be polled for ever");
                    return self.check_hold();
                }
                Some(Action::Notice(Notice::GroupOld(age, timeout))) => {
                    assert!(age >= timeout / 2);
                    self.tally.old += 1;
                }
                Some(Action::Notice(_)) => {}
                Some(Action::Publish(ticket, record)) => {
                    assert!(self.committing.is_none(), "a record was handed over while a commit was under way");
                    assert!(!self.is_lost, "a record was handed over into a group that is lost");
                    assert!(!self.has_overslept, "a record was handed over though the slot may have become another's");
                    let is_whole = self.stream.is_some() || self.stopped_at.is_some();
                    assert!(is_whole, "a record was handed over though the end of its transaction may never come");
                    let outcome = self.broker.publish(ticket, record, &self.facts, &mut self.random);
                    note!(self, "publish {ticket:?}: {outcome:?}");
                    let begun = record.identity.commit_lsn;
                    if let Err(refusal) = outcome {
                        self.session.refused(ticket, refusal, self.now);
                    } else if !self.session.outbound.ledger.is_letter(ticket) {
                        self.begun.insert(begun);
                    }
                }
                Some(Action::Describe(relation, _)) => self.asked = Some(relation),
                Some(Action::SetAside(ticket, letter)) => {
                    assert!(self.committing.is_none(), "a row was set aside while a commit was under way");
                    assert!(!self.is_lost, "a row was set aside into a group that is lost");
                    let is_whole = self.stream.is_some() || self.stopped_at.is_some();
                    assert!(is_whole, "a row was set aside though the end of its transaction may never come");
                    note!(self, "set aside {ticket:?}, event {}: {:?}", event_of(&letter), letter.cause);
                    let is_new = !self.letters.has(letter.identity);
                    self.tally.known_letters += u64::from(!is_new);
                    let begun = letter.identity.commit_lsn;
                    match self.broker.set_aside(*letter, is_new, &mut self.random) {
                        Ok(is_new) => {
                            self.begun.insert(begun);
                            self.session.set_aside(ticket, is_new);
                        }
                        Err(refusal) => self.refuse_letter(refusal),
                    }
                }
                Some(Action::Conclude(letter, conclusion)) => {
                    assert!(self.committing.is_none(), "a letter ended while a commit was under way");
                    assert!(!self.is_lost, "a letter ended in a group that is lost");
                    note!(self, "conclude {letter:?}: {conclusion:?}");
                    match self.broker.conclude(letter, conclusion, &mut self.random) {
                        Ok(()) => self.session.concluded(letter),
                        Err(refusal) => self.refuse_letter(refusal),
                    }
                }
                Some(Action::TakeInventory) => panic!("what lies there is known exactly"),
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

    fn refuse_letter(&mut self, refusal: Refusal) {
        self.is_lost |= refusal != Refusal::Full;
        self.session.letter_refused(refusal, self.now);
    }

    fn commit(&mut self, progress: Progress) {
        let Broker { out, reports, group, is_broken, .. } = &self.broker;
        assert!(out.is_empty() && reports.is_empty(), "a commit of what is not acknowledged");
        assert!(!is_broken, "a commit of what failed");
        assert!(self.committing.is_none(), "a commit within another");
        assert!(progress.position > self.stored || group.len() > 0, "a commit of no progress");
        note!(self, "commit {} with {} records", progress.position, group.len());
        self.tally.commits += 1;
        self.tally.idle_commits += u64::from(group.len() == 0);
        self.tally.large_groups += u64::from(group.len() > 5);
        self.tally.letter_commits += u64::from(progress.position == self.stored);
        self.committing = Some(progress);
    }

    /// All of it becomes visible at once. What is given up stands in nobody's way.
    fn apply(&mut self, progress: Progress) {
        let Group { records, letters, ends, known: _ } = std::mem::take(&mut self.broker.group);
        let (dropped, others): (Vec<_>, Vec<_>) = ends.into_iter().partition(|(_, end)| *end == Conclusion::Dropped);
        self.conclude(dropped);
        for record in records {
            // It breaks off where an event is there already, or comes before one that is.
            self.facts.deliver(LANE, &record);
        }
        for letter in letters {
            assert!(self.letters.set_aside(letter, &mut self.facts), "a row was set aside twice");
        }
        self.conclude(others);
        self.letters.check_exactly_once(&self.facts);
        self.letters.check(&self.settings.poison);
        self.stored = progress.position;
        self.reached = self.reached.max(self.stored);
        self.server.check_durable(progress.position, &self.facts);
    }

    fn conclude(&mut self, ends: Vec<(LetterId, Conclusion)>) {
        for (id, conclusion) in ends {
            assert!(self.letters.is_open(id), "{id:?} ended twice");
            self.letters.conclude(id, &conclusion, &mut self.facts);
            if let Conclusion::Returned(_) = conclusion {
                self.blame.returned(id);
            }
        }
    }

    fn finish_commit(&mut self) {
        let Some(progress) = self.committing.take() else { return };
        let has_failed = self.broker.trouble > 0 && self.random.one_in(4);
        if !has_failed || self.random.one_in(2) {
            self.apply(progress);
            self.tally.unknown += u64::from(has_failed);
        }
        note!(self, "commit {} has failed: {has_failed}", progress.position);
        let failure = Failure::new(Class::Sink, "no answer");
        self.session.committed(if has_failed { Err(failure) } else { Ok(()) }, self.now);
        if !has_failed {
            self.begun.clear();
            self.check_counts();
        }
    }

    /// What the session knows of the letters is exact: what lies there, and what is on its way.
    fn check_counts(&self) {
        let inventory = self.letters.inventory();
        let on_their_way = self.session.outbound.ledger.aside().count();
        assert_eq!(self.session.open_letters(), inventory.letters + on_their_way as u64, "letters");
        if on_their_way == 0 {
            assert_eq!(self.session.parked_keys(), inventory.parked.len(), "parked keys");
            let [_, roots, parked_bytes] = self.session.outbound.letters.counted();
            assert_eq!((roots, parked_bytes), (inventory.roots, inventory.parked_bytes), "roots and parked bytes");
        }
    }

    /// What is held up keeps no transaction open: between two of the source it is committed at once, and within one it is given up after a grace.
    fn check_hold(&mut self) {
        let outbound = &self.session.outbound;
        let is_held_up = outbound.hold_up().is_some() && self.broker.is_open() && self.committing.is_none();
        let Some(held) = outbound.ledger.first_waiting().filter(|_| is_held_up) else {
            self.tally.held_between += u64::from(outbound.hold_up().is_some());
            return self.held_since = None;
        };
        let Broker { out, reports, .. } = &self.broker;
        if self.begun.contains(&held.commit_lsn) {
            let since = *self.held_since.get_or_insert(self.now);
            let timeout = self.settings.grouping.as_ref().unwrap().timeout;
            let grace = Duration::from_secs(5).min(timeout / 4);
            assert!(self.now.since(since) < grace, "a transaction is held open");
        } else {
            let waits_for_room = outbound.letters.has_ends() || outbound.ledger.aside().next().is_some();
            let is_moving =
                !out.is_empty() || !reports.is_empty() || outbound.ledger.has_waiting_letters() || waits_for_room;
            assert!(is_moving, "a transaction is held open while nothing of the one that is held is in it");
            self.held_since = None;
        }
    }

    /// The driver looks for letters that are marked, in a store that may be behind.
    fn look_for_marked(&mut self, limit: usize) {
        if !self.session.wants_marked() {
            return;
        }
        // Readers of committed records see nothing behind the first that an open transaction has written there.
        let Group { letters, known, ends, records: _ } = &self.broker.group;
        let is_hidden = !(letters.is_empty() && known.is_empty() && ends.is_empty());
        if !is_hidden && self.random.one_in(2) {
            self.behind = self.letters.clone();
        }
        let marked = self.behind.marked(limit, !self.settings.poison.is_parking());
        let is_stale = |id| !self.letters.is_open(id);
        self.tally.stale_marks += marked.iter().filter(|marked| is_stale(marked.id)).count() as u64;
        note!(self, "marked: {:?}", marked.iter().map(|marked| (marked.id, marked.request)).collect::<Vec<_>>());
        self.session.replay(marked);
    }

    /// From here on nothing goes wrong by itself any more, and more may lie there than one transaction sets aside. What is bad is bad still until it is
    /// a letter, or somebody was told.
    fn clear_up(&mut self) {
        self.broker.trouble = 0;
        self.broker.closed = Default::default();
        self.is_mended = true;
        self.settings.poison = Policy { flood_limit: 1000, parked_bytes: 1 << 20, ..self.settings.poison.clone() };
        self.lose_source();
    }

    fn report(&mut self) {
        while let Some((report, was_alone)) = self.broker.reports.pop_front() {
            note!(self, "report {report:?}");
            self.blame(&report, was_alone);
            self.is_lost |= report.outcome.is_err();
            self.session.settle(report, self.now);
        }
    }

    /// A route that is closed is waited for, unless its rows are to be set aside.
    fn blame(&mut self, report: &Delivery, was_alone: bool) {
        let ledger = &self.session.outbound.ledger;
        let item = ledger.item(report.ticket).filter(|_| ledger.is_out(report.ticket));
        let (Some(item), Err(failure)) = (item, &report.outcome) else { return };
        let is_waited_for = self.settings.poison.on_closed_route == OnClosedRoute::Hold;
        let sent = match (failure.class, &item.origin) {
            (Class::Row | Class::Route, Origin::Letter(letter)) => Sent::Letter(*letter),
            (Class::Route, Origin::Log(_)) if is_waited_for => return,
            (Class::Row | Class::Route, Origin::Log(_)) => Sent::Row(item.identity),
            _ => return,
        };
        let patience = self.settings.retry_ceiling.max(self.settings.retry_initial);
        let was_judged = self.session.outbound.lessons.judgement(item.identity).is_some();
        self.blame.failed(sent, was_alone, was_judged, patience, self.now);
    }

    fn receive(&mut self, count: u64) {
        for _ in 0..count {
            let Some(stream) = self.stream.as_mut().filter(|_| self.session.wants_frames()) else { return };
            let Some(frame) = self.server.next_frame(stream, &self.facts, &mut self.random, self.chatty) else {
                return;
            };
            note!(self, "receive {}", describe(&frame));
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
        note!(self, "ended: {end:?}");
        self.next_ticket = end.next_ticket;
        assert_eq!(end.position, self.session.checkpointed_position(), "nothing behind the checkpoint is in memory");
        assert_eq!(end.first_owed, None, "a transaction is committed whole");
        let Broker { out, group, is_broken, .. } = &self.broker;
        let is_clean = out.is_empty() && group.len() == 0 && !is_broken;
        assert!(is_clean || end.needs_reset, "what was not committed would come with the next group");
        assert!(end.lessons.rows().all(|row| row.commit_lsn >= end.position), "it remembers what is committed");
        self.lessons.clone_from(&end.lessons);
        let stops = self.settings.poison.on_bad_row == OnBadRow::Stop;
        match &end.cause {
            Cause::Stopped => {
                let is_late = self.now.since(self.stopped_at.unwrap_or_default()) >= self.settings.drain_timeout;
                let has_left = self.broker.is_open() && self.stream.is_some() && !is_late && !self.has_jumped;
                assert!(!has_left, "a stop left something behind that could have been committed");
            }
            Cause::SourceLost | Cause::Silent => {}
            Cause::Broken(SessionError::Row { .. }) if stops => self.is_mended = true,
            Cause::Broken(error) => panic!("a frame could not be applied: {error}"),
            Cause::Aborted(_, failure) => {
                self.tally.aborted += 1;
                self.tally.held_groups += u64::from(failure.reason.contains("walpost dlq list"));
            }
            Cause::Undeliverable(identity, _) => {
                assert!(stops, "it could have been set aside: {identity:?}");
                // The operator makes the broker take the row.
                let place = (identity.commit_lsn, identity.ordinal);
                let mut events = self.facts.events.iter_mut();
                let event = events.find(|event| event.place() == place && !event.is_lost).unwrap();
                assert!(event.is_bad, "an innocent row was judged: {identity:?}");
                event.is_bad = false;
                self.tally.bad_rows += 1;
            }
        }
        self.begin();
    }

    fn until(&mut self, what: &str, condition: impl Fn(&Self) -> bool) {
        self.until_while(what, |_| {}, condition);
    }

    /// The same while something happens again and again.
    fn until_while(&mut self, what: &str, mut happens: impl FnMut(&mut Self), condition: impl Fn(&Self) -> bool) {
        for _ in 0..3000 {
            if condition(self) {
                return;
            }
            happens(self);
            self.receive(30);
            for _ in 0..8 {
                self.broker.work(&self.facts, &mut self.random);
            }
            self.report();
            self.finish_commit();
            self.describe();
            self.letters.clear_up(&mut self.facts);
            self.look_for_marked(MARKED_AT_ONCE);
            self.perform();
            if condition(self) {
                return;
            }
            if self.stream.as_ref().is_none_or(|stream| stream.has_read_all(&self.server))
                || !self.session.wants_frames()
            {
                self.pass_time();
            }
        }
        panic!("it never comes true that {what}");
    }
}

fn start(server: &Server, position: Lsn, seed: u64) -> Start {
    Start::at(position, Timeline(server.timeline), seed)
}

fn run(seed: u64, journal: Option<Vec<String>>) -> Result<Tally, Broken> {
    let mut world = World::new(seed, journal);
    match catch_unwind(AssertUnwindSafe(|| world.run())) {
        Ok(()) => Ok(world.tally),
        Err(panic) => Err(Broken::of(&*panic, world.journal)),
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
        // The journal is kept only where it is read: the same seed breaks the same promise again.
        match run(seed, None).or_else(|_| run(seed, Some(Vec::new()))) {
            Ok(tally) => seen.add(tally),
            Err(Broken { promise, journal }) => {
                let shown = journal[journal.len().saturating_sub(SHOWN)..].join("\n");
                panic!("{shown}\n\nseed {seed}: {promise}\nreplay it with WALPOST_SEED={seed}");
            }
        }
    }
    println!("{seen:?}");
    assert!(
        runs < 500 || seen.clone().counts().iter().all(|count| **count > 0),
        "the simulation no longer shows what it is for: {seen:?}"
    );
}
