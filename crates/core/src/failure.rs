//! Why a record was not delivered, in the classes that decide what is done about it.
//!
//! Each edge classifies its errors once, where they arise; nobody downstream reads error texts.

/// What a failure says about the future.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Class {
    /// The row is at fault: the broker will never take it, however often it is sent.
    Row,
    /// The topic is closed to us (missing, not authorised): everything routed to it waits for an operator.
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
