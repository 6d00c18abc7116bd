//! Sizes at which others give up: many keys and topics, wide tables, long names, rows of 200 MB.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use walpost_testkit::servers::{Kafka, shared_postgres};

use crate::rig::{LIMIT, Rig, eventually};

/// The parts of a large row's payload, in PostgreSQL's text.
const LARGE: usize = 200 << 20;

/// What the process may hold beside the row: program, libraries, allocator, and 16 MiB in flight.
const BESIDE: u64 = 64 << 20;

/// A smaller one, as a letter in a topic, and how many times its memory that takes.
const LETTER: usize = 20 << 20;
const LETTER_COPIES: u64 = 12;

fn insert_large(rig: &Rig, key: &str, large: usize) {
    rig.sql(&format!(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) VALUES \
         (gen_random_uuid(), 'order', '{key}', 'Changed', jsonb_build_object('filling', repeat('x', {large})), 0)"
    ));
}

/// Waits until everything that is committed by now is settled, checkpointed and confirmed.
#[track_caller]
fn wait_until_confirmed(rig: &Rig, limit: Duration) {
    let lsn = rig.value("SELECT pg_current_wal_flush_lsn()");
    let name = rig.database.name();
    let query = format!("SELECT confirmed_flush_lsn >= '{lsn}' FROM pg_replication_slots WHERE slot_name = '{name}'");
    walpost_testkit::servers::wait_until("the slot to be confirmed", limit, || rig.value(&query) == "t").unwrap();
}

#[test]
fn a_row_of_200_mb_passes_in_three_times_its_memory_where_the_sink_takes_it() {
    let mut rig = Rig::ready("row_200_mb", &["public.outbox"]);
    rig.configure(|config| config.stdout().set("sink", "type", r#""null""#));
    let relay = rig.start_streaming();
    insert_large(&rig, "large", LARGE);
    wait_until_confirmed(&rig, 2 * LIMIT);
    let peak = relay.peak_memory().unwrap();
    assert!(peak > LARGE as u64, "the row was never in the relay: {peak} bytes");
    assert!(peak < BESIDE + 3 * LARGE as u64, "{peak} bytes");
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_row_of_200_mb_that_the_broker_does_not_take_is_set_aside_and_keeps_nobody_waiting() {
    let rig = Rig::ready("letter_200_mb", &["public.outbox"]);
    let relay = rig.start_streaming();
    insert_large(&rig, "large", LARGE);
    rig.insert("small", 0, 10);
    let mut consumer = rig.consumer();
    consumer.read_count(10, 2 * LIMIT).unwrap();
    eventually("the row to be set aside", || rig.value("SELECT count(*) FROM walpost.dead_letter") == "1");
    let peak = relay.peak_memory().unwrap();
    println!("a row of {LARGE} bytes was set aside with {peak} bytes of memory");
    assert!(peak > LARGE as u64, "the row was never in the relay: {peak} bytes");
    assert!(peak < BESIDE + 3 * LARGE as u64, "{peak} bytes");
    let letter = rig.sql("SELECT key, cause, octet_length(insert_message) > 200 << 20 FROM walpost.dead_letter");
    assert_eq!(letter, [["large", "row", "t"]]);
    let reason = rig.value("SELECT reason FROM walpost.dead_letter");
    assert!(reason.contains("message.max.bytes"), "{reason}");
    wait_until_confirmed(&rig, LIMIT);
    assert_eq!(consumer.read_to_end(LIMIT).unwrap().len(), 10);
    let ended = relay.stop(LIMIT).unwrap();
    ended.assert_success();
}

/// In a topic a letter is a document: the row as it was told and the record that was made of it stand in there as texts. While it is written there are
/// row and record, those texts, the document, and what librdkafka sends of it.
#[test]
fn a_row_of_20_mb_is_a_letter_in_a_topic_and_is_made_one_in_so_many_times_its_memory() {
    let mut rig = Rig::with_tables("letter_20_mb", &["public.outbox"]);
    let topic = format!("letters-{}", rig.database.name());
    rig.configure(|config| {
        config.set("dead_letter", "store", r#""kafka""#).set("dead_letter", "topic", &format!("{topic:?}"))
    });
    rig.init();
    let relay = rig.start_streaming();
    insert_large(&rig, "large", LETTER);
    rig.insert("small", 0, 10);
    rig.consumer().read_count(10, 2 * LIMIT).unwrap();
    wait_until_confirmed(&rig, LIMIT);
    let listed = rig.call(&["dlq", "list", "--json", "--cause", "row"]);
    assert_eq!(listed.output.lines().count(), 1, "{}", listed.output);
    let peak = relay.peak_memory().unwrap();
    println!("a letter of {LETTER} bytes was written with {peak} bytes of memory");
    assert!(peak > 2 * LETTER as u64, "the row was never a letter: {peak} bytes");
    assert!(peak < BESIDE + LETTER_COPIES * LETTER as u64, "{peak} bytes");
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn ten_thousand_keys_in_five_hundred_topics_keep_their_order() {
    const TOPICS: usize = 500;
    const KEYS: usize = 10_000;
    const ROUNDS: usize = 4;
    // A broker is at nothing else while it makes so many, and the other tests' topics would wait behind them.
    let kafka = Kafka::start().unwrap();
    let mut rig = Rig::empty_on(shared_postgres(), kafka.endpoint(), "many");
    rig.sql(
        "CREATE TABLE outbox (id uuid PRIMARY KEY, aggregatetype text, aggregateid text, type text, payload jsonb, \
         seq bigint)",
    );
    let topics: Vec<String> = (0..TOPICS).map(|topic| rig.topic(&format!("many.{topic}"))).collect();
    let topics: Vec<(&str, i32)> = topics.iter().map(|topic| (topic.as_str(), 1)).collect();
    kafka.endpoint().create_topics(&topics).unwrap();
    let route = rig.topic("many.${routedByValue}");
    rig.configure(|config| config.outbox("public.outbox", &[("route.topic.replacement", &route)]));
    rig.init();
    let relay = rig.start_streaming();
    for round in 0..ROUNDS {
        rig.sql(&format!(
            "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) \
             SELECT gen_random_uuid(), (key % {TOPICS})::text, 'key-' || key, 'Changed', '{{}}', {round} \
             FROM generate_series(0, {KEYS} - 1) AS key"
        ));
    }
    let mut consumer = rig.consumer();
    let records = consumer.read_count(KEYS * ROUNDS, 2 * LIMIT).unwrap();
    let ids: BTreeSet<&str> = records.iter().filter_map(|record| record.header("id")).collect();
    assert_eq!(ids.len(), KEYS * ROUNDS, "each row came once");
    let seen: BTreeSet<&str> = records.iter().map(|record| record.topic.as_str()).collect();
    assert_eq!(seen.len(), TOPICS);
    let order: BTreeMap<String, String> =
        rig.sql("SELECT id, seq FROM outbox").into_iter().map(|mut row| (row.remove(0), row.remove(0))).collect();
    let mut next: BTreeMap<&[u8], usize> = BTreeMap::new();
    for record in records {
        let place = next.entry(record.key.as_deref().unwrap()).or_default();
        assert_eq!(order[record.header("id").unwrap()], place.to_string(), "{:?}", record.key);
        *place += 1;
    }
    assert!(relay.peak_memory().unwrap() < BESIDE, "{} bytes", relay.peak_memory().unwrap());
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_table_of_a_thousand_columns_is_published_and_its_last_column_is_a_header() {
    let mut rig = Rig::empty("wide");
    let columns: Vec<String> = (0..995).map(|column| format!("c{column} text DEFAULT 'v{column}'")).collect();
    rig.sql(&format!(
        "CREATE TABLE wide (id uuid PRIMARY KEY DEFAULT gen_random_uuid(), aggregatetype text, aggregateid text, \
         type text, payload jsonb, {})",
        columns.join(", ")
    ));
    let placement = ("table.fields.additional.placement", "type:header,c994:header:last");
    rig.add_table("public.wide", "wide", &[placement]);
    rig.init();
    let relay = rig.start_streaming();
    rig.sql(
        "INSERT INTO wide (aggregatetype, aggregateid, type, payload) \
         SELECT 'order', 'key', 'Changed', '{}' FROM generate_series(1, 200)",
    );
    let mut consumer = rig.consumer();
    let records = consumer.read_count(200, LIMIT).unwrap();
    assert!(records.iter().all(|record| record.header("last") == Some("v994")), "{:?}", records[0]);
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn names_of_63_bytes_in_letters_of_several_bytes_are_found() {
    // 31 letters of two bytes and one of one are the 63 that PostgreSQL keeps.
    let name = |last: char| format!("{}{last}", "ü".repeat(31));
    let (schema, table, publication, key) = (name('s'), name('t'), name('p'), name('k'));
    let mut rig = Rig::empty("long_names");
    rig.sql(&format!(
        "CREATE SCHEMA \"{schema}\"; CREATE TABLE \"{schema}\".\"{table}\" (id uuid PRIMARY KEY DEFAULT \
         gen_random_uuid(), aggregatetype text, \"{key}\" text, type text, payload jsonb)"
    ));
    let quoted = format!("\"{schema}\".\"{table}\"");
    rig.add_table(&quoted, "long", &[("table.field.event.key", &key)]);
    rig.configure(|config| config.set("source", "publication", &format!("{publication:?}")));
    rig.init();
    let relay = rig.start_streaming();
    rig.sql(&format!(
        "INSERT INTO {quoted} (aggregatetype, \"{key}\", type, payload) VALUES ('a', 'schlüssel', 'b', '{{}}')"
    ));
    let mut consumer = rig.consumer();
    let records = consumer.read_count(1, LIMIT).unwrap();
    assert_eq!(records[0].key.as_deref(), Some("schlüssel".as_bytes()));
    relay.stop(LIMIT).unwrap().assert_success();
    rig.call(&["check"]).assert_said(0, &["answers"]);
}
