//! A letter that is larger than a record may be, in parts: cut where it is written, put together where it is read.
//!
//! Each part says in its headers which it is of how many, and to which writing it belongs. A letter may have been written twice, by a relay that was
//! killed in the middle and by the next one; parts of two writings never make one letter.

use std::collections::BTreeMap;
use std::process;
use std::sync::atomic::{AtomicU64, Ordering};

use walpost_core::time::Timestamp;

/// The most that one part carries, in bytes. With its key and headers it stays below what topics take by default (`max.message.bytes` =
/// 1048588), and so does the batch that it travels in.
pub(super) const PART_BYTES: usize = 900_000;

/// What surrounds a part: key, headers, and the frame of its batch.
pub(super) const AROUND: usize = 4096;

/// The names of the headers.
pub(super) const PART: &str = "walpost.part";
pub(super) const WRITING: &str = "walpost.writing";

/// How many bytes parts may have where the producer takes records of so many.
pub(super) fn part_bytes(message_max_bytes: usize) -> usize {
    // Below librdkafka's least (1000) there is nothing; a part has to have room for a whole character.
    message_max_bytes.saturating_sub(AROUND).clamp(512, PART_BYTES)
}

/// Cuts a text into parts of at most so many bytes, between characters. There is at least one.
pub(super) fn cut(text: &str, most: usize) -> Vec<&str> {
    let mut parts = Vec::new();
    let mut rest = text;
    while rest.len() > most {
        let place = (1..=most).rev().find(|place| rest.is_char_boundary(*place)).unwrap_or(rest.len());
        let (part, behind) = rest.split_at(place);
        parts.push(part);
        rest = behind;
    }
    parts.push(rest);
    parts
}

/// The name of a writing: no two have the same.
pub(super) fn new_writing(now: Timestamp) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    format!("{:x}.{:x}.{:x}", now.unix_micros(), process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// What the headers of a part say.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PartOf {
    pub(super) count: u32,
    pub(super) writing: String,
}

impl PartOf {
    /// Reads the headers of the part of this number; `None` where they say something else.
    pub(super) fn read(number: u32, part: Option<&[u8]>, writing: Option<&[u8]>) -> Option<Self> {
        let (told, count) = std::str::from_utf8(part?).ok()?.split_once('/')?;
        let count: u32 = count.parse().ok()?;
        let is_one = told.parse() == Ok(number) && (1..=count).contains(&number);
        is_one.then_some(Self { count, writing: std::str::from_utf8(writing?).ok()?.to_owned() })
    }

    /// The header of a part.
    pub(super) fn header(number: u32, count: u32) -> String {
        format!("{number}/{count}")
    }
}

/// A part: where it lies, and what it carries.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Part {
    offset: i64,
    bytes: Vec<u8>,
}

/// The parts of a letter that are still to be put together.
#[derive(Debug, Default)]
pub(super) struct Gathering {
    writings: BTreeMap<String, (u32, BTreeMap<u32, Part>)>,
}

/// A letter that was put together.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gathered {
    /// Where its parts lie, in order.
    pub(super) offsets: Vec<i64>,
    /// The document.
    pub(super) bytes: Vec<u8>,
}

impl Gathering {
    /// Takes a part; answers the letter once it is whole, and forgets then what other writings left unfinished.
    pub(super) fn take(&mut self, offset: i64, number: u32, of: PartOf, bytes: &[u8]) -> Option<Gathered> {
        let PartOf { count, writing } = of;
        let (told, parts) = self.writings.entry(writing.clone()).or_default();
        *told = count;
        parts.insert(number, Part { offset, bytes: bytes.to_vec() });
        parts.retain(|number, _| *number <= count);
        if parts.len() < usize::try_from(count).unwrap_or(usize::MAX) {
            return None;
        }
        let (_, parts) = self.writings.remove(&writing)?;
        self.writings.clear();
        let offsets = parts.values().map(|part| part.offset).collect();
        // Each part is let go once it is copied: a letter may be large.
        let mut bytes = Vec::with_capacity(parts.values().map(|part| part.bytes.len()).sum());
        parts.into_values().for_each(|part| bytes.extend_from_slice(&part.bytes));
        Some(Gathered { offsets, bytes })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.writings.is_empty()
    }

    pub(super) fn clear(&mut self) {
        self.writings.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_between_characters_and_nothing_of_it_is_lost() {
        for (text, most, expected) in [
            ("", 4, vec![""]),
            ("abcd", 4, vec!["abcd"]),
            ("abcde", 4, vec!["abcd", "e"]),
            ("abcdefgh", 4, vec!["abcd", "efgh"]),
            ("äöüß", 3, vec!["ä", "ö", "ü", "ß"]),
            ("a𝄞b", 4, vec!["a", "𝄞", "b"]),
        ] {
            assert_eq!(cut(text, most), expected, "{text}");
        }
        let long = "größe ✓ 𝄞".repeat(1000);
        for most in [4, 5, 97, 4096] {
            let parts = cut(&long, most);
            assert!(parts.iter().all(|part| part.len() <= most));
            assert_eq!(parts.concat(), long);
        }
    }

    #[test]
    fn parts_fit_the_producer_and_the_topic() {
        assert_eq!(part_bytes(1_048_576), PART_BYTES);
        assert_eq!(part_bytes(100_000_000), PART_BYTES);
        assert_eq!(part_bytes(500_000), 500_000 - AROUND);
        assert_eq!(part_bytes(1000), 512);
    }

    fn of(count: u32, writing: &str) -> PartOf {
        PartOf { count, writing: writing.to_owned() }
    }

    #[test]
    fn a_letter_is_there_once_all_parts_of_one_writing_are() {
        let mut gathering = Gathering::default();
        // A writing that was broken off, and another in between.
        assert_eq!(gathering.take(1, 1, of(2, "a"), b"A1"), None);
        assert_eq!(gathering.take(2, 1, of(3, "b"), b"B1"), None);
        assert_eq!(gathering.take(4, 3, of(3, "b"), b"B3"), None);
        let whole = gathering.take(5, 2, of(3, "b"), b"B2").unwrap();
        assert_eq!((whole.offsets, whole.bytes), (vec![2, 5, 4], b"B1B2B3".to_vec()));
        assert!(gathering.is_empty());
        assert_eq!(gathering.take(6, 2, of(2, "a"), b"A2"), None, "what was unfinished then is forgotten");
        let single = gathering.take(7, 1, of(1, "c"), b"C").unwrap();
        assert_eq!((single.offsets, single.bytes), (vec![7], b"C".to_vec()));
    }

    #[test]
    fn the_headers_have_to_agree_with_the_key() {
        assert_eq!(PartOf::read(2, Some(b"2/3"), Some(b"w")), Some(of(3, "w")));
        for (part, writing) in [
            (None, Some(&b"w"[..])),
            (Some(&b"2/3"[..]), None),
            (Some(b"1/3"), Some(b"w")),
            (Some(b"2/1"), Some(b"w")),
            (Some(b"2"), Some(b"w")),
            (Some(b"2/x"), Some(b"w")),
            (Some(b"\xff"), Some(b"w")),
        ] {
            assert_eq!(PartOf::read(2, part, writing), None, "{part:?}");
        }
    }

    #[test]
    fn no_two_writings_share_a_name() {
        let now = Timestamp::default();
        assert_ne!(new_writing(now), new_writing(now));
    }
}
