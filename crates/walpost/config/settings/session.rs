//! From the settings to the terms of a session: what the core has to know of them, and nothing that it has not.

use std::time::Duration;

use walpost_core::{feedback, session};

use super::Settings;
#[cfg(feature = "kafka")]
use super::{Group, Store};

/// The longest time in which the server hears nothing from us.
const MAX_STATUS_INTERVAL: Duration = Duration::from_secs(1);

/// How many status updates have to be lost in a row before the server takes us for dead.
const STATUSES_PER_SILENCE: u32 = 4;

impl Settings {
    /// What a session has to know of all this.
    #[must_use]
    pub fn session(&self) -> session::Settings {
        let silence_timeout = self.source.wal_sender_timeout;
        session::Settings {
            max_records: self.limits.in_flight_records,
            max_bytes: self.limits.in_flight_bytes,
            feedback: feedback::Settings {
                checkpoint_interval: self.checkpoint.interval,
                checkpoint_events: self.checkpoint.events,
                idle_interval: self.checkpoint.idle.interval,
                idle_bytes: self.checkpoint.idle.bytes,
                idle_age: self.checkpoint.idle.max_age,
                status_interval: MAX_STATUS_INTERVAL.min(silence_timeout / STATUSES_PER_SILENCE),
                retry_initial: self.retry.initial,
                retry_ceiling: self.retry.max,
            },
            retry_initial: self.retry.initial,
            retry_ceiling: self.retry.max,
            silence_timeout,
            drain_timeout: self.stop_timeout,
            stop_at: None,
            grouping: self.grouping(),
            poison: self.dead_letter.policy.clone(),
        }
    }

    /// How records and position are committed as one, where they are.
    #[cfg(feature = "kafka")]
    fn grouping(&self) -> Option<session::Grouping> {
        let Store::Kafka(kafka) = self.checkpoint.store() else { return None };
        let Group { interval, events, bytes } = self.checkpoint.group;
        let timeout = kafka.transaction_timeout();
        Some(session::Grouping { interval, max_records: events, max_bytes: bytes, timeout })
    }

    /// Never, without a sink that could.
    #[cfg(not(feature = "kafka"))]
    fn grouping(&self) -> Option<session::Grouping> {
        None
    }
}
