//! Character classes: `[a-z&&[^b]]`.
//!
//! The grammar is that of Java's own parser, down to where it surprises: `]` is itself when it comes first, a class stands for
//! the union of its members, and what follows `&&` up to the next bracket is one operand, `&&` inside it included.

use super::Refusal;
use super::escape::Escape;
use super::pattern::{Translator, is_blank};
use super::set::Set;

impl Translator {
    /// From `[` to its `]`.
    pub(super) fn bracket(&mut self) -> Result<Set, Refusal> {
        let start = self.cursor.position();
        self.cursor.skip(1);
        let negated = self.cursor.take("^");
        let set = self.deeper(|inner| inner.members(start))?;
        self.cursor.skip(1);
        Ok(set.negate_if(negated))
    }

    /// Members up to the `]`, which stays.
    fn members(&mut self, start: usize) -> Result<Set, Refusal> {
        let mut all: Option<Set> = None;
        loop {
            let member = match self.cursor.special(0) {
                Some(']') => match all {
                    Some(set) => return Ok(set),
                    None => self.range()?,
                },
                Some('[') => self.bracket()?,
                Some('&') if self.cursor.starts_with("&&") => {
                    let right = self.right_operand(start)?;
                    all = Some(all.map_or(right.clone(), |left| left.intersect(&right)));
                    continue;
                }
                _ if self.cursor.token(0).is_none() => return Err(Refusal::at(start, "this class is not closed")),
                _ => self.range()?,
            };
            all = Some(all.map_or(member.clone(), |set| set.union(&member)));
        }
    }

    /// What an `&&` intersects with. Only `]` or another `&&` may follow it.
    fn right_operand(&mut self, start: usize) -> Result<Set, Refusal> {
        let position = self.cursor.position();
        self.cursor.skip(2);
        let mut all: Option<Set> = None;
        while !matches!(self.cursor.special(0), Some(']' | '&')) {
            let member = match self.cursor.special(0) {
                Some('[') => self.bracket()?,
                _ => self.deeper(|inner| inner.members(start))?,
            };
            all = Some(all.map_or(member.clone(), |set| set.union(&member)));
        }
        if self.cursor.starts_with("]") || self.cursor.starts_with("&&") {
            return all.ok_or_else(|| Refusal::at(position, "nothing stands to the right of this \"&&\""));
        }
        Err(self.cursor.refuse("a single \"&\" after an \"&&\"; write it as \\&"))
    }

    /// One character, one range, or an escape that stands for several.
    fn range(&mut self) -> Result<Set, Refusal> {
        let position = self.cursor.position();
        let from = match self.class_character()? {
            Escape::Char(ch) => ch,
            Escape::Set(set) => return Ok(set),
        };
        let is_range = self.cursor.special(0) == Some('-')
            && self.cursor.token(1).is_some()
            && !matches!(self.cursor.special(1), Some('[' | ']'));
        if !is_range {
            return self.set_of(from, from, position);
        }
        self.cursor.skip(1);
        match self.class_character()? {
            Escape::Char(to) if from <= to => self.set_of(from, to, position),
            Escape::Char(_) => Err(Refusal::at(position, "this range ends before it begins")),
            Escape::Set(_) => Err(Refusal::at(position, "this range ends in something that is not one character")),
        }
    }

    fn class_character(&mut self) -> Result<Escape, Refusal> {
        match self.cursor.special(0) {
            // Where a range begins, Java still reads it as it did before it became a class.
            Some('\\') if self.cursor.special(1) == Some('v') && self.cursor.special(2) == Some('-') => {
                self.cursor.skip(2);
                Ok(Escape::Char('\u{B}'))
            }
            Some('\\') => self.escape(),
            Some(ch) if self.flags.comments && (is_blank(ch) || ch == '#') => {
                Err(self.cursor.refuse("a blank or \"#\" in a class under (?x); write it with a backslash"))
            }
            _ => match self.cursor.advance() {
                Some(token) => Ok(Escape::Char(token.ch)),
                None => Err(self.cursor.refuse("the class is not closed")),
            },
        }
    }
}
