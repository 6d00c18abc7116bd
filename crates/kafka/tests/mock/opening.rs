//! The first records of a new client: nothing overtakes them, and nothing takes their place.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use rdkafka::config::ClientConfig;
use rdkafka::message::{DeliveryResult, Message as _};
use rdkafka::producer::{BaseRecord, Producer as _, ProducerContext, ThreadedProducer};
use rdkafka::types::{RDKafkaApiKey, RDKafkaRespErr};
use walpost_core::failure::Class;
use walpost_core::port::{Refusal, Sink, Ticket};
use walpost_core::record::Record;

use crate::cluster::{PATIENCE, cluster, record};
use crate::delivery::{classes, consume, delivered, producer, values};

/// A batch for each record, and several on their way at once.
const SINGLY: [(&str, &str); 2] = [("batch.num.messages", "1"), ("linger.ms", "0")];

#[tokio::test]
async fn a_first_record_that_is_refused_for_the_moment_is_not_taken_for_delivered() {
    let cluster = cluster(&["orders"]);
    let mut producer = producer(&cluster, &SINGLY);
    cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS]);
    producer.publish("orders", 0..20).await;
    assert_eq!(delivered(&producer.deliveries(20).await), (0..20).collect::<Vec<_>>());
    assert_eq!(values(&cluster, "orders", 20), (0..20).collect::<Vec<_>>());
}

#[tokio::test]
async fn nothing_of_its_partition_goes_while_a_first_record_is_on_its_way() {
    let cluster = cluster(&["orders", "parcels"]);
    let mut producer = producer(&cluster, &SINGLY);
    for round in 0..3 {
        cluster.request_errors(RDKafkaApiKey::Produce, &[RDKafkaRespErr::RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE]);
        producer.publish("orders", 0..1).await;
        assert_eq!(producer.sink.publish(Ticket(1), &record("orders", "1")), Err(Refusal::Full), "{round}");
        assert_eq!(classes(&producer.deliveries(1).await)[&0], Some(Class::Row), "{round}");
        producer.reset().await;
    }
    producer.publish("orders", 3..4).await;
    assert_eq!(producer.sink.publish(Ticket(4), &record("orders", "4")), Err(Refusal::Full));
    assert_eq!(producer.sink.publish(Ticket(9), &record("parcels", "9")), Ok(()), "it is no concern of another topic");
    producer.publish("orders", 4..6).await;
    producer.deliveries(4).await;
    assert_eq!(values(&cluster, "orders", 3), [3, 4, 5]);
}

/// Where a producer of librdkafka's own puts these keys.
fn partitions_of_librdkafka(servers: &str, partitioner: &str, keys: &[String]) -> BTreeMap<String, i32> {
    #[derive(Default)]
    struct Reports(std::sync::Mutex<BTreeMap<String, i32>>);
    impl rdkafka::ClientContext for Reports {}
    impl ProducerContext for Reports {
        type DeliveryOpaque = ();
        fn delivery(&self, result: &DeliveryResult<'_>, (): ()) {
            let message = result.as_ref().unwrap();
            let key = String::from_utf8(message.key().unwrap().to_vec()).unwrap();
            self.0.lock().unwrap().insert(key, message.partition());
        }
    }
    let mut config = ClientConfig::new();
    config.set("bootstrap.servers", servers).set("partitioner", partitioner);
    let producer: ThreadedProducer<Reports> = config.create_with_context(Reports::default()).unwrap();
    for key in keys {
        assert!(producer.send(BaseRecord::<_, [u8], _>::to("reference").key(key.as_bytes())).is_ok());
    }
    producer.flush(PATIENCE).unwrap();
    producer.context().0.lock().unwrap().clone()
}

#[tokio::test]
async fn keys_go_to_the_partitions_to_which_librdkafka_would_send_them() {
    let keys: Vec<String> =
        (0..60).map(|number| "key".repeat(number % 5) + &number.to_string()).chain([String::new()]).collect();
    for partitioner in ["murmur2_random", "murmur2", "consistent", "fnv1a", "fnv1a_random"] {
        let cluster = rdkafka::mocking::MockCluster::new(1).unwrap();
        for topic in ["orders", "reference"] {
            cluster.create_topic(topic, 7, 1).unwrap();
        }
        let reference = partitions_of_librdkafka(&cluster.bootstrap_servers(), partitioner, &keys);
        let mut producer = producer(&cluster, &[("partitioner", partitioner), ("linger.ms", "0")]);
        let topic: Arc<str> = Arc::from("orders");
        // The first time partitions are opened, the second time all are open.
        for round in 0..2 {
            for (ticket, key) in (0..).zip(&keys) {
                let key = Some(Bytes::copy_from_slice(key.as_bytes()));
                let record = Record { topic: Arc::clone(&topic), key, ..record("orders", "x") };
                producer.offer(round * 1000 + ticket, &record).await;
            }
        }
        producer.deliveries(2 * keys.len()).await;
        let read = consume(&cluster, "orders", 0..7, 2 * keys.len(), |message| {
            (String::from_utf8(message.key().unwrap().to_vec()).unwrap(), message.partition())
        });
        for (key, partition) in read {
            assert_eq!(partition, reference[&key], "{partitioner}: {key}");
        }
    }
}
