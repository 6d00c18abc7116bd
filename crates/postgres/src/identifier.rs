//! How names and values become SQL text: one function for each, so that nothing is ever pasted.
//!
//! Identifiers are always quoted, so `"Order.Outbox"` and `order` are as good as `orders`.

use std::fmt;

use walpost_core::outbox::TableName;

/// A name as an SQL identifier, always quoted.
#[must_use]
pub fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A table as SQL has to name it, always quoted.
#[must_use]
pub fn quote_table(name: &TableName) -> String {
    format!("{}.{}", quote_identifier(&name.schema), quote_identifier(&name.table))
}

/// A text as an SQL literal that means the same under any setting of `standard_conforming_strings`.
#[must_use]
pub fn quote_literal(text: &str) -> String {
    let quoted = text.replace('\'', "''");
    if quoted.contains('\\') { format!(" E'{}'", quoted.replace('\\', "\\\\")) } else { format!("'{quoted}'") }
}

/// The name of a replication slot, as PostgreSQL's `ReplicationSlotValidateName` allows it: 1 to 63 of `a-z`, `0-9`, `_`.
///
/// START_REPLICATION takes it without quotes, so it is checked before anything is connected.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct SlotName(String);

/// A text that cannot name a replication slot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{name}\" cannot name a replication slot: {rule}")]
pub struct SlotNameError {
    name: String,
    rule: &'static str,
}

impl SlotName {
    /// The longest name, in bytes (`NAMEDATALEN - 1`).
    pub const MAX_LENGTH: usize = 63;

    /// Takes a name that PostgreSQL would take.
    ///
    /// # Errors
    /// The name is empty, too long, or has a character that is not allowed.
    pub fn new(name: impl Into<String>) -> Result<Self, SlotNameError> {
        let name = name.into();
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        let rule = if name.is_empty() {
            "it is empty"
        } else if name.len() > Self::MAX_LENGTH {
            "it is longer than 63 bytes"
        } else if !name.bytes().all(is_allowed) {
            "only lower-case letters, digits and the underscore are allowed"
        } else {
            return Ok(Self(name));
        };
        Err(SlotNameError { name, rule })
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for SlotName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_always_quoted_and_quotes_doubled() {
        for (name, quoted) in [
            ("outbox", "\"outbox\""),
            ("Order.Outbox", "\"Order.Outbox\""),
            ("a\"b", "\"a\"\"b\""),
            ("MyPub,x", "\"MyPub,x\""),
            ("", "\"\""),
        ] {
            assert_eq!(quote_identifier(name), quoted);
        }
    }

    #[test]
    fn literals_survive_quotes_and_backslashes() {
        for (text, quoted) in [("a", "'a'"), ("a'b", "'a''b'"), ("a\\b", " E'a\\\\b'"), ("'\\", " E'''\\\\'")] {
            assert_eq!(quote_literal(text), quoted);
        }
    }

    #[test]
    fn slot_names_follow_postgresqls_rule() {
        for name in ["walpost", "a", "0_1", &"x".repeat(63)] {
            assert_eq!(SlotName::new(name).expect(name).as_str(), name);
        }
        for name in ["", "Walpost", "wal-post", "wal post", "walpöst", "a;b", "a'b", &"x".repeat(64)] {
            let error = SlotName::new(name).expect_err(name);
            assert!(error.to_string().starts_with(&format!("\"{name}\" cannot name a replication slot: ")));
        }
    }
}
