//! The keys of the records: whose letter, of which row, and which of its records.
//!
//! `orders:1:16/B3748000:4:800000000123456:letter:1`. A relay's name has no colon, and neither has anything else of a key.

use std::fmt;

use walpost_core::lsn::Lsn;
use walpost_core::poison::DeadLetter;
use walpost_core::position::{Identity, Place, Timeline};
use walpost_core::time::Timestamp;

/// Which row a letter is of.
///
/// A topic outlives databases, and in another cluster the same place of the log is another row's. That it also committed at the same microsecond is
/// what no two clusters have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct RowId {
    pub(crate) identity: Identity,
    pub(crate) commit_time: Timestamp,
}

impl RowId {
    pub(crate) fn of(letter: &DeadLetter) -> Self {
        Self { identity: letter.identity, commit_time: letter.commit_time }
    }

    /// Where it stands in the log.
    pub(crate) fn place(&self) -> Place {
        Place::of(self.identity, self.commit_time)
    }
}

impl fmt::Display for RowId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Identity { timeline, commit_lsn, ordinal } = self.identity;
        write!(f, "{}:{commit_lsn}:{ordinal}:{}", timeline.0, self.commit_time.postgres_micros())
    }
}

/// Which of a letter's records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// A part of the letter itself, counted from 1.
    Part(u32),
    /// How it stands.
    Standing,
    /// What an operator asked for.
    Mark,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Part(number) => write!(f, "letter:{number}"),
            Self::Standing => f.write_str("state"),
            Self::Mark => f.write_str("mark"),
        }
    }
}

/// The key of a record.
pub(super) fn write(relay: &str, row: &RowId, kind: Kind) -> String {
    format!("{relay}:{row}:{kind}")
}

/// Reads the key of a record of this relay. `None` of another relay's.
pub(super) fn read(relay: &str, key: &[u8]) -> Option<Result<(RowId, Kind), NoKey>> {
    let rest = key.strip_prefix(relay.as_bytes())?.strip_prefix(b":")?;
    Some(std::str::from_utf8(rest).ok().and_then(parse).ok_or(NoKey))
}

/// It begins with the relay's name, and no relay wrote it.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NoKey;

fn parse(text: &str) -> Option<(RowId, Kind)> {
    let mut fields = text.split(':');
    let timeline = Timeline(fields.next()?.parse().ok()?);
    let commit_lsn: Lsn = fields.next()?.parse().ok()?;
    let ordinal = fields.next()?.parse().ok()?;
    let commit_time = Timestamp::from_postgres_micros(fields.next()?.parse().ok()?);
    let kind = match (fields.next()?, fields.next()) {
        ("letter", Some(number)) => Kind::Part(number.parse().ok().filter(|number| *number > 0)?),
        ("state", None) => Kind::Standing,
        ("mark", None) => Kind::Mark,
        _ => return None,
    };
    let row = RowId { identity: Identity { timeline, commit_lsn, ordinal }, commit_time };
    fields.next().is_none().then_some((row, kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(micros: i64) -> RowId {
        let identity = Identity { timeline: Timeline(1), commit_lsn: Lsn::new(0x16_B374_8000), ordinal: 4 };
        RowId { identity, commit_time: Timestamp::from_postgres_micros(micros) }
    }

    #[test]
    fn keys_are_read_back_and_sort_a_letters_records_together() {
        for (kind, expected) in [
            (Kind::Part(1), "orders:1:16/B3748000:4:800000000123456:letter:1"),
            (Kind::Part(u32::MAX), "orders:1:16/B3748000:4:800000000123456:letter:4294967295"),
            (Kind::Standing, "orders:1:16/B3748000:4:800000000123456:state"),
            (Kind::Mark, "orders:1:16/B3748000:4:800000000123456:mark"),
        ] {
            let row = row(800_000_000_123_456);
            let key = write("orders", &row, kind);
            assert_eq!(key, expected);
            assert_eq!(read("orders", key.as_bytes()), Some(Ok((row, kind))));
            for other in ["order", "orders2", "ders", ""] {
                assert_eq!(read(other, key.as_bytes()), None, "{other:?}");
            }
        }
        let early = row(-1);
        assert_eq!(read("r", write("r", &early, Kind::Mark).as_bytes()), Some(Ok((early, Kind::Mark))));
    }

    #[test]
    fn what_no_relay_wrote_is_no_key() {
        for rest in [
            "",
            "1",
            "1:16/B3748000:4:5",
            "1:16/B3748000:4:5:",
            "1:16/B3748000:4:5:letter",
            "1:16/B3748000:4:5:letter:0",
            "1:16/B3748000:4:5:letter:x",
            "1:16/B3748000:4:5:state:1",
            "1:16/B3748000:4:5:mark:",
            "x:16/B3748000:4:5:mark",
            "1:16:4:5:mark",
            "1:16/B3748000:-4:5:mark",
            "1:16/B3748000:4:5:mark:6:7",
            "\u{fffd}",
        ] {
            assert_eq!(read("r", format!("r:{rest}").as_bytes()), Some(Err(NoKey)), "{rest:?}");
        }
        assert_eq!(read("r", b"r:\xff"), Some(Err(NoKey)));
    }
}
