//! Where rows go.

use super::*;

#[test]
fn the_topic_is_made_as_java_makes_it() {
    let regex = "route.topic.regex";
    let replacement = "route.topic.replacement";
    let cases: &[(Pairs<'_>, &str, &str)] = &[
        (&[], "Order", "outbox.event.Order"),
        (&[], "", "outbox.event."),
        (&[], "Order.v1-x_Y", "outbox.event.Order.v1-x_Y"),
        (&[(regex, "Foo(.*)"), (replacement, "p.$1")], "Order", "Order"),
        (&[(regex, "(Or)(.*)"), (replacement, "$2.$1.events")], "Order", "der.Or.events"),
        (&[(regex, "Or|Order"), (replacement, "X")], "Order", "Xder"),
        (&[(replacement, "all.events")], "Order", "all.events"),
        (&[(replacement, "all.events")], "Kunde", "all.events"),
        (&[(regex, "(?<agg>[A-Za-z]+)\\.(?<v>v\\d+).*"), (replacement, "${v}.${agg}")], "Order.v1-x", "v1.Order"),
        (&[(regex, "(.*)\\.(.*)"), (replacement, "p.$2.$1")], "a.b.c", "p.c.a.b"),
        (&[(regex, " (?i)order.* "), (replacement, " o ")], "ORDERS", "o"),
        (&[(regex, "x(.*)"), (replacement, "p.$1")], "Order", "Order"),
    ];
    for (options, value, expected) in cases {
        let record = published(options, &[("aggregatetype", TEXT, Some(value))]);
        assert_eq!(&*record.topic, *expected, "{options:?} {value}");
    }
}

#[test]
fn the_route_can_be_a_uuid_and_whatever_else_has_a_text_form_without_a_guess() {
    let by_id = published(&[("route.by.field", "id")], &[]);
    assert_eq!(*by_id.topic, format!("outbox.event.{U}"));
    let cases =
        [(INT4, "7", "outbox.event.7"), (BOOL, "t", "outbox.event.true"), (ENUM, "Order", "outbox.event.Order")];
    for (type_id, text, expected) in cases {
        assert_eq!(&*published(&[], &[("aggregatetype", type_id, Some(text))]).topic, expected);
    }
}

#[test]
fn a_row_that_routes_nowhere_is_at_fault_and_says_why() {
    let replacement = "route.topic.replacement";
    let cases: &[(Pairs<'_>, Field<'_>, &[&str])] = &[
        (&[], ("aggregatetype", TEXT, None), &["\"aggregatetype\"", "NULL"]),
        (&[], ("aggregatetype", TEXT, Some("has space")), &["outbox.event.has space", "ASCII letters"]),
        (&[], ("aggregatetype", TEXT, Some("Or\nder")), &["Or\\nder"]),
        (&[], ("aggregatetype", TEXT, Some("Größe")), &["outbox.event.Größe"]),
        (&[(replacement, "p.x\\$y.${routedByValue}")], ("aggregatetype", TEXT, Some("Order")), &["p.x$y.Order"]),
        (&[(replacement, "$1")], ("aggregatetype", TEXT, Some("..")), &["\"..\""]),
        (&[(replacement, "$1")], ("aggregatetype", TEXT, Some("")), &["empty"]),
        (&[(replacement, "all.events")], ("aggregatetype", TEXT, Some("a\u{2028}b")), &["a\\u{2028}b"]),
        (&[], ("aggregatetype", BYTEA, Some("\\x00")), &["\"aggregatetype\"", "bytea", "route.by.field"]),
        (&[], ("aggregatetype", NUMERIC, Some("1")), &["\"aggregatetype\"", "route.by.field"]),
    ];
    for (options, field, parts) in cases {
        let reason = fault(options, &[*field]);
        for part in *parts {
            assert!(reason.contains(part), "{part}: {reason}");
        }
    }
    let long = "x".repeat(237);
    assert!(fault(&[], &[("aggregatetype", TEXT, Some(&long))]).contains("249"));
    assert_eq!(published(&[], &[("aggregatetype", TEXT, Some(&long[..236]))]).topic.len(), 249);
}
