//! Publishes a PostgreSQL transactional outbox to Kafka.
fn main() {}
