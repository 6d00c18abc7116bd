//! What ended an attempt, and what is done about it: try again, wait for whoever has the slot, or end with a sentence and a
//! code of its own.
//!
//! Each edge has classified its errors; here alone it is decided what follows, and nothing is done but to write the log.

use walpost_core::failure::{Class as DeliveryClass, Failure, chain};
use walpost_core::finding::Finding;
use walpost_core::lsn::Lsn;
use walpost_core::position::Identity;
use walpost_core::session::{Cause, SessionError};
use walpost_core::start::StartState;
use walpost_postgres::checkpoint;
use walpost_postgres::error::{Class, Error as PostgresError};

use super::memory::Rest;
use crate::commands::Hindrance;
use crate::exit::{Ended, Exit};
use crate::{journal, letters, store};

/// What ended an attempt.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The relay was told to stop while no session lived. What the last one left, if there was one.
    StoppedBefore(Rest),
    /// PostgreSQL could not be reached, or refused.
    Postgres(PostgresError),
    /// The checkpoint store could not be read or claimed.
    Checkpoint(store::Error),
    /// It cannot be reached any more by a relay that has streamed.
    StoreAway(store::Error),
    /// The checkpoint that was written together with what it stands for is not there any more, so that nobody can tell what was published since.
    CheckpointGone {
        /// Where it lay.
        place: String,
        /// What the slot has confirmed.
        confirmed: Lsn,
    },
    /// The brokers refused us for somebody who came after us, or for a transaction that had grown too old.
    Fenced(Failure),
    /// A transaction of the sink could not begin, or was not committed.
    Transaction(Failure),
    /// The dead letters could not be read.
    Letters(letters::Error),
    /// Where they lie cannot be reached any more.
    LettersAway(letters::Error),
    /// Server, slot and checkpoint do not fit together.
    Start(StartState),
    /// The server's end of our own last connection still has the slot.
    Lingering(StartState),
    /// Where we streamed before is a standby now, or only a standby answers: a failover is under way.
    NoPrimary(StartState),
    /// Rows of an outbox would be passed over.
    Unpublished(Finding),
    /// No row of an outbox could be published; all that is wrong.
    Misfit(Vec<Finding>),
    /// Rows lie there that were set aside under a name that the relay had before.
    Renamed(Finding),
    /// The checkpoint has moved between our look at it and our hold of the slot.
    Moved,
    /// The server cannot decode or convert a transaction.
    Undecodable {
        error: PostgresError,
        /// The end of what was taken in.
        received: Lsn,
        /// Its commit, where the server has told it.
        commit: Option<Lsn>,
    },
    /// The sink will take nothing.
    Sink(Failure),
    /// What may be created cannot be.
    Unprepared(Ended),
    /// A session ended.
    Session { cause: Cause, rest: Rest, source_error: Option<PostgresError> },
}

impl Trouble {
    /// The word for it among the figures.
    pub(super) fn word(&self) -> &'static str {
        match self {
            Self::StoppedBefore(_) => "stopped",
            Self::Postgres(_) => "postgres",
            Self::Checkpoint(_) | Self::StoreAway(_) | Self::CheckpointGone { .. } => "checkpoint",
            Self::Fenced(_) => "fenced",
            Self::Transaction(_) => "transaction",
            Self::Letters(_) | Self::LettersAway(_) => "dead_letters",
            Self::Start(_) => "start",
            Self::Lingering(_) => "lingering",
            Self::NoPrimary(_) => "no_primary",
            Self::Unpublished(_) => "unpublished",
            Self::Misfit(_) => "misfit",
            Self::Renamed(_) => "renamed",
            Self::Moved => "checkpoint_moved",
            Self::Undecodable { .. } => "undecodable",
            Self::Sink(_) => "sink",
            Self::Unprepared(_) => "unprepared",
            Self::Session { cause, .. } => match cause {
                Cause::Stopped => "stopped",
                Cause::SourceLost => "source_lost",
                Cause::Silent => "source_silent",
                Cause::Broken(_) => "protocol",
                Cause::Undeliverable(..) => "undeliverable",
                Cause::Aborted(..) => "transaction",
            },
        }
    }
}

impl From<Hindrance> for Trouble {
    fn from(hindrance: Hindrance) -> Self {
        match hindrance {
            Hindrance::Postgres(error) => Self::Postgres(error),
            Hindrance::Checkpoint(error) => Self::Checkpoint(error),
            Hindrance::Letters(error) => Self::Letters(error),
            Hindrance::Refused(ended) => Self::Unprepared(ended),
        }
    }
}

/// What is done about it.
#[derive(Debug)]
pub(super) enum Decision {
    /// Try again after the next wait.
    Again(String),
    /// Somebody else has the slot: ask again soon, for as long as it takes. That is how a second instance stands by.
    StandBy(String),
    /// As above, but it is ourselves: nobody publishes meanwhile.
    Linger(String),
    /// End the process.
    End(Result<Exit, Ended>),
}

impl Decision {
    fn end_with(exit: Exit, sentence: impl Into<String>) -> Self {
        Self::End(Err(Ended::with_sentence(exit, sentence)))
    }
}

/// What a sentence has to know of the relay that it is for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Relay<'a> {
    pub(super) slot: &'a str,
    /// Whether a position is kept beside that of the slot.
    pub(super) keeps_a_checkpoint: bool,
    /// What a refusal of its sink ends with.
    pub(super) sink_refusal: Exit,
}

impl Relay<'_> {
    /// How to go on without a row.
    fn skipping(self, identity: Identity) -> String {
        format!(
            "if the configuration or the topic is at fault, correct it and start again: nothing is lost; to go on without what is not yet published of its transaction, run: {}",
            self.advancing(&behind(identity.commit_lsn))
        )
    }

    /// How to go on without a transaction that the server does not send. Where not even its beginning came, another plugin shows it.
    fn passing(self, commit: Option<Lsn>) -> String {
        let without = "to go on without what is not yet published of it, run:";
        match commit {
            Some(commit) => format!("{without} {}", self.advancing(&behind(commit))),
            None => format!(
                "to see where it ends, run in one session: SELECT pg_copy_logical_replication_slot('{}', 'walpost_look', true, 'test_decoding'), then SELECT lsn, data FROM pg_logical_slot_peek_changes('walpost_look', NULL, NULL, 'skip-empty-xacts', 'on'); {without} {}, LSN being that of its COMMIT",
                self.slot,
                self.advancing("'LSN'")
            ),
        }
    }

    /// How the slot is moved on.
    fn advancing(self, to: &str) -> String {
        let Self { slot, keeps_a_checkpoint, .. } = self;
        let adopt = if keeps_a_checkpoint { ", then walpost checkpoint adopt-slot" } else { "" };
        format!("SELECT pg_replication_slot_advance('{slot}', {to}){adopt}")
    }
}

/// A position behind a transaction. The server leaves out one whose commit lies before the slot's position, so one byte after the
/// start of its commit record is enough, and nothing of the next one is passed over.
fn behind(commit: Lsn) -> String {
    format!("'{commit}'::pg_lsn + 1")
}

/// What is done about what ended an attempt: the one place that decides it.
pub(super) fn decide(trouble: Trouble, relay: Relay<'_>) -> Decision {
    let Relay { slot, sink_refusal, .. } = relay;
    match trouble {
        Trouble::StoppedBefore(rest) => stopped(rest),
        Trouble::Moved => Decision::Again("the checkpoint has moved meanwhile".to_owned()),
        Trouble::NoPrimary(state) => Decision::Again(state.sentence()),
        Trouble::Start(state @ StartState::SlotBusy { .. }) => Decision::StandBy(state.sentence()),
        // A walsender that hangs, or that has not noticed yet that we are gone.
        Trouble::Lingering(state) => Decision::Linger(format!(
            "{}, which is our own last connection: the server has not noticed its end, or the process hangs; it is waited for; to end it: SELECT pg_terminate_backend(active_pid) FROM pg_replication_slots WHERE slot_name = '{slot}'",
            state.sentence()
        )),
        Trouble::Start(state) => {
            let sentence = journal::with_remedy(&state.sentence(), state.remedy().as_deref());
            Decision::end_with(Exit::of_start(&state), sentence)
        }
        Trouble::Unpublished(finding) => Decision::end_with(Exit::SourceRefused, finding.without_severity()),
        Trouble::Misfit(findings) => misfit(&findings),
        Trouble::Renamed(finding) => Decision::end_with(Exit::CheckpointRefused, finding.without_severity()),
        Trouble::Postgres(error) => judge(error.class(), &chain(&error), Exit::SourceRefused),
        Trouble::Checkpoint(error) => checkpoint_failed(&error),
        Trouble::StoreAway(error) => Decision::Again(error.with_remedy()),
        Trouble::CheckpointGone { place, confirmed } => Decision::end_with(
            Exit::CheckpointRefused,
            format!(
                "the checkpoint that this relay wrote is gone from {place}, and an older one is there: the topic was made anew, and somebody wrote one since; nothing is lost, but a start goes on from there, or from the slot's confirmed position {confirmed} where that is later, and publishes again what was published after it; to accept that, start again"
            ),
        ),
        Trouble::LettersAway(error) => Decision::Again(error.with_remedy()),
        // Whether another instance goes on in our place, the slot tells: while it has that, we wait; if nobody has, it was our own transaction.
        Trouble::Fenced(failure) => Decision::StandBy(failure.reason),
        Trouble::Transaction(failure) => transaction_failed(failure, sink_refusal),
        Trouble::Letters(error) => letters_failed(&error, sink_refusal),
        Trouble::Unprepared(ended) => Decision::End(Err(ended)),
        Trouble::Sink(verdict) => Decision::end_with(sink_refusal, verdict.reason),
        Trouble::Undecodable { error, received, commit } => {
            Decision::end_with(Exit::SourceRefused, undecodable(&error, received, commit, relay))
        }
        Trouble::Session { cause, rest, source_error } => session_ended(cause, rest, source_error, relay),
    }
}

/// What is said of a transaction that the server cannot decode or convert. The log keeps rows and catalogue as they were, so that what is
/// mended counts for the table alone, and for what is written from now on.
fn undecodable(error: &PostgresError, received: Lsn, commit: Option<Lsn>, relay: Relay<'_>) -> String {
    let which = match commit {
        Some(commit) => format!("the transaction that committed at {commit}"),
        None => format!("a transaction that committed behind {received}"),
    };
    format!(
        "{}: the server cannot decode or convert {which}, now or later, and sends nothing behind it; nothing is lost, for the slot keeps all of it; correct the publication's row filter where that fails, or in the table the row that does not convert to UTF8 or is too large, then publish from the tables: walpost repair --fill --since TIME, a time before it; {}",
        chain(error),
        relay.passing(commit)
    )
}

/// What is done about the end of a session.
fn session_ended(cause: Cause, rest: Rest, source_error: Option<PostgresError>, relay: Relay<'_>) -> Decision {
    match cause {
        Cause::Stopped => stopped(rest),
        Cause::SourceLost => match source_error {
            Some(error) => judge(error.class(), &chain(&error), Exit::SourceRefused),
            None => Decision::Again("the connection was given up".to_owned()),
        },
        Cause::Silent => Decision::Again("the server said nothing for the whole of wal_sender_timeout".to_owned()),
        Cause::Broken(error @ SessionError::Row { identity, .. }) => {
            let sentence = format!("{error}; {}", relay.skipping(identity));
            Decision::end_with(Exit::BadRow, sentence)
        }
        Cause::Broken(error @ SessionError::Updated(_)) => Decision::End(Err(Ended::because(Exit::BadRow, error))),
        Cause::Broken(error) => Decision::Again(chain(&error)),
        Cause::Aborted(_, failure) => transaction_failed(failure, relay.sink_refusal),
        Cause::Undeliverable(identity, failure) => Decision::End(Err(undeliverable(identity, &failure, relay))),
    }
}

/// The end of a relay of whose outboxes one lets no row through.
fn misfit(findings: &[Finding]) -> Decision {
    findings.iter().for_each(journal::finding);
    let sentence = match findings.len() {
        1 => "a fault keeps every row of an outbox from being published".to_owned(),
        count => format!("{count} faults keep every row of an outbox from being published"),
    };
    Decision::end_with(Exit::SourceRefused, sentence)
}

/// What is done about a checkpoint that could not be read or claimed.
fn checkpoint_failed(error: &store::Error) -> Decision {
    // Like the slot: another instance has it, or the writer of our own last connection is still at it.
    if let store::Error::Own(error @ checkpoint::Error::Locked { .. }) = error {
        return Decision::StandBy(chain(error));
    }
    match error.class() {
        Some(class) => judge(class, &error.sentence(), error.exit()),
        None if error.is_retried() => Decision::Again(error.sentence()),
        None => Decision::end_with(error.exit(), error.with_remedy()),
    }
}

/// What is done about a transaction of the sink that failed: its rows come again with the next session.
fn transaction_failed(failure: Failure, sink_refusal: Exit) -> Decision {
    match failure.class {
        DeliveryClass::Configuration => Decision::end_with(sink_refusal, failure.reason),
        DeliveryClass::Row | DeliveryClass::Route | DeliveryClass::Sink | DeliveryClass::Withdrawn => {
            Decision::Again(failure.reason)
        }
    }
}

/// What is done about dead letters that could not be read.
fn letters_failed(error: &letters::Error, sink_refusal: Exit) -> Decision {
    if error.is_about_content() {
        return Decision::end_with(Exit::CheckpointRefused, error.with_remedy());
    }
    match (error.class(), error.remedy()) {
        (Some(class), _) => judge(class, &error.sentence(), Exit::SourceRefused),
        (None, None) => Decision::Again(error.sentence()),
        (None, Some(_)) => Decision::end_with(sink_refusal, error.with_remedy()),
    }
}

/// The end of a relay that was told to stop.
fn stopped(rest: Rest) -> Decision {
    if rest.is_nothing() {
        return Decision::End(Ok(Exit::Success));
    }
    let sentence = format!(
        "stopped with {rest}; the next start goes on from the checkpoint, and what was published after it comes again"
    );
    Decision::end_with(Exit::ForcedStop, sentence)
}

/// What is done about an error of PostgreSQL, or of a checkpoint store; `refusal` is the code where only an operator can help.
fn judge(class: Class, reason: &str, refusal: Exit) -> Decision {
    match class {
        Class::Transient | Class::ShuttingDown => Decision::Again(reason.to_owned()),
        Class::SlotBusy => Decision::StandBy(reason.to_owned()),
        Class::Unforeseen => {
            tracing::error!(reason, "this was not foreseen");
            Decision::Again(reason.to_owned())
        }
        Class::NeedsOperator(remedy) => {
            let sentence = journal::with_remedy(reason, Some(remedy));
            Decision::end_with(refusal, sentence)
        }
        Class::Undecodable => Decision::end_with(refusal, reason),
    }
}

/// The end of a relay whose record the sink did not take, where nothing else may be done about it.
fn undeliverable(identity: Identity, failure: &Failure, relay: Relay<'_>) -> Ended {
    let row = format!("commit {}, insert {} of its transaction", identity.commit_lsn, identity.ordinal + 1);
    match failure.class {
        DeliveryClass::Configuration => Ended::with_sentence(relay.sink_refusal, format!("{row}: {failure}")),
        DeliveryClass::Row | DeliveryClass::Route | DeliveryClass::Sink | DeliveryClass::Withdrawn => {
            Ended::with_sentence(Exit::BadRow, format!("{row}: {failure}; {}", relay.skipping(identity)))
        }
    }
}

#[cfg(test)]
mod tests;
