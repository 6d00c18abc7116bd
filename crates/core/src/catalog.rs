//! Which relations of the stream are configured outboxes, and which of their columns play which role.
//!
//! The server sends a relation's shape before its first row on every connection, and again after each change, so a catalog
//! lives no longer than its connection, and a stale shape cannot outlive the one that it came from.
//!
//! Before a shape that needs them come its types that are not built in, a domain with the name of its base. A column of a
//! domain is read as one of its base type: a domain over `bytea` holds bytes and not their hexadecimal text.

use std::collections::BTreeMap;

use crate::description::Description;
use crate::outbox::{Outbox, Outboxes, TableName};
use crate::pgoutput::{Relation, Type};
use crate::router::Binding;
use crate::value::oid;

/// See the module's documentation.
#[derive(Debug)]
pub struct Catalog {
    outboxes: Outboxes,
    relations: BTreeMap<u32, Entry>,
    /// The base types of domains, where those are ones whose values we can read.
    bases: BTreeMap<u32, u32>,
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
        Self { outboxes, relations: BTreeMap::new(), bases: BTreeMap::new() }
    }

    /// The server told the shape of a relation. It replaces what was known of it.
    ///
    /// Answers with the outbox that the relation was until now, where it is one no longer: the table was renamed.
    pub fn learn(&mut self, relation: &Relation<'_>) -> Option<TableName> {
        // The server sends the empty name for its own schema (`logicalrep_write_namespace` in proto.c).
        let schema = if relation.namespace.is_empty() { "pg_catalog" } else { relation.namespace };
        let is_named = |table: &TableName| table.schema == schema && table.table == relation.name;
        let entry = match self.outboxes.iter().enumerate().find(|(_, outbox)| is_named(&outbox.table)) {
            Some((place, outbox)) => {
                Entry::Outbox(place, Box::new(outbox.router.bind(&self.based(relation), &Description::default())))
            }
            None => Entry::Other,
        };
        let is_outbox = matches!(entry, Entry::Outbox(..));
        match self.relations.insert(relation.id, entry) {
            Some(Entry::Outbox(place, _)) if !is_outbox => self.outboxes.get(place).map(|outbox| outbox.table.clone()),
            Some(Entry::Outbox(..) | Entry::Other) | None => None,
        }
    }

    /// The server told the name of a type that is not built in, or, of a domain, that of its base (`logicalrep_write_typ` in
    /// proto.c). Its own schema has the empty name.
    pub fn learn_type(&mut self, told: &Type<'_>) {
        match oid::of_name(told.name).filter(|_| told.namespace.is_empty()) {
            Some(base) => self.bases.insert(told.id, base),
            None => self.bases.remove(&told.id),
        };
    }

    /// The relation with base types in the place of domains.
    fn based<'r>(&self, relation: &Relation<'r>) -> Relation<'r> {
        let mut based = relation.clone();
        for column in &mut based.columns {
            column.type_id = self.bases.get(&column.type_id).copied().unwrap_or(column.type_id);
        }
        based
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

    use bytes::Bytes;
    use smallvec::SmallVec;

    use super::*;
    use crate::event::Event;
    use crate::lsn::Lsn;
    use crate::pgoutput::{Cell, Column};
    use crate::position::{Identity, Timeline};
    use crate::router::{Options, Routed, Router};
    use crate::time::Timestamp;

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

    /// The payload of a row whose payload column has this type, as it would be published.
    fn published_payload(catalog: &mut Catalog, type_id: u32, text: &[u8]) -> Vec<u8> {
        let column = |name, type_id| Column { flags: 0, name, type_id, type_modifier: -1 };
        let columns = ["id", "aggregatetype", "aggregateid"].map(|name| column(name, 25)).into_iter();
        let columns = columns.chain([column("payload", type_id)]).collect();
        catalog.learn(&Relation { id: 1, namespace: "public", name: "outbox", replica_identity: b'd', columns });
        let Some(Lookup::Outbox { outbox, binding }) = catalog.outbox_of(1) else { panic!("no outbox") };
        let cells = [b"1".as_slice(), b"order", b"7", text].map(Cell::Text);
        let identity = Identity { timeline: Timeline(1), commit_lsn: Lsn::new(1), ordinal: 0 };
        let (commit_time, frame) = (Timestamp::default(), Bytes::new());
        let routed = outbox.router.route(binding, &Event { identity, commit_time, cells: &cells, frame: &frame });
        let Routed::Record(record) = routed.unwrap();
        record.value.unwrap().to_vec()
    }

    #[test]
    fn a_column_of_a_domain_is_read_as_one_of_its_base() {
        const DOMAIN: u32 = 50_000;
        let mut catalog = catalog(&[("public", "outbox")]);
        let tell = |catalog: &mut Catalog, namespace, name| catalog.learn_type(&Type { id: DOMAIN, namespace, name });
        let cases: [(&str, &str, &str, &[u8]); 5] = [
            ("", "bytea", r"\x0aff", &[0x0A, 0xFF]),
            ("", "bool", "t", b"true"),
            ("", "text", r"\x0aff", br"\x0aff"),
            // Somebody's own type of the same name, and one that is text to us.
            ("public", "bytea", r"\x0aff", br"\x0aff"),
            ("public", "mood", "sad", b"sad"),
        ];
        for (namespace, name, text, published) in cases {
            tell(&mut catalog, namespace, name);
            assert_eq!(published_payload(&mut catalog, DOMAIN, text.as_bytes()), published, "{namespace}.{name}");
        }
    }
}
