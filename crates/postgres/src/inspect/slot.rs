//! The slot, and those that could have been meant.

use tokio_postgres::Row;
use walpost_core::start::{SlotKind, SlotState};

use super::{lsn, names};
use crate::error::Error;
use crate::identifier::SlotName;
use crate::sql::{Session, field};

const SLOT: &str = "
SELECT slot_name::text AS name, slot_type AS kind, temporary, plugin::text AS plugin, database::text AS database,
       CASE WHEN active THEN coalesce(active_pid, 0) END AS active_pid, restart_lsn AS restart,
       confirmed_flush_lsn AS confirmed,
       coalesce(to_jsonb(s) ->> 'invalidation_reason',
                CASE WHEN (to_jsonb(s) ->> 'conflicting')::bool THEN 'conflict with recovery' END,
                CASE WHEN wal_status = 'lost' THEN 'wal_status is lost' END) AS lost
FROM pg_replication_slots s WHERE slot_name = $1";

const SLOT_NAMES: &str = "
SELECT slot_name::text AS name FROM pg_replication_slots
WHERE plugin = 'pgoutput' AND database = current_database() AND NOT temporary ORDER BY 1 LIMIT 10000";

/// The slot of this name, if there is one.
///
/// # Errors
/// The session has ended.
pub async fn slot_state(session: &Session, slot: &SlotName) -> Result<Option<SlotState>, Error> {
    let rows = session.query(SLOT, &[&slot.as_str()]).await?;
    rows.first().map(slot_from).transpose()
}

fn slot_from(row: &Row) -> Result<SlotState, Error> {
    let kind: String = field(row, "kind")?;
    let active_pid: Option<i32> = field(row, "active_pid")?;
    Ok(SlotState {
        name: field(row, "name")?,
        kind: if kind == "physical" { SlotKind::Physical } else { SlotKind::Logical },
        temporary: field(row, "temporary")?,
        plugin: field(row, "plugin")?,
        database: field(row, "database")?,
        active_pid: active_pid.map(i32::cast_unsigned),
        restart: lsn(row, "restart")?,
        confirmed: lsn(row, "confirmed")?,
        lost: field(row, "lost")?,
    })
}

/// The slots of this database that decode with `pgoutput`.
pub(super) async fn slot_names(session: &Session) -> Result<Vec<String>, Error> {
    names(session, SLOT_NAMES).await
}
