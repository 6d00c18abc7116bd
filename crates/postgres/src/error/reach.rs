//! A server that cannot be reached, said once for every command and the log: which, why, and what to do.
//!
//! Only attempts to connect are told so. A stream that breaks keeps its own error, for its next attempt tells more.

use super::{Error, Phase};
use crate::connection::{ConnectionSettings, Endpoint};

impl Error {
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use walpost_core::failure::chain;

    use super::super::Class;
    use super::super::libraries::tests::server;
    use super::*;

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
}
