//! Every command that a sentence of the program names can be typed: it is found in the string literals of what is shipped, and given to the parser
//! of the real command line.

use std::fs;
use std::path::{Path, PathBuf};

use clap::error::ErrorKind;
use clap::{ArgAction, Command, CommandFactory as _, Parser as _};

use super::Cli;

/// What stands behind a word that is not part of the command any more.
const PUNCTUATION: &[char] = &[',', ';', ':', '.', ')', '`', '\'', '"'];

/// The sources of what is shipped, without their tests.
fn sources() -> Vec<(PathBuf, String)> {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("crates");
    let mut found = Vec::new();
    for part in ["core", "postgres", "kafka", "walpost"] {
        read_into(&crates.join(part), &mut found);
    }
    found
}

fn read_into(folder: &Path, found: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap();
        if ["tests", "tests.rs", "benches", "named.rs"].contains(&name) {
            continue;
        }
        if path.is_dir() {
            read_into(&path, found);
        } else if name.ends_with(".rs") {
            let source = fs::read_to_string(&path).unwrap();
            let shipped = source.split("#[cfg(test)]\nmod tests {").next().unwrap().to_owned();
            found.push((path, shipped));
        }
    }
}

/// The string literals of a source, as they are at run time.
fn literals(source: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let raw = rest.strip_prefix('r').map(|rest| (rest, rest.trim_start_matches('#')));
        if rest.starts_with("//") {
            rest = rest.split_once('\n').map_or("", |(_, rest)| rest);
        } else if let Some((hashes, body)) = raw.filter(|(_, body)| body.starts_with('"')) {
            let end = format!("\"{}", "#".repeat(hashes.len() - body.len()));
            let (literal, behind) = body[1..].split_once(&end).unwrap();
            found.push(literal.to_owned());
            rest = behind;
        } else if first == '"' {
            let length = length_of_literal(&rest[1..]);
            found.push(unescaped(&rest[1..=length]));
            rest = &rest[length + 2..];
        } else if first == '\'' {
            rest = behind_character(rest);
        } else {
            rest = &rest[first.len_utf8()..];
        }
    }
    found
}

fn length_of_literal(rest: &str) -> usize {
    let mut is_escaped = false;
    let end = rest.find(|c: char| {
        let is_end = c == '"' && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        is_end
    });
    end.unwrap()
}

/// What follows a character literal; a lifetime is passed over by its quote alone.
fn behind_character(rest: &str) -> &str {
    let inner = &rest[1..];
    let length = match inner.strip_prefix('\\') {
        Some(escape) => 1 + escape.char_indices().skip(1).find(|(_, c)| *c == '\'').map_or(0, |(at, _)| at),
        None => inner.chars().next().map_or(0, char::len_utf8),
    };
    inner.get(length..).and_then(|behind| behind.strip_prefix('\'')).unwrap_or(inner)
}

fn unescaped(literal: &str) -> String {
    let mut text = String::new();
    let mut rest = literal;
    while let Some((before, escape)) = rest.split_once('\\') {
        text += before;
        rest = escape.get(1..).unwrap_or_default();
        match escape.chars().next() {
            Some('\n') => rest = rest.trim_start(),
            Some('n') => text.push('\n'),
            Some(other) => {
                text.push(other);
                rest = &escape[other.len_utf8()..];
            }
            None => {}
        }
    }
    text + rest
}

/// The command lines that a text names.
fn commands(text: &str) -> Vec<Vec<String>> {
    let is_of_examples = text.starts_with("Examples:");
    let starts = text.match_indices("walpost ").filter(|(at, _)| {
        let before = text[..*at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !"-_./\"".contains(c))
    });
    let rests = starts.map(|(at, name)| (&text[at + name.len()..], text[..at].ends_with("\n  ")));
    let named = rests.filter_map(|(rest, begins_a_line)| match is_of_examples && begins_a_line {
        true => Some(words_of_example(rest)),
        false => words_of_sentence(rest),
    });
    named.collect()
}

/// All of the line up to where it is explained, or goes into a file.
fn words_of_example(rest: &str) -> Vec<String> {
    let line = rest.lines().next().unwrap_or_default();
    let typed = line.split("  ").next().and_then(|typed| typed.split(" > ").next()).unwrap_or_default();
    let parts = typed.split('\'').enumerate();
    let words = parts.flat_map(|(place, part)| match place % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

/// The subcommands, what has to stand behind them, and their options; nothing where it is no command but the program's name.
fn words_of_sentence(rest: &str) -> Option<Vec<String>> {
    let mut command = Cli::command();
    let mut words: Vec<String> = Vec::new();
    let mut tokens = rest.split_whitespace().peekable();
    while let Some(token) = tokens.peek() {
        let word = token.trim_end_matches(PUNCTUATION);
        let is_last = word != *token;
        if let Some(sub) = command.find_subcommand(word).cloned() {
            command = sub;
            words.push(word.to_owned());
        } else if words.is_empty() {
            return None;
        } else if word.starts_with("--") {
            words.push(word.to_owned());
            if takes_value(&command, word) && !is_last {
                tokens.next();
                words.push(value(tokens.peek()?));
            }
        } else if word.starts_with('{') && command.get_positionals().next().is_some() {
            words.push(value(word));
        } else {
            break;
        }
        if is_last {
            break;
        }
        tokens.next();
    }
    Some(words)
}

fn takes_value(command: &Command, flag: &str) -> bool {
    let argument = command.get_arguments().find(|argument| argument.get_long().is_some_and(|long| flag[2..] == *long));
    argument.is_some_and(|argument| matches!(argument.get_action(), ArgAction::Set | ArgAction::Append))
}

/// Something in the place of what the sentence leaves open.
fn value(token: &str) -> String {
    match token.trim_end_matches(PUNCTUATION) {
        "TIME" => "2026-01-31T12:00:00Z".to_owned(),
        open if open.starts_with('{') => "1".to_owned(),
        word => word.to_owned(),
    }
}

/// Whether it can be typed. A sentence may name a command without what has to follow it, but not an option without another that it needs.
fn can_be_typed(words: &[String]) -> Result<(), clap::Error> {
    let Err(error) = Cli::try_parse_from(std::iter::once("walpost").chain(words.iter().map(String::as_str))) else {
        return Ok(());
    };
    let has_options = words.iter().any(|word| word.starts_with('-'));
    match error.kind() {
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand
            if !has_options =>
        {
            Ok(())
        }
        _ => Err(error),
    }
}

#[test]
fn every_command_that_a_sentence_names_can_be_typed() {
    let mut count = 0;
    for (path, source) in sources() {
        for words in literals(&source).iter().flat_map(|literal| commands(literal)) {
            count += 1;
            let typed = words.join(" ");
            can_be_typed(&words).unwrap_or_else(|error| panic!("{}: walpost {typed}\n{error}", path.display()));
        }
    }
    assert!(count > 60, "only {count} commands are named");
}

#[test]
fn what_is_no_command_any_more_would_be_found() {
    for (text, typed) in [
        ("gone; run: walpost init", &["init"][..]),
        ("walpost init again, it takes what is there", &["init"]),
        ("run `walpost dlq list --state waiting`, then", &["dlq", "list", "--state", "waiting"]),
        ("walpost dlq show {id} --payload", &["dlq", "show", "1", "--payload"]),
        ("run: walpost repair --fill --since TIME, or", &["repair", "--fill", "--since", "2026-01-31T12:00:00Z"]),
    ] {
        let found = commands(text);
        assert_eq!(found, [typed.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>()], "{text}");
        can_be_typed(&found[0]).unwrap();
    }
    assert_eq!(commands("walpost reads pgoutput; see /etc/walpost init"), Vec::<Vec<String>>::new());
    for text in ["run: walpost repair --refill", "walpost repair --recreate --yes", "walpost dlq list --state gone"] {
        can_be_typed(&commands(text)[0]).unwrap_err();
    }
    let source = "// \"no\"\nlet a: &'static str = \"one \\\"two\\\" \\\n    three\"; let b = ['\"', '\\'']; let c = r#\"four \"five\"\"#;";
    assert_eq!(literals(source), ["one \"two\" three", "four \"five\""]);
}
