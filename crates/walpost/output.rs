//! Standard output as commands write to it, whose output is what they were asked for.
//!
//! What cannot be written does not end a command, which may be in the midst of its work: the first refusal is kept, and told at the end
//! ([`settled`]). A reader that went away has seen what it wanted, and is none.

use std::fmt::Arguments;
use std::io::{self, Write};
use std::sync::{Mutex, PoisonError};

use crate::exit::Exit;

/// Why standard output did not take something, the first time.
static REFUSED: Mutex<Option<io::Error>> = Mutex::new(None);

/// Prints a line.
pub fn line(line: Arguments<'_>) {
    keep(writeln!(io::stdout().lock(), "{line}"));
}

/// Writes these bytes.
pub fn bytes(bytes: &[u8]) {
    keep(io::stdout().lock().write_all(bytes));
}

/// Keeps how something went that wrote to standard output.
pub fn keep(outcome: io::Result<()>) {
    match outcome {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
        Err(error) => {
            REFUSED.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }
}

/// How a command ends, once all that it printed is written or is known not to be; that is a line on standard error. A command that failed keeps its code.
#[must_use]
pub fn settled(exit: Exit) -> Exit {
    keep(io::stdout().lock().flush());
    let Some(error) = REFUSED.lock().unwrap_or_else(PoisonError::into_inner).take() else { return exit };
    // There is nobody to tell when that fails too.
    let _ = writeln!(io::stderr().lock(), "error: standard output cannot be written: {error}");
    match exit {
        Exit::Success => Exit::OutputClosed,
        failed => failed,
    }
}
