//! Writes checkpoints beside the stream, one at a time, so that a slow store never blocks it.
//!
//! Where the sink commits them as one with the records, nothing is written here: the checkpointer only knows their form.

use std::convert::Infallible;

use tokio::sync::mpsc;
use walpost_core::failure::chain;
use walpost_core::port::Checkpoints;
use walpost_core::position::{Checkpoint, Epoch, Progress, SettledRows};

/// See the module's documentation.
#[derive(Debug)]
pub struct Checkpointer {
    orders: mpsc::Sender<Checkpoint>,
    answers: mpsc::Receiver<Result<(), StoreFailure>>,
    /// What does not change from one checkpoint of a session to the next.
    pattern: Checkpoint,
    /// The task that writes has died, and that was told.
    is_gone: bool,
}

/// What the sink commits, nobody else saves.
#[derive(Debug)]
struct CommittedBySink;

impl Checkpoints for CommittedBySink {
    type Error = Infallible;

    async fn load(&mut self) -> Result<Option<Checkpoint>, Self::Error> {
        Ok(None)
    }

    async fn claim(&mut self, checkpoint: &Checkpoint) -> Result<Epoch, Self::Error> {
        Ok(checkpoint.epoch)
    }

    async fn save(&mut self, _: &Checkpoint) -> Result<(), Self::Error> {
        Ok(())
    }
}

/// Why a checkpoint was not written.
#[derive(Debug)]
pub(super) struct StoreFailure {
    pub(super) reason: String,
    /// No retry helps: another relay has claimed the checkpoint, or somebody has removed it.
    pub(super) is_final: bool,
}

impl Checkpointer {
    /// Starts to write to a store whose writer we are. `pattern` is the checkpoint as it was claimed.
    ///
    /// Has to be called within a `LocalSet`. The task ends when the checkpointer is dropped.
    pub fn start<C: Checkpoints + 'static>(mut store: C, pattern: Checkpoint, is_final: fn(&C::Error) -> bool) -> Self {
        let (orders, mut incoming) = mpsc::channel::<Checkpoint>(1);
        let (outgoing, answers) = mpsc::channel(1);
        tokio::task::spawn_local(async move {
            while let Some(checkpoint) = incoming.recv().await {
                let outcome = store
                    .save(&checkpoint)
                    .await
                    .map_err(|error| StoreFailure { reason: chain(&error), is_final: is_final(&error) });
                if outgoing.send(outcome).await.is_err() {
                    break;
                }
            }
        });
        Self { orders, answers, pattern, is_gone: false }
    }

    /// For a sink that commits the checkpoints itself, in the form of this one.
    pub fn of_sink(pattern: Checkpoint) -> Self {
        Self::start(CommittedBySink, pattern, |never| match *never {})
    }

    /// Orders a checkpoint. The session orders the next one only after the answer.
    pub(super) fn order(&self, progress: Progress) -> Result<(), StoreFailure> {
        self.orders.try_send(self.checkpoint_at(progress)).map_err(|_| StoreFailure::no_writer())
    }

    pub(super) fn checkpoint_at(&self, progress: Progress) -> Checkpoint {
        let is_ahead = |rows: &SettledRows| rows.commit_lsn >= progress.position;
        Checkpoint {
            position: progress.position,
            settled_rows: self.pattern.settled_rows.filter(is_ahead),
            commit_time: progress.commit_time.or(self.pattern.commit_time),
            ..self.pattern.clone()
        }
    }

    /// The outcome of what was ordered. Cancel-safe.
    pub(super) async fn answer(&mut self) -> Result<(), StoreFailure> {
        match self.answers.recv().await {
            Some(outcome) => outcome,
            None if std::mem::replace(&mut self.is_gone, true) => std::future::pending().await,
            None => Err(StoreFailure::no_writer()),
        }
    }
}

impl StoreFailure {
    /// The task that writes has died. The next connection brings another.
    fn no_writer() -> Self {
        Self { reason: "the writer of checkpoints is gone".to_owned(), is_final: true }
    }
}

#[cfg(test)]
impl Checkpointer {
    /// One whose task has died, or dies over the first order.
    pub(super) fn dead(takes_the_order: bool, pattern: Checkpoint) -> Self {
        let (orders, mut incoming) = mpsc::channel(1);
        let (outgoing, answers) = mpsc::channel(1);
        if takes_the_order {
            tokio::task::spawn_local(async move {
                incoming.recv().await;
                drop(outgoing);
            });
        }
        Self { orders, answers, pattern, is_gone: false }
    }
}
