//! What lies there, in a few numbers.

use std::time::Duration;

use super::super::letter::field;
use super::Error;
use crate::sql::Session;

// Of a queue, what waits and what goes: all that has not ended.
const SUMMARY: &str = "
SELECT count(*) AS letters, count(*) FILTER (WHERE cause <> 'parked') AS roots, count(DISTINCT queue) AS keys,
       coalesce(sum(octet_length(insert_message)::bigint) FILTER (WHERE cause = 'parked'), 0)::bigint AS parked_bytes,
       count(*) FILTER (WHERE state <> 'waiting') AS marked, extract(epoch FROM now() - min(first_at))::float8 AS age
FROM walpost.dead_letter WHERE relay = $1 AND state IN ('waiting', 'replay', 'drop')";

/// The letters of a relay that were neither sent nor dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many.
    pub letters: i64,
    /// Those of them that lie there for a reason of their own: what `dead_letter.flood_limit` counts.
    pub roots: i64,
    /// The keys of which they keep the order.
    pub keys: i64,
    /// What those hold that wait for another one: what `dead_letter.parked_bytes` counts.
    pub parked_bytes: i64,
    /// Those that are to be sent or dropped, and were not yet.
    pub marked: i64,
    /// How long ago the first was set aside.
    pub oldest: Option<Duration>,
}

/// Counts what lies there.
///
/// # Errors
/// The table is not there or cannot be read, the session has ended, or the server did not answer in time.
pub async fn summary(session: &Session, relay: &str) -> Result<Summary, Error> {
    let row = session.query_one(SUMMARY, &[&relay]).await?;
    let age: Option<f64> = field(&row, "age")?;
    Ok(Summary {
        letters: field(&row, "letters")?,
        roots: field(&row, "roots")?,
        keys: field(&row, "keys")?,
        parked_bytes: field(&row, "parked_bytes")?,
        marked: field(&row, "marked")?,
        // A clock that was set back makes letters of the future.
        oldest: age.map(|age| Duration::try_from_secs_f64(age).unwrap_or_default()),
    })
}
