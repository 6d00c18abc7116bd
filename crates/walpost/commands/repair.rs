//! `walpost repair`: what is wrong between server, slot and checkpoint, every way out of it, and the ways themselves.
//!
//! It shows and does nothing unless it is told which way, and `--yes`. What each way loses or repeats is said before it is gone. It does not
//! run beside a relay: whoever reads the slot, or holds the checkpoint file, is named, and nothing is done.

mod fill;
mod lettered;
mod recreate;
mod show;
mod survey;
mod ways;

use std::time::Duration;

use tokio::task::LocalSet;
use walpost_core::finding::Finding;
use walpost_core::outbox::TableName;
use walpost_core::position::Checkpoint;
use walpost_core::start::{self, ServerState, SlotState, StartState};
use walpost_core::time::Timestamp;
use walpost_postgres::setup::{self, Facts};
use walpost_postgres::{failover, inspect, preflight, sql};

use super::{Outcome, checkpoint_refused, postgres_refused};
use crate::config::Settings;
use crate::exit::{Ended, Exit};
use crate::relay;
use crate::store::AnyStore;

/// Counting the rows of a large outbox takes its time.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(600);

/// How `walpost repair` goes about it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Repair {
    /// Which way is gone; none: all are shown.
    pub way: Option<Way>,
    /// How a gap is filled, or would be.
    pub fill: Fill,
    /// Shown as JSON.
    pub is_json: bool,
    /// It is done, and not only shown.
    pub is_agreed: bool,
}

/// A way out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Go on from where the slot stands.
    AdoptSlot,
    /// Make the slot anew, and accept the gap.
    Recreate,
    /// Make the slot anew, and fill the gap from the table.
    Fill,
}

/// How a gap is filled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fill {
    /// How much earlier than the checkpoint's time it begins.
    pub margin: Duration,
    /// When it begins, whatever the checkpoint says.
    pub since: Option<Timestamp>,
    /// The column that tells when a row came.
    pub by: Option<String>,
    /// The operator knows that no row was deleted.
    pub rows_are_kept: bool,
    /// Rows that cannot be published are passed over.
    pub skips_bad: bool,
}

impl Default for Fill {
    fn default() -> Self {
        let margin = Duration::from_secs(300);
        Self { margin, since: None, by: None, rows_are_kept: false, skips_bad: false }
    }
}

/// Shows, or mends.
///
/// # Errors
/// The database cannot be reached, or the way is not possible.
pub async fn repair(settings: Settings, asked: Repair) -> Outcome {
    LocalSet::new().run_until(go(settings, asked)).await
}

async fn go(settings: Settings, asked: Repair) -> Outcome {
    let mut found = Found::look(&settings).await?;
    match &found.doubt {
        Some(doubt) if asked.way.is_some() => return Err(Ended::with_sentence(Exit::Unreachable, doubt)),
        doubt => doubt.iter().for_each(|doubt| complain!("{doubt}")),
    }
    match asked.way {
        None => show::everything(&settings, &found, &asked).await,
        Some(Way::AdoptSlot) => recreate::adopt(&settings, &mut found, asked.is_agreed).await,
        Some(Way::Recreate) => recreate::recreate(&settings, &mut found, asked.is_agreed).await,
        Some(Way::Fill) => fill::fill(&settings, found, &asked).await,
    }
}

/// What was found.
struct Found {
    sql: sql::Session,
    store: AnyStore,
    facts: Facts,
    server: ServerState,
    slot: Option<SlotState>,
    stored: Option<Checkpoint>,
    /// Why there may be a newer one.
    doubt: Option<String>,
    state: StartState,
    /// There is a table for the checkpoint, or none is needed.
    can_keep: bool,
}

impl Found {
    /// Why the stream would pass over rows of an outbox, if it would.
    fn gap(&self, settings: &Settings) -> Option<Finding> {
        let gone = self.facts.tables.iter().filter(|table| table.found.is_none());
        let missing: Vec<TableName> = gone.map(|table| table.subject.table.clone()).collect();
        preflight::gap(&self.facts.publications, &missing, &relay::subject(settings))
    }

    async fn look(settings: &Settings) -> Result<Self, Ended> {
        let connection = settings.source().connection();
        let refused = |error| postgres_refused(&error);
        let sql = sql::Session::connect(connection, STATEMENT_TIMEOUT).await.map_err(refused)?;
        let setup = relay::setup(settings, false);
        let facts = setup::facts(&sql, &setup).await.map_err(refused)?;
        let slot = inspect::slot_state(&sql, settings.source().slot()).await.map_err(refused)?;
        let mut store = relay::store(settings);
        let can_keep = !setup.with_checkpoint_table || facts.has_checkpoint_table;
        let (stored, doubt) = match can_keep {
            true => store.look().await.map_err(|error| checkpoint_refused(&error))?,
            false => (None, None),
        };
        let server = inspect::server_state(&sql, connection).await.map_err(refused)?;
        let state = start::compare(&server, slot.as_ref(), stored.as_ref(), &relay::wanted(settings));
        Ok(Self { sql, store, facts, server, slot, stored, doubt, state, can_keep })
    }

    /// The slot is to be one that standbys have too, and can be.
    fn is_for_standbys(&self, settings: &Settings) -> bool {
        settings.source().is_for_standbys() && self.facts.version >= failover::FIRST_VERSION
    }

    /// Why the slot may not be touched, whichever way is gone.
    fn hands_off(&self) -> Option<String> {
        let slot = match &self.state {
            StartState::SlotBusy { in_creation: true, .. } => {
                return Some(format!("{}; wait for its end", self.state.sentence()));
            }
            StartState::SlotBusy { .. } => {
                return Some(format!("{}; stop it first", self.state.sentence()));
            }
            StartState::InRecovery | StartState::WrongDatabase { .. } => return Some(self.state.sentence()),
            StartState::SlotPhysical { .. } | StartState::SlotTemporary { .. } | StartState::WrongPlugin { .. } => {
                return Some(format!(
                    "{}, so it is somebody else's; name another in source.slot",
                    self.state.sentence()
                ));
            }
            _ => self.slot.as_ref()?,
        };
        // The checkpoint is judged first, so the slot may still be in use.
        slot.active_pid
            .map(|pid| format!("the slot \"{}\" is read by process {pid} of the server; stop it first", slot.name))
    }

    /// The end of a command that may not touch the slot.
    fn refuse_hands_off(&self) -> Result<(), Ended> {
        match self.hands_off() {
            None => Ok(()),
            Some(sentence) if self.state.start().is_some() || self.state.exit_code() == 0 => {
                Err(Ended::with_sentence(Exit::SlotBusy, sentence))
            }
            Some(sentence) => Err(Ended::with_sentence(Exit::of_start(&self.state), sentence)),
        }
    }

    /// Keeps other repairs of this slot away.
    async fn lock(&self, settings: &Settings) -> Result<(), Ended> {
        let slot = settings.source().slot();
        let locked = walpost_postgres::repair::lock(&self.sql, slot).await.map_err(|error| postgres_refused(&error))?;
        locked.map_err(|pid| {
            let process = pid.map(|pid| format!(" (process {pid} of the server)")).unwrap_or_default();
            Ended::with_sentence(
                Exit::SlotBusy,
                format!("the slot \"{slot}\" is being repaired by another session{process}"),
            )
        })
    }
}

/// The end of a way that is not possible.
fn impossible(sentences: &[String]) -> Ended {
    Ended::with_sentences(Exit::SourceRefused, sentences)
}
