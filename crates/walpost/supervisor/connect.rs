//! Gets hold of the slot, of the checkpoint and of the sink's transactions, in an order in which nobody goes on unseen in our
//! place.
//!
//! First it only looks: slot, checkpoint and server are read and compared. Then it takes: the slot, by streaming from it; the
//! sink's transactions, which ends those of whoever had them before; the checkpoint, which has to be what it was at the look.
//! Only then are the dead letters read, for nobody but us adds to them any more.

use std::sync::Arc;
use std::time::Duration;

use walpost_core::lsn::Lsn;
use walpost_core::poison::Inventory;
use walpost_core::port::{Checkpoints, DeadLetters};
use walpost_core::position::Checkpoint;
use walpost_core::session;
use walpost_core::start::{self, ServerState, SlotState, StartState};
use walpost_postgres::inspect;
use walpost_postgres::preflight;
use walpost_postgres::sql;
use walpost_postgres::stream::{Stream, StreamSettings};

use super::decide::Trouble;
use super::memory::Memory;
use super::{Supervisor, publications};
use crate::former::{self, Unknown};
use crate::letters::{self, AnyLetters};
use crate::store::{self, AnyStore};
use crate::{commands, journal, misfit, relay};

/// How long a statement may take on the session that looks at the server.
const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// A stream that has started and a checkpoint that is ours.
pub(super) struct Connection {
    /// Tells when the server shuts down.
    pub(super) sql: sql::Session,
    pub(super) stream: Stream,
    pub(super) store: AnyStore,
    /// Where rows are set aside, if any may be.
    pub(super) letters: Option<AnyLetters>,
    /// As it was claimed.
    pub(super) checkpoint: Checkpoint,
    pub(super) beginning: session::Start,
    pub(super) server: ServerState,
}

/// What was seen before anything was taken.
struct Look {
    sql: sql::Session,
    store: AnyStore,
    stored: Option<Checkpoint>,
    server: ServerState,
    /// What this process remembers, where it counts here.
    memory: Option<Memory>,
    /// The stored checkpoint, moved on to what is remembered.
    known: Option<Checkpoint>,
    /// Where the stream is to start.
    position: Lsn,
    /// What the slot has confirmed.
    acknowledged: Lsn,
}

/// What was read, and what it comes to.
struct Compared {
    stored: Option<Checkpoint>,
    server: ServerState,
    memory: Option<Memory>,
    known: Option<Checkpoint>,
    state: StartState,
}

/// Whether there is no start, and another checkpoint might give one.
fn is_about_the_checkpoint(state: &StartState) -> bool {
    state.start().is_none() && !matches!(state, StartState::SlotBusy { .. } | StartState::InRecovery)
}

/// Whether a claim left nothing but what it was to leave: it keeps what somebody wrote in the moment before it, and a session would begin behind that.
fn is_as_expected(kept: Option<&Checkpoint>, claimed: &Checkpoint) -> bool {
    kept.is_some_and(|kept| (kept.position, kept.settled_rows) == (claimed.position, claimed.settled_rows))
}

impl Supervisor {
    /// Gets hold of the slot and of the checkpoint.
    pub(super) async fn connect(&mut self) -> Result<Connection, Trouble> {
        self.prepare().await?;
        let mut look = self.look().await?;
        self.check_outboxes(&look).await?;
        let stream = self.take_slot(&look).await?;
        let checkpoint = self.take_checkpoint(&mut look).await?;
        // After the claim: what another relay of this name set aside is there, and so is what a transaction left whose end nobody heard.
        let (letters, inventory) = self.take_inventory().await?;
        let beginning = self.beginning(&look, &checkpoint, inventory);
        let Look { sql, store, server, .. } = look;
        Ok(Connection { sql, stream, store, letters, checkpoint, beginning, server })
    }

    /// Creates what may be created, once.
    async fn prepare(&mut self) -> Result<(), Trouble> {
        if self.settings.source().may_create() && !self.is_prepared {
            commands::create(&self.settings).await?;
            self.is_prepared = true;
        }
        Ok(())
    }

    /// Reads slot, checkpoint and server, and compares them.
    async fn look(&self) -> Result<Look, Trouble> {
        let source = self.settings.source();
        let sql = sql::Session::connect(source.connection(), STATEMENT_TIMEOUT).await.map_err(Trouble::Postgres)?;
        let mut store = relay::store(&self.settings);
        // In this order: a relay that stops in between has moved only what is read later.
        let slot = inspect::slot_state(&sql, source.slot()).await.map_err(Trouble::Postgres)?;
        let mut compared = self.compare(&sql, &mut store, slot.as_ref()).await?;
        if store.can_be_hidden() && is_about_the_checkpoint(&compared.state) {
            // Another relay may hide our last checkpoint. It is not waited for before: what a killed relay of this name left open we end ourselves.
            self.settle(&store).await?;
            compared = self.compare(&sql, &mut store, slot.as_ref()).await?;
        }
        let Compared { stored, server, memory, known, state } = compared;
        let (Some(position), Some(slot)) = (state.start(), slot) else {
            return Err(self.no_start(state));
        };
        journal::start(&state);
        let acknowledged = slot.confirmed.unwrap_or(position);
        Ok(Look { sql, store, stored, server, memory, known, position, acknowledged })
    }

    /// Reads checkpoint and server, and compares them with the slot.
    async fn compare(
        &self,
        sql: &sql::Session,
        store: &mut AnyStore,
        slot: Option<&SlotState>,
    ) -> Result<Compared, Trouble> {
        let stored = store.load().await.map_err(|error| self.store_trouble(error))?;
        let connection = self.settings.source().connection();
        let server = inspect::server_state(sql, connection).await.map_err(Trouble::Postgres)?;
        let memory = self.memory.filter(|memory| memory.is_of(stored.as_ref(), &server, store));
        let known =
            stored.clone().map(|stored| memory.map_or_else(|| stored.clone(), |memory| memory.ahead_of(&stored)));
        let state = start::compare(&server, slot, known.as_ref(), &relay::wanted(&self.settings));
        Ok(Compared { stored, server, memory, known, state })
    }

    /// Waits until nobody hides a checkpoint any more.
    async fn settle(&self, store: &AnyStore) -> Result<(), Trouble> {
        store.settle(store::SETTLE_LIMIT).await.map_err(|error| self.store_trouble(error))
    }

    /// What a state comes to in which there is no start, after what this process has seen.
    fn no_start(&self, state: StartState) -> Trouble {
        match state {
            StartState::InRecovery if self.has_streamed => Trouble::NoPrimary(state),
            StartState::SlotBusy { pid: Some(pid), .. } if self.reader == Some(pid) => Trouble::Lingering(state),
            state => Trouble::Start(state),
        }
    }

    /// Looks whether rows of an outbox would be passed over, and before the first stream whether any could be published at all.
    async fn check_outboxes(&mut self, look: &Look) -> Result<(), Trouble> {
        let Look { sql, known, .. } = look;
        let source = self.settings.source();
        let published = inspect::publications(sql, source.publications()).await.map_err(Trouble::Postgres)?;
        let subject = relay::subject(&self.settings);
        let missing = inspect::missing_tables(sql, &subject.outboxes).await.map_err(Trouble::Postgres)?;
        if let Some(finding) = preflight::gap(&published, &missing, &subject) {
            return Err(Trouble::Unpublished(finding));
        }
        publications::look_for_changes(&mut self.coverage, &published, &self.settings, self.recorder.board());
        if self.has_streamed {
            return Ok(());
        }
        journal::row_filters(&preflight::filters(&published, &subject));
        let encoding = inspect::encoding(sql).await.map_err(Trouble::Postgres)?;
        preflight::encoding(&encoding).iter().for_each(journal::finding);
        // Of one that has published nothing yet, nothing can have been passed over since.
        if known.as_ref().is_some_and(|known| known.commit_time.is_some()) {
            let late = inspect::late_members(sql, source.slot(), source.publications());
            journal::late_members(&late.await.map_err(Trouble::Postgres)?, self.settings.outboxes());
        }
        let misfits = misfit::of_outboxes(sql, &self.settings, &published).await.map_err(Trouble::Postgres)?;
        if !misfits.is_empty() {
            return Err(Trouble::Misfit(misfits));
        }
        let unreferable = misfit::of_references(sql, &self.settings, &published).await.map_err(Trouble::Postgres)?;
        if let Some(finding) = unreferable {
            return Err(Trouble::Unpublished(finding));
        }
        match former::letters(sql, &self.settings).await {
            Ok(None) => Ok(()),
            Ok(Some(finding)) => Err(Trouble::Renamed(finding)),
            Err(Unknown::Postgres(error)) => Err(Trouble::Postgres(error)),
            Err(Unknown::Letters(error)) => Err(self.letters_trouble(error)),
        }
    }

    /// Starts the stream. The slot is ours from here on.
    async fn take_slot(&mut self, look: &Look) -> Result<Stream, Trouble> {
        let Look { sql, position, acknowledged, .. } = look;
        let source = self.settings.source();
        let (slot, publications) = (source.slot().clone(), source.publications().to_vec());
        let settings = StreamSettings::new(slot, publications, *position, *acknowledged)
            .with_wal_sender_timeout(source.wal_sender_timeout());
        let stream =
            Stream::connect(source.connection(), sql.endpoint(), &settings).await.map_err(Trouble::Postgres)?;
        let reading = inspect::slot_state(sql, source.slot()).await.map_err(Trouble::Postgres)?;
        self.reader = reading.and_then(|slot| slot.active_pid);
        Ok(stream)
    }

    /// Becomes the one who writes the checkpoint, wherever it lies, if nobody has moved it since the look.
    async fn take_checkpoint(&mut self, look: &mut Look) -> Result<Checkpoint, Trouble> {
        let Look { store, stored, server, memory, known, position, acknowledged, .. } = look;
        // Whoever had the slot before us may have gone on since we looked, and where it wrote by transactions it may have left one open,
        // behind which nothing can be read.
        self.sink.open_transactions().await.map_err(Trouble::Transaction)?;
        // What is hidden now, others hide.
        self.settle(store).await?;
        if store.keeps_a_checkpoint() && store.load().await.map_err(|error| self.store_trouble(error))? != *stored {
            return Err(Trouble::Moved);
        }
        // Elsewhere memory or slot tell well enough how far we got. Here they may lag behind what readers have seen, and nothing may come twice.
        if self.sink.is_transactional() && self.memory.is_some_and(|memory| memory.is_gone(stored.as_ref())) {
            return Err(Trouble::CheckpointGone { place: store.place(), confirmed: *acknowledged });
        }
        let commit_time = known.as_ref().and_then(|known| known.commit_time);
        // On another timeline the same LSN may belong to another transaction.
        let is_of_timeline = |known: &&Checkpoint| known.timeline == server.timeline;
        let settled_rows = known.as_ref().filter(is_of_timeline).and_then(|known| known.settled_rows);
        let checkpoint = relay::checkpoint_at(&self.settings, *position, commit_time, settled_rows, server);
        // What is remembered counts on after the claim, whatever becomes of this attempt.
        let mut remembered = self.memory.as_mut().filter(|_| memory.is_some());
        if let Some(memory) = &mut remembered {
            memory.claims(stored.as_ref(), *position);
        }
        let epoch = if self.sink.is_transactional() {
            self.sink.claim(stored.as_ref(), &checkpoint).await.map_err(Trouble::Transaction)?.epoch
        } else {
            match store.claim(&checkpoint).await {
                Ok(epoch) => epoch,
                Err(error) => return Err(self.store_trouble(error)),
            }
        };
        if let Some(memory) = &mut self.memory
            && look.memory.is_some()
        {
            memory.claimed(epoch);
        }
        if !self.sink.is_transactional() && store.keeps_a_checkpoint() {
            let kept = store.load().await.map_err(|error| self.store_trouble(error))?;
            if !is_as_expected(kept.as_ref(), &checkpoint.claimed(stored.as_ref())) {
                return Err(Trouble::Moved);
            }
        }
        Ok(Checkpoint { epoch, ..checkpoint })
    }

    /// What was there may come back; what never was has to be made.
    fn store_trouble(&self, error: store::Error) -> Trouble {
        if self.has_streamed && !error.is_retried() && error.is_retried_under_way() {
            return Trouble::StoreAway(error);
        }
        Trouble::Checkpoint(error)
    }

    /// The same of letters.
    fn letters_trouble(&self, error: letters::Error) -> Trouble {
        if self.has_streamed && error.is_retried_under_way() {
            return Trouble::LettersAway(error);
        }
        Trouble::Letters(error)
    }

    /// Where rows are set aside, if any may be, and what lies there.
    async fn take_inventory(&self) -> Result<(Option<AnyLetters>, Inventory), Trouble> {
        if !self.session_settings.poison.needs_store() {
            return Ok((None, Inventory::default()));
        }
        let mut letters = AnyLetters::of_sink(&self.settings, &self.sink, &self.letter_memory);
        let inventory = letters.inventory().await.map_err(|error| self.letters_trouble(error))?;
        Ok((Some(letters), inventory))
    }

    /// From where a session goes on that starts with this checkpoint.
    fn beginning(&self, look: &Look, checkpoint: &Checkpoint, inventory: Inventory) -> session::Start {
        let position = look.position;
        let memory = look.memory.as_ref().filter(|memory| memory.is_at(position));
        session::Start {
            position,
            // The claim wrote it.
            checkpointed: position,
            timeline: look.server.timeline,
            commit_time: checkpoint.commit_time,
            first_owed: memory.and_then(Memory::first_owed),
            settled_ahead: memory.map(|_| Arc::clone(&self.settled_ahead)).unwrap_or_default(),
            settled_rows: checkpoint.settled_rows,
            lessons: self.lessons.clone(),
            inventory,
            first_ticket: self.next_ticket,
            seed: self.seed ^ self.next_ticket.0,
        }
    }
}
