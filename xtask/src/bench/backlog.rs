//! The outbox rows that wait to be drained, and the slot that keeps their log.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use anyhow::{Context as _, Result, ensure};

use super::contest::Arena;
use super::options::Workload;
use crate::interrupt;

/// The slot that all slots of a backlog are copies of. Nobody drains it.
pub(super) const ORIGINAL_SLOT: &str = "bench";

/// How many rows one statement loads, more or less. Between two of them a signal is heard.
const SLICE: u64 = 20_000;

/// A row of the reference outbox with a payload of some 200 bytes; ten thousand aggregates take turns.
const PROCEDURE: &str = r"
CREATE PROCEDURE load(first bigint, last bigint, per_transaction bigint) LANGUAGE plpgsql AS $$
BEGIN
    FOR n IN first..last LOOP
        INSERT INTO outbox (aggregatetype, aggregateid, type, payload) VALUES
            ('order', 'order-' || n % 10000, 'OrderPlaced', jsonb_build_object(
                'order', n, 'customer', 'customer-' || n % 977, 'total', 4711, 'note', repeat('pearl ', 20)));
        IF n % per_transaction = 0 THEN
            COMMIT;
        END IF;
    END LOOP;
END $$";

/// A loaded database.
#[derive(Debug)]
pub(super) struct Backlog {
    pub(super) workload: Workload,
    pub(super) database: String,
    /// Everything that was loaded was committed before this position of the log.
    pub(super) end: String,
}

impl Backlog {
    pub(super) fn load(arena: &Arena, workload: Workload) -> Result<Self> {
        let Workload { events, per_transaction } = workload;
        let database = format!("transactions_of_{per_transaction}");
        arena.postgres.psql("postgres", &format!("CREATE DATABASE {database}"))?;
        arena.walpost_init(&database, ORIGINAL_SLOT)?;
        arena.postgres.psql(&database, PROCEDURE)?;
        fill(arena, &database, workload)?;
        // The log is on its way to the disk until then.
        arena.postgres.psql(&database, "CHECKPOINT")?;
        let value = |sql| arena.postgres.endpoint().value(&database, sql).map_err(anyhow::Error::from);
        let count: u64 = value("SELECT count(*) FROM outbox")?.parse().context("the rows cannot be counted")?;
        ensure!(count == events, "{events} rows were to be loaded, and there are {count}");
        let end = value("SELECT pg_current_wal_lsn()")?;
        Ok(Self { workload, database, end })
    }

    /// Lets go of the log and the rows.
    pub(super) fn remove(self, arena: &Arena) -> Result<()> {
        let database = self.database;
        arena.postgres.psql(&database, &format!("SELECT pg_drop_replication_slot('{ORIGINAL_SLOT}')"))?;
        arena.postgres.psql("postgres", &format!("DROP DATABASE {database} WITH (FORCE)"))?;
        Ok(())
    }
}

/// Calls the procedure, slice after slice, on as many connections as there are processors, up to four.
fn fill(arena: &Arena, database: &str, Workload { events, per_transaction }: Workload) -> Result<()> {
    let slice = per_transaction * SLICE.div_ceil(per_transaction);
    let next = AtomicU64::new(0);
    let load = || -> Result<()> {
        loop {
            interrupt::check()?;
            let loaded = next.fetch_add(slice, Ordering::Relaxed);
            if loaded >= events {
                return Ok(());
            }
            let (first, last) = (loaded + 1, events.min(loaded + slice));
            arena.postgres.psql(database, &format!("CALL load({first}, {last}, {per_transaction})"))?;
        }
    };
    let loaders = thread::available_parallelism().map_or(1, |processors| processors.get().min(4));
    thread::scope(|scope| {
        let loaders: Vec<_> = (0..loaders).map(|_| scope.spawn(load)).collect();
        loaders
            .into_iter()
            .try_for_each(|loader| loader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}
