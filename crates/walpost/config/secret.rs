//! Text that must not be seen. It has no `Display`, and its `Debug` shows stars, so that neither a log line nor a failed
//! assertion can give it away; whoever needs it asks for it by name.

use std::fmt;

/// A password, or text that may hold one.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Takes the text into custody.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The text itself, for the one place that has to send it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("***")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_not_printed_by_debug() {
        assert_eq!(
            format!("{:?} {:#?}", Secret::new("hunter2"), Some(Secret::new("hunter2"))),
            "*** Some(\n    ***,\n)"
        );
    }
}
