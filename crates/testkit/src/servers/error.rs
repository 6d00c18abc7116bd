//! Why a server could not be had: always a sentence, with the end of the log that explains it.

use std::fmt;
use std::io;
use std::process::ExitStatus;
use std::time::Duration;

/// A failure to install, start, signal or ask a server.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused something.
    Io {
        /// What was being done, as "cannot …".
        doing: String,
        /// The refusal.
        source: io::Error,
    },
    /// A program that was called ended with a failure.
    Command {
        /// The program and what it was to do.
        command: String,
        /// How it ended.
        status: ExitStatus,
        /// The end of what it wrote.
        output: String,
    },
    /// Packages are missing and cannot be installed from here.
    Missing {
        /// Their names in Debian.
        packages: Vec<&'static str>,
        /// Why they could not be installed.
        reason: String,
    },
    /// A server ended although nobody stopped it.
    Ended {
        /// Which one.
        server: &'static str,
        /// How it ended.
        status: ExitStatus,
        /// The end of its log.
        log: String,
    },
    /// A condition did not come true in time.
    TimedOut {
        /// The condition.
        waiting_for: String,
        /// How long it was waited for.
        limit: Duration,
        /// What the server logged meanwhile.
        log: String,
    },
    /// Something that was read is not what it must be.
    Malformed {
        /// What was read.
        what: &'static str,
        /// Its text.
        text: String,
    },
    /// A server understood, and would not.
    Refused {
        /// What was asked for, as "cannot …".
        doing: String,
        /// Its answer.
        answer: String,
    },
    /// A Kafka client's refusal.
    #[cfg(feature = "clients")]
    Kafka {
        /// What was being done, as "cannot …".
        doing: String,
        /// The refusal.
        source: rdkafka::error::KafkaError,
    },
}

impl Error {
    /// For `map_err`: an [`Error::Io`] that says what was being done.
    pub(super) fn io(doing: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing: format!("cannot {doing}"), source }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { doing, .. } => f.write_str(doing),
            Self::Command { command, status, output } => write!(f, "{command} failed ({status}):\n{output}"),
            Self::Missing { packages, reason } => write!(
                f,
                "the tests need programs of these Debian packages, and {reason}: install them with \
                 `apt-get install {}`, then try again",
                packages.join(" ")
            ),
            Self::Ended { server, status, log } => write!(f, "{server} ended by itself ({status}); its log:\n{log}"),
            Self::TimedOut { waiting_for, limit, log } => {
                write!(f, "waited {limit:?} in vain for {waiting_for}")?;
                if log.is_empty() { Ok(()) } else { write!(f, "; the log:\n{log}") }
            }
            Self::Refused { doing, answer } => write!(f, "{doing}: {answer}"),
            Self::Malformed { what, text } => write!(f, "{what} cannot be understood: {text:?}"),
            #[cfg(feature = "clients")]
            Self::Kafka { doing, .. } => f.write_str(doing),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Io { source, .. } => Some(source),
            #[cfg(feature = "clients")]
            Self::Kafka { source, .. } => Some(source),
            _ => None,
        }
    }
}
