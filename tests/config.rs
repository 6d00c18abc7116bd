//! The configuration's manual, and the files that the documentation shows.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use walpost::config::surroundings::Surroundings;
use walpost::config::{self, reference};

/// A folder that is gone with its owner.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        // No name that the test kit gives: it removes its own folders of processes that it takes for dead.
        let name = format!("walpost-folder-{}-{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).unwrap();
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file and returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// An environment without a variable or a file.
struct Nothing;

impl Surroundings for Nothing {
    fn run_id(&self) -> String {
        "00000000-0000-4000-8000-000000000000".to_owned()
    }

    fn variable(&self, _: &str) -> Option<String> {
        None
    }

    fn read(&self, _: &Path) -> std::io::Result<String> {
        Err(std::io::ErrorKind::NotFound.into())
    }

    fn is_readable_by_all(&self, _: &Path) -> bool {
        false
    }
}

#[test]
fn the_reference_page_is_not_stale() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/configuration.md");
    let committed = std::fs::read_to_string(&page).unwrap();
    let stale = committed.lines().zip(reference::render().lines()).position(|(old, new)| old != new);
    assert!(
        committed == reference::render(),
        "docs/configuration.md is stale from line {:?} on; run: cargo run -- config reference > docs/configuration.md",
        stale.map(|line| line + 1)
    );
}

#[test]
fn the_example_at_the_head_of_the_reference_page_is_a_good_configuration() {
    let page = reference::render();
    let example = page.split("```toml\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let loaded = config::parse(example, false, &Nothing).unwrap();
    assert_eq!(loaded.warnings, []);
    assert_eq!(loaded.settings.outboxes().len(), 1);
}
