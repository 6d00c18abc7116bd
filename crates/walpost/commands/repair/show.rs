//! `walpost repair` without a way: what is wrong, what is known of the gap, and every way out.

use serde_json::{Value, json};
use walpost_core::finding::Finding;
use walpost_core::lsn::Lsn;
use walpost_core::start::StartState;

use super::survey::{Survey, Surveyed, rows};
use super::ways::{WayOut, ways_out};
use super::{Found, Outcome, Repair, postgres_refused};
use crate::config::Settings;
use crate::exit::Exit;

/// Shows everything. Ends with 0 where the relay may start, else with the code that its start would end with.
pub(super) async fn everything(settings: &Settings, found: &Found, asked: &Repair) -> Outcome {
    let is_surveyed = found.state.start().is_none() && !found.server.in_recovery;
    let survey = match is_surveyed {
        true => Survey::make(settings, found, &asked.fill).await.map_err(|error| postgres_refused(&error))?,
        false => Survey::default(),
    };
    let ways = ways_out(found, &survey, &asked.fill);
    // A relay that would start otherwise is refused for this too.
    let gap = found.state.start().and_then(|_| found.gap(settings));
    if asked.is_json {
        say!("{:#}", as_json(found, gap.as_ref(), &survey, &ways));
    } else {
        say_state(settings, found);
        if let Some(gap) = &gap {
            say!("but:        {}", gap.without_severity());
        }
        say_gap(found, &survey);
        say_ways(&ways);
    }
    Ok(match (found.state.exit_code(), &gap) {
        (0, None) => Exit::Success,
        (0, Some(_)) => Exit::SourceRefused,
        _ => Exit::of_start(&found.state),
    })
}

fn say_state(settings: &Settings, found: &Found) {
    let Found { state, stored, slot, server, .. } = found;
    say!("state:      {} (exit code {})", state.name(), state.exit_code());
    say!("            {}", state.sentence());
    match slot {
        Some(slot) => say!(
            "slot:       {}, confirmed {}, restart {}",
            slot.name,
            position(slot.confirmed),
            position(slot.restart)
        ),
        None => say!("slot:       {} does not exist", settings.source().slot()),
    }
    match stored {
        Some(stored) => {
            let time = stored.commit_time.map_or_else(|| "none yet".to_owned(), |time| time.to_rfc3339());
            say!("checkpoint: {} on timeline {}, last settled commit {time}", stored.position, stored.timeline.0);
        }
        None => say!("checkpoint: none"),
    }
    say!("server:     system {}, timeline {}, flushed {}", server.system.0, server.timeline.0, server.flushed);
}

fn say_gap(found: &Found, survey: &Survey) {
    if found.state.start().is_some() {
        return;
    }
    if let Some((from, to)) = span(found) {
        say!("gap:        {} bytes of log, from {from} to {to}", to.get() - from.get());
    }
    for surveyed in &survey.outboxes {
        say_tally(survey, surveyed);
    }
    for note in &survey.notes {
        say!("            note: {note}");
    }
}

/// The rows of an outbox that lie in the gap.
pub(super) fn say_tally(survey: &Survey, surveyed: &Surveyed) {
    let (Some(since), Some(tally)) = (survey.since, &surveyed.tally) else { return };
    let name = &surveyed.table.name;
    say!("            {} of {name} since {}", rows(tally.rows), since.to_rfc3339());
    if let Some((first, last)) = tally.span {
        say!("              from {} to {}", first.to_rfc3339(), last.to_rfc3339());
    }
    if let Some((first, last)) = &tally.ids {
        say!("              first id {first}, last id {last}");
    }
}

fn say_ways(ways: &[WayOut]) {
    let (possible, impossible): (Vec<_>, Vec<_>) = ways.iter().partition(|way| way.prospect.is_ok());
    for (place, way) in possible.iter().enumerate() {
        say!("{}{}", if place == 0 { "ways out:   " } else { "            " }, way.command);
        if let Ok(prospect) = &way.prospect {
            say!("              {prospect}");
        }
    }
    for (place, way) in impossible.iter().enumerate() {
        say!("{}{}", if place == 0 { "not now:    " } else { "            " }, way.command);
        for reason in way.prospect.as_ref().err().into_iter().flatten() {
            say!("              {reason}");
        }
    }
}

/// The log of the gap, where it is known from where to where it goes.
fn span(found: &Found) -> Option<(Lsn, Lsn)> {
    let stored = found.stored.as_ref()?;
    match &found.state {
        StartState::SlotMissing { position, .. } => Some((*position, found.server.flushed)),
        StartState::SlotLost { .. } | StartState::SlotUnfinished { .. } => {
            Some((stored.position, found.server.flushed))
        }
        StartState::SlotAhead { confirmed, position, .. } => Some((*position, *confirmed)),
        _ => None,
    }
    .filter(|(from, to)| from <= to)
}

fn as_json(found: &Found, gap: Option<&Finding>, survey: &Survey, ways: &[WayOut]) -> Value {
    let Found { state, stored, slot, server, .. } = found;
    let time = |time: walpost_core::time::Timestamp| time.to_rfc3339();
    let outboxes: Vec<Value> = survey.outboxes.iter().map(tally_as_json).collect();
    let ways: Vec<Value> = ways
        .iter()
        .map(|way| match &way.prospect {
            Ok(prospect) => json!({ "name": way.name, "command": way.command, "possible": true, "prospect": prospect }),
            Err(reasons) => json!({ "name": way.name, "command": way.command, "possible": false, "reasons": reasons }),
        })
        .collect();
    json!({
        "state": state.name(),
        "exit": state.exit_code(),
        "sentence": state.sentence(),
        "remedy": state.remedy(),
        "publication": gap.map(Finding::without_severity),
        "slot": slot.as_ref().map(|slot| json!({
            "name": slot.name,
            "confirmed": slot.confirmed.map(|position| position.to_string()),
            "restart": slot.restart.map(|position| position.to_string()),
            "active_pid": slot.active_pid,
            "lost": slot.lost,
        })),
        "checkpoint": stored.as_ref().map(|stored| json!({
            "position": stored.position.to_string(),
            "timeline": stored.timeline.0,
            "commit_time": stored.commit_time.map(time),
        })),
        "server": {
            "system": server.system.0.to_string(),
            "timeline": server.timeline.0,
            "flushed": server.flushed.to_string(),
        },
        "gap": {
            "since": survey.since.map(time),
            "from": span(found).map(|(from, _)| from.to_string()),
            "to": span(found).map(|(_, to)| to.to_string()),
            "bytes": span(found).map(|(from, to)| to.get() - from.get()),
            "outboxes": outboxes,
            "notes": survey.notes,
        },
        "ways": ways,
    })
}

fn tally_as_json(surveyed: &Surveyed) -> Value {
    let tally = surveyed.tally.as_ref();
    let span = tally.and_then(|tally| tally.span);
    let ids = tally.and_then(|tally| tally.ids.as_ref());
    json!({
        "table": surveyed.table.name.to_string(),
        "rows": tally.map(|tally| tally.rows),
        "first": span.map(|(first, _)| first.to_rfc3339()),
        "last": span.map(|(_, last)| last.to_rfc3339()),
        "first_id": ids.map(|(first, _)| first),
        "last_id": ids.map(|(_, last)| last),
    })
}

fn position(position: Option<Lsn>) -> String {
    position.map_or_else(|| "nothing".to_owned(), |position| position.to_string())
}
