//! What the checkpoint says, read past the relay: what a crash may repeat is what comes after it.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use tokio::runtime::Runtime;
use tokio_postgres::Client;

use super::Error;
use crate::workload::connection::connect;

/// A server that does not answer for so long is away.
const LIMIT: Duration = Duration::from_secs(1);

/// The one row of the relay.
const QUERY: &str = "SELECT (extract(epoch FROM commit_time) * 1000)::bigint FROM walpost.checkpoint";

/// Milliseconds between 1970 and 2000, where PostgreSQL's time begins.
const POSTGRES_EPOCH_MS: i64 = 946_684_800_000;

/// Where the relay keeps its checkpoint.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// In the database behind this URL.
    Postgres(String),
    /// In this file.
    File(PathBuf),
}

/// A reader of the checkpoint.
pub(super) struct Probe {
    place: Place,
    runtime: Runtime,
    client: Option<Client>,
}

impl Probe {
    pub(super) fn new(place: Place) -> Result<Self, Error> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        Ok(Self { place, runtime: runtime.map_err(Error::io("make a runtime"))?, client: None })
    }

    /// When the last commit before the checkpoint was made, in milliseconds since 1970; none where that cannot be told now.
    pub(super) fn commit_ms(&mut self) -> Option<i64> {
        match &self.place {
            Place::File(path) => {
                let document: serde_json::Value = serde_json::from_slice(&fs::read(path).ok()?).ok()?;
                let micros = document.get("checkpoint")?.get("commit_time_postgres_micros")?.as_i64()?;
                Some(micros / 1_000 + POSTGRES_EPOCH_MS)
            }
            Place::Postgres(url) => {
                let client = &mut self.client;
                let asked = async {
                    let connected = match client.take() {
                        Some(connected) => connected,
                        None => connect(url).await?,
                    };
                    let row = connected.query_one(QUERY, &[]).await?;
                    *client = Some(connected);
                    row.try_get::<_, Option<i64>>(0)
                };
                self.runtime.block_on(async { tokio::time::timeout(LIMIT, asked).await }).ok()?.ok()?
            }
        }
    }
}
