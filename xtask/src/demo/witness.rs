//! Whoever reads the records, a line each: it shows them as they come and remembers them.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use anyhow::{Context as _, Result};
use walpost_testkit::servers::spawn_dependent;

/// The lines of a program, and of those that came before it.
pub(super) struct Witness {
    lines: Arc<Mutex<Vec<String>>>,
    reader: Option<JoinHandle<()>>,
    child: Child,
}

impl Witness {
    /// Starts a program and listens to its standard output; what an earlier one said still counts.
    pub(super) fn of(mut command: Command, before: Option<&Self>) -> Result<Self> {
        let mut child = spawn_dependent({
            command.stdout(Stdio::piped());
            command
        })?;
        let output = child.stdout.take().context("the standard output of a program is missing")?;
        let lines = before.map(|before| Arc::clone(&before.lines)).unwrap_or_default();
        let reader = thread::spawn({
            let lines = Arc::clone(&lines);
            move || listen(output, &lines)
        });
        Ok(Self { lines, reader: Some(reader), child })
    }

    pub(super) fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Hears the last of a program that has ended.
    pub(super) fn hear_the_end(&mut self) {
        if let Some(reader) = self.reader.take() {
            // It has nothing to say but its lines.
            let _ = reader.join();
        }
    }

    /// Those of the orders that no line names.
    pub(super) fn lacks<'o>(&self, orders: &'o [String]) -> Vec<&'o str> {
        orders.iter().filter(|order| self.count(order) == 0).map(String::as_str).collect()
    }

    /// How many lines name the order.
    pub(super) fn count(&self, order: &str) -> usize {
        let lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.iter().filter(|line| line.contains(order)).count()
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        self.hear_the_end();
    }
}

fn listen(output: ChildStdout, lines: &Mutex<Vec<String>>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        say!("    arrived      {line}");
        lines.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

#[cfg(test)]
mod tests {
    use walpost_testkit::servers::dependent;

    use super::*;

    fn saying(words: &str, before: Option<&Witness>) -> Witness {
        let mut echo = dependent("printf");
        echo.arg("%s\\n").args(words.split(' '));
        let mut witness = Witness::of(echo, before).unwrap();
        witness.hear_the_end();
        witness
    }

    #[test]
    fn a_record_that_did_not_come_is_missed_and_one_that_came_twice_is_counted() {
        let witness = saying("order-1 order-2 order-2", None);
        let orders = ["order-1", "order-2", "order-3"].map(str::to_owned);
        assert_eq!(witness.lacks(&orders), ["order-3"]);
        assert_eq!(witness.count("order-2"), 2);
    }

    #[test]
    fn what_an_earlier_program_said_still_counts() {
        let first = saying("order-1", None);
        let second = saying("order-2", Some(&first));
        assert!(second.lacks(&["order-1", "order-2"].map(str::to_owned)).is_empty());
    }
}
