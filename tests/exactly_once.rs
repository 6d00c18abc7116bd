//! Exactly once into Kafka: what a reader of committed records sees, whatever happens to those who write.

mod large;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tokio::runtime::Runtime;
use walpost_core::lsn::Lsn;
use walpost_core::port::{Checkpoints, Refusal, Sink, Ticket, TransactionalSink};
use walpost_core::position::{Checkpoint, Epoch, Identity, SystemIdentifier, Timeline};
use walpost_core::record::{Headers, Record};
use walpost_kafka::{CheckpointError, CheckpointTopic, Limits, Settings, Transactional};
use walpost_testkit::checker::{Repeats, check};
use walpost_testkit::consumer::{Consumer, Received};
use walpost_testkit::relay::Relay;
use walpost_testkit::servers::{KafkaEndpoint, kafka_tool, shared_kafka, shared_postgres};

use crate::observe::{assert_told, value, wait_until_ready, wait_until_unready};
use crate::rig::{LIMIT, PARTITIONS, Rig, breakable_kafka, eventually};

/// Names of one test.
struct Stage {
    topic: String,
    checkpoints: String,
    relay: String,
    runtime: Runtime,
    /// How many marks were written.
    marks: Cell<u32>,
}

impl Stage {
    fn new(label: &str) -> Self {
        let name = |part: &str| format!("{label}-{}-{part}", std::process::id());
        let topic = name("events");
        shared_kafka().create_topic(&topic, 1).unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { topic, checkpoints: name("checkpoints"), relay: name("relay"), runtime, marks: Cell::new(0) }
    }

    fn settings(more: &[(&str, &str)]) -> Settings {
        let given = more.iter().copied().chain([("bootstrap.servers", shared_kafka().bootstrap())]);
        Settings::from_properties(given, Limits { records: 10_000, bytes: 16 << 20 }).unwrap()
    }

    fn store(&self) -> CheckpointTopic {
        CheckpointTopic::new(Self::settings(&[]), &self.relay, &self.checkpoints)
    }

    fn sink(&self, more: &[(&str, &str)]) -> Transactional {
        Transactional::new(&Self::settings(more), &self.relay, &self.checkpoints).unwrap()
    }

    fn load(&self) -> Option<Checkpoint> {
        self.runtime.block_on(self.store().load()).unwrap()
    }

    /// Publishes records whose values are their numbers, and waits until the broker has each of them.
    fn publish(&self, sink: &mut Transactional, numbers: std::ops::Range<u64>) {
        self.runtime.block_on(async {
            let mut deliveries = Vec::new();
            for number in numbers.clone() {
                sink.publish(Ticket(number), &self.record(number)).unwrap();
            }
            while deliveries.len() < numbers.clone().count() {
                tokio::time::timeout(LIMIT, sink.next_deliveries(&mut deliveries)).await.unwrap();
            }
            assert!(deliveries.iter().all(|delivery| delivery.outcome.is_ok()), "{deliveries:?}");
        });
    }

    fn record(&self, number: u64) -> Record {
        Record {
            identity: Identity { timeline: Timeline(1), commit_lsn: Lsn::new(1), ordinal: 0 },
            topic: Arc::from(self.topic.as_str()),
            key: Some(Bytes::from_static(b"key")),
            value: Some(Bytes::from(number.to_string())),
            headers: Headers::new(),
            timestamp_ms: now_ms(),
            is_dated_by_row: false,
            partition: None,
        }
    }

    fn checkpoint(&self, position: u64) -> Checkpoint {
        Checkpoint {
            relay: self.relay.clone(),
            system: SystemIdentifier(7),
            timeline: Timeline(1),
            database: "app".to_owned(),
            slot: "walpost".to_owned(),
            position: Lsn::new(position),
            commit_time: None,
            settled_rows: None,
            epoch: Epoch(1),
        }
    }

    /// What a reader of committed records sees, up to a record that is written now by somebody else. Behind a transaction that hangs it would
    /// not be seen.
    fn committed(&self) -> Vec<String> {
        let producer: walpost_kafka::Producer = walpost_kafka::Producer::new(Self::settings(&[])).unwrap();
        let marks = self.marks.get() + 1;
        self.marks.set(marks);
        let mark = format!("mark {marks}");
        let record = Record { value: Some(Bytes::from(mark.clone())), ..self.record(0) };
        self.runtime.block_on(async {
            let mut producer = producer;
            producer.publish(Ticket(0), &record).unwrap();
            let done = producer.close(LIMIT).await;
            assert!(done.iter().all(|delivery| delivery.outcome.is_ok()), "{done:?}");
        });
        let mut consumer = Consumer::of_topics(shared_kafka().bootstrap(), &[&self.topic]).unwrap();
        let read = consumer
            .read_until(&mark, LIMIT, |records| records.last().is_some_and(|record| record.value_text() == mark));
        let values = read.unwrap().iter().map(|record| record.value_text());
        values.filter(|value| !value.starts_with("mark")).collect()
    }
}

/// Brokers delete what is old by its timestamp, at any moment.
fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(since.as_millis()).unwrap()
}

fn numbers(range: std::ops::Range<u64>) -> Vec<String> {
    range.map(|number| number.to_string()).collect()
}

#[test]
fn a_topic_of_checkpoints_is_made_once_compacted_and_found_in_order() {
    let stage = Stage::new("made");
    let Stage { runtime, .. } = &stage;
    let mut store = stage.store();
    let missing = runtime.block_on(store.load()).unwrap_err();
    assert!(matches!(missing, CheckpointError::Read(walpost_kafka::ReadError::Missing { .. })), "{missing:?}");
    assert!(runtime.block_on(store.create()).unwrap());
    assert!(!runtime.block_on(store.create()).unwrap());
    let findings = runtime.block_on(store.check());
    assert!(findings.iter().all(|finding| finding.sentence.contains("min.insync.replicas is 1")), "{findings:?}");
    let plain = CheckpointTopic::new(Stage::settings(&[]), "relay", &stage.topic);
    let findings = runtime.block_on(plain.check());
    assert!(findings[0].remedy.contains("--add-config cleanup.policy=compact"), "{findings:?}");
}

/// Runs a command of a remedy as an operator types it.
fn run_as_typed(command: &str) {
    let command = command.replace("<broker>", shared_kafka().bootstrap());
    let mut words = command.split_whitespace();
    let class = match words.next() {
        Some("kafka-topics.sh") => "org.apache.kafka.tools.TopicCommand",
        Some("kafka-configs.sh") => "org.apache.kafka.tools.ConfigCommand",
        other => panic!("{other:?} in {command}"),
    };
    let ended = kafka_tool(class).unwrap().args(words).output().unwrap();
    assert!(ended.status.success(), "{command}: {ended:?}");
}

#[test]
fn what_is_said_of_a_topic_of_checkpoints_that_is_missing_or_not_compacted_helps_as_it_is_typed() {
    let stage = Stage::new("remedied");
    let store = stage.store();
    let check = || stage.runtime.block_on(store.check());
    let missing = check();
    assert!(missing[0].sentence.contains("does not exist"), "{missing:?}");
    run_as_typed(missing[0].remedy.strip_prefix("run: walpost init, or: ").unwrap());
    // This broker is the only one: to ask for two replicas in step would have the topic take nothing any more.
    let assert_made = || {
        let found = check();
        let [finding] = found.as_slice() else { panic!("{found:?}") };
        assert!(finding.sentence.contains("min.insync.replicas is 1"), "{finding}");
        assert!(finding.remedy.contains("kafka-reassign-partitions.sh"), "{finding}");
    };
    assert_made();
    shared_kafka().configure_topic(&stage.checkpoints, &[("cleanup.policy", "delete")]).unwrap();
    let deleted = check();
    assert!(deleted[0].sentence.contains("not compacted alone"), "{deleted:?}");
    run_as_typed(&deleted[0].remedy);
    assert_made();
}

#[test]
fn what_a_zombie_left_uncommitted_is_never_seen_and_it_can_commit_no_more() {
    let stage = Stage::new("zombie");
    let Stage { runtime, .. } = &stage;
    runtime.block_on(stage.store().create()).unwrap();
    let mut first = stage.sink(&[]);
    runtime.block_on(first.open()).unwrap();
    runtime.block_on(first.commit(&stage.checkpoint(5).claimed(None))).unwrap();
    stage.publish(&mut first, 0..5);
    runtime.block_on(first.commit(&stage.checkpoint(10))).unwrap();
    // The broker has these and nobody may see them; the transaction hangs.
    stage.publish(&mut first, 5..8);
    assert_eq!(stage.load().unwrap().position, Lsn::new(10));

    let mut second = stage.sink(&[]);
    runtime.block_on(second.open()).unwrap();
    let stored = stage.load();
    assert_eq!(stored.as_ref().unwrap().position, Lsn::new(10));
    assert_eq!(stage.committed(), numbers(0..5));
    runtime.block_on(second.commit(&stage.checkpoint(10).claimed(stored.as_ref()))).unwrap();

    let failure = runtime.block_on(first.commit(&stage.checkpoint(20))).unwrap_err();
    assert!(first.is_fenced(), "{failure}");
    assert!(failure.reason.contains("another instance with this relay name has taken over"), "{failure}");
    stage.publish(&mut second, 5..8);
    runtime.block_on(second.commit(&stage.checkpoint(20))).unwrap();
    assert_eq!(stage.committed(), numbers(0..8));
    assert_eq!(stage.load().unwrap().position, Lsn::new(20));
    runtime.block_on(second.close(Duration::from_secs(2)));
}

#[test]
fn what_is_reset_is_aborted_at_once_so_that_readers_are_not_kept_waiting() {
    let stage = Stage::new("reset");
    let Stage { runtime, .. } = &stage;
    runtime.block_on(stage.store().create()).unwrap();
    let mut sink = stage.sink(&[]);
    runtime.block_on(sink.open()).unwrap();
    stage.publish(&mut sink, 0..3);
    runtime.block_on(sink.reset()).unwrap();
    assert_eq!(stage.committed(), numbers(0..0));
    runtime.block_on(sink.open()).unwrap();
    stage.publish(&mut sink, 0..3);
    runtime.block_on(sink.commit(&stage.checkpoint(1))).unwrap();
    stage.publish(&mut sink, 3..4);
    runtime.block_on(sink.close(Duration::from_secs(5)));
    assert_eq!(stage.committed(), numbers(0..3));
}

#[test]
fn a_transaction_that_outlives_its_timeout_is_given_up_by_the_broker_and_looks_like_a_fence() {
    let stage = Stage::new("overdue");
    let Stage { runtime, .. } = &stage;
    runtime.block_on(stage.store().create()).unwrap();
    let mut sink = stage.sink(&[("transaction.timeout.ms", "2000")]);
    runtime.block_on(sink.open()).unwrap();
    stage.publish(&mut sink, 0..3);
    // Nothing of it is ever seen, and the reader gets past it, so the broker has given it up.
    assert_eq!(stage.committed(), numbers(0..0));
    let failure = runtime.block_on(sink.commit(&stage.checkpoint(1))).unwrap_err();
    assert!(sink.is_fenced(), "{failure}");
    assert!(failure.reason.contains("transaction.timeout.ms = 2000"), "{failure}");
    runtime.block_on(sink.open()).unwrap();
    stage.publish(&mut sink, 0..3);
    runtime.block_on(sink.commit(&stage.checkpoint(1))).unwrap();
    assert_eq!(stage.committed(), numbers(0..3));
}

/// A relay that commits its checkpoints together with the events.
pub(crate) fn rig(kafka: &KafkaEndpoint, label: &str) -> Rig {
    let mut rig = Rig::with_tables_on(shared_postgres(), kafka, label, &["public.outbox"]);
    let topic = format!("checkpoint-{}", rig.database.name());
    rig.configure(|config| {
        config
            .set("checkpoint", "store", r#""kafka""#)
            .set("checkpoint", "topic", &format!("{topic:?}"))
            // A killed relay's slot is free again soon.
            .set("source", "wal_sender_timeout_ms", "2000")
    });
    rig.init();
    rig
}

/// Waits until rows have arrived that had not arrived before.
fn wait_for_new(consumer: &mut Consumer) {
    let before = consumer.records().len();
    consumer.read_count(before + 20, LIMIT).unwrap();
}

/// All that a reader of committed records sees of the rig's topics, once the relay is gone: up to marks that are written behind it.
pub(crate) fn seen(rig: &Rig, kafka: &KafkaEndpoint) -> Vec<Received> {
    let truth = rig.truth();
    let topics: BTreeSet<String> = truth.rows().map(|row| row.topic.clone()).collect();
    let given = [("bootstrap.servers", kafka.bootstrap())];
    let settings = Settings::from_properties(given, Limits { records: 1000, bytes: 1 << 20 }).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let mut marks = 0;
    runtime.block_on(async {
        let mut producer = walpost_kafka::Producer::new(settings).unwrap();
        let mut done = Vec::new();
        for (topic, partition) in
            topics.iter().flat_map(|topic| (0..PARTITIONS).map(move |partition| (topic, partition)))
        {
            let mark = Record {
                identity: Identity { timeline: Timeline(1), commit_lsn: Lsn::new(1), ordinal: 0 },
                topic: Arc::from(topic.as_str()),
                key: None,
                value: Some(Bytes::from_static(b"mark")),
                headers: Headers::new(),
                timestamp_ms: now_ms(),
                is_dated_by_row: false,
                partition: Some(partition),
            };
            while let Err(refusal) = producer.publish(Ticket(marks), &mark) {
                assert_eq!(refusal, Refusal::Full);
                producer.next_deliveries(&mut done).await;
            }
            marks += 1;
        }
        done.extend(producer.close(LIMIT).await);
        assert!(done.iter().all(|delivery| delivery.outcome.is_ok()), "{done:?}");
    });
    let mut consumer = rig.consumer();
    let is_mark = |record: &&Received| record.value.as_deref() == Some(b"mark");
    let (mut counted, mut found) = (0, 0);
    let read = consumer.read_until("the marks", LIMIT, |records| {
        found += records[counted..].iter().filter(is_mark).count() as u64;
        counted = records.len();
        found >= marks
    });
    read.unwrap().iter().filter(|record| !is_mark(record)).cloned().collect()
}

#[track_caller]
pub(crate) fn assert_exactly_once(rig: &Rig, kafka: &KafkaEndpoint) {
    let truth = rig.truth();
    assert!(!truth.is_empty(), "nothing was committed, so nothing was tested");
    check(&truth, &seen(rig, kafka)).assert_clean(Repeats::Forbidden);
}

#[test]
fn each_event_is_seen_exactly_once_over_kills_of_the_relay_and_of_the_broker() {
    let mut kafka = breakable_kafka();
    let endpoint = kafka.endpoint().clone();
    let rig = rig(&endpoint, "once");
    let running = rig.workload().pause(Duration::from_millis(10)).start();
    let mut consumer = rig.consumer();
    for attempt in 0..6 {
        let relay = rig.start();
        wait_for_new(&mut consumer);
        if attempt % 3 == 1 {
            kafka.kill9().unwrap();
            running.wait_for_more_rows(30, LIMIT).unwrap();
            kafka.start_again().unwrap();
            wait_for_new(&mut consumer);
        }
        relay.kill9().unwrap();
        running.wait_for_more_rows(30, LIMIT).unwrap();
    }
    assert!(running.stop().rolled_back_rows > 0);
    let relay = rig.start();
    consumer.read_ids(&rig.committed(), LIMIT).unwrap();
    relay.stop(LIMIT).unwrap().assert_success();
    assert_exactly_once(&rig, &endpoint);
}

#[test]
fn a_relay_that_slept_while_another_took_over_stands_by_and_takes_over_again() {
    let rig = rig(shared_kafka(), "slept");
    let running = rig.workload().pause(Duration::from_millis(10)).start();
    let mut consumer = rig.consumer();
    let first = rig.start_streaming();
    wait_for_new(&mut consumer);
    first.sigstop().unwrap();
    let second = rig.start();
    second.wait_for_log("streaming", LIMIT).unwrap();
    wait_for_new(&mut consumer);
    let lines = first.log_lines();
    first.sigcont().unwrap();
    first.wait_for_log_since(lines, "standing by", LIMIT).unwrap();
    wait_for_new(&mut consumer);
    second.kill9().unwrap();
    first.wait_for_log_since(lines, "streaming", LIMIT).unwrap();
    assert!(running.stop().rolled_back_rows > 0);
    consumer.read_ids(&rig.committed(), LIMIT).unwrap();
    first.stop(LIMIT).unwrap().assert_success();
    assert_exactly_once(&rig, shared_kafka());
}

#[test]
fn an_idle_relay_lets_the_slot_move_and_commands_look_after_the_checkpoint() {
    let mut rig = rig(shared_kafka(), "idle");
    rig.configure(|config| {
        config.set("checkpoint", "idle_interval_ms", "200").set("checkpoint", "idle_bytes", "\"1KiB\"")
    });
    rig.call(&["init"]).assert_said(0, &["the checkpoint stays as it is"]);
    rig.call(&["check"]).assert_success();
    let relay = rig.start_streaming();
    let before = rig.slot("confirmed_flush_lsn");
    rig.sql("CREATE TABLE elsewhere AS SELECT generate_series(1, 10000)");
    eventually("the slot to move", || rig.slot("confirmed_flush_lsn") != before);
    rig.insert("a", 1, 10);
    rig.consumer().read_ids(&rig.committed(), LIMIT).unwrap();
    relay.stop(LIMIT).unwrap().assert_success();
    // Two of init, which writes one before the slot is made, and that of the relay.
    rig.call(&["checkpoint", "show"]).assert_said(0, &["of topic checkpoint-", "epoch 3"]);
    rig.call(&["checkpoint", "adopt-slot"]).assert_said(0, &["now stands at the slot's"]);
    let file = format!("file:{}", rig.walpost.folder().join("checkpoint").display());
    rig.call(&["checkpoint", "copy", "--to", &file]).assert_said(0, &["was copied"]);
    rig.call(&["checkpoint", "forget"]).assert_said(0, &["is forgotten"]);
    rig.call(&["checkpoint", "forget"]).assert_said(0, &["was not there"]);
    assert_exactly_once(&rig, shared_kafka());
}

/// The same for a relay that sets rows aside in the transactions that carry its events, and whose topics take small records only.
fn narrow(label: &str) -> Rig {
    let mut rig = Rig::with_tables_on(shared_postgres(), shared_kafka(), label, &["public.outbox"]);
    let (checkpoints, letters) =
        (format!("checkpoint-{}", rig.database.name()), format!("letters-{}", rig.database.name()));
    rig.configure(|config| {
        config
            .set("checkpoint", "store", r#""kafka""#)
            .set("checkpoint", "topic", &format!("{checkpoints:?}"))
            .set("dead_letter", "topic", &format!("{letters:?}"))
            .set("dead_letter", "flood_limit", "100000")
            .set("sink.kafka", "compression.type", r#""none""#)
            .set("source", "wal_sender_timeout_ms", "2000")
    });
    rig.limit_records(5_000);
    rig.init();
    rig
}

/// How many letters stand so.
#[track_caller]
fn letters(rig: &Rig, states: &str) -> usize {
    let listed = rig.call(&["dlq", "list", "--json", "--limit", "100000", "--state", states]);
    listed.assert_success();
    listed.output.lines().count()
}

#[test]
fn a_row_is_an_event_or_a_letter_and_a_letter_that_is_sent_is_an_event_once_over_kills_of_the_relay() {
    let rig = narrow("onceletters");
    let running = rig.workload().keys(20, 200).largest_payload(30_000).pause(Duration::from_millis(20)).start();
    for _ in 0..4 {
        let relay = rig.start();
        let before = letters(&rig, "waiting");
        eventually("more letters", || letters(&rig, "waiting") > before);
        relay.kill9().unwrap();
    }
    rig.limit_records(1_000_000);
    for _ in 0..4 {
        let relay = rig.start();
        let before = letters(&rig, "sent");
        rig.call(&["dlq", "replay", "--all", "--yes"]).assert_success();
        let is_over = || letters(&rig, "waiting,replay,drop") == 0;
        eventually("more letters to be sent", || letters(&rig, "sent") > before || is_over());
        relay.kill9().unwrap();
    }
    let relay = rig.start();
    let _ = running.stop();
    eventually("all letters to be sent", || {
        rig.call(&["dlq", "replay", "--all", "--yes"]);
        letters(&rig, "waiting,replay,drop") == 0
    });
    rig.consumer().read_ids(&rig.committed(), LIMIT).unwrap();
    relay.stop(LIMIT).unwrap().assert_success();
    assert_exactly_once(&rig, shared_kafka());
}

#[test]
fn letters_that_cannot_be_read_are_told_with_what_to_do_while_events_go_on() {
    let mut rig = narrow("onceunread");
    rig.configure(|config| config.set("http", "stalled_after_ms", "1000"));
    let relay = rig.start_streaming();
    rig.sql(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) SELECT gen_random_uuid(), 'order', 'a', 'Changed', \
         jsonb_build_object('filling', string_agg(md5(random()::text), '')), 0 FROM generate_series(1, 300)",
    );
    eventually("a letter", || letters(&rig, "waiting") == 1);
    wait_until_ready(&relay);
    shared_kafka().delete_topic(&format!("letters-{}", rig.database.name())).unwrap();
    wait_until_unready(&relay, "streaming", "marked dead letters cannot be read, for");
    assert_told(&rig, &relay, "streaming", "run: walpost init");
    let before = value(&relay, "walpost_delivered_records_total", &[]);
    rig.insert("b", 0, 5);
    eventually("events", || value(&relay, "walpost_delivered_records_total", &[]) >= before + 5.0);
    relay.kill9().unwrap();
}

/// One letter lies there, of a row that is too large: its topic is mended, the letter sent, and each event seen once.
#[track_caller]
fn assert_mended_and_sent(rig: &Rig, relay: Relay) {
    eventually("the letter", || letters(rig, "waiting") == 1);
    rig.limit_records(1_000_000);
    rig.call(&["dlq", "replay", "--all", "--yes"]).assert_success();
    rig.consumer().read_ids(&rig.committed(), LIMIT).unwrap();
    relay.stop(LIMIT).unwrap().assert_success();
    assert_exactly_once(rig, shared_kafka());
}

#[test]
fn a_topic_of_letters_that_takes_none_holds_the_group_and_does_not_end_the_relay() {
    let rig = narrow("nonetaken");
    let topic = format!("letters-{}", rig.database.name());
    shared_kafka().configure_topic(&topic, &[("max.message.bytes", "1000")]).unwrap();
    let relay = rig.start_streaming();
    rig.sql(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) SELECT gen_random_uuid(), 'order', 'a', 'Changed', \
         jsonb_build_object('seq', 0, 'filling', repeat('0123456789', 900)), 0",
    );
    rig.insert("b", 1, 3);
    let said = relay.wait_for_log("a dead letter cannot be written", LIMIT).unwrap();
    assert!(said.contains(&topic), "{said}");
    assert_told(&rig, &relay, "reconnecting", "a dead letter cannot be written");
    assert!(relay.is_running(), "{}", relay.log());
    shared_kafka().configure_topic(&topic, &[("max.message.bytes", "1048588")]).unwrap();
    assert_mended_and_sent(&rig, relay);
}

#[test]
fn a_relay_that_may_create_takes_no_slot_for_a_new_one_because_the_topic_of_checkpoints_is_missing() {
    let mut rig = rig(shared_kafka(), "topicless");
    let topic = format!("another-checkpoint-{}", rig.database.name());
    rig.configure(|config| config.set("checkpoint", "topic", &format!("{topic:?}")));
    rig.start().wait(LIMIT).unwrap().assert_said(6, &[&topic, "run: walpost init"]);
    rig.configure(|config| config.set("source", "create", "true"));
    let ended = rig.start().wait(LIMIT).unwrap();
    ended.assert_said(36, &["no checkpoint", "walpost checkpoint adopt-slot"]);
    // Which makes the topic.
    rig.call(&["checkpoint", "adopt-slot"]).assert_said(0, &["now stands at the slot's"]);
    let relay = rig.start_streaming();
    rig.insert("a", 1, 10);
    rig.consumer().read_ids(&rig.committed(), LIMIT).unwrap();
    relay.stop(LIMIT).unwrap().assert_success();
    assert_exactly_once(&rig, shared_kafka());
}

/// Of a relay that has published and stopped the checkpoint is gone: nothing is published before somebody has said that repeats are accepted.
#[track_caller]
fn assert_refused_until_adopted(rig: &Rig, from: i64) {
    rig.insert("a", from, 10);
    let refusal = ["no checkpoint", "would come twice", "run: walpost checkpoint adopt-slot"];
    rig.start().wait(LIMIT).unwrap().assert_said(36, &refusal);
    // Nor does what is run to make what is missing write another one.
    rig.call(&["init"]).assert_said(36, &refusal);
    rig.call(&["check"]).assert_said(5, &["no checkpoint", "adopt-slot"]);
    rig.call(&["status"]).assert_said(10, &["no checkpoint", "adopt-slot"]);
    let way = "repair --adopt-slot --yes";
    rig.call(&["repair"])
        .assert_said(36, &["checkpoint-missing", way, "loses nothing that this server has", "repeats what"]);
    rig.call(&["repair", "--adopt-slot", "--yes"]).assert_said(0, &["now stands at the slot's"]);
    let relay = rig.start_streaming();
    rig.consumer().read_ids(&rig.committed(), LIMIT).unwrap();
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_checkpoint_that_is_gone_from_its_topic_or_with_it_is_never_taken_for_a_first_start() {
    let rig = rig(shared_kafka(), "lostcheckpoint");
    let topic = format!("checkpoint-{}", rig.database.name());
    rig.insert("a", 0, 10);
    let relay = rig.start_streaming();
    rig.consumer().read_ids(&rig.committed(), LIMIT).unwrap();
    relay.stop(LIMIT).unwrap().assert_success();
    // A tombstone.
    rig.call(&["checkpoint", "forget"]).assert_said(0, &["is forgotten"]);
    assert_refused_until_adopted(&rig, 10);
    shared_kafka().delete_topic(&topic).unwrap();
    rig.start().wait(LIMIT).unwrap().assert_said(6, &[&topic, "run: walpost init"]);
    shared_kafka().create_topic_with(&topic, 1, &[("cleanup.policy", "compact")]).unwrap();
    assert_refused_until_adopted(&rig, 20);
    check(&rig.truth(), &seen(&rig, shared_kafka())).assert_clean(Repeats::Allowed);
}

#[test]
fn a_first_start_that_is_broken_off_behind_the_slot_is_still_one() {
    let rig = rig(shared_kafka(), "brokenoff");
    let (topic, relay) = (format!("checkpoint-{}", rig.database.name()), rig.call(&["checkpoint", "show"]).output);
    let relay = relay.split('"').nth(1).unwrap().to_owned();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    // As who makes slot and checkpoint leaves it when he is killed between the two.
    let break_off = || {
        let mut store = CheckpointTopic::new(Stage::settings(&[]), &*relay, &*topic);
        let first = runtime.block_on(store.load()).unwrap().unwrap();
        assert!(first.has_begun(), "a first checkpoint stands where the slot's log begins");
        runtime.block_on(store.replace(&Checkpoint { position: Lsn::INVALID, ..first })).unwrap();
    };
    rig.insert("a", 0, 10);
    break_off();
    rig.init();
    break_off();
    let relay = rig.start_streaming();
    rig.consumer().read_ids(&rig.committed(), LIMIT).unwrap();
    relay.stop(LIMIT).unwrap().assert_success();
    assert_exactly_once(&rig, shared_kafka());
}
