//! What start and preflight have to know of a server, read without judging it.
//!
//! Columns that only newer versions have are read through `to_jsonb`, so one statement serves PostgreSQL 13 to 18. Needs no
//! privilege beyond connecting: every catalogue read here is open to all.

use tokio_postgres::Row;
use tokio_postgres::types::PgLsn;
use walpost_core::description::Description;
use walpost_core::lsn::Lsn;
use walpost_core::nearest::nearest;
use walpost_core::outbox::TableName;
use walpost_core::position::{SystemIdentifier, Timeline};
use walpost_core::start::{ServerState, SlotKind, SlotState};

use crate::connection::ConnectionSettings;
use crate::describe::describe;
use crate::error::{Error, Phase};
use crate::identifier::SlotName;
use crate::replication;
use crate::sql::Session;

/// What is to be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The slot.
    pub slot: SlotName,
    /// The publications, unquoted.
    pub publications: Vec<String>,
    /// The outboxes.
    pub outboxes: Vec<OutboxSubject>,
    /// Whether the checkpoint is kept in the source database.
    pub with_checkpoint_table: bool,
    /// Whether rows may be set aside.
    pub with_dead_letter_table: bool,
    /// Whether dead letters keep references to their rows.
    pub with_references: bool,
}

/// An outbox and what its router needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutboxSubject {
    /// The table; of a partitioned one, its root.
    pub table: TableName,
    /// The columns that must be there.
    pub columns: Vec<String>,
}

/// Everything that preflight judges.
#[derive(Debug)]
pub struct Inspection {
    /// The server.
    pub server: Server,
    /// The role that connects.
    pub role: Role,
    /// The slot, if there is one of the name.
    pub slot: Option<SlotState>,
    /// The slots of this database that could have been meant: those that decode with `pgoutput`.
    pub slot_names: Vec<String>,
    /// Every publication of this database.
    pub publication_names: Vec<String>,
    /// The table of checkpoints, if there is one.
    pub checkpoint_table: Option<OwnTable>,
    /// The table of dead letters, if there is one.
    pub dead_letter_table: Option<OwnTable>,
    /// Those of the publications that exist.
    pub publications: Vec<Publication>,
    /// The outboxes, in the order of the subject.
    pub tables: Vec<InspectedTable>,
    /// Why no replication session can be had, if none can.
    pub replication_refused: Option<Error>,
}

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
    /// `max_replication_slots`.
    pub max_slots: i64,
    /// How many slots there are.
    pub slots: i64,
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

/// A table of walpost's own, as the role sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnTable {
    /// USAGE on its schema.
    pub is_reachable: bool,
    /// The privileges on it that a relay needs.
    pub is_writable: bool,
}

/// A publication.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Publication {
    /// Its name, unquoted.
    pub name: String,
    /// FOR ALL TABLES.
    pub all_tables: bool,
    /// Publishes inserts.
    pub inserts: bool,
    /// Publishes updates.
    pub updates: bool,
    /// Publishes deletes.
    pub deletes: bool,
    /// Publishes truncates.
    pub truncates: bool,
    /// `publish_via_partition_root`.
    pub via_root: bool,
    /// Tables that were added by name.
    pub members: Vec<TableName>,
    /// Tables as they are published, after partitions and schemas are resolved.
    pub tables: Vec<PublishedTable>,
}

/// A table as a publication publishes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublishedTable {
    /// Its name.
    pub name: TableName,
    /// The columns; `None` before PostgreSQL 15, which publishes them all.
    pub columns: Option<Vec<String>>,
    /// The row filter.
    pub row_filter: Option<String>,
    /// By what in the catalogue.
    pub entry: Entry,
}

/// What makes a table published. Whoever takes a table out and puts it back, or makes table or publication anew, leaves another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Entry {
    /// The publication.
    pub publication: u32,
    /// The table.
    pub relation: Option<u32>,
    /// The table in the publication, where it was added by name.
    pub member: Option<u32>,
}

/// An outbox as it was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct InspectedTable {
    /// What was looked for.
    pub subject: OutboxSubject,
    /// The table, if it exists.
    pub found: Option<Table>,
    /// The name that is nearest, where it does not.
    pub nearest: Option<String>,
}

/// A table of the catalogue.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// `r` ordinary, `p` partitioned, `v` view, `m` materialized view, `f` foreign.
    pub kind: char,
    /// Unlogged or temporary: nothing of it reaches the log.
    pub is_unlogged: bool,
    /// The root, where this is a partition.
    pub root: Option<TableName>,
    /// Whether the role may act as its owner.
    pub is_owned: bool,
    /// Whether the role may read it.
    pub is_readable: bool,
    /// The columns by which the log tells its rows apart: those of its replica identity, unless that is the whole row.
    pub identity: Vec<String>,
    /// Its columns in order.
    pub columns: Vec<TableColumn>,
    /// What a router is told of it, beside what the stream tells.
    pub description: Description,
}

/// A column of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    /// Its type as SQL names it.
    pub type_name: String,
    /// Whether it is generated: not published before PostgreSQL 18.
    pub is_generated: bool,
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
       current_setting('max_replication_slots')::int8 AS max_slots,
       (SELECT count(*) FROM pg_replication_slots) AS slots,
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

const SLOT: &str = "
SELECT slot_name::text AS name, slot_type AS kind, temporary, plugin::text AS plugin, database::text AS database,
       CASE WHEN active THEN coalesce(active_pid, 0) END AS active_pid, restart_lsn AS restart,
       confirmed_flush_lsn AS confirmed,
       coalesce(to_jsonb(s) ->> 'invalidation_reason',
                CASE WHEN (to_jsonb(s) ->> 'conflicting')::bool THEN 'conflict with recovery' END,
                CASE WHEN wal_status = 'lost' THEN 'wal_status is lost' END) AS lost
FROM pg_replication_slots s WHERE slot_name = $1";

const PUBLICATIONS: &str = "
SELECT oid, pubname::text AS name, puballtables, pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot
FROM pg_publication WHERE pubname::text = ANY ($1) ORDER BY pubname";

const SLOT_NAMES: &str = "
SELECT slot_name::text AS name FROM pg_replication_slots
WHERE plugin = 'pgoutput' AND database = current_database() AND NOT temporary ORDER BY 1 LIMIT 10000";

const PUBLICATION_NAMES: &str = "SELECT pubname::text AS name FROM pg_publication ORDER BY 1 LIMIT 10000";

const MEMBERS: &str = "
SELECT n.nspname::text AS schema, c.relname::text AS name
FROM pg_publication_rel r JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE r.prpubid = $1 ORDER BY 1, 2";

const OWN_TABLE: &str = "
SELECT has_schema_privilege(n.oid, 'USAGE') AS is_reachable,
       (SELECT bool_and(has_table_privilege(c.oid, privilege)) FROM unnest($2::text[]) AS privilege) AS is_writable
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'walpost' AND c.relname::text = $1";

/// What a relay does with its checkpoint.
const CHECKPOINT_PRIVILEGES: &[&str] = &["SELECT", "INSERT", "UPDATE"];

/// What a relay does with its dead letters: those that ended long ago it deletes.
const DEAD_LETTER_PRIVILEGES: &[&str] = &["SELECT", "INSERT", "UPDATE", "DELETE"];

const PUBLISHED: &str = "
SELECT schemaname::text AS schema, tablename::text AS name,
       (SELECT array_agg(c) FROM jsonb_array_elements_text(
           CASE WHEN jsonb_typeof(to_jsonb(t) -> 'attnames') = 'array' THEN to_jsonb(t) -> 'attnames' END) c) AS columns,
       to_jsonb(t) ->> 'rowfilter' AS row_filter, c.oid AS relation, r.oid AS member
FROM pg_publication_tables t
LEFT JOIN pg_namespace n ON n.nspname = t.schemaname
LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
LEFT JOIN pg_publication_rel r ON r.prpubid = $2 AND r.prrelid = c.oid
WHERE pubname::text = $1 ORDER BY 1, 2";

// A row of the catalogue whose transaction is not older than those that the slot can still read was not there for all of its log.
const LATE_MEMBERS: &str = "
SELECT n.nspname::text AS schema, c.relname::text AS name
FROM pg_replication_slots s, pg_publication p JOIN pg_publication_rel r ON r.prpubid = p.oid
JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE s.slot_name = $1 AND p.pubname::text = ANY ($2) AND age(r.xmin) <= age(s.catalog_xmin) ORDER BY 1, 2";

const TABLE: &str = "
SELECT c.oid, c.relkind::text AS kind, c.relpersistence <> 'p' AS is_unlogged,
       pg_has_role(c.relowner, 'USAGE') AS is_owned, has_table_privilege(c.oid, 'SELECT') AS is_readable,
       ARRAY(SELECT a.attname::text FROM pg_index i JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = ANY (i.indkey)
             WHERE i.indrelid = c.oid AND CASE c.relreplident WHEN 'd' THEN i.indisprimary WHEN 'i' THEN i.indisreplident ELSE false END
             ORDER BY a.attnum) AS identity,
       CASE WHEN c.relispartition THEN rn.nspname::text END AS root_schema,
       CASE WHEN c.relispartition THEN r.relname::text END AS root_name
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_class r ON r.oid = pg_partition_root(c.oid) LEFT JOIN pg_namespace rn ON rn.oid = r.relnamespace
WHERE n.nspname::text = $1 AND c.relname::text = $2 AND c.relkind IN ('r', 'p', 'v', 'm', 'f')";

const COLUMNS: &str = "
SELECT attname::text AS name, format_type(atttypid, atttypmod) AS type_name, attgenerated <> '' AS is_generated
FROM pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped ORDER BY attnum";

const TABLE_NAMES: &str = "
SELECT n.nspname::text || '.' || c.relname::text AS name
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') LIMIT 10000";

/// Reads everything about the subject.
///
/// # Errors
/// The session has ended or a catalogue cannot be read. That no replication session can be had is a finding, no error.
pub async fn inspect(session: &Session, settings: &ConnectionSettings, subject: &Subject) -> Result<Inspection, Error> {
    let (mut server, pid) = read_server(session).await?;
    let role = role(session).await?;
    let slot = slot_state(session, &subject.slot).await?;
    let slot_names = names(session, SLOT_NAMES).await?;
    let publication_names = names(session, PUBLICATION_NAMES).await?;
    let checkpoint_table = own_table(session, "checkpoint", CHECKPOINT_PRIVILEGES).await?;
    let dead_letter_table = own_table(session, "dead_letter", DEAD_LETTER_PRIVILEGES).await?;
    let publications = publications(session, &subject.publications).await?;
    let mut tables = Vec::new();
    for outbox in &subject.outboxes {
        tables.push(inspect_table(session, outbox).await?);
    }
    let (_, pid_afterwards) = read_server(session).await?;
    server.is_direct &= pid == pid_afterwards;
    let replication = replication::timeline_history(settings, session.endpoint(), Timeline(1)).await;
    let replication_refused = replication.err();
    Ok(Inspection {
        server,
        role,
        slot,
        slot_names,
        publication_names,
        checkpoint_table,
        dead_letter_table,
        publications,
        tables,
        replication_refused,
    })
}

async fn own_table(session: &Session, name: &str, privileges: &[&str]) -> Result<Option<OwnTable>, Error> {
    let rows = session.query(OWN_TABLE, &[&name, &privileges]).await?;
    let table =
        |row: &Row| Ok(OwnTable { is_reachable: field(row, "is_reachable")?, is_writable: field(row, "is_writable")? });
    rows.first().map(table).transpose()
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

/// The slot of this name, if there is one.
///
/// # Errors
/// The session has ended.
pub async fn slot_state(session: &Session, slot: &SlotName) -> Result<Option<SlotState>, Error> {
    let rows = session.query(SLOT, &[&slot.as_str()]).await?;
    rows.first().map(slot_from).transpose()
}

/// The publications of these names that exist.
///
/// # Errors
/// The session has ended.
pub async fn publications(session: &Session, names: &[String]) -> Result<Vec<Publication>, Error> {
    let mut publications = Vec::new();
    for row in session.query(PUBLICATIONS, &[&names]).await? {
        publications.push(publication(session, &row).await?);
    }
    Ok(publications)
}

/// The tables that were added to these publications after the log that the slot keeps begins, as far as the catalogue tells: of what was
/// committed into them before, the stream brings nothing.
///
/// # Errors
/// The session has ended.
pub async fn late_members(
    session: &Session,
    slot: &SlotName,
    publications: &[String],
) -> Result<Vec<TableName>, Error> {
    session.query(LATE_MEMBERS, &[&slot.as_str(), &publications]).await?.iter().map(table_name).collect()
}

/// A table and, where it does not exist, the nearest name that does.
///
/// # Errors
/// The session has ended.
pub async fn inspect_table(session: &Session, subject: &OutboxSubject) -> Result<InspectedTable, Error> {
    let TableName { schema, table } = &subject.table;
    let rows = session.query(TABLE, &[schema, table]).await?;
    let found = match rows.first() {
        Some(row) => Some(table_from(session, row).await?),
        None => None,
    };
    let nearest = match found {
        Some(_) => None,
        None => nearest_table(session, &format!("{schema}.{table}")).await?,
    };
    Ok(InspectedTable { subject: subject.clone(), found, nearest })
}

/// How many rows stand in a table. Needs SELECT on it.
///
/// # Errors
/// The table cannot be read.
pub async fn count_rows(session: &Session, table: &TableName) -> Result<i64, Error> {
    let statement = format!("SELECT count(*) FROM {}", crate::identifier::quote_table(table));
    let row = session.query_one(&statement, &[]).await?;
    field(&row, "count")
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

async fn publication(session: &Session, row: &Row) -> Result<Publication, Error> {
    let oid: u32 = field(row, "oid")?;
    let name: String = field(row, "name")?;
    let members = session.query(MEMBERS, &[&oid]).await?;
    let published = session.query(PUBLISHED, &[&name, &oid]).await?;
    Ok(Publication {
        name,
        all_tables: field(row, "puballtables")?,
        inserts: field(row, "pubinsert")?,
        updates: field(row, "pubupdate")?,
        deletes: field(row, "pubdelete")?,
        truncates: field(row, "pubtruncate")?,
        via_root: field(row, "pubviaroot")?,
        members: members.iter().map(table_name).collect::<Result<_, _>>()?,
        tables: published.iter().map(|row| published_table(row, oid)).collect::<Result<_, _>>()?,
    })
}

fn published_table(row: &Row, publication: u32) -> Result<PublishedTable, Error> {
    let entry = Entry { publication, relation: field(row, "relation")?, member: field(row, "member")? };
    Ok(PublishedTable {
        entry,
        name: table_name(row)?,
        columns: field(row, "columns")?,
        row_filter: field(row, "row_filter")?,
    })
}

async fn table_from(session: &Session, row: &Row) -> Result<Table, Error> {
    let oid: u32 = field(row, "oid")?;
    let kind: String = field(row, "kind")?;
    let root: (Option<String>, Option<String>) = (field(row, "root_schema")?, field(row, "root_name")?);
    let columns = session.query(COLUMNS, &[&oid]).await?;
    let column = |row: &Row| {
        Ok(TableColumn {
            name: field(row, "name")?,
            type_name: field(row, "type_name")?,
            is_generated: field(row, "is_generated")?,
        })
    };
    Ok(Table {
        kind: kind.chars().next().unwrap_or('?'),
        is_unlogged: field(row, "is_unlogged")?,
        root: root.0.zip(root.1).map(|(schema, table)| TableName { schema, table }),
        is_readable: field(row, "is_readable")?,
        identity: field(row, "identity")?,
        is_owned: field(row, "is_owned")?,
        columns: columns.iter().map(column).collect::<Result<_, Error>>()?,
        description: describe(session, oid).await?,
    })
}

async fn names(session: &Session, question: &str) -> Result<Vec<String>, Error> {
    let rows = session.query(question, &[]).await?;
    rows.iter().map(|row| field(row, "name")).collect()
}

async fn nearest_table(session: &Session, name: &str) -> Result<Option<String>, Error> {
    let names = names(session, TABLE_NAMES).await?;
    Ok(nearest(name, names.iter().map(String::as_str)).map(str::to_owned))
}

fn table_name(row: &Row) -> Result<TableName, Error> {
    Ok(TableName { schema: field(row, "schema")?, table: field(row, "name")? })
}

fn lsn(row: &Row, column: &str) -> Result<Option<Lsn>, Error> {
    let lsn: Option<PgLsn> = field(row, column)?;
    Ok(lsn.map(|lsn| Lsn::new(lsn.into())))
}

fn field<'a, T: tokio_postgres::types::FromSql<'a>>(row: &'a Row, column: &str) -> Result<T, Error> {
    row.try_get(column).map_err(refused)
}

fn refused(error: tokio_postgres::Error) -> Error {
    Error::from_sql(error, Phase::Query)
}
