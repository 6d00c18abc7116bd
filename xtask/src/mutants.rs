//! `cargo xtask mutants`: would the simulation notice? Core is copied, broken on purpose in one place at a time, and its
//! simulation must fail. A mutant that survives is a hole in the tests.
//!
//! The list is `crates/core/mutants.txt`; [`list`] says how it is written. Most mutants are compiled into one program, as [`switch`] does
//! it, and the rest one by one. The tests of the simulation run beside each other, and the first that fails has caught the mutant.

mod list;
mod switch;

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};

use crate::interrupt::{self, Race};
use crate::steps::{cargo, workspace};
use list::Mutant;

const LIST: &str = "crates/core/mutants.txt";
/// A mutant may never end; one that does not within this is noticed too.
const LIMIT: Duration = Duration::from_secs(120);

/// Whether there is a list.
pub(crate) fn are_listed() -> bool {
    workspace().join(LIST).is_file()
}

/// Fails when a mutant survives, does not compile, or cannot be made.
pub(crate) fn run() -> Result<()> {
    let path = workspace().join(LIST);
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let mutants = list::parse(&text).with_context(|| format!("{LIST} cannot be understood"))?;
    ensure!(!mutants.is_empty(), "{LIST} names no mutant");
    let copy = Copy::make(&workspace().join("target/mutants"))?;
    let mut survivors = Vec::new();
    let mut judge = |mutant: &Mutant, work: &dyn Fn() -> Result<Verdict>| {
        let since = Instant::now();
        let verdict = work().with_context(|| format!("mutant `{}`", mutant.name))?;
        say!("    {verdict}, {:.1} s: {}", since.elapsed().as_secs_f32(), mutant.name);
        if verdict == Verdict::Survived {
            survivors.push(mutant.name.clone());
        }
        anyhow::Ok(())
    };
    let without = copy.break_at_switches(&mutants)?;
    let program = copy.compile()?;
    copy.must_pass_unbroken(&program)?;
    for (number, mutant) in mutants.iter().enumerate().filter(|(number, _)| !without.contains(number)) {
        judge(mutant, &|| copy.simulate(&program, Some(number)))?;
    }
    for number in without {
        judge(&mutants[number], &|| copy.judge_alone(&mutants[number]))?;
    }
    ensure!(survivors.is_empty(), "the simulation does not notice: {}", survivors.join(", "));
    Ok(())
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

/// The tests of core, compiled.
struct Program {
    path: PathBuf,
    /// Those of the simulation, by their whole names.
    simulation: Vec<String>,
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

    /// Puts every mutant behind a switch that can be. The numbers of the others.
    fn break_at_switches(&self, mutants: &[Mutant]) -> Result<Vec<usize>> {
        let mut without = Vec::new();
        let files: BTreeSet<&Path> = mutants.iter().map(|mutant| mutant.file.as_path()).collect();
        for file in files {
            let original = self.read(file)?;
            let of_file = || mutants.iter().enumerate().filter(|(_, mutant)| mutant.file == file);
            for (_, mutant) in of_file() {
                mutant.apply(&original).with_context(|| format!("mutant `{}`", mutant.name))?;
            }
            let (text, others) = switch::with_switches(&original, of_file());
            self.write(file, &text)?;
            without.extend(others);
        }
        let root = Path::new("src/lib.rs");
        self.write(root, &format!("{}\nmod {};\n", self.read(root)?, switch::MODULE))?;
        self.write(Path::new(&format!("src/{}.rs", switch::MODULE)), switch::SOURCE)?;
        Ok(without)
    }

    /// Or else every mutant would seem to be caught.
    fn must_pass_unbroken(&self, program: &Program) -> Result<()> {
        ensure!(!program.simulation.is_empty(), "no test of core has `simulation` in its path");
        let verdict = self.simulate(program, None)?;
        ensure!(
            verdict == Verdict::Survived,
            "the simulation fails already without a mutant; see {}",
            self.log().display()
        );
        Ok(())
    }

    /// A mutant that has no place behind a switch: the switches stay, for one of them is none.
    fn judge_alone(&self, mutant: &Mutant) -> Result<Verdict> {
        let before = self.read(&mutant.file)?;
        self.write(&mutant.file, &mutant.apply(&before)?)?;
        let verdict = self.compile().and_then(|program| self.simulate(&program, None));
        self.write(&mutant.file, &before)?;
        verdict
    }

    fn simulate(&self, program: &Program, mutant: Option<usize>) -> Result<Verdict> {
        let log = self.new_log()?;
        let mut tests = Vec::new();
        for name in &program.simulation {
            let mut test = Command::new(&program.path);
            test.args(["--exact", name]).current_dir(self.root.join("crates/core"));
            test.envs(mutant.map(|number| (switch::VARIABLE, number.to_string())));
            let outputs = (log.try_clone(), log.try_clone());
            let (Ok(output), Ok(errors)) = outputs else { bail!("cannot share the output of the simulation") };
            test.stdout(output).stderr(errors);
            tests.push(test);
        }
        Ok(match interrupt::race(&mut tests, LIMIT)? {
            Race::OutOfTime => Verdict::Endless,
            Race::AllSucceeded => Verdict::Survived,
            Race::OneFailed => Verdict::Caught,
        })
    }

    fn compile(&self) -> Result<Program> {
        let log = self.new_log()?;
        let errors = log.try_clone().context("cannot share the output of cargo")?;
        let mut test = cargo();
        test.current_dir(&self.root).args([
            "test",
            "--offline",
            "-p",
            "walpost-core",
            "--lib",
            "--no-run",
            "--target-dir",
            "built",
            "--message-format",
            "json-render-diagnostics",
        ]);
        let status = interrupt::run(test.stdin(Stdio::null()).stdout(log).stderr(errors))?;
        ensure!(status.success(), "it does not compile; see {}", self.log().display());
        let said = fs::read_to_string(self.log()).context("cannot read the output of cargo")?;
        let path = executable(&said).with_context(|| format!("cargo names no program in {}", self.log().display()))?;
        let listed =
            Command::new(&path).args(["simulation", "--list"]).output().context("cannot list the simulation")?;
        let simulation = tests_in(&String::from_utf8_lossy(&listed.stdout));
        Ok(Program { path, simulation })
    }

    fn read(&self, file: &Path) -> Result<String> {
        fs::read_to_string(self.root.join("crates/core").join(file))
            .with_context(|| format!("cannot read {} of core", file.display()))
    }

    fn write(&self, file: &Path, text: &str) -> Result<()> {
        fs::write(self.root.join("crates/core").join(file), text)
            .with_context(|| format!("cannot write {} of the copy", file.display()))
    }

    fn new_log(&self) -> Result<File> {
        File::create(self.log()).context("cannot write the output of the simulation")
    }

    fn log(&self) -> PathBuf {
        self.root.join("log")
    }
}

/// The program that cargo says it has made, among all else that it says.
fn executable(said: &str) -> Option<PathBuf> {
    let messages = said.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    messages.rev().find_map(|message| message["executable"].as_str().map(PathBuf::from))
}

/// The names in what a program of tests says to `--list`.
fn tests_in(listed: &str) -> Vec<String> {
    listed.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
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

    #[test]
    fn the_program_is_the_one_that_cargo_names_and_its_tests_are_those_that_it_lists() {
        let said = "   Compiling x\n{\"reason\":\"compiler-artifact\",\"executable\":null}\n\
                    {\"reason\":\"compiler-artifact\",\"executable\":\"/a/b-1\"}\n{\"reason\":\"build-finished\"}\n";
        assert_eq!(executable(said), Some(PathBuf::from("/a/b-1")));
        assert_eq!(executable("    Finished"), None);
        assert_eq!(tests_in("a::b: test\nc: benchmark\n\n1 test, 1 benchmark\n"), ["a::b"]);
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
