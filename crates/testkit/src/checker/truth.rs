//! What must arrive: the rows that the database holds afterwards.

use std::collections::BTreeMap;

use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::consumer::Header;
use crate::workload::connection::{block_on, connect};

/// The record that a committed row must become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expected {
    /// The text of the row's `id`, which the header `id` carries.
    pub id: String,
    /// The topic.
    pub topic: String,
    /// The key.
    pub key: Option<Vec<u8>>,
    /// The value; `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    /// All headers, in their order.
    pub headers: Vec<Header>,
    /// Where it stands among the rows of its key, if that is known.
    pub sequence: Option<i64>,
    /// The record's time in milliseconds since 1970, if that is known.
    pub timestamp_ms: Option<i64>,
    /// Whether something is wrong with the row, so that no record may come of it; none where its table does not tell.
    pub is_misfit: Option<bool>,
}

/// Why the truth could not be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// PostgreSQL refused.
    #[error("cannot read the committed rows")]
    Postgres(#[from] tokio_postgres::Error),
    /// Two rows have one id, so records cannot be told apart.
    #[error("two committed rows have the id {0}")]
    DoubleId(String),
}

/// What must arrive.
#[derive(Clone, Debug, Default)]
pub struct Truth {
    rows: BTreeMap<String, Expected>,
    partitions: BTreeMap<String, i32>,
}

impl Truth {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What a query finds. Its columns, by name: `id`, `topic` and `key` of type text, `value` of type bytea, `seq` of type bigint;
    /// if there are such, `timestamp_ms` of type bigint, `is_misfit` of type boolean, and `header.NAME` of type text for the header `NAME`, which follow the
    /// header `id` in the order of their columns.
    ///
    /// # Errors
    ///
    /// [`ReadError::Postgres`] when the server cannot be reached, refuses the query or a column is missing or of another type,
    /// [`ReadError::DoubleId`].
    pub fn read(url: &str, query: &str) -> Result<Self, ReadError> {
        let mut truth = Self::new();
        truth.extend(url, query)?;
        Ok(truth)
    }

    /// Adds what another query finds; see [`Truth::read`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn extend(&mut self, url: &str, query: &str) -> Result<(), ReadError> {
        let rows = block_on(async {
            let client = connect(url).await?;
            client.query(query, &[]).await
        })?;
        rows.iter().try_for_each(|row| self.add(expected(row)?))
    }

    /// Adds a row.
    ///
    /// # Errors
    ///
    /// [`ReadError::DoubleId`].
    pub fn add(&mut self, row: Expected) -> Result<(), ReadError> {
        match self.rows.insert(row.id.clone(), row) {
            None => Ok(()),
            Some(double) => Err(ReadError::DoubleId(double.id)),
        }
    }

    /// Says how many partitions a topic has, so that each key is expected on the one that Kafka's own clients would choose.
    #[must_use]
    pub fn with_partitions(mut self, topic: &str, count: i32) -> Self {
        self.partitions.insert(topic.to_owned(), count);
        self
    }

    /// How many rows there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows, by their ids.
    pub fn rows(&self) -> impl Iterator<Item = &Expected> {
        self.rows.values()
    }

    pub(super) fn row(&self, id: &str) -> Option<&Expected> {
        self.rows.get(id)
    }

    pub(super) fn partitions(&self, topic: &str) -> Option<i32> {
        self.partitions.get(topic).copied()
    }
}

/// Hands over what a query finds, row by row and in its order, however much that is. Its columns are those of [`Truth::read`].
///
/// # Errors
///
/// [`ReadError::Postgres`], as there.
pub fn for_each_row(url: &str, query: &str, mut take: impl FnMut(&Expected)) -> Result<(), ReadError> {
    block_on(async {
        let client = connect(url).await?;
        client.batch_execute(&format!("BEGIN; DECLARE rows NO SCROLL CURSOR FOR {query}")).await?;
        loop {
            let rows = client.query("FETCH 5000 FROM rows", &[]).await?;
            if rows.is_empty() {
                return Ok(());
            }
            for row in &rows {
                take(&expected(row)?);
            }
        }
    })
}

fn expected(row: &Row) -> Result<Expected, tokio_postgres::Error> {
    let id: String = row.try_get("id")?;
    let mut headers = vec![("id".to_owned(), Some(id.clone().into_bytes()))];
    for (index, column) in row.columns().iter().enumerate() {
        if let Some(name) = column.name().strip_prefix("header.") {
            let value: Option<String> = row.try_get(index)?;
            headers.push((name.to_owned(), value.map(String::into_bytes)));
        }
    }
    let has =
        |name: &str, kind: Type| row.columns().iter().any(|column| column.name() == name && *column.type_() == kind);
    let key: Option<String> = row.try_get("key")?;
    Ok(Expected {
        id,
        topic: row.try_get("topic")?,
        key: key.map(String::into_bytes),
        value: row.try_get("value")?,
        headers,
        sequence: row.try_get("seq")?,
        timestamp_ms: if has("timestamp_ms", Type::INT8) { row.try_get("timestamp_ms")? } else { None },
        is_misfit: if has("is_misfit", Type::BOOL) { row.try_get("is_misfit")? } else { None },
    })
}
