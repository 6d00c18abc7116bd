//! A short run of `cargo xtask chaos`: each kind of victim is hit once, at every commit of this repository, and each kind of bad row is set aside
//! meanwhile, and sent again or dropped. Once at least once, and once exactly once.

use std::time::Duration;

use walpost_testkit::chaos::{Fault, Options, Outcome, PAUSE, Step, Store, run};
use walpost_testkit::checker::Repeats;

use crate::rig::WALPOST;

/// One fault for each process, each proxy, and what only a checker finds: repeats.
const FAULTS: [Fault; 8] = [
    Fault::RelayKill,
    Fault::WalsenderKill,
    Fault::SourceCut,
    Fault::AcksLostRelayKill,
    Fault::PostgresFreeze,
    Fault::BrokerFreeze,
    Fault::PostgresImmediate,
    Fault::RelayStop,
];

/// Those of them in which a transaction of Kafka is left open, or is committed and not heard of.
const FAULTS_ONCE: [Fault; 4] = [Fault::RelayKill, Fault::AcksLostRelayKill, Fault::BrokerFreeze, Fault::RelayStop];

/// Does one fault after another. Nothing may be wrong, and everything has to have been tried.
#[track_caller]
fn assert_good(faults: &[Fault], store: Store, repeats: Repeats, pause: Duration) -> Outcome {
    let options = Options { program: WALPOST.as_str().into(), seed: 1, store, repeats, pause };
    let step = |(number, fault): (u32, &Fault)| {
        let (pause, lasts) = (Duration::from_millis(100), Duration::from_millis(900));
        Step { number, fault: *fault, pause, lasts, dice: 40_000 }
    };
    // The steps are all that limits it: none is left out on a busy machine.
    let limit = Duration::from_secs(600);
    let outcome = run(&options, (1..).zip(faults).map(step), limit, |event| println!("{event}")).unwrap();
    assert!(outcome.is_good(), "{outcome}");
    assert_eq!(outcome.acts.len(), faults.len());
    assert!(outcome.writers.rolled_back_rows > 0);
    assert!(outcome.deeds.replays > 0 && outcome.deeds.drops > 0, "{outcome}");
    assert!(outcome.has_looked_after_letters(), "{outcome}");
    outcome
}

#[test]
fn a_short_run_of_faults_loses_nothing_and_repeats_only_what_a_crash_excuses() {
    let outcome = assert_good(&FAULTS, Store::Postgres, Repeats::Allowed, PAUSE);
    assert!(outcome.misfits.iter().all(|(_, count)| *count > 0), "{outcome}");
    assert!(outcome.repeats > 0, "kills without a repeat prove that none was worth it: {outcome}");
}

#[test]
fn a_short_run_of_faults_by_transactions_of_kafka_loses_nothing_and_repeats_nothing() {
    // A debug build does not keep up with more, and would be waited for in front of each fault.
    let outcome = assert_good(&FAULTS_ONCE, Store::Kafka, Repeats::Forbidden, 8 * PAUSE);
    assert_eq!(outcome.repeats, 0, "{outcome}");
}
