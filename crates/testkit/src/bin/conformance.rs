//! `conformance record CASES OUT`: what `cargo xtask conformance` runs, apart from xtask for its clients.

use std::fs;
use std::io::Write as _;
use std::process::ExitCode;

use walpost_testkit::conformance::{Case, Recorded, record};

const USAGE: &str = "usage: conformance record CASES.jsonl OUT.jsonl";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match words.as_slice() {
        ["record", cases, out] => run(cases, out),
        _ => Err(USAGE.to_owned()),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("conformance: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(input: &str, output: &str) -> Result<(), String> {
    let text = fs::read_to_string(input).map_err(|error| format!("cannot read {input}: {error}"))?;
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let cases = lines
        .map(|(number, line)| Case::parse(line).map_err(|error| format!("line {} of {input}: {error}", number + 1)));
    let cases = cases.collect::<Result<Vec<Case>, String>>()?;
    let mut tally = Tally { lines: vec![None; cases.len()], ..Tally::default() };
    record(cases, |recorded| tally.take(recorded)).map_err(|error| error.to_string())?;
    let lines: Vec<String> = tally.lines.iter().flatten().map(|line| format!("{line}\n")).collect();
    fs::write(output, lines.concat()).map_err(|error| format!("cannot write {output}: {error}"))?;
    tally.verdict()
}

/// What came of the cases so far.
#[derive(Default)]
struct Tally {
    lines: Vec<Option<String>>,
    new: usize,
    same: usize,
    changed: Vec<String>,
    failed: Vec<String>,
}

impl Tally {
    fn take(&mut self, recorded: Recorded) {
        let Recorded { number, mut case, outcome } = recorded;
        let name = case.name().to_owned();
        let outcome = match outcome {
            Ok(outcome) => outcome,
            Err(error) => {
                say(&format!("{name}: not recorded: {error}"));
                self.failed.push(name);
                return;
            }
        };
        let said = if case.part("debezium_records").is_none() {
            self.new += 1;
            "new"
        } else if outcome.is_in(&case) {
            self.same += 1;
            "the same as before"
        } else {
            self.changed.push(name.clone());
            if case.part("loose").is_some() { "another than before, as it may be" } else { "ANOTHER than before" }
        };
        say(&format!("{name}: {said}"));
        outcome.put_into(&mut case);
        if let Some(line) = self.lines.get_mut(number) {
            *line = Some(case.to_line());
        }
    }

    fn verdict(&self) -> Result<(), String> {
        let Self { new, same, changed, failed, .. } = self;
        say(&format!("{new} new, {same} the same as before, {} changed: {}", changed.len(), changed.join(", ")));
        if failed.is_empty() { Ok(()) } else { Err(format!("not recorded: {}", failed.join(", "))) }
    }
}

fn say(text: &str) {
    // Whoever has stopped reading is no reason to stop recording.
    let _ = writeln!(std::io::stdout(), "{text}");
}
