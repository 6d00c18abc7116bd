//! Many mutants in one program, for compiling core takes far longer than finding a mutant out.
//!
//! The function that a mutant changes gets a body for each of its mutants beside its own, and a switch in front of them that is read from
//! the environment. A mutant that changes anything but the body of one function has no place here.
//!
//! Nothing is parsed: where a function begins and ends is seen by its indentation, which rustfmt keeps.

use std::ops::Range;

use super::list::Mutant;

/// Names the mutant that a program is to be, by its place in the list. Without it the program is none.
pub(super) const VARIABLE: &str = "WALPOST_MUTANT";
/// The module that every switch asks, and its source.
pub(super) const MODULE: &str = "mutant";
pub(super) const SOURCE: &str = r#"//! Which mutant this program is.

pub(crate) fn is(number: usize) -> bool {
    static CHOSEN: std::sync::OnceLock<Option<usize>> = std::sync::OnceLock::new();
    *CHOSEN.get_or_init(|| std::env::var("WALPOST_MUTANT").ok()?.parse().ok()) == Some(number)
}
"#;

/// The text of a file with these mutants of it, each by its number, and the numbers of those that have no place in it.
pub(super) fn with_switches<'a>(
    original: &str,
    mutants: impl IntoIterator<Item = (usize, &'a Mutant)>,
) -> (String, Vec<usize>) {
    let bodies = bodies(original);
    let mut others = vec![String::new(); bodies.len()];
    let mut without = Vec::new();
    for (number, mutant) in mutants {
        let other = |(place, body)| Some((place, other_body(original, body, mutant)?));
        match bodies.iter().enumerate().find_map(other) {
            Some((place, other)) => {
                others[place].push_str(&format!("if crate::{MODULE}::is({number}) {{\n{other}}} else "));
            }
            None => without.push(number),
        }
    }
    let mut text = String::new();
    let mut copied = 0;
    for (body, others) in bodies.into_iter().zip(others).filter(|(_, others)| !others.is_empty()) {
        text.push_str(&original[copied..body.start]);
        text.push_str(&format!("{others}{{\n{}}}\n", &original[body.clone()]));
        copied = body.end;
    }
    text.push_str(&original[copied..]);
    (text, without)
}

/// The body as the mutant has it, if all that it changes lies within: the brace at its end may belong to it.
fn other_body(original: &str, body: &Range<usize>, mutant: &Mutant) -> Option<String> {
    let start = original.find(&mutant.find)?;
    let brace = original[body.end..].find('}')?;
    let whole = body.start..body.end + brace + 1;
    let is_within = whole.start <= start && start + mutant.find.len() <= whole.end;
    let changed = is_within.then(|| original[whole].replacen(&mutant.find, &mutant.replace, 1))?;
    changed.strip_suffix('}').map(|body| format!("{}\n", body.trim_end()))
}

/// The lines of each function between its braces, in the order of the file. What lies within another function belongs to that.
fn bodies(text: &str) -> Vec<Range<usize>> {
    let mut next = 0;
    let lines: Vec<(usize, &str)> = text
        .split_inclusive('\n')
        .map(|line| {
            let start = next;
            next += line.len();
            (start, line.trim_end())
        })
        .collect();
    let mut bodies: Vec<Range<usize>> = Vec::new();
    for head in (0..lines.len()).filter(|place| is_head(lines[*place].1)) {
        let is_outside = bodies.last().is_none_or(|last| last.end <= lines[head].0);
        bodies.extend(body(&lines[head..]).filter(|_| is_outside));
    }
    bodies
}

/// The body of the function that begins in the first of these lines.
fn body(lines: &[(usize, &str)]) -> Option<Range<usize>> {
    let depth = indentation(lines.first()?.1);
    let mut outer = lines.iter().enumerate().filter(|(_, (_, line))| !line.is_empty() && indentation(line) == depth);
    let (opening, (_, line)) = outer.find(|(_, (_, line))| line.ends_with(['{', '}', ';']))?;
    let (_, (end, closing)) = outer.next()?;
    let (start, _) = lines.get(opening + 1)?;
    (line.ends_with('{') && closing.trim_start() == "}").then_some(*start..*end)
}

/// Whether a function begins in this line. A constant one cannot ask what it is to be.
fn is_head(line: &str) -> bool {
    let mut words = line.trim_start().split(' ').skip_while(|word| word.starts_with("pub") || word.ends_with(')'));
    words.next() == Some("fn")
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    const FILE: &str = "\
use x;

impl A {
    pub(in crate::b) fn one(&self) -> u8 {
        if true {
            return 1;
        }
        2
    }

    fn two<T>(
        self,
        t: T,
    ) -> u8
    where
        T: Copy,
    {
        fn within() {
            inner();
        }

        three()
    }

    const fn four() -> u8 {
        5
    }

    fn empty() {}
}
";

    fn mutant(find: &str, replace: &str) -> Mutant {
        let (find, replace) = (find.to_owned(), replace.to_owned());
        Mutant { name: String::new(), file: PathBuf::new(), find, replace }
    }

    #[test]
    fn each_mutant_of_a_function_is_a_body_behind_a_switch_and_the_rest_stays() {
        let mutants = [mutant("return 1;", "return 9;"), mutant("        2\n    }", "        3\n    }")];
        let (text, without) = with_switches(FILE, mutants.iter().enumerate());
        let expected = "\
    pub(in crate::b) fn one(&self) -> u8 {
if crate::mutant::is(0) {
        if true {
            return 9;
        }
        2
} else if crate::mutant::is(1) {
        if true {
            return 1;
        }
        3
} else {
        if true {
            return 1;
        }
        2
}
    }
";
        assert_eq!(without, [1; 0]);
        assert!(text.contains(expected), "{text}");
        let rest = FILE.find("    }\n\n    fn two").unwrap();
        assert!(text.ends_with(&FILE[rest..]), "{text}");
    }

    #[test]
    fn a_function_is_known_by_its_indentation_whatever_lies_in_its_head_and_body() {
        let bodies: Vec<&str> = bodies(FILE).into_iter().map(|body| &FILE[body]).collect();
        assert_eq!(bodies.len(), 2, "{bodies:?}");
        assert!(bodies[0].starts_with("        if true") && bodies[0].ends_with("        2\n"), "{}", bodies[0]);
        assert!(bodies[1].starts_with("        fn within") && bodies[1].ends_with("three()\n"), "{}", bodies[1]);
    }

    #[test]
    fn what_is_not_within_the_body_of_one_function_has_no_place() {
        let cases = [
            ("the head", "one(&self) -> u8", 1),
            ("over the edge", "2\n    }\n\n", 1),
            ("constant", "5", 1),
            ("outside of any", "use x;", 1),
            ("a function within another", "inner();", 0),
            ("the brace at the end", "2\n    }", 0),
        ];
        for (what, find, expected) in cases {
            let mutants = [mutant(find, "}")];
            assert_eq!(with_switches(FILE, mutants.iter().enumerate()).1.len(), expected, "{what}");
        }
    }

    #[test]
    fn the_source_of_the_switch_reads_the_variable_that_chooses() {
        assert!(SOURCE.contains(&format!("\"{VARIABLE}\"")));
    }
}
