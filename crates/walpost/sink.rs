//! The sinks, and the one of them that was configured.
//!
//! Two are embedded because they need nothing: standard output, with which anyone can look at what a relay does, and none at all, with
//! which it can be measured. A broker is a crate of its own with the same port.

mod line;
pub mod null;
pub mod stdout;

use std::time::Duration;

#[cfg(doc)]
use walpost_core::failure::Class;
use walpost_core::failure::Failure;
use walpost_core::port::{Delivery, Refusal, Sink, Ticket};
use walpost_core::record::Record;
#[cfg(feature = "kafka")]
use walpost_kafka::Producer;

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
            Self::Stdout(sink) => sink.close(timeout).await,
            Self::Null(sink) => sink.close(),
        }
    }

    /// The code that the process ends with when this sink is gone for good ([`Class::Configuration`]).
    #[must_use]
    pub fn exit(&self) -> Exit {
        match self {
            #[cfg(feature = "kafka")]
            Self::Kafka(_) => Exit::SinkRefused,
            Self::Stdout(_) => Exit::OutputClosed,
            Self::Null(_) => Exit::Unexpected,
        }
    }
}

impl Sink for AnySink {
    fn publish(&mut self, ticket: Ticket, record: &Record) -> Result<(), Refusal> {
        match self {
            #[cfg(feature = "kafka")]
            Self::Kafka(sink) => sink.publish(ticket, record),
            Self::Stdout(sink) => sink.publish(ticket, record),
            Self::Null(sink) => sink.publish(ticket, record),
        }
    }

    async fn next_deliveries(&mut self, into: &mut Vec<Delivery>) {
        match self {
            #[cfg(feature = "kafka")]
            Self::Kafka(sink) => sink.next_deliveries(into).await,
            Self::Stdout(sink) => sink.next_deliveries(into).await,
            Self::Null(sink) => sink.next_deliveries(into).await,
        }
    }

    fn verdict(&self) -> Option<Failure> {
        match self {
            #[cfg(feature = "kafka")]
            Self::Kafka(sink) => sink.verdict(),
            Self::Stdout(sink) => sink.verdict(),
            Self::Null(sink) => sink.verdict(),
        }
    }

    async fn reset(&mut self) -> Result<(), Failure> {
        match self {
            #[cfg(feature = "kafka")]
            Self::Kafka(sink) => sink.reset().await,
            Self::Stdout(sink) => sink.reset().await,
            Self::Null(sink) => sink.reset().await,
        }
    }
}
