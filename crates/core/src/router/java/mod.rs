//! Regular expressions and replacement strings as `java.util.regex` reads them.
//!
//! Debezium hands `route.topic.regex` and `route.topic.replacement` to Java. A configuration that was written for it has to
//! route to the same topics here, so both are read by Java's grammar and Java's meaning, as of JDK 17: a [`Pattern`] is
//! translated, a [`Replacement`] interpreted. The translation spells everything out (flags, classes, line terminators), so
//! that no rule of the engine beneath can differ unnoticed; it runs in linear time unless the pattern itself looks around or
//! back, and then under a step limit.
//!
//! What it refuses to do: guess. A construct that cannot be translated exactly is refused when the relay starts, by name and
//! position. What remains: the tables of Unicode are newer than those of JDK 17; `\b` follows JDK 19 (its word characters are
//! those of `\w`), and a combining mark after a word does not extend it; and where an attempt failed after a look-ahead, an
//! atomic group or a possessive quantifier, Java may keep what a group in there had captured, which here is gone.

mod class;
mod escape;
mod group;
mod pattern;
mod property;
mod replacement;
mod set;
mod source;

pub(super) use pattern::{Pattern, StepLimit};
pub(super) use replacement::Replacement;

/// Why a pattern or a replacement is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refusal {
    /// Something in it, at this character (from 1).
    #[error("{what}, at character {position}")]
    At {
        /// Where it stands.
        position: usize,
        /// What is wrong with it.
        what: String,
    },
    /// All of it: the engine does not take the translation.
    #[error("{0}")]
    Whole(String),
}

impl Refusal {
    fn at(position: usize, what: impl Into<String>) -> Self {
        Self::At { position, what: what.into() }
    }
}

#[cfg(test)]
mod tests;
