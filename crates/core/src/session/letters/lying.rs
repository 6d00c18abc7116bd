//! What lies with the dead letters or is on its way there: how much, and of which keys.

use std::collections::BTreeMap;

use crate::outbox::TableName;
use crate::poison::{Inventory, KeyTexts, Parked, ParkingKey};
use crate::port::Ticket;
use crate::position::Place;
use crate::time::Moment;

/// What one letter counts for.
#[derive(Debug, Clone)]
pub(super) struct Share {
    pub(super) key: Option<ParkingKey>,
    pub(super) is_root: bool,
    pub(super) parked_bytes: u64,
}

/// What lies in the store or is on its way there.
#[derive(Debug, Default)]
pub(super) struct Lying {
    pub(super) keys: BTreeMap<TableName, BTreeMap<KeyTexts, Parking>>,
    pub(super) letters: u64,
    pub(super) roots: u64,
    pub(super) parked_bytes: u64,
}

/// A parked key.
#[derive(Debug, Clone, Copy)]
pub(super) struct Parking {
    /// Its letters. At none it is parked still, until an inventory says that it is not.
    pub(super) letters: u64,
    /// From this row on.
    pub(super) since: Ticket,
    /// And not before this place, where its letters lay there already when the session began.
    pub(super) first: Option<Place>,
    /// It was found to be parked in the midst of a session.
    pub(super) is_late: bool,
    /// How many of its letters go again, or have gone and are to be ended.
    pub(super) under_way: u64,
    /// How many of them, the last ones, were set aside in this session for the sake of the others: they go by themselves once those have.
    pub(super) followers: u64,
    /// Rows of it wait until then for its letters to go, and are not set aside.
    pub(super) leaves_until: Option<Moment>,
}

impl Parking {
    /// A key that is parked from this row on.
    pub(super) fn since(ticket: Ticket) -> Self {
        Self { letters: 0, since: ticket, first: None, is_late: false, under_way: 0, followers: 0, leaves_until: None }
    }

    /// Nobody knows any more that all its letters go.
    pub(super) fn stay(&mut self) {
        (self.followers, self.leaves_until) = (0, None);
    }

    /// Whether a row of the key waits. One from before all its letters was published before they came to lie there, and comes again after a crash:
    /// behind them it would be the last that anybody reads of its key.
    pub(super) fn holds(&self, ticket: Ticket, place: &Place) -> bool {
        self.since <= ticket && !self.first.is_some_and(|first| place.is_before(&first))
    }
}

impl Lying {
    pub(super) fn of(inventory: Inventory, parking_of: impl Fn(&TableName, &KeyTexts, Place) -> Parking) -> Self {
        let Inventory { letters, parked, roots, parked_bytes } = inventory;
        let mut keys: BTreeMap<TableName, BTreeMap<KeyTexts, Parking>> = BTreeMap::new();
        for Parked { key: ParkingKey { table, route, key }, letters, first } in parked {
            let texts = (route, key);
            let parking = Parking { letters, ..parking_of(&table, &texts, first) };
            keys.entry(table).or_default().insert(texts, parking);
        }
        Self { keys, letters, roots, parked_bytes }
    }

    pub(super) fn add(&mut self, share: &Share, ticket: Ticket, place: Place) {
        self.letters += 1;
        self.roots += u64::from(share.is_root);
        self.parked_bytes += share.parked_bytes;
        if let Some(ParkingKey { table, route, key }) = &share.key {
            let keys = self.keys.entry(table.clone()).or_default();
            let parking = keys.entry((route.clone(), key.clone()));
            let parking = parking.or_insert(Parking::since(ticket));
            parking.letters += 1;
            parking.since = parking.since.min(ticket);
            parking.first = parking.first.map(|first| first.earlier(place));
        }
    }

    pub(super) fn parking_mut(&mut self, ParkingKey { table, route, key }: &ParkingKey) -> Option<&mut Parking> {
        self.keys.get_mut(table)?.get_mut(&(route.clone(), key.clone()))
    }

    /// No letter of a key lies there any more.
    pub(super) fn let_go(&mut self, key: Option<ParkingKey>) {
        let Some(ParkingKey { table, route, key }) = key else { return };
        if let Some(keys) = self.keys.get_mut(&table) {
            keys.remove(&(route, key));
        }
    }

    /// A letter that waited for another one has failed by itself: it lies there for a reason of its own from now on.
    pub(super) fn has_returned(&mut self, share: &Share) {
        self.roots += u64::from(!share.is_root);
        self.parked_bytes = self.parked_bytes.saturating_sub(share.parked_bytes);
        if let Some(parking) = share.key.as_ref().and_then(|key| self.parking_mut(key)) {
            parking.stay();
        }
    }

    /// A letter has ended. Whether only an inventory can tell what that leaves.
    pub(super) fn remove(&mut self, share: &Share) -> bool {
        self.letters = self.letters.saturating_sub(1);
        self.roots = self.roots.saturating_sub(u64::from(share.is_root));
        self.parked_bytes = self.parked_bytes.saturating_sub(share.parked_bytes);
        let Some(key) = &share.key else { return false };
        match self.parking_mut(key) {
            Some(parking) => {
                parking.letters = parking.letters.saturating_sub(1);
                parking.followers = parking.followers.min(parking.letters);
                parking.letters == 0
            }
            None => true,
        }
    }
}
