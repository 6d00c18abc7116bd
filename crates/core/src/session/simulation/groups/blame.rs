//! What a failure is to teach, where it takes a whole group with it: the next group is spared the same one.
//!
//! A row fails among others a few times for as long as the process lives, each time among fewer, and alone once more; a letter that goes again
//! fails among others once at most. Then the one is set aside, and the other returned, without being sent. A row that may not be set aside,
//! because too much lies there, is tried again after the longest wait and not before.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::poison::LetterId;
use crate::position::Identity;
use crate::time::Moment;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Blame {
    failed: BTreeMap<Sent, Failed>,
}

/// What was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sent {
    Row(Identity),
    Letter(LetterId),
}

#[derive(Debug)]
struct Failed {
    first_at: Moment,
    last_at: Moment,
    times: u32,
}

/// How often a row fails among others: with all that is with the sink, a dozen, and then in a third of that, again and again. Rows that were set aside
/// when it failed first may lie among them the next time.
const AMONG_OTHERS: u32 = 4;

impl Blame {
    /// The sink blamed it, and took the group down with it.
    pub(super) fn failed(&mut self, sent: Sent, was_alone: bool, was_judged: bool, patience: Duration, now: Moment) {
        if let Some(failed) = self.failed.get(&sent).filter(|_| was_judged && matches!(sent, Sent::Row(_))) {
            assert!(now.since(failed.last_at) >= patience, "{sent:?} was judged, and is tried again too soon");
        }
        let failed = self.failed.entry(sent).or_insert(Failed { first_at: now, last_at: now, times: 0 });
        failed.last_at = now;
        let among_others = if let Sent::Row(_) = sent { AMONG_OTHERS } else { 1 };
        assert!(was_alone || failed.times < among_others, "{sent:?} has failed before, and took others with it again");
        failed.times += 1;
        let waits = match sent {
            Sent::Row(_) => now.since(failed.first_at).as_millis() / patience.as_millis(),
            Sent::Letter(_) => 0,
        };
        let is_known = u128::from(failed.times) > u128::from(among_others) + 1 + waits;
        assert!(!is_known, "{sent:?} has failed {} times, and is sent again and again", failed.times);
    }

    /// That it failed is written down. When it is marked again it may fail again, alone.
    pub(super) fn returned(&mut self, letter: LetterId) {
        if let Some(failed) = self.failed.get_mut(&Sent::Letter(letter)) {
            failed.times = 1;
        }
    }
}
