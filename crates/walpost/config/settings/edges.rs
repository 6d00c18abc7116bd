//! The three parts that others judge: the connection (`walpost-postgres`), the router's options (`walpost-core`) and the producer's
//! properties (`walpost-kafka`). Each has one function here, which takes what was typed and gives settings or sentences.

use walpost_postgres::ConnectionSettings;

use crate::config::secret::Secret;
use crate::journal;

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

/// Judges the URL and libpq's variables.
pub(super) fn connection(url: &str, lookup: impl Fn(&str) -> Option<String>) -> Judgement<ConnectionSettings> {
    match ConnectionSettings::from_url(url, lookup) {
        Ok(connection) => Ok((connection, Vec::new())),
        Err(error) => Err(vec![Sentence { key: None, reason: journal::chain(&error) }]),
    }
}

/// Judges the options of a router.
pub(super) fn router<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Judgement<RouterOptions> {
    Ok((pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).collect(), Vec::new()))
}

/// Judges the properties of a producer.
pub(super) fn kafka<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>) -> Judgement<KafkaSettings> {
    let properties: Vec<_> = pairs.map(|(name, value)| (name.to_owned(), Secret::new(value))).collect();
    if !properties.iter().any(|(name, _)| name == "bootstrap.servers") {
        let reason = "the address of the brokers is missing; write \"bootstrap.servers\" = \"host:9092\"".to_owned();
        return Err(vec![Sentence { key: None, reason }]);
    }
    Ok((properties, Vec::new()))
}
