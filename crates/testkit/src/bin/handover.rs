//! `handover WALPOST [--by-hand]`: what `cargo xtask handover` runs, apart from xtask for its clients.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use walpost_testkit::handover::{Act, End, Error, Stage, Way};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (walpost, ways) = match words.as_slice() {
        [walpost] => (walpost, &[Way::Checkpoint, Way::Offsets][..]),
        [walpost, "--by-hand"] => (walpost, &[Way::ByHand][..]),
        _ => {
            eprintln!("usage: handover WALPOST [--by-hand]");
            return ExitCode::FAILURE;
        }
    };
    match play(Path::new(walpost), ways) {
        Ok(acts) if acts.iter().all(Act::is_good) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("handover: {error}");
            ExitCode::FAILURE
        }
    }
}

fn play(walpost: &Path, ways: &[Way]) -> Result<Vec<Act>, Error> {
    say("Starting PostgreSQL and Kafka");
    let stage = Stage::set()?;
    let mut acts = Vec::new();
    for &way in ways {
        for end in [End::Stopped, End::Killed] {
            say(&format!("==> Debezium will be {end:?}, and walpost goes on from {way:?}"));
            let act = stage.play(walpost, end, way, |event| say(&format!("    {event}")))?;
            say(&act.to_string());
            acts.push(act);
        }
    }
    Ok(acts)
}

fn say(text: &str) {
    // Whoever has stopped reading is no reason to stop.
    let _ = writeln!(std::io::stdout(), "{text}");
}
