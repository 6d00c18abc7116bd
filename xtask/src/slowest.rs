//! Which tests took longest: read from what Rust's test programs print, which is passed on as it would be without their times.
//!
//! The harness tells times to nightly compilers only. Set for the programs and not for the compiler, the variable that changes this builds nothing anew.

/// To be given to cargo, so that test programs may be asked for times.
pub(crate) const CARGO: [&str; 2] = ["--config", r#"target."cfg(all())".runner=["env", "RUSTC_BOOTSTRAP=1"]"#];
/// To be given to the test programs.
pub(crate) const HARNESS: [&str; 2] = ["-Zunstable-options", "--report-time"];

/// How many are told of each program.
const MOST: usize = 10;
/// From when on a test is slow, in seconds.
const SLOW: f32 = 5.0;

/// The slow tests of the program that runs.
#[derive(Debug, Default)]
pub(crate) struct Slowest(Vec<(f32, String)>);

impl Slowest {
    /// What is to be printed for this line; behind the result of a program its slowest tests follow.
    pub(crate) fn read(&mut self, line: &str) -> String {
        if line.starts_with("test result: ") {
            return line.to_owned() + &self.told();
        }
        let Some((seconds, outcome)) = timed(line) else { return line.to_owned() };
        if seconds >= SLOW {
            self.0.push((seconds, outcome.trim_start_matches("test ").to_owned()));
        }
        outcome.to_owned()
    }

    fn told(&mut self) -> String {
        let mut slow = std::mem::take(&mut self.0);
        slow.sort_by(|(one, _), (other, _)| other.total_cmp(one));
        slow.iter().take(MOST).map(|(seconds, outcome)| format!("\n    {seconds:.1} s: {outcome}")).collect()
    }
}

/// Cuts the time from `test name ... ok <1.234s>`.
fn timed(line: &str) -> Option<(f32, &str)> {
    let (outcome, time) = line.strip_suffix("s>")?.rsplit_once(" <")?;
    Some((time.parse().ok()?, outcome)).filter(|_| outcome.starts_with("test "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_cut_off_and_the_slowest_tests_follow_the_result_of_their_program() {
        let mut slowest = Slowest::default();
        for (line, printed) in [
            ("running 3 tests", "running 3 tests"),
            ("test a::quick ... ok <0.100s>", "test a::quick ... ok"),
            ("test a::slow ... ok <7.260s>", "test a::slow ... ok"),
            ("test a::slower ... FAILED <61.000s>", "test a::slower ... FAILED"),
            ("test a::left_out ... ignored", "test a::left_out ... ignored"),
            ("a line that ends as <such>", "a line that ends as <such>"),
            ("test result: ok.", "test result: ok.\n    61.0 s: a::slower ... FAILED\n    7.3 s: a::slow ... ok"),
            ("test result: ok.", "test result: ok."),
        ] {
            assert_eq!(slowest.read(line), printed, "{line}");
        }
    }
}
