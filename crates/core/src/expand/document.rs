//! A JSON document in memory: the values that a schema is inferred from and filled with, and the text that they were read from.

use std::borrow::Cow;

use bytes::Bytes;

/// A document.
#[derive(Debug)]
pub(super) struct Document<'a> {
    /// Its text, without what follows it.
    pub(super) text: &'a [u8],
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

impl<'a> Document<'a> {
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

    pub(super) fn new(mut members: Vec<Member<'a>>) -> Self {
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
    pub(super) fn has_twins(&self) -> bool {
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

/// What JSON allows between tokens.
pub(super) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}
