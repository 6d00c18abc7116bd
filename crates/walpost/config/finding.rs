//! What is to be said about a configuration: where, at which key, and what to do about it.

use std::collections::BTreeSet;
use std::fmt;
use std::path::{Path, PathBuf};

/// A place in the file, both counted from one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line.
    pub line: usize,
    /// The character within the line.
    pub column: usize,
}

impl Place {
    /// The place of a byte of the text.
    pub(super) fn of(text: &str, byte: usize) -> Self {
        let before = text.get(..byte).unwrap_or(text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        Self {
            line: before.matches('\n').count() + 1,
            column: before.get(line_start..).map_or(0, |line| line.chars().count()) + 1,
        }
    }
}

/// One sentence about one key. A fault when it keeps the program from starting, else a warning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The key with its section, such as `source.slot` or `outbox[1].table`; empty where the file as a whole is meant.
    pub key: String,
    /// Where it stands; `None` where it does not stand in the file.
    pub place: Option<Place>,
    /// What is wrong and what to write instead. Never holds a secret.
    pub reason: String,
}

impl fmt::Display for Finding {
    /// `3:8: source.slot: reason`, without the parts that there are not.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Place { line, column }) = self.place {
            write!(f, "{line}:{column}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.reason)
    }
}

/// What was found so far.
#[derive(Debug, Default)]
pub(super) struct Findings {
    faults: Vec<Finding>,
    warnings: Vec<Finding>,
    /// Keys and sections that somebody meant and mistyped.
    meant: BTreeSet<String>,
}

impl Findings {
    /// A key or section was mistyped: that it is missing need not be said too.
    pub(super) fn was_meant(&mut self, key: impl Into<String>) {
        self.meant.insert(key.into());
    }

    /// Whether something is said already of what was typed for this key or section, so that nothing that follows from it need be.
    pub(super) fn is_at_fault(&self, key: &str) -> bool {
        self.meant.contains(key) || self.faults.iter().any(|fault| fault.key == key)
    }

    pub(super) fn fault(&mut self, key: impl Into<String>, place: Option<Place>, reason: impl Into<String>) {
        self.faults.push(Finding { key: key.into(), place, reason: reason.into() });
    }

    pub(super) fn warn(&mut self, key: impl Into<String>, place: Option<Place>, reason: impl Into<String>) {
        self.warnings.push(Finding { key: key.into(), place, reason: reason.into() });
    }

    pub(super) fn has_faults(&self) -> bool {
        !self.faults.is_empty()
    }

    /// The faults and the warnings, each in the order of the file; what does not stand in the file comes last.
    pub(super) fn into_sorted(self) -> (Vec<Finding>, Vec<Finding>) {
        let sorted = |mut findings: Vec<Finding>| {
            findings.sort_by_key(|finding| (finding.place.is_none(), finding.place));
            findings
        };
        (sorted(self.faults), sorted(self.warnings))
    }
}

/// Why there are no settings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("{}: the configuration cannot be read; name another with -c or WALPOST_CONFIG", .path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file was read and cannot be used. Displayed as one line a fault.
    #[error("{}", lines(.path, .faults))]
    Faulty {
        /// The file.
        path: PathBuf,
        /// Everything that is wrong with it, in its order; never empty.
        faults: Vec<Finding>,
    },
}

/// One line a finding, each with the file in front as compilers do it, so that editors can jump there.
pub(super) fn lines(path: &Path, findings: &[Finding]) -> String {
    let lines: Vec<_> = findings
        .iter()
        .map(|finding| match finding.place {
            Some(_) => format!("{}:{finding}", path.display()),
            None => format!("{}: {finding}", path.display()),
        })
        .collect();
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_count_lines_and_characters_from_one() {
        let text = "a\nbé = 1\n";
        for (byte, line, column) in [(0, 1, 1), (2, 2, 1), (5, 2, 3), (10, 3, 1), (99, 3, 1)] {
            assert_eq!(Place::of(text, byte), Place { line, column }, "byte {byte}");
        }
    }

    #[test]
    fn findings_come_in_the_order_of_the_file_and_what_is_not_in_it_last() {
        let mut findings = Findings::default();
        findings.fault("c", None, "");
        findings.fault("b", Some(Place { line: 2, column: 1 }), "");
        findings.fault("a", Some(Place { line: 1, column: 9 }), "");
        let (faults, _) = findings.into_sorted();
        assert_eq!(faults.iter().map(|fault| fault.key.as_str()).collect::<Vec<_>>(), ["a", "b", "c"]);
    }
}
