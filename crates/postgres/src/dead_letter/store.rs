//! The relay's side of the dead letters, by a session of its own that never blocks the stream.
//!
//! The session has a statement timeout, commits synchronously whatever the role's default is, and is opened again by the next
//! call when it was lost, did not answer, or its call was given up in the middle.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use walpost_core::failure::chain;
use walpost_core::poison::operator::FOLLOWS;
use walpost_core::poison::{Conclusion, DeadLetter, Inventory, LetterId, Marked, Request};
use walpost_core::port::DeadLetters;

use super::Error;
use super::letter::{self, Batch, COLUMNS, field};
use super::parked::{self, Share};
use super::text::{self, Repertoire};
use crate::connection::ConnectionSettings;
use crate::error::Error as SqlError;
use crate::server_time::ServerTime;
use crate::sql::Session;

/// How long a statement may take: a letter is as large as its row.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(60);

/// What [`DeadLetters::marked`] answers at once weighs no more than this, unless it is one letter.
const ANSWER_BYTES: i64 = 16 << 20;

/// How often ended letters are looked through, unless there are more than one statement deletes.
const PURGE_INTERVAL: Duration = Duration::from_secs(60);
const PURGE_BATCH: i64 = 500;

const REPERTOIRE: &str = "SELECT current_setting('server_encoding') AS server_encoding";

/// How many letters are marked at once, of all queues together, because they follow others. More are marked when those have ended, so that it takes
/// no longer to end the first letter of a long queue than of a short one.
const FOLLOW_AT_ONCE: i64 = 1000;

// The identity of a cluster is unsigned and shown as signed. Rows are numbered in the order of the parameters (ORDER BY comes before the defaults
// of an INSERT … SELECT). A letter that is there keeps its place, its state and its cause: the row comes again after a crash, and by then its own letter
// is what parks its key.
//
// One that lies down only because of its key is marked at once where the last of its queue is to be sent, or none is there any more, unless one with a
// cause of its own lies down in front of it here. The pair of queue and number has the index find the last; the primary key would lead through all
// that lies behind it.
const SET_ASIDE: &str = "
WITH given AS (
    SELECT letter.*, sha256(queue_text) AS queue,
        (SELECT system_identifier::numeric + CASE WHEN system_identifier < 0 THEN 18446744073709551616 ELSE 0 END FROM pg_control_system()) AS cluster
    FROM unnest($3::bigint[], $4::pg_lsn[], $5::bigint[], $6::timestamptz[], $7::text[], $8::text[], $9::text[], $10::text[], $11::text[], $12::bytea[],
        $13::text[], $14::text[], $15::text[], $16::integer[], $17::bytea[], $18::text[], $19::bigint[], $20::bytea[], $21::integer[], $22::bytea[],
        $23::bytea[], $24::bytea[]) WITH ORDINALITY AS letter (timeline, commit_lsn, ordinal, commit_time, outbox_schema, outbox_table, event_id, route,
        key, queue_text, cause, reason, topic, partition, record_key, headers, timestamp_ms, payload, payload_column, relation_message, insert_message,
        row_sha256, place)
), tail AS (
    SELECT one.queue, coalesce(last.state = 'replay', true) AS goes FROM (SELECT DISTINCT queue FROM given WHERE cause = 'parked') AS one
    LEFT JOIN LATERAL (
        SELECT queue, state FROM walpost.dead_letter WHERE relay = $1 AND state IN ('waiting', 'replay', 'drop')
        AND (queue, id) <= (one.queue, 9223372036854775807) ORDER BY queue DESC, id DESC LIMIT 1
    ) AS last ON last.queue = one.queue
), judged AS (
    SELECT given.*, cause = 'parked' AND tail.goes AND NOT coalesce(bool_or(cause <> 'parked' AND NOT EXISTS (
            SELECT FROM walpost.dead_letter AS known WHERE known.relay = $1 AND known.system_identifier = given.cluster
            AND known.timeline = given.timeline AND known.commit_lsn = given.commit_lsn AND known.ordinal = given.ordinal
        )) OVER (PARTITION BY given.queue ORDER BY place ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), false) AS follows
    FROM given LEFT JOIN tail USING (queue)
)
INSERT INTO walpost.dead_letter AS stored (relay, system_identifier, timeline, commit_lsn, ordinal, commit_time, outbox_schema, outbox_table,
    event_id, route, key, queue, state, marked_by, cause, reason, topic, partition, record_key, headers, timestamp_ms, payload, payload_column,
    relation_message, insert_message, row_sha256)
SELECT $1, cluster, timeline, commit_lsn, ordinal, commit_time, outbox_schema, outbox_table, event_id, route, key, queue,
    CASE WHEN follows THEN 'replay' ELSE 'waiting' END, CASE WHEN follows THEN $2::text END, cause, reason, topic, partition, record_key, headers::json,
    timestamp_ms, payload, payload_column, relation_message, insert_message, row_sha256
FROM judged ORDER BY place
ON CONFLICT (relay, system_identifier, timeline, commit_lsn, ordinal) DO UPDATE
SET attempts = stored.attempts + 1, last_at = now() WHERE stored.state IN ('waiting', 'replay', 'drop')
RETURNING id, timeline, commit_lsn, ordinal, attempts = 1 AS is_new";

// What comes before every letter of a key is told in each respect by itself: two clusters count their logs each for itself. A number that no relay
// wrote is taken for the first of its transaction: that parks too much at worst.
const PARKED_KEYS: &str = "
SELECT queue, outbox_schema, outbox_table, route, key, min(id) AS id, min(id) FILTER (WHERE state <> 'drop') AS kept, count(*) AS letters,
       min(commit_time) AS commit_time, (array_agg(commit_lsn ORDER BY commit_lsn, ordinal))[1] AS commit_lsn,
       greatest(0, (array_agg(ordinal ORDER BY commit_lsn, ordinal))[1]) AS ordinal
FROM walpost.dead_letter
WHERE relay = $1 AND state IN ('waiting', 'replay', 'drop') AND (queue IS NOT NULL OR key IS NOT NULL)
GROUP BY queue, outbox_schema, outbox_table, route, key ORDER BY min(id)";

const TOTALS: &str = "
SELECT count(*) AS letters, count(*) FILTER (WHERE cause <> 'parked') AS roots,
       coalesce(sum(octet_length(insert_message)::bigint) FILTER (WHERE cause = 'parked'), 0)::bigint AS parked_bytes
FROM walpost.dead_letter WHERE relay = $1 AND state IN ('waiting', 'replay', 'drop')";

/// From the head of one queue the index leads to the head of the next, so that a long queue costs no more than a short one. Where nothing is
/// marked, the first probe is the only one. Of a queue whose head may go, those behind it may up to the first that is not marked; each queue has its
/// share of what is answered.
macro_rules! marked {
    ($in_the_way:literal) => {
        concat!(
            "WITH RECURSIVE head AS (
                (SELECT queue, id, state FROM walpost.dead_letter WHERE relay = $1 AND state IN (",
            $in_the_way,
            ") AND queue IS NOT NULL
                 AND EXISTS (SELECT FROM walpost.dead_letter WHERE relay = $1 AND state IN ('replay', 'drop'))
                 ORDER BY queue, id LIMIT 1)
                UNION ALL
                SELECT next.queue, next.id, next.state FROM head CROSS JOIN LATERAL (
                    SELECT queue, id, state FROM walpost.dead_letter WHERE relay = $1 AND state IN (",
            $in_the_way,
            ") AND queue > head.queue ORDER BY queue, id LIMIT 1) AS next
            ), ready AS (
                SELECT queue, id FROM head WHERE state IN ('replay', 'drop') ORDER BY id LIMIT $2::bigint
            ), chosen AS (
                SELECT run.id FROM ready CROSS JOIN LATERAL (
                    SELECT id, bool_and(state <> 'waiting') OVER (ORDER BY id) AS goes FROM (
                        SELECT id, state FROM walpost.dead_letter AS letter WHERE relay = $1 AND state IN (",
            $in_the_way,
            ") AND letter.queue = ready.queue ORDER BY id LIMIT greatest(1, $2::bigint / (SELECT count(*) FROM ready))) AS first) AS run WHERE goes
                UNION ALL
                (SELECT id FROM walpost.dead_letter WHERE relay = $1 AND state IN ('replay', 'drop') AND queue IS NULL ORDER BY id LIMIT $2::bigint)
                ORDER BY id LIMIT $2::bigint
            ), weighed AS (
                SELECT id, sum(octet_length(insert_message)::bigint + coalesce(octet_length(payload), 0))
                           OVER (ORDER BY id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
                FROM chosen JOIN walpost.dead_letter USING (id)
            )
            SELECT letter.state, letter.accepts_changed, letter.marked_at, {columns} FROM weighed JOIN walpost.dead_letter AS letter USING (id)
            WHERE before IS NULL OR before < $3::bigint ORDER BY id"
        )
    };
}

const MARKED: &str = marked!("'waiting', 'replay', 'drop'");
const MARKED_OVERTAKING: &str = marked!("'replay', 'drop'");

// A letter that waited for another and failed by itself has become a cause. The second of two equal calls, the answer of whose first was lost, changes
// nothing. One that comes back loses the mark that was acted upon, and none that was set since: what an operator asked for last is still to be done.
const CONCLUDE: &str = "
UPDATE walpost.dead_letter AS letter SET last_at = now(),
    state = CASE WHEN ended.state <> 'waiting' OR letter.state = 'replay' AND (ended.is_any_mark OR letter.marked_at IS NOT DISTINCT FROM ended.marked_at)
            THEN ended.state ELSE letter.state END,
    attempts = attempts + CASE WHEN ended.state = 'dropped' THEN 0 ELSE 1 END,
    ended_at = CASE WHEN ended.state <> 'waiting' THEN now() END,
    reason = coalesce(ended.reason, letter.reason),
    marked_by = CASE WHEN ended.state <> 'waiting' OR letter.marked_at IS NOT NULL THEN marked_by END,
    cause = CASE WHEN ended.state = 'waiting' AND cause = 'parked' THEN 'row' ELSE cause END
FROM unnest($2::bigint[], $3::text[], $4::text[], $5::bool[], $6::timestamptz[]) AS ended (id, state, reason, is_any_mark, marked_at)
WHERE letter.relay = $1 AND letter.id = ended.id AND letter.state IN ('waiting', 'replay', 'drop')
AND (ended.state <> 'waiting' OR letter.state <> 'waiting')";

/// Marks what lies at the head of queues only because of its key: nothing of that stands in front of it any more. It goes on to the next letter that has
/// a cause of its own, that is to be dropped, or whose mark an operator took back; what was ever marked by one has the time of that.
macro_rules! follow {
    ($queues:literal) => {
        concat!(
            "WITH RECURSIVE ",
            $queues,
            ", run AS (
                SELECT front.id FROM one CROSS JOIN LATERAL (
                    SELECT id, state, bool_and(state = 'replay' OR state = 'waiting' AND cause = 'parked' AND marked_at IS NULL) OVER (ORDER BY id) AS goes
                    FROM (
                        SELECT queue, id, state, cause, marked_at FROM walpost.dead_letter WHERE relay = $1 AND state IN ('waiting', 'replay', 'drop')
                        AND (queue, id) >= (one.queue, 0) ORDER BY queue, id LIMIT greatest(1, $3::bigint / (SELECT count(*) FROM one))
                    ) AS first WHERE queue = one.queue
                ) AS front WHERE goes AND state = 'waiting'
            )
            UPDATE walpost.dead_letter AS letter SET state = 'replay', marked_by = $2::text FROM run
            WHERE letter.id = run.id AND letter.state = 'waiting' AND letter.cause = 'parked' AND letter.marked_at IS NULL"
        )
    };
}

/// Behind letters that have just ended.
const FOLLOW_ENDED: &str = follow!(
    "one AS (SELECT DISTINCT queue FROM walpost.dead_letter WHERE relay = $1 AND id = ANY ($4::bigint[]) AND queue IS NOT NULL)"
);

/// Wherever it is due: behind a letter that somebody deleted, or that a relay ended which knew nothing of this.
const FOLLOW_ANY: &str = follow!(
    "head AS (
        (SELECT queue, id, state, cause, marked_at FROM walpost.dead_letter WHERE relay = $1 AND state IN ('waiting', 'replay', 'drop')
         AND queue IS NOT NULL ORDER BY queue, id LIMIT 1)
        UNION ALL
        SELECT next.* FROM head CROSS JOIN LATERAL (
            SELECT queue, id, state, cause, marked_at FROM walpost.dead_letter WHERE relay = $1 AND state IN ('waiting', 'replay', 'drop')
            AND queue > head.queue ORDER BY queue, id LIMIT 1) AS next
    ), one AS (SELECT queue FROM head WHERE state = 'waiting' AND cause = 'parked' AND marked_at IS NULL)"
);

const PURGE: &str = "
DELETE FROM walpost.dead_letter WHERE id IN (
    SELECT id FROM walpost.dead_letter WHERE relay = $1 AND state IN ('sent', 'dropped') AND ended_at < now() - make_interval(secs => $2::float8)
    ORDER BY ended_at LIMIT $3::bigint)
RETURNING id";

/// The dead letters of one relay.
#[derive(Debug)]
pub struct LetterStore {
    connection: ConnectionSettings,
    relay: String,
    keep_ended: Duration,
    session: Option<Session>,
    repertoire: Option<Repertoire>,
    purged: Option<Instant>,
    /// When the letters were marked that were told of and have not ended.
    told: BTreeMap<LetterId, Option<ServerTime>>,
}

/// A statement and its parameters.
type Statement<'a> = (&'a str, Vec<&'a (dyn ToSql + Sync)>);

impl LetterStore {
    /// The letters of this relay. Connects when it is first used. Letters that were sent or dropped are deleted after `keep_ended`.
    #[must_use]
    pub fn new(connection: ConnectionSettings, relay: impl Into<String>, keep_ended: Duration) -> Self {
        Self {
            connection,
            relay: relay.into(),
            keep_ended,
            session: None,
            repertoire: None,
            purged: None,
            told: BTreeMap::new(),
        }
    }

    /// Runs statements, all or none, and answers their rows. Once more on a session that turns out to be dead: each of them may run twice.
    async fn perform(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Row>, Error> {
        let was_open = self.session.is_some();
        match self.attempt(statements).await {
            Err(Error::Postgres { source: SqlError::Connection { .. } | SqlError::Ended }) if was_open => {
                self.attempt(statements).await
            }
            answer => answer,
        }
    }

    /// The session is away while it works: where the work fails or is given up, it is closed, and the server rolls back.
    async fn attempt(&mut self, statements: &[Statement<'_>]) -> Result<Vec<Row>, Error> {
        let session = self.take_session().await?;
        let rows = match statements {
            [(statement, parameters)] => session.query(statement, parameters).await?,
            _ => transact(&session, statements).await?,
        };
        self.session = Some(session);
        Ok(rows)
    }

    async fn take_session(&mut self) -> Result<Session, SqlError> {
        match self.session.take().filter(|session| !session.is_closed()) {
            Some(session) => Ok(session),
            None => {
                let session = Session::connect(&self.connection, STATEMENT_TIMEOUT).await?;
                session.execute_batch("SET synchronous_commit = on; SET default_transaction_read_only = off").await?;
                Ok(session)
            }
        }
    }

    /// Which characters the database takes; it never changes.
    async fn repertoire(&mut self) -> Result<Repertoire, Error> {
        if let Some(repertoire) = self.repertoire {
            return Ok(repertoire);
        }
        let rows = self.perform(&[(REPERTOIRE, Vec::new())]).await?;
        let row = rows.first().ok_or(SqlError::Ended)?;
        Ok(*self.repertoire.insert(Repertoire::of(field(row, "server_encoding")?)))
    }

    /// Deletes some of the letters that ended long ago.
    ///
    /// A row whose letter is gone, and that comes again after all, is a new one: a relay would have to be away for as long as letters are kept, from the
    /// second on in which it ended one. That is a repeat, and no loss.
    async fn purge(&mut self) {
        if self.purged.is_some_and(|at| at.elapsed() < PURGE_INTERVAL) {
            return;
        }
        self.purged = Some(Instant::now());
        let (relay, seconds) = (self.relay.clone(), self.keep_ended.as_secs_f64());
        match self.perform(&[(PURGE, vec![&relay, &seconds, &PURGE_BATCH])]).await {
            Ok(rows) if i64::try_from(rows.len()).is_ok_and(|count| count >= PURGE_BATCH) => self.purged = None,
            Ok(_) => {}
            Err(error) => {
                tracing::warn!(reason = chain(&error), "dead letters that ended long ago could not be deleted");
            }
        }
    }
}

async fn transact(session: &Session, statements: &[Statement<'_>]) -> Result<Vec<Row>, SqlError> {
    let mut rows = Vec::new();
    session.execute_batch("BEGIN").await?;
    for (statement, parameters) in statements {
        rows.extend(session.query(statement, parameters).await?);
    }
    session.execute_batch("COMMIT").await?;
    Ok(rows)
}

impl DeadLetters for LetterStore {
    type Error = Error;

    async fn inventory(&mut self) -> Result<Inventory, Error> {
        let relay = self.relay.clone();
        let mut inventory = Inventory::default();
        let rows = self.perform(&[(PARKED_KEYS, vec![&relay])]).await?;
        inventory.parked = parked::keys(rows.iter().map(share).collect::<Result<_, _>>()?)?;
        // Only once it is known whose order each of them keeps.
        self.perform(&[(FOLLOW_ANY, vec![&relay, &FOLLOWS, &FOLLOW_AT_ONCE])]).await?;
        if let Some(row) = self.perform(&[(TOTALS, vec![&relay])]).await?.first() {
            inventory.letters = count(row, "letters")?;
            inventory.roots = count(row, "roots")?;
            inventory.parked_bytes = count(row, "parked_bytes")?;
        }
        self.purge().await;
        Ok(inventory)
    }

    async fn set_aside(&mut self, letters: &[DeadLetter]) -> Result<Vec<bool>, Error> {
        if letters.is_empty() {
            return Ok(Vec::new());
        }
        let relay = self.relay.clone();
        let batches = Batch::cut(letters, self.repertoire().await?)?;
        let mut statements: Vec<Statement<'_>> = Vec::new();
        for batch in &batches {
            let mut parameters: Vec<&(dyn ToSql + Sync)> = vec![&relay, &FOLLOWS];
            parameters.extend(batch.parameters());
            statements.push((SET_ASIDE, parameters));
        }
        let mut new = BTreeSet::new();
        for row in self.perform(&statements).await? {
            if field(&row, "is_new")? {
                new.insert(letter::identity(&row)?);
            }
        }
        // The same row twice is one letter.
        Ok(letters.iter().map(|letter| new.remove(&letter.identity)).collect())
    }

    async fn marked(&mut self, limit: usize, is_overtaking: bool) -> Result<Vec<Marked>, Error> {
        let relay = self.relay.clone();
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let statement = if is_overtaking { MARKED_OVERTAKING } else { MARKED }.replace("{columns}", COLUMNS);
        let rows = self.perform(&[(&statement, vec![&relay, &limit, &ANSWER_BYTES])]).await?;
        self.purge().await;
        let marked = read_marked(&rows, is_overtaking)?;
        for row in &rows {
            self.told.insert(LetterId(field(row, "id")?), field(row, "marked_at")?);
        }
        Ok(marked)
    }

    async fn conclude(&mut self, ends: &[(LetterId, Conclusion)]) -> Result<(), Error> {
        if ends.is_empty() {
            return Ok(());
        }
        let relay = self.relay.clone();
        let repertoire = self.repertoire().await?;
        let ids: Vec<i64> = ends.iter().map(|(id, _)| id.0).collect();
        let states: Vec<&str> = ends.iter().map(|(_, end)| state_of(end)).collect();
        let reason = |end: &Conclusion| match end {
            Conclusion::Returned(reason) => Some(text::write(reason.as_bytes(), repertoire)),
            Conclusion::Sent | Conclusion::Dropped => None,
        };
        let reasons: Vec<Option<String>> = ends.iter().map(|(_, end)| reason(end)).collect();
        let are_any: Vec<bool> = ends.iter().map(|(id, _)| !self.told.contains_key(id)).collect();
        let marked_at: Vec<Option<ServerTime>> =
            ends.iter().map(|(id, _)| self.told.get(id).copied().flatten()).collect();
        let ended: Vec<i64> = ends.iter().filter(|(_, end)| end.is_for_good()).map(|(id, _)| id.0).collect();
        let conclude: Statement<'_> = (CONCLUDE, vec![&relay, &ids, &states, &reasons, &are_any, &marked_at]);
        // A statement of its own sees how they ended.
        let follow: Statement<'_> = (FOLLOW_ENDED, vec![&relay, &FOLLOWS, &FOLLOW_AT_ONCE, &ended]);
        self.perform(if ended.is_empty() { vec![conclude] } else { vec![conclude, follow] }.as_slice()).await?;
        for (id, _) in ends {
            self.told.remove(id);
        }
        self.purge().await;
        Ok(())
    }
}

fn state_of(end: &Conclusion) -> &'static str {
    match end {
        Conclusion::Sent => "sent",
        Conclusion::Dropped => "dropped",
        Conclusion::Returned(_) => "waiting",
    }
}

/// Letters that agree in whose order they keep.
fn share(row: &Row) -> Result<Share, Error> {
    let key = match letter::parking_key(row, field(row, "id")?) {
        Ok(key) => Ok(key),
        Err(Error::Value { field, .. }) => Err(field),
        Err(error) => return Err(error),
    };
    Ok(Share {
        queue: field::<Option<&[u8]>>(row, "queue")?.map(<[u8]>::to_vec),
        key,
        kept: field(row, "kept")?,
        letters: count(row, "letters")?,
        first: letter::place(row)?,
    })
}

/// Marked letters, in order. Behind one that cannot be read none of its key goes, where order is kept.
fn read_marked(rows: &[Row], is_overtaking: bool) -> Result<Vec<Marked>, Error> {
    let mut damaged: BTreeSet<&[u8]> = BTreeSet::new();
    let mut all = Vec::with_capacity(rows.len());
    for row in rows {
        let queue: Option<&[u8]> = field(row, "queue")?;
        if queue.is_some_and(|queue| damaged.contains(queue)) {
            continue;
        }
        let one = marked(row)?;
        if one.fetched.is_some() && one.request != Request::Drop && !is_overtaking {
            damaged.extend(queue);
        }
        all.push(one);
    }
    Ok(all)
}

/// One that somebody damaged cannot be sent, and says so; to be given up it needs no more than what is left of it.
fn marked(row: &Row) -> Result<Marked, Error> {
    let id = LetterId(field(row, "id")?);
    let (letter, fetched) = match letter::read(row) {
        Ok((_, letter)) => (letter, None),
        Err(Error::Value { field, .. }) => (letter::remains(row)?, Some(Err(damaged(id, field)))),
        Err(error) => return Err(error),
    };
    let request = match field(row, "state")? {
        "replay" if field(row, "accepts_changed")? => Request::ReplayChanged,
        "replay" => Request::Replay,
        "drop" => Request::Drop,
        _ => return Err(Error::Value { id: id.0, field: "state" }),
    };
    Ok(Marked { id, request, letter, fetched })
}

fn damaged(id: LetterId, column: &str) -> String {
    format!(
        "the column {column} of its letter holds what no relay wrote: put it right in walpost.dead_letter and have it sent again, or give it up with: walpost dlq drop --id {}",
        id.0
    )
}

/// A number that is never negative.
fn count(row: &Row, column: &'static str) -> Result<u64, Error> {
    let number: i64 = field(row, column)?;
    Ok(u64::try_from(number).unwrap_or_default())
}
