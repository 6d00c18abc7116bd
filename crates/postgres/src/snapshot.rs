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

mod reader;
mod rows;

use std::fmt::Write as _;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use pgwire_replication::ReplicationClient;
use walpost_core::lsn::Lsn;
use walpost_core::outbox::TableName;
use walpost_core::pgoutput::{Column, Message, Relation};
#[cfg(doc)]
use walpost_core::port::Source;
use walpost_core::position::Timeline;
use walpost_core::time::Timestamp;

use crate::connection::{ConnectionSettings, Endpoint};
use crate::error::{Error, Phase};
use crate::identifier::{SlotName, quote_identifier, quote_table};
use crate::replication;

pub use rows::{Lettered, Rows};

/// The timeline of rows that were not read from a log.
pub const NO_TIMELINE: Timeline = Timeline(0);

/// How long the slot may take to be made: the server waits for every transaction that is running.
const SLOT_TIMEOUT: Duration = Duration::from_secs(300);

/// The replication session is idle for as long as rows are read, within the transaction that keeps its snapshot.
const MAY_IDLE: &str = "-c idle_in_transaction_session_timeout=0 -c idle_session_timeout=0";

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

/// The `Insert` message of a line of COPY whose first field is no column.
pub(crate) fn insert_of_line(relation: u32, line: &[u8]) -> Bytes {
    reader::insert(relation, line.strip_suffix(b"\n").unwrap_or(line))
}

/// The commit LSN of the rows of a time.
#[must_use]
pub fn place_of(time: Timestamp) -> Lsn {
    Lsn::new(u64::try_from(time.postgres_micros()).unwrap_or(0).max(1))
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
