use super::*;
use crate::checker::Repeats;

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
        is_misfit: None,
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
    assert_eq!(
        census(&records).repeats(),
        [Repeat { id: parse_uuid(&row(7).id).unwrap(), committed_ms: 1_007, read_ms: 9_000 }]
    );
}

/// The row of this number was set aside, and is now so.
fn letter(number: i64, state: LetterState) -> (i64, Letter) {
    let marked_ms = (state != LetterState::Open).then_some(5_000);
    (number, Letter { state, is_parked: false, marked_ms })
}

fn letters(letters: &[(i64, Letter)]) -> Letters {
    let mut all = Letters::default();
    letters.iter().for_each(|(number, letter)| all.add(&row(*number).id, *letter, "it is too large"));
    all
}

/// What is found of the records of these numbers, in this order, beside these letters.
fn verdict_on(numbers: &[i64], set_aside: &[(i64, Letter)], windows: &[Window]) -> Verdict {
    let records: Vec<Received> = numbers.iter().map(|number| record(*number)).collect();
    let mut audit = census(&records).audit(PARTITIONS).with_letters(letters(set_aside), windows);
    // Three keys of which the second is of interest: 1, 5, 9.
    let mut rows: Vec<_> = (0..12).map(row).collect();
    rows.sort_by_key(|row| (row.key.clone(), row.sequence));
    rows.iter().for_each(|row| audit.take(row));
    audit.finish()
}

/// What is said of good rows that were blamed, where these are the misfits among rows 0 to 11 and nothing of the others is told to be one.
fn blamed(misfits: &[i64], set_aside: &[(i64, Letter)]) -> Cases {
    let mut audit = census(&(0..12).map(record).collect::<Vec<_>>()).audit(PARTITIONS);
    audit = audit.with_letters(letters(set_aside), &[crash()]);
    for number in 0..12 {
        audit.take(&Expected { is_misfit: Some(misfits.contains(&number)), ..row(number) });
    }
    let verdict = audit.finish();
    assert_eq!(verdict.is_clean(Repeats::Allowed), verdict.blamed.is_empty(), "{verdict}");
    verdict.blamed
}

#[test]
fn a_good_row_may_wait_behind_another_and_may_not_be_a_cause_however_its_letter_ended() {
    use LetterState::{Dropped, Open, Sent};
    let parked = |number, state| (number, Letter { is_parked: true, ..letter(number, state).1 });
    for state in [Open, Sent, Dropped] {
        assert!(
            blamed(&[5], &[letter(5, state), parked(9, state)]).is_empty(),
            "{state:?}: only the misfit is a cause"
        );
        let found = blamed(&[5], &[letter(5, state), letter(9, state)]);
        let [example] = found.examples() else { panic!("{state:?}: {found:?}") };
        assert!(example.contains(&row(9).id) && example.ends_with("it is too large"), "{example}");
    }
    let innocents: Vec<(i64, Letter)> = (0..12).map(|number| letter(number, Dropped)).collect();
    assert_eq!((blamed(&[], &innocents).count(), blamed(&[1], &innocents).count()), (12, 11));
}

#[test]
fn a_good_row_of_which_nothing_came_is_blamed_too() {
    let mut audit = Census::default().audit(PARTITIONS);
    audit = audit.with_letters(letters(&[letter(5, LetterState::Dropped)]), &[]);
    audit.take(&Expected { is_misfit: Some(false), ..row(5) });
    let verdict = audit.finish();
    assert_eq!((verdict.lost.count(), verdict.blamed.count()), (0, 1), "{verdict}");
}

#[test]
fn of_rows_whose_table_does_not_tell_nobody_knows_which_are_good() {
    let verdict = verdict_on(&[others(), vec![1, 9]].concat(), &[letter(5, LetterState::Dropped)], &[]);
    assert!(verdict.blamed.is_empty(), "{verdict}");
}

/// All rows but those of the key of interest.
fn others() -> Vec<i64> {
    (0..12).filter(|number| number % 4 != 1).collect()
}

/// A crash before which rows 0 to 11 were committed and not checkpointed.
fn crash() -> Window {
    Window { cause: "a kill".to_owned(), checkpoint_ms: 1_000, crash_ms: 6_000, most: None, count: 0 }
}

#[test]
fn a_row_is_a_record_or_a_letter_and_no_record_stands_ahead_of_an_older_letter() {
    use LetterState::{Dropped, Open, Sent};
    type Case<'a> = (&'static str, &'a [i64], &'a [(i64, Letter)], [usize; 3]);
    // Lost, out of order, record and letter.
    let cases: [Case<'_>; 10] = [
        ("all of them", &[1, 5, 9], &[], [0, 0, 0]),
        ("a letter and those behind it", &[1], &[letter(5, Open), letter(9, Open)], [0, 0, 0]),
        ("sent late, in order", &[1, 5, 9], &[letter(5, Sent), letter(9, Sent)], [0, 0, 0]),
        ("dropped", &[1, 9], &[letter(5, Dropped), letter(9, Sent)], [0, 0, 0]),
        ("ahead of a letter", &[1, 9], &[letter(5, Open)], [0, 1, 0]),
        ("sent out of order", &[1, 9, 5], &[letter(5, Sent)], [0, 1, 0]),
        ("said to be sent", &[1, 9], &[letter(5, Sent)], [1, 0, 0]),
        ("neither", &[1, 9], &[], [1, 0, 0]),
        ("a record and a letter", &[1, 5, 9], &[letter(5, Open)], [0, 0, 1]),
        ("a record, and dropped", &[1, 5, 9], &[letter(5, Dropped)], [0, 0, 1]),
    ];
    for (name, numbers, set_aside, expected) in cases {
        let verdict = verdict_on(&[others(), numbers.to_vec()].concat(), set_aside, &[]);
        let found = [&verdict.lost, &verdict.out_of_order, &verdict.double].map(Cases::count);
        assert_eq!(found, expected, "{name}: {verdict}");
        assert_eq!(verdict.is_clean(Repeats::Allowed), expected == [0; 3], "{name}");
        assert_eq!(verdict.letters.all(), set_aside.len(), "{name}");
    }
}

#[test]
fn a_row_that_came_again_after_a_crash_may_be_a_record_and_a_letter() {
    let numbers = [others(), vec![1, 5, 9]].concat();
    let set_aside = [letter(5, LetterState::Open), letter(9, LetterState::Dropped)];
    assert!(verdict_on(&numbers, &set_aside, &[crash()]).is_clean(Repeats::Allowed));
    let late = Window { checkpoint_ms: 3_000, ..crash() };
    assert_eq!(verdict_on(&numbers, &set_aside, &[late]).double.count(), 2);
}

#[test]
fn a_letter_of_no_committed_row_one_that_ended_unasked_and_two_of_one_row_are_found() {
    let all: Vec<i64> = (0..12).collect();
    assert_eq!(verdict_on(&all, &[letter(99, LetterState::Open)], &[]).phantom.count(), 1);
    let unasked = Letter { marked_ms: None, ..letter(5, LetterState::Sent).1 };
    assert_eq!(verdict_on(&all, &[(5, unasked)], &[]).phantom.count(), 1);
    let twice = [letter(5, LetterState::Sent), letter(5, LetterState::Sent)];
    assert_eq!(verdict_on(&all, &twice, &[]).phantom.count(), 1);
}

#[test]
fn a_letter_that_was_on_its_way_at_a_crash_is_excused_when_it_is_sent_again() {
    let letters = letters(&[letter(5, LetterState::Sent), letter(9, LetterState::Open)]);
    let repeat = |number: i64, read_ms| Repeat { id: parse_uuid(&row(number).id).unwrap(), committed_ms: 1, read_ms };
    for (name, repeat, is_excused) in [
        ("marked, crashed, sent again", repeat(5, 7_000), true),
        ("before the crash", repeat(5, 5_500), false),
        ("never marked", repeat(9, 7_000), false),
        ("no letter", repeat(1, 7_000), false),
    ] {
        let mut windows = [crash()];
        assert_eq!(letters.excuse(&repeat, &mut windows), is_excused, "{name}");
        assert_eq!(windows[0].count, usize::from(is_excused), "{name}");
    }
}

#[test]
fn rows_that_were_set_aside_are_accounted_for_and_what_is_sent_of_them_is_told_from_the_rest() {
    let mut census = census(&(0..8).map(record).collect::<Vec<_>>());
    [3, 8, 9].into_iter().for_each(|number| census.set_aside(&row(number).id));
    census.set_aside("no id of ours");
    assert_eq!((census.rows(), census.streamed(), census.accounted()), (8, 8, 10));
    census.count(&Received { offset: 8, ..record(8) }, 9_000);
    assert_eq!((census.rows(), census.streamed(), census.accounted()), (9, 8, 10));
}

#[test]
fn rows_are_counted_that_were_committed_after_a_time() {
    let mut census = census(&(0..8).map(record).collect::<Vec<_>>());
    census.count_since(1_010);
    for (offset, number) in [(8, 9), (9, 11), (10, 12), (11, 11)] {
        census.count(&Received { offset, ..record(number) }, 9_000);
    }
    assert_eq!(census.since(), 2);
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
