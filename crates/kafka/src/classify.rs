//! What an error of Kafka or of its client says about the future.
//!
//! One function decides, once, where the error arises; nobody downstream reads error texts. What librdkafka retries by
//! itself (a new leader, replicas out of sync, a lost connection) does not come here. What nobody foresaw is taken for an
//! outage: trying again and saying so loses nothing.

use rdkafka::types::RDKafkaErrorCode as Code;
use walpost_core::failure::{Class, Failure};
use walpost_core::time::Timestamp;

/// A record that was not delivered, as far as the reason needs it. Nothing of its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Undelivered<'a> {
    pub(crate) topic: &'a str,
    /// Bytes of key and value.
    pub(crate) size: usize,
    /// The partition that a column chose for it, if one did.
    pub(crate) partition: Option<i32>,
    /// Where it is known.
    pub(crate) timestamp_ms: Option<i64>,
    /// Whether a column of the row is its timestamp, and not the time of the commit.
    pub(crate) is_dated_by_row: bool,
}

/// The class of an error code that a delivery report or a refused record can carry.
fn class_of(code: Code) -> Class {
    match code {
        // The broker looked at the record, or at the batch that it is in, and will never take it. An innocent record may
        // share the batch; that it was sent alone is for the caller to see to.
        Code::MessageSizeTooLarge
        | Code::MessageBatchTooLarge
        | Code::InvalidMessageSize
        | Code::InvalidRecord
        | Code::InvalidTimestamp
        | Code::InvalidTopic
        | Code::PolicyViolation
        | Code::UnsupportedForMessageFormat
        // The client itself refuses the name of a topic, or a partition that the topic does not have.
        | Code::InvalidArgument
        | Code::UnknownPartition => Class::Row,

        Code::UnknownTopic
        | Code::UnknownTopicOrPartition
        | Code::UnknownTopicId
        | Code::TopicAuthorizationFailed => Class::Route,

        Code::PurgeQueue
        | Code::PurgeInflight
        // The client was closed with the record in it.
        | Code::BrokerDestroy
        | Code::DestroyBroker
        // Another record of the batch is to blame (KIP-467), or one that was sent before.
        | Code::InvalidDifferentRecord
        | Code::GaplessGuarantee
        | Code::Fatal => Class::Withdrawn,

        Code::ClusterAuthorizationFailed
        | Code::TransactionalIdAuthorizationFailed
        | Code::SaslAuthenticationFailed
        | Code::Authentication
        | Code::UnsupportedSASLMechanism
        | Code::IllegalSASLState
        | Code::SecurityDisabled
        | Code::SSL
        | Code::UnsupportedVersion
        | Code::UnsupportedFeature
        | Code::UnsupportedCompressionType
        | Code::InvalidRequiredAcks
        | Code::InvalidConfig
        | Code::NotConfigured
        | Code::NotImplemented => Class::Configuration,

        // Away, overloaded, or out of step with this producer (which a new one cures): NetworkException,
        // ThrottlingQuotaExceeded, RequestTimedOut, MessageTimedOut, OutOfOrderSequenceNumber, InvalidProducerEpoch,
        // Unknown, and every code that does not exist yet (the type is open).
        _ => Class::Sink,
    }
}

/// The failure of a record for this error.
pub(crate) fn failure(code: Code, record: &Undelivered<'_>) -> Failure {
    let class = match code {
        // A topic without any partition is not the row's fault.
        Code::UnknownPartition if record.partition.is_none() => Class::Route,
        // Nor is when it was committed: an outage made every row that old, or a clock is wrong. The topic is closed to all of them.
        Code::InvalidTimestamp if !record.is_dated_by_row => Class::Route,
        _ => class_of(code),
    };
    Failure::new(class, reason(class, code, record))
}

/// The same of a user whose records were taken before. A right that was taken away is given back by whoever took it, with no new start of ours,
/// so that it is waited for.
pub(crate) fn failure_of_known_user(code: Code, record: &Undelivered<'_>) -> Failure {
    if !is_lost_right(code) {
        return failure(code, record);
    }
    let Undelivered { topic, size, .. } = *record;
    Failure::new(
        Class::Sink,
        format!(
            "topic \"{topic}\": a record of {size} bytes was not delivered: {code}; the user was allowed before: allow it again with \
             kafka-acls.sh --bootstrap-server <broker> --add --allow-principal <principal> --producer --topic {topic}"
        ),
    )
}

/// Whether it is about a right that is no topic's. Kafka derives the one to be an idempotent producer from the right to write to any topic, so that
/// it goes with the last of these.
pub(crate) fn is_lost_right(code: Code) -> bool {
    matches!(code, Code::ClusterAuthorizationFailed | Code::TransactionalIdAuthorizationFailed)
}

fn reason(class: Class, code: Code, record: &Undelivered<'_>) -> String {
    let Undelivered { topic, size, partition, .. } = *record;
    let what = format!("topic \"{topic}\": a record of {size} bytes was not delivered: {code}");
    match (class, code) {
        (_, Code::MessageSizeTooLarge | Code::MessageBatchTooLarge | Code::InvalidMessageSize) => format!(
            "{what}; let the topic take it with kafka-configs.sh --bootstrap-server <broker> --alter --entity-type topics --entity-name {topic} \
             --add-config max.message.bytes=<bytes>, and the producer with message.max.bytes"
        ),
        (_, Code::InvalidRecord) => {
            format!(
                "{what}; a compacted topic, for one, takes no record without a key: look at the topic's cleanup.policy"
            )
        }
        (_, Code::InvalidTimestamp) => format!("{what}; {}", clock_rule(record, now_ms())),
        (Class::Row, Code::UnknownPartition) => {
            format!("{what}; the topic has no partition {}, which the row asks for", partition.unwrap_or(-1))
        }
        (_, Code::TopicAuthorizationFailed) => {
            format!(
                "{what}; allow it with kafka-acls.sh --bootstrap-server <broker> --add --allow-principal <principal> --producer --topic {topic}"
            )
        }
        (Class::Route, _) => {
            format!(
                "{what}; create the topic with kafka-topics.sh --bootstrap-server <broker> --create --topic {topic} --partitions <n>"
            )
        }
        (Class::Row, _) => format!("{what}; correct the row, or the rule that made the record of it"),
        (Class::Withdrawn, _) => format!("{what}; it was taken back and is owed again"),
        (Class::Configuration, _) => format!("{what}; correct the settings of the sink, or the rights of its user"),
        (Class::Sink, _) => format!("{what}; it is tried again"),
    }
}

/// The failure of a record from before 1970, which no topic takes, whatever it is told: so it is the row's own, also where a clock was wrong.
pub(crate) fn before_1970(record: &Undelivered<'_>) -> Failure {
    let Undelivered { topic, size, timestamp_ms, is_dated_by_row, .. } = *record;
    let time = told(timestamp_ms.unwrap_or_default());
    let (whose, remedy) = if is_dated_by_row {
        ("which a column of the row chose", "correct the row")
    } else {
        (
            "the time of its commit",
            "set the clock of the database server right; the row can be sent with a time of its own, from a column that \
             table.field.event.timestamp names",
        )
    };
    Failure::new(
        Class::Row,
        format!(
            "topic \"{topic}\": a record of {size} bytes was not delivered: {}; its timestamp {time}, {whose}, lies before 1970, which Kafka \
             cannot keep; {remedy}",
            Code::InvalidTimestamp
        ),
    )
}

/// Which limit of the topic a timestamp breaks, and what helps. Brokers tell which, and librdkafka does not pass it on; so it is told by our own
/// clock. The text stays the same over all attempts.
fn clock_rule(record: &Undelivered<'_>, now_ms: i64) -> String {
    let Undelivered { topic, timestamp_ms, is_dated_by_row, .. } = *record;
    let whose = if is_dated_by_row { "which a column of the row chose" } else { "the time of its commit" };
    let (before, after) = ("message.timestamp.before.max.ms", "message.timestamp.after.max.ms");
    // The value is Kafka's default.
    let (of_past, of_future) = (format!("{before}=9223372036854775807"), format!("{after}=<ms>"));
    let (what, clocks, change) = match timestamp_ms {
        Some(ms) if ms <= now_ms => {
            (format!("{}, {whose}, is older than the topic's {before} allows", told(ms)), "", of_past)
        }
        Some(ms) => (
            format!("{}, {whose}, is further ahead than the topic's {after} allows", told(ms)),
            "set the clocks right, or ",
            of_future,
        ),
        None => (
            format!("{whose}, is further from the broker's clock than the topic's {before} or {after} allows"),
            "",
            of_past,
        ),
    };
    let row = if is_dated_by_row { ", or correct the row" } else { "" };
    format!(
        "its timestamp {what}; {clocks}raise it with kafka-configs.sh --bootstrap-server <broker> --alter --entity-type topics \
         --entity-name {topic} --add-config {change}, or let the broker's clock count with message.timestamp.type=LogAppendTime in \
         its place{row}"
    )
}

/// A timestamp for people.
fn told(ms: i64) -> String {
    let time = ms.checked_mul(1000).and_then(Timestamp::from_unix_micros);
    time.map_or_else(|| format!("{ms} ms"), Timestamp::to_rfc3339)
}

fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMITTED_MS: i64 = 1_700_000_000_000;

    const RECORD: Undelivered<'_> = Undelivered {
        topic: "orders",
        size: 42,
        partition: None,
        timestamp_ms: Some(COMMITTED_MS),
        is_dated_by_row: false,
    };

    #[track_caller]
    fn all_are(class: Class, codes: &[Code]) {
        for code in codes {
            assert_eq!(class_of(*code), class, "{code:?}");
        }
    }

    #[test]
    fn what_the_broker_will_never_take_is_the_rows_fault() {
        use Code::*;
        all_are(Class::Row, &[MessageSizeTooLarge, MessageBatchTooLarge, InvalidMessageSize, InvalidRecord]);
        all_are(Class::Row, &[InvalidTopic, PolicyViolation, UnsupportedForMessageFormat]);
        all_are(Class::Row, &[InvalidArgument, UnknownPartition]);
    }

    #[test]
    fn a_topic_that_is_missing_or_forbidden_is_a_closed_route() {
        use Code::*;
        all_are(Class::Route, &[UnknownTopic, UnknownTopicOrPartition, UnknownTopicId, TopicAuthorizationFailed]);
    }

    #[test]
    fn what_passes_and_what_nobody_foresaw_is_tried_again() {
        use Code::*;
        all_are(Class::Sink, &[Unknown, InvalidMessage, LeaderNotAvailable, NotLeaderForPartition, RequestTimedOut]);
        all_are(Class::Sink, &[BrokerNotAvailable, NetworkException, NotEnoughReplicas, NotEnoughReplicasAfterAppend]);
        all_are(Class::Sink, &[KafkaStorageError, ThrottlingQuotaExceeded, MessageTimedOut, OperationTimedOut]);
        all_are(Class::Sink, &[OutOfOrderSequenceNumber, DuplicateSequenceNumber, InvalidProducerEpoch]);
        all_are(Class::Sink, &[UnknownProducerId, ProducerFenced, BrokerTransportFailure, AllBrokersDown, Resolve]);
        all_are(Class::Sink, &[QueueFull, Fail, ResourceNotFound]);
    }

    #[test]
    fn what_another_record_or_the_relay_took_with_it_is_withdrawn() {
        use Code::*;
        all_are(Class::Withdrawn, &[PurgeQueue, PurgeInflight, Fatal, GaplessGuarantee, InvalidDifferentRecord]);
        all_are(Class::Withdrawn, &[BrokerDestroy, DestroyBroker]);
    }

    #[test]
    fn a_right_that_was_there_before_is_waited_for() {
        for code in [Code::ClusterAuthorizationFailed, Code::TransactionalIdAuthorizationFailed] {
            assert_eq!(failure(code, &RECORD).class, Class::Configuration);
            let waited_for = failure_of_known_user(code, &RECORD);
            assert_eq!(waited_for.class, Class::Sink);
            assert!(waited_for.reason.contains("kafka-acls.sh"), "{waited_for}");
        }
        assert_eq!(failure_of_known_user(Code::SSL, &RECORD), failure(Code::SSL, &RECORD));
    }

    #[test]
    fn what_no_waiting_cures_is_the_configurations_fault() {
        use Code::*;
        all_are(Class::Configuration, &[ClusterAuthorizationFailed, SaslAuthenticationFailed, Authentication, SSL]);
        all_are(Class::Configuration, &[UnsupportedSASLMechanism, IllegalSASLState, SecurityDisabled]);
        all_are(Class::Configuration, &[UnsupportedVersion, UnsupportedFeature, UnsupportedCompressionType]);
        all_are(Class::Configuration, &[InvalidRequiredAcks, InvalidConfig, NotConfigured, NotImplemented]);
    }

    #[test]
    fn a_reason_names_the_topic_the_error_and_the_way_out() {
        for (code, words) in [
            (
                Code::MessageSizeTooLarge,
                &["42 bytes", "MessageSizeTooLarge", "--add-config max.message.bytes"] as &[&str],
            ),
            (
                Code::UnknownTopicOrPartition,
                &["UnknownTopicOrPartition", "kafka-topics.sh --bootstrap-server <broker> --create --topic orders"],
            ),
            (
                Code::UnknownTopic,
                &["UnknownTopic", "kafka-topics.sh --bootstrap-server <broker> --create --topic orders"],
            ),
            (
                Code::TopicAuthorizationFailed,
                &["TopicAuthorizationFailed", "kafka-acls.sh --bootstrap-server <broker> --add"],
            ),
            (Code::InvalidRecord, &["InvalidRecord", "without a key"]),
            (Code::InvalidTopic, &["InvalidTopic", "correct the row"]),
            (Code::ClusterAuthorizationFailed, &["ClusterAuthorizationFailed", "rights"]),
            (Code::PurgeQueue, &["PurgeQueue", "owed again"]),
            (Code::NetworkException, &["NetworkException", "tried again"]),
        ] {
            let reason = failure(code, &RECORD).reason;
            assert!(reason.starts_with("topic \"orders\": "), "{reason}");
            for word in words {
                assert!(reason.contains(word), "{word:?} in {reason}");
            }
        }
    }

    #[test]
    fn a_partition_that_is_not_there_is_named() {
        let asked = failure(Code::UnknownPartition, &Undelivered { partition: Some(7), ..RECORD });
        assert_eq!(asked.class, Class::Row);
        assert!(asked.reason.contains("no partition 7"), "{asked}");
        assert_eq!(failure(Code::UnknownPartition, &RECORD).class, Class::Route);
    }

    #[test]
    fn a_timestamp_that_is_refused_closes_the_route_unless_the_row_chose_it() {
        let chosen = Undelivered { is_dated_by_row: true, ..RECORD };
        assert_eq!(failure(Code::InvalidTimestamp, &RECORD).class, Class::Route);
        assert_eq!(failure(Code::InvalidTimestamp, &chosen).class, Class::Row);
        assert_eq!(failure_of_known_user(Code::InvalidTimestamp, &RECORD).class, Class::Route);
    }

    #[test]
    fn a_timestamp_before_1970_is_the_rows_own_and_told_with_what_helps_and_no_setting_does() {
        for (is_dated_by_row, words) in
            [(true, "correct the row"), (false, "set the clock of the database server right")]
        {
            for ms in [-1, -946_684_800_000, i64::MIN] {
                let said = before_1970(&Undelivered { timestamp_ms: Some(ms), is_dated_by_row, ..RECORD });
                assert_eq!(said.class, Class::Row);
                assert!(
                    said.reason.contains("before 1970") && said.reason.ends_with(words) == is_dated_by_row,
                    "{said}"
                );
                assert!(said.reason.contains(words) && !said.reason.contains("kafka-configs"), "{said}");
            }
        }
    }

    #[test]
    fn a_timestamp_that_is_refused_is_told_with_the_limit_that_it_breaks() {
        let of_row = Undelivered { is_dated_by_row: true, ..RECORD };
        let time = "2023-11-14T22:13:20.000000Z";
        let before = "--entity-name orders --add-config message.timestamp.before.max.ms=9223372036854775807,";
        let after = "--entity-name orders --add-config message.timestamp.after.max.ms=";
        for (record, now_ms, words) in [
            (RECORD, COMMITTED_MS + 1, [time, "the time of its commit", "is older than", before]),
            (RECORD, COMMITTED_MS - 1, ["set the clocks right", "the time of its commit", "is further ahead", after]),
            (of_row, COMMITTED_MS + 1, [time, "a column of the row", "or correct the row", before]),
            (of_row, COMMITTED_MS - 1, [time, "a column of the row", "or correct the row", after]),
        ] {
            let said = clock_rule(&record, now_ms);
            for word in words.into_iter().chain(["message.timestamp.type=LogAppendTime"]) {
                assert!(said.contains(word), "{word:?} in {said}");
            }
        }
        let unknown = clock_rule(&Undelivered { timestamp_ms: None, ..RECORD }, 0);
        assert!(unknown.contains("before.max.ms or message.timestamp.after.max.ms"), "{unknown}");
        let never = clock_rule(&Undelivered { timestamp_ms: Some(i64::MIN), ..of_row }, 0);
        assert!(never.contains("-9223372036854775808 ms"), "{never}");
    }
}
