use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, PipeReader};
use std::pin::pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Poll;

use bytes::Bytes;

use super::*;
use crate::sink::line::tests::record;

const PATIENCE: Duration = Duration::from_secs(20);

/// A record whose ordinal is the number of its ticket.
fn numbered(number: u64) -> Record {
    let mut record = record();
    record.identity.ordinal = number;
    record
}

fn publish(sink: &mut Stdout, numbers: std::ops::Range<u64>) {
    for number in numbers {
        sink.publish(Ticket(number), &numbered(number)).unwrap();
    }
}

/// Publishes until the queue is full, and returns how many were accepted.
fn fill(sink: &mut Stdout) -> u64 {
    let mut accepted = 0;
    loop {
        match sink.publish(Ticket(accepted), &numbered(accepted)) {
            Ok(()) => accepted += 1,
            Err(refusal) => {
                assert_eq!(refusal, Refusal::Full);
                return accepted;
            }
        }
    }
}

/// Waits for so many deliveries.
async fn deliveries(sink: &mut Stdout, count: usize) -> Vec<Delivery> {
    let mut deliveries = Vec::new();
    while deliveries.len() < count {
        tokio::time::timeout(PATIENCE, sink.next_deliveries(&mut deliveries)).await.expect("no delivery in time");
    }
    assert_eq!(deliveries.len(), count);
    deliveries
}

/// Whether nothing is reported as things are.
async fn is_silent(sink: &mut Stdout) -> bool {
    let mut reported = Vec::new();
    let mut next = pin!(sink.next_deliveries(&mut reported));
    std::future::poll_fn(|context| Poll::Ready(next.as_mut().poll(context).is_pending())).await
}

fn ordinals(lines: &[String]) -> Vec<u64> {
    let ordinal = |line: &String| {
        let line: serde_json::Value = serde_json::from_str(line).unwrap();
        line["position"]["ordinal"].as_u64().unwrap()
    };
    lines.iter().map(ordinal).collect()
}

/// Reads everything that comes until the writer is gone.
fn reading(output: PipeReader) -> std::thread::JoinHandle<Vec<String>> {
    std::thread::spawn(move || BufReader::new(output).lines().map(Result::unwrap).collect())
}

#[tokio::test]
async fn lines_come_out_whole_and_in_the_order_of_publishing() {
    let (reader, writer) = io::pipe().unwrap();
    let reader = reading(reader);
    let mut sink = Stdout::into_writer(writer, 10_000, 1 << 30).unwrap();
    publish(&mut sink, 0..5000);
    let deliveries = deliveries(&mut sink, 5000).await;
    for (number, delivery) in (0..5000).zip(&deliveries) {
        assert_eq!(*delivery, Delivery { ticket: Ticket(number), outcome: Ok(()) });
    }
    drop(sink);
    assert_eq!(ordinals(&reader.join().unwrap()), (0..5000).collect::<Vec<_>>());
}

/// A writer that says when it is asked to flush, and does so when it is let.
struct Gate {
    asked: Sender<()>,
    let_through: Receiver<()>,
}

impl Write for Gate {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.asked.send(()).unwrap();
        self.let_through.recv().map_err(io::Error::other)
    }
}

#[tokio::test]
async fn a_line_settles_once_it_is_flushed_and_not_before() {
    let (asked, was_asked) = channel();
    let (open, let_through) = channel();
    let mut sink = Stdout::into_writer(Gate { asked, let_through }, 10, 1 << 20).unwrap();
    publish(&mut sink, 0..1);
    was_asked.recv_timeout(PATIENCE).unwrap();
    assert!(is_silent(&mut sink).await);
    open.send(()).unwrap();
    assert_eq!(deliveries(&mut sink, 1).await, [Delivery { ticket: Ticket(0), outcome: Ok(()) }]);
}

#[tokio::test]
async fn what_piled_up_during_a_flush_is_flushed_once() {
    let (asked, was_asked) = channel();
    let (open, let_through) = channel();
    let mut sink = Stdout::into_writer(Gate { asked, let_through }, 100, 1 << 20).unwrap();
    publish(&mut sink, 0..1);
    was_asked.recv_timeout(PATIENCE).unwrap();
    publish(&mut sink, 1..100);
    open.send(()).unwrap();
    open.send(()).unwrap();
    deliveries(&mut sink, 100).await;
    assert_eq!(was_asked.try_iter().count(), 1);
}

#[tokio::test]
async fn a_closed_pipe_fails_what_is_out_and_what_comes_after() {
    let (reader, writer) = io::pipe().unwrap();
    drop(reader);
    let mut sink = Stdout::into_writer(writer, 10, 1 << 20).unwrap();
    publish(&mut sink, 0..1);
    let [Delivery { ticket: Ticket(0), outcome: Err(failure) }] = &deliveries(&mut sink, 1).await[..] else {
        panic!("the record was not failed");
    };
    assert_eq!(failure.class, Class::Configuration);
    assert!(failure.reason.contains("closed by whoever read it"), "{failure}");
    let refusal = sink.publish(Ticket(1), &record()).unwrap_err();
    assert_eq!(refusal, Refusal::Failed(failure.clone()));
    assert_eq!(sink.reset().await, Err(failure.clone()));
    assert!(is_silent(&mut sink).await, "a record was reported twice");
}

#[tokio::test]
async fn a_pipe_that_is_closed_while_it_stalls_fails_all_that_is_out() {
    let (reader, writer) = io::pipe().unwrap();
    let mut sink = Stdout::into_writer(writer, 5000, 1 << 30).unwrap();
    let accepted = fill(&mut sink);
    drop(reader);
    let deliveries = deliveries(&mut sink, usize::try_from(accepted).unwrap()).await;
    let failed: BTreeSet<_> =
        deliveries.iter().filter(|delivery| delivery.outcome.is_err()).map(|delivery| delivery.ticket.0).collect();
    // What a batch of its own put into the pipe has been delivered, as far as anyone can tell; a pipe holds some hundred lines.
    let first = *failed.first().unwrap();
    assert!(first < 1000, "{first}");
    assert_eq!(failed, (first..accepted).collect(), "a record was delivered after a failed one");
}

#[tokio::test]
async fn a_pipe_that_nobody_reads_fills_the_queue_and_loses_nothing() {
    for (max_records, max_bytes) in [(3000, usize::MAX), (usize::MAX, 1 << 20)] {
        let (reader, writer) = io::pipe().unwrap();
        let mut sink = Stdout::into_writer(writer, max_records, max_bytes).unwrap();
        let accepted = fill(&mut sink);
        assert!(sink.shared.lock().unsettled_bytes <= max_bytes);
        let reader = reading(reader);
        let deliveries = deliveries(&mut sink, usize::try_from(accepted).unwrap()).await;
        assert!(deliveries.iter().all(|delivery| delivery.outcome.is_ok()));
        drop(sink);
        assert_eq!(ordinals(&reader.join().unwrap()), (0..accepted).collect::<Vec<_>>());
    }
}

/// A writer that stalls at one write until it is let on.
struct Valve {
    calls: usize,
    stalls_at: usize,
    stalled: Sender<()>,
    let_on: Receiver<()>,
    output: Arc<Mutex<Vec<u8>>>,
}

impl Write for Valve {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.calls += 1;
        if self.calls == self.stalls_at {
            self.stalled.send(()).unwrap();
            self.let_on.recv().map_err(io::Error::other)?;
        }
        self.output.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A sink whose writer stalls at one write.
struct Valved {
    sink: Stdout,
    has_stalled: Receiver<()>,
    on: Sender<()>,
    output: Arc<Mutex<Vec<u8>>>,
}

fn valved(stalls_at: usize, max_records: usize, max_bytes: usize) -> Valved {
    let (stalled, has_stalled) = channel();
    let (on, let_on) = channel();
    let output = Arc::new(Mutex::new(Vec::new()));
    let valve = Valve { calls: 0, stalls_at, stalled, let_on, output: Arc::clone(&output) };
    let sink = Stdout::into_writer(valve, max_records, max_bytes).unwrap();
    Valved { sink, has_stalled, on, output }
}

fn lines(output: &Mutex<Vec<u8>>) -> Vec<String> {
    String::from_utf8(output.lock().unwrap().clone()).unwrap().lines().map(str::to_owned).collect()
}

#[tokio::test]
async fn a_stalled_writer_makes_the_queue_full_and_blocks_nobody() {
    let Valved { mut sink, has_stalled, on, output } = valved(1, 100, usize::MAX);
    publish(&mut sink, 0..1);
    has_stalled.recv_timeout(PATIENCE).unwrap();
    publish(&mut sink, 1..100);
    assert_eq!(sink.publish(Ticket(100), &record()), Err(Refusal::Full));
    assert!(is_silent(&mut sink).await);
    on.send(()).unwrap();
    deliveries(&mut sink, 100).await;
    publish(&mut sink, 100..101);
    deliveries(&mut sink, 1).await;
    assert_eq!(ordinals(&lines(&output)), (0..101).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_reset_gives_back_what_is_not_written_and_each_record_is_reported_once() {
    // At the first write one line is on its way out, at the second the first chunk of all the others.
    for stalls_at in [1, 2] {
        let Valved { mut sink, has_stalled, on, output } = valved(stalls_at, 5000, usize::MAX);
        publish(&mut sink, 0..1);
        let mut settled = if stalls_at == 1 { Vec::new() } else { deliveries(&mut sink, 1).await };
        publish(&mut sink, 1..5000);
        has_stalled.recv_timeout(PATIENCE).unwrap();
        {
            let mut reset = pin!(sink.reset());
            let first = std::future::poll_fn(|context| Poll::Ready(reset.as_mut().poll(context))).await;
            assert_eq!(first, Poll::Pending, "what is being written was given up");
        }
        assert_eq!(sink.publish(Ticket(5000), &record()), Err(Refusal::Full), "accepted during a reset");
        on.send(()).unwrap();
        tokio::time::timeout(PATIENCE, sink.reset()).await.unwrap().unwrap();
        publish(&mut sink, 9000..9001);
        let missing = 5001 - settled.len();
        settled.extend(deliveries(&mut sink, missing).await);

        let tickets: BTreeSet<_> = settled.iter().map(|delivery| delivery.ticket).collect();
        assert_eq!(tickets.len(), 5001, "a record was reported twice");
        let (delivered, withdrawn): (Vec<_>, Vec<_>) = settled.iter().partition(|delivery| delivery.outcome.is_ok());
        let class = |delivery: &&Delivery| delivery.outcome.as_ref().unwrap_err().class;
        assert!(withdrawn.iter().all(|delivery| class(delivery) == Class::Withdrawn));
        assert!(withdrawn.len() > 4000, "{}", withdrawn.len());
        let mut delivered: Vec<_> = delivered.iter().map(|delivery| delivery.ticket.0).collect();
        delivered.sort_unstable();
        assert_eq!(ordinals(&lines(&output)), delivered, "what was written and what was reported differ");
    }
}

#[tokio::test]
async fn a_line_larger_than_the_whole_queue_goes_out_alone() {
    let huge = Record { value: Some(Bytes::from(vec![b'x'; 1 << 20])), ..record() };
    let Valved { mut sink, has_stalled, on, output } = valved(1, 10, 1000);
    sink.publish(Ticket(0), &huge).unwrap();
    has_stalled.recv_timeout(PATIENCE).unwrap();
    assert_eq!(sink.publish(Ticket(1), &record()), Err(Refusal::Full), "taken beside a huge line");
    on.send(()).unwrap();
    deliveries(&mut sink, 1).await;
    assert_eq!(lines(&output).len(), 1);

    let Valved { mut sink, has_stalled, on, output } = valved(1, 10, 1000);
    publish(&mut sink, 0..1);
    has_stalled.recv_timeout(PATIENCE).unwrap();
    assert_eq!(sink.publish(Ticket(1), &huge), Err(Refusal::Full), "a huge line was taken beside another");
    on.send(()).unwrap();
    deliveries(&mut sink, 1).await;
    sink.publish(Ticket(1), &huge).unwrap();
    deliveries(&mut sink, 1).await;
    assert_eq!(lines(&output).len(), 2);
}

#[tokio::test]
async fn closing_waits_for_what_is_out_but_not_longer_than_it_is_told() {
    let Valved { mut sink, has_stalled, on, output } = valved(1, 100, usize::MAX);
    publish(&mut sink, 0..1);
    has_stalled.recv_timeout(PATIENCE).unwrap();
    publish(&mut sink, 1..9);
    assert_eq!(sink.close(Duration::from_millis(10)).await, [], "a stalled line was reported");
    on.send(()).unwrap();

    let Valved { mut sink, has_stalled, on, .. } = valved(1, 100, usize::MAX);
    publish(&mut sink, 0..1);
    has_stalled.recv_timeout(PATIENCE).unwrap();
    publish(&mut sink, 1..9);
    on.send(()).unwrap();
    assert_eq!(sink.close(PATIENCE).await.len(), 9);
    assert!(ordinals(&lines(&output)).len() <= 1, "a line was written after its sink was dropped");
}

/// A writer that takes a few bytes at a time and now and then none.
struct Hesitant {
    calls: usize,
    output: Arc<Mutex<Vec<u8>>>,
}

impl Write for Hesitant {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.calls += 1;
        match self.calls % 7 {
            0 => Err(ErrorKind::Interrupted.into()),
            3 => Err(ErrorKind::WouldBlock.into()),
            _ => {
                let some = &bytes[..bytes.len().min(50)];
                self.output.lock().unwrap().extend_from_slice(some);
                Ok(some.len())
            }
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.calls += 1;
        if self.calls.is_multiple_of(2) { Err(ErrorKind::Interrupted.into()) } else { Ok(()) }
    }
}

#[tokio::test]
async fn short_interrupted_and_blocked_writes_neither_tear_nor_repeat_a_line() {
    let output = Arc::new(Mutex::new(Vec::new()));
    let mut sink = Stdout::into_writer(Hesitant { calls: 0, output: Arc::clone(&output) }, 100, 1 << 20).unwrap();
    publish(&mut sink, 0..20);
    assert!(deliveries(&mut sink, 20).await.iter().all(|delivery| delivery.outcome.is_ok()));
    let text = String::from_utf8(output.lock().unwrap().clone()).unwrap();
    let lines: Vec<_> = text.lines().map(str::to_owned).collect();
    assert_eq!(ordinals(&lines), (0..20).collect::<Vec<_>>());
}

/// A full disk.
struct Full;

impl Write for Full {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        Err(ErrorKind::StorageFull.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[tokio::test]
async fn any_other_error_ends_the_sink_with_its_reason() {
    let mut sink = Stdout::into_writer(Full, 100, 1 << 20).unwrap();
    publish(&mut sink, 0..1);
    let failure = deliveries(&mut sink, 1).await.remove(0).outcome.unwrap_err();
    assert_eq!(failure.class, Class::Configuration);
    assert!(failure.reason.contains("no storage space"), "{failure}");
}
