//! Sets of characters: what a class, a dot or an escape stands for once flags and case have been applied.

use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange};

use super::pattern::Flags;

/// `\n`, `\r`, `\u0085`, `\u2028`, `\u2029`: what ends a line in Java.
pub(super) const LINE_TERMINATORS: &[(char, char)] =
    &[('\n', '\n'), ('\r', '\r'), ('\u{85}', '\u{85}'), ('\u{2028}', '\u{2029}')];
/// `\d`.
pub(super) const DIGITS: &[(char, char)] = &[('0', '9')];
/// `\w`.
pub(super) const WORD: &[(char, char)] = &[('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')];
/// `\s`.
pub(super) const SPACE: &[(char, char)] = &[('\t', '\r'), (' ', ' ')];
/// `\h`.
pub(super) const HORIZONTAL: &[(char, char)] = &[
    ('\t', '\t'),
    (' ', ' '),
    ('\u{A0}', '\u{A0}'),
    ('\u{1680}', '\u{1680}'),
    ('\u{180E}', '\u{180E}'),
    ('\u{2000}', '\u{200A}'),
    ('\u{202F}', '\u{202F}'),
    ('\u{205F}', '\u{205F}'),
    ('\u{3000}', '\u{3000}'),
];
/// `\v`.
pub(super) const VERTICAL: &[(char, char)] = &[('\n', '\r'), ('\u{85}', '\u{85}'), ('\u{2028}', '\u{2029}')];

/// The characters outside ASCII that share a letter's case with one inside it, each with Java's simple upper case and the
/// lower case of that: the dotted and the dotless i, the long s, the Kelvin sign.
const FOLDED_INTO_ASCII: &[(char, char, char)] =
    &[('\u{130}', '\u{130}', 'i'), ('\u{131}', 'I', 'i'), ('\u{17F}', 'S', 's'), ('\u{212A}', '\u{212A}', 'k')];

/// A set of characters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Set(ClassUnicode);

impl Set {
    pub(super) fn from_ranges(ranges: &[(char, char)]) -> Self {
        Self(ClassUnicode::new(ranges.iter().map(|(from, to)| ClassUnicodeRange::new(*from, *to))))
    }

    pub(super) fn from_class(class: ClassUnicode) -> Self {
        Self(class)
    }

    /// Every character.
    pub(super) fn all() -> Self {
        Self::from_ranges(&[('\0', char::MAX)])
    }

    /// The characters of a range under these flags. `None` where the case of a character outside ASCII would matter, which
    /// Java takes from tables that nobody else has.
    ///
    /// Without `(?u)` Java's `(?i)` concerns the letters of ASCII alone.
    pub(super) fn of_range(from: char, to: char, flags: Flags) -> Option<Self> {
        let within = |ch: char| from <= ch && ch <= to;
        let mut ranges = vec![(from, to)];
        if flags.case_insensitive {
            let letters = ('a'..='z').chain('A'..='Z');
            let other_case = letters.filter(|ch| within(ch.to_ascii_uppercase()) || within(ch.to_ascii_lowercase()));
            ranges.extend(other_case.map(|ch| (ch, ch)));
        }
        if flags.case_insensitive && flags.unicode_case {
            if !to.is_ascii() && (from != to || has_case(from)) {
                return None;
            }
            let folded = FOLDED_INTO_ASCII.iter().filter(|(_, upper, lower)| match from == to {
                true => from.to_ascii_lowercase() == *lower,
                false => within(*upper) || within(*lower),
            });
            ranges.extend(folded.map(|(ch, _, _)| (*ch, *ch)));
        }
        Some(Self::from_ranges(&ranges))
    }

    pub(super) fn union(mut self, other: &Self) -> Self {
        self.0.union(&other.0);
        self
    }

    pub(super) fn intersect(mut self, other: &Self) -> Self {
        self.0.intersect(&other.0);
        self
    }

    pub(super) fn negate(mut self) -> Self {
        self.0.negate();
        self
    }

    /// Negated if asked for.
    pub(super) fn negate_if(self, negate: bool) -> Self {
        if negate { self.negate() } else { self }
    }

    /// As a regular expression for one of them.
    pub(super) fn translate(&self) -> String {
        match self.0.ranges() {
            [] => format!("[^{}-{}]", hex('\0'), hex(char::MAX)),
            [only] if only.start() == only.end() => literal(only.start()),
            ranges => {
                let spans = ranges.iter().map(|range| format!("{}-{}", hex(range.start()), hex(range.end())));
                format!("[{}]", spans.collect::<String>())
            }
        }
    }
}

/// One character as a regular expression for itself.
fn literal(ch: char) -> String {
    if ch.is_ascii_alphanumeric() { ch.to_string() } else { hex(ch) }
}

fn hex(ch: char) -> String {
    format!("\\x{{{:x}}}", u32::from(ch))
}

fn has_case(ch: char) -> bool {
    !ch.to_lowercase().eq(std::iter::once(ch)) || !ch.to_uppercase().eq(std::iter::once(ch))
}
