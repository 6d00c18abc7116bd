//! Joins a session with its edges: the only `select!` of the program.
//!
//! The session decides; the driver feeds it frames, deliveries and the time, and performs what it says. It knows neither
//! PostgreSQL nor Kafka, only the ports of `walpost-core`, and it never waits for one of them alone: a stalled sink must not
//! keep the server from hearing of us.

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::time::Instant;

use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep_until};
use walpost_core::failure::Failure;
use walpost_core::frame::{Frame, StatusUpdate};
use walpost_core::port::{Checkpoints, Delivery, Refusal, Sink, Source};
use walpost_core::position::{Checkpoint, Progress};
use walpost_core::session::{Action, Cause, End, Session};
use walpost_core::time::Moment;

use crate::journal;

/// The monotonic clock that sessions are told.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose origin is now.
    #[must_use]
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Now.
    #[must_use]
    pub fn now(self) -> Moment {
        Moment::since_origin(self.origin.elapsed())
    }

    fn instant_of(self, moment: Moment) -> tokio::time::Instant {
        (self.origin + moment.elapsed()).into()
    }
}

/// Writes checkpoints beside the stream, one at a time, so that a slow store never blocks it.
#[derive(Debug)]
pub struct Checkpointer {
    orders: mpsc::Sender<Checkpoint>,
    answers: mpsc::Receiver<Result<(), StoreFailure>>,
    /// What does not change from one checkpoint of a session to the next.
    pattern: Checkpoint,
}

/// Why a checkpoint was not written.
#[derive(Debug)]
struct StoreFailure {
    reason: String,
    /// No retry helps: another relay has claimed the checkpoint, or somebody has removed it.
    is_final: bool,
}

impl Checkpointer {
    /// Starts to write to a store whose writer we are. `pattern` is the checkpoint as it was claimed.
    ///
    /// Has to be called within a `LocalSet`. The task ends when the checkpointer is dropped.
    pub fn start<C: Checkpoints + 'static>(mut store: C, pattern: Checkpoint, is_final: fn(&C::Error) -> bool) -> Self {
        let (orders, mut incoming) = mpsc::channel::<Checkpoint>(1);
        let (outgoing, answers) = mpsc::channel(1);
        tokio::task::spawn_local(async move {
            while let Some(checkpoint) = incoming.recv().await {
                let outcome = store
                    .save(&checkpoint)
                    .await
                    .map_err(|error| StoreFailure { reason: journal::chain(&error), is_final: is_final(&error) });
                if outgoing.send(outcome).await.is_err() {
                    break;
                }
            }
        });
        Self { orders, answers, pattern }
    }

    /// Orders a checkpoint. The session orders the next one only after the answer.
    fn order(&self, progress: Progress) {
        let checkpoint = Checkpoint {
            position: progress.position,
            commit_time: progress.commit_time.or(self.pattern.commit_time),
            ..self.pattern.clone()
        };
        if self.orders.try_send(checkpoint).is_err() {
            tracing::error!("the writer of checkpoints is gone; the session ends at its deadline");
        }
    }

    /// The outcome of what was ordered. Cancel-safe.
    async fn answer(&mut self) -> Result<(), StoreFailure> {
        match self.answers.recv().await {
            Some(outcome) => outcome,
            None => std::future::pending().await,
        }
    }
}

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
pub struct Signals<Stop, Gone> {
    /// Completes when the relay is to stop.
    pub stop: Stop,
    /// Completes when the server ends our other session, as it does first when it shuts down: the stream is closed at once,
    /// so that no shutdown waits for what is not settled.
    pub server_gone: Gone,
}

/// Drives a session to its end.
pub async fn drive<S, K, Stop, Gone>(
    session: &mut Session,
    source: S,
    sink: &mut K,
    checkpointer: Checkpointer,
    signals: Signals<Stop, Gone>,
    clock: Clock,
) -> Driven<S::Error>
where
    S: Source,
    K: Sink,
    Stop: Future<Output = ()>,
    Gone: Future<Output = ()>,
{
    let Signals { stop, server_gone } = signals;
    let driver = Driver {
        session,
        source: Some(source),
        source_error: None,
        sink_verdict: None,
        checkpointer,
        clock,
        frames: VecDeque::new(),
        end: None,
    };
    driver.run(sink, stop, server_gone).await
}

struct Driver<'a, S: Source> {
    session: &'a mut Session,
    source: Option<S>,
    source_error: Option<S::Error>,
    sink_verdict: Option<Failure>,
    checkpointer: Checkpointer,
    clock: Clock,
    /// Taken from the source, not yet wanted by the session.
    frames: VecDeque<Frame>,
    end: Option<End>,
}

impl<S: Source> Driver<'_, S> {
    async fn run<K: Sink>(
        mut self,
        sink: &mut K,
        stop: impl Future<Output = ()>,
        server_gone: impl Future<Output = ()>,
    ) -> Driven<S::Error> {
        let mut stop = std::pin::pin!(stop);
        let mut server_gone = std::pin::pin!(server_gone);
        let mut alarm = std::pin::pin!(sleep_until(tokio::time::Instant::now()));
        let (mut batch, mut deliveries) = (Vec::new(), Vec::new());
        let mut is_stopping = false;
        loop {
            self.turn(sink, alarm.as_mut()).await;
            if let Some(end) = self.end.take() {
                return self.close(end).await;
            }
            let wants_frames = self.frames.is_empty() && self.session.wants_frames();
            self.arm(alarm.as_mut());
            tokio::select! {
                received = next_frames(self.source.as_mut(), &mut batch), if wants_frames => {
                    self.frames.extend(batch.drain(..));
                    if let Err(error) = received {
                        self.lose_source(Some(error));
                    }
                }
                () = sink.next_deliveries(&mut deliveries) => {
                    self.settle(&mut deliveries);
                    self.heed(sink.verdict());
                }
                outcome = self.checkpointer.answer() => self.on_checkpoint(outcome),
                () = alarm.as_mut() => {}
                () = &mut stop, if !is_stopping => {
                    is_stopping = true;
                    self.session.stop(self.clock.now());
                }
                () = &mut server_gone, if self.source.is_some() => self.lose_source(None),
            }
        }
    }

    /// Gives the session the frames that it wants and performs all that it says.
    async fn turn<K: Sink>(&mut self, sink: &mut K, mut alarm: Pin<&mut Sleep>) {
        loop {
            let now = self.clock.now();
            while self.session.wants_frames()
                && let Some(frame) = self.frames.pop_front()
            {
                self.session.receive(&frame, now);
            }
            if self.perform_all(Some(sink), now) {
                let outcome = self.reset(sink, alarm.as_mut()).await;
                if let Err(failure) = &outcome {
                    journal::reset_failed(failure);
                }
                self.session.sink_reset(outcome, self.clock.now());
            } else if self.end.is_some() || self.frames.is_empty() || !self.session.wants_frames() {
                return;
            }
        }
    }

    /// Performs until there is nothing more to do, or, `true`, the sink has to be reset.
    fn perform_all<K: Sink>(&mut self, mut sink: Option<&mut K>, now: Moment) -> bool {
        while let Some(action) = self.session.poll(now) {
            match action {
                Action::Publish(ticket, record) => {
                    let accepted = match sink.as_deref_mut() {
                        Some(sink) => sink.publish(ticket, record),
                        None => Err(Refusal::Full),
                    };
                    if let Err(refusal) = accepted {
                        journal::refused(record, &refusal);
                        self.session.refused(ticket, refusal, now);
                    }
                }
                Action::ResetSink => return true,
                Action::Checkpoint(progress) => self.checkpointer.order(progress),
                Action::Confirm(status) => self.confirm(status),
                Action::Notice(notice) => journal::notice(&notice),
                Action::End(end) => {
                    self.end = Some(end);
                    break;
                }
            }
        }
        false
    }

    /// Resets the sink while everything else goes on.
    async fn reset<K: Sink>(&mut self, sink: &mut K, mut alarm: Pin<&mut Sleep>) -> Result<(), Failure> {
        let mut reset = std::pin::pin!(sink.reset());
        loop {
            self.arm(alarm.as_mut());
            tokio::select! {
                outcome = &mut reset => return outcome,
                outcome = self.checkpointer.answer() => self.on_checkpoint(outcome),
                () = alarm.as_mut(), if self.end.is_none() => {}
            }
            self.perform_all(None::<&mut K>, self.clock.now());
        }
    }

    fn settle(&mut self, deliveries: &mut Vec<Delivery>) {
        let now = self.clock.now();
        for delivery in deliveries.drain(..) {
            if let Err(failure) = &delivery.outcome {
                journal::undelivered(failure);
            }
            self.session.settle(delivery, now);
        }
    }

    /// Ends the session in order when the sink will take nothing: no record need be lost to say so.
    fn heed(&mut self, verdict: Option<Failure>) {
        if verdict.is_some() && self.sink_verdict.is_none() {
            self.sink_verdict = verdict;
            self.session.stop(self.clock.now());
        }
    }

    fn on_checkpoint(&mut self, outcome: Result<(), StoreFailure>) {
        match outcome {
            Ok(()) => self.session.checkpointed(),
            Err(StoreFailure { reason, is_final: false }) => {
                tracing::warn!(reason, "the checkpoint could not be written; it is tried again");
                self.session.checkpoint_failed(self.clock.now());
            }
            Err(StoreFailure { reason, is_final: true }) => {
                tracing::error!(reason, "the checkpoint is no longer ours to write; the stream is given up");
                self.session.checkpoint_failed(self.clock.now());
                self.lose_source(None);
            }
        }
    }

    fn confirm(&mut self, status: StatusUpdate) {
        if let Some(source) = &mut self.source
            && let Err(error) = source.confirm(status)
        {
            self.lose_source(Some(error));
        }
    }

    /// Closes the stream at once. What was received is still settled.
    fn lose_source(&mut self, error: Option<S::Error>) {
        self.source = None;
        self.source_error = error;
        self.frames.clear();
        self.session.source_lost(self.clock.now());
    }

    fn arm(&self, mut alarm: Pin<&mut Sleep>) {
        let deadline = self.clock.instant_of(self.session.deadline(self.clock.now()));
        if alarm.deadline() != deadline {
            alarm.as_mut().reset(deadline);
        }
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
