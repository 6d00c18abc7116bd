//! The sink edge: Kafka, by way of librdkafka.
//!
//! [`Producer`] implements [`walpost_core::port::Sink`], [`Transactional`] also [`walpost_core::port::TransactionalSink`], with
//! [`CheckpointTopic`] beside it; [`LetterTopic`] implements [`walpost_core::port::DeadLetters`]; [`Settings`] says what an operator may choose about it, and
//! [`check`] looks at the brokers and topics before anything is sent. What an error of Kafka means is decided in one place,
//! in the classes of [`walpost_core::failure::Class`], and nobody outside this crate sees an error of Kafka.

mod check;
mod checkpoints;
mod classify;
mod compacted;
mod context;
mod inbox;
mod letters;
mod opening;
mod partitioner;
mod producer;
mod properties;
mod pulse;
mod settings;
mod settle;
mod topic;
mod transactional;

pub use check::check;
pub use checkpoints::{CheckpointError, CheckpointTopic};
pub use letters::{LetterError, LetterMemory, LetterTopic, Letters};
pub use producer::Producer;
pub use settings::{Limits, SettingFault, Settings};
pub use settle::settle_topic;
pub use topic::{LastValues, ReadError, read_topic};
pub use transactional::Transactional;
