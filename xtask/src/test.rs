//! `cargo xtask test`: every check and every test, the cheap ones first.
//!
//! The output ends with that of `cargo test`, whose last binary holds tests, so that whoever counts them finds them.

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use walpost_testkit::servers::{
    KAFKA_VARIABLE, Kafka, Need, POSTGRES_VARIABLE, PROGRAMS_VARIABLE, Postgres, Stop, install, postgres_of,
    postgres_versions,
};

use crate::steps::{Steps, run_cargo, run_tests};
use crate::{dependencies, mutants};

const TESTS: &[&str] = &["test", "--locked", "--workspace", "--no-fail-fast", "--lib", "--bins", "--tests"];
/// Of the workspace, as all tests are: of one package, cargo would build everything once more with fewer features.
const INTEGRATION: &[&str] = &["test", "--locked", "--workspace", "--no-fail-fast", "--test", "integration"];

/// Where Rust's test programs find how many tests to run beside each other.
const THREADS_VARIABLE: &str = "RUST_TEST_THREADS";

/// What runs on each of PostgreSQL's other versions every time: that rows arrive as they should, and every state of the slot. How Kafka
/// compresses them has nothing to do with it.
const ON_OTHER_VERSIONS: &[&str] =
    &["delivery::", "describing::the_catalogue", "slot::", "--skip", "events_arrive_by_every_codec"];

/// What to run.
#[derive(Debug, Default, PartialEq, Eq)]
struct Options<'a> {
    /// Only the tests that these name.
    filters: Vec<&'a str>,
    /// The integration tests on these versions of PostgreSQL, instead of every test on the system's.
    versions: Vec<u32>,
}

impl<'a> Options<'a> {
    fn parse(arguments: &[&'a str]) -> Result<Self> {
        let mut options = Self::default();
        let mut arguments = arguments.iter();
        while let Some(argument) = arguments.next() {
            match *argument {
                "--all-versions" => options.versions.extend(postgres_versions()),
                "--postgres" => {
                    let major = arguments.next().and_then(|major| major.parse().ok());
                    options.versions.push(major.context("--postgres takes a major version, such as 17")?);
                }
                option if option.starts_with("--") => bail!("cargo xtask test has no option {option}"),
                filter => options.filters.push(filter),
            }
        }
        Ok(options)
    }
}

/// Runs what the arguments say; every check and every test, if they say nothing.
pub(crate) fn run(arguments: &[&str]) -> Result<()> {
    let Options { filters, versions } = Options::parse(arguments)?;
    let mut steps = Steps::default();
    match (filters.is_empty(), versions.as_slice()) {
        (true, []) => run_everything(&mut steps),
        (false, []) => {
            prepare(&mut steps, &[])?;
            let kafka = start_kafka(&mut steps)?;
            test(&mut steps, &kafka, Stand::default(), TESTS, &filters)
        }
        (_, versions) => {
            prepare(&mut steps, versions)?;
            let kafka = start_kafka(&mut steps)?;
            for major in versions {
                test_on(*major, &kafka, &mut steps, &filters)?;
            }
            steps.verdict()
        }
    }
}

/// Integration tests on a program that was built elsewhere.
pub(crate) fn on_program(program: &Path, filters: &[&str]) -> Result<()> {
    let mut steps = Steps::default();
    install_all(&mut steps, &[])?;
    let program = program.display().to_string();
    let kafka = start_kafka(&mut steps)?;
    test(&mut steps, &kafka, Stand { program: Some(&program), ..Stand::default() }, INTEGRATION, filters)
}

/// The tests that take minutes, which are ignored otherwise.
pub(crate) fn soak(filters: &[&str]) -> Result<()> {
    let mut steps = Steps::default();
    install_all(&mut steps, &[])?;
    let kafka = start_kafka(&mut steps)?;
    test(&mut steps, &kafka, Stand::default(), INTEGRATION, &[&["--ignored"], filters].concat())
}

fn run_everything(steps: &mut Steps) -> Result<()> {
    let others: Vec<u32> = postgres_versions().collect();
    steps.step("what compiling needs", || Ok(install(&[Need::Build])?))?;
    steps.verdict()?;
    // The network has the servers on their way while the processors are at work.
    thread::scope(|scope| {
        let servers = scope.spawn(|| bring_in(&others));
        let built = check(steps).and_then(|()| steps.verdict()).and_then(|()| compile(steps));
        // A package that is half installed is nobody's wish: waited for in any case.
        let brought = servers.join().unwrap_or_else(|_| Err(anyhow!("whoever fetches them has panicked")));
        built.and_then(|()| steps.step("what the tests need", || brought))
    })?;
    steps.verdict()?;
    let kafka = start_kafka(steps)?;
    for major in others {
        test_on(major, &kafka, steps, ON_OTHER_VERSIONS)?;
    }
    steps.verdict()?;
    test(steps, &kafka, Stand::default(), TESTS, &[])
}

fn prepare(steps: &mut Steps, versions: &[u32]) -> Result<()> {
    install_all(steps, versions)?;
    compile(steps)
}

fn install_all(steps: &mut Steps, versions: &[u32]) -> Result<()> {
    steps.step("what the tests need", || bring_in(versions))?;
    steps.verdict()
}

/// Compilers, servers, and PostgreSQL in other versions.
fn bring_in(versions: &[u32]) -> Result<()> {
    let others = if versions.is_empty() { &[][..] } else { &[Need::PostgresVersions] };
    install(&[&[Need::Build, Need::Postgres, Need::Kafka], others].concat())?;
    versions.iter().try_for_each(|major| postgres_of(*major).map(drop))?;
    Ok(())
}

fn check(steps: &mut Steps) -> Result<()> {
    steps.step("formatting", || run_cargo(&["fmt", "--all", "--check"], &[]))?;
    steps.step("dependency rules", dependencies::run)?;
    let clippy = ["clippy", "--quiet", "--locked", "--all-targets"];
    let deny = ["--", "-D", "warnings"];
    steps.step("clippy", || run_cargo(&[&clippy[..], &["--workspace"], &deny].concat(), &[]))?;
    steps.step("clippy without Kafka", || {
        run_cargo(
            &["clippy", "--quiet", "--locked", "-p", "walpost", "--no-default-features", "--", "-D", "warnings"],
            &[],
        )
    })?;
    steps.step("documentation", || {
        run_cargo(&["doc", "--quiet", "--locked", "--workspace", "--no-deps"], &[("RUSTDOCFLAGS", "-D warnings")])
    })?;
    if mutants::are_listed() {
        steps.step("mutants", mutants::run)?;
    }
    steps.step("examples in the documentation", || {
        run_cargo(&["test", "--quiet", "--locked", "--workspace", "--doc"], &[])
    })
}

fn compile(steps: &mut Steps) -> Result<()> {
    steps.step("compiling the tests", || run_cargo(&[TESTS, &["--quiet", "--no-run"]].concat(), &[]))?;
    steps.verdict()
}

/// The Kafka that all tests of a run share. Topics belong to a test of one process each.
fn start_kafka(steps: &mut Steps) -> Result<Kafka> {
    let mut kafka = None;
    steps.step("Kafka", || {
        kafka = Some(Kafka::start()?);
        Ok(())
    })?;
    steps.verdict()?;
    kafka.context("Kafka was not started")
}

/// Integration tests on another version of PostgreSQL. What fails there is told at the end, with what fails elsewhere.
fn test_on(major: u32, kafka: &Kafka, steps: &mut Steps, filters: &[&str]) -> Result<()> {
    let servers = postgres_of(major)?;
    let name = format!("tests on PostgreSQL {major}");
    let mut within = Steps::default();
    let stand = Stand { postgres: Some(servers), ..Stand::default() };
    steps.step(&name, || test(&mut within, kafka, stand, INTEGRATION, filters))
}

/// What tests stand on, where that is not the usual.
#[derive(Debug, Default)]
struct Stand<'a> {
    /// The folder of PostgreSQL's programs.
    postgres: Option<PathBuf>,
    /// The program under test.
    program: Option<&'a str>,
}

/// Tests on a PostgreSQL of their own.
fn test(steps: &mut Steps, kafka: &Kafka, stand: Stand<'_>, what: &[&str], filters: &[&str]) -> Result<()> {
    let Stand { postgres: programs, program } = stand;
    let mut server = None;
    steps.step("PostgreSQL", || {
        let postgres = Postgres::builder();
        let postgres = programs.as_ref().map_or(postgres.clone(), |folder| postgres.programs(folder));
        server = Some(postgres.start()?);
        Ok(())
    })?;
    steps.verdict()?;
    let mut postgres = server.context("PostgreSQL was not started")?;
    let url = postgres.url("postgres");
    let mut environment = vec![(POSTGRES_VARIABLE, url.as_str()), (KAFKA_VARIABLE, kafka.bootstrap())];
    let folder = programs.map(|folder| folder.display().to_string());
    environment.extend(folder.as_deref().map(|folder| (PROGRAMS_VARIABLE, folder)));
    environment.extend(program.map(|program| ("WALPOST_BINARY", program)));
    let threads = threads().to_string();
    if std::env::var_os(THREADS_VARIABLE).is_none() {
        environment.push((THREADS_VARIABLE, &threads));
    }
    say!("==> tests");
    let outcome = run_tests(what, filters, &environment);
    // Dropping it would do; stopped in order it also proves that nobody holds it up.
    let stopped = postgres.stop(Stop::Fast, Duration::from_secs(20));
    outcome.and(stopped.map(drop).context("the shared PostgreSQL could not be stopped after the tests"))
}

/// How many tests run beside each other: one more than there are processors. Tests mostly wait, but for brokers, which are at work
/// meanwhile; with many more of them a topic that was made is unknown for longer than a test waits for it.
fn threads() -> usize {
    thread::available_parallelism().map_or(2, std::num::NonZero::get) + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_filters_and_versions_are_taken_one_by_one_or_all() {
        let of =
            |filters: &[&'static str], versions: &[u32]| Options { filters: filters.into(), versions: versions.into() };
        for (arguments, options) in [
            (&[][..], of(&[], &[])),
            (&["crash::", "slot"], of(&["crash::", "slot"], &[])),
            (&["--postgres", "17", "slot", "--postgres", "18"], of(&["slot"], &[17, 18])),
            (&["--all-versions"], of(&[], &[14, 16, 17, 18])),
        ] {
            assert_eq!(Options::parse(arguments).unwrap(), options, "{arguments:?}");
        }
    }

    #[test]
    fn what_is_no_option_is_refused_by_its_name() {
        for (arguments, word) in [
            (&["--postgres"][..], "major version"),
            (&["--postgres", "new"], "major version"),
            (&["--all"], "no option --all"),
        ] {
            let refusal = Options::parse(arguments).unwrap_err().to_string();
            assert!(refusal.contains(word), "{refusal}");
        }
    }
}
