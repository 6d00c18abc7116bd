//! The time that sessions are told.

use std::time::Instant;

use walpost_core::time::Moment;

/// The monotonic clock that sessions are told. It goes on while the process is stopped; on Linux it stands still while the
/// machine is suspended.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    origin: Instant,
}

impl Clock {
    /// A clock whose origin is now.
    #[must_use]
    pub fn start() -> Self {
        Self { origin: Instant::now() }
    }

    /// Now.
    #[must_use]
    pub fn now(self) -> Moment {
        Moment::since_origin(self.origin.elapsed())
    }

    pub(super) fn instant_of(self, moment: Moment) -> tokio::time::Instant {
        (self.origin + moment.elapsed()).into()
    }

    pub(super) fn moment_of(self, instant: tokio::time::Instant) -> Moment {
        Moment::since_origin(instant.into_std().saturating_duration_since(self.origin))
    }
}
