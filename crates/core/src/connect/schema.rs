//! Schemas, as `org.apache.kafka.connect.data.Schema` has them.

use std::sync::Arc;

use super::Value;

/// Names of logical types: what Debezium and Connect mean by a schema of that name.
pub mod logical {
    /// An arbitrary-precision number, as the bytes of its unscaled value.
    pub const DECIMAL: &str = "org.apache.kafka.connect.data.Decimal";
    /// Days since 1970, in Connect's own mode.
    pub const CONNECT_DATE: &str = "org.apache.kafka.connect.data.Date";
    /// Milliseconds since midnight, in Connect's own mode.
    pub const CONNECT_TIME: &str = "org.apache.kafka.connect.data.Time";
    /// Milliseconds since 1970, in Connect's own mode.
    pub const CONNECT_TIMESTAMP: &str = "org.apache.kafka.connect.data.Timestamp";
    /// JSON as text.
    pub const JSON: &str = "io.debezium.data.Json";
    /// XML as text.
    pub const XML: &str = "io.debezium.data.Xml";
    /// A UUID as text.
    pub const UUID: &str = "io.debezium.data.Uuid";
    /// A label of an enum; the parameter `allowed` names them all.
    pub const ENUM: &str = "io.debezium.data.Enum";
    /// Bits in little-endian bytes; the parameter `length` tells how many there may be.
    pub const BITS: &str = "io.debezium.data.Bits";
    /// A path of labels.
    pub const LTREE: &str = "io.debezium.data.Ltree";
    /// What a text search looks through.
    pub const TSVECTOR: &str = "io.debezium.data.Tsvector";
    /// Days since 1970.
    pub const DATE: &str = "io.debezium.time.Date";
    /// A date as text.
    pub const ISO_DATE: &str = "io.debezium.time.IsoDate";
    /// Milliseconds since midnight.
    pub const TIME: &str = "io.debezium.time.Time";
    /// Microseconds since midnight.
    pub const MICRO_TIME: &str = "io.debezium.time.MicroTime";
    /// Nanoseconds since midnight.
    pub const NANO_TIME: &str = "io.debezium.time.NanoTime";
    /// A time of day as text.
    pub const ISO_TIME: &str = "io.debezium.time.IsoTime";
    /// A time of day in UTC, as text.
    pub const ZONED_TIME: &str = "io.debezium.time.ZonedTime";
    /// Milliseconds since 1970.
    pub const TIMESTAMP: &str = "io.debezium.time.Timestamp";
    /// Microseconds since 1970.
    pub const MICRO_TIMESTAMP: &str = "io.debezium.time.MicroTimestamp";
    /// Nanoseconds since 1970.
    pub const NANO_TIMESTAMP: &str = "io.debezium.time.NanoTimestamp";
    /// A point in time as text.
    pub const ISO_TIMESTAMP: &str = "io.debezium.time.IsoTimestamp";
    /// A point in time in UTC, as text.
    pub const ZONED_TIMESTAMP: &str = "io.debezium.time.ZonedTimestamp";
    /// Microseconds, with a month of 30.4375 days.
    pub const MICRO_DURATION: &str = "io.debezium.time.MicroDuration";
    /// A duration as text.
    pub const INTERVAL: &str = "io.debezium.time.Interval";
    /// A number that brings its own scale: a struct of `scale` and `value`.
    pub const VARIABLE_SCALE_DECIMAL: &str = "io.debezium.data.VariableScaleDecimal";
    /// A point of the plane: a struct of `x`, `y`, `wkb` and `srid`.
    pub const POINT: &str = "io.debezium.data.geometry.Point";
    /// A shape of PostGIS: a struct of `wkb` and `srid`.
    pub const GEOMETRY: &str = "io.debezium.data.geometry.Geometry";
    /// A shape on the globe: a struct of `wkb` and `srid`.
    pub const GEOGRAPHY: &str = "io.debezium.data.geometry.Geography";
    /// A vector of doubles.
    pub const DOUBLE_VECTOR: &str = "io.debezium.data.DoubleVector";
    /// A vector of floats.
    pub const FLOAT_VECTOR: &str = "io.debezium.data.FloatVector";
    /// A vector of which only what is not zero is told: a struct of `dimensions` and `vector`.
    pub const SPARSE_DOUBLE_VECTOR: &str = "io.debezium.data.SparseDoubleVector";
}

/// What a value is, and what is said about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    /// The type.
    pub kind: SchemaType,
    /// Whether null is a value of it.
    pub is_optional: bool,
    /// The name of a logical type or of a struct.
    pub name: Option<Arc<str>>,
    /// The version of what the name names.
    pub version: Option<i32>,
    /// A word for people.
    pub doc: Option<Arc<str>>,
    /// Parameters of a logical type, in the order in which they are written.
    pub parameters: Vec<(Arc<str>, Arc<str>)>,
    /// What takes the place of null.
    pub default: Option<Value>,
}

/// The type of a schema.
#[derive(Debug, Clone, PartialEq)]
pub enum SchemaType {
    /// `int8`
    Int8,
    /// `int16`
    Int16,
    /// `int32`
    Int32,
    /// `int64`
    Int64,
    /// `float`
    Float32,
    /// `double`
    Float64,
    /// `boolean`
    Boolean,
    /// `string`
    String,
    /// `bytes`
    Bytes,
    /// `array` of items
    Array(Arc<Schema>),
    /// `map` of keys and values
    Map(Arc<Schema>, Arc<Schema>),
    /// `struct` of fields, in order
    Struct(Vec<Field>),
}

impl SchemaType {
    /// As JsonConverter writes it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Int8 => "int8",
            Self::Int16 => "int16",
            Self::Int32 => "int32",
            Self::Int64 => "int64",
            Self::Float32 => "float",
            Self::Float64 => "double",
            Self::Boolean => "boolean",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Array(_) => "array",
            Self::Map(..) => "map",
            Self::Struct(_) => "struct",
        }
    }
}

/// A field of a struct.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Its name.
    pub name: Arc<str>,
    /// Its schema; equal fields share one.
    pub schema: Arc<Schema>,
}

impl Schema {
    /// A schema of this type, required, with nothing said about it.
    #[must_use]
    pub const fn of(kind: SchemaType) -> Self {
        Self { kind, is_optional: false, name: None, version: None, doc: None, parameters: Vec::new(), default: None }
    }

    /// The same with a name and a version: a logical type.
    #[must_use]
    pub fn named(self, name: &str, version: i32) -> Self {
        Self { name: Some(Arc::from(name)), version: Some(version), ..self }
    }

    /// The same, where null is a value.
    #[must_use]
    pub fn optional(self) -> Self {
        Self { is_optional: true, ..self }
    }

    /// The same with a word for people.
    #[must_use]
    pub fn documented(self, doc: &str) -> Self {
        Self { doc: Some(Arc::from(doc)), ..self }
    }

    /// The same with a parameter more.
    #[must_use]
    pub fn with_parameter(mut self, name: &str, value: impl AsRef<str>) -> Self {
        self.parameters.push((Arc::from(name), Arc::from(value.as_ref())));
        self
    }

    /// Whether it is this logical type.
    #[must_use]
    pub fn is_named(&self, name: &str) -> bool {
        self.name.as_deref() == Some(name)
    }

    /// The value that a reader gets where there is none: the default, or null.
    #[must_use]
    pub fn null(&self) -> Value {
        self.default.clone().unwrap_or(Value::Null)
    }
}
