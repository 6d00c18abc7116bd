//! Why bytes are not a message: which message, where in it, and what should have stood there. Never the bytes
//! themselves.

use std::fmt;

/// The kinds of message that protocol 1 knows, by tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// `B`
    Begin,
    /// `C`
    Commit,
    /// `O`
    Origin,
    /// `R`
    Relation,
    /// `Y`
    Type,
    /// `I`
    Insert,
    /// `U`
    Update,
    /// `D`
    Delete,
    /// `T`
    Truncate,
    /// `M`
    Logical,
}

impl Kind {
    /// The kind that a message with this tag is of.
    #[must_use]
    #[inline]
    pub const fn of_tag(tag: u8) -> Option<Self> {
        Some(match tag {
            b'B' => Self::Begin,
            b'C' => Self::Commit,
            b'O' => Self::Origin,
            b'R' => Self::Relation,
            b'Y' => Self::Type,
            b'I' => Self::Insert,
            b'U' => Self::Update,
            b'D' => Self::Delete,
            b'T' => Self::Truncate,
            b'M' => Self::Logical,
            _ => return None,
        })
    }

    /// The tag that a message of this kind begins with.
    #[must_use]
    pub const fn tag(self) -> u8 {
        match self {
            Self::Begin => b'B',
            Self::Commit => b'C',
            Self::Origin => b'O',
            Self::Relation => b'R',
            Self::Type => b'Y',
            Self::Insert => b'I',
            Self::Update => b'U',
            Self::Delete => b'D',
            Self::Truncate => b'T',
            Self::Logical => b'M',
        }
    }
}

impl fmt::Display for Kind {
    /// The name that the manual gives the message, and its tag.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Self::Begin => "Begin",
            Self::Commit => "Commit",
            Self::Origin => "Origin",
            Self::Relation => "Relation",
            Self::Type => "Type",
            Self::Insert => "Insert",
            Self::Update => "Update",
            Self::Delete => "Delete",
            Self::Truncate => "Truncate",
            Self::Logical => "Message",
        };
        write!(f, "{name} ('{}')", char::from(self.tag()))
    }
}

/// Bytes that are not a message of `pgoutput`, protocol version 1. Offsets count from the message's tag.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParseError {
    /// Not a single byte.
    #[error("the server sent an empty pgoutput message")]
    Empty,
    /// The message ends before the part does.
    #[error("the {message} message ends within the {expected} that begins at byte {offset}")]
    Truncated {
        /// Which message.
        message: Kind,
        /// Where the part begins.
        offset: usize,
        /// The part.
        expected: &'static str,
    },
    /// A name that the message ends in the middle of: it has no NUL.
    #[error("the {message} message has no NUL after the {expected} that begins at byte {offset}")]
    Unterminated {
        /// Which message.
        message: Kind,
        /// Where the name begins.
        offset: usize,
        /// The name.
        expected: &'static str,
    },
    /// A name that is not UTF-8, though `client_encoding` is.
    #[error("the {expected} at byte {offset} of the {message} message is not UTF-8")]
    NotUtf8 {
        /// Which message.
        message: Kind,
        /// Where the name begins.
        offset: usize,
        /// The name.
        expected: &'static str,
    },
    /// A length or a count below zero.
    #[error("the {expected} at byte {offset} of the {message} message is {found}, below zero")]
    Negative {
        /// Which message.
        message: Kind,
        /// Where the number stands.
        offset: usize,
        /// What it counts.
        expected: &'static str,
        /// The number.
        found: i32,
    },
    /// A count of things for which the rest of the message has no room.
    #[error("the {expected} at byte {offset} of the {message} message is {found}, more than the rest of it can hold")]
    Excessive {
        /// Which message.
        message: Kind,
        /// Where the count stands.
        offset: usize,
        /// What it counts.
        expected: &'static str,
        /// The count.
        found: usize,
    },
    /// A byte that has to be one of a few and is not.
    #[error(
        "byte {offset} of the {message} message is {:?} where the {expected} is expected",
        char::from(*.found)
    )]
    UnexpectedTag {
        /// Which message.
        message: Kind,
        /// Where the byte stands.
        offset: usize,
        /// What it introduces, and the bytes that may.
        expected: &'static str,
        /// The byte.
        found: u8,
    },
    /// The message goes on after its end.
    #[error("the {message} message ends at byte {offset}, yet {left} more follow")]
    Trailing {
        /// Which message.
        message: Kind,
        /// Where the message should have ended.
        offset: usize,
        /// How many bytes follow.
        left: usize,
    },
}
