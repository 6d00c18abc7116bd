//! What follows from an error: whether it passes by itself, or who has to do what.
//!
//! It is the only place that reads SQLSTATEs. What it does not know counts as unforeseen: tried again, and reported.

use super::{Error, Phase, ServerError};

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
    /// The server streams, and cannot decode or convert a transaction: it fails in the same way each time, and nothing behind it is ever sent. What
    /// helps depends on where the stream stands, so whoever knows that says it.
    Undecodable,
    /// Nobody foresaw it: try again, and raise the alarm.
    Unforeseen,
}

impl Class {
    /// Whether trying again can help.
    #[must_use]
    pub fn is_retried(self) -> bool {
        !matches!(self, Self::NeedsOperator(_) | Self::Undecodable)
    }
}

impl Error {
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
}

/// The verdict on an SQLSTATE (PostgreSQL's Appendix A), first by its five characters, then by its class.
fn classify(phase: Phase, error: &ServerError) -> Class {
    let Some(sqlstate) = error.sqlstate.as_deref() else { return Class::Unforeseen };
    if phase == Phase::Streaming && is_about_data(sqlstate, &error.message) {
        return Class::Undecodable;
    }
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

/// Whether it is what the data are: a row filter that fails (class 22), text that has no place in UTF8 (22P05, 22021), a row that is larger
/// than a message may be (class 54), or a value whose text is larger than the server can make, for which it has no SQLSTATE (`palloc` in mcxt.c).
fn is_about_data(sqlstate: &str, message: &str) -> bool {
    let is_too_large = sqlstate == "XX000" && message.starts_with("invalid memory alloc request size");
    sqlstate.starts_with("22") || sqlstate.starts_with("54") || is_too_large
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
    use super::super::libraries::tests::server;
    use super::*;

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
    fn data_that_the_server_cannot_send_end_a_stream_for_good_and_are_no_such_thing_elsewhere() {
        for text in [
            "division by zero (SQLSTATE 22012)",
            "character with byte sequence 0x81 in encoding \"WIN1252\" has no equivalent in encoding \"UTF8\" (SQLSTATE 22P05)",
            "invalid byte sequence for encoding \"UTF8\": 0xff (SQLSTATE 22021)",
            "a parameter of a row filter's function (SQLSTATE 22023)",
            "string buffer exceeds maximum allowed length (1073741823 bytes) (SQLSTATE 54000)",
            "stack depth limit exceeded (SQLSTATE 54001)",
            "invalid memory alloc request size 1258291203 (SQLSTATE XX000)",
        ] {
            let class = server(Phase::Streaming, text).class();
            assert_eq!(class, Class::Undecodable, "{text}");
            assert!(!class.is_retried());
            for phase in [Phase::Connecting, Phase::Query, Phase::Starting] {
                assert_ne!(server(phase, text).class(), Class::Undecodable, "{phase:?}: {text}");
            }
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
}
