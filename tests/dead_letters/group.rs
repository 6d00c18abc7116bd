//! Letters within the transaction of a group, by the sink alone: what a reader of committed records sees of events, letters and checkpoint.

use std::sync::Arc;
use std::time::Duration;

use walpost_core::poison::LetterId;
use walpost_core::poison::operator::{Filter, Mark, Selection};
use walpost_core::port::{Checkpoints, Refusal, Sink, Ticket, TransactionalSink};
use walpost_core::position::{Checkpoint, Epoch, SystemIdentifier};
use walpost_kafka::{CheckpointTopic, LetterTopic, Letters, Limits, Settings, Transactional};
use walpost_testkit::consumer::Consumer;
use walpost_testkit::servers::{shared_kafka, wait_until};

use super::*;
use crate::rig::{LIMIT, eventually};

/// Topics of one test, and a relay's sink.
struct Stage {
    name: String,
    runtime: tokio::runtime::Runtime,
}

impl Stage {
    fn new(label: &str) -> Self {
        let name = format!("group-{label}-{}", std::process::id());
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let stage = Self { name, runtime };
        shared_kafka().create_topic(&stage.topic("events"), 1).unwrap();
        let letters = LetterTopic::new(stage.settings(), &stage.name, &stage.topic("letters"), DAY);
        let checkpoints = stage.checkpoints();
        assert!(stage.wait(async { letters.create().await.unwrap() && checkpoints.create().await.unwrap() }));
        stage
    }

    fn topic(&self, what: &str) -> String {
        format!("{}-{what}", self.name)
    }

    fn settings(&self) -> Settings {
        self.settings_of(Limits { records: 10_000, bytes: 16 << 20 })
    }

    fn settings_of(&self, limits: Limits) -> Settings {
        Settings::from_properties([("bootstrap.servers", shared_kafka().bootstrap())], limits).unwrap()
    }

    fn checkpoints(&self) -> CheckpointTopic {
        CheckpointTopic::new(self.settings(), &self.name, self.topic("checkpoints"))
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }

    fn opened(&self, settings: &Settings) -> Transactional {
        let sink = Transactional::new(settings, &self.name, &self.topic("checkpoints")).unwrap();
        let mut sink = sink.with_letters(settings, &self.topic("letters"));
        self.wait(sink.open()).unwrap();
        sink
    }

    fn record(&self, value: &str) -> Record {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
        Record {
            // Brokers delete what is old by its timestamp, at any moment.
            timestamp_ms: since.as_millis().try_into().unwrap(),
            is_dated_by_row: false,
            topic: Arc::from(self.topic("events")),
            value: Some(Bytes::copy_from_slice(value.as_bytes())),
            ..letter(0, "k", Cause::Parked).record.unwrap()
        }
    }

    fn checkpoint(&self, position: u64) -> Checkpoint {
        Checkpoint {
            relay: self.name.clone(),
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

    /// Events, letters and position that are committed.
    fn seen(&self) -> (Vec<String>, Vec<String>, Option<u64>) {
        let mut consumer = Consumer::of_topics(shared_kafka().bootstrap(), &[&self.topic("events")]).unwrap();
        let events = consumer.read_to_end(LIMIT).unwrap().iter().map(|record| record.value_text()).collect();
        let letters = self.desk().list(&Filter::default(), -1);
        let letters = letters.iter().map(|listed| format!("{} {}", listed.ordinal, listed.state)).collect();
        let checkpoint = self.wait(self.checkpoints().load()).unwrap();
        (events, letters, checkpoint.map(|checkpoint| checkpoint.position.get()))
    }

    fn desk(&self) -> Letters {
        self.wait(Letters::open(&self.settings(), &self.name, &self.topic("letters"))).unwrap()
    }

    /// Commits come into sight a moment after they are made.
    #[track_caller]
    fn wait_for(&self, events: &[&str], letters: &[&str], position: u64) {
        let own = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let expected = (own(events), own(letters), Some(position));
        let last = std::cell::RefCell::new(None);
        let is_seen = || *last.borrow_mut().insert(self.seen()) == expected;
        let waited = wait_until(&format!("{expected:?}"), LIMIT, is_seen);
        assert!(waited.is_ok(), "{expected:?} was awaited, and {:?} is there", last.borrow());
    }
}

#[test]
fn a_letter_an_event_and_a_checkpoint_become_visible_as_one_or_not_at_all() {
    let stage = Stage::new("one");
    let mut sink = stage.opened(&stage.settings());
    stage.wait(sink.commit(&stage.checkpoint(1))).unwrap();
    sink.publish(Ticket(1), &stage.record("first")).unwrap();
    sink.set_aside(&letter(0, "a", bad("too large"))).unwrap();
    sink.set_aside(&letter(1, "a", Cause::Parked)).unwrap();
    let mut deliveries = Vec::new();
    stage.wait(async {
        while deliveries.is_empty() {
            tokio::time::timeout(LIMIT, sink.next_deliveries(&mut deliveries)).await.unwrap();
        }
    });
    assert_eq!(deliveries.iter().map(|delivery| delivery.ticket).collect::<Vec<_>>(), [Ticket(1)]);
    stage.wait_for(&[], &[], 1);
    stage.wait(sink.commit(&stage.checkpoint(2))).unwrap();
    stage.wait_for(&["first"], &["0 waiting", "1 waiting"], 2);

    // A group that is given up leaves nothing to be seen, and neither does its relay when it dies.
    sink.publish(Ticket(2), &stage.record("lost")).unwrap();
    sink.set_aside(&letter(2, "b", bad("lost"))).unwrap();
    stage.wait(sink.reset()).unwrap();
    stage.wait(sink.open()).unwrap();
    sink.set_aside(&letter(3, "b", bad("lost"))).unwrap();
    let mut next = stage.opened(&stage.settings());
    stage.wait(next.commit(&stage.checkpoint(3))).unwrap();
    stage.wait_for(&["first"], &["0 waiting", "1 waiting"], 3);
    assert!(stage.wait(sink.commit(&stage.checkpoint(4))).is_err());

    // A group of letters alone.
    next.set_aside(&letter(4, "c", bad("alone"))).unwrap();
    stage.wait(next.commit(&stage.checkpoint(5))).unwrap();
    stage.wait_for(&["first"], &["0 waiting", "1 waiting", "4 waiting"], 5);
    assert!(stage.wait(next.close(Duration::from_secs(5))).is_empty());
}

#[test]
fn a_replay_and_its_mark_sent_are_one_and_the_sink_knows_what_its_store_has_read() {
    let stage = Stage::new("replay");
    let settings = stage.settings();
    let mut sink = stage.opened(&settings);
    let mut store = sink.letter_topic(&settings, DAY).unwrap();
    sink.set_aside(&letter(0, "a", bad("too large"))).unwrap();
    sink.set_aside(&letter(1, "a", Cause::Parked)).unwrap();
    stage.wait(sink.commit(&stage.checkpoint(1))).unwrap();
    let unknown = sink.conclude(LetterId(0), &Conclusion::Sent).unwrap_err();
    assert!(matches!(unknown, Refusal::Failed(_)), "nobody has read it: {unknown}");

    let all = Selection { filter: Filter::default(), with_those_behind: false };
    eventually("the letters to be marked", || stage.wait(stage.desk().mark(&all, Mark::Replay, "alice")).unwrap() == 2);
    let mut marked = Vec::new();
    eventually("the mark to be read", || {
        marked = stage.wait(store.marked(10, false)).unwrap();
        !marked.is_empty()
    });
    assert_eq!(marked.len(), 2);
    sink.publish(Ticket(1), &stage.record("again")).unwrap();
    sink.conclude(marked[0].id, &Conclusion::Sent).unwrap();
    stage.wait_for(&[], &["0 replay", "1 replay"], 1);
    stage.wait(sink.commit(&stage.checkpoint(2))).unwrap();
    stage.wait_for(&["again"], &["0 sent", "1 replay"], 2);
    // The same row again, as after a checkpoint that was moved back by hand, is counted where it lies, and not where it has ended.
    assert_eq!(stage.wait(store.inventory()).unwrap().letters, 1);
    assert!(!sink.set_aside(&letter(0, "a", bad("too large"))).unwrap());
    assert!(!sink.set_aside(&letter(1, "a", Cause::Parked)).unwrap());
    stage.wait(sink.commit(&stage.checkpoint(3))).unwrap();
    stage.wait_for(&["again"], &["0 sent", "1 replay"], 3);
    let attempts: Vec<i32> = stage.desk().list(&Filter::default(), -1).iter().map(|listed| listed.attempts).collect();
    assert_eq!(attempts, [2, 2]);
    stage.wait(sink.close(Duration::from_secs(5)));
}

#[test]
fn a_letter_that_is_larger_than_the_queue_is_handed_on_as_that_empties_and_the_next_one_waits() {
    let stage = Stage::new("queue");
    // Room for one record of the largest kind.
    let settings = stage.settings_of(Limits { records: 10, bytes: 1 << 20 });
    let mut sink = stage.opened(&settings);
    let payload = vec![b'x'; 6_000_000];
    let mut large = letter(0, "a", bad("too large"));
    large.row = row("event-0", Some(b"a"), Some(&payload));
    sink.set_aside(&large).unwrap();
    let refused = sink.set_aside(&letter(1, "a", Cause::Parked)).unwrap_err();
    assert_eq!(refused, Refusal::Full);
    let mut deliveries = Vec::new();
    stage.wait(async {
        loop {
            let wait = tokio::time::timeout(Duration::from_millis(20), sink.next_deliveries(&mut deliveries));
            // Nothing is reported, but room is made.
            assert!(wait.await.is_err());
            match sink.set_aside(&letter(1, "a", Cause::Parked)) {
                Ok(is_new) => break assert!(is_new),
                Err(refusal) => assert_eq!(refusal, Refusal::Full),
            }
        }
    });
    // And one that the commit has to hand on itself.
    let mut last = letter(2, "b", bad("too large"));
    last.row = large.row.clone();
    sink.set_aside(&last).unwrap();
    stage.wait(sink.commit(&stage.checkpoint(1))).unwrap();
    stage.wait_for(&[], &["0 waiting", "1 waiting", "2 waiting"], 1);
    assert!(deliveries.is_empty(), "{deliveries:?}");
    let mut desk = stage.desk();
    let id = desk.list(&Filter::default(), -1)[2].id;
    assert_eq!(stage.wait(desk.show(id)).unwrap().unwrap().1, last);
    assert!(stage.wait(sink.close(Duration::from_secs(5))).is_empty());
}

#[test]
fn a_letter_that_the_topic_does_not_take_makes_the_commit_fail_and_says_so() {
    let stage = Stage::new("refused");
    let mut sink = stage.opened(&stage.settings());
    stage.wait(sink.commit(&stage.checkpoint(1))).unwrap();
    shared_kafka().configure_topic(&stage.topic("letters"), &[("max.message.bytes", "100")]).unwrap();
    sink.set_aside(&letter(0, "a", bad("too large"))).unwrap();
    let failure = stage.wait(sink.commit(&stage.checkpoint(2))).unwrap_err();
    for word in ["a dead letter cannot be written", "max.message.bytes", "walpost check"] {
        assert!(failure.reason.contains(word), "{word} in {failure}");
    }
    stage.wait(sink.reset()).unwrap();
    shared_kafka().configure_topic(&stage.topic("letters"), &[("cleanup.policy", "compact")]).unwrap();
    stage.wait(sink.open()).unwrap();
    sink.set_aside(&letter(0, "a", bad("too large"))).unwrap();
    stage.wait(sink.commit(&stage.checkpoint(2))).unwrap();
    stage.wait_for(&[], &["0 waiting"], 2);
}
