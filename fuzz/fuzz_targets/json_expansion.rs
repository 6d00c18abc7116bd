//! A payload is expanded by options that its first byte chooses. What is expanded was JSON, and what is published of it is JSON too.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde::de::IgnoredAny;
use serde_json::Deserializer;

use walpost_core::connect::Value;
use walpost_core::expand::{Expanded, Settings, expand};
use walpost_core::router::{EmptyArrayBehavior, FieldNameAdjustment, NullBehavior};

fuzz_target!(|data: &[u8]| {
    let Some((&choice, text)) = data.split_first() else { return };
    let Ok(text) = std::str::from_utf8(text) else { return };
    let settings = Settings {
        nulls: if choice & 1 == 0 { NullBehavior::Ignore } else { NullBehavior::OptionalBytes },
        empty_arrays: if choice & 2 == 0 { EmptyArrayBehavior::Ignore } else { EmptyArrayBehavior::OptionalString },
        names: match choice >> 2 & 3 {
            0 | 1 => FieldNameAdjustment::None,
            2 => FieldNameAdjustment::Avro,
            _ => FieldNameAdjustment::AvroUnicode,
        },
    };
    let (schema, value) = match expand(text, "payload", settings) {
        Expanded::Unchanged => return,
        Expanded::Structure(schema, value) => (Some(schema), value),
        Expanded::Document(document) => (None, Value::Json(document)),
    };
    assert!(is_json(text), "it was none: {text}");
    for (index, converter) in walpost_fuzz::converters().enumerate() {
        let prepared = converter.prepare(schema.as_ref()).expect("it takes every schema");
        let written = prepared.convert(&value).expect("the value is of its schema").expect("it is not null");
        if index < 3 {
            let written = std::str::from_utf8(&written).expect("JSON is UTF-8");
            assert!(is_json(written), "it is none: {written}");
        }
    }
});

/// Whether the text begins with a whole JSON value.
fn is_json(text: &str) -> bool {
    let mut deserializer = Deserializer::from_str(text);
    deserializer.disable_recursion_limit();
    matches!(deserializer.into_iter::<IgnoredAny>().next(), Some(Ok(_)))
}
