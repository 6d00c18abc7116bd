//! Real servers, fault scripts, sinks and the checker for walpost's tests.
//!
//! Without features only [`servers`] is built, from the standard library alone, so that `cargo xtask` compiles in
//! seconds on a bare machine. The feature `clients` adds what speaks to the servers.

pub mod servers;
