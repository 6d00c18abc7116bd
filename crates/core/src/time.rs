//! Time, as core is told it: a monotonic [`Moment`] for deadlines and PostgreSQL's [`Timestamp`] for what the server said.

use std::time::Duration;

/// A point on the caller's monotonic clock. Its origin is arbitrary and the same for a whole process.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Moment(Duration);

impl Moment {
    /// The moment this long after the origin.
    #[must_use]
    pub const fn since_origin(elapsed: Duration) -> Self {
        Self(elapsed)
    }

    /// How long after the origin.
    #[must_use]
    pub const fn elapsed(self) -> Duration {
        self.0
    }

    /// The moment `wait` later.
    #[must_use]
    pub const fn after(self, wait: Duration) -> Self {
        Self(self.0.saturating_add(wait))
    }

    /// How long after `earlier` this is; zero when it is not later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }
}

/// Microseconds between the Unix epoch and PostgreSQL's (2000-01-01 00:00 UTC).
const POSTGRES_EPOCH_MICROS: i64 = 946_684_800_000_000;

/// The server's clock: microseconds since 2000-01-01 00:00 UTC (PostgreSQL's `TimestampTz`).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// From microseconds since 2000-01-01 00:00 UTC.
    #[must_use]
    pub const fn from_postgres_micros(micros: i64) -> Self {
        Self(micros)
    }

    /// From microseconds since 1970-01-01 00:00 UTC, unless they lie before what PostgreSQL's clock can count.
    #[must_use]
    pub const fn from_unix_micros(micros: i64) -> Option<Self> {
        match micros.checked_sub(POSTGRES_EPOCH_MICROS) {
            Some(micros) => Some(Self(micros)),
            None => None,
        }
    }

    /// Microseconds since 2000-01-01 00:00 UTC.
    #[must_use]
    pub const fn postgres_micros(self) -> i64 {
        self.0
    }

    /// Microseconds since 1970-01-01 00:00 UTC.
    #[must_use]
    pub const fn unix_micros(self) -> i64 {
        self.0.saturating_add(POSTGRES_EPOCH_MICROS)
    }

    /// Milliseconds since 1970-01-01 00:00 UTC, towards zero as Debezium divides.
    #[must_use]
    pub const fn unix_millis(self) -> i64 {
        self.unix_micros() / 1000
    }
}
