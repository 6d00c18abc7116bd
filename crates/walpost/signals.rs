//! SIGTERM and SIGINT: the first finishes what is in flight, a second ends the process at once. SIGHUP, which a terminal that is closed sends, and
//! often twice, is as the first, unless whoever started the process has it ignored (`nohup`).

use std::fs;

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::exit::Exit;

/// Whether the relay is to stop. Clones see the same.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Listens for these signals from now on. Has to be called within a `LocalSet`.
    ///
    /// # Errors
    /// The system does not let us listen.
    pub fn listen() -> std::io::Result<Self> {
        let (tell, told) = watch::channel(false);
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut hangup = if ignores_hangups() { None } else { Some(signal(SignalKind::hangup())?) };
        tokio::task::spawn_local(async move {
            loop {
                let name = tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
                    () = hung_up(&mut hangup) => {
                        if !tell.send_replace(true) {
                            tracing::info!("SIGHUP: finishing what is in flight; SIGTERM or SIGINT ends at once");
                        }
                        continue;
                    }
                };
                if tell.send_replace(true) {
                    tracing::warn!("{name} again: ending at once; what was not checkpointed will be published again");
                    // Clients of Kafka are in the midst of their work.
                    Exit::ForcedStop.end();
                }
                tracing::info!("{name}: finishing what is in flight; once more ends at once");
            }
        });
        Ok(Self(told))
    }

    /// Whether it is to stop.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        *self.0.borrow()
    }

    /// Completes when it is to stop.
    pub async fn asked(&mut self) {
        // The listening task never ends, so an error cannot be; waiting for ever would be right then too.
        if self.0.wait_for(|is_asked| *is_asked).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn hung_up(hangup: &mut Option<Signal>) {
    match hangup {
        Some(hangup) => {
            hangup.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Whether SIGHUP was ignored when the process started (proc_pid_status(5)): a handler of ours would undo that.
fn ignores_hangups() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).is_some_and(|mask| mask & 1 == 1)
}
