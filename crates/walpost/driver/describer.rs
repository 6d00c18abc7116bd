//! Asks the catalogue beside the stream, one question at a time, until there is an answer: the stream stands still meanwhile,
//! but statuses, deliveries and checkpoints do not.
//!
//! Why the catalogue did not answer is not for the session to know: nothing follows from it but the next try. Whether the
//! server is still there is told by others, who end the session, and with it this.

use tokio::sync::mpsc;
use tokio::time::sleep;
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
    answers: mpsc::Receiver<Answer>,
    /// The task that asks has died, and that was told.
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

/// The task that asks has died. The next connection brings another.
#[derive(Debug)]
pub(super) struct Gone;

impl Describer {
    /// Starts to ask this catalogue, with these waits between tries.
    ///
    /// Has to be called within a `LocalSet`. The task ends when the describer is dropped, wherever it is by then.
    pub fn start<D: Describe + 'static>(mut catalogue: D, mut backoff: Backoff) -> Self {
        let (questions, mut incoming) = mpsc::channel::<Question>(1);
        let (outgoing, answers) = mpsc::channel(1);
        tokio::task::spawn_local(async move {
            let work = async {
                while let Some(question) = incoming.recv().await {
                    let description = describe(&mut catalogue, &question, &mut backoff).await;
                    let answer = Answer { relation: question.relation, description };
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
    pub(super) fn ask(&self, relation: u32, table: &TableName) -> Result<(), Gone> {
        self.questions.try_send(Question { relation, table: table.clone() }).map_err(|_| Gone)
    }

    /// The answer to what was asked. Cancel-safe.
    pub(super) async fn answer(&mut self) -> Result<Answer, Gone> {
        match self.answers.recv().await {
            Some(answer) => Ok(answer),
            None if std::mem::replace(&mut self.is_gone, true) => std::future::pending().await,
            None => Err(Gone),
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

async fn describe<D: Describe>(catalogue: &mut D, question: &Question, backoff: &mut Backoff) -> Description {
    loop {
        match catalogue.describe(question.relation).await {
            Ok(description) => {
                backoff.reset();
                journal::described(&question.table, &description);
                return description;
            }
            Err(error) => {
                let wait = backoff.next_wait();
                journal::undescribed(&question.table, &chain(&error), backoff.tries(), wait);
                sleep(wait).await;
            }
        }
    }
}
