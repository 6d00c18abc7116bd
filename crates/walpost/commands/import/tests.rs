//! Configurations as they are found, and what becomes of them.

mod cases;

use super::connector::{self, Imported};
use super::given::Everything;
use super::version::Version;
use crate::config::fake::Fake;
use crate::config::{self, Finding};
use crate::debezium::options::{CONNECTOR, Fate, PRODUCER, SERVER, TRANSFORMS, WORKER};

use cases::CASES;

macro_rules! samples {
    ($($name:literal),+ $(,)?) => { &[$(($name, include_str!(concat!("samples/", $name)))),+] };
}

const SAMPLES: &[(&str, &str)] = samples![
    "application.properties",
    "documentation.json",
    "expansion.json",
    "mixed_case.json",
    "msk.json",
    "old.json",
    "overrides.json",
    "partitioned.json",
    "predicate.json",
    "several.json",
    "wal2json.properties",
    "worker.properties",
];

fn read(files: &[&str]) -> Everything {
    let mut everything = Everything::default();
    for file in files {
        let (_, text) = SAMPLES.iter().find(|(name, _)| name == file).unwrap();
        everything.read(file, text).unwrap();
    }
    everything
}

fn imported(files: &[&str], version: Option<Version>) -> Vec<Imported> {
    let everything = read(files);
    let imports = everything.connectors.iter().map(|connector| connector::import(connector, &everything, version));
    imports.filter_map(Result::ok).collect()
}

/// The machine that it will run on: what is to be set is set.
fn around() -> Fake {
    Fake::default()
        .with_variable("KAFKA_SASL_USERNAME", "u")
        .with_variable("KAFKA_SASL_PASSWORD", "secret")
        .with_variable("KAFKA_SSL_KEYSTORE_PASSWORD", "secret")
        .with_variable("API_SECRET", "secret")
        .with_variable("PGUSER_CDC", "cdc")
        .with_variable("PGPASSWORD", "secret")
        .with_file("/run/secrets/pg", "secret\n")
}

#[track_caller]
fn assert_good(imported: &Imported) {
    let outcome = config::parse(&imported.toml, false, &around()).map(drop);
    let faults: Vec<String> = outcome.err().into_iter().flatten().map(|fault: Finding| fault.to_string()).collect();
    assert!(faults.is_empty(), "{}\n{}", faults.join("\n"), imported.toml);
}

/// Names that a line names by another one, or that every file begins with.
fn is_understood(name: &str) -> bool {
    ["connector.class", "name", "transforms", "predicates", "debezium.sink.type"].contains(&name)
        || name.starts_with("predicates.")
        || name.starts_with("transforms.")
        // The connector's name for it is the same thing.
        || ["database.server.name", "converters"].contains(&name)
}

#[test]
fn what_comes_out_can_be_run_and_names_every_option_and_no_secret() {
    let worker = read(&["worker.properties"]).worker;
    for (file, _) in SAMPLES {
        for with_worker in [false, true] {
            let files: &[&str] = if with_worker { &[file, "worker.properties"] } else { &[file] };
            let everything = read(files);
            for connector in &everything.connectors {
                let Ok(imported) = connector::import(connector, &everything, None) else { continue };
                assert_good(&imported);
                assert!(!imported.toml.contains("hunter2"), "{}", imported.toml);
                let whole = imported.toml.replace("\n#   ", " ").replace("\n# ", " ");
                for (name, _) in connector.options.iter().filter(|(name, _)| !is_understood(name)) {
                    assert!(whole.contains(name), "{file}: {name} is not named\n{}", imported.toml);
                }
                let uses_worker = with_worker && *file != "application.properties";
                let is_overridden =
                    |name: &str| connector.options.has(&name.replacen("producer.", "producer.override.", 1));
                let is_left = |name: &str| uses_worker && !name.contains("converter") && !is_overridden(name);
                for (name, _) in worker.iter().filter(|(name, _)| is_left(name)) {
                    assert!(whole.contains(name), "{file}: {name} of the worker is not named\n{}", imported.toml);
                }
            }
        }
    }
}

#[test]
fn each_sample_becomes_what_it_says() {
    for (file, expected, absent) in CASES {
        let all = imported(&[file], None);
        assert_eq!(all.len(), 1, "{file}");
        let toml = &all[0].toml;
        let whole = toml.replace("\n#   ", " ").replace("\n# ", " ");
        for text in *expected {
            assert!(toml.contains(text) || whole.contains(text), "{file}: {text} is not in\n{toml}");
        }
        for text in *absent {
            assert!(!toml.contains(text), "{file}: {text} is in\n{toml}");
        }
    }
}

#[test]
fn several_connectors_become_several_files_with_the_workers_defaults() {
    let all = imported(&["several.json", "worker.properties"], None);
    let names: Vec<_> = all.iter().map(|imported| imported.name.as_str()).collect();
    assert_eq!(names, ["orders", "invoices"]);
    for text in [
        "table = \"public.outbox\"",
        "table = \"sales.outbox_eu\"",
        "CHECK table.include.list has the pattern sales.outbox_.*",
        "\"value.converter\" = \"org.apache.kafka.connect.json.JsonConverter\"",
        "\"bootstrap.servers\" = \"kafka-1:9093,kafka-2:9093\"",
        "\"sasl.username\" = \"connect\"",
        "\"sasl.password\" = \"${KAFKA_SASL_PASSWORD}\"",
        "\"ssl.ca.location\" = \"/etc/kafka/truststore.pem\"",
    ] {
        assert!(all[0].toml.contains(text), "{text} is not in\n{}", all[0].toml);
    }
    assert_eq!(all[0].toml.matches("\"table.field.event.key\" = \"aggregate_id\"").count(), 2);
    for text in [
        "password_file = \"/run/secrets/pg\"",
        "\"value.converter\" = \"io.debezium.converters.BinaryDataConverter\"",
        "\"key.converter\" = \"org.apache.kafka.connect.storage.StringConverter\"",
    ] {
        assert!(all[1].toml.contains(text), "{text} is not in\n{}", all[1].toml);
    }
}

#[test]
fn the_version_decides_what_was_left_out() {
    let headers = |version: &str| {
        let all = imported(&["documentation.json"], Some(version.parse().unwrap()));
        all[0].toml.contains("\"extended.headers.enabled\" = \"true\"")
    };
    assert!(headers("3.2") && headers("3.6") && !headers("3.1") && !headers("2.7"));
    let key = |version: &str| imported(&["old.json"], Some(version.parse().unwrap()))[0].toml.contains("\"order_id\"");
    assert!(key("1.9") && !key("2.0"), "Debezium 2.0 ignores the former name");
}

#[test]
fn what_is_no_outbox_connector_is_refused_with_the_reason() {
    let everything = read(&["several.json"]);
    let refused =
        everything.connectors.iter().find_map(|connector| connector::import(connector, &everything, None).err());
    assert!(refused.unwrap().contains("MySqlConnector"));
    let mut everything = Everything::default();
    everything.read("f", r#"{"connector.class":"PostgresConnector","transforms":"x"}"#).unwrap();
    let refused = connector::import(&everything.connectors[0], &everything, None).unwrap_err();
    assert!(refused.contains("EventRouter"), "{refused}");
}

/// A value of an option that nothing else depends on.
fn any_value(name: &str) -> &'static str {
    match name {
        _ if name.ends_with(".ms") || name.contains("size") || name.contains("port") || name.contains("digits") => "1",
        _ if name.contains("enabled") || name.contains("include.unknown") => "true",
        _ => "x",
    }
}

#[test]
fn every_option_of_the_table_is_named_in_what_comes_out() {
    let base = read(&["overrides.json"]);
    for group in CONNECTOR.iter().chain(PRODUCER).chain(SERVER).chain(WORKER) {
        for entry in group.entries {
            let name = format!("{}{}", group.prefix, entry.name.replace('*', "something"));
            let mut everything = base.clone();
            let is_worker = WORKER.iter().any(|worker| worker.title == group.title);
            if is_worker {
                everything.worker_files.push("w".to_owned());
                everything.worker.put(name.as_str(), any_value(&name));
            } else if base.connectors[0].options.has(&name) || is_understood(&name) {
                continue;
            } else {
                if name.starts_with("debezium.") || name.starts_with("quarkus.") || name.starts_with('%') {
                    everything.connectors[0].home = super::given::Home::Server;
                }
                everything.connectors[0].options.put(name.as_str(), any_value(&name));
            }
            let imported = connector::import(&everything.connectors[0], &everything, None).unwrap();
            let whole = imported.toml.replace("\n#   ", " ").replace("\n# ", " ");
            // What a connector says itself it does not take from its worker.
            let is_overridden = is_worker && name == "bootstrap.servers";
            assert!(is_overridden || whole.contains(&name), "{name} is not named\n{}", imported.toml);
            let unknown = imported.toml.split("UNKNOWN:").nth(1).and_then(|rest| {
                rest.split(
                    "

",
                )
                .next()
            });
            let is_unknown = unknown.is_some_and(|unknown| unknown.contains(&format!(" {name} = ")));
            assert!(!is_unknown || name.contains("something"), "{name} is unknown\n{}", imported.toml);
        }
    }
}

#[test]
fn a_transformation_that_cannot_be_had_is_named_with_the_reason() {
    for entry in TRANSFORMS.iter().flat_map(|group| group.entries).filter(|entry| entry.fate != Fate::Same) {
        let class = entry.name.replace('*', "Value");
        let text = format!(
            r#"{{"connector.class":"PostgresConnector","transforms":"t,o","transforms.t.type":"{class}","transforms.t.a":"b",
                 "transforms.o.type":"io.debezium.transforms.outbox.EventRouter"}}"#
        );
        let mut everything = Everything::default();
        everything.read("f", &text).unwrap();
        let imported = connector::import(&everything.connectors[0], &everything, None).unwrap();
        let whole = imported.toml.replace("\n#   ", " ");
        let sentence = format!("transforms.t.type = {class}: {}", entry.note);
        assert!(whole.contains(&sentence) && whole.contains("transforms.t.a"), "{sentence}\n{}", imported.toml);
    }
}
