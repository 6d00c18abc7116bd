//! The producer: what is delivered, in which order, and what is said of the rest.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::{Headers as _, Message};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use tokio::time::timeout;
use walpost_core::failure::Class;
use walpost_core::finding::Severity;
use walpost_core::port::{Delivery, Refusal, Sink, Ticket};
use walpost_core::record::{Header, Headers, Record};
use walpost_kafka::{Producer, Settings, check};

use crate::cluster::{Cluster, LIMITS, Line, PATIENCE, cluster, record, settings};

pub(crate) fn producer(cluster: &Cluster, more: &[(&str, &str)]) -> Line<Producer> {
    Line::new(Producer::new(settings(cluster, more)).unwrap())
}

/// Ends a producer, and answers what no test has asked for.
async fn close(producer: Line<Producer>, limit: Duration) -> Vec<Delivery> {
    let Line { sink, mut done } = producer;
    done.extend(timeout(PATIENCE, sink.close(limit)).await.unwrap());
    done
}

pub(crate) fn delivered(deliveries: &[Delivery]) -> Vec<u64> {
    deliveries.iter().filter(|delivery| delivery.outcome.is_ok()).map(|delivery| delivery.ticket.0).collect()
}

pub(crate) fn classes(deliveries: &[Delivery]) -> BTreeMap<u64, Option<Class>> {
    let all: BTreeMap<_, _> = deliveries
        .iter()
        .map(|delivery| (delivery.ticket.0, delivery.outcome.as_ref().err().map(|failure| failure.class)))
        .collect();
    assert_eq!(all.len(), deliveries.len(), "a ticket was reported twice");
    all
}

/// What a consumer reads from partitions, until `count` records have come.
pub(crate) fn consume<T>(
    cluster: &Cluster,
    topic: &str,
    partitions: Range<i32>,
    count: usize,
    read: impl Fn(&rdkafka::message::BorrowedMessage<'_>) -> T,
) -> Vec<T> {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", cluster.bootstrap_servers())
        .set("group.id", "test")
        .create()
        .unwrap();
    let mut assigned = TopicPartitionList::new();
    for partition in partitions {
        assigned.add_partition_offset(topic, partition, Offset::Beginning).unwrap();
    }
    consumer.assign(&assigned).unwrap();
    let mut records = Vec::new();
    while records.len() < count {
        let message = consumer.poll(PATIENCE).expect("a record is missing").unwrap();
        records.push(read(&message));
    }
    assert!(consumer.poll(Duration::from_millis(200)).is_none(), "there are more records than were sent");
    records
}

pub(crate) fn values(cluster: &Cluster, topic: &str, count: usize) -> Vec<u64> {
    consume(cluster, topic, 0..1, count, |message| {
        std::str::from_utf8(message.payload().unwrap()).unwrap().parse().unwrap()
    })
}

#[tokio::test]
async fn records_are_delivered_in_order_and_reported_once() {
    let cluster = cluster(&["orders"]);
    let mut producer = producer(&cluster, &[]);
    producer.publish("orders", 0..20_000).await;
    assert_eq!(delivered(&producer.deliveries(20_000).await), (0..20_000).collect::<Vec<_>>());
    assert!(close(producer, PATIENCE).await.is_empty());
    assert_eq!(values(&cluster, "orders", 20_000), (0..20_000).collect::<Vec<_>>());
}

#[tokio::test]
async fn closing_delivers_what_is_queued() {
    let cluster = cluster(&["orders"]);
    let mut producer = producer(&cluster, &[("linger.ms", "1000")]);
    producer.publish("orders", 0..100).await;
    let done = close(producer, PATIENCE).await;
    assert_eq!(delivered(&done), (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn closing_without_a_broker_gives_everything_back_in_time() {
    let cluster = cluster(&["orders"]);
    let mut producer = producer(&cluster, &[]);
    producer.publish("orders", 0..10).await;
    producer.deliveries(10).await;
    cluster.broker_down(-1).unwrap();
    producer.publish("orders", 10..20).await;
    let done = timeout(Duration::from_secs(20), close(producer, Duration::from_millis(500))).await.unwrap();
    let expected: BTreeMap<_, _> = (10..20).map(|ticket| (ticket, Some(Class::Withdrawn))).collect();
    assert_eq!(classes(&done), expected);
}

#[tokio::test]
async fn bytes_headers_keys_and_tombstones_arrive_as_they_are() {
    let cluster = cluster(&["orders"]);
    let mut producer = producer(&cluster, &[]);
    let header = |name: &str, value: Option<&'static [u8]>| Header {
        name: Arc::from(name),
        value: value.map(Bytes::from_static),
    };
    let headers = [
        header("id", Some(b"1")),
        header("id", Some(b"2")),
        header("none", None),
        header("empty", Some(b"")),
        header("", Some(b"\0\xff")),
    ];
    let plain = record("orders", "x");
    let sent = [
        Record {
            headers: headers.into_iter().collect(),
            value: Some(Bytes::from_static(b"\0\xff{ ")),
            ..plain.clone()
        },
        Record { value: None, ..plain.clone() },
        Record { value: Some(Bytes::new()), key: Some(Bytes::new()), ..plain.clone() },
        Record { key: None, partition: Some(0), timestamp_ms: 0, ..plain },
    ];
    for (ticket, record) in (0..).zip(&sent) {
        producer.offer(ticket, record).await;
    }
    assert_eq!(delivered(&producer.deliveries(4).await), [0, 1, 2, 3]);

    let read = consume(&cluster, "orders", 0..1, 4, |message| Record {
        identity: sent[0].identity,
        topic: Arc::from(message.topic()),
        key: message.key().map(Bytes::copy_from_slice),
        value: message.payload().map(Bytes::copy_from_slice),
        headers: message.headers().map_or_else(Headers::new, |headers| {
            let owned = |header: rdkafka::message::Header<'_, &[u8]>| Header {
                name: Arc::from(header.key),
                value: header.value.map(Bytes::copy_from_slice),
            };
            headers.iter().map(owned).collect()
        }),
        timestamp_ms: message.timestamp().to_millis().unwrap(),
        is_dated_by_row: false,
        partition: None,
    });
    for (read, sent) in read.iter().zip(sent) {
        // librdkafka would take the timestamp 0 for "now".
        assert_eq!(*read, Record { partition: None, timestamp_ms: sent.timestamp_ms.max(1), ..sent });
    }
}

#[tokio::test]
async fn a_full_queue_refuses_a_record_and_takes_it_later() {
    let cluster = cluster(&["orders"]);
    let mut producer = producer(&cluster, &[("queue.buffering.max.messages", "10"), ("linger.ms", "200")]);
    producer.publish("orders", 0..10).await;
    producer.deliveries(10).await;
    let record = record("orders", "x");
    for ticket in 10..20 {
        producer.sink.publish(Ticket(ticket), &record).unwrap();
    }
    assert_eq!(producer.sink.publish(Ticket(20), &record), Err(Refusal::Full));
    producer.deliveries(10).await;
    assert_eq!(producer.sink.publish(Ticket(20), &record), Ok(()));
    assert_eq!(delivered(&producer.deliveries(1).await), [20]);
}

#[tokio::test]
async fn a_record_that_can_never_be_sent_is_refused_at_once_and_nothing_else_suffers() {
    let cluster = cluster(&["orders"]);
    let mut producer = producer(&cluster, &[("message.max.bytes", "2000")]);
    let good = record("orders", "x");
    let bad = [
        (Record { value: Some(Bytes::from(vec![b'x'; 2001])), ..good.clone() }, "MessageSizeTooLarge"),
        (Record { topic: Arc::from("a b"), ..good.clone() }, "InvalidTopic"),
        (Record { topic: Arc::from("a\0b"), ..good.clone() }, "InvalidTopic"),
        (Record { topic: Arc::from(""), ..good.clone() }, "InvalidTopic"),
        (Record { timestamp_ms: -1, ..good.clone() }, "InvalidTimestamp"),
    ];
    for (record, name) in &bad {
        let Err(Refusal::Failed(failure)) = producer.sink.publish(Ticket(1), record) else {
            panic!("{name} was accepted")
        };
        assert_eq!(failure.class, Class::Row, "{failure}");
        assert!(failure.reason.contains(name), "{failure}");
    }
    producer.sink.publish(Ticket(2), &good).unwrap();
    assert_eq!(delivered(&producer.deliveries(1).await), [2]);
}

#[tokio::test]
async fn a_partition_that_is_not_there_is_the_rows_fault() {
    let cluster = cluster(&["orders"]);
    let mut producer = producer(&cluster, &[]);
    producer.sink.publish(Ticket(1), &Record { partition: Some(7), ..record("orders", "x") }).unwrap();
    let done = producer.deliveries(1).await;
    let failure = done[0].outcome.as_ref().unwrap_err();
    assert_eq!(failure.class, Class::Row, "{failure}");
    assert!(failure.reason.contains("no partition 7"), "{failure}");
}

#[tokio::test]
async fn errors_of_the_broker_come_back_in_their_class_and_a_reset_cures_them() {
    use RDKafkaRespErr::*;
    let cluster = cluster(&["orders"]);
    let mut producer = producer(&cluster, &[]);
    for (ticket, (error, class)) in (0..).zip([
        // Before a record was taken.
        (RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, Class::Configuration),
        (RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, Class::Row),
        (RD_KAFKA_RESP_ERR_RECORD_LIST_TOO_LARGE, Class::Row),
        (RD_KAFKA_RESP_ERR_INVALID_RECORD, Class::Row),
        (RD_KAFKA_RESP_ERR_POLICY_VIOLATION, Class::Row),
        // Nobody configured it.
        (RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP, Class::Route),
        (RD_KAFKA_RESP_ERR_TOPIC_EXCEPTION, Class::Row),
        (RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, Class::Route),
        (RD_KAFKA_RESP_ERR_CLUSTER_AUTHORIZATION_FAILED, Class::Sink),
        (RD_KAFKA_RESP_ERR_NETWORK_EXCEPTION, Class::Sink),
        (RD_KAFKA_RESP_ERR_THROTTLING_QUOTA_EXCEEDED, Class::Sink),
        (RD_KAFKA_RESP_ERR_UNKNOWN, Class::Sink),
        (RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, Class::Sink),
    ]) {
        cluster.request_errors(RDKafkaApiKey::Produce, &[error]);
        producer.publish("orders", ticket..ticket + 1).await;
        let done = producer.deliveries(1).await;
        let failure = done[0].outcome.as_ref().unwrap_err();
        assert_eq!(failure.class, class, "{failure}");
        assert!(failure.reason.contains("\"orders\""), "{failure}");
        producer.reset().await;
        producer.publish("orders", ticket..ticket + 1).await;
        assert_eq!(delivered(&producer.deliveries(1).await), [ticket], "{error:?}");
    }
    assert_eq!(values(&cluster, "orders", 13), (0..13).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_timestamp_is_the_rows_fault_only_where_the_row_chose_it() {
    let cluster = cluster(&["orders"]);
    let mut producer = producer(&cluster, &[]);
    for (is_dated_by_row, class) in [(true, Class::Row), (false, Class::Route)] {
        cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_INVALID_TIMESTAMP]);
        producer.sink.publish(Ticket(1), &Record { is_dated_by_row, ..record("orders", "x") }).unwrap();
        let done = producer.deliveries(1).await;
        let failure = done[0].outcome.as_ref().unwrap_err();
        assert_eq!(failure.class, class, "{failure}");
        let command = "--entity-name orders --add-config message.timestamp.before.max.ms=";
        for words in ["2023-11-14T22:13:20.000000Z", command] {
            assert!(failure.reason.contains(words), "{words} in {failure}");
        }
        producer.reset().await;
    }
}

#[tokio::test]
async fn errors_that_pass_are_survived_in_order_without_a_failure() {
    use RDKafkaRespErr::*;
    let cluster = cluster(&["orders"]);
    let mut producer = producer(&cluster, &[]);
    cluster.request_errors(
        RDKafkaApiKey::Produce,
        &[
            RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
            RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
            RD_KAFKA_RESP_ERR__TRANSPORT,
            RD_KAFKA_RESP_ERR_KAFKA_STORAGE_ERROR,
            RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT,
        ],
    );
    producer.publish("orders", 0..100).await;
    assert_eq!(delivered(&producer.deliveries(100).await), (0..100).collect::<Vec<_>>());
    assert_eq!(values(&cluster, "orders", 100), (0..100).collect::<Vec<_>>());
}

#[tokio::test]
async fn nothing_overtakes_a_record_that_failed_and_a_reset_reports_every_ticket_once() {
    let cluster = cluster(&["orders"]);
    let mut producer = producer(&cluster, &[("batch.num.messages", "10"), ("max.in.flight", "1")]);
    producer.publish("orders", 0..10).await;
    producer.deliveries(10).await;

    cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
    let mut next = 10;
    // From the first report on nothing is accepted any more. It may come while there is more to send.
    let refused = loop {
        match producer.sink.publish(Ticket(next), &record("orders", &next.to_string())) {
            Ok(()) => next += 1,
            Err(Refusal::Full) => producer.wait().await,
            Err(refused) => break refused,
        }
        if next >= 100 {
            producer.wait().await;
        }
    };
    assert!(matches!(&refused, Refusal::Failed(failure) if failure.class == Class::Withdrawn), "{refused:?}");

    producer.reset().await;
    let sent = usize::try_from(next - 10).unwrap();
    let classes = classes(&producer.deliveries(sent).await);
    assert_eq!(classes.keys().copied().collect::<Vec<_>>(), (10..next).collect::<Vec<_>>());
    assert_eq!(classes[&10], Some(Class::Row));
    assert!(classes.values().all(Option::is_some), "a record overtook the failed one: {classes:?}");
    assert!(classes.range(20..).all(|(_, class)| *class == Some(Class::Withdrawn)), "{classes:?}");

    producer.publish("orders", 10..200).await;
    assert_eq!(delivered(&producer.deliveries(190).await), (10..200).collect::<Vec<_>>());
    assert_eq!(values(&cluster, "orders", 200), (0..200).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_reset_in_the_middle_of_an_outage_gives_everything_back() {
    let cluster = cluster(&["orders"]);
    let mut producer = producer(&cluster, &[]);
    producer.publish("orders", 0..10).await;
    producer.deliveries(10).await;
    cluster.broker_down(-1).unwrap();
    producer.publish("orders", 10..500).await;
    producer.reset().await;
    let expected: BTreeMap<_, _> = (10..500).map(|ticket| (ticket, Some(Class::Withdrawn))).collect();
    assert_eq!(classes(&producer.deliveries(490).await), expected);

    cluster.broker_up(-1).unwrap();
    producer.publish("orders", 10..500).await;
    assert_eq!(delivered(&producer.deliveries(490).await), (10..500).collect::<Vec<_>>());
    assert_eq!(values(&cluster, "orders", 500), (0..500).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_reset_with_nothing_out_is_quick_and_harmless() {
    let cluster = cluster(&["orders"]);
    let mut producer = producer(&cluster, &[]);
    for _ in 0..2 {
        timeout(Duration::from_secs(5), producer.reset()).await.unwrap();
    }
    producer.publish("orders", 0..1).await;
    assert_eq!(delivered(&producer.deliveries(1).await), [0]);
}

#[tokio::test]
async fn an_outage_delays_records_and_keeps_their_order() {
    let cluster = cluster(&["orders"]);
    let mut producer = producer(&cluster, &[]);
    producer.publish("orders", 0..100).await;
    cluster.broker_down(-1).unwrap();
    producer.publish("orders", 100..200).await;
    // Long enough for several attempts to connect; nothing is given up meanwhile.
    let outage = tokio::time::sleep(Duration::from_millis(1500));
    tokio::pin!(outage);
    loop {
        tokio::select! {
            () = &mut outage => break,
            () = producer.sink.next_deliveries(&mut producer.done) => {}
        }
    }
    assert!(producer.done.len() < 200, "the broker was not away");
    cluster.broker_up(-1).unwrap();
    assert_eq!(delivered(&producer.deliveries(200).await), (0..200).collect::<Vec<_>>());
    assert_eq!(values(&cluster, "orders", 200), (0..200).collect::<Vec<_>>());
}

/// Waits until the producer thinks so, of which it hears while it waits for deliveries that there are none of.
async fn wait_until_away(producer: &mut Line<Producer>, is_away: bool) {
    let wait = async {
        while producer.sink.away().is_some() != is_away {
            let mut none = Vec::new();
            let _ = timeout(Duration::from_millis(50), producer.sink.next_deliveries(&mut none)).await;
            assert_eq!(none, []);
        }
    };
    timeout(PATIENCE, wait).await.unwrap();
}

#[tokio::test]
async fn brokers_that_are_away_are_noticed_with_nothing_on_its_way_and_so_is_their_return() {
    let cluster = cluster(&["orders"]);
    // Who has published nothing, and who has.
    for records in [0, 1] {
        let mut producer = producer(&cluster, &[]);
        producer.publish("orders", 0..records).await;
        producer.deliveries(usize::try_from(records).unwrap()).await;
        assert_eq!(producer.sink.away(), None);
        cluster.broker_down(-1).unwrap();
        wait_until_away(&mut producer, true).await;
        cluster.broker_up(-1).unwrap();
        wait_until_away(&mut producer, false).await;
    }
}

#[tokio::test]
async fn a_missing_topic_is_a_closed_route_until_it_is_there() {
    let cluster = cluster(&["orders"]);
    cluster.topic_error("lost", RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART).unwrap();
    let mut producer = producer(&cluster, &[("topic.metadata.propagation.max.ms", "500")]);
    producer.publish("lost", 0..1).await;
    let done = producer.deliveries(1).await;
    let failure = done[0].outcome.as_ref().unwrap_err();
    assert_eq!(failure.class, Class::Route, "{failure}");
    assert!(failure.reason.contains("--create --topic lost"), "{failure}");
    cluster.topic_error("lost", RDKafkaRespErr::RD_KAFKA_RESP_ERR_NO_ERROR).unwrap();
    producer.reset().await;
    producer.publish("lost", 0..3).await;
    assert_eq!(delivered(&producer.deliveries(3).await), [0, 1, 2]);
}

#[tokio::test]
async fn waiting_for_deliveries_can_be_given_up_at_any_time() {
    let cluster = cluster(&["orders"]);
    let mut producer = producer(&cluster, &[]);
    producer.publish("orders", 0..5000).await;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while producer.done.len() < 5000 {
        assert!(tokio::time::Instant::now() < deadline);
        let _ = timeout(Duration::from_micros(50), producer.sink.next_deliveries(&mut producer.done)).await;
    }
    assert_eq!(delivered(&producer.done), (0..5000).collect::<Vec<_>>());
}

#[tokio::test]
async fn settings_that_make_no_client_are_a_fault_of_the_configuration() {
    let settings = Settings::from_properties(
        [("bootstrap.servers", "127.0.0.1:9"), ("security.protocol", "ssl"), ("ssl.ca.location", "/nowhere/ca.pem")],
        LIMITS,
    );
    let failure = Producer::new(settings.unwrap()).unwrap_err();
    assert_eq!(failure.class, Class::Configuration);
    assert!(failure.reason.contains("ssl.ca.location"), "{failure}");
}

/// Answers every connection in a way that no client of TLS accepts.
fn server_without_tls() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let mut connection = connection.unwrap();
            // The client may be gone already.
            let _ = connection.read(&mut [0; 16]).and_then(|_| connection.write(b"HTTP/1.1 400 Bad Request\r\n\r\n"));
        }
    });
    address
}

#[tokio::test]
async fn brokers_that_never_let_us_in_end_the_wait_and_a_check_says_why() {
    let server = server_without_tls();
    let given = [("bootstrap.servers", server.as_str()), ("security.protocol", "ssl")];
    let settings = Settings::from_properties(given, LIMITS).unwrap();
    let mut producer = Line::new(Producer::new(settings.clone()).unwrap());
    producer.publish("orders", 0..1).await;
    let done = producer.deliveries(1).await;
    assert_eq!(classes(&done), BTreeMap::from([(0, Some(Class::Configuration))]));
    let refused = producer.sink.publish(Ticket(1), &record("orders", "1"));
    assert!(matches!(&refused, Err(Refusal::Failed(failure)) if failure.class == Class::Configuration), "{refused:?}");

    let findings = check(&settings, &[]).await;
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert!(findings[0].sentence.contains("SSL handshake failed"), "{findings:?}");
}

#[tokio::test]
async fn a_check_names_missing_topics_illegal_names_and_single_replicas() {
    let cluster = cluster(&["orders"]);
    cluster.topic_error("lost", RDKafkaRespErr::RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART).unwrap();
    let topics = ["orders", "lost", "a b"].map(str::to_owned);
    let findings = check(&settings(&cluster, &[]), &topics).await;
    let about = |topic: &str, severity| {
        let subject = format!("topic \"{topic}\"");
        findings.iter().find(|finding| finding.subject == subject && finding.severity == severity)
    };
    assert!(about("orders", Severity::Warning).unwrap().sentence.contains("single replica"), "{findings:?}");
    assert!(about("orders", Severity::Error).is_none(), "{findings:?}");
    assert!(about("lost", Severity::Error).unwrap().remedy.contains("--create --topic lost"), "{findings:?}");
    assert!(about("a b", Severity::Error).unwrap().sentence.contains("no topic can have this name"), "{findings:?}");
}

#[tokio::test]
async fn a_check_says_in_time_that_no_broker_answers() {
    let settings = Settings::from_properties([("bootstrap.servers", "127.0.0.1:9")], LIMITS).unwrap();
    let findings = timeout(Duration::from_secs(30), check(&settings, &["orders".to_owned()])).await.unwrap();
    assert_eq!(findings.len(), 1, "{findings:?}");
    assert_eq!(findings[0].severity, Severity::Error);
    assert!(findings[0].sentence.contains("127.0.0.1:9"), "{findings:?}");
}

#[tokio::test]
async fn a_compacted_topic_is_read_to_its_end_and_of_each_key_the_last_value_counts() {
    let cluster = cluster(&["offsets"]);
    let mut producer = producer(&cluster, &[]);
    for (ticket, (key, value)) in
        (0..).zip([("a", Some("1")), ("b", Some("2")), ("a", Some("3")), ("c", Some("4")), ("c", None)])
    {
        let value = value.map(|value| Bytes::from_static(value.as_bytes()));
        let record = Record { key: Some(Bytes::from_static(key.as_bytes())), value, ..record("offsets", "") };
        producer.offer(ticket, &record).await;
    }
    assert_eq!(producer.deliveries(5).await.len(), 5);
    let given = settings(&cluster, &[]);
    let read = |topic: &'static str| {
        let given = given.clone();
        tokio::task::spawn_blocking(move || walpost_kafka::read_topic(&given, None, topic))
    };
    let expected = [("a", Some("3")), ("b", Some("2")), ("c", None)];
    let expected = expected.map(|(key, value)| (key.as_bytes().to_vec(), value.map(|value| value.as_bytes().to_vec())));
    assert_eq!(read("offsets").await.unwrap().unwrap(), expected);
}
