//! What a row holds in a column, as the column's role wants it.

use std::fmt::Display;

use bytes::Bytes;

use super::binding::Column;
use super::column::{self, Kind, PointInTime};
use crate::convert;
use crate::event::Event;
use crate::pgoutput::Cell;
use crate::poison::RowFault;

/// Kafka takes this timestamp for none (`RecordBatch.NO_TIMESTAMP`), and so does Connect.
const NO_TIMESTAMP: i64 = -1;

impl Column {
    /// The text that the server sent; `None` for NULL.
    pub(super) fn text<'a>(&self, event: &Event<'a>) -> Result<Option<&'a [u8]>, RowFault> {
        match event.cells.get(self.index) {
            Some(Cell::Text(text)) => Ok(Some(text)),
            Some(Cell::Null) => Ok(None),
            Some(Cell::Unchanged) => Err(self.fault("arrived as an unchanged TOASTed value, which no insert can have")),
            Some(Cell::Binary(_)) => Err(self.fault("arrived in binary form, which was not asked for")),
            None => Err(self.fault("did not arrive")),
        }
    }

    /// The column's own bytes; `None` for NULL.
    pub(super) fn own_bytes(&self, event: &Event<'_>) -> Result<Option<Bytes>, RowFault> {
        self.read(event, |text| convert::own_bytes(self.kind, text, event))
    }

    /// The bytes of a header; `None` for NULL.
    pub(super) fn header_bytes(&self, event: &Event<'_>) -> Result<Option<Bytes>, RowFault> {
        self.read(event, |text| convert::header_bytes(self.kind, text, event))
    }

    /// The text form that chooses the topic; `None` for NULL.
    pub(super) fn route<'a>(&self, event: &Event<'a>) -> Result<Option<&'a [u8]>, RowFault> {
        self.read(event, |text| match self.kind {
            Kind::Boolean => column::boolean(text).map(str::as_bytes),
            _ => Some(text),
        })
    }

    /// The timestamp of the record in milliseconds; `None` for NULL, and for what Kafka takes for none.
    pub(super) fn timestamp_ms(&self, event: &Event<'_>) -> Result<Option<i64>, RowFault> {
        let point = self.read(event, |text| match self.kind {
            Kind::Timestamp => column::timestamp(text),
            _ => column::integer(text).map(PointInTime::Millis),
        })?;
        match point {
            None | Some(PointInTime::Millis(NO_TIMESTAMP)) => Ok(None),
            Some(PointInTime::Millis(millis)) if millis >= 0 => Ok(Some(millis)),
            Some(PointInTime::Millis(_)) => {
                Err(self.fault("holds a time before 1970, which no record's timestamp can be"))
            }
            Some(PointInTime::Infinite) => {
                Err(self.fault("holds an infinite time, which no record's timestamp can be"))
            }
        }
    }

    /// The number of the partition; `None` for NULL.
    pub(super) fn partition(&self, event: &Event<'_>) -> Result<Option<i32>, RowFault> {
        let number = self.read(event, |text| column::integer(text).and_then(|number| i32::try_from(number).ok()))?;
        match number {
            Some(number) if number < 0 => Err(self.fault("holds a negative number, which no partition has")),
            number => Ok(number),
        }
    }

    /// Reads the text unless it is NULL.
    fn read<'a, T>(&self, event: &Event<'a>, read: impl FnOnce(&'a [u8]) -> Option<T>) -> Result<Option<T>, RowFault> {
        let Some(text) = self.text(event)? else { return Ok(None) };
        match read(text) {
            Some(value) => Ok(Some(value)),
            None => {
                Err(self.fault("holds what its type cannot, or not in the form that the replication session asks for"))
            }
        }
    }

    pub(super) fn fault(&self, problem: impl Display) -> RowFault {
        RowFault::new(format!("column \"{}\" of {} {problem}", self.name, self.table))
    }
}
