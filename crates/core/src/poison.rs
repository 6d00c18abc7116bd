//! What becomes of a record that cannot be delivered.
//!
//! A row is judged bad only when it was sent alone, for a failed batch blames innocents.

/// A row that cannot become a record, or that the broker will never take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct RowFault {
    /// What is wrong with the row, and where: it names the column or the value's kind, never its content.
    pub reason: String,
}

impl RowFault {
    /// A fault for this reason.
    pub fn new(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}
