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
        .with_file("/etc/kafka/truststore.pem", "PEM")
        .with_file("/etc/ca.pem", "PEM")
        .with_file("/etc/client.pem", "PEM")
        .with_file("/etc/client.pk8", "DER")
        .with_file("/etc/client.key", "PEM")
        .with_file("/etc/client.p12", "PKCS#12")
}

fn faults(toml: &str) -> Vec<Finding> {
    config::parse(toml, false, &around()).err().unwrap_or_default()
}

/// The file is good but for what is to be decided, and it is not while anything is.
#[track_caller]
fn assert_good(imported: &Imported) {
    let Imported { toml, undecided, .. } = imported;
    let rest = faults(&imported.without_undecided());
    assert!(rest.is_empty(), "{rest:?}\n{toml}");
    let faults = faults(toml);
    assert_eq!(faults.is_empty(), undecided.is_empty(), "{faults:?}\n{toml}");
    for fault in &faults {
        let line = fault.place.and_then(|place| toml.lines().nth(place.line - 1)).unwrap_or_default();
        assert!(undecided.iter().any(|undecided| undecided == line), "{fault}\n{toml}");
    }
}

fn of_json(options: &str) -> Imported {
    let mut everything = Everything::default();
    let text = format!(
        r#"{{"connector.class":"PostgresConnector","database.hostname":"db","database.user":"u","database.dbname":"app","plugin.name":"pgoutput",
             "table.include.list":"public.outbox","transforms":"outbox","producer.override.bootstrap.servers":"k:9092",
             "transforms.outbox.type":"io.debezium.transforms.outbox.EventRouter"{options}}}"#
    );
    everything.read("f", &text).unwrap();
    connector::import(&everything.connectors[0], &everything, None).unwrap()
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
        let whole = imported.toml.replace("\n#   ", " ").replace("\n# ", " ");
        assert_eq!(imported.undecided.is_empty(), entry.fate != Fate::Decide, "{}", imported.toml);
        let sentence = format!("transforms.t.type = {class}: {}", entry.note);
        assert!(whole.contains(&sentence) && whole.contains("transforms.t.a"), "{sentence}\n{}", imported.toml);
    }
}

const PREFIX: &str = r#","topic.prefix":"app""#;

#[test]
fn what_cannot_be_had_and_changes_records_keeps_the_file_from_running_until_it_is_decided() {
    for (options, line, fault) in [
        (
            r#""value.converter":"io.confluent.connect.avro.AvroConverter""#,
            "value.converter",
            "needs a schema registry",
        ),
        (r#""key.converter":"com.acme.Mine""#, "key.converter", "no converter that is known here"),
        (
            r#""value.converter":"JsonConverter","value.converter.decimal.format":"ROMAN""#,
            "value.converter.decimal.format",
            "ROMAN",
        ),
        (r#""decimal.handling.mode":"roman""#, "decimal.handling.mode", "roman"),
        (r#""transforms.outbox.table.op.invalid.behavior":"explode""#, "table.op.invalid.behavior", "explode"),
        (
            r#""transforms.outbox.table.field.event.key":"${env:KEY}""#,
            "transforms.outbox.table.field.event.key",
            "write \"table.field.event.key\"",
        ),
        (
            r#""transforms.outbox.route.topic.replacement":"${env:P}.${routedByValue}""#,
            "transforms.outbox.route.topic.replacement",
            "write \"route.topic.replacement\"",
        ),
        (r#""topic.delimiter":"${secrets:ns/name:d}""#, "topic.delimiter", "neither a variable"),
        (r#""converters":"isbn""#, "converters", "custom converters are Java classes"),
        (r#""column.mask.with.3.chars":"public.outbox.payload""#, "column.mask.with.3.chars", "as they are"),
        (r#""producer.override.partitioner.class":"com.acme.Mine""#, "partitioner.class", "murmur2"),
        (r#""producer.override.partitioner.ignore.keys":"true""#, "partitioner.ignore.keys", "order per key"),
        (
            r#""transforms":"outbox,t","transforms.t.type":"org.apache.kafka.connect.transforms.RegexRouter""#,
            "transforms.t.type",
            "topics are not renamed",
        ),
    ] {
        let imported = of_json(&format!("{PREFIX},{options}"));
        assert_good(&imported);
        assert_eq!(imported.undecided.len(), 1, "{}", imported.toml);
        assert!(imported.undecided[0].starts_with(&format!("\"{line}\" = ")), "{:?}", imported.undecided);
        assert!(
            imported.toml.contains("# DECIDE ") && imported.toml.contains("until what DECIDE says"),
            "{}",
            imported.toml
        );
        let faults = faults(&imported.toml);
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].reason.contains(fault), "{line}: {}", faults[0]);
    }
}

#[test]
fn everything_that_is_to_be_decided_is_told_at_once() {
    let imported = of_json(&format!(
        r#"{PREFIX},"key.converter":"com.acme.Mine","converters":"isbn","decimal.handling.mode":"roman",
           "transforms.outbox.table.op.invalid.behavior":"explode","producer.override.partitioner.class":"com.acme.Mine""#
    ));
    let faults = faults(&imported.toml);
    assert_eq!((faults.len(), imported.undecided.len()), (5, 5), "{faults:?}");
}

#[test]
fn what_cannot_be_had_and_changes_no_record_keeps_no_file_from_running() {
    for options in [
        r#""exactly.once.support":"required""#,
        r#""connection.factory.class":"x""#,
        r#""producer.override.partitioner.ignore.keys":"false""#,
        r#""provide.transaction.metadata":"true""#,
        r#""value.converter":"JsonConverter","value.converter.basic.auth.user.info":"u:hunter2""#,
    ] {
        let imported = of_json(&format!("{PREFIX},{options}"));
        assert_good(&imported);
        assert!(imported.undecided.is_empty() && !imported.toml.contains("hunter2"), "{}", imported.toml);
    }
}

#[test]
fn a_slot_that_standbys_have_stays_one_with_either_plugin() {
    for (value, line) in [
        ("true", "failover = true"),
        (" True ", "failover = true"),
        ("false", "failover = false"),
        (
            "${env:FAILOVER}",
            "# CHECK slot.failover = ${env:FAILOVER}: write failover = true for it, or failover = false.",
        ),
    ] {
        for plugin in ["pgoutput", "decoderbufs"] {
            let imported = of_json(&format!(r#"{PREFIX},"slot.failover":"{value}","plugin.name":"{plugin}""#));
            assert_good(&imported);
            assert!(imported.toml.lines().any(|found| found == line), "{line}\n{}", imported.toml);
        }
    }
    assert!(!of_json(PREFIX).toml.contains("failover"));
}

#[test]
fn a_connector_without_the_prefix_that_debezium_requires_is_told_so() {
    let imported = of_json("");
    let whole = imported.toml.replace("\n# ", " ");
    assert!(whole.contains("CHECK topic.prefix: the connector has none"), "{}", imported.toml);
    let faults = faults(&imported.toml);
    assert!(faults.len() == 1 && faults[0].reason.contains("topic.prefix"), "{faults:?}");
    assert!(!of_json(PREFIX).toml.contains("CHECK topic.prefix"));
}

#[test]
fn a_dollar_of_connects_is_read_back_as_what_it_meant() {
    let options = |host: &str, slot: &str| {
        let options = format!(
            r#"{PREFIX},"database.hostname":"{host}","slot.name":"{slot}","publication.name":"{slot}","database.sslrootcert":"{slot}""#
        );
        of_json(&options).toml
    };
    for (value, written) in [
        ("a${x}b", "a$${x}b"),
        ("a$$b", "a$$$b"),
        ("a$b", "a$b"),
        ("${env:PGUSER_CDC}", "${PGUSER_CDC}"),
        ("${dir:/run/secrets:pg}", "${file:/run/secrets/pg}"),
        ("${secrets:ns/name:x}", "${secrets:ns/name:x}"),
        ("db-${env:PGUSER_CDC}.$${x}", "db-${PGUSER_CDC}.$$$${x}"),
    ] {
        let toml = options(value, value);
        for line in [
            format!("url = \"postgres://u@{written}/app\""),
            format!("slot = \"{written}\""),
            format!("publication = \"{written}\""),
            format!("sslrootcert = \"{written}\""),
        ] {
            assert!(toml.lines().any(|found| found == line), "{line}\n{toml}");
        }
    }
    let with_port = options("${env:A},b${x}:5433", "s").replace("\n# ", " ");
    assert!(with_port.contains("url = \"postgres://u@${A},b$${x}:5433/app\""), "{with_port}");
    assert!(with_port.contains("Set before the start: A."), "{with_port}");
}
