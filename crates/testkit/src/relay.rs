//! The relay under test, as an operator sees it: a configuration file, a process, its log, its signals.
//!
//! The binary is the real one, and nothing is known of its inside. A started relay is killed when it is dropped, and by the
//! kernel when the thread that started it ends, so that no failed test leaves one behind.

mod config;
mod http;
mod lines;
mod process;

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

pub use config::{Config, toml_string};
pub use http::{Answer, ask};
pub use process::{Ended, Relay};

use crate::servers::{self, Scratch};

/// How long a command that ends by itself may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(60);

/// Why a relay did not do as the test wants.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The operating system refused something.
    #[error("cannot {doing}: {source}")]
    Io {
        /// What was being done.
        doing: String,
        /// The refusal.
        source: io::Error,
    },
    /// A server or process could not be handled.
    #[error(transparent)]
    Server(#[from] servers::Error),
    /// A condition did not come true in time.
    #[error("waited {limit:?} in vain for {waiting_for}; the relay's log:\n{log}")]
    TimedOut {
        /// The condition.
        waiting_for: String,
        /// How long it was waited for.
        limit: Duration,
        /// The end of the relay's log.
        log: String,
    },
    /// The relay ended before the condition came true.
    #[error("the relay ended while it was waited for {waiting_for}; its log:\n{log}")]
    EndedEarly {
        /// The condition.
        waiting_for: String,
        /// The end of the relay's log.
        log: String,
    },
}

impl Error {
    fn io(doing: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Io { doing: doing.to_string(), source }
    }
}

/// As it reads: it ends in the message of a failed test.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The program with a configuration file of its own in a temporary folder.
#[derive(Debug)]
pub struct Walpost {
    program: PathBuf,
    /// Stays as long as a process that was started in it.
    folder: Arc<Scratch>,
    variables: Vec<(String, String)>,
}

impl Walpost {
    /// The program at this path, with this configuration.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn new(program: impl Into<PathBuf>, config: &Config) -> Result<Self, Error> {
        let walpost =
            Self { program: program.into(), folder: Arc::new(Scratch::new("walpost")?), variables: Vec::new() };
        walpost.configure(config)?;
        Ok(walpost)
    }

    /// Writes another configuration, for what is started from now on.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn configure(&self, config: &Config) -> Result<(), Error> {
        self.configure_as(&config.to_string())
    }

    /// Writes a configuration in its own words.
    ///
    /// # Errors
    ///
    /// When the file cannot be written.
    pub fn configure_as(&self, text: &str) -> Result<(), Error> {
        // Relays of many tests run beside each other.
        let text = if text.contains("[http]") {
            text.to_owned()
        } else {
            format!("{text}\n[http]\nlisten = \"127.0.0.1:0\"\n")
        };
        fs::write(self.file(), text).map_err(Error::io("write the configuration of the relay"))
    }

    /// Sets a variable of the environment, for what is started from now on. Nothing of the caller's own `PG*` and `WALPOST*`
    /// variables is handed down.
    pub fn set_variable(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    /// Runs another program from now on, such as one that becomes the first.
    pub fn set_program(&mut self, program: impl Into<PathBuf>) {
        self.program = program.into();
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &Path {
        &self.program
    }

    /// Where the configuration lies; there is room for other files beside it.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Runs a command that ends by itself, such as `init`, with our configuration.
    ///
    /// # Errors
    ///
    /// When it cannot be started, or has not ended after a minute.
    pub fn call(&self, arguments: &[&str]) -> Result<Ended, Error> {
        self.begin(arguments)?.wait(COMMAND_LIMIT)
    }

    /// Starts `walpost run`.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn start(&self) -> Result<Relay, Error> {
        self.begin(&["run"])
    }

    /// Starts a command with our configuration.
    ///
    /// # Errors
    ///
    /// When it cannot be started.
    pub fn begin(&self, arguments: &[&str]) -> Result<Relay, Error> {
        // The kernel ends it with the thread that starts it; `setpriv` becomes the program, so the number is the same.
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig=KILL", "--"]).arg(&self.program).args(arguments).arg("-c").arg(self.file());
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| name.starts_with("PG") || name.starts_with("WALPOST")) {
                // Nothing of the caller's own servers.
                command.env_remove(name);
            }
        }
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.env("RUST_BACKTRACE", "1").current_dir(self.folder.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Relay::spawn(command, Arc::clone(&self.folder))
    }

    fn file(&self) -> PathBuf {
        self.folder.path().join("walpost.toml")
    }
}

#[cfg(test)]
mod tests;
