//! The store of dead letters that was configured: the table in the source database, or a topic.

use walpost_core::failure::chain;
use walpost_core::finding::Finding;
use walpost_core::poison::{Conclusion, DeadLetter, Inventory, LetterId, Marked};
use walpost_core::port::DeadLetters;
use walpost_postgres::dead_letter::{self, LetterStore};
use walpost_postgres::error::Class;

#[cfg(feature = "kafka")]
use walpost_kafka::{LetterError, LetterTopic};

use crate::config::settings::{self, Settings};
use crate::exit::{Ended, Exit};
use crate::journal;
use crate::sink::AnySink;

/// See the module's documentation.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a process has one or two of them")]
pub enum AnyLetters {
    /// The table.
    Table(LetterStore),
    /// A topic.
    #[cfg(feature = "kafka")]
    Topic(LetterTopic),
}

/// Why dead letters could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// As the table says.
    #[error(transparent)]
    Table(#[from] dead_letter::Error),
    /// As the topic says.
    #[cfg(feature = "kafka")]
    #[error(transparent)]
    Topic(#[from] LetterError),
}

impl Error {
    /// What an operator has to do; nothing where trying again can help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Table(error) => error.remedy().map(str::to_owned),
            #[cfg(feature = "kafka")]
            Self::Topic(error) => error.remedy(),
        }
    }

    /// What follows from it where PostgreSQL said it.
    #[must_use]
    pub fn class(&self) -> Option<Class> {
        match self {
            Self::Table(error) => Some(error.class()),
            #[cfg(feature = "kafka")]
            Self::Topic(_) => None,
        }
    }

    /// The error with its causes.
    #[must_use]
    pub fn sentence(&self) -> String {
        chain(self)
    }
}

/// The end of a command that the store of dead letters did not let go on.
impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        let exit = match &error {
            Error::Table(error) => Exit::of_source(error.class()),
            #[cfg(feature = "kafka")]
            Error::Topic(LetterError::Read(error)) if error.is_retried() => Exit::Unreachable,
            #[cfg(feature = "kafka")]
            Error::Topic(LetterError::Write(failure)) if failure.class == walpost_core::failure::Class::Sink => {
                Exit::Unreachable
            }
            #[cfg(feature = "kafka")]
            Error::Topic(_) => Exit::SinkRefused,
        };
        Self::with_sentence(exit, journal::with_remedy(&error.sentence(), error.remedy().as_deref()))
    }
}

impl AnyLetters {
    /// Where this relay sets rows aside. Where its sink writes the letters itself, within the groups of events, this is how they are read.
    #[must_use]
    pub fn of_sink(settings: &Settings, sink: &AnySink) -> Self {
        #[cfg(feature = "kafka")]
        if let (AnySink::Transactional(sink), settings::LetterStore::Kafka(kafka)) =
            (sink, settings.dead_letter().store())
            && let Some(topic) = sink.letter_topic(kafka, settings.dead_letter().keep_ended())
        {
            return Self::Topic(topic);
        }
        let _ = sink;
        Self::new(settings)
    }

    /// The same for whoever has no sink that writes letters.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let dead_letter = settings.dead_letter();
        match dead_letter.store() {
            settings::LetterStore::Postgres => {
                let connection = settings.source().connection().clone();
                Self::Table(LetterStore::new(connection, settings.name(), dead_letter.keep_ended()))
            }
            #[cfg(feature = "kafka")]
            settings::LetterStore::Kafka(kafka) => {
                let (kafka, topic, keep) = (kafka.clone(), dead_letter.topic(), dead_letter.keep_ended());
                Self::Topic(LetterTopic::new(kafka, settings.name(), topic, keep))
            }
            #[cfg(not(feature = "kafka"))]
            settings::LetterStore::Kafka(never) => match *never {},
        }
    }

    /// Makes the place for letters where PostgreSQL is not that place; says what it made.
    ///
    /// # Errors
    /// The brokers cannot be reached, or refuse.
    pub async fn create(&self) -> Result<Option<String>, Error> {
        match self {
            Self::Table(_) => Ok(None),
            #[cfg(feature = "kafka")]
            Self::Topic(topic) => Ok(topic.create().await?.then(|| topic.place())),
        }
    }

    /// What is wrong with that place; of the table the preflight of the database tells.
    pub async fn check(&self) -> Vec<Finding> {
        match self {
            Self::Table(_) => Vec::new(),
            #[cfg(feature = "kafka")]
            Self::Topic(topic) => topic.check().await,
        }
    }
}

impl DeadLetters for AnyLetters {
    type Error = Error;

    async fn inventory(&mut self) -> Result<Inventory, Error> {
        match self {
            Self::Table(table) => Ok(table.inventory().await?),
            #[cfg(feature = "kafka")]
            Self::Topic(topic) => Ok(topic.inventory().await?),
        }
    }

    async fn set_aside(&mut self, letters: &[DeadLetter]) -> Result<Vec<bool>, Error> {
        match self {
            Self::Table(table) => Ok(table.set_aside(letters).await?),
            #[cfg(feature = "kafka")]
            Self::Topic(topic) => Ok(topic.set_aside(letters).await?),
        }
    }

    async fn marked(&mut self, limit: usize, is_overtaking: bool) -> Result<Vec<Marked>, Error> {
        match self {
            Self::Table(table) => Ok(table.marked(limit, is_overtaking).await?),
            #[cfg(feature = "kafka")]
            Self::Topic(topic) => Ok(topic.marked(limit, is_overtaking).await?),
        }
    }

    async fn conclude(&mut self, ends: &[(LetterId, Conclusion)]) -> Result<(), Error> {
        match self {
            Self::Table(table) => Ok(table.conclude(ends).await?),
            #[cfg(feature = "kafka")]
            Self::Topic(topic) => Ok(topic.conclude(ends).await?),
        }
    }
}
