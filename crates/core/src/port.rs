//! The traits of the edges. Core defines them, the edges implement them, the driver in the binary joins the two.
//!
//! Nothing here names a broker or a client library. Another broker is another implementation of [`Sink`].

use std::future::Future;

use crate::description::Description;
use crate::failure::Failure;
use crate::frame::{Frame, StatusUpdate};
use crate::poison::{Conclusion, DeadLetter, Inventory, LetterId, Marked};
use crate::position::{Checkpoint, Epoch};
use crate::record::Record;

/// A replication stream that has been started and is owned by one driver.
pub trait Source {
    /// Why a stream ended.
    type Error: std::error::Error + Send + Sync + 'static;

    /// Waits until at least one frame is there and appends all that are at hand, in order.
    ///
    /// Cancel-safe: a dropped future has taken no frame that it did not append.
    ///
    /// # Errors
    /// The stream has ended; nothing more will come.
    fn next_frames(&mut self, into: &mut Vec<Frame>) -> impl Future<Output = Result<(), Self::Error>>;

    /// Hands over what the server is to be told: how far it may forget. It goes out soon, without waiting for a frame.
    ///
    /// # Errors
    /// The stream has ended.
    fn confirm(&mut self, status: StatusUpdate) -> Result<(), Self::Error>;

    /// Closes the stream once the last status has gone out, within a few seconds at most. Dropping a source closes it at
    /// once.
    fn finish(self) -> impl Future<Output = ()>;
}

/// The number of a record on its way: unique in the process, rising in WAL order, never used again, so that a report that
/// comes late cannot be taken for another's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// What became of a record that was published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Delivery {
    /// Which record.
    pub ticket: Ticket,
    /// Durable at the broker, or why not.
    pub outcome: Result<(), Failure>,
}

/// Why a sink did not accept a record at once.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Its queue is full, or the order asks that a record waits. Not an error: offer the same one again after some deliveries.
    #[error("the sink's queue is full")]
    Full,
    /// It will not take this record; the same as a failed delivery of it.
    #[error(transparent)]
    Failed(#[from] Failure),
}

/// A broker that acknowledges record by record.
///
/// It keeps the order of what it accepted per partition, and after a failed delivery lets nothing overtake: what was accepted
/// after the failed record either was delivered already or is reported as failed too.
pub trait Sink {
    /// Accepts a record for delivery without waiting.
    ///
    /// # Errors
    /// [`Refusal::Full`], or the record's failure.
    fn publish(&mut self, ticket: Ticket, record: &Record) -> Result<(), Refusal>;

    /// Waits until at least one outcome is there and appends all that are at hand. Cancel-safe. It may come back with nothing,
    /// once, when [`verdict`](Self::verdict) has something to say.
    fn next_deliveries(&mut self, into: &mut Vec<Delivery>) -> impl Future<Output = ()>;

    /// Why this sink will never take a record, whichever it is, where that is known before any was tried.
    fn verdict(&self) -> Option<Failure> {
        None
    }

    /// Why nobody would answer, where that is known though nothing is on its way: some sinks ask now and then, while
    /// [`next_deliveries`](Self::next_deliveries) is waited for.
    fn away(&self) -> Option<&str> {
        None
    }

    /// Gives up everything accepted and not yet reported, makes every report of it available to
    /// [`next_deliveries`](Self::next_deliveries), and is then ready to accept records again, in whatever order.
    ///
    /// After it, no record accepted before it is handed to the broker any more. What is on the wire already may still be
    /// written there, as with any client: it is then a repeat of what goes again, and first appearances keep their order.
    ///
    /// A call that was dropped has to be made again before anything else is asked of the sink.
    ///
    /// # Errors
    /// The sink cannot be made anew; try again later.
    fn reset(&mut self) -> impl Future<Output = Result<(), Failure>>;
}

/// A broker that takes records and the position after them as one: all or nothing.
pub trait TransactionalSink: Sink {
    /// Commits everything published since the last commit, together with the checkpoint. Its answer settles them all.
    ///
    /// # Errors
    /// Nothing of the group is visible; publish it again.
    fn commit(&mut self, checkpoint: &Checkpoint) -> impl Future<Output = Result<(), Failure>>;

    /// Sets a row aside in the group that is open: its letter becomes visible with the events of the group and with the checkpoint behind them,
    /// or not at all. What is accepted is reported by nobody: where it cannot be written, the [`commit`](Self::commit) fails. Answers whether it is new,
    /// as [`DeadLetters::set_aside`] does.
    ///
    /// # Errors
    /// [`Refusal::Full`], or a failure that breaks the group.
    fn set_aside(&mut self, letter: &DeadLetter) -> Result<bool, Refusal>;

    /// Writes down in the group that is open how a letter ended, on the same terms.
    ///
    /// # Errors
    /// As [`set_aside`](Self::set_aside).
    fn conclude(&mut self, letter: LetterId, conclusion: &Conclusion) -> Result<(), Refusal>;
}

/// Where a relay keeps its checkpoint.
pub trait Checkpoints {
    /// Why the store did not answer.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The relay's checkpoint, if it has one.
    ///
    /// # Errors
    /// The store cannot be read, or what it holds cannot be understood.
    fn load(&mut self) -> impl Future<Output = Result<Option<Checkpoint>, Self::Error>>;

    /// Becomes the writer: takes the next epoch and writes `checkpoint` under it. From then on earlier writers fail.
    ///
    /// # Errors
    /// The store cannot be written.
    fn claim(&mut self, checkpoint: &Checkpoint) -> impl Future<Output = Result<Epoch, Self::Error>>;

    /// Makes the checkpoint durable. Forward only, and only under the epoch that was claimed.
    ///
    /// # Errors
    /// The store cannot be written, or another writer has claimed it.
    fn save(&mut self, checkpoint: &Checkpoint) -> impl Future<Output = Result<(), Self::Error>>;
}

/// Where rows are set aside. Only the relay writes letters and ends them; an operator marks them.
///
/// A letter that lies there only because of its key ([`Cause::Parked`](crate::poison::Cause::Parked)) goes by itself as soon as nothing of its key stands
/// in front of it: a store takes it for marked for replay, unless an operator took a mark of it back, once all in front of it have ended or are marked for that. One that
/// comes back lies there for a reason of its own from then on, and those behind it wait.
pub trait DeadLetters {
    /// Why the store did not answer.
    type Error: std::error::Error + Send + Sync + 'static;

    /// What lies there: keys with letters that are neither sent nor dropped.
    ///
    /// # Errors
    /// The store cannot be read.
    fn inventory(&mut self) -> impl Future<Output = Result<Inventory, Self::Error>>;

    /// Sets rows aside, all or none, durably and in this order. The same identity again is the same letter: it is counted as an attempt and keeps
    /// its place; one that was sent or dropped already stays so. Answers for each whether it is new, so that nothing is counted twice.
    ///
    /// # Errors
    /// The store cannot be written, or nobody knows whether it was; the rows are still owed.
    fn set_aside(&mut self, letters: &[DeadLetter]) -> impl Future<Output = Result<Vec<bool>, Self::Error>>;

    /// The next letters that an operator marked, or that go by themselves, at most `limit` and in order. Of each key they begin with the first that is neither
    /// sent nor dropped, and end in front of one that is neither. With `is_overtaking` the unmarked ones do not stand in the way.
    ///
    /// # Errors
    /// The store cannot be read.
    fn marked(&mut self, limit: usize, is_overtaking: bool) -> impl Future<Output = Result<Vec<Marked>, Self::Error>>;

    /// Makes the ends of marked letters durable, all or none. One that has ended already stays as it is.
    ///
    /// # Errors
    /// The store cannot be written.
    fn conclude(&mut self, ends: &[(LetterId, Conclusion)]) -> impl Future<Output = Result<(), Self::Error>>;
}

/// Asks the catalogue for what pgoutput does not tell.
pub trait Describe {
    /// Why the catalogue did not answer.
    type Error: std::error::Error + Send + Sync + 'static;

    /// A relation as it is today; nothing of one that is no more.
    ///
    /// A call that was dropped leaves nothing behind that the next one would notice.
    ///
    /// # Errors
    /// The catalogue cannot be read; try again later.
    fn describe(&mut self, relation: u32) -> impl Future<Output = Result<Description, Self::Error>>;
}
