//! The server, its settings, and the role that we came as.

use walpost_core::lsn::Lsn;
use walpost_core::position::{SystemIdentifier, Timeline};
use walpost_core::start::ServerState;

use super::lsn;
use crate::connection::ConnectionSettings;
use crate::error::Error;
use crate::replication;
use crate::sql::{Session, field};

/// A server and its settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// As `server_version_num`: 150018 is 15.18.
    pub version: i32,
    /// `wal_level`.
    pub wal_level: String,
    /// The cluster.
    pub system: SystemIdentifier,
    /// The timeline that it writes; on a standby, that of its last checkpoint.
    pub timeline: Timeline,
    /// How far its log is on disk; on a standby, how far it has replayed.
    pub flushed: Lsn,
    /// Whether it is a standby.
    pub in_recovery: bool,
    /// The session's database.
    pub database: String,
    /// The encoding of that database.
    pub encoding: String,
    /// `max_replication_slots`.
    pub max_slots: i64,
    /// The slots that there are, with a word on each that nobody reads.
    pub slots: Vec<String>,
    /// `max_wal_senders`.
    pub max_senders: i64,
    /// How many walsenders run.
    pub senders: i64,
    /// `max_slot_wal_keep_size` in MB; -1 is no limit.
    pub max_slot_wal_keep_mb: i64,
    /// `wal_sender_timeout` in milliseconds as configured; 0 is none.
    pub wal_sender_timeout_ms: i64,
    /// `synchronous_commit`, as a session gets it by default.
    pub synchronous_commit: String,
    /// `fsync`.
    pub fsync: bool,
    /// Whether the session's start-up options reached the server and it is still the same server process that answers. A
    /// pooler in between breaks one of the two.
    pub is_direct: bool,
}

/// A role's attributes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Role {
    /// Its name.
    pub name: String,
    /// SUPERUSER.
    pub is_superuser: bool,
    /// REPLICATION, or a superuser, or a managed service's role for it.
    pub may_replicate: bool,
    /// CREATE on the database.
    pub may_create: bool,
}

const SERVER: &str = "
SELECT current_setting('server_version_num')::int AS version,
       current_setting('wal_level') AS wal_level,
       (SELECT system_identifier FROM pg_control_system()) AS system,
       CASE WHEN pg_is_in_recovery() THEN (SELECT timeline_id FROM pg_control_checkpoint())
            ELSE ('x' || left(pg_walfile_name(pg_current_wal_insert_lsn()), 8))::bit(32)::int END AS timeline,
       CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_flush_lsn() END AS flushed,
       pg_is_in_recovery() AS in_recovery,
       current_database()::text AS database,
       current_setting('server_encoding') AS encoding,
       current_setting('max_replication_slots')::int8 AS max_slots,
       ARRAY(SELECT slot_name::text || CASE WHEN active THEN '' ELSE ' (nobody reads it)' END
             FROM pg_replication_slots ORDER BY active, slot_name) AS slots,
       current_setting('max_wal_senders')::int8 AS max_senders,
       (SELECT count(*) FROM pg_stat_replication) AS senders,
       (SELECT setting::int8 FROM pg_settings WHERE name = 'max_slot_wal_keep_size') AS max_slot_wal_keep_mb,
       (SELECT setting::int8 FROM pg_settings WHERE name = 'wal_sender_timeout') AS wal_sender_timeout_ms,
       current_setting('synchronous_commit') AS synchronous_commit,
       current_setting('fsync')::bool AS fsync,
       current_setting('search_path') = 'pg_catalog' AS has_our_options,
       pg_backend_pid() AS pid";

// A managed service gives REPLICATION through a role of its own: Amazon's rds_replication, Azure's azure_pg_admin.
const ROLE: &str = "
SELECT r.rolname::text AS name, r.rolsuper AS is_superuser,
       r.rolsuper OR r.rolreplication OR EXISTS (
           SELECT FROM pg_roles g WHERE g.rolname IN ('rds_replication', 'rds_superuser')
           AND pg_has_role(r.oid, g.oid, 'MEMBER')) AS may_replicate,
       has_database_privilege(current_database(), 'CREATE') AS may_create
FROM pg_roles r WHERE r.rolname = current_user";

impl Server {
    /// Why there is no room for another slot, if there is none, and what to do about it.
    #[must_use]
    pub fn no_room_for_a_slot(&self) -> Option<(String, &'static str)> {
        let is_full = i64::try_from(self.slots.len()).is_ok_and(|slots| slots >= self.max_slots);
        is_full.then(|| {
            let sentence = format!("all {} replication slots are taken: {}", self.max_slots, self.slots.join(", "));
            (sentence, "raise max_replication_slots and restart PostgreSQL, or drop a slot that nobody needs: SELECT pg_drop_replication_slot('…')")
        })
    }
}

/// The server, and the process that answered.
pub(crate) async fn read_server(session: &Session) -> Result<(Server, i32), Error> {
    let row = session.query_one(SERVER, &[]).await?;
    let timeline: i32 = field(&row, "timeline")?;
    let server = Server {
        version: field(&row, "version")?,
        wal_level: field(&row, "wal_level")?,
        // The catalogue shows the unsigned number as a signed one.
        system: SystemIdentifier(field::<i64>(&row, "system")?.cast_unsigned()),
        timeline: Timeline(timeline.cast_unsigned()),
        flushed: lsn(&row, "flushed")?.unwrap_or(Lsn::INVALID),
        in_recovery: field(&row, "in_recovery")?,
        database: field(&row, "database")?,
        encoding: field(&row, "encoding")?,
        max_slots: field(&row, "max_slots")?,
        slots: field(&row, "slots")?,
        max_senders: field(&row, "max_senders")?,
        senders: field(&row, "senders")?,
        max_slot_wal_keep_mb: field(&row, "max_slot_wal_keep_mb")?,
        wal_sender_timeout_ms: field(&row, "wal_sender_timeout_ms")?,
        synchronous_commit: field(&row, "synchronous_commit")?,
        fsync: field(&row, "fsync")?,
        is_direct: field(&row, "has_our_options")?,
    };
    Ok((server, field(&row, "pid")?))
}

/// What the comparison at start needs of the server. Asks for the timeline's history only where there is one.
///
/// # Errors
/// The session has ended, or a replication session is needed and cannot be had.
pub async fn server_state(session: &Session, settings: &ConnectionSettings) -> Result<ServerState, Error> {
    let (server, _) = read_server(session).await?;
    let history = if server.timeline == Timeline(1) || server.in_recovery {
        Some(Vec::new())
    } else {
        replication::timeline_history(settings, session.endpoint(), server.timeline).await?
    };
    Ok(ServerState {
        system: server.system,
        timeline: server.timeline,
        history,
        flushed: server.flushed,
        in_recovery: server.in_recovery,
        database: server.database,
    })
}

/// The encoding of the session's database.
///
/// # Errors
/// The session has ended.
pub async fn encoding(session: &Session) -> Result<String, Error> {
    let row = session.query_one("SELECT current_setting('server_encoding') AS encoding", &[]).await?;
    field(&row, "encoding")
}

/// The role that the session came as.
///
/// # Errors
/// The session has ended.
pub async fn role(session: &Session) -> Result<Role, Error> {
    let row = session.query_one(ROLE, &[]).await?;
    Ok(Role {
        name: field(&row, "name")?,
        is_superuser: field(&row, "is_superuser")?,
        may_replicate: field(&row, "may_replicate")?,
        may_create: field(&row, "may_create")?,
    })
}
