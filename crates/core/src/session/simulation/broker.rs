//! The simulated sink, as bad as its contract in [`crate::port::Sink`] lets it be.
//!
//! Each lane (a partition of a topic) delivers in order; among lanes there is none. A failure breaks its lane, or all of
//! them: what was accepted after it comes back, until a reset has given everything back.

use std::collections::VecDeque;

use crate::failure::{Class, Failure};
use crate::port::{Delivery, Refusal, Ticket};
use crate::record::Record;

use super::facts::Facts;
use super::random::Random;
use super::server::TOPICS;

const PARTITIONS: usize = 2;
pub(super) const LANES: usize = TOPICS.len() * PARTITIONS;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Broker {
    lanes: [Lane; LANES],
    /// Topics that are missing, or closed to the relay.
    pub(super) closed: [bool; TOPICS.len()],
    pub(super) is_away: bool,
    /// A lane whose leader answers nothing, while the others go on.
    pub(super) hanging: Option<usize>,
    pub(super) capacity: usize,
    pub(super) faults: Faults,
    phase: Phase,
}

/// One in so many times; never for 0.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct Faults {
    /// A batch fails, the good with the bad.
    pub(super) batch: u64,
    /// A record is delivered and reported as failed.
    pub(super) lost_acknowledgement: u64,
    /// A full queue that nobody could foresee.
    pub(super) full: u64,
    /// The process has to end.
    pub(super) configuration: u64,
    /// A reset fails.
    pub(super) reset: u64,
}

#[derive(Debug, Default)]
struct Lane {
    queue: VecDeque<(Ticket, Record)>,
    reports: VecDeque<Delivery>,
    is_broken: bool,
    /// What was given up while it was on the wire: it may yet arrive, in order, or be gone.
    wire: VecDeque<Record>,
}

#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Phase {
    #[default]
    Open,
    /// A reset is under way.
    Resetting,
    /// A reset has failed: it takes another before anything is accepted.
    Shut,
}

impl Broker {
    /// Every run has faults of its own.
    pub(super) fn new(random: &mut Random) -> Self {
        let mut often = |from: u64| if random.one_in(2) { from * random.between(1, 4) } else { 0 };
        let faults = Faults {
            batch: often(6),
            lost_acknowledgement: often(15),
            full: often(8),
            configuration: often(100),
            reset: often(2),
        };
        Self { faults, capacity: random.index(8) + 1, ..Self::default() }
    }

    pub(super) fn publish(
        &mut self,
        ticket: Ticket,
        record: &Record,
        facts: &Facts,
        random: &mut Random,
    ) -> Result<(), Refusal> {
        assert_eq!(self.phase, Phase::Open, "{ticket:?} was published into a sink that has not been reset");
        let held: usize = self.lanes.iter().map(|lane| lane.queue.len()).sum();
        if held >= self.capacity || random.one_in(self.faults.full) {
            return Err(Refusal::Full);
        }
        let event = &facts.events[facts.event_of(record)];
        let refuse = |class| Err(Refusal::Failed(Failure::new(class, "refused at once")));
        if event.is_bad && random.one_in(2) {
            return refuse(Class::Row);
        }
        if self.closed[event.topic] && random.one_in(2) {
            return refuse(Class::Route);
        }
        if self.is_away && random.one_in(8) {
            return refuse(Class::Sink);
        }
        self.lanes[lane_of(event.topic, event.key)].queue.push_back((ticket, record.clone()));
        Ok(())
    }

    /// Something happens in one of the lanes.
    pub(super) fn work(&mut self, facts: &mut Facts, random: &mut Random) {
        self.let_arrive(random.index(LANES), facts, random);
        let busy: Vec<usize> =
            (0..LANES).filter(|lane| !self.lanes[*lane].queue.is_empty() && self.hanging != Some(*lane)).collect();
        if busy.is_empty() || self.phase != Phase::Open {
            return;
        }
        let lane = random.pick(&busy);
        let event = facts.event_of(&self.lanes[lane].queue[0].1);
        let length = self.lanes[lane].queue.len();
        let batch = random.index(length) + 1;
        if self.lanes[lane].is_broken {
            let class = random.pick(&[Class::Withdrawn, Class::Withdrawn, Class::Sink]);
            self.lanes[lane].give_back(1, class);
        } else if self.is_away {
            if random.one_in(8) {
                self.fail(lane, batch, Class::Sink, random);
            }
        } else if random.one_in(self.faults.configuration) {
            self.fail(lane, 1, Class::Configuration, random);
        } else if let Some(class) = self.fault_in(lane, batch, facts) {
            self.fail(lane, batch, class, random);
        } else if random.one_in(self.faults.batch) {
            // A batch that is too large is the fault of no record in it, and no such thing happens to one sent alone.
            self.fail(lane, batch, if length > 1 { Class::Row } else { Class::Sink }, random);
        } else if random.one_in(self.faults.lost_acknowledgement) {
            facts.deliver(lane, &self.lanes[lane].queue[0].1);
            facts.allow_repeat(event);
            self.lanes[lane].give_back(1, Class::Sink);
            self.break_lanes(lane, random);
        } else {
            self.lanes[lane].deliver(lane, facts);
        }
    }

    /// Some reports, in order within a lane and in none among them.
    pub(super) fn take_reports(&mut self, random: &mut Random) -> Vec<Delivery> {
        let mut reports = Vec::new();
        for _ in 0..random.between(1, 6) {
            reports.extend(self.lanes[random.index(LANES)].reports.pop_front());
        }
        reports
    }

    pub(super) fn begin_reset(&mut self) {
        assert_ne!(self.phase, Phase::Resetting, "a reset was asked for within another");
        self.phase = Phase::Resetting;
    }

    pub(super) fn is_resetting(&self) -> bool {
        self.phase == Phase::Resetting
    }

    /// What was accepted is given up, unless it is just arriving.
    pub(super) fn finish_reset(&mut self, facts: &mut Facts, random: &mut Random) -> Result<(), Failure> {
        // While the broker is away a reset may fail again and again.
        let has_failed = random.one_in(if self.is_away { self.faults.reset.min(2) } else { self.faults.reset });
        let keeps_some = has_failed && random.one_in(2);
        for lane in 0..LANES {
            if keeps_some && random.one_in(2) {
                continue;
            }
            self.deliver_prefix(lane, facts, random);
            self.leave_on_the_wire(lane, random);
            let rest = self.lanes[lane].queue.len();
            self.lanes[lane].give_back(rest, Class::Withdrawn);
        }
        self.phase = if has_failed { Phase::Shut } else { Phase::Open };
        if has_failed {
            return Err(Failure::new(Class::Sink, "no new producer can be made"));
        }
        for lane in &mut self.lanes {
            lane.is_broken = false;
        }
        Ok(())
    }

    /// The process is gone, and with it every report. What was under way arrived, or did not.
    pub(super) fn kill(&mut self, facts: &mut Facts, random: &mut Random) {
        for lane in 0..LANES {
            self.deliver_prefix(lane, facts, random);
            self.leave_on_the_wire(lane, random);
            let wire = std::mem::take(&mut self.lanes[lane].wire);
            self.lanes[lane] = Lane { wire, ..Lane::default() };
        }
        self.phase = Phase::Open;
    }

    fn deliver_prefix(&mut self, lane: usize, facts: &mut Facts, random: &mut Random) {
        while let Some((_, record)) = self.lanes[lane].queue.front() {
            let event = &facts.events[facts.event_of(record)];
            let cannot = self.lanes[lane].is_broken || self.is_away || event.is_bad || self.closed[event.topic];
            if cannot || random.one_in(3) {
                return;
            }
            self.lanes[lane].deliver(lane, facts);
        }
    }

    /// Of what is given up, some is on the wire. Nothing is, after a failure.
    fn leave_on_the_wire(&mut self, lane: usize, random: &mut Random) {
        let lane = &mut self.lanes[lane];
        if !lane.is_broken && random.one_in(2) {
            let count = random.index(lane.queue.len() + 1);
            lane.wire.extend(lane.queue.iter().take(count).map(|(_, record)| record.clone()));
        }
    }

    /// Something that was given up long ago arrives after all.
    fn let_arrive(&mut self, lane: usize, facts: &mut Facts, random: &mut Random) {
        let Some(record) = self.lanes[lane].wire.front() else { return };
        let event = &facts.events[facts.event_of(record)];
        if event.is_bad || event.is_lost || self.closed[event.topic] || random.one_in(8) {
            self.lanes[lane].wire.clear();
        } else if !self.is_away && random.one_in(4) {
            facts.deliver_late(lane, record);
            self.lanes[lane].wire.pop_front();
        }
    }

    /// Why the broker takes a batch of so many records by no means. It blames the good ones with the bad one, and those in front of it too.
    fn fault_in(&self, lane: usize, batch: usize, facts: &Facts) -> Option<Class> {
        self.lanes[lane].queue.iter().take(batch).find_map(|(_, record)| {
            let event = &facts.events[facts.event_of(record)];
            let is_closed = self.closed[event.topic];
            if is_closed { Some(Class::Route) } else { event.is_bad.then_some(Class::Row) }
        })
    }

    /// The first batch fails.
    fn fail(&mut self, lane: usize, batch: usize, class: Class, random: &mut Random) {
        self.lanes[lane].give_back(batch, class);
        self.break_lanes(lane, random);
    }

    fn break_lanes(&mut self, lane: usize, random: &mut Random) {
        self.lanes[lane].is_broken = true;
        if random.one_in(2) {
            for lane in &mut self.lanes {
                lane.is_broken = true;
            }
        }
    }
}

impl Lane {
    fn deliver(&mut self, lane: usize, facts: &mut Facts) {
        if let Some((ticket, record)) = self.queue.pop_front() {
            facts.deliver(lane, &record);
            self.reports.push_back(Delivery { ticket, outcome: Ok(()) });
        }
    }

    fn give_back(&mut self, count: usize, class: Class) {
        for (ticket, _) in self.queue.drain(..count) {
            let failure = Failure::new(class, "not delivered");
            self.reports.push_back(Delivery { ticket, outcome: Err(failure) });
        }
    }
}

/// All events of a key go to one lane.
fn lane_of(topic: usize, key: Option<&str>) -> usize {
    topic * PARTITIONS + key.map_or(0, |key| usize::from(key.as_bytes()[0])) % PARTITIONS
}
