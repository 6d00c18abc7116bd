//! What the system says of this process. Only Linux says it where we look; elsewhere there is nothing to show.

use std::fs;

/// What the system says of this process.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Process {
    /// The memory that it holds, in bytes.
    pub(super) resident: u64,
    /// The time that it had on processors, in seconds.
    pub(super) cpu_seconds: f64,
}

/// `USER_HZ`, in which the kernel tells times to programs: 100 on every architecture that Rust knows but Alpha.
const TICKS_PER_SECOND: f64 = 100.0;

/// Reads `/proc/self`.
pub(super) fn read() -> Option<Process> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB"))?;
    let cpu_seconds = cpu_seconds(&fs::read_to_string("/proc/self/stat").ok()?)?;
    Some(Process { resident: resident.trim().parse::<u64>().ok()? * 1024, cpu_seconds })
}

/// `utime` and `stime`, the 14th and 15th field of `proc_pid_stat(5)`. The second, a name, may hold blanks and brackets.
fn cpu_seconds(stat: &str) -> Option<f64> {
    let (_, behind_the_name) = stat.rsplit_once(')')?;
    let mut fields = behind_the_name.split_whitespace().skip(11);
    let mut ticks = || fields.next()?.parse::<u32>().ok().map(f64::from);
    Some((ticks()? + ticks()?) / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_process_does_not_shift_its_times() {
        let stat = "7 (a ) b) R 1 2 3 4 5 6 7 8 9 10 250 50 0 0 20";
        assert_eq!(cpu_seconds(stat), Some(3.0));
    }

    #[test]
    fn this_process_holds_memory() {
        let process = read().unwrap();
        assert!(process.resident > 1 << 20 && process.cpu_seconds >= 0.0, "{process:?}");
    }
}
