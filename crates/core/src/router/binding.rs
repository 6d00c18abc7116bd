//! Which column of a relation plays which role, found once for all of its rows.

use std::fmt::Write as _;
use std::sync::Arc;

use super::options::{Missing, Options};
use super::placement::Target;
use super::topic::Memory;
use crate::convert;
use crate::description::Description;
use crate::event::Event;
use crate::outbox::TableName;
use crate::pgoutput::Relation;
use crate::poison::RowFault;
use crate::value::Kind;

/// Which column of a relation plays which role, and the topics seen so far. Lives as long as the relation's shape does.
///
/// A column that is missing, or whose type cannot play the role, is a fault of each row and not of the binding: the table may
/// be altered while the stream goes on. [`faults`](Self::faults) tells in advance.
#[derive(Debug)]
pub struct Binding {
    pub(super) table: Arc<str>,
    pub(super) width: usize,
    pub(super) payload: Slot,
    pub(super) timestamp: Option<Slot>,
    /// The header `id`, then the additional columns in configured order.
    pub(super) placed: Vec<Placed>,
    pub(super) key: Slot,
    pub(super) route: Slot,
    pub(super) memory: Memory,
}

/// A column in a role, or the fault of every row.
pub(super) type Slot = Result<Column, RowFault>;

/// A column that plays a role. What the catalogue alone knows of it, such as its DEFAULT, belongs here once it is asked for.
#[derive(Debug)]
pub(super) struct Column {
    pub(super) index: usize,
    pub(super) name: Arc<str>,
    /// Its table, as SQL would name it.
    pub(super) table: Arc<str>,
    pub(super) kind: Kind,
}

/// A column that is placed beside key and value.
#[derive(Debug)]
pub(super) enum Placed {
    Header(Arc<str>, Slot),
    Partition(Slot),
}

/// How many characters of an event's id are told.
const MAX_TOLD_ID: usize = 100;

impl Binding {
    pub(super) fn new(options: &Options, relation: &Relation<'_>, _description: &Description) -> Self {
        let finder = Finder::new(relation);
        let role = Role::publishable;
        let mut placed = vec![Placed::Header(
            Arc::from("id"),
            finder.find(&options.table_field_event_id, &role("table.field.event.id", "the header \"id\"")),
        )];
        placed.extend(finder.additional(options));
        Self {
            width: relation.columns.len(),
            payload: finder.find(&options.table_field_event_payload, &role("table.field.event.payload", "the value")),
            timestamp: options.table_field_event_timestamp.as_ref().map(|name| finder.find(name, &Role::TIMESTAMP)),
            placed,
            key: finder.find(&options.table_field_event_key, &role("table.field.event.key", "the key")),
            route: finder.find(&options.route_by_field, &Role::ROUTE),
            memory: Memory::default(),
            table: finder.table,
        }
    }

    /// The text of the column that the header `id` is made of, for telling people which row is meant. Cut where it is long.
    #[must_use]
    pub fn event_id(&self, event: &Event<'_>) -> Option<String> {
        let Some(Placed::Header(_, Ok(column))) = self.placed.first() else { return None };
        let text = String::from_utf8_lossy(column.text(event).ok()??);
        Some(text.chars().take(MAX_TOLD_ID).collect())
    }

    /// What every row of this relation will be at fault for, in the order in which a row is looked at. Empty for a table that
    /// fits.
    pub fn faults(&self) -> impl Iterator<Item = &RowFault> {
        let placed = self.placed.iter().map(|(Placed::Header(_, slot) | Placed::Partition(slot))| slot);
        let slots = std::iter::once(&self.payload).chain(&self.timestamp).chain(placed).chain([&self.key, &self.route]);
        slots.filter_map(|slot| slot.as_ref().err())
    }
}

/// What a column is wanted for.
struct Role {
    option: &'static str,
    purpose: &'static str,
    accepts: fn(Kind) -> bool,
    accepted: &'static str,
}

impl Role {
    const TIMESTAMP: Self = Self {
        option: "table.field.event.timestamp",
        purpose: "the timestamp",
        accepts: |kind| kind.is_integer() || matches!(kind, Kind::Timestamp | Kind::Timestamptz),
        accepted: "timestamp, timestamptz, and smallint, integer and bigint in milliseconds",
    };
    const PARTITION: Self =
        Self { option: PLACEMENT, purpose: "the partition", accepts: |kind| kind == Kind::Int4, accepted: "integer" };
    const ROUTE: Self = Self {
        option: "route.by.field",
        purpose: "the topic",
        accepts: |kind| convert::is_convertible(kind) && kind != Kind::Bytea,
        accepted: "text and its kin, uuid, integers and boolean",
    };

    const fn publishable(option: &'static str, purpose: &'static str) -> Self {
        Self {
            option,
            purpose,
            accepts: convert::is_convertible,
            accepted: "text and its kin, uuid, json, jsonb, integers, boolean and bytea",
        }
    }
}

const PLACEMENT: &str = "table.fields.additional.placement";

/// The columns of a relation, by name.
struct Finder<'r> {
    columns: &'r [crate::pgoutput::Column<'r>],
    table: Arc<str>,
}

impl<'r> Finder<'r> {
    fn new(relation: &'r Relation<'_>) -> Self {
        // The server sends the empty name for pg_catalog.
        let schema = if relation.namespace.is_empty() { "pg_catalog" } else { relation.namespace };
        let table = TableName { schema: schema.to_owned(), table: relation.name.to_owned() };
        Self { columns: &relation.columns, table: table.to_string().into() }
    }

    fn find(&self, name: &str, role: &Role) -> Slot {
        let found = self.columns.iter().enumerate().find(|(_, column)| column.name == name);
        let Some((index, column)) = found else { return Err(self.missing(name, role)) };
        let kind = Kind::of(column.type_id);
        if (role.accepts)(kind) {
            return Ok(Column { index, name: Arc::from(name), table: Arc::clone(&self.table), kind });
        }
        Err(RowFault::new(format!(
            "column \"{name}\" of {}, of the type with OID {}, cannot be {} (option \"{}\") yet; what can be is {}",
            self.table, column.type_id, role.purpose, role.option, role.accepted
        )))
    }

    fn missing(&self, name: &str, role: &Role) -> RowFault {
        let mut reason = format!(
            "column \"{name}\", which option \"{}\" asks for as {}, is not in table {}",
            role.option, role.purpose, self.table
        );
        for (index, column) in self.columns.iter().enumerate() {
            let separator = if index == 0 { "; its published columns are" } else { "," };
            // Writing to a String cannot fail.
            let _ = write!(reason, "{separator} \"{}\"", column.name);
        }
        RowFault::new(reason)
    }

    fn additional(&self, options: &Options) -> Vec<Placed> {
        let is_there = |name: &str| self.columns.iter().any(|column| column.name == name);
        let must_be_there = options.table_field_additional_missing == Missing::Error;
        let placements = options.table_fields_additional_placement.iter();
        let placed = placements.filter(|placement| must_be_there || is_there(&placement.column));
        placed
            .filter_map(|placement| match &placement.target {
                Target::Header(name) => {
                    let role = Role::publishable(PLACEMENT, "a header");
                    Some(Placed::Header(Arc::clone(name), self.find(&placement.column, &role)))
                }
                Target::Partition => Some(Placed::Partition(self.find(&placement.column, &Role::PARTITION))),
                // Refused by `Router::new`.
                Target::Envelope(_) => None,
            })
            .collect()
    }
}
