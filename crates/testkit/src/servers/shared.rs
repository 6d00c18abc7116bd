//! One PostgreSQL and one Kafka for all tests that do not harm them.
//!
//! `cargo xtask test` starts them once and names them in the environment. Without it they start when the first test of
//! a process asks, and die with that process. A test that stops, stalls or configures a server starts its own.

use std::sync::OnceLock;

use super::{Kafka, KafkaEndpoint, Postgres, PostgresEndpoint};

/// Names the shared PostgreSQL: a URL for its superuser.
pub const POSTGRES_VARIABLE: &str = "WALPOST_TEST_POSTGRES_URL";
/// Names the shared Kafka: its `bootstrap.servers`.
pub const KAFKA_VARIABLE: &str = "WALPOST_TEST_KAFKA";

/// The PostgreSQL that tests share. Each test makes its own [`fresh_database`](PostgresEndpoint::fresh_database).
///
/// # Panics
///
/// When there is none to be had: every test that asks fails, and says why.
pub fn shared_postgres() -> &'static PostgresEndpoint {
    static SERVER: OnceLock<(PostgresEndpoint, Option<Postgres>)> = OnceLock::new();
    let (endpoint, _) = SERVER.get_or_init(|| {
        if let Ok(url) = std::env::var(POSTGRES_VARIABLE) {
            return (PostgresEndpoint::at(&url).expect("the variable names a PostgreSQL server"), None);
        }
        let server = Postgres::start().unwrap_or_else(|error| refuse(&error));
        (server.endpoint().clone(), Some(server))
    });
    endpoint
}

/// The Kafka that tests share. Each test makes topics of its own.
///
/// # Panics
///
/// When there is none to be had: every test that asks fails, and says why.
pub fn shared_kafka() -> &'static KafkaEndpoint {
    static SERVER: OnceLock<(KafkaEndpoint, Option<Kafka>)> = OnceLock::new();
    let (endpoint, _) = SERVER.get_or_init(|| {
        if let Ok(bootstrap) = std::env::var(KAFKA_VARIABLE) {
            return (KafkaEndpoint::at(&bootstrap), None);
        }
        let server = Kafka::start().unwrap_or_else(|error| refuse(&error));
        (server.endpoint().clone(), Some(server))
    });
    endpoint
}

/// A test without its server can only fail, and with a sentence.
#[expect(clippy::panic, reason = "called by tests alone")]
fn refuse(error: &super::Error) -> ! {
    panic!("no server for the tests: {error}")
}
