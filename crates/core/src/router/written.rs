//! A column that a converter writes into a key, a header or a value.
//!
//! Text that the converter would write as it is passes as a slice of the frame, unread. So do the digits of integers. All else is
//! read into a value of Connect's model first.

use bytes::Bytes;

use super::binding::Column;
use crate::column::ColumnType;
use crate::connect::Value;
use crate::convert::{ConvertError, Converter, Prepared};
use crate::event::Event;
use crate::poison::RowFault;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Written {
    column: Column,
    read: ColumnType,
    write: Prepared,
    /// Its text need not be read.
    passes: bool,
    /// What NULL becomes: the column's DEFAULT, or the converter's null.
    null: Result<Option<Bytes>, ConvertError>,
}

impl Written {
    /// Gives the column back, and why, if the converter writes no such values.
    pub(super) fn new(column: Column, read: ColumnType, converter: &Converter) -> Result<Self, (Column, String)> {
        let write = match converter.prepare(Some(read.schema())) {
            Ok(write) => write,
            Err(reason) => return Err((column, reason)),
        };
        let passes = write.passes(read.text_form());
        let null = write.convert(&read.schema().null());
        Ok(Self { column, read, write, passes, null })
    }

    pub(super) fn column(&self) -> &Column {
        &self.column
    }

    /// What the converter makes of the row's value.
    pub(super) fn bytes(&self, event: &Event<'_>) -> Result<Option<Bytes>, RowFault> {
        match self.column.text(event)? {
            Some(text) if self.passes => Ok(Some(event.bytes_of(text))),
            Some(text) => self.convert(&self.column.value(&self.read, text, event)?),
            None => self.null.clone().map_err(|error| self.column.unwritable(&error)),
        }
    }

    /// Whether the text of a row is written as it is, so that nobody need look at its value.
    pub(super) fn passes(&self) -> bool {
        self.passes
    }

    /// The row's value, with the DEFAULT in the place of NULL.
    pub(super) fn value(&self, event: &Event<'_>) -> Result<Value, RowFault> {
        self.column.value_or_default(&self.read, event)
    }

    pub(super) fn convert(&self, value: &Value) -> Result<Option<Bytes>, RowFault> {
        self.write.convert(value).map_err(|error| self.column.unwritable(&error))
    }
}

impl Column {
    /// The value of a text. What the type has no value for is null, and the DEFAULT stands in for it too.
    fn value(&self, read: &ColumnType, text: &[u8], event: &Event<'_>) -> Result<Value, RowFault> {
        match read.read(&event.bytes_of(text)) {
            Ok(Value::Null) => Ok(read.schema().null()),
            Ok(value) => Ok(value),
            Err(error) => Err(self.unreadable(&error)),
        }
    }

    /// The row's value, with the column's DEFAULT in the place of NULL, as Connect's `Struct.get` reads it.
    pub(super) fn value_or_default(&self, read: &ColumnType, event: &Event<'_>) -> Result<Value, RowFault> {
        match self.text(event)? {
            Some(text) => self.value(read, text, event),
            None => Ok(read.schema().null()),
        }
    }

    pub(super) fn unwritable(&self, error: &ConvertError) -> RowFault {
        self.fault(format_args!("cannot be written: {error}"))
    }
}
