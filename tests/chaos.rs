//! A short run of `cargo xtask chaos`: each kind of victim is hit once, at every commit of this repository, and each kind of bad row is set aside
//! meanwhile, and sent again or dropped.

use std::time::Duration;

use walpost_testkit::chaos::{Fault, Options, Step, Store, run};
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

#[test]
fn a_short_run_of_faults_loses_nothing_and_repeats_only_what_a_crash_excuses() {
    let options =
        Options { program: WALPOST.as_str().into(), seed: 1, store: Store::Postgres, repeats: Repeats::Allowed };
    let step = |(number, fault)| {
        let (pause, lasts) = (Duration::from_millis(100), Duration::from_millis(900));
        Step { number, fault, pause, lasts, dice: 40_000 }
    };
    // The steps are all that limits it: none is left out on a busy machine.
    let limit = Duration::from_secs(600);
    let outcome = run(&options, (1..).zip(FAULTS).map(step), limit, |event| println!("{event}")).unwrap();
    assert!(outcome.is_good(), "{outcome}");
    assert_eq!(outcome.acts.len(), FAULTS.len());
    assert!(outcome.repeats > 0, "kills without a repeat prove that none was worth it: {outcome}");
    assert!(outcome.writers.rolled_back_rows > 0);
    assert!(outcome.misfits.iter().all(|(_, count)| *count > 0), "{outcome}");
    assert!(outcome.deeds.replays > 0 && outcome.deeds.drops > 0, "{outcome}");
    assert!(outcome.has_looked_after_letters(), "{outcome}");
}
