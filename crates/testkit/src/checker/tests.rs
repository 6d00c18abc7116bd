use super::*;

const TOPIC: &str = "orders";
const PARTITIONS: i32 = 3;

fn row(number: i64) -> Expected {
    let key = format!("key-{}", number % 4);
    let id = format!("id-{number}");
    Expected {
        headers: vec![("id".to_owned(), Some(id.clone().into_bytes())), ("note".to_owned(), None)],
        id,
        topic: TOPIC.to_owned(),
        key: Some(key.into_bytes()),
        value: Some(format!("{{\"number\": {number}}}").into_bytes()),
        sequence: Some(number / 4),
        timestamp_ms: None,
        is_misfit: None,
    }
}

fn truth() -> Truth {
    let mut truth = Truth::new().with_partitions(TOPIC, PARTITIONS);
    (0..40).for_each(|number| truth.add(row(number)).unwrap());
    truth
}

fn record(number: i64) -> Received {
    let row = row(number);
    Received {
        partition: partition_of(row.key.as_deref().unwrap(), PARTITIONS),
        topic: row.topic,
        offset: number,
        key: row.key,
        value: row.value,
        headers: row.headers,
        timestamp_ms: Some(1_000 + number),
    }
}

fn records() -> Vec<Received> {
    (0..40).map(record).collect()
}

/// The counts of lost, repeated, out of order, phantom, altered.
fn counts(records: &[Received]) -> [usize; 5] {
    counts_against(&truth(), records)
}

fn counts_against(truth: &Truth, records: &[Received]) -> [usize; 5] {
    let verdict = check(truth, records);
    [&verdict.lost, &verdict.repeated, &verdict.out_of_order, &verdict.phantom, &verdict.altered].map(Cases::count)
}

#[test]
fn a_run_in_which_nothing_went_wrong_is_clean() {
    let verdict = check(&truth(), &records());
    assert_eq!((verdict.committed, verdict.received), (40, 40));
    verdict.assert_clean(Repeats::Forbidden);
}

#[test]
fn a_dropped_record_is_lost() {
    let mut records = records();
    records.remove(17);
    assert_eq!(counts(&records), [1, 0, 0, 0, 0]);
    assert!(check(&truth(), &records).lost.examples()[0].contains("id-17"));
}

#[test]
fn a_run_of_which_nothing_came_lost_everything() {
    assert_eq!(counts(&[]), [40, 0, 0, 0, 0]);
}

#[test]
fn a_doubled_record_is_a_repeat_and_clean_only_where_repeats_are_allowed() {
    let mut records = records();
    records.push(record(12));
    assert_eq!(counts(&records), [0, 1, 0, 0, 0]);
    let verdict = check(&truth(), &records);
    assert!(verdict.is_clean(Repeats::Allowed));
    assert!(!verdict.is_clean(Repeats::Forbidden));
}

#[test]
fn two_swapped_records_of_a_key_are_out_of_order_and_two_of_different_keys_are_not() {
    let mut records = records();
    records.swap(8, 12);
    assert_eq!(counts(&records), [0, 0, 1, 0, 0]);
    records.swap(8, 12);
    records.swap(8, 9);
    assert_eq!(counts(&records), [0, 0, 0, 0, 0]);
}

#[test]
fn a_stretch_that_is_repeated_as_a_whole_is_in_order() {
    let mut records = records();
    records.splice(20..20, (10..20).map(record));
    assert_eq!(counts(&records), [0, 10, 0, 0, 0]);
}

#[test]
fn a_first_delivery_behind_a_repeat_of_its_predecessor_is_in_order_and_one_behind_its_successor_is_not() {
    let mut records: Vec<_> = [0, 4, 0, 4, 8].map(record).into();
    let mut truth = Truth::new();
    [0, 4, 8].into_iter().for_each(|number| truth.add(row(number)).unwrap());
    assert_eq!(counts_against(&truth, &records), [0, 2, 0, 0, 0]);
    records.swap(1, 4);
    assert_eq!(counts_against(&truth, &records), [0, 2, 1, 0, 0]);
}

#[test]
fn an_altered_record_is_reported_with_what_differs() {
    type Alteration = (&'static str, fn(&mut Received));
    let alterations: [Alteration; 8] = [
        ("value", |record| record.value = Some(b"{}".into())),
        ("value", |record| record.value = None),
        ("topic", |record| record.topic = "another".to_owned()),
        ("headers", |record| record.headers[1].1 = Some(Vec::new())),
        ("headers", |record| record.headers.push(("more".to_owned(), None))),
        ("key", |record| record.key = None),
        ("key", |record| record.key = Some(b"another".into())),
        ("partition", |record| record.partition = (record.partition + 1) % PARTITIONS),
    ];
    for (what, alter) in alterations {
        let mut records = records();
        alter(&mut records[21]);
        let verdict = check(&truth(), &records);
        assert_eq!(verdict.altered.count(), 1, "{what}: {verdict}");
        assert!(verdict.altered.examples()[0].contains(what), "{what}: {verdict}");
        assert!(!verdict.is_clean(Repeats::Allowed), "{what}");
    }
}

#[test]
fn a_repeat_that_differs_from_its_first_delivery_is_altered() {
    type Alteration = (&'static str, fn(&mut Received));
    let alterations: [Alteration; 5] = [
        ("timestamp", |record| record.timestamp_ms = Some(7)),
        ("value", |record| record.value = Some(b"{}".into())),
        ("headers", |record| record.headers.truncate(1)),
        ("key", |record| record.key = Some(b"another".into())),
        ("partition", |record| record.partition += 1),
    ];
    for (what, alter) in alterations {
        let mut records = records();
        let mut repeat = record(30);
        alter(&mut repeat);
        records.push(repeat);
        let verdict = check(&truth(), &records);
        assert_eq!((verdict.repeated.count(), verdict.altered.count()), (1, 1), "{what}: {verdict}");
        assert!(verdict.altered.examples()[0].contains(what), "{what}: {verdict}");
    }
}

#[test]
fn a_key_that_changes_its_partition_is_altered_even_where_the_count_of_partitions_is_not_known() {
    let mut truth = Truth::new();
    (0..40).for_each(|number| truth.add(row(number)).unwrap());
    let mut records = records();
    records[36].partition = 9;
    assert_eq!(counts_against(&truth, &records), [0, 0, 0, 0, 1]);
}

#[test]
fn without_a_key_neither_partition_nor_order_is_promised() {
    let mut truth = Truth::new().with_partitions(TOPIC, PARTITIONS);
    let keyless = |number| Expected { key: None, ..row(number) };
    (0..3).for_each(|number| truth.add(keyless(number)).unwrap());
    let sent = |number, partition| Received { key: None, partition, ..record(number) };
    let records = [sent(2, 0), sent(1, 1), sent(0, 2), sent(2, 1)];
    assert_eq!(counts_against(&truth, &records), [0, 1, 0, 0, 0]);
}

#[test]
fn the_commit_time_is_compared_where_it_is_known() {
    let mut truth = Truth::new();
    truth.add(Expected { timestamp_ms: Some(1_000), ..row(0) }).unwrap();
    truth.add(Expected { timestamp_ms: Some(1_000), ..row(1) }).unwrap();
    assert_eq!(counts_against(&truth, &[record(0), record(1)]), [0, 0, 0, 0, 1]);
}

#[test]
fn a_record_of_no_committed_row_is_a_phantom() {
    let mut rolled_back = record(41);
    let mut without_id = record(3);
    without_id.headers.remove(0);
    rolled_back.value = Some(b"{\"fate\": \"rolled back\"}".into());
    let mut records = records();
    records.extend([rolled_back, without_id]);
    assert_eq!(counts(&records), [0, 0, 0, 2, 0]);
    let verdict = check(&truth(), &records);
    assert!(verdict.phantom.examples()[0].contains("id-41"), "{verdict}");
}

#[test]
fn many_cases_are_all_counted_and_few_described() {
    let verdict = check(&truth(), &[]);
    assert_eq!(verdict.lost.examples().len(), EXAMPLES);
    assert!(verdict.to_string().contains("lost: 40"), "{verdict}");
}

#[test]
#[should_panic(expected = "lost: 1")]
fn a_verdict_that_is_not_clean_fails_the_test_with_its_words() {
    check(&truth(), &records()[1..]).assert_clean(Repeats::Allowed);
}

#[test]
fn two_rows_of_one_id_are_refused() {
    let mut truth = truth();
    assert!(matches!(truth.add(row(5)), Err(ReadError::DoubleId(id)) if id == "id-5"));
}
