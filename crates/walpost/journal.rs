//! What the relay writes into its log while it runs: one line an event of operation, never a payload, never a secret.

use std::sync::Once;
use std::time::Duration;

use walpost_core::description::Description;
use walpost_core::failure::Failure;
use walpost_core::finding::{Finding, Severity};
use walpost_core::outbox::TableName;
use walpost_core::port::Refusal;
use walpost_core::record::Record;
use walpost_core::router::InvalidOperation;
use walpost_core::session::{End, Notice, Session};
use walpost_core::start::StartState;
use walpost_core::time::Moment;

/// What is wrong, and what to do about it.
#[must_use]
pub fn with_remedy(sentence: &str, remedy: Option<&str>) -> String {
    match remedy {
        Some(remedy) => format!("{sentence}; {remedy}"),
        None => sentence.to_owned(),
    }
}

/// How server, slot and checkpoint stand to each other, where the relay may start.
pub fn start(state: &StartState) {
    let sentence = state.sentence();
    match state {
        StartState::Resume { .. } => tracing::debug!("{sentence}"),
        _ => tracing::warn!("{}", with_remedy(&sentence, state.remedy().as_deref())),
    }
}

/// Records were delivered. Said once a process: how long a start takes, and that something comes out at all.
pub fn delivered(now: Moment) {
    static SAID: Once = Once::new();
    SAID.call_once(|| {
        let since_start_ms = u64::try_from(now.elapsed().as_millis()).unwrap_or(u64::MAX);
        tracing::info!(since_start_ms, "the first record is delivered");
    });
}

/// A session that is over, and what it did.
pub fn ended(session: &Session, end: &End) {
    let counters = session.counters();
    tracing::info!(
        position = %end.position,
        confirmed = %session.confirmed(),
        transactions = counters.transactions,
        events = counters.events,
        other_inserts = counters.other_inserts,
        skipped_rows = counters.skipped_rows,
        unsettled = end.unsettled,
        "the session ended"
    );
}

/// Something that the preflight found.
pub fn finding(finding: &Finding) {
    let Finding { subject, sentence, remedy, .. } = finding;
    let remedy = (!remedy.is_empty()).then_some(remedy.as_str());
    match finding.severity {
        Severity::Error => tracing::error!(subject, remedy, "{sentence}"),
        Severity::Warning => tracing::warn!(subject, remedy, "{sentence}"),
        Severity::Note => tracing::info!(subject, remedy, "{sentence}"),
    }
}

/// A record that was reported undelivered, for a reason of its own.
pub fn undelivered(failure: &Failure) {
    tracing::warn!(class = ?failure.class, reason = failure.reason, "a record was not delivered; order is kept and it is tried again");
}

/// So many more of them as were not told one by one.
pub fn more_undelivered(records: u64) {
    tracing::warn!(records, "more records were not delivered; they are tried again in their order");
}

/// A record that the sink did not accept.
pub fn refused(record: &Record, refusal: &Refusal) {
    match refusal {
        Refusal::Full => {}
        Refusal::Failed(failure) => tracing::warn!(
            class = ?failure.class,
            topic = &*record.topic,
            commit_lsn = %record.identity.commit_lsn,
            ordinal = record.identity.ordinal,
            reason = failure.reason,
            "the sink did not accept a record"
        ),
    }
}

/// A sink that could not be made anew.
pub fn reset_failed(failure: &Failure) {
    tracing::warn!(reason = failure.reason, "the sink could not be reset; it is tried again");
}

/// What the catalogue told of an outbox; no columns where it is no more.
pub fn described(table: &TableName, description: &Description) {
    tracing::debug!(%table, columns = description.columns.len(), types = description.types.len(), "the outbox is described");
}

/// An outbox that the catalogue did not describe.
pub fn undescribed(table: &TableName, reason: &str, tries: u32, wait: Duration) {
    let wait_ms = wait.as_millis();
    tracing::warn!(%table, reason, tries, wait_ms, "PostgreSQL could not be asked about the outbox; the stream waits for the answer, and the question is put again");
}

/// Something that the session noticed in the stream.
pub fn notice(notice: &Notice) {
    match notice {
        Notice::Updated(table, InvalidOperation::Error) => {
            tracing::error!(%table, "rows of the outbox were updated; updates are not published");
        }
        Notice::Updated(table, InvalidOperation::Warn | InvalidOperation::Fatal) => {
            tracing::warn!(%table, "rows of the outbox were updated; updates are not published");
        }
        Notice::Removed(table) => {
            tracing::info!(%table, "rows of the outbox were deleted or truncated and the publication says so; a publication of inserts alone saves that traffic");
        }
        Notice::Renamed(table) => {
            tracing::warn!(%table, "the outbox was renamed, and rows are still inserted into the table that it was; they are not published: add it as an outbox if they should be");
        }
        Notice::GroupOld(age, timeout) => {
            tracing::warn!(
                age_ms = age.as_millis(),
                timeout_ms = timeout.as_millis(),
                "a group of events is not committed yet, and the broker gives it up once it is older than transaction.timeout.ms; if that happens, raise it"
            );
        }
        Notice::UnknownMessage(tag) => {
            tracing::warn!(
                tag,
                "the server sent a kind of message that protocol version 1 does not know; it is skipped"
            );
        }
    }
}
