//! From what is wanted and what is there to what has to be done. Pure.

use walpost_core::outbox::TableName;
use walpost_core::position::Checkpoint;
use walpost_core::start::{SlotKind, SlotState};

use super::{Difference, Facts, Plan, SetupSettings, Step, StepKind};
use crate::failover;
use crate::identifier::{SlotName, quote_identifier, quote_literal, quote_table};
use crate::inspect::Publication;
use crate::preflight;

const CHECKPOINT_TABLE: &str = include_str!("../../../../migrations/0001_checkpoint.sql");
const SETTLED_ROWS: &str = include_str!("../../../../migrations/0003_settled_rows.sql");
const DEAD_LETTER_TABLE: &str = include_str!("../../../../migrations/0004_dead_letter.sql");
const OUTBOX_TABLE: &str = include_str!("../../../../migrations/0002_outbox.sql");
/// The name that the reference table has in its migration.
const OUTBOX_NAME: &str = "\"public\".\"outbox\"";

/// Plans what is missing. `checkpoint` is what the relay's store holds, if anything.
#[must_use]
pub fn plan(settings: &SetupSettings, facts: &Facts, checkpoint: Option<&Checkpoint>) -> Plan {
    let mut plan = Plan::default();
    outboxes(settings, facts, &mut plan);
    for heirs in preflight::heirs(&facts.tables) {
        plan.difference(heirs.without_severity(), None);
    }
    publications(settings, facts, &mut plan);
    checkpoint_table(settings, facts, &mut plan);
    dead_letter_table(settings, facts, &mut plan);
    slot(settings, facts, checkpoint, &mut plan);
    privileges(settings, facts, &mut plan);
    plan
}

impl Plan {
    /// Whether everything is there already.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.obstacles.is_empty() && self.lacks.is_empty()
    }

    fn schema(&mut self, sql: String, reason: impl Into<String>) {
        self.steps.push(Step { kind: StepKind::Schema, sql, reason: reason.into() });
    }

    fn difference(&mut self, sentence: String, sql: Option<String>) {
        self.differences.push(Difference { sentence, sql });
    }
}

fn outboxes(settings: &SetupSettings, facts: &Facts, plan: &mut Plan) {
    for inspected in facts.tables.iter().filter(|inspected| inspected.found.is_none()) {
        let table = &inspected.subject.table;
        if settings.with_outbox && facts.missing_schemas.contains(&table.schema) {
            plan.obstacles.push(format!(
                "the schema of the outbox table {table} does not exist; correct outbox.table, or run CREATE SCHEMA {} and walpost init --with-outbox again",
                quote_identifier(&table.schema)
            ));
        } else if settings.with_outbox {
            plan.schema(
                OUTBOX_TABLE.replace(OUTBOX_NAME, &quote_table(table)),
                format!("the reference outbox table {table}"),
            );
        } else {
            let hint = inspected.nearest.as_ref().map(|name| format!(" (there is {name})")).unwrap_or_default();
            plan.obstacles.push(format!(
                "the outbox table {table} does not exist{hint}; correct outbox.table, or run: walpost init --with-outbox"
            ));
        }
    }
}

fn publications(settings: &SetupSettings, facts: &Facts, plan: &mut Plan) {
    for publication in &facts.publications {
        judge(publication, settings, facts, plan);
    }
    let missing: Vec<&TableName> = unpublished(settings, facts).collect();
    for (index, name) in settings.publications.iter().enumerate() {
        let tables = if index == 0 { missing.as_slice() } else { &[] };
        match facts.publications.iter().find(|publication| publication.name == *name) {
            // Its log could not be read: a slot decodes with the catalogue as it was, without the publication.
            None if facts.slot.is_some() => plan.obstacles.push(format!(
                "the publication \"{name}\" does not exist and the slot \"{slot}\" does: the WAL of a slot cannot be read through a younger publication; name the publication that the slot was read with in source.publication, or {}",
                younger(name, &settings.outboxes),
                slot = settings.slot
            )),
            None => create_publication(name, tables, plan),
            Some(publication) if !publication.all_tables && !tables.is_empty() => add_tables(name, tables, plan),
            Some(_) => {}
        }
    }
}

fn unpublished<'a>(settings: &'a SetupSettings, facts: &'a Facts) -> impl Iterator<Item = &'a TableName> {
    settings.outboxes.iter().filter(|table| !facts.publications.iter().any(|found| found.has(table)))
}

fn create_publication(name: &str, tables: &[&TableName], plan: &mut Plan) {
    plan.schema(
        publication_sql(name, tables),
        "the inserts into the outboxes and nothing else; of partitioned ones under the root's name",
    );
}

fn add_tables(name: &str, tables: &[&TableName], plan: &mut Plan) {
    plan.schema(
        format!("ALTER PUBLICATION {} ADD TABLE {}", quote_identifier(name), list(tables)),
        "outboxes that were added to the configuration; rows committed before this are not published",
    );
}

fn publication_sql(name: &str, tables: &[&TableName]) -> String {
    let tables = if tables.is_empty() { String::new() } else { format!(" FOR TABLE {}", list(tables)) };
    format!(
        "CREATE PUBLICATION {}{tables} WITH (publish = 'insert', publish_via_partition_root = true)",
        quote_identifier(name)
    )
}

/// What to do where a slot was read through a publication that is gone. A slot decodes with the catalogue as it was, so it has to be made anew
/// too, and what was committed meanwhile comes from the tables.
pub(crate) fn younger(name: &str, tables: &[TableName]) -> String {
    format!(
        "make it again ({}), then, for the slot cannot be read past the moment when it went, run: walpost repair --fill --since TIME, a time before that moment; or, to accept the gap, walpost repair --recreate --accept-gap",
        publication_sql(name, &tables.iter().collect::<Vec<_>>())
    )
}

/// How a publication is made anew for these tables alone. In one transaction: the slot cannot be read through a moment without it.
pub(crate) fn made_anew(name: &str, tables: &[&TableName]) -> String {
    format!("BEGIN; DROP PUBLICATION {}; {}; COMMIT", quote_identifier(name), publication_sql(name, tables))
}

fn list(tables: &[&TableName]) -> String {
    tables.iter().map(|table| quote_table(table)).collect::<Vec<_>>().join(", ")
}

/// What of an existing publication is not as `init` would have made it.
fn judge(publication: &Publication, settings: &SetupSettings, facts: &Facts, plan: &mut Plan) {
    let Publication { name, .. } = publication;
    let quoted = quote_identifier(name);
    if publication.all_tables {
        plan.obstacles.push(format!(
            "the publication \"{name}\" is FOR ALL TABLES; make it anew under the same name for the outboxes alone, in one transaction, for no row may be committed without it: {}",
            made_anew(name, &settings.outboxes.iter().collect::<Vec<_>>())
        ));
        return;
    }
    if !publication.inserts {
        plan.obstacles
            .push(format!("the publication \"{name}\" does not publish inserts; run {}", publication.inserting()));
    } else if publication.updates || publication.deletes || publication.truncates {
        plan.difference(
            format!("the publication \"{name}\" publishes more than inserts, which costs the server and is ignored"),
            Some(format!("ALTER PUBLICATION {quoted} SET (publish = 'insert')")),
        );
    }
    let is_partitioned = |table: &TableName| {
        facts.tables.iter().any(|inspected| {
            inspected.subject.table == *table && inspected.found.as_ref().is_some_and(|found| found.kind == 'p')
        })
    };
    if !publication.via_root && settings.outboxes.iter().any(is_partitioned) {
        plan.difference(
            format!("the publication \"{name}\" names rows by partition, and an outbox is partitioned: its rows would not be recognised"),
            Some(publication.naming_roots()),
        );
    }
    let strangers: Vec<&TableName> =
        publication.members.iter().filter(|member| !settings.outboxes.contains(member)).collect();
    if !strangers.is_empty() {
        plan.difference(
            format!("the publication \"{name}\" has tables that are no outbox; their rows are sent and ignored"),
            Some(format!("ALTER PUBLICATION {quoted} DROP TABLE {}", list(&strangers))),
        );
    }
}

fn checkpoint_table(settings: &SetupSettings, facts: &Facts, plan: &mut Plan) {
    if settings.with_checkpoint_table && !facts.has_checkpoint_table {
        plan.schema(CHECKPOINT_TABLE.to_owned(), "where the relay keeps how far it got");
    }
    if settings.with_checkpoint_table && facts.has_former_checkpoint_table {
        plan.schema(
            SETTLED_ROWS.to_owned(),
            "what the table of an earlier walpost lacks; relays that run go on meanwhile",
        );
    }
}

fn dead_letter_table(settings: &SetupSettings, facts: &Facts, plan: &mut Plan) {
    if settings.with_dead_letter_table && !facts.has_dead_letter_table {
        plan.schema(DEAD_LETTER_TABLE.to_owned(), "where the relay sets aside the rows that cannot be delivered");
    }
}

/// Makes the slot, for standbys too where that is asked for.
pub(crate) fn slot_sql(slot: &SlotName, failover: bool) -> String {
    let arguments = if failover { ", false, false, true" } else { "" };
    format!(
        "SELECT pg_create_logical_replication_slot({}, 'pgoutput'{arguments})",
        quote_literal(slot.as_str()).trim_start()
    )
}

/// What a checkpoint without the slot `name` means. One of another slot is the progress of whoever reads that: while it is there, nothing is missing, and
/// to forget the checkpoint would lose what that slot still holds.
fn without_its_slot(checkpoint: &Checkpoint, name: &str) -> String {
    const FORGET: &str = "run: walpost checkpoint forget, then walpost init";
    let Checkpoint { slot, database, system, position, .. } = checkpoint;
    if slot == name {
        return format!(
            "the checkpoint stands at {position} and the slot \"{name}\" does not exist: rows since then may be missing; to see the ways out, of which one fills the gap from the table, run: walpost repair; to accept that they are not published, {FORGET}"
        );
    }
    format!(
        "the checkpoint stands at {position} of the slot \"{slot}\", in database \"{database}\" of the cluster with system identifier {}, and the slot \"{name}\" does not exist: a new one begins now, behind the rows that \"{slot}\" still has to give; to go on with that one, write slot = \"{slot}\" under [source]; once nothing of it is to be published any more, {FORGET}",
        system.0
    )
}

fn slot(settings: &SetupSettings, facts: &Facts, checkpoint: Option<&Checkpoint>, plan: &mut Plan) {
    let name = &settings.slot;
    if settings.failover && facts.version < failover::FIRST_VERSION {
        plan.obstacles.push(format!("{}; {}", failover::too_old(facts.version), failover::WITHOUT));
    }
    match &facts.slot {
        None => {
            if let Some(checkpoint) = checkpoint.filter(|checkpoint| checkpoint.has_begun()) {
                plan.obstacles.push(without_its_slot(checkpoint, name.as_str()));
                return;
            }
            if let Some(no_room) = &facts.no_room {
                plan.obstacles.push(format!("the slot \"{name}\" cannot be made: {no_room}"));
                return;
            }
            let failover = settings.failover && facts.version >= failover::FIRST_VERSION;
            plan.steps.push(Step {
                kind: StepKind::Slot,
                sql: slot_sql(name, failover),
                reason: "keeps the WAL from now on; the server waits for the transactions that are running".to_owned(),
            });
        }
        Some(slot) => {
            let is_ours =
                slot.kind == SlotKind::Logical && !slot.temporary && slot.plugin.as_deref() == Some("pgoutput");
            if !is_ours || slot.lost.is_some() {
                plan.obstacles.push(format!(
                    "the slot \"{name}\" exists and cannot be read by walpost{}; name another in source.slot, or run: SELECT pg_drop_replication_slot('{name}')",
                    slot.lost.as_ref().map(|reason| format!(" ({reason})")).unwrap_or_default()
                ));
            } else if settings.failover && facts.version >= failover::FIRST_VERSION && !facts.is_carried {
                carry(name, slot, plan);
            }
        }
    }
}

/// A slot that is there becomes one that is carried over, once nobody reads it.
fn carry(name: &SlotName, slot: &SlotState, plan: &mut Plan) {
    match slot.active_pid {
        Some(pid) => plan.obstacles.push(format!(
            "the slot \"{name}\" is not a failover slot, and while process {pid} reads it, it cannot be made one; stop the relay and run walpost init again"
        )),
        None => plan.steps.push(Step {
            kind: StepKind::Carry,
            sql: failover::command(name),
            reason: "the slot becomes one that standbys have too".to_owned(),
        }),
    }
}

/// What the role lacks for the plan, said before the server refuses half of it.
fn privileges(settings: &SetupSettings, facts: &Facts, plan: &mut Plan) {
    let Facts { role, .. } = facts;
    let (name, quoted) = (&role.name, quote_identifier(&role.name));
    let creates = |step: &Step| step.kind == StepKind::Schema && !step.sql.starts_with("ALTER");
    if !role.may_create && plan.steps.iter().any(creates) {
        plan.lacks.push(format!(
            "the role \"{name}\" may not create in this database; run GRANT CREATE ON DATABASE … TO {quoted}, or let a role that may create run walpost init, or the SQL that walpost init --dry-run prints"
        ));
    }
    for table in unpublished(settings, facts).filter(|table| is_foreign(facts, table)) {
        plan.lacks.push(format!(
            "the role \"{name}\" does not own {table} and cannot publish it; let its owner run walpost init, or the SQL that walpost init --dry-run prints"
        ));
    }
    if !role.may_replicate && plan.steps.iter().any(|step| step.kind == StepKind::Slot) {
        plan.lacks.push(format!("the role \"{name}\" may not replicate; run ALTER ROLE {quoted} REPLICATION"));
    }
}

/// Whether the table is there and somebody else's.
fn is_foreign(facts: &Facts, table: &TableName) -> bool {
    let inspected = facts.tables.iter().find(|inspected| inspected.subject.table == *table);
    inspected.and_then(|inspected| inspected.found.as_ref()).is_some_and(|found| !found.is_owned)
}

#[cfg(test)]
mod tests;
