//! The notices that the licences of what is linked in ask for: each crate with its licence and the text of it, as its author ships it.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::steps::cargo;

/// One text for all crates that are linked into the program.
pub(super) fn collect() -> Result<String> {
    let mut text = String::from(
        "walpost is made of, beside its own, the following. Each stands under the licence named with it.\n",
    );
    let metadata = metadata()?;
    let packages = metadata["packages"].as_array().context("cargo metadata names no packages")?;
    let mut others: Vec<&Value> = packages.iter().filter(|package| !package["source"].is_null()).collect();
    others.sort_by_key(|package| (package["name"].as_str(), package["version"].as_str()));
    ensure!(!others.is_empty(), "cargo metadata names no package but our own");
    for package in others {
        write_one(&mut text, package)?;
    }
    Ok(text)
}

/// Only what is linked on this machine's kind.
fn metadata() -> Result<Value> {
    let mut command = cargo();
    command.args(["metadata", "--locked", "--format-version=1", "--features=vendored"]);
    let output = command.output().context("cannot run cargo metadata")?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    serde_json::from_slice(&output.stdout).context("cargo metadata cannot be understood")
}

fn write_one(text: &mut String, package: &Value) -> Result<()> {
    let of = |key: &str| package[key].as_str();
    let name = of("name").context("a package without a name")?;
    let licence = of("license").unwrap_or("see below");
    writeln!(text, "\n{}\n{name} {}: {licence}", "-".repeat(78), of("version").unwrap_or_default())?;
    if let Some(repository) = of("repository") {
        writeln!(text, "{repository}")?;
    }
    let manifest = Path::new(of("manifest_path").context("a package without a manifest")?);
    let folder = manifest.parent().context("a manifest without a folder")?;
    let mut files: Vec<_> = fs::read_dir(folder).with_context(|| format!("cannot read {name}"))?.flatten().collect();
    files.sort_by_key(fs::DirEntry::file_name);
    for file in files.iter().filter(|file| is_notice(&file.file_name().to_string_lossy())) {
        // A link or a folder by that name holds nothing to be told.
        if let Ok(notice) = fs::read_to_string(file.path()) {
            writeln!(text, "\n{}", notice.trim_end())?;
        }
    }
    Ok(())
}

fn is_notice(name: &str) -> bool {
    let name = name.to_ascii_uppercase();
    ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"].iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_is_known_by_its_name() {
        for name in ["LICENSE", "LICENSE-MIT", "license-apache.txt", "COPYING", "NOTICE.md", "Copyright"] {
            assert!(is_notice(name), "{name}");
        }
        for name in ["README.md", "Cargo.toml", "src", "MY-LICENSE"] {
            assert!(!is_notice(name), "{name}");
        }
    }
}
