//! The manual: every key does what it says.

use std::collections::BTreeMap;

use walpost_core::connect;
use walpost_core::options::KnownOption;
use walpost_core::router::Options;

use super::*;
use crate::config::raw::{self, Key, Section};

/// What a key needs beside it to mean anything.
fn company(section: &str, key: &str) -> &'static [(&'static str, &'static str)] {
    match (section, key) {
        ("[source]", "sslcert") => &[("[source]", "sslkey = \"/k\"")],
        ("[source]", "sslkey") => &[("[source]", "sslcert = \"/c\"")],
        ("[checkpoint]", "path") => &[("[checkpoint]", "store = \"file\"")],
        ("[dead_letter]", "store") => {
            &[("[sink]", "type = \"kafka\""), ("[sink]", "kafka.\"bootstrap.servers\" = \"127.0.0.1:9092\"")]
        }
        ("[sink]", "kafka") => &[("[sink]", "type = \"kafka\"")],
        _ => &[],
    }
}

/// A good configuration that has this key at this value.
fn sample(section: &Section, key: &Key, value: &str) -> String {
    let mut lines: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    let mut add = |section: &'static str, line: String| lines.entry(section).or_default().push(line);
    add(section.header, format!("{} = {value}", key.name));
    for (section, line) in company(section.header, key.name) {
        add(section, (*line).to_owned());
    }
    if key.name != "url" {
        add("[source]", "url = \"postgres://u@h/d\"".to_owned());
    }
    let names_sink =
        section.header == "[sink]" || company(section.header, key.name).iter().any(|(section, _)| *section == "[sink]");
    if !names_sink {
        add("[sink]", "type = \"stdout\"".to_owned());
    }
    if key.name != "table" {
        add("[[outbox]]", "table = \"public.outbox\"".to_owned());
    }
    lines.into_iter().map(|(header, lines)| format!("{header}\n{}\n", lines.join("\n"))).collect()
}

#[test]
fn a_key_that_changes_nothing_does_not_exist() {
    let around = ["ca.pem", "other-ca.pem", "client.pem", "other.pem", "client.key", "other.key"].iter().fold(
        Fake::default().with_file("/run/secrets/postgres", "one").with_file("/run/secrets/other", "two"),
        |around, name| around.with_file(&format!("/etc/walpost/{name}"), "PEM"),
    );
    let around = around.with_file("/k", "PEM").with_file("/c", "PEM");
    for section in raw::manual() {
        for key in &section.keys {
            let [one, other] = key.samples.map(|value| {
                let text = sample(&section, key, value);
                parse(&text, false, &around).unwrap_or_else(|faults| panic!("{text}: {faults:?}")).settings
            });
            assert_ne!(one, other, "{} {} changes nothing", section.header, key.name);
        }
    }
}

/// Two values of a router's option, by what the manual says that it takes.
fn two_values<O>(option: &KnownOption<O>) -> [&'static str; 2] {
    match option.kind {
        "class" => ["JsonConverter", "ByteArrayConverter"],
        "number" => ["1", "3"],
        "boolean" => ["true", "false"],
        "column" | "string" | "Java replacement string" => ["one", "other"],
        "Java regular expression" => ["(?<routedByValue>.*)", "(?<routedByValue>.+)"],
        kind if kind.starts_with("list of column:") => ["type:header", "type:header:kind"],
        kind => {
            let mut words = kind.split(" | ");
            [words.next().unwrap(), words.next().unwrap_or_else(|| panic!("no two values of {kind}"))]
        }
    }
}

#[test]
fn an_option_of_the_router_that_changes_nothing_does_not_exist() {
    for option in Options::known() {
        let [one, other] = two_values(option).map(|value| {
            let text = with("", &format!("[outbox.router]\n\"{}\" = '{value}'", option.name));
            parse_fake(&text).map(|loaded| loaded.settings)
        });
        // What is not built yet says so, and that is not nothing.
        let is_refused = one.as_ref().is_err_and(|faults| {
            faults.iter().all(|fault| fault.key.contains(option.name) && fault.reason.contains(" yet"))
        });
        assert!(one != other || is_refused, "{} changes nothing: {one:?}", option.name);
    }
}

#[test]
fn an_option_of_the_connector_that_changes_nothing_does_not_exist() {
    for option in connect::Options::known() {
        let [one, other] = two_values(option).map(|value| {
            let text = with("", &format!("[outbox.connect]\n\"{}\" = '{value}'", option.name));
            parse_fake(&text).map(|loaded| loaded.settings)
        });
        assert_ne!(one, other, "{} changes nothing", option.name);
    }
}

#[test]
fn the_default_of_the_manual_is_what_happens_when_the_key_is_left_out() {
    let least = parse_fake(LEAST).unwrap().settings;
    let mut count = 0;
    for section in raw::manual() {
        for key in section.keys.iter().filter(|key| key.default != "none") {
            let text = sample(&section, key, &key.default).replace("postgres://u@h/d", "postgres://walpost@db/app");
            assert_eq!(parse_fake(&text).unwrap().settings, least, "{} {}", section.header, key.name);
            count += 1;
        }
    }
    assert!(count > 10, "only {count} defaults were compared");
}

#[test]
fn the_manual_says_something_about_every_key() {
    let page = reference::render();
    for section in raw::manual() {
        assert!(page.contains(section.header));
        for option in Options::known() {
            assert!(page.contains(&format!("| `{}` |", option.name)), "{} is not in the manual", option.name);
        }
        for key in section.keys {
            let words = key.doc.iter().map(|line| line.split_whitespace().count()).sum::<usize>();
            assert!(words > 2, "{} {} has no manual entry", section.header, key.name);
        }
    }
}
