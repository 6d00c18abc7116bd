//! Why what was to be played or measured could not be: the stage failed, or one of those on it. What a play showed is no failure.

use std::fmt;
use std::io;
use std::process::ExitStatus;

use crate::relay::Walpost;
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
    Consumer(#[from] consumer::Error),
    /// The writers could not write.
    #[error(transparent)]
    Workload(#[from] workload::Error),
    /// A row could not be written.
    #[error("an INSERT failed: {0}")]
    Writer(#[from] tokio_postgres::Error),
    /// The committed rows could not be read.
    #[error("{0}: {source}", source = std::error::Error::source(.0).map_or_else(String::new, ToString::to_string))]
    Truth(#[from] checker::ReadError),
    /// A file could not be written, or a program not started.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// The refusal.
        source: io::Error,
    },
    /// The relay refused what it must not.
    #[error("`walpost {command}` ended with {status}; its log:\n{log}")]
    Refused {
        /// The command.
        command: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// What it said.
        log: String,
    },
    /// Somebody did not do their part; who, and what is known of it.
    #[error("{0}")]
    Undone(String),
    /// The play is to be as nobody can have it.
    #[error("{0}")]
    Options(String),
}

impl Error {
    /// For `map_err`: an [`Error::Io`] that says what was being done.
    pub fn io(doing: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing: doing.to_string(), source }
    }
}

/// As it reads: it ends in the message of a failed test, or on somebody's terminal.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Runs a command of walpost, its words parted by blanks, that no play goes on without.
pub(crate) fn succeed(walpost: &Walpost, command: &'static str) -> Result<(), Error> {
    let arguments: Vec<&str> = command.split(' ').collect();
    let ended = walpost.call(&arguments)?;
    match ended.code() {
        Some(0) => Ok(()),
        _ => Err(Error::Refused { command, status: ended.status, log: ended.log }),
    }
}
