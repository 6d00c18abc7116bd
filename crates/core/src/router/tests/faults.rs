//! Rows that cannot be published, and what is said of them.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;

#[test]
fn a_missing_column_is_named_with_the_option_and_the_columns_that_exist() {
    let cases = [
        ("table.field.event.id", "zz", "zz"),
        ("table.field.event.key", "zz", "zz"),
        ("table.field.event.payload", "Payload", "Payload"),
        ("table.field.event.timestamp", "zz", "zz"),
        ("route.by.field", "zz", "zz"),
        ("table.fields.additional.placement", "zz:header", "zz"),
        ("table.fields.additional.placement", "zz:partition", "zz"),
    ];
    for (option, value, column) in cases {
        let reason = fault(&[(option, value)], &[]);
        for part in [option, &format!("\"{column}\""), "shop.\"Outbox\"", "\"aggregateid\", \"type\""] {
            assert!(reason.contains(part), "{part}: {reason}");
        }
        let row = order_with(&[]);
        let binding = router(&[(option, value)]).bind(&relation(&row), &Description::default());
        let faults: Vec<&str> = binding.faults().map(|fault| fault.reason.as_str()).collect();
        assert_eq!(faults, [reason]);
    }
}

#[test]
fn a_type_that_cannot_play_a_role_is_named() {
    let placement = "table.fields.additional.placement";
    let (timestamp, route) = ("table.field.event.timestamp", "route.by.field");
    let cases: &[(Pairs<'_>, Field<'_>, &str)] = &[
        (&[(placement, "n:partition")], ("n", TEXT, Some("1")), placement),
        (&[(placement, "n:partition")], ("n", NUMERIC, Some("1")), placement),
        (&[(timestamp, "n")], ("n", 1082, Some("2019-03-24")), timestamp),
        (&[(timestamp, "n")], ("n", TEXT, Some("2019-03-24")), timestamp),
        (&[], ("aggregatetype", NUMERIC, Some("1")), route),
    ];
    for (options, field, option) in cases {
        let reason = fault(options, &[*field]);
        for part in [*option, &format!("\"{}\"", field.0), "what can be is"] {
            assert!(reason.contains(part), "{part}: {reason}");
        }
    }
}

#[test]
fn a_column_that_its_converter_does_not_take_is_named_with_what_to_do() {
    let row = order_with(&[]);
    for (converter, option) in
        [("key.converter", "table.field.event.key"), ("value.converter", "table.field.event.payload")]
    {
        let router = connected(&[], &[(converter, "ByteArrayConverter")]);
        let binding = router.bind(&relation(&row), &Description::default());
        let faults: Vec<&str> = binding.faults().map(|fault| fault.reason.as_str()).collect();
        assert_eq!(faults.len(), 1, "{faults:?}");
        for part in [option, "ByteArrayConverter takes bytes alone", "choose StringConverter"] {
            assert!(faults[0].contains(part), "{part}: {faults:?}");
        }
    }
}

#[test]
fn a_time_that_no_record_can_carry_is_the_rows_fault() {
    let cases = [
        (TIMESTAMP, "1969-12-31 23:59:59.5", "1970"),
        (INT8, "-500", "1970"),
        (TIMESTAMPTZ, "infinity", "infinite time"),
        (TIMESTAMPTZ, "-infinity", "infinite time"),
        (TIMESTAMP, "24.03.2019 20:52", "ISO style"),
        (INT8, "1.5", "bigint"),
    ];
    for (type_id, text, part) in cases {
        let reason = fault(&[("table.field.event.timestamp", "at")], &[("at", type_id, Some(text))]);
        assert!(reason.contains("\"at\"") && reason.contains(part), "{reason}");
    }
}

#[test]
fn of_several_faults_the_first_in_debeziums_order_is_told() {
    let order = ["payload", "at", "id", "aggregateid", "aggregatetype"];
    for missing in 0..order.len() {
        let mut row = order_with(&[("at", INT8, None)]);
        row.retain(|field| !order[missing..].contains(&field.0));
        let reason = route(&[("table.field.event.timestamp", "at")], &row).unwrap_err().reason;
        assert!(reason.starts_with(&format!("column \"{}\"", order[missing])), "{reason}");
    }
}

#[test]
fn cells_that_no_insert_has_are_faults_that_name_their_column() {
    let row = order_with(&[]);
    let router = router(&[]);
    let frame = Bytes::from_static(b"1");
    let good = Cell::Text(&frame);
    for (index, name) in ["id", "aggregatetype", "aggregateid", "type", "payload"].iter().enumerate() {
        for bad in [Cell::Unchanged, Cell::Binary(&frame)] {
            let mut cells = [good; 5];
            cells[index] = bad;
            let result =
                router.route(&mut router.bind(&relation(&row), &Description::default()), &event(&cells, &frame));
            match (*name, result) {
                ("type", result) => assert!(result.is_ok(), "a column without a role does not matter"),
                (name, result) => assert!(result.unwrap_err().reason.contains(&format!("\"{name}\""))),
            }
        }
    }
}

#[test]
fn a_row_of_another_width_than_its_table_is_at_fault() {
    let row = order_with(&[]);
    let router = router(&[]);
    let frame = Bytes::from_static(b"1");
    let mut binding = router.bind(&relation(&row), &Description::default());
    for width in [0, 4, 6] {
        let cells = vec![Cell::Text(&frame); width];
        let reason = router.route(&mut binding, &event(&cells, &frame)).unwrap_err().reason;
        assert!(reason.contains(&format!("{width} values")) && reason.contains("5 columns"), "{reason}");
    }
}

#[test]
fn text_that_is_not_utf_8_passes_except_as_a_route() {
    let row = order_with(&[]);
    let router = router(&[]);
    let frame = Bytes::from_static(&[b'1', 0xFF]);
    let mut binding = router.bind(&relation(&row), &Description::default());
    let (good, bad) = (Cell::Text(&frame[..1]), Cell::Text(&frame[1..]));
    let Routed::Record(record) = router.route(&mut binding, &event(&[bad, good, bad, bad, bad], &frame)).unwrap();
    assert_eq!(record.value.as_deref(), Some(&[0xFF][..]));
    assert_eq!(record.key.as_deref(), Some(&[0xFF][..]));
    let reason = router.route(&mut binding, &event(&[good, bad, good, good, good], &frame)).unwrap_err().reason;
    assert!(reason.contains("\"aggregatetype\"") && reason.contains("UTF-8"));
}

#[test]
fn the_table_of_the_catalogue_schema_is_named_although_the_server_leaves_the_schema_out() {
    let row = [("x", TEXT, None)];
    let unnamed = Relation { namespace: "", ..relation(&row) };
    let binding = router(&[]).bind(&unnamed, &Description::default());
    assert!(binding.faults().all(|fault| fault.reason.contains("pg_catalog.\"Outbox\"")));
    assert_eq!(binding.faults().count(), 4);
}

/// Any value that a column of this type could bring, and some that none could.
fn any_cell() -> impl Strategy<Value = Option<Vec<u8>>> {
    prop_oneof![
        Just(None),
        "[ -~]{0,12}".prop_map(|text| Some(text.into_bytes())),
        "\\\\x([0-9a-f]{2}){0,5}".prop_map(|text| Some(text.into_bytes())),
        "-?[0-9]{1,20}".prop_map(|text| Some(text.into_bytes())),
        "[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(\\.[0-9]{1,6})?([+-][0-9]{2})?( BC)?"
            .prop_map(|text| Some(text.into_bytes())),
        "[tf]".prop_map(|text| Some(text.into_bytes())),
        proptest::collection::vec(any::<u8>(), 0..20).prop_map(Some),
    ]
}

fn any_type() -> impl Strategy<Value = u32> {
    prop_oneof![
        proptest::sample::select(vec![
            BOOL,
            BYTEA,
            INT8,
            INT2,
            INT4,
            TEXT,
            JSON,
            BPCHAR,
            VARCHAR,
            TIMESTAMP,
            TIMESTAMPTZ,
            NUMERIC,
            UUID,
            JSONB,
            ENUM
        ]),
        any::<u32>(),
    ]
}

proptest! {
    #[test]
    fn no_row_panics_and_what_is_text_is_passed_as_a_slice_of_the_frame(
        cells in proptest::collection::vec((any_type(), any_cell()), 6),
    ) {
        let names = ["id", "aggregatetype", "aggregateid", "payload", "at", "part"];
        let fields: Vec<Field<'_>> = names.iter().zip(&cells).map(|(name, cell)| (*name, cell.0, None)).collect();
        let frame: Bytes = cells.iter().filter_map(|cell| cell.1.clone()).flatten().collect();
        let mut at = 0;
        let mut tuple = Vec::new();
        for (_, value) in &cells {
            tuple.push(value.as_ref().map_or(Cell::Null, |value| {
                at += value.len();
                Cell::Text(&frame[at - value.len()..at])
            }));
        }
        let router = router(&[
            ("table.field.event.timestamp", "at"),
            ("table.fields.additional.placement", "part:partition,aggregateid:header"),
        ]);
        let mut binding = router.bind(&relation(&fields), &Description::default());
        if let Ok(Routed::Record(record)) = router.route(&mut binding, &event(&tuple, &frame)) {
            for (index, part) in [(2, &record.key), (3, &record.value), (2, &record.headers[1].value)] {
                let (type_id, input) = &cells[index];
                prop_assert_eq!(part.is_none(), input.is_none());
                if let (Some(part), Some(input), false) = (part, input, [BOOL, BYTEA].contains(type_id)) {
                    prop_assert_eq!(&part[..], &input[..]);
                    prop_assert!(part.is_empty() || frame.as_ptr_range().contains(&part.as_ptr()));
                }
            }
            prop_assert!(record.timestamp_ms >= 0);
        }
    }
}
