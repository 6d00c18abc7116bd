//! Makes the slot anew and publishes the rows of the gap from their tables; the stream goes on behind them.
//!
//! # Broken off at any moment, it can be run again
//!
//! The checkpoint moves at the very end, in one write, to where the new slot's log begins. Until then it stands where the gap begins, or
//! at the very start of the log where it could not be compared with this server's, and always before the new slot: a relay that is
//! started meanwhile finds the slot ahead and refuses, and so does the next `walpost repair`, which offers to fill since
//! the same time again. What was published by then is published again.
//!
//! # The publisher
//!
//! Rows of a table are a [`Source`](walpost_core::port::Source) like any other, so what publishes them is the relay's own session and driver:
//! the same router, limits, order, retries, and the same judgement of what is a bad row. Only the checkpoint is not theirs; so where the relay
//! would commit events and checkpoint as one, here they are published one by one, and a row may be there twice, as after any fill.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::hash::{BuildHasher as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use walpost_core::failure::{Class, chain};
use walpost_core::feedback;
use walpost_core::lsn::Lsn;
use walpost_core::poison::{Inventory, OnBadRow, Policy};
use walpost_core::port::{Checkpoints, DeadLetters as _, Sink as _};
use walpost_core::position::{Checkpoint, Epoch, Identity};
use walpost_core::session::{self, Cause, End, Session, SessionError};
use walpost_core::start::StartState;
use walpost_core::time::Timestamp;
use walpost_postgres::Error as PostgresError;
use walpost_postgres::snapshot::{Lettered, NO_TIMELINE, NewSlot, Rows, Table, place_of};
use walpost_postgres::{inspect, repair, sql};

use super::survey::{Survey, rows};
use super::{Fill, Found, Outcome, Repair, checkpoint_refused, impossible, lettered, postgres_refused, show, ways};
use crate::config::Settings;
use crate::config::settings::Sink;
use crate::driver::{Checkpointer, Clock, LetterWriter, Signals, Staff, drive};
use crate::exit::{Ended, Exit};
use crate::letters::{self, AnyLetters};
use crate::observe::board::Board;
use crate::observe::log;
use crate::observe::recorder::Recorder;
use crate::signals::Stop;
use crate::sink::AnySink;
use crate::{journal, relay};

/// Longer than anything here may take: a broker that is away is waited for, as by the relay, and so is the server's sorting. Whether the server
/// is there at all another session is asked.
const FOR_EVER: Duration = Duration::from_secs(366 * 24 * 3600);

/// How often the server is asked for a sign of life.
const ASK: Duration = Duration::from_secs(5);

/// How often it is said how far it came.
const PROGRESS: Duration = Duration::from_secs(10);

/// How long a sink may take to go.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The wait before a sink that could not be reset is reset again.
const RESET_AGAIN: Duration = Duration::from_secs(1);

/// Shows what would be published; with `--yes`, does it.
pub(super) async fn fill(settings: &Settings, found: Found, asked: &Repair) -> Outcome {
    found.refuse_hands_off()?;
    let survey = Survey::make(settings, &found, &asked.fill).await.map_err(|error| postgres_refused(&error))?;
    let prospect = ways::filling(&found, &survey, &asked.fill).map_err(|reasons| impossible(&reasons))?;
    // With this sink, standard output is for records.
    let is_quiet = asked.is_agreed && *settings.sink() == Sink::Stdout;
    if !is_quiet {
        say!("filling the gap {prospect}");
        survey.outboxes.iter().for_each(|surveyed| show::say_tally(&survey, surveyed));
        survey.notes.iter().for_each(|note| say!("note: {note}"));
    }
    if !asked.is_agreed {
        lettered::prospect(settings).await?.iter().for_each(|note| say!("note: {note}"));
        say!("nothing was done; to do it, add --yes");
        return Ok(Exit::Success);
    }
    let Some(since) = survey.since else { return Err(impossible(&survey.obstacles)) };
    let tables = survey.outboxes.into_iter().map(|surveyed| surveyed.table).collect();
    let mut filling = Filling::begin(settings, found, tables, since, &asked.fill).await?;
    let outcome = filling.go().await;
    let Filling { sink, count, skipped, lettered, .. } = filling;
    sink.close(CLOSE_TIMEOUT).await;
    let (position, last) = outcome?;
    let sentence = filled(settings, count, (skipped.len(), lettered.count()), position, last);
    if is_quiet {
        complain!("{sentence}");
    } else {
        say!("{sentence}");
    }
    Ok(Exit::Success)
}

/// What was done.
fn filled(
    settings: &Settings,
    count: u64,
    (skipped, lettered): (usize, usize),
    position: Lsn,
    last: Option<Timestamp>,
) -> String {
    let bad = if skipped == 0 { String::new() } else { format!(", {skipped} passed over") };
    let lettered = match lettered {
        0 => String::new(),
        lettered => format!(", {lettered} passed over as dead letters that are open or were dropped"),
    };
    let until = last.map(|time| format!(", the last of {}", time.to_rfc3339())).unwrap_or_default();
    format!(
        "{} published{bad}{lettered}{until}; the checkpoint of relay {:?} now stands at the slot's {position}; to go on, run: walpost run",
        rows(i64::try_from(count).unwrap_or(i64::MAX)),
        settings.name()
    )
}

/// A fill under way.
struct Filling<'a> {
    settings: &'a Settings,
    found: Found,
    tables: Vec<Table>,
    since: Timestamp,
    asked: Fill,
    stop: Stop,
    sink: AnySink,
    /// How many rows were published.
    count: u64,
    /// Which were passed over.
    skipped: BTreeSet<Identity>,
    /// Those of which letters tell.
    lettered: Arc<Lettered>,
}

impl<'a> Filling<'a> {
    /// Opens the sink, and keeps every other repair out.
    async fn begin(
        settings: &'a Settings,
        found: Found,
        tables: Vec<Table>,
        since: Timestamp,
        asked: &Fill,
    ) -> Result<Self, Ended> {
        log::start(settings.log());
        let stop = Stop::listen().map_err(|error| Ended::because(Exit::Unexpected, error))?;
        let sink = AnySink::open_without_transactions(settings)
            .map_err(|failure| Ended::because(Exit::SinkRefused, failure))?;
        found.lock(settings).await?;
        let (asked, skipped) = (asked.clone(), BTreeSet::new());
        let lettered = Arc::default();
        Ok(Self { settings, found, tables, since, asked, stop, sink, count: 0, skipped, lettered })
    }

    /// Answers where the checkpoint stands, and when the last row that was published was committed.
    async fn go(&mut self) -> Result<(Lsn, Option<Timestamp>), Ended> {
        // Before anything is touched: it may be refused.
        self.letters().await?;
        self.lettered = Arc::new(Lettered::new(lettered::rows(self.settings).await?));
        self.mark().await?;
        let refused = |error| postgres_refused(&error);
        let (source, for_standbys) = (self.settings.source(), self.found.is_for_standbys(self.settings));
        if self.found.slot.is_some() {
            repair::drop_slot(&self.found.sql, source.slot()).await.map_err(refused)?;
        }
        let endpoint = self.found.sql.endpoint();
        let slot =
            NewSlot::create(source.connection(), endpoint, source.slot(), for_standbys).await.map_err(refused)?;
        tracing::info!(position = %slot.consistent, since = self.since.to_rfc3339(), "the slot is made anew; publishing the rows of the gap");
        let last = self.publish(&slot).await?;
        self.settle(slot.consistent, last).await?;
        Ok((slot.consistent, last))
    }

    /// What becomes of rows that cannot be published.
    fn poison(&self) -> Policy {
        let poison = self.settings.session().poison;
        // What is passed over is not set aside.
        let on_bad_row = if self.asked.skips_bad { OnBadRow::Stop } else { poison.on_bad_row };
        Policy { on_bad_row, ..poison }
    }

    /// Where rows are set aside, if any may be, and what lies there.
    async fn letters(&self) -> Result<Option<(AnyLetters, Inventory)>, Ended> {
        if !self.poison().needs_store() {
            return Ok(None);
        }
        let mut store = AnyLetters::new(self.settings);
        let inventory = store.inventory().await.map_err(Ended::from)?;
        Ok(Some((store, inventory)))
    }

    /// Holds the checkpoint, fences whoever had it, and makes it one that no start can go on from once the new slot is there.
    async fn mark(&mut self) -> Result<(), Ended> {
        let refused = |error| checkpoint_refused(&error);
        let store = &mut self.found.store;
        let is_elsewhere = matches!(
            self.found.state,
            StartState::Future { .. }
                | StartState::TimelineBehind { .. }
                | StartState::Promoted { .. }
                | StartState::OtherSystem { .. }
                | StartState::OtherCheckpoint { .. }
        );
        let on_our_log = self.found.stored.as_ref().filter(|_| !is_elsewhere);
        let position = on_our_log.map_or(Lsn::new(1), |stored| stored.position);
        let mark = match on_our_log {
            Some(stored) if self.asked.since.is_none() => stored.clone(),
            // The next run begins no later than this one.
            _ => relay::checkpoint_at(self.settings, position, Some(self.since), None, &self.found.server),
        };
        store.replace(&mark).await.map_err(refused)?;
        store.claim(&mark).await.map_err(refused)?;
        Ok(())
    }

    /// Moves the checkpoint to where the new slot's log begins.
    async fn settle(&mut self, consistent: Lsn, last: Option<Timestamp>) -> Result<(), Ended> {
        let refused = |error| postgres_refused(&error);
        let source = self.settings.source();
        let slot = inspect::slot_state(&self.found.sql, source.slot()).await.map_err(refused)?;
        if slot.is_none_or(|slot| slot.confirmed != Some(consistent) || slot.lost.is_some()) {
            let sentence = format!(
                "the slot \"{}\" that was made at {consistent} was moved, lost or dropped meanwhile; run this again",
                source.slot()
            );
            return Err(Ended::with_sentence(Exit::SlotAhead, sentence));
        }
        let server = inspect::server_state(&self.found.sql, source.connection()).await.map_err(refused)?;
        let commit_time =
            last.or(self.found.stored.as_ref().and_then(|stored| stored.commit_time)).or(Some(self.since));
        let checkpoint = relay::checkpoint_at(self.settings, consistent, commit_time, None, &server);
        self.found.store.replace(&checkpoint).await.map_err(|error| checkpoint_refused(&error))?;
        Ok(())
    }

    /// Publishes all rows, in as many sessions as there are rows to be passed over.
    async fn publish(&mut self, slot: &NewSlot) -> Result<Option<Timestamp>, Ended> {
        let (clock, seed) = (Clock::start(), seed());
        let mut beginning = session::Start::at(place_of(self.since), NO_TIMELINE, seed);
        loop {
            let (end, source_error) = self.run(slot, beginning.clone(), clock).await?;
            let last = end.commit_time.or(beginning.commit_time);
            let bad = match (&end.cause, &source_error) {
                (Cause::Stopped, _) if end.unsettled == 0 && !self.stop.is_asked() => return Ok(last),
                (Cause::Broken(SessionError::Row { identity, .. }), _) => Some((*identity, said(&end.cause))),
                (Cause::Undeliverable(identity, failure), _) if failure.class == Class::Row => {
                    Some((*identity, said(&end.cause)))
                }
                _ => None,
            };
            let Some((identity, reason)) = bad else { return Err(self.broken_off(&end, source_error)) };
            if !self.asked.skips_bad {
                let sentence = format!(
                    "{reason}; {} were published before it and the checkpoint has not moved; correct the configuration, the topic or the row and run this again, or pass over such rows with --skip-bad",
                    rows(i64::try_from(self.count).unwrap_or(i64::MAX))
                );
                return Err(Ended::with_sentence(Exit::BadRow, sentence));
            }
            tracing::error!(reason, "a row is passed over");
            self.skipped.insert(identity);
            self.reset().await?;
            let first = end.first_owed.unwrap_or(identity);
            beginning = session::Start {
                position: first.commit_lsn,
                checkpointed: first.commit_lsn,
                commit_time: last,
                first_owed: Some(first),
                settled_ahead: Arc::clone(&end.settled_ahead),
                first_ticket: end.next_ticket,
                ..beginning
            };
        }
    }

    /// One session, to its end.
    async fn run(
        &mut self,
        slot: &NewSlot,
        mut beginning: session::Start,
        clock: Clock,
    ) -> Result<(End, Option<PostgresError>), Ended> {
        let (source, endpoint) = (self.settings.source(), self.found.sql.endpoint());
        let since = Timestamp::from_postgres_micros(i64::try_from(beginning.position.get()).unwrap_or(i64::MAX));
        let skipped = self.skipped.clone();
        let opened = Rows::open(
            source.connection(),
            endpoint,
            &slot.snapshot,
            &self.tables,
            since,
            skipped,
            Arc::clone(&self.lettered),
        );
        let (table_rows, exhausted) = opened.await.map_err(|error| postgres_refused(&error))?;
        let staff = self.staff(&mut beginning).await?;
        let outboxes = self.settings.outboxes().clone();
        let mut session = Session::new(self.session_settings(), outboxes, beginning, clock.now());
        let mut stop = self.stop.clone();
        let mut watcher = self.found.sql.watcher();
        let mut recorder = Recorder::new(Board::new(clock));
        let signals = Signals {
            stop: async {
                tokio::select! {
                    _ = exhausted => {}
                    () = stop.asked() => {}
                }
            },
            server_gone: async { drop(watcher.ended().await) },
            // Nobody asks how this fares but its log.
            recorder: &mut recorder,
        };
        let mut stop = self.stop.clone();
        let patience = self.settings.stop_timeout();
        let given_up = async {
            stop.asked().await;
            sleep(patience).await;
        };
        let driven = tokio::select! {
            driven = drive(&mut session, table_rows, &mut self.sink, staff, signals, clock) => Some(driven),
            () = given_up => None,
            () = keep_asking(&self.found.sql, source.connection().connect_timeout()) => None,
        };
        let owed = driven.as_ref().map_or_else(|| session.owed().records, |driven| driven.end.unsettled);
        self.count += session.counters().events.saturating_sub(u64::try_from(owed).unwrap_or(u64::MAX));
        let Some(driven) = driven else { return Err(Ended::with_sentence(Exit::ForcedStop, stopped(self.count))) };
        if let Some(verdict) = driven.sink_verdict {
            return Err(Ended::with_sentence(self.sink.exit(), verdict.reason));
        }
        Ok((driven.end, driven.source_error))
    }

    /// The relay's, but for what only a stream has: it goes silent, and its records and its position can be one.
    fn session_settings(&self) -> session::Settings {
        let ours = self.settings.session();
        session::Settings {
            poison: self.poison(),
            silence_timeout: FOR_EVER,
            drain_timeout: FOR_EVER,
            feedback: feedback::Settings { checkpoint_interval: PROGRESS, ..ours.feedback },
            grouping: None,
            ..ours
        }
    }

    /// Who works for a session beside the rows and the sink. What lies with the dead letters is told to the session that begins.
    async fn staff(&self, beginning: &mut session::Start) -> Result<Staff, Ended> {
        let letters = match self.letters().await? {
            Some((store, inventory)) => {
                beginning.inventory = inventory;
                Some(LetterWriter::start(store, !self.poison().is_parking(), letters::Error::with_remedy))
            }
            None => None,
        };
        let describer = relay::describer(self.settings, self.found.sql.endpoint(), beginning.seed);
        let pattern = relay::checkpoint_at(self.settings, beginning.position, None, None, &self.found.server);
        let checkpointer = Checkpointer::start(Progress, pattern, |never| match *never {});
        Ok(Staff { checkpointer, describer, letters })
    }

    /// Why it ended before its time.
    fn broken_off(&self, end: &End, source_error: Option<PostgresError>) -> Ended {
        let again = "the checkpoint has not moved; run this again: what was published is published again";
        match (&end.cause, source_error) {
            (Cause::Stopped, _) => Ended::with_sentence(Exit::ForcedStop, stopped(self.count)),
            (Cause::Undeliverable(_, failure), _) => {
                let exit = if failure.class == Class::Configuration { self.sink.exit() } else { Exit::BadRow };
                Ended::with_sentence(exit, format!("{}; {again}", failure.reason))
            }
            (_, Some(error)) => {
                Ended::with_sentence(Exit::of_source(error.class()), format!("{}; {again}", chain(&error)))
            }
            (Cause::SourceLost | Cause::Silent, None) => {
                Ended::with_sentence(Exit::Unreachable, format!("{}; {again}", said(&end.cause)))
            }
            (cause, None) => Ended::with_sentence(Exit::SourceRefused, format!("{}; {again}", said(cause))),
        }
    }

    /// Takes back what the sink still has.
    async fn reset(&mut self) -> Result<(), Ended> {
        while let Err(failure) = self.sink.reset().await {
            if failure.class == Class::Configuration || self.stop.is_asked() {
                return Err(Ended::because(self.sink.exit(), failure));
            }
            journal::reset_failed(&failure);
            let _ = timeout(RESET_AGAIN, self.stop.asked()).await;
        }
        Ok(())
    }
}

/// Has the session given up once nobody answers, as the sessions that copy cannot: a server that sorts is silent too. Never completes.
async fn keep_asking(sql: &sql::Session, patience: Duration) {
    loop {
        sleep(ASK).await;
        // Of the session's end the watcher tells.
        if let Err(error @ PostgresError::Deadline { .. }) = sql.ping(patience).await {
            sql.give_up(error);
        }
    }
}

fn stopped(count: u64) -> String {
    format!(
        "stopped after {}; the checkpoint has not moved; run this again: what was published is published again",
        rows(i64::try_from(count).unwrap_or(i64::MAX))
    )
}

fn said(cause: &Cause) -> String {
    match cause {
        Cause::Broken(error) => chain(error),
        Cause::Undeliverable(_, failure) | Cause::Aborted(_, failure) => failure.reason.clone(),
        Cause::SourceLost | Cause::Silent => "PostgreSQL has gone away".to_owned(),
        Cause::Stopped => "stopped".to_owned(),
    }
}

/// Another number for each process, for the jitter of its waits.
fn seed() -> u64 {
    std::hash::RandomState::new().build_hasher().finish()
}

/// In the place of a store: rows of a table are settled all or not at all, so that how far it came is only worth a line.
struct Progress;

impl Checkpoints for Progress {
    type Error = Infallible;

    async fn load(&mut self) -> Result<Option<Checkpoint>, Infallible> {
        Ok(None)
    }

    async fn claim(&mut self, _: &Checkpoint) -> Result<Epoch, Infallible> {
        Ok(Epoch(0))
    }

    async fn save(&mut self, checkpoint: &Checkpoint) -> Result<(), Infallible> {
        if let Some(time) = checkpoint.commit_time {
            tracing::info!(until = time.to_rfc3339(), "filling");
        }
        Ok(())
    }
}
