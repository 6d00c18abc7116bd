//! The topic: what is kept there by a relay that is acknowledged record by record, and what an operator sees and does, beside what he would see and
//! do with the table.

use std::collections::BTreeSet;

use serde_json::Value;
use walpost_core::poison::{Inventory, Request};
use walpost_kafka::{LetterError, LetterMemory, LetterTopic, Limits, ReadError, Settings};
use walpost_testkit::checker::Repeats;
use walpost_testkit::consumer::Consumer;
use walpost_testkit::neighbour::OpenTransaction;
use walpost_testkit::relay::{Relay, toml_string};
use walpost_testkit::servers::{KafkaEndpoint, shared_kafka};

use super::*;
use crate::observe::{value, wait_for_value, wait_until_ready, wait_until_unready};
use crate::rig::{LIMIT, Rig, breakable_kafka, eventually, let_pass};

fn settings(kafka: &KafkaEndpoint) -> Settings {
    let given = [("bootstrap.servers", kafka.bootstrap())];
    Settings::from_properties(given, Limits { records: 10_000, bytes: 16 << 20 }).unwrap()
}

/// A topic that is made, and its name.
struct Shelf {
    topic: String,
    runtime: tokio::runtime::Runtime,
}

impl Shelf {
    fn new(label: &str) -> Self {
        let shelf = Self::not_made(label);
        assert!(shelf.wait(shelf.store("any", DAY).create()).unwrap());
        shelf
    }

    fn not_made(label: &str) -> Self {
        let topic = format!("letters-{label}-{}", std::process::id());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { topic, runtime }
    }

    fn store(&self, relay: &str, keep_ended: std::time::Duration) -> LetterTopic {
        LetterTopic::new(settings(shared_kafka()), relay, &self.topic, keep_ended)
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    /// All records of the topic, in order.
    fn records(&self) -> Vec<walpost_testkit::consumer::Received> {
        let mut consumer = Consumer::of_topics(shared_kafka().bootstrap(), &[&self.topic]).unwrap();
        consumer.read_to_end(LIMIT).unwrap().to_vec()
    }
}

#[test]
fn a_topic_of_letters_is_made_once_compacted_and_found_in_order() {
    let shelf = Shelf::not_made("made");
    let mut store = shelf.store("orders", DAY);
    let missing = shelf.wait(store.inventory()).unwrap_err();
    assert!(matches!(missing, LetterError::Read(ReadError::Missing { .. })), "{missing:?}");
    let remedy = missing.remedy().unwrap();
    assert!(remedy.contains("walpost init") && remedy.contains("cleanup.policy=compact"), "{remedy}");
    let findings = shelf.wait(store.check());
    assert!(findings[0].sentence.contains("dead letters are kept there"), "{findings:?}");
    assert!(shelf.wait(store.create()).unwrap());
    assert!(!shelf.wait(store.create()).unwrap());
    let findings = shelf.wait(store.check());
    assert!(findings.iter().all(|finding| finding.sentence.contains("min.insync.replicas is 1")), "{findings:?}");
    assert_eq!(shelf.wait(store.inventory()).unwrap(), Inventory::default());
    shared_kafka().configure_topic(&shelf.topic, &[("max.message.bytes", "1000")]).unwrap();
    let findings = shelf.wait(store.check());
    for word in ["cleanup.policy=compact", "max.message.bytes=1048588"] {
        assert!(findings.iter().any(|finding| finding.remedy.contains(word)), "{word} in {findings:?}");
    }
}

#[test]
fn letters_come_back_as_they_were_set_aside_and_the_same_row_is_the_same_letter() {
    let shelf = Shelf::new("kept");
    let mut store = shelf.store("orders", DAY);
    let letters = [letter(0, "a", bad("too large")), letter(1, "a", Cause::Parked), letter(2, "b", bad("odd"))];
    assert_eq!(shelf.wait(store.set_aside(&letters)).unwrap(), [true, true, true]);
    assert_eq!(shelf.wait(store.set_aside(&letters[1..])).unwrap(), [false, false]);
    let mut again = shelf.store("orders", DAY);
    let twice = [letters[0].clone(), letter(3, "c", bad("new")), letter(3, "c", bad("new"))];
    assert_eq!(shelf.wait(again.set_aside(&twice)).unwrap(), [false, true, false]);
    let inventory = shelf.wait(again.inventory()).unwrap();
    assert_eq!((inventory.letters, inventory.roots, inventory.parked.len()), (4, 3, 3));
    assert_eq!(shelf.wait(shelf.store("invoices", DAY).inventory()).unwrap(), Inventory::default());

    let mut desk = shelf.wait(walpost_kafka::Letters::open(&settings(shared_kafka()), "orders", &shelf.topic)).unwrap();
    let all = walpost_core::poison::operator::Selection { filter: Default::default(), with_those_behind: false };
    let mark = walpost_core::poison::operator::Mark::Replay;
    assert_eq!(shelf.wait(desk.mark(&all, mark, "alice@box")).unwrap(), 4);
    assert_eq!(shelf.wait(desk.mark(&all, mark, "alice@box")).unwrap(), 0);
    let marked = shelf.wait(store.marked(100, false)).unwrap();
    assert!(marked.iter().all(|marked| marked.request == Request::Replay));
    let found: Vec<_> = marked.iter().map(|marked| &marked.letter).collect();
    assert_eq!(found, [&letters[0], &letters[1], &letters[2], &letter(3, "c", bad("new"))]);
    let overtaking = shelf.wait(store.marked(2, true)).unwrap();
    assert_eq!(overtaking.iter().map(|marked| &marked.letter).collect::<Vec<_>>(), [&letters[0], &letters[1]]);

    let first = marked[0].id;
    shelf.wait(store.conclude(&[(first, Conclusion::Returned("larger still".to_owned()))])).unwrap();
    assert_eq!(shelf.wait(store.marked(100, false)).unwrap().len(), 2, "and the one behind it waits");
    let (listed, shown) = shelf.wait(desk.show(first.0)).unwrap().unwrap();
    assert_eq!((listed.state.as_str(), listed.attempts), ("replay", 2), "as it was when the desk looked");
    assert_eq!(shown, letters[0]);
    let mut desk = shelf.wait(walpost_kafka::Letters::open(&settings(shared_kafka()), "orders", &shelf.topic)).unwrap();
    let (listed, shown) = shelf.wait(desk.show(first.0)).unwrap().unwrap();
    assert_eq!((listed.state.as_str(), listed.attempts), ("waiting", 3));
    assert_eq!(listed.marked_by.as_deref(), Some("walpost (alice@box)"));
    assert_eq!(shown.cause, bad("larger still"));
    shelf.wait(store.conclude(&[(marked[2].id, Conclusion::Sent), (marked[3].id, Conclusion::Dropped)])).unwrap();
    shelf.wait(store.conclude(&[(marked[2].id, Conclusion::Dropped)])).unwrap();
    assert_eq!(shelf.wait(store.set_aside(&letters[2..])).unwrap(), [false], "what was sent stays so");
    assert_eq!(shelf.wait(again.inventory()).unwrap().letters, 2);
}

#[test]
fn a_mark_that_is_set_while_the_letter_is_under_way_outlives_its_return_whatever_is_read_meanwhile() {
    use walpost_core::poison::operator::{Filter, Mark, Selection, State};
    let shelf = Shelf::new("remarked");
    let mut store = shelf.store("orders", DAY);
    let letters = [letter(0, "a", bad("too large")), letter(1, "b", bad("too large"))];
    shelf.wait(store.set_aside(&letters)).unwrap();
    let mark = |mark: Mark, ids: &[i64]| {
        let settings = settings(shared_kafka());
        let mut desk = shelf.wait(walpost_kafka::Letters::open(&settings, "orders", &shelf.topic)).unwrap();
        let filter = Filter { ids: ids.to_vec(), states: State::OPEN.to_vec(), ..Filter::default() };
        let selection = Selection { filter, with_those_behind: false };
        shelf.wait(desk.mark(&selection, mark, "alice")).unwrap()
    };
    assert_eq!(mark(Mark::Replay, &[]), 2);
    let marked = shelf.wait(store.marked(100, false)).unwrap();
    assert_eq!(mark(Mark::Drop, &[marked[0].id.0]), 1);
    // To set a row aside the topic is read on.
    shelf.wait(store.set_aside(&[letter(2, "c", bad("too large"))])).unwrap();
    let ends: Vec<_> = marked.iter().map(|marked| (marked.id, Conclusion::Returned("still".to_owned()))).collect();
    shelf.wait(store.conclude(&ends)).unwrap();
    let left = shelf.wait(store.marked(100, false)).unwrap();
    assert_eq!(left.iter().map(|left| (left.id, left.request)).collect::<Vec<_>>(), [(marked[0].id, Request::Drop)]);
}

#[test]
fn what_was_read_is_remembered_by_the_next_store_of_a_process_unless_the_topic_is_another() {
    let shelf = Shelf::new("remembered");
    let memory = LetterMemory::new("orders");
    let next = || LetterTopic::remembering(settings(shared_kafka()), "orders", &shelf.topic, DAY, &memory);
    let open = |store: &mut LetterTopic| shelf.wait(store.inventory()).unwrap().letters;
    assert_eq!(open(&mut next()), 0);
    shelf.wait(next().set_aside(&[letter(0, "a", bad("odd")), letter(1, "b", bad("odd"))])).unwrap();
    assert_eq!(open(&mut next()), 2);
    // What another process writes meanwhile is read, and what was read is not forgotten.
    shelf.wait(shelf.store("orders", DAY).set_aside(&[letter(2, "c", bad("odd"))])).unwrap();
    let mut third = next();
    assert_eq!(open(&mut third), 3);
    shelf.wait(third.conclude(&[(LetterId(0), Conclusion::Dropped)])).unwrap();
    assert_eq!(open(&mut next()), 2);
    // Made anew, and longer than it was: the offsets alone would not tell.
    shared_kafka().delete_topic(&shelf.topic).unwrap();
    eventually("the topic to be made anew", || shelf.wait(shelf.store("any", DAY).create()).is_ok_and(|is_new| is_new));
    let others: Vec<_> = (10..30).map(|ordinal| letter(ordinal, "d", bad("odd"))).collect();
    shelf.wait(shelf.store("orders", DAY).set_aside(&others)).unwrap();
    assert_eq!(open(&mut next()), 20);
    // And shorter.
    shared_kafka().delete_topic(&shelf.topic).unwrap();
    eventually("the topic to be made anew", || shelf.wait(shelf.store("any", DAY).create()).is_ok_and(|is_new| is_new));
    assert_eq!(open(&mut next()), 0);
}

#[test]
fn an_inventory_waits_for_a_transaction_that_hides_letters() {
    let shelf = Shelf::new("hidden");
    let id = format!("neighbour-{}", shelf.topic);
    let neighbour = OpenTransaction::begin(shared_kafka().bootstrap(), &id, &[&shelf.topic]).unwrap();
    shelf.wait(shelf.store("orders", DAY).set_aside(&[letter(0, "a", bad("odd"))])).unwrap();
    let patience = std::time::Duration::from_millis(500);
    let mut store = shelf.store("orders", DAY).with_patience(patience);
    let error = shelf.wait(store.inventory()).unwrap_err();
    assert!(matches!(error, LetterError::Read(ReadError::Hidden { offset: 0, .. })), "{error:?}");
    assert_eq!(error.remedy(), None, "it is tried again");
    neighbour.commit().unwrap();
    assert_eq!(shelf.wait(shelf.store("orders", DAY).inventory()).unwrap().letters, 1);
}

#[test]
fn a_letter_of_three_megabytes_lies_in_several_records_and_is_whole_again() {
    let shelf = Shelf::new("large");
    let mut store = shelf.store("orders", DAY);
    let payload: Vec<u8> = "größe ✓ ".bytes().cycle().take(3_000_000).collect();
    let mut large = letter(1, "a", bad("too large"));
    large.row = row("event-1", Some(b"a"), Some(&payload));
    large.record.iter_mut().for_each(|record| record.value = Some(Bytes::from(payload.clone())));
    let letters = [letter(0, "a", bad("odd")), large, letter(2, "a", Cause::Parked)];
    assert_eq!(shelf.wait(store.set_aside(&letters)).unwrap(), [true, true, true]);
    let records = shelf.records();
    assert!(records.len() > 6, "{} records", records.len());
    assert!(records.iter().all(|record| record.value.as_ref().is_some_and(|value| value.len() <= 1_000_000)));
    let mut desk = shelf.wait(walpost_kafka::Letters::open(&settings(shared_kafka()), "orders", &shelf.topic)).unwrap();
    let ids: Vec<i64> = desk.list(&Default::default(), -1).iter().map(|listed| listed.id).collect();
    assert_eq!(ids[..2], [0, 1]);
    for (id, letter) in ids.iter().zip(&letters) {
        assert_eq!(shelf.wait(desk.show(*id)).unwrap().unwrap().1, *letter);
    }
    // A tool that knows nothing of walpost puts the parts together.
    let text: String = records[1..records.len() - 1].iter().map(|record| record.value_text()).collect();
    let document: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(document["record"]["payload"].as_str().map(str::len), Some(payload.len()));
}

#[test]
fn ended_letters_are_tidied_away_by_tombstones_for_all_their_keys() {
    let shelf = Shelf::new("tidied");
    let mut store = shelf.store("orders", std::time::Duration::ZERO);
    shelf.wait(store.set_aside(&[letter(0, "a", bad("odd")), letter(1, "b", bad("odd"))])).unwrap();
    let id = LetterId(0);
    shelf.wait(store.conclude(&[(id, Conclusion::Dropped)])).unwrap();
    eventually("the ended letter to go", || {
        let mut store = shelf.store("orders", std::time::Duration::ZERO);
        shelf.wait(store.inventory()).unwrap();
        shelf.records().iter().any(|record| record.value.is_none())
    });
    let mut last = std::collections::BTreeMap::new();
    for record in shelf.records() {
        last.insert(record.key_text(), record.value.is_some());
    }
    let alive: BTreeSet<bool> =
        last.iter().filter(|(key, _)| key.contains(":0:800000000123456:")).map(|(_, is)| *is).collect();
    assert_eq!(alive, BTreeSet::from([false]), "{last:?}");
    let desk = shelf.wait(walpost_kafka::Letters::open(&settings(shared_kafka()), "orders", &shelf.topic)).unwrap();
    assert_eq!(desk.count(&Default::default()), 1);
}

/// The same letters in the table and in a topic, under the same numbers.
struct Both {
    table: Desk,
    topic: Walpost,
    shelf: Shelf,
    store: LetterTopic,
}

impl Both {
    fn new(label: &str) -> Self {
        let mut table = Desk::new(label);
        two_queues(&mut table);
        let shelf = Shelf::new(label);
        let config = Config::new(&table.database.url(), table.database.name())
            .kafka(shared_kafka().bootstrap())
            .outbox("public.outbox", &[])
            .set("dead_letter", "store", &toml_string("kafka"))
            .set("dead_letter", "topic", &toml_string(&shelf.topic));
        let mut topic = Walpost::new(WALPOST.as_str(), &config).unwrap();
        topic.set_variable("USER", "alice");
        // The table counts from 1.
        shelf.wait(shelf.store("another", DAY).set_aside(&[letter(0, "z", bad("theirs"))])).unwrap();
        let mut store = shelf.store(table.database.name(), DAY);
        let keyless = DeadLetter { parking_key: None, ..letter(5, "", bad("without key")) };
        let letters = [
            letter(0, "a", bad("the record is too large")),
            letter(1, "a", Cause::Parked),
            letter(2, "a", Cause::Parked),
            letter(3, "b", Cause::Route("the topic is missing".to_owned())),
            letter(4, "b", Cause::Parked),
            keyless,
        ];
        shelf.wait(store.set_aside(&letters)).unwrap();
        Self { table, topic, shelf, store }
    }

    /// The numbers of what a relay would do next.
    #[track_caller]
    fn next(&mut self) -> Vec<i64> {
        let of_topic = self.shelf.wait(self.store.marked(100, false)).unwrap();
        let of_topic: Vec<i64> = of_topic.iter().map(|marked| marked.id.0).collect();
        assert_eq!(of_topic, self.table.next());
        of_topic
    }

    /// The numbers of either begin alike, and marks and states lie between those of later letters alone.
    fn conclude(&mut self, id: i64, end: &Conclusion) {
        self.table.conclude(id, end.clone());
        self.shelf.wait(self.store.conclude(&[(LetterId(id), end.clone())])).unwrap();
    }

    /// What both say, once what differs from one moment to the next, or between a database and a broker, is taken out.
    #[track_caller]
    fn say(&self, arguments: &[&str]) -> String {
        let table = self.table.dlq(arguments);
        let topic = self.topic.call(&[&["dlq"], arguments].concat()).unwrap();
        assert_eq!(topic.code(), table.code(), "{arguments:?}: {topic:?}");
        assert_eq!(timeless(&topic.output), timeless(&table.output), "{arguments:?}");
        topic.output
    }
}

/// Without times, and who marked.
fn timeless(output: &str) -> String {
    let timeless = |line: &str| match serde_json::from_str::<Value>(line) {
        Ok(Value::Object(mut fields)) => {
            for name in ["first_at", "last_at", "marked_at", "ended_at", "marked_by", "bytes"] {
                let is_there = fields.get(name).is_some_and(|value| !value.is_null());
                fields.insert(name.to_owned(), is_there.into());
            }
            Value::Object(fields).to_string()
        }
        _ if line.starts_with("set aside:") || line.starts_with("marked:") || line.starts_with("ended:") => {
            line.split(':').next().unwrap_or_default().to_owned()
        }
        // The age is among the columns of the list.
        _ => line.split_whitespace().filter(|word| !is_age(word)).collect::<Vec<_>>().join(" "),
    };
    output.lines().map(timeless).collect::<Vec<_>>().join("\n")
}

fn is_age(word: &str) -> bool {
    word.strip_suffix('s').is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()))
}

#[test]
fn an_operator_is_told_the_same_by_the_topic_as_by_the_table() {
    let mut both = Both::new("both");
    let listed = both.say(&["list"]);
    assert!(listed.contains("6 letters"), "{listed}");
    for arguments in [
        &["list", "--json"][..],
        &["list", "--limit", "2"],
        &["list", "--id", "5,1", "--id", "7"],
        &["list", "--key", "a"],
        &["list", "--key", "nobody"],
        &["list", "--outbox", "outbox", "--cause", "route,parked"],
        &["list", "--topic", "orders", "--reason", "TOO large", "--json"],
        &["list", "--reason", "letter"],
        &["list", "--state", "sent"],
        &["list", "--since", "1h", "--json"],
        &["list", "--until", "1h"],
        &["list", "--since", "2020-01-01T00:00:00Z", "--until", "0s", "--key", "b"],
        &["show", "1"],
        &["show", "2", "--json"],
        &["show", "6"],
        &["show", "3", "--payload"],
        &["show", "7"],
        &["replay"],
        &["drop", "--state", "sent"],
        &["replay", "--all"],
        &["replay", "--id", "2"],
        &["replay", "--key", "nobody", "--yes"],
        &["drop", "--id", "1,4"],
        &["drop", "--limit", "2", "--outbox", "public.outbox"],
        &["unmark", "--all"],
        &["drop", "--id", "4"],
        &["drop", "--id", "1", "--yes"],
        &["list"],
        &["unmark", "--all", "--yes"],
        &["replay", "--id", "4", "--yes"],
        &["replay", "--reason", "large", "--yes"],
        &["list", "--state", "replay"],
        &["drop", "--id", "6", "--yes"],
        &["list", "--json"],
        &["unmark", "--id", "2", "--yes"],
        &["unmark", "--id", "5", "--yes"],
        &["drop", "--id", "4", "--state", "replay"],
        &["replay", "--id", "5", "--yes"],
        &["unmark", "--all"],
        &["list"],
        &["show", "1", "--json"],
    ] {
        both.say(arguments);
    }
    both.next();
    for (id, end) in [(1, Conclusion::Sent), (6, Conclusion::Dropped), (4, Conclusion::Returned("closed".to_owned()))] {
        both.conclude(id, &end);
    }
    for arguments in [
        &["list", "--json", "--state", "sent,dropped,waiting,replay"][..],
        &["list"],
        &["show", "4"],
        &["replay", "--all"],
        &["drop", "--id", "1", "--yes"],
        &["drop", "--id", "4", "--yes"],
    ] {
        both.say(arguments);
    }
    both.conclude(4, &Conclusion::Dropped);
    both.say(&["list"]);
}

#[test]
fn what_goes_by_itself_is_told_the_same_by_the_topic_as_by_the_table() {
    let mut both = Both::new("follow");
    both.say(&["drop", "--id", "1,4", "--yes"]);
    both.say(&["list"]);
    for id in [1, 4] {
        both.conclude(id, &Conclusion::Dropped);
    }
    for arguments in [
        &["list", "--state", "replay"][..],
        &["list", "--json", "--state", "replay,dropped"],
        &["show", "2"],
        &["unmark", "--key", "a"],
        &["drop", "--key", "a", "--state", "waiting,replay"],
        &["replay", "--all"],
    ] {
        both.say(arguments);
    }
    assert_eq!(both.next(), [2, 3, 5]);
    // One fails by itself, and an operator has another wait.
    both.conclude(2, &Conclusion::Returned("odd".to_owned()));
    both.say(&["show", "2"]);
    both.say(&["unmark", "--id", "5", "--yes"]);
    both.say(&["list", "--key", "b"]);
    assert_eq!(both.next(), [0; 0]);
    both.say(&["replay", "--id", "5", "--yes"]);
    // In the table the one behind it is marked still.
    both.table.dlq(&["replay", "--id", "2", "--yes"]).assert_success();
    both.topic.call(&["dlq", "replay", "--id", "2", "--yes"]).unwrap().assert_success();
    assert_eq!(both.next(), [2, 3, 5]);
    for id in [2, 3, 5] {
        both.conclude(id, &Conclusion::Sent);
    }
    both.say(&["list", "--json", "--state", "sent,dropped", "--id", "1,2,4,5"]);
}

/// A relay that keeps its letters in a topic, whose other topics take small records only.
pub(super) fn narrow(kafka: &KafkaEndpoint, label: &str) -> Rig {
    let mut rig = Rig::with_tables_on(shared_postgres(), kafka, label, &["public.outbox"]);
    let topic = format!("letters-{}", rig.database.name());
    rig.configure(|config| {
        config.set("sink.kafka", "compression.type", r#""none""#).set("dead_letter", "store", r#""kafka""#).set(
            "dead_letter",
            "topic",
            &toml_string(&topic),
        )
    });
    rig.limit_records(5_000);
    rig
}

#[track_caller]
pub(crate) fn insert_large(rig: &Rig, key: &str, seq: i64, bytes: usize) {
    rig.sql(&format!(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) SELECT gen_random_uuid(), 'order', '{key}', 'Changed', \
         jsonb_build_object('seq', {seq}, 'filling', repeat('0123456789', {})), {seq}",
        bytes / 10
    ));
}

/// The open letters, an object each.
#[track_caller]
pub(crate) fn open(rig: &Rig, options: &[&str]) -> Vec<Value> {
    let listed = rig.call(&[&["dlq", "list", "--json", "--limit", "100000"], options].concat());
    listed.assert_success();
    listed.output.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
pub(crate) fn wait_for_open(rig: &Rig, expected: usize) {
    eventually(&format!("{expected} open letters"), || open(rig, &[]).len() == expected);
}

pub(crate) fn stop(relay: Relay) {
    relay.stop(LIMIT).unwrap().assert_success();
}

#[test]
fn a_row_too_large_is_set_aside_in_the_topic_and_sent_in_order_once_its_topic_is_mended() {
    let mut rig = narrow(shared_kafka(), "topicmended");
    rig.call(&["check"]).assert_said(5, &["dead letters are kept there", "walpost init"]);
    rig.init();
    rig.call(&["check"]).assert_said(0, &["nothing keeps relay"]);
    assert_eq!(rig.value("SELECT to_regclass('walpost.dead_letter') IS NULL"), "t", "the table is not needed");
    let topic = format!("letters-{}", rig.database.name());
    rig.configure(|config| config.set("dead_letter", "topic", &toml_string(&format!("{topic}-none"))));
    let ended = rig.start().wait(LIMIT).unwrap();
    ended.assert_said(6, &["the dead letters cannot be read", "does not exist", "run: walpost init"]);
    rig.call(&["dlq", "list"]).assert_said(6, &["the dead letters cannot be read", "run: walpost init"]);
    rig.configure(|config| config.set("dead_letter", "topic", &toml_string(&topic)));
    let relay = rig.start_streaming();
    rig.insert("a", 0, 1);
    insert_large(&rig, "a", 1, 9_000);
    rig.insert("a", 2, 3);
    insert_large(&rig, "c", 0, 9_000);
    rig.insert("b", 0, 20);
    wait_for_open(&rig, 5);
    eventually("nothing to be owed", || value(&relay, "walpost_owed_records", &[]) == 0.0);
    wait_until_ready(&relay);
    wait_for_value(&relay, "walpost_dead_letters_open", &[], 5.0);
    wait_for_value(&relay, "walpost_parked_keys", &[], 2.0);
    let causes: Vec<_> = open(&rig, &["--key", "a"]).iter().map(|letter| letter["cause"].clone()).collect();
    assert_eq!(causes, ["row", "parked", "parked", "parked"]);
    let status: Value = serde_json::from_str(&rig.call(&["status", "--json"]).output).unwrap();
    let told = &status["dead_letters"];
    assert_eq!((&told["letters"], &told["roots"], &told["keys"]), (&5.into(), &2.into(), &2.into()), "{told}");

    // The next relay knows the keys from the first frame on.
    stop(relay);
    let relay = rig.start_streaming();
    rig.insert("a", 5, 2);
    wait_for_open(&rig, 7);
    rig.call(&["dlq", "drop", "--key", "c", "--yes"]).assert_said(0, &["1 letter is marked"]);
    wait_for_open(&rig, 6);
    rig.limit_records(1_000_000);
    rig.call(&["dlq", "replay", "--key", "a", "--yes"]).assert_said(0, &["6 letters are marked"]);
    wait_for_open(&rig, 0);
    eventually("the keys to be let go", || value(&relay, "walpost_parked_keys", &[]) == 0.0);
    rig.insert("a", 7, 3);
    rig.sql("DELETE FROM outbox WHERE aggregateid = 'c'");
    rig.assert_delivered(Repeats::Allowed);
    let ended = open(&rig, &["--state", "sent,dropped"]);
    assert_eq!(ended.iter().filter(|letter| letter["state"] == "dropped").count(), 1);
    assert!(ended.iter().all(|letter| letter["marked_by"].as_str().is_some_and(|by| by.starts_with("walpost ("))));
    stop(relay);
}

#[test]
fn a_row_of_three_megabytes_is_set_aside_where_records_of_one_are_taken_and_is_sent_once_they_may_be_larger() {
    let mut rig = narrow(shared_kafka(), "topiclarge");
    rig.init();
    let relay = rig.start_streaming();
    insert_large(&rig, "a", 0, 3_000_000);
    rig.insert("a", 1, 1);
    wait_for_open(&rig, 2);
    let id = open(&rig, &[])[0]["id"].to_string();
    let payload = rig.call(&["dlq", "show", &id, "--payload"]);
    assert!(payload.output.len() > 3_000_000, "{} bytes", payload.output.len());
    stop(relay);
    rig.limit_records(10_000_000);
    rig.configure(|config| config.set("sink.kafka", "message.max.bytes", "10000000"));
    let relay = rig.start_streaming();
    rig.call(&["dlq", "replay", "--all", "--yes"]).assert_said(0, &["2 letters are marked"]);
    wait_for_open(&rig, 0);
    rig.assert_delivered(Repeats::Allowed);
    stop(relay);
}

#[test]
fn a_relay_that_is_killed_while_it_writes_to_the_topic_and_replays_from_it_loses_nothing() {
    let mut rig = narrow(shared_kafka(), "topickilled");
    rig.configure(|config| config.set("checkpoint", "interval_ms", "100").set("dead_letter", "flood_limit", "100000"));
    rig.init();
    let running =
        rig.workload().keys(20, 200).largest_payload(60_000).pause(std::time::Duration::from_millis(20)).start();
    let count = |rig: &Rig, states: &str| open(rig, &["--state", states]).len();
    for kill in 0..6 {
        let relay = rig.start();
        let before = count(&rig, "waiting");
        eventually("more letters", || count(&rig, "waiting") > before);
        let_pass(std::time::Duration::from_millis(37 * kill));
        relay.kill9().unwrap();
    }
    rig.limit_records(1_000_000);
    for kill in 0..6 {
        let relay = rig.start();
        rig.call(&["dlq", "replay", "--all", "--yes"]).assert_success();
        let before = count(&rig, "sent");
        eventually("more letters to be sent", || count(&rig, "sent") > before || open(&rig, &[]).is_empty());
        let_pass(std::time::Duration::from_millis(23 * kill));
        relay.kill9().unwrap();
    }
    let relay = rig.start();
    let _ = running.stop();
    eventually("all letters to be sent", || {
        rig.call(&["dlq", "replay", "--all", "--yes"]);
        open(&rig, &[]).is_empty()
    });
    rig.assert_delivered(Repeats::Allowed);
    eventually("no key to be parked", || value(&relay, "walpost_parked_keys", &[]) == 0.0);
    stop(relay);
}

#[test]
fn while_the_topic_takes_nothing_the_row_stays_owed_and_the_relay_says_so() {
    let kafka = breakable_kafka();
    let mut rig = narrow(kafka.endpoint(), "topicshut");
    rig.configure(|config| config.set("http", "stalled_after_ms", "2000"));
    rig.init();
    let relay = rig.start_streaming();
    let letters = format!("letters-{}", rig.database.name());
    kafka.endpoint().configure_topic(&letters, &[("cleanup.policy", "compact"), ("max.message.bytes", "100")]).unwrap();
    // Brokers keep the order of a producer's records from the first that they took.
    rig.insert("a", 0, 1);
    eventually("the first record", || value(&relay, "walpost_delivered_records_total", &[]) >= 1.0);
    insert_large(&rig, "a", 1, 9_000);
    rig.insert("a", 2, 1);
    rig.insert("b", 0, 10);
    wait_until_unready(&relay, "holding", "the dead letters cannot be written: topic");
    assert!(open(&rig, &[]).is_empty());
    let truth = rig.truth();
    kafka.endpoint().configure_topic(&letters, &[("cleanup.policy", "compact")]).unwrap();
    wait_for_open(&rig, 2);
    wait_until_ready(&relay);
    rig.limit_records(1_000_000);
    rig.call(&["dlq", "replay", "--all", "--yes"]).assert_success();
    wait_for_open(&rig, 0);
    rig.verdict(&truth).assert_clean(Repeats::Allowed);
    stop(relay);
}

#[test]
fn letters_that_the_open_transaction_of_a_neighbour_hides_are_not_overtaken_by_a_relay_that_starts() {
    let rig = narrow(shared_kafka(), "hiddenletter");
    rig.init();
    let relay = rig.start_streaming();
    let topic = format!("letters-{}", rig.database.name());
    let id = format!("neighbour-{}", rig.database.name());
    let neighbour = OpenTransaction::begin(shared_kafka().bootstrap(), &id, &[&topic]).unwrap();
    insert_large(&rig, "a", 0, 9_000);
    rig.insert("a", 1, 1);
    eventually("two letters", || value(&relay, "walpost_dead_letters_open", &[]) == 2.0);
    eventually("nothing to be owed", || value(&relay, "walpost_owed_records", &[]) == 0.0);
    stop(relay);

    let listing = rig.walpost.begin(&["dlq", "list"]).unwrap();
    let relay = rig.start();
    rig.insert("a", 2, 1);
    rig.insert("b", 3, 1);
    let words =
        ["no letter fits", "letters behind offset 0 are not shown", "a transaction of another producer has been open"];
    listing.wait(LIMIT).unwrap().assert_said(0, &words);
    assert!(relay.is_running(), "{}", relay.log());
    assert_eq!(rig.consumer().read_to_end(LIMIT).unwrap().len(), 0, "nobody knows what may be sent");
    neighbour.commit().unwrap();
    rig.consumer().read_count(1, LIMIT).unwrap();
    wait_for_open(&rig, 3);
    rig.limit_records(1_000_000);
    rig.call(&["dlq", "replay", "--all", "--yes"]).assert_success();
    wait_for_open(&rig, 0);
    // The checker looks at the order of each key.
    rig.assert_delivered(Repeats::Forbidden);
    stop(relay);
}

#[test]
fn a_letter_that_a_newer_walpost_wrote_keeps_the_relay_from_starting_until_it_is_given_up() {
    let rig = narrow(shared_kafka(), "newerletter");
    rig.init();
    let relay = rig.start_streaming();
    insert_large(&rig, "a", 0, 9_000);
    wait_for_open(&rig, 1);
    stop(relay);
    let topic = format!("letters-{}", rig.database.name());
    // As if compaction had passed, so that of the key there is only what is newer.
    let mut consumer = Consumer::of_topics(shared_kafka().bootstrap(), &[&topic]).unwrap();
    let written = consumer.read_to_end(LIMIT).unwrap()[0].clone();
    let text = String::from_utf8(written.value.clone().unwrap()).unwrap();
    let newer = text.replace(r#""format_version":1"#, r#""format_version":9"#);
    rewrite(&topic, &written, &[None, Some(newer)]);

    let drop = "walpost dlq drop --id 2 --yes";
    let words = ["offset 2 of topic", ":letter:1, cannot be read", "it has format 9", "a newer one", drop];
    rig.start().wait(LIMIT).unwrap().assert_said(11, &words);
    rig.call(&["dlq", "list"]).assert_said(0, &["2  unreadable", "it has format 9", drop]);
    let listed = open(&rig, &[]);
    assert_eq!((listed.len(), &listed[0]["id"], &listed[0]["state"]), (1, &2.into(), &"unreadable".into()));
    assert!(open(&rig, &["--key", "a"]).is_empty());
    rig.call(&["dlq", "show", "2"]).assert_said(2, &["it has format 9"]);
    rig.call(&["status"]).assert_said(10, &["the dead letters cannot be read", "it has format 9", drop]);
    rig.call(&["dlq", "drop", "--id", "2"]).assert_said(0, &["nothing was deleted"]);
    rig.call(&["dlq", "drop", "--id", "7", "--yes"]).assert_said(2, &["there is no letter 7"]);
    rig.start().wait(LIMIT).unwrap().assert_said(11, &words);
    rig.call(&["dlq", "drop", "--id", "2", "--yes"]).assert_said(0, &["1 letter that cannot be read is deleted"]);
    assert!(open(&rig, &[]).is_empty());
    let relay = rig.start_streaming();
    rig.insert("a", 1, 1);
    let mut consumer = rig.consumer();
    consumer.read_count(1, LIMIT).unwrap();
    stop(relay);
}

/// Writes these values under the key and the headers of a record.
fn rewrite(topic: &str, like: &walpost_testkit::consumer::Received, values: &[Option<String>]) {
    use walpost_core::port::{Sink as _, Ticket};
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let header = |(name, value): &(String, Option<Vec<u8>>)| Header {
        name: name.as_str().into(),
        value: value.clone().map(Bytes::from),
    };
    runtime.block_on(async {
        let mut producer = walpost_kafka::Producer::new(settings(shared_kafka())).unwrap();
        let mut done = Vec::new();
        for (ticket, value) in (0..).zip(values) {
            let record = Record {
                topic: topic.into(),
                key: like.key.clone().map(Bytes::from),
                value: value.clone().map(Bytes::from),
                headers: like.headers.iter().map(header).collect(),
                timestamp_ms: like.timestamp_ms.unwrap(),
                is_dated_by_row: false,
                partition: Some(0),
                ..letter(0, "k", Cause::Parked).record.unwrap()
            };
            while producer.publish(Ticket(ticket), &record).is_err() {
                producer.next_deliveries(&mut done).await;
            }
        }
        done.extend(producer.close(LIMIT).await);
        assert!(done.iter().all(|delivery| delivery.outcome.is_ok()), "{done:?}");
    });
}
