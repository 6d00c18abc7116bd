//! Rows that no relay can deliver, or not yet: one for each way in which a relay knows a row to be bad that a table of writers can express.
//!
//! They are rows like others: written in the midst of transactions, rolled back with them, of keys that others write too. Only a column
//! `misfit`, which no record carries, says what they are, for whoever counts them afterwards.

use std::fmt;

use super::random::Random;

/// What is wrong with a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misfit {
    /// Its payload is larger than its topic takes, until somebody raises `max.message.bytes`.
    TooLargeForTopic,
    /// Its payload is larger than a producer takes, whatever the topic says.
    TooLargeForProducer,
    /// No topic can be called what it asks for.
    IllegalTopic,
    /// It asks for no topic.
    NoTopic,
    /// It asks for a partition that its topic does not have.
    NoSuchPartition,
    /// It asks for a partition that no topic has.
    NegativePartition,
    /// Its time lies before 1970.
    BeforeTime,
    /// Its amount is no number, for which the header that carries it has no form; and its column may not be NULL, which would stand in for it.
    NotANumber,
    /// Its time lies before 1970, and it has no key, so that nothing waits behind it.
    Keyless,
}

impl Misfit {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::TooLargeForTopic,
        Self::TooLargeForProducer,
        Self::IllegalTopic,
        Self::NoTopic,
        Self::NoSuchPartition,
        Self::NegativePartition,
        Self::BeforeTime,
        Self::NotANumber,
        Self::Keyless,
    ];

    /// What the column `misfit` says of it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::TooLargeForTopic => "too large for its topic",
            Self::TooLargeForProducer => "too large for any producer",
            Self::IllegalTopic => "an illegal topic",
            Self::NoTopic => "no topic",
            Self::NoSuchPartition => "no such partition",
            Self::NegativePartition => "a negative partition",
            Self::BeforeTime => "a time before 1970",
            Self::NotANumber => "not a number",
            Self::Keyless => "a time before 1970 and no key",
        }
    }

    /// Any of them; every third one can be mended.
    pub(super) fn random(random: &mut Random) -> Self {
        let others = Self::ALL.get(1..).unwrap_or_default();
        let index = usize::try_from(random.below(12)).unwrap_or(0);
        others.get(index).copied().unwrap_or(Self::TooLargeForTopic)
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_drawn_and_the_one_that_can_be_mended_most_often() {
        let mut random = Random::of_writer(1, 1);
        let drawn: Vec<Misfit> = (0..600).map(|_| Misfit::random(&mut random)).collect();
        let count = |kind| drawn.iter().filter(|drawn| **drawn == kind).count();
        assert!(Misfit::ALL.iter().all(|kind| count(*kind) > 20), "{drawn:?}");
        assert!(count(Misfit::TooLargeForTopic) > 150);
    }
}
