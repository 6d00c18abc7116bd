//! Reads the topic into the index, and bodies of letters where somebody needs them.
//!
//! The client is kept; what it reads is assigned anew each time, so that it fetches nothing while nobody waits for it. Of what it fetched for the last
//! assignment, something may still come after the next: nothing rests on a single word of it. Its calls block, and run beside the loop.
//!
//! An index may be older than the client: one that was read in an earlier connection of this process. Whether the topic is still the one that it was read
//! from is asked of the last record that was read: where that is not in its place, the topic was made anew, cut off or compacted, and is read from its beginning.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rdkafka::Message as _;
use rdkafka::consumer::Consumer as _;
use rdkafka::message::{BorrowedMessage, Headers as _};
use rdkafka::topic_partition_list::Offset;
use tracing::{debug, warn};

use super::index::{Index, Told};
use super::parts::{PART, WRITING};
use crate::settings::Settings;
use crate::topic::{self, Client, Next, ReadError};
use crate::transactional::PARTITION;

/// How long a body may take to come.
const BODY_LIMIT: Duration = Duration::from_secs(60);

/// A body that lies this many records behind the last one is waited for; one farther on is asked for.
const NEAR: i64 = 100;

/// What a relay remembers of its topic from one connection to the next.
#[derive(Debug, Clone)]
pub struct LetterMemory(pub(super) SharedIndex);

impl LetterMemory {
    /// Of nothing yet.
    #[must_use]
    pub fn new(relay: &str) -> Self {
        Self(SharedIndex::new(relay, false))
    }
}

/// An index that a sink and a store of the same relay share, or two stores one after the other.
#[derive(Debug, Clone)]
pub(crate) struct SharedIndex(Arc<Mutex<Index>>);

impl SharedIndex {
    pub(crate) fn new(relay: &str, is_detailed: bool) -> Self {
        Self(Arc::new(Mutex::new(Index::new(relay, is_detailed))))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Index> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// See the module's documentation.
pub(super) struct Reader {
    settings: Settings,
    topic: Arc<str>,
    index: SharedIndex,
    /// Away while it is at work, and not there where its last work failed.
    client: Option<Client>,
    has_read: bool,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("topic", &self.topic).finish_non_exhaustive()
    }
}

impl Reader {
    pub(super) fn new(settings: Settings, topic: &str, index: SharedIndex) -> Self {
        Self { settings, topic: topic.into(), index, client: None, has_read: false }
    }

    pub(super) fn index(&self) -> MutexGuard<'_, Index> {
        self.index.lock()
    }

    /// Reads into the index what was committed by now and is not there yet.
    pub(super) async fn catch_up(&mut self) -> Result<(), ReadError> {
        let index = self.index.clone();
        if self.has_read && index.lock().next() == 0 {
            // What a client still holds continues what was read; from the beginning nothing does.
            self.drop_client();
        }
        self.work(move |client, topic, is_new| read_on(client, topic, &index, is_new)).await?;
        let next = self.index().next();
        self.has_read = next > 0;
        Ok(())
    }

    /// The values of the records at these offsets. One that is not there any more is missing in the answer.
    pub(super) async fn values(&mut self, mut offsets: Vec<i64>) -> Result<BTreeMap<i64, Vec<u8>>, ReadError> {
        offsets.sort_unstable();
        self.work(move |client, topic, _| read_at(client, topic, &offsets)).await
    }

    /// Works with the client beside the loop; the work is told whether it is a new one. Where that fails or is given up, the next work has another.
    async fn work<T: Send + 'static>(
        &mut self,
        work: impl FnOnce(&Client, &str, bool) -> Result<T, ReadError> + Send + 'static,
    ) -> Result<T, ReadError> {
        let (settings, topic, client) = (self.settings.clone(), Arc::clone(&self.topic), self.client.take());
        let worked = tokio::task::spawn_blocking(move || {
            let is_new = client.is_none();
            let client = match client {
                Some(client) => client,
                None => {
                    let client = topic::connect(&settings, None, &topic)?;
                    topic::partitions_of(&client, &topic, |id| id == PARTITION)?;
                    client
                }
            };
            let done = work(&client, &topic, is_new)?;
            // Nothing is fetched while nobody asks.
            client.unassign().map_err(|error| topic::failed(&topic, &error))?;
            Ok((done, client))
        });
        let lost = |_| ReadError::Kafka { topic: self.topic.to_string(), reason: "the reader has died".to_owned() };
        let (done, client) = worked.await.map_err(lost).flatten()?;
        self.client = Some(client);
        Ok(done)
    }

    fn drop_client(&mut self) {
        if let Some(client) = self.client.take() {
            // Its threads have to be joined, and they may be asleep.
            beside_the_loop(move || drop(client));
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.drop_client();
    }
}

/// Does something that blocks where it is in nobody's way.
pub(crate) fn beside_the_loop(work: impl FnOnce() + Send + 'static) {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(work)),
        Err(_) => work(),
    }
}

fn read_on(client: &Client, topic: &str, index: &SharedIndex, is_new: bool) -> Result<(), ReadError> {
    let end = topic::end_of(client, topic, PARTITION)?;
    if is_new && !is_of(client, topic, index, end)? {
        index.lock().clear();
    }
    let anew = || {
        let reason = "it was made anew, or has lost what was acknowledged; it is read from its beginning".to_owned();
        ReadError::Kafka { topic: topic.to_owned(), reason }
    };
    let (generation, next) = {
        let mut index = index.lock();
        if end < index.next() {
            index.clear();
            return Err(anew());
        }
        (index.generation(), index.next())
    };
    // Another one may be at it still, of a connection that is gone. What one of the two forgets, the other must not go on from.
    let mine = || Some(index.lock()).filter(|index| index.generation() == generation).ok_or_else(anew);
    if next < end {
        let start = if next == 0 { Offset::Beginning } else { Offset::Offset(next) };
        topic::read_until(client, topic, (PARTITION, start), end, |message| {
            mine()?.fold(&told(message));
            Ok(())
        })?;
    }
    mine()?.has_read_to(end);
    Ok(())
}

/// Whether what an index knows was read from this topic.
fn is_of(client: &Client, topic: &str, index: &SharedIndex, end: i64) -> Result<bool, ReadError> {
    let (next, witness) = {
        let index = index.lock();
        (index.next(), index.witness())
    };
    if next == 0 {
        return Ok(true);
    }
    let Some((offset, hash)) = witness.filter(|_| next <= end) else { return Ok(false) };
    topic::assign(client, topic, PARTITION, Offset::Offset(offset))?;
    let is_it = find(client, topic, offset, |message| told(message).hash() == hash)?.unwrap_or(false);
    if is_it {
        debug!(next, end, "the dead letters are known, and read on from where they were read before");
    } else {
        warn!(topic, "the topic of dead letters is not what it was; it is read from its beginning");
    }
    Ok(is_it)
}

fn told<'a>(message: &'a BorrowedMessage<'_>) -> Told<'a> {
    let header = |name: &str| {
        let headers = message.headers()?;
        headers.iter().find(|header| header.key == name).and_then(|header| header.value)
    };
    Told {
        offset: message.offset(),
        key: message.key().unwrap_or_default(),
        value: message.payload(),
        part: header(PART),
        writing: header(WRITING),
    }
}

fn read_at(client: &Client, topic: &str, offsets: &[i64]) -> Result<BTreeMap<i64, Vec<u8>>, ReadError> {
    let mut values = BTreeMap::new();
    let mut next: Option<i64> = None;
    for wanted in offsets {
        if next.is_none_or(|next| *wanted < next || *wanted - next > NEAR) {
            topic::assign(client, topic, PARTITION, Offset::Offset(*wanted))?;
        }
        if let Some(value) = read_one(client, topic, *wanted)? {
            values.insert(*wanted, value);
        }
        next = Some(wanted + 1);
    }
    Ok(values)
}

fn read_one(client: &Client, topic: &str, wanted: i64) -> Result<Option<Vec<u8>>, ReadError> {
    let value = |message: &BorrowedMessage<'_>| message.payload().map(<[u8]>::to_vec);
    Ok(find(client, topic, wanted, value)?.flatten())
}

/// Reads until this offset; nothing where there is none. That it was passed is believed the second time, for what comes first may be of what was read
/// before.
fn find<T>(
    client: &Client,
    topic: &str,
    wanted: i64,
    take: impl Fn(&BorrowedMessage<'_>) -> T,
) -> Result<Option<T>, ReadError> {
    let (since, mut passed) = (Instant::now(), 0);
    while since.elapsed() < BODY_LIMIT {
        match topic::next(client, topic)? {
            Next::Nothing => continue,
            Next::Message(message) if message.offset() < wanted => continue,
            Next::Message(message) if message.offset() == wanted => return Ok(Some(take(&message))),
            Next::Message(_) | Next::End(_) if passed > 0 => return Ok(None),
            Next::Message(_) | Next::End(_) => {}
        }
        passed += 1;
        topic::assign(client, topic, PARTITION, Offset::Offset(wanted))?;
    }
    Err(ReadError::Deadline { topic: topic.to_owned() })
}
