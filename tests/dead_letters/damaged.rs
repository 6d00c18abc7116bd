//! Letters in the table of which somebody changed a column by hand: what the relay's side of the store and the commands make of it.

use walpost_core::poison::{Inventory, Request};

use super::*;

/// What shows of a change.
enum Shows {
    /// Nothing: another relay could have written it.
    Nothing,
    /// The letter cannot be sent, and this column is named. Whose order it keeps is known.
    Unsent(&'static str),
    /// Nor can that be told by this letter, but by another one of its queue.
    Keyless(&'static str),
    /// Nor by which queue it was of.
    Queueless(&'static str),
}

use Shows::{Keyless, Nothing, Queueless, Unsent};

/// Each column of the table but those that say whose letter it is, and how it stands.
const CHANGES: &[(&str, Shows)] = &[
    ("system_identifier = 0", Nothing),
    ("timeline = -1", Unsent("timeline")),
    ("commit_lsn = '0/0'", Nothing),
    ("ordinal = -1", Unsent("ordinal")),
    ("commit_time = 'infinity'", Nothing),
    ("outbox_schema = 'other'", Keyless(TOGETHER)),
    ("outbox_table = 'other'", Keyless(TOGETHER)),
    ("event_id = '\\q'", Unsent("event_id")),
    ("route = '\\q'", Keyless("route")),
    ("route = NULL", Keyless(TOGETHER)),
    ("key = '\\q'", Keyless("key")),
    ("key = 'other'", Keyless(TOGETHER)),
    ("key = NULL", Keyless(TOGETHER)),
    ("queue = '\\x00'", Queueless(TOGETHER)),
    ("queue = NULL", Queueless(TOGETHER)),
    ("cause = 'route'", Nothing),
    ("reason = '\\q'", Unsent("reason")),
    ("attempts = -1", Nothing),
    ("first_at = 'infinity'", Nothing),
    ("last_at = '-infinity'", Nothing),
    ("topic = '\\q'", Unsent("topic")),
    ("topic = NULL", Nothing),
    ("partition = -5", Nothing),
    ("record_key = NULL", Nothing),
    ("headers = '{}'", Unsent("headers")),
    ("headers = NULL", Unsent("headers")),
    ("timestamp_ms = NULL", Unsent("timestamp_ms")),
    ("payload = '\\x00'", Nothing),
    ("payload_column = 99", Unsent("payload_column")),
    ("relation_message = ''", Nothing),
    ("insert_message = ''", Unsent("payload_column")),
    ("row_sha256 = '\\x00'", Unsent("row_sha256")),
    ("marked_by = '\\q'", Nothing),
    ("marked_at = 'infinity'", Nothing),
    ("accepts_changed = true", Nothing),
    ("ended_at = now()", Nothing),
];

const TOGETHER: &str = "key, route, outbox_schema, outbox_table or queue";

impl Desk {
    /// These letters alone, of which the first is marked and changed.
    #[track_caller]
    fn with_damage(&mut self, letters: &[DeadLetter], change: &str) {
        self.database.psql("TRUNCATE walpost.dead_letter RESTART IDENTITY").unwrap();
        self.set_aside(letters);
        self.database.psql(&format!("UPDATE walpost.dead_letter SET state = 'replay', {change} WHERE id = 1")).unwrap();
    }

    /// What a relay would find at its start: how many letters each key has, or why it does not start.
    fn start(&self) -> Result<Vec<u64>, String> {
        let inventory = self.wait(store_of(&self.database, self.database.name()).inventory());
        let Inventory { parked, .. } = inventory.map_err(|error| error.to_string())?;
        Ok(parked.iter().map(|parked| parked.letters).collect())
    }

    /// Gives the first letter up, and has the relay do it.
    #[track_caller]
    fn give_up(&mut self, change: &str) {
        self.dlq(&["drop", "--id", "1", "--state", "replay", "--yes"]).assert_said(0, &["1 letter is marked"]);
        let marked = self.marked(false);
        assert_eq!((marked[0].id.0, marked[0].request), (1, Request::Drop), "{change}");
        self.conclude(1, Conclusion::Dropped);
    }
}

fn with_one_behind() -> [DeadLetter; 2] {
    [letter(0, "a", bad("the record is too large")), letter(1, "a", Cause::Parked)]
}

#[test]
fn a_column_of_a_letter_that_somebody_changed_is_named_where_it_shows_and_the_letter_can_be_given_up() {
    let mut desk = Desk::new("columns");
    for (change, shows) in CHANGES {
        desk.with_damage(&with_one_behind(), change);
        match shows {
            Queueless(_) => assert!(desk.start().is_err(), "{change}"),
            _ => assert_eq!(desk.start(), Ok(vec![2]), "{change}: the letter behind it tells the key"),
        }
        desk.dlq(&["list"]).assert_said(0, &["2 letters"]);
        let damage = match shows {
            Nothing => None,
            Unsent(column) | Keyless(column) | Queueless(column) => Some(*column),
        };
        let shown = desk.dlq(&["show", "1"]);
        match damage {
            None => shown.assert_said(0, &["letter:"]),
            Some(column) => shown.assert_said(
                11,
                &[&format!("the column {column} of the dead letter 1"), "walpost dlq drop --id 1 --yes"],
            ),
        }
        let marked = desk.marked(false);
        let reason = marked[0].fetched.clone().map(|fetched| fetched.unwrap_err());
        let named = damage.map(|column| format!("the column {column} of its letter holds what no relay wrote"));
        assert_eq!(reason.is_some(), named.is_some(), "{change}: {reason:?}");
        assert!(reason.unwrap_or_default().starts_with(&named.unwrap_or_default()), "{change}");
        desk.give_up(change);
        assert_eq!(desk.start(), Ok(vec![1]), "{change}");
        assert_eq!(desk.states(), "1 dropped, 2 replay", "{change}: it follows by itself");
    }
}

#[test]
fn where_nobody_knows_the_key_of_a_letter_a_relay_does_not_start_before_it_is_put_right_or_given_up() {
    let mut desk = Desk::new("keyless");
    for (change, shows) in CHANGES {
        desk.with_damage(&with_one_behind()[..1], change);
        let (Keyless(column) | Queueless(column)) = shows else {
            assert_eq!(desk.start(), Ok(vec![1]), "{change}");
            continue;
        };
        let said = format!(
            "nobody knows which key waits behind the dead letter 1: its column {column} holds what no relay wrote"
        );
        assert_eq!(desk.start(), Err(said), "{change}");
        desk.dlq(&["drop", "--id", "1", "--state", "replay", "--yes"]).assert_said(0, &["1 letter is marked"]);
        // What is never sent keeps no order.
        assert_eq!(desk.start(), Ok(vec![]), "{change}");
        assert_eq!(desk.next(), [1], "{change}");
        desk.conclude(1, Conclusion::Dropped);
        assert_eq!(desk.states(), "1 dropped", "{change}");
    }
}
