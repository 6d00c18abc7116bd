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
    /// The row: one cell a column of its relation.
    pub cells: &'a [Cell<'a>],
    /// The bytes that `cells` borrow from, so that a record's parts can be slices of them.
    pub frame: &'a Bytes,
}

impl Event<'_> {
    /// A part of the row as bytes that outlive the event: a slice of the frame if the part lies within it, as it does unless
    /// a tuple was put together by hand, and a copy otherwise.
    #[must_use]
    pub fn bytes_of(&self, part: &[u8]) -> Bytes {
        let start = part.as_ptr().addr().checked_sub(self.frame.as_ptr().addr());
        let range = start.and_then(|start| start.checked_add(part.len()).map(|end| start..end));
        match range {
            Some(range) if range.end <= self.frame.len() => self.frame.slice(range),
            _ => Bytes::copy_from_slice(part),
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::Event;
    use crate::lsn::Lsn;
    use crate::position::{Identity, Timeline};
    use crate::time::Timestamp;

    #[test]
    fn a_part_of_the_frame_is_a_slice_and_anything_else_a_copy() {
        let frame = Bytes::from_static(b"0123456789");
        let elsewhere = b"0123456789".to_vec();
        let identity = Identity { timeline: Timeline(1), commit_lsn: Lsn::new(1), ordinal: 0 };
        let event = Event { identity, commit_time: Timestamp::default(), cells: &[], frame: &frame };
        for (from, to) in [(0, 10), (3, 7), (10, 10), (0, 0)] {
            let part = event.bytes_of(&frame[from..to]);
            assert_eq!(part, &frame[from..to]);
            assert!(part.is_empty() || part.as_ptr() == frame[from..].as_ptr());
            assert_eq!(event.bytes_of(&elsewhere[from..to]), &frame[from..to]);
        }
    }
}
