//! Memory depends on what may be in flight, not on the size of a transaction, of a backlog or of an outage.

use std::collections::BTreeMap;
use std::time::Duration;

use walpost_testkit::checker::{Repeats, check};
use walpost_testkit::servers::{shared_postgres, wait_until};

use crate::rig::{LIMIT, Rig, breakable_kafka, eventually};

/// Rows of the large transaction: together more than twice what the whole process may hold.
const ROWS: i64 = 400_000;
/// Rows of one transaction of the backlog.
const BACKLOG_ROWS: i64 = 40_000;
/// What each of them carries at least: together more than three times what the relay may ever hold.
const ROW_BYTES: i64 = 250;
/// What the whole process may hold: program, libraries and allocator beside the 16 MiB in flight.
const MEMORY_LIMIT: u64 = 64 << 20;

fn insert_large_rows(rig: &Rig, key: &str, rows: i64) {
    rig.sql(&format!(
        "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload, seq) \
         SELECT gen_random_uuid(), 'order', '{key}-' || seq % 10, 'Changed', \
         jsonb_build_object('filling', repeat('x', {ROW_BYTES})), seq FROM generate_series(1, {rows}) AS seq"
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

/// Reads so many records without keeping them, and sees that each partition has them in the order of their keys' events.
fn read_in_order(rig: &Rig, rows: usize, limit: Duration) {
    let mut consumer = rig.consumer();
    let mut newest: BTreeMap<(i32, Vec<u8>), i64> = BTreeMap::new();
    let mut count = 0;
    wait_until("all rows of the transaction", limit, || {
        for record in consumer.take() {
            let place = (record.partition, record.key.clone().unwrap());
            let before = newest.insert(place, record.offset);
            assert!(before < Some(record.offset), "{record:?}");
            count += 1;
        }
        count >= rows
    })
    .unwrap();
    assert_eq!((count, newest.len()), (rows, 10), "ten keys, each on one partition");
}

#[test]
#[ignore = "takes minutes: cargo xtask soak"]
fn one_transaction_of_five_million_rows_passes_within_the_same_memory() {
    const ROWS: i64 = 5_000_000;
    let rig = Rig::ready("soak", &["public.outbox"]);
    let relay = rig.start_streaming();
    insert_large_rows(&rig, "key", ROWS);
    read_in_order(&rig, usize::try_from(ROWS).unwrap(), 20 * LIMIT);
    let peak = relay.peak_memory().unwrap();
    relay.stop(LIMIT).unwrap().assert_success();
    assert!(peak < MEMORY_LIMIT, "{peak} bytes");
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
