//! From the settings to the terms of the edges: which slot, which store, which tables, and who asks about them.

use std::path::Path;

use walpost_core::backoff::Backoff;
use walpost_core::lsn::Lsn;
use walpost_core::position::{Checkpoint, Epoch, SettledRows};
use walpost_core::start::{ServerState, Wanted};
use walpost_core::time::Timestamp;
use walpost_postgres::Error as PostgresError;
use walpost_postgres::checkpoint::{FileStore, PostgresStore, SlotStore, Store};
use walpost_postgres::connection::Endpoint;
use walpost_postgres::describe::Catalogue;
use walpost_postgres::inspect::{OutboxSubject, Subject};
use walpost_postgres::setup::SetupSettings;

use crate::config::settings::{self, Settings};
use crate::driver::{Describer, Patience};
use crate::store::AnyStore;

/// What the comparison at start is asked about.
#[must_use]
pub fn wanted(settings: &Settings) -> Wanted {
    Wanted {
        relay: settings.name().to_owned(),
        database: settings.source().connection().database().to_owned(),
        slot: settings.source().slot().to_string(),
        plugin: "pgoutput".to_owned(),
        is_exactly_once: matches!(settings.checkpoint().store(), settings::Store::Kafka(_)),
    }
}

/// The checkpoint store that is configured.
#[must_use]
pub fn store(settings: &Settings) -> AnyStore {
    store_of(settings, settings.checkpoint().store())
}

/// A store of this kind for this relay.
#[must_use]
pub fn store_of(settings: &Settings, kind: &settings::Store) -> AnyStore {
    let connection = settings.source().connection().clone();
    AnyStore::Own(match kind {
        settings::Store::Postgres => Store::postgres(PostgresStore::new(connection, settings.name())),
        settings::Store::File(path) => Store::file(FileStore::new(path as &Path)),
        settings::Store::Slot => {
            Store::slot(SlotStore::new(connection, settings.name(), settings.source().slot().clone()))
        }
        #[cfg(feature = "kafka")]
        settings::Store::Kafka(kafka) => {
            let topic = settings.checkpoint().topic();
            return AnyStore::Kafka(walpost_kafka::CheckpointTopic::new(kafka.clone(), settings.name(), topic));
        }
        #[cfg(not(feature = "kafka"))]
        settings::Store::Kafka(never) => match *never {},
    })
}

/// The checkpoint of this relay at a position. Its epoch is still to be claimed.
#[must_use]
pub fn checkpoint_at(
    settings: &Settings,
    position: Lsn,
    commit_time: Option<Timestamp>,
    settled_rows: Option<SettledRows>,
    server: &ServerState,
) -> Checkpoint {
    let Wanted { relay, database, slot, .. } = wanted(settings);
    Checkpoint {
        relay,
        system: server.system,
        timeline: server.timeline,
        database,
        slot,
        position,
        commit_time,
        settled_rows,
        epoch: Epoch(0),
    }
}

/// Who asks this server what the stream does not tell of a table. A server that says nothing for as long as it would wait for us is given up.
///
/// Has to be called within a `LocalSet`.
#[must_use]
pub fn describer(settings: &Settings, endpoint: &Endpoint, seed: u64) -> Describer {
    let (source, retry) = (settings.source(), settings.retry());
    let catalogue = Catalogue::new(source.connection().clone(), endpoint.clone());
    let backoff = Backoff::new(retry.initial(), retry.max(), seed);
    let is_silence = |error: &PostgresError| !matches!(error, PostgresError::Server { .. });
    Describer::start(catalogue, Patience { backoff, silence: source.wal_sender_timeout(), is_silence })
}

/// What `init` is asked for.
#[must_use]
pub fn setup(settings: &Settings, with_outbox: bool) -> SetupSettings {
    SetupSettings {
        slot: settings.source().slot().clone(),
        publications: settings.source().publications().to_vec(),
        outboxes: settings.outboxes().iter().map(|outbox| outbox.table.clone()).collect(),
        with_outbox,
        with_checkpoint_table: *settings.checkpoint().store() == settings::Store::Postgres,
        with_dead_letter_table: settings.dead_letter().is_used_table(),
        failover: settings.source().is_for_standbys(),
    }
}

/// What the preflight looks at.
#[must_use]
pub fn subject(settings: &Settings) -> Subject {
    let outbox = |outbox: &walpost_core::outbox::Outbox| OutboxSubject {
        table: outbox.table.clone(),
        columns: outbox.router.required_columns().into_iter().map(str::to_owned).collect(),
    };
    Subject {
        slot: settings.source().slot().clone(),
        publications: settings.source().publications().to_vec(),
        outboxes: settings.outboxes().iter().map(outbox).collect(),
        with_checkpoint_table: *settings.checkpoint().store() == settings::Store::Postgres,
        with_dead_letter_table: settings.dead_letter().is_used_table(),
        with_references: settings.dead_letter().keeps_references(),
    }
}
