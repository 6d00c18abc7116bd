//! On what a figure was taken, without which it means nothing.

use std::fs;
use std::process::Command;
use std::thread;

use serde_json::{Value, json};

use crate::steps::workspace;

/// The machine, its load, and what was built on it.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    processor: String,
    processors: usize,
    memory_gib: u64,
    kernel: String,
    /// The three averages of `/proc/loadavg`.
    load: String,
    /// The commit that was built, marked where the work tree differs from it.
    commit: String,
    /// In UTC.
    date: String,
}

impl Machine {
    pub(super) fn look() -> Self {
        let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
        let load = read("/proc/loadavg").split_whitespace().take(3).collect::<Vec<_>>().join(" ");
        Self {
            processor: after_colon(&read("/proc/cpuinfo"), "model name").unwrap_or("unknown").to_owned(),
            processors: thread::available_parallelism().map_or(1, std::num::NonZero::get),
            memory_gib: kib_of(&read("/proc/meminfo"), "MemTotal").div_ceil(1 << 20),
            kernel: read("/proc/sys/kernel/osrelease").trim().to_owned(),
            load,
            commit: said_by(Command::new("git").args(["describe", "--always", "--dirty"])),
            date: said_by(Command::new("date").args(["-u", "+%Y-%m-%d %H:%M UTC"])),
        }
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "processor": self.processor,
            "processors": self.processors,
            "memory_gib": self.memory_gib,
            "kernel": self.kernel,
            "load_before": self.load,
            "commit": self.commit,
            "date": self.date,
        })
    }
}

impl std::fmt::Display for Machine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { processor, processors, memory_gib, kernel, load, commit, date } = self;
        write!(f, "{processors} × {processor}, {memory_gib} GiB, Linux {kernel}; load before: {load}; {commit}; {date}")
    }
}

/// What stands behind the colon of the first line that begins with this.
fn after_colon<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let line = text.lines().find(|line| line.starts_with(name))?;
    Some(line.split_once(':')?.1.trim())
}

fn kib_of(text: &str, name: &str) -> u64 {
    after_colon(text, name).and_then(|value| value.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// The output of a program, or a word for what it could not say.
fn said_by(command: &mut Command) -> String {
    let output = command.current_dir(workspace()).output().ok().filter(|output| output.status.success());
    output.map_or("unknown".to_owned(), |output| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_what_stands_behind_the_colon() {
        let text = "processor\t: 0\nmodel name\t: Abacus: 7 beads\nMemTotal:   1024 kB\n";
        assert_eq!(after_colon(text, "model name"), Some("Abacus: 7 beads"));
        assert_eq!(kib_of(text, "MemTotal"), 1024);
        assert_eq!((after_colon(text, "bogomips"), kib_of(text, "MemFree")), (None, 0));
    }
}
