//! The calls of librdkafka that wait for a broker, made beside the loop, and what their errors mean.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::error::KafkaError;
use rdkafka::producer::{Producer as _, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode as Code;
use walpost_core::failure::{Class, Failure};

use crate::classify;
use crate::compacted;
use crate::context::Context;

/// How long one call may wait; librdkafka resumes it with the next. In between it is seen whether anybody still waits for it.
const SLICE: Duration = Duration::from_secs(1);

/// Between two calls of which the first was refused at once.
const PAUSE: Duration = Duration::from_millis(50);

/// How long the client may take to forget records whose reports it has given. A flush within a commit would look at them only every 100 ms.
const FORGETTING: Duration = Duration::from_millis(20);

/// Between two looks whether it has. The client tells nobody when it forgets, and a commit waits for it; on a thread of its own, a short sleep
/// costs nobody else anything.
const LOOK_AGAIN: Duration = Duration::from_micros(100);

/// What is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Call {
    /// Fence, and begin.
    Open,
    /// Commit, and begin the next.
    Commit,
    /// Abort.
    Abort,
}

/// Why a call failed.
#[derive(Debug)]
pub(super) enum Failed {
    /// No broker will have us.
    Verdict(Failure),
    /// What librdkafka says.
    Refused(KafkaError),
    /// The thread of the call has died.
    Lost,
}

/// Makes a call, again and again where that may help, until the limit, or until nobody waits for it any more.
pub(super) async fn make(client: ThreadedProducer<Context>, call: Call, limit: Duration) -> Result<(), Failed> {
    let is_given_up = Arc::new(AtomicBool::new(false));
    let _guard = GiveUp(Arc::clone(&is_given_up));
    let deadline = Instant::now() + limit;
    let work = move || {
        let may_go_on = || Instant::now() < deadline && !is_given_up.load(Ordering::Relaxed);
        repeat(&client, call, may_go_on)
    };
    tokio::task::spawn_blocking(work).await.unwrap_or(Err(Failed::Lost))
}

/// Says to a call that nobody waits for it any more.
struct GiveUp(Arc<AtomicBool>);

impl Drop for GiveUp {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn repeat(client: &ThreadedProducer<Context>, call: Call, may_go_on: impl Fn() -> bool) -> Result<(), Failed> {
    loop {
        let since = Instant::now();
        let error = match once(client, call) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        if let Some(verdict) = client.client().context().verdict() {
            return Err(Failed::Verdict(verdict));
        }
        if !is_retriable(&error) || !may_go_on() {
            return Err(Failed::Refused(error));
        }
        // A broker that is still at the last transaction says so at once, and not when it is done. On a thread of its own.
        std::thread::sleep(PAUSE.saturating_sub(since.elapsed()));
    }
}

fn once(client: &ThreadedProducer<Context>, call: Call) -> Result<(), KafkaError> {
    match call {
        Call::Open => client.init_transactions(SLICE)?,
        Call::Commit => {
            let since = Instant::now();
            while client.in_flight_count() > 0 && since.elapsed() < FORGETTING {
                // The client tells nobody when its queue is empty.
                std::thread::sleep(LOOK_AGAIN);
            }
            client.commit_transaction(SLICE)?;
        }
        Call::Abort => return client.abort_transaction(SLICE),
    }
    client.begin_transaction()
}

fn is_retriable(error: &KafkaError) -> bool {
    match error {
        KafkaError::Transaction(error) => error.is_retriable() && !error.is_fatal() && !error.txn_requires_abort(),
        // The records of a commit were not flushed in time.
        KafkaError::Flush(code) => *code == Code::OperationTimedOut,
        _ => false,
    }
}

/// Whether a broker said that our epoch is too low.
pub(super) fn is_fence(code: Code) -> bool {
    // Each of them is turned into the first by librdkafka, where it sees what it means.
    matches!(code, Code::Fenced | Code::ProducerFenced | Code::InvalidProducerEpoch)
}

impl Failed {
    pub(super) fn is_fence(&self) -> bool {
        matches!(self, Self::Refused(error) if error.rdkafka_error_code().is_some_and(is_fence))
    }

    /// `was_allowed` where brokers took records of this user before.
    pub(super) fn into_failure(self, call: Call, id: &str, timeout: Duration, was_allowed: bool) -> Failure {
        match self {
            Self::Verdict(failure) => failure,
            Self::Lost => Failure::new(Class::Sink, "the Kafka client has died over a transaction; it is tried again"),
            Self::Refused(error) => refusal(&error, call, id, timeout, was_allowed),
        }
    }
}

fn refusal(error: &KafkaError, call: Call, id: &str, timeout: Duration, was_allowed: bool) -> Failure {
    let code = error.rdkafka_error_code().unwrap_or(Code::Unknown);
    if is_fence(code) {
        return fenced(id, timeout);
    }
    let what = match call {
        Call::Open => format!("transactions of \"{id}\" cannot begin"),
        Call::Commit => "a transaction was not committed, or nobody knows whether it was".to_owned(),
        Call::Abort => "a transaction was not aborted".to_owned(),
    };
    let remedy = match code {
        Code::TransactionalIdAuthorizationFailed => Some(format!(
            "allow it with kafka-acls.sh --bootstrap-server <broker> --add --allow-principal <principal> --operation Write \
             --operation Describe --transactional-id {id}"
        )),
        Code::ClusterAuthorizationFailed => Some(
            "allow it with kafka-acls.sh --bootstrap-server <broker> --add --allow-principal <principal> --operation \
             IdempotentWrite --cluster"
                .to_owned(),
        ),
        Code::InvalidTransactionTimeout => Some(format!(
            "transaction.timeout.ms = {} is more than the brokers' transaction.max.timeout.ms; lower the one or raise the other",
            timeout.as_millis()
        )),
        Code::UnsupportedFeature | Code::UnsupportedVersion => {
            Some("the brokers know no transactions; keep the checkpoint in another store".to_owned())
        }
        _ => None,
    };
    match remedy {
        // It may be given back without a new start.
        Some(remedy) if was_allowed && classify::is_lost_right(code) => {
            Failure::new(Class::Sink, format!("{what}: {error}; {remedy}; it is tried again"))
        }
        Some(remedy) => Failure::new(Class::Configuration, format!("{what}: {error}; {remedy}")),
        None => Failure::new(Class::Sink, format!("{what}: {error}; it is tried again")),
    }
}

/// What brokers say to a producer whose epoch is too low.
pub(super) fn fenced(id: &str, timeout: Duration) -> Failure {
    Failure::new(
        Class::Configuration,
        format!(
            "another instance with this relay name has taken over (transactional id \"{id}\"), or a transaction grew older than \
             transaction.timeout.ms = {}; run one relay for each name, or raise transaction.timeout.ms",
            timeout.as_millis()
        ),
    )
}

/// Why the record of a checkpoint was not taken: no row is at fault, no dead letter helps, and the group cannot go without. What `was_allowed` before
/// comes back when an operator gives it back, with no new start of ours, so that it is waited for; what never was has to be put right first.
pub(super) fn checkpoint_failure(Failure { class, reason }: Failure, topic: &str, was_allowed: bool) -> Failure {
    let reason = format!("the checkpoint cannot be written: {reason}");
    let check = format!("to see what topic \"{topic}\" has to be like, run: walpost check");
    match class {
        Class::Row | Class::Route if was_allowed => {
            Failure::new(Class::Sink, format!("{reason}; {check}; the whole group waits and is sent again"))
        }
        Class::Row | Class::Route => Failure::new(Class::Configuration, format!("{reason}; {check}")),
        Class::Sink | Class::Withdrawn | Class::Configuration => Failure::new(class, reason),
    }
}

/// The same of one that went with its transaction, of which the client says why.
pub(super) fn withdrawn_checkpoint(topic: &str, why: &str) -> Failure {
    Failure::new(
        Class::Withdrawn,
        format!(
            "the checkpoint cannot be written, to topic \"{topic}\", because its transaction failed: {why}; to see what topics have to be like, run: \
             walpost check; a right to this one is given with {}; the whole group waits and is sent again",
            compacted::permission(topic)
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::classify::Undelivered;

    fn failure(code: Code, was_allowed: bool) -> Failure {
        let record = Undelivered {
            topic: "checkpoints",
            size: 42,
            partition: Some(0),
            timestamp_ms: None,
            is_dated_by_row: false,
        };
        let judge = if was_allowed { classify::failure_of_known_user } else { classify::failure };
        checkpoint_failure(judge(code, &record), "checkpoints", was_allowed)
    }

    #[test]
    fn what_the_topic_of_checkpoints_refuses_is_waited_for_once_it_took_one_and_names_it() {
        use Code::*;
        for code in [
            TopicAuthorizationFailed,
            UnknownTopic,
            UnknownTopicOrPartition,
            UnknownTopicId,
            UnknownPartition,
            MessageSizeTooLarge,
            MessageBatchTooLarge,
            InvalidRecord,
            InvalidTimestamp,
            PolicyViolation,
        ] {
            for (was_allowed, class) in [(false, Class::Configuration), (true, Class::Sink)] {
                let failure = failure(code, was_allowed);
                assert_eq!(failure.class, class, "{code:?} {failure}");
                for word in
                    ["the checkpoint cannot be written", &format!("{code:?}"), "\"checkpoints\"", "walpost check"]
                {
                    assert!(failure.reason.contains(word), "{word} in {failure}");
                }
            }
        }
    }

    #[test]
    fn what_no_operator_has_to_mend_is_tried_again_from_the_first_and_a_lost_right_once_there_was_one() {
        use Code::*;
        for (code, never, before) in [
            (NotEnoughReplicas, Class::Sink, Class::Sink),
            (NotEnoughReplicasAfterAppend, Class::Sink, Class::Sink),
            (MessageTimedOut, Class::Sink, Class::Sink),
            (KafkaStorageError, Class::Sink, Class::Sink),
            (PurgeQueue, Class::Withdrawn, Class::Withdrawn),
            (ClusterAuthorizationFailed, Class::Configuration, Class::Sink),
            (TransactionalIdAuthorizationFailed, Class::Configuration, Class::Sink),
            (SaslAuthenticationFailed, Class::Configuration, Class::Configuration),
        ] {
            assert_eq!((failure(code, false).class, failure(code, true).class), (never, before), "{code:?}");
        }
    }
}
