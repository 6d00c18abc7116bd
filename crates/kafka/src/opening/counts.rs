//! How many partitions topics have, asked one after the other and beside everything else.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

use rdkafka::producer::{Producer as _, ThreadedProducer};

use crate::context::Context;

/// How long brokers may take to answer. Who is not answered asks again with another record.
const ANSWER_TIME: Duration = Duration::from_secs(2);

/// A topic by its number, and how many partitions it has, if brokers say so.
pub(super) type Answer = (usize, Option<usize>);

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Counts {
    questions: Vec<(usize, Arc<str>)>,
    /// Where the answers come, while somebody asks.
    answers: Option<Receiver<Answer>>,
}

impl Counts {
    /// Puts a question down.
    pub(super) fn note(&mut self, number: usize, topic: &Arc<str>) {
        self.questions.push((number, Arc::clone(topic)));
    }

    /// Has the questions asked that were put down, once those before them are answered.
    pub(super) fn ask(&mut self, client: &ThreadedProducer<Context>) {
        if self.questions.is_empty() || self.answers.is_some() {
            return;
        }
        let (sender, receiver) = channel();
        self.answers = Some(receiver);
        let (client, questions) = (client.clone(), std::mem::take(&mut self.questions));
        tokio::task::spawn_blocking(move || {
            for (number, topic) in questions {
                let is_heard = sender.send((number, count_of(&client, &topic))).is_ok();
                if !is_heard {
                    return;
                }
            }
        });
    }

    /// The next answer that has come.
    pub(super) fn next(&mut self) -> Option<Answer> {
        match self.answers.as_ref()?.try_recv() {
            Ok(answer) => Some(answer),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                self.answers = None;
                None
            }
        }
    }

    #[cfg(test)]
    pub(super) fn take_questions(&mut self) -> Vec<usize> {
        self.questions.drain(..).map(|(number, _)| number).collect()
    }
}

fn count_of(client: &ThreadedProducer<Context>, topic: &str) -> Option<usize> {
    let metadata = client.client().fetch_metadata(Some(topic), ANSWER_TIME).ok()?;
    let found = metadata.topics().iter().find(|found| found.name() == topic && found.error().is_none())?;
    Some(found.partitions().len()).filter(|count| *count > 0)
}
