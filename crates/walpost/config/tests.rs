//! The configuration as a whole: what is good, what is said about what is not, and that every key does something.

use std::collections::BTreeMap;
use std::time::Duration;

use super::fake::Fake;
use super::raw::{self, Key, Section};
use super::settings::{LogFormat, Sink, Store};
use super::*;

const LEAST: &str = "[source]\nurl = \"postgres://walpost@db/app\"\n[[outbox]]\ntable = \"public.outbox\"\n";

fn parse_fake(text: &str) -> Result<Loaded, Vec<Finding>> {
    parse(text, false, &Fake::default())
}

/// The faults of a text, one a line.
fn faults(text: &str) -> String {
    let faults = parse_fake(text).expect_err(text);
    assert!(!faults.is_empty());
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

/// The least configuration with more lines under `[source]` and sections behind it.
fn with(source: &str, sections: &str) -> String {
    format!(
        "[source]\nurl = \"postgres://walpost@db/app\"\n{source}\n[[outbox]]\ntable = \"public.outbox\"\n{sections}\n"
    )
}

#[test]
fn the_least_configuration_has_good_defaults() {
    let Loaded { settings, warnings } = parse_fake(LEAST).unwrap();
    assert_eq!(warnings, []);
    assert_eq!((settings.name(), settings.source().slot()), ("walpost", "walpost"));
    assert_eq!(settings.source().publications(), ["walpost"]);
    assert!(!settings.source().may_create());
    assert_eq!(settings.source().wal_sender_timeout(), Duration::from_secs(30));
    assert_eq!(
        settings.outboxes().iter().map(|outbox| outbox.table().to_string()).collect::<Vec<_>>(),
        ["public.outbox"]
    );
    let checkpoint = settings.checkpoint();
    assert_eq!((checkpoint.store(), checkpoint.events()), (&Store::Postgres, 50_000));
    assert_eq!(
        (checkpoint.interval(), checkpoint.idle().interval()),
        (Duration::from_secs(1), Duration::from_secs(10))
    );
    assert_eq!((checkpoint.idle().bytes(), checkpoint.idle().max_age()), (1 << 20, Duration::from_secs(300)));
    assert_eq!(settings.sink(), &Sink::Stdout);
    assert_eq!((settings.limits().in_flight_records(), settings.limits().in_flight_bytes()), (10_000, 16 << 20));
    assert_eq!(
        (settings.retry().initial(), settings.retry().max()),
        (Duration::from_millis(200), Duration::from_secs(30))
    );
    assert_eq!(settings.stop_timeout(), Duration::from_secs(8));
    assert_eq!((settings.log().format(), settings.log().filter()), (LogFormat::Text, "info"));
}

#[test]
fn the_whole_contract_is_read() {
    let text = r#"
        [source]
        url = "postgres://walpost@127.0.0.1:5432/app"
        slot = "orders"
        publication = ["a", "B,x"]

        [[outbox]]
        table = "public.outbox"
        [outbox.router]
        "route.topic.replacement" = "outbox.event.${routedByValue}"
        table.fields.additional.placement = ["type:header", "tenant:header:t"]
        "route.tombstone.on.empty.payload" = true

        [[outbox]]
        table = '"Order"."Outbox"'

        [checkpoint]
        store = "file"
        path = "/var/lib/walpost/checkpoint"

        [sink]
        type = "kafka"
        [sink.kafka]
        "bootstrap.servers" = "127.0.0.1:9092"
        "linger.ms" = 5
    "#;
    let settings = parse_fake(text).unwrap().settings;
    assert_eq!(settings.name(), "orders");
    assert_eq!(settings.source().publications(), ["a", "B,x"]);
    let tables: Vec<_> = settings.outboxes().iter().map(|outbox| outbox.table().to_string()).collect();
    assert_eq!(tables, ["public.outbox", r#""Order"."Outbox""#]);
    assert_eq!(settings.checkpoint().store().path(), Some(Path::new("/var/lib/walpost/checkpoint")));
    assert!(matches!(settings.sink(), Sink::Kafka(_)));
}

#[test]
fn every_fault_is_said_at_once_in_the_order_of_the_file() {
    let text = r#"
colour = "red"
[source]
url = "mysql://db/app"
slot = "My-Slot"
publication = []
sslmode = "verify_full"
wal_sender_timeout_ms = 10
slto = "x"
[[outbox]]
table = "my-outbox"
[[outbox]]
tabel = "public.outbox"
[checkpoint]
path = "/tmp/x"
events = 0
interval_ms = "soon"
[sink]
type = "kafak"
[limits]
in_flight_bytes = "16 megs"
in_flight_records = -1
[retry]
initial_ms = 5000
max_ms = 100
[log]
level = "debgu"
format = "xml"
"#;
    let expected = [
        "2:1: colour: there is no such key",
        "4:1: source.url: this is no URL of PostgreSQL",
        "5:1: source.slot: \"My-Slot\" cannot be the name of a slot",
        "6:1: source.publication: the list is empty",
        "7:11: source.sslmode: \"verify_full\" is none of disable, prefer, require, verify-ca, verify-full; did you mean \"verify-full\"?",
        "8:1: source.wal_sender_timeout_ms: 10 is out of range",
        "9:1: source.slto: there is no such key; did you mean `slot`?",
        "11:1: outbox[0].table: `my-outbox` holds `-`",
        "12:1: outbox[1].table: it is missing",
        "13:1: outbox[1].tabel: there is no such key; did you mean `table`?",
        "15:1: checkpoint.path: the store \"postgres\" has no path",
        "16:1: checkpoint.events: it has to be at least 1",
        "17:15: checkpoint.interval_ms: expected a whole number of milliseconds",
        "19:8: sink.type: \"kafak\" is none of kafka, stdout, null; did you mean \"kafka\"?",
        "21:19: limits.in_flight_bytes: expected a number of bytes",
        "22:21: limits.in_flight_records: expected a whole number",
        "25:1: retry.max_ms: the first wait (5000 ms) is longer than the longest (100 ms)",
        "27:1: log.level: \"debgu\" is no level",
        "28:10: log.format: \"xml\" is none of text, json",
    ];
    let said = faults(text);
    let said: Vec<_> = said.lines().collect();
    for (said, expected) in said.iter().zip(expected) {
        assert!(said.starts_with(expected), "expected {expected}\n    said {said}");
    }
    assert_eq!(said.len(), expected.len(), "{said:#?}");
}

#[test]
fn a_fault_says_what_is_wrong_and_what_to_write() {
    let long = "s".repeat(64);
    let cases: Vec<(String, &str)> = vec![
        // Shape.
        (String::new(), "source.url: the database is missing; write url"),
        (String::new(), "outbox: there is none; write [[outbox]]"),
        ("[source]\nurl = \"x\n".to_owned(), "2:"),
        ("slot = \"x\"\n".to_owned(), "slot: there is no such key here; `slot` belongs under [source]"),
        ("[sinks]\ntype = \"null\"\n".to_owned(), "sinks: there is no such key; did you mean `sink`?"),
        ("source = 3\n".to_owned(), "1:10: source: expected the section [source], found a number"),
        ("[outbox]\ntable = \"public.outbox\"\n".to_owned(), "outbox: there can be several: write [[outbox]]"),
        ("outbox = [1]\n".to_owned(), "outbox: expected a [[outbox]], found a number"),
        ("[[outbox]]\n".to_owned(), "1:1: outbox[0].table: it is missing"),
        (with("zzz = 1", ""), "source.zzz: there is no such key; here are: url, password_file"),
        (with("path = \"x\"", ""), "source.path: there is no such key here; `path` belongs under [checkpoint]"),
        (with("", "[sink]\ntpye = \"null\""), "sink.tpye: there is no such key; did you mean `type`?"),
        // Kinds.
        (with("slot = 3", ""), "source.slot: expected text in quotes, found a number"),
        (with("create = 1", ""), "source.create: expected true or false"),
        (with("create = \"yes\"", ""), "source.create: expected true or false"),
        (with("publication = [1]", ""), "source.publication: expected text in quotes, found a number"),
        (with("", "[checkpoint]\nevents = 1.5"), "checkpoint.events: expected a whole number"),
        (
            with("", "[outbox.router]\n\"route.by.field\" = 1979-05-27"),
            "outbox[0].router.\"route.by.field\": expected text, a number",
        ),
        (with("", "[outbox.router]\n\"a\" = [[1]]"), "outbox[0].router.\"a\": expected text, a number"),
        (
            with("", "[sink]\ntype = \"kafka\"\nkafka = 1"),
            "sink.kafka: expected the section [sink.kafka], found a number",
        ),
        // Names.
        (with("slot = \"\"", ""), "source.slot: \"\" cannot be the name of a slot"),
        (with(&format!("slot = \"{long}\""), ""), "source.slot: \"ssss"),
        (with("slot = \"größe\"", ""), "source.slot: \"größe\" cannot"),
        (format!("name = \"a b\"\n{LEAST}"), "1:1: name: \"a b\" cannot be a relay's name"),
        (with("publication = [\"a\", \"a\"]", ""), "source.publication: \"a\" is listed twice"),
        (with("publication = \"\"", ""), "source.publication: \"\" cannot be the name of a publication"),
        (with("", "[[outbox]]\ntable = \"PUBLIC.Outbox\""), "outbox[1].table: public.outbox is configured twice"),
        (with("", "[[outbox]]\ntable = \"outbox\""), "outbox[1].table: public.outbox is configured twice"),
        // Ranges.
        (with("connect_timeout_ms = 0", ""), "source.connect_timeout_ms: 0 is out of range; write 1 to"),
        (with("wal_sender_timeout_ms = 2147483648", ""), "source.wal_sender_timeout_ms: 2147483648 is out of range"),
        (with("", "[limits]\nin_flight_records = 0"), "limits.in_flight_records: it has to be at least 1"),
        (with("", "[limits]\nin_flight_bytes = 0"), "limits.in_flight_bytes: nothing could ever be sent"),
        (with("", "[limits]\nin_flight_bytes = 99999999999999999999"), "limits.in_flight_bytes"),
        (with("", "[retry]\ninitial_ms = 0"), "retry.initial_ms: 0 is out of range"),
        (with("", "[retry]\ninitial_ms = 40000"), "retry.initial_ms: the first wait (40000 ms) is longer"),
        // Between keys.
        (with("", "[checkpoint]\nstore = \"file\""), "checkpoint.path: the store \"file\" needs it"),
        (with("", "[checkpoint]\nstore = \"file\"\npath = \"\""), "checkpoint.path: the path is empty"),
        (with("", "[checkpoint]\nstore = \"slot\"\npath = \"/x\""), "checkpoint.path: the store \"slot\" has no path"),
        (with("", "[sink.kafka]\na = \"b\""), "sink.kafka: sink.type is missing"),
        (
            with("", "[sink]\ntype = \"null\"\n[sink.kafka]\na = \"b\""),
            "sink.kafka: the sink is \"null\"; delete this section",
        ),
        (with("sslcert = \"/c\"", ""), "source.sslcert: the certificate's key is missing"),
        (with("sslkey = \"/k\"", ""), "source.sslkey: the key's certificate is missing"),
        (with("password_file = \"/none\"", ""), "source.password_file: /none cannot be read"),
        (with("", "[outbox.router]\n\"a.b\" = 1\na.b = 2"), "outbox[0].router.\"a.b\": this key is given twice"),
        // References.
        (with("slot = \"${NONE}\"", ""), "source.slot: the environment variable NONE is not set"),
        (with("publication = [\"${A}\", \"${B}\"]", ""), "source.publication: the environment variable B is not set"),
        (with("create = \"${NONE}\"", ""), "source.create: the environment variable NONE is not set"),
        (with("", "[limits]\nin_flight_records = \"${N}\""), "limits.in_flight_records: the environment variable N"),
        (with("", "[checkpoint]\nidle_bytes = \"${N}\""), "checkpoint.idle_bytes: the environment variable N"),
        (with("", "[checkpoint]\nstore = \"${N}\""), "checkpoint.store: the environment variable N"),
        (with("", "[checkpoint]\ninterval_ms = \"${N}\""), "checkpoint.interval_ms: the environment variable N"),
    ];
    for (text, expected) in &cases {
        let said = faults(text);
        assert!(said.contains(expected), "{text}\nexpected {expected}\nsaid {said}");
    }
}

#[test]
fn what_a_url_says_is_not_said_again_by_a_key() {
    let around = Fake::default().with_file("/pw", "x").with_file("/ca", "x");
    let cases = [
        ("postgres://u:pw@h/d", "password_file = \"/pw\"", "source.password_file: source.url holds a password too"),
        ("postgres://u@h/d?password=x", "password_file = \"/pw\"", "source.url says `password` too"),
        ("postgres://u@h/d?a=b&sslmode=require", "sslmode = \"require\"", "source.url says `sslmode` too"),
        ("postgres://u@h/d?connect_timeout=3", "connect_timeout_ms = 3", "source.url says `connect_timeout` too"),
        ("postgres://u@h/d?sslrootcert=/ca", "sslrootcert = \"/ca\"", "source.url says `sslrootcert` too"),
    ];
    for (url, line, expected) in cases {
        let text = format!("[source]\nurl = \"{url}\"\n{line}\n[[outbox]]\ntable = \"public.outbox\"\n");
        let faults = parse(&text, false, &around).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].to_string().contains(expected), "{}", faults[0]);
    }
}

#[test]
fn what_is_faulty_is_not_called_missing_too() {
    let cases = [
        "[source]\nurl = 3\n[[outbox]]\ntable = \"public.outbox\"\n".to_owned(),
        "[source]\nurl = \"${NONE}\"\n[[outbox]]\ntable = \"public.outbox\"\n".to_owned(),
        "[source]\nurl = \"postgres://h/d\"\n[[outbox]]\ntable = 3\n".to_owned(),
        with("", "[checkpoint]\nstore = \"file\"\npath = 3"),
        with("slot = \"A\"", ""),
        "[source]\nurl = \"postgres://h/d\"\n[[outbox]]\ntable = \"public.outbox\"\nrouter = 3\n".to_owned(),
    ];
    for text in cases {
        assert_eq!(faults(&text).lines().count(), 1, "{text}{}", faults(&text));
    }
}

#[test]
fn the_database_may_come_from_libpqs_variables_alone() {
    let text = "[[outbox]]\ntable = \"public.outbox\"\n";
    let around = Fake::default().with_variable("PGHOST", "db1");
    let settings = parse(text, false, &around).unwrap().settings;
    let elsewhere = parse(text, false, &Fake::default().with_variable("PGHOST", "db2")).unwrap().settings;
    assert_ne!(settings, elsewhere);
    assert!(parse(text, false, &Fake::default().with_variable("PGUSER", "u")).is_err());
}

#[test]
fn references_are_replaced_everywhere_but_in_the_router() {
    let around = Fake::default()
        .with_variable("SLOT", "orders")
        .with_variable("RECORDS", "7")
        .with_variable("STORE", "slot")
        .with_variable("routedByValue", "WRONG")
        .with_file("/run/brokers", "k1:9092,k2:9092\n");
    let text = r#"
        [source]
        url = "postgres://u@h/d"
        slot = "${SLOT}"
        create = "${CREATE:-true}"
        [[outbox]]
        table = "${SCHEMA:-app}.outbox"
        [outbox.router]
        "route.topic.replacement" = "$$x.${routedByValue}"
        [checkpoint]
        store = "${STORE}"
        idle_bytes = "${IDLE:-2MiB}"
        interval_ms = "${INTERVAL:-5}"
        [sink]
        type = "kafka"
        [sink.kafka]
        "bootstrap.servers" = "${file:/run/brokers}"
        "sasl.password" = "a$$b"
        [limits]
        in_flight_records = "${RECORDS}"
    "#;
    let settings = parse(text, false, &around).unwrap().settings;
    assert_eq!(settings.source().slot(), "orders");
    assert!(settings.source().may_create());
    assert_eq!(settings.outboxes()[0].table().to_string(), "app.outbox");
    assert_eq!(settings.checkpoint().store(), &Store::Slot);
    assert_eq!(settings.checkpoint().idle().bytes(), 2 << 20);
    assert_eq!(settings.checkpoint().interval(), Duration::from_millis(5));
    assert_eq!(settings.limits().in_flight_records(), 7);
    let literal =
        text.replace("${SLOT}", "orders").replace("${file:/run/brokers}", "k1:9092,k2:9092").replace("a$$b", "a${B}");
    let literal = parse(&literal, false, &around.with_variable("B", "$b")).unwrap().settings;
    assert_eq!(literal, settings);
}

#[test]
fn a_dotted_key_without_quotes_is_the_same_as_one_with_them() {
    let quoted = with("", "[outbox.router]\n\"route.by.field\" = \"kind\"\n\"route.topic.replacement\" = \"x\"");
    let bare = with("", "[outbox.router]\nroute.topic.replacement = \"x\"\nroute.by.field = \"kind\"");
    let sorted = |text: &str| {
        let mut options = parse_fake(text).unwrap().settings.outboxes()[0].router().clone();
        options.sort();
        options
    };
    assert_eq!(sorted(&quoted), sorted(&bare));
}

#[test]
fn no_secret_is_shown_by_debug_a_fault_or_a_warning() {
    const SECRET: &str = "hunter2";
    let around = Fake::default()
        .with_variable("PGPASSWORD", "hunter2-env")
        .with_variable("PW", "hunter2-var")
        .with_public_file("/pw", "hunter2-file\n");
    let kafka =
        "[sink]\ntype = \"kafka\"\n[sink.kafka]\n\"bootstrap.servers\" = \"h\"\n\"sasl.password\" = \"hunter2\"\n";
    let good = [
        format!("[source]\nurl = \"postgres://u:hunter2@h/d\"\n[[outbox]]\ntable = \"outbox\"\n{kafka}"),
        format!("[source]\nurl = \"postgres://u:${{PW}}@h/d\"\n[[outbox]]\ntable = \"outbox\"\n{kafka}"),
        "[source]\nurl = \"postgres://u@h/d\"\npassword_file = \"/pw\"\n[[outbox]]\ntable = \"outbox\"\n".to_owned(),
        "[source]\nurl = \"postgres://u@h/d\"\n[[outbox]]\ntable = \"outbox\"\n".to_owned(),
    ];
    for text in &good {
        let loaded = parse(text, true, &around).unwrap();
        let shown = format!("{loaded:?}{loaded:#?}");
        assert!(!shown.contains(SECRET), "{shown}");
    }
    let bad = [
        "[source]\nurl = \"mysql://u:hunter2@h/d\"\n",
        "[source]\nurl = \"postgres://u:hunter2@h/d\npassword_file = 3",
        "[source]\nurl = [\"postgres://u:hunter2@h/d\"]\n",
        "[source]\nurl = \"postgres://u:hunter2@h/d\"\npassword_file = \"/pw\"\n",
        "[source]\nurl = \"postgres://u:hunter2${NONE}@h/d\"\n",
        "[source]\nurl = \"postgres://u@h/d\"\npassword = \"hunter2\"\n",
        "hunter2",
        "[sink.kafka]\n\"sasl.password\" = hunter2\n",
        "[sink.kafka]\n\"sasl.password\" = [[\"hunter2\"]]\n",
    ];
    for text in bad {
        let faults = parse(text, true, &around).unwrap_err();
        let shown = format!("{faults:?}");
        assert!(!shown.contains(SECRET), "{shown}");
    }
}

#[test]
fn a_password_that_everybody_can_read_is_worth_a_warning() {
    let around = Fake::default().with_variable("PW", "x").with_public_file("/public", "x").with_file("/private", "x");
    let source =
        |url: &str, more: &str| format!("[source]\nurl = \"{url}\"\n{more}\n[[outbox]]\ntable = \"public.outbox\"\n");
    let kafka = |password: &str| {
        with(
            "",
            &format!(
                "[sink]\ntype = \"kafka\"\n[sink.kafka]\n\"bootstrap.servers\" = \"h\"\n\"sasl.password\" = \"{password}\""
            ),
        )
    };
    let cases = [
        (source("postgres://u:x@h/d", ""), true, Some("source.url")),
        (source("postgres://u:x@h/d", ""), false, None),
        (source("postgres://u:${PW}@h/d", ""), true, None),
        (source("postgres://u@h/d", ""), true, None),
        (source("postgres://u@h/d", "password_file = \"/public\""), false, Some("source.password_file")),
        (source("postgres://u@h/d", "password_file = \"/private\""), true, None),
        (kafka("x"), true, Some("sink.kafka.\"sasl.password\"")),
        (kafka("x"), false, None),
        (kafka("${PW}"), true, None),
    ];
    for (text, is_public, expected) in cases {
        let warnings = parse(&text, is_public, &around).unwrap().warnings;
        let keys: Vec<_> = warnings.iter().map(|warning| warning.key.as_str()).collect();
        assert_eq!(keys, Vec::from_iter(expected), "{text}");
        assert!(warnings.iter().all(|warning| warning.reason.contains("chmod 600")), "{warnings:?}");
    }
}

#[test]
fn a_table_without_a_schema_is_taken_from_public_and_said_so() {
    let loaded = parse_fake("[source]\nurl = \"postgres://h/d\"\n[[outbox]]\ntable = \"Orders\"\n").unwrap();
    assert_eq!(loaded.settings.outboxes()[0].table().to_string(), "public.orders");
    assert_eq!(loaded.warnings.len(), 1);
    assert_eq!(
        loaded.warnings[0].to_string(),
        "4:1: outbox[0].table: no schema is given, so public.orders is meant; write it out"
    );
}

#[test]
fn the_variable_of_the_log_goes_before_the_file_and_is_checked_like_it() {
    let text = with("", "[log]\nlevel = \"warn\"");
    let filter = |value: &str| {
        parse(&text, false, &Fake::default().with_variable("WALPOST_LOG", value))
            .map(|loaded| loaded.settings.log().filter().to_owned())
    };
    assert_eq!(filter("trace").unwrap(), "trace");
    assert_eq!(filter("").unwrap(), "warn");
    assert!(filter("loud").unwrap_err()[0].to_string().starts_with("WALPOST_LOG: \"loud\" is no level"));
}

#[test]
fn nothing_that_is_typed_makes_the_reader_panic() {
    let pieces = [
        "[source]",
        "\nurl=",
        "\"${",
        "}\"",
        "[[outbox]]",
        "table",
        "=",
        "1",
        ".",
        "\n",
        "{",
        "}",
        "[",
        "\"",
        "é",
        "\u{0}",
        "'",
    ];
    // A linear congruential generator: the same texts in every run.
    let mut state: u64 = 1;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..12 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let choice = usize::try_from(state >> 33).unwrap() % pieces.len();
            text.push_str(pieces[choice]);
        }
        if let Err(faults) = parse_fake(&text) {
            assert!(!faults.is_empty(), "refused without a word: {text}");
        }
    }
}

#[test]
fn an_unreadable_file_is_named_with_the_way_to_name_another() {
    let error = load(Path::new("/none.toml"), &Fake::default()).unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }));
    assert!(error.to_string().contains("/none.toml") && error.to_string().contains("WALPOST_CONFIG"), "{error}");
    let around = Fake::default().with_file("/x.toml", "[source]\nslto = 1\n");
    let error = load(Path::new("/x.toml"), &around).unwrap_err().to_string();
    let lines: Vec<_> = error.lines().collect();
    assert!(lines[0].starts_with("/x.toml:1:1: source.url: "), "{error}");
    assert!(lines[1].starts_with("/x.toml:2:1: source.slto: "), "{error}");
    assert!(lines[2].starts_with("/x.toml: outbox: there is none"), "{error}");
}

/// What a key needs beside it to mean anything.
fn company(section: &str, key: &str) -> &'static [(&'static str, &'static str)] {
    match (section, key) {
        ("[source]", "sslcert") => &[("[source]", "sslkey = \"/k\"")],
        ("[source]", "sslkey") => &[("[source]", "sslcert = \"/c\"")],
        ("[checkpoint]", "path") => &[("[checkpoint]", "store = \"file\"")],
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
    if key.name != "table" {
        add("[[outbox]]", "table = \"public.outbox\"".to_owned());
    }
    lines.into_iter().map(|(header, lines)| format!("{header}\n{}\n", lines.join("\n"))).collect()
}

#[test]
fn a_key_that_changes_nothing_does_not_exist() {
    let around = Fake::default().with_file("/run/secrets/postgres", "one").with_file("/run/secrets/other", "two");
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
        for key in section.keys {
            let words = key.doc.iter().map(|line| line.split_whitespace().count()).sum::<usize>();
            assert!(words > 2, "{} {} has no manual entry", section.header, key.name);
        }
    }
}
