//! Writes to the topic outside of transactions: for a relay that is acknowledged record by record, for what has ended long ago, and for the marks of
//! an operator.
//!
//! A producer of its own, idempotent, without a transactional id: it fences nobody and nobody fences it. What was written is durable on all replicas
//! in sync when [`settle`](Writer::settle) has answered.

use std::time::Duration;

use walpost_core::failure::{Class, Failure};
use walpost_core::port::{Delivery, Refusal, Sink as _, Ticket};
use walpost_core::record::Record;

use super::reader::beside_the_loop;
use crate::producer::Producer;
use crate::settings::Settings;

/// How long records may take that a command of an operator waits for at its end.
const CLOSE: Duration = Duration::from_secs(2);

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Writer {
    settings: Settings,
    producer: Option<Producer>,
    /// The next number, the first of those that are owed, and how many of them were reported.
    next: u64,
    first: u64,
    reported: u64,
    deliveries: Vec<Delivery>,
}

impl Writer {
    /// Connects when it is first used.
    pub(super) fn new(settings: Settings) -> Self {
        Self { settings, producer: None, next: 0, first: 0, reported: 0, deliveries: Vec::new() }
    }

    /// Hands a record over, as soon as there is room for it.
    ///
    /// # Errors
    /// It, or one before it, cannot be written; nobody knows what became of the others since the last settlement.
    pub(super) async fn write(&mut self, record: &Record) -> Result<(), Failure> {
        let ticket = Ticket(self.next);
        loop {
            match self.producer()?.publish(ticket, record) {
                Ok(()) => {
                    self.next += 1;
                    return Ok(());
                }
                Err(Refusal::Full) => self.take_reports().await?,
                Err(Refusal::Failed(failure)) => return Err(self.give_up(failure).await),
            }
        }
    }

    /// Waits until the brokers have everything.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub(super) async fn settle(&mut self) -> Result<(), Failure> {
        while self.reported < self.next - self.first {
            self.take_reports().await?;
        }
        (self.first, self.reported) = (self.next, 0);
        Ok(())
    }

    /// Forgets what a call that was dropped left behind.
    pub(super) fn begin(&mut self) {
        (self.first, self.reported) = (self.next, 0);
    }

    /// Ends in order, after everything was settled.
    pub(super) async fn close(mut self) {
        if let Some(producer) = self.producer.take() {
            producer.close(CLOSE).await;
        }
    }

    async fn take_reports(&mut self) -> Result<(), Failure> {
        let mut deliveries = std::mem::take(&mut self.deliveries);
        let producer = self.producer()?;
        producer.next_deliveries(&mut deliveries).await;
        let verdict = producer.verdict();
        let (first, mut failed) = (self.first, None);
        for Delivery { outcome, .. } in deliveries.drain(..).filter(|delivery| delivery.ticket.0 >= first) {
            self.reported += 1;
            // The first of them is why; those behind it were taken back.
            failed = failed.or(outcome.err());
        }
        self.deliveries = deliveries;
        match failed.or(verdict) {
            Some(failure) => Err(self.give_up(failure).await),
            None => Ok(()),
        }
    }

    /// After a failure nothing more is accepted until the producer is made anew.
    async fn give_up(&mut self, failure: Failure) -> Failure {
        let reset = match &mut self.producer {
            Some(producer) => producer.reset().await,
            None => Ok(()),
        };
        if reset.is_err() {
            self.drop_producer();
        }
        self.begin();
        failure
    }

    fn producer(&mut self) -> Result<&mut Producer, Failure> {
        Ok(match &mut self.producer {
            Some(producer) => producer,
            none => none.insert(Producer::new(self.settings.clone())?),
        })
    }

    fn drop_producer(&mut self) {
        if let Some(producer) = self.producer.take() {
            beside_the_loop(move || drop(producer));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.drop_producer();
    }
}

/// Why the topic of letters did not take a record: no row is at fault, and no dead letter helps.
pub(crate) fn letter_failure(failure: Failure, topic: &str) -> Failure {
    match failure.class {
        Class::Row | Class::Route => Failure::new(
            Class::Configuration,
            format!("{failure}; to see what topic \"{topic}\" has to be like, run: walpost check"),
        ),
        Class::Sink | Class::Withdrawn | Class::Configuration => failure,
    }
}
