//! What the store of the dead letters says at the end, held against what was committed and what arrived.
//!
//! **Each committed row is one of these**: a record, a letter that nobody has sent or dropped yet, or a letter that was dropped. A letter that was
//! sent is a record. With exactly once there is nothing more to say. At least once, a row that was published and not yet checkpointed when the relay
//! crashed comes again, and what has changed since decides anew: so it may be a record and a letter, but only of a commit that such a
//! crash excuses; and a letter that was on its way when the relay crashed is sent again.
//!
//! **Blame**: a letter that lies there for a reason of its own is one of a row that was written as a misfit. A good row may wait behind
//! another of its key, and be dropped or sent with it; but no word of a broker about a batch, and nothing that became of its neighbours, may make
//! a cause of it. Not when it is sent again either: a letter that comes back has become a cause, and in a run whose topics stand
//! and may be written all the time, a good one has nothing to come back for.
//!
//! **Order**: a record of a key is not to stand ahead of an older letter of it that is neither sent nor dropped. What was dropped holds nothing
//! up.

use std::collections::HashMap;
use std::fmt;

use super::census::parse_uuid;
use super::{Cases, Expected, Repeat, SKEW_MS, Window};

/// Where a letter stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LetterState {
    /// Neither sent nor dropped.
    Open,
    /// Sent, by the word of the store.
    Sent,
    /// Dropped.
    Dropped,
}

/// A letter, in the words of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Letter {
    /// Where it stands.
    pub state: LetterState,
    /// Whether it only waits, or waited, for another of its key.
    pub is_parked: bool,
    /// Since when it may have been sent: an operator marked it last then, or it was set aside and goes by itself. In milliseconds since 1970.
    pub marked_ms: Option<i64>,
}

/// How many letters there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LetterCounts {
    /// Neither sent nor dropped.
    pub open: usize,
    /// Sent.
    pub sent: usize,
    /// Dropped.
    pub dropped: usize,
    /// Those of all these that were set aside because of another of their key.
    pub parked: usize,
}

impl LetterCounts {
    /// All of them.
    #[must_use]
    pub fn all(self) -> usize {
        self.open + self.sent + self.dropped
    }
}

impl fmt::Display for LetterCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { open, sent, dropped, parked } = self;
        write!(
            f,
            "{} rows set aside, {parked} of them behind another of their key: {sent} sent, {dropped} dropped, {open} lie there",
            self.all()
        )
    }
}

/// All letters, by the ids of their rows.
#[derive(Debug, Default)]
pub struct Letters {
    letters: HashMap<[u64; 2], Known>,
    /// What the store says that cannot be.
    absurd: Cases,
}

#[derive(Debug)]
struct Known {
    letter: Letter,
    /// Why it lies there, where that is known and its own.
    reason: Option<Box<str>>,
    is_committed: bool,
}

impl Letters {
    /// Adds a letter of the row of this id, which lies there for this reason.
    pub fn add(&mut self, event_id: &str, letter: Letter, reason: &str) {
        let Some(id) = parse_uuid(event_id) else {
            return self.absurd.add(|| format!("a letter of the row {event_id:?}, which no writer wrote"));
        };
        let is_ended = letter.state != LetterState::Open;
        if is_ended && letter.marked_ms.is_none() {
            self.absurd
                .add(|| format!("the letter of row {event_id} was {:?}, and neither did anybody ask for that nor did it go by itself", letter.state));
        }
        let reason = (!letter.is_parked).then(|| reason.into());
        if self.letters.insert(id, Known { letter, reason, is_committed: false }).is_some() {
            self.absurd.add(|| format!("two letters of the row {event_id}"));
        }
    }

    /// How many there are.
    #[must_use]
    pub fn counts(&self) -> LetterCounts {
        let mut counts = LetterCounts::default();
        for Known { letter, .. } in self.letters.values() {
            match letter.state {
                LetterState::Open => counts.open += 1,
                LetterState::Sent => counts.sent += 1,
                LetterState::Dropped => counts.dropped += 1,
            }
            counts.parked += usize::from(letter.is_parked);
        }
        counts
    }

    /// Whether a repeat is that of a letter that was on its way when the relay crashed; the crash counts it.
    pub fn excuse(&self, repeat: &Repeat, windows: &mut [Window]) -> bool {
        let Some(marked_ms) = self.letters.get(&repeat.id).and_then(|known| known.letter.marked_ms) else {
            return false;
        };
        let excuses = |window: &&mut Window| (marked_ms - SKEW_MS..=repeat.read_ms).contains(&window.crash_ms);
        let window = windows.iter_mut().rev().find(excuses);
        window.map(|window| window.count += 1).is_some()
    }

    /// The letter of a row that was committed.
    pub(super) fn of_row(&mut self, id: [u64; 2]) -> Option<Letter> {
        let known = self.letters.get_mut(&id)?;
        known.is_committed = true;
        Some(known.letter)
    }

    /// What a good row is blamed for, in words, if it is.
    pub(super) fn blame(&self, id: [u64; 2], row: &Expected) -> Option<String> {
        let Known { letter, reason, .. } = self.letters.get(&id)?;
        let reason = reason.as_deref().filter(|_| row.is_misfit == Some(false))?;
        Some(format!("{row}, a good row whose letter is {:?}: {reason}", letter.state))
    }

    /// What cannot be: after all rows.
    pub(super) fn absurd(self) -> Cases {
        let mut absurd = self.absurd;
        for (id, Known { letter, .. }) in self.letters.iter().filter(|(_, known)| !known.is_committed) {
            let [high, low] = id;
            absurd.add(|| {
                format!("a letter of {high:016x}{low:016x}, which is {:?}: rolled back, or never written", letter.state)
            });
        }
        absurd
    }
}

/// What a row that arrived has to do with its letter, in words, if that cannot be.
pub(super) fn contradiction(row: &Expected, letter: Option<Letter>, windows: &[Window]) -> Option<String> {
    let letter = letter.filter(|letter| letter.state != LetterState::Sent)?;
    let is_excused = |window: &Window| row.timestamp_ms.is_some_and(|committed_ms| window.holds(committed_ms));
    let without = !windows.iter().any(is_excused);
    without.then(|| format!("{row} arrived, and its letter is {:?}", letter.state))
}
