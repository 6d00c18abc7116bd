//! The sinks, and the one of them that was configured.
//!
//! Two are embedded because they need nothing: standard output, with which anyone can look at what a relay does, and none at all, with
//! which it can be measured. A broker is a crate of its own behind the same port.

mod line;
pub mod null;
pub mod stdout;

use walpost_core::failure::{Class, Failure};
use walpost_core::port::{Delivery, Refusal, Sink, Ticket};
use walpost_core::record::Record;

pub use null::Null;
pub use stdout::Stdout;

use crate::config::settings::{self, Settings};

/// The sink that was configured. An enum and not a trait object, for the port's futures are not boxed.
#[derive(Debug)]
pub enum AnySink {
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
            settings::Sink::Kafka(_) => Err(Failure::new(
                Class::Configuration,
                "the sink kafka is not built yet; write type = \"stdout\" under [sink]",
            )),
        }
    }
}

impl Sink for AnySink {
    fn publish(&mut self, ticket: Ticket, record: &Record) -> Result<(), Refusal> {
        match self {
            Self::Stdout(sink) => sink.publish(ticket, record),
            Self::Null(sink) => sink.publish(ticket, record),
        }
    }

    async fn next_deliveries(&mut self, into: &mut Vec<Delivery>) {
        match self {
            Self::Stdout(sink) => sink.next_deliveries(into).await,
            Self::Null(sink) => sink.next_deliveries(into).await,
        }
    }

    async fn reset(&mut self) -> Result<(), Failure> {
        match self {
            Self::Stdout(sink) => sink.reset().await,
            Self::Null(sink) => sink.reset().await,
        }
    }
}
