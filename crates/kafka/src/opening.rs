//! Partitions to which this client has not written yet: nothing follows its first record there before that is acknowledged.
//!
//! A broker knows the order of a producer's batches by their numbers, for each partition. Of a producer that it does not know there, or knows no more,
//! it takes a batch of any number for the first (KIP-360; `ProducerAppendInfo.checkSequence`). So where the very first batch is refused, one behind it
//! that is on its way already may be taken. If the refusal is for good, a row has overtaken the one in front of it. If it is for the moment, as with too few
//! replicas in step, librdkafka even takes the first for delivered, since what stands behind it was (`rd_kafka_dr_implicit_ack`), and it is lost.
//! Once the broker has taken one batch it holds every later one against it. That lasts as long as the client: librdkafka asks for another producer id only after a
//! failure that ends this client here too, and of one whose epoch it raised itself a broker that knew the old one takes number 0 alone.
//!
//! It costs one round trip for each partition, `linger.ms` with it, and a few comparisons for each record once they are open.
//!
//! Where a record goes is decided here, so that a topic that grows has no partition that librdkafka knows before we do. How many there are is asked
//! for with the first record, and again as often as librdkafka asks. Until it is known, one record of the topic is on its way at a time: to brokers
//! that are away or a topic that does not exist too, of which librdkafka then says what it always says.
//!
//! Not for transactions. There a refusal for good takes all with it, and against the other kind brokers guard by themselves, since 3.6 (KIP-890).
//!
//! Not seen is that a topic was deleted and made again while nothing was published to it, and that brokers were told to forget producers sooner than
//! after [`FORGET`].

mod counts;
mod topic;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use rdkafka::producer::ThreadedProducer;
use tokio::time::Instant;
use walpost_core::port::Ticket;
use walpost_core::record::Record;

use crate::context::Context;
use crate::inbox::Report;
use crate::partitioner::Partitioner;
use crate::settings::Settings;

use counts::Counts;
use topic::Topic;

/// After how long every partition counts as new. Brokers forget a producer that was silent for `producer.id.expiration.ms`, a day by default.
const FORGET: Duration = Duration::from_hours(6);

/// How many topics are found by the address of their name alone. The router gives the same name for the same value.
const RECENT: usize = 64;

/// What becomes of a record that is offered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Admission {
    /// It may go to this partition, or wherever the client likes.
    Go(Option<usize>),
    /// It may go, as the first.
    First(First),
    /// A first record is awaited.
    Wait,
}

/// The first record for a partition; where it cannot be told which, for all of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct First {
    topic: usize,
    partition: Option<usize>,
}

impl First {
    pub(crate) fn partition(self) -> Option<usize> {
        self.partition
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Opening {
    /// `None` where nothing is awaited.
    partitioner: Option<Partitioner>,
    recount: Option<Duration>,
    topics: Vec<Topic>,
    numbers: HashMap<Arc<str>, usize>,
    recent: Vec<Option<(Arc<str>, usize)>>,
    /// First records that are on their way.
    firsts: HashMap<Ticket, First>,
    counts: Counts,
    /// Counts up whenever the numbers of partitions are to be asked for again, of each topic with its next record.
    round: u32,
    recount_at: Option<Instant>,
    forget_at: Instant,
}

impl Opening {
    pub(crate) fn new(settings: &Settings) -> Self {
        let partitioner = (!settings.is_transactional()).then(|| Partitioner::of(settings));
        Self::of(partitioner, settings.metadata_refresh())
    }

    fn of(partitioner: Option<Partitioner>, recount: Option<Duration>) -> Self {
        let now = Instant::now();
        Self {
            partitioner,
            recount,
            topics: Vec::new(),
            numbers: HashMap::new(),
            recent: vec![None; RECENT],
            firsts: HashMap::new(),
            counts: Counts::default(),
            round: 0,
            recount_at: recount.map(|recount| now + recount),
            forget_at: now + FORGET,
        }
    }

    /// There is another client, which has written nothing yet.
    pub(crate) fn renew(&mut self) {
        *self = Self::of(self.partitioner, self.recount);
    }

    /// Takes note of the time: whenever reports are taken, and before a record is offered that has none on its way in front of it.
    pub(crate) fn tend(&mut self, now: Instant) {
        if now >= self.forget_at && self.firsts.is_empty() {
            self.renew();
        }
        if let Some((at, recount)) = self.recount_at.zip(self.recount)
            && now >= at
        {
            self.round = self.round.wrapping_add(1);
            self.recount_at = Some(now + recount);
        }
    }

    /// What becomes of a record that is offered now.
    pub(crate) fn admit(&mut self, record: &Record) -> Admission {
        let Some(partitioner) = self.partitioner else { return Admission::Go(None) };
        self.take_answers();
        let number = self.number_of(&record.topic);
        let Some(topic) = self.topics.get_mut(number) else { return Admission::Go(None) };
        if topic.joins(self.round) {
            self.counts.note(number, topic.name());
        }
        let partition = match (record.partition, &record.key, topic.count()) {
            // Below zero there is none, as beyond the last one.
            (Some(asked), ..) => Some(usize::try_from(asked).unwrap_or(usize::MAX)),
            (None, Some(key), Some(count)) => partitioner.partition(key, count),
            (None, ..) => None,
        };
        topic.admit(partition)
    }

    /// The client has taken a record that was admitted as the first.
    pub(crate) fn sent(&mut self, ticket: Ticket, first: First) {
        let Some(topic) = self.topics.get_mut(first.topic) else { return };
        topic.sent(first.partition);
        if first.partition.is_none() && topic.asks() {
            self.counts.note(first.topic, topic.name());
        }
        self.firsts.insert(ticket, first);
    }

    /// Brokers have reported.
    pub(crate) fn reported(&mut self, reports: &[Report]) {
        if self.firsts.is_empty() {
            return;
        }
        for report in reports {
            let Some(first) = self.firsts.remove(&report.ticket) else { continue };
            let partition = usize::try_from(report.partition).ok().filter(|_| report.outcome.is_ok());
            if let Some(topic) = self.topics.get_mut(first.topic) {
                topic.reported(first.partition, partition);
            }
        }
    }

    /// The client knows a topic otherwise than we do, or no more.
    pub(crate) fn forget(&mut self, topic: &Arc<str>) {
        let number = self.number_of(topic);
        if let Some(topic) = self.topics.get_mut(number) {
            topic.forget();
        }
    }

    /// Asks what is not known.
    pub(crate) fn ask(&mut self, client: &ThreadedProducer<Context>) {
        self.counts.ask(client);
    }

    fn take_answers(&mut self) {
        while let Some((number, count)) = self.counts.next() {
            if let Some(topic) = self.topics.get_mut(number) {
                topic.answered(count, self.round);
            }
        }
    }

    fn number_of(&mut self, topic: &Arc<str>) -> usize {
        // Allocations stand at multiples of 16 mostly.
        let place = Arc::as_ptr(topic).cast::<u8>().addr() / 16 % RECENT;
        if let Some(Some((known, number))) = self.recent.get(place)
            && Arc::ptr_eq(known, topic)
        {
            return *number;
        }
        let number = self.numbers.get(topic).copied().unwrap_or_else(|| {
            let number = self.topics.len();
            self.topics.push(Topic::new(number, Arc::clone(topic), self.round));
            self.numbers.insert(Arc::clone(topic), number);
            number
        });
        if let Some(recent) = self.recent.get_mut(place) {
            *recent = Some((Arc::clone(topic), number));
        }
        number
    }
}

#[cfg(test)]
mod tests;
