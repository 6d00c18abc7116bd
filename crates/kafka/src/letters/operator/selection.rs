//! Which letters are meant, found in the index: what SQL does for the table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use walpost_core::outbox::TableName;
use walpost_core::poison::ParkingKey;
use walpost_core::poison::operator::{Affected, FOLLOWS, Filter, Listed, Mark, Selection, State, When, Why};
use walpost_core::time::Timestamp;

use super::super::index::{Details, Entry, Index, Known};
use super::super::key::RowId;
use super::age;

/// A letter and what an operator may ask about it.
#[derive(Clone, Copy)]
struct Seen<'a> {
    id: i64,
    state: State,
    row: &'a RowId,
    entry: &'a Entry,
    letter: &'a Known,
    details: &'a Details,
}

impl<'a> Seen<'a> {
    fn of(index: &Index, (id, row, entry): (i64, &'a RowId, &'a Entry)) -> Option<Self> {
        let letter = entry.letter.as_ref()?;
        Some(Self { id, state: index.state_of(id, entry), row, entry, letter, details: letter.details.as_deref()? })
    }

    /// Whether nothing but what stands in front of it keeps it.
    fn may_follow(self) -> bool {
        self.state == State::Waiting && self.entry.may_follow()
    }

    fn reason(self) -> Option<&'a str> {
        let waits = self.entry.cause() == Why::Parked;
        self.entry.new_reason().or(self.details.reason.as_deref()).filter(|_| !waits)
    }

    fn key(self) -> Option<&'a ParkingKey> {
        self.letter.queue.as_deref()
    }
}

fn all(index: &Index) -> impl Iterator<Item = Seen<'_>> {
    index.behind(-1).filter_map(|letter| Seen::of(index, letter))
}

/// The letters that fit, in order, from behind this number on.
pub(super) fn list(index: &Index, filter: &Filter, behind: i64, now: Timestamp) -> Vec<Listed> {
    let limit = filter.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let fitting =
        index.behind(behind).filter_map(|letter| Seen::of(index, letter)).filter(|seen| fits(*seen, filter, now));
    fitting.take(limit).map(|seen| told(seen, now)).collect()
}

/// How many letters fit, with those beyond the limit.
pub(super) fn count(index: &Index, filter: &Filter, now: Timestamp) -> i64 {
    let fitting = all(index).filter(|seen| fits(*seen, filter, now));
    i64::try_from(fitting.count()).unwrap_or(i64::MAX)
}

/// One letter.
pub(super) fn listed(index: &Index, id: i64, row: &RowId, entry: &Entry, now: Timestamp) -> Option<Listed> {
    Seen::of(index, (id, row, entry)).map(|seen| told(seen, now))
}

fn told(seen: Seen<'_>, now: Timestamp) -> Listed {
    let Seen { id, state, row, entry, letter, details } = seen;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let marking = entry.marking();
    let follows = state == State::Replay && entry.may_follow() || entry.has_followed();
    Listed {
        id,
        state: state.word().to_owned(),
        cause: entry.cause().word().to_owned(),
        reason: seen.reason().map(str::to_owned),
        attempts: i32::try_from(entry.attempts()).unwrap_or(i32::MAX),
        outbox: details.table.clone(),
        event_id: details.event_id.clone(),
        route: seen.key().and_then(|key| key.route.as_deref()).map(text),
        key: seen.key().map(|key| text(&key.key)),
        topic: details.topic.clone(),
        timeline: i64::from(row.identity.timeline.0),
        commit_lsn: row.identity.commit_lsn,
        ordinal: i64::try_from(row.identity.ordinal).unwrap_or(i64::MAX),
        commit_time: row.commit_time.to_rfc3339(),
        first_at: letter.first_at.to_rfc3339(),
        last_at: entry.last_at().unwrap_or(letter.first_at).to_rfc3339(),
        marked_by: marking.map(|marking| marking.by.clone()).or(follows.then(|| FOLLOWS.to_owned())),
        marked_at: marking.map(|marking| marking.at.to_rfc3339()),
        ended_at: entry.ended_at().map(Timestamp::to_rfc3339),
        bytes: i64::try_from(details.bytes).unwrap_or(i64::MAX),
        age: age(letter.first_at, now),
    }
}

/// Whether a letter fits everything that is given.
fn fits(seen: Seen<'_>, filter: &Filter, now: Timestamp) -> bool {
    let Filter { ids, outbox, topic, key, reason, causes, states, since, until, limit: _ } = filter;
    let is_at_or_behind = |when: &When| match when {
        When::At(time) => seen.letter.first_at >= *time,
        When::Ago(time) => age(seen.letter.first_at, now) <= *time,
    };
    let contains =
        |part: &String| seen.reason().is_some_and(|reason| reason.to_lowercase().contains(&part.to_lowercase()));
    (ids.is_empty() || ids.contains(&seen.id))
        && (causes.is_empty() || causes.contains(&seen.entry.cause()))
        && (states.is_empty() || states.contains(&seen.state))
        && outbox.as_ref().is_none_or(|outbox| seen.details.table == *outbox)
        && topic.as_ref().is_none_or(|topic| seen.details.topic.as_ref() == Some(topic))
        && key.as_ref().is_none_or(|key| seen.key().is_some_and(|ours| *ours.key == *key.as_bytes()))
        && reason.as_ref().is_none_or(contains)
        && since.as_ref().is_none_or(is_at_or_behind)
        && until.as_ref().is_none_or(|until| !is_at_or_behind(until))
}

/// The letters of a selection that have not ended, in order.
fn selected<'a>(index: &'a Index, selection: &Selection, now: Timestamp) -> Vec<Seen<'a>> {
    let Selection { filter, with_those_behind } = selection;
    let limit = filter.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
    let is_chosen = |seen: &Seen<'_>| seen.entry.is_open() && fits(*seen, filter, now);
    let mut chosen: Vec<Seen<'a>> = all(index).filter(is_chosen).take(limit).collect();
    if *with_those_behind {
        let ids: BTreeSet<i64> = chosen.iter().map(|seen| seen.id).collect();
        let mut firsts: BTreeMap<&Arc<ParkingKey>, i64> = BTreeMap::new();
        for seen in &chosen {
            if let Some(queue) = &seen.letter.queue {
                firsts.entry(queue).or_insert(seen.id);
            }
        }
        let is_behind = |seen: &Seen<'_>| {
            let first = seen.letter.queue.as_ref().and_then(|queue| firsts.get(queue));
            let waits = seen.state == State::Waiting && !ids.contains(&seen.id);
            waits && first.is_some_and(|first| *first < seen.id)
        };
        let behind: Vec<Seen<'a>> = all(index).filter(is_behind).collect();
        chosen.extend(behind);
        chosen.sort_by_key(|seen| seen.id);
    }
    chosen
}

/// The rows of the letters that are to be marked and are not marked so.
pub(super) fn to_mark(index: &Index, selection: &Selection, mark: Mark, now: Timestamp) -> Vec<RowId> {
    let is_other = |seen: &Seen<'_>| {
        let accepts_changed = mark == Mark::ReplayChanged;
        let is_so = seen.state == mark.state() && seen.entry.accepts_changed() == accepts_changed;
        // One that follows what stands in front of it is told to wait.
        !is_so || mark == Mark::Nothing && seen.may_follow()
    };
    selected(index, selection, now).into_iter().filter(is_other).map(|seen| *seen.row).collect()
}

/// The letters of one key, or those of one outbox that have none.
type Group<'a> = (Option<&'a Arc<ParkingKey>>, &'a TableName);

/// What marking would do, key by key.
pub(super) fn preview(index: &Index, selection: &Selection, now: Timestamp) -> Vec<Affected> {
    let chosen = selected(index, selection, now);
    let ids: BTreeSet<i64> = chosen.iter().map(|seen| seen.id).collect();
    let mut groups: BTreeMap<Group<'_>, Touched> = BTreeMap::new();
    for seen in &chosen {
        let key = seen.key().map(|key| String::from_utf8_lossy(&key.key).into_owned());
        let new = || Affected::of(seen.details.table.clone(), key, seen.id);
        let group = (seen.letter.queue.as_ref(), &seen.details.table);
        let touched = groups.entry(group).or_insert_with(|| Touched { affected: new(), last: seen.id, goes: true });
        touched.affected.letters += 1;
        touched.last = seen.id;
    }
    let are_others = |seen: &Seen<'_>| matches!(seen.state, State::Waiting | State::Replay) && !ids.contains(&seen.id);
    for seen in all(index).filter(are_others) {
        let Some(queue) = &seen.letter.queue else { continue };
        if let Some(touched) = groups.get_mut(&(Some(queue), &seen.details.table)) {
            touched.count(seen);
        }
    }
    let mut affected: Vec<Affected> = groups.into_values().map(|touched| touched.affected).collect();
    affected.sort_by_key(|affected| affected.first);
    affected
}

/// What is counted of a key.
struct Touched {
    affected: Affected,
    /// The last of its letters that are marked.
    last: i64,
    /// Nothing was counted yet that keeps what is behind it waiting.
    goes: bool,
}

impl Touched {
    /// The next of those that are not chosen and wait or are to be sent.
    fn count(&mut self, seen: Seen<'_>) {
        let Self { affected, last, goes } = self;
        let (waits, is_behind) = (seen.state == State::Waiting, seen.id > *last);
        *goes &= !waits || seen.may_follow();
        affected.in_front += i64::from(!is_behind && waits && !*goes);
        affected.behind += i64::from(is_behind && waits);
        affected.staying += i64::from(is_behind && waits && !*goes);
        affected.following += i64::from(is_behind && *goes);
    }
}
