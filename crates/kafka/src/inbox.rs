//! Delivery reports on their way from the client's thread to the relay's.
//!
//! A report costs no allocation unless the record failed, and wakes the relay only if it had taken all earlier ones.

use std::sync::{Mutex, PoisonError};

use rdkafka::types::RDKafkaErrorCode;
use tokio::sync::Notify;

use crate::classify::Undelivered;

/// What librdkafka said about one record.
#[derive(Debug)]
pub(crate) struct Report {
    /// The number of its ticket.
    pub(crate) ticket: usize,
    pub(crate) outcome: Result<(), Box<Loss>>,
}

/// Why a record was not delivered, with what the reason needs of the record.
#[derive(Debug)]
pub(crate) struct Loss {
    pub(crate) code: RDKafkaErrorCode,
    pub(crate) topic: String,
    pub(crate) size: usize,
    pub(crate) partition: Option<i32>,
}

impl Loss {
    pub(crate) fn record(&self) -> Undelivered<'_> {
        Undelivered { topic: &self.topic, size: self.size, partition: self.partition }
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

    /// Moves all reports behind those in `into`, and answers how many they were.
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

    fn report(ticket: usize) -> Report {
        Report { ticket, outcome: Ok(()) }
    }

    fn tickets(reports: &[Report]) -> Vec<usize> {
        reports.iter().map(|report| report.ticket).collect()
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
