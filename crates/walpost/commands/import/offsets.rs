//! How far a connector got, by the offset that Connect stored for it.
//!
//! What the fields mean in Debezium (`PostgresOffsetContext`, `PostgresStreamingChangeEventSource`, `WalPositionLocator`), where `L` is what the
//! server puts into the header of a frame: of a row the start of its record in the log, of COMMIT the end of the commit's record
//! (`change_cb_wrapper` and `commit_cb_wrapper` in PostgreSQL's logical.c).
//!
//! | field | is |
//! |---|---|
//! | `lsn_commit` | `L` of the last COMMIT that was read before the record: `Commit.end_lsn`, and so a position of walpost |
//! | `lsn_proc` | `L` of the record's row; of a heartbeat the last row or COMMIT that was read before it |
//! | `messageType` | what was read last before the record was made: INSERT and its like for a row, COMMIT or BEGIN for a heartbeat |
//! | `lsn_events_processed` | from 3.7 on: how many changes with this very `L` were read, which rows of one COPY share |
//!
//! Connect stores the offset of the last record of which all before it are acknowledged. So everything before `lsn_commit` is published,
//! and of the transaction after it the rows up to `lsn_proc`. Whether that transaction has more rows no offset tells: the slot is asked,
//! by a stream that confirms nothing. Where something cannot be known, rows are published again and never left out.

mod java;
mod resume;
mod stored;

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use walpost_core::position::{Checkpoint, Epoch};
use walpost_core::start::{ServerState, SlotState, StartState};
use walpost_postgres::checkpoint;
use walpost_postgres::{inspect, sql};

use super::super::init::create_for_another_checkpoint;
use super::super::{checkpoint_refused, postgres_refused};
use crate::config::Settings;
use crate::exit::{Ended, Exit};
use crate::relay;
use resume::Resumed;
use stored::{Offset, Resume};

const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// A file with offsets is some kilobytes.
const MAX_FILE_BYTES: u64 = 64 << 20;

/// Where Connect keeps its offsets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Offsets {
    /// The file of a standalone worker or of Debezium Server.
    File(PathBuf),
    /// The topic of distributed workers, on the brokers of the configuration or on these.
    Topic {
        /// Its name.
        topic: String,
        /// Brokers, if other ones.
        servers: Option<String>,
    },
}

impl FromStr for Offsets {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(topic) = text.strip_prefix("kafka:") else {
            return if text.is_empty() { Err("name a file".to_owned()) } else { Ok(Self::File(PathBuf::from(text))) };
        };
        let (topic, servers) = match topic.split_once('@') {
            Some((topic, servers)) => (topic, Some(servers.to_owned())),
            None => (topic, None),
        };
        if topic.is_empty() || servers.as_deref() == Some("") {
            return Err("write kafka:TOPIC or kafka:TOPIC@HOST:PORT".to_owned());
        }
        Ok(Self::Topic { topic: topic.to_owned(), servers })
    }
}

/// Whose offset is looked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Owner<'a> {
    /// The connector's name.
    pub(super) connector: &'a str,
    /// Its `topic.prefix`.
    pub(super) prefix: &'a str,
}

/// How long it is waited for the transactions of others, such as one that a worker left open when it was killed, before an offset is taken
/// over.
#[cfg(feature = "kafka")]
const SETTLE_LIMIT: std::time::Duration = std::time::Duration::from_secs(10);

/// Makes the slot's confirmed position the checkpoint.
///
/// # Errors
/// The slot is in use or not there, or the checkpoint cannot be written.
pub(super) async fn take_slot(settings: &Settings) -> Result<(), Ended> {
    let (server, slot) = look(settings).await?;
    // The checkpoint's table, which a connector has no use for. Slot and publication are there and stay as they are.
    create_for_another_checkpoint(settings).await?;
    let mut store = relay::store(settings);
    let adopted =
        store.adopt_slot(&server, &slot, &relay::wanted(settings)).await.map_err(|error| checkpoint_refused(&error))?;
    let place = store.place();
    complain!("the checkpoint of relay {:?} stands at the slot's {}, in {place}", adopted.relay, adopted.position);
    complain!("what the connector published after it is published again, with the same ids");
    Ok(())
}

/// Makes what Connect stored the checkpoint.
///
/// # Errors
/// There is no such offset, the slot is in use or does not fit it, or the checkpoint cannot be written.
pub(super) async fn take_offset(settings: &Settings, from: &Offsets, owner: Owner<'_>) -> Result<(), Ended> {
    let refused = |reason: String| Ended::with_sentence(Exit::Configuration, reason);
    let offset = read(settings, from, owner)?;
    let resume = offset.resume().map_err(|reason| refused(format!("{reason}; run it with --checkpoint instead")))?;
    let (server, slot) = look(settings).await?;
    // The checkpoint's table, which a connector has no use for. Slot and publication are there and stay as they are.
    create_for_another_checkpoint(settings).await?;
    let base = checkpoint::at_slot(&server, &slot, &relay::wanted(settings))
        .map_err(|error| checkpoint_refused(&error.into()))?;
    if base.position > resume.commit() {
        return Err(Ended::with_sentence(
            Exit::SlotAhead,
            format!(
                "the slot {:?} is confirmed up to {}, beyond the stored offset {}: somebody else moved it, or the offset is an old one; nothing \
                 before the slot's position can be read any more. To go on from there, run it with --checkpoint instead",
                slot.name,
                base.position,
                resume.commit()
            ),
        ));
    }
    if resume.commit() > server.flushed {
        let state = StartState::Future { position: resume.commit(), flushed: server.flushed };
        let sentence = format!(
            "the stored offset {} lies beyond the server's log, which ends at {}: the offset is that of another server, or this one was \
             restored from older data; nothing was taken over",
            resume.commit(),
            server.flushed
        );
        return Err(Ended::with_sentence(Exit::of_start(&state), sentence));
    }
    let resumed = match resume {
        Resume::At(commit) if commit == base.position => Resumed::at(commit),
        Resume::At(_) | Resume::Within { .. } => resume::look(settings, &server, base.position, resume).await?,
    };
    let checkpoint = Checkpoint {
        position: resumed.position,
        settled_rows: resumed.settled_rows,
        commit_time: None,
        epoch: Epoch(0),
        ..base
    };
    let mut store = relay::store(settings);
    store.replace(&checkpoint).await.map_err(|error| checkpoint_refused(&error))?;
    let (place, Checkpoint { relay, position, .. }) = (store.place(), &checkpoint);
    complain!("the checkpoint of relay {relay:?} stands at {position}, in {place}: {}", resumed.sentence);
    Ok(())
}

/// Server and slot, of which nobody else may have hold.
async fn look(settings: &Settings) -> Result<(ServerState, SlotState), Ended> {
    let connection = settings.source().connection();
    let sql = sql::Session::connect(connection, STATEMENT_TIMEOUT).await.map_err(|error| postgres_refused(&error))?;
    let slot = inspect::slot_state(&sql, settings.source().slot()).await.map_err(|error| postgres_refused(&error))?;
    let server = inspect::server_state(&sql, connection).await.map_err(|error| postgres_refused(&error))?;
    let Some(slot) = slot else {
        let sentence =
            format!("the slot {} does not exist, so that there is nothing to take over", settings.source().slot());
        return Err(Ended::with_sentence(Exit::SourceRefused, sentence));
    };
    if let Some(pid) = slot.active_pid {
        let sentence = format!(
            "the slot {:?} is in use (process {pid}): the connector still runs; stop it first, so that its last offset is stored",
            slot.name
        );
        return Err(Ended::with_sentence(Exit::SlotBusy, sentence));
    }
    Ok((server, slot))
}

fn read(settings: &Settings, from: &Offsets, owner: Owner<'_>) -> Result<Offset, Ended> {
    let refused = |reason: String| Ended::with_sentence(Exit::Configuration, reason);
    let (pairs, place) = match from {
        Offsets::File(path) => (read_file(path).map_err(refused)?, path.display().to_string()),
        Offsets::Topic { topic, servers } => {
            let pairs = read_topic(settings, topic, servers.as_deref())?;
            (pairs, format!("topic {topic}"))
        }
    };
    stored::find(&pairs, owner.connector, owner.prefix).map_err(|reason| refused(format!("{place}: {reason}")))
}

fn read_file(path: &Path) -> Result<java::Pairs, String> {
    let refused = |reason: String| format!("{}: {reason}", path.display());
    let length = std::fs::metadata(path).map_err(|error| refused(format!("it cannot be read: {error}")))?.len();
    if length > MAX_FILE_BYTES {
        return Err(refused(format!("it has {length} bytes, and a file of Connect's offsets never has as many")));
    }
    let bytes = std::fs::read(path).map_err(|error| refused(format!("it cannot be read: {error}")))?;
    java::parse(&bytes).map_err(refused)
}

#[cfg(feature = "kafka")]
fn read_topic(settings: &Settings, topic: &str, servers: Option<&str>) -> Result<java::Pairs, Ended> {
    use crate::config::settings::Sink;
    let Sink::Kafka(kafka) = settings.sink() else {
        let sentence = "the configuration names no broker whose topic could be read";
        return Err(Ended::with_sentence(Exit::Configuration, sentence));
    };
    let refused = |error: walpost_kafka::ReadError| {
        let exit = if error.is_retried() { Exit::Unreachable } else { Exit::Configuration };
        let doubt = match error {
            walpost_kafka::ReadError::Hidden { .. } => {
                "there may be a newer offset than the one that can be seen; try again later: "
            }
            _ => "",
        };
        Ended::with_sentence(exit, format!("{doubt}{}", walpost_core::failure::chain(&error)))
    };
    // Who goes on from an older offset than the last publishes again what lies between the two.
    walpost_kafka::settle_topic(kafka, servers, topic, SETTLE_LIMIT).map_err(refused)?;
    walpost_kafka::read_topic(kafka, servers, topic).map_err(refused)
}

#[cfg(not(feature = "kafka"))]
fn read_topic(_: &Settings, _: &str, _: Option<&str>) -> Result<java::Pairs, Ended> {
    let sentence = "this walpost was built without Kafka and cannot read a topic";
    Err(Ended::with_sentence(Exit::Configuration, sentence))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_in_a_file_or_in_a_topic() {
        let topic = |topic: &str, servers: Option<&str>| {
            Ok(Offsets::Topic { topic: topic.to_owned(), servers: servers.map(str::to_owned) })
        };
        assert_eq!("/data/offsets.dat".parse(), Ok(Offsets::File(PathBuf::from("/data/offsets.dat"))));
        assert_eq!("kafka:connect-offsets".parse(), topic("connect-offsets", None));
        assert_eq!("kafka:o@a:1,b:2".parse(), topic("o", Some("a:1,b:2")));
        for bad in ["", "kafka:", "kafka:@a:1", "kafka:o@"] {
            assert!(bad.parse::<Offsets>().is_err(), "{bad}");
        }
    }
}
