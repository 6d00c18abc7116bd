//! Values that are more than a payload, and what takes the place of NULL.

use super::*;
use crate::description::{ColumnDescription, TypeDescription, TypeKind};

const PLACEMENT: &str = "table.fields.additional.placement";
const JSON_OFF: Pairs<'static> = &[("value.converter", "JsonConverter"), ("value.converter.schemas.enable", "false")];
const JSON_ON: Pairs<'static> = &[("value.converter", "JsonConverter"), ("topic.prefix", "dbz")];

fn value_of(options: Pairs<'_>, connect: Pairs<'_>, changes: &[Field<'_>]) -> Option<String> {
    let router = connected(options, connect);
    let record = route_with(&router, &Description::default(), &order_with(changes)).unwrap();
    record.value.map(|value| String::from_utf8(value.to_vec()).unwrap())
}

/// The columns of the row, some of them with a DEFAULT.
fn described(defaults: &[(&str, u32, &str)]) -> Description {
    let columns = defaults.iter().map(|(name, type_id, default)| ColumnDescription {
        name: (*name).to_owned(),
        type_id: *type_id,
        type_modifier: -1,
        not_null: false,
        default: Some((*default).to_owned()),
    });
    Description { columns: columns.collect(), types: Vec::new() }
}

#[test]
fn an_envelope_holds_the_payload_and_the_columns_in_configured_order() {
    let placed = [(PLACEMENT, "type:envelope:eventType,aggregateid:envelope,n:envelope:ver,type:header")];
    let row = [("n", INT4, Some("1"))];
    let expected = r#"{"payload":"{\"id\": 1}","eventType":"OrderCreated","aggregateid":"1","ver":1}"#;
    assert_eq!(value_of(&placed, JSON_OFF, &row).as_deref(), Some(expected));
    let expected = "Struct{payload={\"id\": 1},eventType=OrderCreated,aggregateid=1,ver=1}";
    assert_eq!(value_of(&placed, &[], &row).as_deref(), Some(expected));
    let null = [("payload", JSONB, None)];
    let expected = r#"{"payload":null,"eventType":"OrderCreated"}"#;
    assert_eq!(value_of(&[(PLACEMENT, "type:envelope:eventType")], JSON_OFF, &null).as_deref(), Some(expected));
}

#[test]
fn a_column_that_may_be_missing_leaves_an_envelope_of_the_rest() {
    let options = [(PLACEMENT, "zz:envelope"), ("table.field.additional.missing", "ignore")];
    assert_eq!(value_of(&options, JSON_OFF, &[]).as_deref(), Some(r#"{"payload":"{\"id\": 1}"}"#));
}

#[test]
fn an_empty_payload_is_a_tombstone_of_an_envelope_too() {
    let options = [(PLACEMENT, "type:envelope"), ("route.tombstone.on.empty.payload", "true")];
    for payload in [None, Some(""), Some(" \n\t ")] {
        assert_eq!(value_of(&options, JSON_OFF, &[("payload", TEXT, payload)]), None, "{payload:?}");
    }
    assert!(value_of(&options, JSON_OFF, &[("payload", TEXT, Some("\u{A0}"))]).is_some());
}

#[test]
fn each_route_and_each_version_has_a_schema_of_its_own() {
    let options = [(PLACEMENT, "type:envelope"), ("table.field.event.schema.version", "v")];
    let router = connected(&options, JSON_ON);
    let row = order_with(&[("v", INT4, Some("1"))]);
    let mut binding = router.bind(&relation(&row), &Description::default());
    let mut schema_of = |route: &str, version: Option<&str>| {
        let row = order_with(&[("aggregatetype", VARCHAR, Some(route)), ("v", INT4, version)]);
        let frame: Bytes = row.iter().filter_map(|field| field.2).collect::<String>().into();
        let cells: Vec<Cell<'_>> =
            row.iter().map(|field| field.2.map_or(Cell::Null, |text| Cell::Text(text.as_bytes()))).collect();
        let Routed::Record(record) = router.route(&mut binding, &event(&cells, &frame)).unwrap();
        let value = String::from_utf8(record.value.unwrap().to_vec()).unwrap();
        let (_, name) = value.split_once(r#""optional":false,"name":"#).unwrap();
        name.split_once("},").unwrap().0.to_owned()
    };
    let name = |route: &str| format!(r#""dbz.shop.Outbox.{route}.Value""#);
    for _ in 0..2 {
        assert_eq!(schema_of("User", Some("1")), format!(r#"{},"version":1"#, name("User")));
        assert_eq!(schema_of("User", Some("2")), format!(r#"{},"version":2"#, name("User")));
        assert_eq!(schema_of("Address", None), name("Address"));
    }
}

#[test]
fn schemas_of_envelopes_need_the_prefix_that_their_names_begin_with() {
    let options = || Options::from_pairs([(PLACEMENT, "type:envelope")]).unwrap().options;
    let connect = connect::Options::from_pairs([("value.converter", "JsonConverter")]).unwrap().options;
    let connector = Connector::new(connect, "run").unwrap();
    let faults = Router::of_connector(options(), connector.clone()).unwrap_err();
    assert!(faults[0].to_string().contains("topic.prefix"), "{faults:?}");
    assert!(Router::of_connector(Options::default(), connector).is_ok(), "a payload alone has no name");
}

#[test]
fn json_is_expanded_alone_and_within_an_envelope() {
    let expand = ("table.expand.json.payload", "true");
    let json = [("payload", JSONB, Some(r#"{"a": [1, null], "b": {"c": "x"}, "n": null}"#))];
    let expected = r#"{"a":[1,null],"b":{"c":"x"}}"#;
    assert_eq!(value_of(&[expand], JSON_OFF, &json).as_deref(), Some(expected));
    let enveloped = [expand, (PLACEMENT, "type:envelope")];
    let expected = format!(r#"{{"payload":{expected},"type":"OrderCreated"}}"#);
    assert_eq!(value_of(&enveloped, JSON_OFF, &json), Some(expected));
    assert_eq!(value_of(&[expand], &[], &json).as_deref(), Some("Struct{a=[1, null],b=Struct{c=x}}"));
}

#[test]
fn a_document_that_ends_debeziums_task_is_published_whole() {
    let expand = ("table.expand.json.payload", "true");
    let array = [("payload", JSON, Some(r#"[{"a": 12345678901234567890}]"#))];
    assert_eq!(value_of(&[expand], JSON_OFF, &array).as_deref(), Some(r#"[{"a":12345678901234567890}]"#));
    assert_eq!(value_of(&[expand], &[], &array).as_deref(), Some(r#"[{"a": 12345678901234567890}]"#));
    let enveloped = [expand, (PLACEMENT, "type:envelope")];
    let expected = r#"{"payload":[{"a":12345678901234567890}],"type":"OrderCreated"}"#;
    assert_eq!(value_of(&enveloped, JSON_OFF, &array).as_deref(), Some(expected));
}

#[test]
fn a_default_takes_the_place_of_null_where_debezium_reads_it_so() {
    let options = [(PLACEMENT, "h:header,b:header,part:partition"), ("table.field.event.timestamp", "at")];
    let description = described(&[
        ("aggregateid", TEXT, "'DefKey'::text"),
        ("payload", JSONB, "'{\"d\": 1}'::jsonb"),
        ("h", TEXT, "'DefH'::text"),
        ("b", BOOL, "false"),
        ("part", INT4, "5"),
        ("at", TIMESTAMP, "'2019-03-24 20:52:59'::timestamp without time zone"),
    ]);
    let nulls = [
        ("aggregateid", TEXT, None),
        ("payload", JSONB, None),
        ("h", TEXT, None),
        ("b", BOOL, None),
        ("part", INT4, None),
        ("at", TIMESTAMP, None),
    ];
    let record = route_with(&router(&options), &description, &order_with(&nulls)).unwrap();
    assert_eq!((record.key.clone(), record.value.clone()), (bytes("DefKey"), bytes("{\"d\": 1}")));
    assert_eq!(headers(&record), [("id", Some(U)), ("h", Some("DefH")), ("b", Some("false"))]);
    assert_eq!((record.partition, record.timestamp_ms), (None, COMMIT_MS), "these are read without it");
    let route = described(&[("aggregatetype", TEXT, "'Order'::text")]);
    let fault = route_with(&router(&[]), &route, &order_with(&[("aggregatetype", TEXT, None)])).unwrap_err();
    assert!(fault.reason.contains("NULL"), "{fault}");
}

#[test]
fn a_column_of_a_domain_plays_the_roles_of_its_base() {
    let domain = |id, base| {
        let kind = TypeKind::Domain { base, type_modifier: -1, not_null: false, default: None };
        TypeDescription { id, schema: "public".to_owned(), name: format!("d{id}"), kind }
    };
    let types = vec![domain(50_001, INT8), domain(50_002, 50_003), domain(50_003, INT4), domain(50_004, TEXT)];
    let description = Description { columns: Vec::new(), types };
    let options = [(PLACEMENT, "part:partition"), ("table.field.event.timestamp", "at")];
    let row =
        [("at", 50_001, Some("1553460779123")), ("part", 50_002, Some("2")), ("aggregatetype", 50_004, Some("Order"))];
    let record = route_with(&router(&options), &description, &order_with(&row)).unwrap();
    assert_eq!((record.timestamp_ms, record.partition), (1_553_460_779_123, Some(2)));
    assert_eq!(&*record.topic, "outbox.event.Order");
}

#[test]
fn context_headers_come_first_in_the_form_of_the_header_converter() {
    let connect = [
        ("extended.headers.enabled", "true"),
        ("topic.prefix", "dbz"),
        ("header.converter", "JsonConverter"),
        ("header.converter.schemas.enable", "false"),
    ];
    let record = route_with(&connected(&[], &connect), &Description::default(), &order_with(&[])).unwrap();
    let quoted_id = format!("\"{U}\"");
    let expected = [
        ("__debezium.context.connectorLogicalName", Some("\"dbz\"")),
        ("__debezium.context.taskId", Some("\"0\"")),
        ("__debezium.context.connectorName", Some("\"postgresql\"")),
        ("__debezium.context.runId", Some("\"run\"")),
        ("id", Some(quoted_id.as_str())),
    ];
    assert_eq!(headers(&record), expected);
}
