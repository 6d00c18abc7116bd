//! The list of mutants, in blocks of this form; lines between blocks that begin with `#` are comments:
//!
//! ```text
//! == what the mutant does wrong
//! -- src/session.rs
//! <<<
//! the text to be found, exactly once
//! ===
//! the text that takes its place
//! >>>
//! ```

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};

/// One change to one file of core.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Mutant {
    pub(super) name: String,
    /// Relative to the folder of core.
    pub(super) file: PathBuf,
    pub(super) find: String,
    pub(super) replace: String,
}

/// Reads the list.
pub(super) fn parse(text: &str) -> Result<Vec<Mutant>> {
    let mut mutants = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let block = |line: Option<(usize, &str)>, mark: &str| {
            let rest = line.and_then(|(_, line)| line.strip_prefix(mark)).map(|rest| rest.trim().to_owned());
            rest.with_context(|| format!("`{mark}` is missing in the block that begins in line {}", number + 1))
        };
        let name = block(Some((number, line)), "==")?;
        let file = PathBuf::from(block(lines.next(), "--")?);
        block(lines.next(), "<<<")?;
        let mut until = |mark: &str| {
            let part: Vec<&str> = lines.by_ref().map(|(_, line)| line).take_while(|line| *line != mark).collect();
            part.join("\n")
        };
        let (find, replace) = (until("==="), until(">>>"));
        ensure!(
            !name.is_empty() && !find.is_empty(),
            "the block that begins in line {} lacks a name or a text",
            number + 1
        );
        ensure!(find != replace, "the mutant `{name}` changes nothing");
        mutants.push(Mutant { name, file, find, replace });
    }
    let closed = text.lines().filter(|line| *line == ">>>").count();
    ensure!(closed == mutants.len(), "{} blocks begin, but {closed} end with `>>>`", mutants.len());
    Ok(mutants)
}

impl Mutant {
    /// The text of its file with the one change.
    pub(super) fn apply(&self, original: &str) -> Result<String> {
        match original.matches(&self.find).count() {
            1 => Ok(original.replacen(&self.find, &self.replace, 1)),
            count => bail!("its text occurs {count} times in {}, and must occur exactly once", self.file.display()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "\
# a comment

== the first
-- src/a.rs
<<<
one
  two
===
three
>>>

== the second
-- src/b.rs
<<<
x
===
>>>
";

    #[test]
    fn a_list_is_read_block_by_block() {
        let mutants = parse(TWO).unwrap();
        let first = Mutant {
            name: "the first".to_owned(),
            file: PathBuf::from("src/a.rs"),
            find: "one\n  two".to_owned(),
            replace: "three".to_owned(),
        };
        assert_eq!(mutants.len(), 2);
        assert_eq!(mutants[0], first);
        assert_eq!(mutants[1].replace, "");
    }

    #[test]
    fn a_malformed_list_is_refused() {
        let cases = [
            ("no heading", TWO.replace("== the first", "the first")),
            ("no name", TWO.replace("== the first", "==")),
            ("no file", TWO.replace("-- src/a.rs\n", "")),
            ("no opening", TWO.replacen("<<<\n", "", 1)),
            ("no text", TWO.replace("x\n", "")),
            ("no end", TWO.trim_end().trim_end_matches(">>>").to_owned()),
            ("no middle", TWO.replacen("===\n", "", 1)),
            ("no change", TWO.replace("three", "one\n  two")),
        ];
        for (what, text) in cases {
            assert!(parse(&text).is_err(), "{what}");
        }
    }

    #[test]
    fn a_text_that_does_not_occur_exactly_once_is_refused() {
        let mutant =
            Mutant { name: String::new(), file: PathBuf::new(), find: "a".to_owned(), replace: "b".to_owned() };
        assert_eq!(mutant.apply("xax").unwrap(), "xbx");
        for original in ["x", "xaxa"] {
            assert!(mutant.apply(original).is_err(), "{original}");
        }
    }
}
