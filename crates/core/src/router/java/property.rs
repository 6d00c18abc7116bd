//! `\p{…}`: POSIX classes of ASCII, general categories, scripts, and a few binary properties.
//!
//! Blocks and the properties of Java's own `Character` class have no equal elsewhere and are refused.

use regex_syntax::hir::{Class, HirKind};

use super::Refusal;
use super::pattern::Translator;
use super::set::Set;

/// General categories by Java's names for them, which are case-sensitive.
const CATEGORIES: &[&str] = &[
    "L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Mc", "Me", "N", "Nd", "Nl", "No", "P", "Pc", "Pd", "Ps", "Pe", "Pi",
    "Pf", "Po", "S", "Sm", "Sc", "Sk", "So", "Z", "Zs", "Zl", "Zp", "C", "Cc", "Cf", "Co", "Cn",
];

impl Translator {
    /// What follows `\p` or `\P`.
    pub(super) fn property(&mut self) -> Result<Set, Refusal> {
        let position = self.cursor.position();
        let name = if self.cursor.take("{") {
            let name = self.cursor.take_while(|ch| ch != '}');
            if !self.cursor.take("}") {
                return Err(Refusal::at(position, "this property is not closed by a \"}\""));
            }
            name
        } else {
            self.cursor.advance().map(|token| token.ch.to_string()).unwrap_or_default()
        };
        self.named(&name).ok_or_else(|| {
            let what = format!("the property \"{name}\" cannot be translated; write its characters as a class");
            Refusal::at(position, what)
        })
    }

    fn named(&self, name: &str) -> Option<Set> {
        if let Some((kind, value)) = name.split_once('=') {
            return match kind.to_ascii_lowercase().as_str() {
                "sc" | "script" => script(value),
                "gc" | "general_category" => self.category(value),
                _ => None,
            };
        }
        if name.starts_with("In") {
            return None;
        }
        match name.strip_prefix("Is") {
            Some(short) => self.binary(short).or_else(|| self.category(short)).or_else(|| script(short)),
            // Under (?U) Java gives the POSIX names another meaning.
            None if self.flags.unicode_classes && posix(name).is_some() => None,
            None => self.category(name).or_else(|| self.posix(name)),
        }
    }

    fn posix(&self, name: &str) -> Option<Set> {
        match name {
            "Lower" | "Upper" if self.flags.case_insensitive => posix("Alpha"),
            _ => posix(name),
        }
    }

    /// A general category. Under `(?i)` upper, lower and title case are one.
    fn category(&self, name: &str) -> Option<Set> {
        let cased = matches!(name, "Lu" | "Ll" | "Lt" | "LC");
        match name {
            _ if cased && (self.flags.case_insensitive || name == "LC") => {
                Some(Set::unicode("Lu").union(&Set::unicode("Ll")).union(&Set::unicode("Lt")))
            }
            "LD" => Some(Set::unicode("L").union(&Set::unicode("Nd"))),
            "L1" => Some(Set::from_ranges(&[('\0', '\u{FF}')])),
            "all" => Some(Set::all()),
            _ => CATEGORIES.contains(&name).then(|| Set::unicode(name)),
        }
    }

    fn binary(&self, name: &str) -> Option<Set> {
        let folded = self.flags.case_insensitive;
        match name.to_ascii_uppercase().as_str() {
            "ALPHABETIC" => Some(Set::unicode("Alphabetic")),
            "IDEOGRAPHIC" => Some(Set::unicode("Ideographic")),
            "LETTER" => Some(Set::unicode("L")),
            "LOWERCASE" if !folded => Some(Set::unicode("Lowercase")),
            "UPPERCASE" if !folded => Some(Set::unicode("Uppercase")),
            "TITLECASE" if !folded => Some(Set::unicode("Lt")),
            "WHITE_SPACE" | "WHITESPACE" => Some(Set::unicode("White_Space")),
            "CONTROL" => Some(Set::unicode("Cc")),
            "PUNCTUATION" => Some(Set::unicode("P")),
            "DIGIT" => Some(Set::unicode("Nd")),
            _ => None,
        }
    }
}

/// The POSIX classes, which are of ASCII.
fn posix(name: &str) -> Option<Set> {
    let ranges: &[(char, char)] = match name {
        "ASCII" => &[('\0', '\u{7F}')],
        "Alnum" => &[('0', '9'), ('A', 'Z'), ('a', 'z')],
        "Alpha" => &[('A', 'Z'), ('a', 'z')],
        "Blank" => &[('\t', '\t'), (' ', ' ')],
        "Cntrl" => &[('\0', '\u{1F}'), ('\u{7F}', '\u{7F}')],
        "Digit" => &[('0', '9')],
        "Graph" => &[('!', '~')],
        "Lower" => &[('a', 'z')],
        "Print" => &[(' ', '~')],
        "Punct" => &[('!', '/'), (':', '@'), ('[', '`'), ('{', '~')],
        "Space" => &[('\t', '\r'), (' ', ' ')],
        "Upper" => &[('A', 'Z')],
        "XDigit" => &[('0', '9'), ('A', 'F'), ('a', 'f')],
        _ => return None,
    };
    Some(Set::from_ranges(ranges))
}

fn script(name: &str) -> Option<Set> {
    let is_name = !name.is_empty() && name.chars().all(|ch| ch.is_ascii_alphanumeric() || ch == '_');
    if is_name { look_up(&format!("\\p{{Script={name}}}")) } else { None }
}

/// What the tables say about one property.
fn look_up(expression: &str) -> Option<Set> {
    match regex_syntax::parse(expression).ok()?.into_kind() {
        HirKind::Class(Class::Unicode(class)) => Some(Set::from_class(class)),
        HirKind::Literal(literal) => {
            let mut characters = std::str::from_utf8(&literal.0).ok()?.chars();
            characters.next().map(|ch| Set::from_ranges(&[(ch, ch)]))
        }
        _ => None,
    }
}

impl Set {
    /// A property that the tables are known to hold.
    pub(super) fn unicode(name: &str) -> Self {
        look_up(&format!("\\p{{{name}}}")).unwrap_or_else(|| Self::from_ranges(&[]))
    }

    /// `\w` under `(?U)`.
    pub(super) fn unicode_word() -> Self {
        look_up(r"\w").unwrap_or_else(|| Self::from_ranges(&[]))
    }
}
