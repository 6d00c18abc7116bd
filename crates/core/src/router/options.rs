//! The options of the router, one field each, under Debezium's names with `_` for `.`.

mod former;

use super::known::KNOWN;
use super::placement::Placement;
use crate::expand;
use crate::nearest::nearest;
use crate::options::{self, KnownOption, OptionFault, Parsed};
use former::FORMER;

pub use former::FormerName;

/// The router's options. Each field bears Debezium's name for it; [`Options::known`] documents them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `table.op.invalid.behavior`: what an update of an outbox row leads to.
    pub table_op_invalid_behavior: InvalidOperation,
    /// `table.field.event.id`: the column that goes into the header `id`.
    pub table_field_event_id: String,
    /// `table.field.event.key`: the column that becomes the key.
    pub table_field_event_key: String,
    /// `table.field.event.type`: defined by Debezium, and read by nobody.
    pub table_field_event_type: String,
    /// `table.field.event.payload`: the column that becomes the value.
    pub table_field_event_payload: String,
    /// `table.field.event.timestamp`: the column that becomes the timestamp; the commit time without it.
    pub table_field_event_timestamp: Option<String>,
    /// `table.fields.additional.placement`: further columns and where they go, in order.
    pub table_fields_additional_placement: Vec<Placement>,
    /// `table.field.additional.missing`: what the absence of such a column means.
    pub table_field_additional_missing: Missing,
    /// `table.field.event.schema.version`: the column that versions the schema of an enveloped value.
    pub table_field_event_schema_version: Option<String>,
    /// `table.expand.json.payload`: whether a JSON payload becomes a structure.
    pub table_expand_json_payload: bool,
    /// `table.json.payload.null.behavior`: what becomes of nulls in an expanded payload.
    pub table_json_payload_null_behavior: NullBehavior,
    /// `table.json.payload.empty.array.behavior`: what becomes of empty arrays in an expanded payload.
    pub table_json_payload_empty_array_behavior: EmptyArrayBehavior,
    /// `field.name.adjustment.mode`: how names are adjusted in an expanded payload.
    pub field_name_adjustment_mode: FieldNameAdjustment,
    /// `route.by.field`: the column that chooses the topic.
    pub route_by_field: String,
    /// `route.topic.regex`: Java's regular expression that the value of that column has to match.
    pub route_topic_regex: String,
    /// `route.topic.replacement`: Java's replacement string that makes the topic of a match.
    pub route_topic_replacement: String,
    /// `route.tombstone.on.empty.payload`: whether an empty payload becomes a tombstone.
    pub route_tombstone_on_empty_payload: bool,
    /// `tracing.span.context.field`: the column with the context of a trace.
    pub tracing_span_context_field: String,
    /// `tracing.operation.name`: the name of the span.
    pub tracing_operation_name: String,
    /// `tracing.with.context.field.only`: whether only rows with a context are traced.
    pub tracing_with_context_field_only: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            table_op_invalid_behavior: InvalidOperation::Warn,
            table_field_event_id: "id".to_owned(),
            table_field_event_key: "aggregateid".to_owned(),
            table_field_event_type: "type".to_owned(),
            table_field_event_payload: "payload".to_owned(),
            table_field_event_timestamp: None,
            table_fields_additional_placement: Vec::new(),
            table_field_additional_missing: Missing::Error,
            table_field_event_schema_version: None,
            table_expand_json_payload: false,
            table_json_payload_null_behavior: NullBehavior::Ignore,
            table_json_payload_empty_array_behavior: EmptyArrayBehavior::Ignore,
            field_name_adjustment_mode: FieldNameAdjustment::None,
            route_by_field: "aggregatetype".to_owned(),
            route_topic_regex: super::topic::DEFAULT_REGEX.to_owned(),
            route_topic_replacement: "outbox.event.${routedByValue}".to_owned(),
            route_tombstone_on_empty_payload: false,
            tracing_span_context_field: "tracingspancontext".to_owned(),
            tracing_operation_name: "debezium-read".to_owned(),
            tracing_with_context_field_only: true,
        }
    }
}

/// What an update of an outbox row leads to. It is never published. Deletes are always ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum InvalidOperation {
    /// A warning.
    #[default]
    Warn,
    /// An error in the log.
    Error,
    /// The relay stops.
    Fatal,
}

/// What the absence of an additional column means.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Missing {
    /// The row is at fault.
    #[default]
    Error,
    /// The record goes without it.
    Ignore,
}

/// What becomes of nulls in an expanded payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NullBehavior {
    /// They are left out.
    #[default]
    Ignore,
    /// They are kept, as optional bytes.
    OptionalBytes,
}

/// What becomes of empty arrays in an expanded payload.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum EmptyArrayBehavior {
    /// They are left out.
    #[default]
    Ignore,
    /// They are kept, as arrays of optional strings.
    OptionalString,
}

/// How the names in an expanded payload are adjusted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FieldNameAdjustment {
    /// Not at all.
    #[default]
    None,
    /// What Avro does not allow becomes an underscore.
    Avro,
    /// What Avro does not allow becomes its Unicode number.
    AvroUnicode,
}

const MISSING: &str = "table.field.additional.missing";

impl Options {
    /// Every option that Debezium's router has, in the order of its documentation.
    #[must_use]
    pub fn known() -> &'static [KnownOption<Self>] {
        KNOWN
    }

    /// Every name that an option had in an earlier version, and that is still understood.
    #[must_use]
    pub fn former() -> &'static [FormerName] {
        FORMER
    }

    /// Reads options as Debezium does: by name, from text. What is not given keeps its default.
    ///
    /// # Errors
    /// Every fault of a name or a value, all at once. Whether the options can be honoured together is for
    /// [`Router::new`](super::Router::new) to say.
    pub fn from_pairs<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Parsed<Self>, Vec<OptionFault>> {
        let (options, seen, mut faults) = options::read(pairs, Self::set);
        faults.extend(former::repeated(&seen));
        if !faults.is_empty() {
            return Err(faults);
        }
        let mut warnings = options.without_effect();
        warnings.extend(seen.iter().filter_map(|name| former::find(name)).map(FormerName::warning));
        Ok(Parsed { options, warnings })
    }

    /// Whether a value is an envelope: one column at least is placed into it.
    pub(super) fn is_enveloped(&self) -> bool {
        self.table_fields_additional_placement.iter().any(Placement::is_envelope)
    }

    /// How JSON payloads are expanded, if they are.
    pub(super) fn expansion(&self) -> Option<expand::Settings> {
        self.table_expand_json_payload.then_some(expand::Settings {
            nulls: self.table_json_payload_null_behavior,
            empty_arrays: self.table_json_payload_empty_array_behavior,
            names: self.field_name_adjustment_mode,
        })
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if let Some(former) = former::find(name) {
            return self.set(former.now, &former.value(value)?);
        }
        match KNOWN.iter().find(|option| option.name == name) {
            Some(option) => (option.set)(self, value),
            None => Err(unknown(name)),
        }
    }

    /// A sentence for each option that was changed and changes nothing, given the others.
    fn without_effect(&self) -> Vec<String> {
        let default = Self::default();
        let unexpanded = !self.table_expand_json_payload;
        let idle = [
            (
                "table.field.event.type",
                self.table_field_event_type != default.table_field_event_type,
                "Debezium defines it and never reads it; list the column in \"table.fields.additional.placement\" instead",
            ),
            (
                "table.field.event.schema.version",
                self.table_field_event_schema_version.is_some() && !self.is_enveloped(),
                "it only concerns values that are enveloped, and no column is placed into an envelope",
            ),
            (
                "tracing.span.context.field",
                self.tracing_span_context_field != default.tracing_span_context_field,
                NO_TRACES,
            ),
            ("tracing.operation.name", self.tracing_operation_name != default.tracing_operation_name, NO_TRACES),
            ("tracing.with.context.field.only", !self.tracing_with_context_field_only, NO_TRACES),
            (
                "table.json.payload.null.behavior",
                unexpanded && self.table_json_payload_null_behavior != default.table_json_payload_null_behavior,
                NEEDS_EXPANSION,
            ),
            (
                "table.json.payload.empty.array.behavior",
                unexpanded
                    && self.table_json_payload_empty_array_behavior != default.table_json_payload_empty_array_behavior,
                NEEDS_EXPANSION,
            ),
            (
                "field.name.adjustment.mode",
                unexpanded && self.field_name_adjustment_mode != default.field_name_adjustment_mode,
                NEEDS_EXPANSION,
            ),
        ];
        let idle = idle.iter().filter(|(_, applies, _)| *applies);
        idle.map(|(name, _, why)| format!("{name}: it has no effect: {why}")).collect()
    }
}

/// Debezium makes spans only where somebody has put OpenTelemetry on its class path.
const NO_TRACES: &str = "no spans are made; place the column as a header, so that consumers can go on with its trace";

const NEEDS_EXPANSION: &str = "it only concerns payloads that \"table.expand.json.payload\" expands";

fn unknown(name: &str) -> String {
    let known = KNOWN.iter().map(|option| option.name);
    let names = || known.clone().chain(FORMER.iter().map(|former| former.name));
    if let Some(known) = names().find(|known| name.strip_suffix(known).is_some_and(|prefix| prefix.ends_with('.'))) {
        return format!("write \"{known}\", without the prefix of the connector");
    }
    match nearest(name, known.clone()) {
        Some(known) => format!("the outbox router has no such option; did you mean \"{known}\"?"),
        None => "the outbox router has no such option".to_owned(),
    }
}

#[cfg(test)]
mod tests;
