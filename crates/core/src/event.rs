//! One inserted row of an outbox table, read by role.

use bytes::Bytes;

use crate::pgoutput::Tuple;
use crate::position::Identity;
use crate::time::Timestamp;

/// An inserted row, with what the transaction tells about it. Borrowed from the frame that brought it.
#[derive(Debug, Clone, Copy)]
pub struct Event<'a> {
    /// Which row this is.
    pub identity: Identity,
    /// When its transaction committed: the record's timestamp where no column is configured for it.
    pub commit_time: Timestamp,
    /// The row.
    pub tuple: &'a Tuple<'a>,
    /// The bytes that `tuple` borrows from, so that a record's parts can be slices of them.
    pub frame: &'a Bytes,
}
