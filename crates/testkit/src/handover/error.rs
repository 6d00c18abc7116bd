//! Why an act could not be played to its end.

use std::fmt;

use crate::{checker, consumer, relay, servers, workload};

/// A failure of the stage, or of one of the two who hand over.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A server could not be had or handled.
    #[error(transparent)]
    Server(#[from] servers::Error),
    /// The topics could not be read.
    #[error(transparent)]
    Consumer(#[from] consumer::Error),
    /// The writers could not write.
    #[error(transparent)]
    Workload(#[from] workload::Error),
    /// The relay could not be handled.
    #[error(transparent)]
    Relay(#[from] relay::Error),
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
    /// Debezium did not publish, or its task died before its time.
    #[error("Debezium did not do its part: {0}")]
    NoPredecessor(String),
    /// The import was refused.
    #[error("`walpost {command}` ended with {status}:\n{said}")]
    Import {
        /// The command.
        command: String,
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it said.
        said: String,
    },
    /// walpost did not take over, or did not end well.
    #[error("walpost did not do its part: {reason}; its log:\n{log}")]
    NoSuccessor {
        /// In words.
        reason: String,
        /// Its log.
        log: String,
    },
}

/// As it reads: it ends on somebody's terminal.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
