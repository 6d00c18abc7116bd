//! Publishes a PostgreSQL transactional outbox to Kafka.

fn main() -> ! {
    walpost::cli::main(std::env::args_os()).end()
}
