//! `walpost import debezium`: makes a walpost.toml of a connector's configuration, and on request takes over how far the connector got.
//!
//! Each option that was given appears in what comes out: as a key, or in a comment that says why there is none. What nobody knows is named too.
//! What cannot be had and changes what consumers get stands there as a line that walpost refuses, so that nobody runs the file unread.
//! Passwords are never printed. Nothing in Kafka Connect is touched, and in the database nothing but the checkpoint, on request.

mod connector;
mod converters;
mod database;
mod draft;
mod given;
mod offsets;
mod producer;
mod properties;
mod router;
mod section;
mod security;
mod tables;
mod text;
mod version;

#[cfg(test)]
mod tests;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use super::Outcome;
use crate::config::{self, Process, Settings};
use crate::exit::{Ended, Exit};
use connector::Imported;
use given::Everything;

pub use offsets::Offsets;
pub use version::Version;

/// A configuration is some kilobytes.
const MAX_FILE_BYTES: u64 = 16 << 20;

/// What is imported, and where to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Import {
    /// Connectors, and workers whose defaults they have.
    pub files: Vec<PathBuf>,
    /// A folder for one file a connector; standard output without it.
    pub folder: Option<PathBuf>,
    /// The relay whose checkpoint the position becomes; without it that of the configuration that is made.
    pub into: Option<Settings>,
    /// Which Debezium runs the connectors, where the configuration does not tell.
    pub version: Option<Version>,
    /// What becomes the checkpoint, if anything does.
    pub position: Option<Position>,
}

/// Where to go on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Position {
    /// Where the slot is confirmed.
    Slot,
    /// Where Connect's stored offset is.
    Offsets(Offsets),
}

/// Imports connectors.
///
/// # Errors
/// A file cannot be read or written, or nothing in it can be imported.
pub async fn import(import: Import) -> Outcome {
    let everything = read(&import.files)?;
    let mut imported = Vec::new();
    for connector in &everything.connectors {
        match connector::import(connector, &everything, import.version) {
            Ok(done) => imported.push(done),
            Err(reason) => complain!("{}: connector {:?} is not imported: {reason}", connector.file, connector.name),
        }
    }
    if imported.is_empty() {
        let sentence = "there is nothing to import; name the configuration of a connector for PostgreSQL that has an outbox event router";
        return Err(Ended::with_sentence(Exit::Configuration, sentence));
    }
    if import.folder.is_none() && imported.len() > 1 {
        // A slot has one reader, so that two connectors never become one relay.
        let count = imported.len();
        let sentence = format!(
            "{count} connectors become {count} files, and standard output is one; name a folder for them: -o DIR"
        );
        return Err(Ended::with_sentence(Exit::Usage, sentence));
    }
    if import.into.is_some() && imported.len() > 1 {
        let sentence = "one configuration is one relay, and these are several connectors; name the files of the one that became it";
        return Err(Ended::with_sentence(Exit::Usage, sentence));
    }
    match &import.folder {
        None if import.into.is_some() => {}
        Some(folder) => imported.iter().try_for_each(|imported| write(folder, imported))?,
        None => imported.iter().for_each(|imported| say!("{}", imported.toml.trim_end())),
    }
    if let Some(position) = &import.position {
        for imported in &imported {
            take_over(imported, import.into.clone(), position).await?;
        }
    }
    Ok(Exit::Success)
}

/// Makes how far the connector got the checkpoint of the relay that was made of it.
async fn take_over(imported: &Imported, into: Option<Settings>, position: &Position) -> Result<(), Ended> {
    let settings = match into {
        Some(settings) => settings,
        None => made(imported)?,
    };
    match position {
        Position::Slot => offsets::take_slot(&settings).await,
        Position::Offsets(from) => {
            let owner = offsets::Owner { connector: &imported.name, prefix: &imported.prefix };
            offsets::take_offset(&settings, from, owner).await
        }
    }
}

/// The settings of what was made of a connector.
fn made(imported: &Imported) -> Result<Settings, Ended> {
    let loaded = config::parse(&imported.without_undecided(), false, &Process).map_err(|faults| {
        let faults: Vec<String> = faults.iter().map(ToString::to_string).collect();
        let sentence = format!("the position of {} cannot be taken over yet: {}", imported.name, faults.join("; "));
        Ended::with_sentence(Exit::Configuration, sentence)
    })?;
    Ok(loaded.settings)
}

fn read(files: &[PathBuf]) -> Result<Everything, Ended> {
    let mut everything = Everything::default();
    for path in files {
        let name = path.display().to_string();
        let refused = |reason: String| Ended::with_sentence(Exit::Configuration, format!("{name}: {reason}"));
        let mut bytes = Vec::new();
        let opened = File::open(path).and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut bytes));
        let length = opened.map_err(|error| refused(format!("it cannot be read: {error}")))?;
        if u64::try_from(length).is_ok_and(|length| length >= MAX_FILE_BYTES) {
            return Err(refused(format!("it has {MAX_FILE_BYTES} bytes or more, and no configuration has as many")));
        }
        given::decoded(bytes).and_then(|text| everything.read(&name, &text)).map_err(refused)?;
    }
    Ok(everything)
}

/// Writes a file that is not there yet.
fn write(folder: &Path, imported: &Imported) -> Result<(), Ended> {
    let path = folder.join(file_name(&imported.name));
    let written = fs::create_dir_all(folder)
        .and_then(|()| File::create_new(&path))
        .and_then(|mut file| file.write_all(imported.toml.as_bytes()));
    written.map_err(|error| {
        Ended::with_sentence(Exit::Configuration, format!("{} cannot be written: {error}", path.display()))
    })?;
    say!("{}", path.display());
    Ok(())
}

fn file_name(connector: &str) -> String {
    let is_plain = |ch: char| ch.is_ascii_alphanumeric() || matches!(ch, '-' | '_' | '.');
    let name: String = connector.chars().map(|ch| if is_plain(ch) { ch } else { '_' }).collect();
    format!("{}.toml", name.trim_start_matches('.'))
}
