//! The sink's turn: it commits, or is reset, while everything but publishing goes on.
//!
//! A session that ends meanwhile does not wait for it. What came of a commit, the checkpoint says then; a reset is for whoever
//! takes the sink next ([`End::needs_reset`](walpost_core::session::End::needs_reset)).

use std::future::Future;
use std::pin::pin;

use walpost_core::failure::Failure;
use walpost_core::port::{Source, TransactionalSink};
use walpost_core::position::Progress;

use super::report::TOLD_APART;
use super::{Driver, Outside};
use crate::journal;

/// What the sink has to do.
pub(super) enum Turn {
    Reset,
    Commit(Progress),
}

impl<S: Source> Driver<'_, S> {
    pub(super) async fn give_turn<K: TransactionalSink>(
        &mut self,
        turn: Turn,
        sink: &mut K,
        outside: &mut Outside<'_>,
    ) {
        match turn {
            Turn::Reset => {
                if let Some(outcome) = self.meanwhile::<K, _>(sink.reset(), outside).await {
                    self.on_reset(outcome);
                }
            }
            Turn::Commit(progress) => {
                let checkpoint = self.checkpointer.checkpoint_at(progress);
                if let Some(outcome) = self.meanwhile::<K, _>(sink.commit(&checkpoint), outside).await {
                    self.on_commit(outcome);
                }
            }
        }
    }

    /// Waits for what the sink does while everything else goes on, or until the session ends.
    async fn meanwhile<K: TransactionalSink, T>(
        &mut self,
        work: impl Future<Output = T>,
        outside: &mut Outside<'_>,
    ) -> Option<T> {
        let mut work = pin!(work);
        loop {
            tokio::select! {
                outcome = &mut work => return Some(outcome),
                report = self.next_report(outside) => self.take(report),
            }
            let turn = self.advance(None::<&mut K>);
            debug_assert!(turn.is_none(), "one thing is asked of a sink at a time");
            if self.end.is_some() {
                return None;
            }
            self.recorder.turn(self.session, self.clock.now());
        }
    }

    fn on_commit(&mut self, outcome: Result<(), Failure>) {
        self.recorder.checkpoint_answered(outcome.is_ok());
        if let Err(failure) = &outcome {
            journal::undelivered(failure);
        }
        self.session.committed(outcome, self.clock.now());
    }

    fn on_reset(&mut self, outcome: Result<(), Failure>) {
        self.recorder.reset(outcome.is_ok());
        if let Err(failure) = &outcome {
            journal::reset_failed(failure);
        }
        let failures = std::mem::take(&mut self.failures);
        if failures > TOLD_APART {
            journal::more_undelivered(failures - TOLD_APART);
        }
        self.session.sink_reset(outcome, self.clock.now());
    }
}
