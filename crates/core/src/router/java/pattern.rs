//! The grammar of a pattern: alternatives, sequences, quantifiers, and what matches without width.

use std::collections::BTreeMap;

use fancy_regex::{Captures, Regex, RegexBuilder};

use super::Refusal;
use super::set::{LINE_TERMINATORS, Set};
use super::source::Cursor;

/// The steps of backtracking that one value may cost. Only patterns with look-around, back-references or possessive
/// quantifiers backtrack at all; a million steps take some ten milliseconds.
const STEP_LIMIT: usize = 1_000_000;

/// How deeply groups and classes may be nested.
pub(super) const MAX_DEPTH: usize = 40;

/// A compiled pattern.
#[derive(Debug)]
pub(in crate::router) struct Pattern {
    whole: Regex,
    part: Regex,
    groups: Groups,
}

/// The pattern takes too many steps on this value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the pattern does not come to an end within {STEP_LIMIT} steps")]
pub(in crate::router) struct StepLimit;

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// Java would refuse it too, or it cannot be translated exactly.
    pub(in crate::router) fn new(pattern: &str) -> Result<Self, Refusal> {
        let (translation, groups) = translate(pattern)?;
        let whole = compile(&format!("\\A(?:{translation})\\z"))?;
        Ok(Self { whole, part: compile(&translation)?, groups })
    }

    /// `Matcher.matches()`: whether the pattern can match all of `text`.
    ///
    /// # Errors
    /// The step limit.
    pub(in crate::router) fn matches(&self, text: &str) -> Result<bool, StepLimit> {
        self.whole.is_match(text).map_err(|_| StepLimit)
    }

    /// `Matcher.find()`: the first match anywhere in `text`.
    ///
    /// # Errors
    /// The step limit.
    pub(in crate::router) fn find<'t>(&self, text: &'t str) -> Result<Option<Captures<'t, str>>, StepLimit> {
        self.part.captures(text).map_err(|_| StepLimit)
    }

    pub(super) fn groups(&self) -> &Groups {
        &self.groups
    }
}

/// The engine's own error texts speak of the translation, so they are not repeated. Its rewriting of patterns is off: as of
/// 0.20.2 it merges nested repetitions that differ, so that `(\S+?)*` takes one character.
fn compile(translation: &str) -> Result<Regex, Refusal> {
    RegexBuilder::new(translation).optimize(false).backtrack_limit(STEP_LIMIT).build().map_err(|error| {
        Refusal::Whole(match error {
            fancy_regex::Error::CompileError(error) => match *error {
                fancy_regex::CompileError::InnerError(_) | fancy_regex::CompileError::PatternTooComplex => {
                    "it is too large when its repetitions are written out".to_owned()
                }
                fancy_regex::CompileError::LookBehindNotConst
                | fancy_regex::CompileError::VariableLookBehindRequiresFeature
                | fancy_regex::CompileError::DfaBuildError(..) => {
                    "it looks behind over an expression of varying length that cannot be translated".to_owned()
                }
                _ => "it combines constructs that cannot be translated".to_owned(),
            },
            _ => "it combines constructs that cannot be translated".to_owned(),
        })
    })
}

/// The capturing groups of a pattern.
#[derive(Debug, Default)]
pub(super) struct Groups {
    /// How many were opened; they are numbered from 1.
    pub(super) opened: usize,
    /// The numbers of those that have ended.
    pub(super) ended: Vec<usize>,
    /// The numbers of those that have a name.
    pub(super) named: BTreeMap<String, usize>,
}

/// What `(?…)` can switch. Each takes effect on what is translated while it is on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Flags {
    /// `i`
    pub(super) case_insensitive: bool,
    /// `m`
    pub(super) multiline: bool,
    /// `s`
    pub(super) dot_all: bool,
    /// `d`
    pub(super) unix_lines: bool,
    /// `u`
    pub(super) unicode_case: bool,
    /// `x`
    pub(super) comments: bool,
    /// `U`
    pub(super) unicode_classes: bool,
}

/// A part of the translation.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) text: String,
    /// It can match without taking a character.
    pub(super) can_be_empty: bool,
}

/// A part that a quantifier may follow.
#[derive(Debug)]
pub(super) struct Atom {
    pub(super) part: Part,
    pub(super) kind: Kind,
}

/// What a quantifier has to know of an atom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It takes characters.
    Taking,
    /// It only looks.
    Looking,
    /// It is `\R`, one or two characters.
    LineEnding,
}

impl Atom {
    /// One of a set of characters.
    pub(super) fn one_of(set: &Set) -> Self {
        Self { part: Part { text: set.translate(), can_be_empty: false }, kind: Kind::Taking }
    }

    /// A condition on where it stands.
    pub(super) fn assertion(text: &str) -> Self {
        Self { part: Part { text: text.to_owned(), can_be_empty: true }, kind: Kind::Looking }
    }
}

/// A pattern on its way into the syntax of the engine.
#[derive(Debug)]
pub(super) struct Translator {
    pub(super) cursor: Cursor,
    pub(super) flags: Flags,
    pub(super) groups: Groups,
    pub(super) depth: usize,
    /// How many look-behinds are open. Java wants to know how far back they reach.
    pub(super) looking_behind: usize,
}

/// The pattern in the syntax of the engine, and its groups.
fn translate(pattern: &str) -> Result<(String, Groups), Refusal> {
    let mut translator = Translator {
        cursor: Cursor::new(pattern),
        flags: Flags::default(),
        groups: Groups::default(),
        depth: 0,
        looking_behind: 0,
    };
    let part = translator.alternatives()?;
    match translator.cursor.token(0) {
        None => Ok((part.text, translator.groups)),
        Some(_) => Err(translator.cursor.refuse("this \")\" closes no group")),
    }
}

impl Translator {
    /// Everything up to the end of the group.
    pub(super) fn alternatives(&mut self) -> Result<Part, Refusal> {
        let mut all = self.sequence()?;
        while self.cursor.take("|") {
            let next = self.sequence()?;
            all.text.push('|');
            all.text.push_str(&next.text);
            all.can_be_empty |= next.can_be_empty;
        }
        Ok(all)
    }

    fn sequence(&mut self) -> Result<Part, Refusal> {
        let mut all = Part { text: String::new(), can_be_empty: true };
        loop {
            self.skip_comments();
            if self.cursor.token(0).is_none() || matches!(self.cursor.special(0), Some('|' | ')')) {
                return Ok(all);
            }
            let groups_before = self.groups.opened;
            if let Some(atom) = self.atom()? {
                let part = self.quantified(atom, groups_before)?;
                all.text.push_str(&part.text);
                all.can_be_empty &= part.can_be_empty;
            }
        }
    }

    /// What a quantifier may follow; `None` for switches alone.
    fn atom(&mut self) -> Result<Option<Atom>, Refusal> {
        let position = self.cursor.position();
        Ok(Some(match self.cursor.special(0) {
            Some('(') => return self.group(),
            Some('[') => Atom::one_of(&self.bracket()?),
            Some('\\') => self.escaped_atom()?,
            Some('^') => self.take_assertion(line_start(self.flags)),
            Some('$') => self.take_assertion(line_end(self.flags)),
            Some('.') => self.dot(),
            Some(quantifier @ ('*' | '+' | '?' | '{')) => {
                return Err(self.cursor.refuse(format!("there is nothing for this \"{quantifier}\" to repeat")));
            }
            _ => match self.cursor.advance() {
                Some(token) => Atom::one_of(&self.set_of(token.ch, token.ch, position)?),
                None => return Ok(None),
            },
        }))
    }

    fn take_assertion(&mut self, text: &str) -> Atom {
        self.cursor.skip(1);
        Atom::assertion(text)
    }

    fn dot(&mut self) -> Atom {
        self.cursor.skip(1);
        let excluded: &[(char, char)] = match self.flags {
            Flags { dot_all: true, .. } => &[],
            Flags { unix_lines: true, .. } => &[('\n', '\n')],
            _ => LINE_TERMINATORS,
        };
        Atom::one_of(&Set::from_ranges(excluded).negate())
    }

    /// A character or a range under the flags.
    pub(super) fn set_of(&self, from: char, to: char, position: usize) -> Result<Set, Refusal> {
        Set::of_range(from, to, self.flags).ok_or_else(|| {
            Refusal::at(position, "the case of a character outside ASCII under (?iu) cannot be translated")
        })
    }

    /// The atom with the quantifier after it, if there is one. `groups_before` is how many groups were opened before it.
    ///
    /// Java does not go back into a repetition of a possessive quantifier once it is over, not even to reach the number that
    /// is asked for; nor into a repeated `\R`. What it captures of a repetition that took nothing is its own secret.
    fn quantified(&mut self, atom: Atom, groups_before: usize) -> Result<Part, Refusal> {
        self.skip_comments();
        let position = self.cursor.position();
        let Some((at_least, at_most)) = self.quantifier()? else { return Ok(atom.part) };
        if atom.kind == Kind::Looking {
            return Err(Refusal::at(position, "repeating what matches without width cannot be translated"));
        }
        if self.looking_behind > 0 && at_most.is_none() {
            return Err(Refusal::at(position, "a look-behind over an unbounded repetition; give it an upper bound"));
        }
        let captures = self.groups.opened > groups_before;
        if captures && atom.part.can_be_empty && at_most != Some(1) {
            return Err(Refusal::at(position, "repeating a capture that can be empty cannot be translated"));
        }
        self.skip_comments();
        let mode = self.cursor.take_if(|ch| matches!(ch, '?' | '+'));
        self.skip_comments();
        if self.cursor.starts_with("{") {
            return Err(self.cursor.refuse("a quantifier after a quantifier; put the first one into a group"));
        }
        let is_atomic = mode == Some('+') || atom.kind == Kind::LineEnding;
        let mut text = if is_atomic { format!("(?>{})", atom.part.text) } else { atom.part.text };
        let at_most = at_most.map(|number| number.to_string()).unwrap_or_default();
        text.push_str(&format!("{{{at_least},{at_most}}}"));
        text.extend(mode);
        Ok(Part { text, can_be_empty: atom.part.can_be_empty || at_least == 0 })
    }

    /// How often: at least, and at most if there is a bound.
    fn quantifier(&mut self) -> Result<Option<(u32, Option<u32>)>, Refusal> {
        let start = self.cursor.position();
        match self.cursor.take_if(|ch| matches!(ch, '*' | '+' | '?' | '{')) {
            None => return Ok(None),
            Some('*') => return Ok(Some((0, None))),
            Some('+') => return Ok(Some((1, None))),
            Some('?') => return Ok(Some((0, Some(1)))),
            Some(_) => {}
        }
        let is_digit = |ch: char| ch.is_ascii_digit();
        let at_least = self.cursor.take_while(is_digit);
        let at_most = if self.cursor.take(",") { self.cursor.take_while(is_digit) } else { at_least.clone() };
        if at_least.is_empty() || !self.cursor.take("}") {
            return Err(Refusal::at(
                start,
                "this \"{\" starts no repetition; write {n}, {n,}, {n,m}, or \\{ for itself",
            ));
        }
        let number =
            |digits: &str| digits.parse::<u32>().map_err(|_| Refusal::at(start, "this repetition is too large"));
        let at_least = number(&at_least)?;
        let at_most = if at_most.is_empty() { None } else { Some(number(&at_most)?) };
        match at_most {
            Some(bound) if bound < at_least => {
                Err(Refusal::at(start, "the upper bound of this repetition is below the lower one"))
            }
            _ => Ok(Some((at_least, at_most))),
        }
    }

    /// Under `(?x)`, blanks and what follows a `#` in its line are no part of the pattern.
    pub(super) fn skip_comments(&mut self) {
        while self.flags.comments {
            let blanks = self.cursor.take_while(is_blank);
            if self.cursor.take("#") {
                let unix = self.flags.unix_lines;
                while self.cursor.token(0).is_some_and(|token| !ends_comment(token.ch, unix)) {
                    self.cursor.skip(1);
                }
            } else if blanks.is_empty() {
                return;
            }
        }
    }

    /// Runs `inner` one level deeper.
    pub(super) fn deeper<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, Refusal>) -> Result<T, Refusal> {
        if self.depth >= MAX_DEPTH {
            return Err(self.cursor.refuse(format!("more than {MAX_DEPTH} groups or classes inside each other")));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }
}

/// A blank of ASCII, which `(?x)` skips.
pub(super) fn is_blank(ch: char) -> bool {
    matches!(ch, '\t'..='\r' | ' ')
}

fn ends_comment(ch: char, unix_lines: bool) -> bool {
    if unix_lines { ch == '\n' } else { matches!(ch, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}') }
}

/// `^`. In multi-line mode it holds after every line terminator, but never at the end of the text.
fn line_start(flags: Flags) -> &'static str {
    match flags {
        Flags { multiline: false, .. } => r"\A",
        Flags { unix_lines: true, .. } => r"(?:(?!\z)(?:\A|(?<=\x{a})))",
        _ => r"(?:(?!\z)(?:\A|(?<=[\x{a}\x{85}\x{2028}\x{2029}])|(?<=\x{d})(?!\x{a})))",
    }
}

/// `$`. It holds at the end and before a line terminator: the last one, or in multi-line mode any.
fn line_end(flags: Flags) -> &'static str {
    match flags {
        Flags { multiline: true, unix_lines: true, .. } => r"(?:\z|(?=\x{a}))",
        Flags { multiline: true, .. } => r"(?:\z|(?=[\x{d}\x{85}\x{2028}\x{2029}])|(?<!\x{d})(?=\x{a}))",
        _ => text_end(flags),
    }
}

/// `\Z`, and `$` outside multi-line mode: at the end, or before the line terminator that is the last of the text.
pub(super) fn text_end(flags: Flags) -> &'static str {
    match flags {
        Flags { unix_lines: true, .. } => r"(?=\x{a}?\z)",
        _ => r"(?:(?=(?:\x{d}\x{a}|[\x{d}\x{85}\x{2028}\x{2029}])?\z)|(?<!\x{d})(?=\x{a}\z))",
    }
}
