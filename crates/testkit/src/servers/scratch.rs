//! Temporary folders that go away with the process that made them, however it ends.
//!
//! All of a process's folders lie below one, named by its [`Identity`]. Dropping a [`Scratch`] removes it; what is
//! left when the process is killed, or ends without dropping its statics, is removed by a janitor: a shell that waits
//! for the end of a pipe that only this process holds. [`sweep`] takes what even that left, say at a loss of power.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::account::temporary_folder;
use super::process::{Identity, Lifetime};
use super::{Error, Result};

const PREFIX: &str = "walpost-test-";

/// Waits for its input to end, then removes the folder. A PostgreSQL that was killed leaves the shared memory that the
/// seventh line of its `postmaster.pid` names; and servers that die at the same moment may still be writing.
const JANITOR: &str = r#"cat >/dev/null
for file in "$0"/*/data/postmaster.pid; do
    memory=$(sed -n '7s/.* //p' "$file") && [ -n "$memory" ] && ipcrm --shmem-id "$memory"
done 2>/dev/null
for attempt in 1 2 3 4 5 6 7 8 9 10; do
    rm -rf -- "$0" 2>/dev/null && exit 0
    sleep 0.2
done"#;

/// A temporary folder that others may enter; removed when dropped.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
}

impl Scratch {
    /// Makes a new folder whose name begins with `label`.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when the temporary folder cannot be written.
    pub fn new(label: &str) -> Result<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let path = folder_of_this_process()?.join(format!("{label}-{number}"));
        make_folder(&path)?;
        Ok(Self { path })
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The janitor takes what cannot be removed now.
        let _ = fs::remove_dir_all(&self.path);
        if let Some(parent) = self.path.parent() {
            // Refused, as it should be, while there are other folders in it.
            let _ = fs::remove_dir(parent);
        }
    }
}

/// Where a server's data lies, which decides how long it lives.
#[derive(Debug)]
pub(super) enum Place {
    /// In a folder that goes with us.
    Temporary(Scratch),
    /// In a folder that somebody named.
    Kept(PathBuf),
}

impl Place {
    /// The folder that was named, made if need be, else a temporary one.
    pub(super) fn choose(kept: Option<&Path>, label: &str) -> Result<Self> {
        let Some(kept) = kept else { return Scratch::new(label).map(Self::Temporary) };
        make_folder(kept)?;
        Ok(Self::Kept(kept.to_owned()))
    }

    pub(super) fn path(&self) -> &Path {
        match self {
            Self::Temporary(scratch) => scratch.path(),
            Self::Kept(path) => path,
        }
    }

    pub(super) fn lifetime(&self) -> Lifetime {
        match self {
            Self::Temporary(_) => Lifetime::WithUs,
            Self::Kept(_) => Lifetime::OnItsOwn,
        }
    }
}

/// Makes a folder and its parents, which every account may enter.
pub(super) fn make_folder(path: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o755).create(path);
    made.map_err(Error::io(format_args!("make the folder {}", path.display())))
}

/// Writes a file, or says which one could not be.
pub(super) fn write_file(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).map_err(Error::io(format_args!("write {}", path.display())))
}

fn folder_of_this_process() -> Result<&'static Path> {
    static FOLDER: OnceLock<(PathBuf, Option<ChildStdin>)> = OnceLock::new();
    if let Some((folder, _)) = FOLDER.get() {
        return Ok(folder);
    }
    let us = Identity::of(std::process::id())
        .ok_or(Error::Malformed { what: "our own entry in /proc", text: "/proc/self/stat".to_owned() })?;
    let folder = temporary_folder().join(format!("{PREFIX}{us}"));
    let (folder, _) = FOLDER.get_or_init(|| {
        sweep();
        let janitor = start_janitor(&folder);
        (folder, janitor)
    });
    Ok(folder)
}

/// The end of the pipe that the janitor waits for. Without a janitor there is still [`sweep`].
fn start_janitor(folder: &Path) -> Option<ChildStdin> {
    let mut shell = Command::new("sh");
    shell.args(["-c", JANITOR]).arg(folder).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    shell.process_group(0).spawn().ok()?.stdin
}

/// Removes the temporary folders of processes that are no more.
pub fn sweep() {
    let Ok(entries) = fs::read_dir(temporary_folder()) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let owner = name.to_str().and_then(|name| name.strip_prefix(PREFIX)).and_then(|name| name.parse().ok());
        if owner.is_some_and(|owner: Identity| !owner.is_alive()) {
            // Another process may be sweeping too, or it belongs to somebody else.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_folder_is_gone_with_all_that_is_in_it() {
        let scratch = Scratch::new("dropped").unwrap();
        let path = scratch.path().to_owned();
        fs::write(path.join("file"), "content").unwrap();
        drop(scratch);
        assert!(!path.exists());
    }

    #[test]
    fn two_folders_of_one_label_differ() {
        assert_ne!(Scratch::new("same").unwrap().path(), Scratch::new("same").unwrap().path());
    }

    #[test]
    fn a_sweep_takes_the_folders_of_the_dead_and_leaves_those_of_the_living() {
        let alive = Scratch::new("alive").unwrap();
        let ours = Identity::of(std::process::id()).unwrap();
        let dead = temporary_folder().join(format!("{PREFIX}{}-{}", ours.pid(), 1));
        let foreign = temporary_folder().join(format!("{PREFIX}of-somebody-else"));
        make_folder(&dead).unwrap();
        make_folder(&foreign).unwrap();
        sweep();
        assert!(alive.path().exists());
        assert!(!dead.exists());
        assert!(foreign.exists());
        fs::remove_dir(foreign).unwrap();
    }
}
