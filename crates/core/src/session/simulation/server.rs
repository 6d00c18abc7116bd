//! The simulated PostgreSQL: a log of random transactions, a slot, and a walsender that follows the log.

use std::collections::VecDeque;

use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;

use crate::description::{ColumnDescription, Description, TypeDescription, TypeKind};
use crate::frame::{Frame, Keepalive, StatusUpdate, XLogData};
use crate::lsn::Lsn;
use crate::pgoutput::{
    Begin, Cell, Column, Commit, Delete, Insert, LogicalMessage, Message, OldTuple, Origin, Relation, Truncate, Tuple,
    Type, Update,
};
use crate::position::{Identity, Timeline};
use crate::time::Timestamp;

use super::facts::{Event, Facts, Fault};
use super::random::Random;

/// The tables of the publication. The first two are outboxes.
pub(in crate::session) const TABLES: [(u32, &str, &str); 4] = [
    (16_401, "public", "outbox"),
    (16_402, "Shop", "Order.Outbox"),
    (16_403, "public", "orders"),
    (16_404, "other", "outbox"),
];
pub(super) const OUTBOXES: usize = 2;
pub(super) const TOPICS: [&str; 2] = ["order", "customer"];
const KEYS: [&str; 5] = ["1", "2", "3", "4", "5"];
const UUID: u32 = 2950;
const TEXT: u32 = 25;
const BYTEA: u32 = 17;
/// A domain over `bytea`, as only its description tells.
const BYTES: u32 = 20_001;
/// Shapes of a table: as it is in the documentation, with another column in front, with a payload in [`BYTES`].
const SHAPES: [u8; 8] = [0, 0, 0, 0, 1, 1, 2, 2];
/// A shape without the column `type`.
const NARROW: u8 = 3;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) log: Vec<Transaction>,
    /// Where the next record of the log goes.
    pub(super) insert: u64,
    pub(super) timeline: u32,
    /// The slot's `confirmed_flush_lsn`.
    pub(super) confirmed: u64,
    /// The same, as a crash of the server would leave it.
    confirmed_on_disk: u64,
    /// Up to here the events of whole transactions were seen delivered.
    checked: usize,
    /// The first transaction after a failover takes the place of this one.
    replaces: Option<u64>,
    /// How far its clock is ahead of what it was at first, in microseconds. Somebody sets it, and nobody says so.
    clock: i64,
    spread: Spread,
}

/// Over how many tables, topics and keys the rows are spread. Where they are few, rows of a key meet.
#[derive(Debug, Clone, Copy)]
struct Spread {
    tables: usize,
    topics: usize,
    keys: usize,
}

/// A committed transaction.
#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) commit_lsn: u64,
    pub(super) commit_end: u64,
    commit_time: Timestamp,
    changes: Vec<Change>,
}

#[derive(Debug, Clone, Copy)]
enum Change {
    Event { event: usize, shape: u8 },
    Insert { table: usize, shape: u8 },
    Update { table: usize, shape: u8 },
    Delete { table: usize, shape: u8 },
    Truncate { table: usize, shape: u8 },
    Logical,
    Origin,
    Type,
    Unknown,
}

/// How often rows are bad: once in so many; never for 0.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bad {
    /// The broker takes their records by no means.
    pub(super) record_in: u64,
    /// No record can be made of them.
    pub(super) row_in: u64,
    /// Some of them are beyond help.
    pub(super) is_hopeless_too: bool,
}

impl Bad {
    pub(super) const NONE: Self = Self { record_in: 0, row_in: 0, is_hopeless_too: false };
}

/// The walsender of one connection.
#[derive(Debug)]
pub(super) struct Stream {
    transaction: usize,
    /// How much of the transaction was sent, its BEGIN and COMMIT counted; 0 outside of any.
    sent: usize,
    /// The shape of each table as this connection was told it.
    told: [Option<u8>; TABLES.len()],
    /// How far the server has read, as long as no transaction is open.
    read: u64,
    answers: VecDeque<()>,
    /// Nothing arrives any more, and nobody says so.
    pub(super) is_mute: bool,
}

impl Server {
    pub(super) fn new(random: &mut Random) -> Self {
        let insert = 0x0100_0000 + random.below(4096) * 8;
        Self {
            log: Vec::new(),
            insert,
            timeline: 1,
            confirmed: insert,
            confirmed_on_disk: insert,
            checked: 0,
            replaces: None,
            clock: 0,
            spread: Spread::new(random),
        }
    }

    /// Commits a transaction.
    pub(super) fn commit(&mut self, random: &mut Random, facts: &mut Facts, bad: Bad) {
        let only_others = random.one_in(4);
        self.commit_to(random, facts, bad, only_others);
    }

    /// Commits a transaction that writes to no outbox.
    pub(super) fn commit_others(&mut self, random: &mut Random, facts: &mut Facts) {
        self.commit_to(random, facts, Bad { record_in: 0, row_in: 0, is_hopeless_too: false }, true);
    }

    fn commit_to(&mut self, random: &mut Random, facts: &mut Facts, bad: Bad, only_others: bool) {
        let length: u64 = random.pick(&[0, 0, 1, 1, 1, 2, 3, 5, 8, 30]);
        // A commit record may follow the one before at once: then a COMMIT and the next BEGIN share an LSN.
        let gap = random.pick(&[0, 0, 8, 64, 4096]) + 8 * length * u64::from(random.one_in(2));
        let replaced = self.replaces.take().filter(|first| *first >= self.insert);
        let commit_lsn = replaced.unwrap_or(self.insert + gap);
        let commit_end = commit_lsn + random.pick(&[40, 48, 1000]);
        let shape = random.pick(&SHAPES);
        let identity =
            |ordinal| Identity { timeline: Timeline(self.timeline), commit_lsn: Lsn::new(commit_lsn), ordinal };
        let mut ordinal = 0;
        let changes = (0..length)
            .map(|_| match random.below(16) {
                0..10 if !only_others => {
                    ordinal += 1;
                    let event = self.spread.event(random, facts.events.len(), identity(ordinal - 1), bad);
                    let shape = if event.fault == Some(Fault::Column) { NARROW } else { shape };
                    Change::Event { event: facts.commit(event), shape }
                }
                0..11 => {
                    ordinal += 1;
                    Change::Insert { table: random.index(TABLES.len() - OUTBOXES) + OUTBOXES, shape }
                }
                11 => Change::Update { table: random.index(TABLES.len()), shape },
                12 => Change::Delete { table: random.index(TABLES.len()), shape },
                13 => Change::Truncate { table: random.index(TABLES.len()), shape },
                14 => random.pick(&[Change::Origin, Change::Type, Change::Unknown]),
                _ => Change::Logical,
            })
            .collect();
        let commit_time = self.time_at(commit_lsn);
        self.log.push(Transaction { commit_lsn, commit_end, commit_time, changes });
        self.insert = commit_end;
    }

    /// Somebody sets the server's clock, forwards or back. Whether back.
    pub(super) fn set_clock(&mut self, random: &mut Random) -> bool {
        let (span, is_back) = (i64::try_from(random.jump().as_micros()).unwrap(), random.one_in(2));
        self.clock += if is_back { -span } else { span };
        is_back
    }

    /// What the server's clock says when its log is here.
    fn time_at(&self, wal: u64) -> Timestamp {
        Timestamp::from_postgres_micros(i64::try_from(wal).unwrap() * 10 + self.clock)
    }

    /// Writes log that nobody decodes.
    pub(super) fn write_others(&mut self, bytes: u64) {
        self.insert += bytes;
    }

    /// Starts to stream to a relay that asks for `start`.
    pub(super) fn stream(&self, start: Lsn, random: &mut Random) -> Stream {
        let start = start.get().max(self.confirmed);
        Stream {
            transaction: self.log.partition_point(|transaction| transaction.commit_lsn < start),
            sent: 0,
            told: [None; TABLES.len()],
            // It reads from the slot's restart position on, and says so.
            read: start - random.pick(&[0, 0, 8, 100_000]),
            answers: VecDeque::new(),
            is_mute: false,
        }
    }

    /// What arrives next on a connection, if anything does.
    pub(super) fn next_frame(
        &self,
        stream: &mut Stream,
        facts: &Facts,
        random: &mut Random,
        chatty_in: u64,
    ) -> Option<Frame> {
        if stream.is_mute {
            return None;
        }
        let has_more = stream.transaction < self.log.len();
        let is_answer = !stream.answers.is_empty() && (!has_more || random.one_in(2));
        if is_answer || random.one_in(chatty_in) {
            if is_answer {
                stream.answers.pop_front();
            }
            return Some(self.keepalive(stream, !is_answer && random.one_in(3), random));
        }
        has_more.then(|| self.next_message(stream, facts, random))
    }

    /// The relay confirms a position.
    pub(super) fn confirm(
        &mut self,
        status: StatusUpdate,
        stream: Option<&mut Stream>,
        facts: &Facts,
        random: &mut Random,
    ) {
        let confirmed = status.confirmed.get();
        assert!(confirmed >= self.confirmed, "the server was told less than before");
        assert!(confirmed <= self.insert, "a position was confirmed that the log has not reached");
        self.check_durable(Lsn::new(confirmed), facts);
        let Some(stream) = stream else { return };
        self.confirmed = confirmed;
        if random.one_in(3) {
            self.confirmed_on_disk = confirmed;
        }
        if status.reply_requested {
            stream.answers.push_back(());
        }
    }

    /// Every event of a transaction that the server would not send again from this position is with the consumers.
    pub(super) fn check_durable(&mut self, position: Lsn, facts: &Facts) {
        while let Some(transaction) = self.log.get(self.checked).filter(|next| next.commit_lsn < position.get()) {
            for change in &transaction.changes {
                if let Change::Event { event, .. } = change {
                    assert!(
                        facts.is_accounted_for(*event),
                        "position {position} leaves event {event} behind, which nobody has"
                    );
                }
            }
            self.checked += 1;
        }
    }

    /// Recovery: the log is whole, the slot may have forgotten what it was told last.
    pub(super) fn crash(&mut self) {
        self.confirmed = self.confirmed_on_disk;
    }

    /// The slot is one that has stayed behind, by a few transactions.
    pub(super) fn fall_behind(&mut self, random: &mut Random) {
        let ends = self.log.iter().map(|transaction| transaction.commit_end);
        let confirmed = ends.rev().skip_while(|end| *end > self.confirmed).nth(random.index(5));
        self.confirmed = confirmed.unwrap_or(self.confirmed);
        self.confirmed_on_disk = self.confirmed;
    }

    /// A standby takes over. It may lack the newest transactions, but none from before `safe`, where the relay is.
    pub(super) fn promote(&mut self, safe: Lsn, facts: &mut Facts, random: &mut Random) {
        self.timeline += 1;
        self.confirmed_on_disk = self.confirmed;
        let reached = self.log.partition_point(|transaction| transaction.commit_end <= safe.get());
        let kept = if random.one_in(2) { reached } else { reached + random.index(self.log.len() - reached + 1) };
        if let Some(first_lost) = self.log.get(kept).map(|transaction| transaction.commit_lsn) {
            facts.lose_from(Lsn::new(first_lost));
            self.log.truncate(kept);
            self.insert = self.log.last().map_or(0, |transaction| transaction.commit_end).max(safe.get());
            // On the new timeline another transaction can commit at the very same LSN.
            self.replaces = random.one_in(2).then_some(first_lost);
        }
    }

    /// A sign of life. Outside of a transaction everything before its WAL end was sent; within one that is said by nobody.
    fn keepalive(&self, stream: &mut Stream, reply_requested: bool, random: &mut Random) -> Frame {
        let next = self.log.get(stream.transaction).map_or(self.insert, |transaction| transaction.commit_lsn);
        let wal_end = if stream.sent > 0 {
            random.pick(&[stream.read, next, self.insert])
        } else {
            stream.read =
                random.pick(&[stream.read, next.max(stream.read), stream.read + next.saturating_sub(stream.read) / 2]);
            stream.read
        };
        let server_time = self.time_at(self.insert);
        Frame::Keepalive(Keepalive { wal_end: Lsn::new(wal_end), server_time, reply_requested })
    }

    fn next_message(&self, stream: &mut Stream, facts: &Facts, random: &mut Random) -> Frame {
        let transaction = &self.log[stream.transaction];
        let at = stream.sent;
        if at == 0 {
            stream.sent = 1;
            let (final_lsn, commit_time) = (Lsn::new(transaction.commit_lsn), transaction.commit_time);
            return frame(transaction.commit_lsn, &Message::Begin(Begin { final_lsn, commit_time, xid: 7 }));
        }
        let Some(change) = transaction.changes.get(at - 1) else {
            stream.transaction += 1;
            stream.sent = 0;
            stream.read = transaction.commit_end;
            return frame(
                transaction.commit_end,
                &Message::Commit(Commit {
                    flags: 0,
                    commit_lsn: Lsn::new(transaction.commit_lsn),
                    end_lsn: Lsn::new(transaction.commit_end),
                    commit_time: transaction.commit_time,
                }),
            );
        };
        if let Some((table, shape)) = change.table(facts)
            && (stream.told[table] != Some(shape) || random.one_in(12))
        {
            // After an invalidation the server tells a shape again that it has told before.
            stream.told[table] = Some(shape);
            return frame(0, &relation(table, shape));
        }
        stream.sent += 1;
        // The rows of a COPY share an LSN.
        change.frame(transaction.commit_lsn, facts)
    }
}

impl Stream {
    /// What the catalogue says of a table of this connection: in the shape that was told last, where one was.
    pub(super) fn description(&self, relation: u32) -> Description {
        let table = TABLES.iter().position(|table| table.0 == relation).expect("a table of the publication");
        description(table, self.told[table].unwrap_or(0))
    }

    /// Whether a frame could arrive only if somebody asked for it or wrote to the log.
    pub(super) fn has_read_all(&self, server: &Server) -> bool {
        self.transaction >= server.log.len() && self.answers.is_empty()
    }
}

impl Change {
    fn table(self, facts: &Facts) -> Option<(usize, u8)> {
        match self {
            Self::Event { event, shape } => Some((facts.events[event].table, shape)),
            Self::Insert { table, shape }
            | Self::Update { table, shape }
            | Self::Delete { table, shape }
            | Self::Truncate { table, shape } => Some((table, shape)),
            Self::Logical | Self::Origin | Self::Type | Self::Unknown => None,
        }
    }

    fn frame(self, wal: u64, facts: &Facts) -> Frame {
        let message = match self {
            Self::Event { event, shape } => {
                let id = format!("00000000-0000-4000-8000-{event:012x}");
                let event = &facts.events[event];
                let payload = if shape == 2 { hexadecimal(&event.payload) } else { event.payload.clone() };
                let mut new = row(shape, &id, TOPICS[event.topic], event.key.unwrap_or_default(), &payload);
                let first = usize::from(shape == 1);
                let nulls = [(event.route().is_none(), first + 1), (event.key.is_none(), first + 2)];
                for (_, place) in nulls.iter().filter(|(is_null, _)| *is_null) {
                    new.cells[*place] = Cell::Null;
                }
                return frame(wal, &Message::Insert(Insert { relation: TABLES[event.table].0, new }));
            }
            Self::Insert { table, shape } => {
                Message::Insert(Insert { relation: TABLES[table].0, new: foreign_row(shape) })
            }
            Self::Update { table, shape } => {
                Message::Update(Update { relation: TABLES[table].0, old: None, new: foreign_row(shape) })
            }
            Self::Delete { table, shape } => {
                Message::Delete(Delete { relation: TABLES[table].0, old: OldTuple::Key(foreign_row(shape)) })
            }
            Self::Truncate { table, .. } => {
                Message::Truncate(Truncate { options: 0, relations: SmallVec::from_slice(&[TABLES[table].0]) })
            }
            Self::Logical => {
                Message::Logical(LogicalMessage { flags: 1, lsn: Lsn::new(wal), prefix: b"heartbeat", content: b"" })
            }
            Self::Origin => Message::Origin(Origin { commit_lsn: Lsn::new(1), name: b"elsewhere" }),
            Self::Type => Message::Type(Type { id: 20_000, namespace: "public", name: "mood" }),
            Self::Unknown => {
                let data = Bytes::from_static(b"~what a later version might send");
                return Frame::XLogData(XLogData {
                    wal_start: Lsn::new(wal),
                    wal_end: Lsn::new(wal),
                    server_time: Timestamp::default(),
                    data,
                });
            }
        };
        frame(wal, &message)
    }
}

pub(in crate::session) fn frame(wal: u64, message: &Message<'_>) -> Frame {
    let mut data = BytesMut::with_capacity(128);
    message.encode(&mut data);
    let wal = Lsn::new(wal);
    Frame::XLogData(XLogData { wal_start: wal, wal_end: wal, server_time: Timestamp::default(), data: data.freeze() })
}

/// See [`SHAPES`]. They change as after ALTER TABLE in a copy of the table.
pub(in crate::session) fn relation(table: usize, shape: u8) -> Message<'static> {
    let (id, namespace, name) = TABLES[table];
    let column = |name, type_id| Column { flags: 0, name, type_id, type_modifier: -1 };
    let mut columns = SmallVec::new();
    if shape == 1 {
        columns.push(column("note", TEXT));
    }
    columns.extend([column("id", UUID), column("aggregatetype", TEXT), column("aggregateid", TEXT)]);
    if shape != NARROW {
        columns.push(column("type", TEXT));
    }
    columns.push(column("payload", if shape == 2 { BYTES } else { TEXT }));
    Message::Relation(Relation { id, namespace, name, replica_identity: b'd', columns })
}

/// What the catalogue says of a table of this shape.
pub(in crate::session) fn description(table: usize, shape: u8) -> Description {
    let Message::Relation(told) = relation(table, shape) else { unreachable!("it is one") };
    let column = |column: &Column<'_>| ColumnDescription {
        name: column.name.to_owned(),
        type_id: column.type_id,
        type_modifier: column.type_modifier,
        not_null: true,
        default: None,
    };
    let kind = TypeKind::Domain { base: BYTEA, type_modifier: -1, not_null: false, default: None };
    let domain = TypeDescription { id: BYTES, schema: "public".to_owned(), name: "bytes".to_owned(), kind };
    let types = if shape == 2 { vec![domain] } else { Vec::new() };
    Description { columns: told.columns.iter().map(column).collect(), types }
}

/// As `byteaout` writes it.
fn hexadecimal(bytes: &[u8]) -> Bytes {
    let digits =
        bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]).map(|digit| b"0123456789abcdef"[usize::from(digit)]);
    b"\\x".iter().copied().chain(digits).collect()
}

pub(in crate::session) fn row<'a>(
    shape: u8,
    id: &'a str,
    topic: &'a str,
    key: &'a str,
    payload: &'a Bytes,
) -> Tuple<'a> {
    let mut cells = SmallVec::new();
    if shape == 1 {
        cells.push(Cell::Text(b"a note"));
    }
    cells.extend([id.as_bytes(), topic.as_bytes(), key.as_bytes()].map(Cell::Text));
    if shape != NARROW {
        cells.push(Cell::Text(b"Created"));
    }
    cells.push(Cell::Text(payload));
    Tuple { cells }
}

pub(in crate::session) fn foreign_row(shape: u8) -> Tuple<'static> {
    static PAYLOAD: Bytes = Bytes::from_static(b"999999 is no event");
    row(shape, "00000000-0000-4000-8000-ffffffffffff", TOPICS[0], KEYS[0], &PAYLOAD)
}

impl Spread {
    /// Two runs of three have a spread of their own, mostly a narrow one.
    fn new(random: &mut Random) -> Self {
        if random.one_in(3) {
            return Self { tables: OUTBOXES, topics: TOPICS.len(), keys: KEYS.len() };
        }
        Self {
            tables: random.pick(&[1, 1, OUTBOXES]),
            topics: random.pick(&[1, 1, TOPICS.len()]),
            keys: random.pick(&[1, 1, 2, 3]),
        }
    }

    fn event(self, random: &mut Random, number: usize, identity: Identity, bad: Bad) -> Event {
        // Now and then one larger than the whole budget.
        let padding = random.pick(&[0, 0, 0, 0, 10, 10, 200, 3000]);
        let payload = Bytes::from(format!("event {number} {}", "x".repeat(padding)));
        let (topic, table) = (random.index(self.topics), random.index(self.tables));
        let key = (!random.one_in(12)).then(|| KEYS[random.index(self.keys)]);
        let is_bad = random.one_in(bad.record_in);
        let fault = random.one_in(bad.row_in).then(|| if random.one_in(3) { Fault::Route } else { Fault::Column });
        let fault = fault.filter(|fault| bad.is_hopeless_too || *fault == Fault::Column);
        let mut event = Event::new(identity, topic, key, payload, table);
        (event.is_bad, event.was_bad, event.fault) = (is_bad, is_bad, fault);
        event
    }
}
