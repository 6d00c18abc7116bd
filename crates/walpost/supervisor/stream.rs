//! What a connection is for: drives a session from its start to its end, and puts in order what that leaves behind.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use walpost_core::failure::{Class as DeliveryClass, Failure, chain};
use walpost_core::finding::Finding;
use walpost_core::lsn::Lsn;
use walpost_core::port::Sink;
use walpost_core::position::Checkpoint;
use walpost_core::session::{Cause, End, Session};
use walpost_postgres::error::{Class, Error as PostgresError};
use walpost_postgres::sql;
use walpost_postgres::stream::Stream;

use super::connect::Connection;
use super::decide::Trouble;
use super::memory::{Memory, Rest};
use super::{Supervisor, publications};
use crate::driver::{Checkpointer, Driven, LetterWriter, Signals, Staff, drive};
use crate::letters::{self, AnyLetters};
use crate::store::AnyStore;
use crate::{journal, relay};

/// How long a stop waits for a sink to give back what it has.
const RESET_TIMEOUT: Duration = Duration::from_secs(3);

impl Supervisor {
    /// Streams until the session ends. Answers why it did.
    pub(super) async fn stream(&mut self, connection: Connection, on_first_stream: &impl Fn()) -> Trouble {
        self.announce(&connection, on_first_stream);
        let Connection { sql, stream, store, letters, checkpoint, beginning, server } = connection;
        let (start, epoch) = (beginning.position, checkpoint.epoch);
        let staff = self.staff(&sql, store, checkpoint, letters);
        let mut session =
            Session::new(self.session_settings.clone(), self.settings.outboxes().clone(), beginning, self.clock.now());
        self.recorder.streaming(&session);
        let (driven, gap) = self.drive(&mut session, stream, staff, &sql).await;
        let is_fenced = self.sink.is_fenced();
        self.look_back(&session, start, &driven.end);
        self.memory = Some(Memory::of(&driven.end, &server, epoch));
        let lost_sink = if driven.end.needs_reset { self.reset_sink().await } else { None };
        match what_ended(driven, is_fenced, lost_sink, gap) {
            Trouble::Session { cause: Cause::SourceLost, source_error: Some(error), .. }
                if error.class() == Class::Undecodable =>
            {
                // No session of this process takes up from memory any more.
                self.save_memory().await;
                Trouble::Undecodable { error, received: session.received(), commit: session.open_commit() }
            }
            trouble => trouble,
        }
    }

    fn announce(&mut self, connection: &Connection, on_first_stream: &impl Fn()) {
        let Connection { store, beginning, server, .. } = connection;
        tracing::info!(
            position = %beginning.position,
            timeline = server.timeline.0,
            slot = %self.settings.source().slot(),
            checkpoint = store.place(),
            "streaming"
        );
        self.stands_by_for = None;
        self.patience.reset();
        if !std::mem::replace(&mut self.has_streamed, true) {
            on_first_stream();
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
        let letters = letters.map(|store| LetterWriter::start(store, is_overtaking, letters::Error::with_remedy));
        let describer = relay::describer(&self.settings, sql.endpoint(), self.seed);
        Staff { checkpointer, describer, letters }
    }

    /// Drives the session to its end. Where it was stopped because rows of an outbox would be passed over, that comes with it.
    async fn drive(
        &mut self,
        session: &mut Session,
        stream: Stream,
        staff: Staff,
        sql: &sql::Session,
    ) -> (Driven<PostgresError>, Option<Finding>) {
        let mut stop = self.stop.clone();
        let mut watcher = sql.watcher();
        let server_gone = async {
            let reason = chain(&*watcher.ended().await);
            tracing::warn!(
                reason,
                "our session beside the stream is over; the stream is closed, so that no shutdown waits for us"
            );
        };
        let mut gap = None;
        let (coverage, board) = (&mut self.coverage, self.recorder.board().clone());
        let stopped_or_gap = async {
            tokio::select! {
                () = stop.asked() => {}
                finding = publications::opening_gap(sql, &self.settings, coverage, &board) => gap = Some(finding),
            }
        };
        let signals = Signals { stop: stopped_or_gap, server_gone, recorder: &mut self.recorder };
        let driven = drive(session, stream, &mut self.sink, staff, signals, self.clock).await;
        (driven, gap)
    }

    /// Says how a session ended that began at `start`, and keeps what the next one needs.
    fn look_back(&mut self, session: &Session, start: Lsn, end: &End) {
        // A connection that brought something was a good one, if only the news that there is none for us.
        // Where records and position are one, what was not committed comes again, and says nothing.
        let reached = if self.sink.is_transactional() { session.checkpointed_position() } else { session.received() };
        // Except for what it teaches: one bad row after another takes its group with it, and the next try is another one.
        if reached > start || *end.lessons != self.lessons {
            self.backoff.reset();
        }
        self.lessons.clone_from(&end.lessons);
        self.settled_ahead = Arc::clone(&end.settled_ahead);
        self.next_ticket = end.next_ticket;
        journal::ended(session, end);
        self.recorder.ended(session);
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
}

/// Which of all that a session's end brought to light is the reason for it.
fn what_ended(
    driven: Driven<PostgresError>,
    is_fenced: bool,
    lost_sink: Option<Failure>,
    gap: Option<Finding>,
) -> Trouble {
    let rest = Rest::of(&driven.end);
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
