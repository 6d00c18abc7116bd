//! Delivery reports on their way from the client's thread to the relay's.
//!
//! A report costs no allocation unless the record failed, and wakes the relay only if it had taken all earlier ones.

use std::sync::{Mutex, PoisonError};

use rdkafka::types::RDKafkaErrorCode;
use tokio::sync::Notify;
use walpost_core::port::Ticket;

use crate::classify::Undelivered;

/// What the client carries for a record and gives back with its report.
///
/// Into the record itself the client writes the partition that its partitioner chose, so that there a partition that the row
/// asked for cannot be told from one that it did not. Nor does it know where a timestamp comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) ticket: Ticket,
    pub(crate) asks_for_partition: bool,
    pub(crate) is_dated_by_row: bool,
}

impl Tag {
    /// The last ticket that fits.
    pub(crate) const LAST: Ticket = Ticket((usize::MAX / 4) as u64);

    /// As a number that fits into a pointer; `None` once tickets have outgrown it.
    pub(crate) fn to_opaque(self) -> Option<usize> {
        let ticket = usize::try_from(self.ticket.0).ok()?;
        Some(ticket.checked_mul(4)? | usize::from(self.is_dated_by_row) << 1 | usize::from(self.asks_for_partition))
    }

    pub(crate) fn from_opaque(opaque: usize) -> Self {
        Self {
            ticket: Ticket((opaque / 4) as u64),
            asks_for_partition: opaque & 1 == 1,
            is_dated_by_row: opaque & 2 == 2,
        }
    }
}

/// What librdkafka said about one record.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) ticket: Ticket,
    /// Where it lies, or was to lie; below zero where nobody came to decide that.
    pub(crate) partition: i32,
    pub(crate) outcome: Result<(), Box<Loss>>,
}

/// Why a record was not delivered, with what the reason needs of the record.
#[derive(Debug)]
pub(crate) struct Loss {
    pub(crate) code: RDKafkaErrorCode,
    pub(crate) topic: String,
    pub(crate) size: usize,
    /// The partition that the row asked for, if it did.
    pub(crate) partition: Option<i32>,
    /// Whether the row brought its timestamp along.
    pub(crate) is_dated_by_row: bool,
}

impl Loss {
    pub(crate) fn record(&self) -> Undelivered<'_> {
        Undelivered {
            topic: &self.topic,
            size: self.size,
            partition: self.partition,
            // The client does not tell it of a record that failed (`rd_kafka_message_timestamp`).
            timestamp_ms: None,
            is_dated_by_row: self.is_dated_by_row,
        }
    }
}

/// The reports that nobody has taken yet, in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Inbox {
    reports: Mutex<Vec<Report>>,
    arrived: Notify,
}

impl Inbox {
    /// Puts a report in. Called by the client's thread.
    pub(crate) fn put(&self, report: Report) {
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        reports.push(report);
        let is_first = reports.len() == 1;
        drop(reports);
        if is_first {
            self.arrived.notify_one();
        }
    }

    /// Wakes whoever waits, though no report came.
    pub(crate) fn wake(&self) {
        self.arrived.notify_one();
    }

    /// Moves all reports after those in `into`, and answers how many they were.
    pub(crate) fn take(&self, into: &mut Vec<Report>) -> usize {
        let mut reports = self.reports.lock().unwrap_or_else(PoisonError::into_inner);
        let count = reports.len();
        if into.is_empty() {
            // The two buffers change places again and again, so neither is ever allocated anew.
            std::mem::swap(&mut *reports, into);
        } else {
            into.append(&mut reports);
        }
        count
    }

    /// Waits until something was put in, or [`wake`](Self::wake) was called, since the last wait. Cancel-safe.
    pub(crate) async fn arrived(&self) {
        self.arrived.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    fn report(ticket: u64) -> Report {
        Report { ticket: Ticket(ticket), partition: 0, outcome: Ok(()) }
    }

    fn tickets(reports: &[Report]) -> Vec<u64> {
        reports.iter().map(|report| report.ticket.0).collect()
    }

    #[test]
    fn a_tag_comes_back_as_it_was_given_or_is_refused() {
        let tag = |ticket, asks_for_partition, is_dated_by_row| Tag {
            ticket: Ticket(ticket),
            asks_for_partition,
            is_dated_by_row,
        };
        for (asks, dated) in [(false, false), (true, false), (false, true), (true, true)] {
            for ticket in [0, 1, 2, 3, Tag::LAST.0] {
                let tag = tag(ticket, asks, dated);
                assert_eq!(tag.to_opaque().map(Tag::from_opaque), Some(tag));
            }
        }
        assert_eq!(tag(Tag::LAST.0 + 1, false, false).to_opaque(), None);
    }

    #[tokio::test]
    async fn reports_come_out_once_and_in_order() {
        let inbox = Arc::new(Inbox::default());
        let putter = Arc::clone(&inbox);
        let thread = std::thread::spawn(move || (0..10_000).for_each(|ticket| putter.put(report(ticket))));
        let mut taken = Vec::new();
        while taken.len() < 10_000 {
            inbox.arrived().await;
            inbox.take(&mut taken);
        }
        thread.join().unwrap();
        assert_eq!(tickets(&taken), (0..10_000).collect::<Vec<_>>());
        assert_eq!(inbox.take(&mut taken), 0);
    }

    #[tokio::test]
    async fn a_wait_that_was_given_up_loses_no_report() {
        let inbox = Inbox::default();
        {
            let wait = inbox.arrived();
            tokio::pin!(wait);
            assert!(futures_poll_once(wait.as_mut()).await.is_none());
            inbox.put(report(1));
        }
        inbox.arrived().await;
        let mut taken = Vec::new();
        assert_eq!(inbox.take(&mut taken), 1);
    }

    async fn futures_poll_once<F: Future + Unpin>(mut future: F) -> Option<F::Output> {
        use std::pin::Pin;
        use std::task::Poll;
        std::future::poll_fn(|context| match Pin::new(&mut future).poll(context) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => Poll::Ready(None),
        })
        .await
    }
}
