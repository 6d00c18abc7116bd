//! From a column's text to the bytes of a key, a value or a header.
//!
//! Connect's converters are here by their class names: `StringConverter`, `SimpleHeaderConverter`, `JsonConverter` with and without
//! schemas, `ByteArrayConverter`, `BinaryDataConverter` and those for a single type. Each is made ready for a schema once and then
//! takes what the router has chosen and gives bytes; none of them knows a topic or a role. Those that need a schema registry are
//! refused by name.
//!
//! Text goes through none of them where a slice of the frame is what they would write ([`Prepared::passes`]).

mod choice;
mod converter;
mod header_text;
mod json;
#[cfg(test)]
mod tests;
mod text;

pub use converter::{ConvertError, Converter, Prepared, Side};
