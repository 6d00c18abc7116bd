//! `walpost checkpoint`: looks after the checkpoint, while no relay runs or to fence one that does.

use std::path::PathBuf;
use std::time::Duration;

use walpost_core::position::Checkpoint as Stored;
use walpost_core::start::{self, ServerState, SlotState};
use walpost_postgres::{inspect, sql};

use super::{Outcome, checkpoint_refused, postgres_refused};
use crate::config::Settings;
use crate::config::settings::{Sink, Store as StoreKind};
use crate::exit::{Ended, Exit};
use crate::{journal, relay};

const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

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
    Copy(Target),
}

/// A store that a checkpoint can be copied into.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Target {
    /// The row in the source database.
    Postgres,
    /// This file.
    File(PathBuf),
    /// The topic of `checkpoint.topic`, on the brokers of the sink.
    Kafka,
}

impl Target {
    #[cfg_attr(
        not(feature = "kafka"),
        expect(unreachable_code, reason = "there are no settings of a sink that is not built in")
    )]
    fn store(&self, settings: &Settings) -> Result<StoreKind, Ended> {
        match self {
            Self::Postgres => Ok(StoreKind::Postgres),
            Self::File(path) => Ok(StoreKind::File(path.clone())),
            Self::Kafka => match settings.sink() {
                Sink::Kafka(kafka) => Ok(StoreKind::Kafka(kafka.clone())),
                Sink::Stdout | Sink::Null => {
                    let sentence = "the store kafka lies on the brokers of the sink, and the sink is another; write type = \"kafka\" under [sink]";
                    Err(Ended::with_sentence(Exit::Configuration, sentence))
                }
            },
        }
    }
}

/// Looks after the checkpoint.
///
/// # Errors
/// A store or the database cannot be reached, or refuses.
pub async fn checkpoint(settings: Settings, action: Checkpoint) -> Outcome {
    match action {
        Checkpoint::Show => show(&settings).await,
        Checkpoint::AdoptSlot => adopt_slot(&settings).await,
        Checkpoint::Forget => forget(&settings).await,
        Checkpoint::Copy(to) => copy(&settings, &to).await,
    }
}

async fn show(settings: &Settings) -> Outcome {
    let (server, slot) = look(settings).await?;
    let mut store = relay::store(settings);
    let (stored, doubt) = store.look().await.map_err(|error| checkpoint_refused(&error))?;
    doubt.iter().for_each(|doubt| complain!("{doubt}"));
    say!("store:      {}", store.place());
    match &stored {
        Some(stored) => print_checkpoint(stored),
        None => say!("checkpoint: none"),
    }
    match &slot {
        Some(slot) => {
            let (confirmed, restart) = (written(slot.confirmed), written(slot.restart));
            say!("slot:       {}, confirmed {confirmed}, restart {restart}", slot.name);
        }
        None => say!("slot:       {} does not exist", settings.source().slot()),
    }
    say!("server:     system {}, timeline {}, flushed {}", server.system.0, server.timeline.0, server.flushed);
    let state = start::compare(&server, slot.as_ref(), stored.as_ref(), &relay::wanted(settings));
    say!("start:      {}", journal::with_remedy(&state.sentence(), state.remedy().as_deref()));
    Ok(Exit::Success)
}

fn print_checkpoint(stored: &Stored) {
    say!("checkpoint: {} on timeline {} of system {}", stored.position, stored.timeline.0, stored.system.0);
    say!("            database {}, slot {}, epoch {}", stored.database, stored.slot, stored.epoch.0);
    if let Some(rows) = stored.settled_rows {
        say!(
            "            of the transaction that commits at {} the rows up to {} are settled",
            rows.commit_lsn,
            rows.through
        );
    }
    if let Some(time) = stored.commit_time {
        say!("            last settled commit at {} ({} ms since 1970)", time.to_rfc3339(), time.unix_millis());
    }
}

async fn adopt_slot(settings: &Settings) -> Outcome {
    let (server, slot) = look(settings).await?;
    let Some(slot) = slot else {
        let sentence = format!("the slot {} does not exist; run: walpost init", settings.source().slot());
        return Err(Ended::with_sentence(Exit::SourceRefused, sentence));
    };
    let mut store = relay::store(settings);
    let adopted =
        store.adopt_slot(&server, &slot, &relay::wanted(settings)).await.map_err(|error| checkpoint_refused(&error))?;
    say!("the checkpoint of relay {:?} now stands at the slot's {}", adopted.relay, adopted.position);
    if let Some(pid) = slot.active_pid {
        say!(
            "note: process {pid} reads the slot and starts anew; should it end because the slot is ahead, run this once more"
        );
    }
    Ok(Exit::Success)
}

async fn forget(settings: &Settings) -> Outcome {
    let mut store = relay::store(settings);
    let had_one = store.forget().await.map_err(|error| checkpoint_refused(&error))?;
    let was = if had_one { "is forgotten" } else { "was not there" };
    say!("the checkpoint in {} {was}", store.place());
    Ok(Exit::Success)
}

async fn copy(settings: &Settings, to: &Target) -> Outcome {
    let (mut from, mut to) = (relay::store(settings), relay::store_of(settings, &to.store(settings)?));
    to.create().await.map_err(|error| checkpoint_refused(&error))?;
    let copied = from.copy_to(&mut to).await.map_err(|error| checkpoint_refused(&error))?;
    say!("the checkpoint at {} was copied from {} to {}", copied.position, from.place(), to.place());
    Ok(Exit::Success)
}

async fn look(settings: &Settings) -> Result<(ServerState, Option<SlotState>), Ended> {
    let connection = settings.source().connection();
    let sql = sql::Session::connect(connection, STATEMENT_TIMEOUT).await.map_err(|error| postgres_refused(&error))?;
    let slot = inspect::slot_state(&sql, settings.source().slot()).await.map_err(|error| postgres_refused(&error))?;
    let server = inspect::server_state(&sql, connection).await.map_err(|error| postgres_refused(&error))?;
    Ok((server, slot))
}

fn written(position: Option<walpost_core::lsn::Lsn>) -> String {
    position.map_or_else(|| "nothing".to_owned(), |position| position.to_string())
}
