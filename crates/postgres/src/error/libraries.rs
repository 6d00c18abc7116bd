//! What the two libraries that speak to PostgreSQL say, as errors of ours.
//!
//! Neither keeps TLS, the network and a missing password apart, so their texts are read for the words that tell. The
//! replication session's keeps no more of a server's error than its text; no detail and no hint of it is made up.

use pgwire_replication::PgWireError;
use walpost_core::failure::chain;

use super::{Error, Phase, ServerError};

impl Error {
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
            let sqlstate = database.code().code();
            // Of a constraint that is violated it is what the row holds.
            let detail = database.detail().filter(|_| !sqlstate.starts_with("23"));
            let error = ServerError {
                sqlstate: Some(sqlstate.to_owned()),
                message: database.message().to_owned(),
                detail: detail.map(str::to_owned),
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

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    pub(in super::super) fn server(phase: Phase, text: &str) -> Error {
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
