//! Rows that stand in a table, told as the log would have told them: what fills a gap that no log covers any more.
//!
//! A new slot exports the snapshot that its log begins after ([`NewSlot`]), so what is visible there and what the slot will send
//! are together everything, and nothing twice. [`Rows`] reads tables under that snapshot and is a [`Source`] like a stream: `Relation`
//! and `Insert` messages in transactions, in front of which stands the same session as ever, with its limits and its order.
//!
//! # The bytes of a value
//!
//! They come by COPY in its text format, which writes what the type's output function gives (`CopyOneRowTo` in copyto.c), as pgoutput
//! does (`logicalrep_write_tuple` in proto.c), under the same settings of the session; a cast to text would not: it writes
//! `true` for `t` and cuts the blanks of a `char(n)`. COPY also needs no cursor: what is not read waits in the server.
//!
//! # Their order, and who they are
//!
//! The time comes first: of the commit, where the server tracks it, else of a column. Within the same time, which is one transaction unless
//! two committed in one microsecond, `cmin` is the number of the statement, and tells the order across tables too; for the rows of
//! one statement `ctid` is where they lie, which on fresh pages is how they came.
//!
//! Where a row stood in the log nobody knows any more. So rows of one time are told as one transaction, with that time for its commit LSN
//! and on timeline 0, which no server has: a filled row is never taken for a streamed one, and the same row again is the same event, as
//! long as none before it within the same microsecond is deleted.
//!
//! What it refuses to do: judge whether rows were deleted. That is for [`repair`](crate::repair).

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::future::{pending, poll_fn};
use std::pin::Pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_core::Stream as _;
use pgwire_replication::ReplicationClient;
use tokio::sync::oneshot;
use tokio_postgres::CopyOutStream;
use walpost_core::frame::{Frame, StatusUpdate, XLogData};
use walpost_core::lsn::Lsn;
use walpost_core::outbox::TableName;
use walpost_core::pgoutput::{Begin, Cell, Column, Commit, Insert, Message, Relation, Tuple};
use walpost_core::port::Source;
use walpost_core::position::{Identity, Timeline};
use walpost_core::time::Timestamp;

use crate::connection::{ConnectionSettings, Endpoint};
use crate::error::{Error, Phase};
use crate::identifier::{SlotName, quote_identifier, quote_literal, quote_table};
use crate::replication;
use crate::sql::Session;

/// The timeline of rows that were not read from a log.
pub const NO_TIMELINE: Timeline = Timeline(0);

/// How long the slot may take to be made: the server waits for every transaction that is running.
const SLOT_TIMEOUT: Duration = Duration::from_secs(300);

/// How long a statement but COPY may take.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// The replication session is idle for as long as rows are read, within the transaction that keeps its snapshot.
const MAY_IDLE: &str = "-c idle_in_transaction_session_timeout=0 -c idle_session_timeout=0";

/// How much is handed over at once.
const MAX_BATCH_BYTES: usize = 256 << 10;

/// A slot that was just made, and the session that keeps its snapshot: dropped, the snapshot can no longer be entered.
pub struct NewSlot {
    client: ReplicationClient,
    /// The name of the snapshot.
    pub snapshot: String,
    /// Where its log begins: everything that commits from here on is not in the snapshot.
    pub consistent: Lsn,
}

impl NewSlot {
    /// Makes a slot, for standbys too where that is asked for (PostgreSQL 17 and later), and exports its snapshot.
    ///
    /// # Errors
    /// The server cannot be reached or refuses, or transactions that were running have not ended within five minutes.
    pub async fn create(
        connection: &ConnectionSettings,
        endpoint: &Endpoint,
        slot: &SlotName,
        failover: bool,
    ) -> Result<Self, Error> {
        // The parentheses came with 15.
        let options = if failover { "(SNAPSHOT 'export', FAILOVER true)" } else { "EXPORT_SNAPSHOT" };
        let command = format!("CREATE_REPLICATION_SLOT {slot} LOGICAL pgoutput {options}");
        let mut client = replication::open_gated(connection, endpoint, MAY_IDLE).await?;
        let answer = tokio::time::timeout(SLOT_TIMEOUT, client.simple_query(&command)).await;
        let Ok(answer) = answer else {
            client.abort();
            return Err(Error::Deadline { phase: Phase::Starting, after: SLOT_TIMEOUT });
        };
        let rows = answer.map_err(|error| Error::from_replication(error, Phase::Starting))?;
        let text = |place: usize| {
            let cell = rows.first().and_then(|row| row.get(place)).and_then(Option::as_ref);
            cell.map(|bytes| String::from_utf8_lossy(bytes).into_owned()).unwrap_or_default()
        };
        let (consistent, snapshot) = (text(1), text(2));
        let consistent =
            consistent.parse().map_err(|_| Error::Unexpected { what: "a new slot's position", value: consistent })?;
        Ok(Self { client, snapshot, consistent })
    }
}

impl Drop for NewSlot {
    fn drop(&mut self) {
        self.client.abort();
    }
}

impl std::fmt::Debug for NewSlot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NewSlot").field("consistent", &self.consistent).finish_non_exhaustive()
    }
}

/// What tells when a row came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Time {
    /// The commit of its transaction, as the server tracks it.
    Commit,
    /// This column.
    Column(String),
}

impl Time {
    /// Microseconds since 2000 as SQL, of the row `o`; NULL where it is not known.
    pub(crate) fn sql(&self) -> String {
        const SINCE_2000: &str = " * 1000000)::int8 - 946684800000000";
        match self {
            Self::Commit => format!("(extract(epoch FROM pg_xact_commit_timestamp(o.xmin)){SINCE_2000}"),
            Self::Column(name) => {
                let name = quote_identifier(name);
                format!("CASE WHEN isfinite(o.{name}) THEN (extract(epoch FROM o.{name}::timestamptz){SINCE_2000} END")
            }
        }
    }
}

/// A table whose rows are read, as the log tells of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// Its name; of a partitioned one, the root's.
    pub name: TableName,
    /// Its OID.
    pub id: u32,
    /// Whether its rows lie in partitions.
    pub is_partitioned: bool,
    /// The columns that are published, in their order.
    pub columns: Vec<TableColumn>,
    /// The publication's condition, where it publishes some rows only.
    pub filter: Option<String>,
    /// What tells when a row came.
    pub time: Time,
}

/// A column of a [`Table`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableColumn {
    /// Its name.
    pub name: String,
    /// The OID of its type.
    pub type_id: u32,
    /// Its `atttypmod`.
    pub type_modifier: i32,
}

impl Table {
    /// Where its published rows come from; the row is `o`. Of a table that others inherit from, only its own are told under its name.
    pub(crate) fn source_clause(&self) -> String {
        let only = if self.is_partitioned { "" } else { "ONLY " };
        let filter = self.filter.as_ref().map(|filter| format!(" WHERE ({filter})")).unwrap_or_default();
        format!("FROM {only}{} AS o{filter}", quote_table(&self.name))
    }

    /// Those of them that came since then.
    pub(crate) fn source_since(&self, since: Timestamp) -> String {
        let joined = if self.filter.is_some() { "AND" } else { "WHERE" };
        format!("{} {joined} {} >= {}", self.source_clause(), self.time.sql(), since.postgres_micros())
    }

    /// The order of its rows.
    pub(crate) fn order(&self) -> [String; 4] {
        [self.time.sql(), "o.cmin::text::int8".to_owned(), "o.tableoid".to_owned(), "o.ctid".to_owned()]
    }

    fn copy(&self, since: Timestamp) -> String {
        let mut columns = String::new();
        for column in &self.columns {
            // Writing to a `String` cannot fail.
            let _ = write!(columns, ", o.{}", quote_identifier(&column.name));
        }
        let (time, from, order) = (self.time.sql(), self.source_since(since), self.order().join(", "));
        format!("COPY (SELECT {time}, o.cmin{columns} {from} ORDER BY {order}) TO STDOUT")
    }

    fn relation(&self) -> Bytes {
        encoded(&Message::Relation(Relation {
            id: self.id,
            namespace: &self.name.schema,
            name: &self.name.table,
            replica_identity: b'd',
            columns: self
                .columns
                .iter()
                .map(|TableColumn { name, type_id, type_modifier }| Column {
                    flags: 0,
                    name,
                    type_id: *type_id,
                    type_modifier: *type_modifier,
                })
                .collect(),
        }))
    }
}

/// The rows of tables since a time, in one order. See the module's documentation.
pub struct Rows {
    readers: Vec<Reader>,
    /// The transaction that is open: its time, and the ordinal of its next row.
    open: Option<(Timestamp, u64)>,
    /// Rows that are passed over.
    skipped: BTreeSet<Identity>,
    has_told_of_strangers: bool,
    /// Tells that there are no more.
    exhausted: Option<oneshot::Sender<()>>,
}

impl Rows {
    /// Opens the tables under a snapshot, a session each. `skipped` are passed over; their places count.
    ///
    /// The answer completes once the last row was handed over.
    ///
    /// # Errors
    /// A session cannot be had, or may not read its table, or the snapshot is gone.
    pub async fn open(
        connection: &ConnectionSettings,
        endpoint: &Endpoint,
        snapshot: &str,
        tables: &[Table],
        since: Timestamp,
        skipped: BTreeSet<Identity>,
    ) -> Result<(Self, oneshot::Receiver<()>), Error> {
        let mut readers = Vec::new();
        for table in tables {
            readers.push(Reader::open(connection, endpoint, snapshot, table, since).await?);
        }
        let (exhausted, is_exhausted) = oneshot::channel();
        let rows = Self { readers, open: None, skipped, has_told_of_strangers: false, exhausted: Some(exhausted) };
        Ok((rows, is_exhausted))
    }

    /// The reader whose row comes next, when all of them were waited for.
    async fn next_reader(&mut self) -> Result<Option<usize>, Error> {
        for reader in &mut self.readers {
            reader.fill().await?;
        }
        let heads = self.readers.iter().enumerate().filter_map(|(place, reader)| Some((reader.head.as_ref()?, place)));
        Ok(heads.min_by_key(|(head, place)| (head.time, head.statement, *place)).map(|(_, place)| place))
    }

    /// Hands over a row, and what has to stand in front of it.
    fn tell(&mut self, place: usize, into: &mut Vec<Frame>) -> usize {
        let Some(reader) = self.readers.get_mut(place) else { return 0 };
        let Some(Row { time, cells, .. }) = reader.head.take() else { return 0 };
        let ordinal = match self.open {
            Some((open, ordinal)) if open == time => ordinal,
            _ => {
                self.close(into);
                into.push(begin(time));
                0
            }
        };
        self.open = Some((time, ordinal + 1));
        let identity = Identity { timeline: NO_TIMELINE, commit_lsn: place_of(time), ordinal };
        if self.skipped.contains(&identity) {
            self.tell_of_stranger(time, into);
            return 0;
        }
        let Some(reader) = self.readers.get_mut(place) else { return 0 };
        if !std::mem::replace(&mut reader.is_told, true) {
            into.push(frame(time, reader.relation.clone()));
        }
        let insert = insert(reader.id, &cells);
        let weight = insert.len();
        into.push(frame(time, insert));
        weight
    }

    /// An insert into a table that nobody configured, in the place of a row that is passed over: those after it keep their ordinals.
    fn tell_of_stranger(&mut self, time: Timestamp, into: &mut Vec<Frame>) {
        if !std::mem::replace(&mut self.has_told_of_strangers, true) {
            let relation =
                Relation { id: 0, namespace: "", name: "", replica_identity: b'd', columns: [].into_iter().collect() };
            into.push(frame(time, encoded(&Message::Relation(relation))));
        }
        into.push(frame(time, insert(0, b"")));
    }

    fn close(&mut self, into: &mut Vec<Frame>) {
        if let Some((time, _)) = self.open.take() {
            into.push(commit(time));
        }
    }
}

impl Source for Rows {
    type Error = Error;

    /// Cancel-safe: what was taken from a table is kept here until it is appended.
    async fn next_frames(&mut self, into: &mut Vec<Frame>) -> Result<(), Error> {
        let mut weight = 0;
        while weight < MAX_BATCH_BYTES {
            match self.next_reader().await? {
                Some(place) => weight += self.tell(place, into) + size_of::<Frame>(),
                None => {
                    self.close(into);
                    break;
                }
            }
        }
        if into.is_empty() {
            if let Some(exhausted) = self.exhausted.take() {
                // Nobody is left to be told.
                let _ = exhausted.send(());
            }
            pending::<()>().await;
        }
        Ok(())
    }

    /// There is no log behind these rows that could be forgotten.
    fn confirm(&mut self, _: StatusUpdate) -> Result<(), Error> {
        Ok(())
    }

    async fn finish(self) {}
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("open", &self.open).finish_non_exhaustive()
    }
}

/// A row, its cells as COPY wrote them.
struct Row {
    time: Timestamp,
    statement: u32,
    cells: Bytes,
}

/// One table's rows in their order.
struct Reader {
    id: u32,
    relation: Bytes,
    is_told: bool,
    rows: Pin<Box<CopyOutStream>>,
    head: Option<Row>,
    is_done: bool,
    /// Keeps the transaction.
    _session: Session,
}

impl Reader {
    async fn open(
        connection: &ConnectionSettings,
        endpoint: &Endpoint,
        snapshot: &str,
        table: &Table,
        since: Timestamp,
    ) -> Result<Self, Error> {
        let mut session = Session::connect_to(connection, endpoint, STATEMENT_TIMEOUT).await?;
        // Rows that row-level security would hide are an error and no silence. COPY waits for the broker, and is not slow by itself.
        session
            .execute_batch(&format!(
                "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT {}; \
                 SET LOCAL statement_timeout = 0; SET LOCAL row_security = off",
                quote_literal(snapshot)
            ))
            .await?;
        let rows = session.client_mut().copy_out(&table.copy(since)).await;
        let rows = rows.map_err(|error| Error::from_sql(error, Phase::Query))?;
        Ok(Self {
            id: table.id,
            relation: table.relation(),
            is_told: false,
            rows: Box::pin(rows),
            head: None,
            is_done: false,
            _session: session,
        })
    }

    /// Waits for the next row, unless it is there. Cancel-safe.
    async fn fill(&mut self) -> Result<(), Error> {
        if self.head.is_some() || self.is_done {
            return Ok(());
        }
        match poll_fn(|context| self.rows.as_mut().poll_next(context)).await {
            None => self.is_done = true,
            Some(Err(error)) => return Err(Error::from_sql(error, Phase::Query)),
            Some(Ok(line)) => self.head = Some(row_of(line)?),
        }
        Ok(())
    }
}

/// Takes time and statement off the line of a row: one message of COPY is one line.
fn row_of(mut line: Bytes) -> Result<Row, Error> {
    let broken = || Error::Protocol { phase: Phase::Query, reason: "a line of COPY is no row".to_owned() };
    if line.last() == Some(&b'\n') {
        line.truncate(line.len() - 1);
    }
    let number = |line: &mut Bytes| {
        let end = line.iter().position(|byte| *byte == b'\t').unwrap_or(line.len());
        let field = line.split_to(end);
        // The tab in front of the next field stays, so that a row without columns differs from one with an empty one.
        std::str::from_utf8(&field).ok().and_then(|text| text.parse::<i64>().ok())
    };
    let time = number(&mut line).ok_or_else(broken)?;
    if line.is_empty() {
        return Err(broken());
    }
    let mut line = line.split_off(1);
    let statement = number(&mut line).and_then(|number| u32::try_from(number).ok()).ok_or_else(broken)?;
    Ok(Row { time: Timestamp::from_postgres_micros(time), statement, cells: line })
}

/// The message of a row whose fields each follow a tab.
fn insert(relation: u32, fields: &[u8]) -> Bytes {
    let texts: Vec<Option<Vec<u8>>> = fields.split(|byte| *byte == b'\t').skip(1).map(unescaped).collect();
    let cells = texts.iter().map(|text| text.as_ref().map_or(Cell::Null, |text| Cell::Text(text))).collect();
    encoded(&Message::Insert(Insert { relation, new: Tuple { cells } }))
}

/// A field of COPY's text format as its type wrote it; `None` for NULL ("File Formats" of COPY in PostgreSQL's manual).
fn unescaped(field: &[u8]) -> Option<Vec<u8>> {
    if field == br"\N" {
        return None;
    }
    let mut text = Vec::with_capacity(field.len());
    let mut bytes = field.iter();
    while let Some(byte) = bytes.next() {
        text.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'b') => 0x08,
                Some(b'f') => 0x0C,
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                Some(b't') => b'\t',
                Some(b'v') => 0x0B,
                Some(other) => *other,
                None => b'\\',
            },
            byte => *byte,
        });
    }
    Some(text)
}

/// The commit LSN of the rows of a time.
#[must_use]
pub fn place_of(time: Timestamp) -> Lsn {
    Lsn::new(u64::try_from(time.postgres_micros()).unwrap_or(0).max(1))
}

fn begin(time: Timestamp) -> Frame {
    frame(time, encoded(&Message::Begin(Begin { final_lsn: place_of(time), commit_time: time, xid: 0 })))
}

fn commit(time: Timestamp) -> Frame {
    let commit_lsn = place_of(time);
    let end_lsn = Lsn::new(commit_lsn.get() + 1);
    frame(time, encoded(&Message::Commit(Commit { flags: 0, commit_lsn, end_lsn, commit_time: time })))
}

fn frame(time: Timestamp, data: Bytes) -> Frame {
    let place = place_of(time);
    Frame::XLogData(XLogData { wal_start: place, wal_end: place, server_time: time, data })
}

fn encoded(message: &Message<'_>) -> Bytes {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes);
    bytes.freeze()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_of_copy_is_what_the_type_wrote() {
        for (field, text) in [
            ("", Some("")),
            ("plain", Some("plain")),
            (r"\N", None),
            (r"\\N", Some(r"\N")),
            (r"a\tb\nc\rd\\e", Some("a\tb\nc\rd\\e")),
            (r"\b\f\v", Some("\u{8}\u{c}\u{b}")),
            ("ü\u{0}", Some("ü\u{0}")),
        ] {
            assert_eq!(unescaped(field.as_bytes()).as_deref(), text.map(str::as_bytes), "{field}");
        }
    }

    #[test]
    fn a_line_of_copy_is_a_time_a_statement_and_the_row() {
        let line = |text: &'static str| row_of(Bytes::from_static(text.as_bytes()));
        let row = line("17\t3\ta\\tb\t\\N\t\n").unwrap();
        assert_eq!((row.time.postgres_micros(), row.statement), (17, 3));
        let message = insert(9, &row.cells);
        let Ok(Message::Insert(insert)) = Message::parse(&message) else { panic!("no insert") };
        assert_eq!(insert.relation, 9);
        assert_eq!(insert.new.cells[..], [Cell::Text(b"a\tb"), Cell::Null, Cell::Text(b"")]);
        assert_eq!(line("17\t3\n").unwrap().cells, "");
        for broken in ["", "\n", "x\t1\ta", "17", "17\tx", "17\t-1"] {
            assert!(line(broken).is_err(), "{broken}");
        }
    }

    #[test]
    fn tables_and_columns_of_any_name_are_read_and_a_publications_condition_is_kept() {
        let column = |name: &str| TableColumn { name: name.to_owned(), type_id: 25, type_modifier: -1 };
        let mut table = Table {
            name: TableName { schema: "My Schema".to_owned(), table: "a\"b".to_owned() },
            id: 1,
            is_partitioned: false,
            columns: vec![column("id"), column("O'x")],
            filter: None,
            time: Time::Column("made".to_owned()),
        };
        let since = Timestamp::from_postgres_micros(7);
        let copy = table.copy(since);
        assert!(copy.contains(r#", o."id", o."O'x" FROM ONLY "My Schema"."a""b" AS o WHERE CASE"#), "{copy}");
        table.filter = Some("(kind = 1) OR (kind = 2)".to_owned());
        table.is_partitioned = true;
        let copy = table.copy(since);
        assert!(copy.contains(r#"FROM "My Schema"."a""b" AS o WHERE ((kind = 1) OR (kind = 2)) AND CASE"#), "{copy}");
    }
}
