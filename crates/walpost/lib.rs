//! walpost, the program: the command line, the configuration, the log, the sinks that need no broker, and the driver that does what
//! the core decides.
//!
//! What must be true is decided in `walpost-core`, what is said to PostgreSQL and Kafka in the crates of their names. Here these are
//! put together and run.

pub mod cli;
pub mod commands;
pub mod config;
pub mod debezium;
pub mod driver;
pub mod exit;
pub mod former;
pub mod journal;
pub mod letters;
pub mod misfit;
pub mod observe;
pub mod output;
pub mod relay;
pub mod signals;
pub mod sink;
pub mod store;
pub mod supervisor;
