//! Says in the log that something is owed and does not move, for whoever reads nothing else: a broker that answers and takes no record, for want of
//! replicas, is otherwise known to `/readyz` and the figures alone.
//!
//! It judges nothing itself, and tells of a standstill once, and of its end.

use std::time::Duration;

use super::board::Board;
use super::health::{self, Limits};

/// How often it is looked.
const INTERVAL: Duration = Duration::from_secs(1);

/// Looks for ever.
pub async fn tell(board: Board, limits: Limits) {
    let mut is_told = false;
    loop {
        tokio::time::sleep(INTERVAL).await;
        let reasons = health::stalls(&board.read(), board.clock().now(), limits);
        match (is_told, reasons.is_empty()) {
            (false, false) => tracing::warn!(reason = reasons.join("; "), "what is owed does not move"),
            (true, true) => tracing::info!("what is owed moves again"),
            (false, true) | (true, false) => {}
        }
        is_told = !reasons.is_empty();
    }
}
