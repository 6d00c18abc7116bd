//! Real servers, fault scripts, sinks and the checker for walpost's tests.
//!
//! Without features only [`servers`] is built, from the standard library alone, so that `cargo xtask` compiles in
//! seconds on a bare machine. The feature `clients` adds what speaks to the servers.

#[cfg(feature = "clients")]
pub mod chaos;
#[cfg(feature = "clients")]
pub mod checker;
#[cfg(feature = "clients")]
pub mod conformance;
#[cfg(feature = "clients")]
pub mod consumer;
#[cfg(feature = "clients")]
pub mod exposition;
#[cfg(feature = "clients")]
pub mod failure;
#[cfg(feature = "clients")]
pub mod handover;
#[cfg(feature = "clients")]
pub mod latency;
#[cfg(feature = "clients")]
pub mod neighbour;
#[cfg(feature = "clients")]
pub mod proxy;
#[cfg(feature = "clients")]
pub mod relay;
pub mod servers;
#[cfg(feature = "clients")]
pub mod workload;
