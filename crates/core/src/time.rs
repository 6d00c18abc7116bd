//! Time, as core is told it: a monotonic [`Moment`] for deadlines and PostgreSQL's [`Timestamp`] for what the server said.

use std::time::Duration;

use crate::value::{PointInTime, parse_timestamptz};

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

/// Year, month and day of the proleptic Gregorian calendar, of days since 1970-01-01.
///
/// Counted in cycles of 400 years that begin on 1 March of the year 0, so that the day of a leap year is a year's last one.
const fn date_of(unix_days: i64) -> (i64, i64, i64) {
    let days = unix_days + 719_468;
    let (cycle, of_cycle) = (days.div_euclid(146_097), days.rem_euclid(146_097));
    let year_of_cycle = (of_cycle - of_cycle / 1460 + of_cycle / 36_524 - of_cycle / 146_096) / 365;
    let of_year = of_cycle - (365 * year_of_cycle + year_of_cycle / 4 - year_of_cycle / 100);
    let since_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * since_march + 2) / 5 + 1;
    let month = if since_march < 10 { since_march + 3 } else { since_march - 9 };
    let year = 400 * cycle + year_of_cycle + if month <= 2 { 1 } else { 0 };
    (year, month, day)
}

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

    /// As RFC 3339 writes it, in UTC and with every digit: `2026-11-30T07:53:26.000001Z`. Beyond its years of four digits as ISO 8601
    /// does, with a sign.
    #[must_use]
    pub fn to_rfc3339(self) -> String {
        const DAY: i64 = 86_400_000_000;
        let micros = self.unix_micros();
        let (year, month, day) = date_of(micros.div_euclid(DAY));
        let of_day = micros.rem_euclid(DAY);
        let (seconds, fraction) = (of_day / 1_000_000, of_day % 1_000_000);
        let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        let year = if (0..=9999).contains(&year) { format!("{year:04}") } else { format!("{year:+05}") };
        format!("{year}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:06}Z")
    }

    /// Reads a time of RFC 3339, which differs from the server's form by two letters. `None` of anything else.
    #[must_use]
    pub fn from_rfc3339(text: &str) -> Option<Self> {
        let (date, time) = text.split_once(['T', 't', ' '])?;
        let time = match time.strip_suffix(['Z', 'z']) {
            Some(time) => format!("{time}+00"),
            None => time.to_owned(),
        };
        match parse_timestamptz(format!("{date} {time}").as_bytes()).ok()? {
            PointInTime::UnixMicros(micros) => Self::from_unix_micros(micros),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_written_as_rfc_3339_has_it() {
        for (unix_micros, expected) in [
            (0, "1970-01-01T00:00:00.000000Z"),
            (-1, "1969-12-31T23:59:59.999999Z"),
            (951_782_400_000_000, "2000-02-29T00:00:00.000000Z"),
            (951_868_799_000_001, "2000-02-29T23:59:59.000001Z"),
            (951_868_800_000_000, "2000-03-01T00:00:00.000000Z"),
            (4_107_542_400_000_000, "2100-03-01T00:00:00.000000Z"),
            (1_796_025_206_123_000, "2026-11-30T07:53:26.123000Z"),
            (-62_167_219_200_000_000, "0000-01-01T00:00:00.000000Z"),
            (-62_167_219_200_000_001, "-0001-12-31T23:59:59.999999Z"),
            (253_402_300_800_000_000, "+10000-01-01T00:00:00.000000Z"),
        ] {
            let time = Timestamp::from_postgres_micros(unix_micros - POSTGRES_EPOCH_MICROS);
            assert_eq!(time.to_rfc3339(), expected);
        }
    }

    #[test]
    fn a_time_that_is_written_is_read_back_on_every_day_of_four_centuries() {
        for day in 0..146_097 {
            let micros = day * 86_400_000_000 + 45_296_000_000;
            let written = Timestamp(micros).to_rfc3339();
            assert_eq!(Timestamp::from_rfc3339(&written), Some(Timestamp(micros)), "{written}");
        }
    }
}
