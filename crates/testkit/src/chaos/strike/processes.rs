//! Processes that are killed, frozen, stopped and started.

use std::time::Duration;

use super::{Blow, LIMIT, Standstill, Stops, stand_still};
use crate::chaos::clock::{let_pass, now_ms};
use crate::chaos::stage::{IN_FLIGHT, SILENCE};
use crate::chaos::{Error, Fault, Run, Step};
use crate::checker::Window;
use crate::servers::{Identity, Signal, Stop};

/// A busy machine makes a sleep longer by so much.
const SLACK: Duration = Duration::from_millis(500);
/// How often a kill is tried that owes nothing.
const ATTEMPTS: u32 = 8;

/// Rows that were committed before the kill must be missing in the topics once all is read that the dead relay got there.
pub(super) fn kill_relay(run: &mut Run) -> Result<Blow, Error> {
    let mut owed = 0;
    for attempt in 1..=ATTEMPTS {
        run.supervisor.hold();
        run.aim()?;
        let committed = run.facts().committed;
        let death = run.supervisor.kill("relay-kill")?;
        run.reader.read_to_end(LIMIT)?;
        owed = run.owed_of(committed);
        run.supervisor.release();
        run.supervisor.wait_until_running()?;
        if owed > 0 {
            let facts = format!("killed at attempt {attempt}, {}; {owed} rows never left it", died(death.code));
            return Ok(Blow::new(death.code.is_none(), owed, facts));
        }
    }
    Ok(Blow::new(false, owed, format!("{ATTEMPTS} kills met a relay that owed nothing")))
}

fn died(code: Option<i32>) -> String {
    code.map_or_else(|| "by the signal".to_owned(), |code| format!("but it ended with {code}"))
}

pub(super) fn freeze_relay(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    let (pid, owed) = (run.supervisor.pid(), run.aim()?);
    run.supervisor.signal(Signal::Stop)?;
    if step.lasts + SLACK >= SILENCE {
        let (checkpoint_ms, crash_ms) = (run.supervisor.checkpoint_ms(), now_ms());
        let cause = step.fault.name().to_owned();
        run.sleeps.push(Window { cause, checkpoint_ms, crash_ms, most: Some(IN_FLIGHT), count: 0 });
    }
    let still = stand_still(run, step.lasts, Stops::Everything);
    run.supervisor.signal(Signal::Continue)?;
    let facts = format!("relay {pid:?}: {} rows committed, {} delivered", still.committed, still.delivered);
    Ok(Blow::new(still.delivered == 0 && pid.is_some(), owed.max(still.owed), facts))
}

pub(super) fn stop_relay(run: &mut Run) -> Result<Blow, Error> {
    let (before, owed) = (run.supervisor.pid(), run.aim()?);
    let death = run.supervisor.stop("relay-stop")?;
    run.supervisor.wait_until_running()?;
    let after = run.supervisor.pid();
    let facts = format!("{before:?} ended with {:?}, {after:?} went on", death.code);
    Ok(Blow::new(death.code == Some(0) && before != after, owed, facts))
}

pub(super) fn restart_broker(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    let (before, owed) = (pid_of(run.stage.kafka.identity()), run.aim()?);
    match step.fault {
        Fault::BrokerKill => run.stage.kafka.kill9()?,
        _ => drop(run.stage.kafka.stop(LIMIT)?),
    }
    let_pass(step.lasts);
    let owed = owed.max(run.facts().owed());
    run.stage.kafka.start_again()?;
    let after = pid_of(run.stage.kafka.identity());
    Ok(Blow::new(before != after, owed, format!("broker {before:?}, then {after:?}")))
}

fn pid_of(process: Option<Identity>) -> Option<u32> {
    process.map(Identity::pid)
}

pub(super) fn freeze_broker(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    run.stage.kafka.sigstop()?;
    let still = stand_still(run, step.lasts, Stops::Everything);
    run.stage.kafka.sigcont()?;
    let facts = format!("{} rows committed, {} delivered", still.committed, still.delivered);
    Ok(Blow::new(still.delivered == 0, still.owed, facts))
}

pub(super) fn kill_relay_of_frozen_broker(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    run.stage.kafka.sigstop()?;
    let still = stand_still(run, step.lasts, Stops::Everything);
    run.supervisor.hold();
    let death = run.supervisor.kill(step.fault.name());
    run.stage.kafka.sigcont()?;
    let death = death?;
    run.supervisor.release();
    run.supervisor.wait_until_running()?;
    let facts =
        format!("killed {}; {} rows committed, {} delivered", died(death.code), still.committed, still.delivered);
    Ok(Blow::new(death.code.is_none() && still.delivered == 0, still.owed, facts))
}

pub(super) fn end_walsender(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    let (before, owed) = (run.stage.wait_for_walsender(None, LIMIT)?, run.aim()?);
    let torn = run.facts().torn;
    match step.fault {
        Fault::WalsenderKill => process(before)?.signal(Signal::Kill)?,
        Fault::WalsenderTerminate => run.sql(&format!("SELECT pg_terminate_backend({before})"))?,
        _ => run.sql(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
             WHERE datname = current_database() AND pid <> pg_backend_pid()",
        )?,
    }
    let after = run.stage.wait_for_walsender(Some(before), LIMIT)?;
    let torn = run.facts().torn - torn;
    Ok(Blow::new(true, owed, format!("walsender {before}, then {after}; {torn} transactions torn")))
}

fn process(pid: u32) -> Result<Identity, Error> {
    Identity::of(pid).ok_or_else(|| Error::Undone(format!("there is no process {pid}")))
}

pub(super) fn freeze_walsender(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    let pid = run.stage.wait_for_walsender(None, LIMIT)?;
    let walsender = process(pid)?;
    let owed = run.aim()?;
    walsender.signal(Signal::Stop)?;
    let still = stand_still(run, step.lasts, Stops::Log);
    walsender.signal(Signal::Continue)?;
    let facts = format!("walsender {pid}: {} rows committed, {} delivered", still.committed, still.delivered);
    Ok(Blow::new(still.delivered == 0, owed.max(still.owed), facts))
}

pub(super) fn freeze_postmaster(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    let Some(postmaster) = run.stage.postgres.identity() else {
        return Ok(Blow::new(false, 0, "there is no postmaster".to_owned()));
    };
    let before = run.stage.wait_for_walsender(None, LIMIT)?;
    postmaster.signal(Signal::Stop)?;
    let ended = process(before).and_then(|walsender| walsender.signal(Signal::Terminate).map_err(Error::from));
    let still = stand_still(run, step.lasts, Stops::Log);
    postmaster.signal(Signal::Continue)?;
    ended?;
    let after = run.stage.wait_for_walsender(Some(before), LIMIT)?;
    let Standstill { committed, delivered, owed } = still;
    let facts = format!("walsender {before}, then {after}; {committed} rows committed, {delivered} delivered");
    Ok(Blow::new(delivered == 0, owed, facts))
}

pub(super) fn freeze_postgres(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    let (walsender, owed) = (run.stage.wait_for_walsender(None, LIMIT)?, run.aim()?);
    run.stage.postgres.sigstop()?;
    let still = stand_still(run, step.lasts, Stops::Log);
    let open = run.facts().open;
    run.stage.postgres.sigcont()?;
    let facts = format!("walsender {walsender}; {open} transactions under way, {} rows delivered", still.delivered);
    Ok(Blow::new(still.delivered == 0 && open > 0, owed, facts))
}

pub(super) fn restart_postgres(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    let (before, owed) = (pid_of(run.stage.postgres.identity()), run.aim()?);
    let torn = run.facts().torn;
    match step.fault {
        Fault::PostmasterKill => run.stage.postgres.kill9_postmaster()?,
        Fault::PostgresKill => run.stage.postgres.kill9()?,
        Fault::PostgresImmediate => drop(run.stage.postgres.stop(Stop::Immediate, LIMIT)?),
        // A relay that held the shutdown up would be a fault of its own.
        _ => drop(run.stage.postgres.stop(Stop::Fast, Duration::from_secs(20))?),
    }
    let_pass(step.lasts / 2);
    let torn = run.facts().torn - torn;
    run.stage.postgres.start_again()?;
    let after = pid_of(run.stage.postgres.identity());
    Ok(Blow::new(before != after, owed, format!("postmaster {before:?}, then {after:?}; {torn} transactions torn")))
}

pub(super) fn kill_relay_and_postgres(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    let (before, owed) = (run.stage.postgres.identity(), run.aim()?);
    run.supervisor.hold();
    let death = run.supervisor.kill(step.fault.name())?;
    run.stage.postgres.kill9()?;
    run.supervisor.release();
    run.supervisor.wait_until_running()?;
    let_pass(step.lasts / 2);
    run.stage.postgres.start_again()?;
    let (before, after) = (pid_of(before), pid_of(run.stage.postgres.identity()));
    let facts = format!("relay died {}; postmaster {before:?}, then {after:?}", died(death.code));
    Ok(Blow::new(death.code.is_none() && before != after, owed, facts))
}
