//! What is set aside: which keys are parked, what the store of the letters is asked for, and which letters go again.
//!
//! The store is asked in order and answers in order. Where it fails, everything that was asked of it and not answered is asked again after a
//! while, from the first on: so no letter of a key comes before an older one, and nothing is taken for durable that is not.
//!
//! A row is given to the store only once all that was taken from the log before it is settled or put aside as well. Else the one before
//! could come back undelivered, or come again after a crash, and find its key parked by a younger row.
//!
//! What lies there is counted with what is on its way. A count that is too high parks for too long, one that is too low breaks an order; so a
//! row that was there already is counted all the same, a key is never let go on a count alone, and in both cases the store is asked for its
//! inventory, which is exact: it is taken between two orders of the same queue.
//!
//! Where letters are committed in one group with records and position, all of that is simpler. What is given up was never there, so that a row
//! may be set aside while those before it are on their way, and the counts are exact: nobody else writes, and nothing is left half done.
//!
//! A store may tell of letters that are marked as it was a while ago. What is known here to have ended is not taken up again. It is forgotten once the
//! store has caught up with it, which a look tells: marks are told of in order, and what is in front of the first is marked no more.

mod leaving;
mod lying;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;

use crate::backoff::Backoff;
use crate::failure::{Class, Failure};
use crate::ledger::Ledger;
use crate::outbox::TableName;
use crate::poison::{
    Cause, Conclusion, DeadLetter, Inventory, KeyTexts, LetterId, LoggedRow, Marked, ParkingKey, Policy, Request,
};
use crate::port::Ticket;
use crate::position::{Identity, Place};
use crate::time::Moment;

pub(super) use leaving::Stance;
use lying::{Lying, Parking, Share};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Letters {
    pub(super) policy: Policy,
    lying: Lying,
    /// Rows on their way to the store. What was not asked for yet is in the order of the log.
    aside: Queue<Aside>,
    /// The row that the next of them waits for.
    waits_for: Option<Ticket>,
    /// Letters that go again, or have gone and are to be ended.
    replays: BTreeMap<LetterId, Share>,
    /// Keys of which no more letters are taken before all of those have ended.
    held: BTreeSet<ParkingKey>,
    /// Keys of which the sink had a letter when letters were last looked for, and since then.
    opened: BTreeSet<ParkingKey>,
    opening: BTreeSet<ParkingKey>,
    /// How letters ended that the store does not know of.
    ends: Queue<(LetterId, Conclusion)>,
    /// Letters that have ended in this session and that a store may tell of that is behind.
    ended: BTreeSet<LetterId>,
    /// Letters that waited for another one and have failed by themselves since, on the same terms.
    became_roots: BTreeSet<LetterId>,
    /// See [`commit_in_groups`](Self::commit_in_groups).
    is_grouping: bool,
    /// The letters of which the open group says how they ended, and whether for good.
    concluded: BTreeMap<LetterId, bool>,
    /// How many letters were put aside since the last commit: nobody can see them yet.
    unseen: u64,
    /// Letters that are to go again, and wait for the description of their relation.
    unrouted: Vec<Marked>,
    /// It was asked for.
    is_asked: bool,
    inventory: Wanted,
    /// The last one came to nothing, and has not been asked for again.
    has_inventory_failed: bool,
    /// The store has failed, and is asked for nothing before this moment.
    away_until: Option<Moment>,
    backoff: Backoff,
    trouble: Option<Failure>,
    pub(super) counts: Counts,
}

/// What became of letters in this session.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Counts {
    pub(super) set_aside: u64,
    pub(super) parked: u64,
    pub(super) replayed: u64,
    pub(super) returned: u64,
    pub(super) given_up: u64,
}

/// What the store is to be asked for next.
#[derive(Debug)]
pub(super) enum Order {
    SetAside(Ticket, Cause),
    Conclude(LetterId, Conclusion),
    TakeInventory,
}

/// What waits for the store, in order. The first of it was asked for and is to be answered.
#[derive(Debug)]
struct Queue<T> {
    items: VecDeque<T>,
    asked: usize,
}

/// A row on its way to the store.
#[derive(Debug)]
struct Aside {
    ticket: Ticket,
    place: Place,
    cause: Cause,
    share: Share,
    /// It waits until all before it is settled or put aside. Else another one of its key did so.
    waits: bool,
}

/// Whether the store is asked for its inventory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wanted {
    No,
    Yes,
    Asked,
}

impl Letters {
    pub(super) fn new(policy: Policy, inventory: Inventory, backoff: Backoff) -> Self {
        Self {
            policy,
            lying: Lying::of(inventory, |_, _, first| Parking { first: Some(first), ..Parking::since(Ticket(0)) }),
            aside: Queue::default(),
            waits_for: None,
            replays: BTreeMap::new(),
            held: BTreeSet::new(),
            opened: BTreeSet::new(),
            opening: BTreeSet::new(),
            ends: Queue::default(),
            ended: BTreeSet::new(),
            became_roots: BTreeSet::new(),
            is_grouping: false,
            concluded: BTreeMap::new(),
            unseen: 0,
            unrouted: Vec::new(),
            is_asked: false,
            inventory: Wanted::No,
            has_inventory_failed: false,
            away_until: None,
            backoff,
            trouble: None,
            counts: Counts::default(),
        }
    }

    /// Letters are committed in one group with records and position.
    pub(super) fn commit_in_groups(&mut self) {
        self.is_grouping = true;
    }

    fn parking(&self, row: &LoggedRow) -> Option<&Parking> {
        if self.lying.keys.is_empty() || !self.policy.is_parking() {
            return None;
        }
        self.lying.keys.get(&row.head.table)?.get(&row.key_texts()?)
    }

    /// Why no further letter may lie there, if so.
    pub(super) fn limit(&self, cause: &Cause, row: &LoggedRow) -> Option<Failure> {
        match cause {
            Cause::Row(reason) | Cause::Route(reason) if self.lying.roots >= self.policy.flood_limit => {
                Some(flood(self.lying.roots, self.unseen, self.policy.flood_limit, reason))
            }
            Cause::Row(_) | Cause::Route(_) => None,
            Cause::Parked => {
                let bytes = self.lying.parked_bytes.saturating_add(row.kept_bytes(self.policy.keep));
                let is_full = bytes > self.policy.parked_bytes && self.lying.parked_bytes > 0;
                is_full.then(|| full(self.lying.parked_bytes, self.unseen, self.policy.parked_bytes))
            }
        }
    }

    /// A row of the log is to be set aside. Its key is parked from now on.
    pub(super) fn put_aside(&mut self, ticket: Ticket, identity: Identity, cause: Cause, row: &LoggedRow) {
        let waits = cause.is_root() || self.parking(row).is_some_and(|parking| parking.is_late);
        let texts = row.key_texts();
        let key = texts.map(|(route, key)| ParkingKey { table: row.head.table.clone(), route, key });
        let is_root = cause.is_root();
        let share = Share { key, is_root, parked_bytes: if is_root { 0 } else { row.kept_bytes(self.policy.keep) } };
        let place = Place::of(identity, row.commit_time);
        self.lying.add(&share, ticket, place);
        if let Some(parking) = share.key.as_ref().and_then(|key| self.lying.parking_mut(key)) {
            if is_root { parking.stay() } else { parking.followers += 1 }
        }
        self.unseen += u64::from(self.is_grouping);
        // A row before it may have been with the sink when one behind was put aside.
        let behind = self.aside.unasked().position(|other| other.ticket > ticket);
        self.aside.insert(behind, Aside { ticket, place, cause, share, waits });
    }

    /// What to ask of the store now; of rows only where it takes any. How letters ended comes first, so that an inventory counts no end twice.
    pub(super) fn next_order(&mut self, ledger: &Ledger, takes_rows: bool, now: Moment) -> Option<Order> {
        if self.away_until.is_some_and(|until| now < until) {
            return None;
        }
        self.away_until = None;
        if let Some((id, conclusion)) = self.ends.ask() {
            return Some(Order::Conclude(*id, conclusion.clone()));
        }
        // One that failed fails again, perhaps, for what somebody made of a letter: no row waits for that.
        if self.inventory == Wanted::Yes && !self.has_inventory_failed {
            return Some(self.take_inventory());
        }
        let may_ask = takes_rows && !self.is_waiting_for_others(ledger);
        if let Some(aside) = if may_ask { self.aside.ask() } else { None } {
            return Some(Order::SetAside(aside.ticket, aside.cause.clone()));
        }
        (self.inventory == Wanted::Yes).then(|| self.take_inventory())
    }

    fn take_inventory(&mut self) -> Order {
        self.inventory = Wanted::Asked;
        self.has_inventory_failed = false;
        Order::TakeInventory
    }

    fn is_waiting_for_others(&mut self, ledger: &Ledger) -> bool {
        let waits = |aside: &&Aside| aside.waits && !self.is_grouping;
        let Some(next) = self.aside.unasked().next().filter(waits) else { return false };
        self.waits_for = ledger.first_undecided(self.waits_for.take(), next.ticket);
        self.waits_for.is_some()
    }

    /// A row is durable. `false` if it is not the next that an answer is awaited for.
    pub(super) fn set_aside(&mut self, ticket: Ticket, is_new: bool) -> bool {
        let Some(aside) = self.aside.answered(|aside| aside.ticket == ticket) else { return false };
        match aside.cause {
            Cause::Parked => self.counts.parked += 1,
            Cause::Row(_) | Cause::Route(_) => self.counts.set_aside += 1,
        }
        if let Some(parking) = aside.share.key.as_ref().filter(|_| !is_new).and_then(|key| self.lying.parking_mut(key))
        {
            parking.stay();
        }
        match (is_new, self.is_grouping) {
            (true, _) => {}
            // It lies there already, and was counted when the session began; or it has ended, as where a checkpoint was moved back.
            (false, true) => {
                self.unseen = self.unseen.saturating_sub(1);
                self.discount(aside.share);
            }
            (false, false) => self.want_inventory(),
        }
        self.store_answered();
        true
    }

    /// The end of a letter is durable.
    pub(super) fn concluded(&mut self, letter: LetterId) {
        let Some((_, conclusion)) = self.ends.answered(|(id, _)| *id == letter) else { return };
        self.store_answered();
        let Some(share) = self.replays.remove(&letter) else { return };
        self.is_under_way(&share, false);
        let is_ended = conclusion.is_for_good();
        if is_ended {
            self.ended.insert(letter);
            self.became_roots.remove(&letter);
        }
        if self.is_grouping {
            self.concluded.insert(letter, is_ended);
        }
        match conclusion {
            Conclusion::Returned(_) => {
                self.lying.has_returned(&share);
                if !share.is_root {
                    self.became_roots.insert(letter);
                }
                return self.counts.returned += 1;
            }
            Conclusion::Sent => self.counts.replayed += 1,
            Conclusion::Dropped => self.counts.given_up += 1,
        }
        self.discount(share);
    }

    /// What was counted lies there no more, or was counted twice. Of a key that leaves without a letter only an inventory can tell, unless the counts are
    /// exact.
    fn discount(&mut self, share: Share) {
        if self.lying.remove(&share) {
            match self.is_grouping {
                true => self.lying.let_go(share.key),
                false => self.want_inventory(),
            }
        }
    }

    /// The group is committed. Answers of which letters it said how they ended, and whether for good.
    pub(super) fn committed(&mut self) -> BTreeMap<LetterId, bool> {
        self.unseen = self.aside.items.len() as u64;
        std::mem::take(&mut self.concluded)
    }

    /// What lies in the store after all that it has answered. A key that nobody knew of is parked for what is taken from the log from now on:
    /// its letter is of a connection that is gone, and the row was taken anew since.
    pub(super) fn inventoried(&mut self, inventory: Inventory, next_ticket: Ticket) {
        if self.inventory != Wanted::Asked {
            return;
        }
        self.inventory = Wanted::No;
        let known = std::mem::take(&mut self.lying.keys);
        let parking_of = |table: &TableName, texts: &KeyTexts, _| {
            let parking = known.get(table).and_then(|keys| keys.get(texts)).copied();
            parking.unwrap_or(Parking { is_late: true, ..Parking::since(next_ticket) })
        };
        self.lying = Lying::of(inventory, parking_of);
        for Aside { ticket, place, share, .. } in &self.aside.items {
            self.lying.add(share, *ticket, *place);
        }
        self.store_answered();
    }

    /// The store has failed: nothing that it was asked for and has not answered is known to be done.
    pub(super) fn store_failed(&mut self, reason: &str, now: Moment) {
        let until = now.after(self.backoff.next_wait());
        // Where it was asked for nothing but its inventory, that is read.
        let failed = if self.aside.asked == 0 && self.ends.asked == 0 { "read" } else { "written" };
        self.has_inventory_failed = self.inventory == Wanted::Asked && failed == "read";
        self.wait_no_longer();
        self.ask_again_at(until);
        self.trouble = Some(Failure::new(Class::Sink, format!("the dead letters cannot be {failed}: {reason}")));
    }

    /// What was asked for and is not answered is asked for again at this moment.
    pub(super) fn ask_again_at(&mut self, moment: Moment) {
        self.aside.asked = 0;
        self.ends.asked = 0;
        if self.inventory == Wanted::Asked {
            self.inventory = Wanted::Yes;
        }
        self.away_until = Some(moment);
    }

    /// Letters that are marked come now, from this one on: the store can be read. Whether it can be written, an order tells, where there is one.
    ///
    /// None is looked for while one is under way, so that all that has ended had done so when the look began; and no look tells of a time before another's.
    pub(super) fn look_anew(&mut self, first: Option<LetterId>) {
        // What the open group ends has not ended for the store: a mark of it may be taken back meanwhile, and set again.
        let ended_by_group = self.concluded.iter().filter(|(_, is_ended)| **is_ended).map(|(id, _)| *id);
        self.ended = first.map(|first| self.ended.split_off(&first)).unwrap_or_default();
        self.ended.extend(ended_by_group);
        if self.aside.items.is_empty() && self.ends.items.is_empty() && self.inventory == Wanted::No {
            self.store_answered();
        }
        if self.replays.is_empty() {
            self.held.clear();
            self.opened = std::mem::take(&mut self.opening);
        }
    }

    /// The sink is made anew.
    pub(super) fn sink_is_new(&mut self) {
        self.opened.clear();
        self.opening.clear();
    }

    /// A letter was marked. `failed` says why it is not to be sent, where it was in a group that came to nothing.
    ///
    /// Those of a key come in order, and go one behind the other as rows do. Where one cannot go, none behind it does. The first of a key goes alone, for it
    /// is the one that failed before, and of a client's very first record no broker knows whether something is missing in front of the next: that one would be
    /// taken where the first is refused.
    pub(super) fn on_marked(&mut self, marked: Marked, failed: Option<&String>) {
        let Marked { id, request, ref letter, .. } = marked;
        let is_known = |letters: &Self| letters.ended.contains(&id) || letters.concluded.contains_key(&id);
        if self.concluded.get(&id) == Some(&false) {
            // The mark is the one that was acted upon: it has come back.
            self.hold(letter.parking_key.clone());
        }
        if self.replays.contains_key(&id) || is_known(self) {
            return;
        }
        if self.is_held(letter) {
            return;
        }
        if request != Request::Drop && self.is_of_another_relation(letter) {
            return self.hold(letter.parking_key.clone());
        }
        let (key, became_root) = (letter.parking_key.clone(), self.became_roots.contains(&id));
        let parked_bytes = if became_root { 0 } else { letter.parked_bytes() };
        if request != Request::Drop && !self.is_grouping && key.as_ref().is_some_and(|key| !self.opened.contains(key)) {
            self.hold(key.clone());
        }
        let share = Share { key, is_root: became_root || letter.cause.is_root(), parked_bytes };
        self.is_under_way(&share, true);
        self.replays.insert(id, share);
        let given_back = match (request, failed) {
            (Request::Drop, _) => {
                if !self.is_grouping && marked.fetched.as_ref().is_some_and(Result::is_err) {
                    // It is damaged, and under which key it was counted it may not tell any more.
                    self.want_inventory();
                }
                return self.end(id, Conclusion::Dropped);
            }
            (Request::Replay | Request::ReplayChanged, Some(reason)) => Err(reason.clone()),
            (Request::Replay | Request::ReplayChanged, None) => marked.whole(),
        };
        match given_back {
            // It is routed by the router of today, which may have been corrected.
            Ok(marked) => self.unrouted.push(marked),
            Err(reason) => drop(self.give_back(id, reason)),
        }
    }

    /// A letter that was to go again lies there still, and those behind it that were to follow it do too. Answers which.
    pub(super) fn give_back(&mut self, letter: LetterId, reason: String) -> Vec<LetterId> {
        let key = self.replays.get(&letter).and_then(|share| share.key.clone());
        self.end(letter, Conclusion::Returned(reason));
        if key.is_none() || !self.policy.is_parking() {
            return Vec::new();
        }
        let is_ending = |id: &LetterId| self.ends.items.iter().any(|(ending, _)| ending == id);
        let others = self.replays.range((Bound::Excluded(letter), Bound::Unbounded));
        let behind = others.filter(|(id, share)| share.key == key && !is_ending(id));
        let behind: Vec<LetterId> = behind.map(|(id, _)| *id).collect();
        self.unrouted.retain(|marked| !behind.contains(&marked.id));
        for id in &behind {
            if let Some(share) = self.replays.remove(id) {
                self.is_under_way(&share, false);
            }
        }
        self.hold(key);
        behind
    }

    /// A letter of its key is taken up, or done with.
    fn is_under_way(&mut self, share: &Share, is_so: bool) {
        if let Some(parking) = share.key.as_ref().and_then(|key| self.lying.parking_mut(key)) {
            parking.under_way = if is_so { parking.under_way + 1 } else { parking.under_way.saturating_sub(1) };
        }
    }

    /// Whether a letter that was marked is to go, or has gone.
    pub(super) fn is_going(&self, letter: LetterId) -> bool {
        self.replays.contains_key(&letter)
    }

    fn is_held(&self, letter: &DeadLetter) -> bool {
        letter.parking_key.as_ref().is_some_and(|key| self.held.contains(key))
    }

    fn hold(&mut self, key: Option<ParkingKey>) {
        if self.policy.is_parking() {
            self.held.extend(key);
        }
    }

    /// Whether one of its key waits for the description of another relation, and would not go in front of it.
    fn is_of_another_relation(&self, letter: &DeadLetter) -> bool {
        let is_other = |other: &DeadLetter| {
            other.parking_key == letter.parking_key && other.row.relation_id() != letter.row.relation_id()
        };
        letter.parking_key.is_some() && self.unrouted.iter().any(|marked| is_other(&marked.letter))
    }

    /// How a letter that went again ended.
    pub(super) fn end(&mut self, letter: LetterId, conclusion: Conclusion) {
        debug_assert!(self.replays.contains_key(&letter), "only a letter that was marked ends");
        if conclusion == Conclusion::Sent {
            self.opening.extend(self.replays.get(&letter).and_then(|share| share.key.clone()));
        }
        self.ends.items.push_back((letter, conclusion));
    }

    /// Whether a description has to be asked for, so that letters can be routed anew. Says so once.
    pub(super) fn take_question(&mut self) -> bool {
        !self.unrouted.is_empty() && !std::mem::replace(&mut self.is_asked, true)
    }

    /// The relation whose description is awaited, and its outbox.
    pub(super) fn undescribed(&self) -> Option<(u32, &TableName)> {
        self.unrouted.first().map(|marked| (marked.letter.row.relation_id(), &marked.letter.table))
    }

    /// Whether a description was asked for and is awaited.
    pub(super) fn is_asking(&self) -> bool {
        self.is_asked
    }

    /// Whether the answer about this relation is awaited.
    pub(super) fn is_awaiting(&self, relation: u32) -> bool {
        self.is_asked && self.undescribed().is_some_and(|(awaited, _)| awaited == relation)
    }

    /// The letters that waited for the description of this relation.
    pub(super) fn take_described(&mut self, relation: u32) -> Vec<Marked> {
        self.is_asked = false;
        let unrouted = std::mem::take(&mut self.unrouted).into_iter();
        let (described, rest) = unrouted.partition(|marked| marked.letter.row.relation_id() == relation);
        self.unrouted = rest;
        described
    }

    /// Whether nothing is awaited of the store.
    pub(super) fn is_quiet(&self) -> bool {
        self.aside.asked == 0 && !self.has_ends()
    }

    /// Whether the store does not know yet how a letter ended.
    pub(super) fn has_ends(&self) -> bool {
        !self.ends.items.is_empty()
    }

    /// Whether the store was asked for something and has neither answered nor failed.
    pub(super) fn is_awaiting_store(&self) -> bool {
        self.aside.asked > 0 || self.ends.asked > 0 || self.inventory == Wanted::Asked
    }

    /// Whether a letter may be marked that is not known to be.
    pub(super) fn wants_marked(&self) -> bool {
        self.lying.letters > 0 && self.replays.is_empty()
    }

    /// When the store may be asked again, if that is not now.
    pub(super) fn deadline(&self, now: Moment) -> Option<Moment> {
        let wants = !self.aside.items.is_empty() || !self.ends.items.is_empty() || self.inventory == Wanted::Yes;
        self.away_until.filter(|until| wants && *until > now)
    }

    pub(super) fn trouble(&self) -> Option<&Failure> {
        self.trouble.as_ref()
    }

    pub(super) fn parked_keys(&self) -> usize {
        self.lying.keys.values().map(BTreeMap::len).sum()
    }

    pub(super) fn open(&self) -> u64 {
        self.lying.letters
    }

    /// How many letters lie there or are on their way, how many of them for a reason of their own, and how many bytes wait for another one.
    #[cfg(test)]
    pub(super) fn counted(&self) -> [u64; 3] {
        [self.lying.letters, self.lying.roots, self.lying.parked_bytes]
    }

    /// How many letters are not taken up again though their store may tell of them.
    #[cfg(test)]
    pub(super) fn remembered(&self) -> usize {
        self.ended.len()
    }

    #[cfg(test)]
    pub(super) fn is_known(&self, key: &ParkingKey) -> bool {
        let keys = self.lying.keys.get(&key.table);
        keys.is_some_and(|keys| keys.contains_key(&(key.route.clone(), key.key.clone())))
    }

    /// One that is under way comes after whatever was answered before it, and tells of that too.
    fn want_inventory(&mut self) {
        if self.inventory == Wanted::No {
            self.inventory = Wanted::Yes;
        }
    }

    fn store_answered(&mut self) {
        self.trouble = None;
        self.backoff.reset();
    }
}

impl<T> Queue<T> {
    /// The next that was not asked for, which is from now on.
    fn ask(&mut self) -> Option<&T> {
        let next = self.items.get(self.asked)?;
        self.asked += 1;
        Some(next)
    }

    fn unasked(&self) -> impl Iterator<Item = &T> {
        self.items.iter().skip(self.asked)
    }

    /// Puts it at this place among those that were not asked for, or behind them all.
    fn insert(&mut self, place: Option<usize>, item: T) {
        match place {
            Some(place) => self.items.insert(self.asked + place, item),
            None => self.items.push_back(item),
        }
    }

    /// The first was answered, if it is this one.
    fn answered(&mut self, is_it: impl FnOnce(&T) -> bool) -> Option<T> {
        if self.asked == 0 || !self.items.front().is_some_and(is_it) {
            return None;
        }
        self.asked -= 1;
        self.items.pop_front()
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { items: VecDeque::new(), asked: 0 }
    }
}

fn flood(roots: u64, unseen: u64, limit: u64, reason: &str) -> Failure {
    Failure::new(
        Class::Row,
        format!(
            "the stream is held in front of a row that cannot be published, because {roots} dead letters lie there for a reason of their \
             own already and dead_letter.flood_limit is {limit}; look at them with `walpost dlq list` and replay or drop them, or raise \
             dead_letter.flood_limit{} (the row: {reason})",
            not_seen(unseen)
        ),
    )
}

fn full(bytes: u64, unseen: u64, limit: u64) -> Failure {
    Failure::new(
        Class::Row,
        format!(
            "the stream is held in front of a row whose key is parked, because dead letters of {bytes} bytes wait for another one already \
             and dead_letter.parked_bytes is {limit}; look at them with `walpost dlq list` and replay or drop them, or raise \
             dead_letter.parked_bytes{}",
            not_seen(unseen)
        ),
    )
}

/// A transaction may set more rows aside than may lie there. Then nothing helps but a higher limit.
fn not_seen(unseen: u64) -> String {
    match unseen {
        0 => String::new(),
        unseen => format!(
            ", which alone helps with the {unseen} that are of the same transaction and not listed before it is published"
        ),
    }
}
