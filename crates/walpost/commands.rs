//! What each command does, once the command line and the configuration are known to be good.

/// Prints a line to standard output; one that cannot be written is no reason to leave work half done, and is told at the end.
macro_rules! say {
    ($($arguments:tt)*) => {
        $crate::output::line(format_args!($($arguments)*))
    };
}

/// Prints a line to standard error.
macro_rules! complain {
    ($($arguments:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stderr(), $($arguments)*);
    }};
}

mod check;
mod checkpoint;
mod dlq;
mod import;
mod init;
mod papers;
mod repair;
mod run;
mod status;

pub use check::check;
pub use checkpoint::{Checkpoint, Target, checkpoint};
pub use dlq::{Dlq, LetterForm, Marking, dlq};
pub use import::{Import, Offsets, Position, Version, import};
pub use init::{Hindrance, Init, create, init};
pub use papers::{completions, man};
pub use repair::{Fill, Repair, Way, repair};
pub use run::run;
pub use status::{Form, status};

use walpost_core::failure::chain;
use walpost_postgres::error::Error as PostgresError;

use crate::exit::{Ended, Exit};
use crate::journal;

/// How a command ended: with a code of its own choice, or with an error.
pub type Outcome = Result<Exit, Ended>;

/// The end of a command that PostgreSQL did not let go on.
fn postgres_refused(error: &PostgresError) -> Ended {
    let sentence = journal::with_remedy(&chain(error), error.remedy());
    Ended::with_sentence(Exit::of_source(error.class()), sentence)
}

/// The end of a command that a checkpoint store did not let go on.
fn checkpoint_refused(error: &crate::store::Error) -> Ended {
    let sentence = journal::with_remedy(&error.sentence(), error.remedy().as_deref());
    Ended::with_sentence(error.exit(), sentence)
}
