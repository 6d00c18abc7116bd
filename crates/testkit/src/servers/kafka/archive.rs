//! An archive of the classes that a broker loads, made once: with it every broker starts in half the time.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::Kafka;
use crate::servers::{Error, Result};

/// Writing the archive is part of the broker's end.
const LIMIT: Duration = Duration::from_secs(120);

/// Starts a broker, stops it, and has its Java machine write down what it had loaded. The file gets its name last.
pub(in crate::servers) fn make(archive: &Path) -> Result<()> {
    let partial = archive.with_extension("partial");
    let mut kafka = Kafka::builder().start_installed(&[format!("-XX:ArchiveClassesAtExit={}", partial.display())])?;
    kafka.stop(LIMIT)?;
    fs::rename(&partial, archive).map_err(Error::io(format_args!("rename {}", partial.display())))
}
