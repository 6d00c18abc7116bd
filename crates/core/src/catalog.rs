//! Which relations of the stream are configured outboxes, and which of their columns play which role.
//!
//! The server sends a relation's shape before its first row on every connection, and again after each change, so a catalog
//! lives no longer than its connection, and a stale shape cannot outlive the one that it came from.

use std::collections::BTreeMap;

use crate::outbox::{Outbox, Outboxes, TableName};
use crate::pgoutput::Relation;
use crate::router::Binding;

/// See the module's documentation.
#[derive(Debug)]
pub struct Catalog {
    outboxes: Outboxes,
    relations: BTreeMap<u32, Entry>,
}

/// What is known of a relation.
#[derive(Debug)]
enum Entry {
    /// The outbox with this place in the configuration, and its columns by role.
    Outbox(usize, Box<Binding>),
    Other,
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
    },
    /// A table that the publication carries and nobody configured.
    Other,
}

impl Catalog {
    /// Nothing is known yet.
    #[must_use]
    pub fn new(outboxes: Outboxes) -> Self {
        Self { outboxes, relations: BTreeMap::new() }
    }

    /// The server told the shape of a relation. It replaces what was known of it.
    pub fn learn(&mut self, relation: &Relation<'_>) {
        // The server sends the empty name for its own schema (`logicalrep_write_namespace` in proto.c).
        let schema = if relation.namespace.is_empty() { "pg_catalog" } else { relation.namespace };
        let is_named = |table: &TableName| table.schema == schema && table.table == relation.name;
        let entry = match self.outboxes.iter().enumerate().find(|(_, outbox)| is_named(&outbox.table)) {
            Some((place, outbox)) => Entry::Outbox(place, Box::new(outbox.router.bind(relation))),
            None => Entry::Other,
        };
        self.relations.insert(relation.id, entry);
    }

    /// What a relation is; `None` where the server never told its shape.
    pub fn outbox_of(&mut self, relation: u32) -> Option<Lookup<'_>> {
        Some(match self.relations.get_mut(&relation)? {
            Entry::Outbox(place, binding) => Lookup::Outbox { outbox: self.outboxes.get(*place)?, binding },
            Entry::Other => Lookup::Other,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use smallvec::SmallVec;

    use super::*;
    use crate::router::{Options, Router};

    fn catalog(tables: &[(&str, &str)]) -> Catalog {
        let outbox = |(schema, table): &(&str, &str)| Outbox {
            table: TableName { schema: (*schema).to_owned(), table: (*table).to_owned() },
            router: Router::new(Options::default()).unwrap(),
        };
        Catalog::new(Arc::from(tables.iter().map(outbox).collect::<Vec<_>>()))
    }

    fn learn(catalog: &mut Catalog, id: u32, namespace: &str, name: &str) {
        catalog.learn(&Relation { id, namespace, name, replica_identity: b'd', columns: SmallVec::new() });
    }

    /// The name of the outbox that a relation is, `-` for another table, nothing for one that was never told.
    fn lookup(catalog: &mut Catalog, relation: u32) -> Option<String> {
        Some(match catalog.outbox_of(relation)? {
            Lookup::Outbox { outbox, .. } => outbox.table.to_string(),
            Lookup::Other => "-".to_owned(),
        })
    }

    #[test]
    fn a_relation_is_an_outbox_by_its_whole_name_and_its_case() {
        let mut catalog = catalog(&[("public", "outbox"), ("Shop", "Order.Outbox")]);
        let cases = [
            ("public", "outbox", "public.outbox"),
            ("Shop", "Order.Outbox", "\"Shop\".\"Order.Outbox\""),
            ("shop", "order.outbox", "-"),
            ("public", "Outbox", "-"),
            ("public", "outbox2", "-"),
            ("other", "outbox", "-"),
            ("", "outbox", "-"),
            ("public.outbox", "", "-"),
        ];
        for (id, (namespace, name, expected)) in (1..).zip(cases) {
            assert_eq!(lookup(&mut catalog, id), None);
            learn(&mut catalog, id, namespace, name);
            assert_eq!(lookup(&mut catalog, id).as_deref(), Some(expected), "{namespace}.{name}");
        }
    }

    #[test]
    fn the_empty_schema_is_the_servers_own() {
        let mut catalog = catalog(&[("pg_catalog", "outbox")]);
        learn(&mut catalog, 1, "", "outbox");
        assert_eq!(lookup(&mut catalog, 1).as_deref(), Some("pg_catalog.outbox"));
    }

    #[test]
    fn what_is_told_again_replaces_what_was_known() {
        let mut catalog = catalog(&[("public", "outbox")]);
        learn(&mut catalog, 1, "public", "outbox");
        learn(&mut catalog, 1, "public", "outbox_old");
        assert_eq!(lookup(&mut catalog, 1).as_deref(), Some("-"), "the table was renamed");
        learn(&mut catalog, 2, "public", "outbox");
        assert_eq!(lookup(&mut catalog, 2).as_deref(), Some("public.outbox"));
    }
}
