//! The driver between edges that do as they are told.

use std::cell::{Cell, RefCell};
use std::future::{Future, pending};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::sync::oneshot;
use tokio::task::LocalSet;
use walpost_core::backoff::Backoff;
use walpost_core::description::Description;
use walpost_core::failure::Class;
use walpost_core::frame::XLogData;
use walpost_core::lsn::Lsn;
use walpost_core::outbox::{Outbox, TableName};
use walpost_core::pgoutput::{self, Begin, Column, Commit, Insert, Message, Relation, Tuple};
use walpost_core::poison::{Conclusion, DeadLetter, Inventory, LetterId, Marked, Request};
use walpost_core::port::{DeadLetters, Describe, Sink};
use walpost_core::position::{Epoch, SystemIdentifier, Timeline};
use walpost_core::record::Record;
use walpost_core::router::{Options, Router};
use walpost_core::session::{Grouping, Lessons, Settings, Start};
use walpost_core::time::Timestamp;

use super::*;
use crate::observe::board::Board;

const START: u64 = 0x1000;
const RELATION: u32 = 16_401;
const DRAIN: Duration = Duration::from_millis(200);

/// What the edges saw.
#[derive(Debug, Default)]
struct Seen {
    confirmed: RefCell<Vec<u64>>,
    published: RefCell<Vec<u64>>,
    /// The position of each commit, and how many records were published before it.
    committed: RefCell<Vec<(u64, usize)>>,
    /// What a sink of transactions set aside, and what it was told of ends, in the order of both.
    set_aside: RefCell<Vec<u64>>,
    concluded: RefCell<Vec<(LetterId, Conclusion)>>,
    resets: Cell<u32>,
    taken: Cell<usize>,
    is_closed: Cell<bool>,
    is_finished: Cell<bool>,
    questions: Cell<u32>,
    is_catalogue_dropped: Cell<bool>,
}

/// A stream that has so many frames, and then nothing more or its end.
struct Stream {
    seen: Rc<Seen>,
    frames: VecDeque<Frame>,
    ends: bool,
    /// More frames, once a reset is under way.
    during_reset: VecDeque<Frame>,
}

#[derive(Debug, thiserror::Error)]
#[error("the stream has run dry")]
struct Dry;

impl Source for Stream {
    type Error = Dry;

    async fn next_frames(&mut self, into: &mut Vec<Frame>) -> Result<(), Dry> {
        loop {
            let is_resetting = self.seen.resets.get() > 0;
            let next =
                self.frames.pop_front().or_else(|| is_resetting.then(|| self.during_reset.pop_front()).flatten());
            match next {
                Some(frame) => {
                    self.seen.taken.set(self.seen.taken.get() + 1);
                    into.push(frame);
                    return Ok(());
                }
                None if self.ends => return Err(Dry),
                None => pending().await,
            }
        }
    }

    fn confirm(&mut self, status: StatusUpdate) -> Result<(), Dry> {
        self.seen.confirmed.borrow_mut().push(status.confirmed.get());
        Ok(())
    }

    async fn finish(self) {
        self.seen.is_finished.set(true);
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.seen.is_closed.set(true);
    }
}

/// A broker that gives one outcome to all, and whose reset ends or does not.
struct Broker {
    seen: Rc<Seen>,
    outcome: Result<(), Failure>,
    reports: Vec<Delivery>,
    reset_ends: bool,
    commit_ends: bool,
    commit_failure: Option<Failure>,
    /// So often it has no room for a letter, or for the end of one.
    full_for: u32,
    letter_failure: Option<Failure>,
    verdict: Option<Failure>,
}

impl Sink for Broker {
    fn publish(&mut self, ticket: Ticket, _: &Record) -> Result<(), Refusal> {
        self.seen.published.borrow_mut().push(ticket.0);
        self.reports.push(Delivery { ticket, outcome: self.outcome.clone() });
        Ok(())
    }

    async fn next_deliveries(&mut self, into: &mut Vec<Delivery>) {
        if self.reports.is_empty() && self.verdict.is_none() {
            pending::<()>().await;
        }
        into.append(&mut self.reports);
    }

    fn verdict(&self) -> Option<Failure> {
        self.verdict.clone()
    }

    async fn reset(&mut self) -> Result<(), Failure> {
        self.seen.resets.set(self.seen.resets.get() + 1);
        if !self.reset_ends {
            pending::<()>().await;
        }
        self.outcome = Ok(());
        Ok(())
    }
}

impl TransactionalSink for Broker {
    async fn commit(&mut self, checkpoint: &Checkpoint) -> Result<(), Failure> {
        self.seen.committed.borrow_mut().push((checkpoint.position.get(), self.seen.published.borrow().len()));
        if !self.commit_ends {
            pending::<()>().await;
        }
        self.commit_failure.clone().map_or(Ok(()), Err)
    }

    fn set_aside(&mut self, letter: &DeadLetter) -> Result<bool, Refusal> {
        self.take_letter()?;
        self.seen.set_aside.borrow_mut().push(letter.identity.ordinal);
        Ok(true)
    }

    fn conclude(&mut self, letter: LetterId, conclusion: &Conclusion) -> Result<(), Refusal> {
        self.take_letter()?;
        self.seen.concluded.borrow_mut().push((letter, conclusion.clone()));
        Ok(())
    }
}

impl Broker {
    fn take_letter(&mut self) -> Result<(), Refusal> {
        if self.full_for > 0 {
            self.full_for -= 1;
            return Err(Refusal::Full);
        }
        self.letter_failure.clone().map_or(Ok(()), |failure| Err(failure.into()))
    }
}

/// A store that takes everything, or says why not.
struct Store(Result<(), StoreError>);

#[derive(Debug, Clone, Copy, thiserror::Error)]
enum StoreError {
    #[error("another has it")]
    Fenced,
}

impl Checkpoints for Store {
    type Error = StoreError;

    async fn load(&mut self) -> Result<Option<Checkpoint>, StoreError> {
        Ok(None)
    }

    async fn claim(&mut self, _: &Checkpoint) -> Result<Epoch, StoreError> {
        Ok(Epoch(1))
    }

    async fn save(&mut self, _: &Checkpoint) -> Result<(), StoreError> {
        self.0
    }
}

/// A catalogue that fails so often before it describes, or never answers at all.
struct Catalogue {
    seen: Rc<Seen>,
    failures: u32,
    answers: bool,
    /// It fails without a word.
    is_silent: bool,
}

#[derive(Debug, thiserror::Error)]
#[error("the catalogue is away")]
struct Away {
    is_silent: bool,
}

impl Describe for Catalogue {
    type Error = Away;

    async fn describe(&mut self, relation: u32) -> Result<Description, Away> {
        assert_eq!(relation, RELATION);
        self.seen.questions.set(self.seen.questions.get() + 1);
        if !self.answers {
            pending::<()>().await;
        }
        let is_away = self.seen.questions.get() <= self.failures;
        if is_away { Err(Away { is_silent: self.is_silent }) } else { Ok(Description::default()) }
    }
}

impl Drop for Catalogue {
    fn drop(&mut self) {
        self.seen.is_catalogue_dropped.set(true);
    }
}

/// Dead letters in memory, which fail so often before they are kept.
#[derive(Clone, Default)]
struct Letters {
    kept: Rc<RefCell<Vec<DeadLetter>>>,
    batches: Rc<Cell<u32>>,
    marked: Rc<RefCell<Vec<Marked>>>,
    /// It offers what was marked again and again.
    is_behind: bool,
    looks: Rc<Cell<u32>>,
    ended: Rc<RefCell<Vec<(LetterId, Conclusion)>>>,
    failures: Rc<Cell<u32>>,
}

#[derive(Debug, thiserror::Error)]
#[error("the letters are away")]
struct LettersAway;

impl Letters {
    fn attempt(&self) -> Result<(), LettersAway> {
        match self.failures.get() {
            0 => Ok(()),
            failures => {
                self.failures.set(failures - 1);
                Err(LettersAway)
            }
        }
    }
}

impl DeadLetters for Letters {
    type Error = LettersAway;

    async fn inventory(&mut self) -> Result<Inventory, LettersAway> {
        self.attempt().map(|()| Inventory::default())
    }

    async fn set_aside(&mut self, letters: &[DeadLetter]) -> Result<Vec<bool>, LettersAway> {
        self.attempt()?;
        self.batches.set(self.batches.get() + 1);
        self.kept.borrow_mut().extend_from_slice(letters);
        Ok(vec![true; letters.len()])
    }

    async fn marked(&mut self, _: usize, _: bool) -> Result<Vec<Marked>, LettersAway> {
        self.looks.set(self.looks.get() + 1);
        let marked = || if self.is_behind { self.marked.borrow().clone() } else { self.marked.take() };
        self.attempt().map(|()| marked())
    }

    async fn conclude(&mut self, ends: &[(LetterId, Conclusion)]) -> Result<(), LettersAway> {
        self.attempt().map(|()| self.ended.borrow_mut().extend_from_slice(ends))
    }
}

/// A relay's surroundings, as a test wants them.
struct Stage {
    seen: Rc<Seen>,
    stream: Stream,
    broker: Broker,
    catalogue: Catalogue,
    letters: Option<Letters>,
    look_interval: Duration,
    settings: Settings,
}

impl Stage {
    fn new(frames: impl IntoIterator<Item = Frame>) -> Self {
        let seen = Rc::<Seen>::default();
        Self {
            stream: Stream {
                seen: Rc::clone(&seen),
                frames: frames.into_iter().collect(),
                ends: false,
                during_reset: VecDeque::new(),
            },
            broker: Broker {
                seen: Rc::clone(&seen),
                outcome: Ok(()),
                reports: Vec::new(),
                reset_ends: true,
                commit_ends: true,
                commit_failure: None,
                full_for: 0,
                letter_failure: None,
                verdict: None,
            },
            catalogue: Catalogue { seen: Rc::clone(&seen), failures: 0, answers: true, is_silent: false },
            letters: None,
            look_interval: Duration::from_millis(1),
            settings: Settings {
                drain_timeout: DRAIN,
                retry_initial: Duration::from_millis(1),
                retry_ceiling: Duration::from_millis(1),
                ..Settings::default()
            },
            seen,
        }
    }

    fn failing(mut self, class: Class) -> Self {
        self.broker.outcome = Err(Failure::new(class, "it failed"));
        self
    }

    fn with_a_reset_that_never_ends(mut self) -> Self {
        self.broker.reset_ends = false;
        self
    }

    fn with_a_catalogue_that_never_answers(mut self) -> Self {
        self.catalogue.answers = false;
        self
    }

    /// Runs a session to its end, which must come soon.
    async fn play(
        self,
        checkpointer: impl FnOnce() -> Checkpointer,
        stop: impl Future<Output = ()>,
        server_gone: impl Future<Output = ()>,
    ) -> Driven<Dry> {
        self.play_with(checkpointer, patient, stop, server_gone).await
    }

    /// The same with another describer.
    async fn play_with(
        self,
        checkpointer: impl FnOnce() -> Checkpointer,
        describer: impl FnOnce(Catalogue) -> Describer,
        stop: impl Future<Output = ()>,
        server_gone: impl Future<Output = ()>,
    ) -> Driven<Dry> {
        let Self { seen, stream, mut broker, catalogue, letters, look_interval, settings } = self;
        let clock = Clock::start();
        let mut session = Session::new(settings, outboxes(), start(), clock.now());
        let run = async {
            let mut recorder = Recorder::new(Board::new(clock));
            let signals = Signals { stop, server_gone, recorder: &mut recorder };
            let describer = describer(catalogue);
            let letters = letters.map(|store| LetterWriter::looking_every(look_interval, store, false));
            let staff = Staff { checkpointer: checkpointer(), describer, letters };
            let driven = drive(&mut session, stream, &mut broker, staff, signals, clock).await;
            until(|| seen.is_catalogue_dropped.get()).await;
            driven
        };
        let limit = tokio::time::timeout(Duration::from_secs(20), LocalSet::new().run_until(run)).await;
        limit.expect("the session ends")
    }
}

fn start() -> Start {
    Start {
        position: Lsn::new(START),
        checkpointed: Lsn::new(START),
        timeline: Timeline(1),
        commit_time: None,
        first_owed: None,
        settled_rows: None,
        lessons: Lessons::default(),
        inventory: Inventory::default(),
        first_ticket: Ticket(0),
        seed: 1,
    }
}

fn outboxes() -> walpost_core::outbox::Outboxes {
    let table = TableName { schema: "public".to_owned(), table: "outbox".to_owned() };
    Arc::from([Outbox { table, router: Router::new(Options::default()).unwrap() }])
}

fn pattern() -> Checkpoint {
    Checkpoint {
        relay: "relay".to_owned(),
        system: SystemIdentifier(1),
        timeline: Timeline(1),
        database: "app".to_owned(),
        slot: "slot".to_owned(),
        position: Lsn::new(START),
        commit_time: None,
        settled_rows: None,
        epoch: Epoch(1),
    }
}

fn sound_store() -> Checkpointer {
    Checkpointer::start(Store(Ok(())), pattern(), |_| true)
}

/// Asks again at once, and gives nobody up.
fn patient(catalogue: Catalogue) -> Describer {
    asking(catalogue, Duration::from_millis(1), Duration::MAX)
}

/// Asks again after such a wait, and gives up after such a silence.
fn asking(catalogue: Catalogue, wait: Duration, silence: Duration) -> Describer {
    let is_silence = |Away { is_silent }: &Away| *is_silent;
    Describer::start(catalogue, Patience { backoff: Backoff::new(wait, wait, 0), silence, is_silence })
}

fn frame(message: &Message<'_>) -> Frame {
    let mut data = BytesMut::new();
    message.encode(&mut data);
    let (wal, server_time) = (Lsn::new(0), Timestamp::default());
    Frame::XLogData(XLogData { wal_start: wal, wal_end: wal, server_time, data: data.freeze() })
}

fn relation() -> Frame {
    let column = |name, type_id| Column { flags: 0, name, type_id, type_modifier: -1 };
    let columns = ["id", "aggregatetype", "aggregateid", "type", "payload"].map(|name| column(name, 25));
    let (namespace, name) = ("public", "outbox");
    let columns = columns.into_iter().collect();
    frame(&Message::Relation(Relation { id: RELATION, namespace, name, replica_identity: b'd', columns }))
}

/// A transaction of one row.
fn transaction(commit_lsn: u64) -> [Frame; 3] {
    let (final_lsn, commit_time) = (Lsn::new(commit_lsn), Timestamp::default());
    let cells = [b"1".as_slice(), b"order", b"7", b"Created", b"{}"].map(pgoutput::Cell::Text).into_iter().collect();
    let commit = Commit { flags: 0, commit_lsn: final_lsn, end_lsn: Lsn::new(commit_lsn + 0x30), commit_time };
    [
        frame(&Message::Begin(Begin { final_lsn, commit_time, xid: 1 })),
        frame(&Message::Insert(Insert { relation: RELATION, new: Tuple { cells } })),
        frame(&Message::Commit(commit)),
    ]
}

fn one_event() -> Vec<Frame> {
    std::iter::once(relation()).chain(transaction(0x2000)).collect()
}

/// The same with the shape told within the transaction.
fn one_event_with_its_shape() -> Vec<Frame> {
    let [begin, insert, commit] = transaction(0x2000);
    vec![begin, relation(), insert, commit]
}

/// Completes once the condition holds.
async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

#[tokio::test]
async fn a_stop_delivers_checkpoints_confirms_and_closes_the_stream_in_good_order() {
    let stage = Stage::new(one_event());
    let seen = Rc::clone(&stage.seen);
    let published = Rc::clone(&stage.seen);
    let driven = stage.play(sound_store, until(move || !published.published.borrow().is_empty()), pending()).await;
    assert_eq!((driven.end.cause, driven.end.unsettled), (Cause::Stopped, 0));
    assert_eq!((seen.confirmed.borrow().last(), seen.is_finished.get()), (Some(&0x2030), true));
}

#[tokio::test]
async fn a_stream_that_ends_gives_its_cause_and_is_not_finished() {
    let mut stage = Stage::new(one_event());
    stage.stream.ends = true;
    let seen = Rc::clone(&stage.seen);
    let driven = stage.play(sound_store, pending(), pending()).await;
    assert!(matches!((driven.end.cause, driven.source_error), (Cause::SourceLost, Some(Dry))));
    assert!(seen.is_closed.get() && !seen.is_finished.get());
}

#[tokio::test]
async fn a_server_that_shuts_down_is_let_go_while_the_sink_is_being_reset() {
    let stage = Stage::new(one_event()).failing(Class::Sink).with_a_reset_that_never_ends();
    let seen = Rc::clone(&stage.seen);
    let (resetting, closed) = (Rc::clone(&seen), Rc::clone(&seen));
    let (tell, told) = oneshot::channel();
    // The stop comes only once the stream is closed, so the stream was closed while the reset went on.
    let stop = async {
        until(move || closed.is_closed.get()).await;
        tell.send(()).unwrap();
    };
    let driven = stage.play(sound_store, stop, until(move || resetting.resets.get() > 0)).await;
    told.await.unwrap();
    assert_eq!((driven.end.unsettled, driven.end.needs_reset), (1, true));
}

#[tokio::test]
async fn a_stop_waits_for_a_reset_no_longer_than_for_anything_else() {
    let stage = Stage::new(one_event()).failing(Class::Sink).with_a_reset_that_never_ends();
    let resetting = Rc::clone(&stage.seen);
    let driven = stage.play(sound_store, until(move || resetting.resets.get() > 0), pending()).await;
    assert_eq!((driven.end.cause, driven.end.unsettled, driven.end.needs_reset), (Cause::Stopped, 1, true));
}

#[tokio::test]
async fn the_stream_is_read_while_the_sink_is_being_reset() {
    let mut stage = Stage::new(one_event()).failing(Class::Sink).with_a_reset_that_never_ends();
    stage.stream.during_reset = transaction(0x3000).into();
    let taken = Rc::clone(&stage.seen);
    let driven = stage.play(sound_store, until(move || taken.taken.get() == 7), pending()).await;
    assert_eq!((driven.end.unsettled, driven.end.position), (2, Lsn::new(START)));
}

#[tokio::test]
async fn what_failed_goes_again_after_the_reset() {
    let stage = Stage::new(one_event()).failing(Class::Sink);
    let seen = Rc::clone(&stage.seen);
    let confirmed = Rc::clone(&stage.seen);
    let has_arrived = move || confirmed.confirmed.borrow().contains(&0x2030);
    let driven = stage.play(sound_store, until(has_arrived), pending()).await;
    assert_eq!((driven.end.unsettled, seen.resets.get()), (0, 1));
    assert_eq!(*seen.published.borrow(), [0, 0]);
}

#[tokio::test]
async fn a_checkpoint_that_another_relay_has_claimed_ends_the_connection() {
    let stage = Stage::new(one_event());
    let seen = Rc::clone(&stage.seen);
    let store = || Checkpointer::start(Store(Err(StoreError::Fenced)), pattern(), |_| true);
    let driven = stage.play(store, pending(), pending()).await;
    assert_eq!((driven.end.cause, driven.end.unsettled), (Cause::SourceLost, 0));
    assert!(seen.confirmed.borrow().iter().all(|confirmed| *confirmed == START));
}

#[tokio::test]
async fn a_writer_of_checkpoints_that_died_ends_the_connection() {
    // Either before it took the order, or with it in its hands.
    for takes_the_order in [false, true] {
        let stage = Stage::new(one_event());
        let dead = || {
            let (orders, mut incoming) = mpsc::channel(1);
            let (outgoing, answers) = mpsc::channel(1);
            if takes_the_order {
                tokio::task::spawn_local(async move {
                    incoming.recv().await;
                    drop(outgoing);
                });
            }
            Checkpointer { orders, answers, pattern: pattern(), is_gone: false }
        };
        let driven = stage.play(dead, pending(), pending()).await;
        assert_eq!(driven.end.cause, Cause::SourceLost, "{takes_the_order}");
    }
}

#[tokio::test]
async fn a_sink_that_will_take_nothing_ends_the_session_before_a_record_was_tried() {
    let mut stage = Stage::new([relation()]);
    stage.broker.verdict = Some(Failure::new(Class::Configuration, "a wrong password"));
    let driven = stage.play(sound_store, pending(), pending()).await;
    assert_eq!(driven.end.cause, Cause::Stopped);
    assert_eq!(driven.sink_verdict.map(|verdict| verdict.reason).as_deref(), Some("a wrong password"));
}

#[tokio::test]
async fn a_catalogue_that_fails_is_asked_again_and_nothing_is_published_before_it_answers() {
    let mut stage = Stage::new(one_event_with_its_shape());
    stage.catalogue.failures = 3;
    let seen = Rc::clone(&stage.seen);
    let published = Rc::clone(&stage.seen);
    let has_published = move || {
        let is_published = !published.published.borrow().is_empty();
        assert!(!is_published || published.questions.get() == 4);
        is_published
    };
    let driven = stage.play(sound_store, until(has_published), pending()).await;
    assert_eq!((driven.end.cause, driven.end.unsettled, seen.questions.get()), (Cause::Stopped, 0, 4));
    assert_eq!(seen.confirmed.borrow().last(), Some(&0x2030));
}

#[tokio::test]
async fn while_the_catalogue_does_not_answer_the_server_hears_of_us_and_a_stop_is_heard() {
    let mut stage = Stage::new(one_event_with_its_shape()).with_a_catalogue_that_never_answers();
    stage.settings.feedback.status_interval = Duration::from_millis(1);
    let seen = Rc::clone(&stage.seen);
    let heard = Rc::clone(&stage.seen);
    let is_heard = move || heard.questions.get() == 1 && heard.confirmed.borrow().len() > 20;
    let driven = stage.play(sound_store, until(is_heard), pending()).await;
    assert_eq!((driven.end.cause, driven.end.unsettled), (Cause::Stopped, 0));
    assert!(seen.published.borrow().is_empty());
    assert!(seen.confirmed.borrow().iter().all(|confirmed| *confirmed == START));
}

#[tokio::test]
async fn a_catalogue_that_does_not_answer_is_let_go_with_the_connection() {
    // It hangs, or it fails and is waited for. That it is dropped is awaited by every play.
    for answers in [false, true] {
        let mut stage = Stage::new(one_event_with_its_shape());
        (stage.catalogue.answers, stage.catalogue.failures) = (answers, u32::MAX);
        let asked = Rc::clone(&stage.seen);
        let seldom = |catalogue| asking(catalogue, Duration::from_secs(3600), Duration::MAX);
        let gone = until(move || asked.questions.get() == 1);
        let driven = stage.play_with(sound_store, seldom, pending(), gone).await;
        assert_eq!(driven.end.cause, Cause::SourceLost, "{answers}");
    }
}

#[tokio::test]
async fn a_catalogue_without_a_word_is_given_up_with_the_connection_and_one_that_refuses_is_not() {
    // A hundred tries take longer.
    let silence = Duration::from_millis(20);
    for is_silent in [false, true] {
        let mut stage = Stage::new(one_event_with_its_shape());
        (stage.catalogue.is_silent, stage.catalogue.failures) = (is_silent, u32::MAX);
        let impatient = |catalogue| asking(catalogue, Duration::from_millis(1), silence);
        let asked = Rc::clone(&stage.seen);
        let stop = until(move || !is_silent && asked.questions.get() >= 100);
        let driven = stage.play_with(sound_store, impatient, stop, pending()).await;
        let expected = if is_silent { Cause::SourceLost } else { Cause::Stopped };
        assert_eq!((driven.end.cause, driven.end.unsettled), (expected, 0));
    }
}

#[tokio::test]
async fn a_describer_that_died_ends_the_connection() {
    // Either before it was asked, or over the question.
    for takes_the_question in [false, true] {
        let stage = Stage::new(one_event());
        let dead = |catalogue| Describer::dead(takes_the_question, catalogue);
        let driven = stage.play_with(sound_store, dead, pending(), pending()).await;
        assert_eq!(driven.end.cause, Cause::SourceLost, "{takes_the_question}");
    }
}

/// A stage whose sink commits records and position as one.
fn grouping() -> Stage {
    let mut stage = Stage::new(one_event());
    let (interval, timeout) = (Duration::from_secs(60), Duration::from_secs(60));
    stage.settings.grouping = Some(Grouping { interval, max_records: 1000, max_bytes: 1 << 20, timeout });
    stage
}

#[tokio::test]
async fn a_sink_of_transactions_commits_records_and_position_as_one_and_the_position_is_confirmed_after_it() {
    let stage = grouping();
    let seen = Rc::clone(&stage.seen);
    let committed = Rc::clone(&stage.seen);
    let stop = until(move || committed.confirmed.borrow().last() == Some(&0x2030));
    let driven = stage.play(|| Checkpointer::of_sink(pattern()), stop, pending()).await;
    assert_eq!((driven.end.cause, driven.end.unsettled, driven.end.needs_reset), (Cause::Stopped, 0, false));
    assert_eq!(*seen.committed.borrow(), [(0x2030, 1)]);
}

#[tokio::test]
async fn a_commit_that_fails_ends_the_session_and_confirms_nothing() {
    let mut stage = grouping();
    stage.broker.commit_failure = Some(Failure::new(Class::Sink, "no answer"));
    let seen = Rc::clone(&stage.seen);
    let driven = stage.play(|| Checkpointer::of_sink(pattern()), pending(), pending()).await;
    assert!(matches!(driven.end.cause, Cause::Aborted(None, _)), "{:?}", driven.end.cause);
    assert_eq!((driven.end.position, driven.end.needs_reset), (Lsn::new(START), true));
    assert!(seen.confirmed.borrow().iter().all(|confirmed| *confirmed == START));
}

#[tokio::test]
async fn a_session_that_is_stopped_within_a_commit_waits_for_it_no_longer_than_it_may() {
    let mut stage = grouping();
    stage.broker.commit_ends = false;
    let committed = Rc::clone(&stage.seen);
    let stop = until(move || !committed.committed.borrow().is_empty());
    let driven = stage.play(|| Checkpointer::of_sink(pattern()), stop, pending()).await;
    assert_eq!(
        (driven.end.cause, driven.end.position, driven.end.needs_reset),
        (Cause::Stopped, Lsn::new(START), true)
    );
}

/// One transaction of rows without a key column: none of them can become a record.
fn bad_rows(count: usize) -> Vec<Frame> {
    let [begin, _, commit] = transaction(0x2000);
    let new = Tuple { cells: [pgoutput::Cell::Text(b"7")].into_iter().collect() };
    let row = || frame(&Message::Insert(Insert { relation: RELATION, new: new.clone() }));
    [relation(), begin].into_iter().chain((0..count).map(|_| row())).chain([commit]).collect()
}

#[tokio::test]
async fn bad_rows_are_set_aside_in_one_batch_before_anything_behind_them_is_confirmed() {
    for failures in [0, 3] {
        let mut stage = Stage::new(bad_rows(20));
        let letters = Letters::default();
        letters.failures.set(failures);
        stage.letters = Some(letters.clone());
        let seen = Rc::clone(&stage.seen);
        let (confirmed, kept) = (Rc::clone(&seen), letters.clone());
        let is_confirmed = move || {
            let is_confirmed = confirmed.confirmed.borrow().contains(&0x2030);
            assert!(!is_confirmed || kept.kept.borrow().len() == 20);
            is_confirmed
        };
        let driven = stage.play(sound_store, until(is_confirmed), pending()).await;
        assert_eq!((driven.end.cause, driven.end.unsettled), (Cause::Stopped, 0));
        let ordinals: Vec<u64> = letters.kept.borrow().iter().map(|letter| letter.identity.ordinal).collect();
        assert_eq!(ordinals, (0..20).collect::<Vec<_>>());
        assert!(letters.batches.get() < 20, "{} batches", letters.batches.get());
        assert!(seen.published.borrow().is_empty());
    }
}

#[tokio::test]
async fn where_a_sink_commits_all_as_one_it_sets_rows_aside_itself_and_is_asked_again_when_it_has_no_room() {
    let mut stage = grouping();
    stage.stream.frames = bad_rows(20).into();
    stage.broker.full_for = 3;
    let letters = Letters::default();
    stage.letters = Some(letters.clone());
    let seen = Rc::clone(&stage.seen);
    let confirmed = Rc::clone(&stage.seen);
    let stop = until(move || confirmed.confirmed.borrow().contains(&0x2030));
    let driven = stage.play(|| Checkpointer::of_sink(pattern()), stop, pending()).await;
    assert_eq!((driven.end.cause, driven.end.unsettled), (Cause::Stopped, 0));
    assert_eq!(*seen.set_aside.borrow(), (0..20).collect::<Vec<_>>());
    assert_eq!(seen.committed.borrow().iter().map(|(position, _)| *position).collect::<Vec<_>>(), [0x2030]);
    assert!(letters.kept.borrow().is_empty(), "the store is for reading alone");
}

#[tokio::test]
async fn a_sink_that_cannot_set_a_row_aside_has_its_group_given_up() {
    let mut stage = grouping();
    stage.stream.frames = bad_rows(1).into();
    stage.broker.letter_failure = Some(Failure::new(Class::Sink, "no room on the disk"));
    let driven = stage.play(|| Checkpointer::of_sink(pattern()), pending(), pending()).await;
    assert!(matches!(&driven.end.cause, Cause::Aborted(None, failure) if failure.reason == "no room on the disk"));
    assert_eq!((driven.end.position, driven.end.needs_reset), (Lsn::new(START), true));
}

#[tokio::test]
async fn a_store_that_is_behind_is_not_asked_again_and_again() {
    let mut stage = grouping();
    stage.stream.frames = bad_rows(2).into();
    stage.settings.feedback.status_interval = Duration::from_millis(1);
    stage.look_interval = Duration::from_secs(3600);
    let letters = Letters { is_behind: true, ..Letters::default() };
    letters.marked.borrow_mut().push(Marked {
        id: LetterId(1),
        request: Request::Drop,
        letter: some_letter(),
        fetched: None,
    });
    stage.letters = Some(letters.clone());
    let seen = Rc::clone(&stage.seen);
    let told = Rc::clone(&stage.seen);
    let stop = until(move || {
        let confirmed = told.confirmed.borrow();
        !told.concluded.borrow().is_empty() && confirmed.iter().filter(|position| **position == 0x2030).count() > 20
    });
    let driven = stage.play(|| Checkpointer::of_sink(pattern()), stop, pending()).await;
    assert_eq!(driven.end.cause, Cause::Stopped);
    assert_eq!(*seen.concluded.borrow(), [(LetterId(1), Conclusion::Dropped)], "once");
    assert!(letters.looks.get() < 20, "{} looks, after waits that double", letters.looks.get());
}

#[tokio::test]
async fn marks_that_cannot_be_read_keep_nothing_from_being_set_aside() {
    let mut stage = grouping();
    stage.stream.frames = bad_rows(3).into();
    let letters = Letters::default();
    letters.failures.set(u32::MAX);
    stage.letters = Some(letters.clone());
    let seen = Rc::clone(&stage.seen);
    let looked = letters.looks.clone();
    let confirmed = Rc::clone(&stage.seen);
    let stop = until(move || looked.get() > 2 && confirmed.confirmed.borrow().contains(&0x2030));
    let driven = stage.play(|| Checkpointer::of_sink(pattern()), stop, pending()).await;
    assert_eq!((driven.end.cause, driven.end.unsettled), (Cause::Stopped, 0));
    assert_eq!(*seen.set_aside.borrow(), [0, 1, 2]);
}

#[tokio::test]
async fn a_letter_that_is_marked_is_dropped_or_sent_and_the_store_hears_of_it() {
    let mut stage = Stage::new(bad_rows(2));
    let letters = Letters::default();
    stage.letters = Some(letters.clone());
    let seen = Rc::clone(&stage.seen);
    let operator = letters.clone();
    let is_ended = move || {
        if operator.marked.borrow().is_empty()
            && operator.ended.borrow().is_empty()
            && operator.kept.borrow().len() == 2
        {
            let mark = |(id, request, letter): (i64, Request, &DeadLetter)| Marked {
                id: LetterId(id),
                request,
                letter: DeadLetter { record: Some(some_record(letter)), ..letter.clone() },
                fetched: None,
            };
            let kept = operator.kept.borrow();
            *operator.marked.borrow_mut() =
                [(1, Request::Drop, &kept[0]), (2, Request::Replay, &kept[1])].map(mark).into();
        }
        operator.ended.borrow().len() >= 2
    };
    let driven = stage.play(sound_store, until(is_ended), pending()).await;
    assert_eq!((driven.end.cause, driven.end.unsettled), (Cause::Stopped, 0));
    let ended = letters.ended.borrow();
    assert_eq!(ended[..2], [(LetterId(1), Conclusion::Dropped), (LetterId(2), Conclusion::Sent)]);
    assert_eq!(seen.published.borrow().len(), 1);
}

fn some_letter() -> DeadLetter {
    let identity = walpost_core::position::Identity { timeline: Timeline(1), commit_lsn: Lsn::new(1), ordinal: 0 };
    DeadLetter {
        identity,
        commit_time: Timestamp::default(),
        table: TableName { schema: "public".to_owned(), table: "outbox".to_owned() },
        parking_key: None,
        event_id: None,
        cause: walpost_core::poison::Cause::Row("it is bad".to_owned()),
        record: None,
        row: walpost_core::poison::Row::default(),
    }
}

fn some_record(letter: &DeadLetter) -> Record {
    Record {
        identity: letter.identity,
        topic: Arc::from("topic"),
        key: None,
        value: None,
        headers: walpost_core::record::Headers::new(),
        timestamp_ms: 0,
        partition: None,
    }
}
