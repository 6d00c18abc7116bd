//! JSON as Jackson's `ObjectMapper.readTree` reads it, with the numbers at hand as they were written.
//!
//! It is strict JSON (RFC 8259), and what follows the first value is passed over. Of members of one name the last value counts, in the
//! place of the first. The limits are Jackson's (`StreamReadConstraints`): a document beyond them is none.

use std::borrow::Cow;

use bytes::Bytes;

use super::names;
use crate::router::FieldNameAdjustment;

/// How deep values may lie in each other.
const MAX_DEPTH: usize = 1000;
/// How many digits a number may have. (Jackson counts those of fractions by the way it came to them; here one that begins with `0.`
/// may have any number.)
const MAX_DIGITS: usize = 1000;
/// How many characters a name may have.
const MAX_NAME: usize = 50_000;
/// How many characters a string may have.
const MAX_STRING: usize = 20_000_000;

/// A document.
#[derive(Debug)]
pub(super) struct Document<'a> {
    /// Its text, without what follows it.
    text: &'a [u8],
    /// The value.
    pub(super) root: Node<'a>,
    /// Whether no schema can name what it names: two names become one by the adjustment, or one is no Unicode.
    pub(super) is_to_stay: bool,
}

/// A value of a document.
#[derive(Debug)]
pub(super) enum Node<'a> {
    Null,
    Boolean(bool),
    /// An integer of 64 bits.
    Integer(i64),
    /// An integer beyond them.
    Huge,
    /// A number with a point or an exponent.
    Float(f64),
    /// A string in UTF-8, in which a surrogate without its other half has three bytes of its own.
    String(Cow<'a, [u8]>),
    Array(Vec<Node<'a>>),
    Object(Box<Object<'a>>),
}

/// The members of an object, each name once.
#[derive(Debug)]
pub(super) struct Object<'a> {
    pub(super) members: Vec<Member<'a>>,
    /// The members in the order of their names, where there are many.
    sorted: Vec<usize>,
}

#[derive(Debug)]
pub(super) struct Member<'a> {
    pub(super) name: Cow<'a, str>,
    pub(super) value: Node<'a>,
}

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

    /// How many bytes it has.
    pub(super) fn length(&self) -> usize {
        self.text.len()
    }

    /// The text without the blanks between its tokens.
    pub(super) fn compact(&self) -> Bytes {
        let mut out = Vec::with_capacity(self.text.len());
        let (mut is_in_string, mut is_escaped) = (false, false);
        for &byte in self.text {
            if is_in_string || !is_blank(byte) {
                out.push(byte);
            }
            is_in_string ^= byte == b'"' && !is_escaped;
            is_escaped = is_in_string && byte == b'\\' && !is_escaped;
        }
        Bytes::from(out)
    }
}

impl<'a> Object<'a> {
    /// Above so many members a name is searched for in order.
    const FEW: usize = 8;

    fn new(mut members: Vec<Member<'a>>) -> Self {
        let sorted = if members.len() <= Self::FEW {
            keep_last_of_few(&mut members);
            Vec::new()
        } else {
            keep_last_of_many(&mut members);
            sorted(&members)
        };
        Self { members, sorted }
    }

    /// Whether two members have one name.
    fn has_twins(&self) -> bool {
        let name = |index: &usize| self.members.get(*index).map(|member| &member.name);
        sorted(&self.members).windows(2).any(|pair| matches!(pair, [a, b] if name(a) == name(b)))
    }

    /// Where the member of this name is. `hint` is where it probably is.
    pub(super) fn position(&self, name: &str, hint: usize) -> Option<usize> {
        if self.members.get(hint).is_some_and(|member| member.name == name) {
            return Some(hint);
        }
        if self.sorted.is_empty() {
            return self.members.iter().position(|member| member.name == name);
        }
        let name_of = |index: &usize| self.members.get(*index).map_or("", |member| &member.name);
        let found = self.sorted.binary_search_by(|index| name_of(index).cmp(name)).ok()?;
        self.sorted.get(found).copied()
    }
}

/// The members' places in the order of their names, those of one name in order of appearance.
fn sorted(members: &[Member<'_>]) -> Vec<usize> {
    let mut sorted: Vec<usize> = (0..members.len()).collect();
    sorted.sort_by_key(|&index| members.get(index).map(|member| member.name.as_ref()));
    sorted
}

fn keep_last_of_few(members: &mut Vec<Member<'_>>) {
    let mut index = 0;
    while let Some(member) = members.get(index) {
        match members.iter().take(index).position(|earlier| earlier.name == member.name) {
            Some(first) => {
                let last = members.remove(index);
                if let Some(first) = members.get_mut(first) {
                    first.value = last.value;
                }
            }
            None => index += 1,
        }
    }
}

fn keep_last_of_many(members: &mut Vec<Member<'_>>) {
    let order = sorted(members);
    let mut is_first = vec![true; members.len()];
    let mut first = None;
    for index in order {
        let is_same =
            |first: &usize| matches!((members.get(*first), members.get(index)), (Some(a), Some(b)) if a.name == b.name);
        let Some(same) = first.filter(is_same) else {
            first = Some(index);
            continue;
        };
        members_swap_value(members, same, index);
        if let Some(is_first) = is_first.get_mut(index) {
            *is_first = false;
        }
    }
    let mut kept = is_first.into_iter();
    members.retain(|_| kept.next().unwrap_or(true));
}

fn members_swap_value(members: &mut [Member<'_>], first: usize, last: usize) {
    if let Ok([first, last]) = members.get_disjoint_mut([first, last]) {
        std::mem::swap(&mut first.value, &mut last.value);
    }
}

const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
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

    /// What stands behind a backslash.
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

    /// What stands behind `\u`, with the other half of a pair of surrogates.
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
        if whole + more > MAX_DIGITS && !(is_float && begins_with_zero) {
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
