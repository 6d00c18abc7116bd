//! What more than one target does: a column read from text, and its value written by every converter.

use bytes::Bytes;
use walpost_core::column::ColumnType;
use walpost_core::connect::{ConverterChoice, Options};
use walpost_core::convert::{Converter, Side};
use walpost_core::description::Description;
use walpost_core::pgoutput::Column;

/// Reads the text of a column of this type, and writes what comes of it.
pub fn read_and_write(type_id: u32, type_modifier: i32, options: &Options, text: &[u8]) {
    let column = Column { flags: 0, name: "fuzzed", type_id, type_modifier };
    let column = ColumnType::new(&column, &Description::default(), options);
    let Ok(value) = column.read(&Bytes::copy_from_slice(text)) else { return };
    for converter in converters() {
        if let Ok(prepared) = converter.prepare(Some(column.schema())) {
            let _ = prepared.convert(&value);
        }
    }
}

/// Every converter that takes all types.
pub fn converters() -> impl Iterator<Item = Converter> {
    let json = |name: &str, value: &str| ConverterChoice {
        options: vec![(name.to_owned(), value.to_owned())],
        ..ConverterChoice::plain("JsonConverter")
    };
    let choices = [
        json("schemas.enable", "false"),
        json("schemas.enable", "true"),
        json("decimal.format", "NUMERIC"),
        ConverterChoice::plain("StringConverter"),
        ConverterChoice::plain("SimpleHeaderConverter"),
    ];
    choices.into_iter().filter_map(|choice| Converter::new(&choice, Side::Header).ok())
}
