//! The rows of a gap of which dead letters tell: an operator decides on those by `walpost dlq`, or has decided that they are never published.

use walpost_core::poison::LetteredRows;
use walpost_core::poison::operator::{Filter, State};

use crate::commands::dlq::desk::Desk;
use crate::config::Settings;
use crate::exit::{Ended, Exit};

/// How many letters are listed at once.
const PAGE: u32 = 1000;

/// The letters that are open or were dropped; those that were sent are published like any row.
fn filter() -> Filter {
    let states = State::OPEN.into_iter().chain([State::Dropped]).collect();
    Filter { states, limit: Some(PAGE), ..Filter::default() }
}

/// What is to be known of them beforehand.
pub(super) async fn prospect(settings: &Settings) -> Result<Option<String>, Ended> {
    if !settings.dead_letter().is_used() {
        return Ok(None);
    }
    let count = Desk::open(settings).await?.count(&filter()).await?;
    Ok((count > 0).then(|| {
        format!("rows of {count} dead letters that are open or were dropped are passed over, where they lie in the gap; walpost dlq list shows them")
    }))
}

/// Their rows.
pub(super) async fn rows(settings: &Settings) -> Result<LetteredRows, Ended> {
    let mut rows = LetteredRows::default();
    if !settings.dead_letter().is_used() {
        return Ok(rows);
    }
    let mut desk = Desk::open(settings).await?;
    if let Some(letter) = desk.unreadable().first() {
        let sentence = format!(
            "dead letter {} cannot be read, so nobody knows which row is to be passed over for it: {}; to give it up, run: walpost dlq drop --id {} --yes",
            letter.id, letter.reason, letter.id
        );
        return Err(Ended::with_sentence(Exit::CheckpointRefused, sentence));
    }
    let mut behind = -1;
    loop {
        let listed = desk.list(&filter(), behind).await?;
        let Some(last) = listed.last() else { return Ok(rows) };
        behind = last.id;
        for letter in &listed {
            // One that is gone by now ended long ago.
            if let Some((_, letter)) = desk.show(letter.id).await? {
                rows.add(&letter);
            }
        }
    }
}
