//! The integration tests: the real binary, and what belongs to it.

mod cli;
mod config;
