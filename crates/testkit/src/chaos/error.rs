//! Why a run could not go on. What it showed is no error but an outcome.

use std::fmt;

use crate::{checker, consumer, relay, servers, workload};

/// Why a run could not go on.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A server could not be had, or not be treated so.
    #[error(transparent)]
    Server(#[from] servers::Error),
    /// The relay could not be started or ended.
    #[error(transparent)]
    Relay(#[from] relay::Error),
    /// Records could not be read.
    #[error(transparent)]
    Consumer(#[from] consumer::Error),
    /// Nothing could be written.
    #[error(transparent)]
    Workload(#[from] workload::Error),
    /// The committed rows could not be read.
    #[error("{0}: {source}", source = std::error::Error::source(.0).map_or_else(String::new, ToString::to_string))]
    Truth(#[from] checker::ReadError),
    /// The operating system refused something.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// The refusal.
        source: std::io::Error,
    },
    /// The relay refused what it must not.
    #[error("`walpost {command}` ended with {status}; its log:\n{log}")]
    Refused {
        /// The command.
        command: &'static str,
        /// How it ended.
        status: std::process::ExitStatus,
        /// What it said.
        log: String,
    },
    /// The run is to be as nobody can have it.
    #[error("{0}")]
    Options(String),
}

impl Error {
    pub(super) fn io(doing: impl fmt::Display) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { doing: doing.to_string(), source }
    }
}

/// As it reads: it ends in the message of a failed test.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
