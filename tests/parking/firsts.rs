//! Rows that are refused as the first of their partition, of which a broker knows nothing that they could be held against.

use walpost_testkit::servers::shared_kafka;

use super::{SMALL, count, stop};
use crate::observe::value;
use crate::rig::{LIMIT, Rig, eventually};

const TOPICS: usize = 10;
const ROWS: usize = 6;

/// A batch for each record, and several on their way at once, to fresh topics that take small records only.
fn fresh(label: &str) -> Rig {
    let mut rig = Rig::empty(label);
    for number in 0..TOPICS {
        let limit = [("max.message.bytes", SMALL.to_string())].map(|(name, value)| (name, value.leak() as &str));
        shared_kafka().create_topic_with(&rig.topic(&format!("t{number}")), 1, &limit).unwrap();
    }
    let route = rig.topic("${routedByValue}");
    rig.configure(|config| {
        config
            .outbox("public.outbox", &[("route.topic.replacement", route.as_str())])
            .set("sink.kafka", "batch.num.messages", "1")
            .set("sink.kafka", "linger.ms", "0")
            .set("sink.kafka", "compression.type", r#""none""#)
    });
    rig.sql("CREATE TABLE outbox (id int PRIMARY KEY, aggregatetype text, aggregateid text, payload text)");
    rig.init();
    rig
}

fn delivered(rig: &Rig) -> Vec<String> {
    let mut consumer = rig.consumer();
    let records = consumer.read_to_end(LIMIT).unwrap().iter();
    records.map(|record| format!("{} {}", record.topic, record.id().unwrap_or_default())).collect()
}

#[test]
fn nothing_of_its_key_overtakes_a_row_that_is_refused_as_the_first_of_its_partition() {
    let rig = fresh("firsts");
    let relay = rig.start_streaming();
    // Of each topic a row that is too large, and behind it small ones of its key. One topic after the other: of several, only first records would be on their way.
    for topic in 0..TOPICS {
        rig.sql(&format!(
            "INSERT INTO outbox SELECT {topic} * {ROWS} + seq, 't{topic}', 'k', repeat('x', CASE seq WHEN 0 THEN 2 * {SMALL} ELSE 1 END) \
             FROM generate_series(0, {ROWS} - 1) AS seq ORDER BY seq"
        ));
        eventually("every row to be set aside or delivered", || {
            let delivered = value(&relay, "walpost_delivered_records_total", &[]);
            count(&rig, "true") as f64 + delivered >= ((topic + 1) * ROWS) as f64
        });
    }
    assert_eq!(delivered(&rig), Vec::<String>::new());
    let cause = format!("CASE event_id::int % {ROWS} WHEN 0 THEN 'row' ELSE 'parked' END");
    assert_eq!(count(&rig, &format!("cause = {cause}")), TOPICS * ROWS);
    stop(relay);
}
