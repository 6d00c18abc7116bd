//! The sink: records go into librdkafka's queue, and one report comes back for each.
//!
//! `ThreadedProducer` rather than `FutureProducer`, whose sends overtake each other when the queue is full. A record's
//! ticket travels as its opaque pointer, so nothing is allocated for it.
//!
//! Order before speed: the client is gapless, so a record that the broker refuses takes with it all that stand after it,
//! and after the first failed report nothing more is accepted until [`reset`](walpost_core::port::Sink::reset). What
//! librdkafka can survive by itself (brokers going away, leaders moving) it retries for ever and in order.

use std::time::Duration;

use rdkafka::config::FromClientConfigAndContext;
use rdkafka::error::KafkaError;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _, PurgeConfig, ThreadedProducer};
use rdkafka::types::RDKafkaErrorCode as Code;
use tokio::time::{Instant, sleep_until, timeout_at};
use tracing::{debug, warn};
use walpost_core::failure::{Class, Failure};
use walpost_core::port::{Delivery, Refusal, Sink, Ticket};
use walpost_core::record::Record;

use crate::classify::{self, Undelivered};
use crate::context::Context;
use crate::inbox::{Report, Tag};
use crate::opening::{Admission, First, Opening};
use crate::pulse::Pulse;
use crate::settings::Settings;

/// How long a reset waits for answers to what is on the wire already. Each that comes is a record that is not repeated.
const GRACE: Duration = Duration::from_secs(2);

/// How long a reset may take altogether.
const RESET_LIMIT: Duration = Duration::from_secs(30);

/// How long to wait for reports before purging again: a request that the broker answers late goes back into the queue.
const PURGE_AGAIN: Duration = Duration::from_secs(1);

/// How long a report may wait for others. Taken one by one, each would cost a wake-up, and that is more than the record did.
const GATHER: Duration = Duration::from_millis(1);

/// How long closing may take beyond the time that it was given, for the threads of the client to end.
const LAST_BREATH: Duration = Duration::from_secs(5);

/// A Kafka producer that acknowledges record by record.
///
/// Close it with [`close`](Self::close): dropping it gives up what is on its way and blocks for up to a second.
pub struct Producer {
    settings: Settings,
    pub(crate) client: ThreadedProducer<Context>,
    /// Records that the client accepted and whose reports were not taken out of the inbox yet.
    pub(crate) outstanding: usize,
    /// Reports that were taken out of the inbox and not handed over yet.
    pub(crate) reports: Vec<Report>,
    /// When the reports in the inbox are worth taking; `None` while it may be empty.
    ripe_at: Option<Instant>,
    pulse: Pulse,
    opening: Box<Opening>,
    /// The record that was accepted last and its timestamp: of one that is sent alone, its own.
    last: Option<(Ticket, i64)>,
    /// Whether everything was called back because no broker will have us.
    is_recalled: bool,
    /// Whether that was said while there was nothing to call back.
    is_told: bool,
}

impl std::fmt::Debug for Producer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Producer")
            .field("settings", &self.settings)
            .field("outstanding", &self.outstanding)
            .finish_non_exhaustive()
    }
}

impl Producer {
    /// Makes a producer. It connects by itself, in the background, so a broker that is away is no error here.
    ///
    /// # Errors
    /// librdkafka refuses the settings as a whole, or cannot read a file that they name; the class is `Configuration`.
    pub fn new(settings: Settings) -> Result<Self, Failure> {
        let client = connect(&settings, Context::default())?;
        Ok(Self {
            opening: Box::new(Opening::new(&settings)),
            settings,
            client,
            outstanding: 0,
            reports: Vec::new(),
            ripe_at: None,
            pulse: Pulse::new(),
            last: None,
            is_recalled: false,
            is_told: false,
        })
    }

    /// Sends what is still queued, for at most `timeout`, and ends. What was not acknowledged by then comes back as
    /// withdrawn. Answers every report that was not handed over before.
    pub async fn close(mut self, timeout: Duration) -> Vec<Delivery> {
        // Whoever asks for it about topics would keep the client.
        self.opening.renew();
        let flushing = self.client.clone();
        let deadline = Instant::now() + timeout;
        let flush = tokio::task::spawn_blocking(move || flushing.flush(timeout));
        if !matches!(timeout_at(deadline + LAST_BREATH, flush).await, Ok(Ok(Ok(())))) {
            warn!("not everything could be delivered before the end; what is missing is sent after the next start");
        }
        let purged = self.purge(PurgeConfig::default().queue().inflight(), deadline + LAST_BREATH).await;
        if let Err(failure) = purged {
            warn!("{failure}");
        }
        self.collect_until(deadline + LAST_BREATH).await;
        let mut deliveries = Vec::new();
        self.hand_over(&mut deliveries);
        let client = self.client;
        let ended = tokio::task::spawn_blocking(move || drop(client));
        if timeout_at(deadline + 2 * LAST_BREATH, ended).await.is_err() {
            warn!("the Kafka client does not end; it is left behind");
        }
        deliveries
    }

    /// Takes all reports that have come out of the inbox.
    fn collect(&mut self) {
        let known = self.reports.len();
        let count = self.client.client().context().inbox().take(&mut self.reports);
        self.opening.reported(self.reports.get(known..).unwrap_or_default());
        self.opening.tend(Instant::now());
        self.outstanding = self.outstanding.saturating_sub(count);
    }

    /// Takes reports until none is outstanding or the deadline passes.
    pub(crate) async fn collect_until(&mut self, deadline: Instant) {
        self.collect();
        while self.outstanding > 0 {
            let inbox = self.client.client().context().inbox();
            if timeout_at(deadline, inbox.arrived()).await.is_err() {
                return;
            }
            self.collect();
        }
    }

    /// Turns the reports that were taken into deliveries.
    fn hand_over(&mut self, into: &mut Vec<Delivery>) {
        if self.reports.iter().any(|report| report.outcome.is_ok()) {
            self.pulse.heard();
        }
        let mut cause = None;
        let (client, last) = (&self.client, self.last);
        into.extend(self.reports.drain(..).map(|report| {
            let outcome = report.outcome.map_err(|loss| {
                let timestamp_ms = last.filter(|(ticket, _)| *ticket == report.ticket).map(|(_, ms)| ms);
                let record = Undelivered { timestamp_ms, ..loss.record() };
                match loss.code {
                    Code::PurgeQueue | Code::PurgeInflight | Code::Fatal => {
                        cause.get_or_insert_with(|| Cause::of(client)).failure(client, loss.code, &record)
                    }
                    code => client.client().context().failure(code, &record),
                }
            });
            Delivery { ticket: report.ticket, outcome }
        }));
    }

    /// Calls records back from the client. It answers once every thread of the client has given up what it held.
    async fn purge(&self, what: PurgeConfig, deadline: Instant) -> Result<(), Failure> {
        let client = self.client.clone();
        let purge = tokio::task::spawn_blocking(move || client.purge(what));
        match timeout_at(deadline, purge).await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(_)) | Err(_) => Err(Failure::new(
                Class::Sink,
                "the Kafka client does not give back the records that it holds; it is tried again",
            )),
        }
    }

    /// Calls everything back when no broker will have us, for nothing would ever be reported then.
    fn recall(&mut self) {
        if !self.is_recalled && self.outstanding > 0 && self.client.client().context().verdict().is_some() {
            self.is_recalled = true;
            let client = self.client.clone();
            tokio::task::spawn_blocking(move || client.purge(PurgeConfig::default().queue().inflight()));
        }
    }

    /// The client has accepted a record.
    fn taken(&mut self, ticket: Ticket, record: &Record, first: Option<First>) {
        self.outstanding += 1;
        self.last = Some((ticket, record.timestamp_ms));
        if let Some(first) = first {
            self.opening.sent(ticket, first);
        }
        self.opening.ask(&self.client);
        self.pulse.publishes_to(&record.topic);
    }

    /// The client has not accepted a record.
    fn refusal(&mut self, error: &KafkaError, record: &Record) -> Refusal {
        let about = undelivered(record);
        // The only error without a code is a NUL in the name of the topic.
        match error.rdkafka_error_code().unwrap_or(Code::InvalidTopic) {
            Code::QueueFull => Refusal::Full,
            Code::Fatal => Cause::of(&self.client).failure(&self.client, Code::Fatal, &about).into(),
            code => {
                if matches!(code, Code::UnknownTopic | Code::UnknownTopicOrPartition) {
                    // When it is back, it is another.
                    self.opening.forget(&record.topic);
                }
                self.client.client().context().failure(code, &about).into()
            }
        }
    }

    /// Why nothing is accepted now.
    fn shut_reason(&self, record: &Undelivered<'_>) -> Failure {
        self.client.client().context().verdict().unwrap_or_else(|| {
            Failure::new(
                Class::Withdrawn,
                format!("topic \"{}\": nothing is accepted after a record that failed; it is owed again", record.topic),
            )
        })
    }
}

impl Sink for Producer {
    /// Accepts a record. A timestamp of 0 becomes 1 ms, because librdkafka takes 0 for "now", and a repeat has to carry
    /// the same timestamp; a negative one is the row's fault, as it is for Kafka's Java client.
    fn publish(&mut self, ticket: Ticket, record: &Record) -> Result<(), Refusal> {
        let about = undelivered(record);
        if self.client.client().context().is_shut() {
            return Err(self.shut_reason(&about).into());
        }
        let mut message = message(ticket, record)?;
        if self.outstanding == 0 {
            self.opening.tend(Instant::now());
        }
        let (partition, first) = match self.opening.admit(record) {
            Admission::Go(partition) => (partition, None),
            Admission::First(first) => (first.partition(), Some(first)),
            Admission::Wait => return Err(Refusal::Full),
        };
        message.partition = partition.and_then(|partition| i32::try_from(partition).ok()).or(record.partition);
        let Err((error, _)) = self.client.send(message) else {
            self.taken(ticket, record, first);
            return Ok(());
        };
        let is_ours = partition.is_some() && record.partition.is_none();
        if is_ours && error.rdkafka_error_code() == Some(Code::UnknownPartition) {
            // The topic has fewer than it had. Told of none, the client chooses.
            self.opening.forget(&record.topic);
            return self.publish(ticket, record);
        }
        Err(self.refusal(&error, record))
    }

    async fn next_deliveries(&mut self, into: &mut Vec<Delivery>) {
        loop {
            if let Some(ripe_at) = self.ripe_at {
                sleep_until(ripe_at).await;
                self.ripe_at = None;
                self.collect();
            }
            if !self.reports.is_empty() {
                return self.hand_over(into);
            }
            self.recall();
            if self.outstanding == 0 && !self.is_told && self.verdict().is_some() {
                self.is_told = true;
                return;
            }
            let inbox = self.client.client().context().inbox();
            tokio::select! {
                () = inbox.arrived() => self.ripe_at = Some(Instant::now() + GATHER),
                () = self.pulse.beat(&self.client), if self.outstanding == 0 => {}
            }
        }
    }

    fn verdict(&self) -> Option<Failure> {
        self.client.client().context().verdict()
    }

    fn away(&self) -> Option<&str> {
        self.pulse.away()
    }

    /// Gives everything back and makes a new client from the same settings, in at most 30 s.
    ///
    /// What is queued is called back first; what is on the wire gets two seconds to be answered. A request that a broker
    /// received and did not answer in that time may still be written there: its records are reported as withdrawn and
    /// appear twice once they are sent again, which at-least-once allows, and their first appearances keep their order.
    async fn reset(&mut self) -> Result<(), Failure> {
        let deadline = Instant::now() + RESET_LIMIT;
        self.purge(PurgeConfig::default().queue(), deadline).await?;
        self.collect_until(Instant::now() + GRACE).await;
        while self.outstanding > 0 {
            self.purge(PurgeConfig::default().queue().inflight(), deadline).await?;
            self.collect_until(deadline.min(Instant::now() + PURGE_AGAIN)).await;
            if self.outstanding > 0 && Instant::now() >= deadline {
                let reason = format!("the Kafka client still holds {} records; it is tried again", self.outstanding);
                return Err(Failure::new(Class::Sink, reason));
            }
        }
        let settings = self.settings.clone();
        let context = self.client.client().context().successor();
        let fresh = timeout_at(deadline, tokio::task::spawn_blocking(move || connect(&settings, context))).await;
        let Ok(Ok(fresh)) = fresh else {
            return Err(Failure::new(Class::Sink, "the Kafka client cannot be made anew in time; it is tried again"));
        };
        let old = std::mem::replace(&mut self.client, fresh?);
        self.is_recalled = false;
        self.is_told = false;
        self.pulse.renew();
        self.opening.renew();
        tokio::task::spawn_blocking(move || drop(old));
        debug!("the Kafka client was made anew");
        Ok(())
    }
}

/// Why librdkafka gave records back that nobody asked for.
enum Cause {
    /// Another record failed, or the relay called them back.
    Other,
    /// No broker will have us.
    Verdict(Failure),
    /// The client is in a state that it cannot leave.
    Fatal(Code),
}

impl Cause {
    fn of(client: &ThreadedProducer<Context>) -> Self {
        if let Some(verdict) = client.client().context().verdict() {
            return Self::Verdict(verdict);
        }
        match client.client().fatal_error() {
            Some((code, _)) if code != Code::GaplessGuarantee => Self::Fatal(code),
            _ => Self::Other,
        }
    }

    fn failure(&self, client: &ThreadedProducer<Context>, code: Code, record: &Undelivered<'_>) -> Failure {
        match self {
            Self::Other => classify::failure(code, record),
            Self::Verdict(failure) => failure.clone(),
            Self::Fatal(fatal) => client.client().context().failure(*fatal, record),
        }
    }
}

fn connect(settings: &Settings, context: Context) -> Result<ThreadedProducer<Context>, Failure> {
    ThreadedProducer::from_config_and_context(&settings.client_config(), context)
        .map_err(|error| Failure::new(Class::Configuration, refusal_of_settings(&error)))
}

/// The sentence for settings that librdkafka refuses as a whole. The error's own text may hold a property's value.
pub(crate) fn refusal_of_settings(error: &KafkaError) -> String {
    match error {
        KafkaError::ClientConfig(_, _, name, _) => format!("librdkafka refuses the value of {name}; correct it"),
        KafkaError::ClientCreation(reason) => format!("librdkafka refuses the settings of the sink: {reason}"),
        error => format!("the Kafka client cannot be made: {error}"),
    }
}

fn undelivered(record: &Record) -> Undelivered<'_> {
    let length = |bytes: &Option<bytes::Bytes>| bytes.as_ref().map_or(0, bytes::Bytes::len);
    Undelivered {
        topic: &record.topic,
        size: length(&record.key) + length(&record.value),
        partition: record.partition,
        timestamp_ms: Some(record.timestamp_ms),
        is_dated_by_row: record.is_dated_by_row,
    }
}

/// The record as rdkafka wants it. It borrows key and value; librdkafka copies them once.
fn message(ticket: Ticket, record: &Record) -> Result<BaseRecord<'_, [u8], [u8], usize>, Failure> {
    let about = undelivered(record);
    if !is_legal_topic(&record.topic) {
        return Err(classify::failure(Code::InvalidTopic, &about));
    }
    if record.timestamp_ms < 0 {
        return Err(classify::before_1970(&about));
    }
    // On a 32-bit machine tickets could outgrow a pointer; it would take a billion records in one process.
    let is_dated_by_row = record.is_dated_by_row;
    let opaque = Tag { ticket, asks_for_partition: record.partition.is_some(), is_dated_by_row }
        .to_opaque()
        .ok_or_else(|| Failure::new(Class::Configuration, "the numbers of tickets are used up; start walpost again"))?;
    Ok(BaseRecord {
        topic: &record.topic,
        partition: record.partition,
        payload: record.value.as_deref(),
        key: record.key.as_deref(),
        timestamp: Some(record.timestamp_ms.max(1)),
        headers: headers(record),
        delivery_opaque: opaque,
    })
}

fn headers(record: &Record) -> Option<OwnedHeaders> {
    if record.headers.is_empty() {
        return None;
    }
    let none = OwnedHeaders::new_with_capacity(record.headers.len());
    Some(
        record
            .headers
            .iter()
            .fold(none, |headers, header| headers.insert(Header { key: &header.name, value: header.value.as_deref() })),
    )
}

/// Kafka's own rule (`org.apache.kafka.common.internals.Topic.validate`). A name that breaks it would poison the metadata
/// request that it shares with others.
pub(crate) fn is_legal_topic(name: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    (1..=249).contains(&name.len()) && name != "." && name != ".." && name.bytes().all(is_legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_topic_name_follows_kafkas_rule() {
        let longest = "a".repeat(249);
        for name in ["orders", "a", "A.b_c-9", "...", longest.as_str()] {
            assert!(is_legal_topic(name), "{name}");
        }
        let too_long = "a".repeat(250);
        for name in ["", ".", "..", "a b", "a/b", "ä", "a\0", too_long.as_str()] {
            assert!(!is_legal_topic(name), "{name:?}");
        }
    }
}
