//! An operator's side of the dead letters: look at them, and mark them for the relay.
//!
//! Nothing is published or ended here: the relay alone does that, for it alone keeps the order of a key. A mark can be set on whatever has not
//! ended; where the relay is quicker, its word counts.

mod selection;
mod summary;

use std::time::Duration;

pub use summary::{Summary, summary};

use tokio_postgres::Row;
use tokio_postgres::types::{PgLsn, ToSql};
use walpost_core::lsn::Lsn;
use walpost_core::outbox::TableName;
use walpost_core::poison::DeadLetter;
use walpost_core::poison::operator::{Affected, Filter, Listed, Mark, Selection};

use selection::{FITS, Parameters, SELECTED};

use super::Error;
use super::letter::{self, COLUMNS, field};
use super::text::{self, Repertoire};
use crate::connection::ConnectionSettings;
use crate::sql::Session;

/// For a page of letters, or a count of all: somebody waits at a terminal, perhaps for a server that is gone without a word.
const LOOK_TIMEOUT: Duration = Duration::from_secs(30);
/// Long enough to mark everything that a relay may set aside.
const MARK_TIMEOUT: Duration = Duration::from_secs(300);

/// `deadlock_detected`.
const DEADLOCK: &str = "40P01";

/// How often it is tried to mark letters that others mark or end at the same moment.
const MARK_TRIES: u32 = 5;

/// The columns of [`Listed`].
const LISTED: &str = "letter.id, letter.state, letter.cause, letter.reason, letter.attempts, letter.outbox_schema, letter.outbox_table, letter.event_id,
    letter.route, letter.key, letter.topic, letter.timeline, letter.commit_lsn, letter.ordinal, {utc(commit_time)}, {utc(first_at)}, {utc(last_at)},
    letter.marked_by, {utc(marked_at)}, {utc(ended_at)}, CASE WHEN isfinite(letter.first_at) THEN extract(epoch FROM now() - letter.first_at)::float8 ELSE 0 END AS age,
    octet_length(letter.relation_message)::bigint + octet_length(letter.insert_message) + coalesce(octet_length(letter.payload), 0) AS bytes";

const LIST: &str = "
SELECT {listed} FROM walpost.dead_letter AS letter WHERE {fits} AND letter.id > $15::bigint ORDER BY letter.id LIMIT $14::bigint";

// The limit is a parameter of every filter; here it would be a count of one row.
const COUNT: &str = "SELECT count(*) FROM walpost.dead_letter AS letter WHERE {fits} AND ($14::bigint IS NULL OR true)";

const SHOW: &str =
    "SELECT {listed}, {columns} FROM walpost.dead_letter AS letter WHERE letter.relay = $1 AND letter.id = $2";

// What lies there only because of its key keeps nobody waiting unless something else stands in front of it, and neither does what is to be sent.
const PREVIEW: &str = "{selected}, touched AS (
    SELECT letter.queue, letter.outbox_schema, letter.outbox_table, letter.key, min(letter.id) AS first, max(letter.id) AS last, count(*) AS letters
    FROM selected JOIN walpost.dead_letter AS letter USING (id) GROUP BY 1, 2, 3, 4
), other AS (
    SELECT touched.queue, letter.id > touched.last AS is_behind, letter.state = 'waiting' AS waits,
        bool_and(letter.state = 'replay' OR letter.cause = 'parked' AND letter.marked_at IS NULL) OVER (PARTITION BY touched.queue ORDER BY letter.id)
            AS goes
    FROM touched JOIN walpost.dead_letter AS letter ON letter.queue = touched.queue LEFT JOIN selected USING (id)
    WHERE letter.relay = $1 AND letter.state IN ('waiting', 'replay') AND selected.id IS NULL
)
SELECT touched.*, coalesce(in_front, 0) AS in_front, coalesce(behind, 0) AS behind, coalesce(staying, 0) AS staying, coalesce(following, 0) AS following
FROM touched LEFT JOIN (
    SELECT queue, count(*) FILTER (WHERE NOT is_behind AND waits AND NOT goes) AS in_front, count(*) FILTER (WHERE is_behind AND waits) AS behind,
        count(*) FILTER (WHERE is_behind AND waits AND NOT goes) AS staying, count(*) FILTER (WHERE is_behind AND goes) AS following
    FROM other GROUP BY queue
) AS others USING (queue) ORDER BY touched.first";

// One that nobody marked and that is told to wait does not follow what stands in front of it.
const MARK: &str = "{selected}, done AS (
    UPDATE walpost.dead_letter AS letter SET state = $16::text, marked_by = session_user::text || $17::text, marked_at = now(), accepts_changed = $18::bool
    FROM selected WHERE letter.id = selected.id AND letter.state IN ('waiting', 'replay', 'drop')
    AND ((letter.state, letter.accepts_changed) IS DISTINCT FROM ($16::text, $18::bool)
         OR $16::text = 'waiting' AND letter.cause = 'parked' AND letter.marked_at IS NULL) RETURNING 1
)
SELECT count(*) FROM done";

/// The dead letters of one relay, as an operator sees them.
#[derive(Debug)]
pub struct Letters {
    session: Session,
    relay: String,
    repertoire: Repertoire,
}

impl Letters {
    /// Opens a session.
    ///
    /// # Errors
    /// The database cannot be reached.
    pub async fn connect(connection: &ConnectionSettings, relay: impl Into<String>) -> Result<Self, Error> {
        let session = Session::connect(connection, LOOK_TIMEOUT).await?;
        session.execute_batch("SET synchronous_commit = on; SET default_transaction_read_only = off").await?;
        let row = session.query_one("SELECT current_setting('server_encoding') AS server_encoding", &[]).await?;
        let repertoire = Repertoire::of(field(&row, "server_encoding")?);
        Ok(Self { session, relay: relay.into(), repertoire })
    }

    /// The letters that fit, in order, from behind this number on.
    ///
    /// # Errors
    /// The table cannot be read.
    pub async fn list(&self, filter: &Filter, behind: i64) -> Result<Vec<Listed>, Error> {
        let parameters = Parameters::new(filter, &self.relay, self.repertoire);
        let mut all = parameters.of_filter().to_vec();
        all.push(&behind);
        self.session.query(&sql(LIST), &all).await?.iter().map(listed).collect()
    }

    /// How many letters fit, with those beyond the limit.
    ///
    /// # Errors
    /// The table cannot be read.
    pub async fn count(&self, filter: &Filter) -> Result<i64, Error> {
        let parameters = Parameters::new(filter, &self.relay, self.repertoire);
        field(&self.session.query_one(&sql(COUNT), &parameters.of_filter()).await?, "count")
    }

    /// All of one letter, if there is one of this number.
    ///
    /// # Errors
    /// The table cannot be read, or it holds what no relay wrote.
    pub async fn show(&self, id: i64) -> Result<Option<(Listed, DeadLetter)>, Error> {
        let rows = self.session.query(&sql(SHOW), &[&self.relay, &id]).await?;
        let shown = |row: &Row| Ok((listed(row)?, letter::read(row)?.1));
        rows.first().map(shown).transpose()
    }

    /// What marking would do, key by key.
    ///
    /// # Errors
    /// The table cannot be read.
    pub async fn preview(&self, selection: &Selection) -> Result<Vec<Affected>, Error> {
        let parameters = Parameters::new(&selection.filter, &self.relay, self.repertoire);
        let mut all = parameters.of_filter().to_vec();
        all.push(&selection.with_those_behind);
        let rows = self.session.query(&sql(PREVIEW), &all).await?;
        rows.iter().map(affected).collect()
    }

    /// Marks letters; answers how many were not marked so before. `by` says who asks, beside the role of the session.
    ///
    /// # Errors
    /// The table cannot be written.
    pub async fn mark(&self, selection: &Selection, mark: Mark, by: &str) -> Result<i64, Error> {
        let parameters = Parameters::new(&selection.filter, &self.relay, self.repertoire);
        let by = text::write(format!(" ({by})").as_bytes(), self.repertoire);
        let (state, accepts_changed) = (mark.state().word(), mark == Mark::ReplayChanged);
        let mut all = parameters.of_filter().to_vec();
        all.extend([&selection.with_those_behind as &(dyn ToSql + Sync), &state, &by, &accepts_changed]);
        let (statement, mut tries) = (sql(MARK), 1);
        loop {
            match self.session.query_one_within(MARK_TIMEOUT, &statement, &all).await {
                // A relay that ends some of the letters locks them in an order of its own. What failed has marked none.
                Err(error) if error.sqlstate() == Some(DEADLOCK) && tries < MARK_TRIES => tries += 1,
                answer => return field(&answer?, "count"),
            }
        }
    }
}

/// Puts the parts of a statement together.
fn sql(statement: &str) -> String {
    let mut sql = statement.replace("{selected}", SELECTED).replace("{fits}", FITS);
    sql = sql.replace("{listed}", LISTED).replace("{columns}", COLUMNS);
    for column in ["commit_time", "first_at", "last_at", "marked_at", "ended_at"] {
        let text = format!(
            "coalesce(to_char(letter.{column} AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"'), letter.{column}::text) AS {column}_text"
        );
        sql = sql.replace(&format!("{{utc({column})}}"), &text);
    }
    sql
}

fn outbox(row: &Row) -> Result<TableName, Error> {
    Ok(TableName { schema: field(row, "outbox_schema")?, table: field(row, "outbox_table")? })
}

fn listed(row: &Row) -> Result<Listed, Error> {
    let age: f64 = field(row, "age")?;
    Ok(Listed {
        id: field(row, "id")?,
        state: field(row, "state")?,
        cause: field(row, "cause")?,
        reason: plain(row, "reason")?,
        attempts: field(row, "attempts")?,
        outbox: outbox(row)?,
        event_id: plain(row, "event_id")?,
        route: plain(row, "route")?,
        key: plain(row, "key")?,
        topic: plain(row, "topic")?,
        timeline: field(row, "timeline")?,
        commit_lsn: Lsn::new(field::<PgLsn>(row, "commit_lsn")?.into()),
        ordinal: field(row, "ordinal")?,
        commit_time: field(row, "commit_time_text")?,
        first_at: field(row, "first_at_text")?,
        last_at: field(row, "last_at_text")?,
        marked_by: plain(row, "marked_by")?,
        marked_at: field(row, "marked_at_text")?,
        ended_at: field(row, "ended_at_text")?,
        bytes: field(row, "bytes")?,
        // A clock that was set back makes letters of the future.
        age: Duration::try_from_secs_f64(age).unwrap_or_default(),
    })
}

fn affected(row: &Row) -> Result<Affected, Error> {
    Ok(Affected {
        outbox: outbox(row)?,
        key: plain(row, "key")?,
        first: field(row, "first")?,
        letters: field(row, "letters")?,
        in_front: field(row, "in_front")?,
        behind: field(row, "behind")?,
        staying: field(row, "staying")?,
        following: field(row, "following")?,
    })
}

/// A text as it was before it was written; as it stands there where that is none.
fn plain(row: &Row, column: &str) -> Result<Option<String>, Error> {
    let Some(stored) = field::<Option<&str>>(row, column)? else { return Ok(None) };
    let plain = text::read(stored).and_then(|bytes| String::from_utf8(bytes).ok());
    Ok(Some(plain.unwrap_or_else(|| stored.to_owned())))
}
