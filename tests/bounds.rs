//! Memory depends on what may be in flight, not on the size of a transaction, of a backlog or of an outage.

use std::collections::BTreeMap;
use std::time::Duration;

use walpost_testkit::checker::{Repeats, check};
use walpost_testkit::consumer::{Consumer, Received};
use walpost_testkit::relay::Relay;
use walpost_testkit::servers::{shared_postgres, wait_until};

use crate::rig::{LIMIT, Rig, breakable_kafka, eventually};

/// Rows of the large transaction: together more than twice what the whole process may hold.
const ROWS: i64 = 400_000;
/// Rows of one transaction of the backlog.
const BACKLOG_ROWS: i64 = 40_000;
/// What each of them carries at least: together more than three times what the relay may ever hold.
const ROW_BYTES: i64 = 250;
/// Keys that the rows of one insertion are spread over.
const KEYS: i64 = 10;
/// What the whole process may hold: program, libraries and allocator beside the 16 MiB in flight.
const MEMORY_LIMIT: u64 = 64 << 20;

fn insert_large_rows(rig: &Rig, key: &str, rows: i64) {
    rig.sql(&format!(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) \
         SELECT gen_random_uuid(), 'order', '{key}-' || seq % {KEYS}, 'Changed', \
         jsonb_build_object('seq', seq, 'filling', repeat('x', {ROW_BYTES})), seq FROM generate_series(1, {rows}) AS seq"
    ));
}

#[test]
fn one_transaction_of_many_rows_passes_within_bounded_memory() {
    let rig = Rig::ready("large", &["public.outbox"]);
    let relay = rig.start_streaming();
    insert_large_rows(&rig, "key", ROWS);
    let mut consumer = rig.consumer();
    let rows = usize::try_from(ROWS).unwrap();
    consumer.read_until("all rows of the transaction", 3 * LIMIT, |records| records.len() >= rows).unwrap();
    let peak = relay.peak_memory().unwrap();
    relay.stop(LIMIT).unwrap().assert_success();
    let verdict = check(&rig.truth(), consumer.read_to_end(LIMIT).unwrap());
    verdict.assert_clean(Repeats::Forbidden);
    assert!(peak < MEMORY_LIMIT, "{peak} bytes");
}

/// The rows of one insertion as they arrive, without keeping them: each key has every [`KEYS`]th number and is owed its next one. So what is
/// lost, repeated or out of order is noticed by the record behind it, and nothing lost can hide behind something repeated.
#[derive(Debug, Default)]
struct Sequences {
    /// By key: the partition that it is on, and the number that comes next.
    next: BTreeMap<Vec<u8>, (i32, i64)>,
    count: i64,
}

impl Sequences {
    fn take(&mut self, record: &Received) -> Result<(), String> {
        let sequence = sequence_of(record).ok_or_else(|| format!("{record} tells no number"))?;
        let key = record.key.clone().unwrap_or_default();
        // The first of each key is its own: 1 to 10.
        let first = (record.partition, if sequence % KEYS == 0 { KEYS } else { sequence % KEYS });
        let owed = self.next.entry(key).or_insert(first);
        if *owed != (record.partition, sequence) {
            return Err(format!("{record} has number {sequence}, and partition and number {owed:?} come next"));
        }
        owed.1 += KEYS;
        self.count += 1;
        Ok(())
    }
}

/// The number in a payload such as `{"seq": 17, "filling": "xxx"}`, which PostgreSQL writes in this order.
fn sequence_of(record: &Received) -> Option<i64> {
    let value = record.value.as_deref()?.strip_prefix(br#"{"seq": "#)?;
    let digits = value.split(|byte| *byte == b',').next()?;
    std::str::from_utf8(digits).ok()?.parse().ok()
}

#[test]
fn whatever_is_lost_repeated_out_of_order_or_on_another_partition_breaks_a_sequence() {
    let record = |sequence: i64| Received {
        topic: "orders".to_owned(),
        partition: 0,
        offset: sequence,
        key: Some(format!("key-{}", sequence % KEYS).into_bytes()),
        value: Some(format!(r#"{{"seq": {sequence}, "filling": "x"}}"#).into_bytes()),
        headers: Vec::new(),
        timestamp_ms: None,
    };
    type Change = fn(&mut Vec<Received>);
    let cases: [(&str, Change, bool); 8] = [
        ("nothing", |_| {}, true),
        ("two keys out of turn", |records| records.swap(20, 21), true),
        ("one lost", |records| drop(records.remove(20)), false),
        ("the first of a key lost", |records| drop(records.remove(3)), false),
        ("one repeated", |records| records.insert(31, records[20].clone()), false),
        ("one lost and one repeated", |records| records[30] = records[20].clone(), false),
        ("two of a key swapped", |records| records.swap(20, 30), false),
        ("another partition", |records| records[30].partition = 1, false),
    ];
    for (name, change, is_good) in cases {
        let mut records: Vec<Received> = (1..=50).map(record).collect();
        change(&mut records);
        let mut sequences = Sequences::default();
        let taken = records.iter().try_for_each(|record| sequences.take(record));
        assert_eq!(taken.is_ok(), is_good, "{name}: {taken:?}");
        assert!(!is_good || (sequences.count, sequences.next.len()) == (50, 10), "{name}");
    }
}

/// Reads so many records without keeping them, and whatever comes behind them until the relay has ended. They are all rows of one insertion, each
/// once, and those of a key in its order.
fn read_in_order(rig: &Rig, rows: i64, limit: Duration, relay: Relay) {
    let mut consumer = rig.consumer();
    let mut sequences = Sequences::default();
    let mut take = |consumer: &mut Consumer| {
        consumer.take().iter().try_for_each(|record| sequences.take(record)).unwrap_or_else(|wrong| panic!("{wrong}"));
        sequences.count
    };
    wait_until("all rows of the transaction", limit, || take(&mut consumer) >= rows).unwrap();
    let peak = relay.peak_memory().unwrap();
    relay.stop(LIMIT).unwrap().assert_success();
    let behind = consumer.read_to_end(LIMIT).unwrap().to_vec();
    assert_eq!((sequences.count, behind), (rows, Vec::new()), "each row came once, and nothing else");
    assert_eq!(sequences.next.len(), 10, "ten keys, each on one partition");
    assert!(peak < MEMORY_LIMIT, "{peak} bytes");
}

#[test]
#[ignore = "takes minutes: cargo xtask soak"]
fn one_transaction_of_five_million_rows_passes_within_the_same_memory() {
    const ROWS: i64 = 5_000_000;
    let rig = Rig::ready("soak", &["public.outbox"]);
    let relay = rig.start_streaming();
    insert_large_rows(&rig, "key", ROWS);
    read_in_order(&rig, ROWS, 20 * LIMIT, relay);
}

/// Waits until the relay has taken all that it may and reads no more, so that the walsender cannot write.
fn wait_until_blocked(rig: &Rig) {
    let walsender = rig.walsender().unwrap();
    let query = format!("SELECT wait_event = 'WalSenderWriteData' FROM pg_stat_activity WHERE pid = {walsender}");
    let mut looks = 0;
    eventually("the walsender to be blocked", || {
        looks = if rig.value(&query) == "t" { looks + 1 } else { 0 };
        looks == 20
    });
}

#[test]
fn a_backlog_that_grows_while_the_broker_is_away_stays_on_the_server() {
    let kafka = breakable_kafka();
    let rig = Rig::ready_on(shared_postgres(), kafka.endpoint(), "away", &["public.outbox"]);
    let relay = rig.start_streaming();
    insert_large_rows(&rig, "before", 1_000);
    rig.assert_delivered(Repeats::Forbidden);
    kafka.sigstop().unwrap();
    for key in 0..4 {
        insert_large_rows(&rig, &key.to_string(), BACKLOG_ROWS);
    }
    wait_until_blocked(&rig);
    let peak = relay.peak_memory().unwrap();
    assert!(peak < MEMORY_LIMIT, "{peak} bytes");
    kafka.sigcont().unwrap();
    rig.assert_delivered(Repeats::Forbidden);
    let peak = relay.peak_memory().unwrap();
    assert!(peak < MEMORY_LIMIT, "{peak} bytes afterwards");
}

#[test]
fn a_row_larger_than_all_that_may_be_in_flight_passes_alone() {
    let mut rig = Rig::ready("huge", &["public.outbox"]);
    rig.configure(|config| config.set("limits", "in_flight_bytes", r#""64KiB""#));
    let relay = rig.start_streaming();
    rig.workload().payload_bytes(900_000).keys(2, 2).transactions(20).run(LIMIT).unwrap();
    rig.assert_delivered(Repeats::Forbidden);
    relay.stop(LIMIT).unwrap().assert_success();
}
