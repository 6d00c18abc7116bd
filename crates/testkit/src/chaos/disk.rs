//! A small file system for the checkpoint, which can be filled and made read-only. Only a superuser can mount one; it is gone with the
//! mount namespace that `cargo xtask chaos` runs in, or when it is dropped.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::Error;

/// Enough for a checkpoint and its lock.
const SIZE: &str = "size=64k";

/// A mounted file system. Dropped, it is taken away.
pub(super) struct Disk {
    folder: PathBuf,
}

impl Disk {
    /// Whether one can be mounted here: tried on a folder that is there for that.
    pub(super) fn is_to_be_had(folder: &Path) -> bool {
        Self::mount(folder).is_ok()
    }

    /// Mounts it over an empty folder.
    pub(super) fn mount(folder: &Path) -> Result<Self, Error> {
        call("mount", &["-t", "tmpfs", "-o", SIZE, "walpost-chaos"], folder)?;
        Ok(Self { folder: folder.to_owned() })
    }

    /// Fills it to the last page.
    pub(super) fn fill(&self) -> Result<(), Error> {
        let file = fs::OpenOptions::new().create(true).append(true).open(self.filling());
        let mut file = file.map_err(Error::io("fill the disk of the checkpoint"))?;
        // It ends with the refusal that is wanted.
        while file.write_all(&[0; 512]).is_ok() {}
        Ok(())
    }

    /// Makes room again.
    pub(super) fn empty(&self) -> Result<(), Error> {
        fs::remove_file(self.filling()).map_err(Error::io("empty the disk of the checkpoint"))
    }

    /// Lets nobody write any more by the folder's path, not even whoever has a file of it open.
    pub(super) fn make_read_only(&self) -> Result<(), Error> {
        // A mount of its own over the first, on which nobody has a file open: else the kernel refuses.
        let folder = self.folder.display().to_string();
        call("mount", &["--bind", &folder], &self.folder)?;
        call("mount", &["-o", "remount,bind,ro"], &self.folder)
    }

    /// Lets everybody write again.
    pub(super) fn make_writable(&self) -> Result<(), Error> {
        call("umount", &[], &self.folder)
    }

    fn filling(&self) -> PathBuf {
        self.folder.join("filling")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        // Also the read-only one, if it is there; files that are open keep it no longer visible.
        while call("umount", &["--lazy"], &self.folder).is_ok() {}
    }
}

fn call(program: &str, arguments: &[&str], folder: &Path) -> Result<(), Error> {
    let doing = || format!("{program} the disk of the checkpoint");
    let mut command = Command::new(program);
    command.args(arguments).arg(folder).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let status = command.status().map_err(Error::io(doing()))?;
    let refused = std::io::Error::other(status.to_string());
    if status.success() { Ok(()) } else { Err(Error::io(doing())(refused)) }
}
