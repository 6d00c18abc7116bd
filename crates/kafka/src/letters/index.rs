//! What lies in the topic, record by record as it is read: of each letter where its parts are and how it stands, never its body.
//!
//! It is folded from the topic's beginning and goes on from where it stopped; the same record twice changes nothing. Who writes changes nothing here:
//! what was written is known once it is read back.
//!
//! A letter that lies there only because of its key goes by itself as soon as nothing of its key stands in front of it. Nobody writes that down: it
//! follows from how the letters of a key stand, in the order of their numbers, so that every reader comes to the same, whatever was compacted. An operator who
//! took a mark of it back keeps it there.
//!
//! A letter of this relay that cannot be read is kept as such, for nobody knows which key waits for it. Records that no relay wrote are named and passed
//! over.

mod ended;
mod entry;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Bound;
use std::sync::Arc;

use tracing::warn;
use walpost_core::poison::operator::{State, Unreadable, Why};
use walpost_core::poison::{Conclusion, Inventory, LetterId, Parked, ParkingKey, Request};
use walpost_core::position::Place;
use walpost_core::time::Timestamp;

use ended::Ended;
pub(super) use entry::{Details, Entry, Known};

use super::form::{self, Fault, Standing};
use super::key::{self, Kind, NoKey, RowId};
use super::parts::{Gathered, PartOf};

/// How many damaged records are remembered by name.
const NAMED: usize = 20;

/// A record of the topic.
#[derive(Debug, Clone, Copy)]
pub(super) struct Told<'a> {
    pub(super) offset: i64,
    pub(super) key: &'a [u8],
    /// `None` is a tombstone.
    pub(super) value: Option<&'a [u8]>,
    /// The headers of a part.
    pub(super) part: Option<&'a [u8]>,
    pub(super) writing: Option<&'a [u8]>,
}

impl Told<'_> {
    /// Of everything but its place. No two writings are the same, for each tells of its time or has a name.
    pub(super) fn hash(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.key, self.value, self.part, self.writing).hash(&mut hasher);
        hasher.finish()
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Index {
    relay: String,
    /// For somebody who wants to see letters, and not only to work through them.
    is_detailed: bool,
    /// How often it was cleared: who reads into it goes on only with what he began with.
    generation: u64,
    next: i64,
    /// The last record that was read, and a hash of it: by them the topic is known again.
    witness: Option<(i64, u64)>,
    letters: BTreeMap<RowId, Entry>,
    /// Letters that have ended, of which little is kept; and those of which all is kept though they had ended once.
    ended: BTreeMap<RowId, Ended>,
    reopened: BTreeSet<RowId>,
    /// The letters that are whole, by their numbers, in the order in which they were set aside.
    ids: BTreeMap<i64, RowId>,
    /// Of each key the letters that have not ended.
    queues: BTreeMap<Arc<ParkingKey>, BTreeSet<i64>>,
    /// Of each key, from its first letter on, those that are to be sent: they are marked for it, or follow.
    going: BTreeSet<i64>,
    /// These and all others that are marked and have not ended; and those in front of which none of their key stands.
    marked: BTreeSet<i64>,
    ready: BTreeSet<i64>,
    letters_open: u64,
    roots: u64,
    parked_bytes: u64,
    damaged: Vec<String>,
    /// The marks of the letters that whoever acts upon them was told of, where they have any: what is read later may hold others, which nobody
    /// has acted upon.
    acting: BTreeMap<i64, Option<i64>>,
}

/// The number of a letter that has not ended, and the key whose order it keeps.
type Standpoint = (i64, Arc<ParkingKey>);

/// What is known of a row before it is set aside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Before {
    /// Nothing, or not all of it.
    Unknown,
    /// It lies there; so it stands once the new attempt is counted.
    Open(Standing),
    /// It was sent or dropped.
    Ended,
}

impl Index {
    pub(super) fn new(relay: &str, is_detailed: bool) -> Self {
        Self {
            relay: relay.to_owned(),
            is_detailed,
            generation: 0,
            next: 0,
            witness: None,
            letters: BTreeMap::new(),
            ended: BTreeMap::new(),
            reopened: BTreeSet::new(),
            ids: BTreeMap::new(),
            queues: BTreeMap::new(),
            going: BTreeSet::new(),
            marked: BTreeSet::new(),
            ready: BTreeSet::new(),
            letters_open: 0,
            roots: 0,
            parked_bytes: 0,
            damaged: Vec::new(),
            acting: BTreeMap::new(),
        }
    }

    /// The offset to read on from.
    pub(super) fn next(&self) -> i64 {
        self.next
    }

    /// Everything up to this offset was read, markers of transactions among it.
    pub(super) fn has_read_to(&mut self, end: i64) {
        self.next = self.next.max(end);
    }

    /// Forgets everything, to be read from the beginning.
    pub(super) fn clear(&mut self) {
        let generation = self.generation + 1;
        let reopened = std::mem::take(&mut self.reopened);
        let acting = std::mem::take(&mut self.acting);
        *self = Self { generation, reopened, acting, ..Self::new(&self.relay, self.is_detailed) };
    }

    pub(super) fn generation(&self) -> u64 {
        self.generation
    }

    /// See the field.
    pub(super) fn witness(&self) -> Option<(i64, u64)> {
        self.witness
    }

    /// Records that no relay wrote, the first of them by name.
    pub(super) fn damaged(&self) -> &[String] {
        &self.damaged
    }

    /// Takes in a record.
    pub(super) fn fold(&mut self, told: &Told<'_>) {
        if told.offset < self.next {
            return;
        }
        self.next = told.offset.saturating_add(1);
        self.witness = Some((told.offset, told.hash()));
        match key::read(&self.relay, told.key) {
            None => {}
            Some(Err(NoKey)) => self.name_damaged(told.offset, "its key is none that a relay wrote"),
            Some(Ok((row, kind))) if self.fold_ended(row, kind, told) => {}
            Some(Ok((row, kind))) => {
                let before = self.strike_out(&row);
                if let Err((offset, fault)) = self.take(row, kind, told) {
                    self.take_fault(row, kind, offset, &fault.to_string());
                }
                let after = self.enter(&row);
                if let Some((id, queue)) = after.or(before) {
                    self.mark_from(id, &queue);
                }
                self.shorten(row);
            }
        }
    }

    fn name_damaged(&mut self, offset: i64, reason: &str) {
        warn!(offset, reason, "a record of the topic of dead letters is damaged and passed over");
        if self.damaged.len() < NAMED {
            self.damaged.push(format!("the record at offset {offset} is damaged and passed over: {reason}"));
        }
    }

    /// What cannot be read does not change what is known. A letter that is known counts, whatever is written under its key after it.
    fn take_fault(&mut self, row: RowId, kind: Kind, offset: i64, reason: &str) {
        let entry = self.letters.entry(row).or_default();
        let place = match kind {
            Kind::Standing => &mut entry.unread_standing,
            Kind::Part(_) if entry.letter.is_none() => &mut entry.unread_letter,
            Kind::Part(_) | Kind::Mark => return self.name_damaged(offset, reason),
        };
        warn!(offset, reason, "a dead letter of this relay cannot be read");
        let key = key::write(&self.relay, &row, kind);
        *place = Some(Box::new(Unreadable { id: offset, key, reason: reason.to_owned() }));
    }

    /// The letters that cannot be read and may be open, in order.
    pub(super) fn unreadable(&self) -> Vec<Unreadable> {
        let mut unreadable: Vec<_> = self.letters.values().filter_map(Entry::unreadable).cloned().collect();
        unreadable.sort_by_key(|letter| letter.id);
        unreadable
    }

    /// The keys of those of these numbers that cannot be read, and how many letters they are. How a letter stands is last.
    pub(super) fn keys_of_unreadable(&self, ids: &[i64]) -> (Vec<String>, usize) {
        let is_meant = |entry: &Entry| entry.unreadable().is_some_and(|letter| ids.contains(&letter.id));
        let meant: Vec<_> = self.letters.iter().filter(|(_, entry)| is_meant(entry)).collect();
        (meant.iter().flat_map(|(row, entry)| self.keys(row, entry)).collect(), meant.len())
    }

    /// All keys that were written of a letter; how it stands is last.
    fn keys(&self, row: &RowId, entry: &Entry) -> impl Iterator<Item = String> + use<'_> {
        self.keys_of(*row, entry.parts, entry.marking.is_some())
    }

    fn keys_of(&self, row: RowId, parts: u32, is_marked: bool) -> impl Iterator<Item = String> + use<'_> {
        let parts = (1..=parts).map(Kind::Part);
        let mark = is_marked.then_some(Kind::Mark);
        parts.chain(mark).chain([Kind::Standing]).map(move |kind| key::write(&self.relay, &row, kind))
    }

    /// The fault comes with the offset of the record that has it: of a letter the first of its parts.
    fn take(&mut self, row: RowId, kind: Kind, told: &Told<'_>) -> Result<(), (i64, Fault)> {
        let entry = self.letters.entry(row).or_default();
        let here = |fault| (told.offset, fault);
        match (kind, told.value) {
            (Kind::Standing, value) => {
                entry.standing = value.map(form::read_standing).transpose().map_err(here)?;
                entry.unread_standing = None;
            }
            (Kind::Mark, None) => entry.marking = None,
            (Kind::Mark, Some(value)) => {
                entry.marking = Some((told.offset, form::read_marking(value).map_err(here)?));
            }
            // A letter that has lost a part is none.
            (Kind::Part(_), None) => {
                entry.gathering.clear();
                entry.letter = None;
                entry.unread_letter = None;
            }
            (Kind::Part(number), Some(value)) => {
                entry.parts = entry.parts.max(number);
                let of = PartOf::read(number, told.part, told.writing).ok_or(here(Fault::Field("headers")))?;
                entry.parts = entry.parts.max(of.count);
                if let Some(gathered) = entry.gathering.take(told.offset, number, of, value) {
                    let first = gathered.offsets.first().copied().unwrap_or(told.offset);
                    return self.add(row, gathered).map_err(|fault| (first, fault));
                }
            }
        }
        Ok(())
    }

    /// A letter that was there already keeps its place, and an attempt is counted.
    fn add(&mut self, row: RowId, gathered: Gathered) -> Result<(), Fault> {
        let document = form::read_letter(&row, &gathered.bytes)?;
        let queue = document.letter.parking_key.as_ref().map(|key| self.intern(key));
        let Some(entry) = self.letters.get_mut(&row) else { return Ok(()) };
        entry.unread_letter = None;
        match &mut entry.letter {
            Some(known) => known.writings = known.writings.saturating_add(1),
            none => *none = Some(Known::new(&document, gathered.offsets, queue, self.is_detailed)),
        }
        Ok(())
    }

    /// One copy of a key for all letters of it.
    fn intern(&self, key: &ParkingKey) -> Arc<ParkingKey> {
        self.queues.get_key_value(key).map_or_else(|| Arc::new(key.clone()), |(known, _)| Arc::clone(known))
    }

    /// Takes a row out of everything that is kept beside the entries; [`enter`](Self::enter) brings it back. Answers where it stood.
    fn strike_out(&mut self, row: &RowId) -> Option<Standpoint> {
        let entry = self.letters.get(row)?;
        let known = entry.letter.as_ref()?;
        let (id, queue) = (known.id(), known.queue.clone());
        let (root, bytes) = entry.weights();
        let is_open = entry.is_open();
        self.ids.remove(&id);
        self.going.remove(&id);
        self.marked.remove(&id);
        self.ready.remove(&id);
        if is_open {
            self.letters_open -= 1;
            self.roots -= root;
            self.parked_bytes -= bytes;
        }
        let queue = queue?;
        if let Some(ids) = self.queues.get_mut(&queue) {
            ids.remove(&id);
            if ids.is_empty() {
                self.queues.remove(&queue);
            }
        }
        Some((id, queue))
    }

    /// Answers where it stands, if it has not ended.
    fn enter(&mut self, row: &RowId) -> Option<Standpoint> {
        let entry = self.letters.get(row)?;
        if entry.is_nothing() {
            self.letters.remove(row);
            return None;
        }
        let known = entry.letter.as_ref()?;
        let (id, queue) = (known.id(), known.queue.clone());
        let (root, bytes) = entry.weights();
        let (is_open, is_marked) = (entry.is_open(), entry.state() != State::Waiting);
        self.ids.insert(id, *row);
        if !is_open {
            return None;
        }
        self.letters_open += 1;
        self.roots += root;
        self.parked_bytes += bytes;
        if let Some(queue) = queue {
            self.queues.entry(Arc::clone(&queue)).or_default().insert(id);
            return Some((id, queue));
        }
        if is_marked {
            self.marked.insert(id);
            self.ready.insert(id);
        }
        None
    }

    /// Says anew which letters of a queue are marked, after something has changed at this number: of that one, and of those behind it up to the first
    /// that goes or waits as it did.
    fn mark_from(&mut self, changed: i64, queue: &Arc<ParkingKey>) {
        let Self { letters, ids, queues, going, marked, ready, .. } = self;
        let Some(open) = queues.get(queue) else { return };
        let mut is_clear = open.range(..changed).next_back().is_none_or(|in_front| going.contains(in_front));
        for id in open.range(changed..) {
            let Some(entry) = ids.get(id).and_then(|row| letters.get(row)) else { continue };
            let state = entry.state();
            is_clear &= state == State::Replay || entry.may_follow();
            let has_changed = if is_clear { going.insert(*id) } else { going.remove(id) };
            if !has_changed && *id > changed {
                break;
            }
            if is_clear || state != State::Waiting {
                marked.insert(*id)
            } else {
                marked.remove(id)
            };
        }
        let mut firsts = open.iter();
        if let Some(head) = firsts.next().filter(|head| marked.contains(head)) {
            ready.insert(*head);
        }
        // What was the first may not be it any more.
        if let Some(second) = firsts.next() {
            ready.remove(second);
        }
    }

    /// How a letter stands.
    pub(super) fn state_of(&self, id: i64, entry: &Entry) -> State {
        if self.going.contains(&id) { State::Replay } else { entry.state() }
    }

    pub(super) fn inventory(&self) -> Inventory {
        let mut queues: Vec<_> = self.queues.iter().collect();
        queues.sort_by_key(|(_, ids)| ids.first().copied());
        let parked = |(key, ids): (&Arc<ParkingKey>, &BTreeSet<i64>)| {
            let rows = ids.iter().filter_map(|id| self.ids.get(id));
            let first = rows.map(RowId::place).reduce(Place::earlier)?;
            Some(Parked { key: ParkingKey::clone(key), letters: ids.len() as u64, first })
        };
        Inventory {
            letters: self.letters_open,
            parked: queues.into_iter().filter_map(parked).collect(),
            roots: self.roots,
            parked_bytes: self.parked_bytes,
        }
    }

    /// What may go next, in order, and where its parts lie: at most `limit`, and no more once rows of so many bytes are chosen.
    pub(super) fn marked(&self, limit: usize, bytes: u64, is_overtaking: bool) -> Vec<(LetterId, Request, Vec<i64>)> {
        let ids = if is_overtaking { self.marked.iter().copied().take(limit).collect() } else { self.going(limit) };
        let mut chosen = 0;
        let next = |id: &i64| {
            let entry = self.letters.get(self.ids.get(id)?)?;
            let request = match self.state_of(*id, entry) {
                State::Replay if entry.accepts_changed() => Request::ReplayChanged,
                State::Replay => Request::Replay,
                State::Drop => Request::Drop,
                State::Waiting | State::Sent | State::Dropped => return None,
            };
            let letter = entry.letter.as_ref()?;
            Some((LetterId(*id), request, letter.offsets.clone(), letter.parked_bytes))
        };
        let fits = |(id, request, offsets, weight)| {
            let is_chosen = chosen < bytes;
            chosen += weight;
            is_chosen.then_some((id, request, offsets))
        };
        ids.iter().filter_map(next).map_while(fits).take(limit).collect()
    }

    /// The letters that may go, and of each key those behind, up to one that is not marked. Each key has its share of the limit.
    fn going(&self, limit: usize) -> BTreeSet<i64> {
        let share = (limit / self.ready.len().clamp(1, limit.max(1))).max(1);
        let run = |id: &i64| {
            let letter = self.ids.get(id).and_then(|row| self.letters.get(row)?.letter.as_ref());
            let queue = letter.and_then(|letter| self.queues.get(letter.queue.as_ref()?));
            let behind = queue.into_iter().flat_map(|queue| queue.range((Bound::Excluded(*id), Bound::Unbounded)));
            std::iter::once(*id)
                .chain(behind.copied().take_while(|id| self.marked.contains(id)))
                .take(share)
                .collect::<Vec<_>>()
        };
        self.ready.iter().take(limit).flat_map(run).collect()
    }

    /// The letter of this number.
    pub(super) fn get(&self, id: LetterId) -> Option<(&RowId, &Entry)> {
        let row = self.ids.get(&id.0)?;
        Some((row, self.letters.get(row)?))
    }

    /// The letters that are whole, in order, from behind this number on. The first possible is 0.
    pub(super) fn behind(&self, id: i64) -> impl Iterator<Item = (i64, &RowId, &Entry)> {
        let behind = self.ids.range((Bound::Excluded(id), Bound::Unbounded));
        behind.filter_map(|(id, row)| Some((*id, row, self.letters.get(row)?)))
    }

    /// What is known of a row that is to be set aside.
    pub(super) fn before(&self, row: &RowId, now: Timestamp) -> Before {
        match self.letters.get(row) {
            None if self.ended.contains_key(row) => Before::Ended,
            Some(entry) if !entry.is_open() => Before::Ended,
            Some(entry) if entry.letter.is_some() => {
                let standing = entry.standing_now(now);
                Before::Open(Standing { attempts: standing.attempts.saturating_add(1), ..standing })
            }
            _ => Before::Unknown,
        }
    }

    /// Whether a letter lies there and has not ended.
    pub(super) fn is_open(&self, id: LetterId) -> bool {
        self.get(id).is_some_and(|(_, entry)| entry.is_open())
    }

    /// Where the mark of a letter lies, if it has one.
    pub(super) fn mark_of(&self, id: LetterId) -> Option<i64> {
        let (_, entry) = self.get(id)?;
        entry.marking.as_ref().map(|(offset, _)| *offset)
    }

    /// Somebody is told of these letters now, and acts upon the marks that they have by now.
    pub(super) fn acts_upon(&mut self, ids: impl Iterator<Item = LetterId>) {
        let open: Vec<i64> = self.acting.keys().copied().filter(|id| self.is_open(LetterId(*id))).collect();
        self.acting.retain(|id, _| open.binary_search(id).is_ok());
        for id in ids {
            self.acting.insert(id.0, self.mark_of(id));
        }
    }

    /// How this letter ended is durable.
    pub(super) fn has_acted(&mut self, id: LetterId) {
        self.acting.remove(&id.0);
    }

    /// How a letter stands once it has ended so, after the mark [was acted upon](Self::acts_upon), or none because it went by itself; where nobody was told
    /// of it, the last that was read. Nothing where that changes nothing, as of one that has ended already.
    pub(super) fn concluded(&self, id: LetterId, end: &Conclusion, now: Timestamp) -> Option<(RowId, Standing)> {
        let (row, entry) = self.get(id)?;
        if !entry.is_open() {
            return None;
        }
        let now = entry.standing_now(now);
        // One that was set meanwhile lies behind it.
        let acted_upon = self.acting.get(&id.0).copied().unwrap_or_else(|| self.mark_of(id));
        let marks_done = acted_upon.map_or(now.marks_done, |offset| offset.saturating_add(1));
        let tried = now.attempts.saturating_add(1);
        let standing = match end {
            Conclusion::Sent => {
                Standing { state: State::Sent, attempts: tried, ended_at: Some(now.last_at), marks_done, ..now }
            }
            Conclusion::Dropped => Standing { state: State::Dropped, ended_at: Some(now.last_at), marks_done, ..now },
            // The second of two equal calls, the answer of whose first was lost, changes nothing.
            Conclusion::Returned(_) if self.state_of(id.0, entry) == State::Waiting => return None,
            Conclusion::Returned(reason) => {
                let cause = if now.cause == Why::Parked { Why::Row } else { now.cause };
                Standing { cause, reason: Some(reason.clone()), attempts: tried, marks_done, ..now }
            }
        };
        Some((*row, standing))
    }

    /// The keys of letters that ended before this time, so many letters at most. While it is there how a letter stands, the rest of it is no open
    /// letter.
    pub(super) fn ended_before(&self, time: Timestamp, limit: usize) -> Vec<String> {
        let is_over = |entry: &Entry| !entry.is_open() && entry.ended_at().is_some_and(|at| at < time);
        let whole = self.letters.iter().filter(|(_, entry)| is_over(entry));
        let whole = whole.map(|(row, entry)| (*row, entry.parts, entry.marking.is_some()));
        let short = self.ended.iter().filter(|(_, ended)| ended.at < time);
        let short = short.map(|(row, ended)| (*row, ended.parts, ended.is_marked));
        whole.chain(short).take(limit).flat_map(|(row, parts, is_marked)| self.keys_of(row, parts, is_marked)).collect()
    }
}

#[cfg(test)]
mod tests;
