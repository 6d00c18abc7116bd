//! What is needed to mend a slot: who may, what the tables still hold of a gap, and the slot made anew.
//!
//! A slot that is gone took its log along, but the rows may still stand in their tables. Whether they do is asked here, and no more than
//! that: [`Outbox`] says what was found, and the command that asked judges.
//!
//! # What a commit's time tells
//!
//! `track_commit_timestamp` keeps the time of each commit from when it was switched on (a start of the server) until its transaction is
//! frozen, so what is known is one run of transaction ids. A row of unknown time is therefore older than all of that run: if
//! any time that is known lies before the gap, so does every unknown one ([`TracksCommits::reaches`]).

use walpost_core::outbox::TableName;
use walpost_core::time::Timestamp;

use crate::error::Error;
use crate::identifier::{SlotName, quote_identifier};
use crate::snapshot::Table;
use crate::sql::{Session, field};

/// What the server knows of the times of commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TracksCommits {
    /// Nothing: `track_commit_timestamp` is off.
    No,
    /// It knows them from here on; `None` where none was found.
    Since(Option<Timestamp>),
}

impl TracksCommits {
    /// Whether the times of all commits since then are known.
    #[must_use]
    pub fn reaches(self, since: Timestamp) -> bool {
        matches!(self, Self::Since(Some(first)) if first <= since)
    }
}

/// An outbox, as far as its rows can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outbox {
    /// Its OID.
    pub id: u32,
    /// Whether its rows lie in partitions.
    pub is_partitioned: bool,
    /// SELECT on it.
    pub may_be_read: bool,
    /// Row-level security would hide rows from this role.
    pub hides_rows: bool,
    /// Rows that were inserted, updated and deleted since the server's statistics were last reset, which a crash and a promotion do too.
    pub changes: Changes,
}

/// See [`Outbox::changes`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Changes {
    /// Rows inserted.
    pub inserts: i64,
    /// Rows updated.
    pub updates: i64,
    /// Rows deleted. TRUNCATE and DROP of a partition are not counted.
    pub deletes: i64,
}

/// The rows of an outbox around the beginning of a gap.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many came since then.
    pub rows: i64,
    /// The times of the first and the last of them.
    pub span: Option<(Timestamp, Timestamp)>,
    /// The ids of the first and the last of them.
    pub ids: Option<(String, String)>,
    /// How many came before.
    pub older: i64,
    /// How many it is unknown of.
    pub unknown: i64,
}

// Statistics are kept for each partition; the root has none.
const OUTBOX: &str = "
SELECT c.oid, c.relkind = 'p' AS is_partitioned, has_table_privilege(c.oid, 'SELECT') AS may_be_read,
       row_security_active(c.oid) AS hides_rows,
       coalesce(s.inserts, 0)::int8 AS inserts, coalesce(s.updates, 0)::int8 AS updates, coalesce(s.deletes, 0)::int8 AS deletes
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
CROSS JOIN LATERAL (
    SELECT sum(n_tup_ins) AS inserts, sum(n_tup_upd) AS updates, sum(n_tup_del) AS deletes FROM pg_stat_user_tables
    WHERE relid = c.oid OR relid IN (SELECT relid FROM pg_partition_tree(c.oid))) AS s
WHERE n.nspname::text = $1 AND c.relname::text = $2 AND c.relkind IN ('r', 'p')";

// The first of the run may have been rolled back or have written nothing; after the last start of the server one of the next will do.
const FIRST_TRACKED: &str = "
SELECT min((extract(epoch FROM pg_xact_commit_timestamp(id::text::xid)) * 1000000)::int8 - 946684800000000)
FROM pg_control_checkpoint(), generate_series(oldest_commit_ts_xid::text::int8, oldest_commit_ts_xid::text::int8 + 10000) AS id
WHERE oldest_commit_ts_xid::text::int8 > 2 AND id < 4294967296";

/// Whether an outbox can be read; `None` where there is no such table.
///
/// # Errors
/// The session has ended.
pub async fn outbox(session: &Session, name: &TableName) -> Result<Option<Outbox>, Error> {
    let rows = session.query(OUTBOX, &[&name.schema, &name.table]).await?;
    let Some(row) = rows.first() else { return Ok(None) };
    Ok(Some(Outbox {
        id: field(row, "oid")?,
        is_partitioned: field(row, "is_partitioned")?,
        may_be_read: field(row, "may_be_read")?,
        hides_rows: field(row, "hides_rows")?,
        changes: Changes {
            inserts: field(row, "inserts")?,
            updates: field(row, "updates")?,
            deletes: field(row, "deletes")?,
        },
    }))
}

/// Whether the server knows when its transactions committed, and since when.
///
/// # Errors
/// The session has ended.
pub async fn tracks_commits(session: &Session) -> Result<TracksCommits, Error> {
    let row = session.query_one("SELECT current_setting('track_commit_timestamp')::bool", &[]).await?;
    if !field::<bool>(&row, 0)? {
        return Ok(TracksCommits::No);
    }
    let row = session.query_one(FIRST_TRACKED, &[]).await?;
    let first: Option<i64> = field(&row, 0)?;
    Ok(TracksCommits::Since(first.map(Timestamp::from_postgres_micros)))
}

/// Counts the rows of an outbox around a time. `id` is the column that tells which row it is.
///
/// # Errors
/// The session has ended, or the table cannot be read.
pub async fn tally(session: &Session, table: &Table, id: &str, since: Timestamp) -> Result<Tally, Error> {
    let (time, from) = (table.time.sql(), table.source_clause());
    let count = format!(
        "SELECT count(*) FILTER (WHERE t >= $1) AS rows, min(t) FILTER (WHERE t >= $1) AS first, max(t) AS last, \
         count(*) FILTER (WHERE t < $1) AS older, count(*) FILTER (WHERE t IS NULL) AS unknown FROM (SELECT {time} AS t {from}) AS counted"
    );
    let row = session.query_one(&count, &[&since.postgres_micros()]).await?;
    let time_of = |column| {
        let micros: Option<i64> = field(&row, column)?;
        Ok::<_, Error>(micros.map(Timestamp::from_postgres_micros))
    };
    let rows: i64 = field(&row, "rows")?;
    let first = time_of("first")?;
    let ids = match first {
        Some(_) => id_at(session, table, id, since, "").await?.zip(id_at(session, table, id, since, "DESC").await?),
        None => None,
    };
    Ok(Tally {
        rows,
        span: first.zip(time_of("last")?),
        ids,
        older: field(&row, "older")?,
        unknown: field(&row, "unknown")?,
    })
}

/// The id of the row at one end; `None` where there is no such column.
async fn id_at(
    session: &Session,
    table: &Table,
    id: &str,
    since: Timestamp,
    direction: &str,
) -> Result<Option<String>, Error> {
    if !table.columns.iter().any(|column| column.name == id) {
        return Ok(None);
    }
    let order: Vec<String> = table.order().iter().map(|key| format!("{key} {direction}")).collect();
    let (id, from, order) = (quote_identifier(id), table.source_since(since), order.join(", "));
    let rows = session.query(&format!("SELECT o.{id}::text {from} ORDER BY {order} LIMIT 1"), &[]).await?;
    rows.first().map(|row| field::<Option<String>>(row, 0)).transpose().map(Option::flatten)
}

/// Keeps others from mending the same slot for as long as the session lives. Where another does already, answers its process.
///
/// # Errors
/// The session has ended.
pub async fn lock(session: &Session, slot: &SlotName) -> Result<Result<(), Option<i32>>, Error> {
    const KEY: &str = "hashtextextended('walpost repair of ' || $1::text, 0)";
    let name = slot.as_str();
    let row = session.query_one(&format!("SELECT pg_try_advisory_lock({KEY})"), &[&name]).await?;
    if field(&row, 0)? {
        return Ok(Ok(()));
    }
    let holder = format!(
        "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted AND objsubid = 1 \
         AND (classid::int8 << 32) | objid::int8 = {KEY} AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"
    );
    let rows = session.query(&holder, &[&name]).await?;
    Ok(Err(rows.first().map(|row| field(row, 0)).transpose()?))
}

/// Drops the slot.
///
/// # Errors
/// Somebody reads it, or the session has ended.
pub async fn drop_slot(session: &Session, slot: &SlotName) -> Result<(), Error> {
    session.query("SELECT pg_drop_replication_slot($1)", &[&slot.as_str()]).await.map(drop)
}

/// Makes the slot.
///
/// # Errors
/// The server refuses, or transactions that were running have not ended in time.
pub async fn create_slot(session: &mut Session, slot: &SlotName, failover: bool) -> Result<(), Error> {
    crate::setup::create_slot(session, &crate::setup::slot_sql(slot, failover)).await
}
