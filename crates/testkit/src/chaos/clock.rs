//! The time of commits, which is the machine's.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::servers::wait_until;

/// Milliseconds since 1970.
pub(super) fn now_ms() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_millis()).unwrap_or(i64::MAX)
}

/// Lets time pass, where time itself is the fault.
pub(super) fn let_pass(time: Duration) {
    let since = Instant::now();
    // Its limit is never reached.
    let _ = wait_until("time to pass", time + Duration::from_secs(60), || since.elapsed() >= time);
}
