//! From the text of a column to a value of Connect's data model, as Debezium's PostgreSQL connector reads it.

use std::sync::Arc;

use bytes::Bytes;

use crate::connect::{Options, Schema, SchemaType, Value};
use crate::description::Description;
use crate::pgoutput::Column;
use crate::value::ValueError;

/// The schema of a column, and how its text becomes a value.
#[derive(Debug, Clone)]
pub struct ColumnType {
    schema: Arc<Schema>,
}

/// What the text of a column is to those who would write it again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TextForm {
    /// The value is a string, and the text is that string.
    Verbatim,
    /// The value is an integer, and the text is its digits.
    Digits,
    /// The value has to be read.
    Other,
}

impl ColumnType {
    /// The type of a column of a relation.
    #[must_use]
    pub fn new(column: &Column<'_>, description: &Description, _options: &Options) -> Self {
        let described = description.column(column.name);
        let is_optional = !described.is_some_and(|described| described.not_null);
        Self { schema: Arc::new(Schema { is_optional, ..Schema::of(SchemaType::String) }) }
    }

    /// Its schema, with the column's DEFAULT and whether it is optional.
    #[must_use]
    pub fn schema(&self) -> &Arc<Schema> {
        &self.schema
    }

    /// What the text is to those who would write it again.
    #[must_use]
    pub fn text_form(&self) -> TextForm {
        TextForm::Verbatim
    }

    /// Reads the text of a value that is not NULL.
    ///
    /// # Errors
    /// The text is not one that PostgreSQL writes for such a value.
    pub fn read(&self, text: &Bytes) -> Result<Value, ValueError> {
        Ok(Value::String(text.clone()))
    }
}
