mod ended;

use walpost_core::poison::operator::Mark;
use walpost_core::poison::{Cause, DeadLetter};
use walpost_core::record::Record;

use super::super::form::Marking;
use super::super::form::tests::letter;
use super::super::records::Records;
use super::*;

/// A topic in memory, whose records can be compacted, and the index of what was read of it.
struct Topic {
    records: Records,
    log: Vec<(i64, Record)>,
    index: Index,
    end: i64,
}

fn now() -> Timestamp {
    Timestamp::from_postgres_micros(800_000_001_000_000)
}

fn later(seconds: i64) -> Timestamp {
    Timestamp::from_postgres_micros(now().postgres_micros() + seconds * 1_000_000)
}

impl Topic {
    fn new() -> Self {
        // So small that a letter has many parts.
        Self {
            records: Records::new("orders", "letters", "0"),
            log: Vec::new(),
            index: Index::new("orders", true),
            end: 0,
        }
    }

    /// The same records, read by another.
    fn clone_log(&self) -> Self {
        let (records, log) = (self.records.clone(), self.log.clone());
        let mut topic = Self { records, log, index: Index::new("orders", true), end: self.end };
        topic.read();
        topic
    }

    fn append(&mut self, records: Vec<Record>) {
        for record in records {
            self.log.push((self.end, record));
            self.end += 1;
        }
        self.read();
    }

    fn read(&mut self) {
        for (offset, record) in &self.log {
            let header = |name: &str| {
                let found = record.headers.iter().find(|header| &*header.name == name);
                found.and_then(|header| header.value.as_deref())
            };
            self.index.fold(&Told {
                offset: *offset,
                key: record.key.as_deref().unwrap(),
                value: record.value.as_deref(),
                part: header("walpost.part"),
                writing: header("walpost.writing"),
            });
        }
    }

    /// As the cleaner leaves it, read from the beginning.
    fn compact(&mut self) {
        let last: BTreeMap<_, _> = self.log.iter().map(|(offset, record)| (record.key.clone(), *offset)).collect();
        self.log.retain(|(offset, record)| last[&record.key] == *offset);
        self.index.clear();
        self.read();
    }

    fn set_aside(&mut self, letter: &DeadLetter) {
        self.append(self.records.letter(letter, now()));
    }

    fn mark(&mut self, id: i64, mark: Mark) {
        let (row, _) = self.index.get(LetterId(id)).unwrap();
        let marking = Marking { mark, by: "alice".to_owned(), at: now() };
        self.append(vec![self.records.marking(row, &marking)]);
    }

    fn conclude(&mut self, id: i64, end: &Conclusion) -> bool {
        let Some((row, standing)) = self.index.concluded(LetterId(id), end, later(1)) else { return false };
        self.append(vec![self.records.standing(&row, &standing, later(1))]);
        true
    }

    fn next(&self, is_overtaking: bool) -> Vec<i64> {
        let marked = self.index.marked(100, u64::MAX, is_overtaking);
        marked.into_iter().map(|(id, _, _)| id.0).collect()
    }

    /// `state` of all letters, in order.
    fn states(&self) -> String {
        let words: Vec<_> = self.index.behind(-1).map(|(id, _, entry)| self.index.state_of(id, entry).word()).collect();
        words.join(" ")
    }

    fn ids(&self) -> Vec<i64> {
        self.index.behind(-1).map(|(id, _, _)| id).collect()
    }
}

fn bad() -> Cause {
    Cause::Row("bad".to_owned())
}

/// Letters 0 to 2 of key `a`, 3 and 4 of key `b`, 5 without a key.
fn queues() -> (Topic, Vec<i64>) {
    let mut topic = Topic::new();
    for letter in [
        letter(0, Some("a"), bad()),
        letter(1, Some("a"), Cause::Parked),
        letter(2, Some("a"), Cause::Parked),
        letter(3, Some("b"), Cause::Route("closed".to_owned())),
        letter(4, Some("b"), Cause::Parked),
        letter(5, None, bad()),
    ] {
        topic.set_aside(&letter);
    }
    let ids = topic.ids();
    (topic, ids)
}

#[test]
fn letters_of_several_parts_are_found_with_where_they_are() {
    let (topic, ids) = queues();
    assert_eq!(ids.len(), 6);
    let (_, entry) = topic.index.get(LetterId(ids[1])).unwrap();
    let offsets = &entry.letter.as_ref().unwrap().offsets;
    assert!(offsets.len() > 1, "{offsets:?}");
    assert_eq!(offsets[0], ids[1]);
    assert!(topic.index.damaged().is_empty());
}

#[test]
fn the_inventory_counts_what_has_not_ended() {
    let (mut topic, ids) = queues();
    let bytes = letter(1, Some("a"), bad()).row.insert.len() as u64;
    let told = |topic: &Topic| {
        let inventory = topic.index.inventory();
        let keys: Vec<_> = inventory.parked.iter().map(|parked| (parked.key.key.clone(), parked.letters)).collect();
        (inventory.letters, inventory.roots, inventory.parked_bytes / bytes, keys)
    };
    let firsts = |topic: &Topic| -> Vec<u64> {
        topic.index.inventory().parked.iter().map(|parked| parked.first.ordinal).collect()
    };
    assert_eq!(told(&topic), (6, 3, 3, vec![("a".into(), 3), ("b".into(), 2)]));
    assert_eq!(firsts(&topic), [0, 3]);
    topic.mark(ids[0], Mark::Drop);
    topic.conclude(ids[0], &Conclusion::Dropped);
    assert_eq!(told(&topic), (5, 2, 3, vec![("a".into(), 2), ("b".into(), 2)]));
    assert_eq!(firsts(&topic), [1, 3], "of those that have not ended");
    // What waited for another and failed by itself has become a cause.
    topic.mark(ids[1], Mark::Replay);
    topic.conclude(ids[1], &Conclusion::Returned("too large".to_owned()));
    assert_eq!(told(&topic), (5, 3, 2, vec![("a".into(), 2), ("b".into(), 2)]));
    assert_eq!(topic.states(), "dropped waiting waiting waiting waiting waiting");
}

#[test]
fn of_each_key_those_go_in_front_of_which_none_is_unmarked_and_where_keys_are_overtaken_all_that_are_marked() {
    let (mut topic, ids) = queues();
    assert!(topic.next(false).is_empty());
    topic.mark(ids[1], Mark::Replay);
    topic.mark(ids[5], Mark::Drop);
    assert_eq!(topic.next(false), [ids[5]]);
    assert_eq!(topic.next(true), [ids[1], ids[5]]);
    topic.mark(ids[0], Mark::Replay);
    topic.mark(ids[3], Mark::Replay);
    assert_eq!(topic.next(false), ids, "those behind follow");
    let shared = topic.index.marked(3, u64::MAX, false);
    assert_eq!(shared.iter().map(|(id, ..)| id.0).collect::<Vec<_>>(), [ids[0], ids[3], ids[5]], "each has its share");
    topic.mark(ids[3], Mark::Nothing);
    assert_eq!(topic.next(false), [ids[0], ids[1], ids[2], ids[5]]);
    topic.conclude(ids[0], &Conclusion::Sent);
    assert_eq!(topic.next(false), [ids[1], ids[2], ids[5]]);
    topic.conclude(ids[1], &Conclusion::Returned("again".to_owned()));
    assert_eq!(topic.next(false), [ids[5]], "and those behind it wait");
    topic.mark(ids[1], Mark::Replay);
    assert_eq!(topic.next(false), [ids[1], ids[2], ids[5]]);
    assert_eq!(topic.index.marked(100, 1, false).len(), 1, "one letter, however large");
    assert_eq!(topic.index.marked(1, u64::MAX, false).len(), 1);
    topic.compact();
    assert_eq!(topic.next(false), [ids[1], ids[2], ids[5]]);
    assert_eq!(topic.states(), "sent replay replay waiting waiting drop");
}

#[test]
fn the_same_row_again_is_the_same_letter_in_its_place() {
    let (mut topic, ids) = queues();
    let again = letter(1, Some("a"), Cause::Parked);
    let row = RowId::of(&again);
    // As a relay does that knows it.
    topic.mark(ids[1], Mark::Replay);
    let Before::Open(standing) = topic.index.before(&row, later(9)) else { panic!("it is not there") };
    topic.append(vec![topic.records.standing(&row, &standing, later(9))]);
    assert_eq!(topic.states(), "waiting replay waiting waiting waiting waiting", "its mark is still to be acted upon");
    // As two of them at once would.
    topic.set_aside(&again);
    let (_, entry) = topic.index.get(LetterId(ids[1])).unwrap();
    assert_eq!((entry.attempts(), entry.last_at()), (2, Some(later(9))));
    assert_eq!(topic.ids(), ids);
    topic.compact();
    assert_eq!(topic.ids().len(), 6);
    assert_eq!(topic.index.inventory().letters, 6);
}

#[test]
fn what_has_ended_stays_so() {
    let (mut topic, ids) = queues();
    topic.mark(ids[0], Mark::Replay);
    assert!(topic.conclude(ids[0], &Conclusion::Sent));
    for end in [Conclusion::Sent, Conclusion::Dropped, Conclusion::Returned("late".to_owned())] {
        assert!(!topic.conclude(ids[0], &end));
    }
    topic.mark(ids[0], Mark::Replay);
    assert_eq!(topic.next(true), ids[1..3], "what stood behind it");
    let row = RowId::of(&letter(0, Some("a"), bad()));
    assert_eq!(topic.index.before(&row, now()), Before::Ended);
    assert_eq!(topic.index.before(&RowId { commit_time: now(), ..row }, now()), Before::Unknown);
    // The second of two equal calls.
    topic.mark(ids[3], Mark::Replay);
    assert!(topic.conclude(ids[3], &Conclusion::Returned("again".to_owned())));
    assert!(!topic.conclude(ids[3], &Conclusion::Returned("again".to_owned())));
}

#[test]
fn a_letter_that_was_broken_off_is_none_and_is_written_anew() {
    let (mut topic, ids) = queues();
    let broken = letter(6, Some("c"), bad());
    let mut parts = topic.records.letter(&broken, now());
    parts.pop();
    topic.append(parts);
    assert_eq!(topic.ids(), ids);
    assert_eq!(topic.index.before(&RowId::of(&broken), now()), Before::Unknown);
    let place = topic.end;
    topic.set_aside(&broken);
    assert_eq!(topic.ids().last(), Some(&place));
    topic.compact();
    assert_eq!(topic.ids().last(), Some(&place));
}

#[test]
fn ended_letters_are_tidied_away_and_what_is_left_of_them_is_no_open_letter() {
    let (mut topic, ids) = queues();
    topic.mark(ids[0], Mark::Drop);
    topic.conclude(ids[0], &Conclusion::Dropped);
    assert!(topic.index.ended_before(later(1), 10).is_empty());
    assert!(topic.index.ended_before(later(2), 0).is_empty());
    let keys = topic.index.ended_before(later(2), 10);
    let tombstones: Vec<_> = keys.into_iter().map(|key| topic.records.tombstone(key, later(2))).collect();
    for tombstone in tombstones {
        topic.append(vec![tombstone]);
        assert_eq!(topic.index.inventory().letters, 5);
    }
    assert_eq!(topic.ids(), ids[1..]);
    assert!(topic.index.ended_before(later(2), 10).is_empty());
    let (next, letters) = (topic.index.next(), topic.index.letters.len());
    topic.compact();
    assert_eq!((topic.index.next(), topic.index.letters.len()), (next, letters));
}

#[test]
fn another_relays_records_are_none_of_ours_and_damaged_ones_are_named() {
    let (mut topic, ids) = queues();
    let maker = topic.records.clone();
    let of = |key: &str, value: &str| {
        let tombstone = maker.tombstone(key.to_owned(), now());
        Record { value: Some(bytes::Bytes::copy_from_slice(value.as_bytes())), ..tombstone }
    };
    let row = RowId::of(&letter(1, Some("a"), bad()));
    let records = vec![
        of("orders2:1:0/1:0:0:state", "x"),
        of("invoices", "x"),
        of("orders:what", "x"),
        of(&key::write("orders", &row, Kind::Standing), "{}"),
        of(&key::write("orders", &row, Kind::Mark), "x"),
        of(&key::write("orders", &row, Kind::Part(1)), "{}"),
    ];
    topic.append(records);
    assert_eq!(topic.ids(), ids);
    assert_eq!(topic.states(), "waiting waiting waiting waiting waiting waiting");
    let damaged = topic.index.damaged();
    assert_eq!(damaged.len(), 3, "{damaged:?}");
    for word in ["key is none", "no JSON object", "headers"] {
        assert!(damaged.iter().any(|named| named.contains(word)), "{word} in {damaged:?}");
    }
    // Whether that one was sent, nobody can say.
    let unreadable = topic.index.unreadable();
    assert_eq!(unreadable.len(), 1, "{unreadable:?}");
    assert_eq!(unreadable[0].key, key::write("orders", &row, Kind::Standing));
    assert!(unreadable[0].reason.contains("format_version"), "{unreadable:?}");
    topic.append(vec![of(&key::write("orders", &row, Kind::Standing), STANDING)]);
    assert!(topic.index.unreadable().is_empty(), "it was written anew");
}

/// How a letter stands that was sent.
const STANDING: &str = r#"{"format_version":1,"state":"sent","cause":"row","reason":null,"attempts":1,"last_at":"2026-01-31T12:00:00Z",
    "ended_at":"2026-01-31T12:00:00Z","marks_done":0}"#;

#[test]
fn a_letter_of_ours_that_is_damaged_or_newer_is_kept_as_unreadable_until_it_is_written_anew_ended_or_deleted() {
    let ours = letter(1, Some("a"), bad());
    let row = RowId::of(&ours);
    for (spoil, reason) in [
        (spoilt as fn(Record) -> Record, "no JSON object"),
        (newer, "it has format 9"),
        (|part| Record { headers: walpost_core::record::Headers::new(), ..part }, "headers"),
    ] {
        let mut topic = Topic::new();
        topic.records = Records::new("orders", "letters", "1000000");
        topic.append(topic.records.letter(&letter(0, Some("b"), bad()), now()));
        let written = topic.records.letter(&ours, now());
        topic.append(written.into_iter().map(spoil).collect());
        let unreadable = topic.index.unreadable();
        assert_eq!(unreadable.len(), 1, "{reason}");
        let Unreadable { id, key, reason: told } = &unreadable[0];
        assert_eq!((*id, key.as_str()), (1, key::write("orders", &row, Kind::Part(1)).as_str()));
        assert!(told.contains(reason), "{reason} in {told}");
        assert_eq!(topic.index.inventory().letters, 1, "the other one");

        let mut ended = topic.clone_log();
        let state = Record {
            value: Some(STANDING.into()),
            ..topic.records.tombstone(key::write("orders", &row, Kind::Standing), now())
        };
        ended.append(vec![state]);
        assert!(ended.index.unreadable().is_empty(), "what was sent waits for nothing");

        let mut again = topic.clone_log();
        again.append(again.records.letter(&ours, now()));
        assert_eq!((again.index.unreadable().len(), again.index.inventory().letters), (0, 2));

        let (keys, count) = topic.index.keys_of_unreadable(&[1, 7]);
        assert_eq!((count, keys.len()), (1, 2), "{keys:?}");
        let tombstones = keys.into_iter().map(|key| topic.records.tombstone(key, now())).collect();
        topic.append(tombstones);
        assert_eq!((topic.index.unreadable().len(), topic.index.inventory().letters), (0, 1));
    }
}

fn spoilt(part: Record) -> Record {
    Record { value: Some(bytes::Bytes::from_static(b"x")), ..part }
}

fn newer(part: Record) -> Record {
    let text = String::from_utf8(part.value.clone().unwrap().to_vec()).unwrap();
    Record { value: Some(text.replace(r#""format_version":1"#, r#""format_version":9"#).into()), ..part }
}

#[test]
fn a_record_that_is_read_twice_changes_nothing() {
    let (mut topic, _) = queues();
    let before = format!("{:?}", topic.index);
    topic.read();
    assert_eq!(format!("{:?}", topic.index), before);
}

/// The numbers of the letters of key `a`, whose causes these are: a dot for one that is bad, a comma for one that waits.
fn queue_of(causes: &str) -> (Topic, Vec<i64>) {
    let mut topic = Topic::new();
    for (ordinal, cause) in (0..).zip(causes.chars()) {
        topic.set_aside(&letter(ordinal, Some("a"), if cause == '.' { bad() } else { Cause::Parked }));
    }
    let ids = topic.ids();
    (topic, ids)
}

impl Topic {
    /// The initials of the states of all letters that have not ended, as everybody tells them, whatever they have read and whenever.
    fn told(&mut self) -> String {
        let told = |index: &Index| -> String {
            let states = index.behind(-1).map(|(id, _, entry)| index.state_of(id, entry));
            states.filter(|state| State::OPEN.contains(state)).map(|state| &state.word()[..1]).collect()
        };
        let (ours, next) = (told(&self.index), self.next(false));
        let mut others = self.clone_log();
        assert_eq!(
            (told(&others.index), others.next(false)),
            (ours.clone(), next.clone()),
            "to one that reads all at once"
        );
        others.compact();
        assert_eq!(
            (told(&others.index), others.next(false)),
            (ours.clone(), next),
            "to one that reads what is left of it"
        );
        self.read();
        assert_eq!(told(&self.index), ours, "to one that reads it twice");
        ours
    }
}

#[test]
fn what_lies_there_only_because_of_its_key_goes_once_nothing_stands_in_front_of_it() {
    let (mut topic, ids) = queue_of(".,,.,");
    assert_eq!(topic.told(), "wwwww");
    topic.mark(ids[0], Mark::Drop);
    assert_eq!(topic.told(), "dwwww", "the first stands there still");
    topic.conclude(ids[0], &Conclusion::Dropped);
    assert_eq!((topic.told().as_str(), topic.next(false)), ("rrww", ids[1..3].to_vec()), "up to the next cause");
    topic.mark(ids[3], Mark::Replay);
    assert_eq!((topic.told().as_str(), topic.next(true)), ("rrrr", ids[1..].to_vec()));
    // A cause of its own by now.
    assert!(topic.conclude(ids[1], &Conclusion::Returned("bad too".to_owned())));
    assert!(!topic.conclude(ids[1], &Conclusion::Returned("bad too".to_owned())));
    assert_eq!((topic.told().as_str(), topic.next(false)), ("wwrw", Vec::new()));
    topic.mark(ids[1], Mark::Replay);
    assert_eq!(topic.told(), "rrrr");
    for id in &ids[1..] {
        assert!(topic.conclude(*id, &Conclusion::Sent));
    }
    assert_eq!(topic.told(), "");
    // Set aside while the last was on its way.
    topic.set_aside(&letter(5, Some("a"), Cause::Parked));
    topic.set_aside(&letter(6, Some("a"), Cause::Parked));
    assert_eq!((topic.told().as_str(), topic.index.inventory().letters), ("rr", 2));
}

#[test]
fn what_is_set_aside_behind_a_letter_that_is_to_be_sent_goes_with_it_and_behind_another_waits() {
    for (mark, expected) in
        [(Mark::Replay, "rrr"), (Mark::ReplayChanged, "rrr"), (Mark::Drop, "dww"), (Mark::Nothing, "www")]
    {
        let (mut topic, ids) = queue_of(".");
        topic.mark(ids[0], mark);
        topic.set_aside(&letter(1, Some("a"), Cause::Parked));
        topic.set_aside(&letter(2, Some("a"), Cause::Parked));
        topic.set_aside(&letter(3, Some("b"), bad()));
        assert_eq!(topic.told(), format!("{expected}w"), "{mark:?}");
        topic.set_aside(&letter(4, Some("a"), bad()));
        topic.set_aside(&letter(5, Some("a"), Cause::Parked));
        assert_eq!(topic.told(), format!("{expected}www"), "{mark:?}");
    }
}

#[test]
fn an_operators_word_counts_before_and_after_what_follows_by_itself() {
    let (mut topic, ids) = queue_of(".,,,");
    topic.mark(ids[2], Mark::Nothing);
    topic.mark(ids[0], Mark::Replay);
    assert_eq!(topic.told(), "rrww", "the third was told to wait");
    topic.set_aside(&letter(4, Some("a"), Cause::Parked));
    topic.conclude(ids[0], &Conclusion::Sent);
    topic.conclude(ids[1], &Conclusion::Sent);
    assert_eq!((topic.told().as_str(), topic.next(false)), ("www", Vec::new()));
    topic.mark(ids[2], Mark::Drop);
    assert_eq!(topic.told(), "dww");
    topic.conclude(ids[2], &Conclusion::Dropped);
    assert_eq!(topic.told(), "rr");
    topic.mark(ids[3], Mark::Nothing);
    assert_eq!((topic.told().as_str(), topic.next(true)), ("ww", Vec::new()));
    topic.mark(ids[3], Mark::Replay);
    assert_eq!(topic.told(), "rr");
}

#[test]
fn a_mark_that_is_set_while_a_letter_is_under_way_outlives_its_return_whether_it_went_by_itself_or_not() {
    for went_by_itself in [true, false] {
        for (mark, expected) in [(Mark::Drop, "d"), (Mark::Replay, "r"), (Mark::Nothing, "w")] {
            let (mut topic, ids) = queue_of(if went_by_itself { "," } else { "." });
            if !went_by_itself {
                topic.mark(ids[0], Mark::Replay);
            }
            assert_eq!((topic.told().as_str(), topic.next(false)), ("r", vec![ids[0]]));
            topic.index.acts_upon([LetterId(ids[0])].into_iter());
            topic.mark(ids[0], mark);
            topic.compact();
            topic.conclude(ids[0], &Conclusion::Returned("bad too".to_owned()));
            assert_eq!(topic.told(), expected, "{mark:?} of one that went by itself: {went_by_itself}");
        }
    }
}

#[test]
fn what_was_acted_upon_is_remembered_only_of_open_letters() {
    let (mut topic, ids) = queue_of("..");
    topic.mark(ids[0], Mark::Replay);
    topic.mark(ids[1], Mark::Replay);
    topic.index.acts_upon([LetterId(ids[0]), LetterId(ids[1])].into_iter());
    topic.conclude(ids[0], &Conclusion::Sent);
    topic.index.acts_upon(std::iter::empty());
    assert_eq!(topic.index.acting.keys().copied().collect::<Vec<_>>(), ids[1..]);
    topic.index.has_acted(LetterId(ids[1]));
    assert!(topic.index.acting.is_empty());
}

#[test]
fn a_letter_in_front_that_is_tidied_away_or_whose_parts_come_late_changes_nothing_for_those_behind_it() {
    let (mut topic, ids) = queue_of(".,,");
    topic.mark(ids[0], Mark::Drop);
    topic.conclude(ids[0], &Conclusion::Dropped);
    assert_eq!(topic.told(), "rr");
    for key in topic.index.ended_before(later(2), 10) {
        topic.append(vec![topic.records.tombstone(key, later(2))]);
        assert_eq!(topic.told(), "rr");
    }
    assert_eq!(topic.ids(), ids[1..]);
    // Two that write at once: the first part of one comes in front of all of the other.
    let mut topic = Topic::new();
    let mut late = topic.records.letter(&letter(0, Some("a"), bad()), now());
    let rest = late.split_off(1);
    topic.append(late);
    topic.set_aside(&letter(1, Some("a"), Cause::Parked));
    assert_eq!(topic.told(), "r");
    topic.append(rest);
    assert_eq!((topic.told().as_str(), topic.next(false)), ("ww", Vec::new()));
}

#[test]
fn a_long_queue_is_followed_step_by_step() {
    let (mut topic, ids) = queue_of(&format!(".{}", ",".repeat(300)));
    topic.mark(ids[0], Mark::Replay);
    assert_eq!(topic.index.going.len(), 301);
    for id in &ids {
        topic.conclude(*id, &Conclusion::Sent);
    }
    assert_eq!((topic.index.letters_open, topic.index.going.len(), topic.index.marked.len()), (0, 0, 0));
    assert!(topic.index.ready.is_empty());
}
