//! Asks the server what the slot costs, over a session of its own, also and above all while there is no stream.

use std::time::Duration;

use walpost_core::failure::chain;
use walpost_postgres::error::Error;
use walpost_postgres::usage::{Usage, usage};
use walpost_postgres::{ConnectionSettings, SlotName, sql};

use super::board::Board;

/// How often.
const INTERVAL: Duration = Duration::from_secs(2);

/// How long an answer may take.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(5);

/// Whom to ask about what.
#[derive(Debug, Clone)]
pub struct Probe {
    connection: ConnectionSettings,
    slot: SlotName,
}

impl Probe {
    /// Asks this server about this slot.
    #[must_use]
    pub fn new(connection: ConnectionSettings, slot: SlotName) -> Self {
        Self { connection, slot }
    }

    /// Asks for ever, and writes the answers down.
    pub(super) async fn ask(self, board: &Board) {
        let mut session = None;
        loop {
            match self.ask_once(&mut session).await {
                Ok(usage) => told(board, usage),
                Err(error) => {
                    session = None;
                    untold(board, chain(&error));
                }
            }
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn ask_once(&self, session: &mut Option<sql::Session>) -> Result<Usage, Error> {
        let open = match session {
            Some(open) => open,
            None => session.insert(sql::Session::connect(&self.connection, STATEMENT_TIMEOUT).await?),
        };
        usage(open, &self.slot).await
    }
}

fn told(board: &Board, usage: Usage) {
    let now = board.clock().now();
    let mut sight = board.sight();
    let received = sight.last.as_ref().map(|view| view.received);
    sight.server.horizon.see(now, usage.flushed, received);
    sight.server.usage = Some((usage, now));
    sight.server.failure = None;
}

/// The stream's own attempts say it louder, so once is enough.
fn untold(board: &Board, reason: String) {
    let mut sight = board.sight();
    if sight.server.failure.is_none() {
        tracing::warn!(reason, "the figures of the slot cannot be had; they are asked for again");
    }
    sight.server.failures += 1;
    sight.server.failure = Some(reason);
}
