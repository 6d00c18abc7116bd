//! JSON as Jackson's `ObjectMapper.readTree` reads it, with the numbers at hand as they were written.
//!
//! It is strict JSON (RFC 8259), and what follows the first value is passed over. Of members of one name the last value counts, in the
//! place of the first. The limits are Jackson's (`StreamReadConstraints`): a document beyond them is none.

use std::borrow::Cow;

use super::document::{Document, Member, Node, Object, is_blank};
use super::names;
use crate::router::FieldNameAdjustment;

/// How deep values may lie in each other.
const MAX_DEPTH: usize = 1000;
/// How many digits a number may have, in all its parts; the zero in front of a point does not count.
const MAX_DIGITS: usize = 1000;
/// How many characters a name may have.
const MAX_NAME: usize = 50_000;
/// How many characters a string may have.
const MAX_STRING: usize = 20_000_000;

/// Text that Jackson does not take.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct NotJson;

impl<'a> Document<'a> {
    /// Parses text that begins with an object or an array.
    pub(super) fn parse(text: &'a str, adjustment: FieldNameAdjustment) -> Result<Self, NotJson> {
        let mut parser = Parser { rest: text.as_bytes(), adjustment, is_to_stay: false };
        let root = parser.value(0)?;
        let length = text.len() - parser.rest.len();
        let text = text.as_bytes().get(..length).unwrap_or_default();
        Ok(Self { text, root, is_to_stay: parser.is_to_stay })
    }
}

struct Parser<'a> {
    rest: &'a [u8],
    adjustment: FieldNameAdjustment,
    is_to_stay: bool,
}

impl<'a> Parser<'a> {
    fn peek(&mut self) -> Option<u8> {
        let blanks = self.rest.iter().take_while(|&&byte| is_blank(byte)).count();
        self.skip(blanks);
        self.rest.first().copied()
    }

    fn skip(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
    }

    fn expect(&mut self, token: u8) -> Result<(), NotJson> {
        if self.peek() != Some(token) {
            return Err(NotJson);
        }
        self.skip(1);
        Ok(())
    }

    /// Whether the token is next, which is taken then.
    fn take(&mut self, token: u8) -> bool {
        self.expect(token).is_ok()
    }

    fn value(&mut self, depth: usize) -> Result<Node<'a>, NotJson> {
        match self.peek().ok_or(NotJson)? {
            b'{' => self.object(depth + 1),
            b'[' => self.array(depth + 1),
            b'"' => Ok(Node::String(self.string(MAX_STRING)?)),
            b'-' | b'0'..=b'9' => self.number(),
            b't' => self.word(b"true", Node::Boolean(true)),
            b'f' => self.word(b"false", Node::Boolean(false)),
            b'n' => self.word(b"null", Node::Null),
            _ => Err(NotJson),
        }
    }

    fn word(&mut self, word: &[u8], node: Node<'a>) -> Result<Node<'a>, NotJson> {
        self.rest = self.rest.strip_prefix(word).ok_or(NotJson)?;
        Ok(node)
    }

    fn array(&mut self, depth: usize) -> Result<Node<'a>, NotJson> {
        self.expect(b'[')?;
        if depth > MAX_DEPTH {
            return Err(NotJson);
        }
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Node::Array(items));
        }
        loop {
            items.push(self.value(depth)?);
            if self.take(b']') {
                return Ok(Node::Array(items));
            }
            self.expect(b',')?;
        }
    }

    fn object(&mut self, depth: usize) -> Result<Node<'a>, NotJson> {
        self.expect(b'{')?;
        if depth > MAX_DEPTH {
            return Err(NotJson);
        }
        let mut members = Vec::new();
        if !self.take(b'}') {
            loop {
                let name = self.name()?;
                self.expect(b':')?;
                members.push(Member { name, value: self.value(depth)? });
                if self.take(b'}') {
                    break;
                }
                self.expect(b',')?;
            }
        }
        let object = self.adjusted(Object::new(members));
        Ok(Node::Object(Box::new(object)))
    }

    fn adjusted(&mut self, mut object: Object<'a>) -> Object<'a> {
        let mut is_changed = false;
        for member in &mut object.members {
            if let Some(name) = names::adjusted(&member.name, self.adjustment) {
                member.name = Cow::Owned(name);
                is_changed = true;
            }
        }
        if is_changed {
            self.is_to_stay |= object.has_twins();
            object = Object::new(object.members);
        }
        object
    }

    fn name(&mut self) -> Result<Cow<'a, str>, NotJson> {
        if self.peek() != Some(b'"') {
            return Err(NotJson);
        }
        Ok(match self.string(MAX_NAME)? {
            Cow::Borrowed(name) => std::str::from_utf8(name).map_or(Cow::Borrowed(""), Cow::Borrowed),
            Cow::Owned(name) => Cow::Owned(String::from_utf8(name).unwrap_or_else(|error| {
                self.is_to_stay = true;
                String::from_utf8_lossy(error.as_bytes()).into_owned()
            })),
        })
    }

    /// A string, whose quotation mark is next.
    fn string(&mut self, max_length: usize) -> Result<Cow<'a, [u8]>, NotJson> {
        self.skip(1);
        let mut decoded: Option<Vec<u8>> = None;
        loop {
            let plain = self.rest.iter().position(|byte| matches!(byte, 0..=0x1F | b'"' | b'\\')).ok_or(NotJson)?;
            let (before, odd) = self.rest.split_at_checked(plain).ok_or(NotJson)?;
            self.rest = odd.get(1..).unwrap_or_default();
            match odd.first() {
                Some(b'"') => {
                    let string = match decoded {
                        None => Cow::Borrowed(before),
                        Some(mut decoded) => {
                            decoded.extend_from_slice(before);
                            Cow::Owned(decoded)
                        }
                    };
                    return if has_at_most(&string, max_length) { Ok(string) } else { Err(NotJson) };
                }
                Some(b'\\') => {
                    let decoded = decoded.get_or_insert_default();
                    decoded.extend_from_slice(before);
                    self.escape(decoded)?;
                }
                _ => return Err(NotJson),
            }
        }
    }

    /// What stands after a backslash.
    fn escape(&mut self, out: &mut Vec<u8>) -> Result<(), NotJson> {
        let (&letter, rest) = self.rest.split_first().ok_or(NotJson)?;
        self.rest = rest;
        out.push(match letter {
            b'"' | b'\\' | b'/' => letter,
            b'b' => 0x08,
            b'f' => 0x0C,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => return self.unicode(out),
            _ => return Err(NotJson),
        });
        Ok(())
    }

    /// What stands after `\u`, with the other half of a pair of surrogates.
    fn unicode(&mut self, out: &mut Vec<u8>) -> Result<(), NotJson> {
        let mut code = self.four_digits()?;
        if let (0xD800..=0xDBFF, Some(rest)) = (code, self.rest.strip_prefix(br"\u")) {
            let mut ahead = Self { rest, adjustment: self.adjustment, is_to_stay: false };
            let low = ahead.four_digits()?;
            if let 0xDC00..=0xDFFF = low {
                code = 0x1_0000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                self.rest = ahead.rest;
            }
        }
        match char::from_u32(code) {
            Some(char) => out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes()),
            None => {
                let six = |shift: u32| 0x80 | u8::try_from(code >> shift & 0x3F).unwrap_or(0);
                out.extend_from_slice(&[0xED, six(6), six(0)]);
            }
        }
        Ok(())
    }

    fn four_digits(&mut self) -> Result<u32, NotJson> {
        let (digits, rest) = self.rest.split_first_chunk::<4>().ok_or(NotJson)?;
        self.rest = rest;
        digits.iter().try_fold(0, |sum, &digit| Some(sum << 4 | char::from(digit).to_digit(16)?)).ok_or(NotJson)
    }

    fn number(&mut self) -> Result<Node<'a>, NotJson> {
        let text = self.rest;
        self.take_sign(b"-");
        let begins_with_zero = self.rest.first() == Some(&b'0');
        let whole = self.digits()?;
        if begins_with_zero && whole > 1 {
            return Err(NotJson);
        }
        let mut more = 0;
        let has_point = self.rest.first() == Some(&b'.');
        if has_point {
            self.skip(1);
            more += self.digits()?;
        }
        let has_exponent = matches!(self.rest.first(), Some(b'e' | b'E'));
        if has_exponent {
            self.skip(1);
            self.take_sign(b"+-");
            more += self.digits()?;
        }
        let length = text.len() - self.rest.len();
        let text = text.get(..length).and_then(|text| std::str::from_utf8(text).ok()).ok_or(NotJson)?;
        let is_float = has_point || has_exponent;
        if more + if begins_with_zero { 0 } else { whole } > MAX_DIGITS {
            return Err(NotJson);
        }
        Ok(match is_float {
            true => Node::Float(text.parse().map_err(|_| NotJson)?),
            false => text.parse().map_or(Node::Huge, Node::Integer),
        })
    }

    fn take_sign(&mut self, signs: &[u8]) {
        if self.rest.first().is_some_and(|byte| signs.contains(byte)) {
            self.skip(1);
        }
    }

    /// At least one digit.
    fn digits(&mut self) -> Result<usize, NotJson> {
        let count = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        self.skip(count);
        if count == 0 { Err(NotJson) } else { Ok(count) }
    }
}

/// Whether a string has no more than so many of Java's characters.
fn has_at_most(text: &[u8], max: usize) -> bool {
    let units = |&byte: &u8| match byte {
        0x80..=0xBF => 0,
        0xF0.. => 2,
        _ => 1,
    };
    text.len() <= max || text.iter().map(units).sum::<usize>() <= max
}
