//! The dead letters in a line: how many there are, and whether there may be more.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::timeout;
use walpost_core::failure::chain;
use walpost_core::poison::Inventory;
use walpost_core::poison::operator::{Filter, State};
use walpost_core::port::DeadLetters as _;
use walpost_postgres::dead_letter::Error;
use walpost_postgres::dead_letter::operator::{Summary, summary};
use walpost_postgres::sql;

use super::report::bytes;
use crate::commands::dlq::{age, desk::Desk};
use crate::config::Settings;
use crate::config::settings::LetterStore;
use crate::journal;
use crate::letters::{self, AnyLetters};

/// How long brokers may take to tell.
const BROKER_TIME: Duration = Duration::from_secs(15);

/// What was learnt of them.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Letters {
    /// Nobody has made the table. Where rows are set aside, the relay says so itself.
    NoTable,
    /// This many lie there.
    Lying(Summary),
    /// They cannot be read.
    Unread(String),
}

pub(super) async fn ask(sql: &sql::Session, settings: &Settings) -> Letters {
    match settings.dead_letter().store() {
        LetterStore::Postgres => match summary(sql, settings.name()).await {
            Ok(summary) => Letters::Lying(summary),
            Err(Error::NoTable) => Letters::NoTable,
            Err(error) => Letters::Unread(chain(&error)),
        },
        LetterStore::Kafka(_) => match timeout(BROKER_TIME, ask_topic(settings)).await {
            Ok(Ok(summary)) => Letters::Lying(summary),
            Ok(Err(error)) => Letters::Unread(journal::with_remedy(&error.sentence(), error.remedy().as_deref())),
            Err(_) => Letters::Unread(format!("the brokers do not answer within {} s", BROKER_TIME.as_secs())),
        },
    }
}

/// What the relay counts, and beside it what only an operator wants to know.
async fn ask_topic(settings: &Settings) -> Result<Summary, letters::Error> {
    let Inventory { letters, parked, roots, parked_bytes } = AnyLetters::in_haste(settings).inventory().await?;
    let states = State::OPEN.to_vec();
    let open = Desk::open(settings).await?.list(&Filter { states, ..Filter::default() }, -1).await?;
    let count = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
    Ok(Summary {
        letters: count(letters),
        roots: count(roots),
        keys: count(parked.len() as u64),
        parked_bytes: count(parked_bytes),
        marked: count(open.iter().filter(|letter| letter.state != "waiting").count() as u64),
        oldest: open.iter().map(|letter| letter.age).max(),
    })
}

impl Letters {
    /// What is not well. Where rows are not set aside, it is not the business of this relay.
    pub(super) fn finding(&self, settings: &Settings) -> Option<String> {
        if !settings.dead_letter().is_used() {
            return None;
        }
        match self {
            Self::NoTable => None,
            Self::Lying(summary) => flood(summary, settings.dead_letter().policy().flood_limit),
            Self::Unread(reason) => Some(format!("the dead letters cannot be read: {reason}")),
        }
    }

    pub(super) fn text(&self) -> String {
        match self {
            Self::NoTable => "the table walpost.dead_letter does not exist".to_owned(),
            Self::Lying(Summary { letters: 0, .. }) => "none".to_owned(),
            Self::Lying(summary) => text(summary),
            Self::Unread(_) => "not known".to_owned(),
        }
    }

    pub(super) fn json(&self) -> Value {
        match self {
            Self::NoTable => json!({ "exists": false }),
            Self::Lying(summary) => json!({
                "exists": true,
                "letters": summary.letters,
                "roots": summary.roots,
                "keys": summary.keys,
                "parked_bytes": summary.parked_bytes,
                "marked": summary.marked,
                "oldest_seconds": summary.oldest.map(|oldest| oldest.as_secs()),
            }),
            Self::Unread(_) => Value::Null,
        }
    }
}

fn text(summary: &Summary) -> String {
    let Summary { letters, roots, keys, parked_bytes, marked, oldest } = *summary;
    let parked = bytes(u64::try_from(parked_bytes).unwrap_or_default());
    let oldest = age(oldest.unwrap_or_default());
    format!(
        "{letters}, of these {roots} for a reason of their own and {parked} behind them; keys {keys}, marked {marked}, the oldest {oldest} old"
    )
}

fn flood(summary: &Summary, limit: u64) -> Option<String> {
    let is_full = u64::try_from(summary.roots).is_ok_and(|roots| roots >= limit);
    is_full.then(|| {
        format!(
            "{} dead letters lie there for a reason of their own and dead_letter.flood_limit is {limit}: the stream is held in front of the next row that \
             cannot be published; look at them with `walpost dlq list` and replay or drop them, or raise dead_letter.flood_limit",
            summary.roots
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Summary = Summary {
        letters: 5,
        roots: 2,
        keys: 2,
        parked_bytes: 1536,
        marked: 3,
        oldest: Some(Duration::from_secs(7300)),
    };

    #[test]
    fn what_lies_there_is_told_in_a_line_and_as_an_object() {
        let line =
            "5, of these 2 for a reason of their own and 1.5 KiB behind them; keys 2, marked 3, the oldest 2h old";
        let object = json!({
            "exists": true, "letters": 5, "roots": 2, "keys": 2, "parked_bytes": 1536, "marked": 3, "oldest_seconds": 7300
        });
        for (letters, text, json) in [
            (Letters::Lying(SOME), line, object),
            (Letters::NoTable, "the table walpost.dead_letter does not exist", json!({ "exists": false })),
            (Letters::Unread("no".to_owned()), "not known", Value::Null),
        ] {
            assert_eq!((letters.text().as_str(), letters.json()), (text, json));
        }
        assert_eq!(Letters::Lying(Summary::default()).text(), "none");
    }

    #[test]
    fn only_what_lies_there_for_a_reason_of_its_own_comes_up_to_the_flood_limit() {
        for (limit, is_full) in [(1, true), (2, true), (3, false), (5, false)] {
            let said = flood(&SOME, limit);
            assert_eq!(said.is_some(), is_full, "{limit}: {said:?}");
            assert!(said.is_none_or(|said| said.contains("walpost dlq list") && said.contains(&limit.to_string())));
        }
    }
}
