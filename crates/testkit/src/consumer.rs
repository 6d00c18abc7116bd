//! What arrived: the records of Kafka's topics, or of the relay's standard output, in one form.
//!
//! Reading changes nothing: no consumer group, no committed offsets, always from the beginning, so that a record that came
//! twice is read twice.

mod kafka;
mod line;

use std::fmt;
use std::time::Duration;

pub use kafka::Consumer;
pub(crate) use kafka::Peek;
pub use line::parse_line;

/// A header: its name, and its value, which may be null.
pub type Header = (String, Option<Vec<u8>>);

/// A record that arrived.
#[derive(Clone, PartialEq, Eq)]
pub struct Received {
    /// Its topic.
    pub topic: String,
    /// Its partition; -1 where there is none.
    pub partition: i32,
    /// Its offset, or the number of its line, from 0.
    pub offset: i64,
    /// Its key; `None` is null.
    pub key: Option<Vec<u8>>,
    /// Its value; `None` is a tombstone.
    pub value: Option<Vec<u8>>,
    /// Its headers in their order.
    pub headers: Vec<Header>,
    /// Its time in milliseconds since 1970.
    pub timestamp_ms: Option<i64>,
}

impl Received {
    /// The value of the first header of this name, if it is text.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let (_, value) = self.headers.iter().find(|(found, _)| found == name)?;
        std::str::from_utf8(value.as_deref()?).ok()
    }

    /// The id of its row.
    #[must_use]
    pub fn id(&self) -> Option<&str> {
        self.header("id")
    }

    /// Its key as text; null, and what is no text, in words.
    #[must_use]
    pub fn key_text(&self) -> String {
        text(self.key.as_deref())
    }

    /// Its value as text; null, and what is no text, in words.
    #[must_use]
    pub fn value_text(&self) -> String {
        text(self.value.as_deref())
    }
}

/// Bytes for a message.
pub(crate) fn text(bytes: Option<&[u8]>) -> String {
    bytes.map_or_else(|| "null".to_owned(), |bytes| String::from_utf8_lossy(bytes).into_owned())
}

/// Where it stands and who it is; of its value only the beginning.
impl fmt::Display for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { topic, partition, offset, .. } = self;
        let value: String = self.value_text().chars().take(60).collect();
        let id = self.id().unwrap_or("none");
        write!(f, "{topic}/{partition}@{offset} (id {id}, key {}, value {value})", self.key_text())
    }
}

impl fmt::Debug for Received {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why records could not be read.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The client refused.
    #[error("cannot {doing}: {source}")]
    Kafka {
        /// What was being done.
        doing: String,
        /// The refusal.
        source: rdkafka::error::KafkaError,
    },
    /// A condition did not come true in time.
    #[error(
        "waited {limit:?} in vain for {waiting_for}; {count} records were read, the last of them {last}; the client said: {trouble}"
    )]
    TimedOut {
        /// The condition.
        waiting_for: String,
        /// How long it was waited for.
        limit: Duration,
        /// How many records were read.
        count: usize,
        /// The last of them.
        last: String,
        /// The last error of the client.
        trouble: String,
    },
    /// A line of output is no record.
    #[error("line {number} is not a record, for {reason}: {line}")]
    Line {
        /// Its number, from 0.
        number: i64,
        /// What is wrong.
        reason: String,
        /// The line.
        line: String,
    },
}

/// As it reads: it ends in the message of a failed test.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
