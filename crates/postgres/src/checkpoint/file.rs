//! A file: locked for as long as a relay runs, written beside itself, flushed, and put in place by one rename.
//!
//! A crash at any moment leaves the old or the new checkpoint whole. What is damaged all the same (a disk's fault, an editor) is
//! found by a checksum and refused; a missing file is no checkpoint.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use walpost_core::lsn::Lsn;
use walpost_core::port::Checkpoints;
use walpost_core::position::{Checkpoint, Epoch, SettledRows, SystemIdentifier, Timeline};
use walpost_core::time::Timestamp;

use super::Error;

/// A checkpoint file. Beside it lie `<file>.lock`, and `<file>.tmp` while it is written.
#[derive(Debug, Clone)]
pub struct FileStore {
    /// Blocking calls run elsewhere and may outlive a cancelled caller; they take turns.
    held: Arc<Mutex<Held>>,
    path: PathBuf,
}

#[derive(Debug)]
struct Held {
    path: PathBuf,
    /// The lock file, for as long as the lock is held.
    lock: Option<File>,
    claimed: Option<Epoch>,
}

impl FileStore {
    /// The store at this path. Its folder must exist; nothing is touched before the first use.
    #[must_use]
    pub fn new(path: impl Into<PathBuf>) -> Self {
        let path = path.into();
        Self { held: Arc::new(Mutex::new(Held { path: path.clone(), lock: None, claimed: None })), path }
    }

    pub(super) fn place(&self) -> String {
        self.path.display().to_string()
    }

    pub(super) async fn replace(&mut self, checkpoint: &Checkpoint) -> Result<Epoch, Error> {
        let checkpoint = checkpoint.clone();
        self.blocking(move |held| held.replace(&checkpoint)).await
    }

    pub(super) async fn forget(&mut self) -> Result<bool, Error> {
        self.blocking(Held::forget).await
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Held) -> Result<T, Error> + Send + 'static,
    ) -> Result<T, Error> {
        let held = Arc::clone(&self.held);
        // A panic of an earlier call leaves nothing half-done: each call begins with the file.
        let work = move || work(&mut held.lock().unwrap_or_else(PoisonError::into_inner));
        tokio::task::spawn_blocking(work).await.unwrap_or(Err(Error::GivenUp))
    }
}

impl Checkpoints for FileStore {
    type Error = Error;

    async fn load(&mut self) -> Result<Option<Checkpoint>, Error> {
        self.blocking(|held| read(&held.path)).await
    }

    async fn claim(&mut self, checkpoint: &Checkpoint) -> Result<Epoch, Error> {
        let checkpoint = checkpoint.clone();
        self.blocking(move |held| held.claim(&checkpoint)).await
    }

    async fn save(&mut self, checkpoint: &Checkpoint) -> Result<(), Error> {
        let checkpoint = checkpoint.clone();
        self.blocking(move |held| held.save(&checkpoint)).await
    }
}

impl Held {
    fn claim(&mut self, checkpoint: &Checkpoint) -> Result<Epoch, Error> {
        self.acquire()?;
        let claimed = checkpoint.claimed(read(&self.path)?.as_ref());
        write(&self.path, &claimed)?;
        self.claimed = Some(claimed.epoch);
        Ok(claimed.epoch)
    }

    /// Reads before it writes: the lock file may have been removed under us, and another process have claimed.
    fn save(&mut self, checkpoint: &Checkpoint) -> Result<(), Error> {
        let ours = self.claimed.ok_or(Error::NotClaimed)?;
        let stored = read(&self.path)?.ok_or_else(|| Error::Gone { relay: checkpoint.relay.clone() })?;
        if stored.epoch != ours {
            return Err(Error::Fenced { ours: ours.0, theirs: stored.epoch.0 });
        }
        if stored.position > checkpoint.position {
            return Err(Error::Backwards { stored: stored.position, offered: checkpoint.position });
        }
        let commit_time = checkpoint.commit_time.or(stored.commit_time);
        write(&self.path, &Checkpoint { epoch: ours, commit_time, ..checkpoint.clone() })
    }

    /// What is damaged may be replaced: that is how an operator repairs it.
    fn replace(&mut self, checkpoint: &Checkpoint) -> Result<Epoch, Error> {
        self.while_locked(|path| {
            let stored = match read(path) {
                Err(Error::Damaged { .. } | Error::Value { .. }) => None,
                stored => stored?,
            };
            let epoch = next_epoch(stored.as_ref());
            write(path, &Checkpoint { epoch, ..checkpoint.clone() })?;
            Ok(epoch)
        })
    }

    fn forget(&mut self) -> Result<bool, Error> {
        self.while_locked(|path| match fs::remove_file(path) {
            Ok(()) => sync_folder(path).map(|()| true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(source) => Err(Error::File { path: path.to_owned(), action: "removed", source }),
        })
    }

    /// Holds the lock for one act, or goes on holding it where a relay has claimed.
    fn while_locked<T>(&mut self, act: impl FnOnce(&Path) -> Result<T, Error>) -> Result<T, Error> {
        self.acquire()?;
        let outcome = act(&self.path);
        if self.claimed.is_none() {
            self.lock = None;
        }
        outcome
    }

    fn acquire(&mut self) -> Result<(), Error> {
        if self.lock.is_some() {
            return Ok(());
        }
        let path = beside(&self.path, "lock");
        let failed = |source| Error::File { path: path.clone(), action: "locked", source };
        let lock = File::options().create(true).truncate(false).write(true).open(&path).map_err(failed)?;
        match lock.try_lock() {
            Ok(()) => self.lock = Some(lock),
            Err(TryLockError::WouldBlock) => return Err(Error::Locked { path: self.path.clone() }),
            Err(TryLockError::Error(source)) => return Err(failed(source)),
        }
        Ok(())
    }
}

fn next_epoch(stored: Option<&Checkpoint>) -> Epoch {
    Epoch(stored.map_or(0, |stored| stored.epoch.0).saturating_add(1))
}

fn beside(path: &Path, extension: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    PathBuf::from(name)
}

fn read(path: &Path) -> Result<Option<Checkpoint>, Error> {
    match fs::read(path) {
        Ok(bytes) => decode(path, &bytes).map(Some),
        // Where the folder is missing too, perhaps since nothing is mounted there, a checkpoint is not known to be missing.
        Err(error) if error.kind() == io::ErrorKind::NotFound && folder_of(path).is_dir() => Ok(None),
        Err(source) => Err(Error::File { path: path.to_owned(), action: "read", source }),
    }
}

fn write(path: &Path, checkpoint: &Checkpoint) -> Result<(), Error> {
    let temporary = beside(path, "tmp");
    let bytes = encode(path, checkpoint)?;
    let failed = |source| Error::File { path: path.to_owned(), action: "written", source };
    let mut file = File::create(&temporary).map_err(failed)?;
    file.write_all(&bytes).and_then(|()| file.sync_all()).map_err(failed)?;
    fs::rename(&temporary, path).map_err(failed)?;
    sync_folder(path)
}

/// A rename is durable once its folder is.
fn sync_folder(path: &Path) -> Result<(), Error> {
    File::open(folder_of(path)).and_then(|folder| folder.sync_all()).map_err(|source| Error::File {
        path: path.to_owned(),
        action: "made durable",
        source,
    })
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// The file: the checkpoint, and a checksum over its text.
#[derive(Serialize, Deserialize)]
struct Document {
    checksum: String,
    checkpoint: Body,
}

#[derive(Serialize, Deserialize)]
struct Body {
    format_version: u32,
    relay: String,
    /// As text: JSON readers lose digits of large numbers.
    system_identifier: String,
    timeline: u32,
    database: String,
    slot: String,
    position: String,
    commit_time_postgres_micros: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settled_rows: Option<Rows>,
    epoch: u64,
}

#[derive(Serialize, Deserialize)]
struct Rows {
    commit_lsn: String,
    through: String,
}

/// What is read first, so that a newer format is told from a damaged file.
#[derive(Deserialize)]
struct Format {
    checkpoint: FormatVersion,
}

#[derive(Deserialize)]
struct FormatVersion {
    format_version: u32,
}

fn encode(path: &Path, checkpoint: &Checkpoint) -> Result<Vec<u8>, Error> {
    let body = Body {
        format_version: Checkpoint::FORMAT_VERSION,
        relay: checkpoint.relay.clone(),
        system_identifier: checkpoint.system.0.to_string(),
        timeline: checkpoint.timeline.0,
        database: checkpoint.database.clone(),
        slot: checkpoint.slot.clone(),
        position: checkpoint.position.to_string(),
        commit_time_postgres_micros: checkpoint.commit_time.map(Timestamp::postgres_micros),
        settled_rows: checkpoint
            .settled_rows
            .map(|rows| Rows { commit_lsn: rows.commit_lsn.to_string(), through: rows.through.to_string() }),
        epoch: checkpoint.epoch.0,
    };
    let failed =
        |error: serde_json::Error| Error::File { path: path.to_owned(), action: "written", source: error.into() };
    let document = Document { checksum: checksum(&body).map_err(failed)?, checkpoint: body };
    let mut bytes = serde_json::to_vec_pretty(&document).map_err(failed)?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn decode(path: &Path, bytes: &[u8]) -> Result<Checkpoint, Error> {
    let damaged = |reason: String| Error::Damaged { path: path.to_owned(), reason };
    if bytes.is_empty() {
        return Err(damaged("it is empty".to_owned()));
    }
    if let Ok(format) = serde_json::from_slice::<Format>(bytes)
        && format.checkpoint.format_version > Checkpoint::FORMAT_VERSION
    {
        return Err(Error::NewerFormat { found: format.checkpoint.format_version });
    }
    let document: Document = serde_json::from_slice(bytes).map_err(|error| damaged(error.to_string()))?;
    let body = document.checkpoint;
    if checksum(&body).ok() != Some(document.checksum) {
        return Err(damaged("its checksum does not fit its content".to_owned()));
    }
    let value = |field, value: &str| Error::Value { field, value: value.to_owned() };
    let system = body.system_identifier.parse().map_err(|_| value("system_identifier", &body.system_identifier))?;
    let lsn = |field, text: &str| text.parse::<Lsn>().map_err(|_| value(field, text));
    let position = lsn("position", &body.position)?;
    let settled = |rows: &Rows| {
        let commit_lsn = lsn("settled_rows.commit_lsn", &rows.commit_lsn)?;
        Ok(SettledRows { commit_lsn, through: lsn("settled_rows.through", &rows.through)? })
    };
    let settled_rows = body.settled_rows.as_ref().map(settled).transpose()?;
    Ok(Checkpoint {
        relay: body.relay,
        system: SystemIdentifier(system),
        timeline: Timeline(body.timeline),
        database: body.database,
        slot: body.slot,
        position,
        commit_time: body.commit_time_postgres_micros.map(Timestamp::from_postgres_micros),
        settled_rows,
        epoch: Epoch(body.epoch),
    })
}

/// FNV-1a of the body's compact text: it has to find accidents, not forgers.
fn checksum(body: &Body) -> Result<String, serde_json::Error> {
    const OFFSET: u64 = 0xCBF2_9CE4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01B3;
    let text = serde_json::to_vec(body)?;
    let sum = text.iter().fold(OFFSET, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(PRIME));
    Ok(format!("{sum:016x}"))
}

#[cfg(test)]
mod tests;
