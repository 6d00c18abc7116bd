//! Tables as a source: each read in its order, all merged into one.

use std::collections::BTreeSet;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tokio::sync::oneshot;
use walpost_core::frame::{Frame, StatusUpdate, XLogData};
use walpost_core::lsn::Lsn;
use walpost_core::pgoutput::{Begin, Commit, Message, Relation};
use walpost_core::poison::LetteredRows;
use walpost_core::port::Source;
use walpost_core::position::Identity;
use walpost_core::time::Timestamp;

use super::reader::{Reader, Row, insert};
use super::{NO_TIMELINE, Table, encoded, place_of};
use crate::connection::{ConnectionSettings, Endpoint};
use crate::error::Error;

/// How much is handed over at once.
const MAX_BATCH_BYTES: usize = 256 << 10;

/// The rows that are passed over because letters tell of them, and which were met, over all readings of one snapshot.
#[derive(Debug, Default)]
pub struct Lettered {
    rows: LetteredRows,
    met: Mutex<BTreeSet<Identity>>,
}

impl Lettered {
    /// Those of these letters, none of them met yet.
    #[must_use]
    pub fn new(rows: LetteredRows) -> Self {
        Self { rows, met: Mutex::default() }
    }

    /// How many rows were passed over.
    #[must_use]
    pub fn count(&self) -> usize {
        self.met.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether the row of these messages is one, which then is met.
    fn meets(&self, identity: Identity, relation: &[u8], insert: &[u8]) -> bool {
        if self.rows.is_empty() {
            return false;
        }
        let is_one = match (Message::parse(relation), Message::parse(insert)) {
            (Ok(Message::Relation(relation)), Ok(Message::Insert(insert))) => self.rows.has(&relation, &insert.new),
            _ => false,
        };
        if is_one {
            self.met.lock().unwrap_or_else(PoisonError::into_inner).insert(identity);
        }
        is_one
    }
}

/// The rows of tables since a time, in one order. See the documentation of the module above.
pub struct Rows {
    readers: Vec<Reader>,
    /// The transaction that is open: its time, and the ordinal of its next row.
    open: Option<(Timestamp, u64)>,
    /// Rows that are passed over.
    skipped: BTreeSet<Identity>,
    /// And those of which letters tell.
    lettered: Arc<Lettered>,
    has_told_of_strangers: bool,
    /// Tells that there are no more.
    exhausted: Option<oneshot::Sender<()>>,
}

impl Rows {
    /// Opens the tables under a snapshot, a session each. `skipped` and `lettered` are passed over; their places count.
    ///
    /// The answer completes once the last row was handed over.
    ///
    /// # Errors
    /// A session cannot be had, or may not read its table, or the snapshot is gone.
    pub async fn open(
        connection: &ConnectionSettings,
        endpoint: &Endpoint,
        snapshot: &str,
        tables: &[Table],
        since: Timestamp,
        skipped: BTreeSet<Identity>,
        lettered: Arc<Lettered>,
    ) -> Result<(Self, oneshot::Receiver<()>), Error> {
        let mut readers = Vec::new();
        for table in tables {
            readers.push(Reader::open(connection, endpoint, snapshot, table, since).await?);
        }
        let (exhausted, is_exhausted) = oneshot::channel();
        let rows =
            Self { readers, open: None, skipped, lettered, has_told_of_strangers: false, exhausted: Some(exhausted) };
        Ok((rows, is_exhausted))
    }

    /// The reader whose row comes next, when all of them were waited for.
    async fn next_reader(&mut self) -> Result<Option<usize>, Error> {
        for reader in &mut self.readers {
            reader.fill().await?;
        }
        let heads = self.readers.iter().enumerate().filter_map(|(place, reader)| Some((reader.head.as_ref()?, place)));
        Ok(heads.min_by_key(|(head, place)| (head.time, head.statement, *place)).map(|(_, place)| place))
    }

    /// Hands over a row, and what has to stand in front of it.
    fn tell(&mut self, place: usize, into: &mut Vec<Frame>) -> usize {
        let Some(reader) = self.readers.get_mut(place) else { return 0 };
        let Some(Row { time, cells, .. }) = reader.head.take() else { return 0 };
        let ordinal = match self.open {
            Some((open, ordinal)) if open == time => ordinal,
            _ => {
                self.close(into);
                into.push(begin(time));
                0
            }
        };
        self.open = Some((time, ordinal + 1));
        let identity = Identity { timeline: NO_TIMELINE, commit_lsn: place_of(time), ordinal };
        if self.skipped.contains(&identity) {
            self.tell_of_stranger(time, into);
            return 0;
        }
        let Some(reader) = self.readers.get_mut(place) else { return 0 };
        let insert = insert(reader.id, &cells);
        if self.lettered.meets(identity, &reader.relation, &insert) {
            self.tell_of_stranger(time, into);
            return 0;
        }
        if !std::mem::replace(&mut reader.is_told, true) {
            into.push(frame(time, reader.relation.clone()));
        }
        let weight = insert.len();
        into.push(frame(time, insert));
        weight
    }

    /// An insert into a table that nobody configured, in the place of a row that is passed over: those after it keep their ordinals.
    fn tell_of_stranger(&mut self, time: Timestamp, into: &mut Vec<Frame>) {
        if !std::mem::replace(&mut self.has_told_of_strangers, true) {
            let relation =
                Relation { id: 0, namespace: "", name: "", replica_identity: b'd', columns: [].into_iter().collect() };
            into.push(frame(time, encoded(&Message::Relation(relation))));
        }
        into.push(frame(time, insert(0, b"")));
    }

    fn close(&mut self, into: &mut Vec<Frame>) {
        if let Some((time, _)) = self.open.take() {
            into.push(commit(time));
        }
    }
}

impl Source for Rows {
    type Error = Error;

    /// Cancel-safe: what was taken from a table is kept here until it is appended.
    async fn next_frames(&mut self, into: &mut Vec<Frame>) -> Result<(), Error> {
        let mut weight = 0;
        while weight < MAX_BATCH_BYTES {
            match self.next_reader().await? {
                Some(place) => weight += self.tell(place, into) + size_of::<Frame>(),
                None => {
                    self.close(into);
                    break;
                }
            }
        }
        if into.is_empty() {
            if let Some(exhausted) = self.exhausted.take() {
                // Nobody is left to be told.
                let _ = exhausted.send(());
            }
            pending::<()>().await;
        }
        Ok(())
    }

    /// There is no log behind these rows that could be forgotten.
    fn confirm(&mut self, _: StatusUpdate) -> Result<(), Error> {
        Ok(())
    }

    async fn finish(self) {}
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").field("open", &self.open).finish_non_exhaustive()
    }
}

fn begin(time: Timestamp) -> Frame {
    frame(time, encoded(&Message::Begin(Begin { final_lsn: place_of(time), commit_time: time, xid: 0 })))
}

fn commit(time: Timestamp) -> Frame {
    let commit_lsn = place_of(time);
    let end_lsn = Lsn::new(commit_lsn.get() + 1);
    frame(time, encoded(&Message::Commit(Commit { flags: 0, commit_lsn, end_lsn, commit_time: time })))
}

fn frame(time: Timestamp, data: Bytes) -> Frame {
    let place = place_of(time);
    Frame::XLogData(XLogData { wal_start: place, wal_end: place, server_time: time, data })
}
