//! What must be true in walpost, and nothing that does: decoding, routing, ledger and session.
//!
//! This crate knows no runtime, socket, file, clock or environment. Time and bytes are arguments, so any run can be
//! replayed from a seed. The edges (`walpost-postgres`, `walpost-kafka`) and the driver in the binary do what it decides.
//!
//! One event passes through it by function name: [`session::Session::receive`] takes a [`frame::Frame`],
//! [`pgoutput::Message::parse`] reads it, [`catalog::Catalog`] knows whether its relation is an outbox,
//! [`router::Router::route`] makes the [`record::Record`] (where text cannot pass as it is, [`column::ColumnType::read`] reads it and
//! [`convert::Prepared::convert`] writes it), [`ledger::Ledger`] keeps it until it is settled, and
//! [`session::Session::poll`] says what to do next.

pub mod backoff;
pub mod catalog;
pub mod column;
pub mod connect;
pub mod convert;
pub mod description;
pub mod event;
pub mod expand;
pub mod failure;
pub mod feedback;
pub mod finding;
pub mod frame;
mod java_text;
pub mod ledger;
pub mod lsn;
pub mod nearest;
pub mod options;
pub mod outbox;
pub mod pgoutput;
pub mod poison;
pub mod port;
pub mod position;
pub mod record;
pub mod router;
pub mod session;
pub mod start;
pub mod time;
pub mod traffic;
pub mod value;
