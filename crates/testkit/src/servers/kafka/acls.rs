//! Access lists of a broker, by Kafka's own protocol: `CreateAcls` and `DeleteAcls` in their version 1, as
//! [the protocol's description](https://kafka.apache.org/protocol.html) has them.
//!
//! `kafka-acls.sh` would do the same, and starts a Java machine each time, which takes seconds where several run beside each other.

use std::io::{self, Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

/// Until the broker answers.
const ANSWER: Duration = Duration::from_secs(30);
/// Longer than any answer to what is asked here; a length beyond it is no answer.
const MOST: i32 = 1 << 20;
const CREATE_ACLS: i16 = 30;
const DELETE_ACLS: i16 = 31;
const VERSION: i16 = 1;
const ALLOW: i8 = 3;

/// What somebody may do something with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource<'a> {
    /// The topic of this name.
    Topic(&'a str),
    /// Every topic whose name begins so.
    Topics(&'a str),
    /// The producer that commits by transactions under this id.
    TransactionalId(&'a str),
}

impl<'a> Resource<'a> {
    /// Kafka's numbers of the kind of resource and of the kind of pattern, and the name between the two.
    fn pattern(self) -> (i8, &'a str, i8) {
        const TOPIC: i8 = 2;
        const TRANSACTIONAL_ID: i8 = 5;
        const LITERAL: i8 = 3;
        const PREFIXED: i8 = 4;
        match self {
            Self::Topic(name) => (TOPIC, name, LITERAL),
            Self::Topics(prefix) => (TOPIC, prefix, PREFIXED),
            Self::TransactionalId(id) => (TRANSACTIONAL_ID, id, LITERAL),
        }
    }
}

/// What somebody may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// To read records.
    Read,
    /// To write records.
    Write,
    /// To make topics.
    Create,
    /// To see that it is there.
    Describe,
}

impl Operation {
    /// Whoever may produce to a topic, as `kafka-acls.sh --producer` has it.
    pub const PRODUCE: &'static [Self] = &[Self::Write, Self::Describe, Self::Create];

    /// Kafka's number.
    fn code(self) -> i8 {
        match self {
            Self::Read => 3,
            Self::Write => 4,
            Self::Create => 5,
            Self::Describe => 8,
        }
    }
}

/// Gives these operations to a user, or takes them, as whoever this address lets in.
pub(super) fn allow(
    bootstrap: &str,
    is_allowed: bool,
    user: &str,
    resource: Resource<'_>,
    operations: &[Operation],
) -> io::Result<()> {
    let request = request(is_allowed, user, resource, operations)?;
    let mut broker = TcpStream::connect(bootstrap)?;
    broker.set_read_timeout(Some(ANSWER))?;
    broker.set_write_timeout(Some(ANSWER))?;
    broker.write_all(&request)?;
    let mut length = [0; 4];
    broker.read_exact(&mut length)?;
    let length = i32::from_be_bytes(length);
    let length = usize::try_from(length).ok().filter(|_| length <= MOST).ok_or_else(misread)?;
    let mut answer = vec![0; length];
    broker.read_exact(&mut answer)?;
    read(&answer, is_allowed, operations.len())
}

/// A request with its length in front: what is asked, a number of ours, no name of the client; then one entry an operation.
fn request(is_allowed: bool, user: &str, resource: Resource<'_>, operations: &[Operation]) -> io::Result<Vec<u8>> {
    let (kind, name, pattern) = resource.pattern();
    let principal = format!("User:{user}");
    let mut body = Vec::new();
    body.extend(if is_allowed { CREATE_ACLS } else { DELETE_ACLS }.to_be_bytes());
    body.extend(VERSION.to_be_bytes());
    body.extend(0_i32.to_be_bytes());
    body.extend((-1_i16).to_be_bytes());
    body.extend(i32::try_from(operations.len()).map_err(io::Error::other)?.to_be_bytes());
    for operation in operations {
        body.extend(kind.to_be_bytes());
        put(&mut body, name)?;
        body.extend(pattern.to_be_bytes());
        put(&mut body, &principal)?;
        put(&mut body, "*")?;
        body.extend(operation.code().to_be_bytes());
        body.extend(ALLOW.to_be_bytes());
    }
    let length = i32::try_from(body.len()).map_err(io::Error::other)?;
    Ok([&length.to_be_bytes() as &[u8], &body].concat())
}

fn put(body: &mut Vec<u8>, text: &str) -> io::Result<()> {
    body.extend(i16::try_from(text.len()).map_err(io::Error::other)?.to_be_bytes());
    body.extend(text.as_bytes());
    Ok(())
}

/// An answer: our number, how long the broker held us back, then of each entry what became of it; of one that was taken, what matched it too.
fn read(answer: &[u8], is_allowed: bool, asked: usize) -> io::Result<()> {
    let mut answer = Answer(answer);
    answer.take::<8>()?;
    let answered = i32::from_be_bytes(answer.take()?);
    if usize::try_from(answered).ok() != Some(asked) {
        return Err(misread());
    }
    for _ in 0..asked {
        answer.refusal()?;
        if is_allowed {
            continue;
        }
        for _ in 0..i32::from_be_bytes(answer.take()?) {
            answer.refusal()?;
            answer.take::<1>()?;
            answer.text()?;
            answer.take::<1>()?;
            answer.text()?;
            answer.text()?;
            answer.take::<2>()?;
        }
    }
    if answer.0.is_empty() { Ok(()) } else { Err(misread()) }
}

struct Answer<'a>(&'a [u8]);

impl<'a> Answer<'a> {
    fn take<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(misread)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// A text, where there is one.
    fn text(&mut self) -> io::Result<Option<&'a str>> {
        let Ok(length) = usize::try_from(i16::from_be_bytes(self.take()?)) else { return Ok(None) };
        let (text, rest) = self.0.split_at_checked(length).ok_or_else(misread)?;
        self.0 = rest;
        std::str::from_utf8(text).map(Some).map_err(io::Error::other)
    }

    /// The broker's number of what is wrong, and its words for it.
    fn refusal(&mut self) -> io::Result<()> {
        let code = i16::from_be_bytes(self.take()?);
        let words = self.text()?;
        if code == 0 {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "the broker refuses the access list with error {code}: {}",
            words.unwrap_or("no words")
        )))
    }
}

fn misread() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "what the broker answers is no answer to a request about access lists")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOBODY: [u8; 2] = [0xff, 0xff];

    #[test]
    fn a_request_says_who_may_do_what_with_what() {
        let bytes = request(true, "me", Resource::Topics("or"), &[Operation::Write]).unwrap();
        let expected: &[&[u8]] = &[
            &[0, 0, 0, 34, 0, 30, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0, 0, 0, 1],
            &[2, 0, 2, b'o', b'r', 4, 0, 7],
            b"User:me",
            &[0, 1, b'*', 4, 3],
        ];
        assert_eq!(bytes, expected.concat());
    }

    #[test]
    fn an_answer_without_errors_is_good_and_anything_else_is_told() {
        let head = [0; 8];
        let fine = [&head[..], &[0, 0, 0, 1, 0, 0], &NOBODY].concat();
        read(&fine, true, 1).unwrap();
        let refused = [&head[..], &[0, 0, 0, 1, 0, 31, 0, 2, b'n', b'o']].concat();
        assert!(read(&refused, true, 1).unwrap_err().to_string().contains("error 31: no"));
        let taken = [
            &head[..],
            &[0, 0, 0, 1, 0, 0],
            &NOBODY,
            &[0, 0, 0, 1, 0, 0],
            &NOBODY,
            &[2, 0, 1, b't', 3, 0, 1, b'u', 0, 1, b'*', 4, 3],
        ];
        read(&taken.concat(), false, 1).unwrap();
        for (misread, asked) in [(&fine[..], 2), (&fine[..9], 1), (&[&fine[..], &[0]].concat(), 1)] {
            read(misread, true, asked).unwrap_err();
        }
    }
}
