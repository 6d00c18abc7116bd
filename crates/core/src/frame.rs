//! The frames of a replication stream: what CopyData carries in either direction.

use bytes::Bytes;

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
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct XLogData {
    /// The start of the WAL data; `0/0` for relations.
    pub wal_start: Lsn,
    /// The server's WAL end as it says here.
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
