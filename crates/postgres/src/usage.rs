//! What a slot costs its server: the log that it keeps, and what keeps it from letting go. For those who watch; nothing is decided by it.
//!
//! One statement, open to every role but for one column: without `pg_monitor` (or `pg_read_all_stats`) the server shows when the transactions
//! of other roles began to nobody, and the oldest one that is seen may not be the oldest there is.
//!
//! # Sources
//!
//! `pg_replication_slots` in PostgreSQL's manual: `restart_lsn` is where decoding would have to begin again, and lies before the oldest
//! transaction that was in progress, in whichever database; `safe_wal_size` is how much can be written before the slot is in danger, and NULL where
//! `max_slot_wal_keep_size` is -1 or the slot is lost.

use tokio_postgres::types::PgLsn;
use walpost_core::lsn::Lsn;

use crate::error::Error;
use crate::identifier::SlotName;
use crate::sql::{Session, field};

// Transactions without an id have written nothing, and hold nothing back.
const USAGE: &str = "
SELECT CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END AS flushed,
       s.slot_name IS NOT NULL AS exists, CASE WHEN s.active THEN coalesce(s.active_pid, 0) END AS active_pid,
       s.restart_lsn AS restart, s.confirmed_flush_lsn AS confirmed, s.wal_status, s.safe_wal_size,
       age(s.catalog_xmin)::int8 AS catalog_age, (l.setting::int8) AS limit_mb,
       (SELECT extract(epoch FROM clock_timestamp() - min(began))::float8 FROM (
           SELECT xact_start AS began FROM pg_stat_activity WHERE backend_xid IS NOT NULL
           UNION ALL SELECT prepared FROM pg_prepared_xacts) AS writers) AS oldest_writer_s
FROM pg_settings l LEFT JOIN pg_replication_slots s ON s.slot_name = $1
WHERE l.name = 'max_slot_wal_keep_size'";

/// A server's log and what a slot keeps of it.
#[derive(Debug, Clone, PartialEq)]
pub struct Usage {
    /// How far the log is on disk; on a standby, how far it is replayed.
    pub flushed: Lsn,
    /// `max_slot_wal_keep_size` in bytes, if there is a limit.
    pub limit: Option<u64>,
    /// The age in seconds of the oldest transaction that has written something and goes on, or is prepared.
    pub oldest_writer_s: Option<f64>,
    /// The slot, if there is one of the name.
    pub slot: Option<SlotUsage>,
}

/// What a slot keeps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SlotUsage {
    /// The process that reads it.
    pub active_pid: Option<u32>,
    /// Where decoding would begin again.
    pub restart: Option<Lsn>,
    /// How far it was confirmed.
    pub confirmed: Option<Lsn>,
    /// `wal_status`: `reserved`, `extended`, `unreserved` or `lost`.
    pub wal_status: Option<String>,
    /// How many bytes can be written before the slot may be lost; negative where it is too late.
    pub safe_bytes: Option<i64>,
    /// How many transactions old `catalog_xmin` is: so far VACUUM is kept from the catalogues.
    pub catalog_age: Option<i64>,
}

impl Usage {
    /// The bytes of log that the slot keeps on the server's disk.
    #[must_use]
    pub fn retained(&self) -> Option<u64> {
        Some(self.flushed.bytes_since(self.slot.as_ref()?.restart?))
    }

    /// The bytes of log behind what was confirmed.
    #[must_use]
    pub fn unconfirmed(&self) -> Option<u64> {
        Some(self.flushed.bytes_since(self.slot.as_ref()?.confirmed?))
    }
}

/// What a slot costs now.
///
/// # Errors
/// The session has ended, or the server did not answer in time.
pub async fn usage(session: &Session, slot: &SlotName) -> Result<Usage, Error> {
    let row = session.query_one(USAGE, &[&slot.as_str()]).await?;
    let lsn = |column| field::<Option<PgLsn>>(&row, column).map(|lsn| lsn.map(|lsn| Lsn::new(lsn.into())));
    let limit_mb: i64 = field(&row, "limit_mb")?;
    let slot = if field(&row, "exists")? {
        Some(SlotUsage {
            active_pid: field::<Option<i32>>(&row, "active_pid")?.map(i32::cast_unsigned),
            restart: lsn("restart")?,
            confirmed: lsn("confirmed")?,
            wal_status: field(&row, "wal_status")?,
            safe_bytes: field(&row, "safe_wal_size")?,
            catalog_age: field(&row, "catalog_age")?,
        })
    } else {
        None
    };
    Ok(Usage {
        flushed: lsn("flushed")?.unwrap_or(Lsn::INVALID),
        limit: u64::try_from(limit_mb).ok().map(|megabytes| megabytes << 20),
        oldest_writer_s: field(&row, "oldest_writer_s")?,
        slot,
    })
}
