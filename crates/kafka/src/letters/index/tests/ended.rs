//! A relay keeps little of what has ended, and comes to the same as somebody who keeps all.

use super::*;

/// The same topic, read by a relay.
fn by_relay(topic: &Topic) -> Index {
    let (records, log) = (topic.records.clone(), topic.log.clone());
    let mut relay = Topic { records, log, index: Index::new("orders", false), end: topic.end };
    relay.read();
    relay.index
}

/// Everything that a relay is told, by this index.
fn told(index: &Index) -> String {
    let row = |ordinal, key| RowId::of(&letter(ordinal, key, bad()));
    let rows = [row(0, Some("a")), row(1, Some("a")), row(3, Some("b")), row(5, None), row(9, None)];
    format!(
        "{:?}\n{:?}\n{:?}\n{:?}\n{:?}",
        index.inventory(),
        index.marked(100, u64::MAX, true),
        rows.map(|row| index.before(&row, later(9)) == Before::Ended),
        index.ended_before(later(9), 100).into_iter().collect::<BTreeSet<_>>(),
        (index.next(), index.unreadable(), index.damaged()),
    )
}

#[test]
fn a_relay_that_keeps_little_of_what_ended_is_told_the_same_as_who_keeps_all_step_by_step() {
    let (mut topic, ids) = queues();
    let mut relay = Index::new("orders", false);
    let mut shortened = BTreeSet::new();
    let mut compare = |topic: &Topic| {
        assert_eq!(told(&by_relay(topic)), told(&topic.index), "read at once");
        // Record by record, as it is read while a relay runs.
        let mut one =
            Topic { records: topic.records.clone(), log: topic.log.clone(), index: relay_of(&mut relay), end: 0 };
        one.read();
        assert_eq!(told(&one.index), told(&topic.index), "read on");
        shortened.insert(one.index.shortened());
        relay = one.index;
    };
    compare(&topic);
    topic.mark(ids[0], Mark::Replay);
    topic.conclude(ids[0], &Conclusion::Sent);
    compare(&topic);
    topic.mark(ids[5], Mark::Drop);
    topic.conclude(ids[5], &Conclusion::Dropped);
    compare(&topic);
    // Written once more by one that knew nothing of the end, and marked too late.
    topic.set_aside(&letter(0, Some("a"), bad()));
    compare(&topic);
    topic.mark(ids[0], Mark::Replay);
    compare(&topic);
    for key in topic.index.ended_before(later(9), 1) {
        topic.append(vec![topic.records.tombstone(key, later(9))]);
        compare(&topic);
    }
    topic.compact();
    assert_eq!(told(&by_relay(&topic)), told(&topic.index), "compacted");
    assert_eq!(shortened, BTreeSet::from([0, 1, 2]));
}

fn relay_of(index: &mut Index) -> Index {
    std::mem::replace(index, Index::new("orders", false))
}

#[test]
fn a_letter_that_had_ended_and_is_said_to_lie_there_has_the_topic_read_again_and_lies_there() {
    let (mut topic, ids) = queues();
    topic.mark(ids[0], Mark::Replay);
    let (row, before) = {
        let (row, entry) = topic.index.get(LetterId(ids[0])).unwrap();
        (*row, entry.standing_now(later(3)))
    };
    topic.conclude(ids[0], &Conclusion::Sent);
    topic.index = by_relay(&topic);
    assert_eq!((topic.index.shortened(), topic.index.inventory().letters), (1, 5));
    // A relay that was frozen in the midst of it writes that it came back.
    let (generation, returned) = (topic.index.generation(), topic.records.standing(&row, &before, later(3)));
    topic.append(vec![returned]);
    assert_eq!(topic.index.generation(), generation + 1);
    topic.read();
    assert_eq!((topic.index.shortened(), topic.index.inventory().letters), (0, 6));
    // What waits behind it follows, as behind any letter that is marked.
    assert_eq!(topic.next(false), ids[..3]);
    // And once it has ended for good, all of it is kept still.
    topic.conclude(ids[0], &Conclusion::Sent);
    assert_eq!((topic.index.generation(), topic.index.inventory().letters), (generation + 1, 5));
    assert_eq!(topic.index.before(&row, now()), Before::Ended);
}

#[test]
fn an_end_that_cannot_be_read_any_more_has_the_topic_read_again_and_is_named() {
    let (mut topic, ids) = queues();
    topic.mark(ids[0], Mark::Drop);
    topic.conclude(ids[0], &Conclusion::Dropped);
    topic.index = by_relay(&topic);
    let row = RowId::of(&letter(0, Some("a"), bad()));
    let key = key::write("orders", &row, Kind::Standing);
    topic.append(vec![Record { value: Some("{}".into()), ..topic.records.tombstone(key, now()) }]);
    topic.read();
    assert_eq!(topic.index.unreadable().len(), 1);
}

/// All orders of these numbers.
fn orders(numbers: &[usize]) -> Vec<Vec<usize>> {
    if numbers.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for first in numbers {
        let rest: Vec<usize> = numbers.iter().copied().filter(|number| number != first).collect();
        all.extend(orders(&rest).into_iter().map(|order| [vec![*first], order].concat()));
    }
    all
}

#[test]
fn in_whatever_order_compaction_repeats_and_others_leave_its_records_a_letter_that_was_sent_has_ended_for_every_reader()
{
    let (mut source, ids) = queues();
    let ours = letter(0, Some("a"), bad());
    let row = RowId::of(&ours);
    let made = source.log.len();
    source.mark(ids[0], Mark::Replay);
    source.conclude(ids[0], &Conclusion::Sent);
    let written: Vec<Record> = source.log.drain(made..).map(|(_, record)| record).collect();
    let [mark, sent] = written.as_slice() else { panic!("{written:?}") };
    let parts = source.records.letter(&ours, now());
    // Another one wrote the letter as well, and the end too.
    let blocks = [
        parts.clone(),
        vec![mark.clone()],
        vec![sent.clone()],
        source.records.letter(&ours, later(1)),
        vec![sent.clone()],
    ];
    for order in orders(&[0, 1, 2, 3, 4]) {
        let mut topic = Topic::new();
        let mut relay = Index::new("orders", false);
        for block in &order {
            topic.append(blocks[*block].clone());
            let (records, log) = (topic.records.clone(), topic.log.clone());
            let mut one = Topic { records, log, index: relay_of(&mut relay), end: 0 };
            one.read();
            relay = one.index;
            assert_eq!(told(&relay), told(&topic.index), "{order:?} to {block}, read on");
            assert_eq!(told(&by_relay(&topic)), told(&topic.index), "{order:?} to {block}, read at once");
        }
        assert_eq!((relay.shortened(), relay.before(&row, now())), (1, Before::Ended), "{order:?}");
        assert!(topic.next(true).is_empty(), "{order:?}");
        topic.compact();
        assert_eq!(told(&by_relay(&topic)), told(&topic.index), "{order:?}, compacted");
        assert_eq!(topic.index.before(&row, now()), Before::Ended, "{order:?}, compacted");
    }
}

#[test]
fn what_is_kept_of_an_ended_letter_is_small() {
    assert!(size_of::<(RowId, Ended)>() <= 48, "{}", size_of::<(RowId, Ended)>());
}
