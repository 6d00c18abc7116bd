//! Every way out of a state: what it loses, what it repeats, or why it is not one.

use walpost_core::start::StartState;

use super::survey::{Survey, rows};
use super::{Fill, Found};

/// A way out.
#[derive(Debug)]
pub(super) struct WayOut {
    /// Its name, for scripts.
    pub(super) name: &'static str,
    /// How it is gone.
    pub(super) command: String,
    /// What it comes to; or why it is not possible, a sentence each.
    pub(super) prospect: Result<String, Vec<String>>,
}

/// All of them, in the order in which they are to be considered. None where nothing is wrong.
pub(super) fn ways_out(found: &Found, survey: &Survey, fill: &Fill) -> Vec<WayOut> {
    if found.state.start().is_some() {
        return Vec::new();
    }
    let fresh = matches!(found.state, StartState::Fresh { .. });
    let init = fresh.then(|| WayOut {
        name: "init",
        command: "walpost init".to_owned(),
        prospect: Ok("begins here: rows that stand in the outboxes already are not published".to_owned()),
    });
    let hands_off = |prospect: Result<String, Vec<String>>| match found.hands_off() {
        Some(reason) => Err(vec![reason]),
        None => prospect,
    };
    let adopt = WayOut {
        name: "adopt-slot",
        command: "walpost repair --adopt-slot --yes".to_owned(),
        prospect: hands_off(adopting(found)),
    };
    let filling = WayOut {
        name: "fill",
        command: filling_command(survey, fill),
        prospect: hands_off(filling(found, survey, fill)),
    };
    let recreate = WayOut {
        name: "recreate",
        command: "walpost repair --recreate --accept-gap --yes".to_owned(),
        prospect: hands_off(Ok(recreating(found, survey))),
    };
    init.into_iter().chain([adopt, filling, recreate]).collect()
}

/// What it comes to when the relay goes on from where the slot stands.
pub(super) fn adopting(found: &Found) -> Result<String, Vec<String>> {
    let Some(slot) = &found.slot else { return Err(vec!["there is no slot".to_owned()]) };
    if let Some(reason) = &slot.lost {
        return Err(vec![format!("the server has invalidated the slot ({reason})")]);
    }
    let Some(confirmed) = slot.confirmed.filter(|position| position.is_valid()) else {
        return Err(vec!["the slot has no confirmed position".to_owned()]);
    };
    if confirmed > found.server.flushed {
        return Err(vec![format!(
            "the slot's {confirmed} lies beyond the server's log, which ends at {}",
            found.server.flushed
        )]);
    }
    let loses_nothing = format!(
        "loses nothing that this server has: the WAL from {confirmed} on is kept; repeats what was published after it"
    );
    Ok(match &found.state {
        StartState::SlotAhead { position, .. } => {
            format!(
                "LOSES what was committed between {position} and {confirmed} and is not published yet; repeats nothing"
            )
        }
        StartState::Promoted { switch: Some(switch), .. } if confirmed <= *switch => loses_nothing,
        StartState::Promoted { switch: Some(switch), .. } => format!(
            "LOSES what this server committed between its promotion at {switch} and {confirmed}; repeats what was published after it"
        ),
        StartState::Future { .. } | StartState::CheckpointMissing { .. } => loses_nothing,
        _ => format!("goes on at {confirmed}: LOSES what this server committed before and nobody published"),
    })
}

/// What it comes to when the slot is made anew and that is all.
pub(super) fn recreating(found: &Found, survey: &Survey) -> String {
    let lost = match survey.rows() {
        Some(count) if survey.since.is_some() => {
            format!("{} since {} among which those are", rows(count), written(survey))
        }
        _ => "no one knows how many".to_owned(),
    };
    let from = found.stored.as_ref().map(|stored| format!(" after {}", stored.position)).unwrap_or_default();
    format!("LOSES what was committed{from} and is not published yet ({lost}); repeats nothing")
}

/// What it comes to when the gap is filled.
pub(super) fn filling(found: &Found, survey: &Survey, fill: &Fill) -> Result<String, Vec<String>> {
    let mut reasons = survey.reasons(fill);
    if !found.store.keeps_a_checkpoint() {
        reasons.push(NO_STORE.to_owned());
    } else if !found.can_keep {
        reasons.push(NO_TABLE.to_owned());
    }
    if !reasons.is_empty() {
        return Err(reasons);
    }
    let count = survey.rows().map_or_else(|| "the rows".to_owned(), rows);
    Ok(format!(
        "loses nothing that still stands in its table: publishes {count} since {}, then the stream goes on behind them; repeats what was published since then; order is that of their times",
        written(survey)
    ))
}

/// Why a slot alone is not enough.
const NO_STORE: &str = "checkpoint.store = \"slot\" keeps nothing by which a fill that was broken off is told from one that is done; set checkpoint.store to postgres or file, and run walpost repair --fill with --since TIME";

/// Why the row cannot be written.
const NO_TABLE: &str =
    "the table walpost.checkpoint does not exist; run walpost init first, then walpost repair --fill with --since TIME";

fn written(survey: &Survey) -> String {
    survey.since.map_or_else(|| "the beginning".to_owned(), |since| since.to_rfc3339())
}

fn filling_command(survey: &Survey, fill: &Fill) -> String {
    let mut command = "walpost repair --fill".to_owned();
    if survey.since.is_none() {
        command.push_str(" --since TIME");
    } else if let Some(since) = fill.since {
        command.push_str(&format!(" --since {}", since.to_rfc3339()));
    }
    if let Some(by) = &fill.by {
        command.push_str(&format!(" --by {by}"));
    }
    if fill.rows_are_kept {
        command.push_str(" --rows-are-kept");
    }
    command
}
