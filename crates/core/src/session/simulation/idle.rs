//! A relay beside an outbox that is quiet for days, while others write: nothing that is counted from the last event, the last checkpoint or the
//! last frame may come to an end by itself.
//!
//! Nothing goes wrong here but the server's clock, which is set now and then. Time goes from deadline to deadline, and the server says something
//! where a real one does: when it was asked, and at half of `wal_sender_timeout`.

use std::collections::VecDeque;
use std::time::Duration;

use crate::session::Settings;
use crate::time::Moment;

use super::DAY;
use super::broker::Faults;
use super::random::Random;
use super::server::{Bad, Server};
use super::weather::Weather;
use super::world::World;

pub(super) const SEEDS: u64 = 3;
const DAYS: u32 = 4;
/// Half of the server's `wal_sender_timeout`: so long it says nothing by itself.
const KEEPALIVE: Duration = Duration::from_secs(30);
/// What others have written is confirmed after so long: several times the longest wait for a checkpoint (`idle_age`), for a keepalive may tell of half
/// of it, and the rest is worth a checkpoint only after another wait.
const BEHIND: Duration = Duration::from_secs(12 * 300);

/// What others write, and when the server speaks by itself.
#[derive(Debug)]
pub(super) struct Neighbours {
    ends_at: Moment,
    keepalive_at: Moment,
    write_at: Moment,
    /// What they have written and nobody has confirmed, by its time.
    written: VecDeque<(Moment, u64)>,
    writes: u64,
}

impl Neighbours {
    pub(super) fn new(now: Moment) -> Self {
        Self { ends_at: now.after(DAY * DAYS), keepalive_at: now, write_at: now, written: VecDeque::new(), writes: 0 }
    }

    /// Whether the days are over.
    pub(super) fn are_done(&self, now: Moment) -> bool {
        now >= self.ends_at
    }

    /// When something happens next, if the relay does nothing before.
    pub(super) fn next_at(&self) -> Moment {
        self.keepalive_at.min(self.write_at)
    }

    /// Whether the server says by itself that it lives.
    pub(super) fn is_keepalive_due(&mut self, now: Moment) -> bool {
        let is_due = now >= self.keepalive_at;
        if is_due {
            self.keepalive_at = now.after(KEEPALIVE);
        }
        is_due
    }

    /// Others write, much or little, into tables that are no outboxes or are not decoded at all. Whether they did.
    pub(super) fn write(&mut self, now: Moment, server: &mut Server, random: &mut Random) -> bool {
        if now < self.write_at {
            return false;
        }
        self.write_at = now.after(Duration::from_secs(random.pick(&[1, 60, 600, 7_200])));
        let bytes = random.pick(&[8, 8_192, 4 << 20]);
        server.write_others(bytes);
        self.written.push_back((now, server.insert));
        self.writes += 1;
        if random.one_in(40) {
            server.set_clock(random);
        }
        true
    }

    /// The slot goes on: what was written a while ago is confirmed.
    pub(super) fn check(&mut self, now: Moment, server: &Server) {
        while self.written.pop_front_if(|(_, end)| *end <= server.confirmed).is_some() {}
        let late = self.written.front().filter(|(since, _)| now.since(*since) > BEHIND);
        assert_eq!(late, None, "the slot stays at {:X} while others write", server.confirmed);
    }

    /// How many checkpoints there may be at most, where one is worth a wait of so long; and that they were worth one.
    pub(super) fn check_checkpoints(&self, checkpoints: u64, settings: &Settings) {
        let most = (DAY * DAYS).as_secs() / settings.feedback.idle_interval.as_secs() + 1;
        assert!(self.writes > 50 && checkpoints > 50, "{checkpoints} checkpoints of {} writes", self.writes);
        assert!(checkpoints <= most.min(self.writes + 1), "{checkpoints} checkpoints of {} writes", self.writes);
    }
}

/// Nothing that they write is bad.
pub(super) const GOOD: Bad = Bad { record_in: 0, row_in: 0, is_hopeless_too: false };

impl World {
    fn idle(&mut self) {
        let mut neighbours = Neighbours::new(self.now);
        let mut checkpoints = 0;
        while !neighbours.are_done(self.now) {
            if neighbours.write(self.now, &mut self.server, &mut self.random) && self.random.one_in(3) {
                self.server.commit_others(&mut self.random, &mut self.facts);
            }
            self.weather.chatty = u64::from(neighbours.is_keepalive_due(self.now));
            self.receive(1);
            self.weather.chatty = 0;
            // Others write to the outboxes too, what is no event: their shapes are asked about.
            for _ in 0..4 {
                self.receive(100);
                self.perform();
                self.finish_describing();
            }
            checkpoints += u64::from(self.store.saving.is_some());
            self.finish_saving();
            self.perform();
            neighbours.check(self.now, &self.server);
            self.now = self.session.deadline(self.now).min(neighbours.next_at());
        }
        neighbours.check_checkpoints(checkpoints, &self.settings);
    }

    fn deliver_some(&mut self) {
        for _ in 0..10 {
            self.server.commit(&mut self.random, &mut self.facts, GOOD);
        }
        self.until("everything is delivered and confirmed", |world| {
            let end = world.server.log.last().map_or(0, |transaction| transaction.commit_end);
            world.session.owed().records == 0 && world.server.confirmed >= end
        });
        self.facts.check_nothing_is_missing();
    }
}

#[test]
fn a_relay_that_is_idle_for_days_has_its_slot_go_on_repeats_nothing_and_ends_no_session() {
    for seed in 0..SEEDS {
        let weather = Weather { chatty: 4, describe: 1, ..Weather::default() };
        let mut world = World::of(Random::new(seed), Settings::default(), weather, None);
        world.broker.faults = Faults::default();
        world.perform();
        world.deliver_some();
        world.idle();
        world.weather.chatty = 4;
        world.deliver_some();
        assert!(world.facts.events.len() > 20, "{}", world.facts.events.len());
        assert_eq!((world.facts.repeats, world.tally.sessions, world.tally.resets), (0, 0, 0), "seed {seed}");
        world.stop();
        world.until("the session ends", |world| world.tally.sessions > 0);
        assert_eq!(world.server.confirmed, world.store.position.get(), "the last confirmation");
    }
}
