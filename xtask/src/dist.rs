//! `cargo xtask dist`: what a release consists of, made and tried.
//!
//! One archive with the program, its completions and manual pages, and the notices of whatever is linked into it; and its
//! checksum. OpenSSL, zlib, zstd, LZ4 and librdkafka are linked statically. The C library is not: a static glibc cannot look up
//! names by the system's own rules (NSS), and there is no musl toolchain to be counted on. So the archive says which glibc it needs.
//!
//! The archive is the same, byte for byte, whenever the same program is packed. It is then unpacked and tried against real servers: what is
//! shipped is what was tested.

mod linkage;
mod notices;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, bail, ensure};
use walpost_testkit::servers::{Need, Scratch, install};

use crate::steps::{run_cargo, workspace};
use crate::{interrupt, test};

/// What a user would notice if it were not linked in: TLS and SASL to both servers, every codec, and the main job.
const SMOKE: &[&str] = &[
    "events_arrive_by_sasl_over_tls",
    "events_arrive_by_every_codec",
    "every_sslmode",
    "what_is_committed_arrives_once",
    "completions_and_manual_pages",
];

/// Files of the project that go along.
const PAPERS: &[&str] = &["README.md", "CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT"];

const SHELLS: &[(&str, &str)] = &[("bash", "walpost.bash"), ("zsh", "_walpost"), ("fish", "walpost.fish")];

/// Makes the archive, and unless told otherwise tries it.
pub(crate) fn run(options: &[&str]) -> Result<()> {
    let is_tried = match options {
        [] => true,
        ["--no-smoke"] => false,
        _ => bail!("`cargo xtask dist` takes --no-smoke or nothing"),
    };
    step("Building walpost for release, with OpenSSL from its source");
    install(&[Need::Build, Need::Vendored])?;
    let program = build()?;
    let linked = linkage::look_at(&program)?;
    step(&format!("It needs {} and glibc {} or newer, nothing else", linked.libraries.join(", "), linked.glibc));
    let name = format!("walpost-{}-{}", env!("CARGO_PKG_VERSION"), host()?);
    let folder = workspace().join("target/dist");
    let archive = pack(&program, &folder, &name)?;
    let checksum = sum(&archive)?;
    step(&format!("{}, {} bytes; its checksum is in {}", shown(&archive), size(&archive)?, shown(&checksum)));
    if is_tried {
        step("Unpacking it elsewhere and trying it against real servers");
        try_out(&archive, &checksum, &name)?;
    }
    Ok(())
}

fn build() -> Result<PathBuf> {
    // A folder of its own: OpenSSL from source is another build of everything that stands on it.
    let target = workspace().join("target/vendored");
    let words = ["build", "--quiet", "--locked", "--release", "--package", "walpost", "--features", "vendored"];
    run_cargo(&words, &[("CARGO_TARGET_DIR", &target.display().to_string())])?;
    Ok(target.join("release/walpost"))
}

/// The triple that cargo builds for.
fn host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output().context("cannot ask rustc for its host")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).context("rustc does not say for which host it builds")
}

/// Lays out the folder and archives it.
fn pack(program: &Path, folder: &Path, name: &str) -> Result<PathBuf> {
    let staged = folder.join(name);
    if staged.exists() {
        fs::remove_dir_all(&staged).with_context(|| format!("cannot clear {}", staged.display()))?;
    }
    for below in ["completions", "man", "docs"] {
        let below = staged.join(below);
        fs::create_dir_all(&below).with_context(|| format!("cannot make {}", below.display()))?;
    }
    let binary = staged.join("walpost");
    done("strip", Command::new("strip").arg("-o").arg(&binary).arg(program))?;
    for (shell, file) in SHELLS {
        let script = done("walpost completions", Command::new(&binary).args(["completions", shell]))?;
        write(&staged.join("completions").join(file), &script)?;
    }
    done("walpost man", Command::new(&binary).arg("man").arg(staged.join("man")))?;
    for paper in PAPERS {
        copy(&workspace().join(paper), &staged.join(paper))?;
    }
    for entry in fs::read_dir(workspace().join("docs")).context("cannot read docs")?.flatten() {
        if entry.path().extension().is_some_and(|ending| ending == "md") {
            copy(&entry.path(), &staged.join("docs").join(entry.file_name()))?;
        }
    }
    write(&staged.join("NOTICES"), notices::collect()?.as_bytes())?;
    let archive = folder.join(format!("{name}.tar.gz"));
    let mut tar = Command::new("tar");
    tar.args(["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=@0", "--mode=go=rX,u+rw,a-s"]);
    // `gzip -n` leaves name and time of the input out.
    tar.args(["--use-compress-program", "gzip -9n", "-cf"]).arg(&archive).arg("-C").arg(folder).arg(name);
    done("tar", &mut tar)?;
    Ok(archive)
}

/// Writes the archive's checksum beside it, as `sha256sum -c` reads it.
fn sum(archive: &Path) -> Result<PathBuf> {
    let folder = archive.parent().context("the archive lies in no folder")?;
    let name = archive.file_name().context("the archive has no name")?;
    let line = done("sha256sum", Command::new("sha256sum").arg(name).current_dir(folder))?;
    let checksum = PathBuf::from(format!("{}.sha256", archive.display()));
    write(&checksum, &line)?;
    Ok(checksum)
}

/// Unpacks the archive as a user would and runs tests on what came out.
fn try_out(archive: &Path, checksum: &Path, name: &str) -> Result<()> {
    let scratch = Scratch::new("dist")?;
    for file in [archive, checksum] {
        copy(file, &scratch.path().join(file.file_name().context("a file without a name")?))?;
    }
    let sums = checksum.file_name().context("a file without a name")?;
    done("sha256sum -c", Command::new("sha256sum").arg("-c").arg(sums).current_dir(scratch.path()))?;
    done("tar", Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(scratch.path()))?;
    let program = scratch.path().join(name).join("walpost");
    let version = done("walpost --version", Command::new(&program).arg("--version"))?;
    ensure!(
        String::from_utf8_lossy(&version).trim() == format!("walpost {}", env!("CARGO_PKG_VERSION")),
        "the program in the archive is of another version: {}",
        String::from_utf8_lossy(&version).trim()
    );
    test::on_program(&program, SMOKE)
}

/// The output of a command that has to succeed.
fn done(what: &str, command: &mut Command) -> Result<Vec<u8>> {
    interrupt::check()?;
    let output = command.output().with_context(|| format!("cannot run {what}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{what} failed ({}): {}", output.status, said.trim());
    Ok(output.stdout)
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::copy(from, to).with_context(|| format!("cannot copy {} to {}", from.display(), to.display())).map(drop)
}

fn write(path: &Path, bytes: &[u8]) -> Result<()> {
    fs::write(path, bytes).with_context(|| format!("cannot write {}", path.display()))
}

fn size(path: &Path) -> Result<u64> {
    Ok(fs::metadata(path).with_context(|| format!("cannot look at {}", path.display()))?.len())
}

/// A path as it is typed at the root of the workspace.
fn shown(path: &Path) -> String {
    path.strip_prefix(workspace()).unwrap_or(path).display().to_string()
}

fn step(text: &str) {
    say!("==> {text}");
}
