//! What the relay writes into its log while it runs: one line an event of operation, never a payload, never a secret.

use std::sync::Once;
use std::time::Duration;

use walpost_core::description::Description;
use walpost_core::failure::Failure;
use walpost_core::finding::{Finding, Severity};
use walpost_core::outbox::{Outbox, TableName};
use walpost_core::poison::{Cause, Conclusion, DeadLetter, LetterId};
use walpost_core::port::Refusal;
use walpost_core::record::Record;
use walpost_core::router::InvalidOperation;
use walpost_core::session::{End, Notice, Session};
use walpost_core::start::StartState;
use walpost_core::time::Moment;
use walpost_postgres::inspect::LateMember;
use walpost_postgres::preflight::Change;

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

/// How an outbox is published has changed since it was last looked at.
pub fn publication_changed(table: &TableName, change: Change) {
    match change {
        Change::Broken => tracing::error!(
            %table,
            "an outbox was taken out of its publication and put back, or its publication was altered and put back or set to what it was, or table or publication were made anew: unless that was done in one transaction, rows committed in between may have been passed over; to publish them from the table, stop the relay and run: walpost repair --fill --since TIME, a time before it"
        ),
        Change::Altered => tracing::warn!(
            %table,
            "the publication of an outbox was altered, and publishes the outbox: only if that took more than one step, and it did not publish it in between, may rows have been passed over; to publish them from the table, stop the relay and run: walpost repair --fill --since TIME, a time before it"
        ),
    }
}

/// Tables whose rows may not be in all of the log that the slot keeps; told of the outboxes among them.
pub fn late_members(late: &[LateMember], outboxes: &[Outbox]) {
    for LateMember { table, is_added } in late {
        if !outboxes.iter().any(|outbox| outbox.table == *table) {
            continue;
        }
        if *is_added {
            tracing::warn!(
                %table,
                "an outbox was added to its publication after the slot's log begins: what was committed into it before is not in the stream; if it had been published before, rows that were committed while it was not are passed over, and to publish them from the table, stop the relay and run: walpost repair --fill --since TIME, a time before that"
            );
        } else {
            tracing::warn!(
                %table,
                "the publication of an outbox was altered after the slot's log begins: if it did not publish the inserts of the outbox for a while, rows that were committed then are passed over, and to publish them from the table, stop the relay and run: walpost repair --fill --since TIME, a time before that"
            );
        }
    }
}

/// Row filters on the outboxes, which keep rows from this relay.
pub fn row_filters(filters: &[Finding]) {
    for filter in filters {
        tracing::info!("{}", filter.without_severity());
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
        set_aside = counters.set_aside,
        parked = counters.parked,
        replayed = counters.replayed,
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

/// How many letters of a connection get a line of their own, and every how manieth of the others.
const LETTERS_TOLD: u64 = 100;

/// A row that is set aside: so many were before it on this connection, it counted. Beyond the first hundred, every hundredth is told.
pub fn set_aside(letter: &DeadLetter, count: u64) {
    if count > LETTERS_TOLD && !count.is_multiple_of(LETTERS_TOLD) {
        return;
    }
    let reason = match &letter.cause {
        Cause::Row(reason) | Cause::Route(reason) => reason.as_str(),
        Cause::Parked => "a letter of its key lies there",
    };
    tracing::warn!(
        table = %letter.table,
        commit_lsn = %letter.identity.commit_lsn,
        ordinal = letter.identity.ordinal,
        id = letter.event_id.as_deref(),
        reason,
        set_aside = count,
        "a row is set aside; look at it with walpost dlq list"
    );
}

/// How a letter ended that an operator marked.
pub fn concluded(letter: LetterId, conclusion: &Conclusion) {
    match conclusion {
        Conclusion::Sent => tracing::info!(letter = letter.0, "a dead letter was sent"),
        Conclusion::Dropped => tracing::info!(letter = letter.0, "a dead letter was dropped"),
        Conclusion::Returned(reason) => tracing::warn!(letter = letter.0, reason, "a dead letter failed again"),
    }
}

/// What an operator marked is not known, and everything else goes on.
pub fn marks_unread(reason: &str) {
    tracing::warn!(
        reason,
        "it cannot be read which dead letters were marked to be sent again or dropped; it is looked again"
    );
}

/// It is known again.
pub fn marks_read_again() {
    tracing::info!("it can be read again which dead letters were marked");
}

/// The task of the letters has died.
pub fn letters_gone() {
    tracing::error!("whoever keeps the dead letters is gone; the stream is given up and made anew");
}

/// The store of the letters failed.
pub fn letters_failed(reason: &str) {
    tracing::warn!(
        reason,
        "the dead letters could not be reached; what is to be set aside waits, and it is tried again"
    );
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
