//! `[outbox.connect]`: converters, and the connector's options that decide bytes.

use walpost_core::connect::{ConverterChoice, Options};
use walpost_core::convert::{Converter, Side};

use super::draft::{Draft, Heading};
use super::given::Given;
use super::section::Section;
use super::text::{Reference, literal};
use super::version::Version;

/// What the worker says of converters, and whether it was given at all.
pub(super) struct Worker<'a> {
    pub(super) options: &'a Given,
    pub(super) is_given: bool,
}

/// Takes everything that decides bytes.
pub(super) fn connect(
    options: &mut Given,
    prefix: &str,
    worker: &Worker<'_>,
    version: Version,
    draft: &mut Draft,
) -> Section {
    let mut section = Section::default();
    converter("key", Side::Key, options, worker, &mut section, draft);
    converter("value", Side::Value, options, worker, &mut section, draft);
    converter("header", Side::Header, options, worker, &mut section, draft);
    if !prefix.is_empty() {
        section.remark("topic.prefix");
        pair("topic.prefix", prefix, &mut section, draft);
    }
    context_headers(options, version, &mut section, draft);
    adjustment(options, version);
    for known in Options::known() {
        if let Some(value) = options.take(known.name) {
            section.remark(known.name);
            pair(known.name, &value, &mut section, draft);
        }
    }
    section
}

/// One of the three. A connector without a converter of its own has its worker's, with the worker's options and none of its own
/// (`Worker.startTask` of Kafka Connect).
fn converter(
    name: &str,
    side: Side,
    options: &mut Given,
    worker: &Worker<'_>,
    section: &mut Section,
    draft: &mut Draft,
) {
    let key = format!("{name}.converter");
    let prefix = format!("{key}.");
    let class = options.take(&key);
    let mut own = options.take_behind(&prefix);
    // The framework's own, and no option of the converter.
    if let Some(version) = own.take("plugin.version") {
        options.put(format!("{prefix}plugin.version"), version);
    }
    let is_own = class.is_some();
    let (class, own, whose) = match (class, worker.options.get(&key)) {
        (Some(class), _) => (class, own, ""),
        (None, Some(class)) => {
            for (option, value) in own.iter() {
                let why = format!("Connect ignores it, because the connector has no {key} of its own.");
                draft.leave(Heading::Needless, &format!("{prefix}{option}"), value, &why);
            }
            (class.to_owned(), worker.options.clone().take_behind(&prefix), " of the worker")
        }
        (None, None) => {
            for (option, value) in own.iter() {
                let why = format!("there is no {key} that it could belong to.");
                draft.leave(Heading::Cannot, &format!("{prefix}{option}"), value, &why);
            }
            if side != Side::Header {
                without(&key, worker.is_given, section);
            }
            return;
        }
    };
    let choice = ConverterChoice {
        class: renamed(class.trim()).to_owned(),
        options: own.iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect(),
    };
    let is_known = is_built_in(&choice.class).then(|| Converter::new(&choice, side).map(drop));
    match is_known {
        Some(Ok(())) => {
            section.remark(&format!("{key}{whose}"));
            section.pair(&key, &choice.class);
            for (option, value) in &choice.options {
                pair(&format!("{prefix}{option}"), value, section, draft);
            }
        }
        refused => {
            let reason = match refused {
                Some(Err(fault)) => fault.reason,
                _ => "it is none of the converters that are built in".to_owned(),
            };
            let names: Vec<String> = choice.options.iter().map(|(option, _)| format!("{prefix}{option}")).collect();
            let with = if names.is_empty() { String::new() } else { format!(" With it goes {}.", names.join(", ")) };
            let stop = if reason.ends_with(['.', '?']) { "" } else { "." };
            draft.leave(Heading::Cannot, &key, &class, &format!("{reason}{stop}{with}"));
            let whose = if is_own { "" } else { "the worker's " };
            section.check(&format!(
                "{whose}{key} = {class} cannot be had (see below), and consumers would get other bytes."
            ));
        }
    }
}

/// Says that nobody said which converter.
fn without(key: &str, has_worker: bool, section: &mut Section) {
    let why = if has_worker {
        "neither the connector nor the worker has one"
    } else {
        "the worker's decides, and its file was not given: import it together with the connector"
    };
    section.check(&format!("{key}: {why}. Without one here text, JSON and bytea pass byte for byte, as with StringConverter and ByteArrayConverter."));
}

/// `ByteBufferConverter` is what `BinaryDataConverter` was called up to 1.9.
fn renamed(class: &str) -> &str {
    if class == "io.debezium.converters.ByteBufferConverter" {
        "io.debezium.converters.BinaryDataConverter"
    } else {
        class
    }
}

/// Whether the class is one of those that are built in.
fn is_built_in(class: &str) -> bool {
    const NAMES: &[&str] = &[
        "StringConverter",
        "JsonConverter",
        "ByteArrayConverter",
        "BinaryDataConverter",
        "SimpleHeaderConverter",
        "BooleanConverter",
        "ShortConverter",
        "IntegerConverter",
        "LongConverter",
        "FloatConverter",
        "DoubleConverter",
    ];
    let (package, name) = class.rsplit_once('.').unwrap_or(("", class));
    let packages = [
        "",
        "org.apache.kafka.connect.storage",
        "org.apache.kafka.connect.json",
        "org.apache.kafka.connect.converters",
        "io.debezium.converters",
    ];
    NAMES.contains(&name) && packages.contains(&package)
}

fn context_headers(options: &mut Given, version: Version, section: &mut Section, draft: &mut Draft) {
    const NAME: &str = "extended.headers.enabled";
    if let Some(value) = options.take(NAME) {
        section.remark(NAME);
        pair(NAME, &value, section, draft);
    } else if version >= Version::FIRST_WITH_CONTEXT_HEADERS {
        section.remark(&format!(
            "{NAME} is not set, and Debezium {version} then sends four context headers with each record; false drops them"
        ));
        section.pair(NAME, "true");
    } else {
        section.remark(&format!("{NAME}: Debezium {version} sends no context headers"));
    }
}

/// Up to 1.9 names of schemas were made fit for Avro unless told not to.
fn adjustment(options: &mut Given, version: Version) {
    const NAME: &str = "schema.name.adjustment.mode";
    if version < Version::FIRST_WITHOUT_ADJUSTMENT && !options.has(NAME) {
        options.put(NAME, "avro");
    }
}

/// Carries an option over, if it can be read.
fn pair(name: &str, value: &str, section: &mut Section, draft: &mut Draft) {
    let written = match Reference::of(value) {
        Some(Reference::Variable(variable)) => {
            draft.needs(&variable);
            section.pair(name, &format!("${{{variable}}}"));
            return;
        }
        Some(reference) => reference.written().unwrap_or_else(|| literal(value)),
        None => literal(value),
    };
    match Options::from_pairs([(name, value)]) {
        Ok(_) => section.pair(name, &written),
        Err(faults) => {
            let reasons: Vec<_> = faults.iter().map(|fault| fault.reason.as_str()).collect();
            draft.leave(Heading::Cannot, name, value, &format!("{}.", reasons.join("; ")));
        }
    }
}
