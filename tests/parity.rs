//! What a real Debezium published is what walpost publishes, case by case: `tests/conformance/README.md`.
//!
//! The whole way is taken: a real PostgreSQL, the real binary, a real Kafka. Most cases share a relay with others of their kind;
//! `WALPOST_CASE=name` plays one case alone and shows all that differs. What the cases do not say is not compared.

mod batch;
mod case;
mod compare;
mod letters;
mod not_yet;
mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use batch::Hall;
use case::Case;
use not_yet::NOT_YET;
use replay::Stage;

/// Chooses one case.
const VARIABLE: &str = "WALPOST_CASE";

/// How many relays run at once, each beside a database of its own.
const STAGES: usize = 5;

/// How many cases share a relay, at most.
const SEATS: usize = 100;

/// What a step comes to; its error is a sentence for whoever reads the failed test.
type Outcome<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// A case that was played, and how it differs.
struct Played {
    name: String,
    difference: Option<String>,
}

impl Played {
    /// All of these differ, for one reason.
    fn differing(cases: &[Case], difference: &str) -> Vec<Self> {
        let one = |case: &Case| Self { name: case.name.clone(), difference: Some(difference.to_owned()) };
        cases.iter().map(one).collect()
    }
}

#[test]
fn every_recorded_case_is_published_as_debezium_published_it() {
    let all = Case::read_all().unwrap();
    let names: BTreeSet<&str> = all.iter().map(|case| case.name.as_str()).collect();
    assert_eq!(names.len(), all.len(), "two cases have one name");
    let strangers: Vec<_> = NOT_YET.iter().filter(|name| !names.contains(*name)).collect();
    assert!(strangers.is_empty(), "there are no such cases as {strangers:?}");
    let version = Stage::version().unwrap();
    let (possible, beyond): (Vec<Case>, Vec<Case>) = all.iter().cloned().partition(|case| case.is_possible_on(version));
    assert!(beyond.len() < 30, "of {} cases {} are beyond version {version}", all.len(), beyond.len());
    let Ok(wanted) = std::env::var(VARIABLE) else { return judge(&play(&possible)) };
    let one: Vec<Case> = possible.into_iter().filter(|case| case.name == wanted).collect();
    assert!(!one.is_empty(), "there is no case {wanted:?} on version {version}; there are {names:?}");
    let played = play(&one);
    let difference = played.iter().find_map(|played| played.difference.as_deref());
    assert!(difference.is_none(), "{wanted}: {}", difference.unwrap_or_default());
}

/// Plays cases, several relays at a time: first those that share one.
fn play(cases: &[Case]) -> Vec<Played> {
    let (sociable, alone): (Vec<&Case>, Vec<&Case>) =
        cases.iter().partition(|case| cases.len() > 1 && case.is_sociable());
    let batches = batches(&sociable);
    let (next, played) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let done = |more: Vec<Played>| played.lock().unwrap().extend(more);
    thread::scope(|scope| {
        for number in 0..STAGES.min(cases.len()) {
            let (next, alone, batches) = (&next, &alone, &batches);
            scope.spawn(move || {
                play_batches(number, batches.iter().skip(number).step_by(STAGES).map(Vec::as_slice), done);
                let stage = Stage::open().unwrap();
                while let Some(case) = alone.get(next.fetch_add(1, Ordering::Relaxed)) {
                    done(vec![stage.play(case)]);
                }
            });
        }
    });
    let mut played = played.into_inner().unwrap();
    played.sort_by(|a, b| a.name.cmp(&b.name));
    played
}

/// Who shares a relay: cases of one kind of publication.
fn batches<'a>(cases: &[&'a Case]) -> Vec<Vec<&'a Case>> {
    let mut kinds = BTreeMap::<&str, Vec<&Case>>::new();
    for case in cases {
        kinds.entry(&case.publication).or_default().push(case);
    }
    kinds.values().flat_map(|cases| cases.chunks(SEATS)).map(<[&Case]>::to_vec).collect()
}

/// Plays batches on one stage.
fn play_batches<'a>(stage: usize, batches: impl Iterator<Item = &'a [&'a Case]>, done: impl Fn(Vec<Played>)) {
    let mut hall = Hall::open(stage).unwrap();
    for batch in batches {
        let seated = batch.iter().enumerate().map(|(seat, case)| case.seated(stage, seat));
        done(hall.play(&seated.collect::<Outcome<Vec<_>>>().unwrap()));
    }
}

/// Fails unless all cases pass but those that are known not to.
fn judge(played: &[Played]) {
    let is_known = |played: &&Played| NOT_YET.contains(&played.name.as_str());
    let (passed, differing): (Vec<&Played>, Vec<&Played>) = played.iter().partition(|one| one.difference.is_none());
    let tally = format!("parity: {} of {} cases", passed.len(), played.len());
    // Past the capture of the test's output: the count is of interest also where nothing fails.
    let _ = writeln!(std::io::stderr(), "{tally}");
    let mended: Vec<&str> = passed.into_iter().filter(is_known).map(|played| played.name.as_str()).collect();
    let (known, unknown): (Vec<&Played>, Vec<&Played>) = differing.into_iter().partition(is_known);
    for Played { name, difference } in known {
        // With `--nocapture`.
        println!("not yet: {name}: {}", difference.as_deref().unwrap_or_default());
    }
    let broken: Vec<String> = unknown
        .into_iter()
        .map(|Played { name, difference }| format!("{name}:\n  {}", difference.as_deref().unwrap_or_default()))
        .collect();
    let mended =
        (!mended.is_empty()).then(|| format!("strike these off the list of those that do not pass yet: {mended:?}"));
    let faults: Vec<String> = mended.into_iter().chain(broken).collect();
    assert!(faults.is_empty(), "{tally}\n\n{}", faults.join("\n\n"));
}
