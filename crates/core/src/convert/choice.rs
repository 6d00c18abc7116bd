//! Which converter was chosen: its class, and the options that it has of its own.
//!
//! Connect passes over an option that a converter does not know. Here a name that is nearly one of its options is refused, for it
//! was meant to do something; any other, as a change of converter leaves them behind (`schema.registry.url`), is mentioned and
//! passed over.

use std::borrow::Cow;

use super::Side;
use super::json::JsonOptions;
use crate::connect::ConverterChoice;
use crate::nearest::nearest;
use crate::options::{OptionFault, boolean, word};

/// A converter.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Class {
    /// `StringConverter`
    Text,
    /// `SimpleHeaderConverter`
    HeaderText,
    /// `JsonConverter`
    Json(JsonOptions),
    /// `ByteArrayConverter`
    Bytes,
    /// `BinaryDataConverter`, and the converter of what is not bytes.
    BinaryData(Option<Box<Class>>),
    /// One of those for a single type.
    Single(Single),
}

/// A type with a converter of its own, which writes it big end first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Single {
    Short,
    Integer,
    Long,
    Float,
    Double,
    Boolean,
}

/// The packages and names of the classes, and those by which Debezium knew one of them before.
const CLASSES: &[(&str, &str, Class)] = &[
    ("org.apache.kafka.connect.storage", "StringConverter", Class::Text),
    ("org.apache.kafka.connect.json", "JsonConverter", Class::Json(JsonOptions::DEFAULT)),
    ("org.apache.kafka.connect.converters", "ByteArrayConverter", Class::Bytes),
    ("io.debezium.converters", "BinaryDataConverter", Class::BinaryData(None)),
    ("io.debezium.converters", "ByteBufferConverter", Class::BinaryData(None)),
    ("org.apache.kafka.connect.storage", "SimpleHeaderConverter", Class::HeaderText),
    ("org.apache.kafka.connect.converters", "ShortConverter", Class::Single(Single::Short)),
    ("org.apache.kafka.connect.converters", "IntegerConverter", Class::Single(Single::Integer)),
    ("org.apache.kafka.connect.converters", "LongConverter", Class::Single(Single::Long)),
    ("org.apache.kafka.connect.converters", "FloatConverter", Class::Single(Single::Float)),
    ("org.apache.kafka.connect.converters", "DoubleConverter", Class::Single(Single::Double)),
    ("org.apache.kafka.connect.converters", "BooleanConverter", Class::Single(Single::Boolean)),
];

const ENCODING: &str = "converter.encoding";
const SCHEMAS_ENABLE: &str = "schemas.enable";
const SCHEMAS_CACHE_SIZE: &str = "schemas.cache.size";
const DECIMAL_FORMAT: &str = "decimal.format";
const REPLACE_NULL: &str = "replace.null.with.default";
const DELEGATE: &str = "delegate.converter.type";
/// Connect sets it itself on every converter.
const CONVERTER_TYPE: &str = "converter.type";

/// What was read, with a sentence for each option that does nothing.
#[derive(Debug, Default)]
pub(super) struct Reading {
    /// The option that names the class, such as `value.converter`: the others' names begin with it.
    pub(super) option: String,
    /// Those sentences.
    pub(super) warnings: Vec<String>,
}

impl Reading {
    /// Reads a class and its options.
    pub(super) fn class(&mut self, choice: &ConverterChoice, side: Side) -> Result<Class, OptionFault> {
        let mut class = of_name(&choice.class, side).map_err(|reason| self.fault(reason))?;
        if choice.class.ends_with("ByteBufferConverter") {
            self.warnings.push(format!("{}: \"{}\" is called BinaryDataConverter now", self.option, choice.class));
        }
        if let Class::BinaryData(delegate) = &mut class {
            *delegate = self.delegate(choice)?;
        }
        for (name, value) in &choice.options {
            self.own_option(&mut class, name, value)?;
        }
        Ok(class)
    }

    /// The converter of what is not bytes. Connect passes a delegate by where the converter makes headers; here it serves there too.
    fn delegate(&mut self, choice: &ConverterChoice) -> Result<Option<Box<Class>>, OptionFault> {
        let Some((_, class)) = choice.options.iter().find(|(name, _)| name == DELEGATE) else { return Ok(None) };
        let own = |(name, value): &(String, String)| {
            let name = name.strip_prefix(DELEGATE)?.strip_prefix('.')?;
            Some((name.to_owned(), value.clone()))
        };
        let delegate = ConverterChoice {
            class: class.trim().to_owned(),
            options: choice.options.iter().filter_map(own).collect(),
        };
        let outer = format!("{}.{DELEGATE}", self.option);
        let outer = std::mem::replace(&mut self.option, outer);
        let class = self.class(&delegate, Side::Value);
        self.option = outer;
        class.map(|class| Some(Box::new(class)))
    }

    fn own_option(&mut self, class: &mut Class, name: &str, value: &str) -> Result<(), OptionFault> {
        let read = match (&mut *class, name) {
            (_, CONVERTER_TYPE) => Ok(()),
            (Class::Text, ENCODING) => utf8(value),
            (Class::Json(options), SCHEMAS_ENABLE) => boolean(value).map(|to| options.has_schemas = to),
            (Class::Json(_), SCHEMAS_CACHE_SIZE) => number(value),
            (Class::Json(options), DECIMAL_FORMAT) => {
                word(value, &[("BASE64", false), ("NUMERIC", true)]).map(|to| options.has_numeric_decimals = to)
            }
            (Class::Json(options), REPLACE_NULL) => boolean(value).map(|to| options.replaces_null = to),
            (Class::BinaryData(_), DELEGATE) => Ok(()),
            (Class::BinaryData(Some(_)), name) if is_of_delegate(name) => Ok(()),
            (class, _) => return self.unknown(class, name),
        };
        read.map_err(|reason| OptionFault::new(format!("{}.{name}", self.option), reason))
    }

    fn unknown(&mut self, class: &Class, name: &str) -> Result<(), OptionFault> {
        let option = format!("{}.{name}", self.option);
        match nearest(name, own_names(class).iter().copied()) {
            Some(known) => {
                let reason = format!("{} has no such option; did you mean \"{known}\"?", class.name());
                Err(OptionFault::new(option, reason))
            }
            None => {
                self.warnings.push(format!("{option}: {} has no such option; it changes nothing", class.name()));
                Ok(())
            }
        }
    }

    fn fault(&self, reason: String) -> OptionFault {
        OptionFault::new(Cow::Owned(self.option.clone()), reason)
    }
}

fn is_of_delegate(name: &str) -> bool {
    name.strip_prefix(DELEGATE).is_some_and(|rest| rest.starts_with('.'))
}

fn own_names(class: &Class) -> &'static [&'static str] {
    match class {
        Class::Text => &[ENCODING],
        Class::Json(_) => &[SCHEMAS_ENABLE, SCHEMAS_CACHE_SIZE, DECIMAL_FORMAT, REPLACE_NULL],
        Class::BinaryData(_) => &[DELEGATE],
        Class::HeaderText | Class::Bytes | Class::Single(_) => &[],
    }
}

impl Class {
    /// The name without its package.
    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Text => "StringConverter",
            Self::HeaderText => "SimpleHeaderConverter",
            Self::Json(_) => "JsonConverter",
            Self::Bytes => "ByteArrayConverter",
            Self::BinaryData(_) => "BinaryDataConverter",
            Self::Single(Single::Short) => "ShortConverter",
            Self::Single(Single::Integer) => "IntegerConverter",
            Self::Single(Single::Long) => "LongConverter",
            Self::Single(Single::Float) => "FloatConverter",
            Self::Single(Single::Double) => "DoubleConverter",
            Self::Single(Single::Boolean) => "BooleanConverter",
        }
    }
}

fn of_name(typed: &str, side: Side) -> Result<Class, String> {
    let known = |(package, name, _): &&(&str, &str, Class)| {
        typed == *name || typed.strip_suffix(name).and_then(|rest| rest.strip_suffix('.')) == Some(*package)
    };
    match CLASSES.iter().find(known) {
        Some((_, _, Class::HeaderText)) if side != Side::Header => {
            Err("SimpleHeaderConverter makes headers only; StringConverter is the nearest to it".to_owned())
        }
        Some((_, _, class)) => Ok(class.clone()),
        None => Err(unknown_class(typed)),
    }
}

fn unknown_class(typed: &str) -> String {
    let short = typed.rsplit('.').next().unwrap_or(typed);
    let folded = short.to_lowercase();
    if folded.contains("cloudevents") {
        return format!(
            "\"{typed}\" is not offered, for it wraps a change event of the table; write the attributes of the CloudEvent into \
             columns and place them as headers (table.fields.additional.placement), or its JSON into the payload"
        );
    }
    if ["avro", "protobuf", "jsonschema"].iter().any(|format| folded.contains(format)) {
        return format!(
            "\"{typed}\" needs a schema registry and is not offered; let the application serialize the payload into a bytea column \
             and publish that with BinaryDataConverter, or choose JsonConverter"
        );
    }
    match nearest(short, CLASSES.iter().map(|(_, name, _)| *name)) {
        Some(name) => {
            let package = CLASSES.iter().find(|(_, known, _)| *known == name).map_or("", |(package, _, _)| package);
            format!("\"{typed}\" is no converter that is known here; did you mean \"{package}.{name}\"?")
        }
        None => {
            let names: Vec<&str> = CLASSES.iter().map(|(_, name, _)| *name).collect();
            format!("\"{typed}\" is no converter that is known here; there are {}", names.join(", "))
        }
    }
}

/// Java knows UTF-8 by these names.
fn utf8(value: &str) -> Result<(), String> {
    let is_utf8 = ["UTF-8", "UTF8", "unicode-1-1-utf-8"].iter().any(|name| name.eq_ignore_ascii_case(value.trim()));
    if is_utf8 { Ok(()) } else { Err(format!("\"{value}\" is not offered: text is published as UTF-8")) }
}

fn number(value: &str) -> Result<(), String> {
    value.trim().parse::<i32>().map(|_| ()).map_err(|_| format!("\"{value}\" is no number"))
}
