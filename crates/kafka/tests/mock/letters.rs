//! Dead letters in a topic.

use std::time::Duration;

use bytes::Bytes;
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use tokio::time::timeout;
use walpost_core::failure::Class;
use walpost_core::outbox::TableName;
use walpost_core::poison::{Cause, DeadLetter, ParkingKey, Row};
use walpost_core::port::{DeadLetters, Refusal, Sink, TransactionalSink};
use walpost_core::time::Timestamp;
use walpost_kafka::{LetterError, LetterTopic, Letters, Settings, Transactional};

use crate::cluster::{self, CHECKPOINTS, Cluster, PATIENCE, checkpoint, identity, open};

const LETTERS: &str = "letters";

fn cluster() -> Cluster {
    cluster::cluster(&[LETTERS, CHECKPOINTS])
}

fn settings(cluster: &Cluster) -> Settings {
    cluster::settings(cluster, &[("client.id", "desk")])
}

fn store(cluster: &Cluster) -> LetterTopic {
    LetterTopic::new(settings(cluster), "relay", LETTERS, Duration::from_secs(3600))
}

async fn opened(cluster: &Cluster) -> Transactional {
    let settings = settings(cluster);
    let sink = Transactional::new(&settings, "relay", CHECKPOINTS).unwrap();
    open(sink.with_letters(&settings, LETTERS)).await
}

fn letter(ordinal: u64) -> DeadLetter {
    let table = TableName { schema: "public".to_owned(), table: "outbox".to_owned() };
    DeadLetter {
        identity: identity(ordinal),
        commit_time: Timestamp::from_postgres_micros(1),
        parking_key: Some(ParkingKey { table: table.clone(), route: None, key: Bytes::from_static(b"key") }),
        table,
        event_id: None,
        cause: Cause::Row("odd".to_owned()),
        record: None,
        row: Row { relation: Bytes::from_static(b"R"), insert: Bytes::from_static(b"I"), reference: None },
    }
}

#[tokio::test]
async fn a_topic_that_is_missing_or_forbidden_is_told_with_the_command_that_mends_it() {
    let cluster = cluster();
    cluster.topic_error("absent", RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART).unwrap();
    cluster.topic_error("closed", RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED).unwrap();
    for (topic, words) in [
        ("absent", &["walpost init", "kafka-topics.sh", "cleanup.policy=compact", "max.message.bytes"] as &[&str]),
        ("closed", &["kafka-acls.sh", "--topic closed"]),
    ] {
        let mut store = LetterTopic::new(settings(&cluster), "relay", topic, PATIENCE);
        let errors = [
            store.inventory().await.unwrap_err(),
            store.set_aside(&[letter(0)]).await.unwrap_err(),
            store.marked(10, false).await.unwrap_err(),
            Letters::open(&settings(&cluster), "relay", topic).await.unwrap_err(),
        ];
        let findings = store.check().await;
        assert_eq!(findings.len(), 1, "{findings:?}");
        for word in words {
            for error in &errors {
                let remedy = error.remedy().unwrap();
                assert!(remedy.contains(word), "{word} in {remedy}");
            }
            assert!(findings[0].remedy.contains(word), "{word} in {findings:?}");
        }
    }
}

#[tokio::test]
async fn what_the_topic_does_not_take_is_still_owed_and_the_next_call_writes_it() {
    let cluster = cluster();
    let mut store = store(&cluster);
    for (error, is_final) in [
        (RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, true),
        (RDKafkaRespErr::RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, true),
        (RDKafkaRespErr::RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION, false),
    ] {
        cluster.request_errors(RDKafkaApiKey::Produce, &[error]);
        let failed = timeout(PATIENCE, store.set_aside(&[letter(0)])).await.unwrap().unwrap_err();
        assert!(matches!(failed, LetterError::Write(_)), "{failed:?}");
        assert_eq!(failed.remedy().is_some(), is_final, "{failed}");
        assert!(!is_final || failed.to_string().contains("walpost check"), "{failed}");
    }
    assert_eq!(store.inventory().await.unwrap().letters, 0);
    let both = [letter(0), letter(1)];
    assert_eq!(timeout(PATIENCE, store.set_aside(&both)).await.unwrap().unwrap(), [true, true]);
    assert_eq!(timeout(PATIENCE, store.set_aside(&both)).await.unwrap().unwrap(), [false, false]);
    assert_eq!(store.inventory().await.unwrap().letters, 2);
}

#[tokio::test]
async fn a_mark_says_who_asked_for_it_by_client_and_person() {
    use walpost_core::poison::operator::{Filter, Mark, Selection};
    let cluster = cluster();
    store(&cluster).set_aside(&[letter(0)]).await.unwrap();
    let mut desk = Letters::open(&settings(&cluster), "relay", LETTERS).await.unwrap();
    let all = Selection { filter: Filter::default(), with_those_behind: false };
    assert_eq!(desk.mark(&all, Mark::Drop, "alice@box").await.unwrap(), 1);
    let desk = Letters::open(&settings(&cluster), "relay", LETTERS).await.unwrap();
    let listed = desk.list(&Filter::default(), -1);
    assert_eq!(listed[0].marked_by.as_deref(), Some("desk (alice@box)"));
}

#[tokio::test]
async fn a_letter_that_fails_is_told_by_the_commit_alone_and_the_next_group_is_a_new_one() {
    let cluster = cluster();
    let mut sink = opened(&cluster).await;
    cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
    sink.set_aside(&letter(0)).unwrap();
    // Its report has come, and nobody is told of it.
    let mut deliveries = Vec::new();
    assert!(timeout(Duration::from_secs(2), sink.next_deliveries(&mut deliveries)).await.is_err());
    assert!(deliveries.is_empty(), "{deliveries:?}");
    let refused = sink.set_aside(&letter(1)).unwrap_err();
    let Refusal::Failed(refused) = refused else { panic!("{refused:?}") };
    let failure = timeout(PATIENCE, sink.commit(&checkpoint(1))).await.unwrap().unwrap_err();
    for failure in [refused, failure] {
        assert_eq!(failure.class, Class::Sink, "it is sent again: {failure}");
        for word in ["a dead letter cannot be written", "topic \"letters\"", "walpost check"] {
            assert!(failure.reason.contains(word), "{word} in {failure}");
        }
    }
    timeout(PATIENCE, sink.reset()).await.unwrap().unwrap();
    assert!(matches!(sink.set_aside(&letter(0)), Err(Refusal::Failed(failure)) if failure.class == Class::Withdrawn));
    timeout(PATIENCE, sink.open()).await.unwrap().unwrap();
    assert!(sink.set_aside(&letter(0)).unwrap(), "what was given up was never there");
    timeout(PATIENCE, sink.commit(&checkpoint(1))).await.unwrap().unwrap();
    let mut store = sink.letter_topic(&settings(&cluster), PATIENCE).unwrap();
    assert!(store.inventory().await.unwrap().letters >= 1);
    assert!(!sink.set_aside(&letter(0)).unwrap(), "it lies there, as the store has read");
}

#[tokio::test]
async fn a_sink_without_a_topic_of_letters_refuses_them() {
    let cluster = cluster();
    let mut sink = open(Transactional::new(&settings(&cluster), "relay", CHECKPOINTS).unwrap()).await;
    assert!(
        matches!(sink.set_aside(&letter(0)), Err(Refusal::Failed(failure)) if failure.class == Class::Configuration)
    );
    assert!(sink.letter_topic(&settings(&cluster), PATIENCE).is_none());
}
