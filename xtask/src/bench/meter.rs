//! What a process cost, read from `/proc` while it runs and in the moment between its end and its burial.
//!
//! The kernel counts processor time in hundredths of a second, which is fine beside runs of seconds. Memory is the
//! kernel's own high-water mark, so a late look still finds the peak.

use std::collections::BTreeMap;
use std::fs;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use walpost_testkit::servers::{Identity, spawn_dependent, wait_until};

use crate::interrupt;

/// `USER_HZ`, which Linux keeps at 100 on every architecture, whatever its own clock does.
const TICKS_PER_SECOND: u64 = 100;

/// Who works for the process that is watched.
#[derive(Clone, Copy, Debug)]
pub(super) struct Servers {
    /// The parent of the walsenders.
    pub(super) postgres: Identity,
    pub(super) broker: Option<Identity>,
}

/// What a run cost.
#[derive(Clone, Debug)]
pub(super) struct Reading {
    pub(super) status: ExitStatus,
    /// From start to end of the process.
    pub(super) wall: Duration,
    /// From the start of the process to its first event.
    pub(super) first_event: Option<Duration>,
    /// Processor time of the process.
    pub(super) cpu: Duration,
    /// Processor time of the walsender that served it.
    pub(super) sender_cpu: Duration,
    /// Processor time of the broker meanwhile.
    pub(super) broker_cpu: Option<Duration>,
    pub(super) peak_rss_bytes: u64,
    /// How many processors were busy with something else.
    pub(super) busy_elsewhere: f64,
}

/// Runs a command to its end. None when it has not ended within `limit`; then it is killed.
pub(super) fn watch(command: Command, servers: Servers, limit: Duration) -> Result<Option<Reading>> {
    let before = Spent::until_now(servers);
    let since = Instant::now();
    let mut watched = Watched(spawn_dependent(command)?);
    let mut sampler = Sampler { pid: watched.0.id(), since, servers, samples: Samples::default() };
    let waited = wait_until("the end of a contestant", limit, || sampler.look() || interrupt::check().is_err());
    let wall = since.elapsed();
    interrupt::check()?;
    if waited.is_err() {
        return Ok(None);
    }
    let after = Spent::until_now(servers);
    let cpu = Stat::of(sampler.pid).context("a process that nobody has waited for is gone")?.cpu();
    let status = watched.0.wait().context("cannot wait for a contestant")?;
    let Samples { peak_rss_bytes, first_output, senders } = sampler.samples;
    let sender_cpu = senders.values().sum();
    let broker_cpu = after.broker.zip(before.broker).map(|(after, before)| after.saturating_sub(before));
    let spent = cpu + sender_cpu + broker_cpu.unwrap_or_default() + after.ours.saturating_sub(before.ours);
    let elsewhere = after.machine.saturating_sub(before.machine).saturating_sub(spent);
    let busy_elsewhere = elsewhere.as_secs_f64() / wall.as_secs_f64();
    Ok(Some(Reading {
        status,
        wall,
        first_event: first_output,
        cpu,
        sender_cpu,
        broker_cpu,
        peak_rss_bytes,
        busy_elsewhere,
    }))
}

/// Killed when nobody waits for it.
struct Watched(Child);

impl Drop for Watched {
    fn drop(&mut self) {
        // It may be buried already, which is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Looks again and again.
struct Sampler {
    pid: u32,
    since: Instant,
    servers: Servers,
    samples: Samples,
}

#[derive(Default)]
struct Samples {
    peak_rss_bytes: u64,
    /// When it was first seen to have written anything.
    first_output: Option<Duration>,
    /// The processor time of each walsender that was seen.
    senders: BTreeMap<u32, Duration>,
}

impl Sampler {
    /// Answers whether the process has ended.
    fn look(&mut self) -> bool {
        let has_ended = Stat::of(self.pid).is_none_or(|stat| stat.state == 'Z');
        self.look_at_senders();
        let status = fs::read_to_string(format!("/proc/{}/status", self.pid)).unwrap_or_default();
        // There is none once the process has ended.
        let peak = field(&status, "VmHWM:").unwrap_or(0) * 1024;
        self.samples.peak_rss_bytes = self.samples.peak_rss_bytes.max(peak);
        if self.samples.first_output.is_none() {
            let io = fs::read_to_string(format!("/proc/{}/io", self.pid)).unwrap_or_default();
            // What goes to a socket is not counted.
            let has_written = field(&io, "wchar:").is_some_and(|bytes| bytes > 0);
            self.samples.first_output = has_written.then(|| self.since.elapsed());
        }
        has_ended
    }

    fn look_at_senders(&mut self) {
        let mut is_served = false;
        for (pid, cpu) in &mut self.samples.senders {
            if let Some(stat) = Stat::of(*pid) {
                *cpu = stat.cpu();
                is_served = true;
            }
        }
        if !is_served {
            let children = self.servers.postgres.children().into_iter().map(Identity::pid);
            let senders = children.filter(|pid| is_walsender(*pid)).map(|pid| (pid, Duration::ZERO));
            self.samples.senders.extend(senders);
        }
    }
}

/// PostgreSQL writes into a process's command line what it does.
fn is_walsender(pid: u32) -> bool {
    fs::read_to_string(format!("/proc/{pid}/cmdline")).is_ok_and(|line| line.contains("walsender"))
}

/// Processor time that was spent since each of them began.
struct Spent {
    machine: Duration,
    ours: Duration,
    broker: Option<Duration>,
}

impl Spent {
    fn until_now(servers: Servers) -> Self {
        let machine = fs::read_to_string("/proc/stat").unwrap_or_default();
        let spent = |pid| Stat::of(pid).map(|stat| stat.cpu());
        Self {
            machine: busy(&machine).unwrap_or_default(),
            ours: spent(std::process::id()).unwrap_or_default(),
            broker: servers.broker.and_then(|broker| spent(broker.pid())),
        }
    }
}

/// The time that all processors were busy, from the first line of `/proc/stat`: user, nice, system, idle, iowait and
/// more that is busy.
fn busy(stat: &str) -> Option<Duration> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = line.split_whitespace().map(|ticks| ticks.parse().ok()).collect::<Option<_>>()?;
    // The last two, guest times, are counted in user and nice already.
    let busy = ticks.iter().take(8).enumerate().filter(|(place, _)| ![3, 4].contains(place));
    Some(of_ticks(busy.map(|(_, ticks)| ticks).sum()))
}

fn of_ticks(ticks: u64) -> Duration {
    Duration::from_millis(ticks * (1000 / TICKS_PER_SECOND))
}

/// The number behind a name, in a file of `name: number` lines.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

/// What we need of `/proc/<pid>/stat`; proc(5) numbers the fields.
#[derive(Debug, PartialEq, Eq)]
struct Stat {
    state: char,
    ticks: u64,
}

impl Stat {
    fn of(pid: u32) -> Option<Self> {
        Self::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(text: &str) -> Option<Self> {
        // The second field is the program's name in parentheses, and may itself hold spaces and parentheses.
        let mut fields = text.rsplit_once(')')?.1.split_whitespace();
        let state = fields.next()?.chars().next()?;
        let user: u64 = fields.nth(10)?.parse().ok()?;
        let system: u64 = fields.next()?.parse().ok()?;
        Some(Self { state, ticks: user + system })
    }

    fn cpu(&self) -> Duration {
        of_ticks(self.ticks)
    }
}

impl Reading {
    /// For tests of what is made of readings.
    #[cfg(test)]
    pub(super) fn of(wall: Duration) -> Self {
        Self {
            status: ExitStatus::default(),
            wall,
            first_event: None,
            cpu: wall / 2,
            sender_cpu: wall / 4,
            broker_cpu: None,
            peak_rss_bytes: 10 << 20,
            busy_elsewhere: 0.25,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::CommandExt as _;

    use super::*;

    #[test]
    fn times_are_found_behind_a_name_with_spaces_and_parentheses() {
        let text = "12 (a) S (b)) Z 7 1 1 0 -1 4 0 0 0 0 123 45 0 0 20 0 1 0 4711 0 0";
        assert_eq!(Stat::parse(text), Some(Stat { state: 'Z', ticks: 168 }));
        for text in ["", "12 (a", "12 (a) S 7 1 1 0 -1 4 0 0 0 0 123"] {
            assert_eq!(Stat::parse(text), None, "{text:?}");
        }
    }

    #[test]
    fn a_waiting_processor_is_not_busy() {
        assert_eq!(busy("cpu  100 1 20 9999 777 3 4 5 6 7\ncpu0 1\n"), Some(Duration::from_millis(1330)));
        assert_eq!(busy("intr 5\n"), None);
    }

    #[test]
    fn a_field_is_found_by_its_whole_name() {
        assert_eq!(field("VmPeak: 5 kB\nVmHWM:\t  7312 kB\n", "VmHWM:"), Some(7312));
        assert_eq!(field("VmHWM: many kB\n", "VmHWM:"), None);
    }

    #[test]
    fn a_process_is_read_after_its_end_and_before_its_burial() {
        let servers = Servers { postgres: Identity::of(std::process::id()).unwrap(), broker: None };
        let mut command = Command::new("sh");
        command.args(["-c", "echo out; i=0; while [ $i -lt 100000 ]; do i=$((i+1)); done; exit 3"]).process_group(0);
        command.stdout(std::process::Stdio::null());
        let reading = watch(command, servers, Duration::from_secs(60)).unwrap().unwrap();
        assert_eq!(reading.status.code(), Some(3));
        assert!(reading.cpu > Duration::ZERO && reading.peak_rss_bytes > 0, "{reading:?}");
        assert!(reading.first_event.is_some_and(|first| first <= reading.wall), "{reading:?}");
    }

    #[test]
    fn a_process_that_does_not_end_is_killed() {
        let servers = Servers { postgres: Identity::of(std::process::id()).unwrap(), broker: None };
        let mut command = Command::new("sleep");
        command.arg("600");
        assert!(watch(command, servers, Duration::from_millis(50)).unwrap().is_none());
    }
}
