//! The frames of a replication stream: what CopyData carries in either direction.
//!
//! Why it exists: the source edge brings bytes and knows nothing of their meaning; the session wants to know how far
//! the server is, whether it waits for an answer, and which bytes are the output plugin's. A frame keeps those bytes as
//! they came (a slice of what was received, not a copy), because a record's payload is cut out of them.
//!
//! What it refuses: a frame that is cut short, one of a kind that a server never sends, and a keepalive with bytes to
//! spare.
//!
//! The layouts are those of "Streaming Replication Protocol" in PostgreSQL's manual (the messages under
//! `START_REPLICATION`), where all integers are big-endian; recordings of PostgreSQL 14 to 18 in `tests/golden` confirm
//! them.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::lsn::Lsn;
use crate::time::Timestamp;

/// What the server sends inside one CopyData.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    /// A message of the output plugin.
    XLogData(XLogData),
    /// A sign of life, and how far the server has read.
    Keepalive(Keepalive),
}

/// `XLogData` (`w`).
#[derive(Clone, PartialEq, Eq)]
pub struct XLogData {
    /// The start of the WAL data. It identifies nothing: rows of one COPY share it, and it is `0/0` for a relation, a
    /// type, and whatever the server sends together with something else (a Begin before its Origin).
    pub wal_start: Lsn,
    /// The server's WAL end as it says here. `walsender.c` sends a logical slot's message with both LSNs alike.
    pub wal_end: Lsn,
    /// When the server sent it.
    pub server_time: Timestamp,
    /// One pgoutput message.
    pub data: Bytes,
}

/// `Primary keepalive message` (`k`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Keepalive {
    /// Everything before it has been decoded, and what was committed there has been sent.
    pub wal_end: Lsn,
    /// When the server sent it.
    pub server_time: Timestamp,
    /// The server wants an answer at once, or it ends the connection.
    pub reply_requested: bool,
}

/// `Standby status update` (`r`), as the session asks for it. Written, flushed and applied are the same for a relay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StatusUpdate {
    /// The server may forget everything before it.
    pub confirmed: Lsn,
    /// Ask the server for a keepalive at once.
    pub reply_requested: bool,
}

/// Bytes that are not a frame. It names tags and lengths, never content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// A CopyData without a single byte.
    #[error("the server sent an empty CopyData; a frame of a replication stream begins with a tag")]
    Empty,
    /// Neither `w` nor `k`.
    #[error(
        "the server sent a frame with the tag {:?}; a logical replication stream has only 'w' and 'k'",
        char::from(*.0)
    )]
    UnknownTag(u8),
    /// The frame ends within its header.
    #[error("a frame '{}' has {length} bytes, but its header alone takes {header}", char::from(*.tag))]
    Truncated {
        /// `w` or `k`.
        tag: u8,
        /// How long the frame is, tag included.
        length: usize,
        /// How long its header is, tag included.
        header: usize,
    },
    /// A keepalive, which is all header, goes on after its end.
    #[error("a keepalive goes on for {0} bytes after its end")]
    Trailing(usize),
}

const XLOG_DATA: u8 = b'w';
const KEEPALIVE: u8 = b'k';
const STATUS_UPDATE: u8 = b'r';

/// Tag, two LSNs and a time.
const XLOG_DATA_HEADER: usize = 25;
/// Tag, an LSN, a time and a flag.
const KEEPALIVE_LENGTH: usize = 18;

impl Frame {
    /// Reads what one CopyData carried, without its own header. The data of [`XLogData`] is a slice of `payload`.
    ///
    /// # Errors
    /// [`FrameError`], when the payload is not a whole frame of a known kind.
    #[inline]
    pub fn parse(mut payload: Bytes) -> Result<Self, FrameError> {
        let length = payload.len();
        let tag = payload.try_get_u8().map_err(|_| FrameError::Empty)?;
        let truncated = |header| FrameError::Truncated { tag, length, header };
        match tag {
            XLOG_DATA => XLogData::parse(payload).ok_or_else(|| truncated(XLOG_DATA_HEADER)).map(Self::XLogData),
            KEEPALIVE => {
                let keepalive = Keepalive::parse(&mut payload).ok_or_else(|| truncated(KEEPALIVE_LENGTH))?;
                if payload.is_empty() {
                    Ok(Self::Keepalive(keepalive))
                } else {
                    Err(FrameError::Trailing(payload.len()))
                }
            }
            other => Err(FrameError::UnknownTag(other)),
        }
    }

    /// Appends what one CopyData would carry: the inverse of [`parse`](Self::parse), for tests and the simulation.
    pub fn encode(&self, into: &mut BytesMut) {
        match self {
            Self::XLogData(frame) => {
                into.put_u8(XLOG_DATA);
                into.put_u64(frame.wal_start.get());
                into.put_u64(frame.wal_end.get());
                into.put_i64(frame.server_time.postgres_micros());
                into.put_slice(&frame.data);
            }
            Self::Keepalive(frame) => {
                into.put_u8(KEEPALIVE);
                into.put_u64(frame.wal_end.get());
                into.put_i64(frame.server_time.postgres_micros());
                into.put_u8(u8::from(frame.reply_requested));
            }
        }
    }
}

impl XLogData {
    #[inline]
    fn parse(mut rest: Bytes) -> Option<Self> {
        Some(Self {
            wal_start: lsn(&mut rest)?,
            wal_end: lsn(&mut rest)?,
            server_time: timestamp(&mut rest)?,
            data: rest,
        })
    }
}

impl std::fmt::Debug for XLogData {
    /// Tells how long the data is and not what it is: it carries payloads.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("XLogData")
            .field("wal_start", &self.wal_start)
            .field("wal_end", &self.wal_end)
            .field("server_time", &self.server_time)
            .field("data", &format_args!("{} bytes", self.data.len()))
            .finish()
    }
}

impl Keepalive {
    /// Any flag but 0 asks for a reply, as PostgreSQL's own receiver reads it.
    #[inline]
    fn parse(rest: &mut Bytes) -> Option<Self> {
        Some(Self { wal_end: lsn(rest)?, server_time: timestamp(rest)?, reply_requested: rest.try_get_u8().ok()? != 0 })
    }
}

impl StatusUpdate {
    /// How long the message is.
    pub const LENGTH: usize = 34;

    /// Appends the message as a CopyData carries it. `client_time` is informative; the server keeps it for its
    /// statistics.
    ///
    /// The three positions of the protocol (written, flushed, applied) are one here: what is confirmed is delivered, so
    /// there is nothing that was written and could still be lost.
    pub fn encode(&self, client_time: Timestamp, into: &mut BytesMut) {
        into.reserve(Self::LENGTH);
        into.put_u8(STATUS_UPDATE);
        for _ in ["written", "flushed", "applied"] {
            into.put_u64(self.confirmed.get());
        }
        into.put_i64(client_time.postgres_micros());
        into.put_u8(u8::from(self.reply_requested));
    }
}

#[inline]
fn lsn(rest: &mut Bytes) -> Option<Lsn> {
    rest.try_get_u64().ok().map(Lsn::new)
}

#[inline]
fn timestamp(rest: &mut Bytes) -> Option<Timestamp> {
    rest.try_get_i64().ok().map(Timestamp::from_postgres_micros)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn frames() -> impl Strategy<Value = Frame> {
        let data = proptest::collection::vec(any::<u8>(), 0..64);
        prop_oneof![
            (any::<u64>(), any::<u64>(), any::<i64>(), data).prop_map(|(start, end, time, data)| {
                Frame::XLogData(XLogData {
                    wal_start: Lsn::new(start),
                    wal_end: Lsn::new(end),
                    server_time: Timestamp::from_postgres_micros(time),
                    data: data.into(),
                })
            }),
            (any::<u64>(), any::<i64>(), any::<bool>()).prop_map(|(end, time, reply_requested)| {
                Frame::Keepalive(Keepalive {
                    wal_end: Lsn::new(end),
                    server_time: Timestamp::from_postgres_micros(time),
                    reply_requested,
                })
            }),
        ]
    }

    fn encoded(frame: &Frame) -> Bytes {
        let mut bytes = BytesMut::new();
        frame.encode(&mut bytes);
        bytes.freeze()
    }

    proptest! {
        #[test]
        fn a_frame_survives_encoding_and_parsing(frame in frames()) {
            prop_assert_eq!(Frame::parse(encoded(&frame)), Ok(frame));
        }

        #[test]
        fn parsing_never_panics(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Frame::parse(bytes.into());
        }

        #[test]
        fn a_header_cut_short_is_refused_with_its_tag_and_length(frame in frames()) {
            let whole = encoded(&frame);
            let header = if matches!(frame, Frame::XLogData(_)) { XLOG_DATA_HEADER } else { KEEPALIVE_LENGTH };
            for length in 1..header {
                let expected = FrameError::Truncated { tag: whole[0], length, header };
                prop_assert_eq!(Frame::parse(whole.slice(..length)), Err(expected));
            }
        }
    }

    #[test]
    fn the_data_of_a_frame_is_a_slice_of_what_was_received() {
        let received = encoded(&Frame::XLogData(XLogData {
            wal_start: Lsn::new(1),
            wal_end: Lsn::new(2),
            server_time: Timestamp::default(),
            data: Bytes::from_static(b"payload"),
        }));
        let Ok(Frame::XLogData(frame)) = Frame::parse(received.clone()) else {
            panic!("not the frame that was encoded")
        };
        assert_eq!(frame.data.as_ptr(), received[XLOG_DATA_HEADER..].as_ptr());
    }

    #[test]
    fn what_a_server_never_sends_is_refused_and_named() {
        let cases: [(&[u8], FrameError, &str); 4] = [
            (b"", FrameError::Empty, "empty CopyData"),
            (b"r123", FrameError::UnknownTag(b'r'), "the tag 'r'"),
            (b"\0", FrameError::UnknownTag(0), "the tag '\\0'"),
            (b"k0123456701234567\x01xy", FrameError::Trailing(2), "2 bytes after its end"),
        ];
        for (bytes, expected, sentence) in cases {
            let error = Frame::parse(Bytes::from_static(bytes)).unwrap_err();
            assert_eq!(error, expected);
            assert!(error.to_string().contains(sentence), "{error}");
        }
    }

    #[test]
    fn any_flag_but_zero_asks_for_a_reply() {
        for (flag, expected) in [(0, false), (1, true), (0xFF, true)] {
            let bytes = [b"k0123456701234567".as_slice(), &[flag]].concat();
            let Ok(Frame::Keepalive(frame)) = Frame::parse(bytes.into()) else { panic!("not a keepalive") };
            assert_eq!(frame.reply_requested, expected);
        }
    }

    #[test]
    fn a_status_update_confirms_one_position_three_times() {
        let mut bytes = BytesMut::new();
        let status = StatusUpdate { confirmed: Lsn::new(0x16_B374_D848), reply_requested: true };
        status.encode(Timestamp::from_postgres_micros(-2), &mut bytes);
        let position = b"\0\0\0\x16\xB3\x74\xD8\x48";
        let expected =
            [b"r".as_slice(), position, position, position, b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFE", b"\x01"].concat();
        assert_eq!(bytes, expected);
        assert_eq!(bytes.len(), StatusUpdate::LENGTH);
    }

    #[test]
    fn a_frame_is_described_without_its_data() {
        let frame = XLogData {
            wal_start: Lsn::new(1),
            wal_end: Lsn::new(2),
            server_time: Timestamp::default(),
            data: Bytes::from_static(b"secret"),
        };
        let description = format!("{frame:?}");
        assert!(description.contains("6 bytes") && !description.contains("secret"), "{description}");
    }
}
