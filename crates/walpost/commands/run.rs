//! `walpost run`: publishes until told to stop.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use tokio::task::LocalSet;
use walpost_core::lsn::Lsn;

use super::{Outcome, check};
use crate::config::Settings;
use crate::driver::Clock;
use crate::exit::{Ended, Exit};
use crate::signals::Stop;
use crate::sink::AnySink;
use crate::supervisor::Supervisor;

/// How long a sink may take to go.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// Publishes until told to stop.
///
/// # Errors
/// Why the relay cannot go on.
pub async fn run(settings: Settings, until: Option<Lsn>) -> Outcome {
    // The session, the watcher and the writer of checkpoints share one thread, and need no locks.
    LocalSet::new().run_until(relay(settings, until)).await
}

async fn relay(settings: Settings, until: Option<Lsn>) -> Outcome {
    let clock = Clock::start();
    let tables: Vec<_> = settings.outboxes().iter().map(|outbox| outbox.table.to_string()).collect();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        relay = settings.name(),
        outboxes = tables.join(", "),
        "starting"
    );
    let stop = Stop::listen().map_err(|error| Ended::because(Exit::Unexpected, error))?;
    let sink = AnySink::open(&settings).map_err(|failure| Ended::because(Exit::SinkRefused, failure))?;
    let beside = settings.clone();
    let on_first_stream = move || {
        let beside = beside.clone();
        tokio::task::spawn_local(async move { check::beside_the_stream(&beside).await });
    };
    let supervisor = Supervisor::new(settings, until, sink, stop, clock, seed());
    let (sink, outcome) = supervisor.run(on_first_stream).await;
    sink.close(CLOSE_TIMEOUT).await;
    if outcome.is_ok() {
        tracing::info!("stopped; everything that was taken from the log is delivered and checkpointed");
    }
    outcome
}

/// Another number for each process, for the jitter of its waits.
fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
