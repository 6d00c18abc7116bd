//! Whether the outboxes, as the catalogue shows them now, can play the roles that their routers give them.
//!
//! A table that does not fit lets no row through, so a start is refused for it, and `walpost check` tells it before: what is
//! to be mended is the configuration or the table, and nothing is lost meanwhile. Rows that are in the log from before the table
//! was altered may have had what is missing now; they wait too. What happens to a table while the stream goes on is never looked at here:
//! then each row is judged by the shape that it came in.

use walpost_core::description::{ColumnDescription, Description};
use walpost_core::finding::Finding;
use walpost_core::outbox::Outbox;
use walpost_core::pgoutput::{Column, Relation};
use walpost_postgres::Error as PostgresError;
use walpost_postgres::inspect::{self, Publication, Table};
use walpost_postgres::{preflight, sql};

use crate::config::Settings;
use crate::relay;

/// Why no row of an outbox could be published, for each that exists.
///
/// # Errors
/// The catalogue cannot be read.
pub async fn of_outboxes(
    sql: &sql::Session,
    settings: &Settings,
    publications: &[Publication],
) -> Result<Vec<Finding>, PostgresError> {
    let mut found = Vec::new();
    for (outbox, subject) in settings.outboxes().iter().zip(relay::subject(settings).outboxes) {
        let inspected = inspect::inspect_table(sql, &subject).await?;
        found.extend(inspected.found.iter().flat_map(|table| of_outbox(outbox, table, publications)));
    }
    Ok(found)
}

/// Why dead letters could keep no reference to the rows of an outbox, where they are to.
///
/// # Errors
/// The catalogue cannot be read.
pub async fn of_references(
    sql: &sql::Session,
    settings: &Settings,
    publications: &[Publication],
) -> Result<Option<Finding>, PostgresError> {
    let outboxes = relay::subject(settings).outboxes;
    for subject in outboxes.iter().filter(|_| settings.dead_letter().keeps_references()) {
        let inspected = inspect::inspect_table(sql, subject).await?;
        if let Some(finding) = preflight::unreferable(&inspected, publications) {
            return Ok(Some(finding));
        }
    }
    Ok(None)
}

/// What every row of an outbox would be refused for: columns that are not published, and those of types that cannot play
/// their roles.
#[must_use]
pub fn of_outbox(outbox: &Outbox, table: &Table, publications: &[Publication]) -> Vec<Finding> {
    let columns = table.description.columns.iter();
    let published = columns.filter(|column| is_published(&column.name, outbox, table, publications));
    let relation = Relation {
        id: 0,
        namespace: &outbox.table.schema,
        name: &outbox.table.table,
        replica_identity: b'd',
        columns: published.map(|column| told(column, &table.description)).collect(),
    };
    let remedy = "add the column or change the column's type, or name another column in the router's option";
    let subject = format!("outbox {}", outbox.table);
    let binding = outbox.router.bind(&relation, &table.description);
    binding.faults().map(|fault| Finding::error(subject.clone(), fault.reason.clone(), remedy)).collect()
}

/// Whether a column comes with the rows of its table: it is not generated, and on the list of columns if a publication has one. (From
/// PostgreSQL 15 on each tells one, 15 with the generated columns in it.)
pub(crate) fn is_published(column: &str, outbox: &Outbox, table: &Table, publications: &[Publication]) -> bool {
    let inserts = publications.iter().filter(|publication| publication.inserts);
    let members = inserts.flat_map(|publication| &publication.tables).filter(|member| member.name == outbox.table);
    let mut lists = members.filter_map(|member| member.columns.as_ref()).peekable();
    let is_listed = lists.peek().is_none() || lists.any(|list| list.iter().any(|listed| listed == column));
    is_listed && table.columns.iter().any(|found| found.name == column && !found.is_generated)
}

/// A column as a catalog binds it: of a domain, with the type that it is over.
fn told<'a>(column: &'a ColumnDescription, description: &Description) -> Column<'a> {
    let ColumnDescription { name, type_id, type_modifier, .. } = column;
    Column { flags: 0, name, type_id: description.base_of(*type_id), type_modifier: *type_modifier }
}
