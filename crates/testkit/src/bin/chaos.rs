//! `chaos WALPOST [OPTION…]`: what `cargo xtask chaos` runs, apart from xtask for its clients.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use walpost_testkit::chaos::{Error, Fault, Options, PAUSE, Schedule, Store, faults_of, run};
use walpost_testkit::checker::Repeats;

const USAGE: &str =
    "usage: chaos WALPOST [--minutes N] [--seed S] [--faults A,B] [--store postgres|file | --exactly-once] [--list]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if arguments.iter().any(|word| word == "--help" || word == "-h") {
        say(USAGE);
        return ExitCode::SUCCESS;
    }
    match play(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("chaos: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What the command line asks for.
struct Wanted {
    program: PathBuf,
    minutes: u64,
    seed: Option<u64>,
    faults: Vec<Fault>,
    store: Option<Store>,
    repeats: Repeats,
    is_list: bool,
}

fn play(arguments: &[String]) -> Result<bool, Error> {
    let wanted = parse(arguments).map_err(Error::Options)?;
    if wanted.is_list {
        Fault::ALL.iter().for_each(|fault| say(&format!("{fault:<26} {}", fault.what())));
        return Ok(true);
    }
    let seed = wanted.seed.unwrap_or_else(|| u64::from(std::process::id()));
    let store = wanted.store.unwrap_or_else(|| store_for(seed, &wanted.faults));
    let possible = faults_of(store);
    let (faults, impossible): (Vec<Fault>, Vec<Fault>) =
        wanted.faults.iter().copied().partition(|fault| possible.contains(fault));
    if let Some(fault) = impossible.first() {
        return Err(Error::Options(format!(
            "{fault} needs --store file, and the right to mount where it is about the disk"
        )));
    }
    let faults = if faults.is_empty() { possible } else { faults };
    let options = Options { program: wanted.program, seed, store, repeats: wanted.repeats, pause: PAUSE };
    let outcome = run(&options, Schedule::of_seed(seed, &faults), Duration::from_secs(60 * wanted.minutes), say)?;
    say(&outcome.to_string());
    if !outcome.is_good() {
        let path = std::env::temp_dir().join(format!("walpost-chaos-{seed}.log"));
        match std::fs::write(&path, outcome.logs.join("\n\n")) {
            Ok(()) => say(&format!("The relay's log is in {}", path.display())),
            Err(error) => say(&format!("The relay's log cannot be kept in {}: {error}", path.display())),
        }
    }
    Ok(outcome.is_good())
}

/// Both in turn, unless the faults say which.
fn store_for(seed: u64, faults: &[Fault]) -> Store {
    let needs_file = faults.iter().any(|fault| fault.needs_file());
    if needs_file || (faults.is_empty() && seed.is_multiple_of(2)) { Store::File } else { Store::Postgres }
}

fn parse(arguments: &[String]) -> Result<Wanted, String> {
    let mut words = arguments.iter().map(String::as_str);
    let program = words.next().ok_or(USAGE)?.into();
    let (faults, repeats) = (Vec::new(), Repeats::Allowed);
    let mut wanted = Wanted { program, minutes: 3, seed: None, faults, store: None, repeats, is_list: false };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let number = |text: &str| text.parse().map_err(|_| format!("{word}: {text:?} is no number"));
        match word {
            "--minutes" => wanted.minutes = number(value()?)?,
            "--seed" => wanted.seed = Some(number(value()?)?),
            "--faults" => wanted.faults = value()?.split(',').map(str::parse).collect::<Result<_, _>>()?,
            "--store" => wanted.store = Some(store(value()?)?),
            "--exactly-once" => wanted.repeats = Repeats::Forbidden,
            "--list" => wanted.is_list = true,
            unknown => return Err(format!("there is no option {unknown}; {USAGE}")),
        }
    }
    if wanted.repeats == Repeats::Forbidden && wanted.store.replace(Store::Kafka).is_some() {
        return Err("--exactly-once keeps the checkpoint in Kafka, and goes without --store".to_owned());
    }
    Ok(wanted)
}

fn store(text: &str) -> Result<Store, String> {
    match text {
        "postgres" => Ok(Store::Postgres),
        "file" => Ok(Store::File),
        other => Err(format!("--store: {other:?} is neither postgres nor file")),
    }
}

fn say(text: &str) {
    // Whoever has stopped reading is no reason to stop.
    let _ = writeln!(std::io::stdout(), "{text}");
}
