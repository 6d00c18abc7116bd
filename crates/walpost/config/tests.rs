//! The configuration as a whole: what is good, what is said about what is not, and that every key does something.

mod faults;
mod manual;

use std::time::Duration;

use walpost_postgres::connection::TlsMode;

use super::fake::Fake;
use super::settings::{LogFormat, Sink, Store};
use super::*;

const LEAST: &str =
    "[source]\nurl = \"postgres://walpost@db/app\"\n[[outbox]]\ntable = \"public.outbox\"\n[sink]\ntype = \"stdout\"\n";

/// The sink of what is not about sinks; a section for the end of a file.
const STDOUT: &str = "[sink]\ntype = \"stdout\"\n";

fn parse_fake(text: &str) -> Result<Loaded, Vec<Finding>> {
    parse(text, false, &Fake::default())
}

/// The least configuration with more lines under `[source]` and sections after it, and a sink where they have none.
fn with(source: &str, sections: &str) -> String {
    let sink = if sections.contains("[sink") { "" } else { STDOUT };
    format!(
        "[source]\nurl = \"postgres://walpost@db/app\"\n{source}\n[[outbox]]\ntable = \"public.outbox\"\n{sections}\n{sink}"
    )
}

#[test]
fn the_least_configuration_has_good_defaults() {
    let Loaded { settings, warnings } = parse_fake(LEAST).unwrap();
    assert_eq!(warnings, []);
    assert_eq!((settings.name(), settings.source().slot().as_str()), ("walpost", "walpost"));
    assert_eq!(settings.source().publications(), ["walpost"]);
    assert!(!settings.source().may_create());
    assert_eq!(settings.source().wal_sender_timeout(), Duration::from_secs(30));
    assert_eq!(
        settings.outboxes().iter().map(|outbox| outbox.table.to_string()).collect::<Vec<_>>(),
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
        (Duration::from_millis(100), Duration::from_secs(30))
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
    let tables: Vec<_> = settings.outboxes().iter().map(|outbox| outbox.table.to_string()).collect();
    assert_eq!(tables, ["public.outbox", r#""Order"."Outbox""#]);
    assert_eq!(settings.checkpoint().store().path(), Some(Path::new("/var/lib/walpost/checkpoint")));
    assert!(matches!(settings.sink(), Sink::Kafka(_)));
}

#[test]
fn the_database_may_come_from_libpqs_variables_alone() {
    let text = &format!("[[outbox]]\ntable = \"public.outbox\"\n{STDOUT}");
    let around = Fake::default().with_variable("PGHOST", "db1").with_variable("PGUSER", "u");
    let settings = parse(text, false, &around).unwrap().settings;
    let elsewhere = parse(text, false, &around.clone().with_variable("PGHOST", "db2")).unwrap().settings;
    assert_ne!(settings, elsewhere);
    assert!(parse(text, false, &Fake::default().with_variable("PGUSER", "u")).is_err());
}

#[test]
fn a_connection_takes_each_part_from_where_it_is_said_first() {
    let around = Fake::default()
        .with_variable("PGPASSWORD", "env")
        .with_variable("PGSSLMODE", "disable")
        .with_variable("PGCONNECT_TIMEOUT", "7")
        .with_file("/pw", "file\n");
    let connection = |source: &str| {
        let text = format!("name = \"orders\"\n[source]\n{source}\n[[outbox]]\ntable = \"public.outbox\"\n{STDOUT}");
        parse(&text, false, &around).unwrap().settings.source().connection().clone()
    };
    let plain = connection("url = \"postgres://u@h/d\"");
    assert_eq!(plain.application_name(), "orders");
    assert_eq!((plain.tls().mode, plain.connect_timeout()), (TlsMode::Disable, Duration::from_secs(7)));
    assert_eq!(plain, connection("url = \"postgres://u:env@h/d\""));
    assert_eq!(
        connection("url = \"postgres://u@h/d\"\npassword_file = \"/pw\""),
        connection("url = \"postgres://u:file@h/d\"")
    );
    let keyed = connection("url = \"postgres://u@h/d\"\nsslmode = \"verify-full\"\nconnect_timeout_ms = 1500");
    assert_eq!((keyed.tls().mode, keyed.connect_timeout()), (TlsMode::VerifyFull, Duration::from_millis(1500)));
    let url = connection("url = \"postgres://u@h/d?sslmode=require&connect_timeout=2&application_name=x\"");
    assert_eq!((url.tls().mode, url.connect_timeout()), (TlsMode::Require, Duration::from_secs(2)));
    assert_eq!(url.application_name(), "x");
}

#[test]
fn a_session_is_told_what_the_file_says() {
    let text = with(
        "wal_sender_timeout_ms = 2000",
        "[limits]\nin_flight_records = 3\nin_flight_bytes = 4\n[retry]\ninitial_ms = 5\nmax_ms = 6\n[stop]\ntimeout_ms = 7\n\
         [checkpoint]\ninterval_ms = 8\nevents = 9\nidle_interval_ms = 10\nidle_bytes = 11\nidle_max_age_ms = 12",
    );
    let session = parse_fake(&text).unwrap().settings.session();
    assert_eq!((session.max_records, session.max_bytes), (3, 4));
    let millis = |duration: Duration| duration.as_millis();
    assert_eq!((millis(session.retry_initial), millis(session.retry_ceiling)), (5, 6));
    assert_eq!((millis(session.drain_timeout), millis(session.silence_timeout)), (7, 2000));
    let feedback = session.feedback;
    assert_eq!((millis(feedback.checkpoint_interval), feedback.checkpoint_events), (8, 9));
    assert_eq!((millis(feedback.idle_interval), feedback.idle_bytes, millis(feedback.idle_age)), (10, 11, 12));
    assert_eq!((millis(feedback.retry_initial), millis(feedback.retry_ceiling)), (5, 6));
    assert_eq!(millis(feedback.status_interval), 500, "several status updates may be lost before the server gives up");
    assert_eq!(millis(parse_fake(LEAST).unwrap().settings.session().feedback.status_interval), 1000);
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
        "route.topic.replacement" = "x.${routedByValue}"
        [checkpoint]
        store = "${STORE}"
        idle_bytes = "${IDLE:-2MiB}"
        interval_ms = "${INTERVAL:-5}"
        [sink]
        type = "kafka"
        [sink.kafka]
        "bootstrap.servers" = "${file:/run/brokers}"
        "security.protocol" = "sasl_ssl"
        "sasl.password" = "a$$b"
        [limits]
        in_flight_records = "${RECORDS}"
    "#;
    let settings = parse(text, false, &around).unwrap().settings;
    assert_eq!(settings.source().slot().as_str(), "orders");
    assert!(settings.source().may_create());
    assert_eq!(settings.outboxes()[0].table.to_string(), "app.outbox");
    assert_eq!(settings.checkpoint().store(), &Store::Slot);
    assert_eq!(settings.checkpoint().idle().bytes(), 2 << 20);
    assert_eq!(settings.checkpoint().interval(), Duration::from_millis(5));
    assert_eq!(settings.limits().in_flight_records(), 7);
    let literal =
        text.replace("${SLOT}", "orders").replace("${file:/run/brokers}", "k1:9092,k2:9092").replace("a$$b", "a${B}");
    let literal = parse(&literal, false, &around.with_variable("B", "$b")).unwrap().settings;
    assert_eq!(literal, settings);
    assert_eq!(settings.outboxes()[0].router.options().route_topic_replacement, "x.${routedByValue}");
}

#[test]
fn a_dotted_key_without_quotes_is_the_same_as_one_with_them() {
    let quoted = with("", "[outbox.router]\n\"route.by.field\" = \"kind\"\n\"route.topic.replacement\" = \"x\"");
    let bare = with("", "[outbox.router]\nroute.topic.replacement = \"x\"\nroute.by.field = \"kind\"");
    assert_eq!(parse_fake(&quoted).unwrap().settings, parse_fake(&bare).unwrap().settings);
}

#[test]
fn no_secret_is_shown_by_debug_a_fault_or_a_warning() {
    const SECRET: &str = "hunter2";
    let around = Fake::default()
        .with_variable("PGPASSWORD", "hunter2-env")
        .with_variable("PW", "hunter2-var")
        .with_public_file("/pw", "hunter2-file\n");
    let kafka = "[sink]\ntype = \"kafka\"\n[sink.kafka]\n\"bootstrap.servers\" = \"h\"\n\"security.protocol\" = \"sasl_ssl\"\n\"sasl.password\" = \"hunter2\"\n";
    let good = [
        format!("[source]\nurl = \"postgres://u:hunter2@h/d\"\n[[outbox]]\ntable = \"outbox\"\n{kafka}"),
        format!("[source]\nurl = \"postgres://u:${{PW}}@h/d\"\n[[outbox]]\ntable = \"outbox\"\n{kafka}"),
        format!(
            "[source]\nurl = \"postgres://u@h/d\"\npassword_file = \"/pw\"\n[[outbox]]\ntable = \"outbox\"\n{STDOUT}"
        ),
        format!("[source]\nurl = \"postgres://u@h/d\"\n[[outbox]]\ntable = \"outbox\"\n{STDOUT}"),
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
    let source = |url: &str, more: &str| {
        format!("[source]\nurl = \"{url}\"\n{more}\n[[outbox]]\ntable = \"public.outbox\"\n{STDOUT}")
    };
    let kafka = |password: &str| {
        with(
            "",
            &format!(
                "[sink]\ntype = \"kafka\"\n[sink.kafka]\n\"bootstrap.servers\" = \"h\"\n\"security.protocol\" = \"sasl_ssl\"\n\"sasl.password\" = \"{password}\""
            ),
        )
    };
    let cases = [
        (source("postgres://u:x@h/d", ""), true, Some("source.url")),
        (source("postgres://u:x@h/d", ""), false, None),
        (source("postgres://u:${PW}@h/d", ""), true, None),
        (source("postgres://u:${file:/private}@h/d", ""), true, None),
        (source("postgres://${NO_USER:-u}@h/d", ""), true, None),
        (source("postgres://${NO_USER:-u}:x@h/d", ""), true, Some("source.url")),
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
    let loaded =
        parse_fake(&format!("[source]\nurl = \"postgres://u@h/d\"\n[[outbox]]\ntable = \"Orders\"\n{STDOUT}")).unwrap();
    assert_eq!(loaded.settings.outboxes()[0].table.to_string(), "public.orders");
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
