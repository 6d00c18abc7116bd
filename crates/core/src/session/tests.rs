//! What a session promises, one sentence a test. The simulation looks for what nobody thought of; these say what was.

mod again;
mod delivery;
mod describing;
mod ending;
mod groups;
mod letters;
mod progress;
mod protocol;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use crate::failure::{Class, Failure};
use crate::feedback;
use crate::frame::{Keepalive, StatusUpdate};
use crate::lsn::Lsn;
use crate::pgoutput::{Begin, Cell, Commit, Insert, Message};
use crate::poison::{Conclusion, DeadLetter, LoggedRow, OnBadRow, Parked, ParkingKey, Policy};
use crate::position::{Identity, Place, SettledRows, Timeline};
use crate::record::{Headers, Record};
use crate::time::Timestamp;

use super::simulation::server::{TABLES, description, foreign_row, frame, relation, row};
use super::simulation::world::outboxes;
use super::*;
use crate::poison;

const OUTBOX: usize = 0;
const FOREIGN: usize = 2;
const START: u64 = 0x1000;
const LETTER: LetterId = LetterId(7);

/// A session, and somebody who does what it asks for.
struct Desk {
    session: Session,
    now: Moment,
}

/// What a session asked for, in short.
#[derive(Debug, PartialEq, Eq)]
enum Asked {
    Publish(u64),
    Describe(u32),
    SetAside(u64, poison::Cause),
    Conclude(i64, Conclusion),
    TakeInventory,
    Reset,
    Checkpoint(u64),
    Commit(u64),
    Confirm(u64),
    /// A status update that asks the server for a sign of life.
    AskForLife(u64),
    Notice(Notice),
    End(End),
}

impl Desk {
    fn new() -> Self {
        Self::with(Settings { poison: stopping(), ..Settings::default() })
    }

    fn with(settings: Settings) -> Self {
        Self::at(start(), settings)
    }

    /// The relations are told and described already, and so is the first status update told.
    fn at(start: Start, settings: Settings) -> Self {
        let now = Moment::since_origin(Duration::from_secs(100));
        let checkpointed = start.checkpointed.get();
        let mut desk = Self { session: Session::new(settings, outboxes(), start, now), now };
        desk.tell_shape(0).receive(&relation(FOREIGN, 0));
        assert!(desk.asked().contains(&Asked::Confirm(checkpointed)));
        desk
    }

    /// The session that follows on a lost connection, in the same process.
    fn next(&self, end: &End, timeline: u32) -> Self {
        Self::at(self.start_of_next(end, timeline), self.session.settings.clone())
    }

    /// The same where letters lie.
    fn next_with(&self, end: &End, inventory: Inventory) -> Self {
        Self::at(Start { inventory, ..self.start_of_next(end, 1) }, self.session.settings.clone())
    }

    fn start_of_next(&self, end: &End, timeline: u32) -> Start {
        Start {
            position: end.position,
            checkpointed: self.session.checkpointed_position(),
            timeline: Timeline(timeline),
            commit_time: end.commit_time,
            first_owed: end.first_owed,
            settled_ahead: Arc::clone(&end.settled_ahead),
            settled_rows: None,
            lessons: (*end.lessons).clone(),
            inventory: Inventory::default(),
            first_ticket: end.next_ticket,
            seed: 2,
        }
    }

    fn receive(&mut self, message: &Message<'_>) -> &mut Self {
        self.session.receive(&frame(0, message), self.now);
        self
    }

    /// The outbox gets this shape, and is described at once.
    fn tell_shape(&mut self, shape: u8) -> &mut Self {
        self.receive(&relation(OUTBOX, shape)).describe(shape)
    }

    fn describe(&mut self, shape: u8) -> &mut Self {
        self.session.described(TABLES[OUTBOX].0, &description(OUTBOX, shape));
        self
    }

    fn begin(&mut self, commit_lsn: u64) -> &mut Self {
        let final_lsn = Lsn::new(commit_lsn);
        self.receive(&Message::Begin(Begin { final_lsn, commit_time: Timestamp::default(), xid: 1 }))
    }

    fn rows(&mut self, count: usize) -> &mut Self {
        for _ in 0..count {
            self.row_of(10);
        }
        self
    }

    /// A row with a payload of so many bytes.
    fn row_of(&mut self, length: usize) -> &mut Self {
        let payload = Bytes::from(vec![b'x'; length]);
        let new = row(0, "00000000-0000-4000-8000-000000000001", "order", "1", &payload);
        self.receive(&Message::Insert(Insert { relation: TABLES[OUTBOX].0, new }))
    }

    /// A row of this key, or of none.
    fn row_of_key(&mut self, key: Option<&str>) -> &mut Self {
        let payload = Bytes::from_static(b"x");
        let mut new = row(0, "00000000-0000-4000-8000-000000000001", "order", key.unwrap_or_default(), &payload);
        if key.is_none() {
            new.cells[2] = Cell::Null;
        }
        self.receive(&Message::Insert(Insert { relation: TABLES[OUTBOX].0, new }))
    }

    /// A row that routes to no topic, so that no record can be made of it.
    fn bad_row(&mut self, key: &str) -> &mut Self {
        let payload = Bytes::from_static(b"x");
        let mut new = row(0, "00000000-0000-4000-8000-000000000001", "order", key, &payload);
        new.cells[1] = Cell::Null;
        self.receive(&Message::Insert(Insert { relation: TABLES[OUTBOX].0, new }))
    }

    /// A row whose record in the log is there.
    fn row_at(&mut self, wal: u64) -> &mut Self {
        let payload = Bytes::from_static(b"x");
        let new = row(0, "00000000-0000-4000-8000-000000000001", "order", "1", &payload);
        let insert = Message::Insert(Insert { relation: TABLES[OUTBOX].0, new });
        self.session.receive(&frame(wal, &insert), self.now);
        self
    }

    fn foreign_row(&mut self) -> &mut Self {
        self.receive(&Message::Insert(Insert { relation: TABLES[FOREIGN].0, new: foreign_row(0) }))
    }

    fn commit(&mut self, commit_lsn: u64, commit_end: u64) -> &mut Self {
        let (commit_lsn, end_lsn) = (Lsn::new(commit_lsn), Lsn::new(commit_end));
        self.receive(&Message::Commit(Commit { flags: 0, commit_lsn, end_lsn, commit_time: Timestamp::default() }))
    }

    /// A transaction of so many outbox rows whose commit record is 0x30 bytes long.
    fn transaction(&mut self, commit_lsn: u64, count: usize) -> &mut Self {
        self.begin(commit_lsn).rows(count).commit(commit_lsn, commit_lsn + 0x30)
    }

    fn keepalive(&mut self, wal_end: u64, reply_requested: bool) -> &mut Self {
        let keepalive = Keepalive { wal_end: Lsn::new(wal_end), server_time: Timestamp::default(), reply_requested };
        self.session.receive(&Frame::Keepalive(keepalive), self.now);
        self
    }

    /// The next thing that the session asks for.
    fn next_asked(&mut self) -> Option<Asked> {
        Some(match self.session.poll(self.now)? {
            Action::Publish(ticket, _) => Asked::Publish(ticket.0),
            Action::Describe(relation, table) => {
                // A letter whose row is empty is of no relation.
                assert!([TABLES[OUTBOX].0, 0].contains(&relation), "{relation}");
                assert_eq!(table, &outboxes()[OUTBOX].table);
                Asked::Describe(relation)
            }
            Action::SetAside(ticket, letter) => Asked::SetAside(ticket.0, letter.cause),
            Action::Conclude(letter, conclusion) => Asked::Conclude(letter.0, conclusion),
            Action::TakeInventory => Asked::TakeInventory,
            Action::ResetSink => Asked::Reset,
            Action::Checkpoint(progress) => Asked::Checkpoint(progress.position.get()),
            Action::Commit(progress) => Asked::Commit(progress.position.get()),
            Action::Confirm(StatusUpdate { confirmed, reply_requested: false }) => Asked::Confirm(confirmed.get()),
            Action::Confirm(StatusUpdate { confirmed, reply_requested: true }) => Asked::AskForLife(confirmed.get()),
            Action::Notice(notice) => Asked::Notice(notice),
            Action::End(end) => Asked::End(end),
        })
    }

    /// All that it asks for now.
    fn asked(&mut self) -> Vec<Asked> {
        std::iter::from_fn(|| self.next_asked()).collect()
    }

    /// The same but for status updates that tell nothing new.
    fn asked_besides(&mut self, confirmed: u64) -> Vec<Asked> {
        self.asked().into_iter().filter(|asked| *asked != Asked::Confirm(confirmed)).collect()
    }

    fn end(&mut self) -> End {
        match self.asked().pop() {
            Some(Asked::End(end)) => end,
            other => panic!("it has not ended: {other:?}"),
        }
    }

    fn deliver(&mut self, ticket: u64) -> &mut Self {
        self.session.settle(Delivery { ticket: Ticket(ticket), outcome: Ok(()) }, self.now);
        self
    }

    fn fail(&mut self, ticket: u64, class: Class) -> &mut Self {
        let outcome = Err(Failure::new(class, "it failed"));
        self.session.settle(Delivery { ticket: Ticket(ticket), outcome }, self.now);
        self
    }

    fn refuse(&mut self, ticket: u64, refusal: Refusal) -> &mut Self {
        self.session.refused(Ticket(ticket), refusal, self.now);
        self
    }

    fn reset_succeeds(&mut self) -> &mut Self {
        self.session.sink_reset(Ok(()), self.now);
        self
    }

    fn checkpoint_succeeds(&mut self) -> &mut Self {
        self.session.checkpointed();
        self
    }

    fn lose_source(&mut self) -> &mut Self {
        self.session.source_lost(self.now);
        self
    }

    fn stop(&mut self) -> &mut Self {
        self.session.stop(self.now);
        self
    }

    fn wait(&mut self, time: Duration) -> &mut Self {
        self.now = self.now.after(time);
        self
    }

    /// To the deadline that the session names.
    fn wait_for_deadline(&mut self) -> Duration {
        let wait = self.session.deadline(self.now).since(self.now);
        assert!(wait > Duration::ZERO, "there was nothing to do, and still it would not wait");
        self.now = self.now.after(wait);
        wait
    }

    fn watermark(&self) -> u64 {
        self.session.watermark().get()
    }
}

/// A letter of the key of the rows lies there.
fn start_with_a_letter() -> Start {
    let first = Place { commit_lsn: Lsn::new(0x800), ordinal: 0, commit_time: Timestamp::from_postgres_micros(0) };
    let parked = vec![Parked { key: parking_key(), letters: 1, first }];
    Start { inventory: Inventory { letters: 1, parked, roots: 1, parked_bytes: 0 }, ..start() }
}

fn parking_key() -> ParkingKey {
    let (route, key) = (Some(Bytes::from_static(b"order")), Bytes::from_static(b"1"));
    ParkingKey { table: outboxes()[OUTBOX].table.clone(), route, key }
}

fn marked(request: Request) -> Vec<Marked> {
    let identity = Identity { timeline: Timeline(1), commit_lsn: Lsn::new(0x800), ordinal: 0 };
    let (topic, headers) = (std::sync::Arc::from("order"), Headers::new());
    let (key, value, timestamp_ms, is_dated_by_row, partition) = (None, None, 0, false, None);
    let record = Record { identity, topic, key, value, headers, timestamp_ms, is_dated_by_row, partition };
    let letter = LoggedRow::default().letter(identity, poison::Cause::Row("it was bad".to_owned()), Some(record));
    vec![Marked {
        id: LETTER,
        request,
        letter: DeadLetter { parking_key: Some(parking_key()), ..letter },
        fetched: None,
    }]
}

/// Letters that were set aside behind that one.
fn followers(ids: &[i64]) -> Vec<Marked> {
    let follower = |id: &i64| {
        let [Marked { letter, .. }] = <[_; 1]>::try_from(marked(Request::Replay)).unwrap();
        let letter = DeadLetter { cause: poison::Cause::Parked, ..letter };
        Marked { id: LetterId(*id), request: Request::Replay, letter, fetched: None }
    };
    ids.iter().map(follower).collect()
}

fn row_cause(reason: &str) -> poison::Cause {
    poison::Cause::Row(reason.to_owned())
}

/// Nothing is set aside.
fn stopping() -> Policy {
    Policy { on_bad_row: OnBadRow::Stop, ..Policy::default() }
}

fn start() -> Start {
    Start::at(Lsn::new(START), Timeline(1), 1)
}

fn publications(tickets: impl IntoIterator<Item = u64>) -> Vec<Asked> {
    tickets.into_iter().map(Asked::Publish).collect()
}

fn refused(class: Class) -> Refusal {
    Refusal::Failed(Failure::new(class, "refused"))
}
