//! `walpost check`: everything that would keep the relay from running, all at once, and nothing changed.

use std::cmp::Reverse;
use std::time::Duration;

use walpost_core::failure::chain;
use walpost_core::finding::{Finding, Severity};
use walpost_core::outbox::Outbox;
use walpost_core::start::{self, StartState};
use walpost_postgres::Error as PostgresError;
use walpost_postgres::failover;
use walpost_postgres::inspect::{self, InspectedTable, Inspection, Publication};
use walpost_postgres::preflight;
use walpost_postgres::sql;

use super::Outcome;
use crate::config::settings::{self, Settings, Sink};
use crate::exit::Exit;
#[cfg(feature = "kafka")]
use crate::letters::AnyLetters;
#[cfg(feature = "kafka")]
use crate::store::AnyStore;
use crate::{former, journal, misfit, relay};

const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Looks for everything that would keep the relay from running. That the database cannot be asked is one finding of several.
///
/// # Errors
/// None so far: whatever goes wrong is a finding.
pub async fn check(settings: Settings) -> Outcome {
    let mut findings = source_findings(&settings, true).await.unwrap_or_else(|error| vec![unasked(&error)]);
    findings.extend(sink_findings(&settings).await);
    findings.sort_by_key(|finding| Reverse(finding.severity));
    for finding in &findings {
        say!("{finding}");
    }
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    if errors > 0 {
        let have = if errors == 1 { "has" } else { "have" };
        say!("{errors} of {} findings {have} to be put right first", findings.len());
        return Ok(Exit::Findings);
    }
    say!("nothing keeps relay {:?} from running", settings.name());
    Ok(Exit::Success)
}

/// The same while the relay runs, into its log.
pub(super) async fn beside_the_stream(settings: &Settings) {
    match source_findings(settings, false).await {
        Ok(findings) => findings.iter().for_each(journal::finding),
        Err(error) => tracing::warn!(reason = chain(&error), "the database could not be checked"),
    }
    sink_findings(settings).await.iter().for_each(journal::finding);
}

/// What the database has to say; `with_start` also whether slot and checkpoint let a relay start.
async fn source_findings(settings: &Settings, with_start: bool) -> Result<Vec<Finding>, PostgresError> {
    let connection = settings.source().connection();
    let subject = relay::subject(settings);
    let sql = sql::Session::connect(connection, STATEMENT_TIMEOUT).await?;
    let inspection = inspect::inspect(&sql, connection, &subject).await?;
    let mut findings = preflight::findings(&inspection, &subject);
    let outboxes = settings.outboxes().iter().zip(&inspection.tables);
    findings.extend(outboxes.flat_map(|outbox| misfits(outbox, &inspection.publications)));
    let carried = failover::look(&sql, &subject.slot).await?;
    findings.extend(failover::findings(&carried, settings.source().is_for_standbys()));
    if with_start {
        findings.extend(start_finding(settings, &sql, &inspection).await?);
        findings.extend(former_letters(settings, &sql).await);
    }
    Ok(findings)
}

/// Letters of a name that the relay had before. What keeps them from being read is told elsewhere.
async fn former_letters(settings: &Settings, sql: &sql::Session) -> Option<Finding> {
    former::letters(sql, settings).await.unwrap_or_else(|unknown| {
        tracing::debug!(?unknown, "letters of a former name could not be looked for");
        None
    })
}

/// Columns of types that cannot play their roles. What is missing altogether has been said.
fn misfits((outbox, inspected): (&Outbox, &InspectedTable), publications: &[Publication]) -> Vec<Finding> {
    let Some(table) = &inspected.found else { return Vec::new() };
    let has = |wanted: &&str| table.columns.iter().any(|column| column.name == **wanted);
    if !outbox.router.required_columns().iter().all(has) {
        return Vec::new();
    }
    misfit::of_outbox(outbox, table, publications)
}

/// Why a relay would refuse to start, if it would.
async fn start_finding(
    settings: &Settings,
    sql: &sql::Session,
    inspection: &Inspection,
) -> Result<Option<Finding>, PostgresError> {
    let mut store = relay::store(settings);
    let has_table = inspection.checkpoint_table.as_ref();
    let (stored, doubt) = match settings.checkpoint().store() {
        settings::Store::Postgres if has_table.is_none() => (None, None),
        // The preflight says so.
        settings::Store::Postgres if has_table.is_some_and(|table| !table.is_reachable || !table.is_writable) => {
            return Ok(None);
        }
        _ => match store.look().await {
            Ok(looked) => looked,
            Err(error) => {
                let remedy = error.remedy().unwrap_or_else(|| "try again".to_owned());
                return Ok(Some(Finding::error("checkpoint.store", error.sentence(), remedy)));
            }
        },
    };
    let has_no_table = settings.checkpoint().store() == &settings::Store::Postgres && has_table.is_none();
    if has_no_table && inspection.slot.is_some() && !settings.source().may_create() {
        let remedy = "run: walpost init, which begins where the slot stands; after another relay, import its position first: walpost \
                      import debezium with --offsets or --checkpoint";
        return Ok(Some(Finding::error("walpost.checkpoint", "the table does not exist", remedy)));
    }
    let server = inspect::server_state(sql, settings.source().connection()).await?;
    let state = start::compare(&server, inspection.slot.as_ref(), stored.as_ref(), &relay::wanted(settings));
    // A slot in use is waited for, and it may be the relay's own.
    let is_refused = state.start().is_none() && !matches!(state, StartState::SlotBusy { .. });
    if let Some(doubt) = doubt.filter(|_| is_refused) {
        return Ok(Some(Finding::error("checkpoint.store", doubt, "try again")));
    }
    let remedy = state.remedy().unwrap_or_default();
    let remedy = match inspection.slot {
        Some(_) => remedy,
        None => preflight::meant_or(settings.source().slot().as_str(), &inspection.slot_names, "source.slot", &remedy),
    };
    Ok(is_refused.then(|| Finding::error("source.slot", state.sentence(), remedy)))
}

fn unasked(error: &PostgresError) -> Finding {
    let remedy = match error {
        // Its sentence has the remedy.
        PostgresError::Unreachable { .. } => "",
        error => error.remedy().unwrap_or("try again"),
    };
    Finding::error("source.url", chain(error), remedy)
}

/// What the broker has to say. Of the topics only those are known beforehand that no row chooses.
async fn sink_findings(settings: &Settings) -> Vec<Finding> {
    match settings.sink() {
        Sink::Stdout | Sink::Null => Vec::new(),
        #[cfg(feature = "kafka")]
        Sink::Kafka(kafka) => {
            let only_topics = settings.outboxes().iter().filter_map(|outbox| outbox.router.only_topic());
            let mut topics: Vec<String> = only_topics.map(str::to_owned).collect();
            topics.sort();
            topics.dedup();
            let mut findings = walpost_kafka::check(kafka, &topics).await;
            if let AnyStore::Kafka(topic) = relay::store(settings) {
                findings.extend(topic.check().await);
            }
            if settings.dead_letter().is_used() {
                findings.extend(AnyLetters::new(settings).check().await);
            }
            findings
        }
        #[cfg(not(feature = "kafka"))]
        Sink::Kafka(never) => match *never {},
    }
}
