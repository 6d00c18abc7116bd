use super::*;

const PARTITIONS: i32 = 3;

fn row(number: i64) -> Expected {
    let id = format!("00000000-0000-4000-8000-{number:012}");
    Expected {
        headers: vec![("id".to_owned(), Some(id.clone().into_bytes()))],
        id,
        topic: "orders".to_owned(),
        key: Some(format!("key-{}", number % 4).into_bytes()),
        value: Some(format!("{{\"number\": {number}}}").into_bytes()),
        sequence: Some(number / 4),
        timestamp_ms: Some(1_000 + number),
    }
}

fn record(number: i64) -> Received {
    let row = row(number);
    Received {
        partition: partition_of(row.key.as_deref().unwrap(), PARTITIONS),
        topic: row.topic,
        offset: 0,
        key: row.key,
        value: row.value,
        headers: row.headers,
        timestamp_ms: row.timestamp_ms,
    }
}

fn records() -> Vec<Received> {
    (0..40).map(record).collect()
}

/// Counts records in their order, which gives them their offsets.
fn census(records: &[Received]) -> Census {
    let mut census = Census::default();
    for (offset, record) in (0..).zip(records) {
        census.count(&Received { offset, ..record.clone() }, 9_000);
    }
    census
}

/// The counts of lost, repeated, out of order, phantom, altered.
fn counts(records: &[Received]) -> [usize; 5] {
    let census = census(records);
    let repeated = census.repeats().len();
    let mut audit = census.audit(PARTITIONS);
    let mut rows: Vec<_> = (0..40).map(row).collect();
    rows.sort_by_key(|row| (row.key.clone(), row.sequence));
    rows.iter().for_each(|row| audit.take(row));
    let verdict = audit.finish();
    assert_eq!((verdict.committed, verdict.received), (40, records.len()));
    [verdict.lost.count(), repeated, verdict.out_of_order.count(), verdict.phantom.count(), verdict.altered.count()]
}

#[test]
fn each_fault_is_counted_as_what_it_is() {
    type Fault = (&'static str, fn(&mut Vec<Received>), [usize; 5]);
    let faults: [Fault; 12] = [
        ("none", |_| {}, [0, 0, 0, 0, 0]),
        ("dropped", |records| drop(records.remove(17)), [1, 0, 0, 0, 0]),
        ("doubled", |records| records.push(record(12)), [0, 1, 0, 0, 0]),
        ("two of a key swapped", |records| records.swap(8, 12), [0, 0, 1, 0, 0]),
        ("two of different keys swapped", |records| records.swap(8, 9), [0, 0, 0, 0, 0]),
        ("a stretch repeated", |records| drop(records.splice(20..20, (10..20).map(record))), [0, 10, 0, 0, 0]),
        ("never written", |records| records.push(record(99)), [0, 0, 0, 1, 0]),
        ("without an id", |records| records.push(Received { headers: Vec::new(), ..record(1) }), [0, 0, 0, 1, 0]),
        ("another value", |records| records[5].value = None, [0, 0, 0, 0, 1]),
        ("another time", |records| records[5].timestamp_ms = Some(5), [0, 0, 0, 0, 1]),
        ("another partition", |records| records[39].partition = (records[39].partition + 1) % 3, [0, 0, 0, 0, 1]),
        ("repeated otherwise", |records| records.push(Received { key: None, ..record(3) }), [0, 1, 0, 0, 1]),
    ];
    for (name, fault, expected) in faults {
        let mut records = records();
        fault(&mut records);
        assert_eq!(counts(&records), expected, "{name}");
    }
}

#[test]
fn a_run_of_which_nothing_came_lost_everything() {
    assert_eq!(counts(&[]), [40, 0, 0, 0, 0]);
}

#[test]
fn a_repeat_is_known_by_the_commit_of_its_row_and_by_when_it_was_read() {
    let mut records = records();
    records.push(record(7));
    assert_eq!(census(&records).repeats(), [Repeat { committed_ms: 1_007, read_ms: 9_000 }]);
}

#[test]
fn a_census_knows_how_far_it_has_read() {
    let census = census(&records());
    assert_eq!((census.rows(), census.received(), census.latest_ms()), (40, 40, 1_039));
    assert_eq!(census.position("orders", record(39).partition), 40);
    assert_eq!(census.position("orders", 7), 0);
}

#[test]
fn only_the_text_of_a_uuid_is_one() {
    assert_eq!(parse_uuid("00000000-0000-0001-0000-0000000000ff"), Some([1, 255]));
    for text in ["", "7", "0000000000000001000000000000000g", "00000000-0000-0001-0000-0000000000f"] {
        assert_eq!(parse_uuid(text), None, "{text}");
    }
}
