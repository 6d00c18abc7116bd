//! Which requests to publish go through a connection to Kafka, and which answers to them are kept back.
//!
//! Only frames are told apart, by the first bytes of each: a request says what it is and bears a number, its answer bears that number. So
//! whoever loses answers can say that they were answers that somebody needed.

use std::collections::{BTreeMap, HashMap};
use std::fmt;

use super::Direction;

/// How many requests to publish of each kind, or answers to such.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exchanges(BTreeMap<&'static str, u64>);

impl Exchanges {
    /// How many of all kinds.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.values().sum()
    }

    /// Those that came since.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let more = |(name, count): (&&'static str, &u64)| {
            let more = count - before.0.get(name).copied().unwrap_or(0);
            (more > 0).then_some((*name, more))
        };
        Self(self.0.iter().filter_map(more).collect())
    }

    pub(super) fn add(&mut self, name: &'static str) {
        *self.0.entry(name).or_default() += 1;
    }
}

impl fmt::Display for Exchanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str("none");
        }
        let kinds: Vec<String> = self.0.iter().map(|(name, count)| format!("{name} {count}")).collect();
        f.write_str(&kinds.join(", "))
    }
}

/// The requests that publish, by their `ApiKeys`.
fn name_of(api: i16) -> Option<&'static str> {
    Some(match api {
        0 => "Produce",
        22 => "InitProducerId",
        24 => "AddPartitionsToTxn",
        25 => "AddOffsetsToTxn",
        26 => "EndTxn",
        28 => "TxnOffsetCommit",
        _ => return None,
    })
}

/// What one connection has asked and not been answered.
#[derive(Debug, Default)]
pub(super) struct Conversation {
    requests: Frames,
    answers: Frames,
    unanswered: HashMap<i32, &'static str>,
}

impl Conversation {
    /// Takes what came from one side, and names the requests that it brings, or those that it answers.
    pub(super) fn hear(&mut self, bytes: &[u8], direction: Direction) -> Vec<&'static str> {
        let (mut heard, unanswered) = (Vec::new(), &mut self.unanswered);
        match direction {
            Direction::ToServer => self.requests.take::<8>(bytes, |[a, b, _, _, number @ ..]| {
                if let Some(name) = name_of(i16::from_be_bytes([a, b])) {
                    unanswered.insert(i32::from_be_bytes(number), name);
                    heard.push(name);
                }
            }),
            Direction::ToClient => self.answers.take::<4>(bytes, |number| {
                heard.extend(unanswered.remove(&i32::from_be_bytes(number)));
            }),
        }
        heard
    }
}

/// Cuts a stream into frames, and keeps no more of each than it begins with.
#[derive(Debug, Default)]
struct Frames {
    /// The length of the frame that comes, and its first bytes.
    head: Vec<u8>,
    /// What is still to come of a frame whose beginning was told.
    rest: usize,
}

impl Frames {
    /// Tells the first bytes of each frame that begins in these.
    fn take<const N: usize>(&mut self, mut bytes: &[u8], mut tell: impl FnMut([u8; N])) {
        loop {
            let skipped = self.rest.min(bytes.len());
            self.rest -= skipped;
            bytes = bytes.get(skipped..).unwrap_or_default();
            if bytes.is_empty() {
                return;
            }
            let missing = (4 + N).saturating_sub(self.head.len()).min(bytes.len());
            let (more, left) = bytes.split_at(missing);
            self.head.extend(more);
            bytes = left;
            let (Some(length), Some(begins)) =
                (self.head.first_chunk(), self.head.get(4..).and_then(<[u8]>::first_chunk))
            else {
                continue;
            };
            let length = usize::try_from(u32::from_be_bytes(*length)).unwrap_or(0);
            tell(*begins);
            self.rest = length.saturating_sub(N);
            self.head.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(api: i16, number: i32, body: usize) -> Vec<u8> {
        let length = u32::try_from(8 + body).unwrap();
        [&length.to_be_bytes()[..], &api.to_be_bytes(), &[0, 9], &number.to_be_bytes(), &vec![0; body]].concat()
    }

    fn answer(number: i32, body: usize) -> Vec<u8> {
        let length = u32::try_from(4 + body).unwrap();
        [&length.to_be_bytes()[..], &number.to_be_bytes(), &vec![0; body]].concat()
    }

    #[test]
    fn requests_to_publish_and_their_answers_are_named_however_they_are_cut() {
        let asked = [request(0, 1, 900), request(3, 2, 10), request(26, 3, 0)].concat();
        let answered = [answer(3, 6), answer(2, 70), answer(1, 0)].concat();
        for piece in [1, 3, 7, 5_000] {
            let mut conversation = Conversation::default();
            let mut hear = |bytes: &[u8], direction| -> Vec<&'static str> {
                bytes.chunks(piece).flat_map(|bytes| conversation.hear(bytes, direction)).collect()
            };
            assert_eq!(hear(&asked, Direction::ToServer), ["Produce", "EndTxn"], "{piece}");
            assert_eq!(hear(&answered, Direction::ToClient), ["EndTxn", "Produce"], "{piece}");
            assert!(hear(&answered, Direction::ToClient).is_empty(), "{piece}");
        }
    }

    #[test]
    fn what_came_since_is_told_by_kind() {
        let mut before = Exchanges::default();
        before.add("Produce");
        let mut after = before.clone();
        ["Produce", "EndTxn", "Produce"].into_iter().for_each(|name| after.add(name));
        assert_eq!(after.since(&before).to_string(), "EndTxn 1, Produce 2");
        assert_eq!((after.count(), after.since(&after).to_string().as_str()), (4, "none"));
    }
}
