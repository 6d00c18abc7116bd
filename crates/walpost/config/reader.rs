//! Reads the syntax tree of the file key by key and notes every fault on the way, instead of ending at the first as a derived
//! deserialiser does.

use std::path::Path;

use toml::Spanned;
use toml::de::{DeTable, DeValue};
use walpost_core::nearest::nearest;

use super::finding::{Findings, Place};
use super::interpolate::{self, expand};
use super::surroundings::Surroundings;
use super::value::{Value, kind_of};

/// A value with the key that it belongs to. It is the default where nothing (or nothing that can be used) was typed.
pub(super) struct Field<T> {
    pub(super) value: T,
    /// The whole key, such as `source.slot`.
    pub(super) key: String,
    /// Where it was typed; `None` where it was not.
    pub(super) place: Option<Place>,
}

impl<T> Field<T> {
    pub(super) fn is_typed(&self) -> bool {
        self.place.is_some()
    }
}

/// The file being read.
pub(super) struct Reader<'a> {
    text: &'a str,
    pub(super) around: &'a dyn Surroundings,
    pub(super) findings: Findings,
    /// Every key of the manual as `section.key`, to tell where a misplaced key belongs.
    known: Vec<(&'static str, &'static str)>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, around: &'a dyn Surroundings, known: Vec<(&'static str, &'static str)>) -> Self {
        Self { text, around, findings: Findings::default(), known }
    }

    pub(super) fn place<T>(&self, spanned: &Spanned<T>) -> Option<Place> {
        Some(Place::of(self.text, spanned.span().start))
    }

    pub(super) fn fault<T>(&mut self, key: &str, at: &Spanned<T>, reason: impl Into<String>) {
        let place = self.place(at);
        self.findings.fault(key, place, reason);
    }

    /// The value of a key, or its default.
    pub(super) fn field<T: Value>(
        &mut self,
        table: Option<&DeTable<'_>>,
        section: &str,
        name: &str,
        default: T,
    ) -> Field<T> {
        let key = join(section, name);
        let typed = table.and_then(|table| table.iter().find(|(typed, _)| typed.get_ref() == name));
        let Some((typed_key, value)) = typed else { return Field { value: default, key, place: None } };
        let place = self.place(typed_key);
        let value = T::read(value, &key, self).unwrap_or(default);
        Field { value, key, place }
    }

    /// A section, if it was typed and is one.
    pub(super) fn section<'t, 'i>(&mut self, root: &'t DeTable<'i>, name: &str) -> Option<&'t DeTable<'i>> {
        let value = root.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value)?;
        match value.get_ref() {
            DeValue::Table(table) => Some(table),
            other => {
                let reason = format!("expected the section [{name}], found {}", kind_of(other));
                self.fault(name, value, reason);
                None
            }
        }
    }

    /// The sections that stand under `[[name]]`.
    pub(super) fn sections<'t, 'i>(
        &mut self,
        root: &'t DeTable<'i>,
        name: &str,
    ) -> Vec<(&'t DeTable<'i>, Option<Place>)> {
        let Some((_, value)) = root.iter().find(|(key, _)| key.get_ref() == name) else { return Vec::new() };
        let DeValue::Array(elements) = value.get_ref() else {
            let reason = format!("there can be several: write [[{name}]] with two brackets");
            self.fault(name, value, reason);
            return Vec::new();
        };
        let mut sections = Vec::new();
        for element in elements.iter() {
            match element.get_ref() {
                DeValue::Table(table) => sections.push((table, self.place(element))),
                other => self.fault(name, element, format!("expected a [[{name}]], found {}", kind_of(other))),
            }
        }
        sections
    }

    /// Notes every key of the table that is not among `names`.
    pub(super) fn refuse_unknown(&mut self, table: &DeTable<'_>, section: &str, names: &[&'static str]) {
        for typed in table.keys().filter(|typed| !names.contains(&&**typed.get_ref())) {
            let reason = self.unknown_key(typed.get_ref(), section, names);
            self.fault(&join(section, typed.get_ref()), typed, reason);
        }
    }

    /// What to say about a key that does not exist: what was meant, or where it belongs, or what there is.
    fn unknown_key(&mut self, typed: &str, section: &str, names: &[&'static str]) -> String {
        if let Some(place) = place_of(typed, section) {
            return format!("there is no such key here; {place}");
        }
        if let Some(meant) = nearest(typed, names.iter().copied()) {
            self.findings.was_meant(join(section, meant));
            return format!("there is no such key; did you mean `{meant}`?");
        }
        let elsewhere = self.known.iter().find(|(section, key)| !section.is_empty() && *key == typed);
        if let Some((section, key)) = elsewhere {
            return format!("there is no such key here; `{key}` belongs under {section}");
        }
        format!("there is no such key; here are: {}", names.join(", "))
    }

    /// A string of the file with its references replaced.
    pub(super) fn expand<T>(&mut self, text: &str, key: &str, at: &Spanned<T>) -> Option<String> {
        match expand(text, self.around) {
            Ok(expanded) => Some(expanded),
            Err(problems) => {
                for problem in problems {
                    self.fault(key, at, problem.to_string());
                }
                None
            }
        }
    }
}

/// Where something stands that many write elsewhere.
fn place_of(typed: &str, section: &str) -> Option<&'static str> {
    match (section, typed) {
        ("", _) => match typed {
            "router" => Some("write [outbox.router] below its [[outbox]]"),
            "connect" => Some("write [outbox.connect] below its [[outbox]]"),
            "kafka" => Some("write [sink.kafka]"),
            _ => None,
        },
        (_, "name") => Some("`name` stands at the top of the file, in front of every section"),
        ("source", "host" | "hostname" | "port" | "user" | "username" | "database" | "dbname") => {
            Some("it is a part of `url`: write url = \"postgres://user@host:port/database\"")
        }
        ("source", "password") => Some("write a file that holds it in `password_file`, or write it into `url`"),
        _ => None,
    }
}

/// The content of a file that holds a secret, and a warning when everybody may read it.
pub(super) fn secret_file(path: &Field<String>, around: &dyn Surroundings, findings: &mut Findings) -> Option<String> {
    let file = path.value.as_str();
    if around.is_readable_by_all(Path::new(file)) {
        let reason = format!("every user of this machine can read {file}; run: chmod 600 {file}");
        findings.warn(&path.key, path.place, reason);
    }
    match interpolate::read_value(file, around) {
        Ok(secret) if secret.is_empty() => {
            findings.fault(&path.key, path.place, format!("{file} is empty; write the secret into it"));
            None
        }
        Ok(secret) => Some(secret),
        Err(cause) => {
            let reason = format!("{file} cannot be read ({cause}); create it, or let this user read it");
            findings.fault(&path.key, path.place, reason);
            None
        }
    }
}

/// `section.name`.
pub(super) fn join(section: &str, name: &str) -> String {
    if section.is_empty() { name.to_owned() } else { format!("{section}.{name}") }
}
