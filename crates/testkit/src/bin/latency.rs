//! `latency WALPOST [OPTION…]`: what `cargo xtask bench latency` runs, apart from xtask for its clients.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use walpost_testkit::latency::{Error, Figures, Options, Stand, Way, must_be_there};

const USAGE: &str = "usage: latency WALPOST [--rate N]… [--seconds S] [--runs R] [--json FILE]";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match parse(&arguments).map_err(Error::Options).and_then(|wanted| measure(&wanted)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("latency: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What the command line asks for.
struct Wanted {
    program: PathBuf,
    rates: Vec<u32>,
    time: Duration,
    runs: usize,
    json: Option<PathBuf>,
}

/// Each way at each rate, in turns; whoever begins changes from run to run.
fn measure(wanted: &Wanted) -> Result<(), Error> {
    must_be_there(&wanted.program)?;
    let stand = Stand::start()?;
    let mut all = Vec::new();
    say(&Figures::heading());
    for &rate in &wanted.rates {
        let options = Options { program: wanted.program.clone(), rate, time: wanted.time };
        for run in 1..=wanted.runs {
            let mut ways = Way::ALL;
            ways.rotate_left((run - 1) % Way::ALL.len());
            for way in ways {
                let figures = stand.measure(&options, way, run)?;
                say(&figures.to_string());
                all.push(figures.to_json());
            }
        }
    }
    if let Some(path) = &wanted.json {
        let text = serde_json::Value::from(all).to_string();
        std::fs::write(path, text + "\n").map_err(Error::io(format_args!("write {}", path.display())))?;
    }
    Ok(())
}

fn parse(arguments: &[String]) -> Result<Wanted, String> {
    let mut words = arguments.iter().map(String::as_str);
    let program = words.next().ok_or(USAGE)?.into();
    let mut wanted = Wanted { program, rates: Vec::new(), time: Duration::from_secs(20), runs: 1, json: None };
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        match word {
            "--rate" => wanted.rates.push(number(word, value()?)?),
            "--seconds" => wanted.time = Duration::from_secs(number(word, value()?)?.into()),
            "--runs" => wanted.runs = number(word, value()?)? as usize,
            "--json" => wanted.json = Some(value()?.into()),
            unknown => return Err(format!("there is no option {unknown}; {USAGE}")),
        }
    }
    if wanted.rates.is_empty() {
        wanted.rates = vec![500, 5_000];
    }
    Ok(wanted)
}

fn number(option: &str, text: &str) -> Result<u32, String> {
    let number = text.parse().map_err(|_| format!("{option}: {text:?} is no number"))?;
    if number == 0 { Err(format!("{option} must be at least 1")) } else { Ok(number) }
}

fn say(text: &str) {
    // Whoever has stopped reading is no reason to stop.
    let _ = writeln!(std::io::stdout(), "{text}");
}
