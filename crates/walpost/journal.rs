//! What the relay writes into its log while it runs: one line an event of operation, never a payload, never a secret.

use std::error::Error;
use std::fmt::Write as _;

use walpost_core::failure::{Class, Failure};
use walpost_core::port::Refusal;
use walpost_core::record::Record;
use walpost_core::router::InvalidOperation;
use walpost_core::session::Notice;

/// An error with its causes, from the outermost to the root, in one line.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let _ = write!(text, ": {inner}");
        cause = inner.source();
    }
    text
}

/// A record that was reported undelivered.
pub fn undelivered(failure: &Failure) {
    match failure.class {
        // The failure in front of it is logged, and says why.
        Class::Withdrawn => {}
        Class::Row | Class::Route | Class::Sink | Class::Configuration => {
            tracing::warn!(class = ?failure.class, reason = failure.reason, "a record was not delivered; order is kept and it is tried again");
        }
    }
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
        Notice::UnknownMessage(tag) => {
            tracing::warn!(
                tag,
                "the server sent a kind of message that protocol version 1 does not know; it is skipped"
            );
        }
    }
}
