//! The messages of PostgreSQL's `pgoutput` plugin, protocol version 1.
//!
//! Why it exists: every byte that becomes a record passes through here, so this is where the server's bytes are
//! checked, once, and where the hot path runs: one pass over a message, nothing copied, nothing allocated for a row of
//! up to sixteen columns.
//!
//! What it refuses ([`ParseError`]): whatever is not exactly one message. Lengths and counts are believed only as far
//! as there are bytes for them, so that a short message that announces thirty thousand columns costs nothing. What it
//! does not do: give meaning to values (that is [`value`](crate::value)), remember relations (that is the catalogue),
//! or count what it does not know (that is the session; see [`Message::Unknown`]).
//!
//! # Sources
//!
//! - "Logical Replication Message Formats" in PostgreSQL's manual has the layout of every message. Protocol 1 has
//!   neither the transaction ids that version 2 puts into the messages of a streamed transaction, nor its tags (`S`,
//!   `E`, `c`, `A`), nor those of two-phase commit (`b`, `P`, `K`, `r`, `p`): they are [`Message::Unknown`].
//! - `src/backend/replication/logical/proto.c` has what the manual leaves out: the schema `pg_catalog` is sent as an
//!   empty name (`logicalrep_write_namespace`); a domain is announced under its own OID with the name of its *base*
//!   type (`logicalrep_write_typ`).
//! - `src/backend/replication/pgoutput/pgoutput.c`: a relation, and before it the types of its columns that are not
//!   built in, comes before the first row that needs it, and again after an invalidation. Where a publication has
//!   `publish_via_partition_root`, the root is announced and then the leaf too, but rows come under the root. `M` comes
//!   only where the option `messages` asks for it, `O` only at the head of a transaction that has an origin. Since
//!   PostgreSQL 15 a transaction without a published change is not sent at all; PostgreSQL 14 sends its `B` and `C`.
//! - `src/backend/access/heap/heapam.c` (`ExtractReplicaIdentity`): in an old key, the columns that are not part of it
//!   are nulls.
//!
//! The frames in `tests/golden` were recorded from servers of every major version since 14 and hold all this.

mod cursor;
mod encode;
mod error;
mod parse;

use std::fmt;

use bytes::Bytes;
use smallvec::SmallVec;

pub use error::{Kind, ParseError};

use crate::lsn::Lsn;
use crate::time::Timestamp;

/// One message, borrowing from the bytes that it was parsed from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "it lives on the stack for one match; a box would cost an allocation a row"
)]
pub enum Message<'a> {
    /// A transaction follows. It has committed already.
    Begin(Begin),
    /// The transaction is complete.
    Commit(Commit),
    /// Where a replicated transaction came from.
    Origin(Origin<'a>),
    /// The shape of a table, sent before its first row and again after a change.
    Relation(Relation<'a>),
    /// The name of a type that is not built in.
    Type(Type<'a>),
    /// A row was inserted.
    Insert(Insert<'a>),
    /// A row was updated.
    Update(Update<'a>),
    /// A row was deleted.
    Delete(Delete<'a>),
    /// Tables were truncated.
    Truncate(Truncate),
    /// `pg_logical_emit_message`.
    Logical(LogicalMessage<'a>),
    /// A tag that protocol 1 does not know; skipped and counted. What follows the tag is not kept.
    Unknown(u8),
}

/// `B`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin {
    /// The LSN of the commit record: the identity of the transaction.
    pub final_lsn: Lsn,
    /// When it committed, by the server's clock; by the origin's where the transaction was replicated from one.
    pub commit_time: Timestamp,
    /// The transaction id, without its epoch.
    pub xid: u32,
}

/// `C`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Commit {
    /// Unused by the server, always 0.
    pub flags: u8,
    /// Equals the `final_lsn` of its [`Begin`].
    pub commit_lsn: Lsn,
    /// The end of the commit record.
    pub end_lsn: Lsn,
    /// When it committed.
    pub commit_time: Timestamp,
}

/// `O`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Origin<'a> {
    /// The commit's LSN on the origin.
    pub commit_lsn: Lsn,
    /// The origin's name, without its NUL.
    pub name: &'a [u8],
}

/// `R`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation<'a> {
    /// The table's OID.
    pub id: u32,
    /// Its schema; the server sends the empty name for `pg_catalog`.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// `d`, `n`, `f` or `i`.
    pub replica_identity: u8,
    /// The published columns, in the order of the tuples.
    pub columns: SmallVec<[Column<'a>; 16]>,
}

/// A column of a [`Relation`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column<'a> {
    /// Bit 0: part of the replica identity.
    pub flags: u8,
    /// The column's name.
    pub name: &'a str,
    /// The OID of its type.
    pub type_id: u32,
    /// Its `atttypmod`; -1 where there is none.
    pub type_modifier: i32,
}

/// `Y`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Type<'a> {
    /// The type's OID.
    pub id: u32,
    /// Its schema.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
}

/// `I`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insert<'a> {
    /// The table's OID.
    pub relation: u32,
    /// The row.
    pub new: Tuple<'a>,
}

/// `U`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Update<'a> {
    /// The table's OID.
    pub relation: u32,
    /// The old key (`K`) or row (`O`), where the replica identity asks for it.
    pub old: Option<OldTuple<'a>>,
    /// The new row.
    pub new: Tuple<'a>,
}

/// `D`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delete<'a> {
    /// The table's OID.
    pub relation: u32,
    /// The old key or row.
    pub old: OldTuple<'a>,
}

/// What is told of a row that was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OldTuple<'a> {
    /// `K`: the columns of the replica identity; the others are null.
    Key(Tuple<'a>),
    /// `O`: the whole row.
    Row(Tuple<'a>),
}

/// `T`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Truncate {
    /// Bit 0: CASCADE, bit 1: RESTART IDENTITY.
    pub options: u8,
    /// The tables' OIDs.
    pub relations: SmallVec<[u32; 4]>,
}

/// `M`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct LogicalMessage<'a> {
    /// Bit 0: transactional.
    pub flags: u8,
    /// Where it stands in the log.
    pub lsn: Lsn,
    /// The prefix that its sender chose, without its NUL.
    pub prefix: &'a [u8],
    /// The content.
    pub content: &'a [u8],
}

/// The values of a row, in the order of the relation's columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tuple<'a> {
    /// One cell a column.
    pub cells: SmallVec<[Cell<'a>; 16]>,
}

/// One value of a [`Tuple`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Cell<'a> {
    /// `n`: SQL NULL.
    Null,
    /// `u`: a TOASTed value that an update did not touch.
    Unchanged,
    /// `t`: the type's text form.
    Text(&'a [u8]),
    /// `b`: the type's binary form.
    Binary(&'a [u8]),
}

impl<'a> Cell<'a> {
    /// The bytes of the value; `None` where there are none to show ([`Cell::Null`], [`Cell::Unchanged`]).
    #[must_use]
    #[inline]
    pub const fn bytes(self) -> Option<&'a [u8]> {
        match self {
            Self::Null | Self::Unchanged => None,
            Self::Text(value) | Self::Binary(value) => Some(value),
        }
    }

    /// The bytes of the value as a slice of the frame that it was parsed from, which stays alive for as long as the
    /// slice does.
    ///
    /// Bytes that lie outside of `frame` are copied, so a cell of another frame gives the right value too, only slower.
    #[must_use]
    #[inline]
    pub fn slice_of(self, frame: &Bytes) -> Option<Bytes> {
        let value = self.bytes()?;
        let start = value.as_ptr().addr().checked_sub(frame.as_ptr().addr());
        let within = start.and_then(|start| {
            let end = start.checked_add(value.len())?;
            (end <= frame.len()).then(|| frame.slice(start..end))
        });
        Some(within.unwrap_or_else(|| Bytes::copy_from_slice(value)))
    }
}

impl fmt::Debug for Cell<'_> {
    /// Tells how long a value is and not what it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Null => f.write_str("Null"),
            Self::Unchanged => f.write_str("Unchanged"),
            Self::Text(value) => write!(f, "Text({} bytes)", value.len()),
            Self::Binary(value) => write!(f, "Binary({} bytes)", value.len()),
        }
    }
}

impl fmt::Debug for LogicalMessage<'_> {
    /// Tells how long the content is and not what it is.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LogicalMessage")
            .field("flags", &self.flags)
            .field("lsn", &self.lsn)
            .field("prefix", &format_args!("\"{}\"", self.prefix.escape_ascii()))
            .field("content", &format_args!("{} bytes", self.content.len()))
            .finish()
    }
}

#[cfg(test)]
mod tests;
