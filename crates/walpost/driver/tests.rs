//! The driver between edges that do as they are told.

mod catalogue;
mod edges;
mod ending;
mod groups;
mod letters;

use std::future::{Future, pending};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use tokio::task::LocalSet;
use walpost_core::backoff::Backoff;
use walpost_core::failure::{Class, Failure};
use walpost_core::frame::XLogData;
use walpost_core::lsn::Lsn;
use walpost_core::outbox::{Outbox, Outboxes, TableName};
use walpost_core::pgoutput::{self, Begin, Column, Commit, Insert, Message, Relation, Tuple};
use walpost_core::position::{Checkpoint, Epoch, SystemIdentifier, Timeline};
use walpost_core::router::{Options, Router};
use walpost_core::session::{Grouping, Settings, Start};
use walpost_core::time::Timestamp;

use super::*;
use crate::observe::board::Board;
use edges::{Away, Broker, Catalogue, Dry, Letters, Seen, Store, Stream};

const START: u64 = 0x1000;
const RELATION: u32 = 16_401;
const DRAIN: Duration = Duration::from_millis(200);

/// A relay's surroundings, as a test wants them.
struct Stage {
    seen: Rc<Seen>,
    stream: Stream,
    broker: Broker,
    catalogue: Catalogue,
    letters: Option<Letters>,
    look_interval: Duration,
    board: Board,
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
            board: Board::new(Clock::start()),
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
        let Self { seen, stream, mut broker, catalogue, letters, look_interval, board, settings } = self;
        let clock = board.clock();
        let mut session = Session::new(settings, outboxes(), start(), clock.now());
        let run = async {
            let mut recorder = Recorder::new(board);
            let signals = Signals { stop, server_gone, recorder: &mut recorder };
            let describer = describer(catalogue);
            let letters = letters.map(|store| LetterWriter::looking_every(look_interval, store, false, described));
            let staff = Staff { checkpointer: checkpointer(), describer, letters };
            let driven = drive(&mut session, stream, &mut broker, staff, signals, clock).await;
            until(|| seen.is_catalogue_dropped.get()).await;
            driven
        };
        let limit = tokio::time::timeout(Duration::from_secs(20), LocalSet::new().run_until(run)).await;
        limit.expect("the session ends")
    }
}

/// An error of the letters with what to do about it.
fn described(error: &edges::LettersAway) -> String {
    format!("{error}; bring them back")
}

fn start() -> Start {
    Start::at(Lsn::new(START), Timeline(1), 1)
}

fn outboxes() -> Outboxes {
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

/// A stage whose sink commits records and position as one.
fn grouping() -> Stage {
    let mut stage = Stage::new(one_event());
    let (interval, timeout) = (Duration::from_secs(60), Duration::from_secs(60));
    stage.settings.grouping = Some(Grouping { interval, max_records: 1000, max_bytes: 1 << 20, timeout });
    stage
}

/// Completes once the condition holds.
async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}
