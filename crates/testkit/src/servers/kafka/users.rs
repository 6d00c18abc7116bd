//! Users of a broker that asks who comes, and what they may do.
//!
//! A right is given or taken once the broker goes by it, which on a busy machine is seconds after it has said yes. Whether it does is asked by a client of the user's own, in ways that leave nothing behind.

use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::{ClientConfig, Offset, TopicPartitionList};

use super::Kafka;
use super::acls::{self, Operation, Resource};
use super::probe::{ANSWER, Probe, Refusal};
use crate::servers::install::kafka_tool;
use crate::servers::process::run;
use crate::servers::{Error, Result, wait_until};

/// Until the broker goes by what it was told.
const LIMIT: Duration = Duration::from_secs(60);

const REFUSED: RDKafkaErrorCode = RDKafkaErrorCode::TopicAuthorizationFailed;

/// Somebody who logs in by SCRAM-SHA-512, over TLS.
#[derive(Clone, Debug)]
pub struct KafkaUser<'a> {
    kafka: &'a Kafka,
    name: String,
    password: String,
}

/// What a user may do with a topic. Either brings the right to see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Right {
    /// To read its records.
    Read,
    /// To write records.
    Write,
}

impl Kafka {
    /// Makes a user, who may do nothing yet.
    ///
    /// # Errors
    ///
    /// [`Error::Command`] when Kafka's program says no.
    pub fn add_user(&self, name: &str, password: &str) -> Result<KafkaUser<'_>> {
        let mut user = KafkaUser { kafka: self, name: name.to_owned(), password: String::new() };
        user.set_password(password)?;
        Ok(user)
    }
}

impl KafkaUser<'_> {
    /// Who it is.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Gives the user another password.
    ///
    /// # Errors
    ///
    /// [`Error::Command`] when Kafka's program says no.
    pub fn set_password(&mut self, password: &str) -> Result<()> {
        let credentials = format!("SCRAM-SHA-512=[password={password}]");
        let user = ["--entity-type", "users", "--entity-name", &self.name];
        let change = [&["--alter", "--add-config", &credentials], &user as &[_]].concat();
        self.administer("org.apache.kafka.tools.ConfigCommand", &change)?;
        password.clone_into(&mut self.password);
        Ok(())
    }

    /// Gives or takes these operations.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the broker cannot be asked or says no.
    pub fn allow(&self, is_allowed: bool, resource: Resource<'_>, operations: &[Operation]) -> Result<()> {
        let answer = acls::allow(self.kafka.bootstrap(), is_allowed, &self.name, resource, operations);
        answer.map_err(|source| Error::Io { doing: format!("cannot change what {} may do", self.name), source })
    }

    /// Gives or takes these operations on a topic that exists, and returns when the broker goes by it.
    ///
    /// # Errors
    ///
    /// As [`KafkaUser::allow`] and [`KafkaUser::wait_until_allowed`].
    pub fn allow_on_topic(&self, is_allowed: bool, topic: &str, operations: &[Operation]) -> Result<()> {
        self.allow(is_allowed, Resource::Topic(topic), operations)?;
        for (operation, right) in [(Operation::Read, Right::Read), (Operation::Write, Right::Write)] {
            if operations.contains(&operation) {
                self.wait_until_allowed(is_allowed, right, topic)?;
            }
        }
        Ok(())
    }

    /// Runs one of Kafka's programs as a superuser.
    fn administer(&self, class: &str, arguments: &[&str]) -> Result<()> {
        let mut tool = kafka_tool(class)?;
        tool.args(["--bootstrap-server", self.kafka.bootstrap()]).args(arguments);
        run(tool, class).map(drop)
    }

    /// Waits until the broker goes by it that the user has this right to a topic that exists, or has it not.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] when it does not.
    pub fn wait_until_allowed(&self, is_allowed: bool, right: Right, topic: &str) -> Result<()> {
        let mut answer = Ok(!is_allowed);
        let what = format!("{right:?} of {topic} to be {is_allowed} for {}", self.name);
        let waited = wait_until(&what, LIMIT, || {
            answer = self.may(right, topic);
            answer == Ok(is_allowed)
        });
        waited.map(drop).map_err(|error| match answer {
            Err(source) => Error::Kafka { doing: format!("cannot tell whether {what}"), source },
            Ok(_) => error,
        })
    }

    fn may(&self, right: Right, topic: &str) -> KafkaResult<bool> {
        match right {
            Right::Read => may_read(&self.client()?, topic),
            Right::Write => Ok(Probe::new(&self.client()?)?.ask(topic, 0, 0)? != Refusal::Forbidden),
        }
    }

    fn client(&self) -> KafkaResult<ClientConfig> {
        let missing = || KafkaError::ClientCreation("the broker was not built with SASL".to_owned());
        let authority = self.kafka.certificates().ok_or_else(missing)?.authority.display().to_string();
        let mut config = ClientConfig::new();
        config
            .set("bootstrap.servers", self.kafka.sasl_bootstrap().ok_or_else(missing)?)
            .set("security.protocol", "SASL_SSL")
            .set("sasl.mechanism", "SCRAM-SHA-512")
            .set("sasl.username", &self.name)
            .set("sasl.password", &self.password)
            .set("ssl.ca.location", authority);
        Ok(config)
    }
}

/// Reads from the beginning: a record, or that there is none, is a yes.
fn may_read(client: &ClientConfig, topic: &str) -> KafkaResult<bool> {
    let mut config = client.clone();
    // A group is named by every consumer, and joined by none that chooses its partitions itself.
    let consumer: BaseConsumer = config.set("group.id", "nobody").set("enable.partition.eof", "true").create()?;
    // Of a topic that is not to be seen a consumer hears nothing more.
    let metadata = consumer.fetch_metadata(Some(topic), ANSWER)?;
    if metadata.topics().iter().any(|topic| topic.error().is_some_and(|code| RDKafkaErrorCode::from(code) == REFUSED)) {
        return Ok(false);
    }
    let mut partitions = TopicPartitionList::new();
    partitions.add_partition_offset(topic, 0, Offset::Beginning)?;
    consumer.assign(&partitions)?;
    let since = Instant::now();
    while since.elapsed() < ANSWER {
        match consumer.poll(ANSWER) {
            Some(Ok(_) | Err(KafkaError::PartitionEOF(_))) => return Ok(true),
            Some(Err(error)) if error.rdkafka_error_code() == Some(REFUSED) => {
                return Ok(false);
            }
            Some(Err(_)) | None => {}
        }
    }
    Err(KafkaError::AdminOp(RDKafkaErrorCode::RequestTimedOut))
}
