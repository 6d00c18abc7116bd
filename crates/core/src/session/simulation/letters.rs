//! The simulated store of the dead letters, and the operator who looks after it.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::pgoutput::Message;
use crate::poison::{
    Cause, Conclusion, DeadLetter, Inventory, LetterId, Marked, OnBadRow, OnClosedRoute, Parked, ParkingKey, Policy,
    Request,
};
use crate::port::Ticket;
use crate::position::{Identity, Place};

use super::facts::{Event, Facts, Fault};
use super::random::Random;
use super::server::TABLES;

/// See the module's documentation.
#[derive(Debug, Default, Clone)]
pub(super) struct LetterStore {
    letters: Vec<Stored>,
    /// What was asked for and is not answered.
    pub(super) orders: VecDeque<StoreOrder>,
    pub(super) is_away: bool,
}

/// What a session asks of the store.
#[derive(Debug, Clone)]
pub(super) enum StoreOrder {
    SetAside(Ticket, Box<DeadLetter>),
    Conclude(LetterId, Conclusion),
    Inventory,
}

/// What the store answers.
#[derive(Debug)]
pub(super) enum StoreAnswer {
    SetAside(Ticket, bool),
    Concluded(LetterId),
    Inventory(Inventory),
}

#[derive(Debug, Clone)]
struct Stored {
    letter: DeadLetter,
    event: usize,
    mark: Option<Request>,
    /// An operator took a mark of it back: it does not go by itself.
    is_kept: bool,
    /// An operator gave it up, whatever was asked for since.
    was_given_up: bool,
    /// It waited for another one, and failed by itself.
    became_root: bool,
    is_open: bool,
    /// How many events there were when an inventory said that it is gone. Until then its key may be parked for it.
    missed_at: Option<usize>,
}

impl LetterStore {
    /// The first of the orders is done and answered.
    pub(super) fn perform(&mut self, facts: &mut Facts) -> Option<StoreAnswer> {
        Some(match self.orders.pop_front()? {
            StoreOrder::SetAside(ticket, letter) => StoreAnswer::SetAside(ticket, self.set_aside(*letter, facts)),
            StoreOrder::Conclude(id, conclusion) => {
                self.conclude(id, &conclusion, facts);
                StoreAnswer::Concluded(id)
            }
            StoreOrder::Inventory => StoreAnswer::Inventory(self.inventory()),
        })
    }

    /// It fails, or whoever asked is gone. A batch may be done all the same, and nobody knows.
    pub(super) fn fail(&mut self, facts: &mut Facts, random: &mut Random) {
        let count = if random.one_in(2) { random.index(self.orders.len() + 1) } else { 0 };
        for _ in 0..count {
            self.perform(facts);
        }
        self.orders.clear();
    }

    pub(super) fn inventory(&self) -> Inventory {
        let mut parked: BTreeMap<ParkingKey, Parked> = BTreeMap::new();
        for Stored { letter, .. } in self.open() {
            if let Some(key) = letter.parking_key.clone() {
                let place = Place::of(letter.identity, letter.commit_time);
                let new = || Parked { key: key.clone(), letters: 0, first: place };
                let parked = parked.entry(key.clone()).or_insert_with(new);
                parked.letters += 1;
                parked.first = parked.first.earlier(place);
            }
        }
        Inventory {
            letters: self.open().count() as u64,
            parked: parked.into_values().collect(),
            roots: self.roots(),
            parked_bytes: self.open().map(|stored| stored.letter.parked_bytes()).sum(),
        }
    }

    /// A session has got an inventory, and knows which letters are gone.
    pub(super) fn inventoried(&mut self, facts: &Facts) {
        for stored in self.letters.iter_mut().filter(|stored| !stored.is_open) {
            stored.missed_at.get_or_insert(facts.events.len());
        }
    }

    /// See [`crate::port::DeadLetters::marked`].
    pub(super) fn marked(&self, limit: usize, is_overtaking: bool) -> Vec<Marked> {
        let mut blocked = BTreeSet::new();
        let next = self.requests().filter(|(_, Stored { letter, .. }, request)| {
            let Some(key) = letter.parking_key.as_ref().filter(|_| !is_overtaking) else { return true };
            if request.is_none() {
                blocked.insert(key);
            }
            !blocked.contains(key)
        });
        let marked = next.filter_map(|(place, stored, request)| {
            Some(Marked { id: id_of(place), request: request?, letter: stored.letter.clone(), fetched: None })
        });
        marked.take(limit).collect()
    }

    /// What is to become of each letter that is open, in order: what an operator asked for; and what lies there only because of its key goes by itself
    /// where all that stands in front of it goes, or nothing does.
    fn requests(&self) -> impl Iterator<Item = (usize, &Stored, Option<Request>)> {
        let mut waiting = BTreeSet::new();
        let open = self.letters.iter().enumerate().filter(|(_, stored)| stored.is_open);
        open.map(move |(place, stored)| {
            let key = stored.letter.parking_key.as_ref();
            let follows = stored.may_follow() && !waiting.contains(&key);
            let request = stored.mark.or(follows.then_some(Request::Replay));
            if matches!(request, None | Some(Request::Drop)) && key.is_some() {
                waiting.insert(key);
            }
            (place, stored, request)
        })
    }

    /// An operator looks at the letters: marks one, or mends what it failed for.
    pub(super) fn look_after(&mut self, facts: &mut Facts, random: &mut Random) -> Option<String> {
        let open: Vec<usize> = (0..self.letters.len()).filter(|place| self.letters[*place].is_open).collect();
        if open.is_empty() {
            return None;
        }
        let place = random.pick(&open);
        let event = self.letters[place].event;
        if random.one_in(3) {
            facts.events[event].is_bad = false;
            return Some(format!("the broker would take event {event}"));
        }
        let replay = Some(Request::Replay);
        let request = random.pick(&[replay, replay, replay, replay, Some(Request::Drop), None]);
        self.letters[place].mark = request;
        self.letters[place].is_kept |= request.is_none();
        self.letters[place].was_given_up |= request == Some(Request::Drop);
        Some(format!("{:?}, event {event}, is marked: {request:?}", id_of(place)))
    }

    /// The operator clears up: of what does not go by itself, all that can be sent is, and the rest is given up.
    pub(super) fn clear_up(&mut self, facts: &mut Facts) {
        for stored in self.letters.iter_mut().filter(|stored| stored.is_open) {
            facts.events[stored.event].is_bad = false;
        }
        for stored in self.letters.iter_mut().filter(|stored| stored.is_open && !stored.may_follow()) {
            let is_hopeless = facts.events[stored.event].fault == Some(Fault::Route);
            stored.mark.get_or_insert(if is_hopeless { Request::Drop } else { Request::Replay });
            stored.was_given_up |= is_hopeless;
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.open().next().is_none()
    }

    pub(super) fn check(&self, policy: &Policy) {
        assert!(policy.needs_store() || self.letters.is_empty(), "a row was set aside and nothing allows it");
        let is_of_route = |stored: &Stored| matches!(stored.letter.cause, Cause::Route(_));
        let sets_routes_aside = policy.on_closed_route == OnClosedRoute::DeadLetter;
        assert!(sets_routes_aside || !self.open().any(is_of_route), "a row was set aside for a route to be waited for");
        let roots = self.open().filter(|stored| stored.letter.cause.is_root() && !stored.became_root).count() as u64;
        assert!(roots <= policy.flood_limit, "{roots} letters lie there for a reason of their own");
        let parked = || self.open().filter(|stored| stored.letter.cause == Cause::Parked);
        assert!(policy.on_bad_row != OnBadRow::DeadLetter || parked().next().is_none(), "a row is parked");
        let bytes: u64 = parked().map(|stored| stored.letter.parked_bytes()).sum();
        assert!(bytes <= policy.parked_bytes || parked().count() == 1, "letters of {bytes} bytes wait for others");
    }

    /// Each row that was ever set aside lies there, was sent, or was given up: one of them, and once.
    pub(super) fn check_exactly_once(&self, facts: &Facts) {
        let has_come_again = |stored: &&Stored| facts.events[stored.event].has_come_again;
        for Stored { event, is_open, .. } in self.letters.iter().filter(|stored| !has_come_again(stored)) {
            let was_sent = facts.is_delivered(*event);
            let fates = [*is_open, was_sent, facts.events[*event].is_given_up];
            let count = fates.iter().filter(|is_its| **is_its).count();
            assert_eq!(count, 1, "event {event}: lies there, was sent, was given up: {fates:?}");
        }
    }

    /// Whether a letter of this row lies there or has lain there.
    pub(super) fn has(&self, row: Identity) -> bool {
        self.letters.iter().any(|stored| stored.letter.identity == row)
    }

    /// How many letters of an event lie there: one for each timeline that it was read on.
    pub(super) fn open_of(&self, event: usize) -> u32 {
        self.open().map(|stored| u32::from(stored.event == event)).sum()
    }

    pub(super) fn is_open(&self, id: LetterId) -> bool {
        self.letters[usize::try_from(id.0).unwrap()].is_open
    }

    fn open(&self) -> impl Iterator<Item = &Stored> {
        self.letters.iter().filter(|stored| stored.is_open)
    }

    fn roots(&self) -> u64 {
        self.open().filter(|stored| stored.letter.cause.is_root()).count() as u64
    }

    pub(super) fn set_aside(&mut self, letter: DeadLetter, facts: &mut Facts) -> bool {
        if let Some(stored) = self.letters.iter_mut().find(|stored| stored.letter.identity == letter.identity) {
            // Whoever offers it holds its key, until an inventory says anew that it is gone.
            stored.missed_at = None;
            return false;
        }
        let event = event_of(&letter);
        check(&letter, event, facts);
        check_cause(&letter.cause, event, facts);
        check_order(event, facts);
        self.check_reason(&letter, event, facts);
        facts.events[event].is_set_aside = true;
        self.letters.push(Stored {
            letter,
            event,
            mark: None,
            is_kept: false,
            was_given_up: false,
            became_root: false,
            is_open: true,
            missed_at: None,
        });
        true
    }

    /// A row that waits for another one waits for an older one: an innocent row is not set aside for what a younger one did. One that was published
    /// before, and comes again, would be read last of its key. On another timeline it may wait for a letter of its own.
    ///
    /// Where the server's clock was set back between the two, nobody knows which is older, for another cluster counts its log by itself. Then one that
    /// comes again may wait; one that was never published is never behind a younger one.
    fn check_reason(&self, letter: &DeadLetter, number: usize, facts: &Facts) {
        if letter.cause != Cause::Parked {
            return;
        }
        let of_key = |stored: &&Stored| stored.letter.parking_key == letter.parking_key;
        let has_lain_since = |stored: &&Stored| stored.missed_at.is_none_or(|events| events > number);
        let older = self.letters.iter().filter(of_key).filter(has_lain_since).find(|stored| stored.event <= number);
        let is_set_back = |stored: &&Stored| stored.letter.commit_time < letter.commit_time;
        let is_disputed =
            || facts.is_delivered(number) && self.letters.iter().filter(of_key).any(|stored| is_set_back(&stored));
        assert!(older.is_some() || is_disputed(), "event {number} was set aside though none before it of its key was");
    }

    pub(super) fn conclude(&mut self, id: LetterId, conclusion: &Conclusion, facts: &mut Facts) {
        let stored = &mut self.letters[usize::try_from(id.0).unwrap()];
        if !stored.is_open {
            return;
        }
        match conclusion {
            Conclusion::Sent => {
                assert!(facts.is_delivered(stored.event), "event {} is said to be sent", stored.event);
                stored.is_open = false;
            }
            Conclusion::Dropped => {
                assert!(stored.was_given_up, "nobody gave event {} up", stored.event);
                facts.events[stored.event].is_given_up = true;
                stored.is_open = false;
            }
            Conclusion::Returned(reason) => {
                assert!(!is_innocent(stored.event, facts), "event {} is innocent, and came back", stored.event);
                stored.mark = None;
                if stored.letter.cause == Cause::Parked {
                    stored.letter.cause = Cause::Row(reason.clone());
                    stored.became_root = true;
                }
            }
        }
    }
}

impl Stored {
    /// It lies there only because of its key, and no operator has said anything of it.
    fn may_follow(&self) -> bool {
        self.letter.cause == Cause::Parked && self.mark.is_none() && !self.is_kept
    }
}

fn id_of(place: usize) -> LetterId {
    LetterId(i64::try_from(place).unwrap())
}

/// The event that a letter is of, by its id.
pub(super) fn event_of(letter: &DeadLetter) -> usize {
    let id = letter.event_id.as_deref().expect("every event has an id");
    usize::from_str_radix(id.rsplit('-').next().unwrap(), 16).unwrap()
}

/// Where keys are parked, a row is set aside behind all of its key: none that comes before it is on its way still.
fn check_order(number: usize, facts: &Facts) {
    let event = &facts.events[number];
    let key = |event: &Event| event.key.map(|key| (event.table, event.route(), key));
    if event.key.is_none() || !facts.is_parking || facts.is_accounted_for(number) {
        return;
    }
    let is_missing = |other: &usize| !facts.is_accounted_for(*other) && !facts.events[*other].is_lost;
    let older = (0..number).filter(|other| key(&facts.events[*other]) == key(event)).find(is_missing);
    assert_eq!(older, None, "event {number} was set aside in front of one of its key");
}

/// A bad row takes no good ones with it.
fn check_cause(cause: &Cause, number: usize, facts: &Facts) {
    let event = &facts.events[number];
    match cause {
        Cause::Row(_) => assert!(event.was_bad || event.fault.is_some(), "event {number} is no bad row"),
        Cause::Route(_) => assert!(facts.were_closed[event.topic], "the route of event {number} was never closed"),
        Cause::Parked => {}
    }
}

/// Whether nothing was ever wrong with an event.
fn is_innocent(number: usize, facts: &Facts) -> bool {
    let event = &facts.events[number];
    !event.was_bad && event.fault.is_none() && !facts.were_closed[event.topic]
}

/// A letter says what its row says, and keeps it.
fn check(letter: &DeadLetter, number: usize, facts: &Facts) {
    let event = &facts.events[number];
    let (table, record) = (&letter.table, letter.record.as_ref());
    assert_eq!((letter.identity.commit_lsn, letter.identity.ordinal), event.place(), "the letter of event {number}");
    assert_eq!((table.schema.as_str(), table.table.as_str()), (TABLES[event.table].1, TABLES[event.table].2));
    let key = letter.parking_key.as_ref().map(|key| (key.route.as_deref(), key.key.as_ref()));
    assert_eq!(
        key,
        event.key.map(|key| (event.route().map(str::as_bytes), key.as_bytes())),
        "the key of event {number}"
    );
    assert_eq!(record.map_or(number, |record| facts.event_of(record)), number, "the record of the letter");
    assert!(record.is_some() || event.fault.is_some(), "event {number} has lost its record");
    assert!(record.is_none() || event.fault != Some(Fault::Route), "event {number} has a record of no topic");
    let (relation, insert) = (Message::parse(&letter.row.relation), Message::parse(&letter.row.insert));
    let (Ok(Message::Relation(relation)), Ok(Message::Insert(insert))) = (relation, insert) else {
        panic!("the letter of event {number} keeps no row");
    };
    assert_eq!((relation.id, relation.columns.len()), (insert.relation, insert.new.cells.len()));
}
