//! What an operator says about letters and is told of them, wherever they are kept.
//!
//! A store finds the letters in its own way; which words there are, what can be asked for and what is answered is the same for all.

use std::time::Duration;

use crate::lsn::Lsn;
use crate::outbox::TableName;
use crate::time::Timestamp;

/// Defines the words of a column, which are also those of the command line.
macro_rules! words {
    ($(#[$attribute:meta])* $name:ident { $( $(#[$variant_attribute:meta])* $variant:ident = $word:literal, )+ }) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum $name {
            $( $(#[$variant_attribute])* $variant, )+
        }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$( Self::$variant, )+];

            /// Its word.
            #[must_use]
            pub const fn word(self) -> &'static str {
                match self {
                    $( Self::$variant => $word, )+
                }
            }
        }
    };
}

words! {
    /// What has become of a letter.
    State {
        /// It waits for an operator.
        Waiting = "waiting",
        /// It is marked to be sent again.
        Replay = "replay",
        /// It is marked to be given up.
        Drop = "drop",
        /// The broker has it.
        Sent = "sent",
        /// It was given up.
        Dropped = "dropped",
    }
}

words! {
    /// Why a letter was set aside.
    Why {
        /// Its row is bad.
        Row = "row",
        /// Its topic is missing or forbidden.
        Route = "route",
        /// It waits for a letter of its key.
        Parked = "parked",
    }
}

impl State {
    /// Those of letters that are neither sent nor dropped.
    pub const OPEN: [Self; 3] = [Self::Waiting, Self::Replay, Self::Drop];
}

/// A point in time, by the clock of whoever keeps the letters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum When {
    /// This one.
    At(Timestamp),
    /// So long ago.
    Ago(Duration),
}

/// Which letters are meant: those that fit everything that is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of these numbers; where none is given, of any.
    pub ids: Vec<i64>,
    /// Of this outbox.
    pub outbox: Option<TableName>,
    /// Whose record goes to this topic.
    pub topic: Option<String>,
    /// With this text for a key.
    pub key: Option<String>,
    /// With this text in their reason, in upper or lower case.
    pub reason: Option<String>,
    /// Set aside for one of these; where none is given, for any.
    pub causes: Vec<Why>,
    /// In one of these states; where none is given, in any.
    pub states: Vec<State>,
    /// Set aside at this time or later.
    pub since: Option<When>,
    /// Set aside before this time.
    pub until: Option<When>,
    /// The first so many of them.
    pub limit: Option<u32>,
}

/// What to mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    /// The letters.
    pub filter: Filter,
    /// And those of the same keys that wait behind them.
    pub with_those_behind: bool,
}

/// What a letter is marked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// To be sent again.
    Replay,
    /// The same, also where its row was changed since.
    ReplayChanged,
    /// To be given up.
    Drop,
    /// For nothing any more.
    Nothing,
}

impl Mark {
    /// The state that it gives.
    #[must_use]
    pub fn state(self) -> State {
        match self {
            Self::Replay | Self::ReplayChanged => State::Replay,
            Self::Drop => State::Drop,
            Self::Nothing => State::Waiting,
        }
    }
}

/// Who marked a letter that goes by itself, in the place of an operator's name. There is no time of it: it is not done, it follows.
pub const FOLLOWS: &str = "walpost (it follows what stood in front of it)";

/// A letter without its content.
#[derive(Debug, Clone, PartialEq)]
pub struct Listed {
    /// Its number.
    pub id: i64,
    /// `waiting`, `replay`, `drop`, `sent` or `dropped`.
    pub state: String,
    /// `row`, `route` or `parked`.
    pub cause: String,
    /// Why, where it does not wait for another one.
    pub reason: Option<String>,
    /// How often it was tried.
    pub attempts: i32,
    /// The outbox.
    pub outbox: TableName,
    /// The event's id.
    pub event_id: Option<String>,
    /// The text that chooses the topic.
    pub route: Option<String>,
    /// The key's text.
    pub key: Option<String>,
    /// The topic, where routing got as far.
    pub topic: Option<String>,
    /// The timeline of its transaction.
    pub timeline: i64,
    /// Where its transaction commits.
    pub commit_lsn: Lsn,
    /// The number of its insert in the transaction.
    pub ordinal: i64,
    /// When it committed. This and the other times in the form of RFC 3339, in UTC.
    pub commit_time: String,
    /// When it was set aside.
    pub first_at: String,
    /// When it was last tried.
    pub last_at: String,
    /// Who marked it last.
    pub marked_by: Option<String>,
    /// When.
    pub marked_at: Option<String>,
    /// When it was sent or dropped.
    pub ended_at: Option<String>,
    /// How much it holds.
    pub bytes: i64,
    /// How long ago it was set aside.
    pub age: Duration,
}

/// A letter that this walpost cannot read: it is damaged, or a newer one wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// Its number: where the record lies that cannot be read.
    pub id: i64,
    /// The key of that record.
    pub key: String,
    /// How it shows.
    pub reason: String,
}

/// What marking does to the letters of one key, or to those of one outbox that have none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Affected {
    /// The outbox.
    pub outbox: TableName,
    /// The key's text.
    pub key: Option<String>,
    /// The first letter that is marked.
    pub first: i64,
    /// How many are marked.
    pub letters: i64,
    /// Those that stand in front of the last of them, unmarked, and keep what is behind them waiting.
    pub in_front: i64,
    /// Those that stand behind all of them, unmarked.
    pub behind: i64,
    /// How many of these stay where they are: a reason of their own keeps them, a mark that was taken back, or one of those.
    pub staying: i64,
    /// Those that stand behind all of them and go once they have ended, because they are marked to be sent or by themselves.
    pub following: i64,
}

impl Affected {
    /// Nothing yet of this key.
    #[must_use]
    pub fn of(outbox: TableName, key: Option<String>, first: i64) -> Self {
        Self { outbox, key, first, letters: 0, in_front: 0, behind: 0, staying: 0, following: 0 }
    }
}
