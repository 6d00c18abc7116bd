//! Takes a message apart from the front, and knows where it is when that fails.
//!
//! Nothing here indexes or slices by a number that came from outside: each step takes what is there or says what is
//! missing.

use std::ffi::CStr;

use super::{Kind, ParseError};
use crate::lsn::Lsn;
use crate::time::Timestamp;

/// What is left of a message.
pub(super) struct Cursor<'a> {
    message: Kind,
    /// The length of the whole message, tag included.
    length: usize,
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Begins after the tag of a message of this kind.
    #[inline]
    pub(super) const fn behind_tag(message: Kind, rest: &'a [u8]) -> Self {
        Self { message, length: rest.len() + 1, rest }
    }

    #[inline]
    pub(super) fn u8(&mut self, expected: &'static str) -> Result<u8, ParseError> {
        self.array(expected).map(u8::from_be_bytes)
    }

    #[inline]
    pub(super) fn u32(&mut self, expected: &'static str) -> Result<u32, ParseError> {
        self.array(expected).map(u32::from_be_bytes)
    }

    #[inline]
    pub(super) fn i32(&mut self, expected: &'static str) -> Result<i32, ParseError> {
        self.array(expected).map(i32::from_be_bytes)
    }

    #[inline]
    pub(super) fn lsn(&mut self, expected: &'static str) -> Result<Lsn, ParseError> {
        self.array(expected).map(u64::from_be_bytes).map(Lsn::new)
    }

    #[inline]
    pub(super) fn timestamp(&mut self, expected: &'static str) -> Result<Timestamp, ParseError> {
        self.array(expected).map(i64::from_be_bytes).map(Timestamp::from_postgres_micros)
    }

    /// The bytes after a 32-bit length.
    #[inline]
    pub(super) fn counted(&mut self, expected: &'static str) -> Result<&'a [u8], ParseError> {
        let offset = self.offset();
        let length = self.i32(expected)?;
        let length = usize::try_from(length).map_err(|_| self.negative(offset, expected, length))?;
        let (value, rest) = self.rest.split_at_checked(length).ok_or_else(|| self.truncated(offset, expected))?;
        self.rest = rest;
        Ok(value)
    }

    /// A 16-bit count of things that take at least `least` bytes each.
    #[inline]
    pub(super) fn count16(&mut self, expected: &'static str, least: usize) -> Result<usize, ParseError> {
        let offset = self.offset();
        let count = self.array(expected).map(i16::from_be_bytes)?;
        self.plausible(offset, expected, i32::from(count), least)
    }

    /// A 32-bit count of things that take at least `least` bytes each.
    pub(super) fn count32(&mut self, expected: &'static str, least: usize) -> Result<usize, ParseError> {
        let offset = self.offset();
        let count = self.i32(expected)?;
        self.plausible(offset, expected, count, least)
    }

    /// A name with its NUL, which is not part of what is given back.
    pub(super) fn name(&mut self, expected: &'static str) -> Result<&'a [u8], ParseError> {
        let offset = self.offset();
        let name = CStr::from_bytes_until_nul(self.rest).map_err(|_| ParseError::Unterminated {
            message: self.message,
            offset,
            expected,
        })?;
        self.rest = self.rest.get(name.to_bytes_with_nul().len()..).unwrap_or_default();
        Ok(name.to_bytes())
    }

    /// A [`name`](Self::name) that has to be UTF-8.
    pub(super) fn identifier(&mut self, expected: &'static str) -> Result<&'a str, ParseError> {
        let offset = self.offset();
        let name = self.name(expected)?;
        str::from_utf8(name).map_err(|_| ParseError::NotUtf8 { message: self.message, offset, expected })
    }

    /// The error for a byte that was just taken and may not stand there.
    #[cold]
    pub(super) const fn unexpected(&self, found: u8, expected: &'static str) -> ParseError {
        ParseError::UnexpectedTag { message: self.message, offset: self.offset() - 1, expected, found }
    }

    /// Ends the message.
    #[inline]
    pub(super) const fn finish(self) -> Result<(), ParseError> {
        if self.rest.is_empty() {
            Ok(())
        } else {
            Err(ParseError::Trailing { message: self.message, offset: self.offset(), left: self.rest.len() })
        }
    }

    #[inline]
    fn array<const N: usize>(&mut self, expected: &'static str) -> Result<[u8; N], ParseError> {
        let (taken, rest) = self.rest.split_first_chunk().ok_or_else(|| self.truncated(self.offset(), expected))?;
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    fn plausible(&self, offset: usize, expected: &'static str, count: i32, least: usize) -> Result<usize, ParseError> {
        let found = usize::try_from(count).map_err(|_| self.negative(offset, expected, count))?;
        if found.checked_mul(least).is_some_and(|needed| needed <= self.rest.len()) {
            Ok(found)
        } else {
            Err(ParseError::Excessive { message: self.message, offset, expected, found })
        }
    }

    /// Where the next byte stands in the message.
    #[inline]
    const fn offset(&self) -> usize {
        self.length - self.rest.len()
    }

    #[cold]
    const fn truncated(&self, offset: usize, expected: &'static str) -> ParseError {
        ParseError::Truncated { message: self.message, offset, expected }
    }

    #[cold]
    const fn negative(&self, offset: usize, expected: &'static str, found: i32) -> ParseError {
        ParseError::Negative { message: self.message, offset, expected, found }
    }
}
