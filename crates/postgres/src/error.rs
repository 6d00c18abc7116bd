//! What can go wrong between walpost and PostgreSQL, classified once.
//!
//! What the libraries say is read in [`libraries`], what follows from it is judged in [`class`], and a server that cannot be reached
//! is named in [`reach`]. Nothing here is tried again or logged: whoever called decides that.

mod class;
mod libraries;
mod reach;

use std::fmt;
use std::time::Duration;

pub use class::Class;

/// What was being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Connecting, TLS and authentication.
    Connecting,
    /// An SQL statement.
    Query,
    /// START_REPLICATION, up to the server's consent.
    Starting,
    /// The replication stream.
    Streaming,
}

/// What the server said, as far as it reached us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerError {
    /// The five characters, where the server gave them.
    pub sqlstate: Option<String>,
    /// The message.
    pub message: String,
    /// The detail; never known of a replication session.
    pub detail: Option<String>,
    /// The hint; never known of a replication session.
    pub hint: Option<String>,
}

/// Why a session could not be opened, ended, or refused a statement.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No server can be reached. The remedy is in the sentence, which is the same in every command and in the log.
    #[error("PostgreSQL at {servers} cannot be reached: {reason}; {remedy}")]
    Unreachable {
        /// Every server that was tried, with database and user.
        servers: String,
        /// Why.
        reason: String,
        /// What to do.
        remedy: &'static str,
    },
    /// The network or the server's process is away.
    #[error("the connection to PostgreSQL failed {phase}")]
    Connection {
        /// What was being done.
        phase: Phase,
        /// Why.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// The server refused.
    #[error("PostgreSQL refused {phase}: {error}")]
    Server {
        /// What was being done.
        phase: Phase,
        /// What it said.
        error: ServerError,
    },
    /// TLS cannot be had as it is asked for.
    #[error("TLS with PostgreSQL failed: {reason}")]
    Tls {
        /// Why.
        reason: String,
    },
    /// The server wants a proof of identity that cannot be given.
    #[error("PostgreSQL asks for an authentication that walpost cannot give: {reason}")]
    Authentication {
        /// Which.
        reason: String,
    },
    /// The server asks for a password and none is configured.
    #[error("PostgreSQL asks for a password and none is configured")]
    NoPassword,
    /// The server said what its protocol does not allow.
    #[error("PostgreSQL's answer {phase} could not be read: {reason}")]
    Protocol {
        /// What was being done.
        phase: Phase,
        /// What was wrong.
        reason: String,
    },
    /// It took too long.
    #[error("PostgreSQL did not answer within {after:?} {phase}")]
    Deadline {
        /// What was being done.
        phase: Phase,
        /// The deadline.
        after: Duration,
    },
    /// The stream was closed by this side, or its cause of death was lost with a cancelled read.
    #[error("the replication stream has ended")]
    Ended,
    /// The catalogue holds what cannot be.
    #[error("PostgreSQL's catalogue says what walpost does not understand: {what} is \"{value}\"")]
    Unexpected {
        /// Which value.
        what: &'static str,
        /// What it is.
        value: String,
    },
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Connecting => "while connecting",
            Self::Query => "in an SQL statement",
            Self::Starting => "to start replication",
            Self::Streaming => "while streaming",
        })
    }
}

impl fmt::Display for ServerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if let Some(detail) = &self.detail {
            write!(f, " ({detail})")?;
        }
        if let Some(sqlstate) = &self.sqlstate {
            write!(f, " [SQLSTATE {sqlstate}]")?;
        }
        if let Some(hint) = &self.hint {
            write!(f, "; hint: {hint}")?;
        }
        Ok(())
    }
}

impl Error {
    /// The SQLSTATE, where the server gave one.
    #[must_use]
    pub fn sqlstate(&self) -> Option<&str> {
        match self {
            Self::Server { error, .. } => error.sqlstate.as_deref(),
            _ => None,
        }
    }

    /// What an operator has to do, where somebody has to.
    #[must_use]
    pub fn remedy(&self) -> Option<&'static str> {
        match self.class() {
            Class::NeedsOperator(remedy) => Some(remedy),
            _ => None,
        }
    }
}
