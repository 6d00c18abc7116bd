//! A walpost.toml in the making: keys with what they come from above them, and at the end what has no key.

use std::fmt::Write;

use super::text::{Reference, literal, notation, quoted, shown};
use crate::debezium::Fate;

/// Lines of comments are no longer than this.
const WIDTH: usize = 120;

/// A file in the making.
#[derive(Debug, Default)]
pub(super) struct Draft {
    body: String,
    checks: usize,
    /// The lines that walpost refuses until somebody decides.
    undecided: Vec<String>,
    variables: Vec<String>,
    leftovers: Vec<Leftover>,
}

/// An option that has no key here.
#[derive(Debug)]
struct Leftover {
    heading: Heading,
    sentence: String,
}

/// Under which heading an option is told that has no key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Heading {
    Unknown,
    Cannot,
    Better,
    Needless,
}

impl Heading {
    fn line(self) -> &'static str {
        match self {
            Self::Unknown => {
                "UNKNOWN: no option of Debezium, of Kafka Connect or of Kafka's producer that is known here"
            }
            Self::Cannot => "CANNOT: walpost does not do this",
            Self::Better => "Otherwise here, and needs no key",
            Self::Needless => "Needless here",
        }
    }
}

impl From<Fate> for Heading {
    fn from(fate: Fate) -> Self {
        match fate {
            Fate::Cannot | Fate::Decide => Self::Cannot,
            Fate::Needless => Self::Needless,
            Fate::Same | Fate::Better => Self::Better,
        }
    }
}

impl Draft {
    /// Begins a section.
    pub(super) fn section(&mut self, header: &str) {
        let gap = if self.body.is_empty() { "" } else { "\n" };
        self.body.push_str(&format!("{gap}{header}\n"));
    }

    /// A comment.
    pub(super) fn remark(&mut self, text: &str) {
        wrap(&mut self.body, "# ", text);
    }

    /// A comment on what somebody has to look at.
    pub(super) fn check(&mut self, text: &str) {
        self.checks += 1;
        wrap(&mut self.body, "# ", &format!("CHECK {text}"));
    }

    /// A comment on an option that cannot be had though consumers would get other records without it. Its line follows.
    pub(super) fn decide(&mut self, option: &str, value: &str, why: &str) {
        let value = shown(option, value);
        wrap(&mut self.body, "# ", &format!("DECIDE {option} = {value}: {why}"));
    }

    /// A line that walpost refuses, so that nobody runs the file before that is decided. `key` is none of walpost's, or its value is none.
    pub(super) fn undecided(&mut self, key: &str, written: &str) {
        let line = format!("{} = {}", quoted(key), quoted(&shown(key, written)));
        let _ = writeln!(self.body, "{line}");
        self.undecided.push(line);
    }

    /// A key with a value that means itself, whatever `$` is in it.
    pub(super) fn key(&mut self, key: &str, value: &str) {
        self.written(key, &literal(value));
    }

    /// A key with a value in walpost's own notation, in which `${…}` is a reference.
    pub(super) fn written(&mut self, key: &str, written: &str) {
        self.raw(key, &quoted(written));
    }

    /// A value of Connect's in walpost's own notation. What only Connect can read stays as it is, for walpost refuses it with its reason.
    pub(super) fn notation(&mut self, value: &str) -> String {
        notation(value, |reference| {
            if let Reference::Variable(name) = reference {
                self.needs(name);
            }
            reference.written().unwrap_or_else(|| {
                let Reference::Foreign(text) = reference else { return String::new() };
                self.check(&format!("{text} can only be read by Connect; write what it stands for."));
                text.clone()
            })
        })
    }

    /// A key with a value that is TOML already.
    pub(super) fn raw(&mut self, key: &str, value: &str) {
        // Writing to a `String` cannot fail.
        let _ = writeln!(self.body, "{key} = {value}");
    }

    /// An option as key, by its own name, with a value in the notation of its section.
    pub(super) fn option(&mut self, name: &str, written: &str) {
        self.raw(&quoted(name), &quoted(written));
    }

    /// An environment variable that has to be set before the start.
    pub(super) fn needs(&mut self, variable: &str) {
        if !self.variables.iter().any(|known| known == variable) {
            self.variables.push(variable.to_owned());
        }
    }

    /// An option that has no key.
    pub(super) fn leave(&mut self, heading: Heading, name: &str, value: &str, why: &str) {
        let value = shown(name, value);
        self.leftovers.push(Leftover { heading, sentence: format!("{name} = {value}: {why}") });
    }

    /// The whole file after these opening comments, and its lines that walpost refuses.
    pub(super) fn finish(mut self, opening: &[String]) -> (String, Vec<String>) {
        let mut file = String::new();
        for paragraph in opening {
            wrap(&mut file, "# ", paragraph);
        }
        if !self.variables.is_empty() {
            wrap(&mut file, "# ", &format!("Set before the start: {}.", self.variables.join(", ")));
        }
        let cannot = self.leftovers.iter().filter(|left| left.heading <= Heading::Cannot).count();
        if self.checks + cannot > 0 {
            let sentence = format!(
                "To look at before the first start: {} of CHECK, {cannot} of CANNOT or UNKNOWN (at the end).",
                self.checks
            );
            wrap(&mut file, "# ", &sentence);
        }
        if !self.undecided.is_empty() {
            let sentence = "walpost refuses this file until what DECIDE says is decided: it cannot be had, and consumers would get other records. Delete the \
                            line under it, or write there what they are to get.";
            wrap(&mut file, "# ", sentence);
        }
        file.push('\n');
        file.push_str(&self.body);
        self.leftovers.sort_by_key(|left| left.heading);
        let mut last = None;
        for Leftover { heading, sentence } in &self.leftovers {
            if last.replace(*heading) != Some(*heading) {
                let _ = writeln!(file, "\n# {}", heading.line());
            }
            wrap(&mut file, "#   ", sentence);
        }
        (file, self.undecided)
    }
}

/// Writes a comment, broken at blanks.
fn wrap(out: &mut String, prefix: &str, text: &str) {
    let mut line = String::new();
    // TOML allows no controls in a comment, nor should a terminal see them.
    let text: String =
        text.chars().map(|ch| if ch.is_control() && !ch.is_whitespace() { '\u{FFFD}' } else { ch }).collect();
    for word in text.split_whitespace() {
        if !line.is_empty() && prefix.len() + line.chars().count() + 1 + word.chars().count() > WIDTH {
            let _ = writeln!(out, "{prefix}{line}");
            line.clear();
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    let _ = writeln!(out, "{prefix}{line}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_begins_with_what_to_do_and_ends_with_what_has_no_key() {
        let mut draft = Draft::default();
        draft.needs("PGPASSWORD");
        draft.section("[source]");
        draft.check("this: it may be otherwise.");
        draft.key("slot", "s");
        draft.decide("converters", "isbn", "they are Java.");
        draft.undecided("converters", "isbn");
        draft.leave(Heading::Needless, "b", "2", "why not.");
        draft.leave(Heading::Cannot, "a.password", "hunter2", "why.");
        draft.section("[sink]");
        let (file, undecided) = draft.finish(&["Made so.".to_owned()]);
        assert_eq!(undecided, ["\"converters\" = \"isbn\""]);
        let expected = "# Made so.\n# Set before the start: PGPASSWORD.\n\
                        # To look at before the first start: 1 of CHECK, 1 of CANNOT or UNKNOWN (at the end).\n\
                        # walpost refuses this file until what DECIDE says is decided: it cannot be had, and consumers would get other records.\n\
                        # Delete the line under it, or write there what they are to get.\n\n\
                        [source]\n# CHECK this: it may be otherwise.\nslot = \"s\"\n# DECIDE converters = isbn: they are Java.\n\
                        \"converters\" = \"isbn\"\n\n[sink]\n\n\
                        # CANNOT: walpost does not do this\n#   a.password = (not shown): why.\n\n\
                        # Needless here\n#   b = 2: why not.\n";
        assert_eq!(file, expected);
    }

    #[test]
    fn whatever_a_comment_says_the_file_is_toml() {
        let mut draft = Draft::default();
        let odd = "\u{0}\u{1b}[31m\u{7f}\n[sink]\r\ntype = 'x'\u{85}a = 1\u{2028}\u{b}\u{c}b = 2";
        draft.section("[source]");
        draft.check(odd);
        draft.option(odd, odd);
        draft.leave(Heading::Unknown, odd, odd, odd);
        let (file, _) = draft.finish(&[odd.to_owned()]);
        let (table, mistakes) = toml::de::DeTable::parse_recoverable(&file);
        assert!(mistakes.is_empty(), "{mistakes:?}: {file:?}");
        let source = table.get_ref().get("source").unwrap().get_ref().as_table().unwrap();
        assert_eq!((table.get_ref().len(), source.len()), (1, 1), "{file}");
        assert_eq!(source.get(odd).unwrap().get_ref().as_str(), Some(odd));
    }

    #[test]
    fn a_long_comment_is_broken_at_blanks() {
        let mut draft = Draft::default();
        draft.remark(&"word ".repeat(60));
        assert!(draft.body.lines().count() > 2 && draft.body.lines().all(|line| line.len() <= WIDTH), "{}", draft.body);
    }
}
