//! Which relations of the stream are configured outboxes, and which of their columns play which role.
//!
//! The server sends a relation's shape before its first row on every connection, and again after each change, so a catalog
//! lives no longer than its connection, and a stale shape cannot outlive the one that it came from.
//!
//! A shape alone is not enough to bind an outbox: what pgoutput does not tell ([`Description`]) is asked for first, each time that
//! the shape is told. Until the answer comes the relation is unknown here, so that no row can be read by a shape that is stale or
//! half known; whoever feeds the catalog takes no frame meanwhile ([`Catalog::is_awaiting`]).
//!
//! Before a shape that needs them come its types that are not built in, a domain with the name of its base. That is what is left of
//! a domain which the catalogue has forgotten meanwhile.

mod shape;

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::description::Description;
use crate::event::Event;
use crate::outbox::{Outbox, Outboxes, TableName};
use crate::pgoutput::{Column, Message, Relation, Type};
use crate::poison::{DeadLetter, Letterhead, RowFault};
use crate::record::Record;
use crate::router::{Binding, Routed};
use crate::value::oid;

use shape::Shape;

/// See the module's documentation.
#[derive(Debug)]
pub struct Catalog {
    outboxes: Outboxes,
    relations: BTreeMap<u32, Entry>,
    /// The base types of domains, where those are ones whose values we can read.
    bases: BTreeMap<u32, u32>,
    /// The outbox whose description is awaited. One at most, for the next shape comes after it in the stream.
    undescribed: Option<Undescribed>,
}

/// What is known of a relation.
#[derive(Debug)]
enum Entry {
    /// The outbox with this place in the configuration, its columns by role, and what letters of its rows say of it.
    Outbox(usize, Box<Binding>, Arc<Letterhead>),
    Other,
}

/// An outbox whose shape was told.
#[derive(Debug)]
struct Undescribed {
    /// Its place in the configuration.
    place: usize,
    shape: Shape,
    /// The question was put.
    is_asked: bool,
}

/// What a relation is to the relay.
#[derive(Debug)]
pub enum Lookup<'a> {
    /// A configured outbox.
    Outbox {
        /// Its configuration.
        outbox: &'a Outbox,
        /// Its columns by role, as this connection sees them.
        binding: &'a mut Binding,
        /// What letters of its rows have in common.
        head: &'a Arc<Letterhead>,
    },
    /// A table that the publication carries and nobody configured.
    Other,
}

impl Catalog {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(outboxes: Outboxes) -> Self {
        Self { outboxes, relations: BTreeMap::new(), bases: BTreeMap::new(), undescribed: None }
    }

    /// The server told the shape of a relation. It replaces what was known of it; that of an outbox once it is
    /// [`described`](Self::described).
    ///
    /// Answers with the outbox that the relation was until now, where it is one no longer: the table was renamed.
    pub fn learn(&mut self, relation: &Relation<'_>) -> Option<TableName> {
        debug_assert!(!self.is_awaiting(), "no frame is taken while a description is awaited");
        // The server sends the empty name for its own schema (`logicalrep_write_namespace` in proto.c).
        let schema = if relation.namespace.is_empty() { "pg_catalog" } else { relation.namespace };
        let is_named = |table: &TableName| table.schema == schema && table.table == relation.name;
        match self.outboxes.iter().position(|outbox| is_named(&outbox.table)) {
            Some(place) => {
                self.relations.remove(&relation.id);
                self.undescribed = Some(Undescribed { place, shape: Shape::of(relation), is_asked: false });
                None
            }
            None => match self.relations.insert(relation.id, Entry::Other) {
                Some(Entry::Outbox(place, ..)) => self.outboxes.get(place).map(|outbox| outbox.table.clone()),
                Some(Entry::Other) | None => None,
            },
        }
    }

    /// Whether the description of an outbox is awaited.
    #[must_use]
    pub fn is_awaiting(&self) -> bool {
        self.undescribed.is_some()
    }

    /// Whether there is a question that was not put yet. Says so once.
    pub fn take_question(&mut self) -> bool {
        self.undescribed.as_mut().is_some_and(|awaited| !std::mem::replace(&mut awaited.is_asked, true))
    }

    /// The relation whose description is awaited, and which outbox it is.
    #[must_use]
    pub fn awaited(&self) -> Option<(u32, &TableName)> {
        let Undescribed { place, shape, .. } = self.undescribed.as_ref()?;
        Some((shape.id, &self.outboxes.get(*place)?.table))
    }

    /// What pgoutput did not tell of a relation. An answer that is not awaited changes nothing.
    pub fn described(&mut self, relation: u32, description: &Description) {
        let Some(Undescribed { place, shape, .. }) = self.undescribed.take_if(|awaited| awaited.shape.id == relation)
        else {
            return;
        };
        let told = self.based(shape.as_told(), description);
        if let Some(outbox) = self.outboxes.get(place) {
            let binding = outbox.router.bind(&told, description);
            let head = outbox.router.letterhead(outbox.table.clone(), &shape.as_told());
            self.relations.insert(relation, Entry::Outbox(place, Box::new(binding), Arc::new(head)));
        }
    }

    /// Makes the record of a letter's row as the configuration is today, which may have been corrected since it was set aside. The description is
    /// that of the row's relation now. Where the row cannot be routed any more, since it has no router or its relation is not what it was, the record
    /// is the one that it had.
    ///
    /// # Errors
    /// It still cannot be published.
    pub fn route_anew(&self, letter: &DeadLetter, description: &Description) -> Result<Record, RowFault> {
        let as_it_was = |reason: String| letter.record.clone().ok_or_else(|| RowFault::new(reason));
        let (relation, insert) = (Message::parse(&letter.row.relation), Message::parse(&letter.row.insert));
        let (Ok(Message::Relation(relation)), Ok(Message::Insert(insert))) = (relation, &insert) else {
            return as_it_was("the row that its letter keeps cannot be read".to_owned());
        };
        let Some(outbox) = self.outboxes.iter().find(|outbox| outbox.table == letter.table) else {
            return as_it_was(format!("{} is no outbox any more", letter.table));
        };
        if let Some(record) = &letter.record
            && !is_described(&relation, description)
        {
            return Ok(record.clone());
        }
        let mut binding = outbox.router.bind(&self.based(relation, description), description);
        let event = Event {
            identity: letter.identity,
            commit_time: letter.commit_time,
            cells: &insert.new.cells,
            frame: &letter.row.insert,
        };
        let Routed::Record(record) = outbox.router.route(&mut binding, &event)?;
        Ok(record)
    }

    /// The server told the name of a type that is not built in, or, of a domain, that of its base (`logicalrep_write_typ` in
    /// proto.c). Its own schema has the empty name.
    pub fn learn_type(&mut self, told: &Type<'_>) {
        match oid::of_name(told.name).filter(|_| told.namespace.is_empty()) {
            Some(base) => self.bases.insert(told.id, base),
            None => self.bases.remove(&told.id),
        };
    }

    /// The relation with base types in the place of domains that are no more: what the stream told stands in for their description.
    fn based<'r>(&self, mut relation: Relation<'r>, description: &Description) -> Relation<'r> {
        for column in &mut relation.columns {
            if description.type_of(column.type_id).is_none()
                && let Some(base) = self.bases.get(&column.type_id)
            {
                column.type_id = *base;
            }
        }
        relation
    }

    /// What a relation is; `None` where the server never told its shape, or nobody described it yet.
    pub fn outbox_of(&mut self, relation: u32) -> Option<Lookup<'_>> {
        Some(match self.relations.get_mut(&relation)? {
            Entry::Outbox(place, binding, head) => Lookup::Outbox { outbox: self.outboxes.get(*place)?, binding, head },
            Entry::Other => Lookup::Other,
        })
    }
}

/// Whether a description knows all columns of a relation, by name and type. That of a table which was dropped has none, in a database that was copied
/// another table may have the number, and what was of a type that is no more cannot be converted as it would have been.
fn is_described(relation: &Relation<'_>, description: &Description) -> bool {
    let is_known = |column: &Column<'_>| {
        description.column(column.name).is_some_and(|described| described.type_id == column.type_id)
    };
    relation.columns.iter().all(is_known)
}

#[cfg(test)]
mod tests;
