//! The slot's own confirmed position and nothing else. It can go back when the database crashes; what came after it is then
//! published again.

use std::time::Duration;

use walpost_core::port::Checkpoints;
use walpost_core::position::{Checkpoint, Epoch};
use walpost_core::start::Wanted;

use super::{Error, at_slot};
use crate::connection::ConnectionSettings;
use crate::identifier::SlotName;
use crate::inspect;
use crate::sql::Session;

/// A store that keeps nothing.
#[derive(Debug)]
pub struct SlotStore {
    connection: ConnectionSettings,
    relay: String,
    slot: SlotName,
}

impl SlotStore {
    /// The store of this slot.
    #[must_use]
    pub fn new(connection: ConnectionSettings, relay: impl Into<String>, slot: SlotName) -> Self {
        Self { connection, relay: relay.into(), slot }
    }

    pub(super) fn place(&self) -> String {
        format!("the confirmed position of slot {}", self.slot)
    }

    async fn read(&self) -> Result<Option<Checkpoint>, Error> {
        let source = |source| Error::Postgres { source };
        let session = Session::connect(&self.connection, Duration::from_secs(10)).await.map_err(source)?;
        let Some(slot) = inspect::slot_state(&session, &self.slot).await.map_err(source)? else { return Ok(None) };
        if slot.confirmed.is_none() || slot.lost.is_some() {
            return Ok(None);
        }
        let server = inspect::server_state(&session, &self.connection).await.map_err(source)?;
        let wanted = Wanted {
            relay: self.relay.clone(),
            database: self.connection.database().to_owned(),
            slot: self.slot.to_string(),
            plugin: "pgoutput".to_owned(),
            is_exactly_once: false,
        };
        at_slot(&server, &slot, &wanted).map(Some)
    }
}

impl Checkpoints for SlotStore {
    type Error = Error;

    async fn load(&mut self) -> Result<Option<Checkpoint>, Error> {
        self.read().await
    }

    /// Fences nobody: only one session can hold the slot.
    async fn claim(&mut self, _: &Checkpoint) -> Result<Epoch, Error> {
        Ok(Epoch(1))
    }

    async fn save(&mut self, _: &Checkpoint) -> Result<(), Error> {
        Ok(())
    }
}
