//! Where the loop writes how it stands, and others read it.
//!
//! The loop takes the lock at most ten times a second and never for longer than a copy; its signs of life need none.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use walpost_core::session::{Counters, View};
use walpost_core::time::Moment;
use walpost_core::traffic::Flow;
use walpost_postgres::usage::Usage;

use super::behind::Horizon;
use crate::driver::Clock;

/// How often the thread of the loop shows that it runs.
const BEAT_INTERVAL: Duration = Duration::from_secs(1);

/// See the module's documentation. Clones are the same board.
#[derive(Debug, Clone)]
pub struct Board {
    clock: Clock,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// Milliseconds on the clock.
    beat_at: AtomicU64,
    turned_at: AtomicU64,
    sight: Mutex<Sight>,
}

/// How a relay stands.
#[derive(Debug, Clone)]
pub struct Sight {
    /// When the thread of the loop last ran.
    pub beat_at: Moment,
    /// When a session's driver last turned.
    pub turned_at: Moment,
    /// What the relay is at.
    pub phase: Phase,
    /// Since when.
    pub phase_since: Moment,
    /// The session, while one lives.
    pub link: Option<Link>,
    /// Since when there is none. Of a relay that never had one, its start.
    pub down_since: Moment,
    /// The last that was known of a session.
    pub last: Option<View>,
    /// What was counted since the process began.
    pub totals: Totals,
    /// What went from which outbox to which topic.
    pub traffic: Arc<[Flow]>,
    /// When this process last wrote a checkpoint.
    pub checkpointed_at: Option<Moment>,
    /// What the server said of itself and the slot.
    pub server: ServerSight,
    /// Why the sink is away, and since when that is known.
    pub sink_away: Option<(String, Moment)>,
    /// Why it is not known which dead letters are marked, where that was told, and since when.
    pub marks_unread: Option<(Option<Arc<str>>, Moment)>,
    /// What is set aside, where anything may be.
    pub letters: Option<Letters>,
}

/// What a relay is at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Phase {
    /// It has not had a stream yet.
    Starting,
    /// Another has the slot, as this sentence says.
    StandingBy(String),
    /// The stream is down, for this reason, and made anew.
    Reconnecting(String),
    /// A stream is there.
    Streaming,
    /// It was told to stop, or has to end.
    Stopping,
}

/// A session that lives.
#[derive(Debug, Clone)]
pub struct Link {
    /// How it stands.
    pub view: View,
    /// When the sink last acknowledged something, or owed nothing.
    pub acknowledged_at: Moment,
    /// When the stream last brought anything, or was not listened to.
    pub progressed_at: Moment,
    /// Since when records are held.
    pub held_since: Option<Moment>,
    /// Since when a checkpoint was ordered and none was written.
    pub checkpoint_due_since: Option<Moment>,
    /// Since when the catalogue is awaited.
    pub undescribed_since: Option<Moment>,
    /// Since when the store of the dead letters is awaited and has answered nothing.
    pub letters_due_since: Option<Moment>,
}

/// What was counted since the process began.
#[derive(Debug, Clone, Default)]
pub struct Totals {
    /// What the sessions counted.
    pub counters: Counters,
    /// Records that the sink acknowledged.
    pub delivered: u64,
    /// Records that came back, by the class of the failure.
    pub undelivered: BTreeMap<&'static str, u64>,
    /// How often the sink had no room.
    pub full: u64,
    /// How often the sink was made anew.
    pub resets: u64,
    /// How often it could not be.
    pub failed_resets: u64,
    /// Checkpoints that were written.
    pub checkpoints: u64,
    /// Checkpoints that could not be written.
    pub failed_checkpoints: u64,
    /// Attempts at a connection that ended, by what ended them, and were followed by another.
    pub reconnects: BTreeMap<&'static str, u64>,
}

/// What the server said.
#[derive(Debug, Clone, Default)]
pub struct ServerSight {
    /// The last answer, and when it came.
    pub usage: Option<(Usage, Moment)>,
    /// Why there is no newer one.
    pub failure: Option<String>,
    /// How often there was none.
    pub failures: u64,
    /// Which positions the server was seen at, and when.
    pub horizon: Horizon,
    /// How often an outbox was out of its publications for a moment.
    pub publication_breaks: u64,
}

/// What is set aside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Letters {
    /// Letters that are neither sent nor dropped.
    pub open: u64,
    /// Keys that wait behind one.
    pub parked_keys: u64,
}

impl Board {
    /// The board of a relay that starts now.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        let now = clock.now();
        let sight = Sight {
            beat_at: now,
            turned_at: now,
            phase: Phase::Starting,
            phase_since: now,
            link: None,
            down_since: now,
            last: None,
            totals: Totals::default(),
            traffic: Arc::new([]),
            checkpointed_at: None,
            server: ServerSight::default(),
            sink_away: None,
            marks_unread: None,
            letters: None,
        };
        let stamp = AtomicU64::new(millis(now));
        let turned_at = AtomicU64::new(millis(now));
        Self { clock, shared: Arc::new(Shared { beat_at: stamp, turned_at, sight: Mutex::new(sight) }) }
    }

    /// The clock of its times.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// All that was written, as it stands.
    #[must_use]
    pub fn read(&self) -> Sight {
        let mut sight = self.sight().clone();
        let moment = |stamp: &AtomicU64| Moment::since_origin(Duration::from_millis(stamp.load(Ordering::Relaxed)));
        sight.beat_at = moment(&self.shared.beat_at);
        sight.turned_at = moment(&self.shared.turned_at);
        sight
    }

    /// Shows that this thread runs, for ever. To be spawned on the loop's.
    pub async fn beat(self) {
        loop {
            self.shared.beat_at.store(millis(self.clock.now()), Ordering::Relaxed);
            tokio::time::sleep(BEAT_INTERVAL).await;
        }
    }

    /// So many outboxes were out of their publications for a moment.
    pub fn publication_broke(&self, outboxes: usize) {
        self.sight().server.publication_breaks += outboxes as u64;
    }

    /// Shows that a session's driver turns.
    pub(super) fn turn(&self, now: Moment) {
        self.shared.turned_at.store(millis(now), Ordering::Relaxed);
    }

    pub(super) fn sight(&self) -> MutexGuard<'_, Sight> {
        self.shared.sight.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Phase {
    /// The word for it.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::Starting => "starting",
            Self::StandingBy(_) => "standing_by",
            Self::Reconnecting(_) => "reconnecting",
            Self::Streaming => "streaming",
            Self::Stopping => "stopping",
        }
    }
}

fn millis(moment: Moment) -> u64 {
    u64::try_from(moment.elapsed().as_millis()).unwrap_or(u64::MAX)
}
