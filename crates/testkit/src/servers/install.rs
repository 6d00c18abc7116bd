//! Brings in what a bare Debian lacks, once, and keeps it.
//!
//! What is there already is found by looking for the programs themselves, so that another distribution, or a server
//! built by hand, does as well as Debian's package. Jars come by Maven into a folder that git ignores.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::account::is_root;
use super::debezium::DEBEZIUM;
use super::kafka::{KAFKA, archive};
use super::process::check;
use super::scratch::make_folder;
use super::{Error, Result};

/// What something is to be done with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Compiling walpost with its Kafka sink: a C and C++ compiler, make, and OpenSSL's headers.
    Build,
    /// Compiling OpenSSL from its source: its configuration is a Perl program.
    Vendored,
    /// A PostgreSQL server and its client.
    Postgres,
    /// PostgreSQL in other versions than the system's; see [`postgres_of`](super::postgres_of).
    PostgresVersions,
    /// A Kafka broker.
    Kafka,
    /// Debezium's PostgreSQL connector in Kafka Connect.
    Debezium,
}

/// Brings in whatever of this is not there yet, saying on the standard error what it fetches.
///
/// # Errors
///
/// [`Error::Missing`], with the packages' names, when they cannot be installed from here; [`Error::Command`] when
/// Maven could not fetch the jars.
pub fn install(needs: &[Need]) -> Result<()> {
    let lock = lock()?;
    let packages = missing_packages(needs);
    if !packages.is_empty() {
        install_packages(&packages, needs)?;
    }
    for (need, jars) in [(Need::Kafka, &KAFKA), (Need::Debezium, &DEBEZIUM)] {
        if needs.contains(&need) && !jars.are_there() {
            jars.fetch()?;
        }
    }
    if needs.contains(&Need::Kafka) && !kafka_archive().is_file() {
        eprintln!("starting Kafka once, to make an archive of its classes");
        archive::make(&kafka_archive())?;
    }
    drop(lock);
    Ok(())
}

/// The folder for what was fetched and for what runs: `.services` in the workspace, or the one that the environment
/// variable `WALPOST_SERVICES` names.
#[must_use]
pub fn services_folder() -> PathBuf {
    let ours = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../.services");
    let folder = std::env::var_os("WALPOST_SERVICES").map_or_else(ours, PathBuf::from);
    // Without the two steps up, for whoever reads it in a message; the folder may not be there yet.
    folder.canonicalize().unwrap_or(folder)
}

/// A command that runs one of Kafka's programs, named by its main class, in a small and quick virtual machine.
///
/// # Errors
///
/// [`Error::Io`] when the jars have not been fetched: see [`install`].
pub fn kafka_tool(class: &str) -> Result<Command> {
    let mut command = Command::new("java");
    command.args(java_arguments(class)?);
    Ok(command)
}

/// What `java` needs to run a class of Kafka, without the class's own arguments.
pub(super) fn java_arguments(class: &str) -> Result<Vec<String>> {
    let archive = kafka_archive();
    let mut arguments: Vec<String> =
        ["-Xms64m", "-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto"]
            .map(str::to_owned)
            .into();
    if archive.is_file() {
        // One of another Java is left aside without a word.
        arguments.extend([format!("-XX:SharedArchiveFile={}", archive.display()), "-Xlog:disable".to_owned()]);
    }
    arguments.extend(["-cp".to_owned(), KAFKA.class_path()?, class.to_owned()]);
    Ok(arguments)
}

/// The variable that names the folder of PostgreSQL's programs.
pub const PROGRAMS_VARIABLE: &str = "WALPOST_POSTGRES_BIN";

/// The folder of PostgreSQL's programs: what [`PROGRAMS_VARIABLE`] names, else the newest of Debian's, else where
/// `pg_config` says.
pub(super) fn postgres_programs() -> Option<PathBuf> {
    let has_server = |folder: &PathBuf| folder.join("postgres").is_file() && folder.join("initdb").is_file();
    if let Some(named) = std::env::var_os(PROGRAMS_VARIABLE) {
        return Some(PathBuf::from(named));
    }
    let version = |folder: &Path| folder.file_name()?.to_str()?.parse::<u32>().ok();
    let entries = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|entry| entry.path());
    let mut installed: Vec<(u32, PathBuf)> = entries
        .filter_map(|folder| Some((version(&folder)?, folder.join("bin"))))
        .filter(|(_, bin)| has_server(bin))
        .collect();
    installed.sort();
    let newest = installed.pop().map(|(_, bin)| bin);
    newest.or_else(|| {
        let output = Command::new("pg_config").arg("--bindir").output().ok()?;
        Some(PathBuf::from(String::from_utf8(output.stdout).ok()?.trim())).filter(has_server)
    })
}

/// The classes that a broker loads, in the form that the machine keeps them: with it a broker starts in half the time.
fn kafka_archive() -> PathBuf {
    KAFKA.folder().join("classes.jsa")
}

/// Keeps two processes from fetching the same at once. The lock goes with the file.
pub(super) fn lock() -> Result<File> {
    let folder = services_folder();
    make_folder(&folder)?;
    let path = folder.join("lock");
    let file = File::create(&path).map_err(Error::io(format_args!("write {}", path.display())))?;
    file.lock().map_err(Error::io(format_args!("lock {}", path.display())))?;
    Ok(file)
}

/// Debian's packages of which the programs are not there.
fn missing_packages(needs: &[Need]) -> Vec<&'static str> {
    let mut missing = Vec::new();
    let mut want = |is_there: bool, package| {
        if !is_there && !missing.contains(&package) {
            missing.push(package);
        }
    };
    for need in needs {
        match need {
            Need::Build => {
                want(["cc", "c++", "make"].into_iter().all(is_program), "build-essential");
                want(is_program("pkg-config"), "pkg-config");
                want(Path::new("/usr/include/openssl/ssl.h").is_file() || has_openssl_by_pkg_config(), "libssl-dev");
            }
            Need::Vendored => want(has_perl_modules(), "perl"),
            Need::Postgres => {
                want(postgres_programs().is_some(), "postgresql");
                want(is_program("psql"), "postgresql-client");
                want(is_program("openssl"), "openssl");
                want(is_program("setpriv"), "util-linux");
            }
            Need::PostgresVersions => {
                want(is_program("java"), "openjdk-17-jre-headless");
                want(is_program("mvn"), "maven");
                want(is_program("unzip"), "unzip");
                want(is_program("xz"), "xz-utils");
            }
            Need::Kafka => {
                want(is_program("java"), "openjdk-17-jre-headless");
                want(KAFKA.are_there() || is_program("mvn"), "maven");
                want(is_program("openssl"), "openssl");
                want(is_program("setpriv"), "util-linux");
            }
            Need::Debezium => {
                want(is_program("java"), "openjdk-17-jre-headless");
                want(DEBEZIUM.are_there() || is_program("mvn"), "maven");
                want(is_program("setpriv"), "util-linux");
            }
        }
    }
    missing
}

fn is_program(name: &str) -> bool {
    std::env::var_os("PATH").is_some_and(|path| std::env::split_paths(&path).any(|folder| folder.join(name).is_file()))
}

/// Debian's smallest Perl lacks modules that OpenSSL's configuration loads.
fn has_perl_modules() -> bool {
    let modules = ["-MIPC::Cmd", "-MFindBin", "-MFile::Compare", "-e1"];
    Command::new("perl").args(modules).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

fn has_openssl_by_pkg_config() -> bool {
    Command::new("pkg-config").args(["--exists", "openssl"]).status().is_ok_and(|status| status.success())
}

fn install_packages(packages: &[&'static str], needs: &[Need]) -> Result<()> {
    let refuse = |reason: &str| Err(Error::Missing { packages: packages.to_vec(), reason: reason.to_owned() });
    if !is_program("apt-get") {
        return refuse("this machine has no apt-get");
    }
    let by_sudo = !is_root()?;
    if by_sudo && !may_sudo() {
        return refuse("neither root's rights nor sudo without a password are at hand");
    }
    eprintln!("installing Debian's packages: {}", packages.join(" "));
    let update = apt_get(by_sudo, &["update"]);
    let installed = update.and_then(|()| {
        let install = ["install", "--yes", "--no-install-recommends"];
        apt_get(by_sudo, &[&install[..], packages].concat())
    });
    if let Err(error) = installed {
        return refuse(&format!("apt-get could not install them ({error})"));
    }
    match missing_packages(needs) {
        none if none.is_empty() => Ok(()),
        packages => Err(Error::Missing { packages, reason: "they are still missing after apt-get".to_owned() }),
    }
}

fn may_sudo() -> bool {
    let tried = Command::new("sudo").args(["-n", "true"]).stdin(Stdio::null()).stderr(Stdio::null()).status();
    tried.is_ok_and(|status| status.success())
}

fn apt_get(by_sudo: bool, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new(if by_sudo { "sudo" } else { "env" });
    if by_sudo {
        command.args(["-n", "env"]);
    }
    command
        .arg("DEBIAN_FRONTEND=noninteractive")
        .args(["apt-get", "-q", "-o", "DPkg::Lock::Timeout=300"])
        .args(arguments);
    let what = format!("apt-get {}", arguments.join(" "));
    let output = command.stdin(Stdio::null()).output().map_err(Error::io(format_args!("run {what}")))?;
    check(&output, &what).map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_found_on_the_path_or_not_at_all() {
        assert!(is_program("sh"));
        assert!(!is_program("no-such-program-anywhere"));
    }

    #[test]
    fn nothing_needed_is_nothing_missing() {
        assert!(missing_packages(&[]).is_empty());
    }
}
