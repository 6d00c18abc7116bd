//! Whether the outboxes were published all the while between two looks at the catalogue.
//!
//! The catalogue shows what is so now. What was so in between shows only in that it was written again: a table that is put back has another entry,
//! and a publication that is altered another writer. Where something else is to be seen of it too, such as another owner or another row filter, that explains it. Where
//! all looks as before, it was altered and put back, or set to what it was: what was committed meanwhile may have been passed over. Whether all
//! was done in one transaction, so that no row could be committed in between, the catalogue does not tell.

use std::collections::BTreeMap;

use walpost_core::outbox::TableName;

use crate::inspect::{Entry, Publication, Subject};

/// By what in the catalogue each outbox is published.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage(BTreeMap<TableName, Vec<Entry>>);

/// What became of how an outbox is published.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Change {
    /// The publication was altered, or what it publishes of the table, and that is to be seen: of rows it need not have passed over any.
    Altered,
    /// All is as before, and was not in between: it was taken out and put back, or table or publication were made anew.
    Broken,
}

impl Coverage {
    /// Of the outboxes of the subject.
    #[must_use]
    pub fn of(publications: &[Publication], subject: &Subject) -> Self {
        let entries = |table: &TableName| {
            let publications = publications.iter().filter(|publication| publication.inserts);
            let tables = publications.flat_map(|publication| &publication.tables);
            tables.filter(|published| published.name == *table).map(|published| published.entry.clone()).collect()
        };
        Self(subject.outboxes.iter().map(|outbox| (outbox.table.clone(), entries(&outbox.table))).collect())
    }

    /// The outboxes that are published by nothing of what they were published by before as it was then.
    #[must_use]
    pub fn changes_since<'a>(&self, before: &'a Self) -> Vec<(&'a TableName, Change)> {
        let now = |table| self.0.get(table).map(Vec::as_slice).unwrap_or_default();
        let before = before.0.iter().filter(|(_, then)| !then.is_empty());
        before.filter_map(|(table, then)| Some((table, change(then, now(table))?))).collect()
    }
}

/// While one entry stands as it stood, no row is passed over, whatever becomes of others.
fn change(then: &[Entry], now: &[Entry]) -> Option<Change> {
    let pairs = then.iter().flat_map(|then| now.iter().map(move |now| (then, now)));
    pairs.map(|(then, now)| of_entry(then, now)).min().unwrap_or(Some(Change::Broken))
}

fn of_entry(then: &Entry, now: &Entry) -> Option<Change> {
    if then.publication != now.publication || then.relation != now.relation {
        return Some(Change::Broken);
    }
    let is_still_member = then.members == now.members || then.members.iter().any(|member| now.members.contains(member));
    let publication = explained(then.writer != now.writer, then.settings != now.settings);
    let membership = explained(!is_still_member, then.restriction != now.restriction);
    publication.max(membership)
}

fn explained(was_written: bool, is_seen: bool) -> Option<Change> {
    match (was_written, is_seen) {
        (false, false) => None,
        (_, true) => Some(Change::Altered),
        (true, false) => Some(Change::Broken),
    }
}
