//! Positions in the write-ahead log, and the glossary of every one that walpost names.
//!
//! | name | what it is |
//! |---|---|
//! | `start` | where this connection was told to begin: the server sends every transaction whose commit LSN is not below it |
//! | `commit_lsn` | the LSN of the commit record itself (`Begin.final_lsn`, `Commit.commit_lsn`): it identifies a transaction |
//! | `commit_end` | the end of the commit record (`Commit.end_lsn`): the position *after* a transaction, the only one worth confirming |
//! | `wal_end` | how far the server has read its log when it sent a keepalive |
//! | `received` | the end of what the session has taken in |
//! | `watermark` | everything before it is settled: delivered, dropped by rule, or a durable dead letter |
//! | `checkpointed` | the watermark that the checkpoint store holds durably |
//! | `confirmed` | what the server was told; it may throw away the log before it |
//!
//! Always `confirmed ≤ checkpointed ≤ watermark ≤ received`, and none of them ever falls.

use std::fmt;
use std::str::FromStr;

/// A position in the write-ahead log, written `X/Y` as PostgreSQL does.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Lsn(u64);

impl Lsn {
    /// `0/0`, which PostgreSQL calls invalid: no record starts there.
    pub const INVALID: Self = Self(0);

    /// The position at this byte of the log.
    #[must_use]
    pub const fn new(byte: u64) -> Self {
        Self(byte)
    }

    /// The byte of the log.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }

    /// Whether this is a position at all.
    #[must_use]
    pub const fn is_valid(self) -> bool {
        self.0 != 0
    }

    /// How many bytes of log lie from `earlier` to here; none when it is not earlier.
    #[must_use]
    pub const fn bytes_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

impl fmt::Debug for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is not an LSN.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "\"{0}\" is not an LSN: two hexadecimal numbers of at most eight digits with a slash between, such as 16/B374D848"
)]
pub struct ParseLsnError(String);

impl FromStr for Lsn {
    type Err = ParseLsnError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let half = |digits: &str| {
            let is_hex = !digits.is_empty() && digits.len() <= 8 && digits.bytes().all(|b| b.is_ascii_hexdigit());
            is_hex.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
        };
        text.split_once('/')
            .and_then(|(high, low)| Some(Self((half(high)? << 32) | half(low)?)))
            .ok_or_else(|| ParseLsnError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_lsn_is_written_as_postgresql_writes_it() {
        for (byte, text) in
            [(0, "0/0"), (0x16_B374_D848, "16/B374D848"), (u64::MAX, "FFFFFFFF/FFFFFFFF"), (255, "0/FF")]
        {
            assert_eq!(Lsn::new(byte).to_string(), text);
            assert_eq!(text.parse(), Ok(Lsn::new(byte)));
        }
        assert_eq!("16/b374d848".parse(), Ok(Lsn::new(0x16_B374_D848)));
    }

    #[test]
    fn what_is_not_an_lsn_is_refused() {
        for text in ["", "/", "1", "1/", "/1", "1/2/3", "123456789/0", "0/123456789", "+1/2", "g/1", " 1/2"] {
            assert!(text.parse::<Lsn>().is_err(), "{text:?}");
        }
    }
}
