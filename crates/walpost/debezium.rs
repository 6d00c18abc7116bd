//! What walpost knows of Debezium's configuration: one table with an entry an option, which the page `docs/debezium.md` is rendered from
//! and the importer goes by, so that they cannot disagree.
//!
//! The router's own options are not in it: `walpost-core` has them, with their former names.

pub mod options;
pub mod page;

pub use options::{Entry, Fate, Group};
