//! A row of the source database, written by a session of its own that never blocks the stream.
//!
//! The session has a statement timeout, commits synchronously whatever the role's default is, and is opened again by the
//! next call when it was lost or did not answer. Every write is one statement whose WHERE holds the rules, so two writers cannot interleave.

use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, PgLsn, ToSql};
use walpost_core::lsn::Lsn;
use walpost_core::port::Checkpoints;
use walpost_core::position::{Checkpoint, Epoch, SettledRows, SystemIdentifier, Timeline};

use super::Error;
use crate::connection::ConnectionSettings;
use crate::error::Error as SqlError;
use crate::server_time::ServerTime;
use crate::sql::{self, Session};

// By way of JSON, a table that an earlier walpost made can be read, which lacks the columns of settled rows: `walpost init` reads it
// before it adds them.
const LOAD: &str = "
SELECT format_version, system_identifier::text AS system_identifier, timeline, database, slot, position, commit_time,
       (to_jsonb(stored) ->> 'settled_commit_lsn')::pg_lsn AS settled_commit_lsn,
       (to_jsonb(stored) ->> 'settled_through')::pg_lsn AS settled_through, epoch
FROM walpost.checkpoint AS stored WHERE relay = $1";

/// The order of the columns is that of `Written::parameters`.
///
/// The first epoch is the time in seconds: when the row was forgotten, the next claim must not meet the epoch of a relay that
/// still runs.
macro_rules! upsert {
    ($position:expr, $commit_time:expr, $settled_commit_lsn:expr, $settled_through:expr) => {
        concat!(
            "INSERT INTO walpost.checkpoint AS stored (relay, format_version, system_identifier, timeline, database, slot,",
            " position, commit_time, settled_commit_lsn, settled_through, epoch, updated_at)",
            " VALUES ($1, $2, $3::text::numeric, $4, $5, $6, $7, $8, $9, $10, extract(epoch FROM now())::bigint, now())",
            " ON CONFLICT (relay) DO UPDATE SET format_version = excluded.format_version,",
            " system_identifier = excluded.system_identifier, timeline = excluded.timeline, database = excluded.database,",
            " slot = excluded.slot, position = ",
            $position,
            ", commit_time = ",
            $commit_time,
            ", settled_commit_lsn = ",
            $settled_commit_lsn,
            ", settled_through = ",
            $settled_through,
            ", epoch = stored.epoch + 1, updated_at = now() WHERE stored.format_version <= excluded.format_version RETURNING epoch"
        )
    };
}

/// What a predecessor wrote between our reading and our claim, where that is not behind what is offered, or else what is offered.
macro_rules! furthest {
    ($stored:literal, $offered:literal) => {
        concat!(
            "CASE WHEN stored.system_identifier = excluded.system_identifier AND stored.slot = excluded.slot",
            " AND stored.timeline = excluded.timeline AND stored.position >= excluded.position THEN ",
            $stored,
            " ELSE ",
            $offered,
            " END"
        )
    };
}

// As `Checkpoint::claimed`: not before what a predecessor wrote, for the slot may be confirmed that far.
const CLAIM: &str = upsert!(
    "CASE WHEN stored.system_identifier = excluded.system_identifier AND stored.slot = excluded.slot \
     THEN greatest(stored.position, excluded.position) ELSE excluded.position END",
    furthest!(
        "coalesce(stored.commit_time, excluded.commit_time)",
        "coalesce(excluded.commit_time, stored.commit_time)"
    ),
    furthest!(
        "CASE WHEN stored.settled_commit_lsn >= stored.position THEN stored.settled_commit_lsn END",
        "CASE WHEN stored.system_identifier <> excluded.system_identifier OR stored.slot <> excluded.slot \
         OR stored.position <= excluded.settled_commit_lsn THEN excluded.settled_commit_lsn END"
    ),
    furthest!(
        "CASE WHEN stored.settled_commit_lsn >= stored.position THEN stored.settled_through END",
        "CASE WHEN stored.system_identifier <> excluded.system_identifier OR stored.slot <> excluded.slot \
         OR stored.position <= excluded.settled_commit_lsn THEN excluded.settled_through END"
    )
);

const REPLACE: &str = upsert!(
    "excluded.position",
    "coalesce(excluded.commit_time, stored.commit_time)",
    "excluded.settled_commit_lsn",
    "excluded.settled_through"
);

const SAVE: &str = "
UPDATE walpost.checkpoint SET format_version = $2, system_identifier = $3::text::numeric, timeline = $4, database = $5,
       slot = $6, position = $7, commit_time = coalesce($8, commit_time), settled_commit_lsn = $9, settled_through = $10,
       updated_at = now()
WHERE relay = $1 AND epoch = $11 AND position <= $7 AND format_version <= $2";

/// `undefined_table`; a schema that does not exist is told so as well.
const UNDEFINED_TABLE: &str = "42P01";

const FORGET: &str = "DELETE FROM walpost.checkpoint WHERE relay = $1";

/// The relay's row in `walpost.checkpoint`.
#[derive(Debug)]
pub struct PostgresStore {
    connection: ConnectionSettings,
    relay: String,
    statement_timeout: Duration,
    session: Option<Session>,
    claimed: Option<Epoch>,
}

impl PostgresStore {
    /// How long a statement may take where nothing is said.
    pub const DEFAULT_STATEMENT_TIMEOUT: Duration = Duration::from_secs(10);

    /// The store of this relay. Connects when it is first used.
    #[must_use]
    pub fn new(connection: ConnectionSettings, relay: impl Into<String>) -> Self {
        Self {
            connection,
            relay: relay.into(),
            statement_timeout: Self::DEFAULT_STATEMENT_TIMEOUT,
            session: None,
            claimed: None,
        }
    }

    pub(super) fn place(&self) -> String {
        format!("relay \"{}\" of table walpost.checkpoint in database {}", self.relay, self.connection.database())
    }

    pub(super) async fn replace(&mut self, checkpoint: &Checkpoint) -> Result<Epoch, Error> {
        self.upsert(REPLACE, checkpoint).await
    }

    pub(super) async fn forget(&mut self) -> Result<bool, Error> {
        let relay = self.relay.clone();
        Ok(self.execute(FORGET, &[&relay]).await? > 0)
    }

    async fn upsert(&mut self, statement: &str, checkpoint: &Checkpoint) -> Result<Epoch, Error> {
        let written = Written::new(&self.relay, checkpoint);
        let rows = self.query(statement, &written.parameters()).await?;
        match rows.first() {
            Some(row) => Ok(Epoch(unsigned(row, "epoch")?)),
            // The statement leaves only a row of a newer format alone.
            None => Err(self.why_not_written(checkpoint).await?),
        }
    }

    /// Why a write found no row that it may change.
    async fn why_not_written(&mut self, offered: &Checkpoint) -> Result<Error, Error> {
        let Some(stored) = self.load().await? else { return Ok(Error::Gone { relay: self.relay.clone() }) };
        let ours = self.claimed.ok_or(Error::NotClaimed)?;
        Ok(if stored.epoch != ours {
            Error::Fenced { ours: ours.0, theirs: stored.epoch.0 }
        } else {
            Error::Backwards { stored: stored.position, offered: offered.position }
        })
    }

    /// Opens a session if there is none that lives.
    async fn session(&mut self) -> Result<&Session, SqlError> {
        let is_usable = self.session.as_ref().is_some_and(|session| !session.is_closed());
        if !is_usable {
            let session = Session::connect(&self.connection, self.statement_timeout).await?;
            session.execute_batch("SET synchronous_commit = on; SET default_transaction_read_only = off").await?;
            return Ok(self.session.insert(session));
        }
        self.session.as_ref().ok_or(SqlError::Ended)
    }

    async fn query(&mut self, statement: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, Error> {
        // Once more on a session that turns out to be dead. Each statement may run twice: a claim only takes one epoch more.
        for attempt in 1..=2 {
            let was_open = self.session.is_some();
            let answer = match self.session().await {
                Ok(session) => session.query(statement, parameters).await,
                Err(error) => Err(error),
            };
            match answer {
                Ok(rows) => return Ok(rows),
                Err(source) => {
                    let is_dead = self.session.as_ref().is_none_or(Session::is_closed)
                        || matches!(
                            source,
                            SqlError::Unreachable { .. } | SqlError::Connection { .. } | SqlError::Deadline { .. }
                        );
                    if is_dead {
                        self.session = None;
                    }
                    if attempt == 2 || !is_dead || !was_open {
                        return Err(Error::Postgres { source });
                    }
                }
            }
        }
        Err(Error::Postgres { source: SqlError::Ended })
    }

    /// How many rows a statement changed.
    async fn execute(&mut self, statement: &str, parameters: &[&(dyn ToSql + Sync)]) -> Result<usize, Error> {
        Ok(self.query(&format!("{statement} RETURNING relay"), parameters).await?.len())
    }

    fn checkpoint(&self, row: &Row) -> Result<Checkpoint, Error> {
        let format: u64 = unsigned(row, "format_version")?;
        if format > u64::from(Checkpoint::FORMAT_VERSION) {
            return Err(Error::NewerFormat { found: u32::try_from(format).unwrap_or(u32::MAX) });
        }
        let system: String = field(row, "system_identifier")?;
        let timeline = unsigned(row, "timeline")?;
        let value = |field, value: String| Error::Value { field, value };
        let position: PgLsn = field(row, "position")?;
        let commit_time: Option<ServerTime> = field(row, "commit_time")?;
        let lsn = |column| field::<Option<PgLsn>>(row, column).map(|lsn| lsn.map(|lsn| Lsn::new(lsn.into())));
        let settled = lsn("settled_commit_lsn")?.zip(lsn("settled_through")?);
        Ok(Checkpoint {
            relay: self.relay.clone(),
            system: SystemIdentifier(system.parse().map_err(|_| value("system_identifier", system.clone()))?),
            timeline: Timeline(u32::try_from(timeline).map_err(|_| value("timeline", timeline.to_string()))?),
            database: field(row, "database")?,
            slot: field(row, "slot")?,
            position: Lsn::new(position.into()),
            commit_time: commit_time.map(|time| time.0),
            settled_rows: settled.map(|(commit_lsn, through)| SettledRows { commit_lsn, through }),
            epoch: Epoch(unsigned(row, "epoch")?),
        })
    }
}

impl Checkpoints for PostgresStore {
    type Error = Error;

    async fn load(&mut self) -> Result<Option<Checkpoint>, Error> {
        let relay = self.relay.clone();
        match self.query(LOAD, &[&relay]).await {
            Ok(rows) => rows.first().map(|row| self.checkpoint(row)).transpose(),
            // A database that nobody prepared has no checkpoint: the comparison at start says what to do.
            Err(Error::Postgres { source }) if source.sqlstate() == Some(UNDEFINED_TABLE) => Ok(None),
            Err(error) => Err(error),
        }
    }

    async fn claim(&mut self, checkpoint: &Checkpoint) -> Result<Epoch, Error> {
        // Of what is offered, the rows that its position has passed are left out.
        let epoch = self.upsert(CLAIM, &checkpoint.claimed(None)).await?;
        self.claimed = Some(epoch);
        Ok(epoch)
    }

    async fn save(&mut self, checkpoint: &Checkpoint) -> Result<(), Error> {
        let epoch = self.claimed.ok_or(Error::NotClaimed)?;
        let epoch = i64::try_from(epoch.0).map_err(|_| Error::Value { field: "epoch", value: epoch.0.to_string() })?;
        let written = Written::new(&self.relay, checkpoint);
        let mut parameters = written.parameters().to_vec();
        parameters.push(&epoch);
        match self.execute(SAVE, &parameters).await? {
            0 => Err(self.why_not_written(checkpoint).await?),
            _ => Ok(()),
        }
    }
}

/// A checkpoint in the types of its columns.
struct Written {
    relay: String,
    format: i32,
    system: String,
    timeline: i64,
    database: String,
    slot: String,
    position: PgLsn,
    commit_time: Option<ServerTime>,
    settled_commit_lsn: Option<PgLsn>,
    settled_through: Option<PgLsn>,
}

impl Written {
    fn new(relay: &str, checkpoint: &Checkpoint) -> Self {
        Self {
            relay: relay.to_owned(),
            format: Checkpoint::FORMAT_VERSION.cast_signed(),
            system: checkpoint.system.0.to_string(),
            timeline: i64::from(checkpoint.timeline.0),
            database: checkpoint.database.clone(),
            slot: checkpoint.slot.clone(),
            position: checkpoint.position.get().into(),
            commit_time: checkpoint.commit_time.map(ServerTime),
            settled_commit_lsn: checkpoint.settled_rows.map(|rows| rows.commit_lsn.get().into()),
            settled_through: checkpoint.settled_rows.map(|rows| rows.through.get().into()),
        }
    }

    fn parameters(&self) -> [&(dyn ToSql + Sync); 10] {
        [
            &self.relay,
            &self.format,
            &self.system,
            &self.timeline,
            &self.database,
            &self.slot,
            &self.position,
            &self.commit_time,
            &self.settled_commit_lsn,
            &self.settled_through,
        ]
    }
}

fn field<'a, T: FromSql<'a>>(row: &'a Row, column: &str) -> Result<T, Error> {
    sql::field(row, column).map_err(|source| Error::Postgres { source })
}

/// A number of a signed column that is never negative.
fn unsigned(row: &Row, column: &'static str) -> Result<u64, Error> {
    let number = match row.try_get::<_, i64>(column) {
        Ok(number) => number,
        Err(_) => i64::from(field::<i32>(row, column)?),
    };
    u64::try_from(number).map_err(|_| Error::Value { field: column, value: number.to_string() })
}
