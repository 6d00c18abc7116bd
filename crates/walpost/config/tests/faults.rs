//! What is said about a configuration that is not good.

use super::*;

/// The faults of a text, one a line.
fn faults(text: &str) -> String {
    let faults = parse_fake(text).expect_err(text);
    assert!(!faults.is_empty());
    faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
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
        "4:1: source.url: the URL does not start with postgres://",
        "5:1: source.slot: \"My-Slot\" cannot name a replication slot",
        "6:1: source.publication: the list is empty",
        "7:11: source.sslmode: \"verify_full\" is none of disable, prefer, require, verify-ca, verify-full; did you mean \"verify-full\"?",
        "8:1: source.wal_sender_timeout_ms: 10 is out of range",
        "9:1: source.slto: there is no such key; did you mean `slot`?",
        "11:1: outbox[0].table: `my-outbox` holds `-`",
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

/// Asserts that each text is refused with a fault that holds these words.
fn assert_said(cases: &[(String, &str)]) {
    for (text, expected) in cases {
        let said = faults(text);
        assert!(said.contains(expected), "{text}\nexpected {expected}\nsaid {said}");
    }
}

#[test]
fn a_file_of_the_wrong_shape_is_told_the_right_one() {
    assert_said(&[
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
    ]);
}

#[test]
fn a_value_of_the_wrong_kind_is_told_the_right_one() {
    assert_said(&[
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
        (with("", "[outbox.router]\nroute.by.feild = \"a\""), "outbox[0].router.\"route.by.feild\": "),
        (with("", "[outbox.router]\n\"route.topic.regex\" = \"(\""), "outbox[0].router.\"route.topic.regex\": "),
        (
            with("", "[outbox.connect]\n\"decimal.handling.mode\" = \"exact\""),
            "outbox[0].connect.\"decimal.handling.mode\": \"exact\" is none of precise, double, string",
        ),
        (
            with("", "[outbox.connect]\n\"extended.headers.enabled\" = true"),
            "outbox[0].connect.\"extended.headers.enabled\": one of these headers",
        ),
        (
            with("", "[outbox.connect]\n\"decimal.handling.mod\" = \"double\""),
            "outbox[0].connect.\"decimal.handling.mod\": no such option",
        ),
        (with("", "[sink]\ntype = \"kafka\""), "7:1: sink.kafka.\"bootstrap.servers\": it is missing"),
        (
            with("", "[sink]\ntype = \"kafka\"\n[sink.kafka]\nbootstrap.servers = \"h\"\nacks = 1"),
            "sink.kafka.\"acks\": ",
        ),
        (
            with("", "[sink]\ntype = \"kafka\"\nkafka = 1"),
            "sink.kafka: expected the section [sink.kafka], found a number",
        ),
    ]);
}

#[test]
fn a_name_that_cannot_be_is_told_the_rule() {
    let long = "s".repeat(64);
    assert_said(&[
        (with("slot = \"\"", ""), "source.slot: \"\" cannot name a replication slot"),
        (with(&format!("slot = \"{long}\""), ""), "source.slot: \"ssss"),
        (with("slot = \"größe\"", ""), "source.slot: \"größe\" cannot"),
        (format!("name = \"a b\"\n{LEAST}"), "1:1: name: \"a b\" cannot be a relay's name"),
        (with("publication = [\"a\", \"a\"]", ""), "source.publication: \"a\" is listed twice"),
        (with("publication = \"\"", ""), "source.publication: \"\" cannot be the name of a publication"),
        (with("", "[[outbox]]\ntable = \"PUBLIC.Outbox\""), "outbox[1].table: public.outbox is configured twice"),
        (with("", "[[outbox]]\ntable = \"outbox\""), "outbox[1].table: public.outbox is configured twice"),
    ]);
}

#[test]
fn a_number_out_of_range_is_told_the_range() {
    assert_said(&[
        (with("connect_timeout_ms = 0", ""), "source.connect_timeout_ms: 0 is out of range; write 1 to"),
        (with("wal_sender_timeout_ms = 2147483648", ""), "source.wal_sender_timeout_ms: 2147483648 is out of range"),
        (with("", "[limits]\nin_flight_records = 0"), "limits.in_flight_records: it has to be at least 1"),
        (with("", "[limits]\nin_flight_bytes = 0"), "limits.in_flight_bytes: nothing could ever be sent"),
        (with("", "[limits]\nin_flight_bytes = 99999999999999999999"), "limits.in_flight_bytes"),
        (with("", "[retry]\ninitial_ms = 0"), "retry.initial_ms: 0 is out of range"),
        (with("", "[retry]\ninitial_ms = 40000"), "retry.initial_ms: the first wait (40000 ms) is longer"),
        (with("", "[dead_letter]\nflood_limit = 0"), "dead_letter.flood_limit: it has to be at least 1"),
        (with("", "[dead_letter]\nparked_bytes = 0"), "dead_letter.parked_bytes: no row could ever wait"),
        (
            with("", "[dead_letter]\nkeep_ended_days = 0"),
            "dead_letter.keep_ended_days: 0 is out of range; write 1 to 3653",
        ),
        (
            with("", "[dead_letter]\nkeep_ended_days = 4294967297"),
            "dead_letter.keep_ended_days: 4294967297 is out of range",
        ),
        (with("", "[dead_letter]\non_bad_row = \"parc\""), "did you mean \"park\"?"),
    ]);
}

#[test]
fn keys_that_do_not_go_together_are_told_which_to_change() {
    assert_said(&[
        (with("", "[checkpoint]\nstore = \"file\""), "checkpoint.path: the store \"file\" needs it"),
        (with("", "[checkpoint]\nstore = \"file\"\npath = \"\""), "checkpoint.path: the path is empty"),
        (with("", "[checkpoint]\nstore = \"slot\"\npath = \"/x\""), "checkpoint.path: the store \"slot\" has no path"),
        (
            with("", "[checkpoint]\nstore = \"kafka\"\n[dead_letter]\nstore = \"postgres\""),
            "dead_letter.store: with checkpoint.store = \"kafka\" a dead letter in the database and a transaction",
        ),
        (
            with(
                "",
                "[checkpoint]\nstore = \"kafka\"\n[dead_letter]\nstore = \"postgres\"\non_bad_row = \"stop\"\non_closed_route = \"dead_letter\"",
            ),
            "dead_letter.store: with checkpoint.store = \"kafka\" a dead letter in the database and a transaction",
        ),
        (
            with("", "[dead_letter]\nstore = \"kafka\""),
            "dead_letter.store: the store \"kafka\" is a topic of the sink's cluster, and the sink is \"stdout\"",
        ),
        (with("", "[dead_letter]\ntopic = \"a b\""), "dead_letter.topic: \"a b\" cannot be the name of a topic"),
        (
            with(
                "",
                "[checkpoint]\nstore = \"kafka\"\n[dead_letter]\ntopic = \"walpost.checkpoint\"\n[sink]\ntype = \"kafka\"\nkafka.\"bootstrap.servers\" = \"h\"",
            ),
            "dead_letter.topic: checkpoints are kept in this topic",
        ),
        (with("", "[sink.kafka]\na = \"b\""), "sink.type: it is missing; write type = \"kafka\" under [sink]"),
        (String::new(), "sink.type: it is missing; write type = \"kafka\" under [sink]"),
        (
            with("", "[sink]\ntype = \"null\"\n[sink.kafka]\na = \"b\""),
            "sink.kafka: the sink is \"null\"; delete this section",
        ),
        (with("sslcert = \"/c\"", ""), "source.sslcert: the certificate's key is missing"),
        (with("sslkey = \"/k\"", ""), "source.sslkey: the key's certificate is missing"),
        (with("password_file = \"/none\"", ""), "source.password_file: /none cannot be read"),
        (with("", "[outbox.router]\n\"a.b\" = 1\na.b = 2"), "outbox[0].router.\"a.b\": this key is given twice"),
    ]);
}

#[test]
fn a_reference_that_leads_nowhere_names_the_key_and_the_variable() {
    assert_said(&[
        (with("slot = \"${NONE}\"", ""), "source.slot: the environment variable NONE is not set"),
        (with("publication = [\"${A}\", \"${B}\"]", ""), "source.publication: the environment variable B is not set"),
        (with("create = \"${NONE}\"", ""), "source.create: the environment variable NONE is not set"),
        (with("", "[limits]\nin_flight_records = \"${N}\""), "limits.in_flight_records: the environment variable N"),
        (with("", "[checkpoint]\nidle_bytes = \"${N}\""), "checkpoint.idle_bytes: the environment variable N"),
        (with("", "[checkpoint]\nstore = \"${N}\""), "checkpoint.store: the environment variable N"),
        (with("", "[checkpoint]\ninterval_ms = \"${N}\""), "checkpoint.interval_ms: the environment variable N"),
    ]);
}

#[test]
fn what_a_url_says_is_not_said_again_by_a_key() {
    let around = Fake::default().with_file("/pw", "x").with_file("/ca", "x");
    let cases = [
        ("postgres://u:pw@h/d", "password_file = \"/pw\"", "source.password_file: source.url holds a password too"),
        ("postgres://u@h/d?password=x", "password_file = \"/pw\"", "source.url says `password` too"),
        (
            "postgres://u@h/d?application_name=b&sslmode=require",
            "sslmode = \"require\"",
            "source.url says `sslmode` too",
        ),
        ("postgres://u@h/d?connect_timeout=3", "connect_timeout_ms = 3", "source.url says `connect_timeout` too"),
        ("postgres://u@h/d?sslrootcert=/ca", "sslrootcert = \"/ca\"", "source.url says `sslrootcert` too"),
    ];
    for (url, line, expected) in cases {
        let text = format!("[source]\nurl = \"{url}\"\n{line}\n[[outbox]]\ntable = \"public.outbox\"\n{STDOUT}");
        let faults = parse(&text, false, &around).unwrap_err();
        assert_eq!(faults.len(), 1, "{faults:?}");
        assert!(faults[0].to_string().contains(expected), "{}", faults[0]);
    }
}

#[test]
fn what_is_faulty_is_not_called_missing_too() {
    let cases = [
        format!("[source]\nurl = 3\n[[outbox]]\ntable = \"public.outbox\"\n{STDOUT}"),
        format!("[source]\nurl = \"${{NONE}}\"\n[[outbox]]\ntable = \"public.outbox\"\n{STDOUT}"),
        format!("[source]\nurl = \"postgres://u@h/d\"\n[[outbox]]\ntable = 3\n{STDOUT}"),
        with("", "[checkpoint]\nstore = \"file\"\npath = 3"),
        with("slot = \"A\"", ""),
        format!("[source]\nurl = \"postgres://u@h/d\"\n[[outbox]]\ntable = \"public.outbox\"\nrouter = 3\n{STDOUT}"),
        with("", "[sink]\ntype = \"Kafka\"\n[sink.kafka]\n\"bootstrap.servers\" = \"h\""),
        with("", "[sink]\ntpye = \"kafka\"\n[sink.kafka]\n\"bootstrap.servers\" = \"h\""),
        with("", "[snk]\ntype = \"stdout\"").replace(STDOUT, ""),
        with("", "[checkpoint]\nstore = \"fiel\"\npath = \"/x\""),
        with("", "[retry]\ninitial_ms = \"soon\"\nmax_ms = 50"),
        format!("[source]\nurl = \"postgres://u@h/d\"\n[outbox]\ntable = \"public.outbox\"\n{STDOUT}"),
        format!("[source]\nurl = \"postgres://u@h/d\"\n[[outbx]]\ntable = \"public.outbox\"\n{STDOUT}"),
        format!("[source]\nurl = \"postgres://u@h/d\"\n[[outbox]]\ntabel = \"public.outbox\"\n{STDOUT}"),
        format!("[sorce]\nurl = \"postgres://u@h/d\"\n[[outbox]]\ntable = \"public.outbox\"\n{STDOUT}"),
        format!("[source]\nulr = \"postgres://u@h/d\"\n[[outbox]]\ntable = \"public.outbox\"\n{STDOUT}"),
    ];
    for text in cases {
        assert_eq!(faults(&text).lines().count(), 1, "{text}{}", faults(&text));
    }
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
    assert!(lines[3].starts_with("/x.toml: sink.type: it is missing"), "{error}");
}

#[test]
fn what_many_write_elsewhere_is_told_its_place() {
    assert_said(&[
        (with("host = \"h\"", ""), "source.host: there is no such key here; it is a part of `url`: write url = "),
        (with("port = 5432", ""), "source.port: there is no such key here; it is a part of `url`"),
        (with("user = \"u\"", ""), "source.user: there is no such key here; it is a part of `url`"),
        (with("database = \"d\"", ""), "source.database: there is no such key here; it is a part of `url`"),
        (
            with("password = \"p\"", ""),
            "source.password: there is no such key here; write a file that holds it in `password_file`",
        ),
        (
            with("", "name = \"orders\""),
            "outbox[0].name: there is no such key here; `name` stands at the top of the file",
        ),
        (
            with("", "[router]\na = \"b\""),
            "router: there is no such key here; write [outbox.router] below its [[outbox]]",
        ),
        (
            with("", "[connect]\na = \"b\""),
            "connect: there is no such key here; write [outbox.connect] below its [[outbox]]",
        ),
        (with("", "[kafka]\na = \"b\""), "kafka: there is no such key here; write [sink.kafka]"),
    ]);
}

#[test]
fn what_is_no_toml_is_told_what_it_may_be_instead() {
    assert_said(&[
        (with("slot = \"a\"\nslot = \"b\"", ""), "4:1: slot: this is not TOML: duplicate key"),
        (
            with("", "[outbox.connect]\nkey.converter = \"a\"\nkey.converter.schemas.enable = false"),
            "write names with dots in quotes",
        ),
        (
            "{\"name\": \"orders\", \"config\": {\n  \"connector.class\": \"x\"}}".to_owned(),
            "this looks like a Debezium connector; run: walpost import debezium FILE > walpost.toml",
        ),
        (
            "name=orders\nconnector.class=io.debezium.connector.postgresql.PostgresConnector\n".to_owned(),
            "this looks like a Debezium connector; run: walpost import debezium FILE > walpost.toml",
        ),
        ("debezium.sink.type=kafka\n".to_owned(), "this looks like a Debezium connector"),
        ("{\"a\": 1}".to_owned(), "this is JSON, and a configuration is TOML"),
    ]);
}

#[test]
fn a_router_with_a_bad_option_is_told_what_is_wrong_with_its_topic_too() {
    let text = with(
        "",
        "[outbox.router]\n\"table.expand.json.payload\" = \"perhaps\"\n\"route.topic.replacement\" = \"x.${nobody}\"",
    );
    let said = faults(&text);
    for key in ["table.expand.json.payload", "route.topic.replacement"] {
        assert!(said.contains(key), "{said}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let kafka = |line: &str| {
        with(
            "",
            &format!(
                "[sink]\ntype = \"kafka\"\n[sink.kafka]\n\"bootstrap.servers\" = \"h\"\n\"security.protocol\" = \"ssl\"\n{line}"
            ),
        )
    };
    assert_said(&[
        (kafka("\"ssl.ca.location\" = \"/ca.pem\""), "11:1: sink.kafka.\"ssl.ca.location\": /ca.pem cannot be read"),
        (kafka("\"ssl.key.location\" = \"/k.pem\""), "sink.kafka.\"ssl.key.location\": /k.pem cannot be read"),
        (with("sslrootcert = \"/ca.pem\"", ""), "3:1: source.sslrootcert: /ca.pem cannot be read"),
        (with("sslcert = \"/c.pem\"\nsslkey = \"/k.pem\"", ""), "source.sslkey: /k.pem cannot be read"),
        (with("sslcert = \"/c.pem\"\nsslkey = \"/k.pem\"", ""), "source.sslcert: /c.pem cannot be read"),
        (with("", "").replace("db/app", "db/app?sslrootcert=/ca.pem"), "2:1: source.url: /ca.pem cannot be read"),
    ]);
    let probed = kafka("\"ssl.ca.location\" = \"probe\"");
    assert!(parse_fake(&probed).is_ok(), "{probed}");
}

#[test]
fn what_the_protocol_makes_void_and_what_is_a_url_is_said_of_kafka() {
    let kafka = |servers: &str, lines: &str| {
        with("", &format!("[sink]\ntype = \"kafka\"\n[sink.kafka]\n\"bootstrap.servers\" = \"{servers}\"\n{lines}"))
    };
    assert_said(&[
        (
            kafka("h", "\"sasl.username\" = \"u\""),
            "sink.kafka.\"sasl.username\": it means nothing while security.protocol is plaintext, which never logs in; set \"security.protocol\" to sasl_ssl",
        ),
        (
            kafka("h", "\"security.protocol\" = \"PLAINTEXT\"\n\"ssl.endpoint.identification.algorithm\" = \"none\""),
            "sink.kafka.\"ssl.endpoint.identification.algorithm\": it means nothing while security.protocol is plaintext",
        ),
        (kafka("http://kafka:9092", ""), "sink.kafka.\"bootstrap.servers\": it is a URL; write host:port"),
        (kafka("h", "\"linger.ms\" = \"soon\""), "sink.kafka.\"linger.ms\": \"soon\" is refused by librdkafka"),
    ]);
}
