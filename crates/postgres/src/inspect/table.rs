//! The tables: outboxes, and walpost's own.

use tokio_postgres::Row;
use walpost_core::description::Description;
use walpost_core::nearest::nearest;
use walpost_core::outbox::TableName;

use super::{OutboxSubject, names};
use crate::describe::describe;
use crate::error::Error;
use crate::identifier::quote_table;
use crate::sql::{Session, field};

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
    /// The tables that inherit from it (`INHERITS`) and are no partitions, at any depth: what is inserted into them comes under their names.
    pub heirs: Vec<TableName>,
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

/// A table of walpost's own, as the role sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnTable {
    /// USAGE on its schema.
    pub is_reachable: bool,
    /// The privileges on it that a relay needs.
    pub is_writable: bool,
}

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

const HEIRS: &str = "
WITH RECURSIVE heir(oid) AS (
    SELECT inhrelid FROM pg_inherits WHERE inhparent = $1
    UNION
    SELECT i.inhrelid FROM heir JOIN pg_inherits i ON i.inhparent = heir.oid
)
SELECT n.nspname::text AS schema, c.relname::text AS name
FROM heir JOIN pg_class c ON c.oid = heir.oid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE NOT c.relispartition ORDER BY 1, 2";

const COLUMNS: &str = "
SELECT attname::text AS name, format_type(atttypid, atttypmod) AS type_name, attgenerated <> '' AS is_generated
FROM pg_attribute WHERE attrelid = $1 AND attnum > 0 AND NOT attisdropped ORDER BY attnum";

const MISSING: &str = "
SELECT wanted.schema, wanted.name FROM unnest($1::text[], $2::text[]) AS wanted(schema, name)
WHERE NOT EXISTS (SELECT FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
                  WHERE n.nspname::text = wanted.schema AND c.relname::text = wanted.name)";

const TABLE_NAMES: &str = "
SELECT n.nspname::text || '.' || c.relname::text AS name
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') AND n.nspname NOT IN ('pg_catalog', 'information_schema', 'pg_toast') LIMIT 10000";

const OWN_TABLE: &str = "
SELECT has_schema_privilege(n.oid, 'USAGE') AS is_reachable,
       (SELECT bool_and(has_table_privilege(c.oid, privilege)) FROM unnest($2::text[]) AS privilege) AS is_writable
FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'walpost' AND c.relname::text = $1";

/// What a relay does with its checkpoint.
const CHECKPOINT_PRIVILEGES: &[&str] = &["SELECT", "INSERT", "UPDATE"];

/// What a relay does with its dead letters: those that ended long ago it deletes.
const DEAD_LETTER_PRIVILEGES: &[&str] = &["SELECT", "INSERT", "UPDATE", "DELETE"];

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

/// Those of the outboxes of which there is no table.
///
/// # Errors
/// The session has ended.
pub async fn missing_tables(session: &Session, outboxes: &[OutboxSubject]) -> Result<Vec<TableName>, Error> {
    let schemas: Vec<&str> = outboxes.iter().map(|outbox| outbox.table.schema.as_str()).collect();
    let tables: Vec<&str> = outboxes.iter().map(|outbox| outbox.table.table.as_str()).collect();
    let rows = session.query(MISSING, &[&schemas, &tables]).await?;
    rows.iter().map(|row| Ok(TableName { schema: field(row, "schema")?, table: field(row, "name")? })).collect()
}

/// How many rows stand in a table. Needs SELECT on it.
///
/// # Errors
/// The table cannot be read.
pub async fn count_rows(session: &Session, table: &TableName) -> Result<i64, Error> {
    let statement = format!("SELECT count(*) FROM {}", quote_table(table));
    let row = session.query_one(&statement, &[]).await?;
    field(&row, "count")
}

async fn table_from(session: &Session, row: &Row) -> Result<Table, Error> {
    let oid: u32 = field(row, "oid")?;
    let kind: String = field(row, "kind")?;
    let root: (Option<String>, Option<String>) = (field(row, "root_schema")?, field(row, "root_name")?);
    let heirs = session.query(HEIRS, &[&oid]).await?;
    let heir = |row: &Row| Ok(TableName { schema: field(row, "schema")?, table: field(row, "name")? });
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
        heirs: heirs.iter().map(heir).collect::<Result<_, Error>>()?,
        is_readable: field(row, "is_readable")?,
        identity: field(row, "identity")?,
        is_owned: field(row, "is_owned")?,
        columns: columns.iter().map(column).collect::<Result<_, Error>>()?,
        description: describe(session, oid).await?,
    })
}

async fn nearest_table(session: &Session, name: &str) -> Result<Option<String>, Error> {
    let names = names(session, TABLE_NAMES).await?;
    Ok(nearest(name, names.iter().map(String::as_str)).map(str::to_owned))
}

/// The table of checkpoints, if there is one.
pub(super) async fn checkpoint_table(session: &Session) -> Result<Option<OwnTable>, Error> {
    own_table(session, "checkpoint", CHECKPOINT_PRIVILEGES).await
}

/// The table of dead letters, if there is one.
pub(super) async fn dead_letter_table(session: &Session) -> Result<Option<OwnTable>, Error> {
    own_table(session, "dead_letter", DEAD_LETTER_PRIVILEGES).await
}

async fn own_table(session: &Session, name: &str, privileges: &[&str]) -> Result<Option<OwnTable>, Error> {
    let rows = session.query(OWN_TABLE, &[&name, &privileges]).await?;
    let table =
        |row: &Row| Ok(OwnTable { is_reachable: field(row, "is_reachable")?, is_writable: field(row, "is_writable")? });
    rows.first().map(table).transpose()
}
