//! Why what was to be played or measured could not be: the stage failed, or one of those on it. What a play showed is no failure.

use std::fmt;

use crate::{checker, consumer, relay, servers, workload};

/// See the module's documentation.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A server could not be had or handled.
    #[error(transparent)]
    Server(#[from] servers::Error),
    /// The relay could not be handled.
    #[error(transparent)]
    Relay(#[from] relay::Error),
    /// The topics could not be read, or a producer not be had.
    #[error(transparent)]
    Kafka(#[from] consumer::Error),
    /// The writers could not write.
    #[error(transparent)]
    Workload(#[from] workload::Error),
    /// A row could not be written.
    #[error("an INSERT failed: {0}")]
    Writer(#[from] tokio_postgres::Error),
    /// The committed rows could not be read.
    #[error(transparent)]
    Truth(#[from] checker::ReadError),
    /// A file could not be written, or a program not started.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was being done.
        doing: &'static str,
        /// The refusal.
        source: std::io::Error,
    },
    /// Somebody did not do their part; who, and what is known of it.
    #[error("{0}")]
    Undone(String),
}

/// As it reads: it ends on somebody's terminal.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
