//! The letters as an operator sees them, wherever they are kept.

use walpost_core::poison::DeadLetter;
use walpost_core::poison::operator::{Affected, Filter, Listed, Mark, Selection, Unreadable};
use walpost_postgres::dead_letter::operator::Letters as Table;

#[cfg(feature = "kafka")]
use walpost_kafka::Letters as Topic;

use crate::config::settings::{LetterStore, Settings};
use crate::letters::Error;

/// See the module's documentation.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a process has one of them")]
pub(in crate::commands) enum Desk {
    /// In the table.
    Table(Table),
    /// In a topic.
    #[cfg(feature = "kafka")]
    Topic(Topic),
}

impl Desk {
    /// Looks where the configuration says.
    pub(in crate::commands) async fn open(settings: &Settings) -> Result<Self, Error> {
        match settings.dead_letter().store() {
            LetterStore::Postgres => {
                let letters = Table::connect(settings.source().connection(), settings.name()).await;
                Ok(Self::Table(letters?))
            }
            #[cfg(feature = "kafka")]
            LetterStore::Kafka(kafka) => {
                let letters = Topic::open(kafka, settings.name(), settings.dead_letter().topic()).await?;
                Ok(Self::Topic(letters))
            }
            #[cfg(not(feature = "kafka"))]
            LetterStore::Kafka(never) => match *never {},
        }
    }

    /// What lies there and is not shown: nobody can understand it, or it is hidden.
    pub(super) fn left_out(&self) -> Vec<String> {
        match self {
            Self::Table(_) => Vec::new(),
            #[cfg(feature = "kafka")]
            Self::Topic(letters) => letters.left_out(),
        }
    }

    /// The letters that cannot be read.
    pub(in crate::commands) fn unreadable(&self) -> Vec<Unreadable> {
        match self {
            Self::Table(_) => Vec::new(),
            #[cfg(feature = "kafka")]
            Self::Topic(letters) => letters.unreadable(),
        }
    }

    /// Deletes those of these numbers; answers how many.
    #[cfg_attr(not(feature = "kafka"), allow(unused_variables, reason = "only in a topic any cannot be read"))]
    pub(super) async fn give_up(&mut self, ids: &[i64]) -> Result<usize, Error> {
        match self {
            Self::Table(_) => Ok(0),
            #[cfg(feature = "kafka")]
            Self::Topic(letters) => Ok(letters.give_up(ids).await?),
        }
    }

    /// The letters that fit, in order, from behind this number on.
    pub(in crate::commands) async fn list(&self, filter: &Filter, behind: i64) -> Result<Vec<Listed>, Error> {
        match self {
            Self::Table(letters) => Ok(letters.list(filter, behind).await?),
            #[cfg(feature = "kafka")]
            Self::Topic(letters) => Ok(letters.list(filter, behind)),
        }
    }

    /// How many letters fit, with those beyond the limit.
    pub(in crate::commands) async fn count(&self, filter: &Filter) -> Result<i64, Error> {
        match self {
            Self::Table(letters) => Ok(letters.count(filter).await?),
            #[cfg(feature = "kafka")]
            Self::Topic(letters) => Ok(letters.count(filter)),
        }
    }

    pub(in crate::commands) async fn show(&mut self, id: i64) -> Result<Option<(Listed, DeadLetter)>, Error> {
        match self {
            Self::Table(letters) => Ok(letters.show(id).await?),
            #[cfg(feature = "kafka")]
            Self::Topic(letters) => Ok(letters.show(id).await?),
        }
    }

    pub(super) async fn preview(&self, selection: &Selection) -> Result<Vec<Affected>, Error> {
        match self {
            Self::Table(letters) => Ok(letters.preview(selection).await?),
            #[cfg(feature = "kafka")]
            Self::Topic(letters) => Ok(letters.preview(selection)),
        }
    }

    pub(super) async fn mark(&mut self, selection: &Selection, mark: Mark, by: &str) -> Result<i64, Error> {
        match self {
            Self::Table(letters) => Ok(letters.mark(selection, mark, by).await?),
            #[cfg(feature = "kafka")]
            Self::Topic(letters) => Ok(letters.mark(selection, mark, by).await?),
        }
    }
}
