//! Reads all partitions from their beginning, as fast as they grow, and counts.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};

use super::Error;
use super::clock::now_ms;
use crate::checker::Census;
use crate::consumer::{self, Consumer, Peek};
use crate::servers::wait_until;

/// A partition that stands still for so long is asked for anew: after a restart of the broker a client may wait for ever.
const STILL: Duration = Duration::from_secs(15);
const QUESTION_LIMIT: Duration = Duration::from_secs(5);

/// A reader at work.
pub(super) struct Reader {
    census: Arc<Mutex<Census>>,
    is_ending: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    /// Asks how far there is to read.
    questions: BaseConsumer,
    /// Asks how far there is to read for those who do not mind what is committed.
    unsettled: BaseConsumer,
    peek: Peek,
    partitions: Vec<(String, i32)>,
}

impl Reader {
    /// Reads these topics, each of so many partitions.
    pub(super) fn start(bootstrap: &str, topics: &[String], partitions: i32) -> Result<Self, Error> {
        let names: Vec<&str> = topics.iter().map(String::as_str).collect();
        let mut consumer = Consumer::of_topics(bootstrap, &names)?;
        let (census, is_ending) = (Arc::new(Mutex::new(Census::default())), Arc::new(AtomicBool::new(false)));
        let (counted, ending) = (Arc::clone(&census), Arc::clone(&is_ending));
        let numbered = |topic: &String| (0..partitions).map(|partition| (topic.clone(), partition)).collect::<Vec<_>>();
        let partitions: Vec<(String, i32)> = topics.iter().flat_map(numbered).collect();
        let mut progress = Progress::of(&partitions);
        let thread = thread::spawn(move || {
            while !ending.load(Ordering::Relaxed) {
                let (records, now) = (consumer.take(), now_ms());
                let mut census = counted.lock().unwrap_or_else(PoisonError::into_inner);
                records.iter().for_each(|record| census.count(record, now));
                let standing = progress.standing(&census);
                drop(census);
                for (topic, partition, position) in standing {
                    // Whoever cannot be asked now is asked later.
                    let _ = consumer.read_on_from(&topic, partition, position);
                }
            }
        });
        let asking = |isolation: &str| {
            let client =
                ClientConfig::new().set("bootstrap.servers", bootstrap).set("isolation.level", isolation).create();
            client.map_err(|source| consumer::Error::Kafka { doing: "make a consumer".to_owned(), source })
        };
        let (questions, unsettled) = (asking("read_committed")?, asking("read_uncommitted")?);
        let peek = Peek::new(bootstrap)?;
        Ok(Self { census, is_ending, thread: Some(thread), questions, unsettled, peek, partitions })
    }

    pub(super) fn census(&self) -> MutexGuard<'_, Census> {
        self.census.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The census, for whoever else has something to tell it.
    pub(super) fn shared_census(&self) -> Arc<Mutex<Census>> {
        Arc::clone(&self.census)
    }

    /// Waits until all is counted that the broker has now.
    pub(super) fn read_to_end(&self, limit: Duration) -> Result<(), Error> {
        for (topic, partition) in &self.partitions {
            let mut end = None;
            let waiting_for = format!("the end of {topic}/{partition} to be read");
            wait_until(&waiting_for, limit, || {
                end = end.or_else(|| self.questions.fetch_watermarks(topic, *partition, QUESTION_LIMIT).ok());
                let position = self.census().position(topic, *partition);
                let is_behind = || !self.peek.has_record_from(topic, *partition, position);
                end.is_some_and(|(_, end)| position >= end || is_behind())
            })?;
        }
        Ok(())
    }

    /// How many records the broker has taken, committed or not, with the marks of transactions.
    pub(super) fn taken(&self) -> i64 {
        let end = |(topic, partition): &(String, i32)| {
            self.unsettled.fetch_watermarks(topic, *partition, QUESTION_LIMIT).map_or(0, |(_, end)| end)
        };
        self.partitions.iter().map(end).sum()
    }

    /// Ends, and gives what it counted.
    pub(super) fn finish(mut self) -> Census {
        self.end();
        std::mem::take(&mut self.census())
    }

    fn end(&mut self) {
        self.is_ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked is reported by its own message.
            let _ = thread.join();
        }
    }
}

/// How far each partition had come at the last look.
struct Progress {
    positions: Vec<(String, i32, i64)>,
    looked_at: Instant,
}

impl Progress {
    fn of(partitions: &[(String, i32)]) -> Self {
        let positions = partitions.iter().map(|(topic, partition)| (topic.clone(), *partition, -1)).collect();
        Self { positions, looked_at: Instant::now() }
    }

    /// The partitions that have not gone on since the last look, if it is time for another, with where they stand.
    fn standing(&mut self, census: &Census) -> Vec<(String, i32, i64)> {
        if self.looked_at.elapsed() < STILL {
            return Vec::new();
        }
        self.looked_at = Instant::now();
        let mut standing = Vec::new();
        for (topic, partition, before) in &mut self.positions {
            let position = census.position(topic, *partition);
            if position == *before {
                standing.push((topic.clone(), *partition, position));
            }
            *before = position;
        }
        standing
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.end();
    }
}
