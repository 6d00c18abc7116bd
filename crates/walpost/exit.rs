//! The codes that the process ends with: one for each thing that an operator, or a supervisor such as systemd, would do
//! something different about.

use std::fmt::Write;
use std::io::Write as _;

use walpost_core::start::StartState;
use walpost_postgres::error::Class;

/// Defines the codes and their help from one list.
macro_rules! exits {
    ($( #[doc = $doc:literal] $name:ident = $code:literal, )+) => {
        /// How the process ended.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Exit {
            $( #[doc = $doc] $name, )+
        }

        impl Exit {
            /// All of them, in the order of their codes.
            pub const ALL: &'static [Self] = &[$( Self::$name, )+];

            /// The code.
            #[must_use]
            pub const fn code(self) -> u8 {
                match self {
                    $( Self::$name => $code, )+
                }
            }

            /// What it means.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self {
                    $( Self::$name => $doc.trim_ascii(), )+
                }
            }
        }
    };
}

exits! {
    /// All is well; a relay that was told to stop has delivered and checkpointed what it had
    Success = 0,
    /// An error that nobody foresaw
    Unexpected = 1,
    /// The command line cannot be understood, or names what is not there
    Usage = 2,
    /// The configuration is wrong; every fault was printed
    Configuration = 3,
    /// PostgreSQL refuses, and only an operator can change that
    SourceRefused = 4,
    /// `walpost check` found something that has to be put right first
    Findings = 5,
    /// The broker refuses, and only an operator can change that
    SinkRefused = 6,
    /// A row cannot be published and is to stop the relay
    BadRow = 7,
    /// Standard output cannot be written, or whoever read it went away
    OutputClosed = 8,
    /// The relay was made to stop before it had delivered and checkpointed everything; the next start repeats that
    ForcedStop = 9,
    /// `walpost status` found that not all is well
    Unwell = 10,
    /// The checkpoint store refuses, or what it or the topic of dead letters holds cannot be used, and only an operator can change that
    CheckpointRefused = 11,
    /// A server cannot be reached now, or cannot answer now; try again (`run` tries again by itself)
    Unreachable = 12,
    /// Start refused: there is neither a slot nor a checkpoint
    Fresh = 20,
    /// Start refused: there is a checkpoint and no slot
    SlotMissing = 21,
    /// Start refused: another session reads the slot (`run` waits for it instead)
    SlotBusy = 22,
    /// Start refused: the server has invalidated the slot
    SlotLost = 23,
    /// Start refused: the slot was confirmed beyond the checkpoint
    SlotAhead = 24,
    /// Start refused: the slot has no confirmed position
    SlotUnfinished = 25,
    /// Start refused: the slot is a physical one
    SlotPhysical = 26,
    /// Start refused: the slot is a temporary one
    SlotTemporary = 27,
    /// Start refused: the slot decodes with another plugin
    WrongPlugin = 28,
    /// Start refused: the slot belongs to another database
    WrongDatabase = 29,
    /// Start refused: the position lies beyond the server's log, which was restored from older data
    Future = 30,
    /// Start refused: the server writes an older timeline than the checkpoint's
    TimelineBehind = 31,
    /// Start refused: the checkpoint lies on log that a promotion made void
    Promoted = 32,
    /// Start refused: the checkpoint belongs to another cluster
    OtherSystem = 33,
    /// Start refused: the checkpoint belongs to another relay, database or slot
    OtherCheckpoint = 34,
    /// Start refused: the server is a standby
    InRecovery = 35,
    /// Start refused: there is a slot and no checkpoint, and with exactly once nothing may be published twice
    CheckpointMissing = 36,
}

impl Exit {
    /// The code for a state that keeps a relay from starting.
    #[must_use]
    pub fn of_start(state: &StartState) -> Self {
        let code = state.exit_code();
        Self::ALL.iter().copied().find(|exit| exit.code() == code).unwrap_or(Self::Unexpected)
    }

    /// The code of a command that PostgreSQL did not let go on.
    #[must_use]
    pub fn of_source(class: Class) -> Self {
        match class {
            Class::Transient | Class::ShuttingDown => Self::Unreachable,
            Class::SlotBusy | Class::NeedsOperator(_) | Class::Undecodable | Class::Unforeseen => Self::SourceRefused,
        }
    }

    /// The table of the help.
    #[must_use]
    pub fn table() -> String {
        Self::ALL.iter().fold(String::from("Exit codes:\n"), |mut table, exit| {
            // Writing to a `String` cannot fail.
            let _ = writeln!(table, "  {:>2}  {}", exit.code(), exit.meaning());
            table
        })
    }
}

impl Exit {
    /// Ends the process, with what was printed and with nothing else that is done at exit: there OpenSSL frees what it has, and C++ its statics, while
    /// threads of a Kafka client that was left behind, or was not closed, still work with them and crash (OpenSSL's manual of `OPENSSL_cleanup`).
    pub fn end(self) -> ! {
        // A reader that went away has seen what it wanted.
        let _ = std::io::stdout().flush();
        signal_hook::low_level::exit(self.code().into())
    }
}

/// An error together with the code that the process ends with because of it.
#[derive(Debug, thiserror::Error)]
#[error("{cause:#}")]
pub struct Ended {
    /// The code.
    pub exit: Exit,
    /// Why; displayed with all of its causes, in one line.
    pub cause: anyhow::Error,
}

impl Ended {
    /// Ends with this code because of this.
    pub fn because(exit: Exit, cause: impl Into<anyhow::Error>) -> Self {
        Self { exit, cause: cause.into() }
    }

    /// Ends with this code and this sentence.
    pub fn with_sentence(exit: Exit, sentence: impl Into<String>) -> Self {
        Self { exit, cause: anyhow::Error::msg(sentence.into()) }
    }

    /// Ends with this code and these sentences.
    pub fn with_sentences<'a>(exit: Exit, sentences: impl IntoIterator<Item = &'a String>) -> Self {
        Self::because(exit, Several(sentences.into_iter().cloned().collect()))
    }

    /// What there is to say, a sentence each: a line on standard error or an entry of the log, which say themselves that it is an error.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        match self.cause.downcast_ref::<Several>() {
            Some(Several(sentences)) => sentences.clone(),
            None => vec![format!("{:#}", self.cause)],
        }
    }
}

/// Several things that are wrong at once.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.join("; "))]
struct Several(Vec<String>);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_distinct_and_the_table_names_each() {
        let table = Exit::table();
        assert!(Exit::ALL.windows(2).all(|pair| pair[0].code() < pair[1].code()), "{table}");
        for exit in Exit::ALL {
            assert!(table.contains(&format!("{:>2}  {}", exit.code(), exit.meaning())), "{table}");
        }
    }

    #[test]
    fn an_end_is_displayed_with_its_causes_in_one_line() {
        let cause = anyhow::Error::msg("connection refused").context("the broker is away");
        assert_eq!(Ended::because(Exit::SinkRefused, cause).to_string(), "the broker is away: connection refused");
    }

    #[test]
    fn several_sentences_are_told_one_by_one() {
        let sentences = ["the table is missing", "the role may not create"].map(str::to_owned);
        assert_eq!(Ended::with_sentences(Exit::SourceRefused, &sentences).sentences(), sentences);
        let cause = anyhow::Error::msg("connection refused").context("the broker is away");
        assert_eq!(Ended::because(Exit::SinkRefused, cause).sentences(), ["the broker is away: connection refused"]);
    }
}
