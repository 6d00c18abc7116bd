//! `walpost run`: publishes until told to stop.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::task::LocalSet;
use walpost_core::lsn::Lsn;
use walpost_postgres::ConnectionSettings;

use super::{Outcome, check};
use crate::config::Settings;
use crate::driver::Clock;
use crate::exit::{Ended, Exit};
use crate::observe::board::Board;
use crate::observe::health::{Limits, STUCK_AFTER};
use crate::observe::metrics::About;
use crate::observe::probe::Probe;
use crate::observe::recorder::Recorder;
use crate::observe::{server, standstill};
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
    let source = settings.source();
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        relay = settings.name(),
        outboxes = tables.join(", "),
        source = place_of(source.connection()),
        slot = source.slot().as_str(),
        sink = settings.sink().place(),
        "starting"
    );
    let board = Board::new(clock);
    tokio::task::spawn_local(board.clone().beat());
    tokio::task::spawn_local(standstill::tell(board.clone(), limits(&settings)));
    observe(&settings, &board)?;
    let stop = Stop::listen().map_err(|error| Ended::because(Exit::Unexpected, error))?;
    let sink = AnySink::open(&settings).map_err(|failure| Ended::because(Exit::SinkRefused, failure))?;
    let beside = settings.clone();
    let on_first_stream = move || {
        let beside = beside.clone();
        tokio::task::spawn_local(async move { check::beside_the_stream(&beside).await });
    };
    let supervisor = Supervisor::new(settings, until, sink, stop, clock, seed(), Recorder::new(board));
    let (sink, outcome) = supervisor.run(on_first_stream).await;
    sink.close(CLOSE_TIMEOUT).await;
    if outcome.is_ok() {
        tracing::info!("stopped; everything that was taken from the WAL is delivered and checkpointed");
    }
    outcome
}

/// Where the database is: each server that is tried, and the database's name.
fn place_of(connection: &ConnectionSettings) -> String {
    let servers: Vec<_> = connection.endpoints().iter().map(ToString::to_string).collect();
    format!("{}/{}", servers.join(","), connection.database())
}

/// Starts to answer over HTTP, where that is not off. A relay that nobody can watch would be found out too late, so one whose address is taken
/// does not start.
fn observe(settings: &Settings, board: &Board) -> Result<(), Ended> {
    let Some(listen) = settings.http().listen() else { return Ok(()) };
    let refused = |error: std::io::Error| Ended::with_sentence(Exit::Configuration, cannot_listen(listen, &error));
    let listener = server::bind(listen).map_err(refused)?;
    let address = listener.local_addr().map_err(refused)?;
    let source = settings.source();
    let about = About {
        relay: settings.name().into(),
        slot: source.slot().as_str().into(),
        database: source.connection().database().into(),
        limits: limits(settings),
    };
    let probe = Probe::new(source.connection().clone(), source.slot().clone());
    server::spawn(listener, board.clone(), about, probe).map_err(|error| Ended::because(Exit::Unexpected, error))?;
    tracing::info!(%address, "serving /metrics, /livez and /readyz");
    Ok(())
}

fn limits(settings: &Settings) -> Limits {
    Limits {
        stuck_after: STUCK_AFTER,
        stalled_after: settings.http().stalled_after(),
        silence_timeout: settings.source().wal_sender_timeout(),
    }
}

fn cannot_listen(listen: SocketAddr, error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            let other = SocketAddr::new(listen.ip(), listen.port().checked_add(1).unwrap_or(9464));
            format!(
                "http.listen: {listen} is in use, perhaps by another relay; give this one an address of its own, such as [http] listen = \"{other}\", or listen = \"off\" (fuser -n tcp {} says who has it)",
                listen.port()
            )
        }
        _ => format!(
            "http.listen: {listen} cannot be listened at: {error}; write an address of this machine and a port, such as \"127.0.0.1:9464\", or \"off\""
        ),
    }
}

/// Another number for each process, for the jitter of its waits.
fn seed() -> u64 {
    RandomState::new().build_hasher().finish()
}
