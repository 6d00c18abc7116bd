//! Transactions and checkpoints.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use tokio::time::timeout;
use walpost_core::failure::{Class, Failure};
use walpost_core::port::{Checkpoints, Refusal, Sink, Ticket, TransactionalSink};
use walpost_core::position::{Checkpoint, Epoch};
use walpost_core::record::Record;
use walpost_kafka::{CheckpointError, CheckpointTopic, Settings, Transactional};

use crate::cluster::{self, CHECKPOINTS, Cluster, PATIENCE, checkpoint, open};

fn cluster() -> Cluster {
    cluster::cluster(&["orders", CHECKPOINTS])
}

fn settings(cluster: &Cluster) -> Settings {
    cluster::settings(cluster, &[("transaction.timeout.ms", "3000")])
}

fn shut(cluster: &Cluster) -> Transactional {
    Transactional::new(&settings(cluster), "relay", CHECKPOINTS).unwrap()
}

async fn opened(cluster: &Cluster) -> Transactional {
    open(shut(cluster)).await
}

fn store(cluster: &Cluster) -> CheckpointTopic {
    CheckpointTopic::new(settings(cluster), "relay", CHECKPOINTS)
}

fn record(value: u64) -> Record {
    cluster::record("orders", &value.to_string())
}

fn publish(sink: &mut Transactional, tickets: std::ops::Range<u64>) {
    for ticket in tickets {
        sink.publish(Ticket(ticket), &record(ticket)).unwrap();
    }
}

async fn deliveries(sink: &mut Transactional, count: usize) -> BTreeMap<u64, Option<Class>> {
    let mut deliveries = Vec::new();
    while deliveries.len() < count {
        timeout(PATIENCE, sink.next_deliveries(&mut deliveries)).await.unwrap();
    }
    deliveries.into_iter().map(|done| (done.ticket.0, done.outcome.err().map(|failure| failure.class))).collect()
}

async fn stored(cluster: &Cluster) -> Option<u64> {
    store(cluster).load().await.unwrap().map(|stored| stored.position.get())
}

#[tokio::test]
async fn a_group_is_committed_with_its_checkpoint_and_the_next_may_follow_at_once() {
    let cluster = cluster();
    let mut sink = opened(&cluster).await;
    for group in 0..3 {
        publish(&mut sink, group * 100..(group + 1) * 100);
        let expected: BTreeMap<_, _> = (group * 100..(group + 1) * 100).map(|ticket| (ticket, None)).collect();
        assert_eq!(deliveries(&mut sink, 100).await, expected, "and of the checkpoint's record there is no report");
        timeout(PATIENCE, sink.commit(&checkpoint(group + 10))).await.unwrap().unwrap();
        assert_eq!(stored(&cluster).await, Some(group + 10));
    }
    // Idle: the checkpoint alone.
    sink.commit(&checkpoint(99)).await.unwrap();
    assert_eq!(stored(&cluster).await, Some(99));
    assert!(sink.close(Duration::from_secs(2)).await.is_empty());
}

#[tokio::test]
async fn a_commit_waits_for_records_that_are_not_acknowledged_and_their_reports_come_out_after_it() {
    let cluster = cluster();
    let mut sink = opened(&cluster).await;
    publish(&mut sink, 0..500);
    timeout(PATIENCE, sink.commit(&checkpoint(1))).await.unwrap().unwrap();
    assert_eq!(deliveries(&mut sink, 500).await.len(), 500);
}

#[tokio::test]
async fn nothing_is_accepted_before_the_sink_is_opened_and_after_a_reset() {
    let cluster = cluster();
    let mut sink = shut(&cluster);
    let is_withdrawn = |sink: &mut Transactional| {
        let refused = sink.publish(Ticket(1), &record(1));
        matches!(refused, Err(Refusal::Failed(failure)) if failure.class == Class::Withdrawn)
    };
    assert!(is_withdrawn(&mut sink));
    assert_eq!(sink.commit(&checkpoint(1)).await.unwrap_err().class, Class::Withdrawn);
    sink.open().await.unwrap();
    publish(&mut sink, 0..10);
    timeout(PATIENCE, sink.reset()).await.unwrap().unwrap();
    assert_eq!(deliveries(&mut sink, 10).await.len(), 10, "a reset reports every ticket");
    assert!(is_withdrawn(&mut sink));
    sink.open().await.unwrap();
    publish(&mut sink, 0..10);
    sink.commit(&checkpoint(2)).await.unwrap();
    assert_eq!(stored(&cluster).await, Some(2));
}

#[tokio::test]
async fn a_record_that_fails_fails_its_group_and_opening_again_cures_it() {
    let cluster = cluster();
    let mut sink = opened(&cluster).await;
    sink.commit(&checkpoint(1)).await.unwrap();
    cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
    publish(&mut sink, 0..1);
    assert_eq!(deliveries(&mut sink, 1).await, BTreeMap::from([(0, Some(Class::Row))]));
    let failure = timeout(PATIENCE, sink.commit(&checkpoint(2))).await.unwrap().unwrap_err();
    assert!(!sink.is_fenced(), "{failure}");
    timeout(PATIENCE, sink.reset()).await.unwrap().unwrap();
    assert_eq!(stored(&cluster).await, Some(1));
    timeout(PATIENCE, sink.open()).await.unwrap().unwrap();
    publish(&mut sink, 0..1);
    sink.commit(&checkpoint(2)).await.unwrap();
    assert_eq!(stored(&cluster).await, Some(2));
}

#[tokio::test]
async fn what_a_coordinator_says_while_it_moves_is_waited_out() {
    use RDKafkaRespErr::*;
    let cluster = cluster();
    let mut sink = shut(&cluster);
    cluster.request_errors(
        RDKafkaApiKey::InitProducerId,
        &[RD_KAFKA_RESP_ERR_NOT_COORDINATOR, RD_KAFKA_RESP_ERR_CONCURRENT_TRANSACTIONS],
    );
    timeout(PATIENCE, sink.open()).await.unwrap().unwrap();
    publish(&mut sink, 0..10);
    cluster.request_errors(
        RDKafkaApiKey::EndTxn,
        &[RD_KAFKA_RESP_ERR_COORDINATOR_LOAD_IN_PROGRESS, RD_KAFKA_RESP_ERR__TRANSPORT],
    );
    timeout(PATIENCE, sink.commit(&checkpoint(1))).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_fence_is_told_from_other_failures_and_says_what_it_may_be() {
    use RDKafkaRespErr::*;
    let cluster = cluster();
    let mut sink = opened(&cluster).await;
    cluster.request_errors(RDKafkaApiKey::EndTxn, &[RD_KAFKA_RESP_ERR_PRODUCER_FENCED]);
    publish(&mut sink, 0..1);
    let failure = timeout(PATIENCE, sink.commit(&checkpoint(1))).await.unwrap().unwrap_err();
    assert!(sink.is_fenced());
    assert_eq!(failure.class, Class::Configuration);
    assert!(failure.reason.contains("another instance with this relay name has taken over"), "{failure}");
    let refused = sink.publish(Ticket(9), &record(9));
    assert!(matches!(&refused, Err(Refusal::Failed(said)) if *said == failure), "{refused:?}");
    // It does not come back by itself, and may be told to.
    timeout(PATIENCE, sink.reset()).await.unwrap().unwrap();
    assert!(sink.publish(Ticket(9), &record(9)).is_err());
    timeout(PATIENCE, sink.open()).await.unwrap().unwrap();
    assert!(!sink.is_fenced());
    sink.commit(&checkpoint(1)).await.unwrap();
}

#[tokio::test]
async fn what_only_an_operator_can_change_is_said_with_the_command() {
    use RDKafkaRespErr::*;
    let cluster = cluster();
    for (error, words) in [
        (
            RD_KAFKA_RESP_ERR_TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
            &["kafka-acls.sh", "--transactional-id walpost-relay"] as &[&str],
        ),
        (RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, &["kafka-acls.sh", "IdempotentWrite"]),
        (
            RD_KAFKA_RESP_ERR_INVALID_TRANSACTION_TIMEOUT,
            &["transaction.timeout.ms = 3000", "transaction.max.timeout.ms"],
        ),
    ] {
        let mut sink = shut(&cluster);
        cluster.request_errors(RDKafkaApiKey::InitProducerId, &[error]);
        let failure = timeout(PATIENCE, sink.open()).await.unwrap().unwrap_err();
        assert_eq!(failure.class, Class::Configuration, "{failure}");
        for word in words {
            assert!(failure.reason.contains(word), "{word} in {failure}");
        }
    }
}

#[tokio::test]
async fn a_commit_without_an_answer_fails_in_time_and_does_not_claim_that_nothing_happened() {
    let cluster = cluster();
    let mut sink = opened(&cluster).await;
    publish(&mut sink, 0..1);
    deliveries(&mut sink, 1).await;
    cluster.broker_down(-1).unwrap();
    // The record of the checkpoint waits for the broker; it is given up before its transaction is.
    let failure = timeout(Duration::from_secs(15), sink.commit(&checkpoint(1))).await.unwrap().unwrap_err();
    assert_eq!(failure.class, Class::Sink, "{failure}");
    cluster.broker_up(-1).unwrap();
    timeout(PATIENCE, sink.reset()).await.unwrap().unwrap();
    timeout(PATIENCE, sink.open()).await.unwrap().unwrap();
    publish(&mut sink, 0..1);
    timeout(PATIENCE, sink.commit(&checkpoint(1))).await.unwrap().unwrap();
    assert_eq!(stored(&cluster).await, Some(1));
}

#[tokio::test]
async fn a_checkpoint_is_claimed_saved_forward_only_replaced_and_forgotten() {
    let cluster = cluster();
    let mut first = store(&cluster);
    assert_eq!(first.load().await.unwrap(), None);
    assert!(matches!(first.save(&checkpoint(1)).await, Err(CheckpointError::NotClaimed)));
    assert_eq!(first.claim(&checkpoint(10)).await.unwrap(), Epoch(1));
    first.save(&checkpoint(20)).await.unwrap();
    assert!(matches!(first.save(&checkpoint(19)).await, Err(CheckpointError::Backwards { .. })));
    assert_eq!(first.load().await.unwrap(), Some(Checkpoint { epoch: Epoch(1), ..checkpoint(20) }));

    let mut second = store(&cluster);
    assert_eq!(second.claim(&checkpoint(15)).await.unwrap(), Epoch(2), "and it is not behind what was saved");
    assert_eq!(stored(&cluster).await, Some(20));
    assert_eq!(second.replace(&checkpoint(5)).await.unwrap(), Epoch(3));
    assert_eq!(stored(&cluster).await, Some(5));
    let other = CheckpointTopic::new(settings(&cluster), "other", CHECKPOINTS).load().await.unwrap();
    assert_eq!(other, None, "a record belongs to one relay");

    assert!(second.forget().await.unwrap());
    assert!(!second.forget().await.unwrap());
    assert_eq!(stored(&cluster).await, None);
}

#[test]
fn a_claim_belongs_to_one_slot_of_one_server() {
    let stored = Checkpoint { epoch: Epoch(4), ..checkpoint(30) };
    let offered = checkpoint(20);
    assert_eq!(offered.claimed(None), Checkpoint { epoch: Epoch(1), ..offered.clone() });
    assert_eq!(offered.claimed(Some(&stored)), Checkpoint { epoch: Epoch(5), ..checkpoint(30) });
    let of_another_slot = Checkpoint { slot: "other".to_owned(), ..stored };
    assert_eq!(offered.claimed(Some(&of_another_slot)), Checkpoint { epoch: Epoch(5), ..offered });
}

#[tokio::test]
async fn a_topic_that_is_missing_is_told_with_the_command_that_makes_it() {
    let cluster = cluster();
    cluster.topic_error("absent", RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART).unwrap();
    cluster.topic_error("closed", RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED).unwrap();
    for (topic, words) in [
        ("absent", &["walpost init", "kafka-topics.sh", "cleanup.policy=compact"] as &[&str]),
        ("closed", &["kafka-acls.sh", "--topic closed"]),
    ] {
        let mut store = CheckpointTopic::new(settings(&cluster), "relay", topic);
        let error = store.load().await.unwrap_err();
        let remedy = error.remedy().unwrap();
        let findings = store.check().await;
        assert_eq!(findings.len(), 1, "{findings:?}");
        for word in words {
            assert!(remedy.contains(word), "{word} in {remedy}");
            assert!(findings[0].remedy.contains(word), "{word} in {findings:?}");
        }
    }
}

/// Fails one commit of a sink that has committed before, and answers why. The next group goes through, and readers of committed records see nothing of
/// the first.
async fn failed_commit(
    cluster: &Cluster,
    sink: &mut Transactional,
    fail: impl FnOnce(),
    heal: impl FnOnce(),
) -> Failure {
    sink.commit(&checkpoint(1)).await.unwrap();
    publish(sink, 0..1);
    assert_eq!(deliveries(sink, 1).await, BTreeMap::from([(0, None)]));
    fail();
    let failure = timeout(PATIENCE, sink.commit(&checkpoint(2))).await.unwrap().unwrap_err();
    assert!(!sink.is_fenced(), "{failure}");
    heal();
    timeout(PATIENCE, sink.reset()).await.unwrap().unwrap();
    assert_eq!(stored(cluster).await, Some(1));
    timeout(PATIENCE, sink.open()).await.unwrap().unwrap();
    publish(sink, 0..1);
    assert_eq!(deliveries(sink, 1).await, BTreeMap::from([(0, None)]));
    timeout(PATIENCE, sink.commit(&checkpoint(2))).await.unwrap().unwrap();
    assert_eq!(stored(cluster).await, Some(2));
    failure
}

#[tokio::test]
async fn what_the_topic_of_checkpoints_refuses_under_way_fails_the_group_and_no_more() {
    use RDKafkaRespErr::*;
    for (api, error, words) in [
        (RDKafkaApiKey::Produce, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, "TopicAuthorizationFailed"),
        (RDKafkaApiKey::Produce, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, "MessageSizeTooLarge"),
        (RDKafkaApiKey::Produce, RD_KAFKA_RESP_ERR_POLICY_VIOLATION, "PolicyViolation"),
        (RDKafkaApiKey::Produce, RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, "ClusterAuthorizationFailed"),
        (RDKafkaApiKey::AddPartitionsToTxn, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, "Topic authorization failed"),
        (RDKafkaApiKey::AddPartitionsToTxn, RD_KAFKA_RESP_ERR_POLICY_VIOLATION, "Policy violation"),
    ] {
        let cluster = cluster();
        let mut sink = opened(&cluster).await;
        let fail = || cluster.request_errors(api, &[error]);
        let failure = failed_commit(&cluster, &mut sink, fail, || ()).await;
        assert!(matches!(failure.class, Class::Sink | Class::Withdrawn), "{error:?}: {failure}");
        for word in [CHECKPOINTS, words] {
            assert!(failure.reason.contains(word), "{word} in {failure}");
        }
    }
}

#[tokio::test]
async fn a_topic_of_checkpoints_that_is_closed_under_way_is_named_and_waited_for() {
    use RDKafkaRespErr::*;
    for error in [RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART] {
        let cluster = cluster();
        // So that the client sees it at once, as it would after some minutes.
        let often = [("transaction.timeout.ms", "3000"), ("topic.metadata.refresh.interval.ms", "100")];
        let settings = cluster::settings(&cluster, &often);
        let mut sink = open(Transactional::new(&settings, "relay", CHECKPOINTS).unwrap()).await;
        let say = |error| cluster.topic_error(CHECKPOINTS, error).unwrap();
        let fail = || {
            say(error);
            cluster.request_errors(RDKafkaApiKey::Produce, &[error; 20]);
        };
        let heal = || {
            say(RD_KAFKA_RESP_ERR_NO_ERROR);
            cluster.clear_request_errors(RDKafkaApiKey::Produce);
        };
        let failure = failed_commit(&cluster, &mut sink, fail, heal).await;
        assert!(matches!(failure.class, Class::Sink | Class::Withdrawn), "{error:?}: {failure}");
        assert!(failure.reason.contains(CHECKPOINTS), "{failure}");
    }
}

#[tokio::test]
async fn too_few_replicas_of_the_topic_of_checkpoints_are_waited_out() {
    use RDKafkaRespErr::*;
    let cluster = cluster();
    let mut sink = opened(&cluster).await;
    publish(&mut sink, 0..1);
    deliveries(&mut sink, 1).await;
    let away = [RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND];
    cluster.request_errors(RDKafkaApiKey::Produce, &away);
    timeout(PATIENCE, sink.commit(&checkpoint(1))).await.unwrap().unwrap();
    assert_eq!(stored(&cluster).await, Some(1));
}

#[tokio::test]
async fn a_topic_of_checkpoints_that_never_took_one_is_a_fault_of_the_configuration() {
    let cluster = cluster();
    let mut sink = opened(&cluster).await;
    cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED]);
    let failure = timeout(PATIENCE, sink.commit(&checkpoint(1))).await.unwrap().unwrap_err();
    assert_eq!(failure.class, Class::Configuration, "{failure}");
    assert!(failure.reason.contains("walpost check"), "{failure}");
}
