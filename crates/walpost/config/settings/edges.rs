//! The three parts that others judge: the connection (`walpost-postgres`), the router's options (`walpost-core`) and the producer's
//! properties (`walpost-kafka`). Each has one function here, which takes what was typed and gives settings or sentences.

#[cfg(feature = "kafka")]
use walpost_kafka::Limits;
#[cfg(feature = "kafka")]
pub use walpost_kafka::Settings as KafkaSettings;

use walpost_core::connect;
use walpost_core::failure::chain;
use walpost_core::options::OptionFault;
use walpost_core::router::{Connector, Options, Router};
use walpost_postgres::ConnectionSettings;

use crate::debezium::options;

/// Without Kafka there are no settings of it.
#[cfg(not(feature = "kafka"))]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum KafkaSettings {}

/// What one of the three says: settings and warnings, or every fault.
pub(super) type Judgement<T> = Result<(T, Vec<Sentence>), Vec<Sentence>>;

/// A sentence about one key of the section, or about the section as a whole.
pub(super) struct Sentence {
    pub(super) key: Option<String>,
    pub(super) reason: String,
}

impl Sentence {
    fn about_all(reason: impl Into<String>) -> Self {
        Self { key: None, reason: reason.into() }
    }

    fn about(key: impl Into<String>, reason: String) -> Self {
        Self { key: Some(key.into()), reason }
    }
}

/// Judges the URL and libpq's variables.
pub(super) fn connection(url: &str, lookup: impl Fn(&str) -> Option<String>) -> Judgement<ConnectionSettings> {
    match ConnectionSettings::from_url(url, lookup) {
        Ok(connection) => Ok((connection, Vec::new())),
        Err(error) => Err(vec![Sentence::about_all(chain(&error))]),
    }
}

/// Judges the options of a connector, one by one and together.
pub(super) fn connector<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>, run_id: &str) -> Judgement<Connector> {
    let pairs: Vec<_> = pairs.collect();
    let parsed = match connect::Options::from_pairs(pairs.iter().copied()) {
        Ok(parsed) => parsed,
        Err(faults) => return Err(to_decide(sentences(and_of_the_rest(faults, &pairs, run_id)), &pairs)),
    };
    let connector = Connector::new(parsed.options, run_id).map_err(sentences)?;
    let warnings = parsed.warnings.into_iter().chain(connector.warnings().map(str::to_owned));
    let warnings = warnings.map(Sentence::about_all).collect();
    Ok((connector, warnings))
}

/// Judges the options of a router, one by one and together with those of its connector.
pub(super) fn router<'a>(pairs: impl Iterator<Item = (&'a str, &'a str)>, connector: Connector) -> Judgement<Router> {
    let pairs: Vec<_> = pairs.collect();
    let parsed = Options::from_pairs(pairs.iter().copied())
        .map_err(|faults| sentences(and_of_the_topic(faults, &pairs, &connector)))?;
    let router = Router::of_connector(parsed.options, connector).map_err(sentences)?;
    let warnings = parsed.warnings.into_iter().chain(router.warning()).map(Sentence::about_all).collect();
    Ok((router, warnings))
}

fn sentences(faults: Vec<OptionFault>) -> Vec<Sentence> {
    faults.into_iter().map(|fault| Sentence::about(fault.option, fault.reason)).collect()
}

/// Faults of single options, and what is wrong with the two that name the topic, which no other option has a say in.
fn and_of_the_topic(mut faults: Vec<OptionFault>, pairs: &[(&str, &str)], connector: &Connector) -> Vec<OptionFault> {
    let names_topic = |option: &str| option == "route.topic.regex" || option == "route.topic.replacement";
    if faults.iter().any(|fault| names_topic(&fault.option)) {
        return faults;
    }
    let topic = pairs.iter().copied().filter(|(name, _)| names_topic(name));
    let parsed = Options::from_pairs(topic).ok();
    let more = parsed.and_then(|parsed| Router::of_connector(parsed.options, connector.clone()).err());
    faults.extend(more.into_iter().flatten().filter(|fault| names_topic(&fault.option)));
    faults
}

/// Faults of single options, and what is wrong with the others together, so that all is told at once.
fn and_of_the_rest(mut faults: Vec<OptionFault>, pairs: &[(&str, &str)], run_id: &str) -> Vec<OptionFault> {
    let rest = pairs.iter().copied().filter(|(name, _)| faults.iter().all(|fault| fault.option != *name));
    let parsed = connect::Options::from_pairs(rest).ok();
    let more = parsed.and_then(|parsed| Connector::new(parsed.options, run_id).err());
    faults.extend(more.into_iter().flatten());
    faults
}

/// Where an import left an option to decide, that is what is wrong, and not that nobody knows its name.
fn to_decide(mut faults: Vec<Sentence>, pairs: &[(&str, &str)]) -> Vec<Sentence> {
    for Sentence { key, reason } in &mut faults {
        let pair = pairs.iter().find(|(name, _)| key.as_deref() == Some(name));
        if let Some(entry) = pair.and_then(|(name, value)| options::to_decide(name, value)) {
            *reason = format!(
                "this is an option of Debezium's that cannot be had: {} Decide what consumers are to get without it, and delete this line",
                entry.note
            );
        }
    }
    faults
}

/// Judges the properties of a producer. `records` and `bytes` are the limits on what is in flight.
#[cfg(feature = "kafka")]
pub(super) fn kafka<'a>(
    pairs: impl Iterator<Item = (&'a str, &'a str)>,
    records: usize,
    bytes: usize,
) -> Judgement<KafkaSettings> {
    let pairs: Vec<_> = pairs.collect();
    let settings = KafkaSettings::from_properties(pairs.iter().copied(), Limits { records, bytes });
    let settings = settings.map_err(|faults| {
        let faults = faults.into_iter().map(|fault| Sentence::about(fault.name, fault.reason));
        to_decide(faults.collect(), &pairs)
    })?;
    let warnings = settings.warnings().iter().map(Sentence::about_all).collect();
    Ok((settings, warnings))
}

/// Judges whether such a producer can be one of transactions.
#[cfg(feature = "kafka")]
pub(super) fn transactions(kafka: &KafkaSettings, relay: &str) -> Judgement<()> {
    let judged = kafka.in_transactions(relay);
    judged.map(|_| ((), Vec::new())).map_err(|fault| vec![Sentence::about(fault.name, fault.reason)])
}

/// There is no producer.
#[cfg(not(feature = "kafka"))]
pub(super) fn transactions(kafka: &KafkaSettings, _: &str) -> Judgement<()> {
    match *kafka {}
}

/// How long a group of this store may be kept open, in milliseconds: half of what the broker lets it, so that there is time to commit.
#[cfg(feature = "kafka")]
pub(super) fn longest_group(store: Option<&super::Store>) -> Option<u64> {
    let Some(super::Store::Kafka(kafka)) = store else { return None };
    u64::try_from(kafka.transaction_timeout().as_millis() / 2).ok()
}

/// There are no groups.
#[cfg(not(feature = "kafka"))]
pub(super) fn longest_group(_: Option<&super::Store>) -> Option<u64> {
    None
}

/// There is no producer.
#[cfg(not(feature = "kafka"))]
pub(super) fn kafka<'a>(_: impl Iterator<Item = (&'a str, &'a str)>, _: usize, _: usize) -> Judgement<KafkaSettings> {
    let reason = "this walpost was built without Kafka; take one that was built with the feature `kafka`";
    Err(vec![Sentence::about_all(reason)])
}

#[cfg(test)]
#[cfg(not(feature = "kafka"))]
mod tests {
    use crate::config::fake::Fake;

    #[test]
    fn a_program_without_kafka_refuses_it_with_a_sentence() {
        let text =
            "[source]\nurl = \"postgres://u@h/d\"\n[[outbox]]\ntable = \"public.outbox\"\n[sink]\ntype = \"kafka\"\n";
        let faults = crate::config::parse(text, false, &Fake::default()).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].reason.contains("built without Kafka"), "{faults:?}");
    }
}
