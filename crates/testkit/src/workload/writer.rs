//! One writer: a connection and what it does with it.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use tokio_postgres::types::ToSql;
use tokio_postgres::{Client, Error, Statement};

use super::connection::connect;
use super::random::Random;
use super::tables::FOREIGN;
use super::{Misfit, State};

/// Between two attempts to connect.
const RETRY: Duration = Duration::from_millis(50);
/// How long an attempt to connect may take.
const CONNECT_LIMIT: Duration = Duration::from_secs(2);
/// The most rows that one transaction writes.
pub(super) const MOST_ROWS: u32 = 8;

/// What a transaction is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// One row.
    Single,
    /// Several rows, of several keys and tables.
    Several,
    /// Several rows, and nothing of it stays.
    RolledBack,
    /// Several rows, of which those between a savepoint and the return to it do not stay.
    PartlyRolledBack,
    /// Rows of a table that is not published, and a message into the log.
    Foreign,
    /// Very many rows.
    Large,
    /// Very many rows, and nothing of it stays.
    LargeRolledBack,
}

/// One in so many rows is a large one, and one in so many transactions.
const SELDOM: u32 = 200;
/// Of the misfits of hot keys one in so many is written: what comes behind one of these is a lot.
const SPARED: u32 = 8;
/// Where there are misfits, other keys are hot after so many transactions: what lies behind one comes to an end, then.
const HOT_FOR: u64 = 400;

impl Kind {
    fn random(state: &State, random: &mut Random) -> Self {
        if state.workload.large_rows > 0 && random.below(SELDOM) == 0 {
            return if random.below(4) == 0 { Self::LargeRolledBack } else { Self::Large };
        }
        match random.below(20) {
            0..8 => Self::Single,
            8..14 => Self::Several,
            14..16 => Self::RolledBack,
            16..18 => Self::PartlyRolledBack,
            _ => Self::Foreign,
        }
    }
}

/// What a transaction left.
#[derive(Clone, Copy, Debug, Default)]
struct Rows {
    committed: u64,
    rolled_back: u64,
}

/// Where a transaction failed.
enum Failure {
    /// Before its commit was asked for: it did not happen.
    Before(Error),
    /// After: it may have happened.
    InDoubt(Error, Doubt),
    /// Afterwards, when its fate was asked for.
    Unresolved(Error, Doubt),
}

/// A transaction whose fate is to be asked for.
#[derive(Clone, Debug)]
struct Doubt {
    /// A row that is there if it happened, and the number of its table; none where it wrote none.
    witness: Option<(usize, String)>,
    rows: Rows,
}

/// Writes until there is no more to do.
pub(super) async fn write(state: Arc<State>, number: u32) {
    let mut random = Random::of_writer(state.workload.seed, number);
    let (mut writer, mut doubt) = (None, None);
    while let Some(transaction) = state.next_transaction() {
        if writer.is_none() {
            writer = Writer::connect(&state, number).await;
        }
        let Some(connected) = &writer else { break };
        let outcome = match doubt.take() {
            Some(doubt) => connected.resolve(&state, doubt).await,
            None => {
                state.open.fetch_add(1, Ordering::Relaxed);
                let rows = connected.transact(&state, transaction, &mut random).await;
                state.open.fetch_sub(1, Ordering::Relaxed);
                rows.map(|rows| count(&state, rows))
            }
        };
        if let Err(failure) = outcome {
            note(&state, &failure);
            writer = None;
            if let Failure::InDoubt(_, open) | Failure::Unresolved(_, open) = failure {
                doubt = Some(open);
            }
        }
        if !state.workload.pause.is_zero() {
            tokio::time::sleep(state.workload.pause).await;
        }
    }
    if let Some(doubt) = doubt {
        settle(&state, number, writer, doubt).await;
    }
}

/// Writes one misfit of each kind, so that each run has them all, however short it is; of keys that are not hot yet.
pub(super) async fn plant(state: &State) {
    let Some(writer) = Writer::connect(state, 0).await else { return };
    let cold = i32::try_from((state.workload.hot_keys + state.workload.cold_keys) / 2).unwrap_or(0);
    for (key, misfit) in (cold..).zip(Misfit::ALL) {
        let row = Row { key, rows: 1, transaction: 0, fate: "committed", filling: 0, misfit: Some(misfit) };
        match writer.write(0, &row).await {
            Ok(_) => count(state, Rows { committed: 1, rolled_back: 0 }),
            Err(error) => note_trouble(state, &error),
        }
    }
}

/// Looks a last time what became of a transaction. A server that does not answer now leaves it in doubt.
async fn settle(state: &State, number: u32, writer: Option<Writer>, doubt: Doubt) {
    let number = i32::try_from(number).unwrap_or(0);
    let settled = tokio::time::timeout(CONNECT_LIMIT, async {
        let writer = match writer {
            Some(writer) => writer,
            None => Writer::try_connect(state, number).await?,
        };
        if let Err(Failure::Unresolved(error, _)) = writer.resolve(state, doubt).await {
            return Err(error);
        }
        Ok(())
    });
    if let Ok(Err(error)) = settled.await {
        note_trouble(state, &error);
    }
}

fn count(state: &State, rows: Rows) {
    state.committed_rows.fetch_add(rows.committed, Ordering::Relaxed);
    state.rolled_back_rows.fetch_add(rows.rolled_back, Ordering::Relaxed);
    state.transactions.fetch_add(1, Ordering::Relaxed);
}

fn note(state: &State, failure: &Failure) {
    let (Failure::Before(error) | Failure::InDoubt(error, _) | Failure::Unresolved(error, _)) = failure;
    match failure {
        Failure::Before(_) => drop(state.failed.fetch_add(1, Ordering::Relaxed)),
        Failure::InDoubt(..) => drop(state.in_doubt.fetch_add(1, Ordering::Relaxed)),
        Failure::Unresolved(..) => {}
    }
    note_trouble(state, error);
}

/// One row, or several of a key that differ in nothing but their numbers.
struct Row<'a> {
    key: i32,
    rows: i32,
    transaction: i64,
    fate: &'a str,
    filling: i32,
    misfit: Option<Misfit>,
}

/// A connection with its prepared statements.
struct Writer {
    number: i32,
    client: Client,
    insertions: Vec<Statement>,
}

impl Writer {
    /// Connects, however often it takes; `None` when the workload ends before.
    async fn connect(state: &State, number: u32) -> Option<Self> {
        let number = i32::try_from(number).ok()?;
        loop {
            match tokio::time::timeout(CONNECT_LIMIT, Self::try_connect(state, number)).await {
                Ok(Ok(writer)) => return Some(writer),
                Ok(Err(error)) => note_trouble(state, &error),
                Err(_) => {}
            }
            if state.is_stopping.load(Ordering::Relaxed) {
                return None;
            }
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn try_connect(state: &State, number: i32) -> Result<Self, Error> {
        let client = connect(&state.workload.url).await?;
        let mut insertions = Vec::new();
        for outbox in &state.workload.outboxes {
            insertions.push(client.prepare(&outbox.insertion()).await?);
        }
        Ok(Self { number, client, insertions })
    }

    async fn transact(&self, state: &State, transaction: u64, random: &mut Random) -> Result<Rows, Failure> {
        let kind = Kind::random(state, random);
        let (doubt, end) = self.fill(state, kind, transaction, random).await.map_err(Failure::Before)?;
        match self.client.batch_execute(end).await {
            Ok(()) => Ok(doubt.rows),
            Err(error) if end == "COMMIT" => Err(Failure::InDoubt(error, doubt)),
            Err(error) => Err(Failure::Before(error)),
        }
    }

    /// Looks what became of a transaction whose commit was not answered.
    async fn resolve(&self, state: &State, doubt: Doubt) -> Result<(), Failure> {
        let Some((table, id)) = &doubt.witness else { return Ok(()) };
        let Some(outbox) = state.workload.outboxes.get(*table) else { return Ok(()) };
        match self.client.query_one(&outbox.presence(), &[id]).await.and_then(|row| row.try_get(0)) {
            Ok(true) => count(state, doubt.rows),
            Ok(false) => {}
            Err(error) => return Err(Failure::Unresolved(error, doubt)),
        }
        Ok(())
    }

    /// Everything up to the statement that ends it, which is returned.
    async fn fill(
        &self,
        state: &State,
        kind: Kind,
        transaction: u64,
        random: &mut Random,
    ) -> Result<(Doubt, &'static str), Error> {
        self.client.batch_execute("BEGIN").await?;
        let keys = keys(state, (kind, transaction), random);
        let mut witness = None;
        let (mut written, mut undone_rows) = (0, 0);
        // What comes between these two is undone.
        let undone = match kind {
            Kind::Single | Kind::Several | Kind::Foreign | Kind::Large => 0..0,
            Kind::RolledBack | Kind::LargeRolledBack => 0..keys.len(),
            Kind::PartlyRolledBack => keys.len() / 3..keys.len() - keys.len() / 3,
        };
        for (index, key) in keys.iter().enumerate() {
            if kind == Kind::PartlyRolledBack && index == undone.start {
                self.client.batch_execute("SAVEPOINT undone").await?;
            }
            let is_undone = undone.contains(&index);
            let fate = if is_undone { "rolled back" } else { "committed" };
            let rows = rows_of_key(state, kind, random);
            let row = self.insert(state, (*key, rows), transaction, fate, random).await?;
            witness = if is_undone { witness } else { row.or(witness) };
            written += to_u64(rows);
            undone_rows += if is_undone { to_u64(rows) } else { 0 };
            if kind == Kind::PartlyRolledBack && index + 1 == undone.end {
                self.client.batch_execute("ROLLBACK TO SAVEPOINT undone").await?;
            }
        }
        if kind == Kind::Foreign {
            self.write_foreign(random).await?;
        }
        let rows = Rows { committed: written - undone_rows, rolled_back: undone_rows };
        let is_rolled_back = matches!(kind, Kind::RolledBack | Kind::LargeRolledBack);
        Ok((Doubt { witness, rows }, if is_rolled_back { "ROLLBACK" } else { "COMMIT" }))
    }

    /// Writes rows of one key, and returns the table and the id of one of them.
    async fn insert(
        &self,
        state: &State,
        (key, rows): (i32, i32),
        transaction: u64,
        fate: &str,
        random: &mut Random,
    ) -> Result<Option<(usize, String)>, Error> {
        let table = random.below(u32::try_from(self.insertions.len()).unwrap_or(0));
        let table = usize::try_from(table).unwrap_or(0);
        let is_large = rows == 1 && state.workload.largest_payload > 0 && random.below(SELDOM) == 0;
        let largest = if is_large { state.workload.largest_payload } else { state.workload.payload_bytes };
        let filling = i32::try_from(random.below(largest + 1)).unwrap_or(0);
        let misfit = if rows == 1 { misfit(state, (key, transaction), random) } else { None };
        let transaction = i64::try_from(transaction).unwrap_or(i64::MAX);
        self.write(table, &Row { key, rows, transaction, fate, filling, misfit }).await
    }

    /// Writes rows into the table of this number.
    async fn write(&self, table: usize, row: &Row<'_>) -> Result<Option<(usize, String)>, Error> {
        let Some(insertion) = self.insertions.get(table) else { return Ok(None) };
        let Row { key, rows, transaction, fate, filling, misfit } = row;
        let misfit = misfit.map(Misfit::name);
        let parameters: [&(dyn ToSql + Sync); 8] =
            [key, &"Changed", &self.number, transaction, fate, filling, rows, &misfit];
        let id: Option<String> = self.client.query_one(insertion, &parameters).await?.try_get(0)?;
        Ok(id.map(|id| (table, id)))
    }

    async fn write_foreign(&self, random: &mut Random) -> Result<(), Error> {
        let bytes = random.below(2_000);
        let script = format!(
            "INSERT INTO {FOREIGN} (filling) VALUES (repeat('f', {bytes})); \
             UPDATE {FOREIGN} SET filling = 'changed' WHERE id = (SELECT max(id) FROM {FOREIGN}); \
             SELECT pg_logical_emit_message(true, 'walpost-testkit', 'of no interest')"
        );
        self.client.batch_execute(&script).await
    }
}

fn note_trouble(state: &State, error: &Error) {
    let reason = error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string);
    *state.trouble.lock().unwrap_or_else(PoisonError::into_inner) = Some(reason);
}

/// The keys of a transaction's rows, ascending, so that no two transactions wait for each other.
fn keys(state: &State, (kind, transaction): (Kind, u64), random: &mut Random) -> Vec<i32> {
    let count = match kind {
        Kind::Single => 1,
        Kind::Several | Kind::RolledBack => 2 + random.below(MOST_ROWS - 1),
        Kind::PartlyRolledBack => 3 + random.below(MOST_ROWS - 2),
        Kind::Foreign => random.below(2),
        Kind::Large | Kind::LargeRolledBack => 1 + random.below(3),
    };
    let mut keys: Vec<i32> = (0..count).map(|_| key(state, transaction, random)).collect();
    keys.sort_unstable();
    keys
}

/// How many rows of one key are written at once.
fn rows_of_key(state: &State, kind: Kind, random: &mut Random) -> i32 {
    match kind {
        Kind::Large | Kind::LargeRolledBack => {
            i32::try_from(1 + random.below((state.workload.large_rows / 3).max(1))).unwrap_or(1)
        }
        _ => 1,
    }
}

fn key(state: &State, transaction: u64, random: &mut Random) -> i32 {
    let (hot, cold) = (state.workload.hot_keys, state.workload.cold_keys);
    let is_hot = cold == 0 || (hot > 0 && random.below(2) == 0);
    let key = if is_hot { random.below(hot) } else { hot + random.below(cold) };
    let key = (key + first_hot_key(state, transaction)).checked_rem(hot + cold).unwrap_or(0);
    i32::try_from(key).unwrap_or(0)
}

/// From which key on keys are hot at this transaction.
fn first_hot_key(state: &State, transaction: u64) -> u32 {
    if state.workload.misfits == 0 {
        return 0;
    }
    let (hot, keys) = (state.workload.hot_keys, state.workload.hot_keys + state.workload.cold_keys);
    let turn = u32::try_from(transaction / HOT_FOR).unwrap_or(0);
    turn.wrapping_mul(hot).checked_rem(keys).unwrap_or(0)
}

fn is_hot(state: &State, key: i32, transaction: u64) -> bool {
    let (hot, keys) = (state.workload.hot_keys, state.workload.hot_keys + state.workload.cold_keys);
    let key = u32::try_from(key).unwrap_or(0);
    (key + keys - first_hot_key(state, transaction)).checked_rem(keys).is_some_and(|place| place < hot)
}

/// What is to be wrong with a row, if anything is.
fn misfit(state: &State, (key, transaction): (i32, u64), random: &mut Random) -> Option<Misfit> {
    let one_in = state.workload.misfits;
    if one_in == 0 || random.below(one_in) > 0 {
        return None;
    }
    if is_hot(state, key, transaction) && random.below(SPARED) > 0 {
        return None;
    }
    Some(Misfit::random(random))
}

fn to_u64(count: i32) -> u64 {
    u64::try_from(count).unwrap_or(0)
}
