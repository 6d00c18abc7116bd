//! The table of the router's options.

use super::options::{EmptyArrayBehavior, FieldNameAdjustment, InvalidOperation, Missing, NullBehavior, Options};
use super::placement::Placement;
use crate::options::{KnownOption, boolean, word};

/// Every option, in the order of Debezium's documentation.
pub(super) static KNOWN: &[KnownOption<Options>] = &[
    KnownOption {
        name: "table.op.invalid.behavior",
        kind: "warn | error | fatal",
        default: Some("warn"),
        doc: "What an update of an outbox row leads to: a warning, an error in the log, or a stop of the relay. An update is \
              never published. It is seen only where the publication publishes updates, and the one that `walpost init` makes \
              does not. Deletes and truncations are ignored whatever this says.",
        set: |options, value| word(value, INVALID_OPERATIONS).map(|to| options.table_op_invalid_behavior = to),
    },
    KnownOption {
        name: "table.field.event.id",
        kind: "column",
        default: Some("id"),
        doc: "The column that goes into the header `id`, which always comes first. NULL makes a header with the null value.",
        set: |options, value| column(value).map(|to| options.table_field_event_id = to),
    },
    KnownOption {
        name: "table.field.event.key",
        kind: "column",
        default: Some("aggregateid"),
        doc: "The column that becomes the key of the record. NULL makes a record without a key.",
        set: |options, value| column(value).map(|to| options.table_field_event_key = to),
    },
    KnownOption {
        name: "table.field.event.type",
        kind: "column",
        default: Some("type"),
        doc: "Debezium defines this option and never reads it. To publish the event's type, place its column with \
              `table.fields.additional.placement`.",
        set: |options, value| column(value).map(|to| options.table_field_event_type = to),
    },
    KnownOption {
        name: "table.field.event.payload",
        kind: "column",
        default: Some("payload"),
        doc: "The column that becomes the value of the record: its own bytes. NULL makes a tombstone.",
        set: |options, value| column(value).map(|to| options.table_field_event_payload = to),
    },
    KnownOption {
        name: "table.field.event.timestamp",
        kind: "column",
        default: None,
        doc: "The column that becomes the timestamp of the record: `timestamp`, `timestamptz`, or an integer that counts \
              milliseconds since 1970. Without it, and where the column is NULL, it is the time of the commit, so that a \
              repeat carries the same timestamp. (Debezium takes the time of processing, and of the types only `timestamp`.)",
        set: |options, value| column(value).map(|to| options.table_field_event_timestamp = Some(to)),
    },
    KnownOption {
        name: "table.fields.additional.placement",
        kind: "list of column:header|partition|envelope[:alias]",
        default: None,
        doc: "Further columns and where they go, separated by commas: `header` adds a header, in this order and with \
              duplicates kept; `partition` takes an integer column as the number of the partition, where the last entry \
              wins and NULL leaves the choice to the producer; `envelope` makes the value a structure of `payload` and these columns.",
        set: |options, value| Placement::parse_list(value).map(|to| options.table_fields_additional_placement = to),
    },
    KnownOption {
        name: "table.field.additional.missing",
        kind: "error | ignore",
        default: Some("error"),
        doc: "What it means that the table lacks a column of `table.fields.additional.placement`: the row is at fault, or the \
              record goes without it. Up to Debezium 3.5 the option was `table.fields.additional.error.on.missing` (`true` \
              for `error`, `false` for `ignore`), a name that is still understood here.",
        set: |options, value| word(value, MISSING).map(|to| options.table_field_additional_missing = to),
    },
    KnownOption {
        name: "table.field.event.schema.version",
        kind: "column",
        default: None,
        doc: "The column, an integer, that versions the schema of an enveloped value, where the converter writes schemas. It is \
              ignored unless a column is placed into the envelope.",
        set: |options, value| column(value).map(|to| options.table_field_event_schema_version = Some(to)),
    },
    KnownOption {
        name: "table.expand.json.payload",
        kind: "boolean",
        default: Some("false"),
        doc: "Whether a payload that is text and begins with `{` or `[` becomes a structure before it is converted: with \
              `JsonConverter` JSON in JSON, rewritten by its rules. Without it JSON passes byte for byte.",
        set: |options, value| boolean(value).map(|to| options.table_expand_json_payload = to),
    },
    KnownOption {
        name: "table.json.payload.null.behavior",
        kind: "ignore | optional_bytes",
        default: Some("ignore"),
        doc: "What becomes of nulls in an expanded payload.",
        set: |options, value| word(value, NULLS).map(|to| options.table_json_payload_null_behavior = to),
    },
    KnownOption {
        name: "table.json.payload.empty.array.behavior",
        kind: "ignore | optional_string",
        default: Some("ignore"),
        doc: "What becomes of empty arrays in an expanded payload (Debezium 3.7 and later).",
        set: |options, value| word(value, EMPTY_ARRAYS).map(|to| options.table_json_payload_empty_array_behavior = to),
    },
    KnownOption {
        name: "field.name.adjustment.mode",
        kind: "none | avro | avro_unicode",
        default: Some("none"),
        doc: "How the names in an expanded payload are adjusted.",
        set: |options, value| word(value, ADJUSTMENTS).map(|to| options.field_name_adjustment_mode = to),
    },
    KnownOption {
        name: "route.by.field",
        kind: "column",
        default: Some("aggregatetype"),
        doc: "The column that chooses the topic. A row in which it is NULL is at fault.",
        set: |options, value| column(value).map(|to| options.route_by_field = to),
    },
    KnownOption {
        name: "route.topic.regex",
        kind: "Java regular expression",
        default: Some(super::topic::DEFAULT_REGEX),
        doc: "What the value of `route.by.field` has to match as a whole. A value that does not match is the topic itself.",
        set: |options, value| trimmed(value, "pattern").map(|to| options.route_topic_regex = to),
    },
    KnownOption {
        name: "route.topic.replacement",
        kind: "Java replacement string",
        default: Some("outbox.event.${routedByValue}"),
        doc: "What replaces the first match of `route.topic.regex` in a value that matches as a whole; the result is the topic. \
              The search starts anew, so it may find less than the whole: `Or|Order` finds `Or` in `Order` and leaves `der`.",
        set: |options, value| trimmed(value, "topic").map(|to| options.route_topic_replacement = to),
    },
    KnownOption {
        name: "route.tombstone.on.empty.payload",
        kind: "boolean",
        default: Some("false"),
        doc: "Whether a payload of blanks alone, or of nothing, becomes a tombstone. An empty `bytea` does not count as empty. \
              NULL becomes a tombstone whatever this says.",
        set: |options, value| boolean(value).map(|to| options.route_tombstone_on_empty_payload = to),
    },
    KnownOption {
        name: "tracing.span.context.field",
        kind: "column",
        default: Some("tracingspancontext"),
        doc: "The column with the context of a trace. No spans are made and the column is not read; place it as a header. \
              (Debezium reads it only where OpenTelemetry was put on its class path.)",
        set: |options, value| column(value).map(|to| options.tracing_span_context_field = to),
    },
    KnownOption {
        name: "tracing.operation.name",
        kind: "string",
        default: Some("debezium-read"),
        doc: "The name of the span. No spans are made.",
        set: |options, value| {
            options.tracing_operation_name = value.to_owned();
            Ok(())
        },
    },
    KnownOption {
        name: "tracing.with.context.field.only",
        kind: "boolean",
        default: Some("true"),
        doc: "Whether only rows with a context are traced. (Debezium documents `false` and acts by `true`.) No spans are \
              made.",
        set: |options, value| boolean(value).map(|to| options.tracing_with_context_field_only = to),
    },
];

const INVALID_OPERATIONS: &[(&str, InvalidOperation)] =
    &[("warn", InvalidOperation::Warn), ("error", InvalidOperation::Error), ("fatal", InvalidOperation::Fatal)];
const MISSING: &[(&str, Missing)] = &[("error", Missing::Error), ("ignore", Missing::Ignore)];
const NULLS: &[(&str, NullBehavior)] =
    &[("ignore", NullBehavior::Ignore), ("optional_bytes", NullBehavior::OptionalBytes)];
const EMPTY_ARRAYS: &[(&str, EmptyArrayBehavior)] =
    &[("ignore", EmptyArrayBehavior::Ignore), ("optional_string", EmptyArrayBehavior::OptionalString)];
const ADJUSTMENTS: &[(&str, FieldNameAdjustment)] = &[
    ("none", FieldNameAdjustment::None),
    ("avro", FieldNameAdjustment::Avro),
    ("avro_unicode", FieldNameAdjustment::AvroUnicode),
];

/// The name of a column, verbatim: PostgreSQL allows any.
fn column(value: &str) -> Result<String, String> {
    if value.is_empty() { Err("it names no column".to_owned()) } else { Ok(value.to_owned()) }
}

/// Kafka trims what it hands to its own router, of everything up to U+0020.
fn trimmed(value: &str, what: &str) -> Result<String, String> {
    let value = value.trim_matches(|ch: char| ch <= ' ');
    if value.is_empty() { Err(format!("an empty {what} routes nothing")) } else { Ok(value.to_owned()) }
}
