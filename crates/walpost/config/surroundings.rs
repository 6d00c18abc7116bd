//! What a configuration may refer to outside of its file: environment variables and other files. An argument, so that a test
//! need not change the environment of its own process.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::io;
use std::path::Path;
use std::sync::OnceLock;

/// Where variables and files come from.
pub trait Surroundings {
    /// The value of an environment variable; `None` when it is not set or is not UTF-8.
    fn variable(&self, name: &str) -> Option<String>;

    /// The text of a file.
    ///
    /// # Errors
    /// The file cannot be read or is not UTF-8.
    fn read(&self, path: &Path) -> io::Result<String>;

    /// Whether something can be read there that need not be text: a certificate, or a folder of them.
    ///
    /// # Errors
    /// Why not.
    fn can_read(&self, path: &Path) -> io::Result<()> {
        match self.read(path) {
            Err(error) if !matches!(error.kind(), io::ErrorKind::InvalidData | io::ErrorKind::IsADirectory) => {
                Err(error)
            }
            _ => Ok(()),
        }
    }

    /// Whether any user of the machine can read the file.
    fn is_readable_by_all(&self, path: &Path) -> bool;

    /// A UUID of the process, which one of Debezium's headers tells.
    fn run_id(&self) -> String;
}

/// A UUID of version 4 (RFC 9562), from the randomness that seeds hash maps: it tells runs apart and guards nothing.
fn random_uuid() -> String {
    let random = || RandomState::new().build_hasher().finish();
    let (high, low) = (random() & !0xF000 | 0x4000, random() >> 2 | 1 << 63);
    let digits = format!("{high:016x}{low:016x}");
    let mut uuid = String::with_capacity(36);
    for (index, digit) in digits.chars().enumerate() {
        if [8, 12, 16, 20].contains(&index) {
            uuid.push('-');
        }
        uuid.push(digit);
    }
    uuid
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

    fn run_id(&self) -> String {
        static RUN_ID: OnceLock<String> = OnceLock::new();
        RUN_ID.get_or_init(random_uuid).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_one_uuid_and_the_next_another() {
        assert_eq!(Process.run_id(), Process.run_id());
        let (one, other) = (random_uuid(), random_uuid());
        assert_ne!(one, other);
        let parts: Vec<&str> = one.split('-').collect();
        assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), [8, 4, 4, 4, 12], "{one}");
        assert!(parts[2].starts_with('4') && parts[3].starts_with(['8', '9', 'a', 'b']), "{one}");
    }
}
