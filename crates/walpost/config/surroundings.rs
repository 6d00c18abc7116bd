//! What a configuration may refer to outside of its file: environment variables and other files. An argument, so that a test
//! need not change the environment of its own process.

use std::io;
use std::path::Path;

/// Where variables and files come from.
pub trait Surroundings {
    /// The value of an environment variable; `None` when it is not set or is not UTF-8.
    fn variable(&self, name: &str) -> Option<String>;

    /// The text of a file.
    ///
    /// # Errors
    /// The file cannot be read or is not UTF-8.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// Whether any user of the machine can read the file.
    fn is_readable_by_all(&self, path: &Path) -> bool;
}

/// The surroundings of this process.
#[derive(Debug, Clone, Copy, Default)]
pub struct Process;

impl Surroundings for Process {
    fn variable(&self, name: &str) -> Option<String> {
        std::env::var(name).ok()
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        std::fs::read_to_string(path)
    }

    fn is_readable_by_all(&self, path: &Path) -> bool {
        use std::os::unix::fs::PermissionsExt;
        const READABLE_BY_OTHERS: u32 = 0o004;
        std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.permissions().mode() & READABLE_BY_OTHERS != 0)
    }
}
