//! Options that users know from Debezium and Kafka Connect: read from text, by their own names, from one table each.
//!
//! A table has one entry an option: its name, type and default, its manual entry, and how its text is read. The reference page is
//! generated from it, and so is the reader, so neither can know an option that the other does not.
//!
//! What it refuses to do: pass over a name or a value that nobody understands.

use std::borrow::Cow;

/// An option of `O`.
#[derive(Debug)]
pub struct KnownOption<O: 'static> {
    /// Its own name.
    pub name: &'static str,
    /// What its value is: a type, or the words to choose from.
    pub kind: &'static str,
    /// The default as text; `None` where the option is unset.
    pub default: Option<&'static str>,
    /// A paragraph for the manual.
    pub doc: &'static str,
    /// Reads a value into the options; the error is the reason alone.
    pub(crate) set: fn(&mut O, &str) -> Result<(), String>,
}

/// A fault of an option, found before anything runs.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{option}: {reason}")]
pub struct OptionFault {
    /// The option's name, as it was given.
    pub option: Cow<'static, str>,
    /// What is wrong and what to write instead.
    pub reason: String,
}

impl OptionFault {
    pub(crate) fn new(option: impl Into<Cow<'static, str>>, reason: impl Into<String>) -> Self {
        Self { option: option.into(), reason: reason.into() }
    }
}

/// Options that were read, and what the operator should know about them although nothing is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Parsed<O> {
    /// The options.
    pub options: O,
    /// One sentence each.
    pub warnings: Vec<String>,
}

/// Reads each pair into options that begin with their defaults. Answers the names that were given, and every fault of a name or a value.
pub(crate) fn read<'a, O: Default>(
    pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    set: impl Fn(&mut O, &'a str, &'a str) -> Result<(), String>,
) -> (O, Vec<&'a str>, Vec<OptionFault>) {
    let (mut options, mut seen, mut faults) = (O::default(), Vec::new(), Vec::new());
    for (name, value) in pairs {
        if seen.contains(&name) {
            faults.push(OptionFault::new(name.to_owned(), "it is given twice"));
        } else if let Err(reason) = set(&mut options, name, value) {
            faults.push(OptionFault::new(name.to_owned(), reason));
        }
        seen.push(name);
    }
    (options, seen, faults)
}

/// One of several words, in any case and with blanks around it.
pub(crate) fn word<T: Copy>(value: &str, words: &[(&str, T)]) -> Result<T, String> {
    let found = words.iter().find(|(word, _)| word.eq_ignore_ascii_case(value.trim()));
    found.map(|(_, meaning)| *meaning).ok_or_else(|| {
        let words: Vec<&str> = words.iter().map(|(word, _)| *word).collect();
        format!("\"{value}\" is none of {}", words.join(", "))
    })
}

pub(crate) fn boolean(value: &str) -> Result<bool, String> {
    word(value, &[("true", true), ("false", false)])
}
