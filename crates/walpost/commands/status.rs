//! `walpost status`: how things stand, asked from outside: of the database, and of the relay where it answers over HTTP.
//!
//! It works while no relay runs, and changes nothing. Whatever cannot be asked is one more thing that is not well, and not the end of it.

mod letters;
mod relay;
mod report;

use std::time::Duration;

use walpost_core::failure::chain;
use walpost_core::finding::Finding;
use walpost_core::position::Checkpoint;
use walpost_core::start::{self, ServerState, SlotState, StartState};
use walpost_postgres::error::Error;
use walpost_postgres::usage::{Usage, usage};
use walpost_postgres::{inspect, preflight, sql};

use super::Outcome;
use crate::config::Settings;
use crate::exit::Exit;
use crate::{journal, misfit};
use letters::Letters;
use relay::Answer;

const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

/// A tenth of the WAL that may be kept is left: time to look.
const SAFE_SHARE: u64 = 10;

/// How `walpost status` prints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// For people.
    Table,
    /// One JSON object.
    Json,
}

/// All that was learnt.
struct Status {
    database: Result<Database, String>,
    relay: Answer,
    /// What is not well, a sentence each.
    findings: Vec<String>,
    /// What is well, if it is meant.
    notes: Vec<String>,
}

/// What the database said.
struct Database {
    usage: Usage,
    server: ServerState,
    stored: Result<Option<Checkpoint>, String>,
    /// Why there may be a newer one.
    doubt: Option<String>,
    store: String,
    start: Option<StartState>,
    /// What is wrong with the publication.
    gap: Option<String>,
    /// Columns that an outbox or its publication keeps from its router.
    misfits: Vec<String>,
    /// The row filters of the outboxes.
    filters: Vec<String>,
    /// What is wrong with the role.
    role: Option<String>,
    letters: Letters,
}

/// Looks, prints, and answers whether all is well.
///
/// # Errors
/// None so far: whatever goes wrong is printed.
pub async fn status(settings: Settings, form: Form) -> Outcome {
    let (database, relay) = tokio::join!(ask_database(&settings), relay::ask(&settings));
    let database = database.map_err(|error| chain(&error));
    let findings = findings(&settings, &database, &relay);
    let notes = database.as_ref().map(|database| database.filters.clone()).unwrap_or_default();
    let status = Status { database, relay, findings, notes };
    match form {
        Form::Table => report::table(&settings, &status),
        Form::Json => report::json(&settings, &status),
    }
    Ok(if status.findings.is_empty() { Exit::Success } else { Exit::Unwell })
}

async fn ask_database(settings: &Settings) -> Result<Database, Error> {
    let source = settings.source();
    let sql = sql::Session::connect(source.connection(), STATEMENT_TIMEOUT).await?;
    let mut store = crate::relay::store(settings);
    // In this order, as the relay itself looks: what it moves in between is read later.
    let slot = inspect::slot_state(&sql, source.slot()).await?;
    let looked = store.look().await.map_err(|error| journal::with_remedy(&error.sentence(), error.remedy().as_deref()));
    let (stored, doubt) = looked.map_or_else(|reason| (Err(reason), None), |(stored, doubt)| (Ok(stored), doubt));
    let server = inspect::server_state(&sql, source.connection()).await?;
    let usage = usage(&sql, source.slot()).await?;
    let published = inspect::publications(&sql, source.publications()).await?;
    let subject = crate::relay::subject(settings);
    let missing = inspect::missing_tables(&sql, &subject.outboxes).await?;
    let is_prepared = slot.is_some() || matches!(stored, Ok(Some(_)));
    let look = if is_prepared { preflight::gap } else { preflight::unprepared };
    let gap = look(&published, &missing, &subject).map(|finding| finding.to_string());
    let misfits = match misfit::of_outboxes(&sql, settings, &published).await {
        Ok(misfits) => misfits.iter().map(Finding::to_string).collect(),
        Err(error) => vec![format!("the outboxes cannot be looked at: {}", chain(&error))],
    };
    let filters = preflight::filters(&published, &subject).iter().map(Finding::without_severity).collect();
    let role = preflight::no_replication(&inspect::role(&sql).await?).map(|finding| finding.to_string());
    let letters = letters::ask(&sql, settings).await;
    let start = stored.as_ref().ok().map(|stored| compare(settings, &server, slot, stored.as_ref()));
    Ok(Database { usage, server, stored, doubt, store: store.place(), start, gap, misfits, filters, role, letters })
}

/// How slot and checkpoint stand to each other, whoever reads the slot. One that is just being made is not there yet.
fn compare(
    settings: &Settings,
    server: &ServerState,
    slot: Option<SlotState>,
    stored: Option<&Checkpoint>,
) -> StartState {
    let idle = slot.map(|slot| SlotState { active_pid: slot.active_pid.filter(|_| slot.is_in_creation()), ..slot });
    start::compare(server, idle.as_ref(), stored, &crate::relay::wanted(settings))
}

fn findings(settings: &Settings, database: &Result<Database, String>, relay: &Answer) -> Vec<String> {
    let mut findings = Vec::new();
    match database {
        Ok(database) => of_database(settings, database, &mut findings),
        Err(reason) => findings.push(format!("the database cannot be asked: {reason}")),
    }
    findings.extend(relay.reasons());
    findings
}

fn of_database(settings: &Settings, database: &Database, findings: &mut Vec<String>) {
    if let Err(reason) = &database.stored {
        findings.push(reason.clone());
    }
    findings.extend(database.doubt.clone());
    let refusal = database.start.as_ref().filter(|state| state.start().is_none());
    findings.extend(refusal.map(|state| journal::with_remedy(&state.sentence(), state.remedy().as_deref())));
    match &database.gap {
        // Of what is not published at all, no column is.
        Some(gap) => findings.push(gap.clone()),
        None => findings.extend(database.misfits.iter().cloned()),
    }
    findings.extend(database.role.clone());
    findings.extend(database.letters.finding(settings));
    let Some(slot) = &database.usage.slot else { return };
    if slot.active_pid.is_none() && refusal.is_none() {
        findings.push(format!("no relay reads the slot {}; run: walpost run", settings.source().slot()));
    }
    if slot.wal_status.as_deref() == Some("unreserved") {
        findings.push("the server may remove WAL that the slot needs at its next checkpoint".to_owned());
    } else if let Some((safe, limit)) = slot.safe_bytes.zip(database.usage.limit)
        && u64::try_from(safe).unwrap_or_default() < limit / SAFE_SHARE
    {
        let left = report::bytes(u64::try_from(safe).unwrap_or_default());
        findings.push(format!("{left} of WAL until max_slot_wal_keep_size is reached and the slot may be lost"));
    }
}
