//! From a row to a record, as Debezium's Outbox Event Router would make it.

use std::sync::Arc;

use crate::event::Event;
use crate::pgoutput::Relation;
use crate::poison::RowFault;
use crate::record::Record;

/// The router's options. Each bears Debezium's name for it in its documentation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `route.topic.replacement`.
    pub route_topic_replacement: String,
}

impl Default for Options {
    fn default() -> Self {
        Self { route_topic_replacement: "outbox.event.${routedByValue}".to_owned() }
    }
}

/// A fault of the options, found before anything runs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{option}: {reason}")]
pub struct OptionFault {
    /// Debezium's name of the option.
    pub option: &'static str,
    /// What is wrong and what to write instead.
    pub reason: String,
}

/// `table.op.invalid.behavior`: what an update of an outbox row does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InvalidOperation {
    /// It is logged as a warning and dropped.
    #[default]
    Warn,
    /// It is logged as an error and dropped.
    Error,
    /// It stops the relay.
    Fatal,
}

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
}

impl Router {
    /// A router with these options.
    ///
    /// # Errors
    /// Every option that cannot be honoured, all at once.
    pub fn new(options: Options) -> Result<Self, Vec<OptionFault>> {
        Ok(Self { options })
    }

    /// Finds the columns that play a role for this router in a relation. Never fails: a missing column is a fault of each row.
    #[must_use]
    pub fn bind(&self, relation: &Relation<'_>) -> Binding {
        let _ = (&self.options, relation);
        Binding { topic: Arc::from("") }
    }

    /// What an update of an outbox row does.
    #[must_use]
    pub fn on_update(&self) -> InvalidOperation {
        InvalidOperation::default()
    }

    /// Makes the record of a row.
    ///
    /// # Errors
    /// The row cannot be published: what is missing or does not fit.
    pub fn route(&self, binding: &mut Binding, event: &Event<'_>) -> Result<Routed, RowFault> {
        let _ = (binding, event);
        Err(RowFault::new("not routed"))
    }
}

/// Which column of a relation plays which role, and the topics seen so far. Lives as long as the relation's shape does.
#[derive(Debug)]
pub struct Binding {
    topic: Arc<str>,
}
