//! The publications, and what they publish.

use tokio_postgres::Row;
use walpost_core::outbox::TableName;

use super::names;
use crate::error::Error;
use crate::identifier::{SlotName, quote_identifier};
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

impl Publication {
    /// Whether the table was added by name, or comes by its schema.
    pub(crate) fn has(&self, table: &TableName) -> bool {
        self.all_tables || self.members.contains(table) || self.tables.iter().any(|published| published.name == *table)
    }

    /// The statement that has it publish inserts besides what it publishes.
    pub(crate) fn inserting(&self) -> String {
        let others = [(self.updates, ", update"), (self.deletes, ", delete"), (self.truncates, ", truncate")];
        let others: String =
            others.into_iter().filter_map(|(is_published, name)| is_published.then_some(name)).collect();
        format!("ALTER PUBLICATION {} SET (publish = 'insert{others}')", quote_identifier(&self.name))
    }

    /// The statement that has it publish rows of partitions under their root's name.
    pub(crate) fn naming_roots(&self) -> String {
        format!("ALTER PUBLICATION {} SET (publish_via_partition_root = true)", quote_identifier(&self.name))
    }
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

/// By what a table is published. Whoever takes a table out and puts it back, or makes table or publication anew, leaves another; whoever alters the
/// publication leaves one of another writer.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Entry {
    /// The publication.
    pub publication: u32,
    /// The transaction that wrote the publication's row of the catalogue (`xmin`), which stands there when it is frozen, and when the
    /// catalogue is rewritten, too.
    pub writer: i64,
    /// Everything else in that row.
    pub settings: String,
    /// The table.
    pub relation: Option<u32>,
    /// What puts the table into the publication: that it, or a table whose partition it is, was added by name or with its schema. None where
    /// the publication is FOR ALL TABLES.
    pub members: Vec<u32>,
    /// The row filter and the column list.
    pub restriction: Option<String>,
}

/// An outbox of which the slot's log may lack rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LateMember {
    /// The table.
    pub table: TableName,
    /// Whether it was added to its publication after the log begins; else the publication was altered.
    pub is_added: bool,
}

const PUBLICATIONS: &str = "
SELECT oid, pubname::text AS name, puballtables, pubinsert, pubupdate, pubdelete, pubtruncate, pubviaroot,
       xmin::text::int8 AS writer, to_jsonb(p)::text AS settings
FROM pg_publication p WHERE pubname::text = ANY ($1) ORDER BY pubname";

const PUBLICATION_NAMES: &str = "SELECT pubname::text AS name FROM pg_publication ORDER BY 1 LIMIT 10000";

const MEMBERS: &str = "
SELECT n.nspname::text AS schema, c.relname::text AS name
FROM pg_publication_rel r JOIN pg_class c ON c.oid = r.prrelid JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE r.prpubid = $1 ORDER BY 1, 2";

const PUBLISHED: &str = "
SELECT schemaname::text AS schema, tablename::text AS name,
       (SELECT array_agg(c) FROM jsonb_array_elements_text(
           CASE WHEN jsonb_typeof(to_jsonb(t) -> 'attnames') = 'array' THEN to_jsonb(t) -> 'attnames' END) c) AS columns,
       to_jsonb(t) ->> 'rowfilter' AS row_filter, c.oid AS relation, m.members,
       nullif(concat_ws(' ', to_jsonb(t) ->> 'rowfilter', to_jsonb(r) ->> 'prattrs'), '') AS restriction
FROM pg_publication_tables t
LEFT JOIN pg_namespace n ON n.nspname = t.schemaname
LEFT JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
LEFT JOIN pg_publication_rel r ON r.prpubid = $2 AND r.prrelid = c.oid
LEFT JOIN LATERAL (SELECT array_agg(DISTINCT member ORDER BY member) AS members FROM MEMBERS_OF($2, c.oid)) m ON true
WHERE pubname::text = $1 ORDER BY 1, 2";

// What puts a table into a publication depends on both, whether it is of pg_publication_rel or of pg_publication_namespace, which came with 15; a
// dependency is written together with what it is of, and never again.
const MEMBERS_OF: &str = "
(SELECT m.objid AS member, m.xmin AS writer FROM pg_depend m JOIN pg_depend o ON o.classid = m.classid AND o.objid = m.objid
 JOIN (SELECT $relation AS oid UNION SELECT relid FROM pg_partition_ancestors($relation)) a
   ON o.refclassid = 'pg_class'::regclass AND o.refobjid = a.oid
   OR o.refclassid = 'pg_namespace'::regclass AND o.refobjid = (SELECT relnamespace FROM pg_class WHERE oid = a.oid)
 WHERE m.refclassid = 'pg_publication'::regclass AND m.refobjid = $publication) members_of";

// A row of the catalogue whose transaction is not older than those that the slot can still read was not there for all of its log. Of one that
// is older than half of all transactions, the age is below zero.
const LATE_MEMBERS: &str = "
SELECT t.schemaname::text AS schema, t.tablename::text AS name, bool_and(coalesce(m.is_added, false)) AS is_added
FROM pg_replication_slots s, pg_publication p JOIN pg_publication_tables t ON t.pubname = p.pubname
JOIN pg_namespace n ON n.nspname = t.schemaname JOIN pg_class c ON c.relnamespace = n.oid AND c.relname = t.tablename
LEFT JOIN LATERAL (SELECT bool_and(age(writer) BETWEEN 0 AND age(s.catalog_xmin)) AS is_added FROM MEMBERS_OF(p.oid, c.oid)) m ON true
WHERE s.slot_name = $1 AND p.pubname::text = ANY ($2) AND p.pubinsert GROUP BY 1, 2
HAVING bool_and(coalesce(m.is_added, false) OR age(p.xmin) BETWEEN 0 AND age(s.catalog_xmin)) ORDER BY 1, 2";

/// The statement with [`MEMBERS_OF`] in the place of its name.
fn with_members(statement: &str, publication: &str) -> String {
    let members = MEMBERS_OF.replace("$publication", publication).replace("$relation", "c.oid");
    statement.replace(&format!("MEMBERS_OF({publication}, c.oid)"), &members)
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

/// The tables that were added to these publications, or whose publications were altered, after the log that the slot keeps begins, as far as the
/// catalogue tells: of what was committed into them before, the stream brings nothing that was not published then.
///
/// # Errors
/// The session has ended.
pub async fn late_members(
    session: &Session,
    slot: &SlotName,
    publications: &[String],
) -> Result<Vec<LateMember>, Error> {
    let statement = with_members(LATE_MEMBERS, "p.oid");
    let rows = session.query(&statement, &[&slot.as_str(), &publications]).await?;
    let late = |row| Ok(LateMember { table: table_name(row)?, is_added: field(row, "is_added")? });
    rows.iter().map(late).collect()
}

async fn publication(session: &Session, row: &Row) -> Result<Publication, Error> {
    let oid: u32 = field(row, "oid")?;
    let name: String = field(row, "name")?;
    let entry = Entry {
        publication: oid,
        writer: field(row, "writer")?,
        settings: field(row, "settings")?,
        ..Entry::default()
    };
    let members = session.query(MEMBERS, &[&oid]).await?;
    let published = session.query(&with_members(PUBLISHED, "$2"), &[&name, &oid]).await?;
    Ok(Publication {
        name,
        all_tables: field(row, "puballtables")?,
        inserts: field(row, "pubinsert")?,
        updates: field(row, "pubupdate")?,
        deletes: field(row, "pubdelete")?,
        truncates: field(row, "pubtruncate")?,
        via_root: field(row, "pubviaroot")?,
        members: members.iter().map(table_name).collect::<Result<_, _>>()?,
        tables: published.iter().map(|row| published_table(row, &entry)).collect::<Result<_, _>>()?,
    })
}

fn published_table(row: &Row, publication: &Entry) -> Result<PublishedTable, Error> {
    let members: Option<Vec<u32>> = field(row, "members")?;
    let entry = Entry {
        relation: field(row, "relation")?,
        members: members.unwrap_or_default(),
        restriction: field(row, "restriction")?,
        ..publication.clone()
    };
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
