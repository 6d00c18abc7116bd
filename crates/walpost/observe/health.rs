//! Whether a relay lives, and whether it does its work: two questions, for who asks does different things about the answers.
//!
//! One that does not live is to be killed and started again, so only a loop that is stuck counts: a broker, a database or a route that
//! is away would be away for the next process too. One that is not ready needs somebody to look; each reason is a sentence that says at what. A
//! relay that stands by lives, and is not ready.
//!
//! No fault may leave a relay ready and silent. So beside what it knows to be wrong, it is not ready when something is owed and nothing has moved
//! for [`Limits::stalled_after`]: records at the sink, a checkpoint, the log at the server. Nor is it when it has nothing for a sink and knows that
//! nobody would take it: of that the sink itself tells, for only it can ask.

use std::time::Duration;

use walpost_core::time::Moment;

use super::board::{Link, Phase, Sight};
use super::recorder::class_word;

/// A loop that has not turned for so long is stuck. Idle, it turns every second.
pub const STUCK_AFTER: Duration = Duration::from_secs(10);

/// A server that was asked for a sign of life has so long to give it. It is asked at half of the silence timeout.
const ANSWER_TIME: Duration = Duration::from_secs(5);

/// From when on standing still is a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Of the loop; [`STUCK_AFTER`].
    pub stuck_after: Duration,
    /// With something owed.
    pub stalled_after: Duration,
    /// `wal_sender_timeout` of the stream: the server is given up after it.
    pub silence_timeout: Duration,
}

/// What was judged.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Health {
    /// Why it does not live, if it does not.
    pub dead: Option<String>,
    /// Why it is not ready; nothing where it is.
    pub unready: Vec<String>,
    /// What it is at: the phase, or `holding` where the stream is there and held.
    pub state: &'static str,
}

impl Health {
    /// Whether the process is worth keeping.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.dead.is_none()
    }

    /// Whether it does its work.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.unready.is_empty()
    }
}

/// Judges what was written down.
#[must_use]
pub fn judge(sight: &Sight, now: Moment, limits: Limits) -> Health {
    let dead = dead(sight, now, limits.stuck_after);
    let mut unready: Vec<String> = dead.clone().into_iter().collect();
    unready.extend(of_phase(sight, now));
    let mut state = sight.phase.word();
    if let Some(link) = &sight.link {
        let hold = held(link, now);
        if hold.is_some() && state == Phase::Streaming.word() {
            state = "holding";
        }
        unready.extend(hold);
        if link.view.is_stopping && sight.phase == Phase::Streaming {
            state = Phase::Stopping.word();
            unready.push("the relay finishes what is on its way, and ends".to_owned());
        }
        unready.extend(of_link(sight, link, now, limits));
    }
    Health { dead, unready, state }
}

fn dead(sight: &Sight, now: Moment, limit: Duration) -> Option<String> {
    let stuck = |since: Moment| Some(now.since(since)).filter(|age| *age >= limit);
    if let Some(age) = stuck(sight.beat_at) {
        return Some(format!("the loop has not turned for {} s: the process is stuck", age.as_secs()));
    }
    let age = stuck(sight.turned_at).filter(|_| sight.link.is_some())?;
    Some(format!("the stream's driver has not turned for {} s: the process is stuck", age.as_secs()))
}

fn of_phase(sight: &Sight, now: Moment) -> Option<String> {
    match &sight.phase {
        Phase::Streaming => None,
        Phase::Starting => Some("the relay is starting; there was no stream yet".to_owned()),
        Phase::StandingBy(reason) => Some(format!("standing by: {reason}")),
        Phase::Reconnecting(reason) => {
            let since = now.since(sight.down_since).as_secs();
            Some(format!("the stream has been down for {since} s and is made anew: {reason}"))
        }
        Phase::Stopping => Some("the relay ends".to_owned()),
    }
}

fn held(link: &Link, now: Moment) -> Option<String> {
    let (failure, since) = (link.view.trouble.as_ref()?, now.since(link.held_since?).as_secs());
    let class = class_word(failure.class);
    Some(format!("rows have been held for {since} s ({class}): {}", failure.reason))
}

/// What is owed and does not move, while there is a stream.
#[must_use]
pub fn stalls(sight: &Sight, now: Moment, limits: Limits) -> Vec<String> {
    sight.link.as_ref().map(|link| of_link(sight, link, now, limits)).unwrap_or_default()
}

fn of_link(sight: &Sight, link: &Link, now: Moment, limits: Limits) -> Vec<String> {
    let stalled = |since: Moment| Some(now.since(since)).filter(|age| *age >= limits.stalled_after);
    let mut reasons = Vec::new();
    if let Some(age) = stalled(link.acknowledged_at).filter(|_| link.view.owed.records > 0) {
        let (age, records) = (age.as_secs(), link.view.owed.records);
        reasons.push(format!("the sink has not acknowledged anything for {age} s, and {records} records are owed"));
    }
    if let Some((reason, age)) = sight.sink_away.as_ref().and_then(|(reason, since)| Some((reason, stalled(*since)?))) {
        reasons.push(format!("the sink has been away for {} s: {reason}", age.as_secs()));
    }
    if let Some(age) = link.checkpoint_due_since.and_then(stalled) {
        let age = age.as_secs();
        reasons.push(format!("the checkpoint store has not taken a checkpoint that was due {age} s ago; see the log"));
    }
    if let Some(age) = link.undescribed_since.and_then(stalled) {
        let age = age.as_secs();
        reasons.push(format!("nothing is taken from the stream until PostgreSQL describes an outbox, for {age} s now"));
    }
    // Other keys may flow all the while.
    if let Some(age) = link.letters_due_since.and_then(stalled) {
        let age = age.as_secs();
        reasons.push(format!(
            "whoever keeps the dead letters has not answered for {age} s; what is to be set aside is owed: see who locks walpost.dead_letter, or whether the brokers of dead_letter.topic answer"
        ));
    }
    reasons.extend(sight.marks_unread.as_ref().and_then(|(reason, since)| {
        let reason = reason.as_deref().unwrap_or("whoever keeps them has not answered");
        let age = stalled(*since)?.as_secs();
        Some(format!("marked dead letters cannot be read, for {age} s now: {reason}"))
    }));
    reasons.extend(silence(link, now, limits).or_else(|| unsent(sight, link, now, limits)));
    reasons
}

fn silence(link: &Link, now: Moment, limits: Limits) -> Option<String> {
    let half = limits.silence_timeout / 2;
    let silence = now.since(link.view.heard_at);
    let is_silent = link.view.wants_frames && silence >= half + ANSWER_TIME.min(half / 2);
    let given_up = limits.silence_timeout.as_secs();
    is_silent
        .then(|| format!("the server has said nothing for {} s; it is given up after {given_up} s", silence.as_secs()))
}

fn unsent(sight: &Sight, link: &Link, now: Moment, limits: Limits) -> Option<String> {
    let ahead = now.since(sight.server.horizon.ahead_since(link.view.received)?);
    let still = now.since(link.progressed_at);
    if !link.view.wants_frames || ahead < limits.stalled_after || still < limits.stalled_after {
        return None;
    }
    Some(format!(
        "the server has WAL behind {} since {} s, and nothing of it has come for {} s: a long transaction that is decoded, or one of synchronized_standby_slots that lags",
        link.view.received,
        ahead.as_secs(),
        still.as_secs()
    ))
}

#[cfg(test)]
mod tests;
