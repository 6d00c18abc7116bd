//! The integration tests: the real binary, and what belongs to it.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test fails by panicking, also in the functions that its tests share"
)]

mod bounds;
mod chaos;
mod checkpoint_file;
mod checkpoint_row;
mod cli;
mod commands;
mod config;
mod crash;
mod dead_letters;
mod delivery;
mod describing;
mod exactly_once;
mod faults;
mod import;
mod limits;
mod neighbours;
mod observe;
mod outages;
mod papers;
mod parity;
mod parking;
mod postgres_faults;
mod repair;
mod rig;
mod security;
mod slot;
mod takeover;
