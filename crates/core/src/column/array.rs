//! Arrays: the literal, taken apart at its outermost level.
//!
//! `array_out` (`arrayfuncs.c`) puts quotes around an element that is empty, is the word NULL, or holds braces, quotes, backslashes,
//! white space or the delimiter of its type; inside of them a backslash goes before quotes and backslashes. Bounds other than
//! from one come first, `[0:1]=`, and no one asks for them: Connect's arrays have none.

use bytes::{Bytes, BytesMut};

use crate::value::ValueError;

/// An element of the outermost level.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Element {
    Null,
    /// Its own text.
    Text(Bytes),
    /// The literal of an array in the array.
    Array(Bytes),
}

/// Takes an array apart. What needs no unescaping is a slice of the text.
pub(super) fn elements(text: &Bytes, delimiter: u8) -> Result<Vec<Element>, ValueError> {
    let mut cursor = Cursor { text, at: 0, delimiter };
    let elements = cursor.elements();
    elements.ok_or(ValueError::Malformed { expected: "an array", offset: cursor.at.min(text.len()) })
}

struct Cursor<'a> {
    text: &'a Bytes,
    at: usize,
    delimiter: u8,
}

impl Cursor<'_> {
    fn elements(&mut self) -> Option<Vec<Element>> {
        self.skip_bounds()?;
        self.take(b'{')?;
        let mut elements = Vec::new();
        if self.take(b'}').is_none() {
            loop {
                elements.push(self.element()?);
                if self.take(self.delimiter).is_none() {
                    self.take(b'}')?;
                    break;
                }
            }
        }
        (self.at == self.text.len()).then_some(elements)
    }

    /// `[1:2][0:3]=`
    fn skip_bounds(&mut self) -> Option<()> {
        if self.peek() == Some(b'[') {
            let bounds = self.text.get(self.at..)?.iter().position(|byte| *byte == b'=')?;
            self.at += bounds + 1;
        }
        Some(())
    }

    fn element(&mut self) -> Option<Element> {
        match self.peek()? {
            b'{' => self.nested().map(Element::Array),
            b'"' => self.quoted().map(Element::Text),
            _ => self.bare(),
        }
    }

    fn bare(&mut self) -> Option<Element> {
        let start = self.at;
        while self.peek().is_some_and(|byte| byte != self.delimiter && !matches!(byte, b'{' | b'}' | b'"' | b'\\')) {
            self.at += 1;
        }
        match self.text.get(start..self.at)? {
            b"" => None,
            b"NULL" => Some(Element::Null),
            _ => Some(Element::Text(self.text.slice(start..self.at))),
        }
    }

    fn quoted(&mut self) -> Option<Bytes> {
        self.take(b'"')?;
        let start = self.at;
        let is_escaped = self.skip_to_quote()?;
        let end = self.at;
        self.take(b'"')?;
        let raw = self.text.slice(start..end);
        Some(if is_escaped { unescape(&raw) } else { raw })
    }

    /// Tells whether there was a backslash.
    fn skip_to_quote(&mut self) -> Option<bool> {
        let mut is_escaped = false;
        loop {
            match self.peek()? {
                b'"' => return Some(is_escaped),
                b'\\' => {
                    is_escaped = true;
                    self.at += 2;
                }
                _ => self.at += 1,
            }
        }
    }

    /// With its braces.
    fn nested(&mut self) -> Option<Bytes> {
        let start = self.at;
        let mut depth = 0_usize;
        loop {
            match self.peek()? {
                b'"' => {
                    self.at += 1;
                    self.skip_to_quote()?;
                }
                b'{' => depth += 1,
                b'}' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return Some(self.text.slice(start..self.at));
            }
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.peek() == Some(byte)).then(|| self.at += 1)
    }
}

fn unescape(raw: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(raw.len());
    let mut bytes = raw.iter().copied();
    while let Some(byte) = bytes.next() {
        out.extend(if byte == b'\\' { bytes.next() } else { Some(byte) });
    }
    out.freeze()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// As `array_out` writes an element.
    fn written(element: Option<&str>) -> String {
        let Some(text) = element else { return "NULL".to_owned() };
        let is_plain = !text.is_empty()
            && !text.eq_ignore_ascii_case("null")
            && !text.contains(|letter: char| {
                "{}\"\\,".contains(letter) || letter.is_ascii_whitespace() || letter == '\u{b}'
            });
        if is_plain { text.to_owned() } else { format!("\"{}\"", text.replace('\\', r"\\").replace('"', "\\\"")) }
    }

    fn element(text: Option<&str>) -> Element {
        text.map_or(Element::Null, |text| Element::Text(Bytes::copy_from_slice(text.as_bytes())))
    }

    #[test]
    fn an_array_is_taken_apart_at_its_outermost_level() {
        let nested = |text: &'static str| Element::Array(Bytes::from_static(text.as_bytes()));
        let cases = [
            ("{}", vec![]),
            (
                "{1,NULL,\"NULL\",null}",
                vec![element(Some("1")), Element::Null, element(Some("NULL")), element(Some("null"))],
            ),
            ("[-1:0]={a,b}", vec![element(Some("a")), element(Some("b"))]),
            ("[1:1][0:1]={{1,2}}", vec![nested("{1,2}")]),
            (r#"{{"}{",a},{{b},{"\"}"}}}"#, vec![nested(r#"{"}{",a}"#), nested(r#"{{b},{"\"}"}}"#)]),
        ];
        for (text, expected) in cases {
            assert_eq!(elements(&Bytes::from_static(text.as_bytes()), b','), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_array_is_refused_where_it_stops_making_sense() {
        let cases = [
            ("", 0),
            ("1", 0),
            ("{", 1),
            ("{1", 2),
            ("{1,}", 3),
            ("{,1}", 1),
            ("{1}x", 3),
            ("{\"a", 3),
            ("{\"a\\", 5),
            ("{{1}", 4),
            ("{1{2}}", 2),
            ("[0:1]", 0),
        ];
        for (text, offset) in cases {
            let expected = Err(ValueError::Malformed { expected: "an array", offset: offset.min(text.len()) });
            assert_eq!(elements(&Bytes::from_static(text.as_bytes()), b','), expected, "{text}");
        }
    }

    #[test]
    fn an_element_without_escapes_is_a_slice_of_the_array() {
        let text = Bytes::from_static(b"{abc,\"d,e\"}");
        for element in elements(&text, b',').unwrap() {
            let Element::Text(element) = element else { panic!("{element:?}") };
            assert!(text.as_ptr_range().contains(&element.as_ptr()));
        }
    }

    proptest! {
        #[test]
        fn every_array_is_read_as_it_is_written(
            list in proptest::collection::vec(proptest::option::of(r#"[a{}"\\, NUL]{0,6}"#), 0..8)
        ) {
            let written: Vec<_> = list.iter().map(|item| written(item.as_deref())).collect();
            let expected: Vec<_> = list.iter().map(|item| element(item.as_deref())).collect();
            prop_assert_eq!(elements(&Bytes::from(format!("{{{}}}", written.join(","))), b','), Ok(expected));
        }

        #[test]
        fn reading_never_panics(text in proptest::collection::vec(prop_oneof![any::<u8>(), Just(b'{'), Just(b'}'), Just(b'"'), Just(b',')], 0..40)) {
            let _ = elements(&Bytes::from(text), b',');
        }
    }
}
