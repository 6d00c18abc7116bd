//! The same where records and position are committed as one: the position of an outbox that is quiet for days goes on by commits of nothing else.

use std::time::Duration;

use crate::session::{Grouping, Settings};

use super::super::idle::{GOOD, Neighbours, SEEDS};
use super::super::random::Random;
use super::World;

impl World {
    fn idle(&mut self) {
        let mut neighbours = Neighbours::new(self.now);
        let before = self.tally.commits;
        while !neighbours.are_done(self.now) {
            if neighbours.write(self.now, &mut self.server, &mut self.random) && self.random.one_in(3) {
                self.server.commit_others(&mut self.random, &mut self.facts);
            }
            self.chatty = u64::from(neighbours.is_keepalive_due(self.now));
            self.receive(1);
            self.chatty = 0;
            for _ in 0..4 {
                self.receive(100);
                self.perform();
                self.describe();
            }
            self.finish_commit();
            self.perform();
            neighbours.check(self.now, &self.server);
            self.now = self.session.deadline(self.now).min(neighbours.next_at());
        }
        neighbours.check_checkpoints(self.tally.commits - before, &self.settings);
    }

    fn deliver_some(&mut self) {
        for _ in 0..10 {
            self.server.commit(&mut self.random, &mut self.facts, GOOD);
        }
        self.until("everything is committed and confirmed", |world| {
            world.server.confirmed >= world.server.log.last().map_or(0, |transaction| transaction.commit_end)
        });
        self.facts.check_nothing_is_missing();
    }
}

#[test]
fn a_relay_that_is_idle_for_days_commits_its_position_repeats_nothing_and_ends_no_session() {
    let grouping = Grouping {
        interval: Duration::from_millis(100),
        max_records: 1_000,
        max_bytes: 1 << 20,
        timeout: Duration::from_secs(60),
    };
    for seed in 0..SEEDS {
        let settings = Settings { grouping: Some(grouping.clone()), ..Settings::default() };
        let mut world = World::of(Random::new(seed), settings, 0, None);
        world.perform();
        world.deliver_some();
        world.idle();
        world.chatty = 6;
        world.deliver_some();
        assert!(world.facts.events.len() > 20, "{}", world.facts.events.len());
        assert_eq!((world.facts.repeats, world.sessions, world.tally.aborted, world.tally.old), (0, 1, 0, 0), "{seed}");
    }
}
