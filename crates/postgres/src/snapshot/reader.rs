//! One table under a snapshot, and its rows out of COPY's text format.

use std::future::poll_fn;
use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream as _;
use tokio::time::{Instant, timeout_at};
use tokio_postgres::CopyOutStream;
use walpost_core::pgoutput::{Cell, Insert, Message, Tuple};
use walpost_core::time::Timestamp;

use super::{Table, encoded};
use crate::connection::{ConnectionSettings, Endpoint};
use crate::error::{Error, Phase};
use crate::identifier::quote_literal;
use crate::sql::Session;

/// How long a statement but COPY may take, and COPY to get hold of its table.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// How long the next row may be on its way, once the first is there: it is sorted, and nothing has to be awaited any more. Until then a server
/// that sorts cannot be told from one that hangs, unless it is asked by another session.
const SILENCE: Duration = Duration::from_secs(60);

/// A row, its cells as COPY wrote them.
pub(super) struct Row {
    pub(super) time: Timestamp,
    pub(super) statement: u32,
    pub(super) cells: Bytes,
}

/// One table's rows in their order.
pub(super) struct Reader {
    pub(super) id: u32,
    pub(super) relation: Bytes,
    pub(super) is_told: bool,
    rows: Pin<Box<CopyOutStream>>,
    pub(super) head: Option<Row>,
    is_done: bool,
    /// Since when the next row has been waited for, where one came before.
    waits_since: Option<Instant>,
    silence: Duration,
    /// Keeps the transaction.
    _session: Session,
}

impl Reader {
    pub(super) async fn open(
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
                 SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = {}; SET LOCAL row_security = off",
                quote_literal(snapshot),
                STATEMENT_TIMEOUT.as_millis()
            ))
            .await?;
        let rows = session.copy_out(&table.copy(since)).await?;
        Ok(Self {
            id: table.id,
            relation: table.relation(),
            is_told: false,
            rows: Box::pin(rows),
            head: None,
            is_done: false,
            waits_since: None,
            silence: SILENCE,
            _session: session,
        })
    }

    /// Waits for the next row, unless it is there. Cancel-safe.
    pub(super) async fn fill(&mut self) -> Result<(), Error> {
        if self.head.is_some() || self.is_done {
            return Ok(());
        }
        match self.line().await? {
            None => self.is_done = true,
            Some(line) => self.head = Some(row_of(line)?),
        }
        Ok(())
    }

    /// The next line. Whoever stops waiting and comes back goes on waiting.
    async fn line(&mut self) -> Result<Option<Bytes>, Error> {
        let next = poll_fn(|context| self.rows.as_mut().poll_next(context));
        let line = match self.waits_since {
            None => next.await,
            Some(since) => {
                let late = Error::Deadline { phase: Phase::Query, after: self.silence };
                timeout_at(since + self.silence, next).await.map_err(|_| late)?
            }
        };
        self.waits_since = Some(Instant::now());
        line.transpose().map_err(|error| Error::from_sql(error, Phase::Query))
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
pub(super) fn insert(relation: u32, fields: &[u8]) -> Bytes {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sql::tests::{DONE, frozen_server, scripted};

    /// A message of the server.
    fn message(tag: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[tag], &length[..], body].concat()
    }

    /// The answers up to a row of COPY: to the transaction, to the statement as it is prepared, and as it runs.
    fn up_to_a_row() -> Vec<Vec<u8>> {
        let prepared = [message(b'1', b""), message(b't', &[0, 0]), message(b'n', b""), message(b'Z', b"T")].concat();
        let copies = [message(b'2', b""), message(b'H', &[0, 0, 0]), message(b'd', b"17\t3\ta\n")].concat();
        vec![DONE.to_vec(), prepared, copies]
    }

    async fn open(answers: Vec<Vec<u8>>) -> Result<Reader, Error> {
        let settings = frozen_server(answers).await;
        let table = Table {
            name: walpost_core::outbox::TableName { schema: "public".to_owned(), table: "outbox".to_owned() },
            id: 1,
            is_partitioned: false,
            columns: Vec::new(),
            filter: None,
            time: super::super::Time::Commit,
        };
        Reader::open(&settings, &settings.endpoints()[0], "1-1", &table, Timestamp::from_postgres_micros(0)).await
    }

    #[tokio::test]
    async fn a_server_that_freezes_before_it_copies_is_given_up() {
        let mut session = scripted(Vec::new()).await;
        let error = session.copy_out("COPY t TO STDOUT").await.err().expect("nobody answered");
        assert!(matches!(error, Error::Deadline { .. }), "{error}");
    }

    #[tokio::test]
    async fn a_server_that_freezes_between_two_rows_is_given_up_however_often_the_wait_is_broken_off() {
        let mut reader = open(up_to_a_row()).await.unwrap();
        reader.silence = Duration::from_millis(200);
        reader.fill().await.unwrap();
        assert_eq!(reader.head.take().map(|row| row.statement), Some(3));
        let error = loop {
            match tokio::time::timeout(Duration::from_millis(50), reader.fill()).await {
                Ok(filled) => break filled.expect_err("nothing came"),
                Err(_) => assert!(reader.head.is_none(), "nothing came"),
            }
        };
        assert!(matches!(error, Error::Deadline { .. }), "{error}");
    }

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
}
