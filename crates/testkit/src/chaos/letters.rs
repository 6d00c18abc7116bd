//! The dead letters of a run: which rows were set aside, read past the relay all the time, and what became of each, as `walpost dlq` tells
//! it at the end.
//!
//! While the run lasts it is enough to know that a row is a letter, for then it is not owed any more. Where the letter stands is
//! asked once, by the command that an operator has, so that table and topic are judged by one form and the command itself as well.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rdkafka::Message as _;
use rdkafka::consumer::BaseConsumer;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio_postgres::Client;

use super::Error;
use super::clock::let_pass;
use super::probe::{LIMIT, reader_of};
use crate::checker::{Census, Letter, LetterState, Letters};
use crate::relay::Walpost;
use crate::servers::wait_until;
use crate::workload::connection::connect;

/// Between two looks.
const LOOK: Duration = Duration::from_millis(200);
/// So many letters are looked at again: those of a session that is being ended may come late.
const OVERLAP: i64 = 1_000;
/// Letters that lie there by now, from a number on.
const QUERY: &str =
    "SELECT id, coalesce(event_id, '') FROM walpost.dead_letter WHERE id > $1::bigint ORDER BY id LIMIT 50000";
/// How long a store that is in order may take to be looked at.
const FRESH: Duration = Duration::from_secs(2);

/// Where the letters are kept.
#[derive(Clone, Debug)]
pub(super) enum Place {
    /// In the table of the database behind this URL.
    Table(String),
    /// On these brokers, in the only partition of this topic.
    Topic(String, String),
}

/// Looks for letters, and tells the census.
pub(super) struct Watch {
    looks: Arc<AtomicU64>,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watch {
    pub(super) fn start(place: Place, census: Arc<Mutex<Census>>) -> Result<Self, Error> {
        let (looks, is_ending) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let mut store = Store::open(place)?;
        let (looked, ending) = (Arc::clone(&looks), Arc::clone(&is_ending));
        let thread = thread::spawn(move || {
            while !ending.load(Ordering::Relaxed) {
                if let Some(ids) = store.new_letters() {
                    let mut census = census.lock().unwrap_or_else(PoisonError::into_inner);
                    ids.iter().for_each(|id| census.set_aside(id));
                    drop(census);
                    looked.fetch_add(1, Ordering::Relaxed);
                }
                let_pass(LOOK);
            }
        });
        Ok(Self { looks, is_ending, thread: Some(thread) })
    }

    /// Waits until all is known that the store has now, unless it does not answer.
    pub(super) fn catch_up(&self) {
        let before = self.looks.load(Ordering::Relaxed);
        // The look that is under way may be older.
        let _ = wait_until("two looks at the letters", FRESH, || self.looks.load(Ordering::Relaxed) >= before + 2);
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked is reported by its own message.
            let _ = thread.join();
        }
    }
}

/// A reader of the store.
#[allow(clippy::large_enum_variant, reason = "a run has one of them")]
enum Store {
    Table { url: String, runtime: Runtime, client: Option<Client>, latest: i64 },
    Topic { reader: BaseConsumer },
}

impl Store {
    fn open(place: Place) -> Result<Self, Error> {
        Ok(match place {
            Place::Table(url) => {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                Self::Table { url, runtime: runtime.map_err(Error::io("make a runtime"))?, client: None, latest: 0 }
            }
            Place::Topic(bootstrap, topic) => {
                let reader = reader_of(&bootstrap, &topic);
                Self::Topic { reader: reader.ok_or_else(|| Error::Options(format!("{topic} cannot be read")))? }
            }
        })
    }

    /// The ids of rows that were set aside since the last look, and of some before; none where that cannot be told now.
    fn new_letters(&mut self) -> Option<Vec<String>> {
        match self {
            Self::Table { url, runtime, client, latest } => {
                let asked = async {
                    let connected = match client.take().filter(|client| !client.is_closed()) {
                        Some(connected) => connected,
                        None => connect(url).await?,
                    };
                    let rows = connected.query(QUERY, &[&(*latest - OVERLAP)]).await?;
                    *client = Some(connected);
                    rows.iter()
                        .map(|row| Ok((row.try_get(0)?, row.try_get(1)?)))
                        .collect::<Result<Vec<(i64, String)>, _>>()
                };
                let found: Result<_, tokio_postgres::Error> =
                    runtime.block_on(async { tokio::time::timeout(LIMIT, asked).await }).ok()?;
                let found = found.ok()?;
                *latest = found.last().map_or(*latest, |(id, _)| *id).max(*latest);
                Some(found.into_iter().map(|(_, event)| event).collect())
            }
            Self::Topic { reader } => {
                let mut ids = Vec::new();
                let mut wait = LIMIT / 10;
                while let Some(Ok(message)) = reader.poll(wait) {
                    ids.extend(message.payload().and_then(event_id));
                    wait = Duration::ZERO;
                }
                Some(ids)
            }
        }
    }
}

/// The id in a letter, or in a part of one; it stands before all that is long.
fn event_id(document: &[u8]) -> Option<String> {
    const NAME: &[u8] = b"\"event_id\":";
    const WITHIN: usize = 1 << 16;
    let beginning = document.get(..WITHIN).unwrap_or(document);
    let at = beginning.windows(NAME.len()).position(|window| window == NAME)?;
    let rest = document.get(at + NAME.len()..)?;
    let mut quoted = rest.get(..64).unwrap_or(rest).split(|byte| *byte == b'"');
    String::from_utf8(quoted.nth(1)?.to_vec()).ok()
}

/// All letters, as `walpost dlq` tells them.
pub(super) fn all_letters(walpost: &Walpost) -> Result<Letters, Error> {
    let ended = walpost.call(&[
        "dlq",
        "list",
        "--json",
        "--state",
        "waiting,replay,drop,sent,dropped",
        "--limit",
        "2000000000",
    ])?;
    if ended.code() != Some(0) {
        return Err(Error::Refused { command: "dlq list", status: ended.status, log: ended.log });
    }
    let mut letters = Letters::default();
    for line in ended.output.lines() {
        let told: Value = serde_json::from_str(line)
            .map_err(|error| Error::Options(format!("`walpost dlq list --json` said {line:?}: {error}")))?;
        let text = |name: &str| told.get(name).and_then(Value::as_str);
        let state = match text("state") {
            Some("sent") => LetterState::Sent,
            Some("dropped") => LetterState::Dropped,
            _ => LetterState::Open,
        };
        let letter = Letter {
            state,
            is_parked: text("cause") == Some("parked"),
            // What goes by itself may have done so ever since.
            marked_ms: text("marked_at").or(text("marked_by").and(text("first_at"))).and_then(unix_ms),
        };
        letters.add(text("event_id").unwrap_or_default(), letter, text("reason").unwrap_or_default());
    }
    Ok(letters)
}

/// Milliseconds since 1970 of a time in UTC such as `2026-01-31T12:00:00.123456Z`.
fn unix_ms(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let number = |text: Option<&str>| text?.parse::<i64>().ok();
    let mut date = date.split('-');
    let (year, month, day) = (number(date.next())?, number(date.next())?, number(date.next())?);
    let mut time = time.split([':', '.']);
    let (hour, minute, second) = (number(time.next())?, number(time.next())?, number(time.next())?);
    let fraction: String = time.next().unwrap_or("0").chars().chain("000".chars()).take(3).collect();
    // Howard Hinnant's days_from_civil: years begin in March, so that the odd day is the last.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 719_469;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second;
    Some(seconds * 1_000 + fraction.parse::<i64>().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_a_mark_is_read_as_it_is_told() {
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some(0)),
            ("2000-02-29T00:00:00.5Z", Some(951_782_400_500)),
            ("2026-11-30T08:30:48.235787Z", Some(1_796_027_448_235)),
            ("2026-11-30 08:30:48", None),
            ("yesterday", None),
        ] {
            assert_eq!(unix_ms(text), expected, "{text}");
        }
    }

    #[test]
    fn the_id_of_a_row_is_found_in_a_part_of_its_letter() {
        let id = "00000000-0000-4000-8000-000000000001";
        let document =
            format!(r#"{{"relay":"a","event_id":"{id}","cause":"row","reason":"it is {}"#, "too large ".repeat(9));
        assert_eq!(event_id(document.as_bytes()).as_deref(), Some(id));
        assert_eq!(event_id(b"{}"), None);
    }
}
