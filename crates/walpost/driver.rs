//! Joins a session with its edges: here is what is waited for while a session lives.
//!
//! The session decides; the driver feeds it frames, deliveries and the time, and performs what it says. It knows neither
//! PostgreSQL nor Kafka, only the ports of `walpost-core`, and it never waits for one of them alone: neither a stalled sink nor
//! one that is being reset may keep the server from hearing of us, or a stop from being heard.

mod describer;
mod letters;

use std::collections::VecDeque;
use std::future::Future;
use std::pin::Pin;
use std::time::Instant;

use tokio::sync::mpsc;
use tokio::time::{Sleep, sleep_until};
use walpost_core::failure::{Class, Failure, chain};
use walpost_core::frame::{Frame, StatusUpdate};
use walpost_core::poison::{Conclusion, DeadLetter, LetterId};
use walpost_core::port::{Checkpoints, Delivery, Refusal, Source, Ticket, TransactionalSink};
use walpost_core::position::{Checkpoint, Epoch, Progress, SettledRows};
use walpost_core::session::{Action, Cause, End, Session};
use walpost_core::time::Moment;

use crate::journal;
use crate::observe::recorder::Recorder;
use describer::{Answer, NoAnswer};
pub use describer::{Describer, Patience};
pub use letters::LetterWriter;
use letters::{Answer as LetterAnswer, Order};

/// How many undelivered records get a line of their own before the sink is reset. All that is in flight to a topic that went
/// away fails at once.
const TOLD_APART: u64 = 10;

/// The monotonic clock that sessions are told. It goes on while the process is stopped; on Linux it stands still while the
/// machine is suspended.
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
    /// The task that writes has died, and that was told.
    is_gone: bool,
}

/// What the sink commits, nobody else saves.
#[derive(Debug)]
struct CommittedBySink;

impl Checkpoints for CommittedBySink {
    type Error = std::convert::Infallible;

    async fn load(&mut self) -> Result<Option<Checkpoint>, Self::Error> {
        Ok(None)
    }

    async fn claim(&mut self, checkpoint: &Checkpoint) -> Result<Epoch, Self::Error> {
        Ok(checkpoint.epoch)
    }

    async fn save(&mut self, _: &Checkpoint) -> Result<(), Self::Error> {
        Ok(())
    }
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
                    .map_err(|error| StoreFailure { reason: chain(&error), is_final: is_final(&error) });
                if outgoing.send(outcome).await.is_err() {
                    break;
                }
            }
        });
        Self { orders, answers, pattern, is_gone: false }
    }

    /// For a sink that commits the checkpoints itself, in the form of this one.
    pub fn of_sink(pattern: Checkpoint) -> Self {
        Self::start(CommittedBySink, pattern, |never| match *never {})
    }

    /// Orders a checkpoint. The session orders the next one only after the answer.
    fn order(&self, progress: Progress) -> Result<(), StoreFailure> {
        self.orders.try_send(self.checkpoint_at(progress)).map_err(|_| StoreFailure::no_writer())
    }

    fn checkpoint_at(&self, progress: Progress) -> Checkpoint {
        let is_ahead = |rows: &SettledRows| rows.commit_lsn >= progress.position;
        Checkpoint {
            position: progress.position,
            settled_rows: self.pattern.settled_rows.filter(is_ahead),
            commit_time: progress.commit_time.or(self.pattern.commit_time),
            ..self.pattern.clone()
        }
    }

    /// The outcome of what was ordered. Cancel-safe.
    async fn answer(&mut self) -> Result<(), StoreFailure> {
        match self.answers.recv().await {
            Some(outcome) => outcome,
            None if std::mem::replace(&mut self.is_gone, true) => std::future::pending().await,
            None => Err(StoreFailure::no_writer()),
        }
    }
}

impl StoreFailure {
    /// The task that writes has died. The next connection brings another.
    fn no_writer() -> Self {
        Self { reason: "the writer of checkpoints is gone".to_owned(), is_final: true }
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
    is_stopping: bool,
    end: Option<End>,
}

/// What is waited for besides source, sink, store and catalogue.
struct Outside<'a, Stop, Gone> {
    stop: Pin<&'a mut Stop>,
    server_gone: Pin<&'a mut Gone>,
    alarm: Pin<&'a mut Sleep>,
}

/// What the sink has to do while everything but publishing goes on.
enum Turn {
    Reset,
    Commit(Progress),
}

/// What can happen, but for what the sink reports.
enum Event<E> {
    /// The source has put frames into the batch, or has ended.
    Frames(Result<(), E>),
    Checkpoint(Result<(), StoreFailure>),
    Description(Result<Answer, NoAnswer>),
    Letters(Result<LetterAnswer, String>),
    Deadline,
    Stop,
    ServerGone,
}

impl<S: Source> Driver<'_, S> {
    async fn run<K, Stop, Gone>(mut self, sink: &mut K, mut outside: Outside<'_, Stop, Gone>) -> Driven<S::Error>
    where
        K: TransactionalSink,
        Stop: Future<Output = ()>,
        Gone: Future<Output = ()>,
    {
        let mut deliveries = Vec::new();
        loop {
            while let Some(turn) = self.advance(Some(sink)) {
                match turn {
                    Turn::Reset => self.reset(sink, &mut outside).await,
                    Turn::Commit(progress) => self.commit(sink, progress, &mut outside).await,
                }
            }
            if let Some(end) = self.end.take() {
                return self.close(end).await;
            }
            self.recorder.sink_away(sink.away());
            self.recorder.turn(self.session, self.clock.now());
            tokio::select! {
                event = self.next_event(&mut outside) => self.take(event),
                () = sink.next_deliveries(&mut deliveries) => {
                    self.settle(&mut deliveries);
                    self.heed(sink.verdict());
                }
            }
        }
    }

    /// Waits for what happens next, whatever becomes of the sink meanwhile. Cancel-safe, for each of its arms is.
    async fn next_event<Stop, Gone>(&mut self, outside: &mut Outside<'_, Stop, Gone>) -> Event<S::Error>
    where
        Stop: Future<Output = ()>,
        Gone: Future<Output = ()>,
    {
        let Outside { stop, server_gone, alarm } = outside;
        let wants_frames = self.frames.is_empty() && self.session.wants_frames();
        let has_source = self.source.is_some();
        let wants_marked = self.session.wants_marked();
        self.arm(alarm.as_mut());
        tokio::select! {
            received = next_frames(self.source.as_mut(), &mut self.batch), if wants_frames => Event::Frames(received),
            outcome = self.checkpointer.answer() => Event::Checkpoint(outcome),
            answer = self.describer.answer() => Event::Description(answer),
            answer = letters_answer(self.letters.as_mut(), wants_marked) => Event::Letters(answer),
            () = alarm.as_mut() => Event::Deadline,
            () = stop.as_mut(), if !self.is_stopping => Event::Stop,
            () = server_gone.as_mut(), if has_source => Event::ServerGone,
        }
    }

    fn take(&mut self, event: Event<S::Error>) {
        match event {
            Event::Frames(received) => {
                self.frames.extend(self.batch.drain(..));
                if let Err(error) = received {
                    self.lose_source(Some(error));
                }
            }
            Event::Checkpoint(outcome) => self.on_checkpoint(outcome),
            Event::Description(Ok(Answer { relation, description })) => self.session.described(relation, &description),
            Event::Description(Err(reason)) => self.give_up_undescribed(reason),
            Event::Letters(answer) => self.on_letters(answer),
            Event::Deadline => {}
            Event::Stop => {
                self.is_stopping = true;
                self.session.stop(self.clock.now());
            }
            Event::ServerGone => self.lose_source(None),
        }
    }

    /// Gives the session the frames that it wants and performs all that it says, up to what has to be waited for.
    fn advance<K: TransactionalSink>(&mut self, mut sink: Option<&mut K>) -> Option<Turn> {
        loop {
            let now = self.clock.now();
            while self.session.wants_frames()
                && let Some(frame) = self.frames.pop_front()
            {
                self.session.receive(&frame, now);
            }
            if let Some(turn) = self.perform_all(sink.as_deref_mut(), now) {
                return Some(turn);
            }
            if self.end.is_some() || self.frames.is_empty() || !self.session.wants_frames() {
                return None;
            }
        }
    }

    /// Performs until there is nothing more to do, or the sink's turn comes. Without a sink nothing is published.
    fn perform_all<K: TransactionalSink>(&mut self, mut sink: Option<&mut K>, now: Moment) -> Option<Turn> {
        while let Some(action) = self.session.poll(now) {
            match action {
                Action::Publish(ticket, record) => {
                    let accepted = match sink.as_deref_mut() {
                        Some(sink) => sink.publish(ticket, record),
                        None => Err(Refusal::Full),
                    };
                    if let Err(refusal) = accepted {
                        journal::refused(record, &refusal);
                        self.recorder.refused(&refusal);
                        self.session.refused(ticket, refusal, now);
                    }
                }
                Action::Describe(relation, table) => {
                    if let Err(reason) = self.describer.ask(relation, table) {
                        self.give_up_undescribed(reason);
                    }
                }
                Action::SetAside(ticket, letter) => self.set_aside(sink.as_deref_mut(), ticket, letter, now),
                Action::Conclude(letter, conclusion) => self.conclude(sink.as_deref_mut(), letter, conclusion, now),
                Action::TakeInventory => self.order(Order::TakeInventory),
                Action::ResetSink => return Some(Turn::Reset),
                Action::Commit(progress) => {
                    self.recorder.checkpoint_ordered();
                    return Some(Turn::Commit(progress));
                }
                Action::Checkpoint(progress) => {
                    self.recorder.checkpoint_ordered();
                    if let Err(failure) = self.checkpointer.order(progress) {
                        self.on_checkpoint(Err(failure));
                    }
                }
                Action::Confirm(status) => self.confirm(status),
                Action::Notice(notice) => journal::notice(&notice),
                Action::End(end) => {
                    self.end = Some(end);
                    break;
                }
            }
        }
        None
    }

    /// Has the sink commit while everything else goes on. A session that ends meanwhile does not wait for it; what came of it then, the checkpoint
    /// says.
    async fn commit<K, Stop, Gone>(&mut self, sink: &mut K, progress: Progress, outside: &mut Outside<'_, Stop, Gone>)
    where
        K: TransactionalSink,
        Stop: Future<Output = ()>,
        Gone: Future<Output = ()>,
    {
        let checkpoint = self.checkpointer.checkpoint_at(progress);
        let mut commit = std::pin::pin!(sink.commit(&checkpoint));
        let outcome = loop {
            tokio::select! {
                outcome = &mut commit => break outcome,
                event = self.next_event(outside) => self.take(event),
            }
            let turn = self.advance(None::<&mut K>);
            debug_assert!(turn.is_none(), "one thing is asked of a sink at a time");
            if self.end.is_some() {
                return;
            }
            self.recorder.turn(self.session, self.clock.now());
        };
        self.recorder.checkpoint_answered(outcome.is_ok());
        if let Err(failure) = &outcome {
            journal::undelivered(failure);
        }
        self.session.committed(outcome, self.clock.now());
    }

    /// Resets the sink while everything else goes on. A session that ends meanwhile does not wait for it: the reset is then
    /// for whoever takes the sink next ([`End::needs_reset`]).
    async fn reset<K, Stop, Gone>(&mut self, sink: &mut K, outside: &mut Outside<'_, Stop, Gone>)
    where
        K: TransactionalSink,
        Stop: Future<Output = ()>,
        Gone: Future<Output = ()>,
    {
        let mut reset = std::pin::pin!(sink.reset());
        let outcome = loop {
            tokio::select! {
                outcome = &mut reset => break outcome,
                event = self.next_event(outside) => self.take(event),
            }
            let turn = self.advance(None::<&mut K>);
            debug_assert!(turn.is_none(), "a sink is reset once at a time");
            if self.end.is_some() {
                return;
            }
            self.recorder.turn(self.session, self.clock.now());
        };
        self.recorder.reset(outcome.is_ok());
        if let Err(failure) = &outcome {
            journal::reset_failed(failure);
        }
        let failures = std::mem::take(&mut self.failures);
        if failures > TOLD_APART {
            journal::more_undelivered(failures - TOLD_APART);
        }
        self.session.sink_reset(outcome, self.clock.now());
    }

    fn settle(&mut self, deliveries: &mut Vec<Delivery>) {
        let now = self.clock.now();
        for delivery in deliveries.drain(..) {
            match &delivery.outcome {
                Ok(()) => {
                    journal::delivered(now);
                    self.recorder.delivered();
                }
                Err(failure) => self.tell(failure),
            }
            self.session.settle(delivery, now);
        }
    }

    fn tell(&mut self, failure: &Failure) {
        self.recorder.undelivered(failure);
        // The failure in front of one that was withdrawn says why.
        if failure.class != Class::Withdrawn {
            self.failures += 1;
            if self.failures <= TOLD_APART {
                journal::undelivered(failure);
            }
        }
    }

    /// Ends the session in order when the sink will take nothing: no record need be lost to say so.
    fn heed(&mut self, verdict: Option<Failure>) {
        if verdict.is_some() && self.sink_verdict.is_none() {
            self.sink_verdict = verdict;
            self.session.stop(self.clock.now());
        }
    }

    /// A row is set aside in the group that is open, or else in a store.
    fn set_aside<K: TransactionalSink>(
        &mut self,
        sink: Option<&mut K>,
        ticket: Ticket,
        letter: Box<DeadLetter>,
        now: Moment,
    ) {
        if self.session.is_grouping() {
            match sink.map_or(Err(Refusal::Full), |sink| sink.set_aside(&letter)) {
                Ok(is_new) => self.session.set_aside(ticket, is_new),
                Err(refusal) => return self.letter_refused(refusal, now),
            }
        }
        self.letters_told += 1;
        journal::set_aside(&letter, self.letters_told);
        if !self.session.is_grouping() {
            self.order(Order::SetAside(ticket, letter));
        }
    }

    /// The same for how a letter ended.
    fn conclude<K: TransactionalSink>(
        &mut self,
        sink: Option<&mut K>,
        letter: LetterId,
        conclusion: Conclusion,
        now: Moment,
    ) {
        if self.session.is_grouping() {
            match sink.map_or(Err(Refusal::Full), |sink| sink.conclude(letter, &conclusion)) {
                Ok(()) => self.session.concluded(letter),
                Err(refusal) => return self.letter_refused(refusal, now),
            }
        }
        journal::concluded(letter, &conclusion);
        if !self.session.is_grouping() {
            self.order(Order::Conclude(letter, conclusion));
        }
    }

    fn letter_refused(&mut self, refusal: Refusal, now: Moment) {
        if let Refusal::Failed(failure) = &refusal {
            journal::undelivered(failure);
        }
        self.session.letter_refused(refusal, now);
    }

    fn order(&mut self, order: Order) {
        match &mut self.letters {
            Some(letters) => letters.order(order),
            // No policy that sets rows aside goes without.
            None => self.session.letters_failed("nothing is set aside here", self.clock.now()),
        }
    }

    fn on_letters(&mut self, answer: Result<LetterAnswer, String>) {
        match answer {
            Ok(LetterAnswer::SetAside(rows)) => {
                rows.into_iter().for_each(|(ticket, is_new)| self.session.set_aside(ticket, is_new));
            }
            Ok(LetterAnswer::Concluded(letters)) => {
                letters.into_iter().for_each(|letter| self.session.concluded(letter));
            }
            Ok(LetterAnswer::Inventory(inventory)) => self.session.inventoried(inventory),
            Ok(LetterAnswer::Marked(marked)) => {
                let has_found = !marked.is_empty();
                self.session.replay(marked);
                match self.letters.as_mut().filter(|_| has_found) {
                    // Whatever was found, the session had it already.
                    Some(letters) if self.session.wants_marked() => letters.is_behind(),
                    Some(letters) => letters.is_up_to_date(),
                    None => {}
                }
            }
            Err(reason) => {
                if self.session.is_grouping() {
                    journal::marks_unread(&reason);
                } else {
                    journal::letters_failed(&reason);
                    self.session.letters_failed(&reason, self.clock.now());
                }
                if self.letters.as_ref().is_some_and(LetterWriter::is_gone) {
                    self.lose_source(None);
                }
            }
        }
    }

    fn on_checkpoint(&mut self, outcome: Result<(), StoreFailure>) {
        self.recorder.checkpoint_answered(outcome.is_ok());
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

    /// Without a description nothing more is taken from the stream.
    fn give_up_undescribed(&mut self, reason: NoAnswer) {
        tracing::error!(%reason, "the stream is given up");
        self.lose_source(None);
    }

    fn confirm(&mut self, status: StatusUpdate) {
        if let Some(source) = &mut self.source
            && let Err(error) = source.confirm(status)
        {
            self.lose_source(Some(error));
        }
    }

    /// Closes the stream at once. What was received is still settled. The first error is the cause.
    fn lose_source(&mut self, error: Option<S::Error>) {
        self.source = None;
        self.source_error = self.source_error.take().or(error);
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

async fn letters_answer(letters: Option<&mut LetterWriter>, wants_marked: bool) -> Result<LetterAnswer, String> {
    match letters {
        Some(letters) => letters.answer(wants_marked).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests;
