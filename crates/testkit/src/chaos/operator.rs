//! Somebody who looks after the dead letters while all else happens: lists them, mends what can be mended, and has letters sent again or dropped,
//! by the commands that there are.
//!
//! It knows of the faults as little as an operator does. A command that fails has to say so, by its exit code and a sentence; whether it took
//! effect all the same is not asked of it, nor guessed: the store is read when all is over. Only that no command fails in calm weather is
//! looked at here, and that what went well says what it marked.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use serde_json::Value;

use super::Error;
use super::clock::let_pass;
use super::strike::LIMIT;
use crate::relay::Walpost;
use crate::servers::{KafkaEndpoint, tail, wait_until};
use crate::workload::NARROW_TOPIC;
use crate::workload::random::Random;

/// What a topic takes that was widened, in bytes: more than a producer gives.
const WIDE_TOPIC: u32 = 2_000_000;
/// The shortest and the longest pause between two deeds, in milliseconds.
const PAUSE: std::ops::Range<u32> = 300..1_500;
/// So many letters may lie there for a reason of their own before some are given up, which keeps clear of the flood limit.
const MANY: usize = 40;
/// How many times a key is asked for whose queue grows while it is sent.
const PERSISTENCE: u32 = 4;
/// How often it is looked what the relay has done.
const LOOK: Duration = Duration::from_millis(500);
/// More letters than there are.
const EVERYTHING: &str = "2000000000";
/// What the broker says of rows that are too large.
const TOO_LARGE: &str = "too large";

/// What the operator sees of the weather: odd while a fault lasts or is recovered from.
#[derive(Debug, Default)]
pub(super) struct Weather(AtomicU64);

impl Weather {
    /// A fault begins, or has been recovered from.
    pub(super) fn turn(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn now(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// What the operator did. What came of it is in the letters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Deeds {
    /// Commands that were run.
    pub commands: u32,
    /// Those that failed, and said so, while something was wrong.
    pub failed: u32,
    /// Times that letters were marked to be sent again.
    pub replays: u32,
    /// Times that letters were marked to be dropped.
    pub drops: u32,
    /// Times that marks were taken back.
    pub unmarks: u32,
    /// What must not be.
    pub violations: Vec<String>,
}

/// What is done next. Each comes once before any comes again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Deed {
    Widen,
    Narrow,
    ReplayOne,
    ReplayKey,
    ReplayAll,
    DropOne,
    DropKey,
    DropReason,
    Unmark,
}

const DEEDS: [Deed; 9] = [
    Deed::Widen,
    Deed::Narrow,
    Deed::ReplayOne,
    Deed::ReplayKey,
    Deed::ReplayAll,
    Deed::DropOne,
    Deed::DropKey,
    Deed::DropReason,
    Deed::Unmark,
];

/// What a letter is chosen by.
#[derive(Clone, Debug)]
struct Told {
    id: String,
    outbox: String,
    route: Option<String>,
    key: Option<String>,
    reason: String,
    is_marked: bool,
    /// It lies there only because of its key, and nobody said anything of it.
    may_follow: bool,
    is_hopeless: bool,
}

/// An operator at work. Dropped, they stop after what they are at.
pub(super) struct Operator {
    desk: Arc<Desk>,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What the operator works with.
struct Desk {
    walpost: Arc<Walpost>,
    kafka: KafkaEndpoint,
    topics: Vec<String>,
    weather: Arc<Weather>,
    deeds: Mutex<Deeds>,
}

impl Operator {
    /// Sits down before these topics, which are narrow.
    pub(super) fn start(
        walpost: Arc<Walpost>,
        bootstrap: &str,
        topics: Vec<String>,
        weather: Arc<Weather>,
        seed: u64,
    ) -> Self {
        let (kafka, deeds) = (KafkaEndpoint::at(bootstrap), Mutex::default());
        let desk = Arc::new(Desk { walpost, kafka, topics, weather, deeds });
        let is_ending = Arc::new(AtomicBool::new(false));
        let (theirs, ending) = (Arc::clone(&desk), Arc::clone(&is_ending));
        let thread = thread::spawn(move || theirs.work(seed, &ending));
        Self { desk, is_ending, thread: Some(thread) }
    }

    /// Does nothing more by chance.
    pub(super) fn retire(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked is reported by its own message.
            let _ = thread.join();
        }
    }

    /// Mends what can be mended and has that sent again; then gives up the rest. What waited behind it has to go by itself, unless a mark of it was taken
    /// back: that is sent then. What asks for no topic at all stays where it is.
    pub(super) fn tidy_up(&self) -> Result<(), Error> {
        self.desk.widen(WIDE_TOPIC)?;
        self.desk.mark(&["replay", "--reason", TOO_LARGE]);
        self.settle()?;
        let bad = self.desk.list(&["--cause", "row,route", "--limit", EVERYTHING]).unwrap_or_default();
        let hopeless = bad.iter().filter(|letter| !letter.reason.contains("routes to no topic"));
        let ids: Vec<&str> = hopeless.map(|letter| letter.id.as_str()).collect();
        if !ids.is_empty() {
            self.desk.mark(&["drop", "--state", "waiting,replay", "--id", &ids.join(",")]);
        }
        self.settle()?;
        self.desk.mark(&["replay", "--all"]);
        self.settle()
    }

    /// Waits until the relay has done what it was asked for, and can do no more: what is marked stands behind something that is not.
    fn settle(&self) -> Result<(), Error> {
        let mut left = usize::MAX;
        loop {
            let (mut is_done, before) = (false, left);
            wait_until("letters to be sent or dropped", LIMIT, || {
                let_pass(LOOK);
                let Some(open) = self.desk.list(&["--limit", EVERYTHING]) else { return false };
                (is_done, left) = (is_settled(&open), open.len());
                is_done || left < before
            })?;
            if is_done {
                return Ok(());
            }
        }
    }

    pub(super) fn deeds(&self) -> Deeds {
        self.desk.deeds().clone()
    }
}

impl Drop for Operator {
    fn drop(&mut self) {
        self.retire();
    }
}

/// Whether nothing is left that could go: it is marked, or waits for nothing that is there.
fn is_settled(open: &[Told]) -> bool {
    let mut queues = HashSet::new();
    open.iter().all(|letter| {
        let queue = letter.key.as_ref().map(|key| (&letter.outbox, &letter.route, key));
        let is_first = queue.is_none_or(|queue| queues.insert(queue));
        !(is_first && (letter.is_marked || letter.may_follow && letter.key.is_some()))
    })
}

impl Desk {
    fn deeds(&self) -> MutexGuard<'_, Deeds> {
        self.deeds.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self, seed: u64, is_ending: &AtomicBool) {
        let mut random = Random::of_writer(seed, u32::MAX - 1);
        let mut round = Vec::new();
        while !is_ending.load(Ordering::Relaxed) {
            let pause = PAUSE.start + random.below(PAUSE.end - PAUSE.start);
            let_pass(Duration::from_millis(u64::from(pause)));
            if round.is_empty() {
                round = DEEDS.to_vec();
            }
            let index = usize::try_from(random.below(u32::try_from(round.len()).unwrap_or(0))).unwrap_or(0);
            let deed = round.swap_remove(index);
            self.perform(deed, &mut random, is_ending);
        }
    }

    fn perform(&self, deed: Deed, random: &mut Random, is_ending: &AtomicBool) {
        match deed {
            // Nobody gets an answer of a broker that is away; they try again later.
            Deed::Widen => drop(self.widen(WIDE_TOPIC).map(|()| self.mark(&["replay", "--reason", TOO_LARGE]))),
            Deed::Narrow => drop(self.widen(NARROW_TOPIC)),
            Deed::ReplayAll => self.mark(&["replay", "--all"]),
            Deed::DropReason => self.mark(&["drop", "--reason", "no topic can be called"]),
            Deed::Unmark => self.mark(&["unmark", "--all"]),
            Deed::ReplayOne | Deed::ReplayKey | Deed::DropOne | Deed::DropKey => {
                let Some(told) = self.list(&["--state", "waiting", "--cause", "row,route"]) else { return };
                if told.len() > MANY {
                    self.mark(&["drop", "--cause", "row", "--limit", "20"]);
                }
                let chosen = usize::try_from(random.below(u32::try_from(told.len()).unwrap_or(0))).unwrap_or(0);
                if let Some(letter) = told.get(chosen) {
                    self.treat(deed, letter, is_ending);
                }
            }
        }
    }

    fn treat(&self, deed: Deed, letter: &Told, is_ending: &AtomicBool) {
        let key = letter.key.as_deref().map(|key| ["--outbox", &letter.outbox, "--key", key]);
        match (deed, key) {
            (Deed::ReplayOne, _) => self.mark(&["replay", "--id", &letter.id]),
            (Deed::DropKey, Some(key)) => self.mark(&[&["drop"], &key[..]].concat()),
            (Deed::DropOne | Deed::ReplayKey, Some(key)) => {
                if deed == Deed::DropOne || letter.is_hopeless {
                    self.mark(&["drop", "--id", &letter.id]);
                }
                self.clear(&key, is_ending);
            }
            _ => self.mark(&["drop", "--id", &letter.id]),
        }
    }

    /// Has a key sent until nothing of it lies there, for what is committed meanwhile lies down behind it; or until something bad is
    /// in front.
    fn clear(&self, key: &[&str], is_ending: &AtomicBool) {
        for _ in 0..PERSISTENCE {
            let bad = self.list(&[&["--state", "waiting", "--cause", "row,route"], key].concat());
            let open = self.list(&[&["--limit", "1"], key].concat());
            let is_clear = open.is_none_or(|open| open.is_empty()) || bad.is_none_or(|bad| !bad.is_empty());
            if is_clear || is_ending.load(Ordering::Relaxed) {
                return;
            }
            self.mark(&[&["replay"], key].concat());
            let_pass(Duration::from_millis(500));
        }
    }

    fn widen(&self, bytes: u32) -> Result<(), Error> {
        let bytes = bytes.to_string();
        let configure = |topic: &String| self.kafka.order_configuration(topic, &[("max.message.bytes", &bytes)]);
        self.topics.iter().try_for_each(configure).map_err(Error::from)
    }

    /// What a list shows; none where there was no answer.
    fn list(&self, options: &[&str]) -> Option<Vec<Told>> {
        let output = self.call(&[&["list", "--json"], options].concat())?;
        let told: Option<Vec<Told>> = output.lines().map(told).collect();
        if told.is_none() {
            self.deeds().violations.push(format!("`walpost dlq list --json` said what cannot be read:\n{output}"));
        }
        told
    }

    /// Marks letters, and notes whether it did.
    fn mark(&self, arguments: &[&str]) {
        let Some(output) = self.call(&[arguments, &["--yes"]].concat()) else { return };
        let mut deeds = self.deeds();
        let is_marked = is_marked(&output).unwrap_or_else(|| {
            let said =
                format!("`walpost dlq {}` ended well and did not say what it did:\n{output}", arguments.join(" "));
            deeds.violations.push(said);
            false
        });
        match arguments.first() {
            Some(&"replay") => deeds.replays += u32::from(is_marked),
            Some(&"drop") => deeds.drops += u32::from(is_marked),
            _ => deeds.unmarks += u32::from(is_marked),
        }
    }

    /// Runs `walpost dlq`, and gives its output; none where it failed.
    fn call(&self, arguments: &[&str]) -> Option<String> {
        let before = self.weather.now();
        let ended = self.walpost.call(&[&["dlq"], arguments].concat());
        let is_calm = before.is_multiple_of(2) && before == self.weather.now();
        let mut deeds = self.deeds();
        deeds.commands += 1;
        let wrong = match ended {
            Ok(ended) if ended.code() == Some(0) => return Some(ended.output),
            Ok(ended) => {
                let said = ended.log.trim();
                let is_sentence = said.contains(' ') && !said.contains("panicked") && ended.code().is_some();
                (is_calm || !is_sentence).then(|| format!("ended with {}, and said: {}", ended.status, tail(said)))
            }
            Err(error) => Some(error.to_string()),
        };
        deeds.failed += 1;
        let weather = if is_calm { "while all was well" } else { "while something was wrong" };
        deeds.violations.extend(wrong.map(|wrong| format!("`walpost dlq {}` {weather}: {wrong}", arguments.join(" "))));
        None
    }
}

/// Whether letters were marked, or marks taken back, as a command says that ended well; none where it does not say. The relay, or an end by itself, may
/// have been quicker than who looked.
fn is_marked(output: &str) -> Option<bool> {
    if output.contains("marked\n") || output.contains("not marked any more") {
        return Some(true);
    }
    ["no letter fits", "nothing was changed"].iter().any(|said| output.contains(said)).then_some(false)
}

/// A letter of a line of `walpost dlq list --json`.
fn told(line: &str) -> Option<Told> {
    let told: Value = serde_json::from_str(line).ok()?;
    let text = |name: &str| told.get(name)?.as_str().map(str::to_owned);
    let reason = text("reason").unwrap_or_default();
    // What was tried again and again is too large for more than its topic.
    let is_hopeless = !reason.to_lowercase().contains(TOO_LARGE) || told.get("attempts")?.as_i64()? > 3;
    let (id, outbox) = (told.get("id")?.as_i64()?.to_string(), text("outbox")?);
    let is_marked = matches!(text("state")?.as_str(), "replay" | "drop");
    let may_follow = !is_marked && text("cause").as_deref() == Some("parked") && text("marked_by").is_none();
    Some(Told { id, outbox, route: text("route"), key: text("key"), reason, is_marked, may_follow, is_hopeless })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_letter_is_told_by_its_line_and_is_hopeless_where_no_wider_topic_helps() {
        let line = |reason: &str, attempts: i64| {
            format!(
                r#"{{"id": 7, "state": "waiting", "outbox": "o", "key": "key-1", "reason": {reason:?}, "attempts": {attempts}}}"#
            )
        };
        for (reason, attempts, is_hopeless) in [
            ("Message size too large", 1, false),
            ("Broker: Message size too large", 4, true),
            ("no topic can be called \"no topic\"", 1, true),
        ] {
            let told = told(&line(reason, attempts)).unwrap();
            assert_eq!((told.id.as_str(), told.key.as_deref()), ("7", Some("key-1")));
            assert_eq!(told.is_hopeless, is_hopeless, "{reason}");
        }
        assert!(told("no JSON").is_none());
    }

    #[test]
    fn what_a_command_did_is_known_by_its_answer_and_that_there_was_nothing_to_do_is_one() {
        for (output, expected) in [
            ("3 letters are marked\na relay that runs sends them within seconds\n", Some(true)),
            ("1 letter is not marked any more\n", Some(true)),
            ("no letter fits that could be marked; to see what there is, run: walpost dlq list\n", Some(false)),
            (
                "nothing was changed: they are marked so already, or not any more; to see how they stand, run: x\n",
                Some(false),
            ),
            ("", None),
            ("nothing was marked; to do it, add --yes\n", None),
        ] {
            assert_eq!(is_marked(output), expected, "{output}");
        }
    }

    #[test]
    fn nothing_is_left_to_do_where_whatever_is_marked_stands_behind_what_is_not() {
        let letter = |key: &str, state: &str| {
            let key = if key.is_empty() { "null".to_owned() } else { format!("{key:?}") };
            let line = r#"{"id": 7, "state": "STATE", "outbox": "o", "route": "r", "key": KEY, "attempts": 1}"#;
            told(&line.replace("STATE", state).replace("KEY", &key)).unwrap()
        };
        for (letters, expected) in [
            (&[][..], true),
            (&[("a", "waiting"), ("a", "replay"), ("b", "waiting")], true),
            (&[("a", "waiting"), ("b", "drop")], false),
            (&[("", "waiting"), ("", "replay")], false),
        ] {
            let letters: Vec<Told> = letters.iter().map(|(key, state)| letter(key, state)).collect();
            assert_eq!(is_settled(&letters), expected, "{letters:?}");
        }
    }
}
