//! The configuration file.
//!
//! What was typed ([`raw`]) and what the program needs ([`settings`]) are two things. Reading is done on TOML's syntax tree and not by a
//! derived deserialiser, because that one ends at the first fault and this one says all of them, each with its key, its place in the
//! file and its remedy. The manual is rendered from the definitions that also read ([`mod@reference`]).
//!
//! Nothing here connects to anything: what only a server can tell is a matter of `walpost check`.

mod finding;
mod interpolate;
pub mod raw;
mod reader;
pub mod reference;
pub mod settings;
pub mod surroundings;
mod table_name;
mod value;

#[cfg(test)]
pub(crate) mod fake;
// Its examples name every sink.
#[cfg(test)]
#[cfg(feature = "kafka")]
mod tests;

use std::ops::Range;
use std::path::Path;

use toml::de::DeTable;
use walpost_core::outbox::TableName;

pub use finding::{Error, Finding, Place};
pub use settings::Settings;
pub use surroundings::{Process, Surroundings};

use finding::Findings;
use raw::File;
use reader::Reader;

/// The name of a table as SQL writes it: `table`, `schema.table`, `"Schema"."Table"`. Without a schema `public` is meant.
///
/// # Errors
/// What is wrong with it, and what to write instead.
pub fn parse_table(text: &str) -> Result<TableName, String> {
    table_name::parse(text).map(|parsed| parsed.name)
}

/// A configuration that can be used.
#[derive(Debug)]
pub struct Loaded {
    /// What it says.
    pub settings: Settings,
    /// What should be put right though it does not keep the program from starting.
    pub warnings: Vec<Finding>,
}

/// Reads a file.
///
/// # Errors
/// The file cannot be read, or everything that is wrong with it.
pub fn load(path: &Path, around: &dyn Surroundings) -> Result<Loaded, Error> {
    let text = around.read(path).map_err(|source| Error::Unreadable { path: path.to_owned(), source })?;
    let is_public = around.is_readable_by_all(path);
    parse(&text, is_public, around).map_err(|faults| Error::Faulty { path: path.to_owned(), faults })
}

/// Reads the text of a file. `is_public` says that everybody can read it, which is worth a warning if it holds a secret.
///
/// # Errors
/// Everything that is wrong with it.
pub fn parse(text: &str, is_public: bool, around: &dyn Surroundings) -> Result<Loaded, Vec<Finding>> {
    let (root, mistakes) = DeTable::parse_recoverable(text);
    if !mistakes.is_empty() {
        return Err(of_a_connector(text).map_or_else(|| syntax(text, &mistakes), |finding| vec![finding]));
    }
    let manual = raw::manual();
    let known = manual.iter().flat_map(|section| section.keys.iter().map(|key| (section.header, key.name)));
    let mut reader = Reader::new(text, around, known.collect());
    let file = File::read(root.get_ref(), &mut reader);
    let mut findings = reader.findings;
    if is_public {
        warn_of_secrets(&file, &mut findings);
    }
    let settings = settings::from_file(&file, around, &mut findings);
    let has_faults = findings.has_faults();
    let (faults, warnings) = findings.into_sorted();
    match settings {
        Some(settings) if !has_faults => Ok(Loaded { settings, warnings }),
        _ => Err(faults),
    }
}

/// What is no TOML. The parser's own display would print the line, and a line may hold a password.
fn syntax(text: &str, mistakes: &[toml::de::Error]) -> Vec<Finding> {
    let mut findings = Findings::default();
    for mistake in mistakes {
        let place = mistake.span().map(|span| Place::of(text, span.start));
        let is_double = mistake.message().contains("duplicate key");
        let key = mistake.span().filter(|_| is_double).and_then(|span| key_at(text, span)).unwrap_or_default();
        let remedy = match mistake.message() {
            _ if is_double => "; a key stands once in its section, and a section once in the file",
            message if message.contains("dotted key") => {
                "; write names with dots in quotes, each a line: \"key.converter\" = \"…\""
            }
            _ => "",
        };
        findings.fault(key, place, format!("this is not TOML: {}{remedy}", mistake.message()));
    }
    findings.into_sorted().0
}

/// The key that a mistake is about, where it points at one: never a value, which may be a password.
fn key_at(text: &str, span: Range<usize>) -> Option<&str> {
    let is_of_keys = |ch: char| ch.is_ascii_alphanumeric() || matches!(ch, '_' | '-' | '.' | '"' | '\'');
    let key = text.get(span.clone())?;
    let line = text.get(..span.start)?.rsplit('\n').next()?;
    let is_key = !key.is_empty() && key.chars().all(is_of_keys) && !line.contains('=');
    is_key.then_some(key)
}

/// What is to be said of a file that was never meant to be ours.
fn of_a_connector(text: &str) -> Option<Finding> {
    let is_of_a_connector = text.lines().any(|line| {
        let line = line.trim_start().trim_start_matches('"');
        ["connector.class", "debezium.source.", "debezium.sink."].iter().any(|start| line.starts_with(start))
    });
    let is_json = text.trim_start().starts_with('{');
    let reason = match (is_of_a_connector || (is_json && text.contains("connector.class")), is_json) {
        (true, _) => "this looks like a Debezium connector; run: walpost import debezium FILE > walpost.toml",
        (false, true) => "this is JSON, and a configuration is TOML; docs/configuration.md shows one",
        (false, false) => return None,
    };
    Some(Finding { key: String::new(), place: None, reason: reason.to_owned() })
}

/// Warns of passwords that stand in a file that everybody can read.
fn warn_of_secrets(file: &File, findings: &mut Findings) {
    const ADVICE: &str = "every user of this machine can read the password that stands here; run chmod 600 on this file, or write ${VARIABLE} or ${file:/path}";
    let url = &file.source.url;
    let is_literal = |typed: &str| !typed.is_empty() && !typed.contains("${");
    let typed = url.value.as_ref().map(|url| without_names(&url.typed));
    let password = typed.as_ref().and_then(|url| settings::password_of(url));
    if password.is_some_and(is_literal) {
        findings.warn(&url.key, url.place, ADVICE);
    }
    let kafka = &file.sink.kafka;
    for property in kafka.value.0.iter().filter(|property| is_secret(&property.name) && is_literal(&property.typed)) {
        findings.warn(format!("{}.\"{}\"", kafka.key, property.name), property.place, ADVICE);
    }
}

/// A text as it was typed, with `${}` for each variable or file that it names: a name may hold what separates the parts of a URL.
fn without_names(typed: &str) -> String {
    let mut parts = typed.split("${");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let rest = part.split_once('}').map_or("", |(_, rest)| rest);
        text.push_str("${}");
        text.push_str(rest);
    }
    text
}

/// Whether a property of librdkafka holds a secret, by its name.
fn is_secret(property: &str) -> bool {
    ["password", "secret", "key.pem", "jaas"].iter().any(|part| property.contains(part))
}
