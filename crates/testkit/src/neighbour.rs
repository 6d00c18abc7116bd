//! Somebody else who writes into a topic by transactions, and takes his time.

use std::time::Duration;

use rdkafka::ClientConfig;
use rdkafka::error::KafkaResult;
use rdkafka::producer::{BaseProducer, BaseRecord, Producer as _};

/// How long one call to the broker may take.
const CALL_LIMIT: Duration = Duration::from_secs(60);

/// Longer than any test takes.
const TRANSACTION_MS: &str = "300000";

/// A transaction that is open: what was committed behind its first record is hidden from whoever reads committed records. Dropped, it is aborted.
pub struct OpenTransaction(BaseProducer);

impl OpenTransaction {
    /// Opens one under this id, with a record in partition 0 of each of these topics. Once it is back, the broker has them.
    ///
    /// # Errors
    ///
    /// When the broker refuses.
    pub fn begin(bootstrap: &str, id: &str, topics: &[&str]) -> KafkaResult<Self> {
        let mut config = ClientConfig::new();
        config.set("bootstrap.servers", bootstrap).set("transactional.id", id);
        let producer: BaseProducer = config.set("transaction.timeout.ms", TRANSACTION_MS).create()?;
        producer.init_transactions(CALL_LIMIT)?;
        producer.begin_transaction()?;
        for topic in topics {
            let record = BaseRecord::<str, str>::to(topic).partition(0).key(id).payload("of another");
            producer.send(record).map_err(|(error, _)| error)?;
        }
        producer.flush(CALL_LIMIT)?;
        Ok(Self(producer))
    }

    /// Commits it.
    ///
    /// # Errors
    ///
    /// When the broker refuses.
    pub fn commit(self) -> KafkaResult<()> {
        self.0.commit_transaction(CALL_LIMIT)
    }
}

impl Drop for OpenTransaction {
    fn drop(&mut self) {
        // Of one that was committed there is nothing to abort.
        let _ = self.0.abort_transaction(CALL_LIMIT);
    }
}
