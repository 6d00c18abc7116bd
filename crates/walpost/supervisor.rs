//! Makes connections, for as long as there is sense in it.
//!
//! Each attempt looks at slot, checkpoint and server, compares them, starts the stream, which takes the slot, reads the
//! checkpoint once more, claims it, and drives a session to its end. What ended an attempt is decided in one place:
//! [`decide`]. The sink outlives the attempts; so does, in memory, how far the last one got.

mod publications;

use std::fmt;
use std::time::Duration;

use tokio::time::{sleep, timeout};
use walpost_core::backoff::Backoff;
use walpost_core::failure::{Class as DeliveryClass, Failure, chain};
use walpost_core::finding::Finding;
use walpost_core::lsn::Lsn;
use walpost_core::poison::Inventory;
use walpost_core::port::{Checkpoints, DeadLetters, Sink, Ticket};
use walpost_core::position::{Checkpoint, Epoch, Identity, SystemIdentifier, Timeline};
use walpost_core::session::{self, Cause, End, Lessons, Session, SessionError};
use walpost_core::start::{self, ServerState, StartState};
use walpost_core::time::Timestamp;
use walpost_postgres::checkpoint;
use walpost_postgres::describe::Catalogue;
use walpost_postgres::error::{Class, Error as PostgresError};
use walpost_postgres::inspect;
use walpost_postgres::preflight::{self, Coverage};
use walpost_postgres::sql;
use walpost_postgres::stream::{Stream, StreamSettings};

use crate::commands::{self, Hindrance, Outcome};
use crate::config::Settings;
use crate::driver::{Checkpointer, Clock, Describer, Driven, LetterWriter, Patience, Signals, Staff, drive};
use crate::exit::{Ended, Exit};
use crate::letters::{self, AnyLetters};
use crate::observe::recorder::Recorder;
use crate::signals::Stop;
use crate::sink::AnySink;
use crate::store::{self, AnyStore};
use crate::{journal, misfit, relay};

/// The longest wait before the slot is looked at again while somebody else has it.
const STAND_BY_INTERVAL: Duration = Duration::from_secs(1);

/// How long a stop waits for a sink to give back what it has.
const RESET_TIMEOUT: Duration = Duration::from_secs(3);

/// How long to wait before the last checkpoint is tried again. Our own last writer may hold the file for a moment.
const SAVE_AGAIN: Duration = Duration::from_millis(50);

/// How long a statement may take on the session that looks at the server.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// See the module's documentation.
#[derive(Debug)]
pub struct Supervisor {
    settings: Settings,
    session_settings: session::Settings,
    sink: AnySink,
    stop: Stop,
    clock: Clock,
    backoff: Backoff,
    seed: u64,
    recorder: Recorder,
    memory: Option<Memory>,
    /// What sessions learned of records whose failure takes a group with it.
    lessons: Lessons,
    letter_memory: letters::Memory,
    next_ticket: Ticket,
    has_streamed: bool,
    /// What may be created was created, or was there.
    is_prepared: bool,
    /// Whom the log says that we wait for.
    stands_by_for: Option<String>,
    /// By what the outboxes were published when that was last looked at.
    coverage: Option<Coverage>,
    /// The server's process that last read the slot for us.
    reader: Option<u32>,
}

/// How far the last session of this process got, which the checkpoint store may not know yet.
#[derive(Debug, Clone, Copy)]
struct Memory {
    system: SystemIdentifier,
    timeline: Timeline,
    /// Under which our checkpoints were written. Another one in the store means that another relay went on from there.
    epoch: Epoch,
    position: Lsn,
    commit_time: Option<Timestamp>,
    first_owed: Option<Identity>,
    rest: Rest,
}

/// What a session left undone, as far as a stop is concerned.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Rest {
    unsettled: usize,
    unsaved: u64,
    /// A transaction was published in part.
    is_cut: bool,
}

impl Rest {
    fn is_nothing(self) -> bool {
        self == Self::default()
    }
}

impl fmt::Display for Rest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { unsettled, unsaved, is_cut } = self;
        let cut = if *is_cut { ", a transaction published in part" } else { "" };
        write!(f, "{unsettled} records undelivered{cut} and {unsaved} delivered after the last checkpoint")
    }
}

impl Memory {
    /// Whether it is about this server, and the store is as we left it. An operator may have changed it, backwards too.
    fn is_of(&self, stored: Option<&Checkpoint>, server: &ServerState, store: &AnyStore) -> bool {
        let is_as_left = stored.is_some_and(|stored| !store.keeps_a_checkpoint() || stored.epoch == self.epoch);
        self.system == server.system && is_as_left
    }

    /// The stored checkpoint, moved on to where we are.
    fn ahead_of(&self, stored: &Checkpoint) -> Checkpoint {
        if self.position < stored.position {
            return stored.clone();
        }
        Checkpoint {
            timeline: self.timeline,
            position: self.position,
            commit_time: self.commit_time.or(stored.commit_time),
            ..stored.clone()
        }
    }
}

/// What ended an attempt.
#[derive(Debug)]
enum Trouble {
    /// The relay was told to stop while no session lived. What the last one left, if there was one.
    StoppedBefore(Rest),
    /// PostgreSQL could not be reached, or refused.
    Postgres(PostgresError),
    /// The checkpoint store could not be read or claimed.
    Checkpoint(store::Error),
    /// It cannot be reached any more by a relay that has streamed.
    StoreAway(store::Error),
    /// The brokers refused us for somebody who came after us, or for a transaction that had grown too old.
    Fenced(Failure),
    /// A transaction of the sink could not begin, or was not committed.
    Transaction(Failure),
    /// The dead letters could not be read.
    Letters(letters::Error),
    /// Server, slot and checkpoint do not fit together.
    Start(StartState),
    /// The server's end of our own last connection still has the slot.
    Lingering(StartState),
    /// Where we streamed before is a standby now, or only a standby answers: a failover is under way.
    NoPrimary(StartState),
    /// Rows of an outbox would be passed over.
    Unpublished(Finding),
    /// No row of an outbox could be published; all that is wrong.
    Misfit(Vec<Finding>),
    /// The checkpoint has moved between our look at it and our hold of the slot.
    Moved,
    /// The sink will take nothing.
    Sink(Failure),
    /// What may be created cannot be.
    Unprepared(Ended),
    /// A session ended.
    Session { cause: Cause, rest: Rest, source_error: Option<PostgresError> },
}

impl Trouble {
    /// The word for it among the figures.
    fn word(&self) -> &'static str {
        match self {
            Self::StoppedBefore(_) => "stopped",
            Self::Postgres(_) => "postgres",
            Self::Checkpoint(_) | Self::StoreAway(_) => "checkpoint",
            Self::Fenced(_) => "fenced",
            Self::Transaction(_) => "transaction",
            Self::Letters(_) => "dead_letters",
            Self::Start(_) => "start",
            Self::Lingering(_) => "lingering",
            Self::NoPrimary(_) => "no_primary",
            Self::Unpublished(_) => "unpublished",
            Self::Misfit(_) => "misfit",
            Self::Moved => "checkpoint_moved",
            Self::Sink(_) => "sink",
            Self::Unprepared(_) => "unprepared",
            Self::Session { cause, .. } => match cause {
                Cause::Stopped => "stopped",
                Cause::SourceLost => "source_lost",
                Cause::Silent => "source_silent",
                Cause::Broken(_) => "protocol",
                Cause::Undeliverable(..) => "undeliverable",
                Cause::Aborted(..) => "transaction",
            },
        }
    }
}

impl From<Hindrance> for Trouble {
    fn from(hindrance: Hindrance) -> Self {
        match hindrance {
            Hindrance::Postgres(error) => Self::Postgres(error),
            Hindrance::Checkpoint(error) => Self::Checkpoint(error),
            Hindrance::Letters(error) => Self::Letters(error),
            Hindrance::Refused(ended) => Self::Unprepared(ended),
        }
    }
}

/// What is done about it.
#[derive(Debug)]
enum Decision {
    /// Try again after the next wait.
    Again(String),
    /// Somebody else has the slot: ask again soon, for as long as it takes. That is how a second instance stands by.
    StandBy(String),
    /// As above, but it is ourselves: nobody publishes meanwhile.
    Linger(String),
    /// End the process.
    End(Result<Exit, Ended>),
}

impl Supervisor {
    /// A supervisor of this relay. It stops by itself at `until`, if that is given. `seed` makes the waits of many relays
    /// differ.
    #[must_use]
    pub fn new(
        settings: Settings,
        until: Option<Lsn>,
        sink: AnySink,
        stop: Stop,
        clock: Clock,
        seed: u64,
        recorder: Recorder,
    ) -> Self {
        let session_settings = session::Settings { stop_at: until, ..settings.session() };
        let backoff = Backoff::new(session_settings.retry_initial, session_settings.retry_ceiling, seed);
        Self {
            letter_memory: letters::Memory::new(&settings),
            settings,
            session_settings,
            sink,
            stop,
            clock,
            backoff,
            seed,
            recorder,
            memory: None,
            lessons: Lessons::default(),
            next_ticket: Ticket(0),
            has_streamed: false,
            is_prepared: false,
            stands_by_for: None,
            coverage: None,
            reader: None,
        }
    }

    /// Connects and drives until told to stop, or until only an operator can help. `on_first_stream` is called once, when a
    /// stream has started.
    ///
    /// The sink comes back with the outcome: it is for the caller to close.
    pub async fn run(mut self, on_first_stream: impl Fn()) -> (AnySink, Outcome) {
        loop {
            let trouble = self.attempt(&on_first_stream).await;
            let cause = trouble.word();
            match decide(trouble, self.sink.exit(), self.settings.source().slot().as_str()) {
                Decision::End(outcome) => {
                    self.recorder.stopping();
                    return (self.sink, outcome);
                }
                Decision::Again(reason) => {
                    self.recorder.reconnecting(cause, &reason);
                    let wait = self.backoff.next_wait();
                    let wait_ms = wait.as_millis();
                    tracing::warn!(reason, tries = self.backoff.tries(), wait_ms, "trying again");
                    self.wait(wait).await;
                }
                Decision::StandBy(reason) => {
                    self.recorder.standing_by(&reason);
                    self.ask_again_soon(reason, "standing by").await;
                }
                Decision::Linger(reason) => {
                    self.recorder.lingering(&reason);
                    self.ask_again_soon(reason, "waiting for the end of our own last connection").await;
                }
            }
        }
    }

    /// Waits a moment; what for is said once.
    async fn ask_again_soon(&mut self, reason: String, doing: &'static str) {
        if self.stands_by_for.as_ref() != Some(&reason) {
            tracing::warn!(reason, "{doing}");
            self.stands_by_for = Some(reason);
        }
        let wait = self.backoff.next_wait().min(STAND_BY_INTERVAL);
        self.wait(wait).await;
    }

    /// Waits, but not beyond a stop; the next attempt sees it.
    async fn wait(&mut self, wait: Duration) {
        tokio::select! {
            () = sleep(wait) => {}
            () = self.stop.asked() => {}
        }
    }

    async fn attempt(&mut self, on_first_stream: &impl Fn()) -> Trouble {
        let mut stop = self.stop.clone();
        let connected = tokio::select! {
            connected = self.connect() => connected,
            () = stop.asked() => Err(Trouble::StoppedBefore(self.save_memory().await)),
        };
        match connected {
            Ok(connection) => self.stream(connection, on_first_stream).await,
            Err(trouble) => trouble,
        }
    }

    /// Writes down what only this process knows, before it is stopped without a connection, if the store can be had in time
    /// and is as we left it. Answers what is left undone.
    async fn save_memory(&self) -> Rest {
        let Some(memory) = self.memory else { return Rest::default() };
        // What a sink has not committed is in no memory.
        if memory.rest.unsaved == 0 || self.sink.is_transactional() {
            return memory.rest;
        }
        let saved = timeout(self.settings.stop_timeout(), async {
            loop {
                match self.try_to_save(memory).await {
                    Ok(is_saved) => return is_saved,
                    Err(error) => {
                        let reason = chain(&error);
                        tracing::debug!(reason, "the last checkpoint is not written yet");
                        sleep(SAVE_AGAIN).await;
                    }
                }
            }
        });
        match saved.await {
            Ok(true) => Rest { unsaved: 0, ..memory.rest },
            Ok(false) | Err(_) => memory.rest,
        }
    }

    /// Whether the store was as we left it, and now has our position.
    async fn try_to_save(&self, memory: Memory) -> Result<bool, store::Error> {
        let mut store = relay::store(&self.settings);
        let Some(stored) = store.load().await? else { return Ok(false) };
        if !store.keeps_a_checkpoint() || stored.epoch != memory.epoch || stored.system != memory.system {
            return Ok(false);
        }
        store.claim(&memory.ahead_of(&stored)).await?;
        Ok(true)
    }

    /// Gets hold of the slot and of the checkpoint.
    async fn connect(&mut self) -> Result<Connection, Trouble> {
        let source = self.settings.source();
        if source.may_create() && !self.is_prepared {
            commands::create(&self.settings).await?;
            self.is_prepared = true;
        }
        let sql = sql::Session::connect(source.connection(), STATEMENT_TIMEOUT).await.map_err(Trouble::Postgres)?;
        let mut store = relay::store(&self.settings);
        // In this order: a relay that stops in between has moved only what is read later.
        let slot = inspect::slot_state(&sql, source.slot()).await.map_err(Trouble::Postgres)?;
        let stored = store.load().await.map_err(|error| self.store_trouble(error))?;
        let server = inspect::server_state(&sql, source.connection()).await.map_err(Trouble::Postgres)?;
        let memory = self.memory.filter(|memory| memory.is_of(stored.as_ref(), &server, &store));
        let known =
            stored.clone().map(|stored| memory.map_or_else(|| stored.clone(), |memory| memory.ahead_of(&stored)));
        let state = start::compare(&server, slot.as_ref(), known.as_ref(), &relay::wanted(&self.settings));
        let (Some(position), Some(slot)) = (state.start(), slot) else {
            return Err(self.no_start(state));
        };
        journal::start(&state);
        let published = inspect::publications(&sql, source.publications()).await.map_err(Trouble::Postgres)?;
        if let Some(finding) = preflight::gap(&published, &relay::subject(&self.settings)) {
            return Err(Trouble::Unpublished(finding));
        }
        publications::look_for_breaks(&mut self.coverage, &published, &self.settings, self.recorder.board());
        if !self.has_streamed {
            // Of one that has published nothing yet, nothing can have been passed over since.
            if known.as_ref().is_some_and(|known| known.commit_time.is_some()) {
                let late = inspect::late_members(&sql, source.slot(), source.publications());
                journal::late_members(&late.await.map_err(Trouble::Postgres)?, self.settings.outboxes());
            }
            let misfits = misfit::of_outboxes(&sql, &self.settings, &published).await.map_err(Trouble::Postgres)?;
            if !misfits.is_empty() {
                return Err(Trouble::Misfit(misfits));
            }
            let unreferable = misfit::of_references(&sql, &self.settings, &published).await;
            if let Some(finding) = unreferable.map_err(Trouble::Postgres)? {
                return Err(Trouble::Unpublished(finding));
            }
        }

        let acknowledged = slot.confirmed.unwrap_or(position);
        let settings =
            StreamSettings::new(source.slot().clone(), source.publications().to_vec(), position, acknowledged)
                .with_wal_sender_timeout(source.wal_sender_timeout());
        let stream =
            Stream::connect(source.connection(), sql.endpoint(), &settings).await.map_err(Trouble::Postgres)?;
        let reading = inspect::slot_state(&sql, source.slot()).await.map_err(Trouble::Postgres)?;
        self.reader = reading.and_then(|slot| slot.active_pid);
        // The slot is ours from here on. Whoever had it before us may have gone on since we looked, and where it wrote by transactions it may
        // have left one open, behind which nothing can be read.
        self.sink.open_transactions().await.map_err(Trouble::Transaction)?;
        if store.keeps_a_checkpoint() && store.load().await.map_err(|error| self.store_trouble(error))? != stored {
            return Err(Trouble::Moved);
        }
        let commit_time = known.as_ref().and_then(|known| known.commit_time);
        // On another timeline the same LSN may belong to another transaction.
        let is_of_timeline = |known: &&Checkpoint| known.timeline == server.timeline;
        let settled_rows = known.as_ref().filter(is_of_timeline).and_then(|known| known.settled_rows);
        let checkpoint = relay::checkpoint_at(&self.settings, position, commit_time, settled_rows, &server);
        let epoch = self.claim(&mut store, stored.as_ref(), &checkpoint).await?;
        // After the claim: what another relay of this name set aside is there, and so is what a transaction left whose end nobody heard.
        let (letters, inventory) = self.take_inventory().await?;
        let beginning = session::Start {
            position,
            // The claim wrote it.
            checkpointed: position,
            timeline: server.timeline,
            commit_time,
            first_owed: memory.filter(|memory| memory.position == position).and_then(|memory| memory.first_owed),
            settled_rows,
            lessons: self.lessons.clone(),
            inventory,
            first_ticket: self.next_ticket,
            seed: self.seed ^ self.next_ticket.0,
        };
        let checkpoint = Checkpoint { epoch, ..checkpoint };
        Ok(Connection { sql, stream, store, letters, checkpoint, beginning, server })
    }

    /// What a state comes to in which there is no start, after what this process has seen.
    fn no_start(&self, state: StartState) -> Trouble {
        match state {
            StartState::InRecovery if self.has_streamed => Trouble::NoPrimary(state),
            StartState::SlotBusy { pid: Some(pid), .. } if self.reader == Some(pid) => Trouble::Lingering(state),
            state => Trouble::Start(state),
        }
    }

    /// Becomes the one who writes the checkpoint, wherever it lies.
    async fn claim(
        &mut self,
        store: &mut AnyStore,
        stored: Option<&Checkpoint>,
        checkpoint: &Checkpoint,
    ) -> Result<Epoch, Trouble> {
        if self.sink.is_transactional() {
            return Ok(self.sink.claim(stored, checkpoint).await.map_err(Trouble::Transaction)?.epoch);
        }
        store.claim(checkpoint).await.map_err(|error| self.store_trouble(error))
    }

    /// What was there may come back; what never was has to be made.
    fn store_trouble(&self, error: store::Error) -> Trouble {
        if self.has_streamed && !error.is_retried() && error.is_retried_under_way() {
            return Trouble::StoreAway(error);
        }
        Trouble::Checkpoint(error)
    }

    async fn take_inventory(&self) -> Result<(Option<AnyLetters>, Inventory), Trouble> {
        let Some(mut letters) = self.letters() else { return Ok((None, Inventory::default())) };
        let inventory = letters.inventory().await.map_err(Trouble::Letters)?;
        Ok((Some(letters), inventory))
    }

    async fn stream(&mut self, connection: Connection, on_first_stream: &impl Fn()) -> Trouble {
        let Connection { sql, stream, store, letters, checkpoint, beginning, server } = connection;
        let position = beginning.position;
        tracing::info!(
            %position,
            timeline = server.timeline.0,
            slot = %self.settings.source().slot(),
            checkpoint = store.place(),
            "streaming"
        );
        self.stands_by_for = None;
        if !std::mem::replace(&mut self.has_streamed, true) {
            on_first_stream();
        }
        let epoch = checkpoint.epoch;
        let staff = self.staff(&sql, store, checkpoint, letters);
        let mut session =
            Session::new(self.session_settings.clone(), self.settings.outboxes().clone(), beginning, self.clock.now());
        self.recorder.streaming(&session);
        let mut stop = self.stop.clone();
        let mut watcher = sql.watcher();
        let server_gone = async {
            let reason = chain(&*watcher.ended().await);
            tracing::warn!(
                reason,
                "PostgreSQL ended our session; the stream is closed, so that no shutdown waits for us"
            );
        };
        let mut gap = None;
        let (coverage, board) = (&mut self.coverage, self.recorder.board().clone());
        let stopped_or_gap = async {
            tokio::select! {
                () = stop.asked() => {}
                finding = publications::opening_gap(&sql, &self.settings, coverage, &board) => gap = Some(finding),
            }
        };
        let signals = Signals { stop: stopped_or_gap, server_gone, recorder: &mut self.recorder };
        let driven = drive(&mut session, stream, &mut self.sink, staff, signals, self.clock).await;
        // A connection that brought something was a good one, if only the news that there is none for us.
        // Where records and position are one, what was not committed comes again, and says nothing.
        let reached = if self.sink.is_transactional() { session.checkpointed_position() } else { session.received() };
        if reached > position {
            self.backoff.reset();
        }
        self.lessons.clone_from(&driven.end.lessons);
        let is_fenced = self.sink.is_fenced();
        journal::ended(&session, &driven.end);
        self.recorder.ended(&session);
        let rest = Rest {
            unsettled: driven.end.unsettled,
            unsaved: driven.end.unsaved,
            is_cut: driven.end.is_within_transaction(),
        };
        self.remember(&driven.end, rest, &server, epoch);
        let lost_sink = if driven.end.needs_reset { self.reset_sink().await } else { None };
        let Driven { end: End { cause, .. }, source_error, sink_verdict } = driven;
        if let (Cause::Aborted(_, failure), true) = (&cause, is_fenced) {
            return Trouble::Fenced(failure.clone());
        }
        match (cause, lost_sink.or(sink_verdict)) {
            // It tells more: whose record was refused.
            (cause @ Cause::Undeliverable(..), _) => Trouble::Session { cause, rest, source_error },
            (_, Some(verdict)) => Trouble::Sink(verdict),
            (cause, None) => match gap.filter(|_| cause == Cause::Stopped) {
                Some(finding) => Trouble::Unpublished(finding),
                None => Trouble::Session { cause, rest, source_error },
            },
        }
    }

    /// Who works for the session beside the stream and the sink.
    fn staff(&self, sql: &sql::Session, store: AnyStore, checkpoint: Checkpoint, letters: Option<AnyLetters>) -> Staff {
        let checkpointer = if self.sink.is_transactional() {
            Checkpointer::of_sink(checkpoint)
        } else {
            Checkpointer::start(store, checkpoint, |error| !error.is_retried_under_way())
        };
        let is_overtaking = !self.session_settings.poison.is_parking();
        let letters = letters.map(|store| LetterWriter::start(store, is_overtaking));
        Staff { checkpointer, describer: self.describer(sql), letters }
    }

    /// Where rows are set aside, if any may be.
    fn letters(&self) -> Option<AnyLetters> {
        self.session_settings
            .poison
            .needs_store()
            .then(|| AnyLetters::of_sink(&self.settings, &self.sink, &self.letter_memory))
    }

    /// Asks the server that we stream from.
    fn describer(&self, sql: &sql::Session) -> Describer {
        let catalogue = Catalogue::new(self.settings.source().connection().clone(), sql.endpoint().clone());
        let session::Settings { retry_initial, retry_ceiling, silence_timeout, .. } = self.session_settings;
        let backoff = Backoff::new(retry_initial, retry_ceiling, self.seed);
        let is_silence = |error: &PostgresError| !matches!(error, PostgresError::Server { .. });
        Describer::start(catalogue, Patience { backoff, silence: silence_timeout, is_silence })
    }

    /// Takes back what the last session left with the sink. The next one may not begin before; where a stop rules out a next
    /// one, a sink that is stuck for good (a pipe that nobody reads) is not waited for. Answers why there is no sink any more, where
    /// waiting would not bring it back.
    async fn reset_sink(&mut self) -> Option<Failure> {
        let mut stop = self.stop.clone();
        loop {
            let given_up = async {
                stop.asked().await;
                sleep(RESET_TIMEOUT).await;
            };
            let outcome = tokio::select! {
                outcome = self.sink.reset() => outcome,
                () = given_up => return None,
            };
            let Err(failure) = outcome else { return None };
            if failure.class == DeliveryClass::Configuration {
                return Some(failure);
            }
            journal::reset_failed(&failure);
            if self.stop.is_asked() {
                return None;
            }
            let wait = self.backoff.next_wait();
            self.wait(wait).await;
        }
    }

    fn remember(&mut self, end: &End, rest: Rest, server: &ServerState, epoch: Epoch) {
        self.next_ticket = end.next_ticket;
        self.memory = Some(Memory {
            system: server.system,
            timeline: server.timeline,
            epoch,
            position: end.position,
            commit_time: end.commit_time,
            first_owed: end.first_owed,
            rest,
        });
    }
}

/// A stream that has started and a checkpoint that is ours.
struct Connection {
    /// Tells when the server shuts down.
    sql: sql::Session,
    stream: Stream,
    store: AnyStore,
    /// Where rows are set aside, if any may be.
    letters: Option<AnyLetters>,
    /// As it was claimed.
    checkpoint: Checkpoint,
    beginning: session::Start,
    server: ServerState,
}

/// What is done about what ended an attempt: the one place that decides it.
fn decide(trouble: Trouble, sink_refusal: Exit, slot: &str) -> Decision {
    match trouble {
        Trouble::StoppedBefore(rest) => stopped(rest),
        Trouble::Moved => Decision::Again("the checkpoint has moved meanwhile".to_owned()),
        Trouble::NoPrimary(state) => Decision::Again(state.sentence()),
        Trouble::Start(state @ StartState::SlotBusy { .. }) => Decision::StandBy(state.sentence()),
        // A walsender that hangs, or that has not noticed yet that we are gone.
        Trouble::Lingering(state) => Decision::Linger(format!(
            "{}, which is our own last connection: the server has not noticed its end, or the process hangs; it is waited for; to end it: SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{slot}'",
            state.sentence()
        )),
        Trouble::Start(state) => {
            let sentence = journal::with_remedy(&state.sentence(), state.remedy().as_deref());
            Decision::End(Err(Ended::with_sentence(Exit::of_start(&state), sentence)))
        }
        Trouble::Unpublished(finding) => {
            Decision::End(Err(Ended::with_sentence(Exit::SourceRefused, finding.without_severity())))
        }
        Trouble::Misfit(findings) => {
            findings.iter().for_each(journal::finding);
            let sentence = match findings.len() {
                1 => "a fault keeps every row of an outbox from being published".to_owned(),
                count => format!("{count} faults keep every row of an outbox from being published"),
            };
            Decision::End(Err(Ended::with_sentence(Exit::SourceRefused, sentence)))
        }
        Trouble::Postgres(error) => judge(error.class(), &chain(&error), Exit::SourceRefused),
        // Like the slot: another instance has it, or the writer of our own last connection is still at it.
        Trouble::Checkpoint(store::Error::Own(error @ checkpoint::Error::Locked { .. })) => {
            Decision::StandBy(chain(&error))
        }
        Trouble::StoreAway(error) => Decision::Again(error.sentence()),
        Trouble::Checkpoint(error) => match error.class() {
            Some(class) => judge(class, &error.sentence(), error.exit()),
            None if error.is_retried() => Decision::Again(error.sentence()),
            None => {
                let sentence = journal::with_remedy(&error.sentence(), error.remedy().as_deref());
                Decision::End(Err(Ended::with_sentence(error.exit(), sentence)))
            }
        },
        // Whether another instance goes on in our place, the slot tells: while it has that, we wait; if nobody has, it was our own transaction.
        Trouble::Fenced(failure) => Decision::StandBy(failure.reason),
        Trouble::Transaction(failure) => transaction_failed(failure, sink_refusal),
        Trouble::Letters(error) => letters_failed(&error, sink_refusal),
        Trouble::Unprepared(ended) => Decision::End(Err(ended)),
        Trouble::Sink(verdict) => Decision::End(Err(Ended::with_sentence(sink_refusal, verdict.reason))),
        Trouble::Session { cause, rest, source_error } => match cause {
            Cause::Stopped => stopped(rest),
            Cause::SourceLost => match source_error {
                Some(error) => judge(error.class(), &chain(&error), Exit::SourceRefused),
                None => Decision::Again("the connection was given up".to_owned()),
            },
            Cause::Silent => Decision::Again("the server said nothing for the whole of wal_sender_timeout".to_owned()),
            Cause::Broken(error @ SessionError::Row { identity, .. }) => {
                let sentence = format!("{error}; {}", skipping(slot, identity));
                Decision::End(Err(Ended::with_sentence(Exit::BadRow, sentence)))
            }
            Cause::Broken(error @ SessionError::Updated(_)) => Decision::End(Err(Ended::because(Exit::BadRow, error))),
            Cause::Broken(error) => Decision::Again(chain(&error)),
            Cause::Aborted(_, failure) => transaction_failed(failure, sink_refusal),
            Cause::Undeliverable(identity, failure) => {
                Decision::End(Err(undeliverable(identity, &failure, sink_refusal, slot)))
            }
        },
    }
}

/// What is done about a transaction of the sink that failed: its rows come again with the next session.
fn transaction_failed(failure: Failure, sink_refusal: Exit) -> Decision {
    match failure.class {
        DeliveryClass::Configuration => Decision::End(Err(Ended::with_sentence(sink_refusal, failure.reason))),
        DeliveryClass::Row | DeliveryClass::Route | DeliveryClass::Sink | DeliveryClass::Withdrawn => {
            Decision::Again(failure.reason)
        }
    }
}

/// What is done about dead letters that could not be read.
fn letters_failed(error: &letters::Error, sink_refusal: Exit) -> Decision {
    match (error.class(), error.remedy()) {
        (Some(class), _) => judge(class, &error.sentence(), Exit::SourceRefused),
        (None, None) => Decision::Again(error.sentence()),
        (None, Some(remedy)) => {
            let sentence = journal::with_remedy(&error.sentence(), Some(&remedy));
            Decision::End(Err(Ended::with_sentence(sink_refusal, sentence)))
        }
    }
}

/// The end of a relay that was told to stop.
fn stopped(rest: Rest) -> Decision {
    if rest.is_nothing() {
        return Decision::End(Ok(Exit::Success));
    }
    let sentence = format!("stopped with {rest}; the next start publishes again what comes after it");
    Decision::End(Err(Ended::with_sentence(Exit::ForcedStop, sentence)))
}

/// What is done about an error of PostgreSQL, or of a checkpoint store; `refusal` is the code where only an operator can help.
fn judge(class: Class, reason: &str, refusal: Exit) -> Decision {
    match class {
        Class::Transient | Class::ShuttingDown => Decision::Again(reason.to_owned()),
        Class::SlotBusy => Decision::StandBy(reason.to_owned()),
        Class::Unforeseen => {
            tracing::error!(reason, "this was not foreseen");
            Decision::Again(reason.to_owned())
        }
        Class::NeedsOperator(remedy) => {
            let sentence = journal::with_remedy(reason, Some(remedy));
            Decision::End(Err(Ended::with_sentence(refusal, sentence)))
        }
    }
}

fn undeliverable(identity: Identity, failure: &Failure, sink_refusal: Exit, slot: &str) -> Ended {
    let row = format!("commit {}, insert {} of its transaction", identity.commit_lsn, identity.ordinal + 1);
    match failure.class {
        DeliveryClass::Configuration => Ended::with_sentence(sink_refusal, format!("{row}: {failure}")),
        DeliveryClass::Row | DeliveryClass::Route | DeliveryClass::Sink | DeliveryClass::Withdrawn => {
            Ended::with_sentence(Exit::BadRow, format!("{row}: {failure}; {}", skipping(slot, identity)))
        }
    }
}

/// How to go on without a row. The server leaves out a transaction whose commit lies before the slot's position, so one byte
/// after the start of its commit record is enough, and nothing of the next one is passed over.
fn skipping(slot: &str, identity: Identity) -> String {
    format!(
        "if the configuration or the topic is at fault, correct it and start again: nothing is lost; to go on without what is not yet published of its transaction, run: SELECT pg_replication_slot_advance('{slot}', '{}'::pg_lsn + 1), then walpost checkpoint adopt-slot",
        identity.commit_lsn
    )
}

#[cfg(test)]
mod tests;
