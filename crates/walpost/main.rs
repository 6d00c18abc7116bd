//! Publishes a PostgreSQL transactional outbox to Kafka.

use std::process::ExitCode;

fn main() -> ExitCode {
    walpost::cli::main(std::env::args_os())
}
