//! What a memory counts for, and what it makes of a checkpoint.

use walpost_postgres::SlotName;
use walpost_postgres::checkpoint::{FileStore, SlotStore, Store};
use walpost_postgres::{ConnectionSettings, Endpoint};

use super::*;

const SERVER: SystemIdentifier = SystemIdentifier(7);

fn memory() -> Memory {
    Memory {
        system: SERVER,
        timeline: Timeline(1),
        epoch: Epoch(5),
        claim: None,
        position: Lsn::new(0x200),
        commit_time: None,
        first_owed: None,
        rest: Rest::default(),
    }
}

fn server(system: SystemIdentifier) -> ServerState {
    ServerState {
        system,
        timeline: Timeline(1),
        history: Some(Vec::new()),
        flushed: Lsn::new(0x1000),
        in_recovery: false,
        database: "app".to_owned(),
    }
}

fn stored(position: u64, epoch: u64) -> Checkpoint {
    Checkpoint {
        relay: "r".to_owned(),
        system: SERVER,
        timeline: Timeline(1),
        database: "app".to_owned(),
        slot: "s".to_owned(),
        position: Lsn::new(position),
        commit_time: Some(Timestamp::default()),
        settled_rows: None,
        epoch: Epoch(epoch),
    }
}

#[test]
fn memory_counts_only_for_the_same_server_and_a_store_that_nobody_has_touched() {
    let file = AnyStore::Own(Store::file(FileStore::new("unused")));
    let connection = ConnectionSettings::new(Endpoint::new("h", 1), "u", "d");
    let slot = AnyStore::Own(Store::slot(SlotStore::new(connection, "r", SlotName::new("s").unwrap())));
    let cases = [
        ("as we left it", Some(stored(0x100, 5)), SERVER, &file, true),
        ("claimed by another, or replaced by an operator", Some(stored(0x100, 6)), SERVER, &file, false),
        ("forgotten", None, SERVER, &file, false),
        ("another server", Some(stored(0x100, 5)), SystemIdentifier(8), &file, false),
        ("a slot knows no epoch", Some(stored(0x100, 0)), SERVER, &slot, true),
        ("no slot", None, SERVER, &slot, false),
    ];
    for (what, stored, system, store, expected) in cases {
        assert_eq!(memory().is_of(stored.as_ref(), &server(system), store), expected, "{what}");
    }
}

#[test]
fn a_checkpoint_is_gone_where_there_is_none_or_one_that_was_begun_anew() {
    for (what, stored, expected) in [
        ("as we left it", Some(stored(0x200, 5)), false),
        ("claimed by another, or replaced by an operator", Some(stored(0x100, 6)), false),
        ("a topic without one", None, true),
        ("a topic that was made anew by init", Some(stored(0x200, 1)), true),
    ] {
        assert_eq!(memory().is_gone(stored.as_ref()), expected, "{what}");
    }
}

#[test]
fn memory_outlives_our_own_claim_whether_it_is_answered_or_not() {
    let file = AnyStore::Own(Store::file(FileStore::new("unused")));
    let before = stored(0x100, 5);
    let mut memory = memory();
    memory.claims(Some(&before), memory.position);
    let cases = [
        ("not written", before, true),
        ("written, and the answer lost", stored(0x200, 6), true),
        ("another claimed where the store stood", stored(0x100, 6), false),
        ("another claimed and went on", stored(0x300, 6), false),
        ("another claimed after it", stored(0x200, 7), false),
    ];
    for (what, stored, expected) in cases {
        assert_eq!(memory.is_of(Some(&stored), &server(SERVER), &file), expected, "{what}");
    }
    memory.claimed(Epoch(6));
    assert!(memory.is_of(Some(&stored(0x200, 6)), &server(SERVER), &file), "answered");
    assert!(!memory.is_of(Some(&stored(0x100, 5)), &server(SERVER), &file), "set back by an operator");
}

#[test]
fn memory_goes_on_where_the_store_is_behind_and_never_back() {
    let ahead = memory().ahead_of(&stored(0x100, 5));
    assert_eq!(
        (ahead.position, ahead.epoch, ahead.commit_time),
        (Lsn::new(0x200), Epoch(5), Some(Timestamp::default()))
    );
    assert_eq!(memory().ahead_of(&stored(0x300, 5)), stored(0x300, 5));
}

#[test]
fn what_a_stop_leaves_undone_is_told_as_it_is_and_what_is_not_so_is_not_told() {
    let said = |unsettled, unsaved, is_cut| Rest { unsettled, unsaved, is_cut }.to_string();
    assert_eq!(said(2, 0, false), "2 rows neither delivered nor set aside");
    assert_eq!(said(0, 1, false), "1 row delivered or set aside after the last checkpoint");
    assert_eq!(said(0, 0, true), "a transaction that is settled in part");
    assert_eq!(
        said(1, 3, true),
        "1 row neither delivered nor set aside, a transaction that is settled in part, 3 rows delivered or set aside after the last checkpoint"
    );
}
