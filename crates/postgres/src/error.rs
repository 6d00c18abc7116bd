//! What can go wrong between walpost and PostgreSQL, classified once.
//!
//! [`Error::class`] is the only place that reads SQLSTATEs. What it does not know counts as unforeseen: tried again, and
//! reported.

use std::fmt;
use std::time::Duration;

use pgwire_replication::PgWireError;
use walpost_core::failure::chain;

use crate::connection::{ConnectionSettings, Endpoint};

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

/// What follows from an [`Error`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// It passes by itself: try again.
    Transient,
    /// The server is going down or coming up: close what is open at once, then try again.
    ShuttingDown,
    /// Another session holds the slot: wait, it may be the other instance or our own session's ghost.
    SlotBusy,
    /// It stays until somebody does what the sentence says.
    NeedsOperator(&'static str),
    /// Nobody foresaw it: try again, and raise the alarm.
    Unforeseen,
}

impl Class {
    /// Whether trying again can help.
    #[must_use]
    pub fn is_retried(self) -> bool {
        !matches!(self, Self::NeedsOperator(_))
    }
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

    /// What follows from it.
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Self::Unreachable { .. } | Self::Connection { .. } | Self::Deadline { .. } | Self::Ended => {
                Class::Transient
            }
            Self::Server { phase, error } => classify(*phase, error),
            Self::Tls { .. } => Class::NeedsOperator(
                "correct sslmode, sslrootcert, sslcert and sslkey of source.url, or the server's certificate",
            ),
            Self::Authentication { .. } => Class::NeedsOperator(
                "give the role a SCRAM password: SET password_encryption = 'scram-sha-256', then ALTER ROLE … PASSWORD …",
            ),
            Self::NoPassword => Class::NeedsOperator(
                "put the password into source.password_file, source.url, PGPASSWORD, or the password file that PGPASSFILE names",
            ),
            Self::Protocol { .. } | Self::Unexpected { .. } => Class::Unforeseen,
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

    /// The error of an attempt to connect, as one that names the servers where none of them could be reached.
    pub(crate) fn of_servers(self, settings: &ConnectionSettings, tried: &[Endpoint]) -> Self {
        let Some((reason, remedy)) = self.unreachable() else { return self };
        let places: Vec<String> = tried.iter().map(Endpoint::to_string).collect();
        let servers =
            format!("{} (database \"{}\", user \"{}\")", places.join(", "), settings.database(), settings.user());
        Self::Unreachable { servers, reason, remedy }
    }

    /// The same of several servers that were tried one after the other: what the last of them came to, or why each could not be reached.
    pub(crate) fn of_attempts(settings: &ConnectionSettings, mut attempts: Vec<(&Endpoint, Self)>) -> Self {
        let tried: Vec<Endpoint> = attempts.iter().map(|(endpoint, _)| (*endpoint).clone()).collect();
        let whys: Vec<_> = attempts
            .iter()
            .filter_map(|(endpoint, error)| {
                error.unreachable().map(|(reason, remedy)| (endpoint.to_string(), reason, remedy))
            })
            .collect();
        let Some((_, last)) = attempts.pop() else { return Self::Ended };
        match (last.of_servers(settings, &tried), whys.as_slice()) {
            (Self::Unreachable { servers, .. }, [(_, first, _), others @ ..])
                if others.iter().any(|(_, other, _)| other != first) =>
            {
                let reasons: Vec<String> =
                    whys.iter().map(|(endpoint, reason, _)| format!("{endpoint}: {reason}")).collect();
                let remedy = "start PostgreSQL, or correct hosts and ports in source.url";
                Self::Unreachable { servers, reason: reasons.join(", "), remedy }
            }
            (error, _) => error,
        }
    }

    /// Why a server could not be reached, and what to do, where that is what happened.
    fn unreachable(&self) -> Option<(String, &'static str)> {
        match self {
            Self::Connection { phase: Phase::Connecting, source } => Some(network_reason(source.as_ref())),
            Self::Deadline { phase: Phase::Connecting, after } => Some((
                format!("it did not answer within {after:?}"),
                "see that it runs and that no firewall is in between, or correct host and port in source.url",
            )),
            _ => None,
        }
    }

    /// From the replication session's library, which keeps no more of the server's error than its text.
    pub(crate) fn from_replication(error: PgWireError, phase: Phase) -> Self {
        match error {
            PgWireError::Io(source) if is_alert(&source.to_string()) => Self::Tls { reason: source.to_string() },
            PgWireError::Io(source) => Self::Connection { phase, source: Box::new(source) },
            PgWireError::Server(text) => Self::Server { phase, error: ServerError::from_text(&text) },
            PgWireError::Auth(reason) => Self::Authentication { reason },
            // A handshake that the network cut is no verdict on a certificate.
            PgWireError::Tls(reason) if is_network_text(&reason) => Self::Connection { phase, source: reason.into() },
            PgWireError::Tls(reason) => Self::Tls { reason },
            PgWireError::Internal(reason) | PgWireError::Task(reason) if reason.contains("already joined") => {
                Self::Ended
            }
            error => Self::Protocol { phase, reason: error.to_string() },
        }
    }

    /// From the ordinary session's library.
    pub(crate) fn from_sql(error: tokio_postgres::Error, phase: Phase) -> Self {
        if let Some(database) = error.as_db_error() {
            let error = ServerError {
                sqlstate: Some(database.code().code().to_owned()),
                message: database.message().to_owned(),
                detail: database.detail().map(str::to_owned),
                hint: database.hint().map(str::to_owned),
            };
            return Self::Server { phase, error };
        }
        let text = chain(&error);
        if error.is_closed() || has_network_cause(&error) {
            Self::Connection { phase, source: Box::new(error) }
        } else if text.contains("TLS") || text.contains("certificate") || is_alert(&text) {
            Self::Tls { reason: text }
        } else if phase == Phase::Connecting && text.contains("password missing") {
            Self::NoPassword
        } else if phase == Phase::Connecting && text.contains("authentication") {
            Self::Authentication { reason: text }
        } else {
            Self::Protocol { phase, reason: text }
        }
    }
}

impl ServerError {
    /// Cuts the SQLSTATE from "message (SQLSTATE xxxxx)".
    fn from_text(text: &str) -> Self {
        let cut = text.rsplit_once("(SQLSTATE ").and_then(|(message, rest)| {
            let (sqlstate, _) = rest.split_once(')')?;
            let is_sqlstate = sqlstate.len() == 5 && sqlstate.bytes().all(|byte| byte.is_ascii_alphanumeric());
            is_sqlstate.then(|| (message.trim_end().to_owned(), sqlstate.to_owned()))
        });
        let (message, sqlstate) = match cut {
            Some((message, sqlstate)) => (message, Some(sqlstate)),
            None => (text.to_owned(), None),
        };
        Self { sqlstate, message, detail: None, hint: None }
    }
}

/// The innermost cause in the words of the system, without its number, and what to do about it.
fn network_reason(error: &(dyn std::error::Error + 'static)) -> (String, &'static str) {
    const LOOKUP: &str = "failed to lookup address information: ";
    let innermost = std::iter::successors(Some(error), |error| error.source()).last().unwrap_or(error);
    let text = innermost.to_string();
    let text = text.split(" (os error ").next().unwrap_or_default();
    match text.split_once(LOOKUP) {
        Some((_, why)) => (
            format!("the name of the host leads to no address ({why})"),
            "correct the host in source.url, or this machine's name service",
        ),
        None => (text.to_owned(), "start PostgreSQL, or correct host and port in source.url"),
    }
}

/// Whether an I/O error other than a TLS verdict is its cause. rustls wraps its verdicts as `InvalidData`.
fn has_network_cause(error: &dyn std::error::Error) -> bool {
    let mut cause = error.source();
    while let Some(inner) = cause {
        if let Some(io) = inner.downcast_ref::<std::io::Error>() {
            let kind = io.kind();
            return kind != std::io::ErrorKind::InvalidData && kind != std::io::ErrorKind::InvalidInput;
        }
        cause = inner.source();
    }
    false
}

/// Whether the server ended the handshake with a verdict of its own, on our certificate above all. In TLS 1.3 it comes when the
/// handshake is over for us, and so as an I/O error of the first read.
fn is_alert(reason: &str) -> bool {
    reason.contains("received fatal alert") && !reason.contains("InternalError")
}

fn is_network_text(reason: &str) -> bool {
    ["eof", "reset by peer", "broken pipe", "timed out", "unreachable"]
        .iter()
        .any(|word| reason.to_ascii_lowercase().contains(word))
}

/// The verdict on an SQLSTATE (PostgreSQL's Appendix A), first by its five characters, then by its class.
fn classify(phase: Phase, error: &ServerError) -> Class {
    let Some(sqlstate) = error.sqlstate.as_deref() else { return Class::Unforeseen };
    match sqlstate {
        // admin_shutdown, crash_shutdown, cannot_connect_now
        "57P01" | "57P02" | "57P03" => Class::ShuttingDown,
        "55006" if phase == Phase::Query => Class::Transient,
        "55006" => Class::SlotBusy,
        "55000" if error.message.contains("wal_level") => {
            Class::NeedsOperator("set wal_level = logical and restart PostgreSQL")
        }
        // ALLOW_CONNECTIONS false, while somebody is at work on the database.
        "55000" if phase == Phase::Connecting || error.message.contains("accepting connections") => Class::Transient,
        "55000" if phase == Phase::Query => {
            Class::NeedsOperator("see the server's message; walpost check lists what is missing")
        }
        "55000" => Class::NeedsOperator(
            "the slot is invalidated: see pg_replication_slots, drop it with pg_drop_replication_slot, then run walpost init",
        ),
        "42704" if phase == Phase::Streaming => Class::NeedsOperator(
            "the publication is missing where the stream stands, and the slot cannot be read past that moment: make the publication again if it is not there (walpost status tells, with the SQL), then run: walpost repair --fill --since TIME, a time before it went",
        ),
        "42704" => Class::NeedsOperator("the slot or publication is missing: run walpost init"),
        "42710" => Class::NeedsOperator("it exists already: run walpost init again, it takes what is there"),
        "42501" => Class::NeedsOperator("the role lacks a privilege: walpost check names it with its GRANT"),
        "42P01" | "42703" | "3F000" => Class::NeedsOperator("a table or column is missing: run walpost init"),
        "3D000" => Class::NeedsOperator("the database does not exist: correct source.url"),
        "58P01" => Class::NeedsOperator("the WAL that the slot needs is gone: drop the slot and run walpost init"),
        "0A000" => {
            Class::NeedsOperator("this server cannot do it: walpost needs PostgreSQL 14 or later, and its primary")
        }
        "22023" => {
            Class::NeedsOperator("a parameter is refused: correct the options of source.url and the publication")
        }
        "08P01" if error.message.contains("startup parameter") => {
            Class::NeedsOperator("a pooler stands in between: connect source.url to PostgreSQL itself")
        }
        // idle_session_timeout, statement_timeout or cancel, serialization, deadlock, lock_timeout, read-only after a failover
        "57P05" | "57014" | "40001" | "40P01" | "55P03" | "25006" => Class::Transient,
        _ => classify_by_class(sqlstate.get(..2).unwrap_or_default()),
    }
}

fn classify_by_class(class: &str) -> Class {
    match class {
        // connection exception, insufficient resources, system error (I/O)
        "08" | "53" | "58" => Class::Transient,
        "28" => Class::NeedsOperator(
            "correct the user and password of source.url, or the line of pg_hba.conf that should admit this user from this host to this database",
        ),
        "42" => Class::NeedsOperator(
            "the server does not take walpost's statement: walpost check says whether its version is too old",
        ),
        _ => Class::Unforeseen,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(phase: Phase, text: &str) -> Error {
        Error::from_replication(PgWireError::Server(text.to_owned()), phase)
    }

    #[test]
    fn the_sqlstate_is_cut_from_the_librarys_text() {
        for (text, message, sqlstate) in [
            (
                "replication slot \"s\" is active for PID 7 (SQLSTATE 55006)",
                "replication slot \"s\" is active for PID 7",
                Some("55006"),
            ),
            ("odd (SQLSTATE 12345) name (SQLSTATE 42704)", "odd (SQLSTATE 12345) name", Some("42704")),
            ("no state", "no state", None),
            ("short (SQLSTATE 1234)", "short (SQLSTATE 1234)", None),
            ("cut (SQLSTATE 4270", "cut (SQLSTATE 4270", None),
            ("", "", None),
        ] {
            let error = ServerError::from_text(text);
            assert_eq!((error.message.as_str(), error.sqlstate.as_deref()), (message, sqlstate), "{text}");
        }
    }

    #[test]
    fn a_server_that_cannot_be_reached_is_named_with_what_to_do() {
        let settings =
            ConnectionSettings::new(Endpoint::new("127.0.0.1", 1), "walpost", "app").with_password("hunter2");
        let io = |kind: std::io::ErrorKind, text: &str| Error::Connection {
            phase: Phase::Connecting,
            source: Box::new(std::io::Error::new(kind, text.to_owned())),
        };
        let refused =
            || Error::Connection { phase: Phase::Connecting, source: Box::new(std::io::Error::from_raw_os_error(111)) };
        let (one, two) = (Endpoint::new("127.0.0.1", 1), Endpoint::new("::1", 2));
        let unknown = "failed to lookup address information: Name or service not known";
        let cases = [
            (
                refused(),
                vec![one.clone()],
                "PostgreSQL at 127.0.0.1:1 (database \"app\", user \"walpost\") cannot be reached: Connection refused; \
                 start PostgreSQL, or correct host and port in source.url",
            ),
            (
                refused(),
                vec![one, two, Endpoint::new("/run/pg", 3)],
                "PostgreSQL at 127.0.0.1:1, [::1]:2, /run/pg/.s.PGSQL.3 (database \"app\", user \"walpost\") cannot be \
                 reached: Connection refused; start PostgreSQL, or correct host and port in source.url",
            ),
            (
                io(std::io::ErrorKind::Other, unknown),
                vec![Endpoint::new("db.nowhere", 5432)],
                "PostgreSQL at db.nowhere:5432 (database \"app\", user \"walpost\") cannot be reached: the name of the host leads to no \
                 address (Name or service not known); correct the host in source.url, or this machine's name service",
            ),
            (
                Error::Deadline { phase: Phase::Connecting, after: Duration::from_secs(10) },
                vec![Endpoint::new("10.0.0.1", 5432)],
                "PostgreSQL at 10.0.0.1:5432 (database \"app\", user \"walpost\") cannot be reached: it did not answer within 10s; see that it \
                 runs and that no firewall is in between, or correct host and port in source.url",
            ),
        ];
        for (error, tried, expected) in cases {
            let error = error.of_servers(&settings, &tried);
            assert_eq!(chain(&error), expected);
            assert_eq!(error.class(), Class::Transient, "{error}");
        }
    }

    #[test]
    fn of_several_servers_each_is_told_its_own_reason_where_they_differ() {
        let endpoints = [Endpoint::new("db.nowhere", 5432), Endpoint::new("127.0.0.1", 1)];
        let settings = ConnectionSettings::new(endpoints[0].clone(), "u", "d").with_endpoint(endpoints[1].clone());
        let lookup = || "failed to lookup address information: Name or service not known".to_owned();
        let away = |source: std::io::Error| Error::Connection { phase: Phase::Connecting, source: Box::new(source) };
        let refused = || away(std::io::Error::from_raw_os_error(111));
        let unknown = || away(std::io::Error::other(lookup()));
        for (first, second, expected) in [
            (refused(), refused(), "cannot be reached: Connection refused; start PostgreSQL, or correct host and port"),
            (
                unknown(),
                refused(),
                "cannot be reached: db.nowhere:5432: the name of the host leads to no address (Name or service not known), \
                 127.0.0.1:1: Connection refused; start PostgreSQL, or correct hosts and ports in source.url",
            ),
            (unknown(), server(Phase::Connecting, "no (SQLSTATE 28P01)"), "PostgreSQL refused while connecting: no"),
        ] {
            let attempts = endpoints.iter().zip([first, second]).collect();
            let said = Error::of_attempts(&settings, attempts).to_string();
            assert!(said.contains(expected), "{said}");
        }
    }

    #[test]
    fn a_server_that_was_reached_and_refused_keeps_its_own_words() {
        let endpoint = Endpoint::new("h", 1);
        let settings = ConnectionSettings::new(endpoint.clone(), "u", "d");
        let refused = server(Phase::Connecting, "password authentication failed (SQLSTATE 28P01)");
        assert_eq!(refused.of_servers(&settings, &[endpoint]).sqlstate(), Some("28P01"));
    }

    #[test]
    fn what_passes_by_itself_is_transient() {
        for sqlstate in
            ["08006", "08001", "53300", "53100", "57P05", "57014", "40001", "40P01", "55P03", "58030", "25006"]
        {
            let error = server(Phase::Streaming, &format!("m (SQLSTATE {sqlstate})"));
            assert_eq!(error.class(), Class::Transient, "{sqlstate}");
            assert_eq!(error.remedy(), None);
        }
    }

    #[test]
    fn a_database_that_takes_no_connections_is_waited_for_and_is_no_lost_slot() {
        let closed = "database \"app\" is not currently accepting connections (SQLSTATE 55000)";
        for phase in [Phase::Connecting, Phase::Starting] {
            assert_eq!(server(phase, closed).class(), Class::Transient, "{phase:?}");
        }
    }

    #[test]
    fn a_server_that_goes_down_or_comes_up_is_told_apart() {
        for sqlstate in ["57P01", "57P02", "57P03"] {
            assert_eq!(server(Phase::Query, &format!("m (SQLSTATE {sqlstate})")).class(), Class::ShuttingDown);
        }
    }

    #[test]
    fn what_stays_until_somebody_acts_names_the_act() {
        for (phase, text, part) in [
            (Phase::Starting, "replication slot \"s\" does not exist (SQLSTATE 42704)", "walpost init"),
            (Phase::Streaming, "publication \"p\" does not exist (SQLSTATE 42704)", "publication"),
            (
                Phase::Starting,
                "cannot read from logical replication slot \"s\" (SQLSTATE 55000)",
                "pg_drop_replication_slot",
            ),
            (Phase::Starting, "logical decoding requires wal_level >= logical (SQLSTATE 55000)", "wal_level = logical"),
            (Phase::Streaming, "requested WAL segment has already been removed (SQLSTATE 58P01)", "walpost init"),
            (Phase::Connecting, "password authentication failed (SQLSTATE 28P01)", "password"),
            (Phase::Connecting, "no pg_hba.conf entry (SQLSTATE 28000)", "pg_hba.conf"),
            (Phase::Connecting, "database \"x\" does not exist (SQLSTATE 3D000)", "source.url"),
            (Phase::Starting, "must be superuser or replication role (SQLSTATE 42501)", "walpost check"),
            (Phase::Query, "relation does not exist (SQLSTATE 42P01)", "walpost init"),
            (Phase::Starting, "not supported (SQLSTATE 0A000)", "14"),
            (Phase::Starting, "publication_names (SQLSTATE 22023)", "publication"),
            (Phase::Connecting, "unsupported startup parameter: options (SQLSTATE 08P01)", "pooler"),
        ] {
            let remedy = server(phase, text).remedy().unwrap_or_else(|| panic!("{text}"));
            assert!(remedy.contains(part), "{text}: {remedy}");
        }
    }

    #[test]
    fn a_busy_slot_is_neither_transient_nor_an_operators_affair() {
        assert_eq!(server(Phase::Starting, "active for PID 7 (SQLSTATE 55006)").class(), Class::SlotBusy);
    }

    #[test]
    fn the_unknown_is_tried_again_and_reported() {
        for text in ["m (SQLSTATE XX000)", "m (SQLSTATE P0001)", "no state at all"] {
            let class = server(Phase::Streaming, text).class();
            assert_eq!(class, Class::Unforeseen, "{text}");
            assert!(class.is_retried());
        }
    }

    #[test]
    fn every_error_of_the_replication_library_has_its_class() {
        let io = std::sync::Arc::new(std::io::Error::from(std::io::ErrorKind::ConnectionReset));
        let alert = |text| PgWireError::Io(std::sync::Arc::new(std::io::Error::other(text)));
        for (error, is_retried) in [
            (PgWireError::Io(io), true),
            (alert("received fatal alert: UnknownCA"), false),
            (alert("received fatal alert: InternalError"), true),
            (PgWireError::Tls("TLS handshake failed: invalid peer certificate: UnknownIssuer".into()), false),
            (PgWireError::Tls("TLS handshake failed: tls handshake eof".into()), true),
            (PgWireError::Auth("unsupported auth method code: 5".into()), false),
            (PgWireError::Protocol("truncated".into()), true),
            (PgWireError::Task("panicked".into()), true),
            (PgWireError::Internal("replication worker already joined".into()), true),
            (PgWireError::MessageTooLarge { payload_bytes: 2, limit_bytes: 1 }, true),
        ] {
            let text = error.to_string();
            assert_eq!(Error::from_replication(error, Phase::Connecting).class().is_retried(), is_retried, "{text}");
        }
    }
}
