//! `walpost init`: prepares the database, and shows what it does.

use std::time::Duration;

use walpost_core::port::Checkpoints;
use walpost_core::start::{self, StartState};
use walpost_postgres::checkpoint::{Store, at_slot};
use walpost_postgres::setup::{self, Applied, Plan};
use walpost_postgres::{inspect, sql};

use super::{Outcome, checkpoint_refused, postgres_refused};
use crate::config::Settings;
use crate::exit::{Ended, Exit};
use crate::{journal, relay};

/// How long one statement may take, but for the slot's.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// How `walpost init` goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Init {
    /// Create the outbox tables too.
    pub with_outbox: bool,
    /// Print the SQL and run nothing.
    pub is_dry_run: bool,
}

/// Creates what is missing in the database.
///
/// # Errors
/// The database cannot be reached, or refuses, or something is in the way.
pub async fn init(settings: Settings, options: Init) -> Outcome {
    let mut preparation = Preparation::look(&settings, options.with_outbox).await?;
    print!("{}", preparation.plan);
    preparation.refuse_obstacles()?;
    if options.is_dry_run {
        println!("-- nothing was run");
        return Ok(Exit::Success);
    }
    let (applied, position) = preparation.apply(&settings).await?;
    for unpublished in &applied.unpublished {
        println!("-- note: {unpublished}");
    }
    match position {
        Some(position) => println!("-- first checkpoint at {position}, in {}", preparation.store.place()),
        None => println!("-- the checkpoint stays as it is"),
    }
    println!("-- done; to publish, run: walpost run");
    Ok(Exit::Success)
}

/// `source.create = true`: the same before a run, told by the log.
///
/// # Errors
/// As [`init`].
pub(super) async fn create_quietly(settings: &Settings) -> Result<(), Ended> {
    let mut preparation = Preparation::look(settings, false).await?;
    preparation.refuse_obstacles()?;
    if preparation.plan.is_empty() {
        return Ok(());
    }
    for step in &preparation.plan.steps {
        tracing::info!(sql = step.sql, reason = step.reason, "creating");
    }
    let (applied, _) = preparation.apply(settings).await?;
    for unpublished in &applied.unpublished {
        tracing::warn!("{unpublished}");
    }
    Ok(())
}

/// What was found, and what follows from it.
struct Preparation {
    sql: sql::Session,
    store: Store,
    setup: setup::SetupSettings,
    plan: Plan,
    has_checkpoint: bool,
}

impl Preparation {
    async fn look(settings: &Settings, with_outbox: bool) -> Result<Self, Ended> {
        let connection = settings.source().connection();
        let sql =
            sql::Session::connect(connection, STATEMENT_TIMEOUT).await.map_err(|error| postgres_refused(&error))?;
        let setup = relay::setup(settings, with_outbox);
        let facts = setup::facts(&sql, &setup).await.map_err(|error| postgres_refused(&error))?;
        let mut store = relay::store(settings);
        let is_readable = !setup.with_checkpoint_table || facts.has_checkpoint_table;
        let checkpoint =
            if is_readable { store.load().await.map_err(|error| checkpoint_refused(&error))? } else { None };
        let plan = setup::plan(&setup, &facts, checkpoint.as_ref());
        let server = inspect::server_state(&sql, connection).await.map_err(|error| postgres_refused(&error))?;
        let state = start::compare(&server, facts.slot.as_ref(), checkpoint.as_ref(), &relay::wanted(settings));
        // A relay that runs holds the slot; whatever else keeps it from starting is not mended by creating things.
        let is_in_order =
            state.start().is_some() || matches!(state, StartState::Fresh { .. } | StartState::SlotBusy { .. });
        if !is_in_order && plan.obstacles.is_empty() {
            let sentence = journal::with_remedy(&state.sentence(), state.remedy().as_deref());
            return Err(Ended::with_sentence(Exit::of_start(&state), sentence));
        }
        Ok(Self { sql, store, setup, plan, has_checkpoint: checkpoint.is_some() })
    }

    fn refuse_obstacles(&self) -> Result<(), Ended> {
        if self.plan.obstacles.is_empty() {
            return Ok(());
        }
        Err(Ended::with_sentence(Exit::SourceRefused, self.plan.obstacles.join("\nerror: ")))
    }

    /// Applies the plan and writes the first checkpoint, if there is none; answers where it stands.
    async fn apply(&mut self, settings: &Settings) -> Result<(Applied, Option<walpost_core::lsn::Lsn>), Ended> {
        let applied =
            setup::apply(&mut self.sql, &self.plan, &self.setup).await.map_err(|error| postgres_refused(&error))?;
        if self.has_checkpoint || !self.store.keeps_a_checkpoint() {
            return Ok((applied, None));
        }
        let server = inspect::server_state(&self.sql, settings.source().connection())
            .await
            .map_err(|error| postgres_refused(&error))?;
        let first =
            at_slot(&server, &applied.slot, &relay::wanted(settings)).map_err(|error| checkpoint_refused(&error))?;
        self.store.claim(&first).await.map_err(|error| checkpoint_refused(&error))?;
        Ok((applied, Some(first.position)))
    }
}
