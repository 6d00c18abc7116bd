//! Which letters are meant, as SQL asks for them.

use tokio_postgres::types::ToSql;
use walpost_core::poison::operator::{Filter, When};

use super::super::text::{self, Repertoire};
use crate::server_time::ServerTime;

/// The conditions of a [`Filter`]; the order of the parameters is that of `Parameters`.
pub(super) const FITS: &str = "letter.relay = $1 AND ($2::bigint[] IS NULL OR letter.id = ANY ($2))
    AND ($3::text IS NULL OR letter.outbox_schema = $3) AND ($4::text IS NULL OR letter.outbox_table = $4)
    AND ($5::text IS NULL OR letter.topic = $5) AND ($6::text IS NULL OR letter.key = $6)
    AND ($7::text IS NULL OR strpos(lower(letter.reason), lower($7)) > 0)
    AND ($8::text[] IS NULL OR letter.cause = ANY ($8)) AND ($9::text[] IS NULL OR letter.state = ANY ($9))
    AND ($10::timestamptz IS NULL OR letter.first_at >= $10)
    AND ($11::float8 IS NULL OR letter.first_at >= now() - make_interval(secs => $11))
    AND ($12::timestamptz IS NULL OR letter.first_at < $12)
    AND ($13::float8 IS NULL OR letter.first_at < now() - make_interval(secs => $13))";

/// The letters of a [`Selection`](walpost_core::poison::operator::Selection).
pub(super) const SELECTED: &str = "
WITH chosen AS (
    SELECT letter.id, letter.queue FROM walpost.dead_letter AS letter
    WHERE {fits} AND letter.state IN ('waiting', 'replay', 'drop') ORDER BY letter.id LIMIT $14::bigint
), selected AS (
    SELECT id FROM chosen
    UNION
    SELECT behind.id FROM (SELECT queue, min(id) AS id FROM chosen WHERE queue IS NOT NULL GROUP BY queue) AS first
    JOIN walpost.dead_letter AS behind ON behind.relay = $1 AND behind.queue = first.queue AND behind.id > first.id
    WHERE $15::bool AND behind.state = 'waiting'
)";

/// A filter in the types of its parameters.
pub(super) struct Parameters<'a> {
    relay: &'a str,
    ids: Option<&'a [i64]>,
    schema: Option<&'a str>,
    table: Option<&'a str>,
    topic: Option<String>,
    key: Option<String>,
    reason: Option<String>,
    causes: Option<Vec<&'static str>>,
    states: Option<Vec<&'static str>>,
    since: (Option<ServerTime>, Option<f64>),
    until: (Option<ServerTime>, Option<f64>),
    limit: Option<i64>,
}

impl<'a> Parameters<'a> {
    pub(super) fn new(filter: &'a Filter, relay: &'a str, repertoire: Repertoire) -> Self {
        let text = |text: &Option<String>| text.as_ref().map(|text| text::write(text.as_bytes(), repertoire));
        let outbox = filter.outbox.as_ref();
        Self {
            relay,
            ids: given(filter.ids.as_slice()),
            schema: outbox.map(|outbox| outbox.schema.as_str()),
            table: outbox.map(|outbox| outbox.table.as_str()),
            topic: text(&filter.topic),
            key: text(&filter.key),
            reason: text(&filter.reason),
            causes: given(&filter.causes).map(|causes| causes.iter().map(|cause| cause.word()).collect()),
            states: given(&filter.states).map(|states| states.iter().map(|state| state.word()).collect()),
            since: point(filter.since),
            until: point(filter.until),
            limit: filter.limit.map(i64::from),
        }
    }

    /// In the order of [`FITS`].
    pub(super) fn of_filter(&self) -> [&(dyn ToSql + Sync); 14] {
        [
            &self.relay,
            &self.ids,
            &self.schema,
            &self.table,
            &self.topic,
            &self.key,
            &self.reason,
            &self.causes,
            &self.states,
            &self.since.0,
            &self.since.1,
            &self.until.0,
            &self.until.1,
            &self.limit,
        ]
    }
}

/// A list, unless it is empty and says nothing.
fn given<T>(list: &[T]) -> Option<&[T]> {
    Some(list).filter(|list| !list.is_empty())
}

fn point(when: Option<When>) -> (Option<ServerTime>, Option<f64>) {
    match when {
        None => (None, None),
        Some(When::At(time)) => (Some(ServerTime(time)), None),
        Some(When::Ago(time)) => (None, Some(time.as_secs_f64())),
    }
}
