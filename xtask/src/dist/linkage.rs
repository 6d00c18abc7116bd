//! What the program asks of the machine that it is started on: the libraries that it loads, and how new glibc has to be.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

/// What any Linux with glibc has.
const EVERYWHERE: &[&str] =
    &["libc.so.6", "libm.so.6", "libgcc_s.so.1", "ld-linux-x86-64.so.2", "ld-linux-aarch64.so.1"];

/// See the module's documentation.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Linkage {
    /// By their names, sorted.
    pub(super) libraries: Vec<String>,
    /// The newest version of a symbol, such as `2.34`.
    pub(super) glibc: String,
}

/// Asks `readelf`, which comes with the linker.
pub(super) fn look_at(program: &Path) -> Result<Linkage> {
    let output = Command::new("readelf").args(["-dV", "-W"]).arg(program).output().context("cannot run readelf")?;
    ensure!(output.status.success(), "readelf cannot read {}", program.display());
    let linkage = read(&String::from_utf8_lossy(&output.stdout))?;
    let strangers: Vec<&String> =
        linkage.libraries.iter().filter(|library| !EVERYWHERE.contains(&library.as_str())).collect();
    ensure!(strangers.is_empty(), "the program needs libraries that not every machine has: {strangers:?}");
    Ok(linkage)
}

fn read(listing: &str) -> Result<Linkage> {
    let needed = |line: &str| {
        let named = line.contains("(NEEDED)").then(|| line.split_once('[')?.1.split_once(']'))?;
        named.map(|(name, _)| name.to_owned())
    };
    let mut libraries: Vec<String> = listing.lines().filter_map(needed).collect();
    libraries.sort();
    ensure!(!libraries.is_empty(), "readelf names no library at all: this is not how the program is linked");
    let versions = listing.split("GLIBC_").skip(1).filter_map(|rest| {
        let text: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        let numbers: Option<Vec<u32>> = text.split('.').map(|part| part.parse().ok()).collect();
        numbers.map(|numbers| (numbers, text))
    });
    let (_, glibc) = versions.max().context("readelf names no version of glibc")?;
    Ok(Linkage { libraries, glibc })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_and_the_newest_version_are_read_from_the_listing() {
        let listing = "\
 0x0000000000000001 (NEEDED)             Shared library: [libm.so.6]
 0x0000000000000001 (NEEDED)             Shared library: [libc.so.6]
 0x000000000000000c (INIT)               0x1000
  004:   5 (GLIBC_2.9)    f (GLIBC_2.14)   2 (GLIBC_2.2.5)
  0x0030:   Name: GLIBC_2.34  Flags: none  Version: 3
";
        let linkage = read(listing).unwrap();
        assert_eq!(linkage.libraries, ["libc.so.6", "libm.so.6"]);
        assert_eq!(linkage.glibc, "2.34");
    }

    #[test]
    fn a_listing_without_libraries_is_refused() {
        assert!(read("There is no dynamic section in this file.").is_err());
    }
}
