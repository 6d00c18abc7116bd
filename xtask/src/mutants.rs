//! `cargo xtask mutants`: would the simulation notice? Core is copied, broken on purpose in one place at a time, and its
//! simulation must fail. A mutant that survives is a hole in the tests.
//!
//! The list is `crates/core/mutants.txt`, in blocks of this form; lines between blocks that begin with `#` are comments:
//!
//! ```text
//! == what the mutant does wrong
//! -- src/session.rs
//! <<<
//! the text to be found, exactly once
//! ===
//! the text that takes its place
//! >>>
//! ```

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::interrupt;
use crate::steps::{cargo, workspace};

const LIST: &str = "crates/core/mutants.txt";
/// A mutant may never end; one that does not within this is noticed too.
const LIMIT: Duration = Duration::from_secs(120);

/// One change to one file of core.
#[derive(Debug, PartialEq, Eq)]
struct Mutant {
    name: String,
    /// Relative to the folder of core.
    file: PathBuf,
    find: String,
    replace: String,
}

/// Whether there is a list.
pub(crate) fn are_listed() -> bool {
    workspace().join(LIST).is_file()
}

/// Fails when a mutant survives, does not compile, or cannot be made.
pub(crate) fn run() -> Result<()> {
    let list = workspace().join(LIST);
    let text = fs::read_to_string(&list).with_context(|| format!("cannot read {}", list.display()))?;
    let mutants = parse(&text).with_context(|| format!("{LIST} cannot be understood"))?;
    ensure!(!mutants.is_empty(), "{LIST} names no mutant");
    let copy = Copy::make(&workspace().join("target/mutants"))?;
    copy.must_pass_unbroken()?;
    let mut survivors = Vec::new();
    for mutant in &mutants {
        let since = Instant::now();
        let verdict = copy.judge(mutant).with_context(|| format!("mutant `{}`", mutant.name))?;
        say!("    {verdict}, {:.1} s: {}", since.elapsed().as_secs_f32(), mutant.name);
        if verdict == Verdict::Survived {
            survivors.push(mutant.name.as_str());
        }
    }
    ensure!(survivors.is_empty(), "the simulation does not notice: {}", survivors.join(", "));
    Ok(())
}

/// Reads the list.
fn parse(text: &str) -> Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let block = |line: Option<(usize, &str)>, mark: &str| {
            let rest = line.and_then(|(_, line)| line.strip_prefix(mark)).map(|rest| rest.trim().to_owned());
            rest.with_context(|| format!("`{mark}` is missing in the block that begins in line {}", number + 1))
        };
        let name = block(Some((number, line)), "==")?;
        let file = PathBuf::from(block(lines.next(), "--")?);
        block(lines.next(), "<<<")?;
        let mut until = |mark: &str| {
            let part: Vec<&str> = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != mark).collect();
            part.join("\n")
        };
        let (find, replace) = (until("==="), until(">>>"));
        ensure!(
            !name.is_empty() && !find.is_empty(),
            "the block that begins in line {} lacks a name or a text",
            number + 1
        );
        ensure!(find != replace, "the mutant `{name}` changes nothing");
        mutants.push(Mutant { name, file, find, replace });
    }
    let closed = text.lines().filter(|line| *line == ">>>").count();
    ensure!(closed == mutants.len(), "{} blocks begin, but {closed} end with `>>>`", mutants.len());
    Ok(mutants)
}

impl Mutant {
    /// The text of its file with the one change.
    fn apply(&self, original: &str) -> Result<String> {
        match original.matches(&self.find).count() {
            1 => Ok(original.replacen(&self.find, &self.replace, 1)),
            count => bail!("its text occurs {count} times in {}, and must occur exactly once", self.file.display()),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Caught,
    Endless,
    Survived,
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Caught => "caught",
            Self::Endless => "caught, for it does not end",
            Self::Survived => "SURVIVED",
        })
    }
}

/// A workspace with core alone.
struct Copy {
    root: PathBuf,
}

impl Copy {
    fn make(root: &Path) -> Result<Self> {
        let core = root.join("crates/core");
        if core.exists() {
            fs::remove_dir_all(&core).with_context(|| format!("cannot remove {}", core.display()))?;
        }
        copy_folder(&workspace().join("crates/core"), &core)?;
        let manifest = fs::read_to_string(workspace().join("Cargo.toml")).context("cannot read Cargo.toml")?;
        fs::write(root.join("Cargo.toml"), reduce(&manifest)).context("cannot write the manifest of the copy")?;
        fs::copy(workspace().join("Cargo.lock"), root.join("Cargo.lock")).context("cannot copy Cargo.lock")?;
        Ok(Self { root: root.to_owned() })
    }

    /// Or else every mutant would seem to be caught.
    fn must_pass_unbroken(&self) -> Result<()> {
        self.compile()?;
        ensure!(self.simulate()? == Verdict::Survived, "the simulation fails already without a mutant");
        let log = fs::read_to_string(self.log()).context("cannot read the output of the simulation")?;
        ensure!(!log.contains("running 0 tests"), "no test of core has `simulation` in its path");
        Ok(())
    }

    fn judge(&self, mutant: &Mutant) -> Result<Verdict> {
        let path = self.root.join("crates/core").join(&mutant.file);
        let original = fs::read_to_string(&path).with_context(|| format!("cannot read {}", mutant.file.display()))?;
        fs::write(&path, mutant.apply(&original)?).with_context(|| format!("cannot write {}", path.display()))?;
        let verdict = self.compile().and_then(|()| self.simulate());
        fs::write(&path, original).with_context(|| format!("cannot write {}", path.display()))?;
        verdict
    }

    fn compile(&self) -> Result<()> {
        let mut test = self.test()?;
        let status = interrupt::run(test.arg("--no-run"))?;
        ensure!(status.success(), "it does not compile; see {}", self.log().display());
        Ok(())
    }

    fn simulate(&self) -> Result<Verdict> {
        let mut test = self.test()?;
        let status = interrupt::run_within(test.arg("simulation"), LIMIT)?;
        Ok(match status {
            None => Verdict::Endless,
            Some(status) if status.success() => Verdict::Survived,
            Some(_) => Verdict::Caught,
        })
    }

    fn test(&self) -> Result<std::process::Command> {
        let log = File::create(self.log()).context("cannot write the output of the simulation")?;
        let errors = log.try_clone().context("cannot share the output of the simulation")?;
        let mut test = cargo();
        test.current_dir(&self.root).args([
            "test",
            "--offline",
            "-p",
            "walpost-core",
            "--lib",
            "--target-dir",
            "built",
        ]);
        test.stdin(Stdio::null()).stdout(log).stderr(errors);
        Ok(test)
    }

    fn log(&self) -> PathBuf {
        self.root.join("log")
    }
}

/// Of the manifest of the root, what core inherits: the workspace's own tables, with core as the only member.
fn reduce(manifest: &str) -> String {
    let mut kept = false;
    let mut reduced = String::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            kept = line.starts_with("[workspace") || line.starts_with("[profile");
        }
        let line = if line.starts_with("members") { "members = [\"crates/core\"]" } else { line };
        if kept && !line.starts_with("exclude") {
            reduced.push_str(line);
            reduced.push('\n');
        }
    }
    reduced
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| format!("cannot make {}", to.display()))?;
    for entry in fs::read_dir(from).with_context(|| format!("cannot list {}", from.display()))? {
        let entry = entry.with_context(|| format!("cannot list {}", from.display()))?;
        let (path, target) = (entry.path(), to.join(entry.file_name()));
        if path.is_dir() {
            copy_folder(&path, &target)?;
        } else {
            fs::copy(&path, &target).with_context(|| format!("cannot copy {}", path.display()))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "\
# a comment

== the first
-- src/a.rs
<<<
one
  two
===
three
>>>

== the second
-- src/b.rs
<<<
x
===
>>>
";

    #[test]
    fn a_list_is_read_block_by_block() {
        let mutants = parse(TWO).unwrap();
        let first = Mutant {
            name: "the first".to_owned(),
            file: PathBuf::from("src/a.rs"),
            find: "one\n  two".to_owned(),
            replace: "three".to_owned(),
        };
        assert_eq!(mutants.len(), 2);
        assert_eq!(mutants[0], first);
        assert_eq!(mutants[1].replace, "");
    }

    #[test]
    fn a_malformed_list_is_refused() {
        let cases = [
            ("no heading", TWO.replace("== the first", "the first")),
            ("no name", TWO.replace("== the first", "==")),
            ("no file", TWO.replace("-- src/a.rs\n", "")),
            ("no opening", TWO.replacen("<<<\n", "", 1)),
            ("no text", TWO.replace("x\n", "")),
            ("no end", TWO.trim_end().trim_end_matches(">>>").to_owned()),
            ("no middle", TWO.replacen("===\n", "", 1)),
            ("no change", TWO.replace("three", "one\n  two")),
        ];
        for (what, text) in cases {
            assert!(parse(&text).is_err(), "{what}");
        }
    }

    #[test]
    fn a_text_that_does_not_occur_exactly_once_is_refused() {
        let mutant =
            Mutant { name: String::new(), file: PathBuf::new(), find: "a".to_owned(), replace: "b".to_owned() };
        assert_eq!(mutant.apply("xax").unwrap(), "xbx");
        for original in ["x", "xaxa"] {
            assert!(mutant.apply(original).is_err(), "{original}");
        }
    }

    #[test]
    fn the_reduced_manifest_has_what_core_inherits_and_nothing_else() {
        let manifest = fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
        let reduced = reduce(&manifest);
        for kept in
            ["members = [\"crates/core\"]", "[workspace.package]", "[workspace.dependencies]", "[workspace.lints.rust]"]
        {
            assert!(reduced.contains(kept), "{kept}");
        }
        for gone in ["[package]", "[[bin]]", "[features]", "\n[dependencies]", "exclude"] {
            assert!(!reduced.contains(gone), "{gone}");
        }
    }
}
