//! The sink against librdkafka's own mock cluster, which answers with the errors that it is told to.
//!
//! The mock checks no sequence numbers, hides nothing that was aborted, fences nobody, and knows neither TLS nor access rules; what it cannot show is tested
//! against a real Kafka.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests; a panic is how they fail")]

mod cluster;
mod delivery;
mod letters;
mod opening;
mod transactions;
