//! Makes connections, for as long as there is sense in it.
//!
//! Each attempt [connects](connect), which takes hold of slot and checkpoint, and [streams](stream) until its session ends.
//! What follows from its end, the next attempt or the end of the process, is for [deciding](mod@decide). The sink outlives the
//! attempts; so does, in [memory], how far the last one got.

mod connect;
mod decide;
mod memory;
mod publications;
mod stream;

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use walpost_core::backoff::Backoff;
use walpost_core::lsn::Lsn;
use walpost_core::port::Ticket;
use walpost_core::position::Identity;
use walpost_core::session::{self, Lessons};
use walpost_postgres::preflight::Coverage;

use crate::commands::Outcome;
use crate::config::Settings;
use crate::driver::Clock;
use crate::letters;
use crate::observe::recorder::Recorder;
use crate::signals::Stop;
use crate::sink::AnySink;
use decide::{Decision, Trouble, decide};
use memory::Memory;

/// The longest wait before the slot is looked at again while somebody else has it.
const STAND_BY_INTERVAL: Duration = Duration::from_secs(1);

/// See the module's documentation.
#[derive(Debug)]
pub struct Supervisor {
    settings: Settings,
    session_settings: session::Settings,
    sink: AnySink,
    stop: Stop,
    clock: Clock,
    /// Between attempts that fail.
    backoff: Backoff,
    /// Between two looks at a slot that somebody else has.
    patience: Backoff,
    seed: u64,
    recorder: Recorder,
    memory: Option<Memory>,
    /// What sessions learned of records whose failure takes a group with it.
    lessons: Lessons,
    /// What the last session settled behind what it owed; see `memory`.
    settled_ahead: Arc<[Identity]>,
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
        let (initial, ceiling) = (session_settings.retry_initial, session_settings.retry_ceiling);
        Self {
            letter_memory: letters::Memory::new(&settings),
            settings,
            session_settings,
            sink,
            stop,
            clock,
            backoff: Backoff::new(initial, ceiling, seed),
            patience: Backoff::new(initial.min(STAND_BY_INTERVAL), STAND_BY_INTERVAL, seed),
            seed,
            recorder,
            memory: None,
            lessons: Lessons::default(),
            settled_ahead: Arc::default(),
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
            match decide(trouble, self.relay()) {
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

    fn relay(&self) -> decide::Relay<'_> {
        decide::Relay {
            slot: self.settings.source().slot().as_str(),
            keeps_a_checkpoint: self.settings.checkpoint().is_beside_the_slot(),
            sink_refusal: self.sink.exit(),
        }
    }

    /// Waits a moment; what for is said once. All that is missing is the slot, so that what comes after it is not made to wait for
    /// how long this took.
    async fn ask_again_soon(&mut self, reason: String, doing: &'static str) {
        if self.stands_by_for.as_ref() != Some(&reason) {
            tracing::warn!(reason, "{doing}");
            self.stands_by_for = Some(reason);
        }
        self.backoff.reset();
        let wait = self.patience.next_wait();
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
}
