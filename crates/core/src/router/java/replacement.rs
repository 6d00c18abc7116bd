//! Replacement strings: `$1`, `${name}` and backslashes, as `Matcher.replaceFirst` reads them.

use fancy_regex::Captures;

use super::Refusal;
use super::pattern::{Groups, Pattern};

/// A replacement string, read for one pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::router) struct Replacement {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Text(String),
    Group(usize),
}

impl Replacement {
    /// Reads a replacement string that refers to the groups of `pattern`.
    ///
    /// Java finds its faults only when it replaces, that is once per record; here they are found at the start.
    ///
    /// # Errors
    /// A reference to a group that does not exist, or one that is not complete.
    pub(in crate::router) fn new(text: &str, pattern: &Pattern) -> Result<Self, Refusal> {
        let characters: Vec<char> = text.chars().collect();
        Reader { characters: &characters, next: 0, groups: pattern.groups(), parts: Vec::new() }.read()
    }

    /// The text, if it refers to no group.
    pub(in crate::router) fn fixed(&self) -> Option<&str> {
        match self.parts.as_slice() {
            [] => Some(""),
            [Part::Text(text)] => Some(text),
            _ => None,
        }
    }

    /// The replacement for a match of which `group` tells the groups.
    pub(in crate::router) fn expand<'t>(&self, group: impl Fn(usize) -> Option<&'t str>) -> String {
        let parts = self.parts.iter().map(|part| match part {
            Part::Text(text) => text.as_str(),
            Part::Group(number) => group(*number).unwrap_or_default(),
        });
        parts.collect()
    }

    /// `text` with the match replaced.
    pub(in crate::router) fn replace(&self, text: &str, found: &Captures<'_, str>) -> String {
        let expanded = self.expand(|number| found.get(number).map(|group| group.as_str()));
        let (before, after) = found.get(0).map_or((text, ""), |whole| {
            (text.get(..whole.start()).unwrap_or_default(), text.get(whole.end()..).unwrap_or_default())
        });
        [before, &expanded, after].concat()
    }
}

struct Reader<'r> {
    characters: &'r [char],
    next: usize,
    groups: &'r Groups,
    parts: Vec<Part>,
}

impl Reader<'_> {
    fn read(mut self) -> Result<Replacement, Refusal> {
        while let Some(ch) = self.advance() {
            match ch {
                '\\' => match self.advance() {
                    Some(escaped) => self.push(escaped),
                    None => return Err(self.refuse("the backslash at the end escapes nothing")),
                },
                '$' => {
                    let group = self.group()?;
                    self.parts.push(Part::Group(group));
                }
                ch => self.push(ch),
            }
        }
        Ok(Replacement { parts: self.parts })
    }

    fn group(&mut self) -> Result<usize, Refusal> {
        match self.peek() {
            Some('{') => self.named(),
            Some('0'..='9') => self.numbered(),
            _ => Err(self.refuse("this \"$\" is followed by neither a number nor {name}; write \\$ for itself")),
        }
    }

    fn named(&mut self) -> Result<usize, Refusal> {
        let dollar = self.next;
        self.next += 1;
        let mut name = String::new();
        while let Some(ch) = self.peek().filter(char::is_ascii_alphanumeric) {
            name.push(ch);
            self.next += 1;
        }
        if self.advance() != Some('}') {
            return Err(Refusal::at(dollar, "the group's name is not closed by a \"}\""));
        }
        let number = self.groups.named.get(&name).copied();
        number.ok_or_else(|| Refusal::at(dollar, format!("the pattern has no group called \"{name}\"")))
    }

    /// The first digit always counts, a further one only while there is a group of that number.
    fn numbered(&mut self) -> Result<usize, Refusal> {
        let dollar = self.next;
        let mut number = None;
        while let Some(digit) = self.peek().and_then(|ch| ch.to_digit(10)).and_then(|digit| usize::try_from(digit).ok())
        {
            let longer = number.unwrap_or(0_usize).saturating_mul(10).saturating_add(digit);
            if number.is_some() && longer > self.groups.opened {
                break;
            }
            number = Some(longer);
            self.next += 1;
        }
        let number = number.filter(|number| *number <= self.groups.opened);
        number.ok_or_else(|| {
            Refusal::at(dollar, format!("the pattern has {} groups and not this one", self.groups.opened))
        })
    }

    fn push(&mut self, ch: char) {
        match self.parts.last_mut() {
            Some(Part::Text(text)) => text.push(ch),
            _ => self.parts.push(Part::Text(ch.to_string())),
        }
    }

    fn peek(&self) -> Option<char> {
        self.characters.get(self.next).copied()
    }

    fn advance(&mut self) -> Option<char> {
        let ch = self.peek()?;
        self.next += 1;
        Some(ch)
    }

    fn refuse(&self, what: &str) -> Refusal {
        Refusal::at(self.next, what)
    }
}
