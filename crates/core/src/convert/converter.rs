//! Connect's converters by their class names, each made ready once for a schema and then used for many values.

use std::sync::Arc;

use bytes::Bytes;

use crate::column::TextForm;
use crate::connect::{ConverterChoice, Schema, Value};
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

/// A converter as it was chosen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Converter {
    side: Side,
}

/// A converter made ready for the values of one schema.
#[derive(Debug, Clone)]
pub struct Prepared {}

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
        Self { side: Side::Value }
    }
}

impl Converter {
    /// The converter of this class with these options.
    ///
    /// # Errors
    /// Nobody knows the class or an option of it, or a value makes no sense.
    pub fn new(_choice: &ConverterChoice, side: Side) -> Result<Self, OptionFault> {
        Ok(Self { side })
    }

    /// Whether what it writes tells of schemas, by name.
    #[must_use]
    pub fn writes_schemas(&self) -> bool {
        false
    }

    /// Whether what it writes is JSON, so that a document without a schema can be part of it.
    #[must_use]
    pub fn writes_json(&self) -> bool {
        false
    }

    /// Makes it ready for values of a schema; `None` for values without one ([`Value::Json`]).
    ///
    /// # Errors
    /// It takes no values of such a schema, in words that go behind "the column".
    pub fn prepare(&self, _schema: Option<&Arc<Schema>>) -> Result<Prepared, String> {
        Ok(Prepared {})
    }
}

impl Prepared {
    /// Whether text of this form, where it is not NULL, is what it would write: then nobody need read it.
    #[must_use]
    pub fn passes(&self, form: TextForm) -> bool {
        form == TextForm::Verbatim
    }

    /// Writes a value; `None` is Kafka's null.
    ///
    /// # Errors
    /// The value cannot be written.
    pub fn convert(&self, value: &Value) -> Result<Option<Bytes>, ConvertError> {
        match value {
            Value::String(text) => Ok(Some(text.clone())),
            _ => Ok(None),
        }
    }
}
