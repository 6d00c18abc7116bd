//! Who we are, and as whom PostgreSQL may run: it refuses to run as root.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};

use super::{Error, Result};

/// An account of this machine that a server runs as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Account {
    user: u32,
    group: u32,
}

impl Account {
    /// The account for a server that refuses root: none when we are not root ourselves, else Debian's `postgres`,
    /// else `nobody`.
    pub(super) fn for_server() -> Result<Option<Self>> {
        if !is_root()? {
            return Ok(None);
        }
        let accounts = fs::read_to_string("/etc/passwd").map_err(Error::io("read /etc/passwd"))?;
        let found = ["postgres", "nobody"].iter().find_map(|name| Self::parse(&accounts, name));
        found
            .map(Some)
            .ok_or(Error::Malformed { what: "/etc/passwd has neither postgres nor nobody; it", text: accounts })
    }

    fn parse(accounts: &str, name: &str) -> Option<Self> {
        let mut fields = accounts.lines().map(|line| line.split(':')).find(|line| line.clone().next() == Some(name))?;
        Some(Self { user: fields.nth(2)?.parse().ok()?, group: fields.next()?.parse().ok()? })
    }

    /// The arguments that make `setpriv` become this account.
    pub(super) fn setpriv_arguments(&self) -> [String; 3] {
        [format!("--reuid={}", self.user), format!("--regid={}", self.group), "--clear-groups".to_owned()]
    }

    /// Gives a file or a folder to this account.
    pub(super) fn give(&self, path: &Path) -> Result<()> {
        chown(path, Some(self.user), Some(self.group))
            .map_err(Error::io(format_args!("change the owner of {}", path.display())))
    }
}

/// Whether we run as root, by the owner of our own entry in `/proc`.
pub(super) fn is_root() -> Result<bool> {
    Ok(fs::metadata("/proc/self").map_err(Error::io("look at /proc/self"))?.uid() == 0)
}

/// The temporary folder, or `/tmp` when another account, such as a server's, could not enter the configured one.
#[must_use]
pub fn temporary_folder() -> PathBuf {
    let configured = std::env::temp_dir();
    let open_to_all = |folder: &Path| fs::metadata(folder).is_ok_and(|found| found.permissions().mode() & 0o001 != 0);
    if configured.ancestors().all(open_to_all) { configured } else { PathBuf::from("/tmp") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_account_is_found_by_its_whole_name_only() {
        let accounts =
            "postgresql:x:1:2::/:/bin/sh\npostgres:x:101:104::/var/lib/postgresql:/bin/bash\nbad:x:no:1::/:/bin/sh\n";
        assert_eq!(Account::parse(accounts, "postgres"), Some(Account { user: 101, group: 104 }));
        for absent in ["postgre", "x", "bad", ""] {
            assert_eq!(Account::parse(accounts, absent), None, "{absent}");
        }
    }
}
