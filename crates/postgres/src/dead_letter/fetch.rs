//! The row that a letter keeps a reference to, as it stands in its table.
//!
//! It is told as the log told it: the same columns in the same order, each as its type writes it (see [`crate::snapshot`] for why that takes COPY),
//! so that a row which nobody changed has the very bytes that it had. Nothing is judged here but whether there is such a row: whether it
//! is the same is for its hash to say.
//!
//! What the server refuses for this row, a table that is gone, a column, a privilege, is a reason why it cannot be sent, and no failure: other letters
//! of other tables can.

use std::future::poll_fn;
use std::pin::pin;
use std::time::Duration;

use bytes::Bytes;
use futures_core::Stream as _;
use walpost_core::outbox::TableName;
use walpost_core::pgoutput::{Cell, Insert, Message, Relation};
use walpost_core::poison::DeadLetter;

use super::Error;
use crate::connection::ConnectionSettings;
use crate::error::{Error as SqlError, Phase};
use crate::identifier::{quote_identifier, quote_literal, quote_table};
use crate::snapshot;
use crate::sql::Session;

/// How long a row may take to come.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// The classes of what PostgreSQL says of a statement that will never be right for this row: data exceptions, and syntax, names and access.
const REFUSALS: [&str; 2] = ["22", "42"];

/// See the module's documentation. Connects when it is first used.
#[derive(Debug)]
pub struct RowReader {
    connection: ConnectionSettings,
    /// Away while it works: where the work fails or is given up, it is closed.
    session: Option<Session>,
}

/// The row of a letter, or why there is none that could be sent.
pub type Fetched = Result<Bytes, String>;

impl RowReader {
    /// A reader of this database.
    #[must_use]
    pub fn new(connection: ConnectionSettings) -> Self {
        Self { connection, session: None }
    }

    /// The `Insert` message of the row that a letter keeps a reference to.
    ///
    /// # Errors
    /// The database cannot be reached or did not answer in time.
    pub async fn fetch(&mut self, letter: &DeadLetter) -> Result<Fetched, Error> {
        let Some(wanted) = Wanted::of(letter) else {
            return Ok(Err("the key that its letter keeps cannot be read".to_owned()));
        };
        let was_open = self.session.is_some();
        match self.rows(&wanted.statement).await {
            Err(SqlError::Connection { .. } | SqlError::Ended) if was_open => {}
            answer => return wanted.judge(answer, letter),
        }
        let answer = self.rows(&wanted.statement).await;
        wanted.judge(answer, letter)
    }

    async fn rows(&mut self, statement: &str) -> Result<Vec<Bytes>, SqlError> {
        let mut session = match self.session.take().filter(|session| !session.is_closed()) {
            Some(session) => session,
            None => self.open().await?,
        };
        let after = STATEMENT_TIMEOUT;
        let read = tokio::time::timeout(after, read(&mut session, statement)).await;
        let rows = read.unwrap_or(Err(SqlError::Deadline { phase: Phase::Query, after }));
        if rows.as_ref().err().is_none_or(|error| error.sqlstate().is_some()) {
            self.session = Some(session);
        }
        rows
    }

    /// Rows that row-level security would hide are an error and no silence.
    async fn open(&self) -> Result<Session, SqlError> {
        let session = Session::connect(&self.connection, STATEMENT_TIMEOUT).await?;
        session.execute_batch("SET row_security = off; SET default_transaction_read_only = on").await?;
        Ok(session)
    }
}

async fn read(session: &mut Session, statement: &str) -> Result<Vec<Bytes>, SqlError> {
    let failed = |error| SqlError::from_sql(error, Phase::Query);
    let mut stream = pin!(session.client_mut().copy_out(statement).await.map_err(failed)?);
    let mut lines = Vec::new();
    while let Some(line) = poll_fn(|context| stream.as_mut().poll_next(context)).await {
        lines.push(line.map_err(failed)?);
    }
    Ok(lines)
}

/// What is asked for.
struct Wanted {
    relation: u32,
    statement: String,
}

impl Wanted {
    fn of(letter: &DeadLetter) -> Option<Self> {
        let (relation, insert) = (Message::parse(&letter.row.relation), Message::parse(&letter.row.insert));
        let (Ok(Message::Relation(relation)), Ok(Message::Insert(insert))) = (relation, insert) else { return None };
        let statement = statement(&letter.table, &relation, &insert)?;
        Some(Self { relation: relation.id, statement })
    }

    fn judge(&self, answer: Result<Vec<Bytes>, SqlError>, letter: &DeadLetter) -> Result<Fetched, Error> {
        let table = &letter.table;
        let refused = |error: &SqlError| {
            error.sqlstate().is_some_and(|state| REFUSALS.iter().any(|class| state.starts_with(class)))
        };
        Ok(match answer {
            Err(error) if refused(&error) => Err(format!(
                "its letter keeps a reference to its row, which cannot be read from {table}: {}",
                walpost_core::failure::chain(&error)
            )),
            Err(error) => return Err(Error::Rows { source: error }),
            Ok(lines) => match lines.as_slice() {
                [line] => Ok(snapshot::insert_of_line(self.relation, line)),
                [] => Err(format!(
                    "its letter keeps a reference to its row, which is not in {table} any more; write it there again as it was, or give the letter up with: walpost dlq drop"
                )),
                _ => Err(format!(
                    "its letter keeps a reference to its row, and {table} has more than one row of its key; leave one of them, or give the letter up with: walpost dlq drop"
                )),
            },
        })
    }
}

/// The first column is empty, so that a line without columns differs from one with an empty one.
fn statement(table: &TableName, relation: &Relation<'_>, insert: &Insert<'_>) -> Option<String> {
    let mut columns = String::from("''");
    let mut conditions = Vec::new();
    for (column, cell) in relation.columns.iter().zip(&insert.new.cells) {
        let name = quote_identifier(column.name);
        columns.push_str(&format!(", o.{name}"));
        match cell {
            Cell::Unchanged => {}
            Cell::Text(text) => {
                conditions.push(format!("o.{name} = {}", quote_literal(std::str::from_utf8(text).ok()?)));
            }
            Cell::Null | Cell::Binary(_) => return None,
        }
    }
    let from = quote_table(table);
    (!conditions.is_empty()).then(|| {
        format!("COPY (SELECT {columns} FROM {from} AS o WHERE {} LIMIT 2) TO STDOUT", conditions.join(" AND "))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use walpost_core::pgoutput::{Column, Tuple};

    #[test]
    fn a_row_is_asked_for_by_its_key_whatever_the_names_and_nothing_without_one() {
        let columns = ["id", "O'x", "a\"b"].map(|name| Column { flags: 0, name, type_id: 25, type_modifier: -1 });
        let relation = Relation {
            id: 7,
            namespace: "public",
            name: "outbox",
            replica_identity: b'd',
            columns: columns.into_iter().collect(),
        };
        let table = TableName { schema: "My Schema".to_owned(), table: "t".to_owned() };
        let asked = |cells: [Cell<'_>; 3]| {
            let insert = Insert { relation: 7, new: Tuple { cells: cells.into_iter().collect() } };
            statement(&table, &relation, &insert)
        };
        assert_eq!(
            asked([Cell::Text(b"it's"), Cell::Text(br"a\b"), Cell::Unchanged]).as_deref(),
            Some(
                r#"COPY (SELECT '', o."id", o."O'x", o."a""b" FROM "My Schema"."t" AS o WHERE o."id" = 'it''s' AND o."O'x" =  E'a\\b' LIMIT 2) TO STDOUT"#
            )
        );
        assert_eq!(asked([Cell::Unchanged; 3]), None);
        assert_eq!(asked([Cell::Text(b"\xff"), Cell::Unchanged, Cell::Unchanged]), None);
        assert_eq!(asked([Cell::Null, Cell::Unchanged, Cell::Unchanged]), None);
    }
}
