//! The checkpoint's file, which cannot be written, or is not what it was.

use std::fs;

use super::{Blow, LIMIT};
use crate::chaos::clock::{let_pass, now_ms};
use crate::chaos::{Error, Fault, Run, Step};
use crate::servers::wait_until;

/// Publishing goes on while the checkpoint stands still.
pub(super) fn deny_writing(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    let Some(disk) = &run.stage.disk else {
        return Ok(Blow::new(false, 0, "there is no disk of its own".to_owned()));
    };
    run.supervisor.set_store_away(true);
    let is_full = step.fault == Fault::CheckpointFull;
    if is_full {
        disk.fill()?;
    } else {
        disk.make_read_only()?;
    }
    let before = run.facts();
    let stands = fs::read(run.stage.checkpoint()).ok();
    let_pass(step.lasts + std::time::Duration::from_secs(1));
    let after = run.facts();
    let stood = stands == fs::read(run.stage.checkpoint()).ok();
    if is_full {
        disk.empty()?;
    } else {
        disk.make_writable()?;
    }
    run.supervisor.set_store_away(false);
    let delivered = after.delivered - before.delivered;
    let facts = format!("the checkpoint stood still: {stood}; {delivered} rows delivered meanwhile");
    Ok(Blow::new(stood && delivered > 0, before.owed().max(after.owed()), facts))
}

/// What was published meanwhile was not checkpointed, however much it is; and the next relay finds no room for its claim.
pub(super) fn fill_and_kill_relay(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    let Some(disk) = &run.stage.disk else {
        return Ok(Blow::new(false, 0, "there is no disk of its own".to_owned()));
    };
    run.supervisor.set_store_away(true);
    disk.fill()?;
    let stands = fs::read(run.stage.checkpoint()).ok();
    let delivered = run.facts().delivered;
    let_pass(step.lasts / 2);
    let (owed, delivered) = (run.aim()?, run.facts().delivered - delivered);
    let death = run.supervisor.kill(step.fault.name())?;
    run.supervisor.wait_until_running()?;
    let_pass(step.lasts / 2);
    let stood = stands == fs::read(run.stage.checkpoint()).ok();
    disk.empty()?;
    run.supervisor.set_store_away(false);
    let facts = format!("the checkpoint stood still: {stood}; {delivered} rows delivered before the kill");
    Ok(Blow::new(stood && delivered > 0 && death.code.is_none(), owed, facts))
}

/// The start has to be refused, with a code that no supervisor starts again after, until the file is what it was.
pub(super) fn damage(run: &mut Run, step: &Step) -> Result<Blow, Error> {
    let path = run.stage.checkpoint();
    let foreign = if step.fault == Fault::CheckpointForeign { run.stage.foreign_checkpoint()? } else { Vec::new() };
    let owed = run.aim()?;
    run.supervisor.hold();
    let death = run.supervisor.kill(step.fault.name())?;
    let good = fs::read(&path).map_err(Error::io("read the checkpoint"))?;
    let damaged = match step.fault {
        Fault::CheckpointForeign => foreign,
        Fault::CheckpointTruncated => truncated(&good, step.dice),
        _ => corrupted(&good, step.dice),
    };
    fs::write(&path, damaged).map_err(Error::io("damage the checkpoint"))?;
    let started = now_ms();
    let ended = run.stage.walpost.start()?.wait(LIMIT)?;
    let took = now_ms() - started;
    fs::write(&path, good).map_err(Error::io("restore the checkpoint"))?;
    run.supervisor.release();
    run.supervisor.wait_until_running()?;
    wait_until("the relay to go on", LIMIT, || run.stage.walsender().is_some())?;
    let is_refused = ended.code().is_some_and(|code| !matches!(code, 0 | 1 | 8 | 9));
    let facts = format!("the start was refused with {:?} after {took} ms", ended.code());
    Ok(Blow::new(is_refused && death.code.is_none(), owed, facts))
}

/// One digit or letter is another: what lies between them may change without a meaning.
fn corrupted(good: &[u8], dice: u32) -> Vec<u8> {
    let mut bad = good.to_vec();
    let signs = bad.iter().filter(|byte| byte.is_ascii_alphanumeric()).count();
    let wanted = usize::try_from(dice).unwrap_or(0).checked_rem(signs).unwrap_or(0);
    if let Some(byte) = bad.iter_mut().filter(|byte| byte.is_ascii_alphanumeric()).nth(wanted) {
        *byte = if *byte == b'7' { b'3' } else { b'7' };
    }
    bad
}

/// Without its end, which is more than the last line's.
fn truncated(good: &[u8], dice: u32) -> Vec<u8> {
    let most = good.len().saturating_sub(2);
    good.iter().copied().take(usize::try_from(dice).unwrap_or(0).checked_rem(most).unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_damage_whatever_the_dice_say() {
        let good = b"{\"checksum\": \"77\"}\n";
        for dice in 0..500 {
            assert_ne!(corrupted(good, dice), good);
            assert_eq!(corrupted(good, dice).len(), good.len());
            assert!(truncated(good, dice).len() < good.len() - 1);
        }
    }
}
