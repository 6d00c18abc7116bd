//! What is kept of a letter that was sent or dropped, until its records are given up: which row it is of, so that the row makes no new letter where it comes
//! again; when it ended; and which keys were written of it. Some hundred bytes, for there may be many, and nobody limits them: a key
//! that is busy and parked for a week leaves all its letters behind.
//!
//! Somebody who wants to see letters keeps them whole. So does a relay those that it is told of as open after it knew that they had ended, as a relay
//! might write that was frozen in the midst of it: what stands last in the topic counts, and to know more of such a letter than is kept here the topic is read
//! again from its beginning.

use tracing::warn;
use walpost_core::poison::operator::State;
use walpost_core::time::Timestamp;

use super::super::form;
use super::super::key::{Kind, RowId};
use super::super::parts::PartOf;
use super::{Entry, Index, Told};

/// See the module's documentation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ended {
    pub(super) at: Timestamp,
    /// The highest number of a part that was ever seen.
    pub(super) parts: u32,
    pub(super) is_marked: bool,
    /// No part of it was given up.
    is_whole: bool,
}

impl Ended {
    fn of(entry: &Entry) -> Option<Self> {
        let is_over = !entry.is_open() && entry.letter.is_some() && entry.gathering.is_empty();
        let is_read = entry.unread_letter.is_none() && entry.unread_standing.is_none();
        let at = entry.ended_at().filter(|_| is_over && is_read)?;
        Some(Self { at, parts: entry.parts, is_marked: entry.marking.is_some(), is_whole: true })
    }
}

/// What becomes of a letter of which little is kept.
enum News {
    /// It has ended.
    Ended(Ended),
    /// Nothing is left of it.
    Gone,
    /// It may be open.
    Open,
    /// The record cannot be read, and changes nothing.
    Damaged(&'static str),
}

impl Index {
    /// Keeps little of a letter that has ended, unless somebody may want to see it.
    pub(super) fn shorten(&mut self, row: RowId) {
        if self.is_detailed || self.reopened.contains(&row) {
            return;
        }
        let Some(entry) = self.letters.get(&row) else { return };
        let Some((ended, id)) = Ended::of(entry).zip(entry.letter.as_ref().map(super::Known::id)) else { return };
        self.letters.remove(&row);
        self.ids.remove(&id);
        self.ended.insert(row, ended);
    }

    /// Takes in a record of a letter of which little is kept. `false` if this is none.
    pub(super) fn fold_ended(&mut self, row: RowId, kind: Kind, told: &Told<'_>) -> bool {
        let Some(known) = self.ended.get(&row).copied() else { return false };
        match known.after(kind, told) {
            News::Ended(ended) => drop(self.ended.insert(row, ended)),
            News::Gone => drop(self.ended.remove(&row)),
            News::Damaged(reason) => self.name_damaged(told.offset, reason),
            News::Open => {
                warn!(offset = told.offset, "a dead letter that had ended may be open again; the topic is read anew");
                self.clear();
                self.reopened.insert(row);
            }
        }
        true
    }

    #[cfg(test)]
    pub(super) fn shortened(&self) -> usize {
        self.ended.len()
    }
}

impl Ended {
    fn after(self, kind: Kind, Told { value, part, writing, .. }: &Told<'_>) -> News {
        match (kind, value) {
            (Kind::Standing, None) if self.is_whole => News::Open,
            (Kind::Standing, None) => News::Gone,
            (Kind::Standing, Some(value)) => match form::read_standing(value) {
                Ok(form::Standing { state: State::Sent | State::Dropped, ended_at: Some(at), .. }) => {
                    News::Ended(Self { at, ..self })
                }
                _ => News::Open,
            },
            (Kind::Mark, None) => News::Ended(Self { is_marked: false, ..self }),
            (Kind::Mark, Some(value)) if form::read_marking(value).is_err() => {
                News::Damaged("the mark of an ended letter")
            }
            (Kind::Mark, Some(_)) => News::Ended(Self { is_marked: true, ..self }),
            (Kind::Part(_), None) => News::Ended(Self { is_whole: false, ..self }),
            (Kind::Part(number), Some(_)) => match PartOf::read(number, *part, *writing) {
                Some(of) => News::Ended(Self { parts: self.parts.max(number).max(of.count), is_whole: true, ..self }),
                None => News::Damaged("the headers of a part of an ended letter"),
            },
        }
    }
}
