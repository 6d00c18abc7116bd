//! The publications, and what they publish.

use tokio_postgres::Row;
use walpost_core::outbox::TableName;

use super::names;
use crate::error::Error;
use crate::identifier::SlotName;
use crate::sql::{Session, field};

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

const PUBLICATIONS: &str = "
SELECT oid, pubname::text AS name, puballtables, pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot
FROM pg_publication WHERE pubname::text = ANY ($1) ORDER BY pubname";

const PUBLICATION_NAMES: &str = "SELECT pubname::text AS name FROM pg_publication ORDER BY 1 LIMIT 10000";

const MEMBERS: &str = "
SELECT n.nspname::text AS schema, c.relname::text AS name
FROM pg_publication_rel r JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE r.prpubid = $1 ORDER BY 1, 2";

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

fn table_name(row: &Row) -> Result<TableName, Error> {
    Ok(TableName { schema: field(row, "schema")?, table: field(row, "name")? })
}

/// Every publication of this database.
pub(super) async fn publication_names(session: &Session) -> Result<Vec<String>, Error> {
    names(session, PUBLICATION_NAMES).await
}
