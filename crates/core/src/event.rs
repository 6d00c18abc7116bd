//! One inserted row of an outbox table, read by role.

use bytes::Bytes;

use crate::pgoutput::Cell;
use crate::position::Identity;
use crate::time::Timestamp;

/// An inserted row, with what the transaction tells about it. Borrowed from the frame that brought it.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// Which row this is.
    pub identity: Identity,
    /// When its transaction committed: the record's timestamp where no column is configured for it.
    pub commit_time: Timestamp,
    /// The row's values, in the order of the relation's columns.
    pub cells: &'a [Cell<'a>],
    /// The bytes that `cells` borrows from, so that a record's parts can be slices of them.
    pub frame: &'a Bytes,
}
