//! Whose order the letters keep that lie in the table.
//!
//! It is said twice, by the parts of the key and by their hash, so that a letter of which somebody changed one of them by hand is known for it. Where
//! another letter of the queue still tells its key, the damaged one keeps that key's order. Where none does, nobody knows which events have to wait, and
//! there is no going on: unless the letter is to be given up, for what is never sent keeps no order.

use std::collections::BTreeMap;

use walpost_core::poison::{Parked, ParkingKey};
use walpost_core::position::Place;

use super::Error;

/// Letters that agree in whose order they keep, or in how that is damaged.
#[derive(Debug)]
pub(super) struct Share {
    /// The hash, as it is stored.
    pub(super) queue: Option<Vec<u8>>,
    /// The key, where its parts can be read and belong to the hash; or the column that is damaged.
    pub(super) key: Result<Option<ParkingKey>, &'static str>,
    /// The first of the letters that are not to be given up.
    pub(super) kept: Option<i64>,
    /// How many they are.
    pub(super) letters: u64,
    /// What none of them comes before.
    pub(super) first: Place,
}

/// The keys that are parked.
///
/// # Errors
/// A letter keeps the order of nobody knows which key.
pub(super) fn keys(shares: Vec<Share>) -> Result<Vec<Parked>, Error> {
    let mut parked: BTreeMap<Option<Vec<u8>>, Parked> = BTreeMap::new();
    let mut damaged = Vec::new();
    for Share { queue, key, kept, letters, first } in shares {
        match key {
            Ok(Some(key)) => drop(parked.insert(queue, Parked { key, letters, first })),
            Ok(None) => {}
            Err(field) => damaged.push((queue, field, kept, letters, first)),
        }
    }
    for (queue, field, kept, letters, first) in damaged {
        match (parked.get_mut(&queue), kept) {
            (Some(parked), _) => {
                parked.letters += letters;
                parked.first = parked.first.earlier(first);
            }
            (None, Some(id)) => return Err(Error::Keyless { id, field }),
            (None, None) => {}
        }
    }
    Ok(parked.into_values().collect())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use walpost_core::lsn::Lsn;
    use walpost_core::outbox::TableName;
    use walpost_core::time::Timestamp;

    use super::*;

    fn key(key: &'static str) -> ParkingKey {
        let table = TableName { schema: "public".to_owned(), table: "outbox".to_owned() };
        ParkingKey { table, route: None, key: Bytes::from(key) }
    }

    fn place(ordinal: u64) -> Place {
        Place { commit_lsn: Lsn::new(1), ordinal, commit_time: Timestamp::default() }
    }

    fn share(queue: u8, key: Result<Option<ParkingKey>, &'static str>, kept: Option<i64>, ordinal: u64) -> Share {
        Share { queue: Some(vec![queue]), key, kept, letters: 2, first: place(ordinal) }
    }

    fn keys_of(shares: Vec<Share>) -> Vec<(ParkingKey, u64, Place)> {
        keys(shares).unwrap().into_iter().map(|parked| (parked.key, parked.letters, parked.first)).collect()
    }

    #[test]
    fn a_damaged_letter_keeps_the_order_of_the_key_that_others_of_its_queue_tell() {
        let found = keys_of(vec![
            share(1, Err("key"), Some(1), 3),
            share(1, Ok(Some(key("a"))), Some(2), 5),
            share(2, Ok(Some(key("b"))), None, 4),
            share(2, Err("route"), Some(7), 9),
        ]);
        assert_eq!(found, [(key("a"), 4, place(3)), (key("b"), 4, place(4))]);
    }

    #[test]
    fn a_letter_whose_key_nobody_knows_is_named_unless_it_is_to_be_given_up() {
        let error = keys(vec![share(1, Ok(Some(key("a"))), Some(1), 1), share(2, Err("key"), Some(4), 2)]).unwrap_err();
        assert!(matches!(error, Error::Keyless { id: 4, field: "key" }), "{error}");
        let found = keys_of(vec![share(1, Ok(Some(key("a"))), Some(1), 1), share(2, Err("key"), None, 2)]);
        assert_eq!(found, [(key("a"), 2, place(1))]);
    }
}
