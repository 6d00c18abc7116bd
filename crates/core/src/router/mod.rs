//! From a row to a record, as Debezium's Outbox Event Router would make it.
//!
//! A row is looked at in Debezium's order (`EventRouterDelegate.apply`): payload column, timestamp, headers and partition,
//! value, key, topic. So a row with several faults is refused for the one that Debezium would have died of. Where Debezium
//! dies of what can be published without a guess, it is published: a `timestamptz` as the timestamp, an integer as the route.
//!
//! What it refuses to do: change a payload. Without a converter in the configuration the value is the payload column's own
//! bytes, a slice of what PostgreSQL sent. Options whose meaning is not built yet are refused by name when the relay starts,
//! never ignored at a row.
//!
//! On the plain path an event costs no allocation: the parts of the record are slices of the frame, header names and topics
//! are shared.

mod binding;
mod java;
mod known;
mod options;
mod placement;
mod read;
mod topic;

use std::sync::Arc;

use bytes::Bytes;

pub use self::binding::Binding;
pub use self::options::{
    EmptyArrayBehavior, FieldNameAdjustment, InvalidOperation, KnownOption, Missing, NullBehavior, OptionFault,
    Options, Parsed,
};
pub use self::placement::{Placement, Target};

use self::binding::{Column, Placed, Slot};
use self::topic::{Memory, Routes};
use crate::description::Description;
use crate::event::Event;
use crate::pgoutput::Relation;
use crate::poison::RowFault;
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
    routes: Routes,
}

impl Router {
    /// A router with these options.
    ///
    /// # Errors
    /// Every option that cannot be honoured, all at once.
    pub fn new(options: Options) -> Result<Self, Vec<OptionFault>> {
        let mut faults = unnamed_columns(&options);
        faults.extend(not_built_yet(&options));
        match Routes::new(&options) {
            Ok(routes) if faults.is_empty() => Ok(Self { options, routes }),
            Ok(_) => Err(faults),
            Err(fault) => {
                faults.push(fault);
                Err(faults)
            }
        }
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
        Binding::new(&self.options, relation, description)
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
        let payload = present(&binding.payload)?;
        let timestamp_ms = timestamp_ms(binding.timestamp.as_ref(), event)?;
        let value = self.value(payload, event)?;
        let (headers, partition) = placed(&binding.placed, event)?;
        let key = present(&binding.key)?.own_bytes(event)?;
        let topic = self.topic(present(&binding.route)?, &mut binding.memory, event)?;
        Ok(Routed::Record(Record { identity: event.identity, topic, key, value, headers, timestamp_ms, partition }))
    }

    /// NULL is a tombstone in any case. With `route.tombstone.on.empty.payload` so is a text of which Java's `trim` leaves
    /// nothing, that is of characters up to U+0020 alone; an empty `bytea` is not.
    fn value(&self, payload: &Column, event: &Event<'_>) -> Result<Option<Bytes>, RowFault> {
        let value = payload.own_bytes(event)?;
        let may_vanish = self.options.route_tombstone_on_empty_payload && payload.kind.is_textual();
        Ok(value.filter(|bytes| !(may_vanish && bytes.iter().all(|byte| *byte <= b' '))))
    }

    fn topic(&self, column: &Column, memory: &mut Memory, event: &Event<'_>) -> Result<Arc<str>, RowFault> {
        match column.route(event)? {
            Some(value) => self.routes.topic(value, memory).map_err(|reason| column.fault(reason)),
            None => Err(column.fault("is NULL, so the row routes to no topic")),
        }
    }
}

fn present(slot: &Slot) -> Result<&Column, RowFault> {
    slot.as_ref().map_err(Clone::clone)
}

/// The configured column, or else the time of the commit: so that a repeat carries the same.
fn timestamp_ms(slot: Option<&Slot>, event: &Event<'_>) -> Result<i64, RowFault> {
    let configured = match slot {
        Some(slot) => present(slot)?.timestamp_ms(event)?,
        None => None,
    };
    Ok(configured.unwrap_or_else(|| event.commit_time.unix_millis()))
}

/// The headers in order, and the partition that the last entry chooses.
fn placed(columns: &[Placed], event: &Event<'_>) -> Result<(Headers, Option<i32>), RowFault> {
    let mut headers = Headers::new();
    let mut partition = None;
    for placed in columns {
        match placed {
            Placed::Header(name, slot) => {
                headers.push(Header { name: Arc::clone(name), value: present(slot)?.header_bytes(event)? });
            }
            Placed::Partition(slot) => partition = present(slot)?.partition(event)?,
        }
    }
    Ok((headers, partition))
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

/// A fault for each option that asks for what is not built yet.
fn not_built_yet(options: &Options) -> Vec<OptionFault> {
    let default = Options::default();
    let envelope = options.table_fields_additional_placement.iter().find(|placement| placement.is_envelope());
    let mut faults = Vec::new();
    if let Some(placement) = envelope {
        faults.push(OptionFault::new(
            "table.fields.additional.placement",
            format!("column \"{}\" cannot be placed into an envelope yet; place it as a header", placement.column),
        ));
    }
    if options.table_expand_json_payload {
        let reason = "payloads cannot be expanded yet, they pass byte for byte; leave it false";
        faults.push(OptionFault::new("table.expand.json.payload", reason));
    }
    let tracing = [
        ("tracing.span.context.field", options.tracing_span_context_field != default.tracing_span_context_field),
        ("tracing.operation.name", options.tracing_operation_name != default.tracing_operation_name),
        ("tracing.with.context.field.only", !options.tracing_with_context_field_only),
    ];
    let reason = "traces are not passed on yet; leave the option out, or place the column as a header";
    let tracing = tracing.into_iter().filter(|(_, is_set)| *is_set);
    faults.extend(tracing.map(|(option, _)| OptionFault::new(option, reason)));
    faults
}

#[cfg(test)]
mod tests;
