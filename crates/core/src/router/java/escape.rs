//! What a backslash introduces.

use super::Refusal;
use super::pattern::{Atom, Kind, Part, Translator, text_end};
use super::set::{DIGITS, HORIZONTAL, SPACE, Set, VERTICAL, WORD};

/// `\R`.
const LINE_ENDING: &str = r"(?:\x{d}\x{a}|[\x{a}-\x{d}\x{85}\x{2028}\x{2029}])";

fn part(text: &str, can_be_empty: bool) -> Part {
    Part { text: text.to_owned(), can_be_empty }
}

/// An escape that is allowed inside a class as well as outside.
pub(super) enum Escape {
    Char(char),
    Set(Set),
}

impl Translator {
    /// An escape outside of a class.
    pub(super) fn escaped_atom(&mut self) -> Result<Atom, Refusal> {
        let position = self.cursor.position();
        let atom = match self.cursor.special(1) {
            Some('1'..='9') => return self.back_reference(),
            Some('k') => return self.named_back_reference(),
            Some('A' | 'G') => Atom::assertion(r"\A"),
            Some('z') => Atom::assertion(r"\z"),
            Some('Z') => Atom::assertion(text_end(self.flags)),
            Some('b') if self.cursor.special(2) == Some('{') => {
                return Err(self.cursor.refuse(r"\b{…} cannot be translated"));
            }
            Some('b') => self.word_boundary(true),
            Some('B') => self.word_boundary(false),
            Some('R') => Atom { part: part(LINE_ENDING, false), kind: Kind::LineEnding },
            _ => {
                let set = match self.escape()? {
                    Escape::Char(ch) => self.set_of(ch, ch, position)?,
                    Escape::Set(set) => set,
                };
                return Ok(Atom::one_of(&set));
            }
        };
        self.cursor.skip(2);
        Ok(atom)
    }

    fn word_boundary(&self, wanted: bool) -> Atom {
        Atom::assertion(match (self.flags.unicode_classes, wanted) {
            (true, true) => r"\b",
            (true, false) => r"\B",
            (false, true) => r"(?:(?<=[0-9A-Z_a-z])(?![0-9A-Z_a-z])|(?<![0-9A-Z_a-z])(?=[0-9A-Z_a-z]))",
            (false, false) => r"(?:(?<=[0-9A-Z_a-z])(?=[0-9A-Z_a-z])|(?<![0-9A-Z_a-z])(?![0-9A-Z_a-z]))",
        })
    }

    /// `\1`. Java takes a further digit only while a group of that number has been opened.
    fn back_reference(&mut self) -> Result<Atom, Refusal> {
        let position = self.cursor.position();
        self.cursor.skip(1);
        let mut number = 0;
        while let Some(digit) = self.cursor.special(0).and_then(|ch| ch.to_digit(10)) {
            let longer = digit.try_into().ok().and_then(|digit: usize| digit.checked_add(number * 10));
            match longer {
                Some(longer) if number == 0 || longer <= self.groups.opened => number = longer,
                _ => break,
            }
            self.cursor.skip(1);
        }
        self.reference_to(number, position)
    }

    fn named_back_reference(&mut self) -> Result<Atom, Refusal> {
        let position = self.cursor.position();
        self.cursor.skip(2);
        if !self.cursor.take("<") {
            return Err(Refusal::at(position, r"\k is not followed by <name>"));
        }
        let name = self.group_name()?;
        match self.groups.named.get(&name).copied() {
            Some(number) => self.reference_to(number, position),
            None => Err(Refusal::at(position, format!("no group before it is called \"{name}\""))),
        }
    }

    fn reference_to(&self, number: usize, position: usize) -> Result<Atom, Refusal> {
        if self.flags.case_insensitive {
            return Err(Refusal::at(position, "a back-reference under (?i) cannot be translated"));
        }
        if self.looking_behind > 0 {
            return Err(Refusal::at(position, "a look-behind over a back-reference, which has no greatest length"));
        }
        if !self.groups.ended.contains(&number) {
            return Err(Refusal::at(position, format!("group {number} has not ended before this reference to it")));
        }
        Ok(Atom { part: part(&format!("(?:\\{number})"), true), kind: Kind::Taking })
    }

    /// An escape that stands for characters.
    pub(super) fn escape(&mut self) -> Result<Escape, Refusal> {
        let position = self.cursor.position();
        self.cursor.skip(1);
        let Some(token) = self.cursor.advance() else {
            return Err(Refusal::at(position, "the backslash at the end escapes nothing"));
        };
        Ok(match token.ch {
            'd' | 'D' | 'h' | 'H' | 's' | 'S' | 'v' | 'V' | 'w' | 'W' => Escape::Set(self.predefined(token.ch)),
            'p' | 'P' => Escape::Set(self.property()?.negate_if(token.ch == 'P')),
            't' => Escape::Char('\t'),
            'n' => Escape::Char('\n'),
            'r' => Escape::Char('\r'),
            'f' => Escape::Char('\u{C}'),
            'a' => Escape::Char('\u{7}'),
            'e' => Escape::Char('\u{1B}'),
            'c' => Escape::Char(self.control()?),
            '0' => Escape::Char(self.octal(position)?),
            'x' => Escape::Char(self.hexadecimal(position)?),
            'u' => Escape::Char(self.utf16(position)?),
            'X' | 'N' => {
                return Err(Refusal::at(position, format!("\\{} cannot be translated", token.ch)));
            }
            ch if ch.is_ascii_alphanumeric() => {
                return Err(Refusal::at(position, format!("\\{ch} means nothing in Java, at least not here")));
            }
            ch => Escape::Char(ch),
        })
    }

    fn predefined(&self, ch: char) -> Set {
        let set = match (ch.to_ascii_lowercase(), self.flags.unicode_classes) {
            ('d', true) => Set::unicode("Nd"),
            ('s', true) => Set::unicode("White_Space"),
            ('w', true) => Set::unicode_word(),
            ('d', false) => Set::from_ranges(DIGITS),
            ('s', false) => Set::from_ranges(SPACE),
            ('w', false) => Set::from_ranges(WORD),
            ('h', _) => Set::from_ranges(HORIZONTAL),
            _ => Set::from_ranges(VERTICAL),
        };
        set.negate_if(ch.is_ascii_uppercase())
    }

    /// `\cX`: the character with its bit 6 turned over, whatever it is.
    fn control(&mut self) -> Result<char, Refusal> {
        let refusal = self.cursor.refuse(r"\c is not followed by a character of ASCII");
        let token = self.cursor.advance().filter(|token| token.ch.is_ascii());
        token.and_then(|token| char::from_u32(u32::from(token.ch) ^ 64)).ok_or(refusal)
    }

    /// `\0n`, `\0nn`, `\0mnn` with `m` up to 3.
    fn octal(&mut self, position: usize) -> Result<char, Refusal> {
        let longest = if matches!(self.cursor.special(0), Some('0'..='3')) { 3 } else { 2 };
        let digits: String =
            (0..longest).map_while(|ahead| self.cursor.special(ahead).filter(|ch| ch.is_digit(8))).collect();
        self.cursor.skip(digits.len());
        let value = u32::from_str_radix(&digits, 8).ok();
        value.and_then(char::from_u32).ok_or_else(|| Refusal::at(position, r"\0 is not followed by an octal number"))
    }

    /// `\xhh` and `\x{h…}`.
    fn hexadecimal(&mut self, position: usize) -> Result<char, Refusal> {
        let is_hex = |ch: char| ch.is_ascii_hexdigit();
        let digits = if self.cursor.take("{") {
            let digits = self.cursor.take_while(is_hex);
            if self.cursor.take("}") { digits } else { String::new() }
        } else {
            self.hex_digits(2)
        };
        let value = u32::from_str_radix(&digits, 16).ok();
        value.and_then(char::from_u32).ok_or_else(|| {
            Refusal::at(position, r"\x is not followed by two hexadecimal digits or by {h…h} that name a character")
        })
    }

    /// `\uhhhh`, twice for a character outside the basic plane.
    fn utf16(&mut self, position: usize) -> Result<char, Refusal> {
        let first = u16::from_str_radix(&self.hex_digits(4), 16).ok();
        let first = first.ok_or_else(|| Refusal::at(position, r"\u is not followed by four hexadecimal digits"))?;
        let mut units = vec![first];
        if (0xD800..0xDC00).contains(&first) && self.cursor.take("\\u") {
            units.extend(u16::from_str_radix(&self.hex_digits(4), 16).ok());
        }
        let decoded: Result<Vec<char>, _> = char::decode_utf16(units).collect();
        match decoded.as_deref() {
            Ok([ch]) => Ok(*ch),
            _ => Err(Refusal::at(position, "half of a surrogate pair, which no text in UTF-8 can contain")),
        }
    }

    /// So many hexadecimal digits; fewer if there are not so many, which no caller accepts.
    fn hex_digits(&mut self, count: usize) -> String {
        let digits: String =
            (0..count).map_while(|ahead| self.cursor.special(ahead).filter(char::is_ascii_hexdigit)).collect();
        if digits.len() == count {
            self.cursor.skip(count);
            digits
        } else {
            String::new()
        }
    }
}
