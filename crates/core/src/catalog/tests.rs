use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;

use super::*;
use crate::description::{ColumnDescription, TypeDescription, TypeKind};
use crate::lsn::Lsn;
use crate::pgoutput::{Cell, Insert, Tuple};
use crate::poison::{Cause, Row};
use crate::position::{Identity, Timeline};
use crate::router::{Options, Router};
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
    catalog.described(id, &Description::default());
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

#[test]
fn an_outbox_is_known_once_it_is_described_and_each_time_that_it_is_told() {
    let mut catalog = catalog(&[("public", "outbox")]);
    let tell = |catalog: &mut Catalog, id, name| {
        catalog.learn(&Relation { id, namespace: "public", name, replica_identity: b'd', columns: SmallVec::new() })
    };
    for _ in 0..2 {
        tell(&mut catalog, 1, "outbox");
        assert_eq!(
            catalog.awaited().map(|(relation, table)| (relation, table.to_string())),
            Some((1, "public.outbox".to_owned()))
        );
        assert_eq!([catalog.take_question(), catalog.take_question()], [true, false], "it is asked once");
        assert_eq!(lookup(&mut catalog, 1), None, "not by its old shape either");
        catalog.described(2, &Description::default());
        assert!(catalog.is_awaiting(), "the answer was about another");
        catalog.described(1, &Description::default());
        assert!(!catalog.is_awaiting() && !catalog.take_question());
        assert_eq!(lookup(&mut catalog, 1).as_deref(), Some("public.outbox"));
    }
    tell(&mut catalog, 2, "orders");
    assert!(!catalog.is_awaiting(), "of another table nothing is asked");
    catalog.described(2, &Description::default());
    assert_eq!(lookup(&mut catalog, 2).as_deref(), Some("-"), "nor is an answer taken");
}

/// The payload of a row whose payload column has this type, as it would be published.
fn published_payload(catalog: &mut Catalog, described: &Description, type_id: u32, text: &[u8]) -> Vec<u8> {
    let column = |name, type_id| Column { flags: 0, name, type_id, type_modifier: -1 };
    let columns = ["id", "aggregatetype", "aggregateid"].map(|name| column(name, 25)).into_iter();
    let columns = columns.chain([column("payload", type_id)]).collect();
    catalog.learn(&Relation { id: 1, namespace: "public", name: "outbox", replica_identity: b'd', columns });
    catalog.described(1, described);
    let Some(Lookup::Outbox { outbox, binding, .. }) = catalog.outbox_of(1) else { panic!("no outbox") };
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
        let found = published_payload(&mut catalog, &Description::default(), DOMAIN, text.as_bytes());
        assert_eq!(found, published, "{namespace}.{name}");
    }
}

#[test]
fn a_domain_that_is_described_is_read_by_what_it_is_over_at_last() {
    const DOMAINS: [u32; 2] = [50_000, 50_001];
    let domain = |id, base| TypeDescription {
        id,
        schema: "public".to_owned(),
        name: "d".to_owned(),
        kind: TypeKind::Domain { base, type_modifier: -1, not_null: false, default: None },
    };
    let mut catalog = catalog(&[("public", "outbox")]);
    let cases: [(u32, &str, &[u8]); 4] = [
        (oid::BYTEA, r"\x0aff", &[0x0A, 0xFF]),
        (oid::BOOL, "t", b"true"),
        (oid::TEXT, r"\x0aff", br"\x0aff"),
        // What is over an enum, or over something that cannot be read, stays what it is: text to us.
        (60_000, "sad", b"sad"),
    ];
    for (base, text, published) in cases {
        let types = vec![domain(DOMAINS[1], base), domain(DOMAINS[0], DOMAINS[1])];
        let described = Description { types, ..Description::default() };
        for type_id in DOMAINS {
            assert_eq!(published_payload(&mut catalog, &described, type_id, text.as_bytes()), published, "{base}");
        }
    }
}

fn column(name: &'static str) -> Column<'static> {
    Column { flags: 0, name, type_id: oid::TEXT, type_modifier: -1 }
}

/// A letter of a row of four columns, as a relay with default options set it aside.
fn letter(record: Option<Record>) -> DeadLetter {
    let columns = ["id", "aggregatetype", "aggregateid", "payload"].map(column).into_iter().collect();
    let relation = Relation { id: 1, namespace: "public", name: "outbox", replica_identity: b'd', columns };
    let cells = [b"1".as_slice(), b"order", b"7", b"{}"].map(Cell::Text).into_iter().collect();
    let (mut told, mut insert) = (BytesMut::new(), BytesMut::new());
    Message::Relation(relation).encode(&mut told);
    Message::Insert(Insert { relation: 1, new: Tuple { cells } }).encode(&mut insert);
    DeadLetter {
        identity: Identity { timeline: Timeline(1), commit_lsn: Lsn::new(1), ordinal: 0 },
        commit_time: Timestamp::default(),
        table: TableName { schema: "public".to_owned(), table: "outbox".to_owned() },
        parking_key: None,
        event_id: None,
        cause: Cause::Parked,
        record,
        row: Row { relation: told.freeze(), insert: insert.freeze(), reference: None },
    }
}

fn described(names: &[&str]) -> Description {
    let columns = names.iter().map(|name| ColumnDescription {
        name: (*name).to_owned(),
        type_id: oid::TEXT,
        type_modifier: -1,
        not_null: false,
        default: None,
    });
    Description { columns: columns.collect(), types: Vec::new() }
}

fn routing_to(replacement: &str) -> Catalog {
    let router = Router::new(Options { route_topic_replacement: replacement.to_owned(), ..Options::default() });
    let table = TableName { schema: "public".to_owned(), table: "outbox".to_owned() };
    Catalog::new(Arc::from([Outbox { table, router: router.unwrap() }]))
}

#[test]
fn a_letter_goes_again_as_the_router_is_today_and_by_the_same_one_with_the_very_same_record() {
    let today = described(&["id", "aggregatetype", "aggregateid", "added", "payload"]);
    let as_it_was = routing_to("was.${routedByValue}").route_anew(&letter(None), &today).unwrap();
    assert_eq!(as_it_was.topic.as_ref(), "was.order");
    let stored = letter(Some(as_it_was.clone()));
    let same = routing_to("was.${routedByValue}").route_anew(&stored, &today);
    assert_eq!(same, Ok(as_it_was.clone()));
    let corrected = routing_to("now.${routedByValue}").route_anew(&stored, &today).unwrap();
    assert_eq!(corrected, Record { topic: Arc::from("now.order"), ..as_it_was });
}

#[test]
fn a_letter_whose_row_cannot_be_routed_any_more_goes_again_with_the_record_that_it_had() {
    let today = described(&["id", "aggregatetype", "aggregateid", "payload"]);
    let was = routing_to("was.${routedByValue}").route_anew(&letter(None), &today).unwrap();
    let damaged = |record| DeadLetter { row: Row::default(), ..letter(record) };
    let now = routing_to("now.${routedByValue}");
    let nothing = Catalog::new(Arc::from([]));
    let other = described(&["id", "aggregatetype", "note"]);
    let mut altered = today.clone();
    altered.columns[3].type_id = oid::BYTEA;
    for (what, catalog, letter_of, description) in [
        ("no outbox", &nothing, letter as fn(Option<Record>) -> DeadLetter, &today),
        ("damaged", &now, damaged, &today),
        ("dropped", &now, letter, &Description::default()),
        ("another table", &now, letter, &other),
        ("a column of another type", &now, letter, &altered),
    ] {
        assert_eq!(catalog.route_anew(&letter_of(Some(was.clone())), description), Ok(was.clone()), "{what}");
    }
    assert!(nothing.route_anew(&letter(None), &today).unwrap_err().reason.contains("no outbox any more"));
    assert!(now.route_anew(&damaged(None), &today).unwrap_err().reason.contains("cannot be read"));
}
