//! Asks the catalogue for what pgoutput does not tell of a relation, for core's port.
//!
//! Two statements: the columns of the relation, then their types with all that those are made of. The second is asked about what
//! the first answered and not about the relation again, so that an ALTER TABLE between the two cannot part columns from types.
//! Needs no privilege beyond connecting, and reads nothing but catalogues; yet `pg_get_expr` waits for whoever holds the table
//! exclusively (from PostgreSQL 17 on it locks it), which is what the statement timeout is for.
//!
//! # The text of a DEFAULT
//!
//! `pg_get_expr` leaves out the schema of whatever the session's `search_path` would find. Debezium's JDBC session has the
//! role's, so what it reads changes with ALTER ROLE, ALTER DATABASE, and the name of the role. Ours is that of every session
//! here, `pg_catalog` alone: whatever is not built in comes with its schema, on every server, for every role. It makes no
//! difference to what is read out of the text: the literal within the quotes is the same, a call is one with a schema before
//! its name too, and an enum's cast is compared by its name, and by its schema only where both have one.
//!
//! # Sources
//!
//! "System Catalogs" in PostgreSQL's manual: `pg_attribute`, `pg_attrdef`, `pg_type`, `pg_enum`, `pg_range`. In `pg_attrdef` stand
//! the expressions of generated columns too. An array is what `array_out` writes: `typelem` alone is not enough, for `point`,
//! `name` and `oidvector` have it too and are written otherwise; a domain over an array has its base's `typoutput`, and is a domain.

use std::error::Error as StdError;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};
use walpost_core::description::{ColumnDescription, Description, TypeDescription, TypeKind};
use walpost_core::port::Describe;

use crate::connection::{ConnectionSettings, Endpoint};
use crate::error::Error;
use crate::sql::{Session, field};

/// How long a statement may take.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

const COLUMNS: &str = "
SELECT a.attname AS name, a.atttypid AS type_id, a.atttypmod AS type_modifier, a.attnotnull AS not_null,
       CASE WHEN a.attgenerated = '' THEN pg_get_expr(d.adbin, d.adrelid) END AS default
FROM pg_attribute a LEFT JOIN pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum
WHERE a.attrelid = $1 AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum";

// `rngmultitypid` leads from a multirange to its range; UNION ends where nothing new is found.
const TYPES: &str = "
WITH RECURSIVE reached(id) AS (
    SELECT unnest($1::oid[])
    UNION
    SELECT part.id FROM reached JOIN pg_type t ON t.oid = reached.id
    LEFT JOIN pg_range r ON t.oid IN (r.rngtypid, r.rngmultitypid)
    CROSS JOIN LATERAL (VALUES (t.typbasetype), (r.rngtypid), (r.rngsubtype),
        (CASE WHEN t.typtype = 'b' AND t.typoutput = 'array_out'::regproc THEN t.typelem END)) AS part(id)
    WHERE part.id <> 0
)
SELECT t.oid AS id, n.nspname AS schema, t.typname AS name, t.typtype AS kind, t.typbasetype AS base,
       t.typtypmod AS type_modifier, t.typnotnull AS not_null, pg_get_expr(t.typdefaultbin, 0) AS default,
       CASE WHEN t.typtype = 'b' AND t.typoutput = 'array_out'::regproc THEN t.typelem END AS element,
       ARRAY(SELECT enumlabel FROM pg_enum e WHERE e.enumtypid = t.oid ORDER BY enumsortorder) AS labels
FROM reached JOIN pg_type t ON t.oid = reached.id JOIN pg_namespace n ON n.oid = t.typnamespace
ORDER BY t.oid";

/// Describes a relation as it is now. One that does not exist has no columns.
///
/// # Errors
/// The session has ended, or the statement timeout has passed while somebody held the table.
pub async fn describe(session: &Session, relation: u32) -> Result<Description, Error> {
    let rows = session.query(COLUMNS, &[&relation]).await?;
    let columns = rows.iter().map(column).collect::<Result<Vec<_>, _>>()?;
    let reached: Vec<u32> = columns.iter().map(|column| column.type_id).collect();
    let rows = session.query(TYPES, &[&reached]).await?;
    let types = rows.iter().map(type_from).collect::<Result<_, _>>()?;
    Ok(Description { columns, types })
}

/// The catalogue of one server, over a session of its own that is opened by the first question and kept.
#[derive(Debug)]
pub struct Catalogue {
    connection: ConnectionSettings,
    endpoint: Endpoint,
    session: Option<Session>,
}

impl Catalogue {
    /// The catalogue of this server: that of the stream, for another one may number its tables otherwise.
    #[must_use]
    pub fn new(connection: ConnectionSettings, endpoint: Endpoint) -> Self {
        Self { connection, endpoint, session: None }
    }

    /// A session that lives, as far as is known.
    async fn session(&mut self) -> Result<&Session, Error> {
        // One that the server has ended is closed since then: its connection is a task of its own.
        if self.session.as_ref().is_none_or(Session::is_closed) {
            let opened = Session::connect_to(&self.connection, &self.endpoint, STATEMENT_TIMEOUT).await?;
            return Ok(self.session.insert(opened));
        }
        self.session.as_ref().ok_or(Error::Ended)
    }
}

impl Describe for Catalogue {
    type Error = Error;

    async fn describe(&mut self, relation: u32) -> Result<Description, Error> {
        let described = describe(self.session().await?, relation).await;
        // Whatever is wrong with it, the next one is not.
        if described.is_err() {
            self.session = None;
        }
        described
    }
}

fn column(row: &Row) -> Result<ColumnDescription, Error> {
    Ok(ColumnDescription {
        name: field::<Text>(row, "name")?.0,
        type_id: field(row, "type_id")?,
        type_modifier: field(row, "type_modifier")?,
        not_null: field(row, "not_null")?,
        default: field::<Option<Text>>(row, "default")?.map(|text| text.0),
    })
}

fn type_from(row: &Row) -> Result<TypeDescription, Error> {
    Ok(TypeDescription {
        id: field(row, "id")?,
        schema: field::<Text>(row, "schema")?.0,
        name: field::<Text>(row, "name")?.0,
        kind: kind(row)?,
    })
}

/// By `typtype`. One that a later version may add is to us what has no parts.
fn kind(row: &Row) -> Result<TypeKind, Error> {
    let element: Option<u32> = field(row, "element")?;
    Ok(match (field::<i8>(row, "kind")?.cast_unsigned(), element) {
        (b'c', _) => TypeKind::Composite,
        (b'd', _) => TypeKind::Domain {
            base: field(row, "base")?,
            type_modifier: field(row, "type_modifier")?,
            not_null: field(row, "not_null")?,
            default: field::<Option<Text>>(row, "default")?.map(|text| text.0),
        },
        (b'e', _) => {
            TypeKind::Enum { labels: field::<Vec<Text>>(row, "labels")?.into_iter().map(|text| text.0).collect() }
        }
        (b'm', _) => TypeKind::Multirange,
        (b'p', _) => TypeKind::Pseudo,
        (b'r', _) => TypeKind::Range,
        (_, Some(element)) => TypeKind::Array { element },
        (_, None) => TypeKind::Base,
    })
}

/// A text or name. A database in `SQL_ASCII` may have any bytes in it, and one label that is not UTF-8 must not stop the stream:
/// it is read as well as it can be, and no row's text will equal it.
struct Text(String);

impl<'a> FromSql<'a> for Text {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn StdError + Sync + Send>> {
        Ok(Self(String::from_utf8_lossy(raw).into_owned()))
    }

    fn accepts(told: &Type) -> bool {
        matches!(*told, Type::TEXT | Type::NAME)
    }
}
