//! What any broker can take: topic, key, value, headers, timestamp, partition.

use std::sync::Arc;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::position::Identity;

/// A header. Its order among the others and its duplicates are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// The name, shared by all records of the outbox.
    pub name: Arc<str>,
    /// The value; `None` is a header that is there and has the null value.
    pub value: Option<Bytes>,
}

/// The headers of a record, in order. Four need no allocation.
pub type Headers = SmallVec<[Header; 4]>;

/// One message for the broker. Key, value and header values are slices of the bytes that PostgreSQL sent wherever the
/// configuration does not ask for another form.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Which row this is.
    pub identity: Identity,
    /// The topic. Shared by all records that are routed to it.
    pub topic: Arc<str>,
    /// The key; `None` lets the broker's client choose the partition.
    pub key: Option<Bytes>,
    /// The value; `None` is a tombstone, empty bytes are not.
    pub value: Option<Bytes>,
    /// In the order in which they go on the wire.
    pub headers: Headers,
    /// Milliseconds since the Unix epoch.
    pub timestamp_ms: i64,
    /// Whether the timestamp is that of a column of the row, and not the time of its commit: only then can the row be at fault for it.
    pub is_dated_by_row: bool,
    /// The partition, where a column chooses it.
    pub partition: Option<i32>,
}

impl Record {
    /// The flat share of what surrounds a record's data.
    pub const OVERHEAD: usize = 256;

    /// What the record weighs against the budget in bytes: its data, and a flat share for what surrounds them.
    #[must_use]
    pub fn weight(&self) -> usize {
        Self::OVERHEAD + self.weight_beside(&[])
    }

    /// What its data weigh beside a frame that is kept alive: whatever is no slice of it.
    #[must_use]
    pub fn weight_beside(&self, frame: &[u8]) -> usize {
        let frame = frame.as_ptr_range();
        let length = |bytes: &Option<Bytes>| match bytes {
            Some(bytes) if frame.start <= bytes.as_ptr() && bytes.as_ptr_range().end <= frame.end => 0,
            Some(bytes) => bytes.len(),
            None => 0,
        };
        let headers: usize = self.headers.iter().map(|header| header.name.len() + length(&header.value)).sum();
        length(&self.key) + length(&self.value) + headers
    }
}
