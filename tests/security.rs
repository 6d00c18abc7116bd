//! Who is let in, by whom, over what kind of line; and that no secret is told on the way.

mod told;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;

use walpost_testkit::checker::Repeats;
use walpost_testkit::relay::{Ended, toml_string};
use walpost_testkit::servers::{Authentication, Certificates, Kafka, Postgres, Scratch, shared_kafka, shared_postgres};

use crate::rig::{LIMIT, Rig, eventually};

/// What must be written another way in a URL, in SQL, in a password file, or before it is hashed (RFC 4013).
pub(crate) const PASSWORD: &str = r#"pearl /?#@:%& "'\ öª€"#;
/// A part of it that no encoding changes, and that nothing else says.
const TELLTALE: &str = "pearl";

/// What every log has to be kept from, at the level that says most.
const EVERYTHING: &str = r#""trace,tokio_postgres=trace,rustls=trace,pgwire_replication=trace,librdkafka=trace""#;

/// The role that has to show a certificate, and the one that comes by the socket.
const CERTIFIED: &str = "certified";
const BY_SOCKET: &str = "by_socket";

/// Offers TLS, asks for passwords, and listens on an address that its certificate does not name.
pub(crate) fn guarded_postgres() -> &'static Postgres {
    static SERVER: OnceLock<Postgres> = OnceLock::new();
    SERVER.get_or_init(|| {
        let server = Postgres::builder()
            .tls()
            .authentication(Authentication::Scram { password: "superuser".to_owned() })
            .setting("listen_addresses", "127.0.0.1,127.0.0.2")
            .hba(&format!("hostssl all {CERTIFIED} 127.0.0.1/32 cert"))
            .hba(&format!("local all {BY_SOCKET} scram-sha-256"))
            .hba("host all all 127.0.0.2/32 scram-sha-256")
            .start()
            .unwrap();
        let roles = format!("CREATE ROLE {CERTIFIED} SUPERUSER LOGIN; {}", create_role(BY_SOCKET));
        server.psql("postgres", &roles).unwrap();
        server
    })
}

fn create_role(name: &str) -> String {
    format!("CREATE ROLE {name} LOGIN REPLICATION PASSWORD '{}'", PASSWORD.replace('\'', "''"))
}

/// Nothing but what the guide to grants says, for one role.
fn grants(role: &str) -> String {
    format!(
        "GRANT USAGE ON SCHEMA walpost TO {role}; \
         GRANT SELECT, INSERT, UPDATE, DELETE ON walpost.checkpoint, walpost.dead_letter TO {role}"
    )
}

/// A relay on the guarded server that writes to its standard output, and the name of a role of its own, which has
/// [`PASSWORD`] and no more rights than it needs.
pub(crate) fn guarded(label: &str) -> (Rig, String) {
    let mut rig = Rig::ready_on(guarded_postgres().endpoint(), shared_kafka(), label, &["public.outbox"]);
    let role = format!("{}_role", rig.database.name());
    rig.sql(&format!("{}; {}; {}", create_role(&role), grants(&role), grants(BY_SOCKET)));
    rig.configure(|config| config.stdout().set("log", "level", EVERYTHING));
    (rig, role)
}

pub(crate) fn reach(rig: &mut Rig, url: &str) {
    rig.configure(|config| config.set("source", "url", &toml_string(url)));
}

/// A URL without a password.
fn address(rig: &Rig, role: &str, host: &str) -> String {
    let port = rig.database.endpoint().port();
    format!("postgres://{role}@{host}:{port}/{}", rig.database.name())
}

/// Has the relay publish what is committed by now, and end.
#[track_caller]
fn run_to_here(rig: &Rig) -> Ended {
    let here = rig.value("SELECT pg_current_wal_flush_lsn()");
    rig.call(&["run", "--until", &here])
}

/// The relay has to come in and publish a row.
#[track_caller]
fn assert_let_in(rig: &Rig) {
    rig.insert("key", 0, 1);
    let ended = run_to_here(rig);
    ended.assert_success();
    assert_eq!(ended.records().unwrap().len(), 1, "{}", ended.log);
    assert_discreet(&ended);
}

#[track_caller]
fn assert_discreet(ended: &Ended) {
    let Ended { output, log, .. } = ended;
    assert!(!log.contains(TELLTALE) && !output.contains(TELLTALE), "a secret was told:\n{output}\n{log}");
}

/// Every command that talks to PostgreSQL has to end with these words and code 4, and `check`, to which it is a finding, with 5.
#[track_caller]
fn assert_refused(rig: &Rig, words: &[&str]) {
    for (arguments, code) in [(&["run"] as &[_], 4), (&["init"], 4), (&["checkpoint", "show"], 4), (&["check"], 5)] {
        let ended = rig.call(arguments);
        ended.assert_said(code, words);
        assert_discreet(&ended);
    }
}

/// Whether `psql`, and so libpq, gets in.
fn libpq_gets_in(url: &str) -> bool {
    let mut psql = Command::new("psql");
    psql.args(["--no-psqlrc", "--no-password", "--command=SELECT 1", "--dbname", url]);
    psql.env_clear().env("PATH", std::env::var_os("PATH").unwrap_or_default()).env("HOME", "/nonexistent");
    psql.output().unwrap().status.success()
}

#[test]
fn every_sslmode_lets_in_and_refuses_whom_libpq_does() {
    let (mut rig, _) = guarded("sslmode");
    let scratch = Scratch::new("authority").unwrap();
    let wrong = Certificates::make(scratch.path()).unwrap().authority;
    let right = guarded_postgres().certificates().unwrap().authority.clone();
    for mode in ["disable", "prefer", "require", "verify-ca", "verify-full"] {
        for root in [None, Some(&right), Some(&wrong)] {
            for host in ["localhost", "127.0.0.1", "127.0.0.2"] {
                let is_right = root == Some(&right);
                let is_expected = match mode {
                    "disable" | "prefer" => true,
                    "require" => root.is_none() || is_right,
                    "verify-ca" => is_right,
                    _ => is_right && host != "127.0.0.2",
                };
                let root = root.map(|path| format!("&sslrootcert={}", path.display())).unwrap_or_default();
                let url = format!("{}?sslmode={mode}{root}", address(&rig, "postgres:superuser", host));
                assert_eq!(libpq_gets_in(&url), is_expected, "libpq: {url}");
                reach(&mut rig, &url);
                let ended = run_to_here(&rig);
                if is_expected {
                    ended.assert_success();
                } else {
                    ended.assert_said(4, &["TLS", "certificate", "correct sslmode, sslrootcert"]);
                }
            }
        }
    }
}

#[test]
fn a_server_without_tls_is_refused_where_tls_is_asked_for() {
    let mut rig = Rig::ready("plain", &["public.outbox"]);
    let url = rig.database.url();
    for (mode, code) in [("disable", 0), ("prefer", 0), ("require", 4), ("verify-ca", 4), ("verify-full", 4)] {
        let url = format!("{url}?sslmode={mode}");
        assert_eq!(libpq_gets_in(&url), code == 0, "{url}");
        reach(&mut rig, &url);
        run_to_here(&rig).assert_said(code, if code == 0 { &[] } else { &["TLS", "correct sslmode"] });
    }
}

/// Whether each of the relay's sessions is encrypted.
fn encryption(rig: &Rig) -> Vec<String> {
    let rows = rig.sql(&format!(
        "SELECT ssl FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = '{}'",
        rig.database.name()
    ));
    rows.into_iter().flatten().collect()
}

#[test]
fn all_sessions_are_encrypted_or_none_is_as_the_mode_says() {
    let (mut rig, role) = guarded("encrypted");
    for (mode, is_encrypted) in [("prefer", "t"), ("require", "t"), ("disable", "f")] {
        let url = rig.database.endpoint().url_for(&role, Some(PASSWORD), rig.database.name());
        reach(&mut rig, &format!("{url}?sslmode={mode}"));
        let relay = rig.start_streaming();
        eventually("both of its sessions", || encryption(&rig).len() >= 2);
        assert!(encryption(&rig).iter().all(|ssl| ssl == is_encrypted), "{mode}");
        relay.stop(LIMIT).unwrap().assert_success();
    }
}

#[test]
fn a_password_comes_by_the_url_a_file_or_libpqs_variables_and_is_never_told() {
    let (mut rig, role) = guarded("password");
    let bare = address(&rig, &role, "127.0.0.1");
    let folder = rig.walpost.folder().to_owned();
    let private = |name: &str, text: &str| {
        let path = folder.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        path.to_str().unwrap().to_owned()
    };

    let url = rig.database.endpoint().url_for(&role, Some(PASSWORD), rig.database.name());
    reach(&mut rig, &url);
    assert_let_in(&rig);

    reach(&mut rig, &bare);
    assert_refused(&rig, &["password", "source.password_file", "PGPASSWORD"]);

    let escaped = PASSWORD.replace('\\', r"\\").replace(':', r"\:");
    rig.walpost.set_variable("PGPASSFILE", &private("passfile", &format!("*:*:*:{role}:{escaped}\n")));
    assert_let_in(&rig);

    rig.walpost.set_variable("PGPASSFILE", &private("empty", ""));
    let file = private("password", &format!("{PASSWORD}\n"));
    rig.configure(|config| config.set("source", "password_file", &toml_string(&file)));
    assert_let_in(&rig);

    fs::write(&file, "").unwrap();
    rig.call(&["run"]).assert_said(3, &["source.password_file"]);
}

#[test]
fn libpqs_variable_gives_the_password_that_the_url_leaves_out() {
    let (mut rig, role) = guarded("variable");
    let bare = address(&rig, &role, "127.0.0.1");
    reach(&mut rig, &bare);
    rig.walpost.set_variable("PGPASSWORD", PASSWORD);
    assert_let_in(&rig);
}

#[test]
fn a_wrong_password_ends_with_4_and_a_remedy_and_is_not_told() {
    let (mut rig, role) = guarded("wrong");
    let url = rig.database.endpoint().url_for(&role, Some("pearls before swine"), rig.database.name());
    reach(&mut rig, &url);
    assert_refused(&rig, &["password authentication failed", "correct the user and password of source.url"]);
}

#[test]
fn a_role_that_may_not_replicate_is_refused_with_the_statement_that_helps() {
    let (mut rig, role) = guarded("norepl");
    rig.sql(&format!("ALTER ROLE {role} NOREPLICATION"));
    let url = rig.database.endpoint().url_for(&role, Some(PASSWORD), rig.database.name());
    reach(&mut rig, &url);
    rig.call(&["run"]).assert_said(4, &["walpost check"]);
    rig.call(&["check"]).assert_said(5, &[&format!("ALTER ROLE \"{role}\" REPLICATION")]);
}

#[test]
fn a_client_certificate_is_shown_where_the_server_asks_for_one() {
    let (mut rig, _) = guarded("certificate");
    let ours = guarded_postgres().certificates().unwrap();
    let scratch = Scratch::new("strangers").unwrap();
    let strangers = Certificates::make(scratch.path()).unwrap();
    let good = ours.client(CERTIFIED).unwrap();
    let renamed = ours.client("somebody").unwrap();
    let forged = strangers.client(CERTIFIED).unwrap();
    let url = format!("{}?sslmode=verify-full", address(&rig, CERTIFIED, "127.0.0.1"));
    let with = |certificate: &Path, key: &Path| {
        let (root, certificate, key) = (ours.authority.display(), certificate.display(), key.display());
        format!("{url}&sslrootcert={root}&sslcert={certificate}&sslkey={key}")
    };

    let url = with(&good.certificate, &good.key);
    assert!(libpq_gets_in(&url));
    reach(&mut rig, &url);
    assert_let_in(&rig);

    let bare = format!("{}?sslmode=require", address(&rig, CERTIFIED, "127.0.0.1"));
    for (url, words) in [
        (bare, &["certificate"] as &[_]),
        (with(&renamed.certificate, &renamed.key), &["certified", "source.url"]),
        (with(&forged.certificate, &forged.key), &["correct sslmode, sslrootcert, sslcert and sslkey"]),
        (with(&good.certificate, &renamed.key), &["sslcert and sslkey do not fit"]),
        (with(&good.key, &good.certificate), &["holds no certificate", "client-certified.key"]),
    ] {
        assert!(!libpq_gets_in(&url), "{url}");
        reach(&mut rig, &url);
        assert_refused(&rig, words);
    }
}

#[test]
fn a_socket_is_a_way_in_whatever_is_said_about_tls() {
    let (mut rig, _) = guarded("socket");
    let (server, name) = (rig.database.endpoint(), rig.database.name());
    let (folder, port) = (rig.value("SHOW unix_socket_directories"), server.port());
    let by_address = server.url_for(BY_SOCKET, Some(PASSWORD), name);
    let (credentials, _) = by_address.rsplit_once('@').unwrap();
    let as_host = format!("{credentials}@{}:{port}/{name}", folder.replace('/', "%2F"));
    let as_parameter = format!("{credentials}@/{name}?host={folder}&port={port}");
    for url in [format!("{as_host}?sslmode=verify-full"), as_host, as_parameter] {
        assert!(libpq_gets_in(&url), "{url}");
        reach(&mut rig, &url);
        assert_let_in(&rig);
    }
}

#[test]
fn neither_secrets_nor_payloads_are_logged_at_any_level() {
    let (mut rig, role) = guarded("discreet");
    let url = rig.database.endpoint().url_for(&role, Some(PASSWORD), rig.database.name());
    reach(&mut rig, &url);
    for format in [r#""text""#, r#""json""#] {
        rig.configure(|config| config.set("log", "format", format));
        let relay = rig.start_streaming();
        rig.sql(
            "INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) \
             VALUES (gen_random_uuid(), 'order', 'ruby', 'Changed', '{\"stone\": \"opal\"}')",
        );
        relay.wait_for_output(1, LIMIT).unwrap();
        // Trouble is when most is said.
        rig.sql(&format!("SELECT pg_terminate_backend({})", rig.walsender().unwrap()));
        relay.wait_for_log("trying again", LIMIT).unwrap();
        let ended = relay.stop(LIMIT).unwrap();
        ended.assert_success();
        assert!(ended.output.contains("opal") && ended.output.contains("ruby"), "{}", ended.output);
        assert!(!ended.log.contains("opal") && !ended.log.contains("ruby"), "a payload was told:\n{}", ended.log);
        assert_discreet(&ended);
    }
    let faulty = url.replace(rig.database.name(), "x?sslmod=require&password=pearl%zz");
    reach(&mut rig, &faulty);
    let ended = rig.call(&["config", "check"]);
    ended.assert_said(3, &["source.url"]);
    assert_discreet(&ended);
}

/// Offers SASL over TLS to one user, who may do everything, and to those that a test makes, who may do what they are allowed to. Whoever comes by
/// SCRAM-SHA-512 has to show the password again every few seconds.
pub(crate) fn guarded_kafka() -> &'static Kafka {
    static BROKER: OnceLock<Kafka> = OnceLock::new();
    BROKER.get_or_init(|| {
        Kafka::builder()
            .scram("walpost", "pearl-of-kafka")
            .property("authorizer.class.name", "org.apache.kafka.metadata.authorizer.StandardAuthorizer")
            .property("super.users", "User:ANONYMOUS;User:walpost")
            .property("listener.name.sasl.scram-sha-512.connections.max.reauth.ms", "3000")
            .start()
            .unwrap()
    })
}

/// A relay that comes to the guarded broker by SASL over TLS.
fn by_sasl(label: &str, mechanism: &str, password: &str) -> Rig {
    let mut rig = Rig::ready_on(shared_postgres(), guarded_kafka().endpoint(), label, &["public.outbox"]);
    log_in(&mut rig, "walpost", mechanism, password);
    rig.configure(|config| config.set("sink.kafka", "debug", r#""all""#).set("log", "level", EVERYTHING));
    rig
}

/// Has the relay come to the guarded broker by SASL over TLS.
pub(crate) fn log_in(rig: &mut Rig, user: &str, mechanism: &str, password: &str) {
    let kafka = guarded_kafka();
    let authority = kafka.certificates().unwrap().authority.display().to_string();
    rig.configure(|config| {
        let properties = [
            ("bootstrap.servers", kafka.sasl_bootstrap().unwrap()),
            ("security.protocol", "SASL_SSL"),
            ("sasl.mechanism", mechanism),
            ("sasl.username", user),
            ("sasl.password", password),
            ("ssl.ca.location", &authority),
        ];
        properties.into_iter().fold(config, |config, (name, value)| config.set("sink.kafka", name, &toml_string(value)))
    });
}

#[test]
fn events_arrive_by_sasl_over_tls_with_either_kind_of_scram() {
    for (label, mechanism) in [("scram256", "SCRAM-SHA-256"), ("scram512", "SCRAM-SHA-512")] {
        let rig = by_sasl(label, mechanism, "pearl-of-kafka");
        let relay = rig.start_streaming();
        rig.insert("key", 0, 100);
        rig.assert_delivered(Repeats::Forbidden);
        rig.call(&["check"]).assert_said(0, &["answers, of the cluster"]);
        let ended = relay.stop(LIMIT).unwrap();
        ended.assert_success();
        assert_discreet(&ended);
    }
}

/// The broker does not let the relay in, and it has to say so and end, with rows to publish or without.
#[track_caller]
fn assert_kept_out(rig: &Rig, words: &[&str]) {
    for rows in [0, 10] {
        rig.insert("key", 0, rows);
        let ended = rig.start().wait(LIMIT).unwrap();
        ended.assert_said(6, words);
        assert_discreet(&ended);
    }
    let ended = rig.call(&["check"]);
    ended.assert_said(5, words);
    assert_discreet(&ended);
}

#[test]
fn a_wrong_password_for_kafka_ends_with_6_and_a_sentence_and_is_not_told() {
    let rig = by_sasl("kafka_password", "SCRAM-SHA-512", "pearls before swine");
    assert_kept_out(&rig, &["no broker lets walpost in", "correct security.protocol, sasl.* or ssl.* of the sink"]);
}

#[test]
fn a_broker_with_a_certificate_of_another_authority_ends_with_6() {
    let mut rig = by_sasl("kafka_authority", "SCRAM-SHA-256", "pearl-of-kafka");
    let scratch = Scratch::new("authority").unwrap();
    let wrong = Certificates::make(scratch.path()).unwrap().authority.display().to_string();
    rig.configure(|config| config.set("sink.kafka", "ssl.ca.location", &toml_string(&wrong)));
    assert_kept_out(&rig, &["no broker lets walpost in", "certificate", "ssl.* of the sink"]);
}

#[test]
fn a_broker_that_wants_tls_and_gets_none_is_named_and_waited_for() {
    let mut rig = by_sasl("kafka_plain", "SCRAM-SHA-256", "pearl-of-kafka");
    rig.configure(|config| config.set("sink.kafka", "security.protocol", r#""SASL_PLAINTEXT""#));
    let relay = rig.start();
    relay.wait_for_log("Kafka is away", LIMIT).unwrap();
    assert!(relay.is_running());
    let ended = relay.stop(LIMIT).unwrap();
    ended.assert_success();
    assert_discreet(&ended);
}
