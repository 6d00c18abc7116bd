//! Connections of the relay that are cut, stalled, slow, half-open or refused, and answers that are lost.

use super::{Blow, LIMIT, Stops, stand_still};
use crate::chaos::clock::let_pass;
use crate::chaos::{Error, Run, Step, Store};
use crate::proxy::{Cut, Direction, Exchanges, Proxy};
use crate::servers::wait_until;

/// A cut comes behind one of so many bytes of what the servers send; clients say less.
const BYTES_TO_CLIENT: u32 = 400_000;
const BYTES_TO_SERVER: u32 = 300;
/// The slowest and the fastest of slow connections, in bytes a second.
const SLOW: std::ops::Range<u32> = 20_000..300_000;

fn is_source(step: &Step) -> bool {
    step.fault.name().starts_with("source")
}

fn stops(step: &Step) -> Stops {
    if is_source(step) { Stops::Log } else { Stops::Everything }
}

fn proxy<'a>(run: &'a Run, step: &Step) -> &'a Proxy {
    if is_source(step) { &run.stage.source } else { &run.stage.broker }
}

fn cut_of(step: &Step) -> Cut {
    if step.dice & 1 == 0 { Cut::Reset } else { Cut::Close }
}

/// To the broker goes what is large, and from PostgreSQL comes it.
pub(super) fn cut(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    let direction = if step.dice & 2 == 0 { Direction::ToClient } else { Direction::ToServer };
    let carries_rows = (direction == Direction::ToClient) == is_source(step);
    let within = if carries_rows { BYTES_TO_CLIENT } else { BYTES_TO_SERVER };
    let (bytes, cut) = (step.dice.checked_rem(within).unwrap_or(0) + 1, cut_of(step));
    let proxy = proxy(run, step);
    let (owed, accepted) = (run.aim()?, proxy.accepted());
    proxy.cut_after(direction, u64::from(bytes), cut);
    wait_until("the cut", LIMIT, || !proxy.is_cut_pending())?;
    let owed = owed.max(run.facts().owed());
    wait_until("another connection", LIMIT, || proxy.accepted() > accepted)?;
    Ok(Blow::new(true, owed, format!("{cut:?} behind byte {bytes} {direction:?}")))
}

pub(super) fn stall(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    let proxy = proxy(run, step);
    let open = proxy.open();
    proxy.stall();
    let still = stand_still(run, step.lasts, stops(step));
    proxy.pass();
    let facts = format!("{open} connections; {} rows committed, {} delivered", still.committed, still.delivered);
    Ok(Blow::new(open > 0 && still.delivered == 0, still.owed, facts))
}

pub(super) fn slow(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    let rate = SLOW.start + step.dice.checked_rem(SLOW.end - SLOW.start).unwrap_or(0);
    let (proxy, before) = (proxy(run, step), run.facts());
    let rows = if is_source(step) { Direction::ToClient } else { Direction::ToServer };
    let bytes = proxy.bytes(rows);
    proxy.slow(rate);
    let_pass(step.lasts);
    let (bytes, after) = (proxy.bytes(rows) - bytes, run.facts());
    proxy.pass();
    let owed = before.owed().max(after.owed());
    Ok(Blow::new(bytes > 0, owed, format!("{bytes} bytes came through at {rate} a second")))
}

pub(super) fn half_open(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    let proxy = proxy(run, step);
    let (open, accepted) = (proxy.open(), proxy.accepted());
    proxy.half_open();
    let still = stand_still(run, step.lasts, stops(step));
    proxy.pass();
    // Those that were half-open stay so; the relay has to find that out by itself.
    wait_until("another connection", LIMIT, || proxy.accepted() > accepted)?;
    let facts = format!("{open} connections; {} rows committed, {} delivered", still.committed, still.delivered);
    Ok(Blow::new(open > 0 && still.delivered == 0, still.owed, facts))
}

pub(super) fn refuse(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    let proxy = proxy(run, step);
    let open = proxy.open();
    proxy.refuse();
    proxy.cut(cut_of(step));
    let still = stand_still(run, step.lasts, stops(step));
    let accepted = proxy.accepted();
    proxy.pass();
    wait_until("another connection", LIMIT, || proxy.accepted() > accepted)?;
    let facts = format!("{open} connections; {} rows committed, {} delivered", still.committed, still.delivered);
    Ok(Blow::new(open > 0 && still.delivered == 0, still.owed, facts))
}

/// What the broker took while nobody heard of it, and the answers that nobody heard.
struct Silence {
    /// Records, with the marks of transactions.
    taken: i64,
    unheard: Exchanges,
    heard_bytes: u64,
    /// Rows that are owed at its end.
    owed: i64,
}

impl Silence {
    /// Whether somebody missed what was lost. A transaction waits for more answers than those to its records: one that is lost may be in front of them,
    /// and then the broker takes none.
    fn is_missed(&self, run: &Run) -> bool {
        self.unheard.count() > 0 && (self.taken > 0 || run.stage.store == Store::Kafka)
    }

    fn facts(&self, asked: &Exchanges) -> String {
        let Self { taken, unheard, heard_bytes, .. } = self;
        format!("{taken} records taken, {heard_bytes} bytes heard; answers lost: {unheard}; asked afterwards: {asked}")
    }
}

fn mute(run: &Run, step: &Step) -> Result<Silence, Error> {
    let broker = &run.stage.broker;
    run.aim()?;
    let (records, heard, kept_back) = (run.reader.taken(), broker.bytes(Direction::ToClient), broker.kept_back());
    broker.mute();
    let_pass(step.lasts);
    run.reader.read_to_end(LIMIT)?;
    Ok(Silence {
        taken: run.reader.taken() - records,
        unheard: broker.kept_back().since(&kept_back),
        // What was under way when it began may still have been heard.
        heard_bytes: broker.bytes(Direction::ToClient) - heard,
        owed: run.facts().owed(),
    })
}

/// Loses the answers for good, and waits until somebody asks again.
fn lose(run: &Run) -> Result<Exchanges, Error> {
    let broker = &run.stage.broker;
    let before = broker.asked();
    broker.cut(Cut::Reset);
    broker.pass();
    wait_until("a request to publish on another connection", LIMIT, || broker.asked().count() > before.count())?;
    Ok(broker.asked().since(&before))
}

pub(super) fn lose_answers(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    let silence = mute(run, step)?;
    let asked = lose(run)?;
    Ok(Blow::new(silence.is_missed(run), silence.owed, silence.facts(&asked)))
}

pub(super) fn lose_answers_and_relay(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    let silence = mute(run, step)?;
    run.supervisor.hold();
    let death = run.supervisor.kill(step.fault.name())?;
    run.supervisor.release();
    let asked = lose(run)?;
    run.supervisor.wait_until_running()?;
    let is_done = silence.is_missed(run) && death.code.is_none();
    Ok(Blow::new(is_done, silence.owed, silence.facts(&asked)))
}
