//! A small disk for the data of one server, which can be filled: a file system in memory, in a mount namespace that only the server is in.
//!
//! Only a superuser can mount one. It stays while the server is dead, and goes with us: a process that does nothing else holds the namespace.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::process::{Lifetime, command, run};
use super::{Error, Result, Scratch, spawn_dependent};

/// Mounts a file system of `$1` over the folder `$0`, says so, and holds it.
const HOLD: &str = r#"mount -t tmpfs -o "size=$1" walpost-test "$0" && echo mounted && exec sleep infinity"#;

/// See the module's documentation.
#[derive(Debug)]
pub struct SmallDisk {
    holder: Child,
    // Last: the folder that it is mounted over.
    folder: Scratch,
}

impl SmallDisk {
    /// A disk with room for so many megabytes, or none where only a superuser may mount one.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when a folder cannot be made or a program not be started.
    pub fn mount(megabytes: u32) -> Result<Option<Self>> {
        let folder = Scratch::new("disk")?;
        let mut hold = command("unshare", Lifetime::WithUs, None);
        hold.args(["--mount", "sh", "-c", HOLD]).arg(folder.path()).arg(format!("{megabytes}m"));
        hold.stdout(Stdio::piped()).stderr(Stdio::null());
        let mut disk = Self { holder: spawn_dependent(hold)?, folder };
        let mut said = String::new();
        if let Some(output) = disk.holder.stdout.take() {
            BufReader::new(output).read_line(&mut said).map_err(Error::io("hear whether a disk was mounted"))?;
        }
        Ok((said == "mounted\n").then_some(disk))
    }

    /// Fills it to the last page.
    ///
    /// # Errors
    ///
    /// [`Error::Command`] when it cannot be reached.
    pub fn fill(&self) -> Result<()> {
        // It ends with the refusal that is wanted.
        self.shell("cat /dev/zero >\"$0\" 2>/dev/null || true")
    }

    /// Makes room again.
    ///
    /// # Errors
    ///
    /// As [`SmallDisk::fill`].
    pub fn empty(&self) -> Result<()> {
        self.shell("rm \"$0\"")
    }

    fn shell(&self, script: &str) -> Result<()> {
        let [program, words @ ..] = self.entry();
        let mut shell = Command::new(program);
        shell.args(words).args(["sh", "-c", script]).arg(self.path().join("filling"));
        run(shell, "a shell that sees the small disk").map(drop)
    }

    /// Where it is for those who are in its namespace.
    pub(super) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// What stands in front of a program that is to be in its namespace.
    pub(super) fn entry(&self) -> [String; 3] {
        ["nsenter".to_owned(), format!("--mount=/proc/{}/ns/mnt", self.holder.id()), "--".to_owned()]
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}
