//! What a run showed.

use std::fmt;
use std::time::Duration;

use super::stage::MOST_MEMORY;
use super::{Deeds, Step};
use crate::checker::{Repeat, Repeats, Verdict, Window};
use crate::workload::{Misfit, Report};

/// One fault, and what came of it.
#[derive(Clone, Debug)]
pub struct Act {
    /// Which fault, and when.
    pub step: Step,
    /// When it began, in milliseconds since 1970.
    pub struck_ms: i64,
    /// When it was undone.
    pub healed_ms: i64,
    /// Whether it did what it is for while events were on their way.
    pub is_hit: bool,
    /// By which facts.
    pub facts: String,
    /// Rows that were committed and not delivered while it lasted.
    pub owed: i64,
    /// From the heal to the first delivery of a row that had not been delivered before; none where none came.
    pub first_delivery: Option<Duration>,
    /// From the heal to the first delivery of a row that was committed after it.
    pub caught_up: Option<Duration>,
}

impl Act {
    /// Whether it hit and was recovered from.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.is_hit && self.caught_up.is_some()
    }
}

fn time(time: Option<Duration>) -> String {
    time.map_or("never".to_owned(), |time| format!("{:.1} s", time.as_secs_f32()))
}

impl fmt::Display for Act {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = if self.is_hit { "hit" } else { "MISSED" };
        let Step { number, fault, .. } = self.step;
        let (first, caught_up) = (time(self.first_delivery), time(self.caught_up));
        write!(
            f,
            "{number:>4}  {fault:<26} {word}, {} rows owed; new rows after {first}, caught up after {caught_up}; {}",
            self.owed, self.facts
        )
    }
}

/// What a run showed.
#[derive(Debug)]
pub struct Outcome {
    /// The seed of schedule and writers.
    pub seed: u64,
    /// Whether records may come again at all.
    pub repeats_allowed: Repeats,
    /// All faults in their order.
    pub acts: Vec<Act>,
    /// What the writers did.
    pub writers: Report,
    /// The rows that could not be delivered, by their kind.
    pub misfits: Vec<(Misfit, usize)>,
    /// What the operator did.
    pub deeds: Deeds,
    /// What was lost, out of order, altered, or published and never committed.
    pub verdict: Verdict,
    /// The records that came again.
    pub repeats: usize,
    /// Those of them that were letters on their way when the relay crashed.
    pub repeated_letters: usize,
    /// Those of them that no crash excuses.
    pub unexcused: Vec<Repeat>,
    /// The crashes, with what came again after each.
    pub windows: Vec<Window>,
    /// What else went wrong: a process that ended by itself, a stop that did not end well.
    pub violations: Vec<String>,
    /// How often the relay was started.
    pub starts: u32,
    /// The most memory that any of its processes held, in bytes.
    pub peak_memory: u64,
    /// The logs of all its processes.
    pub logs: Vec<String>,
}

impl Outcome {
    /// Whether all is as promised, and every fault hit.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.verdict.is_clean(Repeats::Allowed)
            && self.has_looked_after_letters()
            && self.unexcused.is_empty()
            && (self.repeats_allowed == Repeats::Allowed || self.repeats == 0)
            && self.windows.iter().all(|window| window.excess() == 0)
            && self.acts.iter().all(Act::is_good)
            && !self.acts.is_empty()
            && self.is_small()
            && self.violations.is_empty()
    }

    /// Whether the relay's memory was looked at, and stayed within what its configuration bounds it to.
    #[must_use]
    pub fn is_small(&self) -> bool {
        (1..=MOST_MEMORY).contains(&self.peak_memory)
    }

    /// Whether there were letters, and some of them were sent and some dropped: else nothing is said of any.
    #[must_use]
    pub fn has_looked_after_letters(&self) -> bool {
        let letters = self.verdict.letters;
        letters.sent > 0 && letters.dropped > 0
    }

    /// The repeats that no crash excuses, by the last fault before them.
    fn unexcused_by_act(&self) -> Vec<(&Act, Vec<Repeat>)> {
        let end_of = |index: usize| self.acts.get(index + 1).map_or(i64::MAX, |next| next.struck_ms);
        let repeats_of = |(index, act): (usize, &Act)| {
            let times = act.struck_ms..end_of(index);
            self.unexcused.iter().copied().filter(|repeat| times.contains(&repeat.read_ms)).collect::<Vec<_>>()
        };
        let all = self.acts.iter().enumerate().map(|(index, act)| (act, repeats_of((index, act))));
        all.filter(|(_, repeats)| !repeats.is_empty()).collect()
    }

    /// Each fault once, with how often it came and the longest time to catch up.
    fn by_fault(&self) -> Vec<(&'static str, usize, usize, Option<Duration>)> {
        let mut faults: Vec<(&'static str, usize, usize, Option<Duration>)> = Vec::new();
        for act in &self.acts {
            let name = act.step.fault.name();
            let index = faults.iter().position(|(known, ..)| *known == name).unwrap_or_else(|| {
                faults.push((name, 0, 0, Some(Duration::ZERO)));
                faults.len() - 1
            });
            if let Some((_, count, hits, longest)) = faults.get_mut(index) {
                *count += 1;
                *hits += usize::from(act.is_hit);
                *longest = longest.zip(act.caught_up).map(|(longest, this)| longest.max(this));
            }
        }
        faults
    }
}

impl Outcome {
    fn write_letters(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bad: usize = self.misfits.iter().map(|(_, count)| count).sum();
        let kinds: Vec<String> = self.misfits.iter().map(|(kind, count)| format!("{count} {kind}")).collect();
        writeln!(f, "bad rows: {bad}: {}", kinds.join(", "))?;
        let idle = if self.has_looked_after_letters() { "" } else { ": NONE SENT, OR NONE DROPPED" };
        writeln!(f, "letters: {}{idle}", self.verdict.letters)?;
        let Deeds { commands, failed, replays, drops, unmarks, .. } = &self.deeds;
        writeln!(
            f,
            "operator: {commands} commands, {failed} of them failed in the midst of a fault; {replays} replays, {drops} drops, {unmarks} \
             unmarks"
        )
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hits = self.acts.iter().filter(|act| act.is_hit).count();
        writeln!(f, "{}: seed {}", if self.is_good() { "GOOD" } else { "BAD" }, self.seed)?;
        writeln!(f, "faults: {}, of which {hits} hit", self.acts.len())?;
        for (name, count, hits, longest) in self.by_fault() {
            writeln!(f, "  {name:<26} {count:>3}, {hits:>3} hit; caught up after at most {}", time(longest))?;
        }
        let Report { transactions, in_doubt, failed, rolled_back_rows, .. } = self.writers;
        writeln!(
            f,
            "writers: {transactions} transactions ended, {rolled_back_rows} rows rolled back; {failed} transactions torn, \
             {in_doubt} torn in their commit"
        )?;
        self.write_letters(f)?;
        let [peak, most] = [self.peak_memory, MOST_MEMORY].map(|bytes| bytes >> 20);
        let large = if self.is_small() { String::new() } else { format!(": NOT WITHIN ITS {most} MiB") };
        writeln!(f, "relay: {} starts, at most {peak} MiB{large}", self.starts)?;
        let crashes = self.windows.len();
        writeln!(
            f,
            "repeats: {} after {crashes} crashes and sleeps, {} of them letters, {} unexcused",
            self.repeats,
            self.repeated_letters,
            self.unexcused.len()
        )?;
        for (act, repeats) in self.unexcused_by_act() {
            let last = repeats.last().map_or(0, |repeat| repeat.committed_ms);
            let Some(Repeat { committed_ms, read_ms, .. }) = repeats.first() else { continue };
            let Act { step, struck_ms, healed_ms, .. } = act;
            writeln!(
                f,
                "  {} after {} {} ({struck_ms} to {healed_ms}): committed from {committed_ms} to {last}, read from {read_ms} on",
                repeats.len(),
                step.number,
                step.fault
            )?;
        }
        for window in self.windows.iter().filter(|window| window.excess() > 0) {
            let Window { cause, count, most, .. } = window;
            writeln!(f, "  {count} after {cause}, where {} may", most.unwrap_or(0))?;
        }
        for violation in &self.violations {
            writeln!(f, "VIOLATION: {violation}")?;
        }
        for act in self.acts.iter().filter(|act| !act.is_good()) {
            writeln!(f, "NOT GOOD: {act}")?;
        }
        self.write_verdict(f)
    }
}

impl Outcome {
    fn write_verdict(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Verdict { committed, received, .. } = self.verdict;
        write!(f, "{committed} rows committed, {received} records received")?;
        let kinds = [
            ("lost", &self.verdict.lost),
            ("out of order", &self.verdict.out_of_order),
            ("record and letter", &self.verdict.double),
            ("good rows blamed", &self.verdict.blamed),
            ("published though not committed", &self.verdict.phantom),
            ("altered", &self.verdict.altered),
        ];
        for (name, cases) in kinds {
            write!(f, "\n  {name}: {}", cases.count())?;
            cases.examples().iter().try_for_each(|example| write!(f, "\n    {example}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chaos::Fault;
    use crate::checker::{Cases, Census, Expected, Letter, LetterCounts, LetterState, Letters};

    fn good() -> Outcome {
        let (pause, lasts) = (Duration::ZERO, Duration::ZERO);
        let step = Step { number: 1, fault: Fault::RelayKill, pause, lasts, dice: 0 };
        let recovered = Some(Duration::from_secs(1));
        let act = Act {
            step,
            struck_ms: 10,
            healed_ms: 20,
            is_hit: true,
            facts: "it died".to_owned(),
            owed: 7,
            first_delivery: recovered,
            caught_up: recovered,
        };
        let cause = "relay-kill".to_owned();
        Outcome {
            seed: 3,
            repeats_allowed: Repeats::Allowed,
            acts: vec![act],
            writers: Report::default(),
            misfits: vec![(Misfit::NoTopic, 2)],
            deeds: Deeds::default(),
            verdict: Verdict {
                letters: LetterCounts { open: 1, sent: 4, dropped: 2, parked: 5 },
                ..Verdict::default()
            },
            repeats: 2,
            repeated_letters: 0,
            unexcused: Vec::new(),
            windows: vec![Window { cause, checkpoint_ms: 1, crash_ms: 12, most: Some(2), count: 2 }],
            violations: Vec::new(),
            starts: 2,
            peak_memory: 50 << 20,
            logs: Vec::new(),
        }
    }

    fn row() -> Expected {
        Expected {
            id: "00000000-0000-0000-0000-000000000001".to_owned(),
            topic: "t".to_owned(),
            key: None,
            value: None,
            headers: Vec::new(),
            sequence: None,
            timestamp_ms: None,
            is_misfit: Some(false),
        }
    }

    fn lost_row() -> Verdict {
        let mut audit = Census::default().audit(1);
        audit.take(&row());
        audit.finish()
    }

    fn blamed_row() -> Cases {
        let mut letters = Letters::default();
        let letter = Letter { state: LetterState::Dropped, is_parked: false, marked_ms: Some(1) };
        letters.add(&row().id, letter, "it is too large");
        let mut audit = Census::default().audit(1).with_letters(letters, &[]);
        audit.take(&row());
        audit.finish().blamed
    }

    #[test]
    fn whatever_is_wrong_makes_a_run_bad_and_is_said() {
        type Wrong = (&'static str, fn(&mut Outcome));
        let cases: [Wrong; 13] = [
            ("MISSED", |outcome| outcome.acts[0].is_hit = false),
            ("never", |outcome| outcome.acts[0].caught_up = None),
            ("faults: 0", |outcome| outcome.acts.clear()),
            ("NONE SENT, OR NONE DROPPED", |outcome| outcome.verdict.letters.sent = 0),
            ("1 dropped, 1 lie there: NONE", |outcome| {
                outcome.verdict.letters = LetterCounts { open: 1, sent: 0, dropped: 1, parked: 0 }
            }),
            ("1 after 1 relay-kill", |outcome| {
                outcome.unexcused.push(Repeat { id: [0; 2], committed_ms: 5, read_ms: 15 });
            }),
            ("2 after relay-kill, where 1 may", |outcome| outcome.windows[0].most = Some(1)),
            ("VIOLATION: it ended", |outcome| outcome.violations.push("it ended".to_owned())),
            ("repeats: 2 after", |outcome| outcome.repeats_allowed = Repeats::Forbidden),
            ("lost: 1", |outcome| outcome.verdict = lost_row()),
            ("good rows blamed: 1", |outcome| outcome.verdict.blamed = blamed_row()),
            ("at most 400 MiB: NOT WITHIN ITS", |outcome| outcome.peak_memory = 400 << 20),
            ("at most 0 MiB: NOT WITHIN ITS", |outcome| outcome.peak_memory = 0),
        ];
        assert!(good().is_good() && good().to_string().starts_with("GOOD: seed 3"));
        for (said, make_wrong) in cases {
            let mut outcome = good();
            make_wrong(&mut outcome);
            let text = outcome.to_string();
            assert!(!outcome.is_good() && text.starts_with("BAD: seed 3") && text.contains(said), "{said}: {text}");
        }
    }
}
