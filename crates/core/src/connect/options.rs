//! The options of the Debezium connector and of Connect's converters that decide what bytes a value becomes.

use crate::options::{self, KnownOption, OptionFault, Parsed, boolean, word};

/// What decides the bytes of keys, values and headers, under the names that the options have in Debezium and Kafka Connect, with
/// `_` for `.`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// `key.converter`, with its own options.
    pub key_converter: ConverterChoice,
    /// `value.converter`, with its own options.
    pub value_converter: ConverterChoice,
    /// `header.converter`, with its own options.
    pub header_converter: ConverterChoice,
    /// `topic.prefix`: the connector's logical name, which names of schemas begin with.
    pub topic_prefix: Option<String>,
    /// `topic.delimiter`: what stands between prefix, schema and table in such a name.
    pub topic_delimiter: String,
    /// `extended.headers.enabled`: whether four headers tell of the connector.
    pub extended_headers_enabled: bool,
    /// `decimal.handling.mode`
    pub decimal_handling_mode: DecimalHandling,
    /// `time.precision.mode`
    pub time_precision_mode: TimePrecision,
    /// `binary.handling.mode`
    pub binary_handling_mode: BinaryHandling,
    /// `hstore.handling.mode`
    pub hstore_handling_mode: HstoreHandling,
    /// `interval.handling.mode`
    pub interval_handling_mode: IntervalHandling,
    /// `money.fraction.digits`
    pub money_fraction_digits: u8,
    /// `include.unknown.datatypes`
    pub include_unknown_datatypes: bool,
    /// `schema.name.adjustment.mode`
    pub schema_name_adjustment_mode: SchemaNameAdjustment,
}

/// A converter by its class, and its options without the prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConverterChoice {
    /// The class, with or without its package.
    pub class: String,
    /// The options, in the order in which they were given.
    pub options: Vec<(String, String)>,
}

impl ConverterChoice {
    /// A converter without options.
    #[must_use]
    pub fn plain(class: &str) -> Self {
        Self { class: class.to_owned(), options: Vec::new() }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            key_converter: ConverterChoice::plain("StringConverter"),
            value_converter: ConverterChoice::plain("StringConverter"),
            header_converter: ConverterChoice::plain("SimpleHeaderConverter"),
            topic_prefix: None,
            topic_delimiter: ".".to_owned(),
            extended_headers_enabled: false,
            decimal_handling_mode: DecimalHandling::Precise,
            time_precision_mode: TimePrecision::Adaptive,
            binary_handling_mode: BinaryHandling::Bytes,
            hstore_handling_mode: HstoreHandling::Json,
            interval_handling_mode: IntervalHandling::Numeric,
            money_fraction_digits: 2,
            include_unknown_datatypes: false,
            schema_name_adjustment_mode: SchemaNameAdjustment::None,
        }
    }
}

/// What becomes of `numeric` and `money`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecimalHandling {
    /// Decimals with every digit.
    Precise,
    /// Floating point, which rounds.
    Double,
    /// Digits as text.
    String,
}

/// What becomes of dates, times and timestamps without time zone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimePrecision {
    /// Days, and milliseconds or microseconds by the column's precision.
    Adaptive,
    /// As adaptive, times always in microseconds.
    AdaptiveTimeMicroseconds,
    /// Connect's own types, in milliseconds.
    Connect,
    /// ISO 8601 as text.
    IsoString,
    /// Microseconds.
    Microseconds,
    /// Nanoseconds.
    Nanoseconds,
}

/// What becomes of `bytea`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BinaryHandling {
    /// Bytes.
    Bytes,
    /// Base64 as text.
    Base64,
    /// Base64 with the alphabet for URLs, as text.
    Base64UrlSafe,
    /// Hexadecimal digits as text.
    Hex,
}

/// What becomes of `hstore`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HstoreHandling {
    /// JSON as text.
    Json,
    /// A map.
    Map,
}

/// What becomes of `interval`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IntervalHandling {
    /// Microseconds, a month taken for 30.4375 days.
    Numeric,
    /// ISO 8601 as text.
    String,
}

/// How names of schemas are made fit for Avro.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaNameAdjustment {
    /// Not at all.
    None,
    /// What Avro does not allow becomes an underscore.
    Avro,
    /// What Avro does not allow becomes its Unicode number.
    AvroUnicode,
}

impl Options {
    /// Every option, but for the converters' own ones.
    #[must_use]
    pub fn known() -> &'static [KnownOption<Self>] {
        KNOWN
    }

    /// Reads options by name, from text. What is not given keeps its default.
    ///
    /// # Errors
    /// Every fault of a name or a value, all at once. Whether a converter exists and takes its options is for
    /// [`Converter::new`](crate::convert::Converter::new) to say.
    pub fn from_pairs<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Parsed<Self>, Vec<OptionFault>> {
        let (options, _, faults) = options::read(pairs, Self::set);
        if faults.is_empty() { Ok(Parsed { options, warnings: Vec::new() }) } else { Err(faults) }
    }

    fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if let Some(option) = KNOWN.iter().find(|option| option.name == name) {
            return (option.set)(self, value);
        }
        let converters = [
            ("key.converter.", &mut self.key_converter),
            ("value.converter.", &mut self.value_converter),
            ("header.converter.", &mut self.header_converter),
        ];
        for (prefix, converter) in converters {
            if let Some(own) = name.strip_prefix(prefix) {
                converter.options.push((own.to_owned(), value.to_owned()));
                return Ok(());
            }
        }
        Err(unknown(name))
    }
}

fn unknown(name: &str) -> String {
    match crate::nearest::nearest(name, KNOWN.iter().map(|option| option.name)) {
        Some(known) => format!("no such option decides the bytes of a record; did you mean \"{known}\"?"),
        None => "no such option decides the bytes of a record".to_owned(),
    }
}

/// The table of the options.
static KNOWN: &[KnownOption<Options>] = &[
    KnownOption {
        name: "key.converter",
        kind: "class",
        default: Some("StringConverter"),
        doc: "What makes bytes of the key: `StringConverter`, `JsonConverter`, `ByteArrayConverter` or `BinaryDataConverter`, with \
              or without the package, or one of Kafka's for a single type (`LongConverter` and so on). Its own options follow \
              the name: `key.converter.schemas.enable`.",
        set: |options, value| class(value).map(|to| options.key_converter.class = to),
    },
    KnownOption {
        name: "value.converter",
        kind: "class",
        default: Some("StringConverter"),
        doc: "What makes bytes of the value: as for the key. With `StringConverter` a payload of text, `json`, `jsonb` or `bytea` \
              passes byte for byte.",
        set: |options, value| class(value).map(|to| options.value_converter.class = to),
    },
    KnownOption {
        name: "header.converter",
        kind: "class",
        default: Some("SimpleHeaderConverter"),
        doc: "What makes bytes of the headers: `SimpleHeaderConverter`, or any converter that a key may have.",
        set: |options, value| class(value).map(|to| options.header_converter.class = to),
    },
    KnownOption {
        name: "topic.prefix",
        kind: "string",
        default: None,
        doc: "The connector's logical name. Names of schemas begin with it, and one of the extended headers holds it; nothing else \
              does, and no topic.",
        set: |options, value| {
            let value = value.trim();
            if value.is_empty() {
                return Err("an empty prefix names nothing".to_owned());
            }
            options.topic_prefix = Some(value.to_owned());
            Ok(())
        },
    },
    KnownOption {
        name: "topic.delimiter",
        kind: "string",
        default: Some("."),
        doc: "What stands between prefix, schema and table in the names of schemas. No topic has it.",
        set: |options, value| {
            let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
            let value = value.trim();
            if value.is_empty() || !value.bytes().all(is_legal) {
                return Err(format!("\"{value}\" is not of ASCII letters, digits, \".\", \"_\" and \"-\""));
            }
            options.topic_delimiter = value.to_owned();
            Ok(())
        },
    },
    KnownOption {
        name: "extended.headers.enabled",
        kind: "boolean",
        default: Some("false"),
        doc: "Whether four headers come first that tell of the connector: `__debezium.context.connectorLogicalName` (the \
              `topic.prefix`), `.taskId`, `.connectorName` and `.runId`, which is new whenever the process starts. (Debezium sends \
              them unless told not to.)",
        set: |options, value| boolean(value).map(|to| options.extended_headers_enabled = to),
    },
    KnownOption {
        name: "decimal.handling.mode",
        kind: "precise | double | string",
        default: Some("precise"),
        doc: "What becomes of `numeric` and `money`: decimals with every digit, floating point (which rounds), or text.",
        set: |options, value| word(value, DECIMALS).map(|to| options.decimal_handling_mode = to),
    },
    KnownOption {
        name: "time.precision.mode",
        kind: "adaptive | adaptive_time_microseconds | connect | isostring | microseconds | nanoseconds",
        default: Some("adaptive"),
        doc: "What becomes of `date`, `time` and `timestamp`: numbers in the unit of the column's precision, in Connect's own \
              milliseconds, in microseconds or nanoseconds, or ISO 8601 as text.",
        set: |options, value| word(value, PRECISIONS).map(|to| options.time_precision_mode = to),
    },
    KnownOption {
        name: "binary.handling.mode",
        kind: "bytes | base64 | base64-url-safe | hex",
        default: Some("bytes"),
        doc: "What becomes of `bytea`: bytes, or one of three texts.",
        set: |options, value| word(value, BINARIES).map(|to| options.binary_handling_mode = to),
    },
    KnownOption {
        name: "hstore.handling.mode",
        kind: "json | map",
        default: Some("json"),
        doc: "What becomes of `hstore`: JSON as text, or a map.",
        set: |options, value| word(value, HSTORES).map(|to| options.hstore_handling_mode = to),
    },
    KnownOption {
        name: "interval.handling.mode",
        kind: "numeric | string",
        default: Some("numeric"),
        doc: "What becomes of `interval`: microseconds, with a month of 30.4375 days, or ISO 8601 as text.",
        set: |options, value| word(value, INTERVALS).map(|to| options.interval_handling_mode = to),
    },
    KnownOption {
        name: "money.fraction.digits",
        kind: "number",
        default: Some("2"),
        doc: "How many digits of `money` stand after the point.",
        set: |options, value| {
            let digits = value.trim().parse().map_err(|_| format!("\"{value}\" is no number from 0 to 255"))?;
            options.money_fraction_digits = digits;
            Ok(())
        },
    },
    KnownOption {
        name: "include.unknown.datatypes",
        kind: "boolean",
        default: Some("false"),
        doc: "Whether columns of types that Debezium does not know are published as the bytes of their text. Without it they are \
              published as text. (Debezium leaves them out, and its router then dies of the missing field.)",
        set: |options, value| boolean(value).map(|to| options.include_unknown_datatypes = to),
    },
    KnownOption {
        name: "schema.name.adjustment.mode",
        kind: "none | avro | avro_unicode",
        default: Some("none"),
        doc: "How the names of schemas are made fit for Avro.",
        set: |options, value| word(value, ADJUSTMENTS).map(|to| options.schema_name_adjustment_mode = to),
    },
];

const DECIMALS: &[(&str, DecimalHandling)] =
    &[("precise", DecimalHandling::Precise), ("double", DecimalHandling::Double), ("string", DecimalHandling::String)];
const PRECISIONS: &[(&str, TimePrecision)] = &[
    ("adaptive", TimePrecision::Adaptive),
    ("adaptive_time_microseconds", TimePrecision::AdaptiveTimeMicroseconds),
    ("connect", TimePrecision::Connect),
    ("isostring", TimePrecision::IsoString),
    ("microseconds", TimePrecision::Microseconds),
    ("nanoseconds", TimePrecision::Nanoseconds),
];
const BINARIES: &[(&str, BinaryHandling)] = &[
    ("bytes", BinaryHandling::Bytes),
    ("base64", BinaryHandling::Base64),
    ("base64-url-safe", BinaryHandling::Base64UrlSafe),
    ("hex", BinaryHandling::Hex),
];
const HSTORES: &[(&str, HstoreHandling)] = &[("json", HstoreHandling::Json), ("map", HstoreHandling::Map)];
const INTERVALS: &[(&str, IntervalHandling)] =
    &[("numeric", IntervalHandling::Numeric), ("string", IntervalHandling::String)];
const ADJUSTMENTS: &[(&str, SchemaNameAdjustment)] = &[
    ("none", SchemaNameAdjustment::None),
    ("avro", SchemaNameAdjustment::Avro),
    ("avro_unicode", SchemaNameAdjustment::AvroUnicode),
];

fn class(value: &str) -> Result<String, String> {
    let value = value.trim();
    if value.is_empty() { Err("it names no class".to_owned()) } else { Ok(value.to_owned()) }
}
