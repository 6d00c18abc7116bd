//! What a broker says of a record, without one being left behind: it is of a time that has not come, which no topic takes.
//!
//! A broker looks at that last, behind rights and size. So its answer tells whether it goes by what it was told of those, which it does only a while
//! after the program or the client that told it has been answered: on a busy machine seconds later.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::client::ClientContext;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode};
use rdkafka::message::DeliveryResult;
use rdkafka::producer::{BaseProducer, BaseRecord, NoCustomPartitioner, Producer as _, ProducerContext};

/// Until the broker answers.
pub(super) const ANSWER: Duration = Duration::from_secs(10);
/// In the year 2100. A broker takes what lies an hour ahead at most (`message.timestamp.after.max.ms`).
const FAR_AWAY_MS: i64 = 4_102_444_800_000;
/// As much as librdkafka lets be set: the broker is to refuse a record, not the client.
const NO_LIMIT: &str = "1000000000";

/// Why a record was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// Its user has no right to write.
    Forbidden,
    /// The topic takes no record of this size.
    TooLarge,
    /// Nothing but its time, or that it has no key.
    OfItself,
}

/// Whoever asks.
pub(super) struct Probe(BaseProducer<Answer, NoCustomPartitioner>);

impl Probe {
    /// As this client.
    pub(super) fn new(client: &ClientConfig) -> KafkaResult<Self> {
        let mut config = client.clone();
        config.set("message.timeout.ms", ANSWER.as_millis().to_string()).set("message.max.bytes", NO_LIMIT);
        config.create_with_context(Answer::default()).map(Self)
    }

    /// What the broker says of a record of so many bytes.
    pub(super) fn ask(&self, topic: &str, partition: i32, bytes: usize) -> KafkaResult<Refusal> {
        let payload = vec![b' '; bytes];
        let record = BaseRecord::<(), [u8]>::to(topic).partition(partition).payload(&payload).timestamp(FAR_AWAY_MS);
        self.0.send(record).map_err(|(error, _)| error)?;
        self.0.flush(ANSWER)?;
        let error = self.0.context().0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let error = error.unwrap_or(KafkaError::AdminOp(RDKafkaErrorCode::RequestTimedOut));
        match error.rdkafka_error_code() {
            Some(RDKafkaErrorCode::TopicAuthorizationFailed) => Ok(Refusal::Forbidden),
            Some(RDKafkaErrorCode::MessageSizeTooLarge) => Ok(Refusal::TooLarge),
            Some(RDKafkaErrorCode::InvalidTimestamp | RDKafkaErrorCode::InvalidRecord) => Ok(Refusal::OfItself),
            _ => Err(error),
        }
    }
}

/// Why the record was not written.
#[derive(Default)]
struct Answer(Mutex<Option<KafkaError>>);

impl ClientContext for Answer {}

impl ProducerContext for Answer {
    type DeliveryOpaque = ();

    fn delivery(&self, result: &DeliveryResult<'_>, (): Self::DeliveryOpaque) {
        let error = result.as_ref().err().map(|(error, _)| error.clone());
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = error;
    }
}
