//! Joins a session with its edges: here is what is waited for while a session lives.
//!
//! The session decides; the driver feeds it frames, deliveries and the time, and [performs](perform) what it says. It knows
//! neither PostgreSQL nor Kafka, only the ports of `walpost-core`, and it never waits for one of them alone: neither a stalled
//! sink nor one that is being reset may keep the server from hearing of us, or a stop from being heard. What may be slow (the
//! store of checkpoints, the catalogue, the dead letters) has a task of its own.

mod checkpointer;
mod clock;
mod describer;
mod letters;
mod perform;
mod report;
mod turn;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;

use tokio::time::{Sleep, sleep_until};
use walpost_core::failure::Failure;
use walpost_core::frame::Frame;
use walpost_core::port::{Source, TransactionalSink};
use walpost_core::session::{Cause, End, Session};

use crate::observe::recorder::Recorder;
pub use checkpointer::Checkpointer;
pub use clock::Clock;
pub use describer::{Describer, Patience};
pub use letters::LetterWriter;
use report::Report;

/// What the driver reports when a session is over.
#[derive(Debug)]
pub struct Driven<E> {
    /// How the session ended.
    pub end: End,
    /// Why the source ended, where it did so by itself.
    pub source_error: Option<E>,
    /// Why the sink will never take a record, where that was known before one was lost.
    pub sink_verdict: Option<Failure>,
}

/// What reaches the driver from outside the session.
#[derive(Debug)]
pub struct Signals<'a, Stop, Gone> {
    /// Completes when the relay is to stop.
    pub stop: Stop,
    /// Completes when the server ends our other session, as it does first when it shuts down: the stream is closed at once,
    /// so that no shutdown waits for what is not settled.
    pub server_gone: Gone,
    /// Where it is written down how things stand.
    pub recorder: &'a mut Recorder,
}

/// Whom a session has beside its stream and its sink.
#[derive(Debug)]
pub struct Staff {
    /// Writes checkpoints.
    pub checkpointer: Checkpointer,
    /// Asks the catalogue.
    pub describer: Describer,
    /// Keeps the dead letters, where any may be. Where the sink takes them as one with records and position, only marks are read here.
    pub letters: Option<LetterWriter>,
}

/// Drives a session to its end.
pub async fn drive<S, K, Stop, Gone>(
    session: &mut Session,
    source: S,
    sink: &mut K,
    staff: Staff,
    signals: Signals<'_, Stop, Gone>,
    clock: Clock,
) -> Driven<S::Error>
where
    S: Source,
    K: TransactionalSink,
    Stop: Future<Output = ()>,
    Gone: Future<Output = ()>,
{
    let Signals { stop, server_gone, recorder } = signals;
    let outside = Outside {
        stop: std::pin::pin!(stop),
        server_gone: std::pin::pin!(server_gone),
        alarm: std::pin::pin!(sleep_until(tokio::time::Instant::now())),
    };
    let driver = Driver {
        session,
        source: Some(source),
        source_error: None,
        sink_verdict: None,
        checkpointer: staff.checkpointer,
        describer: staff.describer,
        letters: staff.letters,
        recorder,
        clock,
        batch: Vec::new(),
        frames: VecDeque::new(),
        failures: 0,
        letters_told: 0,
        are_marks_unread: false,
        is_stopping: false,
        end: None,
    };
    driver.run(sink, outside).await
}

struct Driver<'a, S: Source> {
    session: &'a mut Session,
    source: Option<S>,
    source_error: Option<S::Error>,
    sink_verdict: Option<Failure>,
    checkpointer: Checkpointer,
    describer: Describer,
    recorder: &'a mut Recorder,
    letters: Option<LetterWriter>,
    clock: Clock,
    /// Where the source puts what it has.
    batch: Vec<Frame>,
    /// Taken from the source, not yet wanted by the session.
    frames: VecDeque<Frame>,
    /// Records that were reported undelivered, for a reason of their own, since the sink was last reset.
    failures: u64,
    /// How many letters got a line of their own.
    letters_told: u64,
    /// That they could not be read was told.
    are_marks_unread: bool,
    is_stopping: bool,
    end: Option<End>,
}

/// What is waited for besides source, sink, store and catalogue.
struct Outside<'a> {
    stop: Pin<&'a mut dyn Future<Output = ()>>,
    server_gone: Pin<&'a mut dyn Future<Output = ()>>,
    alarm: Pin<&'a mut Sleep>,
}

impl<S: Source> Driver<'_, S> {
    async fn run<K: TransactionalSink>(mut self, sink: &mut K, mut outside: Outside<'_>) -> Driven<S::Error> {
        let mut deliveries = Vec::new();
        loop {
            while let Some(turn) = self.advance(Some(sink)) {
                self.give_turn(turn, sink, &mut outside).await;
            }
            if let Some(end) = self.end.take() {
                return self.close(end).await;
            }
            self.recorder.sink_away(sink.away());
            self.record_marks();
            self.recorder.turn(self.session, self.clock.now());
            tokio::select! {
                report = self.next_report(&mut outside) => self.take(report),
                () = sink.next_deliveries(&mut deliveries) => {
                    self.settle(&mut deliveries);
                    self.heed(sink.verdict());
                }
            }
        }
    }

    /// Waits for what is reported next, whatever becomes of the sink meanwhile. Cancel-safe, for each of its arms is.
    async fn next_report(&mut self, outside: &mut Outside<'_>) -> Report<S::Error> {
        let Outside { stop, server_gone, alarm } = outside;
        let wants_frames = self.frames.is_empty() && self.session.wants_frames();
        let has_source = self.source.is_some();
        let wants_marked = self.session.wants_marked();
        self.arm(alarm.as_mut());
        tokio::select! {
            received = next_frames(self.source.as_mut(), &mut self.batch), if wants_frames => Report::Frames(received),
            outcome = self.checkpointer.answer() => Report::Checkpoint(outcome),
            answer = self.describer.answer() => Report::Description(answer),
            answer = letters_answer(self.letters.as_mut(), wants_marked) => Report::Letters(answer),
            () = alarm.as_mut() => Report::Deadline,
            () = stop.as_mut(), if !self.is_stopping => Report::Stop,
            () = server_gone.as_mut(), if has_source => Report::ServerGone,
        }
    }

    fn arm(&self, mut alarm: Pin<&mut Sleep>) {
        let deadline = self.clock.instant_of(self.session.deadline(self.clock.now()));
        if alarm.deadline() != deadline {
            alarm.as_mut().reset(deadline);
        }
    }

    /// Closes the stream at once. What was received is still settled. The first error is the cause.
    fn lose_source(&mut self, error: Option<S::Error>) {
        self.source = None;
        self.source_error = self.source_error.take().or(error);
        self.frames.clear();
        self.session.source_lost(self.clock.now());
    }

    async fn close(self, end: End) -> Driven<S::Error> {
        if let Some(source) = self.source
            && end.cause == Cause::Stopped
        {
            source.finish().await;
        }
        Driven { end, source_error: self.source_error, sink_verdict: self.sink_verdict }
    }
}

async fn next_frames<S: Source>(source: Option<&mut S>, into: &mut Vec<Frame>) -> Result<(), S::Error> {
    match source {
        Some(source) => source.next_frames(into).await,
        None => std::future::pending().await,
    }
}

async fn letters_answer(
    letters: Option<&mut LetterWriter>,
    wants_marked: bool,
) -> Result<letters::Answer, letters::Failed> {
    match letters {
        Some(letters) => letters.answer(wants_marked).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
