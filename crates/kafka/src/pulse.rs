//! Whether brokers answer while nothing is on its way to them: what a relay with a quiet outbox would else learn from its next event.
//!
//! A small question goes out on the relay's own connection once nothing has been heard for a while, and never while a record is on its way: that
//! one's answer says more. So a broker that is frozen, or behind a network that swallows everything, is noticed as well as one that is gone. The news
//! that librdkafka has of its connections would not do: it tells of those that end, and a broker ends idle ones in good health; here a
//! connection that was reaped is opened again and all is well.
//!
//! The question is about one topic. Its smallest form, about brokers alone, cannot be had through rdkafka, and one about all topics may have a large
//! answer. Whoever has published asks about that topic; whoever has not asks about all of them once, and picks a small one out of the answer: one that
//! exists, for a question may create a topic where the settings allow it, and that the user may see, for brokers log what they refuse.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::error::KafkaError;
use rdkafka::producer::{Producer as _, ThreadedProducer};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::context::Context;

/// How long nothing may be heard before brokers are asked.
const QUIET: Duration = Duration::from_secs(2);

/// How long they may take to answer. The question itself lives on in the client, for up to `socket.timeout.ms`.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// How long after a question that was not answered the next one comes.
const ASK_AGAIN: Duration = Duration::from_secs(1);

/// A topic of which it is known that it is there; none where the answer names none.
type Answer = Result<Option<Arc<str>>, KafkaError>;

/// Questions and what came of them.
#[derive(Debug)]
pub(crate) struct Pulse {
    ask_at: Instant,
    question: Option<JoinHandle<Answer>>,
    topic: Option<Arc<str>>,
    away: Option<String>,
}

impl Pulse {
    pub(crate) fn new() -> Self {
        Self { ask_at: Instant::now() + QUIET, question: None, topic: None, away: None }
    }

    /// Why nothing is heard, once a question was not answered.
    pub(crate) fn away(&self) -> Option<&str> {
        self.away.as_deref()
    }

    /// A record goes to this topic.
    pub(crate) fn publishes_to(&mut self, topic: &Arc<str>) {
        if self.topic.is_none() {
            self.topic = Some(Arc::clone(topic));
        }
    }

    /// There is another client. What the one before was asked is of no interest any more.
    pub(crate) fn renew(&mut self) {
        self.question = None;
        self.ask_at = Instant::now() + ASK_AGAIN;
    }

    /// A broker has answered, whatever it was asked. A question that is still out is an old one, and its answer is not waited for.
    pub(crate) fn heard(&mut self) {
        self.question = None;
        self.ask_at = Instant::now() + QUIET;
        self.away = None;
    }

    /// Asks whenever it is time. It is never done. Cancel-safe.
    pub(crate) async fn beat(&mut self, client: &ThreadedProducer<Context>) {
        loop {
            match &mut self.question {
                Some(question) => {
                    let answer = question.await;
                    self.question = None;
                    match answer {
                        Ok(Ok(topic)) => self.on_answer(topic, client),
                        Ok(Err(error)) => self.on_silence(&error, client),
                        // The thread that asked has died, and with it what it was to find out.
                        Err(_) => self.ask_at = Instant::now() + QUIET,
                    }
                }
                None => {
                    sleep_until(self.ask_at).await;
                    let (asked, topic) = (client.clone(), self.topic.clone());
                    self.question = Some(tokio::task::spawn_blocking(move || ask(&asked, topic.as_deref())));
                }
            }
        }
    }

    fn on_answer(&mut self, topic: Option<Arc<str>>, client: &ThreadedProducer<Context>) {
        self.topic = topic;
        self.heard();
        client.client().context().on_answer();
    }

    fn on_silence(&mut self, error: &KafkaError, client: &ThreadedProducer<Context>) {
        self.ask_at = Instant::now() + ASK_AGAIN;
        let context = client.client().context();
        let silence = || format!("no broker has answered within {} s ({error})", ANSWER_TIME.as_secs());
        let reason = context.last_error().unwrap_or_else(silence);
        context.on_silence(&reason);
        self.away = Some(reason);
    }
}

/// A topic that was deleted is asked about no more.
fn ask(client: &ThreadedProducer<Context>, topic: Option<&str>) -> Answer {
    let metadata = client.client().fetch_metadata(topic, ANSWER_TIME)?;
    let there = metadata.topics().iter().filter(|topic| topic.error().is_none());
    Ok(there.min_by_key(|topic| topic.partitions().len()).map(|topic| Arc::from(topic.name())))
}
