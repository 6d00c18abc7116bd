//! Bytes to [`Message`].

use smallvec::SmallVec;

use super::cursor::Cursor;
use super::{
    Begin, Cell, Column, Commit, Delete, Insert, Kind, LogicalMessage, Message, OldTuple, Origin, ParseError, Relation,
    Truncate, Tuple, Type, Update,
};

/// A column takes its flags, at least the NUL of its name, its type and its modifier.
const LEAST_COLUMN: usize = 1 + 1 + 4 + 4;
/// A null cell is its tag alone.
const LEAST_CELL: usize = 1;
/// An OID.
const LEAST_RELATION: usize = 4;

impl<'a> Message<'a> {
    /// Reads one message, which is all of `data`.
    ///
    /// A message is some eight hundred bytes and keeps its cells in itself. Match it by reference: moving it out of the
    /// result costs about as much as parsing it did.
    ///
    /// # Errors
    /// [`ParseError`], when `data` is not exactly one message. A tag that protocol 1 does not know is no error:
    /// [`Message::Unknown`].
    #[inline]
    pub fn parse(data: &'a [u8]) -> Result<Self, ParseError> {
        let (&tag, rest) = data.split_first().ok_or(ParseError::Empty)?;
        let Some(kind) = Kind::of_tag(tag) else { return Ok(Self::Unknown(tag)) };
        let mut cursor = Cursor::behind_tag(kind, rest);
        let message = match kind {
            Kind::Insert => return insert(cursor),
            Kind::Begin => Self::Begin(begin(&mut cursor)?),
            Kind::Commit => Self::Commit(commit(&mut cursor)?),
            Kind::Origin => Self::Origin(origin(&mut cursor)?),
            Kind::Relation => Self::Relation(relation(&mut cursor)?),
            Kind::Type => Self::Type(type_name(&mut cursor)?),
            Kind::Update => Self::Update(update(&mut cursor)?),
            Kind::Delete => Self::Delete(delete(&mut cursor)?),
            Kind::Truncate => Self::Truncate(truncate(&mut cursor)?),
            Kind::Logical => Self::Logical(logical(&mut cursor)?),
        };
        cursor.finish()?;
        Ok(message)
    }
}

#[inline]
fn begin(cursor: &mut Cursor<'_>) -> Result<Begin, ParseError> {
    Ok(Begin {
        final_lsn: cursor.lsn("final LSN")?,
        commit_time: cursor.timestamp("commit time")?,
        xid: cursor.u32("transaction id")?,
    })
}

#[inline]
fn commit(cursor: &mut Cursor<'_>) -> Result<Commit, ParseError> {
    Ok(Commit {
        flags: cursor.u8("flags")?,
        commit_lsn: cursor.lsn("commit LSN")?,
        end_lsn: cursor.lsn("end LSN")?,
        commit_time: cursor.timestamp("commit time")?,
    })
}

fn origin<'a>(cursor: &mut Cursor<'a>) -> Result<Origin<'a>, ParseError> {
    Ok(Origin { commit_lsn: cursor.lsn("origin's commit LSN")?, name: cursor.name("origin's name")? })
}

fn relation<'a>(cursor: &mut Cursor<'a>) -> Result<Relation<'a>, ParseError> {
    Ok(Relation {
        id: cursor.u32("relation's OID")?,
        namespace: cursor.identifier("schema's name")?,
        name: cursor.identifier("table's name")?,
        replica_identity: cursor.u8("replica identity")?,
        columns: columns(cursor)?,
    })
}

fn columns<'a>(cursor: &mut Cursor<'a>) -> Result<SmallVec<[Column<'a>; 16]>, ParseError> {
    let count = cursor.count16("number of columns", LEAST_COLUMN)?;
    let mut columns = SmallVec::with_capacity(count);
    for _ in 0..count {
        columns.push(Column {
            flags: cursor.u8("column's flags")?,
            name: cursor.identifier("column's name")?,
            type_id: cursor.u32("column's type OID")?,
            type_modifier: cursor.i32("column's type modifier")?,
        });
    }
    Ok(columns)
}

fn type_name<'a>(cursor: &mut Cursor<'a>) -> Result<Type<'a>, ParseError> {
    Ok(Type {
        id: cursor.u32("type's OID")?,
        namespace: cursor.identifier("schema's name")?,
        name: cursor.identifier("type's name")?,
    })
}

/// The one that is worth a way of its own, from the cells straight into the message.
#[inline]
fn insert<'a>(mut cursor: Cursor<'a>) -> Result<Message<'a>, ParseError> {
    const EXPECTED: &str = "new row ('N')";
    let relation = cursor.u32("relation's OID")?;
    match cursor.u8(EXPECTED)? {
        b'N' => {}
        other => return Err(cursor.unexpected(other, EXPECTED)),
    }
    let mut new = Tuple { cells: SmallVec::new() };
    fill(&mut new, &mut cursor)?;
    cursor.finish()?;
    Ok(Message::Insert(Insert { relation, new }))
}

fn update<'a>(cursor: &mut Cursor<'a>) -> Result<Update<'a>, ParseError> {
    const FIRST: &str = "old key ('K'), the old row ('O') or the new row ('N')";
    const SECOND: &str = "new row ('N')";
    let relation = cursor.u32("relation's OID")?;
    let old = match cursor.u8(FIRST)? {
        b'N' => return Ok(Update { relation, old: None, new: tuple(cursor)? }),
        b'K' => OldTuple::Key(tuple(cursor)?),
        b'O' => OldTuple::Row(tuple(cursor)?),
        other => return Err(cursor.unexpected(other, FIRST)),
    };
    match cursor.u8(SECOND)? {
        b'N' => Ok(Update { relation, old: Some(old), new: tuple(cursor)? }),
        other => Err(cursor.unexpected(other, SECOND)),
    }
}

fn delete<'a>(cursor: &mut Cursor<'a>) -> Result<Delete<'a>, ParseError> {
    const EXPECTED: &str = "old key ('K') or the old row ('O')";
    let relation = cursor.u32("relation's OID")?;
    let old = match cursor.u8(EXPECTED)? {
        b'K' => OldTuple::Key(tuple(cursor)?),
        b'O' => OldTuple::Row(tuple(cursor)?),
        other => return Err(cursor.unexpected(other, EXPECTED)),
    };
    Ok(Delete { relation, old })
}

/// The options stand between the count and what it counts, so the count is checked against one byte too many; the loop
/// finds out.
fn truncate(cursor: &mut Cursor<'_>) -> Result<Truncate, ParseError> {
    let count = cursor.count32("number of relations", LEAST_RELATION)?;
    let options = cursor.u8("options")?;
    let mut relations = SmallVec::with_capacity(count);
    for _ in 0..count {
        relations.push(cursor.u32("relation's OID")?);
    }
    Ok(Truncate { options, relations })
}

fn logical<'a>(cursor: &mut Cursor<'a>) -> Result<LogicalMessage<'a>, ParseError> {
    Ok(LogicalMessage {
        flags: cursor.u8("flags")?,
        lsn: cursor.lsn("message's LSN")?,
        prefix: cursor.name("prefix")?,
        content: cursor.counted("content")?,
    })
}

#[inline]
fn tuple<'a>(cursor: &mut Cursor<'a>) -> Result<Tuple<'a>, ParseError> {
    let mut tuple = Tuple { cells: SmallVec::new() };
    fill(&mut tuple, cursor)?;
    Ok(tuple)
}

/// Reads a row's cells where they are to stay.
fn fill<'a>(tuple: &mut Tuple<'a>, cursor: &mut Cursor<'a>) -> Result<(), ParseError> {
    let count = cursor.count16("number of columns", LEAST_CELL)?;
    tuple.cells.reserve_exact(count);
    for _ in 0..count {
        tuple.cells.push(cell(cursor)?);
    }
    Ok(())
}

#[inline]
fn cell<'a>(cursor: &mut Cursor<'a>) -> Result<Cell<'a>, ParseError> {
    const EXPECTED: &str = "kind of a value ('n', 'u', 't' or 'b')";
    match cursor.u8(EXPECTED)? {
        b't' => Ok(Cell::Text(cursor.counted("value in text form")?)),
        b'n' => Ok(Cell::Null),
        b'b' => Ok(Cell::Binary(cursor.counted("value in binary form")?)),
        b'u' => Ok(Cell::Unchanged),
        other => Err(cursor.unexpected(other, EXPECTED)),
    }
}
