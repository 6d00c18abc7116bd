use bytes::Bytes;
use rdkafka::types::RDKafkaErrorCode as Code;
use walpost_core::lsn::Lsn;
use walpost_core::position::{Identity, Timeline};
use walpost_core::record::Headers;

use super::*;
use crate::inbox::Loss;

/// A key, and its partition among five and among eight.
const KEY: (&str, usize, usize) = ("order-1", 1, 6);

const MINUTES: Duration = Duration::from_mins(5);

/// One topic of which nothing is known yet.
struct Scene {
    opening: Opening,
    topic: Arc<str>,
    next: u64,
}

impl Scene {
    fn new() -> Self {
        let opening = Opening::of(Some(Partitioner::Murmur2), Some(MINUTES));
        Self { opening, topic: Arc::from("orders"), next: 0 }
    }

    /// One that was written to once, in partition 0, and that has so many partitions.
    fn of_partitions(count: usize) -> Self {
        let mut scene = Self::new();
        let first = scene.send(&scene.at(0));
        scene.acknowledge(first, 0);
        scene.answer(Some(count));
        scene
    }

    fn record(&self, key: Option<&'static str>, partition: Option<i32>) -> Record {
        Record {
            identity: Identity { timeline: Timeline(1), commit_lsn: Lsn::new(1), ordinal: 0 },
            topic: Arc::clone(&self.topic),
            key: key.map(Bytes::from),
            value: None,
            headers: Headers::new(),
            timestamp_ms: 0,
            is_dated_by_row: false,
            partition,
        }
    }

    fn at(&self, partition: i32) -> Record {
        self.record(None, Some(partition))
    }

    /// What becomes of a record that asks for this partition: `go`, `first`, `first anywhere` or `wait`.
    fn fate(&mut self, partition: i32) -> &'static str {
        let record = self.at(partition);
        match self.opening.admit(&record) {
            Admission::Go(_) => "go",
            Admission::First(First { partition: None, .. }) => "first anywhere",
            Admission::First(_) => "first",
            Admission::Wait => "wait",
        }
    }

    /// Hands over what has to be a first record.
    #[track_caller]
    fn send(&mut self, record: &Record) -> Ticket {
        let admission = self.opening.admit(record);
        let Admission::First(first) = admission else { panic!("{admission:?}") };
        self.next += 1;
        self.opening.sent(Ticket(self.next), first);
        Ticket(self.next)
    }

    fn acknowledge(&mut self, ticket: Ticket, partition: i32) {
        self.opening.reported(&[Report { ticket, partition, outcome: Ok(()) }]);
    }

    fn refuse(&mut self, ticket: Ticket, partition: i32) {
        let loss = Loss {
            code: Code::MessageSizeTooLarge,
            topic: "orders".to_owned(),
            size: 1,
            partition: None,
            is_dated_by_row: false,
        };
        self.opening.reported(&[Report { ticket, partition, outcome: Err(Box::new(loss)) }]);
    }

    /// Answers the question that has to have been put down.
    #[track_caller]
    fn answer(&mut self, count: Option<usize>) {
        assert_eq!(self.opening.counts.take_questions(), [0]);
        self.opening.topics[0].answered(count, self.opening.round);
    }

    #[track_caller]
    fn assert_nothing_is_asked(&mut self) {
        assert!(self.opening.counts.take_questions().is_empty());
    }
}

#[test]
fn behind_the_first_record_of_a_partition_nothing_goes_before_it_is_acknowledged() {
    let mut scene = Scene::of_partitions(3);
    assert_eq!(scene.fate(0), "go");
    let second = scene.send(&scene.at(1));
    let third = scene.send(&scene.at(2));
    assert_eq!([0, 1, 2].map(|partition| scene.fate(partition)), ["go", "wait", "wait"]);
    scene.acknowledge(third, 2);
    assert_eq!([0, 1, 2].map(|partition| scene.fate(partition)), ["go", "wait", "go"]);
    scene.acknowledge(second, 1);
    assert_eq!([0, 1, 2].map(|partition| scene.fate(partition)), ["go", "go", "go"]);
    scene.opening.renew();
    assert_eq!([0, 1, 2].map(|partition| scene.fate(partition)), ["first anywhere"; 3], "another client");
}

#[test]
fn before_it_is_known_how_many_partitions_there_are_one_record_of_a_topic_goes_at_a_time() {
    let mut scene = Scene::new();
    let first = scene.send(&scene.at(0));
    assert_eq!(scene.fate(1), "wait", "the client may find that the first has no place");
    scene.acknowledge(first, 0);
    let second = scene.send(&scene.at(0));
    scene.answer(Some(3));
    assert_eq!([0, 1].map(|partition| scene.fate(partition)), ["go", "wait"], "it may be anywhere");
    scene.acknowledge(second, 1);
    assert_eq!([0, 1, 2].map(|partition| scene.fate(partition)), ["go", "go", "first"]);
}

#[test]
fn a_first_record_that_was_lost_opens_nothing() {
    let mut scene = Scene::of_partitions(2);
    let lost = scene.send(&scene.at(1));
    scene.refuse(lost, 1);
    assert_eq!([0, 1].map(|partition| scene.fate(partition)), ["go", "first"]);
    let mut scene = Scene::new();
    let lost = scene.send(&scene.at(7));
    scene.refuse(lost, 7);
    scene.answer(Some(2));
    assert_eq!([0, 1].map(|partition| scene.fate(partition)), ["first", "first"]);
}

#[test]
fn the_number_of_partitions_is_asked_for_with_a_first_record_until_it_is_known_and_then_now_and_then() {
    let mut scene = Scene::new();
    for _ in 0..2 {
        let first = scene.send(&scene.at(0));
        scene.fate(0);
        scene.answer(None);
        scene.acknowledge(first, 0);
    }
    let first = scene.send(&scene.at(0));
    scene.answer(Some(1));
    scene.acknowledge(first, 0);
    scene.fate(0);
    scene.assert_nothing_is_asked();
    for round in 1..3 {
        scene.opening.tend(Instant::now() + MINUTES * 2 * round);
        assert_eq!([scene.fate(0), scene.fate(0)], ["go", "go"]);
        scene.answer(None);
    }
}

#[test]
fn a_topic_that_has_grown_has_new_partitions_and_one_that_has_shrunk_is_a_new_topic() {
    let mut scene = Scene::of_partitions(1);
    // The client may know already that there is one.
    assert_eq!(scene.fate(1), "first anywhere");
    let beyond = scene.send(&scene.at(1));
    assert_eq!([0, 1].map(|partition| scene.fate(partition)), ["go", "wait"]);
    scene.answer(Some(3));
    scene.acknowledge(beyond, 1);
    assert_eq!([0, 1, 2].map(|partition| scene.fate(partition)), ["go", "go", "first"]);
    scene.opening.tend(Instant::now() + MINUTES * 2);
    assert_eq!(scene.fate(0), "go");
    scene.answer(Some(2));
    assert_eq!([0, 1].map(|partition| scene.fate(partition)), ["first anywhere"; 2]);
}

#[test]
fn a_key_goes_to_its_partition_of_those_that_are_known() {
    let mut scene = Scene::of_partitions(5);
    let of = |count| Partitioner::Murmur2.partition(KEY.0.as_bytes(), count);
    assert_eq!((of(5), of(8)), (Some(KEY.1), Some(KEY.2)));
    let keyed = scene.record(Some(KEY.0), None);
    let first = scene.send(&keyed);
    assert_eq!(scene.opening.firsts[&first].partition, of(5));
    scene.acknowledge(first, i32::try_from(of(5).unwrap()).unwrap());
    assert_eq!(scene.opening.admit(&keyed), Admission::Go(of(5)));
    scene.opening.tend(Instant::now() + MINUTES * 2);
    scene.opening.admit(&keyed);
    scene.answer(Some(8));
    let first = scene.send(&keyed);
    assert_eq!(scene.opening.firsts[&first].partition, of(8));
}

#[test]
fn records_without_a_key_open_one_partition_each_and_go_where_the_client_likes_once_all_are() {
    let mut scene = Scene::of_partitions(3);
    let keyless = scene.record(None, None);
    let firsts = [scene.send(&keyless), scene.send(&keyless)];
    assert_eq!(firsts.map(|first| scene.opening.firsts[&first].partition), [Some(1), Some(2)]);
    assert_eq!(scene.opening.admit(&keyless), Admission::Go(Some(0)));
    scene.acknowledge(firsts[0], 1);
    scene.acknowledge(firsts[1], 2);
    assert_eq!(scene.opening.admit(&keyless), Admission::Go(None));
}

#[test]
fn a_topic_that_the_client_lost_is_opened_anew_behind_what_is_on_its_way() {
    let mut scene = Scene::of_partitions(2);
    let first = scene.send(&scene.at(1));
    let topic = Arc::clone(&scene.topic);
    scene.opening.forget(&topic);
    assert_eq!([0, 1].map(|partition| scene.fate(partition)), ["wait"; 2]);
    scene.acknowledge(first, 1);
    assert_eq!([0, 1].map(|partition| scene.fate(partition)), ["first anywhere"; 2]);
}

#[test]
fn after_hours_every_partition_is_new_to_brokers_once_no_first_record_is_on_its_way() {
    let mut scene = Scene::of_partitions(2);
    let first = scene.send(&scene.at(1));
    let later = Instant::now() + FORGET;
    scene.opening.tend(later);
    assert_eq!(scene.fate(0), "go");
    scene.acknowledge(first, 1);
    scene.opening.tend(later);
    assert_eq!(scene.fate(0), "first anywhere");
}

#[test]
fn a_topic_is_known_by_its_name_wherever_that_stands() {
    let mut opening = Opening::of(Some(Partitioner::Murmur2), None);
    let names: Vec<String> = (0..3 * RECENT).map(|number| format!("topic-{number}")).collect();
    for _ in 0..2 {
        // The second time at other addresses.
        let found: Vec<usize> = names.iter().map(|name| opening.number_of(&Arc::from(name.as_str()))).collect();
        assert_eq!(found, (0..names.len()).collect::<Vec<_>>());
    }
}

#[test]
fn in_transactions_nothing_is_awaited() {
    let mut scene = Scene::new();
    scene.opening = Opening::of(None, None);
    assert_eq!([0, 0].map(|partition| scene.fate(partition)), ["go", "go"]);
}
