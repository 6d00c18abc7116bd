//! Asks the catalogue beside the stream, one question at a time, until there is an answer: the stream stands still meanwhile,
//! but statuses, deliveries and checkpoints do not.
//!
//! A server that refuses is there, and is asked again for as long as it takes. One that says nothing may be gone, and nobody
//! else would notice: while the session takes no frame it does not take the stream's silence for the server's. So it is given up
//! after as long a silence as on the stream, and the next connection may find another.

use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep};
use walpost_core::backoff::Backoff;
use walpost_core::description::Description;
use walpost_core::failure::chain;
use walpost_core::outbox::TableName;
use walpost_core::port::Describe;

use crate::journal;

/// See the module's documentation.
#[derive(Debug)]
pub struct Describer {
    questions: mpsc::Sender<Question>,
    answers: mpsc::Receiver<Result<Answer, NoAnswer>>,
    /// The task that asks is gone, and that was told.
    is_gone: bool,
}

#[derive(Debug)]
struct Question {
    relation: u32,
    /// For the log.
    table: TableName,
}

/// A description of a relation.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) relation: u32,
    pub(super) description: Description,
}

/// Why there is none. The next connection brings another describer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum NoAnswer {
    #[error("PostgreSQL did not answer when it was asked about an outbox")]
    Silent,
    #[error("whoever asks about outboxes is gone")]
    Dead,
}

/// How long a catalogue is asked.
#[derive(Debug)]
pub struct Patience<E> {
    /// The waits between tries.
    pub backoff: Backoff,
    /// For so long the server may say nothing at all.
    pub silence: Duration,
    /// Whether this is an error that the server had no part in.
    pub is_silence: fn(&E) -> bool,
}

impl Describer {
    /// Starts to ask this catalogue.
    ///
    /// Has to be called within a `LocalSet`. The task ends when the describer is dropped, wherever it is by then.
    pub fn start<D: Describe + 'static>(mut catalogue: D, mut patience: Patience<D::Error>) -> Self {
        let (questions, mut incoming) = mpsc::channel(1);
        let (outgoing, answers) = mpsc::channel(1);
        tokio::task::spawn_local(async move {
            let work = async {
                while let Some(question) = incoming.recv().await {
                    let answer = patience.ask(&mut catalogue, &question).await;
                    if outgoing.send(answer).await.is_err() {
                        break;
                    }
                }
            };
            tokio::select! {
                () = work => {}
                () = outgoing.closed() => {}
            }
        });
        Self { questions, answers, is_gone: false }
    }

    /// Asks about a relation. The session asks again only after the answer.
    pub(super) fn ask(&self, relation: u32, table: &TableName) -> Result<(), NoAnswer> {
        self.questions.try_send(Question { relation, table: table.clone() }).map_err(|_| NoAnswer::Dead)
    }

    /// The answer to what was asked. Cancel-safe.
    pub(super) async fn answer(&mut self) -> Result<Answer, NoAnswer> {
        match self.answers.recv().await {
            Some(answer) => answer,
            None if std::mem::replace(&mut self.is_gone, true) => std::future::pending().await,
            None => Err(NoAnswer::Dead),
        }
    }
}

impl<E: std::error::Error> Patience<E> {
    async fn ask<D: Describe<Error = E>>(
        &mut self,
        catalogue: &mut D,
        &Question { relation, ref table }: &Question,
    ) -> Result<Answer, NoAnswer> {
        let mut heard_at = Instant::now();
        loop {
            let error = match catalogue.describe(relation).await {
                Ok(description) => {
                    self.backoff.reset();
                    journal::described(table, &description);
                    return Ok(Answer { relation, description });
                }
                Err(error) => error,
            };
            if !(self.is_silence)(&error) {
                heard_at = Instant::now();
            }
            let wait = self.backoff.next_wait();
            journal::undescribed(table, &chain(&error), self.backoff.tries(), wait);
            if heard_at.elapsed() >= self.silence {
                return Err(NoAnswer::Silent);
            }
            sleep(wait).await;
        }
    }
}

#[cfg(test)]
impl Describer {
    /// One whose task has died, or dies over the first question.
    pub(super) fn dead<D: 'static>(takes_the_question: bool, catalogue: D) -> Self {
        let (questions, mut incoming) = mpsc::channel(1);
        let (outgoing, answers) = mpsc::channel(1);
        if takes_the_question {
            tokio::task::spawn_local(async move {
                incoming.recv().await;
                drop((outgoing, catalogue));
            });
        }
        Self { questions, answers, is_gone: false }
    }
}
