//! What each fault does, and by which facts it is known to have hit.
//!
//! A fault hits if it did what it is for (the process has another number, the connection that carried bytes is gone, nothing was
//! delivered meanwhile) while events were on their way: rows that were committed and had not been read from their topic yet, or transactions
//! that the fault tore.

mod checkpoint;
mod network;
mod processes;

use std::time::Duration;

use super::clock::{let_pass, now_ms};
use super::{Error, Fault, Run, Step, Store};

/// Longer than anything may take on a busy machine that is in order.
pub(super) const LIMIT: Duration = Duration::from_secs(90);
/// What was under way when a fault began has come to its end after this.
const STILL: Duration = Duration::from_millis(400);

/// What a fault did.
#[derive(Clone, Debug)]
pub(super) struct Blow {
    /// Whether it did what it is for.
    pub(super) is_done: bool,
    /// By which facts.
    pub(super) facts: String,
    /// The rows that were committed and not delivered while it lasted.
    pub(super) owed: i64,
}

impl Blow {
    fn new(is_done: bool, owed: i64, facts: String) -> Self {
        Self { is_done, facts, owed }
    }
}

/// Does it, and undoes it.
pub(super) fn strike(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    match step.fault {
        Fault::RelayKill => processes::kill_relay(run),
        Fault::RelayFreeze => processes::freeze_relay(run, step),
        Fault::RelayStop => processes::stop_relay(run),
        Fault::BrokerKill | Fault::BrokerRestart => processes::restart_broker(run, step),
        Fault::BrokerFreeze => processes::freeze_broker(run, step),
        Fault::BrokerFreezeRelayKill => processes::kill_relay_of_frozen_broker(run, step),
        Fault::WalsenderKill | Fault::WalsenderTerminate | Fault::SessionsTerminate => {
            processes::end_walsender(run, step)
        }
        Fault::WalsenderFreeze => processes::freeze_walsender(run, step),
        Fault::PostmasterFreeze => processes::freeze_postmaster(run, step),
        Fault::PostgresFreeze => processes::freeze_postgres(run, step),
        Fault::PostmasterKill | Fault::PostgresKill | Fault::PostgresImmediate | Fault::PostgresFast => {
            processes::restart_postgres(run, step)
        }
        Fault::PostgresKillRelayKill => processes::kill_relay_and_postgres(run, step),
        Fault::SourceCut | Fault::BrokerCut => network::cut(run, step),
        Fault::SourceStall | Fault::BrokerStall => network::stall(run, step),
        Fault::SourceSlow | Fault::BrokerSlow => network::slow(run, step),
        Fault::SourceHalfOpen | Fault::BrokerHalfOpen => network::half_open(run, step),
        Fault::SourceRefuse | Fault::BrokerRefuse => network::refuse(run, step),
        Fault::AcksLost => network::lose_answers(run, step),
        Fault::AcksLostRelayKill => network::lose_answers_and_relay(run, step),
        Fault::CheckpointFullRelayKill => checkpoint::fill_and_kill_relay(run, step),
        Fault::CheckpointFull | Fault::CheckpointReadOnly => checkpoint::deny_writing(run, step),
        Fault::CheckpointCorrupt | Fault::CheckpointTruncated | Fault::CheckpointForeign => {
            checkpoint::damage(run, step)
        }
    }
}

/// What a fault stops.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stops {
    /// The log: what was committed before may be on its way for long, one row at a time behind a bad one.
    Log,
    /// Every delivery.
    Everything,
}

/// What was committed and delivered while nothing of it should have been delivered.
struct Standstill {
    committed: u64,
    delivered: usize,
    owed: i64,
}

/// Lets a fault last, and counts what came that it should have stopped.
fn stand_still(run: &Run, lasts: Duration, stops: Stops) -> Standstill {
    let before = run.facts();
    // A group is seen once it is committed, and the fault lasts so much longer.
    let still = if run.stage.store == Store::Kafka { 3 * STILL } else { STILL.min(lasts) };
    let_pass(still);
    run.reader.census().count_since(now_ms());
    let begun = run.facts();
    let_pass(lasts.saturating_sub(STILL));
    let (ended, since) = (run.facts(), run.reader.census().since());
    let delivered = match stops {
        Stops::Log => since,
        Stops::Everything => ended.delivered - begun.delivered,
    };
    Standstill { committed: ended.committed - before.committed, delivered, owed: before.owed().max(ended.owed()) }
}
