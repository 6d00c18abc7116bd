//! walpost, the program.

pub mod driver;
pub mod journal;
