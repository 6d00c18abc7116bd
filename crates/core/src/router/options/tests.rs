use super::{EmptyArrayBehavior, FieldNameAdjustment, InvalidOperation, Missing, NullBehavior, Options, Parsed};
use crate::router::{Placement, Router, Target};

fn parsed(pairs: &[(&str, &str)]) -> Parsed<Options> {
    Options::from_pairs(pairs.iter().copied()).unwrap()
}

fn faults(pairs: &[(&str, &str)]) -> Vec<String> {
    Options::from_pairs(pairs.iter().copied()).unwrap_err().iter().map(ToString::to_string).collect()
}

#[test]
fn without_options_everything_has_debeziums_default() {
    assert_eq!(parsed(&[]), Parsed { options: Options::default(), warnings: vec![] });
}

#[test]
fn every_option_sets_its_own_field() {
    let placement = Placement { column: "type".to_owned(), target: Target::Header("type".into()) };
    let default = Options::default;
    let cases = [
        (
            ("table.op.invalid.behavior", " ERROR "),
            Options { table_op_invalid_behavior: InvalidOperation::Error, ..default() },
        ),
        (("table.field.event.id", "x"), Options { table_field_event_id: "x".into(), ..default() }),
        (("table.field.event.key", "x"), Options { table_field_event_key: "x".into(), ..default() }),
        (("table.field.event.type", "x"), Options { table_field_event_type: "x".into(), ..default() }),
        (("table.field.event.payload", "x"), Options { table_field_event_payload: "x".into(), ..default() }),
        (("table.field.event.timestamp", "x"), Options { table_field_event_timestamp: Some("x".into()), ..default() }),
        (
            ("table.fields.additional.placement", "type:header"),
            Options { table_fields_additional_placement: vec![placement], ..default() },
        ),
        (
            ("table.field.additional.missing", "ignore"),
            Options { table_field_additional_missing: Missing::Ignore, ..default() },
        ),
        (
            ("table.field.event.schema.version", "x"),
            Options { table_field_event_schema_version: Some("x".into()), ..default() },
        ),
        (("table.expand.json.payload", "True"), Options { table_expand_json_payload: true, ..default() }),
        (
            ("table.json.payload.null.behavior", "optional_bytes"),
            Options { table_json_payload_null_behavior: NullBehavior::OptionalBytes, ..default() },
        ),
        (
            ("table.json.payload.empty.array.behavior", "OPTIONAL_STRING"),
            Options { table_json_payload_empty_array_behavior: EmptyArrayBehavior::OptionalString, ..default() },
        ),
        (
            ("field.name.adjustment.mode", "avro_unicode"),
            Options { field_name_adjustment_mode: FieldNameAdjustment::AvroUnicode, ..default() },
        ),
        (("route.by.field", "x"), Options { route_by_field: "x".into(), ..default() }),
        (("route.topic.regex", " x\t"), Options { route_topic_regex: "x".into(), ..default() }),
        (("route.topic.replacement", "x"), Options { route_topic_replacement: "x".into(), ..default() }),
        (("route.tombstone.on.empty.payload", "true"), Options { route_tombstone_on_empty_payload: true, ..default() }),
        (("tracing.span.context.field", "x"), Options { tracing_span_context_field: "x".into(), ..default() }),
        (("tracing.operation.name", "x"), Options { tracing_operation_name: "x".into(), ..default() }),
        (("tracing.with.context.field.only", "false"), Options { tracing_with_context_field_only: false, ..default() }),
    ];
    let names: Vec<&str> = cases.iter().map(|case| case.0.0).collect();
    let known: Vec<&str> = Options::known().iter().map(|option| option.name).collect();
    assert_eq!(names, known);
    for (pair, expected) in cases {
        assert_eq!(parsed(&[pair]).options, expected, "{pair:?}");
        assert_ne!(expected, Options::default(), "{pair:?}");
    }
}

#[test]
fn the_documented_default_is_the_default() {
    for option in Options::known() {
        if let Some(default) = option.default {
            assert_eq!(parsed(&[(option.name, default)]).options, Options::default(), "{}", option.name);
        }
        assert!(option.doc.trim_end_matches(')').ends_with('.') && !option.doc.contains("  "), "{}", option.name);
    }
}

#[test]
fn every_fault_is_told_at_once_with_its_option() {
    let faults = faults(&[
        ("route.by.feild", "x"),
        ("table.op.invalid.behavior", "explode"),
        ("table.expand.json.payload", "1"),
        ("table.fields.additional.placement", "type:foo"),
        ("table.field.event.key", ""),
        ("route.topic.regex", " "),
    ]);
    let expected = [
        ["route.by.feild: ", "did you mean \"route.by.field\""],
        ["table.op.invalid.behavior: ", "\"explode\" is none of warn, error, fatal"],
        ["table.expand.json.payload: ", "\"1\" is none of true, false"],
        ["table.fields.additional.placement: ", "\"foo\" in entry 1"],
        ["table.field.event.key: ", "names no column"],
        ["route.topic.regex: ", "empty pattern"],
    ];
    assert_eq!(faults.len(), expected.len());
    for (fault, parts) in faults.iter().zip(expected) {
        assert!(fault.starts_with(parts[0]) && fault.contains(parts[1]), "{fault}");
    }
}

#[test]
fn a_name_with_the_connectors_prefix_is_refused_with_the_name_to_write() {
    let faults = faults(&[("transforms.outbox.route.by.field", "x")]);
    assert!(faults[0].contains("write \"route.by.field\""), "{faults:?}");
}

#[test]
fn a_name_that_resembles_nothing_is_refused_without_a_guess() {
    let faults = faults(&[("bootstrap.servers", "x")]);
    assert!(faults[0].contains("no such option") && !faults[0].contains("mean"), "{faults:?}");
}

#[test]
fn an_option_cannot_be_given_twice() {
    assert!(faults(&[("route.by.field", "x"), ("route.by.field", "x")])[0].contains("twice"));
}

#[test]
fn the_former_name_of_the_missing_option_is_understood_with_a_warning() {
    let former = "table.fields.additional.error.on.missing";
    for (value, expected) in [("true", Missing::Error), ("FALSE", Missing::Ignore)] {
        let Parsed { options, warnings } = parsed(&[(former, value)]);
        assert_eq!(options.table_field_additional_missing, expected);
        assert!(warnings[0].contains(former) && warnings[0].contains("table.field.additional.missing"));
    }
    assert!(faults(&[(former, "no")])[0].contains("\"no\" is none of true, false"));
    assert!(faults(&[(former, "true"), ("table.field.additional.missing", "error")])[0].contains("former name"));
}

#[test]
fn every_former_name_is_understood_with_a_warning_that_names_the_new_one() {
    for former in Options::former() {
        assert!(Options::known().iter().any(|option| option.name == former.now), "{}", former.now);
        let value = match former.name {
            "table.fields.additional.error.on.missing" => "false",
            "debezium.op.invalid.behavior" => "fatal",
            _ => "other",
        };
        let Parsed { options, warnings } = parsed(&[(former.name, value)]);
        let now = parsed(&[(former.now, former.value(value).unwrap().as_str())]);
        assert_eq!(options, now.options, "{}", former.name);
        assert_ne!(options, Options::default(), "{}", former.name);
        assert!(warnings.iter().any(|warning| warning.contains(former.name) && warning.contains(former.now)));
        let both = faults(&[(former.name, value), (former.now, &former.value(value).unwrap())]);
        assert!(both.len() == 1 && both[0].starts_with(former.name) && both[0].contains("remove"), "{both:?}");
    }
}

#[test]
fn two_former_names_of_one_option_are_refused() {
    let faults = faults(&[("table.field.payload.id", "a"), ("table.field.event.payload.id", "b")]);
    assert!(faults.len() == 1 && faults[0].contains("given too"), "{faults:?}");
}

#[test]
fn a_former_name_with_the_connectors_prefix_is_refused_with_the_name_to_write() {
    let faults = faults(&[("transforms.outbox.debezium.op.invalid.behavior", "warn")]);
    assert!(faults[0].contains("write \"debezium.op.invalid.behavior\""), "{faults:?}");
}

#[test]
fn an_option_without_effect_is_accepted_with_a_warning() {
    let idle = [
        ("table.field.event.type", "kind"),
        ("table.field.event.schema.version", "version"),
        ("table.json.payload.null.behavior", "optional_bytes"),
        ("table.json.payload.empty.array.behavior", "optional_string"),
        ("field.name.adjustment.mode", "avro"),
    ];
    for pair in idle {
        let Parsed { options, warnings } = parsed(&[pair]);
        assert_eq!(warnings.len(), 1);
        assert!(warnings[0].starts_with(pair.0) && warnings[0].contains("no effect"), "{warnings:?}");
        assert!(Router::new(options).is_ok());
    }
}

#[test]
fn what_cannot_be_honoured_together_is_refused_all_at_once() {
    let pairs = [
        ("table.fields.additional.placement", "type:envelope:payload,id:envelope:e,version:envelope:e,id:header:e"),
        ("route.topic.regex", "("),
    ];
    let faults = Router::new(parsed(&pairs).options).unwrap_err();
    let said: Vec<String> = faults.iter().map(ToString::to_string).collect();
    assert_eq!(said.len(), 3, "{said:?}");
    assert!(said[0].contains("two fields \"payload\"") && said[0].contains("type:envelope:alias"), "{said:?}");
    assert!(said[1].contains("two fields \"e\"") && said[1].contains("version:envelope:alias"), "{said:?}");
    assert!(said[2].starts_with("route.topic.regex"), "{said:?}");
}

#[test]
fn options_that_name_no_column_are_refused_however_they_were_made() {
    let options = Options {
        table_field_event_id: String::new(),
        table_field_event_timestamp: Some(String::new()),
        route_by_field: String::new(),
        ..Options::default()
    };
    let faults = Router::new(options).unwrap_err();
    let names: Vec<&str> = faults.iter().map(|fault| fault.option.as_ref()).collect();
    assert_eq!(names, ["table.field.event.id", "table.field.event.timestamp", "route.by.field"]);
}

#[test]
fn a_replacement_that_java_would_refuse_at_every_row_is_refused_at_the_start() {
    let cases = [
        ("x.${nope}", "\"nope\""),
        ("x.$4", "character 3"),
        ("x.$", "neither a number nor {name}"),
        ("x.${routedByValue", "not closed"),
        ("x\\", "escapes nothing"),
        ("no topic", "legal"),
    ];
    for (replacement, part) in cases {
        let options = parsed(&[("route.topic.replacement", replacement)]).options;
        let faults = Router::new(options).unwrap_err();
        assert_eq!(faults[0].option, "route.topic.replacement");
        assert!(faults[0].reason.contains(part), "{}", faults[0].reason);
    }
}
