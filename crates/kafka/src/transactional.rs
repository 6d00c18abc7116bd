//! The sink whose records become visible together with the position behind them: one transaction of Kafka for a group of records and one
//! checkpoint record.
//!
//! [`Producer`] does what any producer does; here is only what transactions add. A transaction is begun as soon as the last one has
//! ended: that is a matter of the client alone, and brokers hear of it with the first record.
//!
//! [`open`](Transactional::open) is for whoever holds the slot and for nobody else. It gives the id a higher epoch, so that brokers refuse whoever
//! had it before; two relays that both did so would fence each other for ever. That is why [`reset`](Sink::reset) never does it: after a
//! reset nothing is accepted until the sink is opened again.
//!
//! Dead letters are records of the group like its events, and nobody's tickets: what becomes of them is asked by the commit alone.
//!
//! A commit whose outcome is unknown (no answer in time) is a failure here. What came of it is found out by opening, which waits for it to
//! end, and then reading the checkpoint.

mod call;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use rdkafka::producer::Producer as _;
use tokio::time::Instant;
use tracing::debug;
use walpost_core::failure::{Class, Failure};
use walpost_core::lsn::Lsn;
use walpost_core::poison::{Conclusion, DeadLetter, LetterId};
use walpost_core::port::{Delivery, Refusal, Sink, Ticket, TransactionalSink};
use walpost_core::position::{Checkpoint, Identity, Timeline};
use walpost_core::record::{Headers, Record};

use crate::checkpoints::form;
use crate::inbox::Tag;
use crate::letters::{GroupLetters, LetterTopic};
use crate::producer::Producer;
use crate::settings::{SettingFault, Settings};

use call::Call;

/// How long opening may take. The slot is held meanwhile, and whoever waits for us waits for it.
const OPEN_LIMIT: Duration = Duration::from_secs(15);

/// How long an abort may take. Whoever opens next aborts what this one leaves, and so does the broker after a while.
const ABORT_LIMIT: Duration = Duration::from_secs(2);

/// How long to wait before a full queue is offered the same again.
const FULL: Duration = Duration::from_millis(20);

/// The ticket of the checkpoint's record. No session comes so far: see [`Tag`].
const CHECKPOINT: Ticket = Tag::LAST;

/// The ticket of every record of a dead letter.
const LETTER: Ticket = Ticket(CHECKPOINT.0 - 1);

/// The partition of the topic of checkpoints that is used, whatever its partitioner and however many it has.
pub(crate) const PARTITION: i32 = 0;

/// A producer of transactions under the id of one relay.
///
/// Close it with [`close`](Self::close): a transaction that is left open keeps readers from what is behind it until the broker gives it up.
#[derive(Debug)]
pub struct Transactional {
    producer: Producer,
    timeout: Duration,
    id: String,
    /// Where the checkpoint is kept, and under which key.
    topic: Arc<str>,
    relay: Bytes,
    /// Where rows are set aside, if any are.
    letters: Option<GroupLetters>,
    state: State,
    is_fenced: bool,
}

/// What can be done with the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// Nothing, before it is opened.
    Shut,
    /// A transaction is begun. Once a record was handed over, brokers may know of it.
    Begun { is_used: bool },
    /// A commit is under way, or its outcome is unknown.
    Committing,
}

impl Transactional {
    /// A sink that keeps the checkpoint of this relay in this topic. It touches nothing before it is opened.
    ///
    /// # Errors
    /// librdkafka refuses the settings; the class is `Configuration`.
    pub fn new(settings: &Settings, relay: &str, topic: &str) -> Result<Self, Failure> {
        let id = id_of(relay);
        let refused = |fault: SettingFault| Failure::new(Class::Configuration, fault.to_string());
        let settings = settings.in_transactions(&id).map_err(refused)?;
        Ok(Self {
            timeout: settings.transaction_timeout(),
            producer: Producer::new(settings)?,
            id,
            topic: Arc::from(topic),
            relay: Bytes::copy_from_slice(relay.as_bytes()),
            letters: None,
            state: State::Shut,
            is_fenced: false,
        })
    }

    /// Has rows set aside in this topic.
    #[must_use]
    pub fn with_letters(mut self, settings: &Settings, topic: &str) -> Self {
        self.letters = Some(GroupLetters::new(settings, &String::from_utf8_lossy(&self.relay), topic));
        self
    }

    /// The store of the letters that this sink writes, by which they are read; `settings` are those of the sink. What it reads, this sink knows: a letter
    /// is concluded by the number under which it was read.
    #[must_use]
    pub fn letter_topic(&self, settings: &Settings, keep_ended: Duration) -> Option<LetterTopic> {
        let relay = String::from_utf8_lossy(&self.relay);
        self.letters.as_ref().map(|letters| letters.store(settings.clone(), &relay, keep_ended))
    }

    /// Fences whoever had the relay's name before, ends the transaction that it left, and makes ready for records. In at most about 15 s.
    ///
    /// # Errors
    /// Of the class `Sink`: try again. `Configuration`: only an operator can help.
    pub async fn open(&mut self) -> Result<(), Failure> {
        self.state = State::Shut;
        // A client that failed once may be out of step with the brokers; what a new one does to them is the same.
        self.producer.reset().await?;
        // Whose records these were is over, and they would spoil the first commit.
        self.producer.reports.clear();
        self.clear_letters();
        self.call(Call::Open, OPEN_LIMIT).await?;
        self.is_fenced = false;
        self.state = State::Begun { is_used: false };
        debug!(id = self.id, "transactions may begin");
        Ok(())
    }

    /// Whether brokers have refused us because of a higher epoch: another producer has taken the id over, or the broker gave up a transaction
    /// of ours that had grown too old. Which of the two, the slot tells.
    #[must_use]
    pub fn is_fenced(&self) -> bool {
        let fatal = self.producer.client.client().fatal_error();
        self.is_fenced || fatal.is_some_and(|(code, _)| call::is_fence(code))
    }

    /// How old the broker lets a transaction become.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Aborts what was not committed, in at most `limit`, and ends. Answers every report that was not handed over before.
    pub async fn close(mut self, limit: Duration) -> Vec<Delivery> {
        self.abort(limit).await;
        let mut deliveries = self.producer.close(Duration::ZERO).await;
        deliveries.retain(|delivery| delivery.ticket != LETTER);
        deliveries
    }

    /// Commits what was published since the last commit, and the checkpoint; `None` removes it.
    pub(crate) async fn commit_with(&mut self, checkpoint: Option<&Checkpoint>) -> Result<(), Failure> {
        if !matches!(self.state, State::Begun { .. }) {
            return Err(self.shut_reason());
        }
        // Also where this future is dropped: nobody knows then what becomes of it.
        self.state = State::Committing;
        let deadline = Instant::now() + self.timeout;
        self.send_letters(deadline).await?;
        self.send_checkpoint(checkpoint, deadline).await?;
        self.producer.collect_until(deadline).await;
        self.take_reports_of_letters()?;
        let is_acknowledged = self.take_report_of_checkpoint()?;
        if let Some(loss) = self.producer.reports.iter().find_map(|report| report.outcome.as_ref().err()) {
            let context = self.producer.client.client().context();
            return Err(self.fence_or(context.failure(loss.code, &loss.record())));
        }
        if !is_acknowledged || self.producer.outstanding > 0 {
            return Err(self.unacknowledged(is_acknowledged));
        }
        self.call(Call::Commit, self.timeout).await?;
        self.state = State::Begun { is_used: false };
        Ok(())
    }

    /// What was not acknowledged in time. Of the checkpoint that is said, for whoever looks at the topics of his events finds nothing wrong.
    fn unacknowledged(&self, is_checkpoint_acknowledged: bool) -> Failure {
        let timeout = self.timeout.as_millis();
        let what = match is_checkpoint_acknowledged {
            true => "a transaction".to_owned(),
            false => format!("a transaction's checkpoint in topic \"{}\"", self.topic),
        };
        let reason = format!("{what} was not acknowledged within transaction.timeout.ms = {timeout}; it is sent again");
        Failure::new(Class::Sink, reason)
    }

    /// Hands over what the client had no room for.
    async fn send_letters(&mut self, deadline: Instant) -> Result<(), Failure> {
        self.offer(deadline, Self::hand_letters_on).await?;
        self.letters_failure().map_or(Ok(()), Err)
    }

    /// Offers something to the client until it has room for it.
    async fn offer(
        &mut self,
        deadline: Instant,
        mut hand_over: impl FnMut(&mut Self) -> Result<(), Refusal>,
    ) -> Result<(), Failure> {
        loop {
            match hand_over(self) {
                Ok(()) => return Ok(()),
                // The client tells nobody when there is room, but for the reports, which are not ours alone.
                Err(Refusal::Full) if Instant::now() < deadline => tokio::time::sleep(FULL).await,
                Err(Refusal::Full) => return Err(Failure::new(Class::Sink, Refusal::Full.to_string())),
                Err(Refusal::Failed(failure)) => return Err(self.fence_or(failure)),
            }
        }
    }

    /// Hands letters to the client, as many as it has room for.
    fn hand_letters_on(&mut self) -> Result<(), Refusal> {
        let Some(letters) = &mut self.letters else { return Ok(()) };
        while let Some(record) = letters.next() {
            match self.producer.publish(LETTER, record) {
                Ok(()) => letters.handed_on(),
                Err(Refusal::Full) => return Err(Refusal::Full),
                Err(Refusal::Failed(failure)) => {
                    letters.failed(failure.clone());
                    return Err(letters.failure().cloned().unwrap_or(failure).into());
                }
            }
        }
        Ok(())
    }

    /// Whether the broker has every letter whose report came. They are no row's, so nobody else gets their reports.
    fn take_reports_of_letters(&mut self) -> Result<(), Failure> {
        let Some(letters) = &mut self.letters else { return Ok(()) };
        let context = self.producer.client.client().context();
        for report in self.producer.reports.extract_if(.., |report| report.ticket == LETTER) {
            if let Err(loss) = report.outcome {
                letters.failed(context.failure(loss.code, &loss.record()));
            }
        }
        match self.letters_failure() {
            Some(failure) => Err(self.fence_or(failure)),
            None => Ok(()),
        }
    }

    /// Why a letter of the group was not written. Of one that was only withdrawn the client has said why.
    fn letters_failure(&self) -> Option<Failure> {
        let letters = self.letters.as_ref()?;
        let failure = letters.failure()?.clone();
        let abortion = self.producer.client.client().context().abortion();
        let abortion = abortion.filter(|_| failure.class == Class::Withdrawn);
        Some(abortion.map_or_else(|| failure.clone(), |why| letters.withdrawn(&why)))
    }

    fn clear_letters(&mut self) {
        if let Some(letters) = &mut self.letters {
            letters.clear();
        }
    }

    /// Lets a letter in where a group is open and nothing waits in front of it.
    fn admit_letter(&mut self) -> Result<&mut GroupLetters, Refusal> {
        let State::Begun { is_used } = &mut self.state else { return Err(self.shut_reason().into()) };
        *is_used = true;
        self.hand_letters_on()?;
        self.letters.as_mut().ok_or_else(|| no_letters().into())
    }

    /// What the client has no room for now is handed on as it empties; the letter is accepted.
    fn accept_letter(&mut self) -> Result<(), Refusal> {
        match self.hand_letters_on() {
            Ok(()) | Err(Refusal::Full) => Ok(()),
            refused => refused,
        }
    }

    async fn send_checkpoint(&mut self, checkpoint: Option<&Checkpoint>, deadline: Instant) -> Result<(), Failure> {
        let record = self.record_of(checkpoint);
        self.offer(deadline, |sink| {
            sink.producer.publish(CHECKPOINT, &record).map_err(|refusal| match refusal {
                Refusal::Full => Refusal::Full,
                Refusal::Failed(failure) => sink.checkpoint_failure(failure).into(),
            })
        })
        .await
    }

    fn record_of(&self, checkpoint: Option<&Checkpoint>) -> Record {
        Record {
            // Of no row, and nothing on the way to the broker asks for it.
            identity: Identity { timeline: Timeline(0), commit_lsn: Lsn::new(0), ordinal: 0 },
            topic: Arc::clone(&self.topic),
            key: Some(self.relay.clone()),
            value: checkpoint.map(|checkpoint| Bytes::from(form::encode(checkpoint))),
            headers: Headers::new(),
            timestamp_ms: now_ms(),
            is_dated_by_row: false,
            partition: Some(PARTITION),
        }
    }

    /// Whether the broker has the checkpoint's record. It is no row's, so nobody else gets its report.
    fn take_report_of_checkpoint(&mut self) -> Result<bool, Failure> {
        let Some(place) = self.producer.reports.iter().position(|report| report.ticket == CHECKPOINT) else {
            return Ok(false);
        };
        match self.producer.reports.remove(place).outcome {
            Ok(()) => Ok(true),
            Err(loss) => {
                let context = self.producer.client.client().context();
                let failure = context.failure(loss.code, &loss.record());
                Err(self.fence_or(self.checkpoint_failure(failure)))
            }
        }
    }

    /// Of a record that was only withdrawn the client has said why.
    fn checkpoint_failure(&self, failure: Failure) -> Failure {
        let context = self.producer.client.client().context();
        match context.abortion().filter(|_| failure.class == Class::Withdrawn) {
            Some(why) => call::withdrawn_checkpoint(&self.topic, &why),
            None => call::checkpoint_failure(failure, &self.topic, context.has_delivered()),
        }
    }

    /// Gives up what was published since the last commit, as far as the broker can be told in time.
    async fn abort(&mut self, limit: Duration) {
        let is_used = match self.state {
            State::Shut => false,
            State::Begun { is_used } => is_used,
            // librdkafka refuses to abort what it is committing, and says so.
            State::Committing => true,
        };
        self.state = State::Shut;
        if is_used
            && !self.is_fenced()
            && let Err(failure) = self.call(Call::Abort, limit).await
        {
            debug!(%failure, "the transaction was left for the broker to abort");
        }
    }

    async fn call(&mut self, call: Call, limit: Duration) -> Result<(), Failure> {
        let outcome = call::make(self.producer.client.clone(), call, limit).await;
        outcome.map_err(|failed| {
            self.is_fenced |= failed.is_fence();
            let was_allowed = self.producer.client.client().context().has_delivered();
            failed.into_failure(call, &self.id, self.timeout, was_allowed)
        })
    }

    /// The failure of one record, unless it is only a sign of what happened to all.
    fn fence_or(&self, failure: Failure) -> Failure {
        if self.is_fenced() { call::fenced(&self.id, self.timeout) } else { failure }
    }

    fn shut_reason(&self) -> Failure {
        if self.is_fenced() {
            return call::fenced(&self.id, self.timeout);
        }
        Failure::new(Class::Withdrawn, "nothing is accepted before a transaction can begin; it is owed again")
    }
}

impl Sink for Transactional {
    fn publish(&mut self, ticket: Ticket, record: &Record) -> Result<(), Refusal> {
        let State::Begun { is_used } = &mut self.state else { return Err(self.shut_reason().into()) };
        *is_used = true;
        self.producer.publish(ticket, record)
    }

    async fn next_deliveries(&mut self, into: &mut Vec<Delivery>) {
        let first = into.len();
        loop {
            self.producer.next_deliveries(into).await;
            // A failure of theirs is for the commit to tell, and what failed with them is told by its own reports.
            let _ = self.hand_letters_on();
            let Some(letters) = &mut self.letters else { return };
            let count = into.len();
            for delivery in into.extract_if(first.., |delivery| delivery.ticket == LETTER) {
                if let Err(failure) = delivery.outcome {
                    letters.failed(failure);
                }
            }
            // Nothing came but a verdict, or something that is for the session.
            if count == first || into.len() > first {
                return;
            }
        }
    }

    fn verdict(&self) -> Option<Failure> {
        self.producer.verdict()
    }

    fn away(&self) -> Option<&str> {
        self.producer.away()
    }

    /// Aborts, if the broker can be told soon, and gives everything back. Nothing is accepted then until [`open`](Self::open).
    async fn reset(&mut self) -> Result<(), Failure> {
        self.clear_letters();
        self.abort(ABORT_LIMIT).await;
        self.producer.reset().await
    }
}

impl TransactionalSink for Transactional {
    async fn commit(&mut self, checkpoint: &Checkpoint) -> Result<(), Failure> {
        self.commit_with(Some(checkpoint)).await
    }

    fn set_aside(&mut self, letter: &DeadLetter) -> Result<bool, Refusal> {
        let is_new = self.admit_letter()?.set_aside(letter);
        self.accept_letter().map(|()| is_new)
    }

    fn conclude(&mut self, letter: LetterId, conclusion: &Conclusion) -> Result<(), Refusal> {
        self.admit_letter()?.conclude(letter, conclusion)?;
        self.accept_letter()
    }
}

fn no_letters() -> Failure {
    Failure::new(Class::Configuration, "no topic for dead letters is configured")
}

/// The id of a relay's transactions: the same in each of its lives, and no other relay's on the same brokers.
pub(crate) fn id_of(relay: &str) -> String {
    format!("walpost-{relay}")
}

/// When a checkpoint was written, for people who look at the topic.
fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}
