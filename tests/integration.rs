//! The integration tests: the real binary, and what belongs to it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking, also in the functions that its tests share")]

mod cli;
mod config;
