//! `${NAME}`, `${NAME:-default}` and `${file:/path}` in the strings of the file.
//!
//! One rule for a newcomer: they are replaced in every string of the file except under `[outbox.router]`, where `${…}` belongs to
//! the router (`${routedByValue}`). Elsewhere `$$` is one `$`, and a `$` before anything but `{` and `$` is itself.
//! There is no nesting, and what was put in is not looked at again.

use std::io;
use std::path::Path;

use super::surroundings::Surroundings;

/// Why a string cannot be completed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(super) enum Problem {
    /// No such variable.
    #[error("the environment variable {0} is not set; set it, or give a default: ${{{0}:-…}}")]
    Unset(String),
    /// No closing brace.
    #[error("a `${{` has no `}}` after it; write `$$` where a dollar sign is meant")]
    Unclosed,
    /// Neither a variable nor a file.
    #[error(
        "`${{{0}}}` is neither a variable (letters, digits and _, as in ${{PGPASSWORD}}) nor a file (${{file:/path}}); \
         write `$${{` where the text itself is meant"
    )]
    Unknown(String),
    /// The file cannot be read.
    #[error("the file {path} that is named here cannot be read ({cause}); create it, or let this user read it")]
    Unreadable {
        /// As it was typed.
        path: String,
        /// Why; its text is part of the sentence because the sentence goes to the operator as it is.
        cause: io::Error,
    },
}

/// The text with everything replaced.
///
/// # Errors
/// Everything that could not be replaced.
pub(super) fn expand(text: &str, around: &dyn Surroundings) -> Result<String, Vec<Problem>> {
    let mut expanded = String::with_capacity(text.len());
    let mut problems = Vec::new();
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('$') {
        expanded.push_str(before);
        rest = if let Some(escaped) = behind.strip_prefix('$') {
            expanded.push('$');
            escaped
        } else if let Some(opened) = behind.strip_prefix('{') {
            let Some((reference, closed)) = opened.split_once('}') else {
                problems.push(Problem::Unclosed);
                return Err(problems);
            };
            match resolve(reference, around) {
                Ok(value) => expanded.push_str(&value),
                Err(problem) => problems.push(problem),
            }
            closed
        } else {
            expanded.push('$');
            behind
        };
    }
    expanded.push_str(rest);
    if problems.is_empty() { Ok(expanded) } else { Err(problems) }
}

/// What stands between the braces.
fn resolve(reference: &str, around: &dyn Surroundings) -> Result<String, Problem> {
    if let Some(path) = reference.strip_prefix("file:") {
        return read_value(path, around).map_err(|cause| Problem::Unreadable { path: path.to_owned(), cause });
    }
    let (name, default) = match reference.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (reference, None),
    };
    if !is_variable_name(name) {
        return Err(Problem::Unknown(reference.to_owned()));
    }
    match (around.variable(name), default) {
        (Some(value), None) => Ok(value),
        (Some(value), Some(_)) if !value.is_empty() => Ok(value),
        (_, Some(default)) => Ok(default.to_owned()),
        (None, None) => Err(Problem::Unset(name.to_owned())),
    }
}

/// The text of a file without its last line break, which editors and `echo` put there and nobody means.
pub(super) fn read_value(path: &str, around: &dyn Surroundings) -> io::Result<String> {
    let mut value = around.read(Path::new(path))?;
    if value.ends_with('\n') {
        value.pop();
        if value.ends_with('\r') {
            value.pop();
        }
    }
    Ok(value)
}

fn is_variable_name(name: &str) -> bool {
    name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::fake::Fake;

    fn around() -> Fake {
        Fake::default()
            .with_variable("HOST", "db1")
            .with_variable("EMPTY", "")
            .with_variable("ODD", "${HOST}$$")
            .with_file("/run/secret", "s3cret\n")
            .with_file("/run/crlf", "a\nb\r\n")
    }

    #[test]
    fn references_are_replaced_where_they_stand() {
        let cases = [
            ("", ""),
            ("plain", "plain"),
            ("${HOST}", "db1"),
            ("a-${HOST}-${HOST}-b", "a-db1-db1-b"),
            ("${EMPTY}", ""),
            ("${EMPTY:-x}", "x"),
            ("${NONE:-x:-y}", "x:-y"),
            ("${NONE:-}", ""),
            ("${HOST:-x}", "db1"),
            ("${file:/run/secret}", "s3cret"),
            ("${file:/run/crlf}", "a\nb"),
            ("${ODD}", "${HOST}$$"),
            ("$$", "$"),
            ("$${HOST}", "${HOST}"),
            ("$$${HOST}", "$db1"),
            ("a$b$", "a$b$"),
            ("p$4$ü", "p$4$ü"),
        ];
        for (typed, expected) in cases {
            assert_eq!(expand(typed, &around()).unwrap(), expected, "{typed}");
        }
    }

    #[test]
    fn every_reference_that_leads_nowhere_is_named() {
        let cases: [(&str, &[&str]); 6] = [
            ("${NONE} ${ALSO_NONE}", &["variable NONE is not set", "variable ALSO_NONE is not set"]),
            ("${HOST} ${NONE", &["no `}`"]),
            ("${a.b}", &["`${a.b}` is neither"]),
            ("${}", &["`${}` is neither"]),
            ("${1A:-x}", &["`${1A:-x}` is neither"]),
            ("${file:/none}", &["file /none", "cannot be read"]),
        ];
        for (typed, expected) in cases {
            let problems = expand(typed, &around()).unwrap_err();
            let sentences = problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
            for part in expected {
                assert!(sentences.contains(part), "{typed}: {sentences}");
            }
        }
    }
}
