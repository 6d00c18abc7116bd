//! What a row holds in a column, as a role of certain types wants it.

use std::fmt::Display;

use super::binding::Column;
use crate::event::Event;
use crate::pgoutput::Cell;
use crate::poison::RowFault;
use crate::value::{
    Kind, PointInTime, ValueError, parse_bool, parse_i32, parse_i64, parse_timestamp, parse_timestamptz,
};

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

    /// The text form that chooses the topic; `None` for NULL.
    pub(super) fn route<'a>(&self, event: &Event<'a>) -> Result<Option<&'a [u8]>, RowFault> {
        self.read(event, |text| match self.kind {
            Kind::Boolean => parse_bool(text).map(|is_true| if is_true { b"true".as_slice() } else { b"false" }),
            _ => Ok(text),
        })
    }

    /// The timestamp of the record in milliseconds; `None` for NULL, and for what Kafka takes for none.
    pub(super) fn timestamp_ms(&self, event: &Event<'_>) -> Result<Option<i64>, RowFault> {
        let point = self.read(event, |text| match self.kind {
            Kind::Timestamp => parse_timestamp(text).map(millis_of),
            Kind::Timestamptz => parse_timestamptz(text).map(millis_of),
            _ => parse_i64(text).map(Some),
        })?;
        match point {
            None | Some(Some(NO_TIMESTAMP)) => Ok(None),
            Some(Some(millis)) if millis >= 0 => Ok(Some(millis)),
            Some(Some(_)) => Err(self.fault("holds a time before 1970, which no record's timestamp can be")),
            Some(None) => Err(self.fault("holds an infinite time, which no record's timestamp can be")),
        }
    }

    /// The number of the partition; `None` for NULL.
    pub(super) fn partition(&self, event: &Event<'_>) -> Result<Option<i32>, RowFault> {
        match self.integer(event)? {
            Some(number) if number < 0 => Err(self.fault("holds a negative number, which no partition has")),
            number => Ok(number),
        }
    }

    /// A number of 32 bits; `None` for NULL.
    pub(super) fn integer(&self, event: &Event<'_>) -> Result<Option<i32>, RowFault> {
        self.read(event, parse_i32)
    }

    /// Reads the text unless it is NULL.
    fn read<'a, T>(
        &self,
        event: &Event<'a>,
        read: impl FnOnce(&'a [u8]) -> Result<T, ValueError>,
    ) -> Result<Option<T>, RowFault> {
        let Some(text) = self.text(event)? else { return Ok(None) };
        read(text).map(Some).map_err(|error| self.unreadable(&error))
    }

    pub(super) fn unreadable(&self, error: &ValueError) -> RowFault {
        self.fault(format_args!("cannot be read: {error}"))
    }

    pub(super) fn fault(&self, problem: impl Display) -> RowFault {
        RowFault::new(format!("column \"{}\" of {} {problem}", self.name, self.table))
    }
}

/// Milliseconds since 1970-01-01 00:00 UTC, towards zero as Debezium divides; `None` for the infinities.
fn millis_of(point: PointInTime) -> Option<i64> {
    match point {
        PointInTime::UnixMicros(micros) => Some(micros / 1000),
        PointInTime::NegativeInfinity | PointInTime::Infinity => None,
    }
}
