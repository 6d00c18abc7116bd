//! Which column of a relation plays which role, found once for all of its rows.

use std::fmt::Write as _;
use std::sync::Arc;

use super::body::{Body, EnvelopeField};
use super::connector::Connector;
use super::options::{Missing, Options};
use super::placement::Target;
use super::topic::Memory;
use super::written::Written;
use crate::column::{ColumnType, TextForm};
use crate::convert::Converter;
use crate::description::Description;
use crate::outbox::TableName;
use crate::pgoutput::Relation;
use crate::poison::RowFault;
use crate::record::Header;
use crate::value::Kind;

/// Which column of a relation plays which role, and the topics seen so far. Lives as long as the relation's shape does.
///
/// A column that is missing, or whose type cannot play the role, is a fault of each row and not of the binding: the table may
/// be altered while the stream goes on. [`faults`](Self::faults) tells in advance.
#[derive(Debug)]
pub struct Binding {
    pub(super) table: Arc<str>,
    pub(super) width: usize,
    pub(super) body: Slot<Body>,
    pub(super) timestamp: Option<Slot<Column>>,
    /// The headers that tell of the connector; the same for every row.
    pub(super) context: Vec<Header>,
    /// The header `id`, then the additional columns in configured order.
    pub(super) placed: Vec<Placed>,
    /// The version of an enveloped value's schema.
    pub(super) version: Option<Slot<Column>>,
    pub(super) key: Slot<Written>,
    pub(super) route: Slot<Column>,
    pub(super) memory: Memory,
}

/// What plays a role, or the fault of every row.
pub(super) type Slot<T> = Result<T, RowFault>;

/// A column that plays a role.
#[derive(Debug, Clone)]
pub(super) struct Column {
    pub(super) index: usize,
    pub(super) name: Arc<str>,
    /// Its table, as SQL would name it.
    pub(super) table: Arc<str>,
    /// What it holds; of a domain, what its base holds.
    pub(super) kind: Kind,
}

/// A column that is placed beside key and value.
#[derive(Debug)]
pub(super) enum Placed {
    Header(Arc<str>, Slot<Written>),
    Partition(Slot<Column>),
    Envelope(Slot<EnvelopeField>),
}

impl Binding {
    pub(super) fn new(
        options: &Options,
        connector: &Connector,
        relation: &Relation<'_>,
        description: &Description,
    ) -> Self {
        let finder = Finder::new(relation, description, connector);
        let mut placed = vec![Placed::Header(Arc::from("id"), finder.header(&options.table_field_event_id, Role::ID))];
        placed.extend(finder.additional(options));
        let fields = placed.iter().filter_map(|placed| match placed {
            Placed::Envelope(Ok(field)) => Some(field),
            Placed::Envelope(Err(_)) | Placed::Header(..) | Placed::Partition(_) => None,
        });
        let is_enveloped = options.is_enveloped();
        let version = options.table_field_event_schema_version.as_ref().filter(|_| is_enveloped);
        Self {
            width: relation.columns.len(),
            body: finder.body(options, fields),
            timestamp: options.table_field_event_timestamp.as_ref().map(|name| finder.typed(name, Role::TIMESTAMP)),
            version: version.map(|name| finder.typed(name, Role::VERSION)),
            key: finder.written(&options.table_field_event_key, Role::KEY, &connector.key),
            route: finder.typed(&options.route_by_field, Role::ROUTE),
            context: connector.context.clone(),
            memory: Memory::default(),
            table: Arc::clone(&finder.table),
            placed,
        }
    }

    /// What every row of this relation will be at fault for, in the order in which a row is looked at. Empty for a table that
    /// fits.
    pub fn faults(&self) -> impl Iterator<Item = &RowFault> {
        let placed = self.placed.iter().filter_map(Placed::fault);
        let first = [self.body.as_ref().err(), fault_of(self.timestamp.as_ref())];
        let last = [fault_of(self.version.as_ref()), self.key.as_ref().err(), self.route.as_ref().err()];
        first.into_iter().flatten().chain(placed).chain(last.into_iter().flatten())
    }
}

fn fault_of<T>(slot: Option<&Slot<T>>) -> Option<&RowFault> {
    slot.and_then(|slot| slot.as_ref().err())
}

impl Placed {
    fn fault(&self) -> Option<&RowFault> {
        match self {
            Self::Header(_, slot) => slot.as_ref().err(),
            Self::Partition(slot) => slot.as_ref().err(),
            Self::Envelope(slot) => slot.as_ref().err(),
        }
    }
}

/// What a column is wanted for.
#[derive(Clone, Copy)]
struct Role {
    option: &'static str,
    purpose: &'static str,
}

impl Role {
    const PAYLOAD: Self = Self { option: "table.field.event.payload", purpose: "the value" };
    const ID: Self = Self { option: "table.field.event.id", purpose: "the header \"id\"" };
    const KEY: Self = Self { option: "table.field.event.key", purpose: "the key" };
    const HEADER: Self = Self { option: PLACEMENT, purpose: "a header" };
    const ENVELOPE: Self = Self { option: PLACEMENT, purpose: "a field of the value" };
    const TIMESTAMP: TypedRole = TypedRole {
        role: Self { option: "table.field.event.timestamp", purpose: "the timestamp" },
        accepts: |kind, _| kind.is_integer() || matches!(kind, Kind::Timestamp | Kind::Timestamptz),
        accepted: "timestamp, timestamptz, and smallint, integer and bigint in milliseconds",
    };
    const PARTITION: TypedRole = TypedRole {
        role: Self { option: PLACEMENT, purpose: "the partition" },
        accepts: |kind, _| kind.is_integer(),
        accepted: "smallint, integer and bigint",
    };
    const VERSION: TypedRole = TypedRole {
        role: Self { option: "table.field.event.schema.version", purpose: "the version of the value's schema" },
        accepts: |kind, _| kind.is_integer(),
        accepted: "smallint, integer and bigint",
    };
    const ROUTE: TypedRole = TypedRole {
        role: Self { option: "route.by.field", purpose: "the topic" },
        accepts: |kind, form| form != TextForm::Other || kind == Kind::Boolean,
        accepted: "text and its kin, uuid, integers and boolean",
    };
}

/// What a column of certain types alone is wanted for.
#[derive(Clone, Copy)]
struct TypedRole {
    role: Role,
    accepts: fn(Kind, TextForm) -> bool,
    accepted: &'static str,
}

const PLACEMENT: &str = "table.fields.additional.placement";

/// The columns of a relation, by name.
struct Finder<'r, 'a> {
    relation: &'r Relation<'a>,
    description: &'r Description,
    connector: &'r Connector,
    /// The server sends the empty name for `pg_catalog`.
    schema: &'r str,
    table: Arc<str>,
}

impl<'r, 'a> Finder<'r, 'a> {
    fn new(relation: &'r Relation<'a>, description: &'r Description, connector: &'r Connector) -> Self {
        let schema = if relation.namespace.is_empty() { "pg_catalog" } else { relation.namespace };
        let table = TableName { schema: schema.to_owned(), table: relation.name.to_owned() };
        Self { relation, description, connector, schema, table: table.to_string().into() }
    }

    /// A column and its type.
    fn find(&self, name: &str, role: Role) -> Slot<(Column, ColumnType)> {
        let found = self.relation.columns.iter().enumerate().find(|(_, column)| column.name == name);
        let Some((index, column)) = found else { return Err(self.missing(name, role)) };
        let kind = Kind::of(self.description.base_of(column.type_id));
        let read = ColumnType::new(column, self.description, &self.connector.options);
        Ok((Column { index, name: Arc::from(name), table: Arc::clone(&self.table), kind }, read))
    }

    fn written(&self, name: &str, role: Role, converter: &Converter) -> Slot<Written> {
        let (column, read) = self.find(name, role)?;
        Written::new(column, read, converter).map_err(|(column, reason)| self.unfit(&column.name, role, &reason))
    }

    fn header(&self, name: &str, role: Role) -> Slot<Written> {
        self.written(name, role, &self.connector.header)
    }

    fn typed(&self, name: &str, TypedRole { role, accepts, accepted }: TypedRole) -> Slot<Column> {
        let (column, read) = self.find(name, role)?;
        if accepts(column.kind, read.text_form()) {
            return Ok(column);
        }
        Err(self.unfit(name, role, &format!("it is of {}, and what can be is {accepted}", column.kind)))
    }

    fn body<'f>(&self, options: &Options, fields: impl Iterator<Item = &'f EnvelopeField>) -> Slot<Body> {
        let name = &options.table_field_event_payload;
        let (column, read) = self.find(name, Role::PAYLOAD)?;
        let fields = options.is_enveloped().then(|| fields.map(EnvelopeField::schema).collect());
        let names = (self.schema, self.relation.name);
        Body::new(options, self.connector, names, (column, read), fields)
            .map_err(|reason| self.unfit(name, Role::PAYLOAD, &reason))
    }

    fn envelope(&self, name: &str, alias: &Arc<str>) -> Slot<EnvelopeField> {
        let (column, read) = self.find(name, Role::ENVELOPE)?;
        Ok(EnvelopeField::new(column, read, Arc::clone(alias)))
    }

    fn unfit(&self, name: &str, role: Role, reason: &str) -> RowFault {
        let Role { option, purpose } = role;
        RowFault::new(format!(
            "column \"{name}\" of {} cannot be {purpose} (option \"{option}\"): {reason}",
            self.table
        ))
    }

    fn missing(&self, name: &str, role: Role) -> RowFault {
        let mut reason = format!(
            "column \"{name}\", which option \"{}\" asks for as {}, is not in table {}",
            role.option, role.purpose, self.table
        );
        for (index, column) in self.relation.columns.iter().enumerate() {
            let separator = if index == 0 { "; its published columns are" } else { "," };
            // Writing to a String cannot fail.
            let _ = write!(reason, "{separator} \"{}\"", column.name);
        }
        RowFault::new(reason)
    }

    fn additional(&self, options: &Options) -> Vec<Placed> {
        let is_there = |name: &str| self.relation.columns.iter().any(|column| column.name == name);
        let must_be_there = options.table_field_additional_missing == Missing::Error;
        let placements = options.table_fields_additional_placement.iter();
        let placed = placements.filter(|placement| must_be_there || is_there(&placement.column));
        placed
            .map(|placement| match &placement.target {
                Target::Header(name) => Placed::Header(Arc::clone(name), self.header(&placement.column, Role::HEADER)),
                Target::Partition => Placed::Partition(self.typed(&placement.column, Role::PARTITION)),
                Target::Envelope(alias) => Placed::Envelope(self.envelope(&placement.column, alias)),
            })
            .collect()
    }
}
