//! SIGTERM and SIGINT: the first finishes what is in flight, a second ends the process at once.

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::exit::Exit;

/// Whether the relay is to stop. Clones see the same.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

impl Stop {
    /// Listens for SIGTERM and SIGINT from now on. Has to be called within a `LocalSet`.
    ///
    /// # Errors
    /// The system does not let us listen.
    pub fn listen() -> std::io::Result<Self> {
        let (tell, told) = watch::channel(false);
        let mut terminate = signal(SignalKind::terminate())?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        tokio::task::spawn_local(async move {
            loop {
                let name = tokio::select! {
                    _ = terminate.recv() => "SIGTERM",
                    _ = interrupt.recv() => "SIGINT",
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
