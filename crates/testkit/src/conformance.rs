//! Records what a real Debezium publishes, case by case, for walpost to be measured by.
//!
//! A case is a line of JSON: an outbox with its statements, the options of the router and of the connector, and the
//! converters. It is run by Debezium itself into a real Kafka, and what arrived is written into the case. Nothing here knows
//! what walpost would make of it, and nothing is corrected: where Debezium's task dies, its last words are the record.

mod case;
mod outcome;
mod stage;

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use serde_json::Value;

pub use case::Case;
pub use outcome::Outcome;
use stage::Stage;

use crate::{consumer, servers};

/// How many connectors run at a time: more than there are cores, for most of the time they wait.
const AT_A_TIME: usize = 8;

/// Why a case could not be recorded.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The case is not as its format wants it.
    #[error("the case has no {0}")]
    Incomplete(&'static str),
    /// A server could not be had or handled.
    #[error("{}", with_cause(.0))]
    Server(#[from] servers::Error),
    /// The topics could not be read.
    #[error(transparent)]
    Consumer(#[from] consumer::Error),
    /// PostgreSQL refused a statement.
    #[error("PostgreSQL would not run `{statement}`: {}", reason(.source))]
    Statement {
        /// The statement.
        statement: String,
        /// The refusal.
        source: tokio_postgres::Error,
    },
}

/// As it reads: it ends on somebody's terminal.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

fn with_cause(error: &servers::Error) -> String {
    let cause = std::error::Error::source(error).map(|source| format!(": {source}"));
    format!("{error}{}", cause.unwrap_or_default())
}

fn reason(error: &tokio_postgres::Error) -> String {
    error.as_db_error().map_or_else(|| error.to_string(), ToString::to_string)
}

/// A case that was run, and what came of it.
pub struct Recorded {
    /// Its place among the cases.
    pub number: usize,
    /// The case as it was given.
    pub case: Case,
    /// What Debezium did.
    pub outcome: Result<Outcome, Error>,
}

/// Runs all cases, several at a time, and tells of each as it is done.
///
/// # Errors
///
/// When the servers cannot be had. What happens to one case is in its [`Recorded`].
pub fn record(cases: Vec<Case>, mut done: impl FnMut(Recorded)) -> Result<(), Error> {
    let stage = Stage::set()?;
    let queue: Mutex<VecDeque<(usize, Case)>> = Mutex::new(cases.into_iter().enumerate().collect());
    let next = || queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
    let (sender, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            let (sender, stage) = (sender.clone(), &stage);
            scope.spawn(move || {
                while let Some((number, case)) = next() {
                    let outcome = stage.run(number, &case);
                    if sender.send(Recorded { number, case, outcome }).is_err() {
                        return;
                    }
                }
            });
        }
        drop(sender);
        for recorded in results {
            done(recorded);
        }
    });
    Ok(())
}

/// The text with every `from` in it replaced, in all strings and keys of a value.
fn replaced(value: &Value, from: &str, to: &str) -> Value {
    match value {
        Value::String(text) => Value::String(text.replace(from, to)),
        Value::Array(items) => items.iter().map(|item| replaced(item, from, to)).collect(),
        Value::Object(members) => {
            Value::Object(members.iter().map(|(key, item)| (key.replace(from, to), replaced(item, from, to))).collect())
        }
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;

    use super::*;

    #[test]
    fn every_recorded_case_can_be_read_and_says_what_debezium_did() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/conformance/recorded.jsonl");
        let text = fs::read_to_string(path).unwrap();
        let mut names = BTreeSet::new();
        for line in text.lines() {
            let case = Case::parse(line).unwrap();
            assert!(names.insert(case.name().to_owned()), "{} is there twice", case.name());
            let records = case.part("debezium_records").and_then(Value::as_array);
            assert!(records.is_some(), "{} has no records", case.name());
        }
        assert!(names.len() > 1_000, "{} cases", names.len());
    }
}
