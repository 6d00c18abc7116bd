//! Topics made by an admin client, which is quicker than Kafka's own program by the start of a Java machine.

use std::thread;
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewPartitions, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult};
use rdkafka::metadata::{Metadata, MetadataTopic};
use rdkafka::types::RDKafkaErrorCode;

use super::KafkaEndpoint;
use super::probe::{Probe, Refusal};
use crate::servers::{Error, Result, wait_until};

const LIMIT: Duration = Duration::from_secs(120);
/// Between the first two questions what became of a topic.
const POLL: Duration = Duration::from_millis(50);
/// More than a batch is larger than the value of its only record, where that has neither key nor headers.
const BATCH_BYTES: usize = 100;

impl KafkaEndpoint {
    /// Makes a topic and returns when the broker has it. May be called from anywhere, also from within a runtime,
    /// which waits so long.
    ///
    /// # Errors
    ///
    /// [`Error::Kafka`] when the broker cannot be reached or refuses, as it does for a topic that exists.
    pub fn create_topic(&self, name: &str, partitions: i32) -> Result<()> {
        self.create_topic_with(name, partitions, &[])
    }

    /// As [`KafkaEndpoint::create_topic`], with configuration such as `("cleanup.policy", "compact")`.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn create_topic_with(&self, name: &str, partitions: i32, configuration: &[(&str, &str)]) -> Result<()> {
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        for (key, value) in configuration {
            topic = topic.set(key, value);
        }
        self.create(&[topic], name)
    }

    /// Makes several topics, each with so many partitions, in the time of one.
    ///
    /// # Errors
    ///
    /// As [`KafkaEndpoint::create_topic`], when one of them cannot be made.
    pub fn create_topics(&self, topics: &[(&str, i32)]) -> Result<()> {
        let new = |&(name, partitions)| NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        let names: Vec<&str> = topics.iter().map(|&(name, _)| name).collect();
        self.create(&topics.iter().map(new).collect::<Vec<_>>(), &names.join(", "))
    }

    /// As [`KafkaEndpoint::create_topic`], each partition on so many brokers.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn create_replicated_topic(&self, name: &str, partitions: i32, replicas: i32) -> Result<()> {
        self.create(&[NewTopic::new(name, partitions, TopicReplication::Fixed(replicas))], name)
    }

    /// Gives a topic more partitions, so many in all, and returns when the broker has them.
    ///
    /// # Errors
    ///
    /// As [`KafkaEndpoint::create_topic`].
    pub fn widen_topic(&self, name: &str, partitions: i32) -> Result<()> {
        let wanted = NewTopic::new(name, partitions, TopicReplication::Fixed(1));
        self.ask(&format!("cannot give the topic {name} {partitions} partitions"), async |admin, options| {
            let count = usize::try_from(partitions).unwrap_or_default();
            let results = admin.create_partitions(&[NewPartitions::new(name, count)], options).await?;
            results
                .into_iter()
                .try_for_each(|result| result.map(drop).map_err(|(_, code)| KafkaError::AdminOp(code)))?;
            wait_for(admin, |metadata| is_led(metadata, &wanted))
        })
    }

    /// Gives a topic this configuration and no other. Where it says how large records may be, this returns when each partition goes by it.
    ///
    /// # Errors
    ///
    /// As [`KafkaEndpoint::create_topic`], and [`Error::TimedOut`].
    pub fn configure_topic(&self, name: &str, configuration: &[(&str, &str)]) -> Result<()> {
        self.order_configuration(name, configuration)?;
        let limit = configuration.iter().find(|(key, _)| *key == "max.message.bytes");
        limit.and_then(|(_, bytes)| bytes.parse().ok()).map_or(Ok(()), |bytes| self.wait_until_limited(name, bytes))
    }

    /// As [`KafkaEndpoint::configure_topic`], and returns when the broker says that it will go by it.
    ///
    /// # Errors
    ///
    /// As [`KafkaEndpoint::create_topic`].
    pub fn order_configuration(&self, name: &str, configuration: &[(&str, &str)]) -> Result<()> {
        let nothing_else = AlterConfig::new(ResourceSpecifier::Topic(name));
        let wanted = configuration.iter().fold(nothing_else, |wanted, (key, value)| wanted.set(key, value));
        self.ask(&format!("cannot configure the topic {name}"), async |admin, options| {
            let results = admin.alter_configs([&wanted], options).await?;
            results.into_iter().try_for_each(|result| result.map(drop).map_err(|(_, code)| KafkaError::AdminOp(code)))
        })
    }

    fn wait_until_limited(&self, topic: &str, bytes: usize) -> Result<()> {
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", self.bootstrap());
        let failed = |source| Error::Kafka { doing: format!("cannot see the partitions of the topic {topic}"), source };
        let probe = Probe::new(&client).map_err(failed)?;
        for partition in 0..partitions_of(&client, topic).map_err(failed)? {
            wait_until(&format!("{topic}/{partition} to take {bytes} bytes at most"), LIMIT, || {
                probe.ask(topic, partition, bytes.saturating_sub(BATCH_BYTES)) == Ok(Refusal::OfItself)
                    && probe.ask(topic, partition, bytes) == Ok(Refusal::TooLarge)
            })?;
        }
        Ok(())
    }

    /// Deletes a topic, and waits until the broker knows it no more: before that it still takes records, which go with it.
    ///
    /// # Errors
    ///
    /// As [`KafkaEndpoint::create_topic`].
    pub fn delete_topic(&self, name: &str) -> Result<()> {
        self.ask(&format!("cannot delete the topic {name}"), async |admin, options| {
            let results = admin.delete_topics(&[name], options).await?;
            results
                .into_iter()
                .try_for_each(|result| result.map(drop).map_err(|(_, code)| KafkaError::AdminOp(code)))?;
            wait_for(admin, |metadata| metadata.topics().iter().all(|topic| topic.name() != name))
        })
    }

    fn create(&self, topics: &[NewTopic<'_>], names: &str) -> Result<()> {
        self.ask(&format!("cannot make the topic {names}"), async |admin, options| {
            let results = admin.create_topics(topics, options).await?;
            results
                .into_iter()
                .try_for_each(|result| result.map(drop).map_err(|(_, code)| KafkaError::AdminOp(code)))?;
            // The controller has made them; the broker hears of it a while later.
            wait_for(admin, |metadata| topics.iter().all(|topic| is_led(metadata, topic)))
        })
    }

    /// Asks in a thread of its own: a runtime cannot be waited for inside another.
    fn ask<Q>(&self, doing: &str, question: Q) -> Result<()>
    where
        Q: AsyncFnOnce(&AdminClient<DefaultClientContext>, &AdminOptions) -> KafkaResult<()> + Send,
    {
        let answer = thread::scope(|scope| {
            let asked = scope.spawn(|| {
                let admin = ClientConfig::new().set("bootstrap.servers", self.bootstrap()).create()?;
                let options = AdminOptions::new().request_timeout(Some(LIMIT)).operation_timeout(Some(LIMIT));
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.map_err(|error| KafkaError::ClientCreation(error.to_string()))?;
                runtime.block_on(question(&admin, &options))
            });
            asked.join().unwrap_or(Err(KafkaError::Canceled))
        });
        answer.map_err(|source| Error::Kafka { doing: doing.to_owned(), source })
    }
}

/// Waits until the broker's topics are so.
fn wait_for(admin: &AdminClient<DefaultClientContext>, is_so: impl Fn(&Metadata) -> bool) -> KafkaResult<()> {
    let (since, mut pause) = (Instant::now(), POLL);
    while !is_so(&admin.inner().fetch_metadata(None, LIMIT)?) {
        if since.elapsed() > LIMIT {
            return Err(KafkaError::AdminOp(RDKafkaErrorCode::RequestTimedOut));
        }
        // No broker tells when it has taken a topic over or let go of one; and to tell all that it has costs it time, where there are thousands.
        thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_secs(1));
    }
    Ok(())
}

/// Whether the broker knows all partitions of a topic, and who leads them.
fn is_led(metadata: &Metadata, wanted: &NewTopic<'_>) -> bool {
    let known = metadata.topics().iter().find(|topic| topic.name() == wanted.name);
    let partitions = known.map(MetadataTopic::partitions).unwrap_or_default();
    let led = partitions.iter().filter(|partition| partition.leader() >= 0).count();
    i32::try_from(led).is_ok_and(|led| led >= wanted.num_partitions.max(1))
}

fn partitions_of(client: &ClientConfig, topic: &str) -> KafkaResult<i32> {
    let consumer: BaseConsumer = client.create()?;
    let metadata = consumer.fetch_metadata(Some(topic), LIMIT)?;
    let partitions = metadata.topics().first().map_or(0, |topic| topic.partitions().len());
    match i32::try_from(partitions) {
        Ok(partitions) if partitions > 0 => Ok(partitions),
        _ => Err(KafkaError::AdminOp(RDKafkaErrorCode::UnknownTopicOrPartition)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::servers::{Kafka, shared_kafka};

    #[test]
    fn a_topic_is_made_once_and_refused_the_second_time() {
        let kafka = shared_kafka();
        let name = format!("made-once-{}", std::process::id());
        kafka.create_topic_with(&name, 3, &[("cleanup.policy", "compact")]).unwrap();
        assert!(kafka.create_topic(&name, 3).unwrap_err().to_string().contains(&name));
    }

    #[test]
    fn a_topic_goes_by_its_limit_once_it_is_set_and_nothing_is_left_in_it_by_the_question() {
        let kafka = shared_kafka();
        let name = format!("limited-{}", std::process::id());
        kafka.create_topic(&name, 2).unwrap();
        let mut client = ClientConfig::new();
        client.set("bootstrap.servers", kafka.bootstrap());
        for (limit, is_taken) in [("1000", false), ("3000", true)] {
            kafka.configure_topic(&name, &[("max.message.bytes", limit)]).unwrap();
            let said = Probe::new(&client).unwrap().ask(&name, 1, 2_000).unwrap();
            assert_eq!(said, if is_taken { Refusal::OfItself } else { Refusal::TooLarge });
        }
        let consumer: BaseConsumer = client.create().unwrap();
        assert_eq!(consumer.fetch_watermarks(&name, 1, LIMIT).unwrap(), (0, 0));
    }

    #[test]
    fn several_topics_are_made_at_once_each_with_its_partitions() {
        let kafka = shared_kafka();
        let [one, other] = ["one", "other"].map(|name| format!("several-{name}-{}", std::process::id()));
        kafka.create_topics(&[(&one, 1), (&other, 3)]).unwrap();
        let consumer: BaseConsumer = ClientConfig::new().set("bootstrap.servers", kafka.bootstrap()).create().unwrap();
        for (topic, partitions) in [(&one, 1), (&other, 3)] {
            let metadata = consumer.fetch_metadata(Some(topic), LIMIT).unwrap();
            assert_eq!(metadata.topics()[0].partitions().len(), partitions);
        }
        assert!(kafka.create_topics(&[(&one, 1)]).unwrap_err().to_string().contains(&one));
    }

    #[test]
    fn a_topic_name_that_kafka_forbids_is_refused() {
        assert!(shared_kafka().create_topic("no spaces", 1).is_err());
    }

    #[test]
    fn with_scram_only_the_right_password_comes_in_over_tls() {
        let kafka = Kafka::builder().scram("relay", "pearl").start().unwrap();
        let authority = kafka.certificates().unwrap().authority.display().to_string();
        let topics = |mechanism: &str, password: &str| {
            let consumer: BaseConsumer = ClientConfig::new()
                .set("bootstrap.servers", kafka.sasl_bootstrap().unwrap())
                .set("security.protocol", "SASL_SSL")
                .set("ssl.ca.location", &authority)
                .set("sasl.mechanism", mechanism)
                .set("sasl.username", "relay")
                .set("sasl.password", password)
                .create()
                .unwrap();
            consumer.fetch_metadata(None, Duration::from_secs(10)).map(drop)
        };
        for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
            topics(mechanism, "pearl").unwrap();
        }
        assert!(topics("SCRAM-SHA-256", "stone").is_err());
    }
}
