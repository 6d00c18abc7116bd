//! Waits until what lies in a partition is decided.
//!
//! Relays share their topics of checkpoints and letters, and whoever reads committed records reads no further than the first record of a transaction
//! that is open, whosever it is. What this relay has committed may lie behind it. So where it counts that nothing of ours is missing, the end of all
//! that was written is taken down first, and then it is waited until committed records can be read up to there. What is written meanwhile is not
//! waited for: others may always have a transaction open.
//!
//! Whoever has left a transaction hanging himself ends it first, for by this it would only be waited for.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::letters::beside_the_loop;
use crate::settings::Settings;
use crate::topic::{self, Client, ReadError};

/// How often it is asked how far the partition is decided. A commit takes a few milliseconds.
const INTERVAL: Duration = Duration::from_millis(50);

/// Waits until everything that lies in this partition by now is decided; answers whether it was not so at once.
///
/// # Errors
/// [`ReadError::Hidden`] where that takes longer than `limit`; else as of anybody who reads.
pub(crate) async fn settle(
    settings: &Settings,
    topic: &str,
    partition: i32,
    limit: Duration,
) -> Result<bool, ReadError> {
    let (given, name) = (settings.clone(), topic.to_owned());
    let (written, reader) = beside(topic, move || {
        let reader = topic::connect_to_undecided(&given, None, &name)?;
        topic::partitions_of(&reader, &name, |id| id == partition)?;
        let written = topic::end_of(&reader, &name, partition)?;
        Ok((written, Reader::new(topic::connect(&given, None, &name)?)))
    })
    .await?;
    let decided = async || {
        let (client, name) = (reader.client(), topic.to_owned());
        beside(topic, move || topic::end_of(&client, &name, partition)).await
    };
    wait_for(topic, written, limit, decided).await
}

/// The same of all partitions of a topic, for whoever may block: nothing else goes on meanwhile. `servers` are asked instead of those of the settings.
///
/// # Errors
/// As there.
pub fn settle_topic(settings: &Settings, servers: Option<&str>, topic: &str, limit: Duration) -> Result<(), ReadError> {
    let of_all = topic::connect_to_undecided(settings, servers, topic)?;
    let of_decided = topic::connect(settings, servers, topic)?;
    let since = std::time::Instant::now();
    for partition in topic::partitions_of(&of_all, topic, |_| true)? {
        let written = topic::end_of(&of_all, topic, partition)?;
        loop {
            let offset = topic::end_of(&of_decided, topic, partition)?;
            if offset >= written {
                break;
            }
            let waited = since.elapsed();
            if waited >= limit {
                return Err(ReadError::Hidden { topic: topic.to_owned(), offset, waited });
            }
            // No broker tells when a transaction of somebody else has ended.
            std::thread::sleep(INTERVAL);
        }
    }
    Ok(())
}

/// Asks how far a partition is decided until that is as far as this.
async fn wait_for(
    topic: &str,
    written: i64,
    limit: Duration,
    decided: impl AsyncFn() -> Result<i64, ReadError>,
) -> Result<bool, ReadError> {
    let since = Instant::now();
    let mut has_waited = false;
    loop {
        let offset = decided().await?;
        if offset >= written {
            return Ok(has_waited);
        }
        let waited = since.elapsed();
        if waited >= limit {
            return Err(ReadError::Hidden { topic: topic.to_owned(), offset, waited });
        }
        has_waited = true;
        // No broker tells when a transaction of somebody else has ended.
        sleep(INTERVAL).await;
    }
}

/// Does something that blocks beside the loop.
async fn beside<T: Send + 'static>(
    topic: &str,
    work: impl FnOnce() -> Result<T, ReadError> + Send + 'static,
) -> Result<T, ReadError> {
    let lost = |_| ReadError::Kafka { topic: topic.to_owned(), reason: "the reader has died".to_owned() };
    tokio::task::spawn_blocking(work).await.map_err(lost).flatten()
}

/// A client whose end nobody waits for: its threads have to be joined.
struct Reader(Option<Arc<Client>>);

impl Reader {
    fn new(client: Client) -> Self {
        Self(Some(Arc::new(client)))
    }

    fn client(&self) -> Arc<Client> {
        Arc::clone(self.0.as_ref().expect("it is there until the end"))
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let client = self.0.take();
        beside_the_loop(move || drop(client));
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// How far it is decided, from one question to the next.
    async fn wait(written: i64, answers: &[i64], limit: Duration) -> Result<bool, ReadError> {
        let asked = Cell::new(0);
        let decided = async || {
            let answer = answers[asked.get().min(answers.len() - 1)];
            asked.set(asked.get() + 1);
            Ok(answer)
        };
        wait_for("letters", written, limit, decided).await
    }

    #[tokio::test]
    async fn it_is_waited_until_all_that_was_written_is_decided_and_not_for_what_comes_after() {
        let limit = Duration::from_secs(10);
        for (written, answers, has_waited) in [
            (0, &[0i64] as &[i64], false),
            (7, &[7], false),
            (7, &[9], false),
            (7, &[3, 5, 7], true),
            (7, &[3, 8], true),
        ] {
            assert_eq!(wait(written, answers, limit).await.unwrap(), has_waited, "{written} {answers:?}");
        }
    }

    #[tokio::test]
    async fn what_stays_open_is_told_by_its_offset_and_tried_again() {
        let error = wait(7, &[3], Duration::ZERO).await.unwrap_err();
        assert!(error.is_retried());
        assert_eq!(
            error.to_string(),
            "topic letters cannot be read from offset 3 on: a transaction of another producer has been open in front of it for 0 s; it ends by \
             itself after its transaction.timeout.ms at the latest"
        );
    }
}
