//! What people and CI run.
//!
//! It needs a Rust toolchain and a C compiler and nothing else: the servers come by [`walpost_testkit::servers`], and
//! whatever was started is stopped again, also on failure, Ctrl-C and SIGTERM.

/// Prints a line; whoever has stopped reading is no reason to stop working, nor to leave servers behind.
#[cfg(not(test))]
macro_rules! say {
    ($($arguments:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($arguments)*);
    }};
}

/// Prints a line into the output of the test that runs, which is shown only when it fails.
#[cfg(test)]
macro_rules! say {
    ($($arguments:tt)*) => { println!($($arguments)*) };
}

mod bench;
mod chaos;
mod conformance;
mod demo;
mod dependencies;
mod dist;
mod fuzz;
mod handover;
mod interrupt;
mod mutants;
mod services;
mod slowest;
mod steps;
mod test;

use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
walpost's own commands

Usage: cargo xtask <command>

Commands:
  demo [--kafka]           Show walpost at work on a throw-away PostgreSQL: orders are committed with their outbox rows,
                           the relay is killed and started again, and nothing is lost. With --kafka into a real Kafka.
  test [FILTER…]           Bring in and start what the tests need, run every check and every test, stop all again.
                           With filters only the tests whose names contain one of them.
       --all-versions      The integration tests on PostgreSQL 14, 16, 17 and 18, one after the other.
       --postgres N        The same on one of these; may be given several times.
  soak [FILTER…]           The tests that take minutes, which `test` leaves out.
  services up [--kafka]    Start a PostgreSQL, and a Kafka if wanted, to play with; print how they are reached.
  services status          Say which of them run.
  services down            Stop them and remove their data.
  bench drain [OPTION…]    Measure how fast a backlog is drained, beside pg_recvlogical on the same backlog. Options:
                             --events N            how many; by default 500,000 single ones, then 1,000,000 in fifties
                             --transactions-of K   events in a transaction
                             --runs R              how often; by default three times
                             --pg-recvlogical, --null, --kafka, --exactly-once   who takes part; by default all four
                             --json FILE           write all figures there
  bench latency [OPTION…]  Measure how long an event takes from before its INSERT to a consumer, at least once and exactly once,
                           beside a producer that publishes by itself. Options:
                             --rate N              single-event transactions a second, may be given several times; by default 500 and 5,000
                             --seconds S           for how long each, after three that do not count; by default 20
                             --runs R, --json FILE as above
  chaos [--minutes N] [--seed S] [--faults A,B] [--store postgres|file | --exactly-once] [--release] [--list]
                           Let writers write, do one fault after another to relay, servers and network for three minutes, and
                           hold every row against every record that came. Fails if anything is lost, out of order, altered, not
                           committed, or repeated without need, and if a fault did not hit. A seed that was printed can be replayed;
                           --list names the faults; --exactly-once has the relay publish by transactions and lets nothing come again at all; --release takes optimised
                           programs, which check fewer of their own assumptions.
  conformance record CASES OUT
                           Run each case of a file (JSON Lines) with a real Debezium in Kafka Connect, and write it with the
                           records that came of it.
  handover [--by-hand]     Let a real Debezium publish, stop or kill it in the middle of the traffic, let walpost import its
                           connector and go on, and count what was lost and what came twice. By hand without the import.
  dist [--no-smoke]        Make the release archive in target/dist with its checksum, unpack it and try it against real servers.
  mutants                  Break core on purpose, one line at a time, and see that its simulation notices.
  fuzz [--seconds N] [TARGET…]
                           Feed made-up input to what reads bytes that others wrote, each target for a minute.
  dependencies             Check who depends on whom, and all licences and sources.
  help                     This text.

What is fetched stays in .services, which git ignores; WALPOST_SERVICES names another folder.
";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let outcome = interrupt::listen().and_then(|()| dispatch(&arguments));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            if let Some(interrupted) = error.downcast_ref::<interrupt::Interrupted>() {
                eprintln!("xtask: {interrupted}");
                return ExitCode::from(interrupted.exit_code());
            }
            eprintln!("xtask: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[String]) -> Result<()> {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if words.iter().any(|word| matches!(*word, "--help" | "-h"))
        && let Some(help) = help_of(&words)
    {
        say!("Usage: cargo xtask …\n\n{}", help.trim_end());
        return Ok(());
    }
    match words.as_slice() {
        ["bench", "drain", options @ ..] => bench::run(options),
        ["bench", "latency", options @ ..] => bench::run_latency(options),
        ["chaos", options @ ..] => chaos::run(options),
        ["conformance", "record", cases, out] => conformance::record(cases, out),
        ["demo"] => demo::run(demo::Broker::None),
        ["demo", "--kafka"] => demo::run(demo::Broker::Kafka),
        ["test", filters @ ..] => test::run(filters),
        ["services", "up"] => services::up(false),
        ["services", "up", "--kafka"] => services::up(true),
        ["services", "status"] => services::status(),
        ["services", "down"] => services::down(),
        ["dist", options @ ..] => dist::run(options),
        ["soak", filters @ ..] => test::soak(filters),
        ["handover", options @ ..] => handover::run(options),
        ["mutants"] => mutants::run(),
        ["fuzz", options @ ..] => fuzz::run(options),
        ["dependencies"] => dependencies::run(),
        [] | ["help", ..] | [.., "help" | "--help" | "-h"] => {
            say!("{}", HELP.trim_end());
            Ok(())
        }
        _ => match help_of(&words) {
            Some(help) => bail!("`cargo xtask {}` is not one of these:\n{}", words.join(" "), help.trim_end()),
            None => bail!("there is no command `{}`: `cargo xtask help` lists them", words.join(" ")),
        },
    }
}

/// What [`HELP`] says of the command that these words name, or of all those that begin with them; none where there is none.
fn help_of(words: &[&str]) -> Option<String> {
    let named: Vec<&str> = words.iter().copied().take_while(|word| !word.starts_with('-')).collect();
    // What follows a command may be its own.
    (1..=named.len()).rev().filter_map(|count| named.get(..count)).find_map(entries)
}

/// The entries whose commands begin with these words.
fn entries(words: &[&str]) -> Option<String> {
    let is_head = |line: &str| line.starts_with("  ") && !line.starts_with("   ");
    let is_ours = |line: &str| {
        let command: Vec<&str> = line.split_whitespace().collect();
        is_head(line) && command.starts_with(words)
    };
    let (mut found, mut is_inside) = (String::new(), false);
    let entries = HELP.lines().skip_while(|line| *line != "Commands:").take_while(|line| !line.is_empty());
    for line in entries {
        is_inside = if is_head(line) { is_ours(line) } else { is_inside };
        if is_inside {
            found.push_str(line);
            found.push('\n');
        }
    }
    (!found.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_of_a_command_is_its_entry_and_of_a_family_all_its_entries() {
        for (words, said, unsaid) in [
            (&["chaos", "--help"][..], "--exactly-once has the relay", "handover"),
            (&["bench", "-h"], "bench latency", "services"),
            (&["bench", "drain", "--help"], "--transactions-of", "bench latency"),
            (&["services"], "services down", "bench"),
            (&["test", "crash", "--help"], "--all-versions", "soak"),
            (&["fuzz", "--seconds", "1", "--help"], "each target for a minute", "dependencies"),
        ] {
            let help = help_of(words).unwrap();
            assert!(help.contains(said) && !help.contains(unsaid), "{words:?}: {help}");
        }
        assert_eq!((help_of(&["unheard-of", "--help"]), help_of(&["--help"]), help_of(&[])), (None, None, None));
    }

    #[test]
    fn every_command_prints_its_help_and_does_nothing_else() {
        let heads = HELP.lines().skip_while(|line| *line != "Commands:").filter(|line| line.starts_with("  "));
        let commands = heads.filter(|line| !line.starts_with("   ")).filter_map(|line| line.split_whitespace().next());
        for command in commands {
            assert!(dispatch(&[command.to_owned(), "--help".to_owned()]).is_ok(), "{command}");
        }
        let error = dispatch(&["bench".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("bench drain") && error.contains("bench latency"), "{error}");
    }
}
