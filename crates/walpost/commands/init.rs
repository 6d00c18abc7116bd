//! `walpost init`: prepares the database, and shows what it does.

use std::time::Duration;

use walpost_core::lsn::Lsn;
use walpost_core::port::Checkpoints;
use walpost_core::position::Checkpoint;
use walpost_core::start::{self, StartState};
use walpost_postgres::Error as PostgresError;
use walpost_postgres::checkpoint::{Error as OwnError, at_slot};
use walpost_postgres::setup::{self, Applied, Plan, StepKind};
use walpost_postgres::{failover, inspect, sql};

use super::{Outcome, checkpoint_refused, postgres_refused};
use crate::config::Settings;
use crate::exit::{Ended, Exit};
use crate::letters::{AnyLetters, Error as LetterError};
use crate::store::{AnyStore, Error as CheckpointError, SETTLE_LIMIT};
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
    let asker = Asker::Operator { with_outbox: options.with_outbox };
    let mut preparation = Preparation::look(&settings, asker, is_out_of_order).await?;
    preparation.refuse_obstacles()?;
    if options.is_dry_run {
        preparation.show();
        say!("-- nothing was run");
        preparation.refuse_lacks()?;
        return Ok(Exit::Success);
    }
    preparation.refuse_lacks()?;
    preparation.show();
    create_letters(&settings).await?;
    let (applied, position) = preparation.apply(&settings).await?;
    for unpublished in &applied.unpublished {
        say!("-- note: {unpublished}");
    }
    match position {
        Some(position) => say!("-- first checkpoint at {position}, in {}", preparation.store.place()),
        None => say!("-- the checkpoint stays as it is"),
    }
    say!("-- done; to publish, run: walpost run");
    Ok(Exit::Success)
}

/// `source.create = true`: the same before a run, told by the log.
///
/// # Errors
/// As [`init`]; whether trying again can help is for the caller to judge.
pub async fn create(settings: &Settings) -> Result<(), Hindrance> {
    create_unless(settings, is_out_of_order).await
}

/// The same for somebody who writes another checkpoint next: it need not fit the slot that is there.
///
/// # Errors
/// As [`init`].
pub(super) async fn create_for_another_checkpoint(settings: &Settings) -> Result<(), Hindrance> {
    create_unless(settings, |_| false).await
}

async fn create_unless(settings: &Settings, is_refused: fn(&StartState) -> bool) -> Result<(), Hindrance> {
    let mut preparation = Preparation::look(settings, Asker::Relay, is_refused).await?;
    preparation.refuse_obstacles()?;
    preparation.refuse_lacks()?;
    create_letters(settings).await?;
    if preparation.plan.is_empty() {
        // Another relay reads the slot, and the topic of checkpoints is all that is missing.
        return if preparation.lacks_place { preparation.make_place().await } else { Ok(()) };
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

/// Why the database could not be prepared.
#[derive(Debug)]
pub enum Hindrance {
    /// It cannot be reached, or refuses.
    Postgres(PostgresError),
    /// The checkpoint store cannot be reached, or refuses.
    Checkpoint(CheckpointError),
    /// The store of dead letters cannot be reached, or refuses.
    Letters(LetterError),
    /// Something is in the way.
    Refused(Ended),
}

impl From<PostgresError> for Hindrance {
    fn from(error: PostgresError) -> Self {
        Self::Postgres(error)
    }
}

impl From<CheckpointError> for Hindrance {
    fn from(error: CheckpointError) -> Self {
        Self::Checkpoint(error)
    }
}

impl From<LetterError> for Hindrance {
    fn from(error: LetterError) -> Self {
        Self::Letters(error)
    }
}

impl From<OwnError> for Hindrance {
    fn from(error: OwnError) -> Self {
        Self::Checkpoint(error.into())
    }
}

impl From<Ended> for Hindrance {
    fn from(ended: Ended) -> Self {
        Self::Refused(ended)
    }
}

impl From<Hindrance> for Ended {
    fn from(hindrance: Hindrance) -> Self {
        match hindrance {
            Hindrance::Postgres(error) => postgres_refused(&error),
            Hindrance::Checkpoint(error) => checkpoint_refused(&error),
            Hindrance::Letters(error) => error.into(),
            Hindrance::Refused(ended) => ended,
        }
    }
}

/// A relay that runs holds the slot; whatever else keeps it from starting is not mended by creating things.
fn is_out_of_order(state: &StartState) -> bool {
    state.start().is_none() && !matches!(state, StartState::Fresh { .. } | StartState::SlotBusy { .. })
}

/// For whom the database is prepared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asker {
    /// Somebody who reads what is in the way, and can have the outboxes made.
    Operator { with_outbox: bool },
    /// A relay, which waits for room for its slot: base backups and subscriptions take slots for a while, and the server says so.
    Relay,
}

/// What was found, and what follows from it.
struct Preparation {
    sql: sql::Session,
    store: AnyStore,
    setup: setup::SetupSettings,
    plan: Plan,
    has_checkpoint: bool,
    /// There is no place for checkpoints yet, and PostgreSQL is not that place.
    lacks_place: bool,
}

impl Preparation {
    async fn look(settings: &Settings, asker: Asker, is_refused: fn(&StartState) -> bool) -> Result<Self, Hindrance> {
        let connection = settings.source().connection();
        let sql = sql::Session::connect(connection, STATEMENT_TIMEOUT).await?;
        let setup = relay::setup(settings, asker == Asker::Operator { with_outbox: true });
        let mut facts = setup::facts(&sql, &setup).await?;
        if asker == Asker::Relay {
            facts.no_room = None;
        }
        let mut store = relay::store(settings);
        let is_readable = !setup.with_checkpoint_table || facts.has_checkpoint_table;
        let (checkpoint, lacks_place) = if is_readable { stored(&mut store).await? } else { (None, false) };
        let plan = setup::plan(&setup, &facts, checkpoint.as_ref());
        let server = inspect::server_state(&sql, connection).await?;
        let wanted = relay::wanted(settings);
        let mut state = start::compare(&server, facts.slot.as_ref(), checkpoint.as_ref(), &wanted);
        if is_refused(&state) && store.can_be_hidden() && !lacks_place {
            let checkpoint = settled(&mut store).await?;
            state = start::compare(&server, facts.slot.as_ref(), checkpoint.as_ref(), &wanted);
        }
        // The plan does not know the server: of another one it would say that the slot is missing.
        let is_of_another_system = facts.slot.is_none() && matches!(state, StartState::OtherSystem { .. });
        if is_of_another_system || is_refused(&state) && plan.obstacles.is_empty() && plan.lacks.is_empty() {
            let sentence = journal::with_remedy(&state.sentence(), state.remedy().as_deref());
            return Err(Ended::with_sentence(Exit::of_start(&state), sentence).into());
        }
        let has_checkpoint = checkpoint.is_some_and(|checkpoint| checkpoint.has_begun());
        Ok(Self { sql, store, setup, plan, has_checkpoint, lacks_place })
    }

    fn show(&self) {
        say!("{}", self.plan.to_string().trim_end());
    }

    /// Everything that is wrong, where the SQL would not run at all.
    fn refuse_obstacles(&self) -> Result<(), Ended> {
        let Plan { obstacles, lacks, .. } = &self.plan;
        if obstacles.is_empty() {
            return Ok(());
        }
        Err(Ended::with_sentences(Exit::SourceRefused, obstacles.iter().chain(lacks)))
    }

    /// What keeps this role from running the SQL.
    fn refuse_lacks(&self) -> Result<(), Ended> {
        if self.plan.lacks.is_empty() {
            return Ok(());
        }
        Err(Ended::with_sentences(Exit::SourceRefused, &self.plan.lacks))
    }

    /// Applies the plan and writes the first checkpoint, if there is none; answers where it stands.
    async fn apply(&mut self, settings: &Settings) -> Result<(Applied, Option<Lsn>), Hindrance> {
        self.announce_slot(settings).await?;
        let applied = setup::apply(&mut self.sql, &self.plan, &self.setup).await?;
        if self.plan.steps.iter().any(|step| step.kind == StepKind::Carry) {
            failover::carry_over(settings.source().connection(), self.sql.endpoint(), &self.setup.slot).await?;
        }
        self.make_place().await?;
        if self.has_checkpoint || !self.store.keeps_a_checkpoint() {
            return Ok((applied, None));
        }
        let server = inspect::server_state(&self.sql, settings.source().connection()).await?;
        let first = at_slot(&server, &applied.slot, &relay::wanted(settings))?;
        self.store.claim(&first).await?;
        Ok((applied, Some(first.position)))
    }

    /// Where nothing may be published twice, a slot without a checkpoint is refused, for nobody knows what was published from it. So a checkpoint
    /// without a position is written before the slot is made: should this be broken off between the slot and the first checkpoint, it tells that
    /// nothing was. It is claimed, so that one that a second instance has written since the look keeps its position.
    async fn announce_slot(&mut self, settings: &Settings) -> Result<(), Hindrance> {
        let makes_slot = self.plan.steps.iter().any(|step| step.kind == StepKind::Slot);
        if !relay::wanted(settings).is_exactly_once || self.has_checkpoint || !makes_slot {
            return Ok(());
        }
        self.make_place().await?;
        let server = inspect::server_state(&self.sql, settings.source().connection()).await?;
        let announced = relay::checkpoint_at(settings, Lsn::INVALID, None, None, &server);
        self.store.claim(&announced).await?;
        Ok(())
    }

    async fn make_place(&self) -> Result<(), Hindrance> {
        if let Some(place) = self.store.create().await? {
            tracing::info!(place, "made the topic of checkpoints, with the brokers' default number of replicas");
        }
        Ok(())
    }
}

/// Makes the topic of dead letters, where they are kept in one and any row may be set aside.
async fn create_letters(settings: &Settings) -> Result<(), Hindrance> {
    if settings.dead_letter().is_used()
        && let Some(place) = AnyLetters::new(settings).create().await?
    {
        tracing::info!(place, "made the topic of dead letters, with the brokers' default number of replicas");
    }
    Ok(())
}

/// What the store holds that nothing hides any more.
async fn settled(store: &mut AnyStore) -> Result<Option<Checkpoint>, CheckpointError> {
    store.settle(SETTLE_LIMIT).await?;
    store.load().await
}

/// What the store holds, and whether its topic is still to be made: that holds nothing.
async fn stored(store: &mut AnyStore) -> Result<(Option<Checkpoint>, bool), CheckpointError> {
    // Who finds none makes one.
    let loaded = match store.load().await {
        Ok(None) => settled(store).await,
        loaded => loaded,
    };
    match loaded {
        #[cfg(feature = "kafka")]
        Err(CheckpointError::Kafka(walpost_kafka::CheckpointError::Read(walpost_kafka::ReadError::Missing {
            ..
        }))) => Ok((None, true)),
        loaded => Ok((loaded?, false)),
    }
}
