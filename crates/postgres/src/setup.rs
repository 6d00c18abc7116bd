//! `walpost init`: what a relay needs in the source database, planned as SQL with reasons, shown, and then applied.
//!
//! Idempotent: what is there and fits is left alone. Nothing is narrowed, and nothing of somebody else's is changed: where a
//! publication publishes more than is wanted, the statement that would change it is shown and not run.
//!
//! The order matters. A slot made before its publication would decode a past in which the publication does not exist, so
//! publication and tables are committed first, then the slot is made, then the first checkpoint.

mod plan;

use std::collections::BTreeSet;
use std::time::Duration;

use walpost_core::outbox::TableName;
use walpost_core::start::SlotState;

use crate::error::Error;
use crate::failover;
use crate::identifier::SlotName;
use crate::inspect::{self, InspectedTable, OutboxSubject, Publication, Role};
use crate::sql::{Session, field};

pub use plan::plan;
pub(crate) use plan::{made_anew, slot_sql, younger};

/// What is wanted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SetupSettings {
    /// The slot.
    pub slot: SlotName,
    /// The publications; the first is the one that is created, or given the tables that none of them has.
    pub publications: Vec<String>,
    /// The outboxes.
    pub outboxes: Vec<TableName>,
    /// Create outboxes that do not exist as the reference table.
    pub with_outbox: bool,
    /// Keep the checkpoint in the source database.
    pub with_checkpoint_table: bool,
    /// Have a table for the rows that are set aside.
    pub with_dead_letter_table: bool,
    /// Make the slot one that PostgreSQL 17 and later carries over to standbys.
    pub failover: bool,
}

/// What is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Facts {
    /// `server_version_num`.
    pub version: i32,
    /// The role that is to do it.
    pub role: Role,
    /// Those of the publications that exist.
    pub publications: Vec<Publication>,
    /// The outboxes, in the order of the settings.
    pub tables: Vec<InspectedTable>,
    /// Schemas of the outboxes that do not exist.
    pub missing_schemas: Vec<String>,
    /// Whether `walpost.checkpoint` exists.
    pub has_checkpoint_table: bool,
    /// Whether it exists in the form of an earlier walpost, without the columns of settled rows.
    pub has_former_checkpoint_table: bool,
    /// Whether `walpost.dead_letter` exists, with its indexes.
    pub has_dead_letter_table: bool,
    /// The slot, if there is one of the name.
    pub slot: Option<SlotState>,
    /// Whether that one is carried over to standbys.
    pub is_carried: bool,
    /// Why there is no room for another slot, with what to do about it, if there is none.
    pub no_room: Option<String>,
}

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepKind {
    /// Tables and publications: all in one transaction.
    Schema,
    /// The slot: by itself, after the rest is committed.
    Slot,
    /// A change of the slot that SQL cannot make: a command of a replication session, which the caller runs ([`crate::failover::carry_over`]).
    Carry,
}

/// One statement of the plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    /// When it runs.
    pub kind: StepKind,
    /// The SQL, as it is shown and run.
    pub sql: String,
    /// What it is for.
    pub reason: String,
}

/// A difference that is shown and left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    /// What differs.
    pub sentence: String,
    /// The statement that would level it, where one would.
    pub sql: Option<String>,
}

/// What has to be done, what is left alone, and what stands in the way.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Plan {
    /// In the order in which they run.
    pub steps: Vec<Step>,
    /// Shown, not applied.
    pub differences: Vec<Difference>,
    /// Sentences with their remedies; with any of them, nothing is applied, and the SQL would not run whoever ran it.
    pub obstacles: Vec<String>,
    /// What the role lacks, with the remedies; with any of them, nothing is applied. Another role could run the SQL.
    pub lacks: Vec<String>,
}

/// How many rows stand in an outbox from before the slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unpublished {
    /// Which outbox.
    pub table: TableName,
    /// How many; `None` where the role may not read the table.
    pub rows: Option<i64>,
}

/// What was done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    /// The slot, as it now is.
    pub slot: SlotState,
    /// Rows that were committed before a new slot and are therefore not published. Empty where the slot was there.
    pub unpublished: Vec<Unpublished>,
}

impl std::fmt::Display for Unpublished {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.rows {
            Some(1) => write!(f, "1 row that stands in {} from before the slot is not published", self.table),
            Some(rows) => write!(f, "{rows} rows that stand in {} from before the slot are not published", self.table),
            None => write!(
                f,
                "rows that stand in {} from before the slot are not published; they could not be counted without SELECT on it",
                self.table
            ),
        }
    }
}

impl std::fmt::Display for Plan {
    /// As a script of SQL, whose comments say why, and what is left to the reader.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for Step { kind, sql, reason } in &self.steps {
            let sql = sql.trim_end().trim_end_matches(';');
            match kind {
                StepKind::Schema | StepKind::Slot => writeln!(f, "-- {reason}\n{sql};\n")?,
                StepKind::Carry => writeln!(f, "-- {reason}; by a session with replication=database:\n-- {sql};\n")?,
            }
        }
        if self.is_empty() {
            writeln!(f, "-- everything is there already")?;
        }
        for Difference { sentence, sql } in &self.differences {
            writeln!(f, "-- note: {sentence}")?;
            if let Some(sql) = sql {
                writeln!(f, "-- not run; to change it: {sql};")?;
            }
        }
        Ok(())
    }
}

/// Reads what [`plan`] needs.
///
/// # Errors
/// The session has ended.
pub async fn facts(session: &Session, settings: &SetupSettings) -> Result<Facts, Error> {
    let mut tables = Vec::new();
    for table in &settings.outboxes {
        let subject = OutboxSubject { table: table.clone(), columns: Vec::new() };
        tables.push(inspect::inspect_table(session, &subject).await?);
    }
    let (server, _) = inspect::read_server(session).await?;
    Ok(Facts {
        version: server.version,
        no_room: server.no_room_for_a_slot().map(|(sentence, remedy)| format!("{sentence}; {remedy}")),
        role: inspect::role(session).await?,
        publications: inspect::publications(session, &settings.publications).await?,
        tables,
        missing_schemas: missing_schemas(session, &settings.outboxes).await?,
        has_checkpoint_table: is_true(session, HAS_CHECKPOINT_TABLE).await?,
        has_former_checkpoint_table: is_true(session, HAS_FORMER_CHECKPOINT_TABLE).await?,
        has_dead_letter_table: is_true(session, HAS_DEAD_LETTER_TABLE).await?,
        slot: inspect::slot_state(session, &settings.slot).await?,
        is_carried: failover::look(session, &settings.slot).await?.is_carried == Some(true),
    })
}

async fn missing_schemas(session: &Session, tables: &[TableName]) -> Result<Vec<String>, Error> {
    let wanted: BTreeSet<&str> = tables.iter().map(|table| table.schema.as_str()).collect();
    let wanted: Vec<&str> = wanted.into_iter().collect();
    let missing = "SELECT name FROM unnest($1::text[]) AS name \
                   WHERE name NOT IN (SELECT nspname::text FROM pg_namespace) ORDER BY name";
    let rows = session.query(missing, &[&wanted]).await?;
    rows.iter().map(|row| field(row, 0)).collect()
}

const HAS_CHECKPOINT_TABLE: &str = "SELECT to_regclass('walpost.checkpoint') IS NOT NULL";

const HAS_FORMER_CHECKPOINT_TABLE: &str = "
SELECT to_regclass('walpost.checkpoint') IS NOT NULL AND count(*) < 2 FROM pg_attribute
WHERE attrelid = to_regclass('walpost.checkpoint') AND attname IN ('settled_commit_lsn', 'settled_through') AND NOT attisdropped";

const HAS_DEAD_LETTER_TABLE: &str = "
SELECT bool_and(to_regclass('walpost.dead_letter' || part) IS NOT NULL) FROM unnest(ARRAY['', '_open', '_marked', '_ended']) AS part";

async fn is_true(session: &Session, question: &str) -> Result<bool, Error> {
    let row = session.query_one(question, &[]).await?;
    field(&row, 0)
}

/// How long the slot may take to be made: the server waits for every transaction that is running.
const SLOT_TIMEOUT: Duration = Duration::from_secs(300);

/// Applies a plan. A plan with obstacles, or for which the role lacks something, is applied by nobody: the caller says so and ends.
///
/// # Errors
/// A statement was refused. The tables and publications are then all as before, or all done and the slot is missing; in
/// either case `init` can be run again.
pub async fn apply(session: &mut Session, plan: &Plan, settings: &SetupSettings) -> Result<Applied, Error> {
    let schema = plan.steps.iter().filter(|step| step.kind == StepKind::Schema);
    session.transact(schema.map(|step| (step.sql.as_str(), None))).await?;
    let mut unpublished = Vec::new();
    let slot_step = plan.steps.iter().find(|step| step.kind == StepKind::Slot);
    if let Some(step) = slot_step {
        for table in &settings.outboxes {
            let rows = inspect::count_rows(session, table).await.ok();
            if rows != Some(0) {
                unpublished.push(Unpublished { table: table.clone(), rows });
            }
        }
        create_slot(session, &step.sql).await?;
    }
    let slot = inspect::slot_state(session, &settings.slot).await?;
    let slot =
        slot.ok_or_else(|| Error::Unexpected { what: "the slot that was just made", value: "absent".to_owned() })?;
    Ok(Applied { slot, unpublished })
}

/// Makes a slot by this statement, which may take its time.
pub(crate) async fn create_slot(session: &mut Session, sql: &str) -> Result<(), Error> {
    create_slot_within(session, sql, SLOT_TIMEOUT).await
}

async fn create_slot_within(session: &mut Session, sql: &str, limit: Duration) -> Result<(), Error> {
    let timeout = format!("SET LOCAL statement_timeout = {}", limit.as_millis());
    session.transact([(timeout.as_str(), None), (sql, Some(limit))]).await
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::{Class, Phase};
    use crate::sql::tests::{DONE, scripted};

    fn settings() -> SetupSettings {
        SetupSettings {
            slot: SlotName::new("walpost").unwrap(),
            publications: Vec::new(),
            outboxes: Vec::new(),
            with_outbox: false,
            with_checkpoint_table: false,
            with_dead_letter_table: false,
            failover: false,
        }
    }

    /// What a server that answers so many statements of ours makes of a table and a slot.
    async fn outcome(answered: usize) -> Error {
        let step = |kind, sql: &str| Step { kind, sql: sql.to_owned(), reason: String::new() };
        let steps = vec![step(StepKind::Schema, "CREATE TABLE a ()"), step(StepKind::Schema, "CREATE TABLE b ()")];
        let mut session = scripted(vec![DONE.to_vec(); answered]).await;
        let plan = Plan { steps, ..Plan::default() };
        apply(&mut session, &plan, &settings()).await.expect_err("nobody answered")
    }

    #[tokio::test]
    async fn a_server_that_freezes_while_it_is_prepared_is_given_up_at_any_statement() {
        // BEGIN, two tables, COMMIT.
        let (begin, first, second, commit) = tokio::join!(outcome(0), outcome(1), outcome(2), outcome(3));
        for error in [begin, first, second, commit] {
            assert!(matches!(error, Error::Deadline { phase: Phase::Query, .. }), "{error}");
            assert_eq!(error.class(), Class::Transient);
        }
    }

    #[tokio::test]
    async fn a_slot_may_take_its_own_time_and_no_longer() {
        let limit = Duration::from_millis(100);
        let mut session = scripted(vec![DONE.to_vec(); 2]).await;
        let error = create_slot_within(&mut session, "SELECT 1", limit).await.expect_err("nobody answered");
        // What any other statement may take is less.
        assert!(matches!(error, Error::Deadline { after, .. } if after > limit), "{error}");
    }
}
