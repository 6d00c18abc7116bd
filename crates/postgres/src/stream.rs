//! The replication stream, for core's port.
//!
//! `pgwire-replication` owns the socket in a task of its own. This module works round what it does not do:
//!
//! | the library | here |
//! |---|---|
//! | joins publication names unquoted, so the server folds and splits them | each name is quoted first |
//! | its first status confirms the start position | the start may be ahead of what is confirmed: `acknowledged` is told apart |
//! | its idle wake-up keeps the server from ever speaking on a quiet stream, so a dead one looks alike | the wake-up is set to an hour; the server pings every half `wal_sender_timeout` |
//! | no deadline on connecting, TLS, authentication and the start | one deadline over all of it |
//! | `stop` sends no last status | [`Stream::finish_within`] waits until the slot shows the last confirmation |
//! | a peer that dies within a message hangs its task | dropping a stream aborts it |
//! | takes Begin, Commit and logical messages apart | they are put together again, so that the session sees one form |
//! | keeps up to 8192 events whatever they weigh | 64, so that at most 64 rows wait here besides those that the session has counted |
//! | reads as soon as there is a byte, and the server sends each row by itself | while rows pour in, they [gather](pace) for a moment |
//!
//! A silent server is the session's affair: it knows the time. What the library cannot be asked for is
//! [`StatusUpdate::reply_requested`]; the server's own pings take its place.

mod pace;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::{BufMut, Bytes, BytesMut};
use pgwire_replication::client::ReplicationMetrics;
use pgwire_replication::{Lsn as WireLsn, ReplicationClient, ReplicationConfig, ReplicationEvent};
use walpost_core::frame::{Frame, Keepalive, StatusUpdate, XLogData};
use walpost_core::lsn::Lsn;
use walpost_core::port::Source;
use walpost_core::time::Timestamp;

use crate::connection::{ConnectionSettings, Endpoint};
use crate::error::{Error, Phase};
use crate::identifier::{SlotName, quote_identifier};
use crate::inspect;
use crate::replication;
use crate::sql::Session;
use pace::Pace;

/// How many frames one call hands over at most, so that a caller gets back to its other work.
const MAX_BATCH_FRAMES: usize = 256;
/// After how many bytes a call hands over what it has.
const MAX_BATCH_BYTES: usize = 1 << 20;
/// How long a stream may take to end in good order.
const FINISH_TIMEOUT: Duration = Duration::from_secs(5);
/// How long to wait between two looks at the slot.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long a confirmation may wait for the one before it. The session has them a second apart anyway; this one is what the
/// last of them waits for when a stream ends.
const STATUS_INTERVAL: Duration = Duration::from_millis(100);
/// How many events may wait in the library.
const BUFFERED_EVENTS: usize = 64;

/// What to stream and from where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamSettings {
    slot: SlotName,
    publications: Vec<String>,
    start: Lsn,
    acknowledged: Lsn,
    wal_sender_timeout: Duration,
}

impl StreamSettings {
    /// The server's own default: it pings after half of it, and gives us up after all of it.
    pub const DEFAULT_WAL_SENDER_TIMEOUT: Duration = Duration::from_secs(60);

    /// Streams the publications from `start`, and tells the server at once that everything before `acknowledged` is settled.
    ///
    /// `acknowledged` is the checkpoint that is durable, or the slot's own confirmed position: never beyond either.
    #[must_use]
    pub fn new(slot: SlotName, publications: Vec<String>, start: Lsn, acknowledged: Lsn) -> Self {
        Self { slot, publications, start, acknowledged, wal_sender_timeout: Self::DEFAULT_WAL_SENDER_TIMEOUT }
    }

    /// Sets `wal_sender_timeout` for this session. The session's own deadline on silence has to be longer than half of it.
    #[must_use]
    pub fn with_wal_sender_timeout(mut self, timeout: Duration) -> Self {
        self.wal_sender_timeout = timeout;
        self
    }

    fn config(&self, connection: &ConnectionSettings, endpoint: &Endpoint) -> Result<ReplicationConfig, Error> {
        let mut config = replication::config(connection, endpoint, self.wal_sender_timeout)?
            .with_start_lsn(WireLsn(self.start.get()))
            .with_ack_lsn(WireLsn(self.acknowledged.get()))
            .with_status_interval(STATUS_INTERVAL)
            .with_wakeup_interval(Duration::from_secs(3600))
            .with_buffer_size(BUFFERED_EVENTS);
        config.slot = self.slot.to_string();
        config.publication = self.publications.iter().map(|name| quote_identifier(name)).collect();
        Ok(config)
    }
}

/// An open replication stream. Dropping it cuts the connection; [`finish_within`](Self::finish_within) ends it in good order.
pub struct Stream {
    client: ReplicationClient,
    metrics: Arc<ReplicationMetrics>,
    target: Target,
    /// How many events were taken from the library; it counts what it gave.
    taken: u64,
    /// What the first status said.
    first_confirmed: Lsn,
    confirmed: Lsn,
    translator: Translator,
    pace: Pace,
    /// Why the stream ended, while frames that came before are handed over.
    ended: Option<Error>,
}

impl Stream {
    /// Connects to this server and starts. The slot is held from then on.
    ///
    /// The connection settings' connect timeout covers connecting, TLS, authentication and the server's consent.
    ///
    /// The server does not look whether the publications exist: 14 to 17 end the stream at the first change, 18 sends nothing
    /// and says so in its own log only. Ask [`inspect::publications`] first.
    ///
    /// # Errors
    /// The server cannot be reached or refused; see [`Error::class`].
    pub async fn connect(
        connection: &ConnectionSettings,
        endpoint: &Endpoint,
        settings: &StreamSettings,
    ) -> Result<Self, Error> {
        let config = settings.config(connection, endpoint)?;
        let refused = |error| Error::from_replication(error, Phase::Starting);
        let mut client = ReplicationClient::connect(config).await.map_err(refused)?;
        let after = connection.connect_timeout();
        match tokio::time::timeout(after, client.wait_started()).await {
            Ok(started) => started.map_err(refused)?,
            Err(_) => {
                client.abort();
                return Err(Error::Deadline { phase: Phase::Starting, after });
            }
        }
        Ok(Self {
            metrics: client.metrics(),
            client,
            target: Target { connection: connection.clone(), endpoint: endpoint.clone(), slot: settings.slot.clone() },
            taken: 0,
            first_confirmed: settings.acknowledged,
            confirmed: settings.acknowledged,
            translator: Translator::default(),
            pace: Pace::default(),
            ended: None,
        })
    }

    /// Ends the stream in good order: waits until the server has taken the last confirmation, then says goodbye.
    ///
    /// That the status has been written is not enough: a walsender that is blocked on sending meets our closed socket before it
    /// reads. So what it sends is drained and dropped, and the slot is looked at by an SQL session, until it shows the
    /// position. Who comes next is sent again what was dropped.
    ///
    /// # Errors
    /// It took longer than `timeout`, or the stream had ended before: what was confirmed last may be unknown to the server.
    pub async fn finish_within(mut self, timeout: Duration) -> Result<(), Error> {
        let orderly = async {
            if self.confirmed > self.first_confirmed {
                let target = self.target.clone();
                tokio::select! {
                    taken = target.wait_until_confirmed(self.confirmed) => taken?,
                    error = drain(&mut self.client) => return Err(error),
                }
            }
            if self.client.is_running() {
                self.client.shutdown().await.map_err(|error| Error::from_replication(error, Phase::Streaming))?;
            }
            Ok(())
        };
        let outcome = tokio::time::timeout(timeout, orderly).await;
        self.client.abort();
        outcome.unwrap_or(Err(Error::Deadline { phase: Phase::Streaming, after: timeout }))
    }

    /// Takes an event that is there already.
    ///
    /// Looks only where the library has counted one in: on an empty queue it might be joining its dead task, and a read that
    /// is dropped then takes the cause of death with it.
    fn poll_event(&mut self) -> Poll<Result<ReplicationEvent, Error>> {
        if self.taken >= self.metrics.events_forwarded() {
            return Poll::Pending;
        }
        let mut context = Context::from_waker(Waker::noop());
        let polled = pin!(self.client.recv()).poll(&mut context);
        polled.map(|event| self.counted(event))
    }

    fn counted(
        &mut self,
        event: Result<Option<ReplicationEvent>, pgwire_replication::PgWireError>,
    ) -> Result<ReplicationEvent, Error> {
        match event {
            Ok(Some(event)) => {
                self.taken += 1;
                Ok(event)
            }
            Ok(None) => Err(Error::Ended),
            Err(error) => Err(Error::from_replication(error, Phase::Streaming)),
        }
    }
}

impl Source for Stream {
    type Error = Error;

    /// Cancel-safe for frames. If a cancelled call coincides with the very moment in which the stream dies, the next call
    /// answers [`Error::Ended`] in place of the cause, which the next connection then meets at its start.
    async fn next_frames(&mut self, into: &mut Vec<Frame>) -> Result<(), Error> {
        if let Some(error) = self.ended.take() {
            return Err(error);
        }
        self.pace.gather();
        let event = self.client.recv().await;
        let (before, mut weight) = (into.len(), 0);
        let mut event = self.counted(event)?;
        for _ in 0..MAX_BATCH_FRAMES {
            if let Some(frame) = self.translator.frame(event) {
                weight += weight_of(&frame);
                into.push(frame);
            }
            if weight >= MAX_BATCH_BYTES {
                break;
            }
            match self.poll_event() {
                Poll::Ready(Ok(next)) => event = next,
                Poll::Ready(Err(error)) => {
                    self.ended = Some(error);
                    break;
                }
                Poll::Pending => break,
            }
        }
        // As many as the library keeps: there are more already.
        let is_all = into.len() - before < BUFFERED_EVENTS;
        self.pace.took(is_all, Instant::now());
        Ok(())
    }

    fn confirm(&mut self, status: StatusUpdate) -> Result<(), Error> {
        if !self.client.is_running() {
            // The cause comes with the next frames.
            return Ok(());
        }
        self.confirmed = self.confirmed.max(status.confirmed);
        self.client.update_applied_lsn(WireLsn(self.confirmed.get()));
        Ok(())
    }

    async fn finish(self) {
        if let Err(error) = self.finish_within(FINISH_TIMEOUT).await {
            tracing::warn!(%error, "the last confirmation may not have reached the server; it will send again what came after the one before");
        }
    }
}

impl Drop for Stream {
    /// The library would let its task go on until it notices; the slot has to be free at once.
    fn drop(&mut self) {
        self.client.abort();
    }
}

impl std::fmt::Debug for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Stream").field("confirmed", &self.confirmed).finish_non_exhaustive()
    }
}

/// The slot, and how to look at it.
#[derive(Clone)]
struct Target {
    connection: ConnectionSettings,
    endpoint: Endpoint,
    slot: SlotName,
}

impl Target {
    async fn wait_until_confirmed(&self, wanted: Lsn) -> Result<(), Error> {
        let session = Session::connect_to(&self.connection, &self.endpoint, FINISH_TIMEOUT).await?;
        loop {
            let slot = inspect::slot_state(&session, &self.slot).await?;
            if slot.and_then(|slot| slot.confirmed).is_none_or(|confirmed| confirmed >= wanted) {
                return Ok(());
            }
            // The server tells nobody when a slot has moved.
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }
}

/// Takes and drops what comes, until the stream ends.
async fn drain(client: &mut ReplicationClient) -> Error {
    loop {
        match client.recv().await {
            Ok(Some(_)) => {}
            Ok(None) => return Error::Ended,
            Err(error) => return Error::from_replication(error, Phase::Streaming),
        }
    }
}

fn weight_of(frame: &Frame) -> usize {
    match frame {
        Frame::XLogData(data) => data.data.len(),
        Frame::Keepalive(_) => 0,
    }
}

/// Puts together again what the library takes apart.
///
/// Lost on its way, and filled in as the server would have it: the flags of Commit (unused, always 0), and the header of
/// Begin, Commit and logical messages (`0/0`, the commit's end, and the message's own LSN; the time of the last frame that
/// had one).
#[derive(Default)]
struct Translator {
    server_time: Timestamp,
    /// Small messages share an allocation.
    scratch: BytesMut,
}

impl Translator {
    fn frame(&mut self, event: ReplicationEvent) -> Option<Frame> {
        Some(match event {
            ReplicationEvent::KeepAlive { wal_end, reply_requested, server_time_micros } => {
                self.server_time = Timestamp::from_postgres_micros(server_time_micros);
                let wal_end = Lsn::new(wal_end.as_u64());
                Frame::Keepalive(Keepalive { wal_end, server_time: self.server_time, reply_requested })
            }
            ReplicationEvent::XLogData { wal_start, wal_end, server_time_micros, data } => {
                self.server_time = Timestamp::from_postgres_micros(server_time_micros);
                Frame::XLogData(XLogData {
                    wal_start: Lsn::new(wal_start.as_u64()),
                    wal_end: Lsn::new(wal_end.as_u64()),
                    server_time: self.server_time,
                    data,
                })
            }
            ReplicationEvent::Begin { final_lsn, xid, commit_time_micros } => {
                self.scratch.put_u8(b'B');
                self.scratch.put_u64(final_lsn.as_u64());
                self.scratch.put_i64(commit_time_micros);
                self.scratch.put_u32(xid);
                self.message_at(Lsn::INVALID)
            }
            ReplicationEvent::Commit { lsn, end_lsn, commit_time_micros } => {
                self.scratch.put_u8(b'C');
                self.scratch.put_u8(0);
                self.scratch.put_u64(lsn.as_u64());
                self.scratch.put_u64(end_lsn.as_u64());
                self.scratch.put_i64(commit_time_micros);
                self.message_at(Lsn::new(end_lsn.as_u64()))
            }
            ReplicationEvent::Message { transactional, lsn, prefix, content } => {
                self.put_logical(transactional, lsn, &prefix, &content)?;
                self.message_at(Lsn::new(lsn.as_u64()))
            }
            // Only comes where a stop position was asked for.
            ReplicationEvent::StoppedAt { .. } => return None,
        })
    }

    /// `None` for a content that is longer than the protocol's length can say, which no server sends.
    fn put_logical(&mut self, transactional: bool, lsn: WireLsn, prefix: &str, content: &Bytes) -> Option<()> {
        let length = u32::try_from(content.len()).ok()?;
        self.scratch.put_u8(b'M');
        self.scratch.put_u8(u8::from(transactional));
        self.scratch.put_u64(lsn.as_u64());
        self.scratch.put_slice(prefix.as_bytes());
        self.scratch.put_u8(0);
        self.scratch.put_u32(length);
        self.scratch.put_slice(content);
        Some(())
    }

    fn message_at(&mut self, wal: Lsn) -> Frame {
        let data = self.scratch.split().freeze();
        Frame::XLogData(XLogData { wal_start: wal, wal_end: wal, server_time: self.server_time, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data_of(frame: Option<Frame>) -> XLogData {
        match frame {
            Some(Frame::XLogData(data)) => data,
            other => panic!("no XLogData: {other:?}"),
        }
    }

    #[test]
    fn publication_names_reach_the_server_quoted() {
        let slot = SlotName::new("s").unwrap();
        let publications = vec!["walpost".to_owned(), "MyPub,x".to_owned(), "a\"b'c".to_owned()];
        let settings = StreamSettings::new(slot, publications, Lsn::new(9), Lsn::new(7));
        let connection = ConnectionSettings::new(Endpoint::new("h", 1), "u", "d");
        let config = settings.config(&connection, &connection.endpoints()[0]).unwrap();
        assert_eq!(config.publication.names(), ["\"walpost\"", "\"MyPub,x\"", "\"a\"\"b'c\""]);
        assert_eq!((config.start_lsn, config.ack_lsn), (WireLsn(9), Some(WireLsn(7))));
        assert_eq!(config.buffer_events, BUFFERED_EVENTS);
        assert_eq!(config.idle_wakeup_interval, Duration::from_secs(3600));
    }

    #[test]
    fn begin_and_commit_are_put_together_as_the_server_sent_them() {
        let mut translator = Translator::default();
        let begin = ReplicationEvent::Begin { final_lsn: WireLsn(0x0102), xid: 7, commit_time_micros: -1 };
        let begin = data_of(translator.frame(begin));
        assert_eq!(&begin.data[..], b"B\0\0\0\0\0\0\x01\x02\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\0\0\0\x07");
        assert_eq!((begin.wal_start, begin.wal_end), (Lsn::INVALID, Lsn::INVALID));
        let commit = ReplicationEvent::Commit { lsn: WireLsn(1), end_lsn: WireLsn(2), commit_time_micros: 3 };
        let commit = data_of(translator.frame(commit));
        assert_eq!(&commit.data[..], b"C\0\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\x03");
        assert_eq!(commit.wal_end, Lsn::new(2));
    }

    #[test]
    fn logical_messages_keep_flag_prefix_and_content() {
        for transactional in [false, true] {
            let content = Bytes::from_static(b"\0x");
            let event = ReplicationEvent::Message { transactional, lsn: WireLsn(5), prefix: "pre".to_owned(), content };
            let data = data_of(Translator::default().frame(event)).data;
            let mut expected = vec![b'M', u8::from(transactional), 0, 0, 0, 0, 0, 0, 0, 5];
            expected.extend_from_slice(b"pre\0\0\0\0\x02\0x");
            assert_eq!(&data[..], expected);
        }
    }

    #[test]
    fn rows_pass_unchanged_and_lend_their_time_to_what_has_none() {
        let mut translator = Translator::default();
        let data = Bytes::from_static(b"I...");
        let row = ReplicationEvent::XLogData {
            wal_start: WireLsn(1),
            wal_end: WireLsn(2),
            server_time_micros: 77,
            data: data.clone(),
        };
        let row = data_of(translator.frame(row));
        assert_eq!(row.data.as_ptr(), data.as_ptr(), "the bytes must not be copied");
        let commit = ReplicationEvent::Commit { lsn: WireLsn(1), end_lsn: WireLsn(2), commit_time_micros: 3 };
        assert_eq!(data_of(translator.frame(commit)).server_time, Timestamp::from_postgres_micros(77));
        assert_eq!(translator.frame(ReplicationEvent::StoppedAt { reached: WireLsn(1) }), None);
    }
}
