//! Why a record was not delivered, in the classes that decide what is done about it.
//!
//! Each edge classifies its errors once, where they arise; nobody downstream reads error texts.

use std::error::Error;

/// What a failure says about the future.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The row is at fault: the broker will never take it, however often it is sent.
    Row,
    /// The topic is closed to us (missing, not authorised, or to records of this age): everything routed to it waits for an operator.
    Route,
    /// The broker is away or overloaded, or said what nobody foresaw: try again, and say so.
    Sink,
    /// The sink took the record back because it was told to (purged), or because another record failed in front of it.
    Withdrawn,
    /// The sink is gone for good and the process has to end: a closed pipe, a wrong password.
    Configuration,
}

/// One failed delivery, classified by the sink.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct Failure {
    /// What follows from it.
    pub class: Class,
    /// What is wrong, where, and what to do, in one sentence that needs no context.
    pub reason: String,
}

impl Failure {
    /// A failure of this class for this reason.
    pub fn new(class: Class, reason: impl Into<String>) -> Self {
        Self { class, reason: reason.into() }
    }
}

/// An error with its causes, from the outermost to the root, in one line. A cause that the text before it ends with already
/// is not said again.
#[must_use]
pub fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(inner) = cause {
        let said = inner.to_string();
        if !text.ends_with(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("{text}")]
    struct Layer {
        text: &'static str,
        #[source]
        cause: Option<Box<Layer>>,
    }

    #[test]
    fn a_chain_says_every_cause_once() {
        let of = |texts: [&'static str; 3]| {
            texts.into_iter().rev().fold(None, |cause, text| Some(Box::new(Layer { text, cause })))
        };
        for (texts, said) in [
            (["it failed", "no network", "cable"], "it failed: no network: cable"),
            (["it failed: cable", "cable", "cable"], "it failed: cable"),
            (["it failed", "no network: cable", "cable"], "it failed: no network: cable"),
        ] {
            assert_eq!(chain(of(texts).as_deref().unwrap()), said);
        }
    }
}
