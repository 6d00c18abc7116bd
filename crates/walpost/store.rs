//! The checkpoint store that was configured: one of those that need no broker, or the topic in which the sink keeps it.

use std::time::Duration;

#[cfg(feature = "kafka")]
use walpost_core::failure::Class as FailureClass;
use walpost_core::failure::chain;
use walpost_core::port::Checkpoints;
use walpost_core::position::{Checkpoint, Epoch};
use walpost_core::start::{ServerState, SlotState, Wanted};
use walpost_postgres::checkpoint::{self, Store, at_slot};
use walpost_postgres::error::Class;

#[cfg(feature = "kafka")]
use walpost_kafka::{CheckpointError, CheckpointTopic, ReadError};

use crate::exit::Exit;
use crate::journal;

/// How long it is waited for what others hide, where something is done by what is read then. A stream that nobody reads meanwhile has to outlive it.
pub const SETTLE_LIMIT: Duration = Duration::from_secs(20);

/// The same where it is only looked at.
const LOOK_LIMIT: Duration = Duration::from_secs(8);

/// See the module's documentation.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "a process has one or two of them")]
pub enum AnyStore {
    /// A row, a file, or the slot.
    Own(Store),
    /// A topic. The relay's sink writes it, and this one only where there is no sink.
    #[cfg(feature = "kafka")]
    Kafka(CheckpointTopic),
}

/// Why a checkpoint could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// As the store says.
    #[error(transparent)]
    Own(#[from] checkpoint::Error),
    /// As the topic says.
    #[cfg(feature = "kafka")]
    #[error(transparent)]
    Kafka(#[from] CheckpointError),
}

impl Error {
    /// What an operator has to do; nothing where trying again can help.
    #[must_use]
    pub fn remedy(&self) -> Option<String> {
        match self {
            Self::Own(error) => error.remedy().map(str::to_owned),
            #[cfg(feature = "kafka")]
            Self::Kafka(error) => error.remedy(),
        }
    }

    /// Whether trying again can help.
    #[must_use]
    pub fn is_retried(&self) -> bool {
        match self {
            Self::Own(error) => error.class().is_retried(),
            #[cfg(feature = "kafka")]
            Self::Kafka(error) => error.remedy().is_none(),
        }
    }

    /// What follows from it where PostgreSQL or a file said it.
    #[must_use]
    pub fn class(&self) -> Option<Class> {
        match self {
            Self::Own(error) => Some(error.class()),
            #[cfg(feature = "kafka")]
            Self::Kafka(_) => None,
        }
    }

    /// Whether a relay that streams goes on trying. Nobody sees from here whether a folder that is gone, or a disk that is read-only, comes back; but
    /// the relay has written there, and publishes meanwhile. A topic that is missing or forbidden by now is waited for as any other is; whether it holds
    /// the checkpoint still when it is back is seen then.
    #[must_use]
    pub fn is_retried_under_way(&self) -> bool {
        match self {
            Self::Own(checkpoint::Error::File { .. }) => true,
            #[cfg(feature = "kafka")]
            Self::Kafka(CheckpointError::Read(error)) if error.is_about_access() => true,
            _ => self.is_retried(),
        }
    }

    /// The code that the process ends with because of it: whose refusal it is.
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            Self::Own(checkpoint::Error::Postgres { source }) => Exit::of_source(source.class()),
            Self::Own(checkpoint::Error::NoPosition { .. }) => Exit::SourceRefused,
            Self::Own(checkpoint::Error::SlotKeepsNothing) => Exit::Configuration,
            Self::Own(checkpoint::Error::NotClaimed | checkpoint::Error::GivenUp) => Exit::Unexpected,
            Self::Own(_) => Exit::CheckpointRefused,
            #[cfg(feature = "kafka")]
            Self::Kafka(CheckpointError::Write(failure)) if failure.class == FailureClass::Sink => Exit::Unreachable,
            #[cfg(feature = "kafka")]
            Self::Kafka(CheckpointError::Read(error)) if error.is_retried() => Exit::Unreachable,
            #[cfg(feature = "kafka")]
            Self::Kafka(CheckpointError::Write(_)) => Exit::SinkRefused,
            #[cfg(feature = "kafka")]
            Self::Kafka(CheckpointError::Read(ReadError::TooLarge { .. })) => Exit::CheckpointRefused,
            #[cfg(feature = "kafka")]
            Self::Kafka(CheckpointError::Read(_)) => Exit::SinkRefused,
            #[cfg(feature = "kafka")]
            Self::Kafka(CheckpointError::NotClaimed) => Exit::Unexpected,
            #[cfg(feature = "kafka")]
            Self::Kafka(_) => Exit::CheckpointRefused,
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

impl AnyStore {
    /// Whether others can hide what it keeps: transactions in a topic that relays share.
    #[must_use]
    pub fn can_be_hidden(&self) -> bool {
        match self {
            Self::Own(_) => false,
            #[cfg(feature = "kafka")]
            Self::Kafka(_) => true,
        }
    }

    /// Waits until nothing is hidden that was written by now.
    ///
    /// # Errors
    /// The store cannot be read, or it is still hidden after `limit`.
    #[cfg_attr(not(feature = "kafka"), allow(unused_variables, reason = "only in a topic anything is hidden"))]
    pub async fn settle(&self, limit: Duration) -> Result<(), Error> {
        match self {
            Self::Own(_) => Ok(()),
            #[cfg(feature = "kafka")]
            Self::Kafka(topic) => Ok(topic.settle(limit).await.map(drop)?),
        }
    }

    /// What it holds, for a command that looks at it; and where something is hidden for longer than an operator waits, why an older checkpoint may be
    /// seen than the last one.
    ///
    /// # Errors
    /// The store cannot be read.
    pub async fn look(&mut self) -> Result<(Option<Checkpoint>, Option<String>), Error> {
        let doubt = match self.settle(LOOK_LIMIT).await {
            Ok(()) => None,
            #[cfg(feature = "kafka")]
            Err(error @ Error::Kafka(CheckpointError::Read(ReadError::Hidden { .. }))) => {
                Some(format!("there may be a newer checkpoint than the one that can be seen: {}", error.sentence()))
            }
            Err(error) => return Err(error),
        };
        Ok((self.load().await?, doubt))
    }

    /// Where it keeps the checkpoint, for people.
    #[must_use]
    pub fn place(&self) -> String {
        match self {
            Self::Own(store) => store.place(),
            #[cfg(feature = "kafka")]
            Self::Kafka(topic) => topic.place(),
        }
    }

    /// Whether it keeps anything of its own.
    #[must_use]
    pub fn keeps_a_checkpoint(&self) -> bool {
        match self {
            Self::Own(store) => store.keeps_a_checkpoint(),
            #[cfg(feature = "kafka")]
            Self::Kafka(_) => true,
        }
    }

    /// Makes the place for checkpoints where PostgreSQL is not that place; says what it made.
    ///
    /// # Errors
    /// The brokers cannot be reached, or refuse.
    pub async fn create(&self) -> Result<Option<String>, Error> {
        match self {
            Self::Own(_) => Ok(None),
            #[cfg(feature = "kafka")]
            Self::Kafka(topic) => Ok(topic.create().await?.then(|| topic.place())),
        }
    }

    /// As [`Store::replace`].
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn replace(&mut self, checkpoint: &Checkpoint) -> Result<Epoch, Error> {
        match self {
            Self::Own(store) => Ok(store.replace(checkpoint).await?),
            #[cfg(feature = "kafka")]
            Self::Kafka(topic) => Ok(topic.replace(checkpoint).await?),
        }
    }

    /// As [`Store::forget`].
    ///
    /// # Errors
    /// The store cannot be written.
    pub async fn forget(&mut self) -> Result<bool, Error> {
        match self {
            Self::Own(store) => Ok(store.forget().await?),
            #[cfg(feature = "kafka")]
            Self::Kafka(topic) => Ok(topic.forget().await?),
        }
    }

    /// Makes the slot's confirmed position the checkpoint, whatever was there, and the topic for it where that is gone.
    ///
    /// # Errors
    /// The slot has no position, or the store cannot be written.
    pub async fn adopt_slot(
        &mut self,
        server: &ServerState,
        slot: &SlotState,
        wanted: &Wanted,
    ) -> Result<Checkpoint, Error> {
        let checkpoint = at_slot(server, slot, wanted)?;
        self.create().await?;
        let epoch = self.replace(&checkpoint).await?;
        Ok(Checkpoint { epoch, ..checkpoint })
    }

    /// Copies the checkpoint into another store.
    ///
    /// # Errors
    /// The one is empty or cannot be read, or the other cannot be written.
    pub async fn copy_to(&mut self, to: &mut Self) -> Result<Checkpoint, Error> {
        self.settle(SETTLE_LIMIT).await?;
        let checkpoint = self.load().await?.ok_or(checkpoint::Error::Empty)?;
        let epoch = to.replace(&checkpoint).await?;
        Ok(Checkpoint { epoch, ..checkpoint })
    }
}

impl Checkpoints for AnyStore {
    type Error = Error;

    async fn load(&mut self) -> Result<Option<Checkpoint>, Error> {
        match self {
            Self::Own(store) => Ok(store.load().await?),
            #[cfg(feature = "kafka")]
            Self::Kafka(topic) => Ok(topic.load().await?),
        }
    }

    async fn claim(&mut self, checkpoint: &Checkpoint) -> Result<Epoch, Error> {
        match self {
            Self::Own(store) => Ok(store.claim(checkpoint).await?),
            #[cfg(feature = "kafka")]
            Self::Kafka(topic) => Ok(topic.claim(checkpoint).await?),
        }
    }

    async fn save(&mut self, checkpoint: &Checkpoint) -> Result<(), Error> {
        match self {
            Self::Own(store) => Ok(store.save(checkpoint).await?),
            #[cfg(feature = "kafka")]
            Self::Kafka(topic) => Ok(topic.save(checkpoint).await?),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;

    #[cfg(feature = "kafka")]
    use walpost_core::failure::Failure;
    use walpost_core::lsn::Lsn;
    use walpost_core::position::{SystemIdentifier, Timeline};
    use walpost_core::start::SlotKind;
    use walpost_postgres::checkpoint::FileStore;
    use walpost_testkit::servers::Scratch;

    use super::*;

    fn file(kind: ErrorKind) -> Error {
        checkpoint::Error::File { path: "c".into(), action: "written", source: kind.into() }.into()
    }

    #[tokio::test]
    async fn an_operator_may_adopt_the_slot_copy_and_forget() {
        let folder = Scratch::new("store").unwrap();
        let at = |name: &str| AnyStore::Own(Store::file(FileStore::new(folder.path().join(name))));
        let (mut store, mut other) = (at("a"), at("b"));
        let server = ServerState {
            system: SystemIdentifier(7),
            timeline: Timeline(2),
            history: None,
            flushed: Lsn::new(100),
            in_recovery: false,
            database: "app".to_owned(),
        };
        let mut slot = SlotState {
            name: "walpost".to_owned(),
            kind: SlotKind::Logical,
            temporary: false,
            plugin: Some("pgoutput".to_owned()),
            database: Some("app".to_owned()),
            active_pid: None,
            restart: None,
            confirmed: Some(Lsn::new(5)),
            lost: None,
        };
        let wanted = Wanted {
            relay: "relay".to_owned(),
            database: "app".to_owned(),
            slot: "walpost".to_owned(),
            plugin: "pgoutput".to_owned(),
            is_exactly_once: false,
        };
        let adoptable = at_slot(&server, &slot, &wanted).unwrap();
        let older = Checkpoint { timeline: Timeline(3), position: Lsn::new(10), ..adoptable };
        store.replace(&older).await.unwrap();
        let adopted = store.adopt_slot(&server, &slot, &wanted).await.unwrap();
        assert_eq!((adopted.position, adopted.epoch, adopted.timeline), (Lsn::new(5), Epoch(2), Timeline(2)));
        assert_eq!(store.load().await.unwrap(), Some(adopted.clone()));
        store.copy_to(&mut other).await.unwrap();
        assert_eq!(other.load().await.unwrap().unwrap().position, adopted.position);
        assert!(store.forget().await.unwrap());
        assert!(!store.forget().await.unwrap());
        assert!(matches!(store.copy_to(&mut other).await, Err(Error::Own(checkpoint::Error::Empty))));
        slot.confirmed = None;
        assert!(matches!(
            store.adopt_slot(&server, &slot, &wanted).await,
            Err(Error::Own(checkpoint::Error::NoPosition { .. }))
        ));
        std::fs::write(folder.path().join("a"), "damaged").unwrap();
        slot.confirmed = Some(Lsn::new(6));
        store.adopt_slot(&server, &slot, &wanted).await.unwrap();
    }

    #[test]
    fn the_code_says_whose_refusal_it_is() {
        let away = checkpoint::Error::Postgres { source: walpost_postgres::Error::Ended };
        let value = checkpoint::Error::Value { field: "epoch", value: "-1".to_owned() };
        let cases: Vec<(Error, Exit)> = vec![
            (away.into(), Exit::Unreachable),
            (
                checkpoint::Error::NoPosition { slot: "s".to_owned(), reason: "r".to_owned() }.into(),
                Exit::SourceRefused,
            ),
            (checkpoint::Error::SlotKeepsNothing.into(), Exit::Configuration),
            (checkpoint::Error::NotClaimed.into(), Exit::Unexpected),
            (checkpoint::Error::Locked { path: "c".into() }.into(), Exit::CheckpointRefused),
            (checkpoint::Error::Fenced { ours: 1, theirs: 2 }.into(), Exit::CheckpointRefused),
            (checkpoint::Error::Gone { relay: "r".to_owned() }.into(), Exit::CheckpointRefused),
            (checkpoint::Error::Empty.into(), Exit::CheckpointRefused),
            (value.into(), Exit::CheckpointRefused),
            (file(ErrorKind::PermissionDenied), Exit::CheckpointRefused),
        ];
        for (error, exit) in cases {
            assert_eq!(error.exit(), exit, "{error}");
        }
    }

    #[cfg(feature = "kafka")]
    #[test]
    fn what_the_broker_refuses_is_told_from_what_it_holds() {
        let topic = || "c".to_owned();
        let damaged =
            CheckpointError::Damaged { relay: "r".to_owned(), topic: topic(), reason: "it is empty".to_owned() };
        for (error, exit) in [
            (
                CheckpointError::Read(ReadError::Unreachable { servers: "h:1".to_owned(), reason: "r".to_owned() }),
                Exit::Unreachable,
            ),
            (CheckpointError::Write(Failure::new(FailureClass::Sink, "away")), Exit::Unreachable),
            (CheckpointError::Write(Failure::new(FailureClass::Configuration, "no right")), Exit::SinkRefused),
            (CheckpointError::Read(ReadError::Missing { topic: topic() }), Exit::SinkRefused),
            (CheckpointError::Read(ReadError::Forbidden { topic: topic() }), Exit::SinkRefused),
            (
                CheckpointError::Read(ReadError::Locked { servers: "h:1".to_owned(), reason: "r".to_owned() }),
                Exit::SinkRefused,
            ),
            (CheckpointError::NewerFormat { found: 9 }, Exit::CheckpointRefused),
            (damaged, Exit::CheckpointRefused),
        ] {
            let error = Error::from(error);
            assert_eq!(error.exit(), exit, "{error}");
        }
    }

    #[test]
    fn a_relay_under_way_goes_on_trying_where_a_start_is_refused() {
        for (error, at_start, under_way) in [
            (file(ErrorKind::StorageFull), true, true),
            (file(ErrorKind::ReadOnlyFilesystem), false, true),
            (file(ErrorKind::NotFound), false, true),
            (checkpoint::Error::Fenced { ours: 1, theirs: 2 }.into(), false, false),
            (checkpoint::Error::NewerFormat { found: 9 }.into(), false, false),
        ] {
            assert_eq!((error.is_retried(), error.is_retried_under_way()), (at_start, under_way), "{error}");
        }
    }

    #[cfg(feature = "kafka")]
    #[test]
    fn a_topic_that_is_missing_or_forbidden_is_waited_for_under_way_and_what_it_holds_is_not() {
        let topic = || "c".to_owned();
        for (error, at_start, under_way) in [
            (CheckpointError::Read(ReadError::Missing { topic: topic() }), false, true),
            (CheckpointError::Read(ReadError::Forbidden { topic: topic() }), false, true),
            (
                CheckpointError::Read(ReadError::Locked { servers: "h:1".to_owned(), reason: "r".to_owned() }),
                false,
                true,
            ),
            (CheckpointError::Read(ReadError::Deadline { topic: topic() }), true, true),
            (CheckpointError::Read(ReadError::TooLarge { topic: topic() }), false, false),
            (CheckpointError::Write(Failure::new(FailureClass::Configuration, "no right")), false, false),
            (CheckpointError::NewerFormat { found: 9 }, false, false),
        ] {
            let error = Error::from(error);
            assert_eq!((error.is_retried(), error.is_retried_under_way()), (at_start, under_way), "{error}");
        }
    }
}
