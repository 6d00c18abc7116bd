//! Keeps the relay running, as systemd would with `Restart=on-failure`, and remembers how each of its processes ended.
//!
//! Between the end of one and the start of the next it reads the checkpoint, from which follows what may come twice. A process
//! that ended by itself is started again too, and told of: in a run nothing happens to the relay that may end it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use super::Error;
use super::clock::now_ms;
use super::probe::Probe;
use crate::relay::{Ended, Relay, Walpost};
use crate::servers::{Patience, Signal, tail, wait_until};

/// Between an end and the next start; systemd's `RestartSec`.
const RESTART: Duration = Duration::from_millis(100);
/// Between two looks at the checkpoint.
const LOOK: Duration = Duration::from_millis(300);
/// Longer than a relay may take to be up, or an end to be noticed.
const LIMIT: Duration = Duration::from_secs(30);

/// How a process of the relay ended.
#[derive(Clone, Debug)]
pub(super) struct Death {
    pub(super) at_ms: i64,
    /// What ended it; none where it ended by itself.
    pub(super) cause: Option<String>,
    pub(super) code: Option<i32>,
    /// When the commit was made that the checkpoint stood at.
    pub(super) checkpoint_ms: i64,
    /// Whether the store of the checkpoints was away before.
    pub(super) is_store_away: bool,
    /// Its log.
    pub(super) log: String,
}

/// A relay under supervision. Dropped, it is killed.
pub(super) struct Supervisor {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    walpost: Arc<Walpost>,
    state: Mutex<State>,
    is_ending: AtomicBool,
}

#[derive(Default)]
struct State {
    relay: Option<Relay>,
    /// It is not to be started now.
    is_held: bool,
    /// What is about to end it.
    cause: Option<String>,
    is_store_away: bool,
    starts: u32,
    peak: u64,
    checkpoint_ms: i64,
    deaths: Vec<Death>,
    trouble: Option<String>,
}

impl Supervisor {
    /// Starts the relay for the first time.
    pub(super) fn start(walpost: Arc<Walpost>, probe: Probe) -> Self {
        let state = Mutex::new(State { checkpoint_ms: now_ms(), ..State::default() });
        let shared = Arc::new(Shared { walpost, state, is_ending: AtomicBool::new(false) });
        let theirs = Arc::clone(&shared);
        // The kernel kills a relay with the thread that started it.
        let thread = thread::spawn(move || theirs.keep(probe));
        Self { shared, thread: Some(thread) }
    }

    /// The process that runs.
    pub(super) fn pid(&self) -> Option<u32> {
        self.shared.state().relay.as_ref().map(Relay::pid)
    }

    /// Waits until there is a process.
    pub(super) fn wait_until_running(&self) -> Result<(), Error> {
        wait_until("the relay to be started", LIMIT, || self.pid().is_some()).map(drop).map_err(Error::from)
    }

    pub(super) fn signal(&self, signal: Signal) -> Result<(), Error> {
        let state = self.shared.state();
        state.relay.as_ref().map_or(Ok(()), |relay| relay.signal(signal)).map_err(Error::from)
    }

    /// Kills the process and waits until that is known.
    pub(super) fn kill(&self, cause: &str) -> Result<Death, Error> {
        self.end(Signal::Kill, cause)
    }

    /// Asks the process to stop and waits until it has.
    pub(super) fn stop(&self, cause: &str) -> Result<Death, Error> {
        self.end(Signal::Terminate, cause)
    }

    fn end(&self, signal: Signal, cause: &str) -> Result<Death, Error> {
        self.wait_until_running()?;
        let deaths = {
            let mut state = self.shared.state();
            state.cause = Some(cause.to_owned());
            if let Some(relay) = &state.relay {
                relay.signal(signal)?;
            }
            state.deaths.len()
        };
        let mut death = None;
        wait_until("the end of the relay", LIMIT, || {
            death = self.shared.state().deaths.get(deaths).cloned();
            death.is_some()
        })?;
        death.ok_or_else(|| Error::Undone("the end of the relay was not noted".to_owned()))
    }

    /// Does not start it again until told to.
    pub(super) fn hold(&self) {
        self.shared.state().is_held = true;
    }

    pub(super) fn release(&self) {
        self.shared.state().is_held = false;
    }

    /// Notes whether the store of the checkpoints can be written.
    pub(super) fn set_store_away(&self, is_away: bool) {
        self.shared.state().is_store_away = is_away;
    }

    /// When the commit was made that the checkpoint stands at, as was last seen.
    pub(super) fn checkpoint_ms(&self) -> i64 {
        self.shared.state().checkpoint_ms
    }

    pub(super) fn starts(&self) -> u32 {
        self.shared.state().starts
    }

    /// The most memory that any of its processes held, in bytes.
    pub(super) fn peak(&self) -> u64 {
        self.shared.state().peak
    }

    pub(super) fn deaths(&self) -> Vec<Death> {
        self.shared.state().deaths.clone()
    }

    /// Why it cannot be started, if that is so.
    pub(super) fn trouble(&self) -> Option<String> {
        self.shared.state().trouble.clone()
    }

    /// The end of the log of the process that runs.
    pub(super) fn log(&self) -> String {
        self.shared.state().relay.as_ref().map(|relay| tail(&relay.log())).unwrap_or_default()
    }
}

impl Drop for Supervisor {
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // One that panicked is reported by its own message.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn keep(&self, mut probe: Probe) {
        let mut looked = Instant::now();
        while !self.is_ending.load(Ordering::Relaxed) {
            let patience = Patience::of(LIMIT);
            // The pause before the next look; its limit is far.
            let _ = patience.pause("the next look at the relay");
            match self.take_ended() {
                Some(relay) => self.on_end(relay, &mut probe),
                None if looked.elapsed() >= LOOK => {
                    looked = Instant::now();
                    self.look(&mut probe);
                }
                None => self.start_if_wanted(),
            }
        }
        drop(self.state().relay.take());
    }

    fn take_ended(&self) -> Option<Relay> {
        let mut state = self.state();
        if state.relay.as_ref().is_some_and(|relay| !relay.is_running()) { state.relay.take() } else { None }
    }

    fn start_if_wanted(&self) {
        let mut state = self.state();
        if state.relay.is_some() || state.is_held {
            return;
        }
        match self.walpost.start() {
            Ok(relay) => {
                state.relay = Some(relay);
                state.starts += 1;
            }
            Err(error) => state.trouble = Some(error.to_string()),
        }
    }

    fn look(&self, probe: &mut Probe) {
        let seen = probe.commit_ms();
        let mut state = self.state();
        if let Some(seen) = seen {
            state.checkpoint_ms = state.checkpoint_ms.max(seen);
        }
        let memory = state.relay.as_ref().and_then(|relay| relay.peak_memory().ok());
        state.peak = state.peak.max(memory.unwrap_or(0));
    }

    fn on_end(&self, relay: Relay, probe: &mut Probe) {
        let at_ms = now_ms();
        let ended = relay.wait(LIMIT).ok();
        // What cannot be read now was seen a moment ago, which makes the window wider.
        self.look(probe);
        let mut state = self.state();
        let log = ended.as_ref().map(|ended| ended.log.clone()).unwrap_or_default();
        let death = Death {
            at_ms,
            cause: state.cause.take(),
            code: ended.as_ref().and_then(Ended::code),
            checkpoint_ms: state.checkpoint_ms,
            is_store_away: state.is_store_away,
            log,
        };
        state.deaths.push(death);
        drop(state);
        let since = Instant::now();
        let _ = wait_until("the next start", LIMIT, || since.elapsed() >= RESTART);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;
    use crate::chaos::probe::Place;
    use crate::relay::Config;
    use crate::servers::Scratch;

    /// A relay that does as the script says, and a checkpoint of the year 2000.
    fn supervised(script: &str) -> (Supervisor, Scratch) {
        let scratch = Scratch::new("supervisor").unwrap();
        let (program, checkpoint) = (scratch.path().join("program"), scratch.path().join("checkpoint"));
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        fs::write(&checkpoint, r#"{"checkpoint": {"commit_time_postgres_micros": 4000000}}"#).unwrap();
        let walpost = Walpost::new(program, &Config::default()).unwrap();
        let supervisor = Supervisor::start(Arc::new(walpost), Probe::new(Place::File(checkpoint)).unwrap());
        supervisor.wait_until_running().unwrap();
        (supervisor, scratch)
    }

    #[test]
    fn what_ends_is_started_again_and_its_end_is_noted_with_its_cause() {
        let (supervisor, _scratch) = supervised("exec sleep 600");
        let first = supervisor.pid();
        let death = supervisor.kill("a kill").unwrap();
        assert_eq!((death.cause.as_deref(), death.code), (Some("a kill"), None));
        supervisor.wait_until_running().unwrap();
        assert_ne!(supervisor.pid(), first);
        assert_eq!((supervisor.starts(), supervisor.deaths().len(), supervisor.trouble()), (2, 1, None));
    }

    #[test]
    fn what_ends_by_itself_has_no_cause() {
        let (supervisor, _scratch) = supervised("echo trouble >&2; exit 7");
        wait_until("an end", LIMIT, || !supervisor.deaths().is_empty()).unwrap();
        let death = supervisor.deaths().remove(0);
        assert_eq!((death.cause, death.code, death.log.as_str()), (None, Some(7), "trouble"));
    }

    #[test]
    fn what_is_held_stays_down_until_it_is_released() {
        let (supervisor, _scratch) = supervised("exec sleep 600");
        supervisor.hold();
        supervisor.kill("a kill").unwrap();
        let since = Instant::now();
        wait_until("time to pass", LIMIT, || since.elapsed() >= 3 * RESTART).unwrap();
        assert_eq!(supervisor.pid(), None);
        supervisor.release();
        supervisor.wait_until_running().unwrap();
    }

    #[test]
    fn the_checkpoint_is_read_from_its_file() {
        let (_supervisor, scratch) = supervised("exec sleep 600");
        let place = Place::File(scratch.path().join("checkpoint"));
        assert_eq!(Probe::new(place).unwrap().commit_ms(), Some(946_684_804_000));
        assert_eq!(Probe::new(Place::File("/nowhere".into())).unwrap().commit_ms(), None);
    }
}
