//! The sinks, and the one of them that was configured.
//!
//! Two are embedded because they need nothing: standard output, with which anyone can look at what a relay does, and none at all, with
//! which it can be measured. A broker is a crate of its own with the same port.

mod line;
pub mod null;
pub mod stdout;

use std::time::Duration;

use walpost_core::failure::{Class, Failure};
use walpost_core::poison::{Conclusion, DeadLetter, LetterId};
use walpost_core::port::{Delivery, Refusal, Sink, Ticket, TransactionalSink};
use walpost_core::position::Checkpoint;
use walpost_core::record::Record;
#[cfg(feature = "kafka")]
use walpost_kafka::{Producer, Transactional};

pub use null::Null;
pub use stdout::Stdout;

use crate::config::settings::{self, Settings};
use crate::exit::Exit;

/// The sink that was configured. An enum and not a trait object, for the port's futures are not boxed.
#[derive(Debug)]
pub enum AnySink {
    /// Kafka.
    #[cfg(feature = "kafka")]
    Kafka(Producer),
    /// Kafka, in transactions that carry the checkpoint too.
    #[cfg(feature = "kafka")]
    Transactional(Box<Transactional>),
    /// Standard output.
    Stdout(Stdout),
    /// Nothing.
    Null(Null),
}

impl AnySink {
    /// Makes the sink that was configured.
    ///
    /// # Errors
    /// It cannot be made; trying again will not help.
    pub fn open(settings: &Settings) -> Result<Self, Failure> {
        #[cfg(feature = "kafka")]
        if let (settings::Sink::Kafka(kafka), settings::Store::Kafka(_)) =
            (settings.sink(), settings.checkpoint().store())
        {
            let sink = Transactional::new(kafka, settings.name(), settings.checkpoint().topic())?;
            let dead_letter = settings.dead_letter();
            let sink = match dead_letter.store() {
                settings::LetterStore::Kafka(kafka) if dead_letter.is_used() => {
                    sink.with_letters(kafka, dead_letter.topic())
                }
                _ => sink,
            };
            return Ok(Self::Transactional(Box::new(sink)));
        }
        Self::open_without_transactions(settings)
    }

    /// The same for whoever publishes and keeps no checkpoint.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_without_transactions(settings: &Settings) -> Result<Self, Failure> {
        match settings.sink() {
            settings::Sink::Stdout => Stdout::of_this_process(settings.limits()).map(Self::Stdout),
            settings::Sink::Null => Ok(Self::Null(Null::default())),
            #[cfg(feature = "kafka")]
            settings::Sink::Kafka(kafka) => Producer::new(kafka.clone()).map(Self::Kafka),
            #[cfg(not(feature = "kafka"))]
            settings::Sink::Kafka(never) => match *never {},
        }
    }

    /// Delivers what it still has, for at most `timeout`, and ends. Answers what was not fetched before.
    pub async fn close(self, timeout: Duration) -> Vec<Delivery> {
        match self {
            #[cfg(feature = "kafka")]
            Self::Kafka(sink) => sink.close(timeout).await,
            #[cfg(feature = "kafka")]
            Self::Transactional(sink) => sink.close(timeout).await,
            Self::Stdout(sink) => sink.close(timeout).await,
            Self::Null(sink) => sink.close(),
        }
    }

    /// The code that the process ends with when this sink is gone for good ([`Class::Configuration`]).
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            #[cfg(feature = "kafka")]
            Self::Kafka(_) | Self::Transactional(_) => Exit::SinkRefused,
            Self::Stdout(_) => Exit::OutputClosed,
            Self::Null(_) => Exit::Unexpected,
        }
    }
}

/// What only a sink of transactions does. Of the others nobody asks it.
impl AnySink {
    /// Whether it keeps the checkpoint together with the records.
    #[must_use]
    pub fn is_transactional(&self) -> bool {
        match self {
            #[cfg(feature = "kafka")]
            Self::Transactional(_) => true,
            _ => false,
        }
    }

    /// Fences whoever wrote before us. For whoever holds the slot, and nobody else.
    ///
    /// # Errors
    /// The broker cannot be reached, or refuses.
    pub async fn open_transactions(&mut self) -> Result<(), Failure> {
        match self {
            #[cfg(feature = "kafka")]
            Self::Transactional(sink) => sink.open().await,
            _ => Ok(()),
        }
    }

    /// Whether brokers refused us for somebody who came after us.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        match self {
            #[cfg(feature = "kafka")]
            Self::Transactional(sink) => sink.is_fenced(),
            _ => false,
        }
    }

    /// Writes the first checkpoint of a session, under the next epoch; answers how it was written.
    ///
    /// # Errors
    /// As [`TransactionalSink::commit`].
    pub async fn claim(&mut self, stored: Option<&Checkpoint>, offered: &Checkpoint) -> Result<Checkpoint, Failure> {
        match self {
            #[cfg(feature = "kafka")]
            Self::Transactional(sink) => {
                let claimed = offered.claimed(stored);
                sink.commit(&claimed).await.map(|()| claimed)
            }
            _ => Err(no_transactions(stored.unwrap_or(offered))),
        }
    }
}

impl TransactionalSink for AnySink {
    async fn commit(&mut self, checkpoint: &Checkpoint) -> Result<(), Failure> {
        match self {
            #[cfg(feature = "kafka")]
            Self::Transactional(sink) => sink.commit(checkpoint).await,
            _ => Err(no_transactions(checkpoint)),
        }
    }

    #[cfg_attr(not(feature = "kafka"), allow(unused_variables, reason = "only a sink of Kafka keeps letters"))]
    fn set_aside(&mut self, letter: &DeadLetter) -> Result<bool, Refusal> {
        match self {
            #[cfg(feature = "kafka")]
            Self::Transactional(sink) => sink.set_aside(letter),
            _ => Err(no_letters().into()),
        }
    }

    #[cfg_attr(not(feature = "kafka"), allow(unused_variables, reason = "only a sink of Kafka keeps letters"))]
    fn conclude(&mut self, letter: LetterId, conclusion: &Conclusion) -> Result<(), Refusal> {
        match self {
            #[cfg(feature = "kafka")]
            Self::Transactional(sink) => sink.conclude(letter, conclusion),
            _ => Err(no_letters().into()),
        }
    }
}

fn no_letters() -> Failure {
    Failure::new(Class::Configuration, "the sink keeps no dead letters; choose another dead_letter.store")
}

fn no_transactions(checkpoint: &Checkpoint) -> Failure {
    let reason =
        format!("the sink of relay {:?} keeps no checkpoint; choose another checkpoint.store", checkpoint.relay);
    Failure::new(Class::Configuration, reason)
}

impl Sink for AnySink {
    fn publish(&mut self, ticket: Ticket, record: &Record) -> Result<(), Refusal> {
        match self {
            #[cfg(feature = "kafka")]
            Self::Kafka(sink) => sink.publish(ticket, record),
            #[cfg(feature = "kafka")]
            Self::Transactional(sink) => sink.publish(ticket, record),
            Self::Stdout(sink) => sink.publish(ticket, record),
            Self::Null(sink) => sink.publish(ticket, record),
        }
    }

    async fn next_deliveries(&mut self, into: &mut Vec<Delivery>) {
        match self {
            #[cfg(feature = "kafka")]
            Self::Kafka(sink) => sink.next_deliveries(into).await,
            #[cfg(feature = "kafka")]
            Self::Transactional(sink) => sink.next_deliveries(into).await,
            Self::Stdout(sink) => sink.next_deliveries(into).await,
            Self::Null(sink) => sink.next_deliveries(into).await,
        }
    }

    fn verdict(&self) -> Option<Failure> {
        match self {
            #[cfg(feature = "kafka")]
            Self::Kafka(sink) => sink.verdict(),
            #[cfg(feature = "kafka")]
            Self::Transactional(sink) => sink.verdict(),
            Self::Stdout(sink) => sink.verdict(),
            Self::Null(sink) => sink.verdict(),
        }
    }

    fn away(&self) -> Option<&str> {
        match self {
            #[cfg(feature = "kafka")]
            Self::Kafka(sink) => sink.away(),
            #[cfg(feature = "kafka")]
            Self::Transactional(sink) => sink.away(),
            Self::Stdout(sink) => sink.away(),
            Self::Null(sink) => sink.away(),
        }
    }

    async fn reset(&mut self) -> Result<(), Failure> {
        match self {
            #[cfg(feature = "kafka")]
            Self::Kafka(sink) => sink.reset().await,
            #[cfg(feature = "kafka")]
            Self::Transactional(sink) => sink.reset().await,
            Self::Stdout(sink) => sink.reset().await,
            Self::Null(sink) => sink.reset().await,
        }
    }
}
