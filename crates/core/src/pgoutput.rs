//! The messages of PostgreSQL's `pgoutput` plugin, protocol version 1.

use smallvec::SmallVec;

use crate::lsn::Lsn;
use crate::time::Timestamp;

/// One message, borrowing from the bytes that it was parsed from.
#[derive(Debug, Clone, PartialEq, Eq)]
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
    /// A tag that protocol 1 does not know; skipped and counted.
    Unknown(u8),
}

/// `B`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Begin {
    /// The LSN of the commit record: the identity of the transaction.
    pub final_lsn: Lsn,
    /// When it committed.
    pub commit_time: Timestamp,
    /// The transaction id.
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
    /// The origin's name.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogicalMessage<'a> {
    /// Bit 0: transactional.
    pub flags: u8,
    /// Where it stands in the log.
    pub lsn: Lsn,
    /// The prefix that its sender chose.
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
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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

/// Bytes that are no pgoutput message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("stand-in")]
pub struct ParseError;

impl<'a> Message<'a> {
    /// Stand-in.
    ///
    /// # Errors
    /// Always.
    pub fn parse(_: &'a [u8]) -> Result<Self, ParseError> {
        Err(ParseError)
    }
}
