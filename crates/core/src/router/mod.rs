//! From a row to a record, as Debezium's Outbox Event Router would make it.
//!
//! A row is looked at in Debezium's order (`EventRouterDelegate.apply`): payload column, timestamp, headers and partition,
//! value, key, topic. So a row with several faults is refused for the one that Debezium would have died of. Where Debezium
//! dies of what can be published without a guess, it is published: a `timestamptz` as the timestamp, an integer as the route.
//!
//! What it refuses to do: change a payload unasked. Without a converter in the configuration the value is the payload column's
//! own bytes, a slice of what PostgreSQL sent. What cannot be honoured is refused by name when the relay starts, never ignored at
//! a row.
//!
//! On the plain path an event costs no allocation: the parts of the record are slices of the frame, header names and topics
//! are shared. Who asks for more pays for it: a column that has to be read is read into a value of
//! [Connect's model](crate::connect) and written by a [converter](crate::convert).

mod binding;
mod body;
mod connector;
mod java;
mod known;
mod options;
mod placement;
mod read;
mod topic;
mod written;

use std::sync::Arc;

use bytes::BytesMut;

pub use self::binding::Binding;
pub use self::connector::Connector;
pub use self::options::{
    EmptyArrayBehavior, FieldNameAdjustment, FormerName, InvalidOperation, Missing, NullBehavior, Options,
};
pub use self::placement::{Placement, Target};

use self::binding::{Column, Placed, Slot};
use self::body::Surroundings;
use self::topic::Routes;
use crate::connect::Value;
use crate::description::Description;
use crate::event::Event;
use crate::options::OptionFault;
use crate::outbox::TableName;
use crate::pgoutput::{Message, Relation};
use crate::poison::{Letterhead, RowFault};
use crate::record::{Header, Headers, Record};

/// What a row becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Routed {
    /// A record to publish.
    Record(Record),
}

/// The router of one outbox.
#[derive(Debug)]
pub struct Router {
    options: Options,
    connector: Connector,
    routes: Routes,
}

impl Router {
    /// A router with these options, in the name of no connector in particular: text passes as it is.
    ///
    /// # Errors
    /// Every option that cannot be honoured, all at once.
    pub fn new(options: Options) -> Result<Self, Vec<OptionFault>> {
        Self::of_connector(options, Connector::default())
    }

    /// A router with these options in the name of a connector.
    ///
    /// # Errors
    /// Every option that cannot be honoured, all at once.
    pub fn of_connector(options: Options, connector: Connector) -> Result<Self, Vec<OptionFault>> {
        let mut faults = unnamed_columns(&options);
        faults.extend(envelope_faults(&options, &connector));
        match Routes::new(&options) {
            Ok(routes) if faults.is_empty() => Ok(Self { options, connector, routes }),
            Ok(_) => Err(faults),
            Err(fault) => {
                faults.push(fault);
                Err(faults)
            }
        }
    }

    /// The connector in whose name it publishes.
    #[must_use]
    pub fn connector(&self) -> &Connector {
        &self.connector
    }

    /// What the operator should know although nothing is refused.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        self.routes.warning()
    }

    /// The options that it was made with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// The columns without which no row can be published, in the order in which they are looked for, each once.
    #[must_use]
    pub fn required_columns(&self) -> Vec<&str> {
        let options = &self.options;
        let is_required = options.table_field_additional_missing == Missing::Error;
        let additional = options.table_fields_additional_placement.iter().filter(|_| is_required);
        let mut columns = vec![options.table_field_event_payload.as_str()];
        columns.extend(options.table_field_event_timestamp.as_deref());
        columns.push(&options.table_field_event_id);
        columns.extend(additional.map(|placement| placement.column.as_str()));
        columns.extend([options.table_field_event_key.as_str(), &options.route_by_field]);
        let mut seen = std::collections::BTreeSet::new();
        columns.retain(|column| seen.insert(*column));
        columns
    }

    /// The topic that every row goes to, where the options leave no choice.
    #[must_use]
    pub fn only_topic(&self) -> Option<&str> {
        self.routes.only_topic()
    }

    /// What an update of a row of this outbox leads to. It is for the session to act on it; deletes and truncations are
    /// ignored.
    #[must_use]
    pub fn on_update(&self) -> InvalidOperation {
        self.options.table_op_invalid_behavior
    }

    /// Finds the columns that play a role for this router in a relation. Never fails: a missing column is a fault of each row,
    /// and a column may be missing from the description.
    #[must_use]
    pub fn bind(&self, relation: &Relation<'_>, description: &Description) -> Binding {
        Binding::new(&self.options, &self.connector, relation, description)
    }

    /// What the letters of this relation's rows have in common. Its columns are found by their names alone, so that a row which cannot be
    /// converted has its key too.
    #[must_use]
    pub fn letterhead(&self, table: TableName, relation: &Relation<'_>) -> Letterhead {
        let place_of = |name: &str| relation.columns.iter().position(|column| column.name == name);
        let mut told = BytesMut::new();
        Message::Relation(relation.clone()).encode(&mut told);
        Letterhead {
            table,
            relation: told.freeze(),
            id: place_of(&self.options.table_field_event_id),
            route: place_of(&self.options.route_by_field),
            key: place_of(&self.options.table_field_event_key),
        }
    }

    /// Makes the record of a row. `binding` is that of the row's relation, made by this router.
    ///
    /// # Errors
    /// The row cannot be published: what is missing or does not fit.
    pub fn route(&self, binding: &mut Binding, event: &Event<'_>) -> Result<Routed, RowFault> {
        if event.cells.len() != binding.width {
            let (cells, width, table) = (event.cells.len(), binding.width, &binding.table);
            return Err(RowFault::new(format!("the row has {cells} values and {table} has {width} columns")));
        }
        let Binding { body, timestamp, context, placed, version, key, route, memory, .. } = binding;
        let body = body.as_mut().map_err(|fault| fault.clone())?;
        let column_ms = column_ms(timestamp.as_ref(), event)?;
        let mut placements = Placements { headers: context.iter().cloned().collect(), ..Placements::default() };
        for placed in placed {
            placements.add(placed, event)?;
        }
        let version = match version {
            Some(slot) => present(slot)?.integer(event)?,
            None => None,
        };
        let Placements { headers, partition, fields } = placements;
        let key = present(key)?.bytes(event)?;
        let column = present(route)?;
        let route = column.route(event)?.ok_or_else(|| column.fault("is NULL, so the row routes to no topic"))?;
        let topic = self.routes.topic(route, memory).map_err(|reason| column.fault(reason))?;
        let value = match body.is_plain() {
            true => body.plain(event)?,
            false => body.structured(event, Surroundings { fields, route, version })?,
        };
        Ok(Routed::Record(Record {
            identity: event.identity,
            topic,
            key,
            value,
            headers,
            // The time of the commit, so that a repeat carries the same.
            timestamp_ms: column_ms.unwrap_or_else(|| event.commit_time.unix_millis()),
            is_dated_by_row: column_ms.is_some(),
            partition,
        }))
    }
}

fn present<T>(slot: &Slot<T>) -> Result<&T, RowFault> {
    slot.as_ref().map_err(Clone::clone)
}

/// The timestamp that the row brings along, where a column for it is configured and holds one.
fn column_ms(slot: Option<&Slot<Column>>, event: &Event<'_>) -> Result<Option<i64>, RowFault> {
    match slot {
        Some(slot) => present(slot)?.timestamp_ms(event),
        None => Ok(None),
    }
}

/// What the placed columns of a row come to.
#[derive(Default)]
struct Placements {
    headers: Headers,
    /// What the last entry chooses.
    partition: Option<i32>,
    /// The fields beside the payload.
    fields: Vec<Value>,
}

impl Placements {
    fn add(&mut self, placed: &Placed, event: &Event<'_>) -> Result<(), RowFault> {
        match placed {
            Placed::Header(name, slot) => {
                self.headers.push(Header { name: Arc::clone(name), value: present(slot)?.bytes(event)? });
            }
            Placed::Partition(slot) => self.partition = present(slot)?.partition(event)?,
            Placed::Envelope(slot) => self.fields.push(present(slot)?.value(event)?),
        }
        Ok(())
    }
}

/// A fault for each option that has to name a column and names none.
fn unnamed_columns(options: &Options) -> Vec<OptionFault> {
    let columns = [
        ("table.field.event.id", Some(&options.table_field_event_id)),
        ("table.field.event.key", Some(&options.table_field_event_key)),
        ("table.field.event.payload", Some(&options.table_field_event_payload)),
        ("table.field.event.timestamp", options.table_field_event_timestamp.as_ref()),
        ("route.by.field", Some(&options.route_by_field)),
    ];
    let unnamed = columns.into_iter().filter(|(_, column)| column.is_some_and(String::is_empty));
    unnamed.map(|(option, _)| OptionFault::new(option, "it names no column")).collect()
}

/// What makes an envelope impossible: Debezium dies of it at every row (`SchemaBuilder.field`).
fn envelope_faults(options: &Options, connector: &Connector) -> Vec<OptionFault> {
    let fault = |reason: String| OptionFault::new("table.fields.additional.placement", reason);
    let mut faults = Vec::new();
    let mut names = std::collections::BTreeSet::from([body::PAYLOAD_FIELD]);
    for placement in &options.table_fields_additional_placement {
        if let Target::Envelope(name) = &placement.target
            && !names.insert(name)
        {
            faults.push(fault(format!(
                "the value would have two fields \"{name}\"; give column \"{}\" another alias: {}:envelope:alias",
                placement.column, placement.column
            )));
        }
    }
    if options.is_enveloped() && connector.value.writes_schemas() && connector.options.topic_prefix.is_none() {
        let reason =
            "the name of the value's schema begins with the connector's \"topic.prefix\"; set it beside the converters";
        faults.push(fault(reason.to_owned()));
    }
    faults
}

#[cfg(test)]
mod tests;
