//! Real servers without a container engine: PostgreSQL from the system's packages, Kafka and Debezium from their jars.
//!
//! The tests are about what happens when these servers stop, stall and die, so they are the real programs, each with
//! its own data, ports and log, and each can be signalled. Three rules keep a machine clean:
//!
//! 1. A server dies with the process that started it, however that ends: the kernel kills it (`PR_SET_PDEATHSIG`).
//! 2. Its data lives below one temporary folder of that process, which a janitor removes when the process is gone.
//! 3. Only what was started to stay (`kept`) outlives its starter, and [`Identity`] finds it again.
//!
//! Nothing here waits for a fixed time: every wait has a condition and a limit, and a limit that is passed comes back
//! as an [`Error`] with the end of the server's log.
//!
//! It is no supervisor: what has died stays dead until the test says otherwise.

mod account;
mod certificates;
mod daemon;
mod debezium;
mod disk;
mod error;
mod install;
mod jars;
mod kafka;
mod ports;
mod postgres;
mod process;
mod scratch;
mod shared;
mod versions;
mod wait;

pub use account::temporary_folder;
pub use certificates::{Certificates, ClientCertificate};
#[cfg(feature = "clients")]
pub use debezium::{Connectors, Task};
pub use debezium::{Debezium, DebeziumBuilder};
pub use disk::SmallDisk;
pub use error::Error;
pub use install::{Need, PROGRAMS_VARIABLE, install, kafka_tool, services_folder};
pub use kafka::{Kafka, KafkaBuilder, KafkaEndpoint};
#[cfg(feature = "clients")]
pub use kafka::{KafkaUser, Operation, Resource, Right};
pub use postgres::{Authentication, Database, Postgres, PostgresBuilder, PostgresEndpoint, Row, Stop};
#[cfg(feature = "clients")]
pub(crate) use process::tail;
pub use process::{Identity, Signal, dependent, signal_group, spawn_dependent};
pub use scratch::{Scratch, sweep};
pub use shared::{KAFKA_VARIABLE, POSTGRES_VARIABLE, shared_kafka, shared_postgres};
pub use versions::{postgres_of, postgres_versions};
pub use wait::{Patience, wait_until};

/// What every call here that can fail returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;
