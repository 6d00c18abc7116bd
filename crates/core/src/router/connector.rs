//! What a Debezium connector and its Connect worker decide about the bytes of a record, ready to be used.

use std::sync::Arc;

use crate::connect::{Options, Schema, SchemaNameAdjustment, SchemaType, Value};
use crate::convert::{Converter, Prepared, Side};
use crate::options::OptionFault;
use crate::record::Header;

/// The connector that the records are made in the name of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Connector {
    pub(super) options: Options,
    pub(super) key: Converter,
    pub(super) value: Converter,
    pub(super) header: Converter,
    /// The headers that tell of the connector; none unless they were asked for.
    pub(super) context: Vec<Header>,
}

impl Default for Connector {
    /// Without options: no name, and text passes as it is.
    fn default() -> Self {
        Self::new(Options::default(), "").expect("the defaults are valid")
    }
}

impl Connector {
    /// A connector with these options. `run_id` is what the header `__debezium.context.runId` says: a UUID of this process.
    ///
    /// # Errors
    /// Every option that cannot be honoured, all at once.
    pub fn new(options: Options, run_id: &str) -> Result<Self, Vec<OptionFault>> {
        let mut faults = Vec::new();
        let mut converter = |choice, side| Converter::new(choice, side).map_err(|fault| faults.push(fault)).ok();
        let key = converter(&options.key_converter, Side::Key);
        let value = converter(&options.value_converter, Side::Value);
        let header = converter(&options.header_converter, Side::Header);
        let context = match &header {
            Some(header) if options.extended_headers_enabled => context_headers(&options, header, run_id),
            _ => Ok(Vec::new()),
        };
        let context = context.map_err(|fault| faults.push(fault)).ok();
        match (key, value, header, context) {
            (Some(key), Some(value), Some(header), Some(context)) if faults.is_empty() => {
                Ok(Self { options, key, value, header, context })
            }
            _ => Err(faults),
        }
    }

    /// The options that it was made with.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.options
    }

    /// A sentence for each option that changes nothing.
    pub fn warnings(&self) -> impl Iterator<Item = &str> {
        [&self.key, &self.value, &self.header].into_iter().flat_map(Converter::warnings).map(String::as_str)
    }

    /// The name of the schema of an enveloped value: the table's own (`<prefix>.<schema>.<table>.Value`), with the value that
    /// routes the row before its last part (`EventRouterDelegate.getSchemaName`). The table's own begins with the topic that its
    /// changes would go to, made a legal name of one, and is adjusted then; the route stays as it is.
    pub(super) fn envelope_name(&self, schema: &str, table: &str, route: &str) -> String {
        let prefix = self.options.topic_prefix.as_deref().unwrap_or_default();
        let between = &self.options.topic_delimiter;
        let topic = sanitized(&format!("{prefix}{between}{schema}{between}{table}"));
        let own = adjusted(&format!("{topic}.Value"), self.options.schema_name_adjustment_mode);
        match own.rsplit_once('.') {
            Some((before, last)) => format!("{before}.{route}.{last}"),
            None => format!("{route}.{own}"),
        }
    }
}

/// Debezium 3.6 writes these four, in this order, before all others (`CommonConnectorConfig`, `ExtendedHeaders`).
fn context_headers(options: &Options, converter: &Converter, run_id: &str) -> Result<Vec<Header>, OptionFault> {
    let fault = |reason: String| OptionFault::new("extended.headers.enabled", reason);
    let Some(prefix) = &options.topic_prefix else {
        return Err(fault("one of these headers says the connector's \"topic.prefix\"; set that too".to_owned()));
    };
    let text: Prepared = converter.prepare(Some(&Arc::new(Schema::of(SchemaType::String)))).map_err(|reason| {
        fault(format!(
            "these headers are text, and a column of text cannot be a header of this header.converter: {reason}"
        ))
    })?;
    let parts = [
        ("connectorLogicalName", prefix.as_str()),
        ("taskId", "0"),
        ("connectorName", "postgresql"),
        ("runId", run_id),
    ];
    let header = |(name, value): (&str, &str)| {
        let value = text.convert(&Value::String(value.to_owned().into())).map_err(|error| fault(error.to_string()))?;
        Ok(Header { name: format!("__debezium.context.{name}").into(), value })
    };
    parts.into_iter().map(header).collect()
}

/// A legal name of a topic: an underscore for each UTF-16 unit that is none of its characters, and no longer than it may be
/// (`AbstractTopicNamingStrategy.sanitizedTopicName`).
fn sanitized(topic: &str) -> String {
    const MAX_LENGTH: usize = 249;
    let is_legal = |character: char| character.is_ascii_alphanumeric() || matches!(character, '.' | '_' | '-');
    let units = topic.chars().flat_map(|character| match is_legal(character) {
        true => std::iter::repeat_n(character, 1),
        false => std::iter::repeat_n('_', character.len_utf16()),
    });
    units.take(MAX_LENGTH).collect()
}

/// A name made fit for Avro, by UTF-16 units as Java counts them (`SchemaNameAdjuster.validFullname`).
fn adjusted(name: &str, mode: SchemaNameAdjustment) -> String {
    let is_unicode = match mode {
        SchemaNameAdjustment::None => return name.to_owned(),
        SchemaNameAdjustment::Avro => false,
        SchemaNameAdjustment::AvroUnicode => true,
    };
    let mut adjusted = String::with_capacity(name.len());
    for (index, character) in name.chars().enumerate() {
        let starts = character.is_ascii_alphabetic() || (character == '_' && !is_unicode);
        if starts || (index > 0 && (character == '.' || character.is_ascii_digit())) {
            adjusted.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            adjusted.push_str(&if is_unicode { unicode_replacement(*unit) } else { "_".to_owned() });
        }
        // Two names that differ in their first digit alone stay apart.
        if character.is_ascii_digit() && !is_unicode {
            adjusted.push(character);
        }
    }
    adjusted
}

/// Java pads one and two digits alike, with two zeros (`UnicodeReplacementFunction`).
fn unicode_replacement(unit: u16) -> String {
    let padding = if unit <= 0xFF { "00" } else { "" };
    format!("_u{padding}{unit:x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_fit_for_avro_as_debezium_does() {
        let cases = [
            ("dbz.public.outbox.Value", "dbz.public.outbox.Value", "dbz.public.outbox.Value"),
            (
                "dbz-1.Sales Order.out_box.Value",
                "dbz_1.Sales_Order.out_box.Value",
                "dbz_u002d1.Sales_u0020Order.out_u005fbox.Value",
            ),
            ("1st.x", "_1st.x", "_u0031st.x"),
            ("é.日", "_._", "_u00e9._u65e5"),
            ("a😀", "a__", "a_ud83d_ude00"),
            ("\u{7}", "_", "_u007"),
        ];
        for (name, avro, unicode) in cases {
            assert_eq!(adjusted(name, SchemaNameAdjustment::None), name);
            assert_eq!(adjusted(name, SchemaNameAdjustment::Avro), avro, "{name}");
            assert_eq!(adjusted(name, SchemaNameAdjustment::AvroUnicode), unicode, "{name}");
        }
    }

    #[test]
    fn an_envelope_is_named_after_prefix_table_and_route() {
        let options = Options { topic_prefix: Some("dbz".to_owned()), ..Options::default() };
        let connector = Connector::new(options, "").unwrap();
        assert_eq!(connector.envelope_name("ob", "d", "Order"), "dbz.ob.d.Order.Value");
        assert_eq!(connector.envelope_name("ob", "d.e", "a.b"), "dbz.ob.d.e.a.b.Value");
        assert_eq!(connector.envelope_name("Sales", "Out Box é😀", "or der"), "dbz.Sales.Out_Box____.or der.Value");
        assert_eq!(connector.envelope_name("s", &"t".repeat(300), "r").len(), 249 + ".r.Value".len());
    }

    #[test]
    fn context_headers_need_the_prefix_that_they_tell() {
        let options = Options { extended_headers_enabled: true, ..Options::default() };
        let faults = Connector::new(options.clone(), "run").unwrap_err();
        assert!(faults[0].to_string().contains("topic.prefix"), "{faults:?}");
        let options = Options { topic_prefix: Some("dbz".to_owned()), ..options };
        let connector = Connector::new(options, "run").unwrap();
        let headers: Vec<_> =
            connector.context.iter().map(|header| (&*header.name, header.value.as_deref().unwrap())).collect();
        let expected: [(&str, &[u8]); 4] = [
            ("__debezium.context.connectorLogicalName", b"dbz"),
            ("__debezium.context.taskId", b"0"),
            ("__debezium.context.connectorName", b"postgresql"),
            ("__debezium.context.runId", b"run"),
        ];
        assert_eq!(headers, expected);
    }
}
