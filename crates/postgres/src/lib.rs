//! The source edge of walpost: everything that is said to PostgreSQL.
//!
//! An ordinary session ([`sql`]) reads what start and preflight need ([`inspect`]) and what the slot costs ([`mod@usage`]), creates what
//! is missing when it is told to ([`setup`]), keeps the checkpoint ([`checkpoint`]) and the rows that were set aside
//! ([`dead_letter`]), looks for what a lost log leaves behind in the tables ([`repair`], [`snapshot`]), and tells of a table what the log does not ([`mod@describe`]). A
//! replication session ([`stream`]) brings the log. Both are described by one [`connection::ConnectionSettings`] and classify
//! what the server says by one table ([`error`]).
//!
//! Nothing here decides what to publish, and nothing here reconnects a stream: core decides, the driver does.

pub mod checkpoint;
pub mod connection;
pub mod dead_letter;
pub mod describe;
pub mod error;
pub mod failover;
pub mod former;
pub mod identifier;
pub mod inspect;
pub mod preflight;
pub mod repair;
pub mod replication;
mod server_time;
pub mod setup;
pub mod snapshot;
pub mod sql;
pub mod stream;
mod tls;
pub mod usage;

pub use connection::{ConnectionSettings, Endpoint};
pub use error::{Class, Error};
pub use identifier::SlotName;
