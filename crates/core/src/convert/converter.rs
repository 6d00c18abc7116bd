//! Connect's converters by their class names, each made ready once for a schema and then used for many values.

use std::sync::Arc;

use bytes::Bytes;

use super::choice::{Class, Reading, Single};
use super::header_text::header_text;
use super::json::JsonOptions;
use super::text::text;
use crate::column::TextForm;
use crate::connect::{ConverterChoice, Schema, SchemaType, Value, logical};
use crate::options::OptionFault;

/// What a converter is for: its options have another prefix and another default on each side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The key of a record.
    Key,
    /// Its value.
    Value,
    /// A header.
    Header,
}

impl Side {
    /// The option that names the converter.
    #[must_use]
    pub const fn option(self) -> &'static str {
        match self {
            Self::Key => "key.converter",
            Self::Value => "value.converter",
            Self::Header => "header.converter",
        }
    }
}

/// A converter as it was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converter {
    class: Class,
    warnings: Vec<String>,
}

/// A converter made ready for the values of one schema.
#[derive(Debug, Clone)]
pub struct Prepared {
    schema: Option<Arc<Schema>>,
    form: Form,
}

/// What is written.
#[derive(Debug, Clone)]
enum Form {
    Text,
    HeaderText,
    /// With what stands before every value.
    Json(JsonOptions, Bytes),
    /// With what writes a decimal, which Java holds as a number although its schema says bytes: its null is that of bytes all the same.
    Bytes(Option<Box<Form>>),
    Single(Single),
}

/// A value that the converter cannot write. It never tells what the value was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConvertError(String);

impl ConvertError {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Self(reason.into())
    }
}

impl Default for Converter {
    /// `StringConverter`
    fn default() -> Self {
        Self { class: Class::Text, warnings: Vec::new() }
    }
}

impl Converter {
    /// The converter of this class with these options.
    ///
    /// # Errors
    /// Nobody knows the class, an option is nearly one of its own, or a value makes no sense.
    pub fn new(choice: &ConverterChoice, side: Side) -> Result<Self, OptionFault> {
        let mut reading = Reading { option: side.option().to_owned(), warnings: Vec::new() };
        let class = reading.class(choice, side)?;
        Ok(Self { class, warnings: reading.warnings })
    }

    /// A sentence for each of its options that changes nothing.
    #[must_use]
    pub fn warnings(&self) -> &[String] {
        &self.warnings
    }

    /// Whether what it writes tells of schemas, by name.
    #[must_use]
    pub fn writes_schemas(&self) -> bool {
        self.class.json().is_some_and(|options| options.has_schemas)
    }

    /// Whether what it writes is JSON, so that a document without a schema can be part of it.
    #[must_use]
    pub fn writes_json(&self) -> bool {
        self.class.json().is_some()
    }

    /// Makes it ready for values of a schema; `None` for values without one ([`Value::Json`]).
    ///
    /// # Errors
    /// It takes no values of such a schema. "It" in the sentence is the column.
    pub fn prepare(&self, schema: Option<&Arc<Schema>>) -> Result<Prepared, String> {
        let form = form(&self.class, schema.map(Arc::as_ref))?;
        Ok(Prepared { schema: schema.cloned(), form })
    }
}

impl Class {
    /// The options of the converter that writes what is no bytes, where that is JSON.
    fn json(&self) -> Option<&JsonOptions> {
        match self {
            Self::Json(options) => Some(options),
            Self::BinaryData(Some(delegate)) => delegate.json(),
            Self::Text | Self::HeaderText | Self::Bytes | Self::BinaryData(None) | Self::Single(_) => None,
        }
    }
}

fn form(class: &Class, schema: Option<&Schema>) -> Result<Form, String> {
    let is_bytes = schema.is_some_and(|schema| matches!(schema.kind, SchemaType::Bytes));
    let is_decimal = schema.is_some_and(|schema| schema.is_named(logical::DECIMAL));
    match class {
        Class::Text => Ok(Form::Text),
        Class::HeaderText => Ok(Form::HeaderText),
        Class::Json(options) => {
            let opening = options
                .opening(schema)
                .map_err(|error| format!("it has a schema that JsonConverter cannot write: {error}"))?;
            Ok(Form::Json(*options, Bytes::from(opening)))
        }
        Class::BinaryData(Some(delegate)) if is_bytes && is_decimal => {
            form(delegate, schema).map(|delegate| Form::Bytes(Some(Box::new(delegate))))
        }
        Class::Bytes | Class::BinaryData(_) if is_bytes => Ok(Form::Bytes(None)),
        Class::BinaryData(Some(delegate)) => form(delegate, schema),
        Class::Bytes => Err(format!(
            "it holds {}, and ByteArrayConverter takes bytes alone; choose StringConverter or JsonConverter, or BinaryDataConverter with \
             a delegate.converter.type",
            in_words(schema)
        )),
        Class::BinaryData(None) => Err(format!(
            "it holds {}, and BinaryDataConverter takes bytes alone unless delegate.converter.type names the converter of what is not, \
             such as org.apache.kafka.connect.storage.StringConverter",
            in_words(schema)
        )),
        Class::Single(single) if schema.is_some_and(|schema| single.takes(schema)) => Ok(Form::Single(*single)),
        Class::Single(_) => Err(format!(
            "it holds {}, which {} does not take; choose StringConverter or JsonConverter",
            in_words(schema),
            class.name()
        )),
    }
}

fn in_words(schema: Option<&Schema>) -> String {
    match schema {
        Some(Schema { kind, name: Some(name), .. }) => format!("{} ({name})", kind.name()),
        Some(Schema { kind, .. }) => kind.name().to_owned(),
        None => "a JSON document".to_owned(),
    }
}

impl Single {
    /// Java casts to the very class, and holds Connect's own dates in another.
    fn takes(self, schema: &Schema) -> bool {
        let is_date = [logical::CONNECT_DATE, logical::CONNECT_TIME, logical::CONNECT_TIMESTAMP]
            .iter()
            .any(|name| schema.is_named(name));
        !is_date
            && matches!(
                (self, &schema.kind),
                (Self::Short, SchemaType::Int16)
                    | (Self::Integer, SchemaType::Int32)
                    | (Self::Long, SchemaType::Int64)
                    | (Self::Float, SchemaType::Float32)
                    | (Self::Double, SchemaType::Float64)
                    | (Self::Boolean, SchemaType::Boolean)
            )
    }

    fn bytes(self, value: &Value) -> Result<Option<Bytes>, ConvertError> {
        let out_of_range = |_| ConvertError::new("it is out of the range of its type".to_owned());
        Ok(Some(match (self, value) {
            (_, Value::Null) => return Ok(None),
            (Self::Short, Value::Integer(value)) => {
                big_endian(&i16::try_from(*value).map_err(out_of_range)?.to_be_bytes())
            }
            (Self::Integer, Value::Integer(value)) => {
                big_endian(&i32::try_from(*value).map_err(out_of_range)?.to_be_bytes())
            }
            (Self::Long, Value::Integer(value)) => big_endian(&value.to_be_bytes()),
            (Self::Float, Value::Float32(value)) if value.is_nan() => big_endian(&0x7FC0_0000_u32.to_be_bytes()),
            (Self::Float, Value::Float32(value)) => big_endian(&value.to_be_bytes()),
            (Self::Double, Value::Float64(value)) if value.is_nan() => {
                big_endian(&0x7FF8_0000_0000_0000_u64.to_be_bytes())
            }
            (Self::Double, Value::Float64(value)) => big_endian(&value.to_be_bytes()),
            (Self::Boolean, Value::Boolean(value)) => big_endian(&[u8::from(*value)]),
            _ => return Err(not_of_its_schema()),
        }))
    }
}

fn big_endian(bytes: &[u8]) -> Bytes {
    Bytes::copy_from_slice(bytes)
}

fn not_of_its_schema() -> ConvertError {
    ConvertError::new("its value is not what its schema says".to_owned())
}

impl Prepared {
    /// Whether text of this form, where it is not NULL, is what it would write: then nobody need read it.
    #[must_use]
    pub fn passes(&self, form: TextForm) -> bool {
        match (&self.form, form) {
            (_, TextForm::Other) | (Form::Bytes(_) | Form::Single(_), _) => false,
            (Form::Text | Form::HeaderText, TextForm::Verbatim | TextForm::Digits) => true,
            (Form::Json(options, _), TextForm::Digits) => !options.has_schemas,
            (Form::Json(..), TextForm::Verbatim) => false,
        }
    }

    /// How many bytes it keeps of the schema.
    pub(crate) fn length(&self) -> usize {
        match &self.form {
            Form::Json(_, opening) => opening.len(),
            Form::Text | Form::HeaderText | Form::Bytes(_) | Form::Single(_) => 0,
        }
    }

    /// Writes a value; `None` is Kafka's null.
    ///
    /// Null is null here, but for `JsonConverter`, which writes the default of the schema in its place or a null of its own. The
    /// default that takes the place of a column's NULL before any converter sees it is for [`Schema::null`].
    ///
    /// # Errors
    /// The value cannot be written.
    pub fn convert(&self, value: &Value) -> Result<Option<Bytes>, ConvertError> {
        write(&self.form, self.schema.as_deref(), value)
    }
}

fn write(form: &Form, schema: Option<&Schema>, value: &Value) -> Result<Option<Bytes>, ConvertError> {
    match (form, value) {
        (Form::Text, _) => Ok(text(schema, value)),
        (Form::HeaderText, _) => Ok(header_text(schema, value)),
        (Form::Json(options, opening), _) => json(*options, opening, schema, value),
        (Form::Bytes(_), Value::Null) => Ok(None),
        (Form::Bytes(_), Value::Bytes(bytes)) => Ok(Some(bytes.clone())),
        (Form::Bytes(Some(delegate)), _) => write(delegate, schema, value),
        (Form::Bytes(None), Value::Decimal(_)) => Err(ConvertError::new(
            "it is a decimal, and the converter takes bytes alone; choose JsonConverter or StringConverter, or a \
             delegate.converter.type for BinaryDataConverter",
        )),
        (Form::Bytes(None), _) => Err(not_of_its_schema()),
        (Form::Single(single), _) => single.bytes(value),
    }
}

fn json(
    options: JsonOptions,
    opening: &Bytes,
    schema: Option<&Schema>,
    value: &Value,
) -> Result<Option<Bytes>, ConvertError> {
    let closing = options.closing();
    let length = match value {
        Value::String(text) | Value::Bytes(text) | Value::Json(text) => text.len(),
        _ => 0,
    };
    let mut out = Vec::with_capacity(opening.len() + length + 2 + closing.len());
    out.extend_from_slice(opening);
    match (schema, value) {
        (None, Value::Null) => return Ok(None),
        (None, Value::Json(document)) if opening.is_empty() => return Ok(Some(document.clone())),
        (None, Value::Json(document)) => out.extend_from_slice(document),
        (None, _) => return Err(not_of_its_schema()),
        (Some(schema), value) => options.value(&mut out, schema, value)?,
    }
    out.extend_from_slice(closing);
    Ok(Some(Bytes::from(out)))
}
