//! The three parts that others judge: the connection (`walpost-postgres`), the router's options (`walpost-core`) and the producer's
//! properties (`walpost-kafka`). Each has one function here, which takes what was typed and gives settings or sentences.

use std::time::Duration;

use crate::config::secret::Secret;

/// What libpq's variables are asked for.
const VARIABLES: [&str; 13] = [
    "PGHOST",
    "PGPORT",
    "PGDATABASE",
    "PGUSER",
    "PGPASSWORD",
    "PGPASSFILE",
    "PGCONNECT_TIMEOUT",
    "PGAPPNAME",
    "PGOPTIONS",
    "PGSSLMODE",
    "PGSSLROOTCERT",
    "PGSSLCERT",
    "PGSSLKEY",
];

/// How PostgreSQL is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connection {
    url: Secret,
    variables: Vec<(&'static str, Secret)>,
    connect_timeout: Option<Duration>,
}

/// The options of an outbox's router, by Debezium's names.
pub type RouterOptions = Vec<(String, String)>;

/// The properties of a producer, by librdkafka's names.
pub type KafkaSettings = Vec<(String, Secret)>;

/// What one of the three says: settings and warnings, or every fault. Each sentence may name the key that it is about.
pub(super) type Judgement<T> = Result<(T, Vec<Sentence>), Vec<Sentence>>;

/// A sentence about one key of the section, or about the section.
pub(super) struct Sentence {
    pub(super) key: Option<String>,
    pub(super) reason: String,
}

pub(super) fn connection(
    url: &str,
    connect_timeout: Option<Duration>,
    lookup: impl Fn(&str) -> Option<String>,
) -> Judgement<Connection> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        let reason = "this is no URL of PostgreSQL; write postgres://user@host:port/database".to_owned();
        return Err(vec![Sentence { key: None, reason }]);
    }
    let variables =
        VARIABLES.into_iter().filter_map(|name| lookup(name).map(|value| (name, Secret::new(value)))).collect();
    Ok((Connection { url: Secret::new(url), variables, connect_timeout }, Vec::new()))
}

pub(super) fn router<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Judgement<RouterOptions> {
    Ok((pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(), Vec::new()))
}

pub(super) fn kafka<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Judgement<KafkaSettings> {
    let properties: Vec<_> = pairs.map(|(name, value)| (name.to_owned(), Secret::new(value))).collect();
    if !properties.iter().any(|(name, _)| name == "bootstrap.servers") {
        let reason = "the address of the brokers is missing; write \"bootstrap.servers\" = \"host:9092\"".to_owned();
        return Err(vec![Sentence { key: None, reason }]);
    }
    Ok((properties, Vec::new()))
}
