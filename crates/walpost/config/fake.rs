//! Surroundings for tests: variables and files that exist nowhere.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use super::surroundings::Surroundings;

#[derive(Debug, Clone, Default)]
pub(crate) struct Fake {
    variables: BTreeMap<String, String>,
    files: BTreeMap<PathBuf, String>,
    public: Vec<PathBuf>,
}

impl Fake {
    pub(crate) fn with_variable(mut self, name: &str, value: &str) -> Self {
        self.variables.insert(name.to_owned(), value.to_owned());
        self
    }

    pub(crate) fn with_file(mut self, path: &str, text: &str) -> Self {
        self.files.insert(PathBuf::from(path), text.to_owned());
        self
    }

    /// A file that everybody can read.
    #[cfg(feature = "kafka")]
    pub(crate) fn with_public_file(mut self, path: &str, text: &str) -> Self {
        self.public.push(PathBuf::from(path));
        self.with_file(path, text)
    }
}

impl Surroundings for Fake {
    fn variable(&self, name: &str) -> Option<String> {
        self.variables.get(name).cloned()
    }

    fn read(&self, path: &Path) -> io::Result<String> {
        self.files.get(path).cloned().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn is_readable_by_all(&self, path: &Path) -> bool {
        self.public.iter().any(|public| public == path)
    }

    fn run_id(&self) -> String {
        "00000000-0000-4000-8000-000000000000".to_owned()
    }
}
