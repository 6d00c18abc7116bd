//! A sink that takes everything and keeps nothing: what the relay costs without a broker can be measured with it.

use std::future::pending;

use walpost_core::failure::Failure;
use walpost_core::port::{Delivery, Refusal, Sink, Ticket};
use walpost_core::record::Record;

/// Settles every record at once. How many may wait for [`next_deliveries`](Sink::next_deliveries) is the caller's own limit.
#[derive(Debug, Default)]
pub struct Null {
    settled: Vec<Ticket>,
}

impl Null {
    /// Answers what was not fetched before.
    pub(super) fn close(self) -> Vec<Delivery> {
        self.settled.into_iter().map(delivered).collect()
    }
}

fn delivered(ticket: Ticket) -> Delivery {
    Delivery { ticket, outcome: Ok(()) }
}

impl Sink for Null {
    fn publish(&mut self, ticket: Ticket, _: &Record) -> Result<(), Refusal> {
        self.settled.push(ticket);
        Ok(())
    }

    async fn next_deliveries(&mut self, into: &mut Vec<Delivery>) {
        if self.settled.is_empty() {
            // Only `publish` brings more, and it cannot be called while this borrows the sink.
            return pending().await;
        }
        into.extend(self.settled.drain(..).map(delivered));
    }

    async fn reset(&mut self) -> Result<(), Failure> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sink::line::tests::record;

    #[tokio::test]
    async fn what_is_published_is_settled_at_once_and_once() {
        let mut sink = Null::default();
        let mut deliveries = Vec::new();
        for number in 0..3 {
            sink.publish(Ticket(number), &record()).unwrap();
        }
        sink.reset().await.unwrap();
        sink.next_deliveries(&mut deliveries).await;
        let expected: Vec<_> = (0..3).map(|number| Delivery { ticket: Ticket(number), outcome: Ok(()) }).collect();
        assert_eq!(deliveries, expected);
        tokio::select! {
            biased;
            () = sink.next_deliveries(&mut deliveries) => panic!("there is nothing to report"),
            () = std::future::ready(()) => {}
        }
    }
}
