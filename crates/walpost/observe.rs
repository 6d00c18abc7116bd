//! What can be seen of a relay from outside: its log, and over HTTP its figures, whether it lives, and whether it does its work.
//!
//! The loop that publishes writes down how it stands ([`board`]) and is never waited for: the server ([`server`]) and the questions about the slot
//! ([`probe`]) live on a thread of their own, so that a loop that is stuck, or a stream that is down, is seen and not shared. Whether all is
//! well is judged in one place ([`health`]), from what was written down and the time; how far behind the relay is, in another
//! ([`behind`]); every figure is defined in a third ([`metrics`]), from which its manual is made. What is judged and stands in no line of the
//! log by itself is put there by [`standstill`].

pub mod behind;
pub mod board;
pub mod health;
pub mod log;
pub mod manual;
pub mod metrics;
pub mod probe;
mod process;
pub mod recorder;
pub mod server;
pub mod standstill;
