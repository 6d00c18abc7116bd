//! What a look at a database or a broker brought up: how bad it is, what it is about, what is the case, and what to do.

use std::fmt;

/// How bad a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// It runs, and something may go wrong one day that walpost cannot prevent.
    Warning,
    /// It cannot run, or would lose rows.
    Error,
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about, as the configuration, the server or the broker names it.
    pub subject: String,
    /// What is the case.
    pub sentence: String,
    /// What to do about it; empty where nothing is to be done.
    pub remedy: String,
}

impl Finding {
    /// A finding of this severity.
    pub fn new(
        severity: Severity,
        subject: impl Into<String>,
        sentence: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        Self { severity, subject: subject.into(), sentence: sentence.into(), remedy: remedy.into() }
    }

    /// What keeps a relay from running.
    pub fn error(subject: impl Into<String>, sentence: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Severity::Error, subject, sentence, remedy)
    }

    /// What may go wrong one day.
    pub fn warning(subject: impl Into<String>, sentence: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Severity::Warning, subject, sentence, remedy)
    }

    /// What is worth knowing.
    pub fn note(subject: impl Into<String>, sentence: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self::new(Severity::Note, subject, sentence, remedy)
    }
}

impl Finding {
    /// All of it but how bad it is, for where that is said otherwise, such as by the level of a log.
    #[must_use]
    pub fn without_severity(&self) -> String {
        let Self { subject, sentence, remedy, .. } = self;
        if remedy.is_empty() { format!("{subject}: {sentence}") } else { format!("{subject}: {sentence}; {remedy}") }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let severity = match self.severity {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        };
        write!(f, "{severity}: {}", self.without_severity())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_and_ends_with_its_remedy_if_there_is_one() {
        assert_eq!(Finding::error("slot", "it is gone", "make it").to_string(), "error: slot: it is gone; make it");
        assert_eq!(Finding::error("slot", "it is gone", "make it").without_severity(), "slot: it is gone; make it");
        assert_eq!(Finding::note("brokers", "three", "").to_string(), "note: brokers: three");
        assert!(Severity::Error > Severity::Warning && Severity::Warning > Severity::Note);
    }
}
