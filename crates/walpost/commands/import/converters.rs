//! `[outbox.connect]`: converters, and the connector's options that decide bytes.

use walpost_core::connect::{ConverterChoice, Options};
use walpost_core::convert::{Converter, Side};
use walpost_core::options::OptionFault;

use super::draft::{Draft, Heading};
use super::given::Given;
use super::section::Section;
use super::text::{Reference, has_reference, is_secret, literal, notation};
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
    if prefix.is_empty() {
        let name = if version <= Version::LAST_WITH_SERVER_NAME { "database.server.name" } else { "topic.prefix" };
        section.check(&format!(
            "{name}: the connector has none, and Debezium {version} does not start without it. Names of schemas begin with it and a context header holds \
             it; write \"topic.prefix\" here."
        ));
    } else {
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
    let mut own = options.take_prefixed(&prefix);
    // The framework's own, and no option of the converter.
    if let Some(version) = own.take("plugin.version") {
        options.put(format!("{prefix}plugin.version"), version);
    }
    let mut leave_all = |own: &Given, heading: Heading, why: &str| {
        own.iter().for_each(|(option, value)| draft.leave(heading, &format!("{prefix}{option}"), value, why));
    };
    let (class, own, whose) = match (class, worker.options.get(&key)) {
        (Some(class), _) => (class, own, ""),
        (None, Some(class)) => {
            let why = format!("Connect ignores it, because the connector has no {key} of its own.");
            leave_all(&own, Heading::Needless, &why);
            (class.to_owned(), worker.options.clone().take_prefixed(&prefix), " of the worker")
        }
        (None, None) => {
            leave_all(&own, Heading::Cannot, &format!("there is no {key} that it could belong to."));
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
    match Converter::new(&choice, side) {
        Ok(_) => {
            section.remark(&format!("{key}{whose}"));
            section.pair(&key, &literal(&choice.class));
            for (option, value) in &choice.options {
                own_option(&format!("{prefix}{option}"), value, section, draft);
            }
        }
        Err(fault) => refused(&key, whose, &choice, &fault, section),
    }
}

/// An option of a converter's own. One that holds a secret is another converter's, and is not shown.
fn own_option(name: &str, value: &str, section: &mut Section, draft: &mut Draft) {
    if is_secret(name) {
        draft.leave(Heading::Needless, name, value, "no converter that is built in has such an option.");
    } else {
        pair(name, value, section, draft);
    }
}

/// A converter that cannot be had, or not with one of its options: the line at fault stays, and walpost refuses it with the same reason.
fn refused(key: &str, whose: &str, choice: &ConverterChoice, fault: &OptionFault, section: &mut Section) {
    let is_class = fault.option == key;
    let names: Vec<String> = choice.options.iter().map(|(option, _)| format!("{key}.{option}")).collect();
    let with =
        if !is_class || names.is_empty() { String::new() } else { format!(" With it goes {}.", names.join(", ")) };
    let stop = if fault.reason.ends_with(['.', '?']) { "" } else { "." };
    let why = format!("{}{stop}{with}", fault.reason);
    if is_class {
        let option = format!("{key}{whose}");
        section.undecided((&option, &choice.class), key, &literal(&choice.class), &why);
        return;
    }
    section.remark(&format!("{key}{whose}"));
    section.pair(key, &literal(&choice.class));
    for ((_, value), name) in choice.options.iter().zip(&names).filter(|(_, name)| !is_secret(name)) {
        if fault.option == name.as_str() {
            section.undecided((name, value), name, &literal(value), &why);
        } else {
            section.pair(name, &literal(value));
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

/// Carries an option over, if it can be read. What a reference stands for is not known here.
fn pair(name: &str, value: &str, section: &mut Section, draft: &mut Draft) {
    let mut is_foreign = false;
    let written = notation(value, |reference| {
        if let Reference::Variable(variable) = reference {
            draft.needs(variable);
        }
        reference.written().unwrap_or_else(|| {
            is_foreign = true;
            value.to_owned()
        })
    });
    if is_foreign {
        section.undecided((name, value), name, value, "only Connect can read that; write what it stands for.");
        return;
    }
    if has_reference(value) {
        section.pair(name, &written);
        return;
    }
    match Options::from_pairs([(name, value)]) {
        Ok(_) => section.pair(name, &written),
        Err(faults) => {
            let reasons: Vec<_> = faults.iter().map(|fault| fault.reason.as_str()).collect();
            section.undecided((name, value), name, &written, &format!("{}.", reasons.join("; ")));
        }
    }
}
