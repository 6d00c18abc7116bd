//! The store of dead letters that was configured: the table in the source database, or a topic. Where a letter keeps a reference to its row, the row is
//! read from its table when it is to be sent; whether letters keep references today makes no difference to that.

use walpost_core::failure::chain;
use walpost_core::finding::Finding;
use walpost_core::poison::{Conclusion, DeadLetter, Inventory, LetterId, Marked, Request};
use walpost_core::port::DeadLetters;
use walpost_postgres::dead_letter::{self, Fetched, LetterStore, RowReader};
use walpost_postgres::error::Class;

#[cfg(feature = "kafka")]
use walpost_kafka::{LetterError, LetterMemory, LetterTopic};

use crate::config::settings::{self, Settings};
use crate::exit::{Ended, Exit};
use crate::journal;
use crate::sink::AnySink;

/// How much is read of rows to which there are references before what was read is handed over.
const FETCHED_BYTES: usize = 16 << 20;

/// How long who only looks waits for the transactions of others.
#[cfg(feature = "kafka")]
const HASTE: std::time::Duration = std::time::Duration::from_secs(5);

/// See the module's documentation.
#[derive(Debug)]
pub struct AnyLetters {
    store: Store,
    rows: RowReader,
}

#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a process has one or two of them")]
enum Store {
    /// The table.
    Table(LetterStore),
    /// A topic.
    #[cfg(feature = "kafka")]
    Topic(LetterTopic),
}

/// What a process knows of its letters from one connection to the next, so that a topic is read once and not at each.
#[derive(Debug)]
pub struct Memory {
    #[cfg(feature = "kafka")]
    topic: LetterMemory,
}

impl Memory {
    /// Of nothing yet.
    #[must_use]
    #[cfg_attr(not(feature = "kafka"), allow(unused_variables, reason = "only of a topic anything is remembered"))]
    pub fn new(settings: &Settings) -> Self {
        Self {
            #[cfg(feature = "kafka")]
            topic: LetterMemory::new(settings.name()),
        }
    }
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
            Self::Table(error) => error.remedy(),
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

    /// Whether it is about what lies there, and not about who keeps it.
    #[must_use]
    pub fn is_about_content(&self) -> bool {
        match self {
            Self::Table(error) => error.is_about_content(),
            #[cfg(feature = "kafka")]
            Self::Topic(error) => matches!(error, LetterError::Unreadable { .. }),
        }
    }

    /// Whether a relay that streamed goes on trying: a topic that it has read is missing or forbidden by now, or brokers let it in no more. In front of a first stream that is a
    /// fault of the configuration.
    #[must_use]
    pub fn is_retried_under_way(&self) -> bool {
        match self {
            Self::Table(_) => false,
            #[cfg(feature = "kafka")]
            Self::Topic(error) => {
                matches!(error, LetterError::Read(error) if error.is_about_access())
            }
        }
    }

    /// The error with its causes.
    #[must_use]
    pub fn sentence(&self) -> String {
        chain(self)
    }

    /// The same, with what to do about it.
    #[must_use]
    pub fn with_remedy(&self) -> String {
        journal::with_remedy(&self.sentence(), self.remedy().as_deref())
    }
}

/// The end of a command that the store of dead letters did not let go on.
impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        let exit = match &error {
            error if error.is_about_content() => Exit::CheckpointRefused,
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
        Self::with_sentence(exit, error.with_remedy())
    }
}

impl AnyLetters {
    /// Where this relay sets rows aside. Where its sink writes the letters itself, within the groups of events, this is how they are read.
    #[must_use]
    pub fn of_sink(settings: &Settings, sink: &AnySink, memory: &Memory) -> Self {
        Self { store: Store::of_sink(settings, sink, memory), rows: reader(settings) }
    }

    /// The same for whoever has no sink that writes letters.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        Self { store: Store::remembering(settings, &Memory::new(settings)), rows: reader(settings) }
    }

    /// The same for whoever only looks, and waits for the transactions of others no longer than an operator does.
    #[must_use]
    pub fn in_haste(settings: &Settings) -> Self {
        let Self { store, rows } = Self::new(settings);
        let store = match store {
            Store::Table(table) => Store::Table(table),
            #[cfg(feature = "kafka")]
            Store::Topic(topic) => Store::Topic(topic.with_patience(HASTE)),
        };
        Self { store, rows }
    }

    /// Makes the place for letters where PostgreSQL is not that place; says what it made.
    ///
    /// # Errors
    /// The brokers cannot be reached, or refuse.
    pub async fn create(&self) -> Result<Option<String>, Error> {
        match &self.store {
            Store::Table(_) => Ok(None),
            #[cfg(feature = "kafka")]
            Store::Topic(topic) => Ok(topic.create().await?.then(|| topic.place())),
        }
    }

    /// What is wrong with that place; of the table the preflight of the database tells.
    pub async fn check(&self) -> Vec<Finding> {
        match &self.store {
            Store::Table(_) => Vec::new(),
            #[cfg(feature = "kafka")]
            Store::Topic(topic) => topic.check().await,
        }
    }

    /// Looks for the rows of those that keep references. Those behind what is read at once stay marked for the next look.
    async fn fetch(&mut self, mut marked: Vec<Marked>) -> Result<Vec<Marked>, Error> {
        let mut bytes = 0;
        for place in 0..marked.len() {
            if bytes >= FETCHED_BYTES {
                marked.truncate(place);
                break;
            }
            let Some(one) = marked.get_mut(place).filter(|one| one.letter.row.reference.is_some()) else { continue };
            if one.request != Request::Drop {
                let fetched = self.rows.fetch(&one.letter).await?;
                bytes += fetched.as_ref().map_or(0, bytes::Bytes::len);
                one.fetched = Some(judge(one, fetched));
            }
        }
        Ok(marked)
    }
}

/// How many letters of another name lie open in the topic.
///
/// # Errors
/// The topic cannot be read.
#[cfg_attr(not(feature = "kafka"), allow(unused_variables, clippy::unused_async, reason = "only a topic is asked"))]
pub async fn open_of(settings: &Settings, relay: &str) -> Result<u64, Error> {
    match settings.dead_letter().store() {
        #[cfg(feature = "kafka")]
        settings::LetterStore::Kafka(kafka) => {
            let (topic, keep) = (settings.dead_letter().topic(), settings.dead_letter().keep_ended());
            Ok(LetterTopic::new(kafka.clone(), relay, topic, keep).inventory().await?.letters)
        }
        _ => Ok(0),
    }
}

/// Reads the rows to which letters keep references.
pub fn reader(settings: &Settings) -> RowReader {
    RowReader::new(settings.source().connection().clone())
}

/// A row that was changed goes out only where that was asked for.
fn judge(marked: &Marked, fetched: Fetched) -> Fetched {
    let is_same = |row: &[u8]| marked.letter.row.reference.as_ref().is_some_and(|reference| reference.is_of(row));
    match fetched {
        Ok(row) if marked.request == Request::ReplayChanged || is_same(&row) => Ok(row),
        Ok(_) => Err(changed(marked.id.0, &marked.letter)),
        gone => gone,
    }
}

/// What to say of a letter whose row was changed since.
pub fn changed(id: i64, letter: &DeadLetter) -> String {
    format!(
        "its row in {} is not what it was when it was set aside; to send it as it is now, run: walpost dlq replay --id {id} --changed",
        letter.table
    )
}

impl Store {
    fn of_sink(settings: &Settings, sink: &AnySink, memory: &Memory) -> Self {
        #[cfg(feature = "kafka")]
        if let (AnySink::Transactional(sink), settings::LetterStore::Kafka(kafka)) =
            (sink, settings.dead_letter().store())
            && let Some(topic) = sink.letter_topic(kafka, settings.dead_letter().keep_ended())
        {
            return Self::Topic(topic);
        }
        let _ = sink;
        Self::remembering(settings, memory)
    }

    #[cfg_attr(not(feature = "kafka"), allow(unused_variables, reason = "only of a topic anything is remembered"))]
    fn remembering(settings: &Settings, memory: &Memory) -> Self {
        let dead_letter = settings.dead_letter();
        match dead_letter.store() {
            settings::LetterStore::Postgres => {
                let connection = settings.source().connection().clone();
                Self::Table(LetterStore::new(connection, settings.name(), dead_letter.keep_ended()))
            }
            #[cfg(feature = "kafka")]
            settings::LetterStore::Kafka(kafka) => {
                let (kafka, topic, keep) = (kafka.clone(), dead_letter.topic(), dead_letter.keep_ended());
                Self::Topic(LetterTopic::remembering(kafka, settings.name(), topic, keep, &memory.topic))
            }
            #[cfg(not(feature = "kafka"))]
            settings::LetterStore::Kafka(never) => match *never {},
        }
    }
}

impl DeadLetters for AnyLetters {
    type Error = Error;

    async fn inventory(&mut self) -> Result<Inventory, Error> {
        match &mut self.store {
            Store::Table(table) => Ok(table.inventory().await?),
            #[cfg(feature = "kafka")]
            Store::Topic(topic) => Ok(topic.inventory().await?),
        }
    }

    async fn set_aside(&mut self, letters: &[DeadLetter]) -> Result<Vec<bool>, Error> {
        match &mut self.store {
            Store::Table(table) => Ok(table.set_aside(letters).await?),
            #[cfg(feature = "kafka")]
            Store::Topic(topic) => Ok(topic.set_aside(letters).await?),
        }
    }

    async fn marked(&mut self, limit: usize, is_overtaking: bool) -> Result<Vec<Marked>, Error> {
        let marked = match &mut self.store {
            Store::Table(table) => table.marked(limit, is_overtaking).await?,
            #[cfg(feature = "kafka")]
            Store::Topic(topic) => topic.marked(limit, is_overtaking).await?,
        };
        self.fetch(marked).await
    }

    async fn conclude(&mut self, ends: &[(LetterId, Conclusion)]) -> Result<(), Error> {
        match &mut self.store {
            Store::Table(table) => Ok(table.conclude(ends).await?),
            #[cfg(feature = "kafka")]
            Store::Topic(topic) => Ok(topic.conclude(ends).await?),
        }
    }
}
