//! What each command does, once the command line and the configuration are known to be good.

use crate::config::Settings;
use crate::config::settings::Store;
use crate::exit::{Ended, Exit};

/// How a command ended: with a code of its own choice, or with an error.
pub type Outcome = Result<Exit, Ended>;

/// How `walpost init` goes about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Init {
    /// Create the outbox tables too.
    pub with_outbox: bool,
    /// Print the SQL and run nothing.
    pub is_dry_run: bool,
}

/// What `walpost checkpoint` does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checkpoint {
    /// Print it, and where the slot stands.
    Show,
    /// Go on from where the slot stands.
    AdoptSlot,
    /// Delete it.
    Forget,
    /// Copy it into another store.
    Copy(Store),
}

/// Publishes until told to stop.
///
/// # Errors
/// Why the relay cannot go on.
pub async fn run(settings: Settings) -> Outcome {
    not_built("run", &settings)
}

/// Creates what is missing in the database.
///
/// # Errors
/// The database cannot be reached, or refuses.
pub async fn init(settings: Settings, _options: Init) -> Outcome {
    not_built("init", &settings)
}

/// Looks for everything that would keep the relay from running.
///
/// # Errors
/// The database cannot be asked at all; what it says when asked are findings.
pub async fn check(settings: Settings) -> Outcome {
    not_built("check", &settings)
}

/// Looks after the checkpoint.
///
/// # Errors
/// A store or the database cannot be reached, or refuses.
pub async fn checkpoint(settings: Settings, _action: Checkpoint) -> Outcome {
    not_built("checkpoint", &settings)
}

fn not_built(command: &str, settings: &Settings) -> Outcome {
    let sentence = format!("walpost {command} is not built yet; relay {:?} is left alone", settings.name());
    Err(Ended::with_sentence(Exit::Unexpected, sentence))
}
