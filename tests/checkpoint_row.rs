//! The checkpoint as a row of the source database, where two write it.

use walpost_core::lsn::Lsn;
use walpost_core::port::Checkpoints;
use walpost_core::position::{Checkpoint, Epoch, SettledRows, SystemIdentifier, Timeline};
use walpost_core::time::Timestamp;
use walpost_postgres::checkpoint::{PostgresStore, Store};
use walpost_postgres::{ConnectionSettings, Endpoint};
use walpost_testkit::servers::{Database, shared_postgres};

const TABLE: &str = include_str!("../migrations/0001_checkpoint.sql");

fn store_of(database: &Database) -> Store {
    let endpoint = Endpoint::new(database.endpoint().host(), database.endpoint().port());
    Store::postgres(PostgresStore::new(ConnectionSettings::new(endpoint, "postgres", database.name()), "relay"))
}

fn checkpoint(position: u64, settled: Option<u64>) -> Checkpoint {
    let rows = |commit| SettledRows { commit_lsn: Lsn::new(commit), through: Lsn::new(commit - 1) };
    Checkpoint {
        relay: "relay".to_owned(),
        system: SystemIdentifier(u64::MAX),
        timeline: Timeline(3),
        database: "app".to_owned(),
        slot: "walpost".to_owned(),
        position: Lsn::new(position),
        commit_time: Some(Timestamp::from_postgres_micros(i64::try_from(position).unwrap())),
        settled_rows: settled.map(rows),
        epoch: Epoch(0),
    }
}

#[test]
fn a_claim_leaves_in_the_row_what_it_says_it_leaves_whatever_was_written_since_the_row_was_read() {
    let database = shared_postgres().fresh_database("claimed").unwrap();
    database.psql(TABLE).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let of = |settled| checkpoint(10, settled);
    let slot = Checkpoint { slot: "other".to_owned(), ..of(Some(30)) };
    let system = Checkpoint { system: SystemIdentifier(7), ..of(Some(30)) };
    let timeline = Checkpoint { timeline: Timeline(2), ..of(Some(30)) };
    let undated = Checkpoint { commit_time: None, ..of(Some(30)) };
    let mut others = vec![slot, system, timeline, undated, of(None), of(Some(20)), checkpoint(15, None)];
    others.extend([checkpoint(15, Some(30)), checkpoint(21, Some(20)), checkpoint(5, Some(9))]);
    for stored in &others {
        for offered in &others {
            runtime.block_on(async {
                let mut store = store_of(&database);
                store.replace(stored).await.unwrap();
                let stored = store.load().await.unwrap().unwrap();
                let epoch = store.claim(offered).await.unwrap();
                let claimed = offered.claimed(Some(&stored));
                assert_eq!(epoch, claimed.epoch);
                assert_eq!(store.load().await.unwrap().unwrap(), claimed, "{offered:?} over {stored:?}");
            });
        }
    }
}
