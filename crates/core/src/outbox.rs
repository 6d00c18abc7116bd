//! The names of tables, and what a configured outbox is.

use std::fmt;
use std::sync::Arc;

use crate::router::Router;

/// The schema and name of a table, as they stand in the catalogue: unquoted, case kept.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TableName {
    /// The schema.
    pub schema: String,
    /// The table within it.
    pub table: String,
}

impl fmt::Display for TableName {
    /// As SQL would have to name it: quoted wherever that is needed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", Quoted(&self.schema), Quoted(&self.table))
    }
}

/// An identifier as SQL would have to write it.
struct Quoted<'a>(&'a str);

impl fmt::Display for Quoted<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let starts_well = self.0.starts_with(|first: char| first.is_ascii_lowercase() || first == '_');
        let goes_on_well = self.0.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if starts_well && goes_on_well { f.write_str(self.0) } else { write!(f, "\"{}\"", self.0.replace('"', "\"\"")) }
    }
}

/// One configured outbox: a table and the router of its rows.
#[derive(Debug)]
pub struct Outbox {
    /// The table; of a partitioned one, its root.
    pub table: TableName,
    /// How its rows become records.
    pub router: Router,
}

/// The configured outboxes, in the order of the configuration. They outlive every session.
pub type Outboxes = Arc<[Outbox]>;
